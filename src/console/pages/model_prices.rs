//! `/o/{org}/settings/model-prices`: what models cost; setting a price, changing and deleting it.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;

use crate::api::Method;
use crate::base::{Error, Kind, Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::tabs;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org(LIST).get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/settings/new-model-price")
        .get(|visit| Box::pin(new(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/settings/model-prices/{model}").form(|visit| Box::pin(change(visit))),
    Page::of_org("/o/{org}/settings/model-prices/{model}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

const LIST: &str = "/o/{org}/settings/model-prices";

#[derive(Template)]
#[template(path = "model_prices.html")]
struct Prices {
    frame: Frame,
    base: String,
    prices: List<Price>,
    may_write: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Price {
    model: String,
    input_usd: f64,
    output_usd: f64,
    cached_usd: Nullable<f64>,
    updated_at: Time,
}

impl Price {
    /// The prices of input, of input from a cache, and of output.
    fn amounts(&self) -> [String; 3] {
        let cached = self.cached_usd.unwrap_or(self.input_usd);
        [self.input_usd, cached, self.output_usd].map(|usd| format!("${usd}"))
    }
}

#[derive(Template)]
#[template(path = "new_model_price.html")]
struct NewPrice {
    frame: Frame,
    form: Form,
}

fn list_path(visit: &Visit) -> String {
    visit.in_org("/settings/model-prices")
}

fn api_path(model: &str) -> String {
    format!("/model-prices/{}", segment(model))
}

fn may_write(visit: &Visit) -> bool {
    visit.may(Method::Put, &api_path("model"))
}

async fn list(visit: &Visit) -> Result<Reply> {
    let page = Prices {
        frame: visit.frame("Prices of models").tabs(&tabs(visit)),
        base: visit.in_org("/settings"),
        prices: visit.api.get("/model-prices", visit.cursor().as_slice()).await?,
        may_write: may_write(visit),
    };
    render(page.frame.status, &page)
}

fn fields() -> [Field; 3] {
    let cached = "Those that came from a cache. Empty if they cost as others.";
    [
        Field::text("inputUsd", "US dollars for a million input tokens").number(),
        Field::text("outputUsd", "US dollars for a million output tokens").number(),
        Field::text("cachedUsd", "US dollars for a million cached input tokens")
            .number()
            .optional()
            .hint(cached),
    ]
}

fn new_form(visit: &Visit) -> Form {
    let hint = "Its name as runs report it, letter by letter, such as gpt-5 or openai/gpt-5.";
    let mut all = vec![Field::text("model", "Model").hint(hint)];
    all.extend(fields());
    Form::create("/model-prices", all, "Set price").back(list_path(visit))
}

async fn new(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Put, &api_path("model"))?;
    let mut form = new_form(visit);
    let frame = visit.frame("New price").crumb("Prices of models", list_path(visit));
    let frame = form.ready(frame.failed(error.as_ref()), visit, error.as_ref());
    let page = NewPrice { frame, form };
    render(page.frame.status, &page)
}

/// Sets the price of a model that has none. One that has is changed where it is shown.
async fn create(visit: &Visit) -> Result<Reply> {
    match set(visit).await {
        Ok(()) => Ok(visit.done(&list_path(visit), Flash::PriceSet)),
        Err(error) => new(visit, visit.failed(error)?).await,
    }
}

async fn set(visit: &Visit) -> Result<()> {
    let missing = || Error::invalid_at("model", "must not be empty");
    let model = visit.form.some("model").ok_or_else(missing)?;
    match visit.api.get::<Price>(&api_path(model), &[]).await {
        Err(error) if error.kind() == Kind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(Error::invalid_at("model", "has a price, which can be changed")),
    }
    let mut body = new_form(visit).body(visit);
    if let Some(body) = body.as_object_mut() {
        body.remove("model");
    }
    visit.api.put::<Value>(&api_path(model), body).await.map(drop)
}

async fn change(visit: &Visit) -> Result<FormPage> {
    let model = visit.param(1);
    let form = Form::replace(visit, &api_path(model), fields().into()).await?;
    let frame = visit.frame(&format!("The price of {model}"));
    Ok(form
        .done(list_path(visit), Flash::PriceSet)
        .page(frame.crumb("Prices of models", list_path(visit)))
        .lead("Runs that are reported from now on cost by it; what earlier ones cost stays."))
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let model = visit.param(1);
    let form = Form::delete(visit, &api_path(model)).await?;
    let frame = visit.frame(&format!("Delete the price of {model}?"));
    Ok(form
        .back(list_path(visit))
        .done(list_path(visit), Flash::PriceDeleted)
        .page(frame.crumb("Prices of models", list_path(visit)))
        .lead("What runs cost that were reported stays. Later ones have no cost unless they report it."))
}
