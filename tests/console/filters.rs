//! Lists that are searched by words: each by the same field, none shows what its reader may not see, and
//! what was found is acted on as the rows of the list are.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::html::tags;
use crate::server::Running;
use crate::visitor::{Page, Visitor};

/// Lists without a field that searches them, by their templates, and why.
const OTHERS: &[(&str, &str)] = &[
    ("activity.html", "It is filtered by kind and agent."),
    ("agent.html", "What one agent had live, the newest first."),
    ("agent_versions.html", "Versions of one agent have numbers, and no names."),
    (
        "artifact.html",
        "Versions of one prompt, the highest first; the form for comparing finds one.",
    ),
    ("audit.html", "It is filtered by who, what and when; entries have no names."),
    ("channels.html", "They are few, and all on one page."),
    ("compare.html", "Changes of one text, in its order."),
    ("deployments.html", "It is filtered by state; each agent has its own."),
    ("domains.html", "They are few: each is verified by hand."),
    ("flags.html", "It is filtered by whether they are open; flags have no names."),
    ("grants.html", "It is filtered by member; grants have no names."),
    ("inbox.html", "Messages wait to be read, and are few then; their task has them."),
    ("keys.html", "It is filtered by who answers for them; the search knows no keys."),
    ("label_change.html", "Texts of one change."),
    ("label_changes.html", "It is filtered by who waits for whom; changes have no names."),
    ("model_prices.html", "It is in the order of the names."),
    ("notifications.html", "It is filtered by event, channel and outcome."),
    ("peer_rules.html", "They are few, and the form finds one by its domain."),
    ("peers.html", "It is filtered by state; outside agents have addresses."),
    ("prompt_provider.html", "What another system has, which is asked page by page."),
    ("providers.html", "They are few, and all on one page."),
    ("task.html", "Notes of one task, one after another."),
    ("team_agent.html", "What one agent remembers, and its runs, the newest first."),
    ("team_agents.html", "A team has few; the list of agents finds each."),
    ("team_approvals.html", "Questions wait to be decided, and are few then."),
    ("team_schedule.html", "Runs of one schedule, the newest first."),
    ("team_schedules.html", "A team has few."),
    ("team_usage.html", "Sums, the largest first."),
    ("timeline.html", "What happened, the newest first."),
    ("waiting.html", "All of it is to be done."),
];

/// What a list of more than a few rows has in its template.
const LISTS: [&str; 4] = ["data-rows", "ui::walked(", "ui::next(", "rel=\"next\""];
/// What one has that is searched by words.
const SEARCHED: [&str; 3] = ["ui::searched(", "ui::finder(", "ui::filter(\"q\""];

#[test]
fn each_list_has_a_field_that_searches_it_or_a_reason_why_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/templates");
    let mut reasons: BTreeMap<_, _> = OTHERS.iter().copied().collect();
    assert_eq!(reasons.len(), OTHERS.len(), "one is there twice");
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let source = std::fs::read_to_string(&path).unwrap();
        let has = |words: &[&str]| words.iter().any(|word| source.contains(word));
        // The components of all pages.
        if name == "ui.html" || !has(&LISTS) || has(&SEARCHED) {
            continue;
        }
        if reasons.remove(&*name).is_none() {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "these have neither: {missing:?}");
    assert!(reasons.is_empty(), "these are no lists, or have a field: {reasons:?}");
}

/// What the form of a list is filled with, where the words in its field are looked for.
#[track_caller]
fn asked(page: &Page) -> BTreeMap<String, String> {
    let form = page.forms().into_iter().find(|form| {
        let has_words = form.entered.iter().any(|name| name == "q");
        !form.is_post && has_words && page.path.split('?').next() == Some(&*form.action)
    });
    let form = form.unwrap_or_else(|| panic!("no field on {}: {}", page.path, page.words()));
    form.fields.into_iter().collect()
}

/// Makes two things of a kind, called `Harbour` and `Lantern`.
fn make(server: &Running, path: &str, body: &Value) {
    for (slug, name) in [("north", "Harbour"), ("south", "Lantern")] {
        let mut body = body.clone();
        body["name"] = json!(name);
        if ["/registries", "/environments", "/teams"].contains(&path) {
            body["slug"] = json!(slug);
        }
        server.ada().post(path, body).ok();
    }
}

#[test]
fn lists_of_what_the_search_knows_are_searched_by_their_names() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let rules = json!([{"type": "maxLength", "value": 10}]);
    for (list, path, body) in [
        ("/o/acme/prompts", "/registries", json!({})),
        ("/o/acme/fleets", "/fleets", json!({})),
        ("/o/acme/environments", "/environments", json!({})),
        ("/o/acme/teams", "/teams", json!({})),
        ("/o/acme/tools", "/tools", json!({"type": "http"})),
        ("/o/acme/knowledge", "/knowledge-bases", json!({})),
        (
            "/o/acme/governance/policies",
            "/governance/policies",
            json!({"severity": "warning", "rules": rules}),
        ),
    ] {
        assert!(!ada.get(list).text.contains("Search in this list"), "{list} has nothing yet");
        make(&server, path, &body);
        let whole = ada.get(list);
        whole.shows("Harbour").shows("Lantern").shows("2 in all").hides("Show all");
        assert_eq!(asked(&whole)["q"], "");
        let found = ada.get(&format!("{list}?q=lant"));
        found.shows("Lantern").hides("Harbour").shows("Show all");
        assert_eq!(asked(&found)["q"], "lant", "{list} keeps the words");
        let links = found.links().into_iter();
        let own = links.filter(|link| link.starts_with(&format!("{list}/")));
        let led: Vec<_> = own.filter(|link| ada.open(link).words().contains("Lantern")).collect();
        assert!(!led.is_empty(), "{list} leads nowhere: {:?}", found.links());
        let none = ada.get(&format!("{list}?q=nowhere"));
        none.shows("Nothing of these has such a name or these words.").shows("Show all");
        none.hides("Harbour").hides("There are no");
        assert!(none.links().contains(&list.to_string()), "{list} is not cleared");
        let long = ada.get(&format!("{list}?q={}", "x".repeat(300)));
        assert_eq!(long.status, 200, "{}", long.words());
    }
}

#[test]
fn the_field_keeps_the_kind_that_is_listed_alone() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "tone-notes", "1.0.0", "Text.");
    server.publish("promptlet", "tone", "1.0.0", "Calm.");
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get("/o/acme/prompts/main?type=promptlet");
    assert_eq!(asked(&page)["type"], "promptlet");
    let found = ada.get("/o/acme/prompts/main?type=promptlet&q=tone");
    found.shows("main").hides("tone-notes");
    assert_eq!((&*asked(&found)["type"], &*asked(&found)["q"]), ("promptlet", "tone"));
}

#[test]
fn a_search_in_a_list_never_shows_what_takes_a_grant_to_one_who_has_none() {
    let server = Running::new();
    server.add("ben", "member");
    let api = server.ada();
    let of = |slug: &str| json!({"slug": slug, "name": "Canary", "access": "restricted"});
    let fleet = json!({"name": "Canary", "access": "restricted"});
    let members = api.get("/organizations/members?email=ben@acme.test").items();
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    for (kind, list, path, body) in [
        ("registry", "/o/acme/prompts", "/registries", of("vault")),
        ("environment", "/o/acme/environments", "/environments", of("sealed")),
        ("fleet", "/o/acme/fleets", "/fleets", fleet),
    ] {
        let id = api.post(path, body).id();
        let searched = format!("{list}?q=canary");
        ada.get(&searched).shows("Canary");
        let hidden = ben.get(&searched);
        assert!(!hidden.text.contains("Canary"), "{list}: {}", hidden.words());
        hidden.shows("Nothing of these has such a name or these words.");
        let grant = json!({"userId": members[0]["userId"], "resourceType": kind, "resourceId": id});
        api.post("/access-grants", grant).ok();
        ben.get(&searched).shows("Canary");
    }
}

#[test]
fn tasks_that_were_found_say_their_status_and_are_moved() {
    let server = Running::new();
    server.add("vera", "viewer");
    let (team, _) = server.team("crew", "scribe");
    let api = server.ada();
    let tasks = format!("/teams/{team}/tasks");
    let titles = ["Mend the mast", "Paint the mast", "Paint the keel"];
    let made = titles.map(|title| api.post(&tasks, json!({"title": title})).id());
    let blocked = json!({"status": "blocked"});
    api.patch(&format!("{tasks}/{}", made[1]), blocked).ok();
    let ada = server.signed_in("ada@acme.test");
    let list = "/o/acme/teams/crew/tasks";
    let found = ada.get(&format!("{list}?q=mast"));
    found.shows("Mend the mast").shows("Paint the mast").hides("keel");
    found.shows("#2 Blocked").shows("Move the ticked ones");
    let all = tags(&found.text);
    let boxes = all.iter().filter(|tag| tag.get("form") == Some("many"));
    let mut ticked: Vec<_> = boxes.filter_map(|tag| tag.get("value")).collect();
    ticked.sort_unstable();
    let [mend, paint, keel] = &made;
    assert_eq!(ticked, [mend, paint], "each of them can be ticked");
    let many = format!("{list}/many");
    assert!(found.forms().iter().any(|form| form.action == many), "{}", found.text);
    let page = ada.get(&format!("{many}?each={}&each={}", ticked[0], ticked[1]));
    ada.submit(&page, &many, &[("status", "cancelled")]).shows("The tasks were moved.");
    let status = |id: &str| api.get(&format!("{tasks}/{id}")).ok()["status"].clone();
    assert_eq!([status(mend), status(paint), status(keel)], ["cancelled", "cancelled", "open"]);

    ada.get(&format!("{list}?q=none")).hides("Move the ticked ones");
    let vera = server.signed_in("vera@acme.test");
    let read = vera.get(&format!("{list}?q=mast"));
    read.shows("Mend the mast").hides("Move the ticked ones");
    assert!(!read.text.contains("form=\"many\""), "a viewer ticks nothing");
}

#[test]
fn documents_that_were_found_are_deleted() {
    let server = Running::new();
    let api = server.ada();
    let base = api.post("/knowledge-bases", json!({"name": "Rules"})).id();
    let documents = format!("/knowledge-bases/{base}/documents");
    let document =
        |name: &str, text: &str| api.post(&documents, json!({"name": name, "content": text})).id();
    let (tides, gulls) = (document("Tides", "About water."), document("Gulls", "About birds."));
    let ada = server.signed_in("ada@acme.test");
    let list = format!("/o/acme/knowledge/{base}");
    let found = ada.get(&format!("{list}?q=water"));
    found.shows("Tides").hides("Gulls").shows("Delete the ticked ones");
    assert!(found.text.contains(&format!("value=\"{tides}\"")), "{}", found.text);
    let many = format!("{list}/documents/many");
    let page = ada.get(&format!("{many}?each={tides}"));
    ada.submit(&page, &many, &[]).shows("The documents were deleted.");
    let left = api.get(&documents).items();
    assert_eq!((left.len(), left[0]["id"].as_str()), (1, Some(&*gulls)));
    ada.get(&format!("{list}?q=water")).hides("Delete the ticked ones");
}

#[test]
fn a_task_that_is_found_is_named_however_old_it_is() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let api = server.ada();
    let tasks = format!("/teams/{team}/tasks");
    let oldest = api.post(&tasks, json!({"title": "Mend the mast"})).id();
    // As many as the names of all are read from.
    for n in 0..500 {
        api.post(&tasks, json!({"title": format!("Task {n}")})).ok();
    }
    let ada = server.signed_in("ada@acme.test");
    let found = ada.get("/o/acme/teams/crew/tasks?q=mast");
    assert!(found.text.contains(&oldest), "{}", found.words());
    let page = ada.get(&format!("/o/acme/teams/crew/tasks/many?each={oldest}"));
    page.shows("Mend the mast").hides(&oldest);
}

/// The rows of the list of a page.
fn rows(visitor: &Visitor, path: &str) -> usize {
    let page = visitor.get(path);
    assert_eq!(page.status, 200, "{path}: {}", page.words());
    let table = page.text.split_once("<tbody>").map_or("", |(_, rest)| rest);
    table.split("</tbody>").next().unwrap().matches("<tr").count()
}

#[test]
fn members_are_searched_by_name_and_address() {
    let server = Running::new();
    server.add("ben", "member");
    server.add("benita", "member");
    let ada = server.signed_in("ada@acme.test");
    let list = "/o/acme/settings/members";
    assert_eq!(rows(&ada, list), 3);
    assert_eq!(
        (rows(&ada, &format!("{list}?q=BEN")), rows(&ada, &format!("{list}?q=benita"))),
        (2, 1)
    );
    let found = ada.get(&format!("{list}?q=ben@acme"));
    assert_eq!(asked(&found)["q"], "ben@acme");
    found.shows("Show all").hides("You are alone here so far.");
    assert_eq!(rows(&ada, &found.path), 1, "{}", found.words());
    let none = ada.get(&format!("{list}?q={}", "x".repeat(300)));
    none.shows("No member has such a name or address.").shows("Show all");
}

#[test]
fn grants_and_keys_are_filtered_by_a_member() {
    let server = Running::new();
    server.add("ben", "member");
    server.add("cleo", "member");
    let api = server.ada();
    let vault = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
    let vault = api.post("/environments", vault).id();
    let id = |name: &str| {
        let found = api.get(&format!("/organizations/members?email={name}@acme.test")).items();
        found[0]["userId"].as_str().unwrap().to_string()
    };
    let (ben, cleo) = (id("ben"), id("cleo"));
    for user in [&ben, &cleo] {
        let grant = json!({"userId": user, "resourceType": "environment", "resourceId": vault});
        api.post("/access-grants", grant).ok();
    }
    api.post("/api-keys", json!({"name": "Of Ada"})).ok();
    server.api("ben@acme.test").post("/api-keys", json!({"name": "Of Ben"})).ok();
    let ada = server.signed_in("ada@acme.test");
    for (list, field) in
        [("/o/acme/settings/grants", "userId"), ("/o/acme/settings/keys", "createdBy")]
    {
        assert_eq!(rows(&ada, list), 2, "{list}");
        // It is chosen by the id, and typed by the address.
        for who in [&*ben, "ben@acme.test"] {
            assert_eq!(rows(&ada, &format!("{list}?{field}={who}")), 1, "{list} of {who}");
        }
        let found = ada.get(&format!("{list}?{field}={ben}"));
        assert_eq!(found.field(list, field), ben, "{list} keeps who was chosen");
        found.shows("Show all");
        let unknown = ada.get(&format!("{list}?{field}=nobody"));
        assert_eq!(unknown.status, 400, "{}", unknown.words());
        assert!(unknown.has_problem(field), "{}", unknown.words());
    }
    let none = ada.get(&format!("/o/acme/settings/keys?createdBy={cleo}"));
    none.shows("There are none of these.").shows("Show all").hides("There are no keys yet.");
    // Who sees their own alone has nothing to filter.
    let own = server.signed_in("ben@acme.test").get("/o/acme/settings/keys");
    own.shows("Of Ben").hides("Of Ada");
    assert!(!own.text.contains("createdBy"), "{}", own.text);
}
