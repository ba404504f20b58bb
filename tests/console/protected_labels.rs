//! Protected labels: the form on the page of a registry, what members see, and the page of a change that
//! waits.

use serde_json::{Value, json};

use crate::conflicts::form_with;
use crate::server::Running;
use crate::visitor::press;

/// A registry with two versions of `notes`, of which `production` is on the first; Ben is a member, and
/// Cara another, for whose address Ada vouches.
fn server() -> Running {
    let server = Running::new();
    server.registry();
    server.add("ben", "member");
    server.add("cara", "member");
    let cara = format!("/organizations/members/{}", user(&server, "cara@acme.test"));
    server.ada().patch(&cara, json!({"emailVerified": true})).ok();
    server.publish("prompt", "notes", "1.0.0", "Hello.\n");
    server.publish("prompt", "notes", "1.1.0", "Good morning.\n");
    let label = json!({"registryRef": "main", "promptName": "notes", "label": "production",
        "version": "1.0.0"});
    server.ada().patch("/registries/artifacts/labels", label).ok();
    server
}

fn protection(server: &Running) -> Value {
    server.ada().get("/registries/main/protected-labels").items()[0].clone()
}

fn user(server: &Running, email: &str) -> String {
    let members = server.ada().get("/organizations/members").items();
    let found = members.iter().find(|member| member["email"] == email).unwrap();
    found["userId"].as_str().unwrap().to_string()
}

fn production(server: &Running) -> Value {
    let found = server.ada().get("/registries/artifacts?registryRef=acme/main").items();
    found[0]["labels"]["production"].clone()
}

#[test]
fn an_admin_protects_a_label_and_says_who_moves_it_and_who_approves() {
    let server = server();
    let ada = server.signed_in("ada@acme.test");
    let protect = form_with(&ada.open("/o/acme/prompts/main"), "label");
    let empty = ada.send_form(&protect, &[("label", "")]);
    assert!(empty.status == 400 && empty.has_problem("label"));
    let protected = ada.send_form(&protect, &[("label", "production")]);
    let form = "/o/acme/registries/main/labels/production";
    assert_eq!(protected.location(), form);
    assert_eq!(protection(&server)["minRole"], "admin");
    // A second time leads to what there is, and changes nothing.
    let blank = || {
        let mut blank = ada.open(form).form(form);
        blank.fields.retain(|(name, _)| name != "mover" && name != "approver");
        blank
    };
    let (ben, cara) = (user(&server, "ben@acme.test"), user(&server, "cara@acme.test"));
    let fields = [("minRole", ""), ("mover", ben.as_str()), ("approver", cara.as_str())];
    let saved = ada.send_form(&blank(), &fields);
    assert_eq!(saved.status, 303, "{}", saved.words());
    let again = ada.send_form(&protect, &[("label", "production")]);
    assert_eq!(again.location(), form);
    let stored = protection(&server);
    assert_eq!((&stored["minRole"], &stored["userIds"]), (&Value::Null, &json!([ben])));
    assert_eq!(stored["approvals"]["approverIds"], json!([cara]));
    assert_eq!(stored["approvals"]["minApprovals"], 1);
    ada.open("/o/acme/prompts/main").shows("production").shows("ben");

    // If nobody is named, admins move it.
    let nobody = ada.send_form(&blank(), &[("minRole", "")]);
    assert_eq!((nobody.status, &protection(&server)["minRole"]), (303, &json!("admin")));
    let end = ada.open(&format!("{form}/delete"));
    ada.send(&end, &format!("{form}/delete"), &[]);
    assert!(server.ada().get("/registries/main/protected-labels").items().is_empty());
}

#[test]
fn a_member_who_may_not_move_a_label_sees_that_and_is_offered_nothing() {
    let server = server();
    let protection = json!({"minRole": "admin"});
    server.ada().put("/registries/main/protected-labels/production", protection).ok();
    let ben = server.signed_in("ben@acme.test");
    let notes = ben.open("/o/acme/prompts/main/notes");
    notes.shows("protected:").hides("Move production");
    let labels = ben.open("/o/acme/prompts/main/notes/labels?label=production&version=1.1.0");
    labels.shows("You may not move it").shows("Admins and owners").hides("Remove production");
    let path = "/o/acme/prompts/main/notes/labels";
    let refused = ben.send(&labels, path, &[("action", "move")]);
    assert_eq!(refused.status, 403, "{}", refused.words());
    assert_eq!(production(&server), "1.0.0");
    assert!(!ben.open("/o/acme/prompts/main").text.contains("<button>Protect</button>"));
    assert_eq!(ben.get("/o/acme/registries/main/labels/production").status, 403);
}

#[test]
fn a_move_that_takes_approvals_waits_on_a_page_of_its_own_and_is_moved_by_the_approval() {
    let server = server();
    let cara_id = user(&server, "cara@acme.test");
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [cara_id]}});
    server.ada().put("/registries/main/protected-labels/production", protection).ok();
    let (ben, cara) = (server.signed_in("ben@acme.test"), server.signed_in("cara@acme.test"));
    let labels = ben.open("/o/acme/prompts/main/notes/labels?label=production&version=1.1.0");
    labels.shows("It is moved when 1 of its approvers approve it");
    let change = press(&ben, &labels, ("action", "move"), &[]);
    change.shows("Waits for approval").shows("Hello.").shows("Good morning.").hides("Approve it");
    assert_eq!(production(&server), "1.0.0");
    ben.open("/o/acme/prompts/main/notes").shows("Move production of notes to 1.1.0");
    ben.open("/o/acme").hides("Labels that wait for your approval");

    cara.open("/o/acme").shows("Labels that wait for your approval");
    assert!(cara.open("/o/acme/prompts").text.contains("<title>(1) Prompts"));
    cara.open("/o/acme/label-changes?only=mine").shows("Move production of notes to 1.1.0");
    cara.open("/o/acme/deployments?only=mine").shows("Label changes that wait for you");
    let page = cara.open(&change.path);
    let done = press(&cara, &page, ("action", "approve"), &[("comment", "Kinder.")]);
    done.shows("Approved").shows("Kinder.");
    assert_eq!(production(&server), "1.1.0");

    // A removal waits, too, and may be cancelled by who asked.
    let labels = ben.open("/o/acme/prompts/main/notes/labels?label=production");
    let change = press(&ben, &labels, ("action", "remove"), &[]);
    change.shows("programs that read by it get an error then");
    press(&ben, &change, ("action", "cancel"), &[]).shows("Cancelled");
    assert_eq!(production(&server), "1.1.0");
}

#[test]
fn a_label_is_not_removed_from_where_it_was_not_when_the_page_was_opened() {
    let server = server();
    let ada = server.signed_in("ada@acme.test");
    let path = "/o/acme/prompts/main/notes/labels?label=production";
    let labels = ada.open(path);
    let label = json!({"registryRef": "main", "promptName": "notes", "label": "production",
        "version": "1.1.0"});
    server.ada().patch("/registries/artifacts/labels", label).ok();
    let refused = press(&ada, &labels, ("action", "remove"), &[]);
    assert_eq!(refused.status, 409, "{}", refused.words());
    assert_eq!(production(&server), "1.1.0");
    press(&ada, &ada.open(path), ("action", "remove"), &[]);
    assert_eq!(production(&server), Value::Null);
}

#[test]
fn the_page_of_a_change_says_who_does_not_decide_and_that_too_few_can() {
    let server = server();
    server.add("dan", "viewer");
    let (ben_id, dan_id) = (user(&server, "ben@acme.test"), user(&server, "dan@acme.test"));
    let protection = json!({"minRole": "member", "approvals": {
        "approverIds": [ben_id, dan_id], "minApprovals": 1, "preventSelfApproval": true}});
    server.ada().put("/registries/main/protected-labels/production", protection).ok();
    let form = "/o/acme/registries/main/labels/production";
    let warning = "Nobody of them can approve now, and 1 must.";
    let ada = server.signed_in("ada@acme.test");
    let edited = ada.open(form);
    let (ben, cara) = (server.signed_in("ben@acme.test"), server.signed_in("cara@acme.test"));
    let labels = ben.open("/o/acme/prompts/main/notes/labels?label=production&version=1.1.0");
    let change = press(&ben, &labels, ("action", "move"), &[]);
    change.shows("You do not decide about it");
    cara.open(&change.path).shows("You are not asked").hides("You do not decide about it");
    for page in [edited, ben.open(&change.path), cara.open(&change.path)] {
        page.shows(warning);
    }
}

#[test]
fn today_says_of_labels_that_one_cannot_approve_yet() {
    let server = server();
    let protection = json!({"minRole": "member", "approvals": {
        "approverIds": [user(&server, "ben@acme.test")]}});
    server.ada().put("/registries/main/protected-labels/production", protection).ok();
    let (ben, cara) = (server.signed_in("ben@acme.test"), server.signed_in("cara@acme.test"));
    let labels = cara.open("/o/acme/prompts/main/notes/labels?label=production&version=1.1.0");
    press(&cara, &labels, ("action", "move"), &[]).shows("Waits for approval");
    let today = ben.open("/o/acme");
    today.shows("You are asked to approve labels, and cannot yet");
    today.hides("Labels that wait for your approval");
}

#[test]
fn a_protection_that_nobody_can_approve_is_warned_of_when_it_is_saved() {
    let server = server();
    let ada = server.signed_in("ada@acme.test");
    let own = "/registries/main/protected-labels/production";
    server.ada().put(own, json!({"minRole": "admin"})).ok();
    let form = "/o/acme/registries/main/labels/production";
    let save = |fields: &[(&str, &str)]| {
        let mut blank = ada.open(form).form(form);
        let chosen = ["mover", "approver", "preventSelfApproval"];
        blank.fields.retain(|(name, _)| !chosen.contains(&name.as_str()));
        ada.send_form(&blank, fields).location().to_string()
    };
    let (ben, cara) = (user(&server, "ben@acme.test"), user(&server, "cara@acme.test"));
    // Nobody vouches for the address of Ben.
    assert_eq!(save(&[("minRole", "admin"), ("approver", &ben)]), form);
    let page = ada.open(form);
    page.shows("The protection was saved.").shows("Nobody of them can approve now, and 1 must.");
    assert_eq!(protection(&server)["approvals"]["approverIds"], json!([ben]));
    let alone = [("minRole", "member"), ("approver", &*cara), ("preventSelfApproval", "true")];
    assert_eq!(save(&alone), form);
    ada.open(form).shows("cara alone can approve now, and may move it, too");
    // Ada moves it, and Cara approves.
    let both = [("minRole", "admin"), ("approver", &*cara), ("preventSelfApproval", "true")];
    assert_eq!(save(&both), "/o/acme/prompts/main");
    ada.open(form).hides("can approve now");
}
