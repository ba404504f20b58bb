//! Explains what a member or a key may do, and by which rule (reference: identity-and-rights, "Why
//! may she?"). It asks the rules that decide about requests themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule_rights::{self, RuleRights, SignInRule};
use super::service_accounts;
use super::sign_in_link::SignInLink;
use crate::api::{Input, Output, Req, ResourceRef, Route, RouteRule, op, require_scopes};
use crate::auth::oidc::{Oidc, OidcProvider};
use crate::auth::{
    ADMIN, AccessBasis, ApiKey, Caller, Credential, Grant, Granted, KEYS_BY_ORG, Membership,
    RequiredProvider, ResourceType, Restrictable, Restricted, Role, ScopeName, ScopeTarget, User,
    grant_required, require_installation_admin, requires_second_factor, supposed_caller,
};
use crate::base::{Error, Id, Issue, Kind, Label, Result};
use crate::resources::environments::{self, Environment};
use crate::resources::fleet::Fleet;
use crate::resources::registries::{self, ProtectedLabel, Registry};
use crate::store::{ListSource, Order, Record, View};

/// Finds what the route of an action requires, by the action's name.
pub type RuleOf = fn(&str) -> Option<&'static RouteRule>;

/// Returns the protection of a label that the caller may move.
///
/// # Errors
/// 403 otherwise.
pub type MovableLabel = fn(&View, &Caller, &Registry, &Label) -> Result<Option<ProtectedLabel>>;

/// A question about the rights of a member or a key.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"userId": "01890a5d-ac96-774b-bcce-b302099a8057",
    "action": "artifact_version.publish", "resourceType": "registry",
    "resourceId": "01890a5d-ac96-774b-bcce-b302099a8058"}],
))]
struct AccessQuestion {
    /// The member or service account, in a session; exactly one of `userId` and `keyId` is needed.
    user_id: Option<Id<User>>,
    /// The API key, which acts as its user.
    key_id: Option<Id<ApiKey>>,
    /// What they would do: the name of an action, as in the audit log.
    action: String,
    /// With `resourceId`: what they would do it to, or what that belongs to.
    resource_type: Option<ResourceType>,
    resource_id: Option<Id<Granted>>,
    /// With a registry and an action on labels: the label that they would move there.
    label: Option<Label>,
}

impl Input for AccessQuestion {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.user_id.is_some() == self.key_id.is_some() {
            issues.push(Issue::new("userId", "must be sent, or keyId instead of it"));
        }
        if self.resource_type.is_some() != self.resource_id.is_some() {
            issues.push(Issue::new("resourceId", "must be sent together with resourceType"));
        }
    }
}

/// What a member or a key may do, and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AccessExplanation {
    /// Whether all rules are met. What depends on the state of a resource is not asked.
    allowed: bool,
    /// The user as whom they act.
    user_id: Id<User>,
    role: Role,
    /// The rules in the order in which a request meets them.
    rules: Vec<ExplainedRule>,
}

impl Output for AccessExplanation {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::of("user", self.user_id)
    }
}

/// A rule, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExplainedRule {
    rule: AccessRule,
    /// Whether a request passes it.
    met: bool,
    /// Why, as a sentence.
    reason: String,
    /// The code of the error that a request gets; null if the rule is met.
    code: Option<&'static str>,
    /// The grant by which the rule is met, if it is by one.
    grant_id: Option<Id<Grant>>,
}

/// A rule that decides about requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AccessRule {
    /// Whether an API key is accepted at all.
    Credential,
    /// Whether they sign in with the provider that the organization requires. Only of a person, where it
    /// requires one.
    Provider,
    /// Whether they have the second factor that the organization requires. Only of a person, where it
    /// requires one.
    SecondFactor,
    /// The role in the organization.
    Role,
    /// Whether they administer the installation. Only for what is about all of it.
    Installation,
    /// The scopes of an API key.
    Scope,
    /// The access of the resource, and the grants for it.
    Grant,
    /// Who may move the label, and what a policy demands of it. Only where a label is asked about.
    ProtectedLabel,
}

impl ExplainedRule {
    /// A rule by its outcome; `reason` says why it is met.
    ///
    /// # Errors
    /// Those that are no refusals.
    fn of(rule: AccessRule, outcome: Result<()>, reason: impl Into<String>) -> Result<Self> {
        let refusal = match outcome {
            Ok(()) => None,
            Err(error) if matches!(error.kind(), Kind::Forbidden | Kind::Unauthenticated) => {
                Some(error)
            }
            Err(error) => return Err(error),
        };
        Ok(ExplainedRule {
            rule,
            met: refusal.is_none(),
            code: refusal.as_ref().map(Error::code),
            reason: refusal.map_or(reason.into(), |error| error.message().into()),
            grant_id: None,
        })
    }
}

/// A resource that the question names.
struct Subject {
    basis: Option<AccessBasis>,
    /// As scopes of keys name it.
    target: Option<ScopeTarget>,
    is_public: bool,
    registry: Option<Registry>,
}

fn explain(
    view: &View,
    req: &Req<(), AccessQuestion>,
    (rule_of, movable): (RuleOf, MovableLabel),
) -> Result<AccessExplanation> {
    let question = &req.input;
    let rule = rule_of(&question.action).ok_or_else(|| {
        Error::invalid_at(
            "action",
            "must be the name of an action, such as artifact_version.publish",
        )
    })?;
    let caller = match caller(view, question)? {
        Supposed::Caller(caller) => caller,
        Supposed::Refused(user_id, refusal) => {
            let rules = vec![ExplainedRule::of(AccessRule::Credential, Err(refusal), "")?];
            return Ok(AccessExplanation { allowed: false, user_id, role: Role::Member, rules });
        }
    };
    let mut subject = match (question.resource_type, question.resource_id) {
        (Some(kind), Some(id)) => Some(subject(view, &caller, kind, id)?),
        _ => None,
    };
    if let Some(target) = subject.as_mut().and_then(|subject| subject.target.as_mut()) {
        target.label = question.label.as_ref().map(Label::to_string);
    }
    let subject = subject.as_ref();
    let is_public = rule.policy.public_read && subject.is_some_and(|subject| subject.is_public);
    let mut rules = Vec::new();
    if !caller.is_session() {
        let reason = "API keys are accepted for this";
        rules.push(ExplainedRule::of(AccessRule::Credential, rule.policy.require_keys(), reason)?);
    } else if rule.policy.role.is_some() {
        rules.extend(sign_in_rules(view, &caller, &req.server.oidc, is_public)?);
    }
    let by_rules = rule_rights::of_caller(view, &caller)?;
    rules.push(role_rule(rule, &caller, by_rules.as_ref())?);
    rules.extend(scope_rule(rule, &caller, subject, is_public)?);
    if rule.policy.installation {
        let outcome = require_installation_admin(view, &caller.identity);
        let reason = "they administer the installation";
        rules.push(ExplainedRule::of(AccessRule::Installation, outcome, reason)?);
    }
    if let Some(subject) = subject {
        let title = rule_of_grant(view, subject, by_rules.as_ref())?;
        rules.push(grant_rule(subject, &caller, is_public, title)?);
        if let (Some(registry), Some(label)) = (&subject.registry, &question.label)
            && question.action.starts_with("artifact_label.")
        {
            rules.push(label_rule(movable(view, &caller, registry, label))?);
        }
    }
    Ok(AccessExplanation {
        allowed: rules.iter().all(|rule| rule.met),
        user_id: caller.user(),
        role: caller.role,
        rules,
    })
}

/// Whom the question is about.
enum Supposed {
    Caller(Box<Caller>),
    /// The user of a key that is not accepted at present, and the error that it gets.
    Refused(Id<User>, Error),
}

fn caller(view: &View, question: &AccessQuestion) -> Result<Supposed> {
    if let Some(id) = question.key_id {
        let key: Option<ApiKey> = view.first(&KEYS_BY_ORG, &(view.org(), id), Order::Ascending)?;
        let key = key.filter(|key| key.id == id && key.expires_at.is_none_or(|at| at > view.now()));
        let key = key.ok_or_else(|| Error::no_such("API key").at("keyId"))?;
        return match supposed_caller(view, &view.fetch(&key.user)?, Some(&key)) {
            Err(refusal) if refusal.kind() == Kind::Unauthenticated => {
                Ok(Supposed::Refused(key.user, refusal))
            }
            supposed => supposed.map(|caller| Supposed::Caller(Box::new(caller))),
        };
    }
    let id = question.user_id.unwrap_or(Id::NIL);
    let is_member = view.get::<Membership>(&(id, view.org()))?.is_some();
    let user = if is_member { view.get::<User>(&id)? } else { None };
    let user = user.ok_or_else(|| Error::no_such("member").at("userId"))?;
    if service_accounts::fetch(view, id).is_ok() {
        let message = "must be a person: a service account acts through its keys; send keyId";
        return Err(Error::invalid_at("userId", message));
    }
    supposed_caller(view, &user, None).map(|caller| Supposed::Caller(Box::new(caller)))
}

fn subject(view: &View, caller: &Caller, kind: ResourceType, id: Id<Granted>) -> Result<Subject> {
    match kind {
        ResourceType::Fleet => subject_of::<Fleet>(view, caller, id).map(|(subject, _)| subject),
        ResourceType::Registry => {
            let (subject, found) = subject_of::<Registry>(view, caller, id)?;
            let registry = found.without_caller().clone();
            let target = Some(registries::scope_target(&registry));
            Ok(Subject { target, registry: Some(registry), ..subject })
        }
        ResourceType::Environment => {
            let (subject, found) = subject_of::<Environment>(view, caller, id)?;
            let target = Some(environments::scope_target(found.without_caller()));
            Ok(Subject { target, ..subject })
        }
    }
}

fn subject_of<T: Restrictable>(
    view: &View,
    caller: &Caller,
    id: Id<Granted>,
) -> Result<(Subject, Restricted<T>)>
where
    Restricted<T>: Record<Key = Id<T>>,
{
    let found: Option<Restricted<T>> = view.get(&id.cast())?;
    let found = found.ok_or_else(|| Error::no_such("resource").at("resourceId"))?;
    let (basis, is_public) = (found.basis(view, caller)?, found.is_public());
    Ok((Subject { basis, target: None, is_public, registry: None }, found))
}

/// What the organization asks of how a person signs in. A question names no session: it is of one that meets
/// the rules, if the person can begin one.
fn sign_in_rules(
    view: &View,
    caller: &Caller,
    oidc: &Oidc,
    is_public: bool,
) -> Result<Vec<ExplainedRule>> {
    let (user, mut rules) = (caller.user(), Vec::new());
    let required = view.get::<RequiredProvider>(&view.org())?;
    let links: Vec<SignInLink> = view.all(ListSource::TABLE, &user)?;
    // A session has the name that the provider has now, and a link that of when it was linked.
    let is_accepted = |provider: &&OidcProvider| {
        required.as_ref().is_none_or(|required| required.providers.contains(&provider.name))
    };
    let mut accepted = oidc.providers().iter().filter(is_accepted);
    let is_linked =
        accepted.any(|provider| links.iter().any(|link| link.issuer == provider.issuer));
    if let Some(required) = &required {
        let (outcome, reason) = match required.break_glass == user {
            _ if is_public => (Ok(()), "anyone may read it"),
            true => (Ok(()), "they are the owner who is let in with a password"),
            false if is_linked => {
                (Ok(()), "in a session that they begin with the required provider")
            }
            false => (Err(required.missing(user)), ""),
        };
        rules.push(ExplainedRule::of(AccessRule::Provider, outcome, reason)?);
    }
    if requires_second_factor(view, view.org())? {
        let (outcome, reason) = match caller.require_second_factor() {
            _ if is_public => (Ok(()), "anyone may read it"),
            Ok(()) => (Ok(()), "they have a second factor"),
            Err(_) if is_linked => {
                (Ok(()), "in a session that they begin with a provider, which needs none")
            }
            refused => (refused, ""),
        };
        rules.push(ExplainedRule::of(AccessRule::SecondFactor, outcome, reason)?);
    }
    Ok(rules)
}

/// What the role says, and by which rule of sign-ins the member has it.
fn role_rule(
    rule: &RouteRule,
    caller: &Caller,
    by_rules: Option<&RuleRights>,
) -> Result<ExplainedRule> {
    let reason = match caller.may_write() {
        _ if rule.policy.needs_admin() => "owners and admins may",
        true => "every member may",
        false => "viewers may, too: it changes nothing but their own account",
    };
    let outcome = rule.policy.require_role(caller.role, rule.is_for_viewers);
    let mut explained = ExplainedRule::of(AccessRule::Role, outcome, reason)?;
    if let Some(given) = by_rules.and_then(|all| all.rule_of_role(caller.role)) {
        explained.reason += &format!("; the role is given by the rule {}", given.title());
    }
    Ok(explained)
}

/// What the scopes of a key say; a session has none.
fn scope_rule(
    rule: &RouteRule,
    caller: &Caller,
    subject: Option<&Subject>,
    is_public: bool,
) -> Result<Option<ExplainedRule>> {
    let Credential::Key { access, .. } = &caller.identity.credential else { return Ok(None) };
    let names: Vec<_> = rule.required_scopes.iter().map(|one| one.name.text()).collect();
    let target = subject.and_then(|subject| subject.target.as_ref());
    let outcome = if is_public {
        Ok(())
    } else if rule.policy.is_session_only() {
        return Ok(None);
    } else {
        require_scopes(&rule.required_scopes, access, |_| Ok(target.cloned()))
    };
    let reason = match names.as_slice() {
        _ if is_public => "anyone may read it".into(),
        [] => "the key has full access".into(),
        names => format!("the key has {}", names.join(" and ")),
    };
    ExplainedRule::of(AccessRule::Scope, outcome, reason).map(Some)
}

/// The rule of sign-ins that the grant is of by which a resource is open, if it is of one.
fn rule_of_grant(
    view: &View,
    subject: &Subject,
    by_rules: Option<&RuleRights>,
) -> Result<Option<String>> {
    let (Some(AccessBasis::Grant(id)), Some(all)) = (subject.basis, by_rules) else {
        return Ok(None);
    };
    Ok(all.rule_of_grant(&view.fetch(&id)?).map(SignInRule::title))
}

/// Whether the resource is open to the caller; `by_rule` is the rule of sign-ins that their grant is of.
fn grant_rule(
    subject: &Subject,
    caller: &Caller,
    is_public: bool,
    by_rule: Option<String>,
) -> Result<ExplainedRule> {
    let (outcome, reason) = match subject.basis {
        _ if is_public => (Ok(()), "anyone may read it"),
        Some(AccessBasis::Open) => (Ok(()), "it is open to every member"),
        Some(AccessBasis::Admin) => (Ok(()), "it is restricted, and open to owners and admins"),
        Some(AccessBasis::Grant(_)) if !caller.may_write() => {
            (Ok(()), "it is restricted, and there is a grant for it; a viewer's is for reading")
        }
        Some(AccessBasis::Grant(_)) => (Ok(()), "it is restricted, and there is a grant for it"),
        None => (Err(grant_required()), ""),
    };
    let grant_id = match subject.basis {
        Some(AccessBasis::Grant(id)) if !is_public => Some(id),
        _ => None,
    };
    let mut explained = ExplainedRule::of(AccessRule::Grant, outcome, reason)?;
    if let Some(title) = by_rule.filter(|_| grant_id.is_some()) {
        explained.reason += &format!("; it is given by the rule {title}");
    }
    Ok(ExplainedRule { grant_id, ..explained })
}

/// Who may move a label of the registry.
fn label_rule(movable: Result<Option<ProtectedLabel>>) -> Result<ExplainedRule> {
    let (outcome, reason) = match movable {
        Ok(None) => (Ok(()), "the label is not protected"),
        Ok(Some(protection)) if protection.approvals.is_some() => {
            (Ok(()), "the label is protected, and they may ask for a move, which takes approvals")
        }
        Ok(Some(_)) => (Ok(()), "the label is protected, and they may move it"),
        Err(refusal) => (Err(refusal), ""),
    };
    ExplainedRule::of(AccessRule::ProtectedLabel, outcome, reason)
}

/// The route that explains access, by the rules that `rule_of` finds and what resources above ask.
pub fn route(rule_of: RuleOf, movable: MovableLabel) -> Route {
    let explain =
        move |view: &View, req: &Req<(), AccessQuestion>| explain(view, req, (rule_of, movable));
    Route::get("/access/explain", ADMIN, "access.explain", op::read(explain))
        .needs(ScopeName::GrantRead)
        .about("Explain what a member or key may do")
}
