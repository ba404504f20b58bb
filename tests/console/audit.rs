//! The audit log as people read it: what was done in their words, and to what by its name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::eventually;
use crate::crawl::{fill, fill_teams};
use crate::server::Running;
use crate::visitor::Page;

const AUDIT: &str = "/o/acme/operations/audit";

/// What a choice of the page offers.
fn offered(page: &Page, name: &str) -> BTreeSet<String> {
    let form = page.forms().into_iter().find(|form| form.entered.iter().any(|one| one == name));
    let choices = form.unwrap().choices.into_iter().find(|(known, _)| known == name);
    choices.unwrap().1.into_iter().collect()
}

/// All entries of the log.
fn entries(server: &Running) -> Vec<Value> {
    let (api, mut all, mut cursor) = (server.ada(), Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/audit-logs?limit=100{cursor}")).ok();
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["nextCursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn every_action_and_kind_that_is_recorded_can_be_selected() {
    let server = Running::new();
    server.add("ben", "member");
    fill(&server);
    fill_teams(&server);
    let page = server.signed_in("ada@acme.test").get(AUDIT);
    let (actions, kinds) = (offered(&page, "action"), offered(&page, "resourceType"));
    for entry in entries(&server) {
        let action = entry["action"].as_str().unwrap();
        assert!(actions.contains(action), "{entry}");
        assert!(kinds.contains(entry["resource"]["type"].as_str().unwrap()), "{entry}");
    }
}

#[test]
fn an_entry_says_what_was_done_to_what_by_its_name() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    let api = server.ada();
    let moved = json!({"registryRef": "main", "promptName": "notes", "label": "production",
        "version": "1.0.0"});
    api.patch("/registries/artifacts/labels", moved).ok();
    let environment = api.get("/environments").items()[0]["id"].as_str().unwrap().to_string();
    let variable = format!("/environments/{environment}/variables/NAME");
    api.put(&variable, json!({"value": "harbour"})).ok();
    let gone = api.post("/tools", json!({"name": "Hammer", "type": "function"})).id();
    api.delete(&format!("/tools/{gone}")).ok();
    let ada = server.signed_in("ada@acme.test");
    let of = |action: &str| {
        eventually("the entry", || {
            let page = ada.get(&format!("{AUDIT}?action={action}"));
            page.text.contains("<tbody>").then_some(page)
        })
    };
    let page = of("artifact_label.move");
    page.shows("notes (main)").shows("none -> 1.0.0");
    assert!(page.links().contains(&"/o/acme/prompts/main/notes".into()), "{:?}", page.links());
    let page = of("agent.create");
    assert!(page.links().contains(&"/o/acme/agents/scribe".into()), "{:?}", page.links());
    assert!(of("registry.create").links().contains(&"/o/acme/prompts/main".into()));
    // A variable has no page of its own: its environment has.
    let page = of("environment_variable.set");
    page.shows("NAME").shows("of Production");
    assert!(page.links().contains(&format!("/o/acme/environments/{environment}")));
    // What is gone keeps its kind and id.
    let page = of("tool.create");
    page.shows(&gone).hides("Hammer");
}

#[test]
fn an_action_that_is_none_of_the_choices_stays_selected() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(&format!("{AUDIT}?action=tool.list&resourceType=ghost"));
    page.shows("There are no entries of these.");
    assert!(offered(&page, "action").contains("tool.list"));
    assert!(page.text.contains("<option value=\"ghost\" selected>Ghost</option>"));
}
