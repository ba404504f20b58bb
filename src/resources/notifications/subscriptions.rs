//! Subscriptions: which events a channel delivers (reference: notifications, "Subscriptions").
//!
//! A channel belongs to the organization, and admins alone subscribe it, who may see every event. So
//! what it delivers does not depend on the grants of a member.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::channels::fetch_own;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName};
use crate::base::{Id, Result, Time};
use crate::outbox::{Channel, EventType, SUBSCRIPTIONS, Subscription};
use crate::store::{ListSource, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SubscriptionFilter {
    /// Only those of this channel.
    channel_id: Option<Id<Channel>>,
}
impl Input for SubscriptionFilter {}

/// A subscription to create. It replaces that of the same channel and event type.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"channelId": "01890a5d-ac96-774b-bcce-b302099a8057",
        "eventType": "deployment.error"}],
))]
pub struct NewSubscription {
    channel_id: Id<Channel>,
    /// The type of the events to deliver.
    event_type: EventType,
    /// Whether it is in effect; true if absent.
    enabled: Option<bool>,
}
impl Input for NewSubscription {}

/// Changes to a subscription.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"enabled": false}],
))]
pub struct SubscriptionPatch {
    /// Whether it is in effect. Events that happen while it is not are not delivered later.
    enabled: Option<bool>,
}
impl Input for SubscriptionPatch {}

/// A subscription of a channel to the events of a type.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Subscription")]
pub struct SubscriptionInfo {
    id: Id<Subscription>,
    channel_id: Id<Channel>,
    event_type: EventType,
    enabled: bool,
    created_at: Time,
}

impl Output for SubscriptionInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl From<Subscription> for SubscriptionInfo {
    fn from(subscription: Subscription) -> Self {
        let Subscription { id, channel, event_type, enabled, created_at } = subscription;
        SubscriptionInfo { id, channel_id: channel, event_type, enabled, created_at }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), SubscriptionFilter>) -> Result<Page<SubscriptionInfo>> {
    let wanted = req.input.channel_id;
    let page =
        view.page(ListSource::TABLE, &(), Order::Descending, &req.page, |one: &Subscription| {
            wanted.is_none_or(|channel| channel == one.channel)
        })?;
    page.try_map(|subscription| Ok(SubscriptionInfo::from(subscription)))
}

fn create(tx: &mut Tx, req: &Req<(), NewSubscription>) -> Result<SubscriptionInfo> {
    let NewSubscription { channel_id, event_type, enabled } = req.input;
    let enabled = enabled.unwrap_or(true);
    let channel = fetch_own(&tx.view(), channel_id)?.id;
    if let Some(old) = tx.find(&SUBSCRIPTIONS, &(channel, event_type))? {
        return enable(tx, &old, enabled);
    }
    let subscription =
        Subscription { id: tx.new_id(), channel, event_type, enabled, created_at: tx.now() };
    tx.insert(&subscription)?;
    Ok(subscription.into())
}

fn update(tx: &mut Tx, req: &Req<Id<Subscription>, SubscriptionPatch>) -> Result<SubscriptionInfo> {
    let old: Subscription = tx.fetch(&req.params)?;
    enable(tx, &old, req.input.enabled.unwrap_or(old.enabled))
}

fn enable(tx: &mut Tx, old: &Subscription, enabled: bool) -> Result<SubscriptionInfo> {
    let new = Subscription { enabled, ..old.clone() };
    if new.enabled != old.enabled {
        tx.replace(old, &new)?;
    }
    Ok(new.into())
}

fn delete(tx: &mut Tx, req: &Req<Id<Subscription>>) -> Result<Deleted> {
    let subscription: Subscription = tx.fetch(&req.params)?;
    tx.remove(&subscription)?;
    Ok(Deleted::new(subscription.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/notifications/subscriptions";
    const ONE: &str = "/notifications/subscriptions/{subscriptionId}";
    vec![
        Route::get(ALL, MEMBER, "subscription.list", op::list(list))
            .needs(ScopeName::ChannelRead)
            .about("List subscriptions, newest first"),
        Route::post(ALL, ADMIN, "subscription.create", op::write(create))
            .needs(ScopeName::ChannelWrite)
            .about("Subscribe a channel to an event type"),
        Route::patch(ONE, ADMIN, "subscription.update", op::write(update))
            .needs(ScopeName::ChannelWrite)
            .about("Update a subscription"),
        Route::delete(ONE, ADMIN, "subscription.delete", op::write(delete))
            .needs(ScopeName::ChannelWrite)
            .about("Delete a subscription"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::notifications::testing::{channel, code, hook};
    use crate::resources::testing::Fixture;

    fn subscribe(fixture: &Fixture, body: Value) -> Result<SubscriptionInfo> {
        fixture.write_as(&fixture.owner, create, (), Fixture::input(body)?)
    }

    fn all(fixture: &Fixture, filter: Value) -> Vec<SubscriptionInfo> {
        fixture.read(list, (), Fixture::input(filter).unwrap()).unwrap().items
    }

    #[test]
    fn every_event_type_has_a_resource_that_publishes_it() {
        let published = crate::resources::events();
        let missing: Vec<_> =
            EventType::ALL.into_iter().filter(|one| !published.contains(one)).collect();
        assert!(missing.is_empty(), "nothing publishes {missing:?}");
    }

    #[test]
    fn a_second_one_for_channel_and_type_replaces_the_first() {
        let fixture = Fixture::new();
        let [a, b] = [channel(&fixture, hook()), channel(&fixture, hook())];
        let body = |channel, enabled: Value| json!({"channelId": channel, "eventType": "agent.error", "enabled": enabled});
        let first = subscribe(&fixture, body(a, json!(null))).unwrap();
        assert!(first.enabled);
        fixture.pass_secs(1);
        let second = subscribe(&fixture, body(a, json!(false))).unwrap();
        assert_eq!(second, SubscriptionInfo { enabled: false, ..first.clone() });
        let other = subscribe(&fixture, body(b, json!(true))).unwrap();
        assert_eq!(all(&fixture, json!({})), [other.clone(), second.clone()]);
        assert_eq!(all(&fixture, json!({"channelId": b})), std::slice::from_ref(&other));
        let patch = |body| {
            let input = Fixture::input(body).unwrap();
            fixture.write_as(&fixture.owner, update, first.id, input).unwrap().enabled
        };
        assert!(patch(json!({"enabled": true})) && patch(json!({})));
        fixture.write_as(&fixture.owner, delete, first.id, ()).unwrap();
        assert_eq!(all(&fixture, json!({})), [other]);
        fixture.assert_sound();
    }

    #[test]
    fn only_existing_channels_other_than_the_built_in_one_are_subscribed() {
        let fixture = Fixture::new();
        let built_in = crate::outbox::in_app(fixture.org);
        let body = |id: Value| json!({"channelId": id, "eventType": "agent.error"});
        assert_eq!(code(subscribe(&fixture, body(json!(built_in)))), "channel_built_in");
        let (_, eve) = fixture.other_org("other");
        let mine = channel(&fixture, hook());
        let input = Fixture::input(body(json!(mine))).unwrap();
        assert_eq!(code(fixture.write_as(&eve, create, (), input)), "not_found");
        assert!(
            subscribe(&fixture, json!({"channelId": mine, "eventType": "agent.happy"})).is_err()
        );
    }
}
