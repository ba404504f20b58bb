//! Lists in the opposite order, and how many items they have (reference: conventions, "Lists").

use std::collections::BTreeSet;

use roadstead::api::op::Shape;
use serde_json::{Value, json};

use crate::exchange::{crew, pending};
use crate::fixture::Fixture;
use crate::registries::{publish, registry};

/// The numbers of the tasks of a list, page by page.
fn pages(acme: &Fixture, path: &str) -> Vec<Vec<u64>> {
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = acme.owner.get(&format!("{path}&limit=2&cursor={cursor}")).ok();
        let items = page["items"].as_array().unwrap();
        pages.push(items.iter().map(|task| task["number"].as_u64().unwrap()).collect());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_string(),
            None => return pages,
        }
    }
}

#[test]
fn a_list_is_read_from_either_end_and_counted_with_its_filters() {
    let acme = Fixture::new();
    let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let list = format!("/teams/{team}/tasks");
    for number in 1..=5 {
        let labels = if number % 2 == 0 { json!(["even"]) } else { json!([]) };
        let task = acme.owner.post(&list, json!({"title": "t", "labels": labels})).id();
        let status = if number == 4 { "done" } else { "open" };
        acme.owner.patch(&format!("{list}/{task}"), json!({"status": status})).ok();
    }
    for (query, forwards, backwards) in [
        ("a=", vec![vec![5, 4], vec![3, 2], vec![1]], vec![vec![1, 2], vec![3, 4], vec![5]]),
        ("status=open", vec![vec![5, 3], vec![2, 1]], vec![vec![1, 2], vec![3, 5]]),
        (
            "unassigned=true",
            vec![vec![5, 4], vec![3, 2], vec![1]],
            vec![vec![1, 2], vec![3, 4], vec![5]],
        ),
        ("label=even&status=open", vec![vec![2]], vec![vec![2]]),
        ("number=3", vec![vec![3]], vec![vec![3]]),
    ] {
        let query = query.trim_start_matches("a=");
        let path = format!("{list}?{query}");
        assert_eq!(pages(&acme, &path), forwards, "{query}");
        assert_eq!(pages(&acme, &format!("{path}&reversed=true")), backwards, "{query}");
        assert_eq!(pages(&acme, &format!("{path}&reversed=false")), forwards, "{query}");
        let counted = acme.owner.get(&format!("{path}&total=true&limit=1")).ok();
        let all = forwards.iter().flatten().count();
        assert_eq!((&counted["total"], &counted["totalExact"]), (&json!(all), &json!(true)));
    }
    let plain = acme.owner.get(&list).ok();
    assert!(plain.get("total").is_none() && plain.get("totalExact").is_none());
}

#[test]
fn versions_label_changes_and_peers_are_read_from_either_end_and_counted() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    for version in ["1.2.0", "1.0.0", "1.10.0"] {
        publish(&acme, ["main", "prompt", "p", version], "Hello.");
    }
    let main = format!("{}/main", acme.slug);
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [acme.owner_id]}});
    for label in ["early", "late"] {
        let path = format!("/registries/main/protected-labels/{label}");
        acme.owner.put(&path, protection.clone()).ok();
        let moved = json!({"registryRef": main, "promptName": "p", "label": label,
            "version": "1.0.0"});
        acme.owner.patch("/registries/artifacts/labels", moved).ok();
    }
    let (team, _) = crew(&acme);
    let [first, second] = ["first", "second"].map(|name| pending(&acme, "crew", name));
    let is_turned = |path: &str, filter: &str, field: &str, ends: [&str; 2], total: usize| {
        let begins = |order: &str| {
            let query = format!("limit=1&total=true{filter}{order}");
            let list = acme.owner.get(&format!("{path}?{query}")).ok();
            assert_eq!(list["total"], total, "{path}?{query}");
            assert_eq!(list["totalExact"], true, "{path}?{query}");
            list["items"][0][field].clone()
        };
        assert_eq!([begins(""), begins("&reversed=true")], ends, "{path} {filter}");
    };
    let of_prompt = format!("&registryRef={main}&promptName=p");
    let versions = "/registries/artifact-versions";
    is_turned(versions, &of_prompt, "version", ["1.10.0", "1.0.0"], 3);
    let of_registry = format!("&registryRef={main}");
    for filter in ["", &*of_registry, &*of_prompt, "&state=pending", "&approver=me"] {
        let changes = "/registries/artifacts/label-changes";
        is_turned(changes, filter, "label", ["late", "early"], 2);
    }
    for filter in ["", "&state=pending"] {
        let peers = format!("/teams/{team}/exchange/peers");
        is_turned(&peers, filter, "id", [&second, &first], 2);
    }
}

#[test]
fn a_cursor_is_of_one_order_and_lists_that_have_one_order_refuse_another() {
    let acme = Fixture::new();
    for slug in ["one", "two"] {
        acme.owner.post("/teams", json!({"slug": slug, "name": slug})).ok();
    }
    let first = acme.owner.get("/teams?limit=1").ok();
    let cursor = first["nextCursor"].as_str().unwrap();
    acme.owner.get(&format!("/teams?cursor={cursor}&total=true")).ok();
    let turned = acme.owner.get(&format!("/teams?cursor={cursor}&reversed=true"));
    turned.refused(400, "invalid_request");
    acme.owner.get("/teams?reversed=perhaps").refused(400, "invalid_request");
    for query in ["reversed=true", "total=true"] {
        acme.owner.get(&format!("/teams/overdue?{query}")).refused(400, "invalid_request");
    }
}

#[test]
fn every_list_that_can_be_counted_has_as_many_items_as_it_says() {
    let acme = Fixture::new();
    crate::records::fill_organization(&acme, false);
    let paths: BTreeSet<&str> = roadstead::resources::routes()
        .iter()
        .filter(|route| route.operation.shape == Shape::Walk && !route.path.contains('{'))
        .map(|route| route.path)
        .collect();
    assert!(paths.len() > 10, "{paths:?}");
    for path in paths {
        let registry = format!("&registryRef={}/main", acme.slug);
        let query = match path {
            "/registries/artifacts" => registry.clone(),
            "/registries/artifact-versions" => format!("{registry}&all=true"),
            _ => String::new(),
        };
        let named = |item: &Value| {
            let known = ["id", "userId", "name"].map(|name| item[name].clone());
            known.into_iter().find(Value::is_string).unwrap()
        };
        let read = |order: &str| -> (Vec<Value>, Value) {
            let list = acme.owner.get(&format!("{path}?limit=200&total=true{query}{order}")).ok();
            assert!(list["nextCursor"].is_null(), "{path}");
            (list["items"].as_array().unwrap().iter().map(named).collect(), list["total"].clone())
        };
        let (forwards, total) = read("");
        let (mut backwards, _) = read("&reversed=true");
        backwards.reverse();
        assert_eq!(total, forwards.len(), "{path}");
        assert_eq!(backwards, forwards, "{path}");
    }
}

#[test]
fn a_public_list_is_counted_for_those_with_a_credential_alone() {
    let acme = Fixture::new();
    let public = json!({"slug": "open", "name": "Open", "visibility": "public"});
    acme.owner.post("/registries", public).ok();
    for (path, more) in [("artifacts", ""), ("artifact-versions", "&all=true")] {
        let list = format!("/registries/{path}?registryRef={}/open{more}", acme.slug);
        let client = &acme.anonymous;
        client.get(&list).ok();
        client.get(&format!("{list}&reversed=true&total=false")).ok();
        client.get(&format!("{list}&total=true")).refused(401, "unauthenticated");
        assert_eq!(acme.owner.get(&format!("{list}&total=true")).ok()["total"], 0);
    }
}

#[test]
fn what_a_label_leads_to_is_counted_to_a_bound_of_bytes() {
    let acme = Fixture::new();
    let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let list = format!("/teams/{team}/tasks");
    let long = "d".repeat(100_000);
    for _ in 0..86 {
        acme.owner.post(&list, json!({"title": "t", "description": long, "labels": ["long"]})).ok();
    }
    let counted = acme.owner.get(&format!("{list}?label=long&total=true&limit=1")).ok();
    assert_eq!(counted["totalExact"], false, "{}", counted["total"]);
    assert!(counted["total"].as_u64().unwrap() < 86);
}
