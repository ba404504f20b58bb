//! Rotating API keys: a key is replaced by another with the same rights, and goes on working for a while
//! (reference: identity-and-rights, "Rotating a key").
//!
//! Who rotates a key gets the text of one that acts as the same user. So nobody rotates the key of another
//! person, and of a service account's key whoever rotates it answers for the successor, as for a new one.

use schemars::JsonSchema;
use serde::Deserialize;

use super::key_expiry::{DAY_SECS, notice_of_rotated, publish_expiry};
use super::keys::{ApiKeyCreated, KeySettings, fetch_active, issue, require_may_allow};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{ApiKey, Caller, SESSION_MEMBER, User};
use crate::base::{Error, Id, Int, Result, Time};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// For how long both keys work if the request does not say: time to bring the new one everywhere.
const OVERLAP_SECS: i64 = DAY_SECS;

/// The longest overlap. A secret that is replaced for a reason should not be there for much longer.
const MAX_OVERLAP_SECS: i64 = 30 * DAY_SECS;

/// How to rotate an API key.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"overlapSecs": 86400}]))]
struct ApiKeyRotation {
    /// Seconds for which the old key goes on working, unless it expires before: at most 30 days, and a
    /// day if absent. With 0 it ends at once.
    overlap_secs: Option<Int<0, MAX_OVERLAP_SECS>>,
}
impl Input for ApiKeyRotation {}

/// Returns an active key that the caller could have made as it is.
///
/// # Errors
/// 404 as for any other use of a key; 403 if it acts as another person or has what only an admin gives.
fn fetch_own(view: &View, caller: &Caller, id: Id<ApiKey>) -> Result<ApiKey> {
    let key = fetch_active(view, caller, id)?;
    // Keys of service accounts are found by admins alone, who may make them.
    if key.user != caller.user() && !view.fetch::<User>(&key.user)?.is_service() {
        return Err(Error::forbidden(
            "not_own_key",
            "this key acts as somebody else, who alone may rotate it; ask them to, or revoke it",
        ));
    }
    require_may_allow(caller, key.approve_as)?;
    Ok(key)
}

/// When the successor of a key ends: it lives as long as that was made to live.
fn successor_end(key: &ApiKey, now: Time) -> Option<Time> {
    // The end is still that of its creation: what has been rotated is not rotated again.
    key.expires_at.map(|end| now.plus_millis(end.millis() - key.created_at.millis()))
}

fn rotate(tx: &mut Tx, req: &Req<Id<ApiKey>, ApiKeyRotation>) -> Result<ApiKeyCreated> {
    let (caller, now) = (req.caller(), tx.now());
    let old = fetch_own(&tx.view(), caller, req.params)?;
    if let Some(successor) = old.replaced_by {
        return Err(Error::conflict(
            "api_key_rotated",
            format!(
                "this key was rotated already; rotate its successor {successor} or, if that was \
                 revoked, create another key"
            ),
        ));
    }
    let settings = KeySettings {
        name: old.name.clone(),
        access: old.access.clone(),
        approve_as: old.approve_as,
        expires_at: successor_end(&old, now),
        replaces: Some(old.id),
    };
    let made = issue(tx, caller, old.user, settings)?;
    let overlap = req.input.overlap_secs.map_or(OVERLAP_SECS, Int::get);
    end_by(tx, &old, made.about.id, now.plus_secs(overlap))?;
    Ok(made)
}

/// Sets that a key has this successor, and ends by then at the latest.
fn end_by(tx: &mut Tx, old: &ApiKey, successor: Id<ApiKey>, latest: Time) -> Result<()> {
    let now = tx.now();
    let end = old.expires_at.map_or(latest, |end| end.min(latest));
    let replaced = ApiKey {
        expires_at: Some(end),
        next_notice_at: Some(notice_of_rotated(now, end)),
        replaced_by: Some(successor),
        replaced_at: Some(now),
        ..old.clone()
    };
    tx.replace(old, &replaced)?;
    // With the answer and not a sweep later, so that lists and the record agree that it is gone.
    if end <= now { publish_expiry(tx, &replaced) } else { Ok(()) }
}

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/api-keys/{keyId}/rotate",
            SESSION_MEMBER,
            "api_key.rotate",
            op::write(rotate),
        )
        .of_own_account()
        .asks_again()
        .about("Rotate an API key"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Principal;
    use crate::base::Kind;
    use crate::outbox::EventType;
    use crate::resources::organizations::key_expiry::tests::swept;
    use crate::resources::organizations::keys::tests::{listed, make, names, revoked, works};
    use crate::resources::organizations::keys::{create_key, record_key_usage};
    use crate::resources::testing::Fixture;
    use serde_json::{Value, json};

    const HOUR: i64 = 3600;

    fn rotated(fixture: &Fixture, id: Id<ApiKey>, body: Value) -> Result<ApiKeyCreated> {
        fixture.write(rotate, id, Fixture::input(body)?)
    }

    fn of_member(fixture: &Fixture, body: Value) -> ApiKeyCreated {
        make(fixture, &fixture.member, body).unwrap()
    }

    #[test]
    fn both_work_until_the_old_one_ends_and_what_they_may_do_is_the_same() {
        let fixture = Fixture::new();
        let body = json!({"name": "ci", "access": ["artifact:read@main"], "expiresInDays": 90});
        let old = of_member(&fixture, body);
        fixture.pass_secs(10 * DAY_SECS);
        let new = rotated(&fixture, old.about.id, json!({})).unwrap();
        let keys = listed(&fixture, &fixture.member);
        let (new_info, old_info) = (&keys[0], &keys[1]);
        for same in ["name", "access", "permissions", "createdBy", "serviceAccountId"] {
            assert_eq!(new_info[same], old_info[same], "{same}");
        }
        let now = fixture.store.clock().now();
        assert_eq!(new_info["replaces"], old_info["id"]);
        assert_eq!(old_info["replacedBy"], new_info["id"]);
        assert_eq!(old_info["replacedAt"], json!(now));
        assert_eq!(old_info["expiresAt"], json!(now.plus_secs(DAY_SECS)));
        assert_eq!(new_info["expiresAt"], json!(now.plus_secs(90 * DAY_SECS)));
        assert!(new_info["replacedBy"].is_null() && old_info["replaces"].is_null());

        assert!(works(&fixture, &old) && works(&fixture, &new));
        fixture.pass_secs(DAY_SECS - 1);
        assert!(works(&fixture, &old));
        fixture.pass_secs(1);
        assert!(!works(&fixture, &old), "before any sweep");
        assert!(works(&fixture, &new));
        swept(&fixture);
        assert_eq!(names(&fixture, &fixture.member), ["ci"]);
        fixture.assert_sound();
    }

    #[test]
    fn an_authenticator_that_has_just_seen_the_old_key_refuses_it_at_its_new_end() {
        use crate::auth::{Authenticator, RawCredential, Tokens};
        let fixture = Fixture::new();
        let old = of_member(&fixture, json!({"name": "ci"}));
        let authenticator = Authenticator::new(Tokens::new(fixture.store.keys()));
        let sent = RawCredential::from_headers([old.key.as_bytes()].into_iter(), [].into_iter());
        let is_let_in = || {
            let read = |view: &View| authenticator.authorize(view, &sent, "acme");
            fixture.store.read_now(Id::NIL, read).is_ok()
        };
        assert!(is_let_in() && is_let_in());
        rotated(&fixture, old.about.id, json!({"overlapSecs": HOUR})).unwrap();
        assert!(is_let_in());
        fixture.pass_secs(HOUR - 1);
        assert!(is_let_in());
        fixture.pass_secs(1);
        assert!(!is_let_in());
    }

    #[test]
    fn without_an_overlap_the_old_key_ends_with_the_answer() {
        let fixture = Fixture::new();
        let old = of_member(&fixture, json!({"name": "ci"}));
        let new = rotated(&fixture, old.about.id, json!({"overlapSecs": 0})).unwrap();
        assert!(!works(&fixture, &old) && works(&fixture, &new));
        assert_eq!(names(&fixture, &fixture.member), ["ci"]);
        let event = swept(&fixture).remove(0);
        assert_eq!(event.event_type, EventType::ApiKeyExpired);
        assert_eq!(event.payload.0["replacedBy"], json!(new.about.id));
        assert_eq!(
            rotated(&fixture, old.about.id, json!({})).err().unwrap().kind(),
            Kind::NotFound
        );
        fixture.assert_sound();
    }

    #[test]
    fn an_end_that_comes_before_the_overlap_is_over_stays() {
        let fixture = Fixture::new();
        let old = of_member(&fixture, json!({"name": "ci", "expiresInDays": 1}));
        let end = listed(&fixture, &fixture.member)[0]["expiresAt"].clone();
        fixture.pass_secs(23 * HOUR);
        let new = rotated(&fixture, old.about.id, json!({"overlapSecs": MAX_OVERLAP_SECS}));
        let keys = listed(&fixture, &fixture.member);
        assert_eq!(keys[1]["expiresAt"], end);
        let day_later = fixture.store.clock().now().plus_secs(DAY_SECS);
        assert_eq!(keys[0]["expiresAt"], json!(day_later));
        fixture.pass_secs(HOUR);
        assert!(!works(&fixture, &old) && works(&fixture, &new.unwrap()));
    }

    #[test]
    fn an_overlap_is_from_nothing_to_thirty_days() {
        let fixture = Fixture::new();
        let old = of_member(&fixture, json!({"name": "ci"}));
        for bad in [-1, MAX_OVERLAP_SECS + 1] {
            let refused = rotated(&fixture, old.about.id, json!({"overlapSecs": bad}));
            assert_eq!(refused.err().unwrap().kind(), Kind::Invalid);
        }
        assert!(listed(&fixture, &fixture.member)[0]["replacedBy"].is_null());
        assert!(rotated(&fixture, old.about.id, json!({"overlapSecs": MAX_OVERLAP_SECS})).is_ok());
    }

    #[test]
    fn a_key_is_rotated_once_and_revoking_its_successor_does_not_bring_it_back() {
        let fixture = Fixture::new();
        let old = of_member(&fixture, json!({"name": "ci"}));
        let new = rotated(&fixture, old.about.id, json!({})).unwrap();
        let end = listed(&fixture, &fixture.member)[1]["expiresAt"].clone();
        let again = || rotated(&fixture, old.about.id, json!({})).err().unwrap();
        assert_eq!((again().kind(), again().code()), (Kind::Conflict, "api_key_rotated"));
        assert!(again().message().contains(&new.about.id.to_string()));
        let third = rotated(&fixture, new.about.id, json!({})).unwrap();
        for key in [&new, &third] {
            revoked(&fixture, key).unwrap();
        }
        assert_eq!(listed(&fixture, &fixture.member)[0]["expiresAt"], end);
        assert_eq!(again().code(), "api_key_rotated");
        fixture.pass_secs(DAY_SECS);
        assert!(!works(&fixture, &old));
        fixture.assert_sound();
    }

    #[test]
    fn who_has_all_keys_rotates_one_after_another() {
        let fixture = Fixture::new();
        let old =
            [of_member(&fixture, json!({"name": "a"})), of_member(&fixture, json!({"name": "b"}))];
        let Principal::Caller(caller) = &fixture.member else { panic!("a member is a caller") };
        let user = caller.user();
        let fill = move |tx: &mut Tx| -> Result<()> {
            let name = crate::base::Name::parse("more").unwrap();
            for _ in 2..1000 {
                create_key(tx, tx.org(), user, user, KeySettings::full(&name, false))?;
            }
            Ok(())
        };
        fixture.store.write_blocking(fixture.org, fill).unwrap();
        let first = rotated(&fixture, old[0].about.id, json!({})).unwrap();
        assert!(works(&fixture, &old[0]) && works(&fixture, &first));
        let second = || rotated(&fixture, old[1].about.id, json!({}));
        assert_eq!(second().err().unwrap().code(), "too_many_api_keys");
        revoked(&fixture, &old[0]).unwrap();
        assert!(works(&fixture, &second().unwrap()));
        assert_eq!(
            make(&fixture, &fixture.member, json!({"name": "b"})).err().unwrap().code(),
            "too_many_api_keys"
        );
        fixture.assert_sound();
    }

    #[test]
    fn the_event_says_halfway_whether_the_old_key_is_still_used() {
        let fixture = Fixture::new();
        let old = of_member(&fixture, json!({"name": "ci"}));
        let new = rotated(&fixture, old.about.id, json!({})).unwrap();
        fixture.pass_secs(11 * HOUR);
        let (id, used) = (old.about.id, fixture.store.clock().now());
        let note = move |tx: &mut Tx| record_key_usage(tx, &[(id, used)]);
        fixture.store.write_blocking(Id::NIL, note).unwrap();
        assert_eq!(swept(&fixture).len(), 0);
        fixture.pass_secs(HOUR);
        let event = swept(&fixture).remove(0);
        assert_eq!(event.event_type, EventType::ApiKeyExpiring);
        let payload = event.payload.0;
        assert_eq!(payload["replacedBy"], json!(new.about.id));
        assert_eq!(payload["lastUsedAt"], json!(used));
        assert_eq!(swept(&fixture).len(), 1);
        fixture.pass_secs(12 * HOUR);
        assert_eq!(swept(&fixture).len(), 2);
    }

    #[test]
    fn nobody_rotates_the_key_of_another_person() {
        let fixture = Fixture::new();
        let ben = of_member(&fixture, json!({"name": "ben's"}));
        let ada = make(&fixture, &fixture.owner, json!({"name": "ada's"})).unwrap();
        let (_, eve) = fixture.other_org("globex");
        let refused = |who: &Principal, key: &ApiKeyCreated| {
            let input = Fixture::input(json!({})).unwrap();
            fixture.write_as(who, rotate, key.about.id, input).err().unwrap()
        };
        // An owner sees and revokes it; its successor would let them act as Ben.
        let by_owner = refused(&fixture.owner, &ben);
        assert_eq!((by_owner.kind(), by_owner.code()), (Kind::Forbidden, "not_own_key"));
        for (who, key) in [(&fixture.member, &ada), (&eve, &ada), (&eve, &ben)] {
            assert_eq!(refused(who, key).kind(), Kind::NotFound);
        }
        assert_eq!(names(&fixture, &fixture.owner), ["ada's", "ben's"]);
    }
}
