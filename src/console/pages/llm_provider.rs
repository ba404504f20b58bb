//! `/o/{org}/settings/llm-providers/{id}`: a connection to language models; creating, testing and
//! deleting one.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::texts::choices;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/llm-providers/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/settings/llm-providers/{id}")
        .get(|visit| Box::pin(show(visit, None, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/settings/llm-providers/{id}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "llm_provider.html")]
struct ProviderPage {
    frame: Frame,
    provider: Provider,
    config: String,
    form: Form,
    may_write: bool,
    test: Option<(bool, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    name: String,
    provider: String,
    base_url: Nullable<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    ok: bool,
    latency_ms: u64,
    message: String,
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Providers", visit.in_org("/settings/providers"))
}

fn api_path(visit: &Visit) -> String {
    format!("/llm-providers/{}", segment(visit.param(1)))
}

fn fields() -> Vec<Field> {
    vec![
        Field::text("name", "Name"),
        Field::text("baseUrl", "Address").optional().hint("Empty for the provider's own."),
        Field::area("config", "Configuration", 4).object().optional().hint(
            "A JSON object. The model that is asked is in it: {\"model\": \"name\"}. Ollama needs one; \
             without one, vendors are asked for a small model, and other servers choose.",
        ),
        Field::check("isDefault", "Used where no other is named"),
    ]
}

async fn settings(visit: &Visit) -> Result<Form> {
    let mut fields = fields();
    let hint = "Left empty, the key stays as it is; with another address it has to be entered.";
    fields.insert(1, Field::secret("apiKey", "New API key").hint(hint));
    let form = Form::change(visit, &api_path(visit), fields).await?;
    Ok(form.action("save").done(visit.path.as_str(), Flash::ProviderSaved))
}

async fn show(visit: &Visit, error: Option<Error>, test: Option<Test>) -> Result<Reply> {
    let mut form = settings(visit).await?;
    let provider: Provider = form.stored()?;
    let frame = crumbs(visit, visit.frame(&provider.name)).failed(error.as_ref());
    let frame = form.ready(frame, visit, error.as_ref());
    let page = ProviderPage {
        frame,
        config: form.known("config"),
        form,
        may_write: visit.may(Method::Patch, "/llm-providers/id"),
        test: test.map(|test| {
            (test.ok, format!("{} It took {} ms.", sentence(&test.message), test.latency_ms))
        }),
        provider,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    match visit.form.get("action") {
        "save" => match settings(visit).await?.send(visit).await {
            Err(error) => show(visit, visit.failed(error)?, None).await,
            done => done,
        },
        "test" => {
            let path = format!("{}/test", api_path(visit));
            match visit.api.post::<Test>(&path, json!({})).await {
                Ok(test) => show(visit, None, Some(test)).await,
                Err(error) => show(visit, visit.failed(error)?, None).await,
            }
        }
        _ => show(visit, None, None).await,
    }
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let mut fields = fields();
    let hint = "It is kept encrypted and never shown again.";
    let provider = Field::select("provider", "Provider", choices("llm"));
    fields.splice(1..1, [provider, Field::secret("apiKey", "API key").hint(hint)]);
    Ok(Form::create("/llm-providers", fields, "Create provider")
        .done(visit.in_org("/settings/llm-providers/{id}"), Flash::ProviderCreated)
        .page(crumbs(visit, visit.frame("New provider of language models"))))
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let frame = visit.frame(&format!("Delete {}?", form.known("name")));
    let form = form.done(visit.in_org("/settings/providers"), Flash::ProviderDeleted);
    let lead = "Its key goes with it. A provider that a policy uses is not deleted.";
    Ok(form.page(crumbs(visit, frame)).lead(lead))
}
