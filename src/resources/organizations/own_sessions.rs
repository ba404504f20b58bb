//! The sessions of the signed-in user: seeing and ending them
//! (reference: identity-and-rights, "Sessions").

use schemars::JsonSchema;
use serde::Serialize;

use super::device_request::DeviceSession;
use super::sessions::{end_other_sessions, require_session};
use crate::api::{Deleted, Empty, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{SESSION, SESSIONS_BY_USER, Session, User};
use crate::base::{Id, Name, Result, Time};
use crate::store::{Order, Page, Record, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

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
        Ok(OwnSession {
            id: session.id,
            current: session.id == current,
            created_at: session.created_at,
            expires_at: session.expires_at,
            device: device
                .map(|DeviceSession { client, address, .. }| SessionDevice { client, address }),
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
    use super::super::tests::{identity_of, session, signed_in, with_password};
    use super::*;
    use crate::auth::SESSION_SECS;
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
}
