//! Ends the sessions of who has signed out at a provider, or was disabled there
//! (OpenID Connect Back-Channel Logout 1.0).

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calls::{self, TOTAL_SECS};
use super::records::UsedAttempt;
use super::sign_in::pending;
use crate::api::{Calls, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::oidc::{LogoutClaims, OidcProvider, TokenProblem, check_logout_token, key_id};
use crate::auth::{
    ANYONE, PROVIDER_SESSIONS_BY_SID, PROVIDER_SESSIONS_BY_SUBJECT, ProviderSession, Session, User,
};
use crate::base::{Error, Id, Result, Text};
use crate::resources::organizations::sign_in_link::{subject_detail, subject_hash};
use crate::store::{Order, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// What a provider says of who has signed out there.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"provider": "keycloak", "logoutToken": "the-token"}],
))]
pub(super) struct ProviderLogout {
    /// The name of the provider.
    pub provider: Text<1, 32>,
    /// The logout token, signed by the provider.
    pub logout_token: Text<1, 16000>,
}

impl Input for ProviderLogout {}

/// The sessions that a provider has ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "EndedProviderSessions")]
pub(super) struct EndedSessions {
    /// How many they were; none is no error.
    pub ended: usize,
    #[serde(skip)]
    about: Option<ResourceRef>,
    #[serde(skip)]
    actor: Option<Id<User>>,
}

impl Output for EndedSessions {
    fn resource(&self) -> Option<ResourceRef> {
        self.about.clone()
    }

    fn actor(&self) -> Option<Id<User>> {
        self.actor
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn end(
    tx: &mut Tx,
    req: &Req<(), ProviderLogout>,
    calls: &mut Calls,
) -> Result<Outcome<EndedSessions>> {
    let provider = req.server.oidc.provider(&req.input.provider);
    let provider = provider.ok_or_else(|| Error::no_such("provider").at("provider"))?;
    let said = claims(tx, req, provider, calls)?;
    let used = UsedAttempt {
        attempt: subject_hash(&provider.issuer, &format!("logout {}", said.jti)),
        used_at: tx.now(),
    };
    if tx.get::<UsedAttempt>(&used.attempt)?.is_some() {
        return Err(refused("it was used before"));
    }
    tx.insert(&used)?;
    let sessions = sessions_of(&tx.view(), provider, &said)?;
    sessions.iter().try_for_each(|session| tx.remove(session))?;
    let detail = match (&said.subject, &said.sid) {
        (Some(subject), _) => subject_detail(&provider.name, subject),
        (None, sid) => format!("{}: session {}", provider.name, sid.as_deref().unwrap_or_default()),
    };
    let about = sessions.first().and_then(|session| ResourceRef::of("session", session.id));
    Ok(Outcome::Done(EndedSessions {
        ended: sessions.len(),
        about: about.map(|about| about.with_detail(detail)),
        actor: sessions.first().map(|session| session.user),
    }))
}

fn refused(why: &str) -> Error {
    Error::invalid_at("logoutToken", format!("is refused: {why}"))
}

/// What the token says, which must be of this provider.
fn claims(
    tx: &Tx,
    req: &Req<(), ProviderLogout>,
    provider: &OidcProvider,
    calls: &mut Calls,
) -> Result<LogoutClaims> {
    let (oidc, now, token) = (&req.server.oidc, tx.now(), &req.input.logout_token);
    let discovery = calls::discovery(oidc, provider, now, calls)?.ok_or_else(pending)?;
    let kid = key_id(token);
    let keys = calls::keys(oidc, (provider, &discovery), kid.as_deref(), now, calls)?;
    let keys = keys.ok_or_else(pending)?;
    let of = (&*provider.issuer, &*provider.client_id);
    check_logout_token(token, &keys, of, now).map_err(|problem| match problem {
        TokenProblem::UnknownKey => refused("it is signed with an unknown key"),
        TokenProblem::Wrong(why) => refused(why),
    })
}

/// The valid sessions that a logout is about: those of the person or, if it names a session at the provider,
/// those that were begun in it, and those of which that is not known.
fn sessions_of(view: &View, provider: &OidcProvider, said: &LogoutClaims) -> Result<Vec<Session>> {
    let hash = |text: &str| subject_hash(&provider.issuer, text);
    let (subject, sid) = (said.subject.as_deref().map(hash), said.sid.as_deref().map(hash));
    let mut sessions = Vec::new();
    let collect = |begun: ProviderSession| {
        if sid.is_none() || begun.sid.is_none() || begun.sid == sid {
            sessions.extend(valid(view, &begun)?);
        }
        Ok(ControlFlow::Continue(()))
    };
    match (subject, sid) {
        (Some(subject), _) => {
            view.for_each(&PROVIDER_SESSIONS_BY_SUBJECT, &subject, Order::Ascending, collect)?;
        }
        (None, Some(sid)) => {
            view.for_each(&PROVIDER_SESSIONS_BY_SID, &sid, Order::Ascending, collect)?;
        }
        (None, None) => {}
    }
    Ok(sessions)
}

/// The session, if it has not ended: a person has at most a hundred of these.
fn valid(view: &View, begun: &ProviderSession) -> Result<Option<Session>> {
    let Some(session) = view.get::<Session>(&begun.session)? else { return Ok(None) };
    let user = view.get::<User>(&session.user)?;
    let is_valid = session.expires_at > view.now() && user.is_some_and(|user| session.is_of(&user));
    Ok(is_valid.then_some(session))
}

fn routes() -> Vec<Route> {
    let end = op::calling(TOTAL_SECS, end);
    vec![
        Route::post("/auth/providers/end", ANYONE, "provider_session.end", op::write(end))
            .no_replay()
            .about("End the sessions of a provider's person"),
    ]
}
