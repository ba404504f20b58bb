//! Lists and queries (reference: conventions, "Lists", "Query encodings", "Unknown fields").

use serde_json::{Value, json};

use crate::fixture::{Fixture, unknown_id};

fn with_tools(count: usize) -> Fixture {
    let acme = Fixture::new();
    for n in 0..count {
        let kind = if n % 2 == 0 { "function" } else { "mcp" };
        acme.owner.post("/tools", json!({"name": format!("t{n}"), "type": kind})).ok();
    }
    acme
}

fn names(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn pagination_returns_every_item_once_newest_first() {
    let acme = with_tools(9);
    let all: Vec<_> = (0..9).rev().map(|n| format!("t{n}")).collect();
    for limit in [1, 2, 3, 8, 9, 10, 200] {
        assert_eq!(names(&acme.owner.walk("/tools", limit)), all, "{limit}");
    }
    let odd = acme.owner.walk("/tools?type=mcp", 3);
    assert_eq!(names(&odd), ["t7", "t5", "t3", "t1"]);
    assert_eq!(acme.owner.walk("/tools?type=none", 3).len(), 0);
}

#[test]
fn the_next_cursor_is_null_exactly_when_nothing_follows() {
    let acme = with_tools(4);
    let next = |path: &str| acme.owner.get(path).ok()["nextCursor"].clone();
    assert!(next("/tools?limit=3").is_string());
    assert_eq!(next("/tools?limit=4"), Value::Null);
    assert_eq!(next("/tools"), Value::Null);
    assert!(next("/tools?type=mcp&limit=1").is_string());
    // The last page of a filter, though other tools lie before and after it.
    assert_eq!(next("/tools?type=mcp&limit=2"), Value::Null);
    let cursor = next("/tools?limit=2");
    let cursor = cursor.as_str().unwrap();
    assert_eq!(next(&format!("/tools?limit=2&cursor={cursor}")), Value::Null);
    let empty = Fixture::new().owner.get("/tools").ok();
    assert_eq!(empty, json!({"items": [], "nextCursor": null}));
}

#[test]
fn pagination_is_stable_under_inserts_and_deletes() {
    let acme = with_tools(6);
    let page = acme.owner.get("/tools?limit=2").ok();
    let next = page["nextCursor"].as_str().unwrap();
    // The item at the cursor is deleted, a newer one created.
    let last = page["items"][1]["id"].as_str().unwrap();
    acme.owner.delete(&format!("/tools/{last}")).ok();
    acme.owner.post("/tools", json!({"name": "new", "type": "mcp"})).ok();
    let rest = acme.owner.get(&format!("/tools?limit=9&cursor={next}"));
    assert_eq!(names(&rest.items()), ["t3", "t2", "t1", "t0"]);
}

#[test]
fn a_cursor_is_valid_for_its_own_list_only() {
    let acme = with_tools(4);
    let other = Fixture::new();
    let cursor = |path: &str| acme.owner.get(path).ok()["nextCursor"].as_str().unwrap().to_string();
    let of_all = cursor("/tools?limit=1");
    let of_mcp = cursor("/tools?limit=1&type=mcp");
    let turned = |text: &str| text.chars().rev().collect::<String>();
    for path in [
        format!("/tools?type=mcp&cursor={of_all}"),
        format!("/tools?type=function&cursor={of_mcp}"),
        format!("/tools?cursor={of_mcp}"),
        format!("/teams?cursor={of_all}"),
        format!("/tools?cursor={}", turned(&of_all)),
        format!("/tools?cursor={}", &of_all[..of_all.len() - 1]),
        format!("/tools?cursor={of_all}A"),
        "/tools?cursor=%00".into(),
        "/tools?cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".into(),
    ] {
        acme.owner.get(&path).invalid(&["cursor"]);
    }
    let theirs = format!("/tools?cursor={of_all}&orgSlug={}", other.slug);
    acme.owner.ask("GET", &theirs).send().invalid(&["cursor"]);
    // Another part of the same list, by another member.
    let path = format!("/tools?cursor={of_all}&limit=2");
    assert_eq!(names(&acme.member.get(&path).items()), ["t2", "t1"]);
}

#[test]
fn limits_are_checked_and_never_clamped() {
    let acme = with_tools(2);
    for good in ["1", "50", "200"] {
        assert_eq!(acme.owner.get(&format!("/tools?limit={good}")).status, 200);
    }
    for bad in ["0", "201", "-1", "1.0", "1e2", "+1", "%201", "", "x", "99999999999999999999"] {
        acme.owner.get(&format!("/tools?limit={bad}")).invalid(&["limit"]);
    }
}

#[test]
fn every_problem_of_a_request_is_reported() {
    let acme = Fixture::new();
    let path = format!("/teams/{}/tasks?limit=0&cursor=x&unassigned=x&status=x", unknown_id());
    let bad = acme.owner.ask("GET", &path).send();
    bad.invalid(&["orgSlug", "limit", "cursor", "status", "unassigned"]);
    let grants = json!([
        {"userId": 1, "resourceType": "fleet"},
        {"userId": acme.owner_id, "resourceType": "moon", "resourceId": "x"},
        7,
    ]);
    let body = json!({"grants": grants});
    let problem = acme.owner.ask("POST", "/access-grants/bulk").json(&body).send();
    let problem = problem.refused(400, "invalid_request");
    let paths: Vec<_> = problem["issues"].as_array().unwrap().iter().map(|i| &i["path"]).collect();
    let expected = [
        "orgSlug",
        "grants[0].userId",
        "grants[0].resourceId",
        "grants[1].resourceType",
        "grants[2]",
    ];
    assert_eq!(paths, expected.map(|path| json!(path)).iter().collect::<Vec<_>>(), "{problem}");
}

#[test]
fn a_scalar_that_is_repeated_is_refused() {
    let acme = Fixture::new();
    acme.owner.get("/tools?limit=1&limit=1").invalid(&["limit"]);
    acme.owner.get("/tools?type=a&type=a").invalid(&["type"]);
    acme.owner.get("/tools?type[]=a").invalid(&["type"]);
    let twice = format!("/tools?orgSlug={0}&orgSlug={0}", acme.slug);
    acme.owner.ask("GET", &twice).send().invalid(&["orgSlug"]);
}

#[test]
fn booleans_in_a_query_are_true_or_false() {
    let acme = Fixture::new();
    let team = acme.owner.post("/teams", json!({"slug": "t", "name": "T"})).id();
    for good in ["true", "false"] {
        let reply = acme.owner.get(&format!("/teams/{team}/tasks?unassigned={good}"));
        assert_eq!(reply.status, 200);
    }
    for bad in ["", "1", "0", "True", "yes", "null", "true%20"] {
        let reply = acme.owner.get(&format!("/teams/{team}/tasks?unassigned={bad}"));
        reply.invalid(&["unassigned"]);
    }
}

#[test]
fn unknown_fields_are_refused_unless_the_client_prefers_lenient_handling() {
    let acme = with_tools(2);
    let query = "/tools?newer=1&newer=2&%FF=%&a[b][c]=d&wait=x&limt=1";
    let reply = acme.owner.get(query);
    reply.invalid(&["newer", "%FF", "a[b][c]", "wait", "limt"]);
    assert!(reply.text().contains("did you mean limit?"), "{}", reply.text());
    let body = json!({"name": "", "type": "function", "id": "mine", "more": {"deep": [1]}, "verison": "1"});
    acme.owner.post("/tools", body).invalid(&["name", "id", "more", "verison"]);
    let made = acme.owner.post("/tools", json!({"name": "a", "type": "function"}));
    let path = format!("/tools/{}", made.id());
    let fixed = acme.owner.patch(&path, json!({"createdAt": null, "nmae": "b"}));
    fixed.invalid(&["createdAt", "nmae"]);
    assert_eq!(fixed.json()["issues"][0]["message"], "cannot be changed");
    acme.owner
        .ask("POST", "/tools?dryRun=true&orgSlug=x")
        .org_json(json!({"name": "a", "type": "b"}))
        .send()
        .invalid(&["orgSlug", "dryRun"]);

    let lenient = acme.owner.with_fields(&[
        ("Authorization", &format!("Bearer {}", acme.owner.credential())),
        ("Prefer", "handling=lenient"),
    ]);
    let page = lenient.get(&query.replace("limt", "limit"));
    assert_eq!(page.header("preference-applied"), Some("handling=lenient"));
    assert_eq!(page.items().len(), 1);
    let body = json!({"name": "a", "type": "function", "id": "mine", "more": {"deep": [1]}});
    let made = lenient.post("/tools?dryRun=true", body).ok();
    assert_ne!(made["id"], "mine");
    assert!(made.get("more").is_none());
    let refused = lenient.post("/tools", json!({"more": 1}));
    refused.invalid(&["name", "type"]);
    assert_eq!(refused.header("preference-applied"), Some("handling=lenient"));
    // The body of a GET is not read.
    let path = acme.owner.in_org("/tools");
    assert_eq!(acme.owner.ask("GET", &path).bytes("{nonsense").send().status, 200);
}

#[test]
fn an_empty_cursor_is_as_none() {
    let acme = with_tools(2);
    let first = acme.owner.get("/tools?limit=1").ok();
    assert_eq!(acme.owner.get("/tools?limit=1&cursor=").ok(), first);
}

#[test]
fn absent_and_null_are_the_same_in_a_request() {
    let acme = Fixture::new();
    let body = json!({
        "name": "a", "type": "function", "description": null, "prompt": null, "version": null,
        "providerConfig": null,
    });
    let made = acme.owner.post("/tools", body).ok();
    assert_eq!(made["version"], "1.0.0");
    assert_eq!(made["providerConfig"], json!({}));
    assert_eq!(made["description"], Value::Null);
    acme.owner.post("/tools", json!({"name": null, "type": "x"})).invalid(&["name"]);
}

#[test]
fn objects_in_a_query_have_four_encodings() {
    let acme = Fixture::new();
    let log = |query: &str| acme.owner.get(&format!("/notifications/logs?{query}"));
    for good in [
        "pagination[limit]=7&pagination[offset]=0",
        "pagination.limit=7",
        "limit=7&offset=0&start=2020-01-01T00:00:00Z",
        "pagination[limit]=7&offset=0",
        "pagination=%7B%22limit%22:7%7D",
        "pagination=%7B%22limit%22:7%7D&offset=0",
        "pagination=%7B%22limit%22:7%7D&pagination[offset]=0",
        "pagination%5Blimit%5D=7&dateRange[start]=2020-01-01T00:00:00Z",
    ] {
        assert_eq!(log(good).ok()["pagination"]["limit"], 7, "{good}");
    }
    for (bad, path) in [
        ("pagination[limit]=0", "pagination.limit"),
        ("pagination.limit=201", "pagination.limit"),
        ("pagination=%7B%22limit%22:%227%22%7D", "pagination.limit"),
        ("pagination=%7B%22limit%22:7,%22limit%22:7%7D", "pagination.limit"),
        ("pagination=7", "pagination"),
        ("pagination[offset]=-1", "pagination.offset"),
        ("dateRange.start=yesterday", "dateRange.start"),
        ("dateRange=2020", "dateRange"),
        ("pagination[limit]=7&pagination.limit=7", "pagination.limit"),
        ("limit=201", "pagination.limit"),
        ("start=yesterday", "dateRange.start"),
        ("limit=7&limit=7", "pagination.limit"),
        ("limit=7&pagination[limit]=7", "pagination.limit"),
        ("limit=7&pagination=%7B%22limit%22:7%7D", "pagination.limit"),
    ] {
        log(bad).invalid(&[path]);
    }
    let alone = log("strat=2020-01-01T00:00:00Z");
    alone.invalid(&["strat"]);
    assert!(alone.text().contains("did you mean start?"), "{}", alone.text());
}

#[test]
fn a_field_that_cannot_be_changed_is_told_from_a_misnamed_one() {
    let acme = Fixture::new();
    let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let budget = json!({"budget": {"monthlyUsd": 5, "spentUsd": 3}});
    let messages = |reply: &crate::client::Reply| {
        let issues = reply.json()["issues"].as_array().unwrap().clone();
        issues
            .iter()
            .map(|issue| issue["message"].as_str().unwrap().into())
            .collect::<Vec<String>>()
    };
    let fixed = acme.owner.patch(&format!("/teams/{team}"), budget);
    fixed.invalid(&["budget.spentUsd"]);
    assert_eq!(messages(&fixed), ["cannot be changed"]);
    // A label is moved by `promptName`; an artifact has a `name`, too.
    let label =
        json!({"registryRef": "x/y", "name": "greeting", "label": "live", "version": "1.0.0"});
    let misnamed = acme.owner.patch("/registries/artifacts/labels", label);
    misnamed.invalid(&["name", "promptName"]);
    let all = messages(&misnamed);
    assert!(all.iter().any(|one| one.contains("did you mean promptName?")), "{all:?}");
}
