//! Writes whose mistakes hurt less, so that no route is left out.

use serde_json::{Value, json};

use super::{
    ADMIN_WRITE, Listed, OWN, READ, RESTRICTED_READ, RESTRICTED_WRITE, SESSION_ADMIN,
    SESSION_WRITE, WRITE, World,
};
use crate::client::eventually;

pub const LISTED: &[Listed] = &[
    ("PATCH /auth/user", OWN, |_| ("/auth/user".into(), json!({"name": "Somebody"}))),
    ("DELETE /auth/sessions", OWN, |_| ("/auth/sessions".into(), Value::Null)),
    ("POST /organizations", OWN, |w| {
        let slug = format!("{}-{}", w.acme.slug, w.fresh("more"));
        ("/organizations".into(), json!({"slug": slug, "name": "More"}))
    }),
    // Agents, deployments, tools.
    ("POST /agents/{stableKey}/resume", RESTRICTED_WRITE, |w| {
        (format!("/agents/{}/resume", w.restricted_agent()), json!({}))
    }),
    ("POST /agents/{stableKey}/versions/{version}/restore", RESTRICTED_WRITE, |_| {
        ("/agents/quiet/versions/1/restore".into(), json!({}))
    }),
    ("POST /agents/deployments/preview", RESTRICTED_READ, |w| {
        ("/agents/deployments/preview".into(), w.deployment("open", "sealed"))
    }),
    ("POST /agents/deployments/{jobId}/rollback", RESTRICTED_WRITE, |w| {
        let agent = w.restricted_agent();
        let jobs = [w.deploy(&agent, "dev"), w.deploy(&agent, "dev")];
        (format!("/agents/deployments/{}/rollback", jobs[1]), json!({}))
    }),
    (
        "POST /agents/{stableKey}/deployment-history/{deploymentId}/redeploy",
        RESTRICTED_WRITE,
        |w| (format!("/agents/quiet/deployment-history/{}/redeploy", w.deployed()), json!({})),
    ),
    ("POST /tools", WRITE, |_| ("/tools".into(), json!({"name": "t", "type": "function"}))),
    ("PATCH /tools/{toolId}", WRITE, |w| (w.tool(), json!({"name": "t"}))),
    // Of what is restricted, it changes an environment.
    ("PATCH /tools/{toolId}", RESTRICTED_WRITE, |w| {
        (w.tool(), json!({"updateEnvironmentVersions": ["sealed"]}))
    }),
    ("DELETE /tools/{toolId}", WRITE, |w| (w.tool(), Value::Null)),
    // Texts.
    ("POST /prompts/{promptName}/compile", RESTRICTED_READ, |w| {
        let body = json!({"registryRef": w.named("vault"), "source": "Hello."});
        ("/prompts/plain/compile".into(), body)
    }),
    ("POST /prompts/{promptName}/preview", RESTRICTED_READ, |w| {
        let body = json!({"registryRef": w.named("vault"), "source": "Hello."});
        ("/prompts/plain/preview".into(), body)
    }),
    ("POST /prompts/{promptName}/try", RESTRICTED_WRITE, |w| {
        let body = json!({"registryRef": w.named("vault"), "llmProviderId": w.model});
        ("/prompts/plain/try".into(), body)
    }),
    ("POST /governance/check", READ, |w| {
        let policy = w.policy();
        let id = policy.rsplit('/').next().unwrap();
        ("/governance/check".into(), json!({"text": "Hello.", "policyIds": [id]}))
    }),
    ("POST /prompt-providers/{id}/import", RESTRICTED_WRITE, |w| {
        let prompts = json!([{"name": "served", "as": w.fresh("prompt")}]);
        let body = json!({"registryRef": w.named("vault"), "prompts": prompts});
        (format!("{}/import", w.served()), body)
    }),
    // Knowledge bases.
    ("PATCH /knowledge-bases/{id}", SESSION_ADMIN, |w| {
        (format!("/knowledge-bases/{}", w.knowledge_base()), json!({"name": "K"}))
    }),
    ("PUT /knowledge-bases/{id}/documents/{documentId}", SESSION_WRITE, |w| {
        (w.document(), json!({"name": "D", "content": "other words"}))
    }),
    // Notifications and prices.
    ("PATCH /notifications/subscriptions/{subscriptionId}", ADMIN_WRITE, |w| {
        (w.subscription(&w.channel()), json!({"enabled": false}))
    }),
    ("DELETE /notifications/subscriptions/{subscriptionId}", ADMIN_WRITE, |w| {
        (w.subscription(&w.channel()), Value::Null)
    }),
    ("POST /notifications/channels/{channelId}/test", ADMIN_WRITE, |w| {
        (format!("/notifications/channels/{}/test", w.channel()), json!({}))
    }),
    ("POST /notifications/channels/{channelId}/redeliver", ADMIN_WRITE, |w| {
        let body = json!({"from": "2026-01-01T00:00:00Z"});
        (format!("/notifications/channels/{}/redeliver", w.channel()), body)
    }),
    ("POST /notifications/logs/{logId}/redeliver", ADMIN_WRITE, |w| {
        let channel = w.channel();
        w.subscription(&channel);
        w.prompt();
        let entries = format!("/notifications/logs?channelId={channel}");
        let entry = eventually("there is an entry", || w.owner().get(&entries).items().pop());
        let id = entry["id"].as_str().unwrap().to_string();
        (format!("/notifications/logs/{id}/redeliver"), json!({}))
    }),
    ("DELETE /model-prices/{model}", ADMIN_WRITE, |w| (w.price(), Value::Null)),
    // Teams.
    ("POST /teams", WRITE, |w| ("/teams".into(), json!({"slug": w.fresh("team"), "name": "T"}))),
    ("PATCH /teams/{teamId}", WRITE, |w| (w.in_team(""), json!({"name": "Crew"}))),
    ("POST /teams/{teamId}/pause", WRITE, |w| {
        (format!("{}/pause", w.new_team()), json!({"reason": "r"}))
    }),
    ("POST /teams/{teamId}/resume", WRITE, |w| (format!("{}/resume", w.new_team()), json!({}))),
    ("POST /teams/{teamId}/agents", RESTRICTED_WRITE, |w| {
        (w.in_team("/agents"), json!({"stableKey": w.restricted_agent(), "role": "member"}))
    }),
    ("DELETE /teams/{teamId}/agents/{agentId}", RESTRICTED_WRITE, |w| {
        let hired = json!({"stableKey": w.restricted_agent(), "role": "member"});
        let id = w.owner().post(&w.in_team("/agents"), hired).id();
        (w.in_team(&format!("/agents/{id}")), Value::Null)
    }),
    ("POST /teams/{teamId}/agents/{agentId}/heartbeat", RESTRICTED_WRITE, |w| {
        (w.of_quiet("/heartbeat"), json!({"worker": "w"}))
    }),
    ("POST /teams/{teamId}/agents/{agentId}/resume", RESTRICTED_WRITE, |w| {
        (w.of_quiet("/resume"), json!({}))
    }),
    ("POST /teams/{teamId}/agents/{agentId}/wakes/retry", RESTRICTED_WRITE, |w| {
        (w.of_quiet("/wakes/retry"), json!({}))
    }),
    ("PATCH /teams/{teamId}/tasks/{taskId}", WRITE, |w| (w.task(), json!({"status": "done"}))),
    ("POST /teams/{teamId}/timeline", WRITE, |w| {
        (w.in_team("/timeline"), json!({"kind": "milestone", "title": "t"}))
    }),
    ("POST /teams/{teamId}/schedules", RESTRICTED_WRITE, |w| {
        let new = json!({"name": "s", "cron": "0 9 * * mon",
            "wake": {"agentId": w.quiet, "text": "t"}});
        (w.in_team("/schedules"), new)
    }),
    ("PATCH /teams/{teamId}/schedules/{scheduleId}", RESTRICTED_WRITE, |w| {
        (w.schedule(), json!({"name": "s"}))
    }),
    ("POST /teams/{teamId}/schedules/{scheduleId}/pause", RESTRICTED_WRITE, |w| {
        (format!("{}/pause", w.schedule()), json!({"reason": "r"}))
    }),
    ("POST /teams/{teamId}/schedules/{scheduleId}/resume", RESTRICTED_WRITE, |w| {
        (format!("{}/resume", w.schedule()), json!({}))
    }),
];

impl World {
    fn subscription(&self, channel: &str) -> String {
        let new = json!({"channelId": channel, "eventType": "registry.artifact_published"});
        let id = self.owner().post("/notifications/subscriptions", new).id();
        format!("/notifications/subscriptions/{id}")
    }

    fn new_team(&self) -> String {
        let new = json!({"slug": self.fresh("team"), "name": "T"});
        format!("/teams/{}", self.owner().post("/teams", new).id())
    }
}
