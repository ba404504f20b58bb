//! `/o/{org}/prompts/{registry}/{name}/inputs`: what versions of a prompt are tried on; adding an input,
//! changing and deleting one.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{People, Place};
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/inputs").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/prompts/{registry}/{name}/new-input").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/prompts/{registry}/{name}/inputs/{input}/edit")
        .form(|visit| Box::pin(change(visit))),
    Page::of_org("/o/{org}/prompts/{registry}/{name}/inputs/delete")
        .post(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "inputs.html")]
struct Inputs {
    frame: Frame,
    place: Place,
    inputs: Vec<Input>,
    people: People,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    name: String,
    variables: BTreeMap<String, String>,
    message: Nullable<String>,
    expect: Expectation,
    updated_by: String,
    updated_at: Time,
}

#[derive(Deserialize)]
struct Expectation {
    contains: Vec<String>,
    judge: Nullable<String>,
}

/// The fields that a link to a new input may fill.
const KEPT: [&str; 2] = ["variables", "message"];

/// The longest link; what is longer is entered by hand.
pub const MAX_LINK: usize = 4000;

/// The page of a new input that is filled with what was tried; `None` if the link would be too long.
pub fn keep(place: &Place, variables: &Map<String, Value>, message: &str) -> Option<String> {
    let variables = serde_json::to_string_pretty(variables).ok()?;
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(KEPT.into_iter().zip([variables.as_str(), message]))
        .finish();
    (query.len() <= MAX_LINK).then(|| format!("{}/new-input?{query}", place.path))
}

/// The path of the API's list of a prompt's inputs.
fn api_path(place: &Place) -> String {
    format!("/prompts/{}/inputs", segment(&place.name))
}

fn list_path(place: &Place) -> String {
    format!("{}/inputs", place.path)
}

async fn list(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let of = [("registryRef", place.registry.as_str())];
    let inputs = visit.api.items(&api_path(&place), &of).await?;
    let frame = visit.frame(&format!("Inputs of {}", place.name));
    let people = People::read(&visit.api).await?;
    let page = Inputs { frame: place.crumbs(visit, frame), inputs, people, place };
    render(page.frame.status, &page)
}

/// The fields of an input beside its name.
fn fields() -> Vec<Field> {
    vec![
        Field::area("variables", "Variables", 5)
            .object()
            .optional()
            .hint("A JSON object, with a text for each variable: {\"PRODUCT\": \"Roadstead\"}."),
        Field::area("message", "First message", 4).optional().hint(
            "What the person says. Without one, the prompt itself is what the model is asked.",
        ),
        Field::area("contains", "A good answer contains", 3)
            .lines()
            .at("expect.contains")
            .optional()
            .hint("Texts, one on each line. Case matters."),
        Field::area("judge", "A question about the answer", 2)
            .at("expect.judge")
            .optional()
            .hint("A language model is asked it. A good answer has the answer yes."),
    ]
}

/// Adds the registry to what is sent.
fn in_registry(visit: &Visit, _: &Value, body: &mut Value) {
    body["registryRef"] = json!(Place::of(visit).registry);
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let place = Place::of(visit);
    // Who may not use the registry is told that, and not what else is wrong.
    visit.api.get::<Value>(&format!("/registries/{}", segment(visit.param(1))), &[]).await?;
    let name = Field::text("name", "Name").hint("Words of a-z and 0-9, joined by hyphens.");
    let mut fields: Vec<Field> = std::iter::once(name).chain(fields()).collect();
    // What was tried, from the page where it was.
    for field in fields.iter_mut().filter(|field| KEPT.contains(&field.name)) {
        field.value = visit.query.get(field.name).to_string();
    }
    let form = Form::create(&api_path(&place), fields, "Add")
        .refined(in_registry)
        .done(list_path(&place), Flash::InputSaved)
        .back(list_path(&place));
    let frame = place.crumbs(visit, visit.frame("New input"));
    Ok(form.page(frame.crumb("Inputs", list_path(&place))))
}

async fn change(visit: &Visit) -> Result<FormPage> {
    let place = Place::of(visit);
    let (name, list) = (visit.param(3), list_path(&place));
    let path = format!("{}/{}", api_path(&place), segment(name));
    let of = [("registryRef", place.registry.as_str())];
    let stored: Value = visit.api.get(&path, &of).await?;
    let form = Form::change_known(&path, stored, fields())?
        .refined(in_registry)
        .done(list.clone(), Flash::InputSaved)
        .back(list.clone());
    let frame = place.crumbs(visit, visit.frame(&format!("The input {name}")));
    Ok(form.page(frame.crumb("Inputs", list)))
}

async fn delete(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let path = format!("{}/{}", api_path(&place), segment(visit.form.get("input")));
    let of = [("registryRef", place.registry.as_str())];
    visit.api.delete(&path, &of).await?;
    Ok(visit.done(&list_path(&place), Flash::InputDeleted))
}
