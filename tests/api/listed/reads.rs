//! Lists and reads.

use serde_json::{Value, json};

use super::{
    Listed, OWN, READ, RESTRICTED_READ, Row, SESSION, SESSION_ADMIN, SESSION_RESTRICTED, Sample,
    World,
};

/// What is about no organization.
const ANY_CREDENTIAL: Row = [401, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200];
/// The same for keys with a scope, which is not that of one of them.
const ANY_CHANNELS: Row = [401, 200, 403, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200];
/// The one scope that the key with another scope has.
const FLAGS: Row = [401, 200, 200, 200, 200, 200, 200, 200, 200, 404, 404, 200, 200];

/// What everybody reads.
const ANYBODY: Row = [200; 13];

fn get(path: impl Into<String>) -> Sample {
    (path.into(), Value::Null)
}

/// What is read of the restricted registry.
fn of_vault(world: &World, path: &str, query: &str) -> Sample {
    get(format!("/registries/{path}?registryRef={}&promptName={query}", world.named("vault")))
}

pub const LISTED: &[Listed] = &[
    // Oneself.
    ("GET /whoami", ANY_CREDENTIAL, |_| get("/whoami")),
    ("GET /auth/session", OWN, |_| get("/auth/session")),
    ("GET /auth/second-factor", OWN, |_| get("/auth/second-factor")),
    ("GET /auth/sessions", OWN, |_| get("/auth/sessions")),
    ("GET /auth/providers", ANYBODY, |_| get("/auth/providers")),
    ("GET /auth/links", OWN, |_| get("/auth/links")),
    ("GET /organizations/sign-in", SESSION_ADMIN, |_| get("/organizations/sign-in")),
    ("GET /auth/user", OWN, |_| get("/auth/user")),
    ("GET /organizations", OWN, |_| get("/organizations")),
    ("GET /notifications/action-workflows", ANY_CHANNELS, |_| {
        get("/notifications/action-workflows")
    }),
    // The organization.
    ("GET /organizations/members/{userId}", READ, |w| {
        get(format!("/organizations/members/{}", w.acme.member_id))
    }),
    ("GET /organizations/service-accounts/{serviceAccountId}", SESSION_ADMIN, |w| {
        get(format!("/organizations/service-accounts/{}", w.account()))
    }),
    ("GET /organizations/domains", READ, |_| get("/organizations/domains")),
    ("GET /organizations/domains/{domainId}", READ, |w| {
        get(format!("/organizations/domains/{}", w.domain()))
    }),
    ("GET /agent-index/listings", READ, |_| get("/agent-index/listings")),
    ("GET /agent-index/listings/{listingId}/agent-card.json", READ, |w| {
        get(format!("/agent-index/listings/{}/agent-card.json", w.listed()))
    }),
    // Agents and deployments.
    ("GET /agents", READ, |_| get("/agents")),
    ("GET /agents/{stableKey}/versions", RESTRICTED_READ, |_| get("/agents/quiet/versions")),
    ("GET /agents/{stableKey}/versions/diff", RESTRICTED_READ, |_| {
        get("/agents/quiet/versions/diff?from=1&to=1")
    }),
    ("GET /agents/{stableKey}/environments", RESTRICTED_READ, |_| {
        get("/agents/quiet/environments")
    }),
    ("GET /agents/{stableKey}/deployment-history", RESTRICTED_READ, |_| {
        get("/agents/quiet/deployment-history")
    }),
    ("GET /agents/deployments", READ, |_| get("/agents/deployments")),
    ("GET /agents/deployments/{jobId}/changes", READ, |w| {
        get(format!("/agents/deployments/{}/changes", w.waiting()))
    }),
    ("GET /deployments/{deploymentId}", SESSION_RESTRICTED, |w| {
        get(format!("/deployments/{}", w.deployed()))
    }),
    ("GET /deployments/heatmap", SESSION, |_| get("/deployments/heatmap")),
    ("GET /deployments/live", SESSION, |w| {
        get(format!("/deployments/live?registryRef={}&promptName=plain", w.named("open")))
    }),
    ("GET /environments", READ, |_| get("/environments")),
    ("GET /environments/variables/{variableName}/usage", READ, |_| {
        get("/environments/variables/NAME/usage")
    }),
    ("GET /fleets", SESSION, |_| get("/fleets")),
    ("GET /tools", READ, |_| get("/tools")),
    ("GET /tools/types", READ, |_| get("/tools/types")),
    ("GET /tools/{toolId}", READ, |w| get(w.tool())),
    ("GET /tools/{toolId}/versions", READ, |w| get(format!("{}/versions", w.tool()))),
    // Registries and policies.
    ("GET /registries", READ, |_| get("/registries")),
    ("GET /registries/artifact-versions", RESTRICTED_READ, |w| {
        of_vault(w, "artifact-versions", "plain")
    }),
    ("GET /registries/artifact-versions/diff", RESTRICTED_READ, |w| {
        of_vault(w, "artifact-versions/diff", "plain&from=1.0.0&to=1.0.0")
    }),
    ("GET /registries/artifact-versions/dependents", RESTRICTED_READ, |w| {
        of_vault(w, "artifact-versions/dependents", "tone&artifactType=promptlet")
    }),
    ("GET /registries/artifacts/labels/history", RESTRICTED_READ, |w| {
        of_vault(w, "artifacts/labels/history", "plain")
    }),
    ("GET /registries/{registrySlug}/protected-labels", RESTRICTED_READ, |w| {
        get(format!("/registries/{}/protected-labels", w.registry))
    }),
    ("GET /registries/artifacts/label-changes", READ, |_| {
        get("/registries/artifacts/label-changes")
    }),
    ("GET /registries/artifacts/label-changes/{changeId}", RESTRICTED_READ, |w| {
        get(w.label_change())
    }),
    ("GET /registries/artifacts/label-changes/{changeId}/approvals", RESTRICTED_READ, |w| {
        get(format!("{}/approvals", w.label_change()))
    }),
    ("GET /registries/artifacts/label-changes/{changeId}/diff", RESTRICTED_READ, |w| {
        get(format!("{}/diff", w.label_change()))
    }),
    ("GET /prompts/{promptName}/drafts/{draftId}", RESTRICTED_READ, |w| {
        let (drafts, id, query) = w.draft();
        get(format!("{drafts}/{id}?{query}"))
    }),
    ("GET /governance/policies", READ, |_| get("/governance/policies")),
    ("GET /governance/policies/{policyId}", READ, |w| get(w.policy())),
    ("GET /governance/policies/{policyId}/assignments", READ, |w| {
        get(format!("{}/assignments", w.policy()))
    }),
    ("GET /governance/flags", FLAGS, |_| get("/governance/flags")),
    // What calls others, or tells them.
    ("GET /llm-providers", READ, |_| get("/llm-providers")),
    ("GET /llm-providers/{id}", READ, |w| get(format!("/llm-providers/{}", w.llm_provider()))),
    ("GET /prompt-providers", READ, |_| get("/prompt-providers")),
    ("GET /prompt-providers/{id}", READ, |w| {
        get(format!("/prompt-providers/{}", w.prompt_provider()))
    }),
    ("GET /prompt-providers/{id}/prompts", READ, |w| get(format!("{}/prompts", w.served()))),
    ("GET /notifications/logs", READ, |_| get("/notifications/logs")),
    ("GET /notifications/channels", READ, |_| get("/notifications/channels")),
    ("GET /notifications/channels/{channelId}", READ, |w| {
        get(format!("/notifications/channels/{}", w.channel()))
    }),
    ("GET /notifications/subscriptions", READ, |_| get("/notifications/subscriptions")),
    ("GET /model-prices", READ, |_| get("/model-prices")),
    ("GET /model-prices/{model}", READ, |w| get(w.price())),
    // Knowledge bases.
    ("GET /knowledge-bases", SESSION, |_| get("/knowledge-bases")),
    ("GET /knowledge-bases/{id}", SESSION, |w| {
        get(format!("/knowledge-bases/{}", w.knowledge_base()))
    }),
    ("GET /knowledge-bases/{id}/documents", SESSION, |w| {
        get(format!("/knowledge-bases/{}/documents", w.knowledge_base()))
    }),
    ("GET /knowledge-bases/{id}/documents/{documentId}", SESSION, |w| get(w.document())),
    ("GET /knowledge-bases/{id}/search", SESSION, |w| {
        get(format!("/knowledge-bases/{}/search?q=words", w.knowledge_base()))
    }),
    // Teams.
    ("GET /teams", READ, |_| get("/teams")),
    ("GET /teams/approvals", READ, |_| get("/teams/approvals")),
    ("GET /teams/exchange/peers", READ, |_| get("/teams/exchange/peers")),
    ("GET /teams/assigned", READ, |_| get("/teams/assigned")),
    ("GET /teams/failed-wakes", READ, |_| get("/teams/failed-wakes")),
    ("GET /teams/inbox", READ, |_| get("/teams/inbox")),
    ("GET /teams/low-budgets", READ, |_| get("/teams/low-budgets")),
    ("GET /teams/overdue", READ, |_| get("/teams/overdue")),
    ("GET /teams/pause", READ, |_| get("/teams/pause")),
    ("GET /teams/{teamId}", READ, |w| get(w.in_team(""))),
    ("GET /teams/{teamId}/activity", READ, |w| get(w.in_team("/activity"))),
    ("GET /teams/{teamId}/agents", READ, |w| get(w.in_team("/agents"))),
    // That it is in the team is no secret.
    ("GET /teams/{teamId}/agents/{agentId}", READ, |w| get(w.of_quiet(""))),
    ("GET /teams/{teamId}/approvals", READ, |w| get(w.in_team("/approvals"))),
    ("GET /teams/{teamId}/exchange/domain-rules", READ, |w| {
        get(w.in_team("/exchange/domain-rules"))
    }),
    ("GET /teams/{teamId}/exchange/peers", READ, |w| get(w.in_team("/exchange/peers"))),
    ("GET /teams/{teamId}/exchange/peers/{peerId}", READ, |w| get(w.peer())),
    ("GET /teams/{teamId}/messages", READ, |w| get(w.in_team("/messages"))),
    ("GET /teams/{teamId}/schedules", READ, |w| get(w.in_team("/schedules"))),
    ("GET /teams/{teamId}/schedules/{scheduleId}", RESTRICTED_READ, |w| get(w.schedule())),
    ("GET /teams/{teamId}/schedules/{scheduleId}/runs", RESTRICTED_READ, |w| {
        get(format!("{}/runs", w.schedule()))
    }),
    ("GET /teams/{teamId}/tasks", READ, |w| get(w.in_team("/tasks"))),
    ("GET /teams/{teamId}/tasks/{taskId}", READ, |w| get(w.task())),
    ("GET /teams/{teamId}/timeline", READ, |w| get(w.in_team("/timeline"))),
    ("GET /teams/{teamId}/usage", READ, |w| get(w.in_team("/usage"))),
];

impl World {
    pub fn tool(&self) -> String {
        let new = json!({"name": "t", "type": "function"});
        format!("/tools/{}", self.owner().post("/tools", new).id())
    }

    pub fn price(&self) -> String {
        let path = format!("/model-prices/{}", self.fresh("model"));
        self.owner().put(&path, json!({"inputUsd": 1, "outputUsd": 2})).ok();
        path
    }

    pub fn document(&self) -> String {
        let documents = format!("/knowledge-bases/{}/documents", self.knowledge_base());
        let new = json!({"name": "D", "content": "words"});
        format!("{documents}/{}", self.owner().post(&documents, new).id())
    }

    /// What is deployed to the restricted agent.
    pub fn deployed(&self) -> String {
        self.owner().get("/agents/quiet/deployed?environment=dev").id()
    }
}
