//! The sessions of the signed-in user: seeing and ending them
//! (reference: identity-and-rights, "Sessions").

use schemars::JsonSchema;
use serde::Serialize;

use super::device_request::DeviceSession;
use super::session_use::SessionUse;
use super::sessions::{end_other_sessions, require_session};
use crate::api::{Deleted, Empty, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ProviderSession, SESSION, SESSIONS_BY_USER, Session, User};
use crate::base::{Id, Name, Result, Time};
use crate::store::{Order, Page, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<SessionUse>()], ..Resource::EMPTY };

// ── What callers see ─────────────────────────────────────────────────────────

/// A session of the signed-in user.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OwnSession {
    id: Id<Session>,
    /// Whether it is the session of this request.
    current: bool,
    /// When the user signed in.
    created_at: Time,
    expires_at: Time,
    /// The command line that a browser has let in; null if the user signed in directly.
    device: Option<SessionDevice>,
    /// The name of the provider with which the user, or who let the command line in, signed in; null if with
    /// a password.
    provider: Option<String>,
    /// The last use, as of five minutes ago at most; null in the first seconds.
    last_use: Option<LastUse>,
}

/// A use of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionUse")]
struct LastUse {
    /// When it was used.
    at: Time,
    /// The IP address that it was used from.
    address: String,
    /// A short name of the program, such as `Firefox on Linux`, which anybody may make up; null if it did not
    /// say one.
    client: Option<String>,
}

/// The command line whose session it is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SessionDevice {
    /// What it called itself when it asked, which anybody may make up.
    client: Name,
    /// The IP address that it asked from.
    address: String,
}

impl Output for OwnSession {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<OwnSession>> {
    let current = require_session(req.identity());
    let user: User = view.fetch(&req.identity().user)?;
    let of = (user.id, user.session_generation);
    let is_valid = |session: &Session| session.expires_at > view.now();
    let page = view.page(&SESSIONS_BY_USER, &of, Order::Descending, &req.page, is_valid)?;
    page.try_map(|session| {
        let device = view.get::<DeviceSession>(&session.id)?;
        let last_use = view.get::<SessionUse>(&session.id)?;
        Ok(OwnSession {
            id: session.id,
            current: session.id == current,
            created_at: session.created_at,
            expires_at: session.expires_at,
            device: device
                .map(|DeviceSession { client, address, .. }| SessionDevice { client, address }),
            provider: view.get::<ProviderSession>(&session.id)?.map(|begun| begun.provider),
            last_use: last_use.map(|SessionUse { at, address, client, .. }| LastUse {
                at,
                address,
                client,
            }),
        })
    })
}

/// Ends one of the user's sessions, the current one included. Those of others do not exist here.
fn end(tx: &mut Tx, req: &Req<Id<Session>>) -> Result<Deleted> {
    let user: User = tx.fetch(&req.identity().user)?;
    let session: Session = tx.fetch(&req.params)?;
    if !session.is_of(&user) || session.expires_at <= tx.now() {
        return Err(Session::missing(&req.params));
    }
    tx.remove(&session)?;
    Ok(Deleted::new(session.id))
}

fn end_others(tx: &mut Tx, req: &Req) -> Result<Empty> {
    let old: User = tx.fetch(&req.identity().user)?;
    let new = end_other_sessions(tx, old.clone(), require_session(req.identity()))?;
    tx.replace(&old, &new)?;
    Ok(Empty {})
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/auth/sessions", SESSION, "session.list", op::list(list))
            .about("List your sessions, newest first"),
        Route::delete("/auth/sessions", SESSION, "session.end_others", op::write(end_others))
            .about("End all your other sessions"),
        Route::delete("/auth/sessions/{sessionId}", SESSION, "session.end", op::write(end))
            .about("End one of your sessions"),
    ]
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::session_use::record_session_usage;
    use super::super::sessions::end_sessions_before;
    use super::super::tests::{identity_of, session, signed_in, with_password};
    use super::*;
    use crate::auth::{SESSION_SECS, UsedFrom};
    use crate::base::Kind;
    use crate::resources::testing::Fixture;

    #[test]
    fn a_user_sees_and_ends_only_their_own_valid_sessions() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let ben = with_password(&fixture, &fixture.member);
        let first = session(&fixture.store, &ada);
        fixture.pass_secs(60);
        let second = session(&fixture.store, &ada);
        let bens = session(&fixture.store, &ben);
        let who = signed_in(&fixture.store, &second);
        let shown = |who: &_| fixture.read_as(who, list, (), ()).unwrap().items;
        let all = shown(&who);
        assert_eq!(all.iter().map(|one| one.current).collect::<Vec<_>>(), [true, false]);
        assert!(all[0].created_at > all[1].created_at);

        let other = shown(&signed_in(&fixture.store, &bens))[0].id;
        let refused = fixture.write_as(&who, end, other, ()).err().unwrap();
        assert_eq!(refused.kind(), Kind::NotFound);
        fixture.write_as(&who, end, all[1].id, ()).unwrap();
        assert!(identity_of(&fixture.store, &first).is_err());
        assert!(identity_of(&fixture.store, &bens).is_ok());
        assert_eq!(shown(&who).len(), 1);

        // One that has expired is neither shown nor ended, before the sweep deletes it.
        fixture.pass_secs(SESSION_SECS - 30);
        let third = session(&fixture.store, &ada);
        fixture.pass_secs(60);
        let who = signed_in(&fixture.store, &third);
        assert_eq!(shown(&who).len(), 1);
        let expired = fixture.write_as(&who, end, all[0].id, ()).err().unwrap();
        assert_eq!(expired.kind(), Kind::NotFound);
    }

    #[test]
    fn a_user_sees_how_a_session_began_and_where_it_was_used_last() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let who = signed_in(&fixture.store, &session(&fixture.store, &ada));
        let shown = || fixture.read_as(&who, list, (), ()).unwrap().items.remove(0);
        assert!(shown().provider.is_none() && shown().last_use.is_none());
        let (id, at) = (shown().id, fixture.store.clock().now());
        let note = move |tx: &mut Tx| {
            let (provider, subject, sid) = ("kc".into(), None, None);
            tx.insert(&ProviderSession { session: id, provider, subject, sid })?;
            let address = Ipv4Addr::new(192, 0, 2, 1).into();
            let from = UsedFrom { address, user_agent: Some("curl/8.5.0".into()) };
            record_session_usage(tx, &[(id, at, from)])
        };
        fixture.store.write_blocking(Id::NIL, note).unwrap();
        assert_eq!(shown().provider.as_deref(), Some("kc"));
        let used = shown().last_use.unwrap();
        let client = used.client.as_deref();
        assert_eq!((used.at, &*used.address, client), (at, "192.0.2.1", Some("curl 8.5.0")));
    }

    #[test]
    fn all_other_sessions_end_at_once() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let tokens = [(); 3].map(|()| session(&fixture.store, &ada));
        let who = signed_in(&fixture.store, &tokens[1]);
        fixture.write_as(&who, end_others, (), ()).unwrap();
        let is_valid = |token: &String| identity_of(&fixture.store, token).is_ok();
        assert_eq!(tokens.each_ref().map(is_valid), [false, true, false]);
        assert_eq!(fixture.read_as(&who, list, (), ()).unwrap().items.len(), 1);
    }

    #[test]
    fn those_begun_before_others_end_though_the_clock_was_set_back_in_between() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let before = session(&fixture.store, &ada);
        fixture.pass_secs(-3600);
        let first = Id::new(fixture.store.clock().new_id());
        let after = session(&fixture.store, &ada);
        end_sessions_before(&fixture.store, first).unwrap();
        let is_valid = |token: &String| identity_of(&fixture.store, token).is_ok();
        assert_eq!([&before, &after].map(is_valid), [false, true]);
        let who = signed_in(&fixture.store, &after);
        assert_eq!(fixture.read_as(&who, list, (), ()).unwrap().items.len(), 1);
    }
}
