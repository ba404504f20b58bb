//! Protected labels of registries: who may move or remove a label there, and whose approval that takes
//! (reference: registries-and-templates, "Protected labels").
//!
//! The rule is of the registry, for the labels of all its artifacts. Every way of moving a label asks
//! [`require_movable`].

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::registry::{Registry, require_usable};
use super::scope_target::{REGISTRY_IN_PATH, target};
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    Caller, MEMBER, Membership, Restricted, Role, SESSION_ADMIN, ScopeName, ScopeTarget, User,
};
use crate::base::{BoundedList, Error, Id, Int, Issue, Label, Result, Time};
use crate::resources::approvals::{ApprovalPolicy, NewApprovalPolicy};
use crate::store::{
    AnyIndex, AnyReference, Export, Key, ListSource, Order, Org, Page, Record, Reference,
    TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<ProtectedLabel>()], ..Resource::EMPTY };

/// A registry has at most 20 protected labels: each publication may look at all of them.
const MAX_OF_REGISTRY: usize = 20;

/// An organization has at most 1,000: removing a member reads all of them in one transaction.
const MAX_OF_ORGANIZATION: usize = 1000;

/// At most 50 users are named, as approvers.
const MAX_USERS: usize = 50;

/// A refusal names at most so many users.
const MAX_SHOWN: usize = 5;

/// How long a change may wait by default, in hours: a weekend and a day.
const DEFAULT_APPROVAL_TIMEOUT_HOURS: u32 = 72;

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// The protection of a label in a registry.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ProtectedLabel {
    pub registry: Id<Registry>,
    pub label: Label,
    /// Members with this role or a higher one may move it; none for those named alone.
    pub min_role: Option<Role>,
    /// The members and service accounts who may move it besides.
    pub user_ids: Vec<Id<User>>,
    /// Whose approval moving it takes; none if it takes none.
    pub approvals: Option<ApprovalPolicy>,
    /// How long a change may wait for approvals, in hours.
    pub approval_timeout_hours: u32,
    pub updated_at: Time,
    /// Who last changed it; none if the server itself did.
    pub updated_by: Option<Id<User>>,
}
}

static REGISTRY: Reference<ProtectedLabel, Restricted<Registry>> = Reference::cascade(
    &["registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |row: &ProtectedLabel, _| vec![row.registry.to_bytes()],
);

/// A user who leaves and returns may not move it. All protected labels of the organization are
/// scanned, at most 1,000.
static MOVERS: Reference<ProtectedLabel, Membership> = Reference::clear(
    &["user_ids"],
    |tx, row, (user, _)| {
        let (updated_at, updated_by) = (tx.now(), None);
        let mut left = ProtectedLabel { updated_at, updated_by, ..row.clone() };
        left.user_ids.retain(|one| one != user);
        Ok(left)
    },
    |_: &Membership| Vec::new(),
    |row: &ProtectedLabel, org| row.user_ids.iter().map(|user| (*user, org).to_bytes()).collect(),
);

static APPROVERS: Reference<ProtectedLabel, Membership> = Reference::clear(
    &["approvals.approver_ids"],
    without_approver,
    |_: &Membership| Vec::new(),
    |row: &ProtectedLabel, org| {
        let approvers = row.approvals.iter().flat_map(|policy| &policy.approver_ids);
        approvers.map(|approver| (*approver, org).to_bytes()).collect()
    },
);

/// # Errors
/// 409 for the last approver: without one, the label could never be moved.
fn without_approver(
    tx: &Tx,
    old: &ProtectedLabel,
    (user, _): &(Id<User>, Id<Org>),
) -> Result<ProtectedLabel> {
    let Some(policy) = &old.approvals else { return Ok(old.clone()) };
    let left = policy.without(*user).ok_or_else(|| {
        Error::conflict(
            "last_approver",
            format!(
                "this member is the only approver of the protected label \"{}\"; name another \
                 approver in its registry first",
                old.label
            ),
        )
    })?;
    let (updated_at, updated_by, approvals) = (tx.now(), None, Some(left));
    Ok(ProtectedLabel { approvals, updated_at, updated_by, ..old.clone() })
}

impl Record for ProtectedLabel {
    const TABLE: &'static str = "protected_labels";
    const NOUN: &'static str = "protected label";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY, &MOVERS, &APPROVERS];
    type Key = (Id<Registry>, Label);
    fn key(&self) -> Self::Key {
        (self.registry, self.label.clone())
    }
}

impl ProtectedLabel {
    /// Whether a caller may move the label, or ask for that where it takes approvals.
    pub fn permits(&self, caller: &Caller) -> bool {
        self.min_role.is_some_and(|least| caller.role >= least)
            || caller.grantees().all(|user| self.user_ids.contains(&user))
    }

    /// Says who may move the label.
    fn movers(&self, view: &View) -> Result<String> {
        let mut movers: Vec<String> = Vec::new();
        movers.extend(self.min_role.map(|least| match least {
            Role::Owner => "owners".into(),
            Role::Admin => "owners and admins".into(),
            _ => "members".into(),
        }));
        for user in self.user_ids.iter().take(MAX_SHOWN) {
            let user: User = view.fetch(user)?;
            let kind = if user.is_service() { "the service account " } else { "" };
            movers.push(format!("{kind}{}", user.name));
        }
        if let more @ 1.. = self.user_ids.len().saturating_sub(MAX_SHOWN) {
            movers.push(format!("{more} more"));
        }
        Ok(if movers.is_empty() { "nobody at present".into() } else { movers.join(", ") })
    }
}

// ── For other resources ──────────────────────────────────────────────────────

/// Returns the protected labels of a registry.
pub fn protected_labels(view: &View, registry: Id<Registry>) -> Result<Vec<ProtectedLabel>> {
    view.all(ListSource::TABLE, &registry)
}

/// Returns the protection of a label, if it is protected and the caller may move it.
///
/// # Errors
/// 403 if it is protected and the caller may not.
pub fn require_movable(
    view: &View,
    caller: &Caller,
    registry: &Registry,
    label: &Label,
) -> Result<Option<ProtectedLabel>> {
    let Some(found) = protection(view, registry.id, label)? else { return Ok(None) };
    if found.permits(caller) {
        return Ok(Some(found));
    }
    let (name, movers) = (&registry.reference, found.movers(view)?);
    Err(Error::forbidden(
        "label_protected",
        format!(
            "the label {label} is protected in {name}: moved and removed by {movers}; ask one of \
             them, or an admin to change the protection"
        ),
    ))
}

/// Returns the protection of a label, if it is protected.
pub fn protection(
    view: &View,
    registry: Id<Registry>,
    label: &Label,
) -> Result<Option<ProtectedLabel>> {
    view.get(&(registry, label.clone()))
}

// ── What callers send and see ────────────────────────────────────────────────

/// The protection of a label to set: all of it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"minRole": "admin", "approvals": {
        "approverIds": ["01890a5d-ac96-774b-bcce-b302099a8057"], "preventSelfApproval": true}}],
))]
pub struct NewProtectedLabel {
    /// Members with this role or a higher one may move and remove the label; if absent, only those in
    /// `userIds`, or admins if it names nobody.
    min_role: Option<Role>,
    /// Members and service accounts who may, whatever their role.
    #[schemars(extend("uniqueItems" = true))]
    user_ids: Option<BoundedList<Id<User>, 0, MAX_USERS>>,
    /// Whose approval it takes; if absent, nobody's.
    approvals: Option<NewApprovalPolicy>,
    /// Hours after which a change that waits for approval ends; 72 by default.
    approval_timeout_hours: Option<Int<1, 8760>>,
}

impl NewProtectedLabel {
    fn users(&self) -> &[Id<User>] {
        self.user_ids.as_deref().unwrap_or_default()
    }

    fn min_role(&self) -> Option<Role> {
        self.min_role.or_else(|| self.users().is_empty().then_some(Role::Admin))
    }
}

impl Input for NewProtectedLabel {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        if self.min_role == Some(Role::Viewer) {
            issues.push(Issue::new(
                "minRole",
                "must be member, admin or owner: viewers move nothing",
            ));
        }
        let mut seen = BTreeSet::new();
        for (index, id) in self.users().iter().enumerate() {
            // Invalid ids are all read as the nil id, which is 404 later.
            if !id.is_nil() && !seen.insert(id) {
                issues.push(Issue::new(format!("userIds[{index}]"), "must not be repeated"));
            }
        }
        if let Some(approvals) = &self.approvals {
            approvals.check(issues);
        }
    }
}

/// The protection of a label in a registry, as members see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ProtectedLabel")]
pub struct ProtectedLabelInfo {
    /// The label, of every artifact of the registry.
    label: Label,
    /// Members with this role or a higher one may move and remove it; null if only those named may.
    min_role: Option<Role>,
    /// The members and service accounts who may, whatever their role.
    user_ids: Vec<Id<User>>,
    /// Whose approval it takes; null if it takes none.
    approvals: Option<ApprovalPolicy>,
    /// Hours after which a change that waits for approval ends.
    approval_timeout_hours: u32,
    /// Whether the caller may move and remove it, or ask for that where it takes approvals.
    may_move: bool,
    updated_at: Time,
    updated_by: Option<Id<User>>,
    /// The registry, for the audit log.
    #[serde(skip)]
    registry: String,
}

impl Output for ProtectedLabelInfo {
    fn resource(&self) -> Option<ResourceRef> {
        Some(ResourceRef::id(&self.label)?.with_detail(&self.registry))
    }
}

fn info(registry: &Registry, caller: &Caller, row: ProtectedLabel) -> ProtectedLabelInfo {
    let target = ScopeTarget { label: Some(row.label.to_string()), ..target(registry) };
    ProtectedLabelInfo {
        // No role and no name replaces the scope of a key; a viewer has none that moves.
        may_move: row.permits(caller) && caller.covers(ScopeName::LabelMove, Some(&target)),
        label: row.label,
        min_role: row.min_role,
        user_ids: row.user_ids,
        approvals: row.approvals,
        approval_timeout_hours: row.approval_timeout_hours,
        updated_at: row.updated_at,
        updated_by: row.updated_by,
        registry: registry.reference.clone(),
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<String>) -> Result<Page<ProtectedLabelInfo>> {
    let registry = require_usable(view, req.caller(), &req.params)?;
    let page = view.page(ListSource::TABLE, &registry.id, Order::Ascending, &req.page, |_| true)?;
    Ok(page.map(|row| info(&registry, req.caller(), row)))
}

pub(super) fn get(view: &View, req: &Req<(String, String)>) -> Result<ProtectedLabelInfo> {
    let (reference, label) = &req.params;
    let registry = require_usable(view, req.caller(), reference)?;
    Ok(info(&registry, req.caller(), named(view, &registry, label)?))
}

/// # Errors
/// 404 if the label is not protected.
fn named(view: &View, registry: &Registry, label: &str) -> Result<ProtectedLabel> {
    let no_such = || Error::no_such("protected label").at("label");
    let label = Label::parse(label).map_err(|_| no_such())?;
    protection(view, registry.id, &label)?.ok_or_else(no_such)
}

pub(super) fn set(
    tx: &mut Tx,
    req: &Req<(String, Label), NewProtectedLabel>,
) -> Result<ProtectedLabelInfo> {
    let ((reference, label), new) = (&req.params, &req.input);
    let registry = require_usable(&tx.view(), req.caller(), reference)?;
    let old = protection(&tx.view(), registry.id, label)?;
    if old.is_none() {
        require_room(tx, &registry)?;
    }
    for (index, user) in new.users().iter().enumerate() {
        let member = tx.fetch::<Membership>(&(*user, tx.org()));
        member.map_err(|error| error.at(format!("userIds[{index}]")))?;
    }
    let approvals = match &new.approvals {
        Some(approvals) => Some(approvals.resolve(&tx.view())?),
        None => None,
    };
    let hours = new.approval_timeout_hours.map(|hours| hours.get() as u32);
    let row = ProtectedLabel {
        registry: registry.id,
        label: label.clone(),
        min_role: new.min_role(),
        user_ids: new.users().to_vec(),
        approvals,
        approval_timeout_hours: hours.unwrap_or(DEFAULT_APPROVAL_TIMEOUT_HOURS),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    tx.put(&row)?;
    Ok(info(&registry, req.caller(), row))
}

/// # Errors
/// 409 if the registry or the organization has as many as it may.
fn require_room(tx: &Tx, registry: &Registry) -> Result<()> {
    let table = || ListSource::<ProtectedLabel>::TABLE;
    if tx.count(table(), &registry.id, MAX_OF_REGISTRY)? == MAX_OF_REGISTRY {
        return Err(Error::conflict(
            "protected_labels_full",
            "a registry has at most 20 protected labels; remove the protection of one",
        ));
    }
    if tx.count(table(), &(), MAX_OF_ORGANIZATION)? == MAX_OF_ORGANIZATION {
        return Err(Error::conflict(
            "protected_labels_full",
            "an organization has at most 1,000 protected labels; remove the protection of one",
        ));
    }
    Ok(())
}

pub(super) fn delete(tx: &mut Tx, req: &Req<(String, String)>) -> Result<Deleted> {
    let (reference, label) = &req.params;
    let registry = require_usable(&tx.view(), req.caller(), reference)?;
    let row = named(&tx.view(), &registry, label)?;
    tx.remove(&row)?;
    let about = ResourceRef { kind: None, id: row.label.to_string(), detail: None };
    Ok(Deleted::new(row.label).about(about.with_detail(registry.reference)))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/registries/{registrySlug}/protected-labels";
    const ONE: &str = "/registries/{registrySlug}/protected-labels/{label}";
    vec![
        Route::get(ALL, MEMBER, "protected_label.list", op::list(list))
            .needs_for(ScopeName::RegistryRead, &REGISTRY_IN_PATH)
            .about("List protected labels of a registry"),
        Route::get(ONE, MEMBER, "protected_label.get", op::read(get))
            .needs_for(ScopeName::RegistryRead, &REGISTRY_IN_PATH)
            .about("Get the protection of a label"),
        Route::put(ONE, SESSION_ADMIN, "protected_label.set", op::write(set))
            .about("Protect a label of a registry"),
        Route::delete(ONE, SESSION_ADMIN, "protected_label.delete", op::write(delete))
            .about("Remove the protection of a label"),
    ]
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::Principal;
    use crate::base::Kind;
    use crate::resources::registries::tests::make;
    use crate::resources::testing::{Fixture, user};

    /// Protects a label of `acme/main` as an admin.
    pub fn protect(fixture: &Fixture, label: &str, body: Value) -> Result<Value> {
        let params = ("main".to_string(), Label::parse(label).unwrap());
        let set = fixture.write_as(&fixture.owner, set, params, Fixture::input(body)?)?;
        Ok(json!(set))
    }

    /// Removes the protection of a label of `acme/main`.
    pub fn unprotect(fixture: &Fixture, label: &str) {
        let params = ("main".to_string(), label.to_string());
        fixture.write_as(&fixture.owner, delete, params, ()).unwrap();
    }

    fn shown(fixture: &Fixture, who: &Principal) -> Vec<Value> {
        let listed = fixture.read_as(who, list, "main".into(), ()).unwrap().items;
        listed.into_iter().map(|one| json!(one)).collect()
    }

    fn allowed(fixture: &Fixture, who: &Principal) -> bool {
        shown(fixture, who)[0]["mayMove"] == true
    }

    #[test]
    fn a_protection_names_a_role_or_users_once() {
        let issues = |body: Value| {
            let error = Fixture::input::<NewProtectedLabel>(body).err().expect("a problem");
            error.issues().iter().map(|issue| issue.path.clone()).collect::<Vec<_>>()
        };
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(issues(json!({"minRole": "viewer"})), ["minRole"]);
        assert_eq!(issues(json!({"userIds": [id, id]})), ["userIds[1]"]);
        assert_eq!(issues(json!({"userIds": vec![id; 51]})), ["userIds"]);
        let approvals = json!({"minRole": "admin", "approvals": {"approverIds": []}});
        assert_eq!(issues(approvals), ["approvals.approverIds"]);
    }

    #[test]
    fn a_role_or_a_name_permits_to_move_and_the_list_says_so() {
        let fixture = Fixture::new();
        make(&fixture, "main", json!({})).unwrap();
        let (cyd, dan) = (fixture.person("cyd", Role::Admin), fixture.person("dan", Role::Member));
        protect(&fixture, "production", json!({"minRole": "admin", "userIds": [user(&dan)]}))
            .unwrap();
        for (who, may) in
            [(&fixture.owner, true), (&cyd, true), (&dan, true), (&fixture.member, false)]
        {
            assert_eq!(allowed(&fixture, who), may);
        }
        protect(&fixture, "production", json!({"minRole": "owner"})).unwrap();
        assert!(allowed(&fixture, &fixture.owner) && !allowed(&fixture, &cyd));
        // A viewer moves nothing, by whatever name.
        let vic = fixture.person("vic", Role::Viewer);
        protect(&fixture, "production", json!({"userIds": [user(&dan), user(&vic)]})).unwrap();
        assert!(allowed(&fixture, &dan) && !allowed(&fixture, &fixture.owner));
        assert!(!allowed(&fixture, &vic));
        fixture.assert_sound();
    }

    #[test]
    fn a_member_who_leaves_is_named_no_more_but_the_last_approver_stays() {
        let fixture = Fixture::new();
        make(&fixture, "main", json!({})).unwrap();
        let (cyd, dan) = (fixture.person("cyd", Role::Member), fixture.person("dan", Role::Member));
        let [cyd_id, dan_id] = [&cyd, &dan].map(user);
        let approvals = json!({"approverIds": [cyd_id, dan_id]});
        let body = json!({"userIds": [cyd_id, dan_id], "approvals": approvals});
        protect(&fixture, "production", body).unwrap();
        fixture.leave(&cyd).unwrap();
        let left = &shown(&fixture, &dan)[0];
        assert_eq!(left["userIds"], json!([dan_id]));
        assert_eq!(left["approvals"]["approverIds"], json!([dan_id]));
        let refused = fixture.leave(&dan).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "last_approver"));
        protect(&fixture, "production", json!({"userIds": [dan_id]})).unwrap();
        fixture.leave(&dan).unwrap();
        assert_eq!(shown(&fixture, &fixture.owner)[0]["userIds"], json!([]));
        fixture.assert_sound();
    }

    #[test]
    fn only_members_are_named() {
        let fixture = Fixture::new();
        make(&fixture, "main", json!({})).unwrap();
        let (_, outsider) = fixture.other_org("other");
        let body = json!({"userIds": [user(&fixture.member), user(&outsider)]});
        let refused = protect(&fixture, "production", body).unwrap_err();
        assert_eq!((refused.kind(), refused.path()), (Kind::NotFound, Some("userIds[1]")));
        let approvals = json!({"approverIds": [user(&outsider)]});
        let body = json!({"minRole": "member", "approvals": approvals});
        let refused = protect(&fixture, "production", body).unwrap_err();
        assert_eq!(refused.path(), Some("approvals.approverIds[0]"));
        assert_eq!(shown(&fixture, &fixture.owner), [] as [Value; 0]);
    }

    #[test]
    fn a_registry_has_at_most_20_protected_labels() {
        let fixture = Fixture::new();
        make(&fixture, "main", json!({})).unwrap();
        for number in 0..MAX_OF_REGISTRY {
            protect(&fixture, &format!("l{number}"), json!({"minRole": "admin"})).unwrap();
        }
        let more = protect(&fixture, "more", json!({"minRole": "admin"})).unwrap_err();
        assert_eq!(more.code(), "protected_labels_full");
        protect(&fixture, "l0", json!({"minRole": "owner"})).unwrap();
        unprotect(&fixture, "l0");
        protect(&fixture, "more", json!({"minRole": "admin"})).unwrap();
        assert_eq!(shown(&fixture, &fixture.member).len(), MAX_OF_REGISTRY);
    }
}
