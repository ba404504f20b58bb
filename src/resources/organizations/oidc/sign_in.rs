//! Beginning and finishing a sign-in with a provider.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calls::{self, TOTAL_SECS, failed};
use super::person::{Finished, finish_as};
use super::records::UsedAttempt;
use crate::api::{
    Calls, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op, public_url_required,
};
use crate::auth::ANYONE;
use crate::auth::oidc::{
    Discovery, Expected, IdClaims, OidcProvider, SignInAttempt, TokenProblem, check_id_token,
    key_id,
};
use crate::base::{Error, Issue, Kind, Result, Text, Time};
use crate::store::{Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// A provider with which people sign in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignInProvider")]
struct ProviderInfo {
    /// Its name in paths and rules.
    name: String,
    /// What people are shown.
    label: String,
    /// Its issuer identifier.
    issuer: String,
}

impl Output for ProviderInfo {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A sign-in to begin.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"provider": "keycloak", "returnTo": "/o/acme"}],
))]
#[schemars(rename = "NewProviderSignIn")]
pub(super) struct NewSignIn {
    /// The name of the provider.
    pub provider: Text<1, 32>,
    /// Whether to link an account of the provider to an account that one is signed in to, not to sign in.
    pub link: Option<bool>,
    /// Whether the provider is asked to let nobody through who does not sign in again.
    pub again: Option<bool>,
    /// A path of this server, which is returned at the end.
    pub return_to: Option<Text<1, 1000>>,
}

impl Input for NewSignIn {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.return_to.as_ref().is_some_and(|path| !is_local(path)) {
            issues.push(Issue::new("returnTo", "must be a path of this server"));
        }
    }
}

/// Whether it is a path of this server, which no browser takes for a URL of another.
fn is_local(path: &str) -> bool {
    let rest = path.strip_prefix('/').unwrap_or("/");
    !rest.starts_with(['/', '\\']) && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A sign-in that was begun.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ProviderSignIn")]
pub(super) struct BegunSignIn {
    /// Where the person signs in at the provider.
    pub url: String,
    /// What the browser keeps to itself until the provider has led it back.
    pub attempt: String,
    pub expires_at: Time,
}

impl Output for BegunSignIn {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The answer of a provider, with which it led the browser back.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"provider": "keycloak", "attempt": "the-attempt", "state": "the-state",
        "code": "the-code"}],
))]
#[schemars(rename = "ProviderAnswer")]
pub(super) struct ProviderAnswer {
    /// The name of the provider to whose path of the redirect URI the browser was led back.
    pub provider: Text<1, 32>,
    /// The attempt that the browser kept.
    pub attempt: Text<1, 4000>,
    /// What the provider sends back as `state`.
    pub state: Text<0, 200>,
    /// The code that stands for the sign-in; none if there was none.
    pub code: Option<Text<1, 8000>>,
    /// The issuer (RFC 9207).
    pub iss: Option<Text<0, 2000>>,
    /// Why there is no code.
    pub error: Option<Text<0, 200>>,
}

impl Input for ProviderAnswer {}

// ── Operations ───────────────────────────────────────────────────────────────

/// A year in seconds: with a `max_age` providers must say when the person signed in there (`auth_time`), and
/// with so long a one nobody is asked for it.
const ANY_AGE: &str = "31536000";

fn list(_: &View, req: &Req) -> Result<Page<ProviderInfo>> {
    let info = |provider: &OidcProvider| ProviderInfo {
        name: provider.name.clone(),
        label: provider.label.clone(),
        issuer: provider.issuer.clone(),
    };
    let items = req.server.oidc.providers().iter().map(info).collect();
    Ok(Page { items, next: None })
}

/// The error of a run that is discarded, since an answer is pending.
pub(super) fn pending() -> Error {
    Error::internal("the answer of a provider is pending")
}

pub(super) fn begin(
    tx: &mut Tx,
    req: &Req<(), NewSignIn>,
    calls: &mut Calls,
) -> Result<Outcome<BegunSignIn>> {
    let (oidc, now) = (&req.server.oidc, tx.now());
    let provider = oidc.provider(&req.input.provider);
    let provider = provider.ok_or_else(|| Error::no_such("provider").at("provider"))?;
    if req.origin.link_base.is_empty() {
        return Err(public_url_required());
    }
    let discovery = calls::discovery(oidc, provider, now, calls)?.ok_or_else(pending)?;
    let mut attempt = SignInAttempt::new(tx.random(), &provider.name, now);
    let (base, name) = (&req.origin.link_base, &provider.name);
    attempt.redirect_uri = format!("{base}/sign-in/oidc/{name}/callback");
    attempt.link = req.input.link.unwrap_or_default();
    attempt.again = req.input.again.unwrap_or_default();
    attempt.return_to = req.input.return_to.as_ref().map_or("/".into(), ToString::to_string);
    Ok(Outcome::Done(BegunSignIn {
        url: authorization_url(tx, provider, &discovery, &attempt),
        attempt: attempt.sign(tx.keys()),
        expires_at: attempt.expires_at(),
    }))
}

fn authorization_url(
    tx: &Tx,
    provider: &OidcProvider,
    discovery: &Discovery,
    attempt: &SignInAttempt,
) -> String {
    let endpoint = &discovery.authorization_endpoint;
    // Some providers refuse `prompt=login`, which means the same as 0.
    let max_age = if attempt.again { "0" } else { ANY_AGE };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &provider.client_id)
        .append_pair("redirect_uri", &attempt.redirect_uri)
        .append_pair("scope", "openid email profile")
        .append_pair("state", &attempt.state(tx.keys()))
        .append_pair("nonce", &attempt.nonce(tx.keys()))
        .append_pair("code_challenge", &attempt.challenge(tx.keys()))
        .append_pair("code_challenge_method", "S256")
        .append_pair("max_age", max_age);
    let separator = if endpoint.contains('?') { '&' } else { '?' };
    format!("{endpoint}{separator}{}", query.finish())
}

pub(super) fn finish(
    tx: &mut Tx,
    req: &Req<(), ProviderAnswer>,
    calls: &mut Calls,
) -> Result<Outcome<Finished>> {
    let attempt = read_attempt(tx, &req.input)?;
    let provider = req.server.oidc.provider(&attempt.provider).ok_or_else(stale)?;
    let discovery = calls::discovery(&req.server.oidc, provider, tx.now(), calls)?;
    let known = (provider, &*discovery.ok_or_else(pending)?);
    // Before it is recorded: what does not get as far as the provider writes no row.
    let code = read_code(known, &req.input)?;
    let claims = claims(tx, req, (known, &attempt, code), calls);
    // Also one that failed: it would ask the provider again and again.
    tx.insert(&UsedAttempt { attempt: attempt.hash(), used_at: tx.now() })?;
    let claims = match claims {
        Ok(claims) => claims,
        Err(refusal) => {
            if refusal.kind() == Kind::Upstream {
                req.server.oidc.log_failure(&provider.name, tx.now(), &refusal);
            }
            return Ok(Outcome::Refused(refusal));
        }
    };
    finish_as(tx, (&req.server.oidc, provider, &attempt), claims, &req.origin)
}

fn stale() -> Error {
    Error::conflict(
        "sign_in_expired",
        "this sign-in was begun in another browser, is over already, or took longer than ten \
         minutes; begin again",
    )
}

/// Returns the attempt that an answer is of: one of this browser and this provider, which knows what only the
/// answer names besides, and which was not used before.
fn read_attempt(tx: &Tx, answer: &ProviderAnswer) -> Result<SignInAttempt> {
    let read = SignInAttempt::read(&answer.attempt, tx.keys(), tx.now());
    let attempt = read.ok_or_else(stale)?;
    let state = attempt.state(tx.keys());
    // Hashes are compared in constant time.
    let is_it = blake3::hash(state.as_bytes()) == blake3::hash(answer.state.as_bytes());
    let is_of_provider = attempt.provider == answer.provider.as_str();
    if !is_it || !is_of_provider || tx.get::<UsedAttempt>(&attempt.hash())?.is_some() {
        return Err(stale());
    }
    Ok(attempt)
}

/// Returns the code of an answer, which must be of this provider.
fn read_code<'a>(
    (provider, discovery): (&OidcProvider, &Discovery),
    answer: &'a ProviderAnswer,
) -> Result<&'a str> {
    let is_of_issuer = match &answer.iss {
        Some(iss) => iss.as_str() == provider.issuer,
        None => !discovery.answers_with_issuer,
    };
    if !is_of_issuer {
        return Err(Error::forbidden(
            "sign_in_refused",
            "the answer is of another provider than was asked; begin again",
        ));
    }
    answer.code.as_deref().ok_or_else(|| {
        Error::forbidden(
            "sign_in_refused",
            match answer.error.as_deref() {
                Some("access_denied") => "the provider did not let you in, or you cancelled it",
                _ => "the provider led back without a code; begin again",
            },
        )
    })
}

/// What the provider says of the person.
fn claims(
    tx: &Tx,
    req: &Req<(), ProviderAnswer>,
    (known, attempt, code): ((&OidcProvider, &Discovery), &SignInAttempt, &str),
    calls: &mut Calls,
) -> Result<IdClaims> {
    let (oidc, now, provider) = (&req.server.oidc, tx.now(), known.0);
    let token = calls::id_token(known, attempt, code, tx.keys(), calls)?.ok_or_else(pending)?;
    let kid = key_id(&token);
    let keys = calls::keys(oidc, known, kid.as_deref(), now, calls)?.ok_or_else(pending)?;
    let nonce = attempt.nonce(tx.keys());
    let (issuer, client_id) = (&*provider.issuer, &*provider.client_id);
    let expected = Expected { issuer, client_id, nonce: &nonce, now };
    let claims = check_id_token(&token, &keys, &expected).map_err(|problem| match problem {
        TokenProblem::UnknownKey => failed(provider, "its token is signed with an unknown key"),
        TokenProblem::Wrong(why) => failed(provider, format!("its token is refused: {why}")),
    })?;
    // To be checked by who asks for it (OpenID Connect Core 1.0, 3.1.3.7, step 13).
    if attempt.again && claims.is_proved_before(attempt.begun_at()) {
        return Err(Error::forbidden(
            "sign_in_refused",
            format!(
                "{} has let you through without asking you to sign in again; sign out there, and \
                 begin again. If that does not help, its clock is wrong: tell the operator",
                provider.label
            ),
        ));
    }
    Ok(claims)
}

fn routes() -> Vec<Route> {
    let (begin, finish) = (op::calling(TOTAL_SECS, begin), op::calling(TOTAL_SECS, finish));
    vec![
        Route::get("/auth/providers", ANYONE, "sign_in_provider.list", op::list(list))
            .about("List the providers of sign-ins"),
        Route::post("/auth/providers/begin", ANYONE, "provider_session.begin", op::write(begin))
            .no_replay()
            .about("Begin to sign in with a provider"),
        Route::post(
            "/auth/providers/finish",
            ANYONE,
            "provider_session.sign_in",
            op::write(finish),
        )
        .no_replay()
        .about("Sign in with a provider's answer"),
    ]
}
