//! The search of an organization (reference: conventions, "Search"): its parameters and their bounds.

use serde_json::json;

use crate::fixture::Fixture;

fn agents(acme: &Fixture, count: usize) {
    for n in 0..count {
        let body = json!({"stableKey": format!("bot-{n}"), "name": format!("Bot {n}")});
        acme.member.post("/agents", body).ok();
    }
}

#[test]
fn one_kind_is_searched_page_by_page() {
    let acme = Fixture::new();
    agents(&acme, 12);
    acme.member.post("/tools", json!({"name": "Bot tool", "type": "http"})).ok();
    let all = acme.member.get("/search?q=bot").ok();
    assert_eq!(all["items"].as_array().unwrap().len(), 6);
    assert_eq!(all["more"], json!(["agent"]));
    let mut keys = Vec::new();
    for (offset, more) in [(0, json!(["agent"])), (5, json!(["agent"])), (10, json!([]))] {
        let page = acme.member.get(&format!("/search?q=bot&kind=agent&offset={offset}")).ok();
        assert_eq!(page["more"], more, "{offset}");
        let items = page["items"].as_array().unwrap().iter();
        keys.extend(items.map(|item| item["key"].as_str().unwrap().to_string()));
    }
    assert_eq!(keys.len(), 12);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 12);
    let first = acme.member.get("/search?q=bot-1&kind=agent&count=1").ok();
    assert_eq!(first["items"][0]["key"], "bot-1");
}

#[test]
fn parameters_of_a_search_are_bounded() {
    let acme = Fixture::new();
    let longest = "x".repeat(100);
    assert!(
        acme.member.get(&format!("/search?q={longest}&count=100&offset=1000")).items().is_empty()
    );
    for query in [
        format!("q={longest}x"),
        "q=".into(),
        "q=a&count=0".into(),
        "q=a&count=101".into(),
        "q=a&offset=1001".into(),
        "q=a&offset=-1".into(),
        "q=a&kind=secret".into(),
        "q=a&within=No+slug".into(),
        "q=a&texts=some".into(),
    ] {
        let refused = acme.member.get(&format!("/search?{query}"));
        assert_eq!(refused.status, 400, "{query}");
    }
}

#[test]
fn a_task_that_is_found_has_its_status_and_nothing_else_has_one() {
    let acme = Fixture::new();
    agents(&acme, 1);
    let team = acme.owner.post("/teams", json!({"slug": "bot-team", "name": "Bots"})).id();
    let tasks = format!("/teams/{team}/tasks");
    let task = acme.member.post(&tasks, json!({"title": "Bot to mend"})).id();
    let status = || {
        let found = acme.member.get("/search?q=bot").items().into_iter();
        found.map(|item| (item["kind"].clone(), item["status"].clone())).collect::<Vec<_>>()
    };
    let found = |of_task: &str| {
        let null = json!(null);
        vec![(json!("agent"), null.clone()), (json!("team"), null), (json!("task"), json!(of_task))]
    };
    assert_eq!(status(), found("open"));
    acme.member.patch(&format!("{tasks}/{task}"), json!({"status": "done"})).ok();
    assert_eq!(status(), found("done"));
}
