//! Open invitations follow what their inviter may give (reference: identity-and-rights,
//! "Invitations").

use serde_json::{Value, json};

use crate::client::Caller;
use crate::fixture::Fixture;

/// The id of the member with this e-mail address.
fn member_id(acme: &Fixture, email: &str) -> String {
    let members = acme.owner.get("/organizations/members").items();
    let member = members.iter().find(|member| member["email"] == email).expect("a member");
    member["userId"].as_str().unwrap().into()
}

/// Gives a member a role.
fn appoint(acme: &Fixture, id: &str, role: &str) {
    acme.owner.patch(&format!("/organizations/members/{id}"), json!({"role": role})).ok();
}

/// Invites a user; returns the invitation with its token.
fn invite(inviter: &Caller, email: &str, role: &str) -> Value {
    inviter.post("/organizations/members", json!({"email": email, "role": role})).ok()
}

/// E-mail addresses and roles of the open invitations, newest first.
fn open(acme: &Fixture) -> Vec<Value> {
    let items = acme.owner.get("/organizations/invitations").items();
    items.iter().map(|item| json!([item["email"], item["role"]])).collect()
}

fn accept(acme: &Fixture, invitation: &Value) -> crate::client::Reply {
    let body =
        json!({"token": invitation["token"], "name": "New", "password": "correct horse battery"});
    acme.anonymous.post("/auth/invitations/accept", body)
}

#[test]
fn invitations_fall_back_with_their_inviter_and_do_not_rise_again() {
    let acme = Fixture::new();
    let grace = member_id(&acme, &format!("grace@{}.test", acme.slug));
    appoint(&acme, &grace, "owner");
    let address = |name: &str| format!("{name}@{}.test", acme.slug);
    let [cy, dan, eve] = ["cy", "dan", "eve"].map(address);
    let cys = invite(&acme.admin, &cy, "owner");
    let dans = invite(&acme.admin, &dan, "owner");
    invite(&acme.admin, &eve, "member");
    let kept = invite(&acme.owner, &address("fay"), "owner");
    let fay = json!([kept["email"], "owner"]);

    appoint(&acme, &grace, "admin");
    let lowered =
        [fay.clone(), json!([eve, "member"]), json!([dan, "admin"]), json!([cy, "admin"])];
    assert_eq!(open(&acme), lowered);
    appoint(&acme, &grace, "owner");
    assert_eq!(open(&acme), lowered, "the role came back, what it had given did not");
    let session = accept(&acme, &cys).ok();
    let joined = acme.anonymous.with_bearer(session["token"].as_str().unwrap());
    assert_eq!(joined.get("/auth/session").ok()["memberships"][0]["role"], "admin");

    appoint(&acme, &grace, "member");
    assert_eq!(open(&acme), std::slice::from_ref(&fay));
    accept(&acme, &dans).refused(404, "not_found");
    appoint(&acme, &grace, "owner");
    assert_eq!(open(&acme), std::slice::from_ref(&fay));
    accept(&acme, &dans).refused(404, "not_found");
    let path = format!("/organizations/invitations/{}", dans["id"].as_str().unwrap());
    acme.owner.delete(&path).refused(404, "not_found");

    // The address can be invited again, and is not when the inviter leaves.
    let again = invite(&acme.admin, &dan, "member");
    assert_eq!(open(&acme), [json!([dan, "member"]), fay.clone()]);
    acme.owner.delete(&format!("/organizations/members/{grace}")).ok();
    assert_eq!(open(&acme), [fay]);
    accept(&acme, &again).refused(404, "not_found");
}
