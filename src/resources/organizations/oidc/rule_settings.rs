//! The rules of an organization by which what a provider says of a person gives role and grants: reading and
//! replacing them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::records::JoiningDomain;
use crate::auth::oidc::Oidc;
use crate::auth::{
    Caller, Granted, ResourceType, Role, is_installation_admin, require_installation_admin,
};
use crate::base::{BoundedList, Error, Id, Issue, Result, Text};
use crate::resources::organizations::grants::is_grantable;
use crate::resources::organizations::rule_rights::{RuleGrant, SignInRule, SignInRules};
use crate::store::{ListSource, Tx, View};

/// The claim of a rule that names none.
const DEFAULT_CLAIM: &str = "groups";

/// All rules of an organization name at most 100 resources: they are granted at each sign-in.
const MAX_RESOURCES: usize = 100;

/// Claims that people write themselves at many providers, or that say something of the token.
const OF_THE_PERSON: [&str; 21] = [
    "name",
    "given_name",
    "family_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "profile",
    "picture",
    "website",
    "email",
    "gender",
    "birthdate",
    "zoneinfo",
    "locale",
    "phone_number",
    "address",
    "upn",
    "unique_name",
    "nonce",
    "aud",
    "iss",
];

/// A rule of an organization: of whom a provider says this, they get a role and grants.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInRule")]
pub(super) struct RuleInfo {
    /// The name of the provider.
    provider: String,
    /// The claim of its ID tokens: a text, or a list of texts.
    claim: String,
    /// The value that the claim is, or has among its values, exactly.
    value: String,
    /// The role that they have at least; null if it is for grants alone.
    role: Option<Role>,
    /// The restricted resources that they may use.
    grants: Vec<RuleGrantInfo>,
}

/// A restricted resource that a rule, or a domain, opens.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInRuleGrant")]
pub(super) struct RuleGrantInfo {
    resource_type: ResourceType,
    resource_id: Id<Granted>,
}

/// The restricted resources that a rule, or a domain, is to open.
pub(super) type NewGrants = BoundedList<RuleGrantInfo, 0, 20>;

/// What grants are for, sorted and none twice.
pub(super) fn targets(grants: Option<&NewGrants>) -> Vec<RuleGrant> {
    let target = |grant: &RuleGrantInfo| {
        let RuleGrantInfo { resource_type, resource_id } = *grant;
        RuleGrant { resource_type, resource_id }
    };
    let targets: BTreeSet<_> = grants.into_iter().flat_map(|all| all.iter()).map(target).collect();
    targets.into_iter().collect()
}

/// Grants as they are read.
pub(super) fn infos(grants: Vec<RuleGrant>) -> Vec<RuleGrantInfo> {
    let info =
        |RuleGrant { resource_type, resource_id }| RuleGrantInfo { resource_type, resource_id };
    grants.into_iter().map(info).collect()
}

/// A rule to set.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSignInRule {
    /// The name of the provider.
    provider: Text<1, 32>,
    /// The claim of its ID tokens, by default `groups`: a text, or a list of texts. None that people write
    /// themselves, such as `name` or `email`.
    claim: Option<Text<1, 100>>,
    /// The value that the claim is, or has among its values, exactly.
    value: Text<1, 200>,
    /// The role that they have at least; without one it is for grants alone.
    role: Option<Role>,
    /// The restricted resources that they may use.
    grants: Option<NewGrants>,
}

/// The rules to set: at most 50.
pub(super) type NewRules = BoundedList<NewSignInRule, 0, 50>;

impl NewSignInRule {
    fn claim(&self) -> &str {
        self.claim.as_ref().map_or(DEFAULT_CLAIM, |claim| claim.as_str())
    }

    fn targets(&self) -> Vec<RuleGrant> {
        targets(self.grants.as_ref())
    }

    fn is_about(&self, other: &Self) -> bool {
        self.provider == other.provider
            && self.claim() == other.claim()
            && self.value == other.value
    }
}

/// The problems of rules.
pub(super) fn check(rules: &NewRules, issues: &mut Vec<Issue>) {
    for (index, rule) in rules.iter().enumerate() {
        let mut problem = |field: &str, message: &str| {
            issues.push(Issue::new(format!("rules[{index}]{field}"), message));
        };
        if OF_THE_PERSON.contains(&rule.claim()) {
            problem(
                ".claim",
                "must not be one that people write themselves; use one such as groups",
            );
        }
        // So that a line of text can say it, in the console.
        let is_claim = |c: char| c != '=' && !c.is_whitespace() && !c.is_control();
        if !rule.claim().chars().all(is_claim) {
            problem(".claim", "must have neither spaces nor =");
        }
        let value = rule.value.as_str();
        if value.trim() != value || value.chars().any(char::is_control) {
            problem(".value", "must be one line, without spaces around it");
        }
        if rule.role.is_none() && rule.targets().is_empty() {
            problem("", "must have a role or grants");
        }
        if rule.role == Some(Role::Viewer) && rule.targets().is_empty() {
            problem(
                ".role",
                "must be higher than viewer, which everybody is at least; or add grants",
            );
        }
        if rules[..index].iter().any(|before| before.is_about(rule)) {
            problem(".value", "has a rule already, further up");
        }
    }
    let targets: BTreeSet<_> = rules.iter().flat_map(NewSignInRule::targets).collect();
    if targets.len() > MAX_RESOURCES {
        let message = format!("must name at most {MAX_RESOURCES} resources in all");
        issues.push(Issue::new("rules", message));
    }
}

/// The rules of an organization.
pub(super) fn of_organization(view: &View) -> Result<Vec<RuleInfo>> {
    let stored = view.get::<SignInRules>(&view.org())?;
    let info = |rule: SignInRule| RuleInfo {
        provider: rule.provider,
        claim: rule.claim,
        value: rule.value,
        role: rule.role,
        grants: infos(rule.grants),
    };
    Ok(stored.map(|stored| stored.rules.into_iter().map(info).collect()).unwrap_or_default())
}

/// Replaces the rules of an organization by those of an owner; they count from the next sign-ins.
///
/// # Errors
/// 400 if a new one names a provider or a resource that is not there; 403 if it names a provider for which
/// nobody has vouched, and the owner does not administer the installation.
pub(super) fn replace(
    tx: &mut Tx,
    new: Option<&NewRules>,
    oidc: &Oidc,
    caller: &Caller,
) -> Result<()> {
    let owner = caller.user();
    let stored = tx.get::<SignInRules>(&tx.org())?;
    let old = stored.as_ref().map(|stored| stored.rules.as_slice()).unwrap_or_default();
    let mut rules = Vec::new();
    for (index, new) in new.into_iter().flat_map(|new| new.iter()).enumerate() {
        let mut rule = SignInRule {
            provider: new.provider.to_string(),
            claim: new.claim().to_string(),
            value: new.value.to_string(),
            role: new.role,
            grants: new.targets(),
            set_by: owner,
        };
        let same = |old: &&SignInRule| SignInRule { set_by: owner, ..(*old).clone() } == rule;
        // What was taken away since stays in a rule until somebody changes it.
        match old.iter().find(same) {
            Some(old) => rule.set_by = old.set_by,
            None => {
                require_known(tx, &rule, index, oidc)?;
                // What providers say of people is the installation's, as accounts are.
                if !may_be_asked(&tx.view(), &rule.provider, old)? {
                    require_installation_admin(&tx.view(), &caller.identity)?;
                }
            }
        }
        rules.push(rule);
    }
    let after = SignInRules { org: tx.org(), rules };
    match stored {
        Some(old) if after.rules.is_empty() => tx.remove(&old),
        Some(old) if old == after => Ok(()),
        Some(old) => tx.replace(&old, &after),
        None if after.rules.is_empty() => Ok(()),
        None => tx.insert(&after),
    }
}

/// Whether somebody who administers the installation has let the organization ask a provider of its members:
/// it lists a domain with it, or has a rule of theirs. That it requires the provider says nothing: for that
/// any owner is enough.
fn may_be_asked(view: &View, provider: &str, old: &[SignInRule]) -> Result<bool> {
    let domains: Vec<JoiningDomain> = view.all(ListSource::TABLE, &view.org())?;
    if domains.iter().any(|domain| domain.provider == provider) {
        return Ok(true);
    }
    for rule in old.iter().filter(|rule| rule.provider == provider) {
        if is_installation_admin(view, rule.set_by)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn require_known(tx: &Tx, rule: &SignInRule, index: usize, oidc: &Oidc) -> Result<()> {
    if oidc.provider(&rule.provider).is_none() {
        let message = format!("{} is no provider of this server", rule.provider);
        return Err(Error::invalid_at(format!("rules[{index}].provider"), message));
    }
    require_grantable(tx, &rule.grants, &format!("rules[{index}]"))
}

/// Requires that there is everything that the rule or domain at this path opens.
pub(super) fn require_grantable(tx: &Tx, grants: &[RuleGrant], path: &str) -> Result<()> {
    for RuleGrant { resource_type, resource_id } in grants.iter().copied() {
        if !is_grantable(tx, (resource_type, resource_id))? {
            let message = format!("{resource_id} is no such resource of the organization");
            return Err(Error::invalid_at(format!("{path}.grants"), message));
        }
    }
    Ok(())
}
