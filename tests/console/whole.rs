//! What only the API did once: each is done by a page, and found in what is stored.

use serde_json::json;

use crate::server::Running;

#[test]
fn a_registry_is_changed_and_deleted() {
    let server = Running::new();
    server.add("ben", "member");
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Hello.");
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let edit = "/o/acme/registries/main/edit";
    let fields = [("name", "Harbour"), ("visibility", "public"), ("access", "restricted")];
    ada.submit(&ada.get(edit), edit, &fields).shows("The registry was saved.").shows("Harbour");
    let stored = api.get("/registries/main").ok();
    let stored = [&stored["name"], &stored["visibility"], &stored["access"]];
    assert_eq!(stored, ["Harbour", "public", "restricted"]);
    let ben = server.signed_in("ben@acme.test");
    assert_eq!(ben.get(edit).status, 403);
    let delete = "/o/acme/registries/main/delete";
    ada.get("/o/acme/prompts/main").shows("Delete this registry");
    ada.submit(&ada.get(delete), delete, &[]).shows("The registry was deleted.");
    assert!(api.get("/registries").items().is_empty());
}

#[test]
fn an_organization_is_renamed_by_an_admin_unless_somebody_else_just_did() {
    let server = Running::new();
    server.add("ben", "member");
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let path = "/o/acme/settings/organization";
    let stale = ada.get(path);
    ada.submit(&ada.get(path), path, &[("name", "Harbour")]).shows("The organization was saved.");
    assert_eq!(api.get("/organizations").items()[0]["name"], "Harbour");
    let refused = ada.send(&stale, path, &[("name", "Acme & Co")]);
    assert_eq!(refused.status, 412);
    refused.shows("Save mine over it").shows("Harbour");
    assert_eq!(api.get("/organizations").items()[0]["name"], "Harbour");
    ada.submit(&refused, path, &[]).shows("The organization was saved.");
    assert_eq!(api.get("/organizations").items()[0]["name"], "Acme & Co");
    let ben = server.signed_in("ben@acme.test");
    assert_eq!(ben.get(path).status, 403);
    ben.get("/o/acme/settings/members").hides("Organization ");
}

#[test]
fn a_provider_of_prompts_is_changed_without_its_key() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let provider = json!({"name": "Old", "kind": "http", "baseUrl": "https://127.0.0.1:9/",
        "credentials": {"apiKey": "key"}});
    let id = api.post("/prompt-providers", provider).id();
    let edit = format!("/o/acme/settings/prompt-providers/{id}/edit");
    ada.submit(&ada.get(&edit), &edit, &[("name", "New")]).shows("The provider was saved.");
    let stored = api.get(&format!("/prompt-providers/{id}")).ok();
    assert_eq!([&stored["name"], &stored["baseUrl"]], ["New", "https://127.0.0.1:9/"]);
}

#[test]
fn a_tool_is_deployed_and_what_uses_a_variable_is_listed() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Hello {{TOKEN}}.");
    let tool = json!({"name": "search", "type": "http", "providerConfig": {"key": "${TOKEN}"}});
    let tool = api.post("/tools", tool).id();
    let environment = json!({"slug": "production", "name": "Production"});
    let environment = api.post("/environments", environment).id();
    api.put(&format!("/environments/{environment}/variables/TOKEN"), json!({"value": "t"})).ok();
    let deploy = format!("/o/acme/tools/{tool}/deploy");
    ada.get(&format!("/o/acme/tools/{tool}")).shows("Deploy");
    ada.submit(&ada.get(&deploy), &deploy, &[("version", "7.0.0")]).shows("There is no such");
    ada.submit(&ada.get(&deploy), &deploy, &[]).shows("The deployment was created.");
    let jobs = api.get("/agents/deployments").items();
    let job = [&jobs[0]["kind"], &jobs[0]["targets"][0]["toolId"]];
    assert_eq!((jobs.len(), job), (1, [&json!("tools"), &json!(tool)]));
    let page = format!("/o/acme/environments/{environment}");
    let used = "/o/acme/variables/TOKEN".to_string();
    assert!(ada.get(&page).links().contains(&used));
    let used = ada.get(&used);
    used.shows("notes 1.0.0").shows("search 1.0.0").shows("the latest version");
    ada.get("/o/acme/variables/NONE").shows("No published prompt and no tool uses it.");
}

#[test]
fn a_version_is_cloned_under_another_name() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    server.registry();
    server.publish("prompt", "notes", "1.2.0", "Hello.");
    let clone = "/o/acme/prompts/main/notes/versions/1.2.0/clone";
    // It is there already.
    let same = ada.send(&ada.get(clone), clone, &[]);
    assert_eq!(same.location(), "/o/acme/prompts/main/notes/versions/1.2.0", "{}", same.words());
    assert_eq!(api.get("/registries/artifacts?registryRef=main").items().len(), 1);
    let fields = [("name", "letters"), ("version", "1.0.0"), ("message", "For letters.")];
    ada.submit(&ada.get(clone), clone, &fields).shows("letters").shows("For letters.");
    let read = "/registries/artifact-versions/content?registryRef=main&promptName=letters";
    let made = api.get(read).ok();
    assert_eq!([&made["source"], &made["version"]], ["Hello.", "1.0.0"]);
}

#[test]
fn a_link_for_a_forgotten_password_is_asked_for_without_a_session() {
    let server = Running::new();
    let visitor = server.visitor();
    assert!(visitor.get("/sign-in").links().contains(&"/forgot-password".to_string()));
    let path = "/forgot-password";
    let refused = visitor.send(&visitor.get(path), path, &[("email", "ada@acme.test")]);
    // This server sends no mail, whoever asks.
    assert_eq!(refused.status, 409, "{}", refused.words());
    refused.shows("Check what you entered");
}
