//! `/o/{org}/settings/prompt-providers/{id}`: a system that keeps prompts, what it has now, and
//! importing from it.

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
use crate::console::place;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::texts::choices;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/prompt-providers/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/settings/prompt-providers/{id}")
        .get(|visit| Box::pin(show(visit, None, None)))
        .post(|visit| Box::pin(import(visit))),
    Page::of_org("/o/{org}/settings/prompt-providers/{id}/edit")
        .form(|visit| Box::pin(edit(visit))),
    Page::of_org("/o/{org}/settings/prompt-providers/{id}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "prompt_provider.html")]
struct ProviderPage {
    frame: Frame,
    base: String,
    provider: Provider,
    prompts: Vec<Prompt>,
    /// Why its prompts cannot be shown; empty if they can.
    refusal: String,
    registry: Field,
    outcome: Option<Outcome>,
    may_write: bool,
    /// Where this page of the list begins.
    cursor: Option<String>,
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    name: String,
    kind: String,
    base_url: String,
}

#[derive(Deserialize)]
struct Prompt {
    name: String,
    version: String,
    labels: Vec<String>,
}

impl ProviderPage {
    /// Whether a prompt was ticked in a form that was refused.
    fn is_ticked(&self, prompt: &Prompt) -> bool {
        let mut ticked = self.frame.form.all("prompt");
        self.frame.problems.any() && ticked.any(|name| name == prompt.name)
    }
}

/// What came of an import.
#[derive(Deserialize)]
struct Outcome {
    imported: Vec<Imported>,
    failed: Vec<Failed>,
    #[serde(skip)]
    registry: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Imported {
    name: String,
    artifact_name: String,
    version: String,
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct Failed {
    name: String,
    message: String,
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Providers", visit.in_org("/settings/providers"))
}

fn api_path(visit: &Visit) -> String {
    format!("/prompt-providers/{}", segment(visit.param(1)))
}

async fn show(visit: &Visit, error: Option<Error>, outcome: Option<Outcome>) -> Result<Reply> {
    let provider: Provider = visit.api.get(&api_path(visit), &[]).await?;
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().chain([("paged", "true")]).collect();
    let path = format!("{}/prompts", api_path(visit));
    let (prompts, next, refusal) = match visit.api.get::<List<Prompt>>(&path, &query).await {
        Ok(list) => (list.items, list.next_cursor.0, String::new()),
        Err(error) => {
            let why = visit.failed(error)?;
            (vec![], None, why.map_or_else(String::new, |error| sentence(error.message())))
        }
    };
    let registry = place::registry(visit, "Into").await?;
    let frame = crumbs(visit, visit.frame(&provider.name)).failed(error.as_ref());
    let page = ProviderPage {
        frame: frame.picking(visit, &[&registry]).await?,
        base: visit.in_org(""),
        provider,
        prompts,
        refusal,
        registry,
        outcome,
        may_write: visit.may(Method::Delete, "/prompt-providers/id"),
        cursor: visit.query.some("cursor").map(str::to_string),
        next,
    };
    render(page.frame.status, &page)
}

async fn import(visit: &Visit) -> Result<Reply> {
    let field = if visit.form.some("all").is_some() { "listed" } else { "prompt" };
    let prompts: Vec<_> = visit.form.all(field).map(|prompt| json!({"name": prompt})).collect();
    let registry = visit.form.get("registryRef");
    let body = json!({"registryRef": registry, "prompts": prompts});
    match visit.api.post::<Outcome>(&format!("{}/import", api_path(visit)), body).await {
        Ok(outcome) => {
            // The pages of a registry are below its slug.
            let slug = registry.rsplit('/').next().unwrap_or_default();
            let outcome = Outcome { registry: slug.into(), ..outcome };
            show(visit, None, Some(outcome)).await
        }
        Err(error) => show(visit, visit.failed(error)?, None).await,
    }
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let fields = vec![
        Field::text("name", "Name"),
        Field::select("kind", "System", choices("prompts")).preset("langfuse"),
        Field::text("baseUrl", "Address").kind("url"),
        Field::text("publicKey", "Public key")
            .at("credentials.publicKey")
            .optional()
            .hint("Of Langfuse."),
        Field::secret("secretKey", "Secret key").at("credentials.secretKey").hint("Of Langfuse."),
        Field::secret("apiKey", "API key")
            .at("credentials.apiKey")
            .also("credentials")
            .hint("Of the others, where they need one."),
    ];
    Ok(Form::create("/prompt-providers", fields, "Create provider")
        .done(visit.in_org("/settings/prompt-providers/{id}"), Flash::ProviderCreated)
        .page(crumbs(visit, visit.frame("New provider of prompts"))))
}

async fn edit(visit: &Visit) -> Result<FormPage> {
    let stored: Provider = visit.api.get(&api_path(visit), &[]).await?;
    let mut fields =
        vec![Field::text("name", "Name"), Field::text("baseUrl", "Address").kind("url")];
    let keep = "Left empty, it stays as it is; with another address it has to be entered.";
    if stored.kind == "langfuse" {
        let both = "Both are entered, or none: left empty, they stay as they are. With another address they \
                    have to be entered.";
        let public = Field::secret("publicKey", "New public key").at("credentials.publicKey");
        let secret = Field::secret("secretKey", "New secret key").at("credentials.secretKey");
        fields.extend([public.also("credentials").hint(both), secret]);
    } else {
        let key = Field::secret("apiKey", "New API key").at("credentials.apiKey");
        fields.push(key.also("credentials").hint(keep));
    }
    let form = Form::change(visit, &api_path(visit), fields).await?;
    let frame = crumbs(visit, visit.frame(&format!("Change {}", stored.name)));
    let form = form.done(visit.above(), Flash::ProviderSaved);
    Ok(form.page(frame.crumb(stored.name, visit.above())))
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let frame = visit.frame(&format!("Delete {}?", form.known("name")));
    let form = form.done(visit.in_org("/settings/providers"), Flash::ProviderDeleted);
    let lead = "Its credentials go with it. What was imported from it stays.";
    Ok(form.page(crumbs(visit, frame)).lead(lead))
}
