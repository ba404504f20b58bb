//! The sample organization: a small team that ships a product, created through the API.

use serde_json::{Value, json};

use super::client::Client;
use crate::base::Error;

/// Ids of the sample that the demo uses later.
#[derive(Clone)]
pub struct Sample {
    pub team: String,
    /// The team member that the demo runs.
    pub scribe: String,
    /// The deployment that waits for an approval.
    pub pending: String,
}

/// The slug of the sample registry.
const REGISTRY: &str = "harbour";

/// Agents: stable key, name, description, model.
const AGENTS: [(&str, &str, &str, &str); 3] = [
    ("lead", "Lead", "Keeps the board in order and hands out work", "claude-sonnet"),
    ("scribe", "Scribe", "Writes release notes, changelogs and answers", "claude-sonnet"),
    ("tester", "Tester", "Reproduces what users report", "gpt-mini"),
];

/// The promptlet that every prompt imports.
const VOICE: &str = "Write plainly, in short sentences, for people who have little time. \
                     You speak for {{TEAM}}.";

/// Prompts: name, version, text.
const PROMPTS: [(&str, &str, &str); 4] = [
    (
        "lead",
        "1.0.0",
        "{{ import \"voice@^1.0\" }}\n\nYou keep the board. Every morning, look for tasks that \
         nobody has and give each to whoever can do it. More than ten open tasks are too many: \
         say which can wait.\n",
    ),
    (
        "scribe",
        "1.0.0",
        "{{ import \"voice@^1.0\" }}\n\nYou write release notes for {{PRODUCT}}.\n",
    ),
    (
        "scribe",
        "1.1.0",
        "{{ import \"voice@^1.0\" }}\n\nYou write release notes for {{PRODUCT}}. Name what the \
         user gains first, then what was changed; leave out what only we would notice.\n",
    ),
    (
        "tester",
        "1.0.0",
        "{{ import \"voice@^1.0\" }}\n\nYou reproduce what users of {{PRODUCT}} report. Answer \
         with the shortest steps that show it, what happens, and what should.\n",
    ),
];

/// Creates the registry with the prompts of the agents, each version with the label `production`.
async fn create_registry(api: &Client, session: &Client) -> Result<(), Error> {
    let registry = json!({
        "slug": REGISTRY, "name": "Harbour", "description": "What our agents are told",
    });
    session.post("/registries", registry).await?;
    let voice = ("promptlet", "voice", "1.0.0", VOICE);
    let prompts = PROMPTS.map(|(name, version, text)| ("prompt", name, version, text));
    for (kind, name, version, source) in std::iter::once(voice).chain(prompts) {
        let publication = json!({
            "registryRef": REGISTRY, "artifactType": kind, "name": name, "version": version,
            "source": source,
        });
        api.post("/registries/artifacts", publication).await?;
        let label = json!({
            "registryRef": REGISTRY, "promptName": name, "artifactType": kind,
            "label": "production", "version": version,
        });
        api.patch("/registries/artifacts/labels", label).await?;
    }
    let policy = json!({
        "name": "No keys in prompts", "severity": "error",
        "rules": [{"type": "forbidPattern", "value": "sk-[A-Za-z0-9]{20,}"}],
    });
    let policy = id(&api.post("/governance/policies", policy).await?);
    let assignment = json!({"registryRef": REGISTRY});
    api.post(&format!("/governance/policies/{policy}/assignments"), assignment).await?;
    let draft = json!({
        "registryRef": REGISTRY, "artifactType": "prompt", "draftVersion": "1.1.0",
        "body": "{{ import \"voice@^1.0\" }}\n\nYou reproduce what users report, and say how sure \
                 you are.\n",
    });
    api.post("/prompts/tester/drafts", draft).await?;
    Ok(())
}

/// Creates the environments; the owner approves what is deployed to production.
async fn create_environments(api: &Client, session: &Client) -> Result<(), Error> {
    let owner = session.get("/auth/session").await?["user"]["id"].take();
    api.post("/environments", json!({"slug": "staging", "name": "Staging"})).await?;
    let production = json!({
        "slug": "production", "name": "Production", "approvals": {"approverIds": [owner]},
    });
    api.post("/environments", production).await?;
    Ok(())
}

/// Documents of the knowledge base: name, text.
const DOCUMENTS: [(&str, &str); 3] = [
    (
        "On call",
        "Whoever is on call answers within 15 minutes. If nobody does, the lead is called. Hand over \
         on Mondays at ten, with a note on what is open.",
    ),
    (
        "Releases",
        "A release goes out on Thursdays. The scribe drafts the notes on Tuesday; they name what the \
         user gains first. Nothing is released on the day before a holiday.",
    ),
    (
        "Reporting bugs",
        "A report needs the version, the shortest steps that show the bug, what happens and what \
         should. Attach the file with which it happens, without names of customers.",
    ),
];

/// Creates the knowledge base.
async fn create_knowledge_base(session: &Client) -> Result<(), Error> {
    let base = json!({"name": "Handbook", "description": "How we work, for people and agents"});
    let base = id(&session.post("/knowledge-bases", base).await?);
    for (name, content) in DOCUMENTS {
        let document = json!({"name": name, "content": content});
        session.post(&format!("/knowledge-bases/{base}/documents"), document).await?;
    }
    Ok(())
}

/// Deploys the prompts to staging, and that of `scribe` to production, which waits for its approval.
/// Returns that deployment.
async fn deploy(api: &Client) -> Result<String, Error> {
    let deployment = |agent: &str, environment: &str| {
        json!({
            "agentIds": [agent], "promptName": agent, "version": "production",
            "environment": environment, "provider": "anthropic",
            "agentVariables": {"PRODUCT": "Harbour"},
        })
    };
    for (agent, ..) in AGENTS {
        api.post("/agents/deployments", deployment(agent, "staging")).await?;
    }
    Ok(id(&api.post("/agents/deployments", deployment("scribe", "production")).await?))
}

/// Makes it all; registries and knowledge bases are made in a session.
pub async fn fill(api: &Client, session: &Client) -> Result<Sample, Error> {
    create_environments(api, session).await?;
    create_registry(api, session).await?;
    create_knowledge_base(session).await?;
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
            "registryRef": "acme/harbour", "promptName": key, "promptVersion": "production", "model": model, "provider": "anthropic",
            "toolRefs": [{"toolId": search["id"]}], "variables": {"TEAM": "Shipping"},
        });
        let agent = json!({
            "stableKey": key, "name": name, "description": description, "draft": draft,
        });
        api.post("/agents", agent).await?;
        api.post(&format!("/agents/{key}/versions"), json!({})).await?;
    }
    let pending = deploy(api).await?;

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
    Ok(Sample { team, scribe, pending })
}

fn id(made: &Value) -> String {
    made["id"].as_str().unwrap_or_default().to_string()
}
