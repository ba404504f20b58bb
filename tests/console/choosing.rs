//! Choices between things of which there are many: no page lists them all, and each is found by typing a part
//! of its name and sending the form.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::crawl;
use crate::html::tags;
use crate::receiver::{Receiver, json_response};
use crate::server::Running;
use crate::visitor::{Page, Visitor};

/// One more than a page lists.
const MANY: usize = 51;
const EDIT: &str = "/o/acme/agents/scribe/edit";
const NEW_TASK: &str = "/o/acme/teams/crew/tasks/new";
const NEW_KEY: &str = "/o/acme/settings/keys/new";
const ACCESS: &str = "/o/acme/settings/access";
const AUDIT: &str = "/o/acme/operations/audit";
const EDITOR: &str = "/o/acme/prompts/main/notes/edit";

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

/// The id of the seventh agent in a team.
fn seventh(server: &Running, team: &str) -> Value {
    let agents = server.ada().get(&format!("/teams/{team}/agents?limit=100")).items();
    agents.iter().find(|agent| agent["stableKey"] == "many-7").unwrap()["id"].clone()
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
pub fn picks(page: &Page, name: &str) -> Vec<(String, String)> {
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
pub fn pick(page: &Page, name: &str, read: &str) -> String {
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
    assert_eq!(stored["assigneeAgentId"], seventh(&server, &crew));

    let key = [("name", "CI"), ("serviceAccountId", "Many 7"), ("access", "full")];
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
    let joined = ada.get(&format!("{activity}?agentId=many-7"));
    assert_eq!(joined.status, 200, "{}", joined.words());
    joined.shows("joined the team").hides("Many 50");
    let unknown = ada.get(&format!("{activity}?agentId=nobody"));
    assert!(unknown.has_problem("agentId"), "{}", unknown.words());
}

#[test]
fn an_agent_of_a_team_is_looked_for_among_those_of_the_team() {
    let server = Running::new();
    let (crew, _) = server.team("crew", "scribe");
    fill(&server, &crew);
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    api.post("/agents", json!({"stableKey": "elsewhere", "name": "Many 7 elsewhere"})).ok();

    let task = [("title", "Mend the mast"), ("assigneeAgentId", "Many 7")];
    let refused = ada.send(&ada.get(NEW_TASK), NEW_TASK, &task);
    let offered: Vec<_> =
        picks(&refused, "assigneeAgentId").into_iter().map(|pick| pick.0).collect();
    assert_eq!(offered, ["", "many-7"], "{}", refused.words());
    let found = |team: &str| -> Vec<String> {
        let page = ada.get(&format!("/o/acme/choose?kind=agent{team}&q=Many+7"));
        let all = tags(&page.text).into_iter();
        all.filter_map(|tag| tag.get("data-value").map(String::from)).collect()
    };
    assert_eq!(found(&format!("&team={crew}")), ["many-7"]);
    assert!(found("").iter().any(|key| key == "elsewhere"));
    assert!(refused.text.contains(&format!("team={crew}")), "a script asks for those of the team");
}

#[test]
fn a_channel_is_given_to_a_team_and_an_agent_that_are_looked_for() {
    let server = Running::new();
    let (crew, _) = server.team("crew", "scribe");
    fill(&server, &crew);
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let made = json!({"name": "Tasks", "workflow": "team_task", "config": {"teamId": crew}});
    let path =
        format!("/notifications/channels/{}", api.post("/notifications/channels", made).id());
    let stored = || api.get(&path).ok()["config"].clone();
    let edit = path.replace("/notifications", "/o/acme/operations") + "/edit";

    find(&ada, &edit, &[("agent", "Many 7")], "agent", "Many 7");
    let agent = seventh(&server, &crew);
    assert_eq!(stored(), json!({"teamId": crew, "assigneeAgentId": agent}));

    let typed = ada.get(&format!("{edit}?team=Many+7"));
    let team = pick(&typed, "team", "Many 7");
    let saves = typed.forms().iter().any(|form| form.action == edit && form.is_post);
    assert!(!saves, "without a team there is nothing to save");
    let chosen = format!("{edit}?team=Many+7&pick.team={team}");
    let fields = [("team", ""), ("name", "Work")];
    let refused = ada.send(&ada.get(&chosen), &edit, &fields);
    assert!((400..500).contains(&refused.status), "{}: {}", refused.status, refused.words());
    assert!(refused.has_problem("team"), "{}", refused.words());
    assert_eq!(refused.field(&edit, "name"), "Work", "what was entered stays");
    assert_eq!(stored(), json!({"teamId": crew, "assigneeAgentId": agent}));
    ada.submit(&ada.get(&chosen), &edit, &[]).shows("The channel was saved.");
    let moved = stored();
    assert_eq!((moved["teamId"].as_str(), moved["assigneeAgentId"].as_str()), (Some(&*team), None));
}

#[test]
fn a_schedule_that_is_refused_offers_the_agents_that_fit() {
    let server = Running::new();
    let (crew, _) = server.team("crew", "scribe");
    fill(&server, &crew);
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let schedules = format!("/teams/{crew}/schedules");
    let made = json!({"name": "Daily", "everySecs": 86400, "task": {"title": "Sweep the deck"}});
    let id = api.post(&schedules, made).id();
    let path = format!("/o/acme/teams/crew/schedules/{id}");
    let typed = [("action", "save"), ("agentId", "Many 7")];
    let refused = ada.send(&ada.get(&path), &path, &typed);
    let picked = pick(&refused, "agentId", "Many 7");
    let fields = [("action", "save"), ("pick.agentId", picked.as_str())];
    ada.submit(&refused, &path, &fields).shows("The schedule was saved.");
    let stored = api.get(&format!("{schedules}/{id}")).ok();
    assert_eq!(stored["task"]["assigneeAgentId"], seventh(&server, &crew));
}

#[test]
fn the_editor_says_that_it_does_not_know_an_environment_and_offers_what_fits() {
    let server = Running::new();
    let (crew, _) = server.team("crew", "scribe");
    fill(&server, &crew);
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Dear {{WHO}}.");
    let ada = server.signed_in("ada@acme.test");
    let typed = [("action", "check"), ("environment", "Many 7")];
    let refused = ada.send(&ada.get(EDITOR), EDITOR, &typed);
    assert!(refused.has_problem("environment"), "{}: {}", refused.status, refused.words());
    refused.shows("It compiles");
    let picked = pick(&refused, "environment", "Many 7");
    let fields = [("action", "check"), ("pick.environment", picked.as_str())];
    ada.send(&refused, EDITOR, &fields).shows("Without a value WHO");
}

#[test]
fn an_import_into_a_registry_that_is_not_known_keeps_what_was_ticked() {
    let server = Running::new();
    let (crew, _) = server.team("crew", "scribe");
    fill(&server, &crew);
    server.registry();
    let items = json!([{"name": "greeting", "version": "2", "template": "Good day."}]);
    let provider = Receiver::responding(move |_| json_response(200, &json!({"items": items})));
    let made = json!({"name": "There", "kind": "http", "baseUrl": provider.url});
    let made = server.ada().post("/prompt-providers", made).id();
    let ada = server.signed_in("ada@acme.test");
    let path = format!("/o/acme/settings/prompt-providers/{made}");
    let is_ticked = |page: &Page| {
        let boxes = tags(&page.text).into_iter().filter(|tag| tag.get("name") == Some("prompt"));
        boxes.filter(|tag| tag.get("checked").is_some()).count() == 1
    };
    let page = ada.get(&path);
    assert!(!is_ticked(&page));
    let refused = ada.send(&page, &path, &[("registryRef", "Many 7")]);
    assert_eq!(pick(&refused, "registryRef", "Many 7"), "acme/many-7");
    assert!(is_ticked(&refused), "{}", refused.text);
    let imported = ada.send(&refused, &path, &[("registryRef", "main")]);
    imported.shows("2.0.0");
    assert!(!is_ticked(&imported), "it is done");
}
