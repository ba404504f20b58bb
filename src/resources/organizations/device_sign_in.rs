//! `roadstead login` by the browser: a code is shown in the terminal, and somebody who is signed in enters it
//! here (RFC 8628; reference: identity-and-rights, "Signing in on the command line").
//!
//! What the command line gets is a session of that person: it can do no more than they can, and is listed
//! and ended as their others are. Entering a code counts as an attempt to sign in: who tries them all would
//! let somebody else's command line into an account of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device_request::{
    self, DeviceRequest, DeviceSession, INTERVAL_SECS, fetch_open, is_of_device, shown,
};
use super::sessions::{SessionInfo, insert_session_until, require_session, to_info};
use super::tokens::{hash_of, new_token};
use crate::api::{
    Attempt, Empty, HashPlan, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::passwords::{HashRequest, HashResult};
use crate::auth::{ANYONE, NEVER, ProviderSession, SESSION, Session, User, note_proof};
use crate::base::{Error, Id, Kind, Name, Result, Text, Time};
use crate::store::{TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<DeviceRequest>(), TableInfo::of::<DeviceSession>()],
    ..Resource::EMPTY
};

// ── What callers send and see ────────────────────────────────────────────────

/// A command line that asks to be let in.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"client": "roadstead on ada-laptop"}]))]
struct NewDeviceSignIn {
    /// What it calls itself, which the person is shown.
    client: Name,
}
impl Input for NewDeviceSignIn {}

/// What a command line shows and keeps while it waits.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeviceSignInBegun {
    /// With what it asks whether it was let in. It is shown only here.
    device_code: String,
    /// What the person enters.
    user_code: String,
    /// The page to enter it on; a path if the server does not know its own address.
    verification_uri: String,
    expires_at: Time,
    /// The seconds to wait between two questions.
    interval: u32,
}

impl Output for DeviceSignInBegun {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A question whether a command line was let in.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"deviceCode": "the-code-of-the-command-line"}]))]
struct DeviceSignInPoll {
    /// What it was given when it asked to be let in.
    device_code: Text<1, 200>,
}
impl Input for DeviceSignInPoll {}

/// A command line that waits to be let in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeviceSignIn {
    /// The code that it shows.
    user_code: String,
    /// What it calls itself, which anybody may make up.
    client: Name,
    /// The IP address that it asked from.
    address: String,
    created_at: Time,
    expires_at: Time,
}

impl Output for DeviceSignIn {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn begin(tx: &mut Tx, req: &Req<(), NewDeviceSignIn>) -> Result<DeviceSignInBegun> {
    let device_code = new_token(tx);
    let request = device_request::open(tx, &device_code, &req.input.client, req.origin.address)?;
    Ok(DeviceSignInBegun {
        device_code,
        user_code: shown(&request.user_code),
        verification_uri: format!("{}/device", req.origin.link_base),
        expires_at: request.expires_at,
        interval: INTERVAL_SECS,
    })
}

/// A code of 256 bits is not guessed: asking with one counts as no attempt to sign in.
fn prepare(_: &View, _: &Req<(), DeviceSignInPoll>) -> Result<HashPlan> {
    Ok(HashPlan { hashing: HashRequest::default(), attempt: None })
}

fn finish(
    tx: &mut Tx,
    req: &Req<(), DeviceSignInPoll>,
    _: &HashResult,
) -> Result<Outcome<(SessionInfo, Id<User>)>> {
    let found = tx.get::<DeviceRequest>(&hash_of(&req.input.device_code))?;
    let found = found.filter(|request| request.expires_at > tx.now());
    let request = found.ok_or_else(expired)?;
    if request.denied {
        let message = "the person who entered the code did not let this command line in";
        return Err(Error::new(Kind::Invalid, "access_denied", message));
    }
    let Some(id) = request.user else { return request.note_poll(tx).map(Outcome::Refused) };
    let user: User = tx.fetch(&id)?;
    // What ends all sessions of a person ends this one before it has begun.
    if user.session_generation != request.generation || user.is_service() {
        return Err(expired());
    }
    if request.provider.is_some() && !has_session(&tx.view(), &request)? {
        return Err(expired());
    }
    let until = request.until.filter(|until| *until > tx.now()).ok_or_else(expired)?;
    tx.remove(&request)?;
    let session = insert_session_until(tx, &user, until)?;
    if let Some(provider) = request.provider {
        let DeviceRequest { subject, sid, .. } = request;
        tx.insert(&ProviderSession { session: session.id, provider, subject, sid })?;
    }
    // The proof of who let it in is theirs: a code may have been entered for somebody else.
    note_proof(tx, session.id, NEVER)?;
    let DeviceRequest { client, address, .. } = request;
    tx.insert(&DeviceSession { session: session.id, client, address })?;
    Ok(Outcome::Done((to_info(&tx.view(), &session, &user)?, user.id)))
}

/// Whether the session that has let it in is still there: who has signed out at the provider has ended it.
fn has_session(view: &View, request: &DeviceRequest) -> Result<bool> {
    request.session.map_or(Ok(false), |id| view.has::<Session>(&id))
}

fn expired() -> Error {
    Error::new(
        Kind::Invalid,
        "expired_token",
        "the code is not known, was used, or is older than ten minutes; begin again",
    )
}

fn preview(tx: &mut Tx, req: &Req<String>) -> Result<DeviceSignIn> {
    let request = fetch_open(&tx.view(), &req.params)?;
    Ok(DeviceSignIn {
        user_code: shown(&request.user_code),
        client: request.client,
        address: request.address,
        created_at: request.created_at,
        expires_at: request.expires_at,
    })
}

fn approve(tx: &mut Tx, req: &Req<String>) -> Result<Empty> {
    let request = fetch_open(&tx.view(), &req.params)?;
    let user: User = tx.fetch(&req.identity().user)?;
    if is_of_device(&tx.view(), &req.identity().credential)? {
        return Err(Error::forbidden(
            "browser_required",
            "a command line lets no other one in; enter the code in a browser",
        ));
    }
    let session: Session = tx.fetch(&require_session(req.identity()))?;
    let begun = tx.get::<ProviderSession>(&session.id)?;
    let approved = DeviceRequest {
        user: Some(user.id),
        generation: user.session_generation,
        subject: begun.as_ref().and_then(|begun| begun.subject),
        sid: begun.as_ref().and_then(|begun| begun.sid),
        session: begun.as_ref().map(|begun| begun.session),
        provider: begun.map(|begun| begun.provider),
        until: Some(session.expires_at),
        ..request.clone()
    };
    tx.replace(&request, &approved)?;
    Ok(Empty {})
}

fn deny(tx: &mut Tx, req: &Req<String>) -> Result<Empty> {
    let request = fetch_open(&tx.view(), &req.params)?;
    tx.replace(&request, &DeviceRequest { denied: true, ..request.clone() })?;
    Ok(Empty {})
}

fn prepare_code(view: &View, req: &Req<String>) -> Result<HashPlan> {
    let user: User = view.fetch(&req.identity().user)?;
    Ok(HashPlan { hashing: HashRequest::default(), attempt: Some(Attempt::Code(user.email)) })
}

fn routes() -> Vec<Route> {
    vec![
        Route::post("/auth/device-sign-ins", ANYONE, "device_sign_in.begin", op::write(begin))
            .no_replay()
            .about("Ask to let a command line in"),
        Route::post(
            "/auth/device-sign-ins/finish",
            ANYONE,
            "device_sign_in.finish",
            op::hash_counting(prepare, finish),
        )
        .no_replay()
        .about("Get the session of a command line"),
        Route::post(
            "/auth/device-sign-ins/{userCode}/preview",
            SESSION,
            "device_sign_in.preview",
            op::hash(prepare_code, |tx, req, _| Ok((preview(tx, req)?, req.identity().user))),
        )
        .no_replay()
        .unaudited()
        .about("Get a command line that waits"),
        Route::post(
            "/auth/device-sign-ins/{userCode}/approve",
            SESSION,
            "device_sign_in.approve",
            op::hash(prepare_code, |tx, req, _| Ok((approve(tx, req)?, req.identity().user))),
        )
        .no_replay()
        .asks_again()
        .about("Let a command line in"),
        Route::post(
            "/auth/device-sign-ins/{userCode}/deny",
            SESSION,
            "device_sign_in.deny",
            op::hash(prepare_code, |tx, req, _| Ok((deny(tx, req)?, req.identity().user))),
        )
        .no_replay()
        .about("Refuse to let a command line in"),
    ]
}

#[cfg(test)]
mod tests;
