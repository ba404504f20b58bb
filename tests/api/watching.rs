//! Long polls for a content while access to it is revoked
//! (reference: registries-and-templates, "Content and waiting"): the wait ends at once with the
//! response that a new request would get.

use std::time::{Duration, Instant};

use roadstead::api::audit::AuditOutcome;
use roadstead::auth::Role;
use serde_json::json;

use crate::client::{Caller, Connection, Reply};
use crate::fixture::{Fixture, key_of};
use crate::registries::{publish, registry};

/// Well below every polling interval.
const SOON: Duration = Duration::from_secs(10);

/// Starts a long poll for a change of the prompt `p`, with its current tag.
fn wait(acme: &Fixture, caller: &Caller) -> Connection {
    let reference = format!("registryRef={}/main&promptName=p", acme.slug);
    let path = format!("/registries/artifact-versions/content?{reference}");
    let tag = caller.ask("GET", &path).send().header("etag").unwrap().to_string();
    let mut connection = Connection::open(acme.address).unwrap();
    let path = format!("{path}&wait=60");
    let ask = caller.ask("GET", &path).with("If-None-Match", &tag);
    connection.write(&ask.to_bytes()).unwrap();
    connection
}

/// An organization whose registry `main`, made with these fields, has the prompt `p`.
fn acme(more: serde_json::Value) -> Fixture {
    let acme = Fixture::new();
    registry(&acme, "main", more);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "one");
    acme
}

fn replies<const N: usize>(waiting: [Connection; N]) -> [Reply; N] {
    waiting.map(|mut connection| connection.reply(false).unwrap())
}

#[test]
fn waiting_in_a_registry_that_becomes_private_ends_for_outsiders() {
    let acme = acme(json!({"visibility": "public"}));
    let outsider = Fixture::new();
    let waiting = [&acme.anonymous, &outsider.key, &outsider.member, &acme.member];
    let [anonymous, key, session, mut member] = waiting.map(|caller| wait(&acme, caller));
    let begun = Instant::now();
    acme.owner.patch("/registries/main", json!({"visibility": "private"})).ok();
    let [anonymous, key, session] = replies([anonymous, key, session]);
    anonymous.refused(401, "unauthenticated");
    key.refused(404, "organization_not_found");
    session.refused(404, "organization_not_found");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // A member continues to wait.
    publish(&acme, ["main", "prompt", "p", "1.1.0"], "two");
    assert_eq!(member.reply(false).unwrap().ok()["source"], "two");
}

#[test]
fn waiting_in_a_registry_that_is_deleted_ends() {
    let acme = acme(json!({"visibility": "public"}));
    let outsider = Fixture::new();
    let waiting = [&acme.anonymous, &outsider.key, &acme.member].map(|caller| wait(&acme, caller));
    let begun = Instant::now();
    acme.owner.delete("/registries/main").ok();
    let [anonymous, outsider, member] = replies(waiting);
    anonymous.refused(401, "unauthenticated");
    outsider.refused(404, "organization_not_found");
    member.refused(404, "not_found");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn waiting_with_a_credential_or_grant_that_is_revoked_ends() {
    let acme = acme(json!({"access": "restricted"}));
    let (member, _) = acme.person("eve", Role::Member);
    let id = acme.owner.get("/registries/main").ok()["id"].clone();
    let user = member.get("/auth/session").ok()["user"]["id"].clone();
    let grant = json!({"userId": user, "resourceType": "registry", "resourceId": id});
    let grant = acme.owner.post("/access-grants", grant).id();
    let key = key_of(&member);
    let key_id = member.get("/api-keys").items()[0]["id"].as_str().unwrap().to_string();
    let [mut by_key, mut by_session] = [&key, &member].map(|caller| wait(&acme, caller));
    let begun = Instant::now();
    member.delete(&format!("/api-keys/{key_id}")).ok();
    by_key.reply(false).unwrap().refused(401, "unauthenticated");
    acme.owner.delete(&format!("/access-grants/{grant}")).ok();
    by_session.reply(false).unwrap().refused(403, "grant_required");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());

    // The denied permission is in the audit log, once.
    let refused: Vec<_> =
        acme.audited().into_iter().filter(|entry| entry.outcome == AuditOutcome::Refused).collect();
    let actions: Vec<_> = refused.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["artifact_version.content"]);
    assert_eq!(refused[0].actor_name, "eve");
}
