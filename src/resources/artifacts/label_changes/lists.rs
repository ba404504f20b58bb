//! Listing label changes, those that wait for the caller among them, and their approvals.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::id::{ArtifactId, DEFAULT_TYPE};
use super::super::label_change::{
    BY_ARTIFACT, BY_REGISTRY, BY_STATE, LabelChange, LabelChangeApproval, LabelChangeInfo,
    LabelChangeState, WAITING_FOR,
};
use super::access::{CHANGE_IN_PATH, fetch};
use super::current::info;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName, usable_ids};
use crate::base::{ArtifactName, Id, Issue, Label, Result};
use crate::resources::approvals::{ApprovalInfo, Waiting, count_open, to_info};
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::store::{ListSource, Order, Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The filter of a list of label changes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelChangeFilter {
    /// Only changes in this registry: `<orgSlug>/<registrySlug>`, its id or its slug.
    registry_ref: Option<String>,
    /// Only changes of the artifact of this name; takes `registryRef`.
    prompt_name: Option<String>,
    /// The type of that artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// Only changes of this label.
    label: Option<String>,
    /// Only changes in this state.
    state: Option<LabelChangeState>,
    /// Only changes that wait for the caller's approval.
    approver: Option<Waiting>,
}

impl Input for LabelChangeFilter {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.prompt_name.is_some() && self.registry_ref.is_none() {
            issues.push(Issue::new("promptName", "takes registryRef: in which registry?"));
        }
        if self.artifact_type.is_some() && self.prompt_name.is_none() {
            issues.push(Issue::new("artifactType", "takes promptName: of which artifact?"));
        }
    }
}

/// The approval of a label change by one of its approvers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, JsonSchema)]
#[schemars(rename = "LabelChangeApproval")]
pub struct LabelChangeApprovalInfo {
    #[serde(flatten)]
    approval: ApprovalInfo,
}

impl Output for LabelChangeApprovalInfo {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// What a request lists, in registries that the caller may use.
struct Wanted<'a> {
    filter: &'a LabelChangeFilter,
    registry: Option<Id<Registry>>,
    artifact: Option<ArtifactId>,
    usable: BTreeSet<Id<Registry>>,
}

impl<'a> Wanted<'a> {
    /// Reads what a request wants; `None` if there is no such registry or artifact, or none that the caller
    /// may use, so that nothing is listed.
    fn of(view: &View, caller: &Caller, filter: &'a LabelChangeFilter) -> Result<Option<Self>> {
        let usable = usable(view, caller)?;
        let registry = match &filter.registry_ref {
            None => None,
            Some(reference) => match registries::find(view, reference)? {
                Some(found) if usable.contains(&found.id()) => Some(found.id()),
                _ => return Ok(None),
            },
        };
        let mut artifact = None;
        if let (Some(registry), Some(name)) = (registry, &filter.prompt_name) {
            let Ok(name) = ArtifactName::parse(name.as_str()) else { return Ok(None) };
            let kind = filter.artifact_type.unwrap_or(DEFAULT_TYPE);
            artifact = Some(ArtifactId { registry, kind, name });
        }
        Ok(Some(Wanted { filter, registry, artifact, usable }))
    }

    fn has(&self, change: &LabelChange) -> bool {
        let label = self.filter.label.as_deref();
        self.usable.contains(&change.of.registry)
            && self.registry.is_none_or(|registry| change.of.registry == registry)
            && self.artifact.as_ref().is_none_or(|artifact| change.of == *artifact)
            && label.is_none_or(|label| change.label.as_str() == label)
            && self.filter.state.is_none_or(|state| change.state == state)
    }
}

/// The registries of which the caller sees label changes: those that they may use, and that the scopes
/// of their key permit.
fn usable(view: &View, caller: &Caller) -> Result<BTreeSet<Id<Registry>>> {
    let mut usable: BTreeSet<Id<Registry>> = usable_ids(view, caller)?;
    if !caller.covers(ScopeName::ArtifactRead, None) {
        let mut covered = BTreeSet::new();
        for id in usable {
            let Some(registry) = registries::find_by_id(view, id)? else { continue };
            let target = registries::scope_target(registry.without_caller());
            if caller.covers(ScopeName::ArtifactRead, Some(&target)) {
                covered.insert(id);
            }
        }
        usable = covered;
    }
    Ok(usable)
}

pub(super) fn list(view: &View, req: &Req<(), LabelChangeFilter>) -> Result<Page<LabelChangeInfo>> {
    let filter = &req.input;
    let is_no_label = |label: &String| Label::parse(label.as_str()).is_err();
    let wanted = Wanted::of(view, req.caller(), filter)?;
    let Some(wanted) = wanted.filter(|_| !filter.label.as_ref().is_some_and(is_no_label)) else {
        return Ok(Page::single(Vec::new()));
    };
    // Nothing waits for a viewer, who decides nothing.
    if filter.approver.is_some() && !req.caller().may_write() {
        return Ok(Page::single(Vec::new()));
    }
    if filter.approver.is_some() {
        return list_waiting(view, req, &wanted);
    }
    let (order, part) = (Order::Descending, &req.page);
    let keep = |change: &LabelChange| wanted.has(change);
    match (&wanted.artifact, wanted.registry, filter.state) {
        (Some(artifact), ..) => view.page_map(&BY_ARTIFACT, artifact, order, part, keep, info),
        (None, Some(registry), _) => {
            view.page_map(&BY_REGISTRY, &registry, order, part, keep, info)
        }
        (None, None, Some(state)) => view.page_map(&BY_STATE, &state, order, part, keep, info),
        (None, None, None) => view.page_map(ListSource::TABLE, &(), order, part, keep, info),
    }
}

/// Counts the changes that wait for a caller's approval, to `at_most`; none if they cannot decide.
pub fn count_waiting(view: &View, caller: &Caller, at_most: usize) -> Result<usize> {
    // Read once there is something: mostly nothing waits.
    let mut known = None;
    count_open(view, caller, &WAITING_FOR, at_most, |approval: LabelChangeApproval| {
        let usable = match &mut known {
            Some(usable) => usable,
            none => none.insert(usable(view, caller)?),
        };
        let change = view.get::<LabelChange>(&approval.change)?;
        Ok(change.is_some_and(|change| usable.contains(&change.of.registry)))
    })
}

/// Lists the changes that wait for the caller's approval.
fn list_waiting(
    view: &View,
    req: &Req<(), LabelChangeFilter>,
    wanted: &Wanted<'_>,
) -> Result<Page<LabelChangeInfo>> {
    // A change that cannot be read is reported when it is read again.
    let keep = |approval: &LabelChangeApproval| {
        let change = view.get::<LabelChange>(&approval.change);
        change.map_or(true, |change| change.is_some_and(|change| wanted.has(&change)))
    };
    let expand =
        |view: &View, approval: LabelChangeApproval| info(view, view.fetch(&approval.change)?);
    let user = req.caller().user();
    view.page_map(&WAITING_FOR, &user, Order::Descending, &req.page, keep, expand)
}

pub(super) fn get(view: &View, req: &Req<Id<LabelChange>>) -> Result<LabelChangeInfo> {
    info(view, fetch(view, req.caller(), req.params)?.0)
}

pub(super) fn approvals(
    view: &View,
    req: &Req<Id<LabelChange>>,
) -> Result<Page<LabelChangeApprovalInfo>> {
    let (change, _) = fetch(view, req.caller(), req.params)?;
    let expand = |view: &View, one: LabelChangeApproval| {
        let approval = to_info(view, one.id, one.vote)?;
        Ok(LabelChangeApprovalInfo { approval })
    };
    let order = Order::Descending;
    view.page_map(ListSource::TABLE, &change.id, order, &req.page, |_| true, expand)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/registries/artifacts/label-changes";
    const ONE: &str = "/registries/artifacts/label-changes/{changeId}";
    const APPROVALS: &str = "/registries/artifacts/label-changes/{changeId}/approvals";
    vec![
        Route::get(ALL, MEMBER, "label_change.list", op::walk(list))
            .needs_listed(ScopeName::ArtifactRead)
            .about("List label changes, newest first"),
        Route::get(ONE, MEMBER, "label_change.get", op::read(get))
            .needs_for(ScopeName::ArtifactRead, &CHANGE_IN_PATH)
            .about("Get a label change"),
        Route::get(APPROVALS, MEMBER, "label_change_approval.list", op::list(approvals))
            .needs_for(ScopeName::ArtifactRead, &CHANGE_IN_PATH)
            .about("List approvals of a label change"),
    ]
}
