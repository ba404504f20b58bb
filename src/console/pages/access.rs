//! `/o/{org}/settings/access`: why a member or a key may do something, or may not.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::{LISTED, between};
use crate::console::field::Field;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::roster;
use crate::console::strict::{List, Nullable};
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

/// The field for who is asked about.
const WHO: Chooser = Chooser::one("who", Kind::Subject);

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage {
    frame: Frame,
    base: String,
    who: Field,
    actions: &'static [(&'static str, &'static str)],
    thing: Field,
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
#[serde(rename_all = "camelCase")]
struct Person {
    user_id: String,
    name: String,
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
    let thing = roster::thing(visit, "In or to", Some("Nothing in particular"), |_| true).await?;
    let (who, thing) = (who(visit).await?, thing.preset(visit.query.get("resource")));
    let asked = Asked {
        who: visit.query.get("who").trim().into(),
        action: visit.query.get("action").into(),
        resource: visit.query.get("resource").trim().into(),
        label: visit.query.get("label").trim().into(),
    };
    let frame = visit.frame("Explain access").tabs(&roster::tabs(visit));
    let (answer, error) = match explain(visit, &asked).await {
        Ok(answer) => (answer, None),
        Err(error) => (None, visit.failed(error)?),
    };
    let frame = frame.failed(error.as_ref()).rename("userId", "who").rename("keyId", "who");
    let frame = frame.rename("resourceType", "resource").rename("resourceId", "resource");
    let frame = frame.picking(visit, &[&who, &thing]).await?;
    let page = AccessPage {
        // The page says why there is no answer.
        frame: Frame { status: StatusCode::OK, ..frame },
        base: visit.in_org("/settings"),
        who,
        actions: &ACTIONS,
        thing,
        asked,
        answer,
        refusal: error.as_ref().map(why).unwrap_or_default(),
    };
    render(page.frame.status, &page)
}

fn why(error: &Error) -> String {
    let issue = error.issues().first().map(|issue| format!("{} {}", issue.path, issue.message));
    sentence(&issue.unwrap_or_else(|| error.message().into()))
}

/// The choice between people and keys.
async fn who(visit: &Visit) -> Result<Field> {
    let people: List<Person> =
        visit.api.get("/organizations/members", &[("kind", "person"), ("limit", LISTED)]).await?;
    let keys: List<Key> = visit.api.get("/api-keys", &[("limit", LISTED)]).await?;
    let are_many = people.next_cursor.is_some() || keys.next_cursor.is_some();
    let people = people.items.into_iter().map(|one| (format!("user:{}", one.user_id), one.name));
    let keys = keys.items.into_iter();
    let keys = keys.map(|Key { id, name }| (format!("key:{id}"), format!("{name} (key)")));
    let all: Vec<_> = people.chain(keys).collect();
    let field = if are_many { Field::choose("Who", WHO) } else { between("Who", WHO, None, all) };
    Ok(field.preset(visit.query.get(WHO.name)))
}

/// The kind and the id of what was chosen in a field.
fn parts<'a>(field: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    let none = || Error::invalid_at(field, "must be one of those that are offered");
    text.split_once(':').ok_or_else(none)
}

async fn explain(visit: &Visit, asked: &Asked) -> Result<Option<Explanation>> {
    let Asked { who, action, resource, label } = asked;
    if who.is_empty() || action.is_empty() {
        return Ok(None);
    }
    let (kind, id) = parts("who", who)?;
    let of = if kind == "key" { "keyId" } else { "userId" };
    let mut query = vec![("action", action.as_str()), (of, id)];
    if !resource.is_empty() {
        let (kind, id) = parts("resource", resource)?;
        query.extend([("resourceType", kind), ("resourceId", id)]);
    }
    if !label.is_empty() {
        query.push(("label", label));
    }
    visit.api.get("/access/explain", &query).await.map(Some)
}
