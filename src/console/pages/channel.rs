//! `/o/{org}/operations/channels/{channel}`: what a channel delivers; testing it, delivering again,
//! its secret.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::channels::{Channel, Created, Workflow, signing_secret};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::field::in_utc;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/operations/channels/{channel}")
        .get(|visit| Box::pin(show(visit, None, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/operations/channels/{channel}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

/// What is delivered again: the status of the entries, and its label.
const STATUSES: [(&str, &str); 3] =
    [("", "What was not delivered"), ("dead", "What was given up"), ("sent", "What was delivered")];

#[derive(Template)]
#[template(path = "channel.html")]
struct ChannelPage {
    frame: Frame,
    base: String,
    channel: Channel,
    config: String,
    subscriptions: Vec<Subscription>,
    /// Types of events that it is not subscribed to.
    types: Vec<(String, String)>,
    statuses: &'static [(&'static str, &'static str)],
    may_write: bool,
    test: Option<(bool, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    id: String,
    event_type: String,
    enabled: bool,
}

#[derive(Deserialize)]
struct Test {
    ok: bool,
    message: String,
}

/// The path of a channel in the API.
pub fn api_path(visit: &Visit) -> String {
    format!("/notifications/channels/{}", segment(visit.param(1)))
}

/// Adds the page above that of a channel.
pub fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Channels", visit.in_org("/operations/channels"))
}

async fn show(visit: &Visit, error: Option<Error>, test: Option<Test>) -> Result<Reply> {
    let channel: Channel = visit.api.get(&api_path(visit), &[]).await?;
    let query = [("channelId", visit.param(1))];
    let subscriptions: Vec<Subscription> =
        visit.api.items("/notifications/subscriptions", &query).await?;
    let workflows: Vec<Workflow> = visit.api.items("/notifications/action-workflows", &[]).await?;
    let own = workflows.into_iter().find(|one| one.key == channel.workflow);
    let is_new = |kind: &String| subscriptions.iter().all(|one| one.event_type != *kind);
    let types = own.map(|one| one.event_types).unwrap_or_default().into_iter().filter(is_new);
    let page = ChannelPage {
        frame: crumbs(visit, visit.frame(&channel.name)).failed(error.as_ref()).live(),
        base: visit.in_org("/operations"),
        config: serde_json::to_string_pretty(&channel.config).unwrap_or_default(),
        types: types.map(|kind| (kind.clone(), kind)).collect(),
        statuses: &STATUSES,
        may_write: visit.may(Method::Patch, "/notifications/channels/id") && !channel.built_in,
        test: test.map(|test| (test.ok, sentence(&test.message))),
        channel,
        subscriptions,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let path = api_path(visit);
    let of = |name| visit.form.get(name);
    let (outcome, flash) = match of("action") {
        "test" => {
            return match visit.api.post::<Test>(&format!("{path}/test"), json!({})).await {
                Ok(test) => show(visit, None, Some(test)).await,
                Err(error) => show(visit, visit.failed(error)?, None).await,
            };
        }
        "rotate" => {
            let path = format!("{path}/rotate-secret");
            return match visit.api.post::<Created>(&path, json!({})).await {
                Ok(made) => {
                    let secret = made.secret.0.unwrap_or_default();
                    signing_secret(visit, &made.name, secret, visit.path.clone())
                }
                Err(error) => show(visit, visit.failed(error)?, None).await,
            };
        }
        "enable" | "disable" => {
            let body = json!({"enabled": of("action") == "enable"});
            (visit.api.patch::<Value>(&path, body).await, Flash::ChannelSaved)
        }
        "subscribe" => {
            let body = json!({"channelId": visit.param(1), "eventType": of("eventType")});
            (visit.api.post("/notifications/subscriptions", body).await, Flash::Subscribed)
        }
        "unsubscribe" => {
            let path = format!("/notifications/subscriptions/{}", segment(of("subscription")));
            (visit.api.delete(&path, &[]).await.map(|()| Value::Null), Flash::Unsubscribed)
        }
        "redeliver" => {
            let path = format!("{path}/redeliver");
            (visit.api.post(&path, redelivery(visit)).await, Flash::RedeliveryBegun)
        }
        _ => return show(visit, None, None).await,
    };
    match outcome {
        Ok(_) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?, None).await,
    }
}

/// What is delivered again; the form has times of UTC.
fn redelivery(visit: &Visit) -> Value {
    let time = |name| visit.form.some(name).map(in_utc);
    let mut body = json!({"from": time("from").unwrap_or_default()});
    if let Some(to) = time("to") {
        body["to"] = json!(to);
    }
    if let Some(status) = visit.form.some("status") {
        body["status"] = json!(status);
    }
    body
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let frame = visit.frame(&format!("Delete {}?", form.known("name")));
    let form = form.done(visit.in_org("/operations/channels"), Flash::ChannelDeleted);
    Ok(form.page(crumbs(visit, frame)).lead(
        "Its subscriptions end, and what it has not delivered is given up. The log keeps its entries.",
    ))
}
