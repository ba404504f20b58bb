//! Environments: access, updates and cascades. The tests of other resources create theirs here.

use serde_json::{Value, json};

use super::*;
use crate::api::Principal;
use crate::auth::{Grant, Membership, ResourceType};
use crate::base::Kind;
use crate::resources::testing::{Fixture, user};

/// Creates an environment as an admin.
pub fn make(fixture: &Fixture, body: Value) -> Result<EnvironmentInfo> {
    make_as(fixture, &fixture.owner, body)
}

/// Creates one as an admin of any organization.
pub fn make_as(fixture: &Fixture, who: &Principal, body: Value) -> Result<EnvironmentInfo> {
    fixture.write_as(who, create, (), Fixture::input(body)?)
}

/// Updates an environment as an admin.
pub fn patch(fixture: &Fixture, id: Id<Environment>, body: Value) -> EnvironmentInfo {
    fixture.write_as(&fixture.owner, update, id, Fixture::input(body).unwrap()).unwrap()
}

/// Deletes an environment as an admin.
pub fn remove(fixture: &Fixture, id: Id<Environment>) -> Result<()> {
    fixture.write_as(&fixture.owner, delete, id, ()).map(drop)
}

/// Returns the representation of an environment.
pub fn shown(fixture: &Fixture, id: Id<Environment>) -> EnvironmentInfo {
    fixture.read_as(&fixture.owner, get, id, ()).unwrap()
}

/// Grants a member access to an environment.
pub fn grant(fixture: &Fixture, who: &Principal, id: Id<Environment>) {
    let Principal::Caller(caller) = who else { panic!("no caller of an organization") };
    let user = caller.user();
    let grant = move |tx: &mut Tx| {
        tx.insert(&Grant {
            id: tx.new_id(),
            user_id: user,
            resource_type: ResourceType::Environment,
            resource_id: id.cast(),
            created_by: user,
            created_at: tx.now(),
        })
    };
    fixture.store.write_blocking(fixture.org, grant).unwrap();
}

fn slugs(fixture: &Fixture) -> Vec<String> {
    let page = fixture.read(list, (), ()).unwrap();
    page.items.into_iter().map(|environment| environment.slug.into_string()).collect()
}

#[test]
fn an_environment_has_every_field_with_its_default() {
    let fixture = Fixture::new();
    let made = make(&fixture, json!({"slug": "a", "name": "A", "description": null})).unwrap();
    let mut json = json!(made);
    assert_eq!(json["id"].take(), json!(made.id));
    assert_eq!(
        json,
        json!({
            "id": null, "slug": "a", "name": "A", "description": null, "access": "organization",
            "approvals": null, "approvalTimeoutHours": 72, "variables": {}, "secretNames": [],
            "providers": [], "toolVersions": {}, "createdAt": "2026-01-15T12:00:00.000Z",
            "updatedAt": "2026-01-15T12:00:00.000Z", "updatedBy": made.updated_by,
        })
    );
}

#[test]
fn a_slug_is_unique_in_its_organization_and_finds_its_environment() {
    let fixture = Fixture::new();
    let (org, eve) = fixture.other_org("other");
    let body = json!({"slug": "a", "name": "A"});
    let made = make(&fixture, body.clone()).unwrap();
    assert_eq!(make(&fixture, body.clone()).unwrap_err().code(), "environment_slug_taken");
    fixture.write_as(&eve, create, (), Fixture::input(body).unwrap()).unwrap();

    let found = |org, reference: &str| {
        let found = fixture.store.read_now(org, |view| find(view, reference)).unwrap();
        found.map(|environment| environment.id())
    };
    assert_eq!(found(fixture.org, "a"), Some(made.id));
    assert_eq!(found(fixture.org, &made.id.to_string()), Some(made.id));
    assert_eq!(found(org, &made.id.to_string()), None);
    for unknown in ["b", "", "A", "no slug", &Id::<()>::NIL.to_string()] {
        assert_eq!(found(fixture.org, unknown), None);
    }
}

#[test]
fn a_restricted_environment_is_for_admins_and_grantees() {
    let fixture = Fixture::new();
    make(&fixture, json!({"slug": "open", "name": "O"})).unwrap();
    let body = json!({"slug": "closed", "name": "C", "access": "restricted"});
    let closed = make(&fixture, body).unwrap().id;
    let ben = &fixture.member;
    assert_eq!(slugs(&fixture), ["open"]);
    let refused = fixture.read(get, closed, ()).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "grant_required"));
    assert_eq!(fixture.read_as(&fixture.owner, list, (), ()).unwrap().items.len(), 2);
    shown(&fixture, closed);

    grant(&fixture, ben, closed);
    assert_eq!(slugs(&fixture), ["closed", "open"]);
    fixture.read(get, closed, ()).unwrap();

    fixture.write_as(&fixture.owner, delete, closed, ()).unwrap();
    assert_eq!(slugs(&fixture), ["open"]);
    assert_eq!(fixture.read(get, closed, ()).unwrap_err().kind(), Kind::NotFound);
    let granted = |view: &View| view.all(ListSource::<Grant>::TABLE, &());
    assert!(fixture.store.read_now(fixture.org, granted).unwrap().is_empty());
    fixture.assert_sound();
}

#[test]
fn an_update_changes_the_sent_fields_only() {
    let fixture = Fixture::new();
    let body = json!({"slug": "a", "name": "A", "description": "d", "approvalTimeoutHours": 1});
    let made = make(&fixture, body).unwrap();
    let patch = |body: Value| {
        let patch = Fixture::input::<EnvironmentPatch>(body).unwrap();
        fixture.write_as(&fixture.owner, update, made.id, patch).unwrap()
    };
    fixture.pass_secs(60);
    assert_eq!(patch(json!({"name": null, "access": null})), made);
    let changed = patch(json!({"name": "B", "description": null, "approvalTimeoutHours": 8760}));
    assert_eq!((changed.name.as_str(), changed.description.clone()), ("B", None));
    assert_eq!((changed.slug.as_str(), changed.approval_timeout_hours), ("a", 8760));
    assert!(changed.updated_at > made.updated_at && changed.created_at == made.created_at);
    assert_eq!(patch(json!({"access": "restricted"})).access, Access::Restricted);
}

#[test]
fn deleting_an_environment_deletes_its_variables_and_references() {
    let fixture = Fixture::new();
    let id = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap().id;
    let fill = move |tx: &mut Tx| {
        let version = crate::base::Version::from_trusted("1.0.0".into());
        let tool = tx.new_id();
        add_tool_reference(tx, id, (tool, &version), Id::NIL)
    };
    fixture.store.write_blocking(fixture.org, fill).unwrap();
    variables::tests::put(&fixture, id, "A", "1").unwrap();
    fixture.write_as(&fixture.owner, delete, id, ()).unwrap();
    let findings = fixture.store.check(&RESOURCE.tables()).unwrap();
    assert_eq!((findings.records, findings.entries, findings.wrong), (0, 0, 0));
    let again = fixture.write_as(&fixture.owner, delete, id, ()).unwrap_err();
    assert_eq!(again.kind(), Kind::NotFound);
}

#[test]
fn a_list_of_environments_ends_early_when_their_variables_are_large() {
    let fixture = Fixture::new();
    for slug in ["a", "b", "c", "d", "e", "f"] {
        let at = make(&fixture, json!({"slug": slug, "name": "A"})).unwrap().id;
        for name in 0..10 {
            let value = "x".repeat(100_000);
            variable_tests::put(&fixture, at, &format!("v{name}"), &value).unwrap();
        }
    }
    let mut args = crate::resources::testing::args((), ());
    let mut pages = Vec::new();
    loop {
        let list = |view: &View| list(view, &Req::new(&args, &fixture.owner));
        let page = fixture.store.read_now(fixture.org, list).unwrap();
        pages.push(page.items.iter().map(|one| one.slug.as_str().to_string()).collect::<String>());
        let Some(next) = page.next else { break };
        args.page.after = Some(next);
    }
    assert_eq!(pages, ["fedc", "ba"]);
}

// ── Approvals ────────────────────────────────────────────────────────────────

fn approval_issues(approvals: Value) -> Vec<String> {
    let body = json!({"slug": "production", "name": "Production", "approvals": approvals});
    let error = Fixture::input::<NewEnvironment>(body).err().expect("a problem");
    error.issues().iter().map(|issue| issue.path.clone()).collect()
}

#[test]
fn approvers_are_1_to_50_and_distinct_and_bound_the_approvals() {
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_eq!(approval_issues(json!({})), ["approvals.approverIds"]);
    assert_eq!(approval_issues(json!({"approverIds": []})), ["approvals.approverIds"]);
    assert_eq!(approval_issues(json!({"approverIds": vec!["x"; 51]})), ["approvals.approverIds"]);
    assert_eq!(approval_issues(json!({"approverIds": [id, id]})), ["approvals.approverIds[1]"]);
    for min in [0, 2] {
        let approvals = json!({"approverIds": [id], "minApprovals": min});
        assert_eq!(approval_issues(approvals), ["approvals.minApprovals"]);
    }
}

#[test]
fn what_is_wrong_with_approvals_is_said_beside_all_else() {
    let approvals = json!({"approverIds": ["01890a5d-ac96-774b-bcce-b302099a8057"],
        "minApprovals": 5});
    let body = json!({"slug": "No slug", "name": "", "approvals": approvals});
    let error = Fixture::input::<NewEnvironment>(body).err().expect("a problem");
    let paths: Vec<_> = error.issues().iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["slug", "name", "approvals.minApprovals"]);
}

#[test]
fn only_members_approve_and_defaults_are_filled_in() {
    let fixture = Fixture::new();
    let (_, outsider) = fixture.other_org("other");
    let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
    for unknown in [json!(user(&outsider)), json!("no id")] {
        let approvals = json!({"approverIds": [ada, unknown]});
        let body = json!({"slug": "a", "name": "A", "approvals": approvals});
        let refused = make(&fixture, body).unwrap_err();
        assert_eq!(refused.kind(), Kind::NotFound);
        assert_eq!(refused.path(), Some("approvals.approverIds[1]"));
    }
    let body = json!({"slug": "a", "name": "A", "approvals": {"approverIds": [ben, ada]}});
    let approvals = make(&fixture, body).unwrap().approvals.unwrap();
    let all = ApprovalPolicy {
        approver_ids: vec![ben, ada],
        min_approvals: 2,
        prevent_self_approval: false,
    };
    assert_eq!(approvals, all);
}

#[test]
fn a_removed_member_is_no_approver_but_the_last_approver_stays() {
    let fixture = Fixture::new();
    let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
    let both = json!({"slug": "a", "name": "A", "approvals": {"approverIds": [ada, ben]}});
    let both = make(&fixture, both).unwrap();
    let leave = |who| {
        fixture.store.write_blocking(fixture.org, move |tx| {
            let membership: Membership = tx.fetch(&(who, tx.org()))?;
            tx.remove(&membership)
        })
    };
    fixture.pass_secs(60);
    leave(ben).unwrap();
    let left = shown(&fixture, both.id);
    let approvals = left.approvals.unwrap();
    assert_eq!((approvals.approver_ids, approvals.min_approvals), (vec![ada], 1));
    assert!(left.updated_at > both.updated_at);

    let refused = leave(ada).unwrap_err();
    assert_eq!(refused.code(), "last_approver");
    assert!(refused.message().contains("\"A\""));

    let none = Fixture::input::<EnvironmentPatch>(json!({"approvals": null})).unwrap();
    fixture.write_as(&fixture.owner, update, both.id, none).unwrap();
    leave(ada).unwrap();
    assert_eq!(shown(&fixture, both.id).approvals, None);
}
