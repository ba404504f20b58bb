//! Something of everything that the pages of settings, operations and what agents need show, with
//! the same words in every field.

use serde_json::json;

use crate::server::Running;

/// Fills an organization that has the member Ben.
pub fn operations(server: &Running, words: &str) {
    let api = server.ada();
    server.invite("cara@acme.test", "member");
    server.invite("dora@acme.test", "admin");
    let account = api.post("/organizations/service-accounts", json!({"name": words})).id();
    let scopes = json!(["artifact:publish@main", "deployment:create@production"]);
    let key = json!({"name": words, "serviceAccountId": account, "access": scopes,
        "expiresInDays": 3});
    api.post("/api-keys", key).ok();
    // Two, so that one who deploys is never the only one, also where nobody approves their own.
    let ben = api.get("/organizations/members?email=ben@acme.test").items().remove(0);
    let approvers = [&api.get("/auth/session").ok()["user"]["id"], &ben["userId"]];
    let environment = json!({"slug": "vault", "name": words, "access": "restricted",
        "approvals": {"approverIds": approvers, "minApprovals": 1}});
    let environment = api.post("/environments", environment).id();
    let below = |kind: &str, name: &str| format!("/environments/{environment}/{kind}/{name}");
    api.put(&below("variables", "NAME"), json!({"value": words})).ok();
    api.put(&below("secrets", "TOKEN"), json!({"value": words})).ok();
    let credential = json!({"apiKey": "key", "endpoint": "https://runtime.test/push"});
    api.put(&below("provider-credentials", "provider"), credential).ok();
    let members = api.get("/organizations/members").items();
    let ben = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
    let grant = json!({"userId": ben["userId"], "resourceType": "environment",
        "resourceId": environment});
    api.post("/access-grants", grant).ok();
    let provider = json!({"name": words, "provider": "custom", "apiKey": "key",
        "baseUrl": "https://models.test", "config": {words: words}});
    api.post("/llm-providers", provider).ok();
    let provider = json!({"name": words, "kind": "http", "baseUrl": "https://127.0.0.1:9/"});
    api.post("/prompt-providers", provider).ok();
    let tool = json!({"name": words, "type": words.chars().take(40).collect::<String>(), "description": words,
        "prompt": words, "providerConfig": {words: words}, "tags": [crate::crawl::TAG]});
    api.post("/tools", tool).ok();
    let channel = json!({"name": words, "workflow": "webhook",
        "config": {"url": "https://127.0.0.1:9/hook"}});
    let channel = api.post("/notifications/channels", channel).ok()["id"].clone();
    let subscription = json!({"channelId": channel, "eventType": "registry.artifact_published"});
    api.post("/notifications/subscriptions", subscription).ok();
    server.publish("prompt", "told", "1.0.0", words);
}

/// Fills what people and agents look things up in.
pub fn directory(server: &Running, words: &str) {
    let api = server.ada();
    let base = json!({"name": words, "description": words});
    let base = api.post("/knowledge-bases", base).id();
    let document = json!({"name": words, "content": format!("{words} harbour")});
    api.post(&format!("/knowledge-bases/{base}/documents"), document).ok();
    api.post("/organizations/domains", json!({"domain": "agents.example"})).ok();
    api.post("/agents", json!({"stableKey": "listed", "name": "Listed"})).ok();
    let listing = json!({"stableKey": "listed", "handle": "listed@agents.example",
        "pubkey": "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
        "displayName": words, "description": words, "skills": ["release-notes"]});
    api.post("/agent-index/listings", listing).ok();
}
