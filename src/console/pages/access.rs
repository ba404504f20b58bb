//! `/o/{org}/settings/access`: why a member or a key may do something, or may not.

use askama::Template;
use serde::Deserialize;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member, Thing};
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/settings/access").get(|visit| Box::pin(show(visit)))];

/// What is asked about: actions of the API, and what people call them. Any other action can be asked
/// about by its name.
const ACTIONS: [(&str, &str); 18] = [
    ("artifact.list", "See prompts"),
    ("artifact_version.publish", "Publish a version"),
    ("artifact_label.move", "Move a label"),
    ("artifact_version.delete", "Delete a version"),
    ("registry.update", "Change a registry"),
    ("agent.list", "See agents"),
    ("agent.update", "Change an agent"),
    ("deployment.create", "Deploy"),
    ("deployment.approve", "Approve a deployment"),
    ("environment.get", "See an environment"),
    ("environment.update", "Change an environment"),
    ("environment_variable.set", "Set a variable"),
    ("environment_secret.set", "Set a secret"),
    ("fleet.update", "Change a fleet"),
    ("team.create", "Create a team"),
    ("policy.create", "Create a policy"),
    ("channel.create", "Create a channel"),
    ("access_grant.create", "Grant access"),
];

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage {
    frame: Frame,
    base: String,
    subjects: Vec<(String, String)>,
    actions: &'static [(&'static str, &'static str)],
    things: Vec<(String, String)>,
    asked: Asked,
    answer: Option<Explanation>,
    refusal: String,
}

/// What was asked.
struct Asked {
    who: String,
    action: String,
    resource: String,
    label: String,
}

#[derive(Deserialize)]
struct Key {
    id: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    allowed: bool,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    rule: String,
    met: bool,
    reason: String,
    grant_id: Nullable<String>,
}

impl Rule {
    fn sentence(&self) -> String {
        sentence(&self.reason)
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    visit.require(Method::Get, "/access/explain")?;
    let members = roster::members(&visit.api).await?;
    let keys: Vec<Key> = visit.api.items("/api-keys", &[]).await?;
    let people = members.into_iter().filter(|member| !member.is_service());
    let mut subjects: Vec<_> =
        people.map(|Member { user_id, name, .. }| (format!("user:{user_id}"), name)).collect();
    subjects.extend(
        keys.into_iter().map(|Key { id, name }| (format!("key:{id}"), format!("{name} (key)"))),
    );
    let things = roster::things(&visit.api).await?;
    let mut choices = vec![(String::new(), "Nothing in particular".to_string())];
    choices.extend(things.iter().map(|thing| (thing.key(), Thing::label(thing))));
    let asked = Asked {
        who: visit.query.get("who").into(),
        action: visit.query.get("action").into(),
        resource: visit.query.get("resource").into(),
        label: visit.query.get("label").trim().into(),
    };
    let (answer, refusal) = match explain(visit, &asked).await {
        Ok(answer) => (answer, String::new()),
        Err(error) => (None, why(visit, error)?),
    };
    let page = AccessPage {
        frame: visit.frame("Explain access").tabs(&roster::tabs(visit)),
        base: visit.in_org("/settings"),
        subjects,
        actions: &ACTIONS,
        things: choices,
        asked,
        answer,
        refusal,
    };
    render(page.frame.status, &page)
}

fn why(visit: &Visit, error: Error) -> Result<String> {
    Ok(visit.failed(error)?.map_or_else(String::new, |error| {
        let issue = error.issues().first().map(|issue| format!("{} {}", issue.path, issue.message));
        sentence(&issue.unwrap_or_else(|| error.message().into()))
    }))
}

async fn explain(visit: &Visit, asked: &Asked) -> Result<Option<Explanation>> {
    let Asked { who, action, resource, label } = asked;
    if who.is_empty() || action.is_empty() {
        return Ok(None);
    }
    let mut query = vec![("action", action.as_str())];
    query.extend(who.split_once(':').map(|(kind, id)| match kind {
        "key" => ("keyId", id),
        _ => ("userId", id),
    }));
    if let Some((kind, id)) = resource.split_once(':') {
        query.extend([("resourceType", kind), ("resourceId", id)]);
    }
    if !label.is_empty() {
        query.push(("label", label));
    }
    visit.api.get("/access/explain", &query).await.map(Some)
}
