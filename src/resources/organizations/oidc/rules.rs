//! Applies the rules of organizations to what a provider says of a person, at each sign-in with it: they get
//! what rules say, and lose what rules have given and do not say any more. Nothing else changes.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::records::JoiningDomain;
use crate::api::Resource;
use crate::api::audit::{SystemAction, audit_system};
use crate::auth::oidc::Oidc;
use crate::auth::{GRANT_BY_TARGET, Grant, Membership, Role, User, user_organizations};
use crate::base::{Id, Kind, Result, word};
use crate::outbox::{Job, JobHandler, Prepared, enqueue, no_effect};
use crate::resources::organizations::rule_rights::{
    GivenRole, RuleGrant, RuleRights, SignInRule, SignInRules,
};
use crate::resources::organizations::sign_in_link::SignInLink;
use crate::resources::organizations::{grants, members};
use crate::store::{ListSource, Org, Tx};

/// One sign-in makes and withdraws at most 1,000 grants in all, as a bulk request does. Others are made at
/// the next one; what is left to be withdrawn a job withdraws.
const MAX_CHANGES: usize = 1000;

pub(super) const RESOURCE: Resource = Resource { jobs: &[WITHDRAW], ..Resource::EMPTY };

/// What a provider says of a person.
pub(super) struct Said<'a> {
    /// The providers of this server.
    pub oidc: &'a Oidc,
    /// The name of the provider.
    pub provider: &'a str,
    pub claims: &'a Map<String, Value>,
    /// The id of the request, for the audit log.
    pub request_id: &'a str,
}

/// Grants whoever has joined by a domain what it opens. They keep it until somebody takes it away, as their
/// role: the grants are as those by hand.
pub(super) fn grant_joined(
    tx: &mut Tx,
    user: Id<User>,
    domain: &JoiningDomain,
    request_id: &str,
) -> Result<()> {
    if domain.grants.is_empty() {
        return Ok(());
    }
    let own = tx.org();
    tx.set_org(domain.org);
    let granted = grant_in(tx, user, domain, request_id);
    tx.set_org(own);
    granted
}

fn grant_in(tx: &mut Tx, user: Id<User>, domain: &JoiningDomain, request_id: &str) -> Result<()> {
    let mut made = 0;
    for wanted in domain.grants.iter().copied() {
        made += usize::from(grant_new(tx, user, wanted, domain.set_by)?.is_some());
    }
    let (name, provider, role) = (&domain.domain, &domain.provider, word(domain.role));
    let detail =
        format!("joined by the domain {name} of {provider}: role {role}, {made} grants made");
    let (action, cause) = ("member.apply_rules", request_id);
    let resource_id = &user.to_string();
    audit_system(tx, SystemAction { action, resource_id, detail: &detail, cause })
}

/// Applies the rules of all organizations of a person.
pub(super) fn apply(tx: &mut Tx, user: Id<User>, said: &Said) -> Result<()> {
    let values = values(said.claims);
    let change = Change {
        by: &format!("by {}", said.provider),
        cause: said.request_id,
        matching: &|before, rules| matching(before, rules, (said, &values)),
    };
    apply_in_all(tx, user, &change)
}

/// Removes all links of a user who takes the account over, or back, with what rules have given by them:
/// somebody else may have made them.
pub fn remove_all(tx: &mut Tx, user: Id<User>) -> Result<()> {
    let links: Vec<SignInLink> = tx.all(ListSource::TABLE, &user)?;
    links.iter().try_for_each(|link| tx.remove(link))?;
    withdraw_all(tx, user)
}

/// Withdraws what rules have given a person whose links are all removed.
pub(super) fn withdraw_all(tx: &mut Tx, user: Id<User>) -> Result<()> {
    let (by, cause) = ("all providers unlinked", "unlinked");
    apply_in_all(tx, user, &Change { by, cause, matching: &|_, _| Vec::new() })
}

/// Why rules are applied, and which.
struct Change<'a> {
    /// What it is by, for the audit log.
    by: &'a str,
    /// The id of the request, or what it was instead.
    cause: &'a str,
    /// Those of the organization that apply now, by what applied before.
    matching: &'a dyn Fn(&RuleRights, Vec<SignInRule>) -> Vec<SignInRule>,
}

fn apply_in_all(tx: &mut Tx, user: Id<User>, change: &Change) -> Result<()> {
    let (own, mut room) = (tx.org(), MAX_CHANGES);
    for org in user_organizations(&tx.view(), user)? {
        tx.set_org(org);
        let applied = apply_in(tx, (user, org), change, &mut room);
        tx.set_org(own);
        applied?;
    }
    Ok(())
}

fn apply_in(
    tx: &mut Tx,
    (user, org): (Id<User>, Id<Org>),
    change: &Change,
    room: &mut usize,
) -> Result<()> {
    let rules = tx.get::<SignInRules>(&org)?.map(|all| all.rules).unwrap_or_default();
    let stored = tx.get::<RuleRights>(&(user, org))?;
    let before = stored.clone().unwrap_or_else(|| RuleRights::none(user, org));
    let mut after = before.clone();
    after.rules = (change.matching)(&before, rules);
    if stored.is_none() && after.rules.is_empty() {
        return Ok(());
    }
    let role = set_role(tx, &mut after)?;
    let (made, removed) = set_grants(tx, &mut after, room)?;
    if has_unwanted(tx, &after)? {
        enqueue(tx, &WITHDRAW, user.cast(), Some(user.cast()), tx.now())?;
    }
    if after == before {
        return Ok(());
    }
    store(tx, stored.as_ref(), &after)?;
    let titles: Vec<_> = after.rules.iter().map(SignInRule::title).collect();
    let by = if titles.is_empty() { "no rule any more".into() } else { titles.join(", ") };
    let detail = format!(
        "{}: role {}, {made} grants made, {removed} withdrawn; {by}",
        change.by,
        word(role),
    );
    let detail: String = detail.chars().take(1000).collect();
    audit_system(
        tx,
        SystemAction {
            action: "member.apply_rules",
            resource_id: &user.to_string(),
            detail: &detail,
            cause: change.cause,
        },
    )
}

fn store(tx: &mut Tx, stored: Option<&RuleRights>, after: &RuleRights) -> Result<()> {
    let is_empty = after.rules.is_empty() && after.grants.is_empty() && after.role.is_none();
    match stored {
        Some(old) if is_empty => tx.remove(old),
        Some(old) => tx.replace(old, after),
        None => tx.insert(after),
    }
}

/// Withdraws what one request had no room for: whoever takes an account over, or unlinks a provider, may
/// never sign in with it again. The target is the person.
pub(super) const WITHDRAW: JobHandler =
    JobHandler { kind: "sign_in_rules.withdraw", prepare: withdraw_some, settle: no_effect };

pub(super) fn withdraw_some(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let key = (job.target.cast::<User>(), tx.org());
    let Some(stored) = tx.get::<RuleRights>(&key)? else { return Ok(Prepared::Done) };
    let mut after = stored.clone();
    let removed = withdraw_grants(tx, &mut after, &mut { MAX_CHANGES })?;
    if after == stored {
        return Ok(Prepared::Done);
    }
    store(tx, Some(&stored), &after)?;
    let detail = format!("{removed} more grants withdrawn");
    let (action, cause) = ("member.apply_rules", job.id.to_string());
    let resource_id = &key.0.to_string();
    audit_system(tx, SystemAction { action, resource_id, detail: &detail, cause: &cause })?;
    Ok(if has_unwanted(tx, &after)? { Prepared::RetryAt(tx.now()) } else { Prepared::Done })
}

/// The rules that apply now: of this provider those that it meets, and of others those that applied and are
/// as they were. None of a provider that is not there any more, or has another name: nobody signs in with it.
fn matching(
    before: &RuleRights,
    rules: Vec<SignInRule>,
    (said, values): (&Said, &Values),
) -> Vec<SignInRule> {
    let applies = |rule: &SignInRule| {
        if rule.provider == said.provider {
            values.contains(&(rule.claim.as_str(), rule.value.as_str()))
        } else {
            said.oidc.provider(&rule.provider).is_some() && before.rules.contains(rule)
        }
    };
    rules.into_iter().filter(applies).collect()
}

/// The names and values of claims.
type Values<'a> = HashSet<(&'a str, &'a str)>;

/// The values of all claims: a text, or the texts of a list. Others match nothing. Collected once, since each
/// of many rules looks for one among thousands.
fn values(claims: &Map<String, Value>) -> Values<'_> {
    let mut values = Values::new();
    for (claim, value) in claims {
        match value {
            Value::String(one) => {
                values.insert((claim, one));
            }
            Value::Array(all) => {
                values
                    .extend(all.iter().filter_map(Value::as_str).map(|one| (claim.as_str(), one)));
            }
            _ => {}
        }
    }
    values
}

/// Gives a member the highest role of the rules, if theirs is lower, or the own one back. Returns it.
fn set_role(tx: &mut Tx, after: &mut RuleRights) -> Result<Role> {
    let membership: Membership = tx.fetch(&(after.user, after.org))?;
    let current = membership.role;
    let own = match after.role {
        Some(by_rule) if by_rule.given == current => by_rule.own,
        _ => current,
    };
    let by_rules = after.rules.iter().filter_map(|rule| rule.role).max();
    let wanted = by_rules.map_or(own, |role| role.max(own));
    if wanted != current {
        match members::set_role(tx, &membership, wanted) {
            Ok(_) => {}
            // The last owner and the break-glass owner stay so, as somebody must be one. The next sign-in
            // tries again; if there is none, since all was unlinked, another owner changes it by hand.
            Err(refused) if refused.kind() == Kind::Conflict => return Ok(current),
            Err(error) => return Err(error),
        }
    }
    after.role = (wanted != own).then_some(GivenRole { own, given: wanted });
    Ok(wanted)
}

/// Makes the grants of the rules, and withdraws those that were made for rules and are in none any more.
/// Returns how many of each; what there is no room for is left as it is.
pub(super) fn set_grants(
    tx: &mut Tx,
    after: &mut RuleRights,
    room: &mut usize,
) -> Result<(usize, usize)> {
    let removed = withdraw_grants(tx, after, room)?;
    let user = after.user;
    let mut kept = std::mem::take(&mut after.grants);
    let before = kept.len();
    for rule in &after.rules {
        for wanted in rule.grants.iter().copied() {
            if *room == 0 {
                break;
            }
            if let Some(grant) = grant_new(tx, user, wanted, rule.set_by)? {
                kept.push(grant.id);
                *room -= 1;
            }
        }
    }
    let made = kept.len() - before;
    after.grants = kept;
    Ok((made, removed))
}

/// Makes a grant in the name of an owner, if there is none, and what it opens is there. What somebody has
/// granted by hand stays theirs to withdraw.
fn grant_new(
    tx: &mut Tx,
    user: Id<User>,
    RuleGrant { resource_type, resource_id }: RuleGrant,
    by: Id<User>,
) -> Result<Option<Grant>> {
    if tx.find(&GRANT_BY_TARGET, &(user, resource_type, resource_id))?.is_some() {
        return Ok(None);
    }
    grants::for_rule(tx, user, (resource_type, resource_id), by)
}

/// Withdraws the grants that were made for rules and are in none any more, as far as there is room, and
/// forgets those that are gone. Returns how many.
fn withdraw_grants(tx: &mut Tx, after: &mut RuleRights, room: &mut usize) -> Result<usize> {
    let wanted = wanted(after);
    let (mut kept, mut removed) = (Vec::new(), 0);
    for id in &after.grants {
        let Some(grant) = tx.get::<Grant>(id)? else { continue };
        if wanted.contains(&target(&grant)) || *room == 0 {
            kept.push(*id);
        } else {
            tx.remove(&grant)?;
            removed += 1;
            *room -= 1;
        }
    }
    after.grants = kept;
    Ok(removed)
}

/// Whether a grant is left that is to be withdrawn.
fn has_unwanted(tx: &Tx, rights: &RuleRights) -> Result<bool> {
    let wanted = wanted(rights);
    for id in &rights.grants {
        if tx.get::<Grant>(id)?.is_some_and(|grant| !wanted.contains(&target(&grant))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the rules open that apply.
fn wanted(rights: &RuleRights) -> BTreeSet<RuleGrant> {
    rights.rules.iter().flat_map(|rule| &rule.grants).copied().collect()
}

fn target(grant: &Grant) -> RuleGrant {
    let Grant { resource_type, resource_id, .. } = *grant;
    RuleGrant { resource_type, resource_id }
}
