//! What is asked of a provider: its documents, which are kept in memory, and the token of a code.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::api::Calls;
use crate::auth::oidc::{Discovery, KeySet, Oidc, OidcProvider, SignInAttempt};
use crate::base::{Error, Keys, Kind, Result, Time};
use crate::outside::{BodyLimit, Call, CallResult, Limits, Method, Response};
use crate::store::Lane;

/// The time of all calls of a sign-in together, in seconds.
pub(super) const TOTAL_SECS: u64 = 25;

const CALL_TIME: Duration = Duration::from_secs(10);

/// The largest answer. Documents of providers have some 10 KB.
const MAX_BYTES: usize = 256 * 1024;

/// The 502 of a provider that does not answer as it must.
pub(super) fn failed(provider: &OidcProvider, why: impl std::fmt::Display) -> Error {
    let message = format!("signing in with {} failed: {why}", provider.label);
    Error::new(Kind::Upstream, "sign_in_provider_failed", message)
}

/// What a provider publishes of itself. `None` while its answer is pending.
pub(super) fn discovery(
    oidc: &Oidc,
    provider: &OidcProvider,
    now: Time,
    calls: &mut Calls,
) -> Result<Option<Arc<Discovery>>> {
    if let Some(known) = oidc.discovery(&provider.name, now) {
        return Ok(Some(known));
    }
    let call = get(provider, provider.discovery_url());
    let Some(heard) = fetched(oidc, provider, now, calls, call)? else { return Ok(None) };
    let read = document(provider, heard).and_then(|answer| {
        Discovery::parse(&answer.body, &provider.issuer).map_err(|why| failed(provider, why))
    });
    match read {
        Ok(read) => {
            let read = Arc::new(read);
            oidc.keep_discovery(&provider.name, now, read.clone());
            Ok(Some(read))
        }
        Err(failure) => {
            oidc.keep_failure(&provider.name, now, failure.clone());
            Err(failure)
        }
    }
}

/// The keys of a provider, for a token that names this one. `None` while its answer is pending.
pub(super) fn keys(
    oidc: &Oidc,
    (provider, discovery): (&OidcProvider, &Discovery),
    kid: Option<&str>,
    now: Time,
    calls: &mut Calls,
) -> Result<Option<Arc<KeySet>>> {
    if let Some(known) = oidc.keys(&provider.name, kid, now) {
        return Ok(Some(known));
    }
    let call = get(provider, discovery.jwks_uri.clone());
    let Some(heard) = fetched(oidc, provider, now, calls, call)? else { return Ok(None) };
    let read = document(provider, heard)
        .and_then(|answer| KeySet::parse(&answer.body).map_err(|why| failed(provider, why)));
    match read {
        Ok(read) => {
            let read = Arc::new(read);
            oidc.keep_keys(&provider.name, now, read.clone());
            Ok(Some(read))
        }
        Err(failure) => {
            oidc.keep_failure(&provider.name, now, failure.clone());
            Err(failure)
        }
    }
}

/// The answer to a request for a document, once there is one. Requests that need one wait for each other, so
/// that a provider which signs many out at once is asked once.
///
/// # Errors
/// What another request has failed with a moment ago, unless this one has its answer already.
fn fetched(
    oidc: &Oidc,
    provider: &OidcProvider,
    now: Time,
    calls: &mut Calls,
    call: Call,
) -> Result<Option<CallResult>> {
    if let Some(heard) = calls.heard(&call) {
        return Ok(Some(heard));
    }
    if let Some(failure) = oidc.failure(&provider.name, now) {
        return Err(failure);
    }
    calls.take_turn(turn_of(provider));
    Ok(calls.send(call))
}

/// The turn of those who read the documents of a provider.
fn turn_of(provider: &OidcProvider) -> Lane {
    let hash = blake3::hash(format!("provider {}", provider.issuer).as_bytes());
    std::array::from_fn(|at| hash.as_bytes()[at])
}

/// The answer to a request for a token.
#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
    error: Option<String>,
}

/// Exchanges a code for the ID token of a person. `None` while the answer is pending.
pub(super) fn id_token(
    (provider, discovery): (&OidcProvider, &Discovery),
    attempt: &SignInAttempt,
    code: &str,
    keys: &Keys,
    calls: &mut Calls,
) -> Result<Option<String>> {
    let call = token_call((provider, discovery), attempt, code, keys);
    let Some(CallResult { answer, .. }) = calls.send(call) else { return Ok(None) };
    let answer = answer.map_err(|failure| failed(provider, failure))?;
    let read: Option<TokenAnswer> = serde_json::from_slice(&answer.body).ok();
    let refusal = read.as_ref().and_then(|read| read.error.as_deref());
    match (answer.status, refusal) {
        (400 | 401, Some("invalid_grant")) => Err(Error::forbidden(
            "sign_in_refused",
            "the provider refuses the code: it has expired, was used before, or is of another \
             sign-in; begin again",
        )),
        (400 | 401, Some("invalid_client" | "unauthorized_client")) => Err(failed(
            provider,
            "it does not accept the client id or its secret; the operator sets them with --oidc",
        )),
        _ if answer.is_success() => match read.and_then(|read| read.id_token) {
            Some(token) => Ok(Some(token)),
            None => Err(failed(provider, "it answers without an ID token")),
        },
        (status, _) => Err(failed(provider, format!("it answers with the status {status}"))),
    }
}

fn token_call(
    (provider, discovery): (&OidcProvider, &Discovery),
    attempt: &SignInAttempt,
    code: &str,
    keys: &Keys,
) -> Call {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &attempt.redirect_uri)
        .append_pair("code_verifier", &attempt.verifier(keys));
    let mut headers = vec![
        ("content-type".into(), "application/x-www-form-urlencoded".into()),
        ("accept".into(), "application/json".into()),
    ];
    match &provider.secret {
        Some(secret) if !discovery.takes_secret_in_form => {
            let part = |text: &str| -> String {
                form_urlencoded::byte_serialize(text.as_bytes()).collect()
            };
            let pair = format!("{}:{}", part(&provider.client_id), part(secret));
            headers.push(("authorization".into(), format!("Basic {}", STANDARD.encode(pair))));
        }
        secret => {
            form.append_pair("client_id", &provider.client_id);
            if let Some(secret) = secret {
                form.append_pair("client_secret", secret);
            }
        }
    }
    Call {
        method: Method::POST,
        url: discovery.token_endpoint.clone(),
        headers,
        body: form.finish().into_bytes(),
        limits: limits(provider),
    }
}

fn get(provider: &OidcProvider, url: String) -> Call {
    let headers = vec![("accept".into(), "application/json".into())];
    Call { method: Method::GET, url, headers, body: Vec::new(), limits: limits(provider) }
}

fn limits(provider: &OidcProvider) -> Limits {
    let https_only = provider.is_https();
    Limits { total: CALL_TIME, answer: BodyLimit::UpTo(MAX_BYTES), https_only }
}

fn document(provider: &OidcProvider, heard: CallResult) -> Result<Response> {
    let answer = heard.answer.map_err(|failure| failed(provider, failure))?;
    if answer.is_success() {
        return Ok(answer);
    }
    Err(failed(provider, format!("its documents are answered with the status {}", answer.status)))
}
