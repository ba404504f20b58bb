//! Reset links: who makes them, what they do, what voids them (reference: identity-and-rights,
//! "Getting back in").

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Caller, Reply, at_once, first_limited};
use crate::fixture::{Fixture, key_of, unknown_id};

const PASSWORD: &str = "correct horse battery";
const NEW: &str = "another horse battery";

/// Has a link made for a member.
fn link(by: &Caller, user: &str) -> Reply {
    by.post(&format!("/organizations/members/{user}/password-reset"), json!({}))
}

fn token(made: &Reply) -> String {
    made.ok()["token"].as_str().unwrap().into()
}

/// Sets a password with a link, from this address.
fn reset_from(acme: &Fixture, address: &str, token: &str, password: &str) -> Reply {
    let caller = acme.anonymous.with_fields(&[("X-Forwarded-For", address)]);
    caller.post("/auth/password/reset", json!({"token": token, "newPassword": password}))
}

/// The same from an address that no other attempt counts for.
fn reset(acme: &Fixture, token: &str) -> Reply {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let address = format!("198.18.0.{}", NEXT.fetch_add(1, Ordering::Relaxed));
    reset_from(acme, &address, token, NEW)
}

fn sign_in(acme: &Fixture, email: &str, password: &str) -> Reply {
    acme.anonymous.post("/auth/sign-in", json!({"email": email, "password": password}))
}

fn appoint(acme: &Fixture, user: &str, role: &str) {
    acme.owner.patch(&format!("/organizations/members/{user}"), json!({"role": role})).ok();
}

fn id_of(acme: &Fixture, name: &str) -> String {
    let email = format!("{name}@{}.test", acme.slug);
    let members = acme.owner.get("/organizations/members").items();
    let member = members.iter().find(|member| member["email"] == email).expect("a member");
    member["userId"].as_str().unwrap().into()
}

#[test]
fn a_link_sets_a_password_once_and_ends_all_sessions_and_no_key() {
    let acme = Fixture::new();
    let email = format!("ben@{}.test", acme.slug);
    let key = key_of(&acme.member);
    let made = link(&acme.admin, &acme.member_id).ok();
    let token = made["token"].as_str().unwrap();
    assert_eq!(made["userId"], json!(acme.member_id));
    assert_eq!(made["resetUrl"], format!("http://localhost/reset-password#{token}"));
    let body = json!({"token": token, "newPassword": "short"});
    acme.anonymous.post("/auth/password/reset", body).invalid(&["newPassword"]);

    assert_eq!(reset(&acme, token).ok(), json!({}));
    acme.member.get("/tools").refused(401, "unauthenticated");
    assert_eq!(key.get("/tools").status, 200);
    sign_in(&acme, &email, NEW).ok();
    let again = reset(&acme, token).refused(404, "not_found");
    let unknown = reset(&acme, "never-was").refused(404, "not_found");
    let without_id = |mut body: Value| {
        body.as_object_mut().unwrap().remove("requestId");
        body
    };
    assert_eq!(without_id(again), without_id(unknown));

    let audited = acme.audited();
    let found = |action: &str| audited.iter().find(|entry| entry.action == action).unwrap();
    let (made, used) = (found("password_reset.create"), found("password_reset.use"));
    assert_eq!((made.actor_name.as_str(), made.resource_type.as_str()), ("grace", "member"));
    assert_eq!(made.resource_id.as_deref(), Some(acme.member_id.as_str()));
    assert_eq!(used.actor_id.unwrap().to_string(), acme.member_id);
}

#[test]
fn of_many_uses_of_a_link_at_once_one_wins() {
    let acme = Fixture::new();
    let token = token(&link(&acme.owner, &acme.member_id));
    let replies = at_once(6, |n| {
        let password = format!("{PASSWORD} {n}");
        (n, reset_from(&acme, &format!("198.51.100.{n}"), &token, &password))
    });
    let won: Vec<_> = replies.iter().filter(|(_, reply)| reply.status == 200).collect();
    assert_eq!(won.len(), 1);
    let lost = replies.iter().filter(|(n, _)| *n != won[0].0);
    lost.for_each(|(_, reply)| {
        reply.refused(404, "not_found");
    });
    sign_in(&acme, &format!("ben@{}.test", acme.slug), &format!("{PASSWORD} {}", won[0].0)).ok();
}

#[test]
fn only_the_newest_link_of_a_user_is_valid() {
    let acme = Fixture::new();
    let old = token(&link(&acme.owner, &acme.member_id));
    let new = token(&link(&acme.admin, &acme.member_id));
    reset(&acme, &old).refused(404, "not_found");
    reset(&acme, &new).ok();
}

#[test]
fn admins_make_links_for_others_of_their_organization_only() {
    let acme = Fixture::new();
    let grace = id_of(&acme, "grace");
    link(&acme.admin, &acme.owner_id).refused(403, "owner_required");
    link(&acme.admin, &grace).refused(403, "own_password");
    link(&acme.owner, &acme.owner_id).refused(403, "own_password");
    link(&acme.member, &grace).refused(403, "admin_required");
    link(&acme.key, &grace).refused(401, "session_required");
    link(&acme.admin, &unknown_id()).refused(404, "not_found");
    link(&acme.owner, &Fixture::new().member_id).refused(404, "not_found");
    link(&acme.owner, &grace).ok();

    // A member of two organizations is let in by neither.
    let globex = Fixture::new();
    globex.admit(roadstead::base::Id::parse(&acme.member_id));
    link(&acme.owner, &acme.member_id).refused(409, "member_elsewhere");
    link(&globex.owner, &acme.member_id).refused(409, "member_elsewhere");
}

#[test]
fn a_link_is_void_when_a_role_changes_or_someone_leaves_and_stays_so() {
    let acme = Fixture::new();
    let grace = id_of(&acme, "grace");
    let ben = acme.member_id.clone();

    let of_demoted = token(&link(&acme.admin, &ben));
    appoint(&acme, &grace, "member");
    appoint(&acme, &grace, "admin");
    reset(&acme, &of_demoted).refused(404, "not_found");

    let for_appointed = token(&link(&acme.admin, &ben));
    appoint(&acme, &ben, "owner");
    reset(&acme, &for_appointed).refused(404, "not_found");
    appoint(&acme, &ben, "member");
    reset(&acme, &for_appointed).refused(404, "not_found");

    let of_leaving = token(&link(&acme.admin, &ben));
    acme.owner.delete(&format!("/organizations/members/{grace}")).ok();
    reset(&acme, &of_leaving).refused(404, "not_found");

    let (_, cy) = acme.person("cy", Role::Member);
    let for_leaving = token(&link(&acme.owner, &cy));
    acme.owner.delete(&format!("/organizations/members/{cy}")).ok();
    reset(&acme, &for_leaving).refused(404, "not_found");
    acme.admit(roadstead::base::Id::parse(&cy));
    reset(&acme, &for_leaving).refused(404, "not_found");

    let for_joining = token(&link(&acme.owner, &ben));
    Fixture::new().admit(roadstead::base::Id::parse(&ben));
    reset(&acme, &for_joining).refused(404, "not_found");
}

#[test]
fn a_changed_password_voids_a_link() {
    let acme = Fixture::new();
    reset(&acme, &token(&link(&acme.owner, &acme.member_id))).ok();
    let email = format!("ben@{}.test", acme.slug);
    let session = sign_in(&acme, &email, NEW).ok();
    let ben = acme.anonymous.with_bearer(session["token"].as_str().unwrap());
    let made = token(&link(&acme.owner, &acme.member_id));
    ben.post("/auth/password", json!({"currentPassword": NEW, "newPassword": PASSWORD})).ok();
    reset(&acme, &made).refused(404, "not_found");
}

#[test]
fn attempts_with_links_are_limited_as_sign_ins_are() {
    let acme = Fixture::new();
    let mut tried = 0;
    let limited = first_limited(10, Duration::from_secs(6), || {
        tried += 1;
        let reply = reset_from(&acme, "203.0.113.99", &format!("guess-{tried}"), NEW);
        if reply.status != 429 {
            reply.refused(404, "not_found");
        }
        reply
    });
    limited.refused(429, "rate_limited");
    // Of the same address, one with a valid link is counted apart.
    let made = token(&link(&acme.owner, &acme.member_id));
    reset_from(&acme, "203.0.113.99", &made, NEW).ok();
}

#[test]
fn without_a_mail_server_asking_for_a_link_says_whom_to_ask() {
    let acme = Fixture::new();
    for email in [format!("ben@{}.test", acme.slug), "nobody@nowhere.test".into()] {
        let asked = acme.anonymous.post("/auth/password/forgot", json!({ "email": email }));
        let problem = asked.refused(409, "mail_not_configured");
        assert!(problem["message"].as_str().unwrap().contains("ask an admin"), "{problem}");
    }
}
