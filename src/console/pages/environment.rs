//! `/o/{org}/environments/{id}`: the variables of an environment, the names of its secrets, and its
//! credentials for providers. Values of secrets are never shown.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::environments::{Environment, api_path, crumbs};
use crate::api::Method;
use crate::base::{Error, Kind, Result, Time};
use crate::console::api::segment;
use crate::console::choice::{self, Chooser};
use crate::console::conflict::{self, Edited};
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

/// The field for the name of the provider that a credential is for.
const PROVIDER: Chooser = Chooser::one("credential", choice::Kind::Provider);

#[derive(Template)]
#[template(path = "environment.html")]
struct EnvironmentPage {
    frame: Frame,
    environment: Environment,
    variables: Vec<Variable>,
    /// What the form of variables is filled with: a name and a value, or nothing.
    chosen: (String, String),
    secrets: Vec<Secret>,
    credentials: Vec<Credential>,
    provider: Chooser,
    members: Vec<Member>,
    may_write: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable {
    name: String,
    value: String,
    updated_at: Time,
    updated_by: Nullable<String>,
}

impl Variable {
    /// What the form edits of it.
    fn edited(&self, visit: &Visit) -> Vec<Edited> {
        // A value that is set under another name than the form was opened for is another one.
        let name = Edited::new("Name", self.name.as_str(), self.name.as_str());
        vec![name, Edited::text(visit, "variableValue", "Value", &self.value)]
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    name: String,
    updated_at: Time,
    updated_by: Nullable<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credential {
    name: String,
    endpoint: Nullable<String>,
    updated_at: Time,
    updated_by: Nullable<String>,
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let path = api_path(visit);
    let environment: Environment = visit.api.get(&path, &[]).await?;
    let frame = crumbs(visit, visit.frame(&environment.name)).failed(error.as_ref());
    let frame = labelled(frame, visit.form.get("action"));
    let variables: Vec<Variable> = visit.api.items(&format!("{path}/variables"), &[]).await?;
    let is_sent = visit.form.get("action") == "variable";
    let name = if is_sent { visit.form.get("variable") } else { visit.query.get("variable") };
    let chosen = variables.iter().find(|one| one.name == name);
    let edited = chosen.map(|one| one.edited(visit)).unwrap_or_default();
    let mut frame = frame.against(error.as_ref(), &edited, "variable", "variable");
    frame.was = conflict::was(visit, error.as_ref(), &edited, is_sent);
    let page = EnvironmentPage {
        frame: frame.live().choosing(),
        chosen: chosen.map(|one| (one.name.clone(), one.value.clone())).unwrap_or_default(),
        variables,
        secrets: visit.api.items(&format!("{path}/secrets"), &[]).await?,
        credentials: visit.api.items(&format!("{path}/provider-credentials"), &[]).await?,
        provider: PROVIDER,
        members: roster::members(&visit.api).await?,
        may_write: visit.may(Method::Put, "/environments/id/variables/name"),
        environment,
    };
    render(page.frame.status, &page)
}

/// The frame with the fields of the form that was sent, as the page calls them.
fn labelled(frame: Frame, action: &str) -> Frame {
    let (name, value) = match action {
        "variable" => ("variable", "variableValue"),
        "secret" => ("secretName", "secretValue"),
        _ => {
            return frame
                .rename("name", "credential")
                .label("credential", "Provider")
                .label("endpoint", "Address")
                .label("apiKey", "API key");
        }
    };
    frame.rename("name", name).rename("value", value).label(name, "Name").label(value, "Value")
}

async fn act(visit: &Visit) -> Result<Reply> {
    let (outcome, flash) = match visit.form.get("action") {
        "variable" => (set_variable(visit).await, Flash::VariableSet),
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

/// Sets a variable, unless somebody else has set it since the form was opened.
async fn set_variable(visit: &Visit) -> Result<()> {
    let body = json!({"value": visit.form.get("variableValue")});
    let path = named(visit, "variables", "variable")?;
    match visit.replace(&path, body.clone(), |stored: &Variable| stored.edited(visit)).await {
        // There is none of this name yet.
        Err(error) if error.kind() == Kind::NotFound => {
            visit.api.put::<Value>(&path, body).await.map(drop)
        }
        done => done.map(drop),
    }
}

/// Sets what the field `name` names.
async fn set(visit: &Visit, kind: &str, name: &str, body: Value) -> Result<()> {
    visit.api.put::<Value>(&named(visit, kind, name)?, body).await.map(drop)
}

/// Removes what a button names.
async fn remove(visit: &Visit, kind: &str) -> Result<()> {
    visit.api.delete(&named(visit, kind, "name")?, &[]).await
}

/// The path in the API of what a field names.
fn named(visit: &Visit, kind: &str, field: &str) -> Result<String> {
    let name = visit.form.some(field).ok_or_else(|| Error::invalid_at("name", "must be given"))?;
    Ok(format!("{}/{kind}/{}", api_path(visit), segment(name)))
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
