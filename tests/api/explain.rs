//! `GET /access/explain` says of a request what the request itself is answered
//! (reference: identity-and-rights, "Why may she?").

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Caller, Reply};
use crate::fixture::{Fixture, unknown_id};

/// Someone who asks, and the parameter that names them.
struct Subject {
    name: &'static str,
    caller: Caller,
    parameter: String,
}

/// Something that is restricted, open or public.
struct Thing {
    kind: &'static str,
    id: String,
    slug: &'static str,
}

/// An action with the request that does it.
struct Case {
    action: &'static str,
    kind: &'static str,
    send: fn(&Caller, &Thing) -> Reply,
}

const CASES: &[Case] = &[
    Case {
        action: "artifact.list",
        kind: "registry",
        send: |caller, thing| {
            caller.get(&format!("/registries/artifacts?registryRef={}/{}", caller.org, thing.slug))
        },
    },
    Case {
        action: "artifact_version.publish",
        kind: "registry",
        send: |caller, thing| {
            let body = json!({"registryRef": format!("{}/{}", caller.org, thing.slug),
            "artifactType": "prompt", "name": "p", "version": "1.0.0", "source": "Text."});
            caller.post("/registries/artifacts", body)
        },
    },
    Case {
        action: "registry.update",
        kind: "registry",
        send: |caller, thing| {
            caller.patch(&format!("/registries/{}", thing.slug), json!({"name": "New"}))
        },
    },
    Case {
        action: "environment.get",
        kind: "environment",
        send: |caller, thing| caller.get(&format!("/environments/{}", thing.id)),
    },
    Case {
        action: "environment.update",
        kind: "environment",
        send: |caller, thing| {
            caller.patch(&format!("/environments/{}", thing.id), json!({"name": "New"}))
        },
    },
    Case {
        action: "environment_secret.set",
        kind: "environment",
        send: |caller, thing| {
            caller.put(&format!("/environments/{}/secrets/TOKEN", thing.id), json!({"value": "v"}))
        },
    },
    Case {
        action: "fleet.get",
        kind: "fleet",
        send: |caller, thing| caller.get(&format!("/fleets/{}", thing.id)),
    },
];

fn things(acme: &Fixture) -> Vec<Thing> {
    let mut things = Vec::new();
    for (slug, access, visibility) in [
        ("open", "organization", "private"),
        ("vault", "restricted", "private"),
        ("shown", "restricted", "public"),
    ] {
        let body = json!({"slug": slug, "name": slug, "access": access, "visibility": visibility});
        things.push(Thing {
            kind: "registry",
            id: acme.owner.post("/registries", body).id(),
            slug,
        });
        let body = json!({"slug": slug, "name": slug, "access": access});
        let id = acme.owner.post("/environments", body).id();
        things.push(Thing { kind: "environment", id, slug });
        let body = json!({"name": slug, "access": access});
        things.push(Thing { kind: "fleet", id: acme.owner.post("/fleets", body).id(), slug });
    }
    things
}

fn subjects(acme: &Fixture, things: &[Thing]) -> Vec<Subject> {
    let (granted, granted_id) = acme.person("Cara", Role::Member);
    for thing in things.iter().filter(|thing| thing.slug == "vault") {
        let body =
            json!({"userId": granted_id, "resourceType": thing.kind, "resourceId": thing.id});
        acme.owner.post("/access-grants", body).ok();
    }
    let (admin, admin_id) = acme.person("Dora", Role::Admin);
    let (viewer, viewer_id) = acme.person("Vera", Role::Member);
    for thing in things.iter().filter(|thing| thing.slug == "vault") {
        let body = json!({"userId": viewer_id, "resourceType": thing.kind, "resourceId": thing.id});
        acme.owner.post("/access-grants", body).ok();
    }
    let mut subjects = vec![
        Subject {
            name: "a member",
            caller: acme.member.clone(),
            parameter: format!("userId={}", acme.member_id),
        },
        Subject {
            name: "a member with grants",
            caller: granted.clone(),
            parameter: format!("userId={granted_id}"),
        },
        Subject {
            name: "an admin",
            caller: admin.clone(),
            parameter: format!("userId={admin_id}"),
        },
        Subject {
            name: "a viewer with grants",
            caller: viewer.clone(),
            parameter: format!("userId={viewer_id}"),
        },
    ];
    let scopes = json!(["artifact:publish@vault", "environment:write@open", "secret:write"]);
    for (name, of, access) in [
        ("a member's key", &acme.member, json!("full")),
        ("a reading key with grants", &granted, json!("read")),
        ("an admin's key", &admin, json!("full")),
        ("an admin's key with scopes", &admin, scopes.clone()),
        ("a key with scopes and grants", &granted, scopes),
        ("a viewer's key with grants", &viewer, json!("full")),
    ] {
        let made = of.post("/api-keys", json!({"name": "k", "access": access})).ok();
        subjects.push(Subject {
            name,
            caller: of.with_key(made["key"].as_str().unwrap()),
            parameter: format!("keyId={}", made["id"].as_str().unwrap()),
        });
    }
    acme.owner
        .patch(&format!("/organizations/members/{viewer_id}"), json!({"role": "viewer"}))
        .ok();
    subjects
}

#[test]
fn an_explanation_agrees_with_the_answer_to_the_request() {
    let acme = Fixture::new();
    let things = things(&acme);
    let (mut allowed, mut refused) = (0, 0);
    for subject in subjects(&acme, &things) {
        for case in CASES {
            for thing in things.iter().filter(|thing| thing.kind == case.kind) {
                let query = format!(
                    "/access/explain?{}&action={}&resourceType={}&resourceId={}",
                    subject.parameter, case.action, thing.kind, thing.id
                );
                let said = acme.owner.get(&query).ok();
                let reply = (case.send)(&subject.caller, thing);
                let is_refused = matches!(reply.status, 401 | 403);
                let what = format!("{}: {} {}: {said}", subject.name, case.action, thing.slug);
                assert_eq!(said["allowed"], !is_refused, "{what}: {}", reply.text());
                if is_refused {
                    let rules = said["rules"].as_array().unwrap();
                    let first = rules.iter().find(|rule| rule["met"] == false).unwrap();
                    assert_eq!(first["code"], reply.json()["code"], "{what}: {}", reply.text());
                    refused += 1;
                } else {
                    allowed += 1;
                }
            }
        }
    }
    assert!(allowed > 50 && refused > 50, "{allowed} allowed, {refused} refused");
}

#[test]
fn the_grant_that_opens_a_resource_is_named() {
    let acme = Fixture::new();
    let body = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
    let id = acme.owner.post("/environments", body).id();
    let explain = || {
        let query = format!(
            "/access/explain?userId={}&action=environment.get&resourceType=environment&resourceId={id}",
            acme.member_id
        );
        let said = acme.owner.get(&query).ok();
        said["rules"].as_array().unwrap().last().unwrap().clone()
    };
    let before = explain();
    assert_eq!(
        (&before["rule"], &before["met"], &before["code"], &before["grantId"]),
        (&json!("grant"), &json!(false), &json!("grant_required"), &Value::Null)
    );
    let grant = json!({"userId": acme.member_id, "resourceType": "environment", "resourceId": id});
    let grant = acme.owner.post("/access-grants", grant).id();
    let after = explain();
    assert_eq!((&after["met"], &after["grantId"]), (&json!(true), &json!(grant)));
}

#[test]
fn a_question_names_someone_an_action_and_what_exists() {
    let acme = Fixture::new();
    let ask = |query: &str| acme.owner.get(&format!("/access/explain?{query}"));
    let member = format!("userId={}", acme.member_id);
    ask("action=tool.create").invalid(&["userId"]);
    ask(&format!("{member}&keyId={}&action=tool.create", unknown_id())).invalid(&["userId"]);
    ask(&format!("{member}&action=tool.conjure")).invalid(&["action"]);
    ask(&format!("{member}&action=tool.create&resourceType=fleet")).invalid(&["resourceId"]);
    let nothing =
        format!("{member}&action=tool.create&resourceType=fleet&resourceId={}", unknown_id());
    ask(&nothing).refused(404, "not_found");
    ask(&format!("userId={}&action=tool.create", unknown_id())).refused(404, "not_found");
    ask(&format!("keyId={}&action=tool.create", unknown_id())).refused(404, "not_found");
    let account = json!({"name": "CI"});
    let account = acme.owner.post("/organizations/service-accounts", account).id();
    ask(&format!("userId={account}&action=tool.create")).invalid(&["userId"]);
    assert_eq!(ask(&format!("{member}&action=tool.create")).ok()["allowed"], true);
    acme.member
        .get(&format!("/access/explain?{member}&action=tool.create"))
        .refused(403, "admin_required");
}

#[test]
fn a_protected_label_is_explained_as_its_move_is_decided() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let id = acme.owner.get("/registries/main").id();
    let ask = |label: &str, action: &str| {
        acme.owner.get(&format!(
            "/access/explain?userId={}&action={action}&resourceType=registry&resourceId={id}{label}",
            acme.member_id
        ))
    };
    let last = |label: &str| {
        let said = ask(label, "artifact_label.move").ok();
        let rule = said["rules"].as_array().unwrap().last().unwrap().clone();
        (said["allowed"] == true, rule["rule"].clone(), rule["code"].clone())
    };
    let of_label = json!("protected_label");
    assert_eq!(last("").1, "grant");
    assert_eq!(last("&label=production"), (true, of_label.clone(), Value::Null));
    let by_admins = json!({"minRole": "admin"});
    acme.owner.put("/registries/main/protected-labels/production", by_admins).ok();
    assert_eq!(last("&label=production"), (false, of_label.clone(), json!("label_protected")));
    assert_eq!(last("&label=staging"), (true, of_label.clone(), Value::Null));
    let policy = json!({"name": "P", "severity": "error",
        "rules": [{"type": "protectLabel", "value": "staging"}]});
    let policy = acme.owner.post("/governance/policies", policy).id();
    let assigned = json!({"registryId": id});
    acme.owner.post(&format!("/governance/policies/{policy}/assignments"), assigned).ok();
    assert_eq!(last("&label=staging"), (false, of_label, json!("protection_required")));
    assert_eq!(ask("&label=production", "artifact.list").ok()["allowed"], true);
}
