//! `/o/{org}/settings/prompt-providers/{id}`: a system that keeps prompts, what it has now, and
//! importing from it.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::confirm::Confirm;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::Registry;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::texts::choices;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/prompt-providers/new")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/settings/prompt-providers/{id}")
        .get(|visit| Box::pin(show(visit, None, None)))
        .post(|visit| Box::pin(import(visit))),
    Page::of_org("/o/{org}/settings/prompt-providers/{id}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
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
    registries: Vec<(String, String)>,
    outcome: Option<Outcome>,
    may_write: bool,
    /// Where this page of the list begins.
    cursor: Option<String>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "new_prompt_provider.html")]
struct NewProvider {
    frame: Frame,
    kinds: Vec<(&'static str, &'static str)>,
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

#[derive(Deserialize)]
struct Created {
    id: String,
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
    let registries: Vec<Registry> = visit.api.items("/registries", &[]).await?;
    let page = ProviderPage {
        frame: crumbs(visit, visit.frame(&provider.name)).failed(error.as_ref()),
        base: visit.in_org(""),
        provider,
        prompts,
        refusal,
        registries: registries.into_iter().map(|one| (one.slug, one.name)).collect(),
        outcome,
        may_write: visit.may(Method::Delete, "/prompt-providers/id"),
        cursor: visit.query.some("cursor").map(str::to_string),
        next,
    };
    render(page.frame.status, &page)
}

async fn import(visit: &Visit) -> Result<Reply> {
    let field = if visit.form.some("all").is_some() { "listed" } else { "prompt" };
    let chosen = visit.form.pairs().filter(|(name, _)| *name == field);
    let prompts: Vec<_> = chosen.map(|(_, prompt)| json!({"name": prompt})).collect();
    let registry = visit.form.get("registryRef");
    let body = json!({"registryRef": registry, "prompts": prompts});
    match visit.api.post::<Outcome>(&format!("{}/import", api_path(visit)), body).await {
        Ok(outcome) => {
            let outcome = Outcome { registry: registry.into(), ..outcome };
            show(visit, None, Some(outcome)).await
        }
        Err(error) => show(visit, visit.failed(error)?, None).await,
    }
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/prompt-providers")?;
    let frame = crumbs(visit, visit.frame("New provider of prompts")).failed(error);
    let frame = frame
        .rename("credentials.publicKey", "publicKey")
        .rename("credentials.secretKey", "secretKey")
        .rename("credentials.apiKey", "apiKey")
        .rename("credentials", "apiKey");
    render(frame.status, &NewProvider { frame, kinds: choices("prompts") })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let of = |name| visit.form.get(name);
    let mut body = json!({"name": of("name"), "kind": of("kind"), "baseUrl": of("baseUrl").trim()});
    if let Some(public) = visit.form.some("publicKey") {
        body["credentials"] = json!({"publicKey": public, "secretKey": of("secretKey")});
    } else if let Some(key) = visit.form.some("apiKey") {
        body["credentials"] = json!({"apiKey": key});
    }
    match visit.api.post::<Created>("/prompt-providers", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/settings/prompt-providers/{}", segment(&made.id)));
            Ok(visit.done(&path, Flash::ProviderCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Delete, "/prompt-providers/id")?;
    let provider: Provider = visit.api.get(&api_path(visit), &[]).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Delete {}?", provider.name))),
        consequences: "Its credentials go with it. What was imported from it stays.".into(),
        label: format!("Delete {}", provider.name),
        back: visit.path.trim_end_matches("/delete").into(),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    match visit.api.delete(&api_path(visit), &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/settings/providers"), Flash::ProviderDeleted)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
