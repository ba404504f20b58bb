//! Domain rules: which domains of outside agents are allowed or blocked, for a team or for the
//! organization (reference: exchange, "Domain rules").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName, User};
use crate::base::{Domain as DomainName, Error, Id, Result, Time};
use crate::resources::teams::team::{TEAM_IN_PATH, Team, require_team};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<DomainRule>()], ..Resource::EMPTY };

/// The rules of all teams of an organization together: a list of one team's passes over the
/// others'.
const MAX_RULES: usize = 1000;

// ── Record ───────────────────────────────────────────────────────────────────

/// What a rule says of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "DomainRuleKind")]
pub enum RuleKind {
    /// Its agents are accepted at once.
    Allow,
    /// Its agents are turned away.
    Block,
}
crate::store::stored_enum!(RuleKind { Allow = 0, Block = 1 });

crate::base::portable! {
/// A rule about a domain and its subdomains.
#[derive(Clone, Debug, Encode, Decode)]
pub struct DomainRule {
    pub id: Id<DomainRule>,
    /// The team; none for a rule of the organization.
    pub team: Option<Id<Team>>,
    pub domain: DomainName,
    pub rule: RuleKind,
    pub created_by: Id<User>,
    pub created_at: Time,
}
}

static BY_DOMAIN: Index<DomainRule, (Option<Id<Team>>, DomainName)> = Index::unique(
    "domain_rules.by_domain",
    "domain_rule_exists",
    "there is a rule for this domain already",
    |rule| Some((rule.team, rule.domain.clone())),
);

static TEAM: Reference<DomainRule, Team> = Reference::cascade(
    &["team"],
    |team: &Team| Some(team.id).to_bytes(),
    |rule: &DomainRule, _| rule.team.map(|team| team.to_bytes()).into_iter().collect(),
)
.by(&BY_DOMAIN)
.deferred();

impl Record for DomainRule {
    const TABLE: &'static str = "domain_rules";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DOMAIN];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    type Key = Id<DomainRule>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// Returns what the rules say of a domain, if one covers it. A block of the organization wins; else
/// the rule of the most specific domain, and of two for the same domain the team's.
pub fn rule_for(view: &View, team: Id<Team>, domain: &DomainName) -> Result<Option<RuleKind>> {
    let mut most_specific = None;
    for domain in covering(domain) {
        let find = |team| view.find(&BY_DOMAIN, &(team, domain.clone()));
        let (own, shared): (Option<DomainRule>, Option<DomainRule>) =
            (find(Some(team))?, find(None)?);
        if shared.as_ref().is_some_and(|rule| rule.rule == RuleKind::Block) {
            return Ok(Some(RuleKind::Block));
        }
        most_specific = most_specific.or(own).or(shared);
    }
    Ok(most_specific.map(|rule| rule.rule))
}

/// Returns the domains whose rules cover this one: itself and those above it of at least two
/// labels, the most specific first.
fn covering(domain: &DomainName) -> impl Iterator<Item = DomainName> {
    let above = std::iter::successors(Some(domain.as_str()), |name| {
        name.split_once('.').map(|(_, above)| above)
    });
    above.filter(|name| name.contains('.')).map(|name| DomainName::from_trusted(name.into()))
}

// ── What callers send and see ────────────────────────────────────────────────

/// A rule about a domain and its subdomains. It replaces an earlier one for the same domain.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"domain": "partner.example", "rule": "allow"}]))]
pub struct NewDomainRule {
    /// The domain; its subdomains are covered too.
    domain: DomainName,
    /// Whether its agents are accepted at once or turned away.
    rule: RuleKind,
    /// Whether it is for all teams of the organization; only admins make such rules.
    #[schemars(extend("default" = false))]
    org_wide: Option<bool>,
}
impl Input for NewDomainRule {}

/// A rule as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DomainRule")]
pub struct DomainRuleInfo {
    id: Id<DomainRule>,
    /// The domain; its subdomains are covered too.
    domain: DomainName,
    /// Whether its agents are accepted at once or turned away.
    rule: RuleKind,
    /// Whether it is for all teams of the organization.
    org_wide: bool,
    /// The user who made it, also through a key.
    created_by: Id<User>,
    created_at: Time,
}

impl Output for DomainRuleInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn info(rule: DomainRule) -> DomainRuleInfo {
    let DomainRule { id, team, domain, rule, created_by, created_at } = rule;
    DomainRuleInfo { id, domain, rule, org_wide: team.is_none(), created_by, created_at }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists the rules of a team and those of the organization, newest first.
pub fn list(view: &View, req: &Req<Id<Team>>) -> Result<Page<DomainRuleInfo>> {
    let team = require_team(view, req.params)?;
    let applies = |rule: &DomainRule| rule.team.is_none_or(|own| own == team);
    Ok(view.page(ListSource::TABLE, &(), Order::Descending, &req.page, applies)?.map(info))
}

/// Makes a rule, or replaces the one for the same domain.
pub fn set(tx: &mut Tx, req: &Req<Id<Team>, NewDomainRule>) -> Result<DomainRuleInfo> {
    let team = require_team(&tx.view(), req.params)?;
    let NewDomainRule { domain, rule, org_wide } = &req.input;
    let team = (*org_wide != Some(true)).then_some(team);
    require_admin_of_organization(req.caller(), team)?;
    let old = tx.find(&BY_DOMAIN, &(team, domain.clone()))?;
    let new = DomainRule {
        id: old.as_ref().map_or_else(|| tx.new_id(), |old: &DomainRule| old.id),
        team,
        domain: domain.clone(),
        rule: *rule,
        created_by: req.caller().user(),
        created_at: tx.now(),
    };
    match old {
        Some(old) => tx.replace(&old, &new)?,
        None if tx.count::<DomainRule>(ListSource::TABLE, &(), MAX_RULES)? == MAX_RULES => {
            return Err(Error::conflict(
                "domain_rules_full",
                "an organization has at most 1,000 domain rules; delete some",
            ));
        }
        None => tx.insert(&new)?,
    }
    Ok(info(new))
}

/// Deletes a rule of the team, or of the organization.
pub fn delete(tx: &mut Tx, req: &Req<(Id<Team>, Id<DomainRule>)>) -> Result<Deleted> {
    let team = require_team(&tx.view(), req.params.0)?;
    let rule: DomainRule = tx.fetch(&req.params.1)?;
    if rule.team.is_some_and(|own| own != team) {
        return Err(DomainRule::missing(&rule.id));
    }
    require_admin_of_organization(req.caller(), rule.team)?;
    tx.remove(&rule)?;
    Ok(Deleted::new(rule.id))
}

/// Refuses members who change a rule of the organization, one without a team.
fn require_admin_of_organization(caller: &Caller, team: Option<Id<Team>>) -> Result<()> {
    if team.is_some() {
        return Ok(());
    }
    if !caller.is_admin() {
        return Err(Error::forbidden(
            "admin_required",
            "only an owner or admin of the organization may change its own domain rules",
        ));
    }
    // A rule for all teams takes more than a scope for this one.
    caller.require_scope(ScopeName::ExchangeWrite, None)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/exchange/domain-rules";
    vec![
        Route::get(ALL, MEMBER, "domain_rule.list", op::list(list))
            .needs_for(ScopeName::ExchangeRead, &TEAM_IN_PATH)
            .about("List domain rules, newest first"),
        Route::post(ALL, MEMBER, "domain_rule.create", op::write(set))
            .needs_for(ScopeName::ExchangeWrite, &TEAM_IN_PATH)
            .about("Allow or block a domain"),
        Route::delete(
            "/teams/{teamId}/exchange/domain-rules/{ruleId}",
            MEMBER,
            "domain_rule.delete",
            op::write(delete),
        )
        .needs_for(ScopeName::ExchangeWrite, &TEAM_IN_PATH)
        .about("Delete a domain rule"),
    ]
}
