//! Delivering again, and testing a channel (reference: notifications, "Delivering again",
//! "Testing a channel").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::channels::fetch_own;
use super::recipients;
use super::senders::WORKFLOWS;
use crate::api::{
    Calls, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op, order_issue,
};
use crate::auth::{ADMIN, ScopeName, User};
use crate::base::{Error, Id, Issue, Json, Kind, Result, Time};
use crate::outbox::{
    self, Channel, Delivery, DeliveryAttempt, DeliveryStatus, Effect, EffectResult, LogEntry,
    Notice, Redelivery,
};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The time for a test, in seconds: that of an attempt, and a little for the connection.
const TEST_SECS: u64 = 20;

// ── What callers send and see ────────────────────────────────────────────────

/// The deliveries of a channel to make again.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"from": "2026-01-15T12:00:00Z", "status": "dead"}],
))]
pub struct NewRedelivery {
    /// The time of the earliest events.
    from: Time,
    /// Exclusive; now if absent.
    to: Option<Time>,
    /// The status of the deliveries; failed and dead ones if absent.
    status: Option<DeliveryStatus>,
}

impl Input for NewRedelivery {
    fn check(&self, issues: &mut Vec<Issue>) {
        issues.extend(order_issue(Some(self.from), self.to));
    }
}

/// A redelivery that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Redelivery")]
pub struct RedeliveryInfo {
    channel_id: Id<Channel>,
    /// The time of the earliest events.
    from: Time,
    /// The time before which they happened.
    to: Time,
    /// The status of the deliveries; null for failed and dead ones.
    status: Option<DeliveryStatus>,
    created_at: Time,
}

impl Output for RedeliveryInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.channel_id)
    }
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChannelTest {
    /// Whether the receiver accepted the notice.
    ok: bool,
    /// What happened, or what to do about the failure.
    message: String,
}

impl Output for ChannelTest {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

impl Output for LogEntry {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// POST …/logs/{logId}/redeliver: one entry, whatever its status.
fn redeliver(tx: &mut Tx, req: &Req<Id<LogEntry>>) -> Result<LogEntry> {
    if let Some(delivery) = tx.get::<Delivery>(&req.params)?
        && tx.get::<Channel>(&delivery.channel)?.is_none()
    {
        return Err(Error::conflict(
            "channel_deleted",
            "the channel of this entry was deleted, so that it cannot be delivered again",
        ));
    }
    outbox::redeliver(tx, req.params)
}

/// POST …/channels/{channelId}/redeliver: all entries in a range of time.
fn redeliver_range(tx: &mut Tx, req: &Req<Id<Channel>, NewRedelivery>) -> Result<RedeliveryInfo> {
    let NewRedelivery { from, to, status } = req.input;
    let channel = fetch_own(&tx.view(), req.params)?.id;
    let to = to.unwrap_or(tx.now().plus_millis(1));
    let Redelivery { channel, from, to, status, created_at, .. } =
        outbox::redeliver_range(tx, channel, (from, to), status)?;
    Ok(RedeliveryInfo { channel_id: channel, from, to, status, created_at })
}

/// The tag of the message of a test: its signature and its id differ in each run, but one test is one
/// message. It is that of the person, who has one test mail sent at a time.
fn test_tag(person: Id<User>) -> [u8; 32] {
    blake3::derive_key("roadstead 2026 test of a channel", person.bytes())
}

/// POST …/channels/{channelId}/test: delivers a notice now, once, even if the channel is disabled;
/// nothing of it is in the log.
fn test(tx: &mut Tx, req: &Req<Id<Channel>>, calls: &mut Calls) -> Result<Outcome<ChannelTest>> {
    let channel = fetch_own(&tx.view(), req.params)?;
    let payload = json!({"test": true, "channelId": channel.id, "name": channel.name});
    let notice = Notice {
        id: tx.new_id(),
        event_type: None,
        at: tx.now(),
        payload: Json(payload),
        guarded_by: vec![],
    };
    let person = req.caller().identity.person();
    let tag = test_tag(person);
    let attempt = DeliveryAttempt { channel, notice };
    let workflow = WORKFLOWS.iter().find(|one| one.key == attempt.channel.workflow);
    let workflow = workflow.ok_or_else(|| Error::internal("a channel without a workflow"))?;
    let link_base = recipients::link_base(req.server.sends_mail, &req.origin.link_base);
    recipients::ask(tx, &attempt.channel, person, link_base)?;
    let effect = match (workflow.effect)(tx, &attempt) {
        Err(error) if error.kind() == Kind::Conflict => {
            let message = error.message().into();
            return Ok(Outcome::Done(ChannelTest { ok: false, message }));
        }
        effect => effect?,
    };
    let result = match effect {
        Effect::Call(call) => calls.send_as(tag, *call).map(|result| match result.answer {
            Ok(answer) => EffectResult::Response(answer),
            Err(failure) => EffectResult::Failed(failure.to_string()),
        }),
        Effect::Calls(..) | Effect::Work(..) => {
            return Err(Error::internal("a delivery is one call"));
        }
        Effect::Mail(mail) => calls.mail_as(tag, mail).map(|result| match result {
            Ok(()) => EffectResult::Done,
            Err(failure) => EffectResult::Failed(failure.to_string()),
        }),
        Effect::Rows(write) => Some(match write(tx) {
            Ok(()) => EffectResult::Done,
            Err(error) if error.kind() == Kind::NotFound => {
                EffectResult::Failed(format!("{}; update the channel", error.message()))
            }
            Err(error) => return Err(error),
        }),
    };
    let failure = result.and_then(|result| result.failure("the channel's address"));
    Ok(Outcome::Done(ChannelTest {
        ok: failure.is_none(),
        message: failure.unwrap_or_else(|| "the test was delivered".into()),
    }))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/notifications/logs/{logId}/redeliver",
            ADMIN,
            "notification.redeliver",
            op::write(redeliver),
        )
        .needs(ScopeName::NotificationRedeliver)
        .about("Deliver a log entry again"),
        Route::post(
            "/notifications/channels/{channelId}/redeliver",
            ADMIN,
            "channel.redeliver",
            op::write(redeliver_range),
        )
        .needs(ScopeName::NotificationRedeliver)
        .about("Deliver a channel's entries again"),
        Route::post(
            "/notifications/channels/{channelId}/test",
            ADMIN,
            "channel.test",
            op::write(op::calling(TEST_SECS, test)),
        )
        .needs(ScopeName::ChannelTest)
        .about("Send a test through a channel"),
    ]
}

#[cfg(test)]
mod tests;
