//! Registries: creation, access, deletion (reference: registries-and-templates, "Registries").

use serde_json::{Value, json};

use crate::client::{Caller, Reply, pick};
use crate::fixture::{Fixture, key_of, unknown_id};

/// Creates a registry as the owner.
pub fn registry(acme: &Fixture, slug: &str, more: Value) -> Value {
    let mut new = json!({"slug": slug, "name": slug});
    for (name, value) in more.as_object().unwrap() {
        new[name] = value.clone();
    }
    acme.owner.post("/registries", new).ok()
}

/// Publishes as the owner; `at` is registry, type, name and version.
pub fn publish(acme: &Fixture, at: [&str; 4], source: &str) -> Value {
    let [slug, kind, name, version] = at;
    let body = json!({
        "registryRef": format!("{}/{slug}", acme.slug), "artifactType": kind, "name": name,
        "version": version, "source": source,
    });
    acme.owner.ask("POST", "/registries/artifacts").json(&body).send().ok()
}

/// Reads a path without naming an organization.
fn read(caller: &Caller, path: &str) -> Reply {
    caller.ask("GET", path).send()
}

#[test]
fn a_registry_has_every_field_and_its_defaults() {
    let acme = Fixture::new();
    let made = registry(&acme, "main", json!({}));
    let reference = format!("{}/main", acme.slug);
    let expected = json!({
        "id": made["id"], "ref": reference, "slug": "main", "name": "main", "description": null,
        "visibility": "private", "access": "organization", "createdAt": made["createdAt"],
        "updatedAt": made["createdAt"], "updatedBy": made["updatedBy"],
    });
    assert_eq!(made, expected);
    let shown = acme.member.get("/registries/main").ok();
    assert_eq!(shown, made);
    assert_eq!(acme.key.get(&format!("/registries/{}", made["id"].as_str().unwrap())).ok(), made);
    let patch = json!({
        "name": "Main", "description": "d", "visibility": "public", "access": "restricted",
    });
    let patched = acme.owner.patch("/registries/main", patch).ok();
    let some = pick(&patched, "slug name description visibility access");
    assert_eq!(some, json!(["main", "Main", "d", "public", "restricted"]));
    let cleared = acme.owner.patch("/registries/main", json!({"description": null})).ok();
    assert_eq!(cleared["description"], Value::Null);

    acme.owner.post("/registries", json!({"slug": "main", "name": "x"})).problem();
    for slug in ["artifacts", "artifact-versions", "Main", "a b", "", &unknown_id()] {
        acme.owner.post("/registries", json!({"slug": slug, "name": "x"})).invalid(&["slug"]);
    }
    let wrong = json!({"slug": "x", "visibility": "secret", "access": "all"});
    acme.owner.post("/registries", wrong).invalid(&["visibility", "access", "name"]);
    assert_eq!(acme.owner.get("/registries?visibility=public").items().len(), 1);
    assert_eq!(acme.owner.get("/registries?visibility=private").items().len(), 0);
    acme.owner.get("/registries?visibility=x").invalid(&["visibility"]);
}

#[test]
fn registries_are_written_in_admin_sessions_and_read_by_members() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    let new = json!({"slug": "more", "name": "x"});
    acme.member.post("/registries", new.clone()).refused(403, "admin_required");
    acme.key.post("/registries", new.clone()).refused(401, "session_required");
    acme.key.patch("/registries/main", json!({})).refused(401, "session_required");
    acme.key.delete("/registries/main").refused(401, "session_required");
    acme.member.delete("/registries/main").refused(403, "admin_required");
    acme.admin.post("/registries", new).ok();
    for caller in [&acme.member, &acme.key, &key_of(&acme.member)] {
        assert_eq!(caller.get("/registries").items().len(), 2);
        caller.get("/registries/main").ok();
        caller.get("/registries/never").refused(404, "not_found");
    }
}

/// Every read route of a registry, for a prompt with two versions.
fn reads(reference: &str) -> Vec<String> {
    let at = format!("registryRef={reference}&promptName=p");
    vec![
        format!("/registries/artifacts?registryRef={reference}"),
        format!("/registries/artifact-versions?{at}"),
        format!("/registries/artifact-versions/content?{at}"),
        format!("/registries/artifact-versions/diff?{at}&from=1.0.0&to=1.1.0"),
        format!("/registries/artifact-versions/dependents?{at}"),
    ]
}

fn filled(acme: &Fixture, more: Value) -> String {
    let made = registry(acme, "main", more);
    publish(acme, ["main", "prompt", "p", "1.0.0"], "one");
    publish(acme, ["main", "prompt", "p", "1.1.0"], "two");
    made["id"].as_str().unwrap().to_string()
}

#[test]
fn a_public_registry_is_readable_without_a_credential() {
    let acme = Fixture::new();
    let id = filled(&acme, json!({"visibility": "public", "access": "restricted"}));
    let outsider = Fixture::new();
    let full = format!("{}/main", acme.slug);
    for caller in [&acme.anonymous, &acme.member, &acme.key, &outsider.owner, &outsider.key] {
        for reference in [&full, &id] {
            for path in reads(reference) {
                read(caller, &path).ok();
            }
        }
        read(caller, &format!("/registries/main?orgSlug={}", acme.slug)).ok();
    }
    // A credential is checked even so.
    let bad = acme.anonymous.with_key("rsk_nonsense");
    read(&bad, &reads(&full)[0]).refused(401, "unauthenticated");
    // Drafts and writes require membership.
    let drafts = format!("/prompts/p/drafts?registryRef={full}&artifactType=prompt");
    read(&acme.anonymous, &drafts).refused(401, "unauthenticated");
    assert_eq!(read(&outsider.owner, &drafts).status, 404);
    let body = json!({
        "registryRef": full, "artifactType": "prompt", "name": "p", "version": "2.0.0",
        "source": "x",
    });
    let publish = |caller: &Caller| caller.ask("POST", "/registries/artifacts").json(&body).send();
    publish(&acme.anonymous).refused(401, "unauthenticated");
    assert_eq!(publish(&outsider.owner).status, 404);
    publish(&acme.member).refused(403, "grant_required");
}

#[test]
fn a_private_registry_is_not_found_by_others() {
    let acme = Fixture::new();
    let id = filled(&acme, json!({}));
    let outsider = Fixture::new();
    for (reference, never) in
        [(format!("{}/main", acme.slug), format!("{}/never", acme.slug)), (id, unknown_id())]
    {
        for (path, unknown) in reads(&reference).iter().zip(reads(&never)) {
            read(&acme.member, path).ok();
            read(&acme.anonymous, path).refused(401, "unauthenticated");
            for caller in [&outsider.owner, &outsider.key] {
                let reply = read(caller, path);
                assert_eq!(reply.status, 404, "{path}: {}", reply.text());
                assert_eq!(reply.likeness(), read(caller, &unknown).likeness(), "{path}");
            }
        }
    }
    let path = format!("/registries/main?orgSlug={}", acme.slug);
    read(&acme.anonymous, &path).refused(401, "unauthenticated");
    read(&outsider.owner, &path).refused(404, "organization_not_found");
}

#[test]
fn a_restricted_registry_is_for_admins_and_grantees() {
    let acme = Fixture::new();
    let id = filled(&acme, json!({"access": "restricted"}));
    let reference = format!("{}/main", acme.slug);
    let draft = json!({
        "registryRef": reference, "artifactType": "prompt", "draftVersion": "2.0.0", "body": "x",
    });
    assert_eq!(acme.member.get("/registries").items().len(), 0);
    acme.member.get("/registries/main").refused(403, "grant_required");
    for path in reads(&reference) {
        acme.member.get(&path).refused(403, "grant_required");
        acme.admin.get(&path).ok();
    }
    acme.member.post("/prompts/p/drafts", draft.clone()).refused(403, "grant_required");
    let grant = json!({"userId": acme.member_id, "resourceType": "registry", "resourceId": id});
    let grant = acme.owner.post("/access-grants", grant).id();
    assert_eq!(acme.member.get("/registries").items().len(), 1);
    for path in reads(&reference) {
        acme.member.get(&path).ok();
    }
    acme.member.post("/prompts/p/drafts", draft.clone()).ok();
    acme.owner.delete(&format!("/access-grants/{grant}")).ok();
    acme.member.post("/prompts/p/drafts", draft).refused(403, "grant_required");
}

#[test]
fn a_registry_reference_has_three_forms_and_a_bare_slug_needs_a_key() {
    let acme = Fixture::new();
    let id = filled(&acme, json!({}));
    let content = |reference: &str| {
        format!("/registries/artifact-versions/content?registryRef={reference}&promptName=p")
    };
    let full = format!("{}/main", acme.slug);
    for reference in [&full, &id] {
        read(&acme.member, &content(reference)).ok();
        read(&acme.key, &content(reference)).ok();
    }
    read(&acme.key, &content("main")).ok();
    read(&acme.member, &content("main")).invalid(&["registryRef"]);
    acme.member.get(&content("main")).ok();
    // An organization in the request must be that of the registry.
    acme.member.get(&content(&full)).ok();
    let other = Fixture::new();
    let elsewhere = acme.owner.about(&other.slug);
    for reference in [&full, &id] {
        assert_eq!(elsewhere.get(&content(reference)).status, 404);
    }
    read(&acme.member, "/registries/artifacts").invalid(&["registryRef"]);
    read(&acme.key, &content("")).refused(404, "not_found");
}

#[test]
fn a_registry_is_deleted_with_its_contents() {
    let acme = Fixture::new();
    let id = filled(&acme, json!({}));
    let reference = format!("{}/main", acme.slug);
    let draft = json!({
        "registryRef": reference, "artifactType": "prompt", "draftVersion": "2.0.0",
        "body": "{{V}}",
    });
    acme.member.post("/prompts/p/drafts", draft.clone()).ok();
    publish(&acme, ["main", "prompt", "q", "1.0.0"], "{{V}}");
    let usage = || acme.member.get("/environments/variables/V/usage").ok()["used"].clone();
    assert_eq!(usage(), true);
    let grant = json!({"userId": acme.member_id, "resourceType": "registry", "resourceId": id});
    acme.owner.post("/access-grants", grant).ok();

    let removed = acme.owner.delete("/registries/main").ok();
    assert_eq!(removed, json!({"id": id, "deleted": true}));
    acme.owner.delete("/registries/main").refused(404, "not_found");
    for path in reads(&reference) {
        acme.owner.get(&path).refused(404, "not_found");
    }
    assert_eq!(usage(), false);
    assert_eq!(acme.owner.get("/access-grants").items().len(), 0);
    let log = acme.owner.get("/notifications/logs?eventType=registry.deleted").items();
    assert_eq!(log[0]["payload"]["registryRef"], reference);
    // Its slug is free; a new registry with it is empty.
    registry(&acme, "main", json!({}));
    let artifacts = format!("/registries/artifacts?registryRef={reference}");
    assert_eq!(acme.owner.get(&artifacts).items().len(), 0);
    let drafts = format!("/prompts/p/drafts?registryRef={reference}&artifactType=prompt");
    assert_eq!(acme.owner.get(&drafts).items().len(), 0);
}
