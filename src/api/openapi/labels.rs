//! The labels of a route in the document and in the tables: its group, and who may call it.

use crate::api::route::Route;
use crate::auth::{AuthPolicy, RequiredCredential, Role};

/// The group a route belongs to: the first segment of its path.
pub fn group(route: &Route) -> &'static str {
    route.path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

/// Says who may call a route with this policy.
pub fn about_access(policy: AuthPolicy) -> &'static str {
    match who(policy) {
        "any" => "For every client; needs no credential.",
        "s" => "For every signed-in person, in a session.",
        "sm" => "For members of the organization, in a session; not with an API key.",
        "sa" => "For owners and admins of the organization, in a session; not with an API key.",
        "r" => "For members of the organization, and for every client if the registry is public.",
        "i" => {
            "For owners and admins of the organization who administer the installation, with an API \
             key or in a session."
        }
        "n" => "For agents outside, which sign each request with their Nostr key (NIP-98).",
        "m" => "For members of the organization, with an API key or in a session.",
        _ => "For owners and admins of the organization, with an API key or in a session.",
    }
}

/// The names of the scopes that an API key needs for a route.
pub fn scopes(route: &Route) -> Vec<&'static str> {
    route.required_scopes.iter().map(|required| required.name.text()).collect()
}

/// The abbreviation of a policy in the table of routes: `any`, `s`, `m`, `r`, `a`, `i`,
/// `sm`, `sa`, `n`.
pub fn who(policy: AuthPolicy) -> &'static str {
    match (policy.credential, policy.role) {
        (RequiredCredential::Nostr, _) => "n",
        (RequiredCredential::None, _) => "any",
        (RequiredCredential::Session, None) => "s",
        (RequiredCredential::Session, Some(Role::Member)) => "sm",
        (RequiredCredential::Session, _) => "sa",
        _ if policy.installation => "i",
        _ if policy.public_read => "r",
        (_, None | Some(Role::Member)) => "m",
        _ => "a",
    }
}
