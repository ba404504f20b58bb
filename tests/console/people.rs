//! People in the console: whom a task is assigned to, who is found where somebody is chosen, and where one is
//! signed in.

use serde_json::{Value, json};

use crate::client::eventually;
use crate::server::Running;
use crate::visitor::{Page, Visitor, press};

const NEW: &str = "/o/acme/teams/crew/tasks/new";
const TASK: &str = "/o/acme/teams/crew/tasks/1";
const GRANT: &str = "/o/acme/settings/grants/new";
const NEW_KEY: &str = "/o/acme/settings/keys/new";

/// What a field is offered, by the query of the script.
fn choices(visitor: &Visitor, query: &str) -> Vec<String> {
    let page = visitor.get(&format!("/o/acme/choose?{query}"));
    assert_eq!(page.status, 200, "{query}: {}", page.words());
    let tags = crate::html::tags(&page.text);
    tags.iter().filter_map(|tag| tag.get("data-value")).map(String::from).collect()
}

/// What can be picked for a field of a form without scripts.
fn picks(page: &Page, action: &str, name: &str) -> Vec<String> {
    let (form, name) = (page.form(action), format!("pick.{name}"));
    let found = form.choices.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no {name} on {}", page.words())).1
}

#[test]
fn a_task_is_assigned_to_a_person_who_finds_it_among_what_waits() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    server.add("ben", "member");
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    let task = || -> Value {
        server.ada().get(&format!("/teams/{team}/tasks?number=1")).items().remove(0)
    };
    // A name that nobody has is refused where it is typed, and who fits can be picked.
    let fields = [("title", "Read it"), ("assigneeUserId", "be")];
    let refused = ada.send(&ada.get(NEW), NEW, &fields);
    assert!(refused.has_problem("assigneeUserId"), "{}", refused.words());
    assert_eq!(picks(&refused, NEW, "assigneeUserId"), ["", "ben@acme.test"]);
    let made = ada.submit(&refused, NEW, &[("pick.assigneeUserId", "ben@acme.test")]);
    made.shows("The task was created.");
    let stored = task();
    assert!(stored["assigneeUserId"].is_string() && stored["assigneeAgentId"].is_null());
    let shown = ada.get(TASK).forms().into_iter().flat_map(|form| form.fields);
    let shown = shown.into_iter().find(|(name, _)| name == "assigneeUserId").unwrap();
    assert_eq!(shown.1, "ben@acme.test");

    ada.get("/o/acme/teams/crew/board").shows("Read it").shows("ben");
    ada.get("/o/acme/teams/crew/tasks?only=mine").hides("Read it");
    ada.get("/o/acme/teams/crew/tasks?only=free").hides("Read it");
    ada.get("/o/acme").hides("Your tasks");
    ben.get("/o/acme/teams/crew/tasks?only=mine").shows("Read it");
    ben.get("/o/acme").shows("Your tasks").shows("Read it");
    ben.get("/o/acme/waiting/tasks").shows("Read it");
    assert!(ben.get("/o/acme/prompts").text.contains("<title>(1) Prompts"));

    // What is saved without being touched stays his; what is emptied is nobody's.
    press(&ada, &ada.get(TASK), ("action", "save"), &[]).shows("The task was saved.");
    assert_eq!(task()["assigneeUserId"], stored["assigneeUserId"]);
    press(&ada, &ada.get(TASK), ("action", "save"), &[("assigneeUserId", "")]);
    assert_eq!(task()["assigneeUserId"], Value::Null);
    ben.get("/o/acme").hides("Your tasks");
}

#[test]
fn people_are_found_by_name_and_address_and_scopes_by_theirs() {
    let server = Running::new();
    server.add("ben", "member");
    server.ada().post("/organizations/service-accounts", json!({"name": "Benbot"})).ok();
    let ada = server.signed_in("ada@acme.test");
    assert_eq!(choices(&ada, "kind=person&q=BEN"), ["ben@acme.test"]);
    assert_eq!(choices(&ada, "kind=member&q=ben").len(), 2);
    assert_eq!(choices(&ada, "kind=person&q=acme.test").len(), 2);
    assert_eq!(choices(&ada, "kind=person&q=nobody"), [""; 0]);
    assert!(choices(&ada, "kind=scope&q=label:").contains(&"label:move".to_string()));
    assert_eq!(choices(&ada, "kind=scope&q=none"), [""; 0]);

    server
        .ada()
        .post("/environments", json!({"slug": "v", "name": "V", "access": "restricted"}))
        .ok();
    let refused = ada.send(&ada.get(GRANT), GRANT, &[("userId", "be")]);
    assert!(refused.has_problem("userId"), "{}", refused.words());
    assert!(picks(&refused, GRANT, "userId").contains(&"ben@acme.test".to_string()));
    let granted = ada.submit(&refused, GRANT, &[("userId", "ben@acme.test")]);
    granted.shows("Access was granted.");
    assert_eq!(server.ada().get("/access-grants").items().len(), 1);

    let fields = [("name", "CI"), ("access", "scopes"), ("scopes", "member:read, tool:read")];
    let mut form = ada.get(NEW_KEY).form(NEW_KEY);
    form.fields.retain(|(name, _)| !name.contains("allowApproveAs"));
    ada.send_form(&form, &fields).shows("It is not shown again.");
    let key = server.ada().get("/api-keys").items().remove(0);
    assert_eq!(key["access"], json!(["member:read", "tool:read"]));
}

#[test]
fn the_page_of_an_account_says_where_one_is_signed_in_and_how() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    eventually("noting the use", || {
        let page = ada.get("/account");
        page.shows("With a password");
        page.words().contains("127.0.0.1").then_some(())
    });
}

#[test]
fn a_list_is_turned_around_and_says_how_many_it_has() {
    let server = Running::new();
    for name in ["alpha", "bravo", "delta"] {
        server.ada().post("/fleets", json!({"name": name})).ok();
    }
    let ada = server.signed_in("ada@acme.test");
    let order = |page: &Page| {
        let words = page.words();
        ["alpha", "bravo", "delta"].map(|name| words.find(name).unwrap()).is_sorted()
    };
    let fleets = ada.get("/o/acme/fleets");
    fleets.shows("3 in all").shows("Oldest first");
    assert!(!order(&fleets));
    let turned = ada.get("/o/acme/fleets?reversed=true");
    turned.shows("3 in all").shows("Newest first");
    assert!(order(&turned));
    assert!(fleets.links().contains(&"/o/acme/fleets?reversed=true".to_string()));
    assert!(turned.links().contains(&"/o/acme/fleets".to_string()));
}

#[test]
fn a_list_with_more_pages_is_counted_when_that_is_asked() {
    let server = Running::new();
    for number in 0..51 {
        server.ada().post("/fleets", json!({"name": format!("fleet-{number}")})).ok();
    }
    let ada = server.signed_in("ada@acme.test");
    let fleets = ada.get("/o/acme/fleets?reversed=true");
    assert!(!fleets.words().contains("in all"));
    let count = "/o/acme/fleets?reversed=true&total=true";
    assert!(fleets.links().contains(&count.to_string()), "{:?}", fleets.links());
    let counted = ada.get(count);
    counted.shows("51 in all");
    // Other pages of it are not counted for that.
    assert!(!counted.links().iter().any(|link| link.contains("total")), "{:?}", counted.links());
}

#[test]
fn the_settings_of_an_organization_say_who_changed_it_last() {
    let server = Running::new();
    server.add("ben", "admin");
    let (ada, path) = (server.signed_in("ada@acme.test"), "/o/acme/settings/organization");
    ada.get(path).shows("It was last changed by Ada.");
    let ben = server.api("ben@acme.test");
    ben.patch("/organizations", json!({"name": "Acme Ltd"})).ok();
    ada.get(path).shows("It was last changed by ben.");
    let stored = server.ada().get("/organizations").items().remove(0);
    let ben = ben.get("/auth/session").ok();
    assert_eq!(stored["updatedBy"], ben["user"]["id"]);
}
