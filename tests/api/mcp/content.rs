//! Prompts, resources and completion.

use serde_json::{Value, json};

use super::Client;
use crate::fixture::{Fixture, unknown_id};
use crate::registries::{publish, registry};
use crate::teams::Crew;

const INVALID_PARAMS: i32 = -32602;
const RESOURCE_NOT_FOUND: i32 = -32002;

/// An organization with prompts in two registries, of which one has labels.
fn acme() -> Fixture {
    let acme = Fixture::new();
    for slug in ["empty", "main", "other"] {
        registry(&acme, slug, json!({}));
    }
    publish(&acme, ["main", "promptlet", "tone", "1.0.0"], "Be kind.");
    publish(
        &acme,
        ["main", "prompt", "scribe", "1.0.0"],
        "{{ import \"tone@1.0.0\" }} Write to {{WHO}}.",
    );
    publish(&acme, ["main", "prompt", "scribe", "1.1.0"], "Write to {{WHO}} about {{WHAT}}.");
    publish(&acme, ["other", "prompt", "plain", "2.0.0"], "Plain.");
    label(&acme, "production", "1.0.0");
    acme
}

pub fn label(acme: &Fixture, label: &str, version: &str) {
    let body = json!({"registryRef": format!("{}/main", acme.slug), "promptName": "scribe",
        "label": label, "version": version});
    acme.owner.ask("PATCH", "/registries/artifacts/labels").json(&body).send().ok();
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let name = |item: &Value| item[field].as_str().unwrap().to_string();
    let mut names: Vec<_> = list.as_array().unwrap().iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn prompts_are_listed_with_their_variables_and_rendered() {
    let acme = acme();
    let client = Client::modern(&acme.key);
    let list = client.result("prompts/list", json!({}));
    assert_eq!(names(&list["prompts"], "name"), ["main.scribe", "other.plain"]);
    assert_eq!((&list["cacheScope"], list.get("nextCursor")), (&json!("private"), None));
    let prompts = list["prompts"].as_array().unwrap();
    let scribe = prompts.iter().find(|prompt| prompt["name"] == "main.scribe").unwrap();
    let arguments: Vec<_> = scribe["arguments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| (argument["name"].as_str().unwrap(), argument["required"] == true))
        .collect();
    assert_eq!(arguments, [("WHO", true), ("WHAT", true), ("prompt-version", false)]);

    let get = |arguments: Value| json!({"name": "main.scribe", "arguments": arguments});
    let newest = client.result("prompts/get", get(json!({"WHO": "Ada", "WHAT": "tea"})));
    let message = json!({"role": "user",
        "content": {"type": "text", "text": "Write to Ada about tea."}});
    assert_eq!(newest["messages"], json!([message]));
    let labelled = get(json!({"WHO": "Ada", "prompt-version": "production"}));
    let labelled = client.result("prompts/get", labelled);
    assert_eq!(labelled["messages"][0]["content"]["text"], "Be kind. Write to Ada.");
    assert_eq!(labelled["description"], format!("{}/main/scribe 1.0.0", acme.slug));

    for (params, what) in [
        (get(json!({"WHO": "Ada"})), "WHAT"),
        (get(json!({"WHO": "Ada", "WHAT": 1})), "WHAT"),
        (get(json!({"prompt-version": "9.9.9"})), "version"),
        (json!({"name": "main.nobody"}), "not_found"),
        (json!({"name": "nowhere.scribe"}), "registry"),
        (json!({"name": "scribe"}), "prompts/list"),
        (json!({}), "name"),
        (json!({"name": "main.scribe", "arguments": []}), "arguments"),
    ] {
        let error = client.fails(400, INVALID_PARAMS, "prompts/get", params);
        assert!(error["message"].as_str().unwrap().contains(what), "{what}: {error}");
    }
    Client::legacy(&acme.key).fails(200, INVALID_PARAMS, "prompts/get", json!({"name": "main.no"}));
    // A key without the scopes is told which.
    let other = Client::with_access(&acme.owner, json!(["tool:read"]));
    let error = other.fails(200, 403, "prompts/list", json!({}));
    assert!(error["message"].as_str().unwrap().contains("registry:read"), "{error}");
}

#[test]
fn a_list_goes_on_from_its_cursor_through_all_registries() {
    let acme = Fixture::new();
    let mut all = Vec::new();
    for (slug, count) in [("a", 0), ("b", 51), ("c", 0), ("d", 60), ("e", 1)] {
        registry(&acme, slug, json!({}));
        for nth in 0..count {
            publish(&acme, [slug, "prompt", &format!("p{nth}"), "1.0.0"], "Text.");
            all.push(format!("{slug}.p{nth}"));
        }
    }
    all.sort();
    let client = Client::modern(&acme.key);
    let (mut found, mut params, mut pages) = (Vec::new(), json!({}), 0);
    loop {
        let list = client.result("prompts/list", params);
        found.extend(names(&list["prompts"], "name"));
        pages += 1;
        let Some(next) = list.get("nextCursor") else { break };
        params = json!({"cursor": next});
    }
    found.sort();
    assert_eq!(found, all);
    assert!(pages <= 4, "{pages}");
    for cursor in [json!("x"), json!(7), json!("e30x")] {
        client.fails(400, INVALID_PARAMS, "prompts/list", json!({"cursor": cursor}));
    }
    // A restricted registry is not listed for those without a grant.
    acme.owner.patch("/registries/d", json!({"access": "restricted"})).ok();
    let list = Client::of(&acme.member).result("prompts/list", json!({}));
    assert!(names(&list["prompts"], "name").iter().all(|name| !name.starts_with("d.")));
}

#[test]
fn texts_are_read_by_label_version_and_range() {
    let acme = acme();
    let client = Client::modern(&acme.key);
    let list = client.result("resources/list", json!({}));
    let at = |rest: &str| format!("roadstead://{}/{rest}", acme.slug);
    let listed = [
        at("main/promptlets/tone@1.0.0"),
        at("main/prompts/scribe@production"),
        at("other/prompts/plain@2.0.0"),
    ];
    assert_eq!(names(&list["resources"], "uri"), listed);
    for uri in &listed {
        client.result("resources/read", json!({"uri": uri}));
    }
    for (rest, text) in [
        ("main/prompts/scribe@production", "Be kind. Write to {{WHO}}."),
        ("main/prompts/scribe", "Write to {{WHO}} about {{WHAT}}."),
        ("main/prompts/scribe@%5E1.0.0", "Write to {{WHO}} about {{WHAT}}."),
        ("main/promptlets/tone", "Be kind."),
    ] {
        let read = client.result("resources/read", json!({"uri": at(rest)}));
        let contents = json!([{"uri": at(rest), "mimeType": "text/plain", "text": text}]);
        assert_eq!(read["contents"], contents);
        assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(0), &json!("private")));
    }
    let templates = client.result("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 4);

    let other = Fixture::new();
    let legacy = Client::legacy(&acme.key);
    for uri in [
        at("main/prompts/nobody"),
        at("main/prompts/scribe@9.9.9"),
        at("nowhere/prompts/scribe"),
        format!("roadstead://{}/main/prompts/scribe", other.slug),
        at(&format!("teams/{}/tasks/{}", unknown_id(), unknown_id())),
        at(&format!("teams/{}/agents/{}/inbox", unknown_id(), unknown_id())),
    ] {
        let error = client.fails(400, INVALID_PARAMS, "resources/read", json!({"uri": uri}));
        assert_eq!(error["data"], json!({"uri": uri}), "{error}");
        legacy.fails(200, RESOURCE_NOT_FOUND, "resources/read", json!({"uri": uri}));
    }
    let error = client.fails(400, INVALID_PARAMS, "resources/read", json!({"uri": "file:///etc"}));
    assert!(error["message"].as_str().unwrap().contains("templates"), "{error}");
}

#[test]
fn an_inbox_and_a_task_are_read_as_json() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let task = crew.task(json!({"title": "t", "assigneeAgentId": ann}));
    let mail = crew.post("/messages", json!({"body": "b", "toAgentId": ann})).id();
    let note = crew.post("/messages", json!({"body": "b", "taskId": task})).id();
    let client = Client::modern(&crew.acme.key);
    let read = |rest: &str| -> Value {
        let uri = format!("roadstead://{}/teams/{}/{rest}", crew.acme.slug, crew.team);
        let read = client.result("resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"][0]["mimeType"], "application/json");
        serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap()
    };
    let inbox = read(&format!("agents/{ann}/inbox"));
    assert_eq!(inbox["messages"][0]["id"], mail.as_str());
    assert_eq!(inbox["wakes"].as_array().unwrap().len(), 3);
    // Reading leases nothing.
    assert_eq!(crew.get(&format!("/agents/{ann}/wakes")).items().len(), 3);
    let shown = read(&format!("tasks/{task}"));
    assert_eq!((&shown["task"]["id"], &shown["notes"][0]["id"]), (&json!(task), &json!(note)));
}

#[test]
fn names_and_versions_are_completed() {
    let acme = acme();
    let client = Client::modern(&acme.key);
    let complete = |reference: Value, name: &str, value: &str, known: Value| {
        let params = json!({"ref": reference, "argument": {"name": name, "value": value},
            "context": {"arguments": known}});
        let result = client.result("completion/complete", params);
        result["completion"]["values"].clone()
    };
    let prompt = |name: &str| json!({"type": "ref/prompt", "name": name});
    let of = |value: &str| complete(prompt("main.scribe"), "prompt-version", value, json!({}));
    assert_eq!(of(""), json!(["production", "1.1.0", "1.0.0"]));
    assert_eq!(of("1.1"), json!(["1.1.0"]));
    assert_eq!(complete(prompt("main.scribe"), "WHO", "", json!({})), json!([]));
    assert_eq!(complete(prompt("main.no"), "prompt-version", "", json!({})), json!([]));
    assert_eq!(complete(prompt("no.scribe"), "prompt-version", "", json!({})), json!([]));
    let uri = "roadstead://{org}/{registry}/prompts/{name}@{version}";
    let template = json!({"type": "ref/resource", "uri": uri});
    let of = |name: &str, value: &str, known: Value| complete(template.clone(), name, value, known);
    assert_eq!(of("org", "", json!({})), json!([acme.slug]));
    assert_eq!(of("registry", "m", json!({})), json!(["main"]));
    let main = json!({"org": acme.slug, "registry": "main"});
    assert_eq!(of("name", "s", main.clone()), json!(["scribe"]));
    assert_eq!(of("name", "x", main.clone()), json!([]));
    let scribe = json!({"registry": "main", "name": "scribe"});
    assert_eq!(of("version", "prod", scribe), json!(["production"]));
    for reference in [json!({}), json!({"type": "ref/resource", "uri": "file:///x"})] {
        let params = json!({"ref": reference, "argument": {"name": "a", "value": ""}});
        client.fails(400, INVALID_PARAMS, "completion/complete", params);
    }
}

#[test]
fn a_text_that_is_too_long_for_a_model_is_refused_and_long_messages_are_cut() {
    let crew = Crew::new();
    let acme = &crew.acme;
    let client = Client::modern(&acme.key);
    registry(acme, "long", json!({}));
    for (name, letters) in [("whole", 74_000), ("more", 76_000)] {
        publish(acme, ["long", "prompt", name, "1.0.0"], &"x".repeat(letters));
    }
    let uri = |name: &str| format!("roadstead://{}/long/prompts/{name}", acme.slug);
    client.result("prompts/get", json!({"name": "long.whole"}));
    client.result("resources/read", json!({"uri": uri("whole")}));
    for (method, params, route) in [
        ("prompts/get", json!({"name": "long.more"}), "POST /api/prompts/{promptName}/render"),
        ("resources/read", json!({"uri": uri("more")}), "GET /api/registries/artifact-versions"),
    ] {
        let error = client.fails(200, 409, method, params);
        assert_eq!(error["data"]["code"], "answer_too_long");
        assert!(error["message"].as_str().unwrap().contains(route), "{error}");
    }

    let ann = crew.hire("ann");
    let long = "Zwölf Boxkämpfer. ".repeat(2_200);
    let task = crew.task(json!({"title": "t", "description": long}));
    for _ in 0..20 {
        crew.post("/messages", json!({"body": long, "toAgentId": ann})).ok();
        crew.post("/messages", json!({"body": long, "taskId": task})).ok();
    }
    for (rest, list) in
        [(format!("agents/{ann}/inbox"), "messages"), (format!("tasks/{task}"), "notes")]
    {
        let uri = format!("roadstead://{}/teams/{}/{rest}", acme.slug, crew.team);
        let read = client.result("resources/read", json!({"uri": uri}));
        assert_eq!(read["_meta"]["roadstead/cut"], true);
        let text = read["contents"][0]["text"].as_str().unwrap();
        let thirds: usize = text.chars().map(|letter| if letter.is_ascii() { 1 } else { 3 }).sum();
        assert!(thirds <= 75_000, "{thirds} thirds of a token");
        let shown: Value = serde_json::from_str(text).unwrap();
        let messages = shown[list].as_array().unwrap();
        assert_eq!(messages.len(), 20);
        let body = messages[0]["body"].as_str().unwrap();
        assert!(body.contains("of 39600 characters left out; "), "{body}");
        assert!(body.ends_with("message_list with a smaller limit shows more]") || list == "notes");
    }
}
