//! Signing out at a provider, too (OpenID Connect RP-Initiated Logout 1.0), where the operator wants that.
//!
//! The session here has ended before: a provider that does not answer keeps none of ours. No ID token is
//! kept, so the provider is sent no `id_token_hint`, and may ask the person whether they want to sign out.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calls::{self, TOTAL_SECS};
use super::sign_in::pending;
use crate::api::{
    Calls, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op, public_url_required,
};
use crate::auth::ANYONE;
use crate::auth::oidc::OidcProvider;
use crate::base::{Error, Result, Text};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The provider at which to sign out.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"provider": "keycloak"}]))]
#[schemars(rename = "NewProviderSignOut")]
pub(super) struct NewSignOut {
    /// The name of the provider.
    pub provider: Text<1, 32>,
}

impl Input for NewSignOut {}

/// How a browser signs out at a provider.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProviderSignOut")]
pub(super) struct SignOut {
    /// What people are shown of the provider.
    label: String,
    /// Where the browser goes; null if the provider has no such address, or the operator does not want
    /// people to be signed out there.
    pub url: Option<String>,
    /// What the provider sends back as `state` with the person; null without `url`.
    pub state: Option<String>,
}

impl Output for SignOut {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

pub(super) fn leave(
    tx: &mut Tx,
    req: &Req<(), NewSignOut>,
    calls: &mut Calls,
) -> Result<Outcome<SignOut>> {
    let (oidc, base) = (&req.server.oidc, &req.origin.link_base);
    let provider = oidc.provider(&req.input.provider);
    let provider = provider.ok_or_else(|| Error::no_such("provider").at("provider"))?;
    let label = provider.label.clone();
    if !provider.signs_out {
        return Ok(Outcome::Done(SignOut { label, url: None, state: None }));
    }
    if base.is_empty() {
        return Err(public_url_required());
    }
    let discovery = calls::discovery(oidc, provider, tx.now(), calls)?.ok_or_else(pending)?;
    let state = BASE64.encode(tx.random::<32>());
    let url = discovery.end_session_endpoint.as_ref();
    let url = url.map(|endpoint| sign_out_url(endpoint, provider, base, &state));
    let state = url.as_ref().map(|_| state);
    Ok(Outcome::Done(SignOut { label, url, state }))
}

/// Where it leads back to is always this server's page to sign in, whatever a request says.
fn sign_out_url(endpoint: &str, provider: &OidcProvider, base: &str, state: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("client_id", &provider.client_id)
        .append_pair("post_logout_redirect_uri", &format!("{base}/sign-in"))
        .append_pair("state", state);
    let separator = if endpoint.contains('?') { '&' } else { '?' };
    format!("{endpoint}{separator}{}", query.finish())
}

fn routes() -> Vec<Route> {
    let leave = op::calling(TOTAL_SECS, leave);
    vec![
        Route::post(
            "/auth/providers/sign-out",
            ANYONE,
            "provider_session.sign_out",
            op::write(leave),
        )
        .no_replay()
        .about("Say where to sign out at a provider"),
    ]
}
