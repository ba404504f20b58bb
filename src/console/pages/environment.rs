//! `/o/{org}/environments/{id}`: the variables of an environment, the names of its secrets, and its
//! credentials for providers. Values of secrets are never shown.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::environments::{Environment, api_path, crumbs};
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/environments/{id}")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

#[derive(Template)]
#[template(path = "environment.html")]
struct EnvironmentPage {
    frame: Frame,
    environment: Environment,
    variables: Vec<Variable>,
    secrets: Vec<Secret>,
    credentials: Vec<Credential>,
    members: Vec<Member>,
    may_write: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable {
    name: String,
    value: String,
    updated_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    name: String,
    updated_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credential {
    name: String,
    endpoint: Nullable<String>,
    updated_at: Time,
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let path = api_path(visit);
    let environment: Environment = visit.api.get(&path, &[]).await?;
    let frame = crumbs(visit, visit.frame(&environment.name)).failed(error.as_ref());
    let frame = match visit.form.get("action") {
        "variable" => frame.rename("name", "variable").rename("value", "variableValue"),
        "secret" => frame.rename("name", "secretName").rename("value", "secretValue"),
        _ => frame.rename("name", "credential"),
    };
    let page = EnvironmentPage {
        frame: frame.live(),
        variables: visit.api.items(&format!("{path}/variables"), &[]).await?,
        secrets: visit.api.items(&format!("{path}/secrets"), &[]).await?,
        credentials: visit.api.items(&format!("{path}/provider-credentials"), &[]).await?,
        members: roster::members(&visit.api).await?,
        may_write: visit.may(Method::Put, "/environments/id/variables/name"),
        environment,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let (outcome, flash) = match visit.form.get("action") {
        "variable" => {
            let body = json!({"value": visit.form.get("variableValue")});
            (set(visit, "variables", "variable", body).await, Flash::VariableSet)
        }
        "secret" => {
            let body = json!({"value": visit.form.get("secretValue")});
            (set(visit, "secrets", "secretName", body).await, Flash::SecretSet)
        }
        "credential" => {
            let body = credential(visit);
            (set(visit, "provider-credentials", "credential", body).await, Flash::CredentialSet)
        }
        "remove-variable" => (remove(visit, "variables").await, Flash::VariableRemoved),
        "remove-secret" => (remove(visit, "secrets").await, Flash::SecretRemoved),
        "remove-credential" => {
            (remove(visit, "provider-credentials").await, Flash::CredentialRemoved)
        }
        _ => return show(visit, None).await,
    };
    match outcome {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

/// Sets what the field `name` names.
async fn set(visit: &Visit, kind: &str, name: &str, body: Value) -> Result<()> {
    let name = visit.form.some(name).ok_or_else(|| Error::invalid_at("name", "must be given"))?;
    let path = format!("{}/{kind}/{}", api_path(visit), segment(name));
    visit.api.put::<Value>(&path, body).await.map(drop)
}

/// Removes what a button names.
async fn remove(visit: &Visit, kind: &str) -> Result<()> {
    let name = visit.form.some("name").ok_or_else(|| Error::invalid_at("name", "must be given"))?;
    let path = format!("{}/{kind}/{}", api_path(visit), segment(name));
    visit.api.delete(&path, &[]).await
}

fn credential(visit: &Visit) -> Value {
    let mut body = json!({});
    if let Some(endpoint) = visit.form.some("endpoint") {
        body["endpoint"] = json!(endpoint);
    }
    if let Some(key) = visit.form.some("apiKey") {
        body["apiKey"] = json!(key);
    }
    body
}
