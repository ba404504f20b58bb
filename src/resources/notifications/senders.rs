//! How each workflow delivers a notice.

use std::time::Duration;

use serde_json::{Value, json};

use super::config::{AgentWakeConfig, TeamTaskConfig, WebhookConfig, stored};
use super::guards;
use super::workflow_key::WorkflowKey;
use super::{recipients, text};
use crate::base::{Error, Json, Result, visible};
use crate::outbox::{Channel, DeliveryAttempt, Effect, Notice, Workflow};
use crate::outside::mail::{Mail, inert};
use crate::outside::{BodyLimit, Call, Limits, Method, webhook};
use crate::resources::teams::notices;
use crate::store::{Tx, View};

/// All workflows.
pub const WORKFLOWS: &[Workflow] = &[
    // Delivers into the log, which has every event already: its effect writes nothing.
    Workflow {
        key: WorkflowKey::InApp.name(),
        effect: |_, _| Ok(Effect::Rows(Box::new(|_| Ok(())))),
    },
    Workflow { key: WorkflowKey::Webhook.name(), effect: post },
    Workflow { key: WorkflowKey::Email.name(), effect: mail },
    Workflow { key: WorkflowKey::Slack.name(), effect: post_to_slack },
    Workflow { key: WorkflowKey::TeamTask.name(), effect: create_task },
    Workflow { key: WorkflowKey::AgentWake.name(), effect: wake_agent },
];

/// Slack answers within a second; only its status counts.
const SLACK_LIMITS: Limits =
    Limits { total: Duration::from_secs(10), answer: BodyLimit::Ignored, https_only: false };

fn post(tx: &mut Tx, attempt: &DeliveryAttempt) -> Result<Effect> {
    let (view, DeliveryAttempt { channel, notice }) = (tx.view(), attempt);
    let WebhookConfig { url, .. } = stored(channel)?;
    let key = |text: &String| webhook::secret_key(text).ok_or_else(|| no_secret(channel));
    let keys = channel.valid_secrets(&view)?.iter().map(key).collect::<Result<Vec<_>>>()?;
    if keys.is_empty() {
        return Err(no_secret(channel));
    }
    let message = webhook::Message {
        id: notice.id.to_string(),
        kind: notice.kind(),
        at: notice.at,
        data: notice.payload.0.clone(),
    };
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    Ok(Effect::Call(Box::new(webhook::post_with_keys(&url, &keys, &message, view.now()))))
}

fn no_secret(channel: &Channel) -> Error {
    Error::internal(format!("the channel {} has no valid secret", channel.id))
}

fn mail(tx: &mut Tx, attempt: &DeliveryAttempt) -> Result<Effect> {
    let to = recipients::take(tx, &attempt.channel)?;
    // Whatever its members write, the mails of an organization have no links.
    let (mut channel, mut notice) = (attempt.channel.clone(), attempt.notice.clone());
    channel.name = inert(&channel.name);
    make_inert(&mut notice.payload.0);
    Ok(Effect::Mail(Mail {
        id: notice.id.to_string(),
        to,
        subject: format!("[{}] {}", channel.name, text::title(&notice)),
        text: text::plain(&channel, &notice),
        html: Some(text::html(&channel, &notice)),
        // Not the name, which may be longer than a line of a mail.
        unsubscribe: Some(format!("Unsubscribe from channel {}", channel.id)),
    }))
}

/// Makes all texts of a payload such that a mail can repeat them.
fn make_inert(value: &mut Value) {
    match value {
        Value::String(text) => *text = inert(text),
        Value::Array(values) => values.iter_mut().for_each(make_inert),
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                make_inert(&mut value);
                fields.insert(inert(&name), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn post_to_slack(tx: &mut Tx, attempt: &DeliveryAttempt) -> Result<Effect> {
    let DeliveryAttempt { channel, notice } = attempt;
    let url =
        channel.valid_secrets(&tx.view())?.into_iter().next().ok_or_else(|| no_secret(channel))?;
    Ok(Effect::Call(Box::new(Call {
        method: Method::POST,
        url,
        headers: vec![("content-type".into(), "application/json".into())],
        body: json!({"text": visible::block(&text::slack(notice))}).to_string().into_bytes(),
        limits: SLACK_LIMITS,
    })))
}

fn create_task(tx: &mut Tx, attempt: &DeliveryAttempt) -> Result<Effect> {
    let DeliveryAttempt { channel, notice } = attempt;
    let TeamTaskConfig { team_id, assignee_agent_id } = stored(channel)?;
    let notice =
        if is_for_all_members(&tx.view(), notice)? { notice.clone() } else { bare(notice) };
    let (title, description) = (text::title(&notice), text::plain(channel, &notice));
    Ok(Effect::Rows(Box::new(move |tx| {
        notices::create_task(tx, team_id, assignee_agent_id, &title, description.clone())
    })))
}

/// Whether every member may read a notice, as they do the tasks of all teams.
fn is_for_all_members(view: &View, notice: &Notice) -> Result<bool> {
    for guard in &notice.guarded_by {
        if !guards::is_open_to_members(view, *guard)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a notice that says what happened but not to what: who may know finds it in the log.
fn bare(notice: &Notice) -> Notice {
    Notice { payload: Json(json!({"logId": notice.id})), ..notice.clone() }
}

fn wake_agent(_: &mut Tx, attempt: &DeliveryAttempt) -> Result<Effect> {
    let AgentWakeConfig { team_id, agent_id } = stored(&attempt.channel)?;
    let id = attempt.notice.id;
    Ok(Effect::Rows(Box::new(move |tx| notices::wake_agent(tx, team_id, agent_id, id))))
}
