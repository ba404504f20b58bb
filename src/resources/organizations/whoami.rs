//! Who a credential is: its user, its organizations and what a key may do
//! (reference: identity-and-rights, "Who am I").
//!
//! A program that is handed a key finds here which organization the key is for. The route needs no
//! scope: it tells a credential about itself alone.

use schemars::JsonSchema;
use serde::Serialize;

use super::sessions::MembershipInfo;
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ApiKey, CREDENTIAL, Credential, KeyAccess, Membership, Organization, User};
use crate::base::{Id, Name, Result, Time};
use crate::store::{ListSource, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Who the credential of a request is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WhoAmI {
    user_id: Id<User>,
    /// The name of the user, or of the service account.
    user_name: Name,
    /// The API key; null in a session.
    api_key: Option<UsedKey>,
    /// The organizations of the user; of a key, the one that it is for.
    memberships: Vec<MembershipInfo>,
    /// When the credential expires; null if it never does.
    expires_at: Option<Time>,
}

impl Output for WhoAmI {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The API key of a request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UsedKey {
    id: Id<ApiKey>,
    name: String,
    access: KeyAccess,
    /// Whether it decides about deployments in the name of their approvers.
    approves_as: bool,
}

fn get(view: &View, req: &Req) -> Result<WhoAmI> {
    let identity = req.identity();
    let user: User = view.fetch(&identity.user)?;
    let (api_key, only) = match &identity.credential {
        Credential::Session(_) => (None, None),
        Credential::Key { id, name, org, approve_as, access } => {
            let (id, name, access) = (*id, name.clone(), (**access).clone());
            (Some(UsedKey { id, name, access, approves_as: *approve_as }), Some(*org))
        }
    };
    let memberships = view.all(ListSource::TABLE, &user.id)?.into_iter();
    let memberships = memberships.filter(|m: &Membership| only.is_none_or(|org| m.org == org));
    let memberships = memberships.map(|m| {
        let organization: Organization = view.fetch(&m.org)?;
        MembershipInfo::new(view, organization, identity.role_in(&m))
    });
    Ok(WhoAmI {
        user_id: user.id,
        user_name: user.name,
        api_key,
        memberships: memberships.collect::<Result<_>>()?,
        expires_at: identity.expires_at,
    })
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/whoami", CREDENTIAL, "credential.get", op::read(get))
            .needs_no_scope()
            .about("Get the user and scopes of the credential"),
    ]
}
