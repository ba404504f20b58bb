//! What an organization says of signing in: whose people join it, and whether a provider is required.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::records::JoiningDomain;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    Membership, RequiredProvider, Role, SESSION_ADMIN, User, is_of_provider,
    require_installation_admin,
};
use crate::base::{BoundedList, Domain, Error, Id, Issue, Result, Text};
use crate::resources::organizations::sessions::require_session;
use crate::store::{ListSource, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A domain whose people join when they sign in for the first time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "JoiningDomain")]
pub(super) struct DomainRule {
    /// The domain of their addresses, without those below it.
    domain: Domain,
    /// The name of the provider that must have verified the address.
    provider: Text<1, 32>,
    /// The role that they get: no owner.
    role: Role,
}

/// The settings of an organization about signing in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInSettings")]
pub(super) struct Settings {
    /// The owner who is let in with a password, if others must sign in with a provider; null if they need
    /// not.
    break_glass_user_id: Option<Id<User>>,
    domains: Vec<DomainRule>,
}

impl Output for Settings {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The settings to be.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"domains": []}],
))]
pub(super) struct NewSignInSettings {
    /// An owner with a password, who is let in with it; without one nobody must sign in with a provider.
    break_glass_user_id: Option<Id<User>>,
    domains: BoundedList<DomainRule, 0, 20>,
}

impl Input for NewSignInSettings {
    fn check(&self, issues: &mut Vec<Issue>) {
        for (index, rule) in self.domains.iter().enumerate() {
            if rule.role == Role::Owner {
                let message = "must not be owner, which an owner gives to a person";
                issues.push(Issue::new(format!("domains[{index}].role"), message));
            }
            if self.domains[..index].iter().any(|before| before.domain == rule.domain) {
                let message = "is listed twice";
                issues.push(Issue::new(format!("domains[{index}].domain"), message));
            }
        }
    }
}

fn settings(view: &View) -> Result<Settings> {
    let required = view.get::<RequiredProvider>(&view.org())?;
    let rules: Vec<JoiningDomain> = view.all(ListSource::TABLE, &view.org())?;
    let domains = rules.into_iter().map(|rule| DomainRule {
        domain: rule.domain,
        provider: Text::from_trusted(rule.provider),
        role: rule.role,
    });
    Ok(Settings {
        break_glass_user_id: required.map(|required| required.break_glass),
        domains: domains.collect(),
    })
}

fn get(view: &View, _: &Req) -> Result<Settings> {
    settings(view)
}

pub(super) fn replace(tx: &mut Tx, req: &Req<(), NewSignInSettings>) -> Result<Settings> {
    if req.caller().role != Role::Owner {
        return Err(Error::forbidden(
            "owner_required",
            "only an owner may change how people of the organization sign in",
        ));
    }
    replace_domains(tx, req)?;
    match req.input.break_glass_user_id {
        Some(owner) => require_provider(tx, req, owner)?,
        None => {
            if let Some(required) = tx.get::<RequiredProvider>(&tx.org())? {
                tx.remove(&required)?;
            }
        }
    }
    settings(&tx.view())
}

fn replace_domains(tx: &mut Tx, req: &Req<(), NewSignInSettings>) -> Result<()> {
    let before = settings(&tx.view())?.domains;
    let new = |rule: &&DomainRule| !before.contains(rule);
    for rule in req.input.domains.iter().filter(new) {
        // Accounts are the installation's: who lets a domain in answers for it.
        require_installation_admin(&tx.view(), req.identity())?;
        if req.server.oidc.provider(&rule.provider).is_none() {
            let message = format!("{} is no provider of this server", rule.provider.as_str());
            return Err(Error::invalid_at("domains", message));
        }
    }
    let stored: Vec<JoiningDomain> = tx.all(ListSource::TABLE, &tx.org())?;
    let rules = req.input.domains.iter().map(|rule| JoiningDomain {
        org: tx.org(),
        domain: rule.domain.clone(),
        provider: rule.provider.to_string(),
        role: rule.role,
    });
    let rules: Vec<JoiningDomain> = rules.collect();
    for old in stored.iter().filter(|old| !rules.contains(old)) {
        tx.remove(old)?;
    }
    let is_new = |rule: &&JoiningDomain| !stored.contains(rule);
    rules.iter().filter(is_new).try_for_each(|rule| tx.put(rule))
}

/// Requires that everybody but this owner signs in with a provider.
fn require_provider(tx: &mut Tx, req: &Req<(), NewSignInSettings>, owner: Id<User>) -> Result<()> {
    let org = tx.org();
    let old = tx.get::<RequiredProvider>(&org)?;
    if old.as_ref().is_some_and(|old| old.break_glass == owner) {
        return Ok(());
    }
    let wrong = |message: &'static str| Err(Error::invalid_at("breakGlassUserId", message));
    if req.server.oidc.providers().is_empty() {
        return wrong("has no effect: this server has no provider of sign-ins");
    }
    let membership = tx.get::<Membership>(&(owner, org))?;
    let user = tx.get::<User>(&owner)?;
    let is_owner = membership.is_some_and(|membership| membership.role == Role::Owner);
    if !is_owner || user.is_none_or(|user| user.password.is_none()) {
        return wrong("must be an owner of the organization who has a password");
    }
    let session = require_session(req.identity());
    if req.identity().user != owner && !is_of_provider(&tx.view(), session)? {
        return Err(Error::conflict(
            "would_lock_you_out",
            "you would be refused yourself: sign in with a provider, and require it then",
        ));
    }
    tx.put(&RequiredProvider { org, break_glass: owner, required_at: tx.now() })
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/organizations/sign-in", SESSION_ADMIN, "sign_in_settings.get", op::read(get))
            .about("Get how people sign in"),
        Route::put(
            "/organizations/sign-in",
            SESSION_ADMIN,
            "sign_in_settings.set",
            op::write(replace),
        )
        .about("Replace how people sign in"),
    ]
}
