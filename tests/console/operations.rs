//! Channels and the log, environments, tools.

use serde_json::json;

use crate::client::{eventually, pick};
use crate::server::Running;

#[test]
fn a_channel_is_created_subscribed_switched_off_and_deleted() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let new = "/o/acme/operations/new-channel";
    ada.get(new).shows("How does it deliver?").shows("Posts signed JSON to a URL.");
    let page = ada.get(&format!("{new}?workflow=webhook"));
    let wrong = ada.send(&page, new, &[("name", "Hook"), ("url", "not a url")]);
    assert_eq!(wrong.status, 400);
    assert!(wrong.text.contains("href=\"#f-url\""), "{}", wrong.text);
    let made = ada.send(&wrong, new, &[("url", "https://127.0.0.1:9/hook")]);
    made.shows("whsec_").shows("It is not shown again.");
    let list = ada.get("/o/acme/operations/channels");
    let tags = crate::html::tags(&list.text);
    let link = tags.iter().find(|tag| tag.name == "a" && tag.text == "Hook").unwrap();
    let path = link.get("href").unwrap().to_string();

    let page = ada.get(&path);
    page.shows("Nothing yet.").hides("whsec_");
    let fields = [("eventType", "registry.artifact_published"), ("action", "subscribe")];
    let subscribed = ada.submit(&page, &path, &fields);
    subscribed.shows("delivers these events from now on").shows("registry.artifact_published");
    ada.send(&subscribed, &path, &[("action", "test")]).shows("It does not work");
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Text.");
    let log = eventually("a failed entry", || {
        let page = ada.get("/o/acme/operations/log?status=failed");
        page.words().contains("attempt 1").then_some(page)
    });
    log.shows("Hook");
    let action = "/o/acme/operations/log?status=failed";
    ada.submit(&log, action, &[]).shows("The entry is delivered again.");
    let from = [("from", "2020-01-01T00:00"), ("action", "redeliver")];
    ada.submit(&ada.get(&path), &path, &from).shows("delivered again, a few at a time");
    let rotated = ada.send(&ada.get(&path), &path, &[("action", "rotate")]);
    rotated.shows("whsec_");
    let off = ada.submit(&ada.get(&path), &path, &[("action", "disable")]);
    off.shows("Off").shows("Switch on");
    let delete = format!("{path}/delete");
    let page = ada.get(&delete);
    ada.submit(&page, &delete, &[]).shows("The channel was deleted.");
    let channels = server.ada().get("/notifications/channels").items();
    assert!(channels.iter().all(|channel| channel["name"] != "Hook"), "{channels:?}");
}

#[test]
fn what_was_given_up_and_keys_that_expire_are_seen_today() {
    let server = Running::new();
    server.add("ben", "member");
    let gone = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let address = crate::outside::SITES.receive("127.0.0.1", |_| gone.to_vec());
    let api = server.ada();
    let channel = json!({"name": "Hook", "workflow": "webhook",
        "config": {"url": format!("https://{address}/hook")}});
    let channel = api.post("/notifications/channels", channel).id();
    let event = json!({"channelId": channel, "eventType": "registry.artifact_published"});
    api.post("/notifications/subscriptions", event).ok();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Text.");
    for (name, days) in [("soon", 13), ("later", 30)] {
        api.post("/api-keys", json!({"name": name, "expiresInDays": days})).ok();
    }
    let ada = server.signed_in("ada@acme.test");
    let today = eventually("a notification that was given up", || {
        let page = ada.get("/o/acme");
        page.words().contains("Notifications that were given up").then_some(page)
    });
    today.shows("registry.artifact_published").shows("Keys that expire soon").shows("soon");
    today.hides("later");
    let log = format!("/o/acme/operations/log?status=dead&channel={channel}");
    assert!(today.links().contains(&log), "{:?}", today.links());
    ada.get(&log).shows("Given up").shows("Hook");
    // Ben may not have it delivered again, and the key is not his.
    let today = server.signed_in("ben@acme.test").get("/o/acme");
    today.hides("given up").hides("soon");
}

#[test]
fn the_audit_log_is_filtered_and_compared_with_a_checkpoint() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let page = eventually("the entry", || {
        let page = ada.get("/o/acme/operations/audit");
        page.words().contains("registry.create").then_some(page)
    });
    let tags = crate::html::tags(&page.text);
    let value = tags.iter().find_map(|tag| tag.get("data-copy"));
    let compared = format!("/o/acme/operations/audit?against={}", value.unwrap());
    ada.get(&compared).shows("The log continues that checkpoint.");
    ada.get("/o/acme/operations/audit?against=nonsense").shows("must be a checkpoint");
    let filtered = ada.get("/o/acme/operations/audit?action=registry.create");
    filtered.shows("registry.create").hides("session.sign_in");
    ada.get("/o/acme/operations/audit?action=no.such").shows("There are no entries of these.");
    let backwards = "/o/acme/operations/audit?from=2026-01-02T00:00&to=2026-01-01T00:00";
    ada.get(backwards).shows("must not be before from");
    server.add("ben", "member");
    let ben = server.signed_in("ben@acme.test");
    assert_eq!(ben.get("/o/acme/operations/audit").status, 403);
    ben.get("/o/acme/operations/log").hides("Audit");
}

#[test]
fn an_environment_has_variables_secrets_that_nobody_reads_and_approvers() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let new = "/o/acme/environments/new";
    let page = ada.get(new);
    let fields = [("name", "Production"), ("slug", "production")];
    let made = ada.submit(&page, new, &fields);
    made.shows("The environment was created.");
    let path = made.path.clone();
    let variable = |page: &crate::visitor::Page, name: &str| {
        let form = page.forms().into_iter().find(|form| {
            form.action == path && form.buttons.contains(&("action".into(), "variable".into()))
        });
        let fields = [("variable", name), ("variableValue", "Harbour"), ("action", "variable")];
        ada.send_form(&form.unwrap(), &fields)
    };
    let refused = variable(&made, "not a name");
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("href=\"#f-variable\""), "{}", refused.text);
    assert_eq!(variable(&refused, "").status, 400);
    assert_eq!(variable(&refused, "PRODUCT").status, 303);
    let environment = || server.ada().get("/environments").items().remove(0);
    let below = |what: &str| {
        let id = environment()["id"].as_str().unwrap().to_string();
        server.ada().get(&format!("/environments/{id}/{what}")).items()
    };
    let variables = below("variables");
    assert_eq!((variables.len(), &variables[0]["value"]), (1, &json!("Harbour")));
    let page = ada.get(&path);
    page.shows("PRODUCT").shows("Harbour");
    let form = page
        .forms()
        .into_iter()
        .find(|form| form.buttons.contains(&("action".into(), "secret".into())));
    let fields = [("secretName", "TOKEN"), ("secretValue", "hush-hush"), ("action", "secret")];
    assert_eq!(ada.send_form(&form.unwrap(), &fields).status, 303);
    assert_eq!(below("secrets")[0]["name"], "TOKEN");
    let page = ada.get(&path);
    page.shows("TOKEN");
    assert!(!page.text.contains("hush-hush"));

    let edit = format!("{path}/edit");
    let page = ada.get(&edit);
    let nobody = ada.send(&page, &edit, &[("approver", "ada@acme.test, nobody@acme.test")]);
    assert!(nobody.has_problem("approver"), "{}", nobody.words());
    let saved = ada.submit(&page, &edit, &[("approver", "Ada@acme.test")]);
    saved.shows("The environment was saved.").shows("1 of these must approve");
    assert_eq!(environment()["approvals"]["approverIds"].as_array().map(Vec::len), Some(1));
    let wrong = ada.send(&ada.get(&edit), &edit, &[("minApprovals", "7")]);
    assert!(wrong.text.contains("href=\"#f-minApprovals\""), "{}", wrong.text);
    server.add("ben", "member");
    let ben = server.signed_in("ben@acme.test");
    ben.get(&path).shows("PRODUCT").hides("Set a variable").hides("Delete this environment");
}

#[test]
fn a_tool_is_created_changed_with_a_version_and_deleted() {
    let server = Running::new();
    server.add("ben", "member");
    let ben = server.signed_in("ben@acme.test");
    ben.get("/o/acme/tools").shows("There are no tools yet.");
    let new = "/o/acme/tools/new";
    let page = ben.get(new);
    let wrong = [("name", "Search"), ("type", "http"), ("providerConfig", "{oops")];
    let refused = ben.send(&page, new, &wrong);
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("href=\"#f-providerConfig\""), "{}", refused.text);
    assert_eq!(refused.field(new, "providerConfig"), "{oops");
    let config = json!({"openai": {"key": "${TOKEN}"}}).to_string();
    let made = ben.submit(&refused, new, &[("providerConfig", &config)]);
    made.shows("The tool was created.").shows("1.0.0").shows("${TOKEN}");
    let edit = format!("{}/edit", made.path);
    let page = ben.get(&edit);
    let saved = ben.submit(&page, &edit, &[("bumpVersion", "minor"), ("description", "Finds.")]);
    saved.shows("The tool was saved.").shows("1.1.0").shows("Finds.");
    let stored = server.ada().get("/tools").items();
    let of = |name: &str| stored[0][name].clone();
    assert_eq!((of("version"), of("description")), (json!("1.1.0"), json!("Finds.")));
    assert_eq!(of("providerConfig"), json!({"openai": {"key": "${TOKEN}"}}));
    let delete = format!("{}/delete", made.path);
    let page = ben.get(&delete);
    ben.submit(&page, &delete, &[]).shows("The tool was deleted.");
    assert!(server.ada().get("/tools").items().is_empty());
}

#[test]
fn a_policy_is_written_assigned_and_asked() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let new = "/o/acme/governance/new-policy";
    let page = ada.get(new);
    assert_eq!(ada.send(&page, new, &[("name", "House rules")]).status, 400, "without a rule");
    // The second of three rows is left empty: what is wrong is still said at the row that has it.
    let fields = [
        ("name", "House rules"),
        ("rules[0].type", "forbidPattern"),
        ("rules[0].value", "TODO"),
        ("rules[2].type", "maxLength"),
        ("rules[2].value", "many"),
    ];
    let refused = ada.send(&page, new, &fields);
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("href=\"#f-rules[1].value\""), "{}", refused.text);
    assert_eq!(refused.field(new, "rules[1].value"), "many");
    let made = ada.submit(&refused, new, &[("rules[1].value", "900")]);
    made.shows("The policy was created.").shows("Has at most this many characters 900");
    let path = made.path.clone();
    let assigned = ada.submit(&made, &path, &[("action", "assign")]);
    assigned.shows("The policy was assigned.").shows("acme/main");
    let stored = || server.ada().get("/governance/policies").items();
    assert_eq!(pick(&stored()[0]["rules"][1], "type value"), json!(["maxLength", 900]));
    let of_it = format!("/governance/policies/{}/assignments", stored()[0]["id"].as_str().unwrap());
    assert_eq!(server.ada().get(&of_it).items().len(), 1);
    let check = "/o/acme/governance/check";
    let page = ada.get(check);
    ada.send(&page, check, &[("text", "TODO: write")]).shows("It would be refused");
    ada.send(&page, check, &[("text", "Written.")]).shows("Policies accept it");
    let delete = format!("{path}/delete");
    let page = ada.get(&delete);
    ada.submit(&page, &delete, &[]).shows("The policy was deleted.");
    assert!(stored().is_empty());
}

#[test]
fn a_flag_is_cleared() {
    let server = Running::new();
    server.registry();
    let rules = json!([{"type": "forbidPattern", "value": "TODO"}]);
    let policy = json!({"name": "P", "severity": "warning", "rules": rules});
    let id = server.ada().post("/governance/policies", policy).id();
    let path = format!("/governance/policies/{id}/assignments");
    server.ada().post(&path, json!({"registryRef": "main"})).ok();
    server.publish("prompt", "notes", "1.0.0", "TODO");
    let ada = server.signed_in("ada@acme.test");
    let flags = "/o/acme/governance/flags";
    let page = ada.get(flags);
    page.shows("notes 1.0.0");
    ada.submit(&page, flags, &[]).shows("The flag was cleared.").shows("Nothing is flagged.");
    ada.get(&format!("{flags}?cleared=true")).shows("notes 1.0.0");
    let stored = |query: &str| server.ada().get(&format!("/governance/flags{query}")).items().len();
    assert_eq!((stored(""), stored("?cleared=true")), (0, 1));
}

#[test]
fn a_document_is_added_found_with_its_words_marked_and_deleted() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let new = "/o/acme/knowledge/new";
    let page = ada.get(new);
    let made = ada.submit(&page, new, &[("name", "Handbook")]);
    made.shows("It has no documents yet.");
    let base = made.path.clone();
    let add = format!("{base}/documents/new");
    let page = ada.get(&add);
    let refused = ada.send(&page, &add, &[("name", ""), ("content", "Ropes & <b>knots</b>.")]);
    assert!(refused.text.contains("href=\"#f-name\""), "{}", refused.text);
    let document = ada.submit(&refused, &add, &[("name", "Mooring")]);
    document.shows("The document was added.").shows("Ropes & <b>knots</b>.");
    let stored = || {
        let base = server.ada().get("/knowledge-bases").items()[0]["id"].clone();
        let documents = format!("/knowledge-bases/{}/documents", base.as_str().unwrap());
        server.ada().get(&documents).items()
    };
    assert_eq!((stored().len(), &stored()[0]["name"]), (1, &json!("Mooring")));
    let found = ada.get(&format!("{base}?q=knots"));
    found.shows("Mooring");
    assert!(found.text.contains("<mark>knots</mark>"), "{}", found.text);
    assert!(!found.text.contains("<b>knots"), "passages are text");
    ada.get(&format!("{base}?q=nothing")).shows("No document has any of these words.");
    let delete = format!("{}/delete", document.path);
    let page = ada.get(&delete);
    ada.submit(&page, &delete, &[]).shows("The document was deleted.");
    assert!(stored().is_empty());
}

#[test]
fn the_language_of_a_knowledge_base_is_chosen_and_changed_in_its_form() {
    let server = Running::new();
    let api = server.ada();
    let base = api.post("/knowledge-bases", json!({"name": "Tides", "language": "sv"})).id();
    let ada = server.signed_in("ada@acme.test");
    let (page, path) = (format!("/o/acme/knowledge/{base}"), format!("/knowledge-bases/{base}"));
    ada.get(&page).shows("Other forms of words are found in Swedish.");
    let edit = format!("{page}/edit");
    let form = ada.get(&edit);
    assert!(form.text.contains("<option value=\"sv\" selected>Swedish"), "{}", form.text);
    for (chosen, stored) in [("de", json!("de")), ("", json!(null))] {
        let saved = ada.submit(&ada.get(&edit), &edit, &[("language", chosen)]);
        saved.shows("The knowledge base was saved.");
        let now = api.get(&path).ok();
        assert_eq!((&now["language"], &now["name"]), (&stored, &json!("Tides")));
    }
    server.add("ben", "member");
    let ben = server.signed_in("ben@acme.test");
    assert!(!ben.get(&page).text.contains(&edit));
    assert_eq!(ben.get(&edit).status, 403);
}

#[test]
fn a_domain_says_what_to_put_where() {
    let server = Running::new();
    crate::filled::directory(&server, "Listed");
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme/directory/listings").shows("listed@agents.example");
    let list = ada.get("/o/acme/directory/domains");
    let path = list.links().into_iter().find(|link| link.contains("/domains/")).unwrap();
    let page = ada.get(&path);
    page.shows("https://agents.example/.well-known/nostr.json").shows("\"listed\": \"f9308a01");
    let delete = format!("{path}/delete");
    ada.submit(&ada.get(&delete), &delete, &[]).shows("The domain was released.");
    ada.get("/o/acme/directory/domains").shows("No domain yet.");
}

#[test]
fn what_has_a_name_is_found_and_led_to() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "release-notes", "1.0.0", "Text.");
    let body = json!({"slug": "vault", "name": "Release vault", "access": "restricted"});
    server.ada().post("/environments", body).ok();
    server.add("ben", "member");
    let search = "/o/acme/search?q=REL";
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(search);
    page.shows("Prompts release-notes").shows("Environments Release vault");
    let link = "/o/acme/prompts/main/release-notes";
    assert!(page.links().contains(&link.into()), "{:?}", page.links());
    ada.get(link).shows("1.0.0");
    let ben = server.signed_in("ben@acme.test");
    ben.get(search).shows("release-notes").hides("vault");
    ben.get("/o/acme/search?q=nothing").shows("Nothing that you may see has such a name");
    ben.get("/o/acme/search").shows("the latest version and those with a label are searched");
    let found = ben.get("/o/acme/search?q=text");
    found.shows("release-notes").shows("main 1.0.0");
    assert!(found.text.contains("<mark>Text</mark>."), "{}", found.text);
    let link = "/o/acme/prompts/main/release-notes/versions/1.0.0";
    assert!(found.links().contains(&link.into()), "{:?}", found.links());
    ben.get("/o/acme/search?q=texts").hides("release-notes");
    ben.get("/o/acme/search?q=texts&language=en").shows("release-notes");
}
