//! Names where they are typed: a version that there is not is refused at its field, with those that fit, and
//! nothing comes of it. What programs may be called freely is suggested.

use serde_json::{Value, json};

use crate::choosing::{pick, picks};
use crate::html::tags;
use crate::reading::label;
use crate::receiver::{Receiver, json_response};
use crate::server::Running;
use crate::visitor::{Page, Visitor};

const NOTES: &str = "/o/acme/prompts/main/notes";

/// A model that repeats what it was told first.
fn echo() -> Receiver {
    Receiver::responding(|request| {
        let said = request.json()["messages"][0]["content"].clone();
        let answer = json!({"model": "small", "choices": [{"message": {"content": said}}]});
        json_response(200, &answer)
    })
}

/// A server with two versions of the prompt `notes`, of which `production` is on the first.
fn server(model: &Receiver) -> Running {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Say one.");
    server.publish("prompt", "notes", "1.1.0", "Say two.");
    label(&server, "prompt", "notes", "production", "1.0.0");
    let provider = json!({"name": "Ours", "provider": "custom", "baseUrl": model.url,
        "config": {"model": "small"}, "isDefault": true});
    server.ada().post("/llm-providers", provider).ok();
    server
}

/// Fails unless a page says that there is no such version, at this field and no other of these.
#[track_caller]
fn is_refused_at(page: &Page, field: &str, others: &[&str]) {
    page.shows("There is no such version");
    assert!(page.has_problem(field), "nothing is wrong at {field}: {}", page.words());
    for other in others {
        assert!(!page.has_problem(other), "{other}: {}", page.words());
    }
}

#[test]
fn a_version_that_there_is_not_is_not_tried_and_labels_and_ranges_are() {
    let model = echo();
    let server = server(&model);
    let ada = server.signed_in("ada@acme.test");
    let path = format!("{NOTES}/try");
    let refused = ada.send(&ada.get(&path), &path, &[("version", "9.9.9")]);
    assert_eq!(refused.status, 404, "{}", refused.words());
    is_refused_at(&refused, "version", &["source", "model"]);
    assert_eq!(refused.field(&path, "version"), "9.9.9", "what was typed stays");
    assert!(model.is_idle());
    let label = pick(&refused, "version", "1.0.0 (production)");
    let said = |tried: &Page| {
        assert_eq!(tried.status, 200, "{}", tried.words());
        model.next().json()["messages"][0]["content"].clone()
    };
    assert_eq!(said(&ada.send(&refused, &path, &[("pick.version", &label)])), "Say one.");
    for (typed, text) in [("production", "Say one."), ("^1", "Say two."), ("", "Say two.")] {
        assert_eq!(said(&ada.send(&ada.get(&path), &path, &[("version", typed)])), text, "{typed}");
    }
}

#[test]
fn a_label_is_moved_to_a_version_that_there_is_and_to_no_label() {
    let server = server(&echo());
    let ada = server.signed_in("ada@acme.test");
    let path = format!("{NOTES}/labels");
    let production = || {
        let all = server.ada().get("/registries/artifacts?registryRef=main").items();
        all[0]["labels"]["production"].clone()
    };
    let send = |page: &Page, name: &str, typed: &str| {
        ada.send(page, &path, &[(name, typed), ("action", "move")])
    };
    let shown = || ada.get(&format!("{path}?label=production&version=1.1.0"));
    for unknown in ["9.9.9", "production", "^1"] {
        let refused = send(&shown(), "version", unknown);
        assert_eq!(refused.status, 404, "{unknown}: {}", refused.words());
        is_refused_at(&refused, "version", &["label"]);
        refused.hides(&format!("from 1.0.0 to {unknown}"));
        let offered: Vec<_> = picks(&refused, "version").into_iter().map(|pick| pick.0).collect();
        assert_eq!(offered, ["", "1.1.0", "1.0.0"], "{unknown}");
        assert_eq!(production(), "1.0.0");
    }
    let refused = send(&shown(), "version", "9.9.9");
    let moved = send(&refused, "pick.version", "1.1.0");
    assert_eq!(moved.status, 303, "{}", moved.words());
    assert_eq!(production(), "1.1.0");
}

#[test]
fn what_is_compared_is_refused_at_the_side_that_there_is_not() {
    let model = echo();
    let server = server(&model);
    let ada = server.signed_in("ada@acme.test");
    let compare = |query: &str| ada.get(&format!("{NOTES}/compare?{query}"));
    let refused = compare("from=1.0.0&to=9.9.9");
    is_refused_at(&refused, "to", &["from"]);
    let picked = pick(&refused, "to", "1.1.0");
    let compared = compare(&format!("from=1.0.0&to=9.9.9&pick.to={picked}"));
    compared.shows("Say two.").hides("There is no such version");
    is_refused_at(&compare("from=none&to=1.0.0"), "from", &["to"]);

    let path = format!("{NOTES}/compare-inputs");
    let fields = [("left", "1.0.0"), ("right", "9.9.9"), ("stream", "yes")];
    let refused = ada.send(&ada.get(&path), &path, &fields[..2]);
    assert_eq!(refused.status, 404, "{}", refused.words());
    is_refused_at(&refused, "right", &["left"]);
    pick(&refused, "right", "1.0.0 (production)");
    // A script, which shows no form again, is told of which field it is.
    let told = ada.send(&ada.get(&path), &path, &fields);
    assert!(told.text.contains("With: there is no such version."), "{}", told.text);
    assert!(model.is_idle());
}

#[test]
fn a_version_of_a_tool_is_suggested_and_one_that_there_is_not_is_not_deployed() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let tool = json!({"name": "search", "type": "http", "description": "Looks things up.",
        "version": "1.2.0"});
    let tool = api.post("/tools", tool).id();
    api.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
    let path = format!("/o/acme/tools/{tool}/deploy");
    let page = ada.get(&path);
    let suggested = tags(&page.text).into_iter().skip_while(|tag| tag.name != "datalist");
    let suggested: Vec<_> =
        suggested.filter_map(|tag| tag.get("value").map(String::from)).collect();
    assert_eq!(suggested, ["1.2.0"]);
    for (unknown, status) in [("9.9.9", 404), ("newest", 400)] {
        let fields = [("environment", "dev"), ("version", unknown)];
        let refused = ada.send(&ada.get(&path), &path, &fields);
        assert_eq!(refused.status, status, "{unknown}: {}", refused.words());
        assert!(refused.has_problem("version"), "{unknown}: {}", refused.words());
    }
    assert!(api.get("/agents/deployments").items().is_empty());
    assert_eq!(api.get("/environments").items()[0]["toolVersions"], json!({}));
}

/// What a script lists for a field in which nothing is typed.
fn listed(ada: &Visitor, page: &Page, field: &str) -> Vec<String> {
    let all = tags(&page.text);
    let is_it = |tag: &&crate::html::Tag| tag.get("name") == Some(field) && tag.name == "input";
    let asked = all.iter().find(is_it).and_then(|tag| tag.get("data-choose")).unwrap();
    let found = ada.get(&format!("{asked}&q="));
    let values = tags(&found.text).into_iter();
    values.filter_map(|tag| tag.get("data-value").map(String::from)).collect()
}

#[test]
fn versions_are_listed_of_what_the_page_is_about_with_labels_where_they_are_allowed() {
    let server = server(&echo());
    // Of the same name.
    server.publish("promptlet", "notes", "2.0.0", "Be brief.");
    let ada = server.signed_in("ada@acme.test");
    let all = ["production", "1.1.0", "1.0.0"];
    for (page, field) in [("try", "version"), ("compare", "from"), ("compare-inputs", "left")] {
        assert_eq!(listed(&ada, &ada.get(&format!("{NOTES}/{page}")), field), all, "{page}");
    }
    assert_eq!(listed(&ada, &ada.get(&format!("{NOTES}/labels")), "version"), all[1..]);
    for (page, field) in [("labels", "version"), ("compare", "to")] {
        let page = ada.get(&format!("/o/acme/promptlets/main/notes/{page}"));
        assert_eq!(listed(&ada, &page, field), ["2.0.0"], "{field}");
    }
    // And without scripts where one is refused.
    let page = ada.get("/o/acme/promptlets/main/notes/compare?from=9.9.9");
    let offered: Vec<_> = picks(&page, "from").into_iter().map(|pick| pick.0).collect();
    assert_eq!(offered, ["", "2.0.0"], "{}", page.words());
}

#[test]
fn providers_are_suggested_that_agents_and_credentials_have_which_one_may_use() {
    let server = Running::new();
    server.add("ben", "member");
    server.deployable(&["scribe"], Value::Null);
    let api = server.ada();
    let production = api.get("/environments").items()[0]["id"].as_str().unwrap().to_string();
    let vault = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
    let vault = api.post("/environments", vault).id();
    for (environment, name) in [(&production, "outside"), (&vault, "hidden")] {
        let credential = json!({"apiKey": "key", "endpoint": "https://runtime.test/push"});
        let path = format!("/environments/{environment}/provider-credentials/{name}");
        api.put(&path, credential).ok();
    }
    let environment = format!("/o/acme/environments/{production}");
    let ada = server.signed_in("ada@acme.test");
    for (path, field) in [
        ("/o/acme/agents/scribe/edit", "draft.provider"),
        ("/o/acme/deployments/new", "provider"),
        (&*environment, "credential"),
    ] {
        assert_eq!(listed(&ada, &ada.get(path), field), ["hidden", "outside", "p"], "{path}");
    }
    let ben = server.signed_in("ben@acme.test");
    assert_eq!(listed(&ben, &ben.get("/o/acme/deployments/new"), "provider"), ["outside", "p"]);
    // Another name is as good.
    let edit = "/o/acme/agents/scribe/edit";
    let saved = ada.send(&ada.get(edit), edit, &[("draft.provider", "elsewhere")]);
    assert_eq!(saved.status, 303, "{}", saved.words());
    assert_eq!(api.get("/agents/scribe").ok()["draft"]["provider"], "elsewhere");
}
