//! The second factor of the signed-in person: turning it on and off
//! (reference: identity-and-rights, "Second factor").
//!
//! The secret is answered once, when it is begun, and the recovery codes once, when it is confirmed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::break_glass;
use super::sessions::{end_other_sessions, is_unchanged, require_session};
use crate::api::op;
use crate::api::{
    Attempt, Empty, HashPlan, Input, Outcome, Output, Req, Resource, ResourceRef, Route,
};
use crate::auth::passwords::{HashRequest, HashResult};
use crate::auth::{SESSION, SecondFactor, User, begin_second_factor, second_factor_of, totp};
use crate::base::{Error, Id, QrCode, Result, Time};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// The second factor of the signed-in person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SecondFactor")]
struct SecondFactorInfo {
    /// Since when signing in takes a code, too; null if it does not.
    on_since: Option<Time>,
    /// The recovery codes that were not used yet.
    recovery_codes_left: usize,
    /// When an admin or the server's operator has reset it; null once another was begun.
    reset_at: Option<Time>,
}

impl Output for SecondFactorInfo {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A second factor that was begun. It is off until a code confirms it.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SecondFactorBegun {
    /// The secret in base 32, to type into an app. It is shown only here.
    secret: String,
    /// The same as a URI, which opens an app on the device that has one.
    otpauth_uri: String,
    /// The URI as a QR code: a document in SVG.
    qr_svg: String,
    /// Until when it can be confirmed.
    expires_at: Time,
}

impl Output for SecondFactorBegun {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A second factor that was turned on.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SecondFactorOn {
    /// Codes for who has lost the app, each of which works once. They are shown only here.
    recovery_codes: Vec<String>,
}

impl Output for SecondFactorOn {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The password, once more.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"password": "seven green bottles"}]))]
struct BeginSecondFactor {
    /// The person's password.
    password: String,
}
impl Input for BeginSecondFactor {}

/// The first code of the app.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"code": "755224"}]))]
struct ConfirmSecondFactor {
    /// The code that the app shows.
    code: String,
}
impl Input for ConfirmSecondFactor {}

/// What turning it off takes.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"password": "seven green bottles", "code": "755224"}]))]
struct EndSecondFactor {
    /// The person's password.
    password: String,
    /// The code that the app shows, or a recovery code.
    code: String,
}
impl Input for EndSecondFactor {}

// ── Operations ───────────────────────────────────────────────────────────────

fn get(view: &View, req: &Req) -> Result<SecondFactorInfo> {
    let factor = view.get::<SecondFactor>(&req.identity().user)?;
    let factor = factor.as_ref();
    Ok(SecondFactorInfo {
        on_since: factor.and_then(|factor| factor.on_since),
        recovery_codes_left: factor.map_or(0, SecondFactor::recovery_codes_left),
        reset_at: factor.and_then(|factor| factor.reset_at),
    })
}

/// The plan of a request of the signed-in person. The session proves who it is, so only attempts from the
/// same address count: otherwise others could prevent it by signing in with a wrong password.
pub(super) fn plan<P, I>(
    view: &View,
    req: &Req<P, I>,
    password: Option<&String>,
) -> Result<HashPlan> {
    let user: User = view.fetch(&req.identity().user)?;
    let verify = password.map(|password| (password.clone(), user.password));
    let attempt = Some(Attempt::Email(user.email, true));
    Ok(HashPlan { hashing: HashRequest { verify, make: None }, attempt })
}

/// Requires the password that was verified.
pub(super) fn require_password(user: &User, hashed: &HashResult) -> Result<()> {
    if is_unchanged(user, hashed) {
        return Ok(());
    }
    Err(Error::forbidden("wrong_password", "the password is wrong"))
}

fn prepare_begin(view: &View, req: &Req<(), BeginSecondFactor>) -> Result<HashPlan> {
    plan(view, req, Some(&req.input.password))
}

fn begin(
    tx: &mut Tx,
    req: &Req<(), BeginSecondFactor>,
    hashed: &HashResult,
) -> Result<(SecondFactorBegun, Id<User>)> {
    let user: User = tx.fetch(&req.identity().user)?;
    require_password(&user, hashed)?;
    if second_factor_of(&tx.view(), user.id)?.is_some() {
        return Err(Error::conflict(
            "second_factor_exists",
            "you have a second factor; turn it off before you begin another",
        ));
    }
    let begun = begin_second_factor(tx, user.id)?;
    let uri = totp::uri(issuer(&req.origin.link_base), &user.email, &begun.secret);
    let qr = QrCode::of(&uri).ok_or_else(|| Error::internal("the URI is too long for a code"))?;
    let answer = SecondFactorBegun {
        secret: totp::base32(&begun.secret),
        qr_svg: qr.svg(),
        otpauth_uri: uri,
        expires_at: begun.expires_at,
    };
    Ok((answer, user.id))
}

/// The name under which an app keeps the secret: the server's host, if that is known, without its port.
/// The colon of one, or of an IPv6 address, would end the name: some apps decode it before.
fn issuer(link_base: &str) -> &str {
    let host = link_base.split_once("://").map_or("", |(_, host)| host);
    let end = host.rfind(']').map_or_else(|| host.find(':'), |bracket| Some(bracket + 1));
    let host = &host[..end.unwrap_or(host.len())];
    if host.is_empty() || host.contains(':') { "Roadstead" } else { host }
}

fn prepare_confirm(view: &View, req: &Req<(), ConfirmSecondFactor>) -> Result<HashPlan> {
    plan(view, req, None)
}

/// Turns it on, and ends the other sessions, which may have begun without it.
fn confirm(
    tx: &mut Tx,
    req: &Req<(), ConfirmSecondFactor>,
    _: &HashResult,
) -> Result<Outcome<(SecondFactorOn, Id<User>)>> {
    let id = req.identity().user;
    let begun = tx.get::<SecondFactor>(&id)?.filter(|factor| factor.is_begun(tx.now()));
    let begun = begun.ok_or_else(|| {
        Error::conflict(
            "second_factor_not_begun",
            "there is no second factor to confirm, or it was begun more than 15 minutes ago; begin \
             with POST /auth/second-factor",
        )
    })?;
    if let Some(refusal) = begun.use_code(tx, &req.input.code)? {
        return Ok(Outcome::Refused(refusal.error()));
    }
    let recovery_codes = tx.fetch::<SecondFactor>(&id)?.turn_on(tx)?;
    let old: User = tx.fetch(&id)?;
    let new = end_other_sessions(tx, old.clone(), require_session(req.identity()))?;
    tx.replace(&old, &new)?;
    Ok(Outcome::Done((SecondFactorOn { recovery_codes }, id)))
}

fn prepare_end(view: &View, req: &Req<(), EndSecondFactor>) -> Result<HashPlan> {
    plan(view, req, Some(&req.input.password))
}

fn end(
    tx: &mut Tx,
    req: &Req<(), EndSecondFactor>,
    hashed: &HashResult,
) -> Result<Outcome<(Empty, Id<User>)>> {
    let user: User = tx.fetch(&req.identity().user)?;
    require_password(&user, hashed)?;
    break_glass::require_none(&tx.view(), user.id)?;
    let factor = second_factor_of(&tx.view(), user.id)?.ok_or_else(|| {
        Error::conflict("second_factor_off", "you have no second factor that is on")
    })?;
    if let Some(refusal) = factor.use_code(tx, &req.input.code)? {
        return Ok(Outcome::Refused(refusal.error()));
    }
    let factor: SecondFactor = tx.fetch(&user.id)?;
    tx.remove(&factor)?;
    Ok(Outcome::Done((Empty {}, user.id)))
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/auth/second-factor", SESSION, "second_factor.get", op::read(get))
            .about("Get your second factor"),
        Route::post(
            "/auth/second-factor",
            SESSION,
            "second_factor.begin",
            op::hash(prepare_begin, begin),
        )
        .no_replay()
        .about("Begin a second factor"),
        Route::post(
            "/auth/second-factor/confirm",
            SESSION,
            "second_factor.confirm",
            op::hash_counting(prepare_confirm, confirm),
        )
        .no_replay()
        .about("Turn your second factor on"),
        Route::post(
            "/auth/second-factor/off",
            SESSION,
            "second_factor.end",
            op::hash_counting(prepare_end, end),
        )
        .no_replay()
        .about("Turn your second factor off"),
    ]
}

#[cfg(test)]
pub mod tests;
