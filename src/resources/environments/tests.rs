//! Environments: access, updates and cascades. The tests of other resources create theirs here.

use serde_json::{Value, json};

use super::*;
use crate::api::Principal;
use crate::auth::{Grant, ResourceType};
use crate::base::Kind;
use crate::resources::testing::World;

/// Creates an environment as an admin.
pub fn make(world: &World, body: Value) -> Result<EnvironmentInfo> {
    world.write_as(&world.owner, create, (), World::input(body)?)
}

/// Returns the representation of an environment.
pub fn shown(world: &World, id: Id<Environment>) -> EnvironmentInfo {
    world.read_as(&world.owner, get, id, ()).unwrap()
}

/// Grants a member access to an environment.
pub fn grant(world: &World, who: &Principal, id: Id<Environment>) {
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
    world.store.write_now(world.org, grant).unwrap();
}

fn slugs(world: &World) -> Vec<String> {
    let page = world.read(list, (), ()).unwrap();
    page.items.into_iter().map(|environment| environment.slug.into_string()).collect()
}

#[test]
fn an_environment_has_every_field_with_its_default() {
    let world = World::new();
    let made = make(&world, json!({"slug": "a", "name": "A", "description": null})).unwrap();
    let mut json = json!(made);
    assert_eq!(json["id"].take(), json!(made.id));
    assert_eq!(
        json,
        json!({
            "id": null, "slug": "a", "name": "A", "description": null, "access": "organization",
            "approvals": null, "approvalTimeoutHours": 72, "variables": {}, "secretNames": [],
            "providers": [], "toolVersions": {}, "createdAt": "2026-01-15T12:00:00.000Z",
            "updatedAt": "2026-01-15T12:00:00.000Z",
        })
    );
}

#[test]
fn a_slug_is_unique_in_its_organization_and_finds_its_environment() {
    let world = World::new();
    let (org, eve) = world.other_org("other");
    let body = json!({"slug": "a", "name": "A"});
    let made = make(&world, body.clone()).unwrap();
    assert_eq!(make(&world, body.clone()).unwrap_err().code(), "environment_slug_taken");
    world.write_as(&eve, create, (), World::input(body).unwrap()).unwrap();

    let found = |org, reference: &str| {
        let found = world.store.read_now(org, |view| find(view, reference)).unwrap();
        found.map(|environment| environment.id())
    };
    assert_eq!(found(world.org, "a"), Some(made.id));
    assert_eq!(found(world.org, &made.id.to_string()), Some(made.id));
    assert_eq!(found(org, &made.id.to_string()), None);
    for unknown in ["b", "", "A", "no slug", &Id::<()>::NIL.to_string()] {
        assert_eq!(found(world.org, unknown), None);
    }
    assert!(world.store.read_now(world.org, |view| exists(view, made.id)).unwrap());
    assert!(!world.store.read_now(org, |view| exists(view, made.id)).unwrap());
}

#[test]
fn a_restricted_environment_is_for_admins_and_grantees() {
    let world = World::new();
    make(&world, json!({"slug": "open", "name": "O"})).unwrap();
    let body = json!({"slug": "closed", "name": "C", "access": "restricted"});
    let closed = make(&world, body).unwrap().id;
    let ben = &world.member;
    assert_eq!(slugs(&world), ["open"]);
    let refused = world.read(get, closed, ()).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "grant_required"));
    assert_eq!(world.read_as(&world.owner, list, (), ()).unwrap().items.len(), 2);
    shown(&world, closed);

    grant(&world, ben, closed);
    assert_eq!(slugs(&world), ["closed", "open"]);
    world.read(get, closed, ()).unwrap();

    world.write_as(&world.owner, delete, closed, ()).unwrap();
    assert_eq!(slugs(&world), ["open"]);
    assert_eq!(world.read(get, closed, ()).unwrap_err().kind(), Kind::NotFound);
    let granted = |view: &View| view.all(Source::<Grant>::TABLE, &());
    assert!(world.store.read_now(world.org, granted).unwrap().is_empty());
    world.assert_sound();
}

#[test]
fn an_update_changes_the_sent_fields_only() {
    let world = World::new();
    let body = json!({"slug": "a", "name": "A", "description": "d", "approvalTimeoutHours": 1});
    let made = make(&world, body).unwrap();
    let patch = |body: Value| {
        let patch = World::input::<EnvironmentPatch>(body).unwrap();
        world.write_as(&world.owner, update, made.id, patch).unwrap()
    };
    world.pass_secs(60);
    assert_eq!(patch(json!({"slug": "b", "name": null, "access": null})), made);
    let changed = patch(json!({"name": "B", "description": null, "approvalTimeoutHours": 8760}));
    assert_eq!((changed.name.as_str(), changed.description.clone()), ("B", None));
    assert_eq!((changed.slug.as_str(), changed.approval_timeout_hours), ("a", 8760));
    assert!(changed.updated_at > made.updated_at && changed.created_at == made.created_at);
    assert_eq!(patch(json!({"access": "restricted"})).access, Access::Restricted);
}

#[test]
fn deleting_an_environment_deletes_its_variables_and_references() {
    let world = World::new();
    let id = make(&world, json!({"slug": "a", "name": "A"})).unwrap().id;
    let fill = move |tx: &mut Tx| {
        add_tool_reference(tx, id, tx.new_id(), &crate::base::Version::stored("1.0.0".into()))
    };
    world.store.write_now(world.org, fill).unwrap();
    variables::tests::put(&world, id, "A", "1").unwrap();
    world.write_as(&world.owner, delete, id, ()).unwrap();
    let findings = world.store.check(&RESOURCE.tables()).unwrap();
    assert_eq!((findings.records, findings.entries, findings.wrong), (0, 0, 0));
    let again = world.write_as(&world.owner, delete, id, ()).unwrap_err();
    assert_eq!(again.kind(), Kind::NotFound);
}
