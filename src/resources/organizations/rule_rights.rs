//! The records of rules by which what a provider says of a person gives role and grants, and of what they
//! have given (reference: identity-and-rights, "Rules").

use bincode::{Decode, Encode};

use crate::auth::{Caller, Grant, Granted, Membership, Organization, ResourceType, Role, User};
use crate::base::{Id, Result};
use crate::store::{AnyReference, Export, Key, Org, Record, Reference, Tx, View};

/// A rule: of whom a provider says this, they get a role and grants.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SignInRule {
    /// The name of the provider.
    pub provider: String,
    /// The claim of its ID tokens.
    pub claim: String,
    /// The value that the claim is, or has among its values.
    pub value: String,
    /// The role that they have at least.
    pub role: Option<Role>,
    pub grants: Vec<RuleGrant>,
    /// The owner who has set it, in whose name grants are made.
    pub set_by: Id<User>,
}

/// A resource that a rule opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct RuleGrant {
    pub resource_type: ResourceType,
    pub resource_id: Id<Granted>,
}

impl SignInRule {
    /// What it is about, as people are told.
    pub fn title(&self) -> String {
        format!("{}={} of {}", self.claim, self.value, self.provider)
    }
}

/// The rules of an organization.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct SignInRules {
    pub org: Id<Org>,
    pub rules: Vec<SignInRule>,
}

static ORGANIZATION: Reference<SignInRules, Organization> = Reference::cascade(
    &["org"],
    |organization: &Organization| organization.id.to_bytes(),
    |rules: &SignInRules, _| vec![rules.org.to_bytes()],
);

impl Record for SignInRules {
    const TABLE: &'static str = "sign_in_rules";
    const EXPORT: Export<Self> = Export::LeftOut("the providers of each installation are its own");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ORGANIZATION];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("rules.grants.resource_id", "what is gone is not granted any more"),
        ("rules.set_by", "history: the owner may have left"),
    ];
    const ORG_SCOPED: bool = false;
    type Key = Id<Org>;
    fn key(&self) -> Self::Key {
        self.org
    }
}

/// What rules have given a member, so that this goes with them, and nothing else.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct RuleRights {
    pub user: Id<User>,
    pub org: Id<Org>,
    /// The role, if one is given.
    pub role: Option<GivenRole>,
    /// The rules that apply, as they were at the last sign-in with their provider.
    pub rules: Vec<SignInRule>,
    /// The grants that were made for them.
    pub grants: Vec<Id<Grant>>,
}

/// A role that a rule has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct GivenRole {
    /// The role that the member has without it.
    pub own: Role,
    pub given: Role,
}

static MEMBER: Reference<RuleRights, Membership> = Reference::cascade(
    &["user", "org"],
    |member: &Membership| (member.user, member.org).to_bytes(),
    |rights: &RuleRights, _| vec![(rights.user, rights.org).to_bytes()],
);

impl Record for RuleRights {
    const TABLE: &'static str = "sign_in_rules.rights";
    const EXPORT: Export<Self> = Export::LeftOut("the providers of each installation are its own");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&MEMBER];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("rules.grants.resource_id", "what is gone is not granted any more"),
        ("rules.set_by", "history: the owner may have left"),
        ("grants", "one that is gone was withdrawn, or ended with its resource"),
    ];
    const ORG_SCOPED: bool = false;
    type Key = (Id<User>, Id<Org>);
    fn key(&self) -> Self::Key {
        (self.user, self.org)
    }
}

impl RuleRights {
    /// Those of a member, to whom nothing was given yet.
    pub fn none(user: Id<User>, org: Id<Org>) -> Self {
        RuleRights { user, org, role: None, rules: Vec::new(), grants: Vec::new() }
    }

    /// The rule that gives a caller their role, if one does.
    pub fn rule_of_role(&self, role: Role) -> Option<&SignInRule> {
        self.role.filter(|by_rule| by_rule.given == role)?;
        self.rules.iter().find(|rule| rule.role == Some(role))
    }

    /// The rule for which a grant was made, if it was for one.
    pub fn rule_of_grant(&self, grant: &Grant) -> Option<&SignInRule> {
        let Grant { resource_type, resource_id, .. } = *grant;
        let wanted = RuleGrant { resource_type, resource_id };
        let is_made = self.grants.contains(&grant.id);
        self.rules.iter().find(|rule| is_made && rule.grants.contains(&wanted))
    }
}

/// What rules have given a caller in their organization.
pub fn of_caller(view: &View, caller: &Caller) -> Result<Option<RuleRights>> {
    view.get(&(caller.user(), caller.org))
}

/// Whether a rule gave the member of the transaction's organization the role that they have.
pub fn has_role_by_rule(tx: &Tx, user: Id<User>) -> Result<bool> {
    let rights = tx.get::<RuleRights>(&(user, tx.org()))?;
    Ok(rights.is_some_and(|rights| rights.role.is_some()))
}

/// Notes that the role of a member is one that somebody has chosen for them from now on.
pub fn forget_role(tx: &mut Tx, user: Id<User>) -> Result<()> {
    let Some(old) = tx.get::<RuleRights>(&(user, tx.org()))? else { return Ok(()) };
    if old.role.is_none() {
        return Ok(());
    }
    tx.replace(&old, &RuleRights { role: None, ..old.clone() })
}
