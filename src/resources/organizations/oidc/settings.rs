//! What an organization says of signing in: whose people join it, and whether a provider is required.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::records::JoiningDomain;
use super::rule_settings::{self, NewGrants, NewRules, RuleGrantInfo, RuleInfo};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    AddressProof, Membership, RequiredProvider, Role, SESSION_ADMIN, User, has_second_factor,
    require_installation_admin,
};
use crate::base::{BoundedList, Domain, Error, Id, Issue, Result, Text};
use crate::resources::organizations::sessions::require_session;
use crate::store::{ListSource, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A domain whose people join when they sign in for the first time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "JoiningDomain")]
pub(super) struct DomainInfo {
    /// The domain of their addresses, without those below it.
    domain: Domain,
    /// The name of the provider that must have verified the address.
    provider: String,
    /// The role that they get.
    role: Role,
    /// The restricted resources that they are granted when they join.
    grants: Vec<RuleGrantInfo>,
}

/// A domain to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewJoiningDomain {
    /// The domain of their addresses, without those below it.
    domain: Domain,
    /// The name of the provider that must have verified the address.
    provider: Text<1, 32>,
    /// The role that they get: no owner.
    role: Role,
    /// The restricted resources that they are granted when they join.
    grants: Option<NewGrants>,
}

/// The settings of an organization about signing in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInSettings")]
pub(super) struct Settings {
    /// The owner who is let in with a password, if others must sign in with a provider; null if they need
    /// not.
    break_glass_user_id: Option<Id<User>>,
    /// The names of the providers, one of which must have let the others in; none if they need not.
    providers: Vec<String>,
    /// The domains whose people join by themselves.
    domains: Vec<DomainInfo>,
    /// What gives members a role and grants when they sign in.
    rules: Vec<RuleInfo>,
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
    /// An owner with a password and a second factor, who is let in with them; without one nobody must sign
    /// in with a provider.
    break_glass_user_id: Option<Id<User>>,
    /// The names of the providers with which the others must sign in; without any, all that the server has
    /// now. Of no effect without `breakGlassUserId`.
    providers: Option<BoundedList<Text<1, 32>, 0, 20>>,
    /// The domains whose people join by themselves: those of before are replaced.
    domains: BoundedList<NewJoiningDomain, 0, 20>,
    /// What gives members a role and grants when they sign in, at most 50 rules: those of before are replaced,
    /// by none without it.
    rules: Option<NewRules>,
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
        if let Some(rules) = &self.rules {
            rule_settings::check(rules, issues);
        }
    }
}

fn settings(view: &View) -> Result<Settings> {
    let required = view.get::<RequiredProvider>(&view.org())?;
    let rules: Vec<JoiningDomain> = view.all(ListSource::TABLE, &view.org())?;
    let domains = rules.into_iter().map(|rule| DomainInfo {
        domain: rule.domain,
        provider: rule.provider,
        role: rule.role,
        grants: rule_settings::infos(rule.grants),
    });
    Ok(Settings {
        break_glass_user_id: required.as_ref().map(|required| required.break_glass),
        providers: required.map(|required| required.providers).unwrap_or_default(),
        domains: domains.collect(),
        rules: rule_settings::of_organization(view)?,
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
    let (rules, oidc) = (req.input.rules.as_ref(), &req.server.oidc);
    rule_settings::replace(tx, rules, oidc, req.caller())?;
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
    let stored: Vec<JoiningDomain> = tx.all(ListSource::TABLE, &tx.org())?;
    let mut rules = Vec::new();
    for (index, new) in req.input.domains.iter().enumerate() {
        let old = stored.iter().find(|old| old.domain == new.domain);
        rules.push(joining_domain(tx, req, (index, new), old)?);
    }
    for old in stored.iter().filter(|old| !rules.contains(old)) {
        tx.remove(old)?;
    }
    let is_new = |rule: &&JoiningDomain| !stored.contains(rule);
    rules.iter().filter(is_new).try_for_each(|rule| tx.put(rule))
}

/// Checks what is new in a domain of the list.
fn joining_domain(
    tx: &Tx,
    req: &Req<(), NewSignInSettings>,
    (index, new): (usize, &NewJoiningDomain),
    old: Option<&JoiningDomain>,
) -> Result<JoiningDomain> {
    let mut rule = JoiningDomain {
        org: tx.org(),
        domain: new.domain.clone(),
        provider: new.provider.to_string(),
        role: new.role,
        grants: rule_settings::targets(new.grants.as_ref()),
        set_by: req.caller().user(),
    };
    if !old.is_some_and(|old| old.provider == rule.provider && old.role == rule.role) {
        // Accounts are the installation's: who lets a domain in answers for it.
        require_installation_admin(&tx.view(), req.identity())?;
        if req.server.oidc.provider(&rule.provider).is_none() {
            let message = format!("{} is no provider of this server", rule.provider);
            return Err(Error::invalid_at("domains", message));
        }
    }
    match old {
        // What was taken away since stays in a domain until somebody changes its grants.
        Some(old) if old.grants == rule.grants => rule.set_by = old.set_by,
        _ => rule_settings::require_grantable(tx, &rule.grants, &format!("domains[{index}]"))?,
    }
    Ok(rule)
}

/// Requires that everybody but this owner signs in with one of the providers.
fn require_provider(tx: &mut Tx, req: &Req<(), NewSignInSettings>, owner: Id<User>) -> Result<()> {
    let org = tx.org();
    let old = tx.get::<RequiredProvider>(&org)?;
    let providers = required_providers(req, old.as_ref())?;
    let is_same = |old: &RequiredProvider| old.break_glass == owner && old.providers == providers;
    if old.as_ref().is_some_and(is_same) {
        return Ok(());
    }
    require_break_glass(&tx.view(), owner)?;
    let required = RequiredProvider { org, break_glass: owner, providers, required_at: tx.now() };
    let session = require_session(req.identity());
    if !required.lets_in(&tx.view(), req.identity().user, session)? {
        return Err(Error::conflict(
            "would_lock_you_out",
            "you would be refused yourself in this session: sign in with one of the providers or, if you \
             are the owner who is let in with a password, with that, and require it then",
        ));
    }
    tx.put(&required)
}

/// The providers that are to be required, without one twice: those that are named, or all of the server.
fn required_providers(
    req: &Req<(), NewSignInSettings>,
    old: Option<&RequiredProvider>,
) -> Result<Vec<String>> {
    let known = req.server.oidc.providers().iter().map(|provider| provider.name.clone());
    let mut names: Vec<String> = match &req.input.providers {
        Some(named) if !named.is_empty() => named.iter().map(ToString::to_string).collect(),
        _ => known.collect(),
    };
    names.sort();
    names.dedup();
    if names.is_empty() {
        let message = "has no effect: this server has no provider of sign-ins";
        return Err(Error::invalid_at("breakGlassUserId", message));
    }
    // The operator may have taken one away that is required.
    let is_old = |name: &String| old.is_some_and(|old| old.providers.contains(name));
    let is_known = |name: &String| is_old(name) || req.server.oidc.provider(name).is_some();
    match names.iter().find(|name| !is_known(name)) {
        Some(unknown) => {
            let message = format!("{unknown} is no provider of this server");
            Err(Error::invalid_at("providers", message))
        }
        None => Ok(names),
    }
}

/// Requires that a user is one who may be let in with a password.
fn require_break_glass(view: &View, owner: Id<User>) -> Result<()> {
    let membership = view.get::<Membership>(&(owner, view.org()))?;
    let user = view.get::<User>(&owner)?;
    let is_owner = membership.is_some_and(|membership| membership.role == Role::Owner);
    // Of an account that nobody has proved the next proof takes password and second factor.
    let has_password =
        user.is_some_and(|user| user.password.is_some() && user.proof != AddressProof::Unproved);
    if is_owner && has_password && has_second_factor(view, owner)? {
        return Ok(());
    }
    let message = "must be an owner with a proved address, a password and a second factor";
    Err(Error::invalid_at("breakGlassUserId", message))
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
        .asks_again()
        .about("Replace how people sign in"),
    ]
}
