//! Choices between things of which there are many: no page lists them all, and each is found by typing a part
//! of its name and sending the form.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::crawl;
use crate::html::tags;
use crate::server::Running;
use crate::visitor::{Page, Visitor};

/// One more than a page lists.
const MANY: usize = 51;
const EDIT: &str = "/o/acme/agents/scribe/edit";
const NEW_TASK: &str = "/o/acme/teams/crew/tasks/new";
const NEW_KEY: &str = "/o/acme/settings/keys/new";
const ACCESS: &str = "/o/acme/settings/access";
const AUDIT: &str = "/o/acme/operations/audit";

/// The fields that are lines once there are many.
const LINES: [&str; 13] = [
    "actor",
    "agent",
    "agentId",
    "assigneeAgentId",
    "environment",
    "fleetId",
    "registry",
    "registryRef",
    "resource",
    "serviceAccountId",
    "stableKey",
    "team",
    "who",
];

/// Makes many of each kind of what is chosen, called `Many 0` and so on, in the organization and in a team.
fn fill(server: &Running, team: &str) {
    let api = server.ada();
    let make = |path: &str, body: Value| drop(api.post(path, body).ok());
    for n in 0..MANY {
        let (slug, name) = (format!("many-{n}"), format!("Many {n}"));
        let restricted = json!({"slug": slug, "name": name, "access": "restricted"});
        make("/registries", restricted.clone());
        make("/environments", restricted);
        make("/fleets", json!({"name": name}));
        make("/teams", json!({"slug": slug, "name": name}));
        make("/organizations/service-accounts", json!({"name": name}));
        make("/api-keys", json!({"name": name}));
        make("/agents", json!({"stableKey": slug, "name": name}));
        make(&format!("/teams/{team}/agents"), json!({"stableKey": slug, "role": "member"}));
    }
}

/// The id of a team by its slug.
fn team(server: &Running, slug: &str) -> String {
    server.ada().get(&format!("/teams?slug={slug}")).items()[0]["id"].as_str().unwrap().into()
}

/// The choices of a page that have more of what there is much of than are listed, by their names.
fn too_long(page: &Page) -> Vec<String> {
    let (mut found, mut name, mut count) = (Vec::new(), String::new(), 0);
    for tag in tags(&page.text) {
        match tag.name.as_str() {
            "select" => (name, count) = (tag.get("name").unwrap_or_default().into(), 0),
            "option" if tag.text.contains("Many ") => count += 1,
            "/select" if count >= MANY => found.push(name.clone()),
            _ => {}
        }
    }
    found
}

/// The fields of a page in which something is looked for.
fn lines(page: &Page) -> Vec<String> {
    let fields = tags(&page.text).into_iter().filter(|tag| tag.get("data-choose").is_some());
    fields.filter_map(|tag| tag.get("name").map(String::from)).collect()
}

/// What can be picked for a field of a form without scripts: values, and what is read.
fn picks(page: &Page, name: &str) -> Vec<(String, String)> {
    let (mut found, mut is_it) = (Vec::new(), false);
    for tag in tags(&page.text) {
        match tag.name.as_str() {
            "select" => is_it = tag.get("name") == Some(&format!("pick.{name}")),
            "option" if is_it => {
                found.push((tag.get("value").unwrap_or_default().into(), tag.text.clone()));
            }
            _ => {}
        }
    }
    found
}

/// The value that is picked where this is read.
#[track_caller]
fn pick(page: &Page, name: &str, read: &str) -> String {
    let all = picks(page, name);
    let found = all.iter().find(|(_, text)| text.starts_with(read));
    found.unwrap_or_else(|| panic!("no {read} for {name} in {all:?}: {}", page.words())).0.clone()
}

/// Types a part of a name, which is refused, and picks what fits.
#[track_caller]
fn find(ada: &Visitor, path: &str, fields: &[(&str, &str)], name: &str, read: &str) {
    let refused = ada.send(&ada.get(path), path, fields);
    assert!(refused.status >= 400, "{}: {}", refused.status, refused.words());
    let picked = pick(&refused, name, read);
    let sent = ada.send(&refused, path, &[(&format!("pick.{name}"), &picked)]);
    assert!([200, 303].contains(&sent.status), "{}: {}", sent.status, sent.words());
}

#[test]
fn no_page_lists_all_of_what_there_is_much_of() {
    let server = Running::new();
    server.add("ben", "member");
    crawl::fill(&server);
    crawl::fill_teams(&server);
    let ada = server.signed_in("ada@acme.test");
    let pages = crawl::crawl(&ada);
    let crew = team(&server, "crew");
    fill(&server, &crew);
    // It follows a form, not a link.
    let chosen = format!("/o/acme/operations/new-channel?workflow=team_task&team={crew}");
    let (mut long, mut looked_for) = (Vec::new(), BTreeSet::new());
    for path in pages.keys().chain([&chosen]) {
        let page = ada.open(path);
        assert_eq!(page.status, 200, "{path}: {}", page.words());
        long.extend(too_long(&page).into_iter().map(|name| (path, name)));
        looked_for.extend(lines(&page));
    }
    assert!(long.is_empty(), "these list more than {} to choose from: {long:#?}", MANY - 1);
    let missing: Vec<_> = LINES.iter().filter(|name| !looked_for.contains(**name)).collect();
    assert!(missing.is_empty(), "nothing is looked for in {missing:?}, but in {looked_for:?}");
}

#[test]
fn what_is_not_listed_is_found_by_typing_and_sending() {
    let server = Running::new();
    let (crew, _) = server.team("crew", "scribe");
    fill(&server, &crew);
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());

    find(&ada, EDIT, &[("fleetId", "Many 7")], "fleetId", "Many 7");
    let fleet = api.get("/agents/scribe").ok()["fleetId"].clone();
    let fleet = api.get(&format!("/fleets/{}", fleet.as_str().unwrap())).ok();
    assert_eq!(fleet["name"], "Many 7");

    // An agent of a team is entered by its key.
    let task = [("title", "Mend the mast"), ("assigneeAgentId", "many-7")];
    ada.submit(&ada.get(NEW_TASK), NEW_TASK, &task).shows("Mend the mast");
    let stored = api.get(&format!("/teams/{crew}/tasks")).items().remove(0);
    let agents = api.get(&format!("/teams/{crew}/agents?limit=100")).items();
    let seventh = agents.iter().find(|agent| agent["stableKey"] == "many-7").unwrap();
    assert_eq!(stored["assigneeAgentId"], seventh["id"]);

    let key = [("name", "CI"), ("serviceAccountId", "Many 7")];
    find(&ada, NEW_KEY, &key, "serviceAccountId", "Many 7");
    let keys = api.get("/api-keys?limit=100").items();
    let account = keys.iter().find(|key| key["name"] == "CI").unwrap()["serviceAccountId"].clone();
    let account = api.get(&format!("/organizations/members/{}", account.as_str().unwrap())).ok();
    assert_eq!(account["name"], "Many 7");
}

#[test]
fn a_filter_finds_what_it_does_not_list_and_says_what_it_does_not_know() {
    let server = Running::new();
    server.add("ben", "member");
    let (crew, _) = server.team("crew", "scribe");
    fill(&server, &crew);
    let ada = server.signed_in("ada@acme.test");

    let typed = ada.get(&format!("{ACCESS}?who=Ada&action=deployment.create"));
    let who = pick(&typed, "who", "Ada");
    assert!(who.starts_with("user:"), "{who}");
    let asked = format!("{ACCESS}?who=Ada&pick.who={who}&action=deployment.create");
    ada.get(&asked).shows("Allowed");
    let key = ada.get(&format!("{ACCESS}?who=Many+7&action=deployment.create"));
    assert!(pick(&key, "who", "Many 7 (key)").starts_with("key:"));
    let thing = ada.get(&format!("{asked}&resource=Many+7"));
    assert!(pick(&thing, "resource", "Many 7 (registry)").starts_with("registry:"));
    assert!(pick(&thing, "resource", "Many 7 (fleet)").starts_with("fleet:"));

    let page = ada.get(&format!("{AUDIT}?actor=ben@acme.test"));
    assert_eq!(page.status, 200, "{}", page.words());
    page.hides("Many 50");
    let unknown = ada.get(&format!("{AUDIT}?actor=nobody@acme.test"));
    assert_eq!(unknown.status, 400);
    assert!(unknown.has_problem("actor"), "{}", unknown.words());
    let typed = ada.get(&format!("{AUDIT}?actor=ben"));
    assert_eq!(pick(&typed, "actor", "ben"), "ben@acme.test");

    let activity = "/o/acme/teams/crew/activity";
    ada.get(&format!("{activity}?agentId=many-7")).shows("joined the team");
    let unknown = ada.get(&format!("{activity}?agentId=nobody"));
    assert!(unknown.has_problem("agentId"), "{}", unknown.words());
}
