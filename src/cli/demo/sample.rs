//! The sample organization: a small team that ships a product, as the API makes it.

use serde_json::{Value, json};

use super::client::Client;
use crate::base::Error;

/// What the demo speaks of later.
#[derive(Clone)]
pub struct Sample {
    /// The team.
    pub team: String,
    /// The agent that the demo plays, as a member of the team.
    pub scribe: String,
}

/// Agents: stable key, name, description, model.
const AGENTS: [(&str, &str, &str, &str); 3] = [
    ("lead", "Lead", "Keeps the board in order and hands out work", "claude-sonnet"),
    ("scribe", "Scribe", "Writes release notes, changelogs and answers", "claude-sonnet"),
    ("tester", "Tester", "Reproduces what users report", "gpt-mini"),
];

/// Makes it all.
pub async fn fill(api: &Client) -> Result<Sample, Error> {
    for (slug, name) in [("staging", "Staging"), ("production", "Production")] {
        api.post("/environments", json!({"slug": slug, "name": name})).await?;
    }
    let search = json!({
        "name": "search-issues", "type": "http", "description": "Finds issues by their words",
        "providerConfig": {"url": "https://issues.acme.test/search?q={query}"},
    });
    let search = api.post("/tools", search).await?;
    let files = json!({
        "name": "read-repository", "type": "mcp", "description": "Reads files of the repository",
        "providerConfig": {"server": "files", "root": "/srv/harbour"},
    });
    api.post("/tools", files).await?;

    for (key, name, description, model) in AGENTS {
        let draft = json!({
            "promptName": key, "promptVersion": "^1.0", "model": model, "provider": "anthropic",
            "toolRefs": [{"toolId": search["id"]}], "variables": {"TEAM": "Shipping"},
        });
        let agent = json!({
            "stableKey": key, "name": name, "description": description, "draft": draft,
        });
        api.post("/agents", agent).await?;
        api.post(&format!("/agents/{key}/versions"), json!({})).await?;
    }

    let team = json!({
        "slug": "shipping", "name": "Shipping", "description": "Gets Harbour to its users",
        "budget": {"monthlyUsd": 200},
    });
    let team = id(&api.post("/teams", team).await?);
    let mut members = Vec::new();
    for (key, role, skills) in [
        ("lead", "scrum_master", json!(["planning"])),
        ("scribe", "member", json!(["writing", "changelogs"])),
        ("tester", "member", json!(["reproduction"])),
    ] {
        let body = json!({"stableKey": key, "role": role, "skills": skills});
        members.push(id(&api.post(&format!("/teams/{team}/agents"), body).await?));
    }
    let [lead, scribe, tester] = [0, 1, 2].map(|i| members[i].clone());

    let crash = json!({
        "title": "The importer stops at empty lines", "priority": 1, "assigneeAgentId": tester,
        "description": "Reported twice this week; the file is attached to issue 112.",
    });
    let crash = id(&api.post(&format!("/teams/{team}/tasks"), crash).await?);
    let plan = json!({"title": "Plan the next release", "priority": 2});
    api.post(&format!("/teams/{team}/tasks"), plan).await?;
    let note = json!({"taskId": crash, "body": "It also happens with Windows line ends."});
    api.post(&format!("/teams/{team}/messages"), note).await?;
    let mail = json!({
        "toAgentId": lead, "subject": "Welcome", "body": "Please keep the board under ten tasks.",
    });
    api.post(&format!("/teams/{team}/messages"), mail).await?;
    let run = json!({"status": "succeeded", "costUsd": 0.42, "taskId": crash});
    api.post(&format!("/teams/{team}/agents/{tester}/runs"), run).await?;
    let memory = json!({
        "content": "Release notes name the user's gain first, then the change.",
        "tags": ["style"],
    });
    api.post(&format!("/teams/{team}/agents/{scribe}/memories"), memory).await?;
    let milestone = json!({"kind": "milestone", "title": "Harbour 1.0 is out", "agentId": lead});
    api.post(&format!("/teams/{team}/timeline"), milestone).await?;
    Ok(Sample { team, scribe })
}

fn id(made: &Value) -> String {
    made["id"].as_str().unwrap_or_default().to_string()
}
