//! Lists in the other order, and how many items they have.

use serde_json::json;

use crate::outside;
use crate::server::Running;
use crate::visitor::Page;

/// Whether one thing stands before another in the table with this id.
fn leads(page: &Page, table: &str, one: &str, other: &str) -> bool {
    let (_, table) = page.text.split_once(&format!("id=\"{table}\"")).unwrap();
    let (rows, _) = table.split_once("</table>").unwrap();
    rows.find(one).unwrap() < rows.find(other).unwrap()
}

#[test]
fn versions_label_changes_and_peers_are_turned_around_and_counted() {
    let server = Running::new();
    server.registry();
    for version in ["1.0.0", "1.1.0"] {
        server.publish("prompt", "notes", version, "Hello.\n");
    }
    let api = server.ada();
    let ada_id = api.get("/auth/session").ok()["user"]["id"].clone();
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [ada_id]}});
    for label in ["staging", "canary"] {
        let path = format!("/registries/main/protected-labels/{label}");
        api.put(&path, protection.clone()).ok();
        let moved = json!({"registryRef": "main", "promptName": "notes", "label": label,
            "version": "1.0.0"});
        api.patch("/registries/artifacts/labels", moved).ok();
    }
    server.team("crew", "herald");
    let [first, second] = [(); 2].map(|()| outside::ask(&server, "crew", "May I?").1);
    let peers: [&str; 2] = [&second, &first];
    let ada = server.signed_in("ada@acme.test");
    let (newest, oldest) = ("Newest first", "Oldest first");
    for (path, table, [one, other], words) in [
        (
            "/o/acme/prompts/main/notes?",
            "versions",
            ["<code>1.1.0</code>", "<code>1.0.0</code>"],
            ["Highest first", "Lowest first"],
        ),
        ("/o/acme/label-changes?", "changes", ["canary", "staging"], [newest, oldest]),
        ("/o/acme/label-changes?only=mine&", "changes", ["canary", "staging"], [newest, oldest]),
        ("/o/acme/teams/crew/peers?", "peers", peers, [newest, oldest]),
        ("/o/acme/teams/crew/peers?only=pending&", "peers", peers, [newest, oldest]),
    ] {
        let page = ada.get(path.trim_end_matches(['?', '&']));
        page.shows("2 in all").shows(words[1]);
        assert!(leads(&page, table, one, other), "{path}");
        let turned = format!("{path}reversed=true");
        assert!(page.links().contains(&turned), "{path}: {:?}", page.links());
        let page = ada.get(&turned);
        page.shows("2 in all").shows(words[0]);
        assert!(leads(&page, table, other, one), "{path}");
    }
}
