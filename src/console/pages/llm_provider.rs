//! `/o/{org}/settings/llm-providers/{id}`: a connection to language models; creating, testing and
//! deleting one.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::confirm::Confirm;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::conflict::{self, Edited};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::texts::choices;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/llm-providers/new")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/settings/llm-providers/{id}")
        .get(|visit| Box::pin(show(visit, None, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/settings/llm-providers/{id}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "llm_provider.html")]
struct ProviderPage {
    frame: Frame,
    provider: Provider,
    config: String,
    may_write: bool,
    test: Option<(bool, String)>,
}

#[derive(Template)]
#[template(path = "new_llm_provider.html")]
struct NewProvider {
    frame: Frame,
    kinds: Vec<(&'static str, &'static str)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    name: String,
    provider: String,
    base_url: Nullable<String>,
    config: Map<String, Value>,
    is_default: bool,
}

/// What a conflict says of what was entered.
const KEY_IS_MISSING: &str = "It was saved since, by somebody else or in another window. What you \
                              entered is in the form below, but for a key, and was not saved. Look at \
                              it, enter a key again, and save.";

#[derive(Deserialize)]
struct Created {
    id: String,
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

impl Provider {
    /// Its configuration, for people; empty if it has none.
    fn config(&self) -> String {
        if self.config.is_empty() {
            return String::new();
        }
        serde_json::to_string_pretty(&self.config).unwrap_or_default()
    }
}

/// What the form edits. A key that somebody else has set is not shown, and stays if none is entered.
fn edited(visit: &Visit, provider: &Provider) -> Vec<Edited> {
    let default = |is_default: bool| if is_default { "Yes" } else { "No" };
    let sent = visit.form.sent("isDefault").is_some();
    vec![
        Edited::text(visit, "name", "Name", &provider.name),
        Edited::text(
            visit,
            "baseUrl",
            "Address",
            provider.base_url.0.as_deref().unwrap_or_default(),
        ),
        Edited::text(visit, "config", "Configuration", &provider.config()),
        Edited::new("Used where no other is named", default(provider.is_default), default(sent)),
    ]
}

async fn show(visit: &Visit, error: Option<Error>, test: Option<Test>) -> Result<Reply> {
    let provider: Provider = visit.api.get(&api_path(visit), &[]).await?;
    let (error, edited) = (error.as_ref(), edited(visit, &provider));
    let is_sent = visit.form.get("action") == "save";
    let frame = crumbs(visit, visit.frame(&provider.name)).failed(error);
    let mut frame = frame.against(error, &edited, "save", "save");
    frame.was = conflict::was(visit, error, &edited, is_sent);
    if let Some(conflict) = &mut frame.conflict {
        // A secret is not shown again: with one press the provider would lose its key.
        conflict.text = KEY_IS_MISSING;
        conflict.button.2.clear();
    }
    let page = ProviderPage {
        frame,
        config: provider.config(),
        may_write: visit.may(Method::Patch, "/llm-providers/id"),
        test: test.map(|test| {
            (test.ok, format!("{} It took {} ms.", sentence(&test.message), test.latency_ms))
        }),
        provider,
    };
    render(page.frame.status, &page)
}

/// The fields of the form. Those that are left empty are absent of a new provider, and cleared of a
/// known one; its key stays.
fn body(visit: &Visit, is_new: bool) -> Value {
    let mut body = json!({
        "name": visit.form.get("name"), "isDefault": visit.form.sent("isDefault").is_some(),
    });
    if let Some(key) = visit.form.some("apiKey") {
        body["apiKey"] = json!(key);
    }
    match visit.form.some("baseUrl") {
        Some(url) => body["baseUrl"] = json!(url),
        None if is_new => {}
        None => body["baseUrl"] = Value::Null,
    }
    match visit.form.some("config") {
        // What is no JSON is for the API to refuse.
        Some(text) => body["config"] = serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        None if is_new => {}
        None => body["config"] = json!({}),
    }
    body
}

async fn act(visit: &Visit) -> Result<Reply> {
    match visit.form.get("action") {
        "save" => {
            let body = body(visit, false);
            match visit.save(&api_path(visit), body, |stored| edited(visit, stored)).await {
                Ok(_) => Ok(visit.done(&visit.path, Flash::ProviderSaved)),
                Err(error) => show(visit, visit.failed(error)?, None).await,
            }
        }
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

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/llm-providers")?;
    let frame = crumbs(visit, visit.frame("New provider of language models")).failed(error);
    render(frame.status, &NewProvider { frame, kinds: choices("llm") })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let mut body = body(visit, true);
    body["provider"] = json!(visit.form.get("provider"));
    match visit.api.post::<Created>("/llm-providers", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/settings/llm-providers/{}", segment(&made.id)));
            Ok(visit.done(&path, Flash::ProviderCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Delete, "/llm-providers/id")?;
    let provider: Provider = visit.api.get(&api_path(visit), &[]).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Delete {}?", provider.name))),
        consequences: "Its key goes with it. A provider that a policy uses is not deleted.".into(),
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
