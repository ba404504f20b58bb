//! The end of API keys: the events that announce it, and the removal of those that have expired
//! (reference: identity-and-rights, "API keys").

use serde_json::json;

use crate::api::Resource;
use crate::auth::{ApiKey, KEYS_BY_EXPIRY_NOTICE, KeyUse, User};
use crate::base::{Result, Time};
use crate::outbox::{About, EventType, RetentionSettings, Sweep, SweepProgress, due, publish};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource {
    sweeps: &[PUBLISH_EXPIRIES],
    events: &[EventType::ApiKeyExpiring, EventType::ApiKeyExpired],
    ..Resource::EMPTY
};

pub(super) const DAY_SECS: i64 = 24 * 3600;

/// The event `api_key.expiring` precedes the expiry by a week, the time to replace the key.
const NOTICE_SECS: i64 = 7 * DAY_SECS;

/// When `api_key.expiring` is due for a key with this end.
pub(super) fn notice_before(end: Time) -> Time {
    end.minus_secs(NOTICE_SECS)
}

/// The same for a key that is rotated now: halfway if a week before is sooner, so that it tells what has
/// not changed over to the new key, and not what had no time to.
pub(super) fn notice_of_rotated(now: Time, end: Time) -> Time {
    let halfway = now.plus_millis((end.millis() - now.millis()) / 2);
    notice_before(end).max(halfway)
}

/// Publishes the expiry of keys: `api_key.expiring` a week before, `api_key.expired` when it comes.
const PUBLISH_EXPIRIES: Sweep = Sweep {
    name: "publish the expiry of API keys",
    every_secs: 60,
    run: publish_expiries,
    installation: true,
};

fn publish_expiries(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let now = tx.now();
    let (keys, progress) = due(&tx.view(), &KEYS_BY_EXPIRY_NOTICE, |key: &ApiKey| {
        key.next_notice_at.is_some_and(|notice| notice <= now)
    })?;
    for key in &keys {
        tx.set_org(key.org);
        publish_expiry(tx, key)?;
    }
    Ok(progress)
}

/// Publishes the due event of a key's expiry, in its organization. An expired key is deleted.
pub(super) fn publish_expiry(tx: &mut Tx, key: &ApiKey) -> Result<()> {
    let Some(end) = key.expires_at else { return Ok(()) };
    let payload = json!({
        "apiKeyId": key.id,
        "name": key.name,
        "start": key.start,
        "userId": key.user,
        "userName": tx.get::<User>(&key.user)?.map(|user| user.name),
        "createdBy": key.created_by,
        "expiresAt": end,
        "lastUsedAt": tx.get::<KeyUse>(&key.id)?.and_then(|used| used.at),
        "replacedBy": key.replaced_by,
        "replacedAt": key.replaced_at,
    });
    // Whose keys there are is for each user, and for admins.
    let about = About::resource("api_key", key.id).guarded_by("user", key.user);
    if end <= tx.now() {
        publish(tx, EventType::ApiKeyExpired, about, payload)?;
        return tx.remove(key);
    }
    publish(tx, EventType::ApiKeyExpiring, about, payload)?;
    tx.replace(key, &ApiKey { next_notice_at: Some(end), ..key.clone() })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::base::{Id, Kind};
    use crate::outbox::Event;
    use crate::resources::organizations::keys::record_key_usage;
    use crate::resources::organizations::keys::tests::{make, names, revoked, works};
    use crate::resources::testing::{Fixture, user};
    use crate::store::{ListSource, View};

    /// The events so far, once what is due is published.
    pub(in crate::resources::organizations) fn swept(fixture: &Fixture) -> Vec<Event> {
        let settings = RetentionSettings::default();
        fixture.store.write_blocking(Id::NIL, move |tx| publish_expiries(tx, &settings)).unwrap();
        let log = |view: &View| view.all::<Event>(ListSource::TABLE, &());
        fixture.store.read_now(fixture.org, log).unwrap()
    }

    fn sweep(fixture: &Fixture) -> Vec<EventType> {
        swept(fixture).into_iter().map(|entry| entry.event_type).collect()
    }

    #[test]
    fn the_expiry_of_a_key_is_published_a_week_before_and_when_it_comes() {
        use EventType::{ApiKeyExpired, ApiKeyExpiring};
        const DAY: i64 = DAY_SECS;
        let fixture = Fixture::new();
        let made =
            make(&fixture, &fixture.member, json!({"name": "ci", "expiresInDays": 30})).unwrap();
        make(&fixture, &fixture.member, json!({"name": "permanent"})).unwrap();
        fixture.pass_secs(23 * DAY - 1);
        assert_eq!(sweep(&fixture), []);
        fixture.pass_secs(1);
        assert_eq!(sweep(&fixture), [ApiKeyExpiring]);
        assert_eq!(sweep(&fixture), [ApiKeyExpiring]);
        assert!(works(&fixture, &made));
        fixture.pass_secs(7 * DAY);
        assert!(!works(&fixture, &made));
        assert_eq!(names(&fixture, &fixture.member), ["permanent"]);
        let gone = revoked(&fixture, &made).err().unwrap();
        assert_eq!(gone.kind(), Kind::NotFound);
        assert_eq!(sweep(&fixture), [ApiKeyExpiring, ApiKeyExpired]);
        assert_eq!(sweep(&fixture), [ApiKeyExpiring, ApiKeyExpired]);
        fixture.assert_sound();
    }

    #[test]
    fn the_expiry_of_a_key_for_less_than_a_week_is_published_at_once() {
        let fixture = Fixture::new();
        make(&fixture, &fixture.member, json!({"name": "ci", "expiresInDays": 7})).unwrap();
        assert_eq!(sweep(&fixture), [EventType::ApiKeyExpiring]);
    }

    #[test]
    fn the_event_says_who_uses_the_key_and_when_it_was_last_used() {
        let fixture = Fixture::new();
        let made =
            make(&fixture, &fixture.member, json!({"name": "ci", "expiresInDays": 30})).unwrap();
        let (used, at) = (made.about.id, fixture.store.clock().now());
        let note = move |tx: &mut Tx| record_key_usage(tx, &[(used, at)]);
        fixture.store.write_blocking(Id::NIL, note).unwrap();
        fixture.pass_secs(23 * DAY_SECS);
        let payload = swept(&fixture).remove(0).payload.0;
        let ben = json!(user(&fixture.member));
        assert_eq!(payload["lastUsedAt"], json!(at));
        assert_eq!([&payload["userId"], &payload["createdBy"]], [&ben; 2]);
        assert_eq!(
            (&payload["userName"], &payload["start"]),
            (&json!("ben"), &json!(made.key[..8]))
        );
        assert!(payload["replacedBy"].is_null());
    }
}
