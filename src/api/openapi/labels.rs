//! The labels of a route in the document and in the tables: its group, and who may call it.

use crate::api::route::Route;
use crate::auth::{AuthPolicy, RequiredCredential, Role};

/// The group a route belongs to: the first segment of its path.
pub fn group(route: &Route) -> &'static str {
    route.path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

/// The abbreviation of a policy in the table of routes: `any`, `s`, `m`, `r`, `a`, `sm`,
/// `sa`.
pub fn who(policy: AuthPolicy) -> &'static str {
    match (policy.credential, policy.role) {
        (RequiredCredential::None, _) => "any",
        (RequiredCredential::Session, None) => "s",
        (RequiredCredential::Session, Some(Role::Member)) => "sm",
        (RequiredCredential::Session, _) => "sa",
        _ if policy.public_read => "r",
        (_, None | Some(Role::Member)) => "m",
        _ => "a",
    }
}
