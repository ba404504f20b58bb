//! Users: invitations, passwords, sessions, roles, keys, domains of an organization
//! (reference: identity-and-rights, "Roles").

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::nostr::fresh_address;
use crate::client::{Caller, Reply, at_once, eventually, first_limited, pick, while_limited};
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};

const PASSWORD: &str = "correct horse battery";

/// A client without a credential from this address: sign-ins are counted by address.
fn at(acme: &Fixture, address: &str) -> Caller {
    acme.anonymous.with_fields(&[("X-Forwarded-For", address)])
}

/// Invites a user; returns the token.
fn invite(acme: &Fixture, email: &str, role: &str) -> String {
    let made = acme.owner.post("/organizations/members", json!({"email": email, "role": role}));
    made.ok()["token"].as_str().unwrap().into()
}

/// A user who accepted an invitation with [`PASSWORD`]: their session and id.
fn newcomer(acme: &Fixture, email: &str, address: &str) -> (Caller, String) {
    let body = json!({"token": invite(acme, email, "member"), "name": "New", "password": PASSWORD});
    let session = at(acme, address).post("/auth/invitations/accept", body).ok();
    let caller = acme.anonymous.with_bearer(session["token"].as_str().unwrap());
    (caller, session["user"]["id"].as_str().unwrap().into())
}

fn sign_in(caller: &Caller, email: &str, password: &str) -> Reply {
    caller.post("/auth/sign-in", json!({"email": email, "password": password}))
}

/// How soon one more sign-in is let through.
const REFILL: Duration = Duration::from_secs(6);

/// A sign-in with a wrong password, which is refused for it or for the rate limit.
fn guessed(caller: &Caller, email: &str) -> Reply {
    let reply = sign_in(caller, email, "wrong");
    assert!([401, 429].contains(&reply.status), "{}", reply.status);
    reply
}

#[test]
fn an_invitation_is_accepted_once() {
    let acme = Fixture::new();
    let email = format!("Dan@{}.Test", acme.slug);
    let body = json!({"email": email, "role": "admin"});
    let made = acme.owner.post("/organizations/members", body).ok();
    let (lower, token) = (email.to_lowercase(), made["token"].as_str().unwrap());
    assert_eq!(pick(&made, "email role"), json!([lower, "admin"]));
    let url = made["invitationUrl"].as_str().unwrap();
    assert!(url.ends_with(&format!("/invitations#{token}")), "{url}");
    let listed = acme.admin.get("/organizations/invitations");
    assert_eq!(listed.items().len(), 1);
    assert!(!listed.text().contains(token));

    let anonymous = at(&acme, "203.0.113.1");
    let accept = |body: Value| anonymous.post("/auth/invitations/accept", body);
    accept(json!({"token": "wrong"})).refused(404, "not_found");
    accept(json!({"token": token})).invalid(&["name", "password"]);
    let short = json!({"token": token, "name": "Dan", "password": "too short"});
    accept(short).invalid(&["password"]);
    let good = json!({"token": token, "name": "Dan", "password": PASSWORD});
    let session = accept(good.clone()).ok();
    accept(good).refused(404, "not_found");
    let dan = anonymous.with_bearer(session["token"].as_str().unwrap());
    let current = dan.get("/auth/session").ok();
    let membership = json!({"orgSlug": acme.slug, "orgName": "An organization", "role": "admin",
        "secondFactorRequired": false});
    assert_eq!(current["memberships"], json!([membership]));
    assert_eq!(current["expiresAt"], session["expiresAt"]);
    let members = acme.member.get("/organizations/members").items();
    assert_eq!(pick(&members[0], "email emailVerified"), json!([lower, false]));
    assert_eq!(acme.admin.get("/organizations/invitations").items().len(), 0);
    let again =
        acme.owner.post("/organizations/members", json!({"email": lower, "role": "member"}));
    again.refused(409, "already_member");
}

#[test]
fn an_existing_user_accepts_in_their_own_session() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    let token = invite(&acme, &format!("ada@{}.test", other.slug), "member");
    let accept = |caller: &Caller| caller.post("/auth/invitations/accept", json!({"token": token}));
    let new = json!({"token": token, "name": "Ada", "password": PASSWORD});
    for caller in [&acme.anonymous, &acme.member, &other.key] {
        // As for an address without an account: who has the token does not learn whether there is one.
        accept(caller).invalid(&["name", "password"]);
        caller.post("/auth/invitations/accept", new.clone()).refused(401, "unauthenticated");
    }
    let session = accept(&other.owner).ok();
    assert_eq!(session["user"]["id"], other.owner_id);
    assert_eq!(other.owner.about(&acme.slug).get("/tools").status, 200);
    assert_eq!(other.owner.get("/organizations").items().len(), 2);
    // The API key still belongs to its organization.
    other.key.about(&acme.slug).get("/tools").refused(404, "organization_not_found");
}

#[test]
fn an_invitation_is_revoked_or_replaced() {
    let acme = Fixture::new();
    let email = format!("dan@{}.test", acme.slug);
    let (first, second) = (invite(&acme, &email, "member"), invite(&acme, &email, "member"));
    let look =
        |token: &str| acme.anonymous.post("/auth/invitations/accept", json!({"token": token}));
    look(&first).refused(404, "not_found");
    look(&second).invalid(&["name", "password"]);
    let id = acme.owner.get("/organizations/invitations").items()[0]["id"].clone();
    let path = format!("/organizations/invitations/{}", id.as_str().unwrap());
    Fixture::new().owner.delete(&path).refused(404, "not_found");
    acme.owner.delete(&path).ok();
    acme.owner.delete(&path).refused(404, "not_found");
    look(&second).refused(404, "not_found");
}

#[test]
fn a_wrong_password_and_an_unknown_address_get_the_same_response() {
    let acme = Fixture::new();
    let email = format!("dan@{}.test", acme.slug);
    newcomer(&acme, &email, "203.0.113.2");
    let here = at(&acme, "203.0.113.2");
    let session = sign_in(&here, &email.to_uppercase(), PASSWORD).ok();
    assert_eq!(session["user"]["email"], email);
    let wrong = sign_in(&here, &email, "wrong");
    wrong.refused(401, "unauthenticated");
    let anonymous = sign_in(&here, &format!("nobody@{}.test", acme.slug), "wrong");
    assert_eq!(anonymous.likeness(), wrong.likeness());
    // Ada has no password: none opens her account.
    for password in ["", "x", PASSWORD] {
        let reply = sign_in(&here, &format!("ada@{}.test", acme.slug), password);
        assert_eq!(reply.likeness(), wrong.likeness());
    }
    sign_in(&here, "no address", "x").invalid(&["email"]);
}

#[test]
fn guessing_passwords_is_rate_limited_and_locks_nobody_out() {
    let acme = Fixture::new();
    let email = format!("dan@{}.test", acme.slug);
    newcomer(&acme, &email, "203.0.113.3");
    let outsider = at(&acme, "203.0.113.4");
    let guess = || guessed(&outsider, &email);
    first_limited(10, REFILL, guess).refused(429, "rate_limited");
    let refused = while_limited(guess, || sign_in(&outsider, &email, PASSWORD));
    refused.refused(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    // Nor from elsewhere, since the limit of the e-mail address is reached; known addresses can.
    let elsewhere = || at(&acme, &fresh_address());
    while_limited(|| guessed(&elsewhere(), &email), || sign_in(&elsewhere(), &email, PASSWORD));
    sign_in(&at(&acme, "203.0.113.3"), &email, PASSWORD).ok();
    // The limit also applies to an unknown e-mail address.
    let anonymous = format!("nobody@{}.test", acme.slug);
    let elsewhere = at(&acme, "203.0.113.6");
    first_limited(10, REFILL, || guessed(&elsewhere, &anonymous));
    // A forged X-Forwarded-For does not count as more addresses.
    let many = at(&acme, "198.51.100.1, 203.0.113.6");
    while_limited(|| guessed(&elsewhere, &anonymous), || guessed(&many, &anonymous));
}

#[test]
fn wrong_sign_ins_elsewhere_do_not_prevent_a_password_change() {
    let acme = Fixture::new();
    let email = format!("dan@{}.test", acme.slug);
    newcomer(&acme, &email, "203.0.113.13");
    let session = sign_in(&at(&acme, "203.0.113.13"), &email, PASSWORD).ok();
    let bearer = format!("Bearer {}", session["token"].as_str().unwrap());
    let spend = || guessed(&at(&acme, &fresh_address()), &email);
    while_limited(spend, || sign_in(&at(&acme, &fresh_address()), &email, PASSWORD));
    let moved = acme
        .anonymous
        .with_fields(&[("X-Forwarded-For", "203.0.113.14"), ("Authorization", &bearer)]);
    let change = |current: &str| {
        let body = json!({"currentPassword": current, "newPassword": "battery staple"});
        moved.post("/auth/password", body)
    };
    change(PASSWORD).ok();
    // Guessing the password with a stolen session is limited: nine more.
    first_limited(9, REFILL, || change("wrong horse"));
}

#[test]
fn sign_ins_of_strangers_delay_neither_a_known_address_nor_a_session() {
    const STRANGERS: usize = 40;
    let server = Running::start(config());
    let acme = server.fixture();
    let email = format!("dan@{}.test", acme.slug);
    let (dan, _) = newcomer(&acme, &email, "203.0.113.3");
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..STRANGERS {
            let (acme, answered) = (&acme, &answered);
            scope.spawn(move || {
                let stranger = at(acme, &format!("198.51.100.{n}"));
                sign_in(&stranger, &format!("nobody{n}@{}.test", acme.slug), "wrong");
                answered.fetch_add(1, Ordering::SeqCst);
            });
        }
        // They are hashed one after another: when two are answered, most of them wait.
        let has_begun = || Some(()).filter(|()| answered.load(Ordering::SeqCst) >= 2);
        eventually("strangers are answered", has_begun);
        sign_in(&at(&acme, "203.0.113.3"), &email, PASSWORD).ok();
        let new = json!({"currentPassword": PASSWORD, "newPassword": "another horse battery"});
        dan.post("/auth/password", new).ok();
        let before = answered.load(Ordering::SeqCst);
        assert!(before < STRANGERS / 2, "{before} strangers were first");
    });
}

#[test]
fn an_ipv6_client_is_known_by_its_network() {
    let acme = Fixture::new();
    let email = format!("dan@{}.test", acme.slug);
    newcomer(&acme, &email, "2001:db8:5::1");
    let spend = || guessed(&at(&acme, &fresh_address()), &email);
    while_limited(spend, || sign_in(&at(&acme, "2001:db8:6::1"), &email, PASSWORD));
    sign_in(&at(&acme, "2001:db8:5::2"), &email, PASSWORD).ok();
}

#[test]
fn a_new_password_ends_all_other_sessions_and_no_key() {
    let acme = Fixture::new();
    let email = format!("dan@{}.test", acme.slug);
    let (dan, _) = newcomer(&acme, &email, "203.0.113.7");
    let here = at(&acme, "203.0.113.7");
    let other = sign_in(&here, &email, PASSWORD).ok();
    let other = acme.anonymous.with_bearer(other["token"].as_str().unwrap());
    let key = key_of(&dan);
    let change = |caller: &Caller, old: &str, new: &str| {
        caller.post("/auth/password", json!({"currentPassword": old, "newPassword": new}))
    };
    change(&dan, "wrong", "another horse battery").refused(403, "wrong_password");
    change(&dan, PASSWORD, "short").invalid(&["newPassword"]);
    change(&dan, PASSWORD, &"x".repeat(1025)).invalid(&["newPassword"]);
    change(&key, PASSWORD, "another horse battery").refused(401, "session_required");
    assert_eq!(change(&dan, PASSWORD, "another horse battery").ok(), json!({}));
    assert_eq!([dan.get("/tools").status, key.get("/tools").status], [200, 200]);
    other.get("/tools").refused(401, "unauthenticated");
    sign_in(&here, &email, PASSWORD).refused(401, "unauthenticated");
    sign_in(&here, &email, "another horse battery").ok();
}

#[test]
fn signing_out_ends_a_session_at_once() {
    let acme = Fixture::new();
    assert_eq!(acme.member.post("/auth/sign-out", json!({})).ok(), json!({}));
    acme.member.get("/tools").refused(401, "unauthenticated");
    acme.member.get("/auth/session").refused(401, "unauthenticated");
    acme.member.post("/auth/sign-out", json!({})).refused(401, "unauthenticated");
}

#[test]
fn users_update_their_own_name_and_picture() {
    let acme = Fixture::new();
    let patch = |body: Value| acme.member.patch("/auth/user", body);
    let changed = patch(json!({"name": "Benjamin", "image": "https://a.example/b.png"})).ok();
    assert_eq!(pick(&changed, "id name"), json!([acme.member_id, "Benjamin"]));
    assert_eq!(patch(json!({"image": null})).ok()["image"], Value::Null);
    assert_eq!(patch(json!({})).ok()["name"], "Benjamin");
    for bad in ["http://a.example/b.png", "javascript:alert(1)", "x", ""] {
        patch(json!({"image": bad})).invalid(&["image"]);
    }
    // The next request of a key has the new name.
    assert_eq!(key_of(&acme.member).get("/organizations/members").items()[0]["name"], "Benjamin");
}

#[test]
fn a_demotion_and_a_removal_apply_to_the_next_request() {
    let acme = Fixture::new();
    let (eve, eve_id) = acme.person("eve", Role::Admin);
    let key = key_of(&eve);
    let path = format!("/organizations/members/{eve_id}");
    let make = |caller: &Caller, slug: &str| {
        caller.post("/environments", json!({"slug": slug, "name": "E"})).status
    };
    for round in 0..5 {
        assert_eq!(
            [make(&eve, &format!("a{round}")), make(&key, &format!("b{round}"))],
            [200, 200]
        );
        acme.owner.patch(&path, json!({"role": "member"})).ok();
        assert_eq!([make(&eve, "no"), make(&key, "no")], [403, 403]);
        acme.owner.patch(&path, json!({"role": "admin"})).ok();
    }
    acme.owner.delete(&path).ok();
    eve.get("/tools").refused(404, "organization_not_found");
    key.get("/tools").refused(401, "unauthenticated");
    acme.owner.delete(&path).refused(404, "not_found");
}

#[test]
fn only_owners_manage_owners_and_the_last_one_stays() {
    let acme = Fixture::new();
    let member = |id: &str| format!("/organizations/members/{id}");
    let (ada, ben) = (member(&acme.owner_id), member(&acme.member_id));
    let role = |role: &str| json!({"role": role});
    acme.owner.patch(&ada, role("admin")).refused(409, "last_owner");
    acme.owner.delete(&ada).refused(409, "last_owner");
    acme.admin.patch(&ada, role("member")).refused(403, "owner_required");
    acme.admin.delete(&ada).refused(403, "owner_required");
    acme.admin.patch(&ben, role("owner")).refused(403, "owner_required");
    let invited = json!({"email": "x@y.test", "role": "owner"});
    acme.admin.post("/organizations/members", invited).refused(403, "owner_required");
    assert_eq!(acme.owner.patch(&ben, role("owner")).ok()["role"], "owner");
    assert_eq!(acme.member.patch(&ada, role("member")).ok()["role"], "member");
    acme.member.delete(&ben).refused(409, "last_owner");
    // Everyone may leave; only admins remove others.
    acme.owner.delete(&ben).refused(403, "admin_required");
    acme.owner.delete(&ada).ok();
    acme.owner.get("/tools").refused(404, "organization_not_found");
    acme.key.get("/tools").refused(401, "unauthenticated");
    acme.member.patch(&ben, json!({"role": "king"})).invalid(&["role"]);
    acme.member.patch(&member(&unknown_id()), role("admin")).refused(404, "not_found");
}

#[test]
fn the_creator_of_an_organization_owns_it() {
    let acme = Fixture::new();
    let slug = format!("{}-two", acme.slug);
    let made = acme.member.post("/organizations", json!({"slug": slug, "name": "Two"})).ok();
    assert_eq!(pick(&made, "slug name role"), json!([slug, "Two", "owner"]));
    let own = acme.member.about(&slug);
    own.post("/environments", json!({"slug": "e", "name": "E"})).ok();
    assert_eq!(own.get("/organizations/members").items()[0]["emailVerified"], true);
    let taken = acme.owner.post("/organizations", json!({"slug": slug, "name": "Mine"}));
    taken.refused(409, "organization_slug_taken");
    assert_eq!(own.patch("/organizations", json!({"name": "Three"})).ok()["name"], "Three");
    acme.member.patch("/organizations", json!({"name": "x"})).refused(403, "admin_required");
    acme.key
        .post("/organizations", json!({"slug": "x", "name": "X"}))
        .refused(401, "session_required");
    let mine = acme.member.get("/organizations").items();
    let mine: Vec<_> = mine.iter().map(|mine| pick(mine, "slug role")).collect();
    assert_eq!(mine, [json!([slug, "owner"]), json!([acme.slug, "member"])]);
}

#[test]
fn a_key_is_shown_once_and_revoked_at_once() {
    let acme = Fixture::new();
    let made = acme.member.post("/api-keys", json!({"name": "ci", "expiresInDays": 30})).ok();
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(key.starts_with("rsk_") && key.len() == 4 + 43 + 6, "{key}");
    let some = pick(&made, "start permissions createdBy lastUsedAt");
    assert_eq!(some, json!([&key[..8], [], acme.member_id, null]));
    let listed = acme.member.get("/api-keys");
    assert!(!listed.text().contains(key));
    assert_eq!(listed.items().len(), 1);
    // Admins see all keys, members their own.
    assert_eq!(acme.admin.get("/api-keys").items().len(), 2);

    let caller = acme.anonymous.with_key(key);
    assert_eq!(caller.get("/tools").status, 200);
    eventually("noting the use", || {
        Some(()).filter(|()| acme.member.get("/api-keys").items()[0]["lastUsedAt"].is_string())
    });
    let theirs = acme.admin.post("/api-keys", json!({"name": "boss"})).id();
    acme.member.delete(&format!("/api-keys/{theirs}")).refused(404, "not_found");
    acme.member.delete(&format!("/api-keys/{id}")).ok();
    caller.get("/tools").refused(401, "unauthenticated");
    acme.member.delete(&format!("/api-keys/{id}")).refused(404, "not_found");
    acme.owner.delete(&format!("/api-keys/{theirs}")).ok();

    let make = |body: Value| acme.member.post("/api-keys", body);
    make(json!({"name": "x", "allowApproveAs": true})).refused(403, "admin_required");
    for days in [0, -1, 3651] {
        make(json!({"name": "x", "expiresInDays": days})).invalid(&["expiresInDays"]);
    }
    make(json!({"name": ""})).invalid(&["name"]);
    let approves = acme.admin.post("/api-keys", json!({"name": "x", "allowApproveAs": true})).ok();
    assert_eq!(approves["permissions"], json!(["deployment:approve-as"]));
}

#[test]
fn requests_after_an_acknowledged_revocation_are_refused() {
    let acme = Fixture::new();
    let made = acme.member.post("/api-keys", json!({"name": "ci"})).ok();
    let key = acme.anonymous.with_key(made["key"].as_str().unwrap());
    let path = format!("/api-keys/{}", made["id"].as_str().unwrap());
    let write = |_| {
        let mut begun = Vec::new();
        loop {
            begun.push(Instant::now());
            let reply = key.post("/tools", json!({"name": "t", "type": "x"}));
            if reply.status != 200 {
                reply.refused(401, "unauthenticated");
                return begun;
            }
        }
    };
    let (revoked, begun) = std::thread::scope(|scope| {
        let writers = scope.spawn(|| at_once(8, write));
        eventually("writing", || acme.owner.get("/tools").items().get(20).cloned());
        acme.member.delete(&path).ok();
        (Instant::now(), writers.join().unwrap())
    });
    for mut of_one in begun {
        of_one.pop(); // It was refused.
        assert!(of_one.iter().all(|begun| *begun < revoked));
    }
}

#[test]
fn a_domain_is_claimed_unverified_and_once() {
    let acme = Fixture::new();
    let claim = |domain: &str| acme.admin.post("/organizations/domains", json!({"domain": domain}));
    let made = claim("Bücher.Example").ok();
    let some = pick(&made, "domain state verifiedAt");
    assert_eq!(some, json!(["xn--bcher-kva.example", "unverified", null]));
    claim("xn--bcher-kva.EXAMPLE").refused(409, "domain_taken");
    Fixture::new().owner.post("/organizations/domains", json!({"domain": "bücher.example"})).ok();
    for bad in ["localhost", "1.2.3.4", "[::1]", "a.example:80", "a.example/x", "*.a.example", ""] {
        claim(bad).invalid(&["domain"]);
    }
    let path = format!("/organizations/domains/{}", made["id"].as_str().unwrap());
    assert_eq!(acme.member.get(&path).ok(), made);
    assert_eq!(acme.member.get("/organizations/domains").items(), [made]);
    acme.member
        .post("/organizations/domains", json!({"domain": "b.example"}))
        .refused(403, "admin_required");
    acme.admin.delete(&path).ok();
    acme.member.get(&path).refused(404, "not_found");
    claim("bücher.example").ok();
}
