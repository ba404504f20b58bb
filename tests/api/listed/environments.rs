//! Environments with their variables, secrets and credentials; deployments and their approvals; agents
//! of a restricted fleet; providers and channels.

use serde_json::{Value, json};

use super::{
    ADMIN_WRITE, APPROVER, Listed, READ, RESTRICTED_READ, RESTRICTED_WRITE, SESSION, SESSION_ADMIN,
    SESSION_RESTRICTED, SESSION_WRITE, World,
};

impl World {
    fn below(&self, path: &str) -> String {
        format!("/environments/{}{path}", self.environment)
    }

    fn set(&self, kind: &str, value: Value) -> String {
        let path = self.below(&format!("/{kind}/{}", self.fresh("NAME").replace('-', "_")));
        self.owner().put(&path, value).ok();
        path
    }

    /// A deployment of the granted member that waits for an approval; the job.
    pub fn waiting(&self) -> String {
        let agent = self.agent(Value::Null);
        let new = self.deployment(&agent, "gated");
        self.granted.post("/agents/deployments", new).id()
    }

    /// A new agent of this fleet.
    fn agent(&self, fleet: Value) -> String {
        let key = self.fresh("agent");
        let new = json!({"stableKey": key, "name": "A", "fleetId": fleet});
        self.owner().post("/agents", new).ok();
        key
    }

    pub fn restricted_agent(&self) -> String {
        self.agent(json!(self.fleet))
    }

    pub fn channel(&self) -> String {
        // There are at most 100.
        for old in self.owner().get("/notifications/channels").items() {
            if old["workflow"] == "webhook" {
                let path = format!("/notifications/channels/{}", old["id"].as_str().unwrap());
                self.owner().delete(&path).ok();
            }
        }
        let new = json!({"name": "C", "workflow": "webhook",
            "config": {"url": "https://hooks.test/"}});
        self.owner().post("/notifications/channels", new).id()
    }

    pub fn llm_provider(&self) -> String {
        self.owner().post("/llm-providers", llm_provider()).id()
    }

    pub fn prompt_provider(&self) -> String {
        self.owner().post("/prompt-providers", prompt_provider()).id()
    }

    pub fn knowledge_base(&self) -> String {
        self.owner().post("/knowledge-bases", json!({"name": "K"})).id()
    }
}

fn llm_provider() -> Value {
    json!({"name": "L", "provider": "custom", "baseUrl": "http://127.0.0.1:9/", "apiKey": "k"})
}

fn prompt_provider() -> Value {
    json!({"name": "P", "kind": "http", "baseUrl": "http://127.0.0.1:9/"})
}

pub const LISTED: &[Listed] = &[
    ("POST /environments", ADMIN_WRITE, |w| {
        ("/environments".into(), json!({"slug": w.fresh("environment"), "name": "E"}))
    }),
    ("GET /environments/{environmentId}", RESTRICTED_READ, |w| (w.below(""), Value::Null)),
    ("PATCH /environments/{environmentId}", ADMIN_WRITE, |w| (w.below(""), json!({"name": "E"}))),
    ("DELETE /environments/{environmentId}", ADMIN_WRITE, |w| {
        let new = json!({"slug": w.fresh("environment"), "name": "E"});
        (format!("/environments/{}", w.owner().post("/environments", new).id()), Value::Null)
    }),
    ("GET /environments/{environmentId}/variables", RESTRICTED_READ, |w| {
        (w.below("/variables"), Value::Null)
    }),
    ("GET /environments/{environmentId}/variables/{name}", RESTRICTED_READ, |w| {
        (w.set("variables", json!({"value": "v"})), Value::Null)
    }),
    ("PUT /environments/{environmentId}/variables/{name}", ADMIN_WRITE, |w| {
        (w.below("/variables/NAME"), json!({"value": "v"}))
    }),
    ("DELETE /environments/{environmentId}/variables/{name}", ADMIN_WRITE, |w| {
        (w.set("variables", json!({"value": "v"})), Value::Null)
    }),
    ("GET /environments/{environmentId}/secrets", RESTRICTED_READ, |w| {
        (w.below("/secrets"), Value::Null)
    }),
    ("PUT /environments/{environmentId}/secrets/{name}", ADMIN_WRITE, |w| {
        (w.below("/secrets/NAME"), json!({"value": "v"}))
    }),
    ("DELETE /environments/{environmentId}/secrets/{name}", ADMIN_WRITE, |w| {
        (w.set("secrets", json!({"value": "v"})), Value::Null)
    }),
    ("GET /environments/{environmentId}/provider-credentials", RESTRICTED_READ, |w| {
        (w.below("/provider-credentials"), Value::Null)
    }),
    ("PUT /environments/{environmentId}/provider-credentials/{name}", ADMIN_WRITE, |w| {
        (w.below("/provider-credentials/p"), json!({"apiKey": "k"}))
    }),
    ("DELETE /environments/{environmentId}/provider-credentials/{name}", ADMIN_WRITE, |w| {
        (w.set("provider-credentials", json!({"apiKey": "k"})), Value::Null)
    }),
    // Deployments.
    ("POST /agents/deployments", RESTRICTED_WRITE, |w| {
        let agent = w.agent(Value::Null);
        ("/agents/deployments".into(), w.deployment(&agent, "sealed"))
    }),
    ("POST /agents/deployments", RESTRICTED_WRITE, |w| {
        ("/agents/deployments".into(), w.deployment(&w.restricted_agent(), "dev"))
    }),
    ("POST /agents/tool-deployments", RESTRICTED_WRITE, |w| {
        let tool = w.owner().post("/tools", json!({"name": "t", "type": "function"})).id();
        let new = json!({"toolIds": [tool], "environment": "sealed"});
        ("/agents/tool-deployments".into(), new)
    }),
    ("GET /agents/deployments/{jobId}", RESTRICTED_READ, |w| {
        let new = w.deployment(&w.agent(Value::Null), "sealed");
        let job = w.owner().post("/agents/deployments", new).id();
        (format!("/agents/deployments/{job}"), Value::Null)
    }),
    ("GET /agents/deployments/{jobId}/approvals", READ, |w| {
        (format!("/agents/deployments/{}/approvals", w.waiting()), Value::Null)
    }),
    ("POST /agents/deployments/{jobId}/approve", APPROVER, |w| {
        (format!("/agents/deployments/{}/approve", w.waiting()), json!({}))
    }),
    ("POST /agents/deployments/{jobId}/deny", APPROVER, |w| {
        (format!("/agents/deployments/{}/deny", w.waiting()), json!({}))
    }),
    // By who has created it, and by admins.
    ("POST /agents/deployments/{jobId}/cancel", RESTRICTED_WRITE, |w| {
        (format!("/agents/deployments/{}/cancel", w.waiting()), json!({}))
    }),
    ("GET /deployments", SESSION, |_| ("/deployments".into(), Value::Null)),
    // Agents of a restricted fleet.
    ("GET /agents/{stableKey}", RESTRICTED_READ, |_| ("/agents/quiet".into(), Value::Null)),
    ("PATCH /agents/{stableKey}", RESTRICTED_WRITE, |_| {
        ("/agents/quiet".into(), json!({"name": "Quiet"}))
    }),
    ("DELETE /agents/{stableKey}", RESTRICTED_WRITE, |w| {
        (format!("/agents/{}", w.restricted_agent()), Value::Null)
    }),
    // Nobody puts an agent where they may not use it.
    ("POST /agents", RESTRICTED_WRITE, |w| {
        let new = json!({"stableKey": w.fresh("agent"), "name": "A", "fleetId": w.fleet});
        ("/agents".into(), new)
    }),
    ("POST /agents/{stableKey}/versions", RESTRICTED_WRITE, |_| {
        ("/agents/quiet/versions".into(), json!({}))
    }),
    ("GET /agents/{stableKey}/versions/{version}", RESTRICTED_READ, |_| {
        ("/agents/quiet/versions/1".into(), Value::Null)
    }),
    ("GET /agents/{stableKey}/deployed", RESTRICTED_READ, |_| {
        ("/agents/quiet/deployed?environment=dev".into(), Value::Null)
    }),
    ("POST /agents/{stableKey}/heartbeat", RESTRICTED_WRITE, |_| {
        ("/agents/quiet/heartbeat".into(), json!({"environment": "dev", "hash": "h"}))
    }),
    ("POST /agents/{stableKey}/pause", RESTRICTED_WRITE, |w| {
        (format!("/agents/{}/pause", w.restricted_agent()), json!({"reason": "r"}))
    }),
    ("GET /fleets/{fleetId}", SESSION_RESTRICTED, |w| {
        (format!("/fleets/{}", w.fleet), Value::Null)
    }),
    ("POST /fleets", SESSION_ADMIN, |_| ("/fleets".into(), json!({"name": "F"}))),
    ("PATCH /fleets/{fleetId}", SESSION_ADMIN, |w| {
        (format!("/fleets/{}", w.fleet), json!({"name": "F"}))
    }),
    ("DELETE /fleets/{fleetId}", SESSION_ADMIN, |w| {
        (format!("/fleets/{}", w.owner().post("/fleets", json!({"name": "F"})).id()), Value::Null)
    }),
    // What calls others, or tells them.
    ("POST /llm-providers", ADMIN_WRITE, |_| ("/llm-providers".into(), llm_provider())),
    ("PATCH /llm-providers/{id}", ADMIN_WRITE, |w| {
        (format!("/llm-providers/{}", w.llm_provider()), json!({"apiKey": "k"}))
    }),
    ("DELETE /llm-providers/{id}", ADMIN_WRITE, |w| {
        (format!("/llm-providers/{}", w.llm_provider()), Value::Null)
    }),
    ("POST /llm-providers/{id}/test", ADMIN_WRITE, |w| {
        (format!("/llm-providers/{}/test", w.llm_provider()), json!({}))
    }),
    ("POST /prompt-providers", ADMIN_WRITE, |_| ("/prompt-providers".into(), prompt_provider())),
    ("PATCH /prompt-providers/{id}", ADMIN_WRITE, |w| {
        (format!("/prompt-providers/{}", w.prompt_provider()), json!({"name": "P"}))
    }),
    ("DELETE /prompt-providers/{id}", ADMIN_WRITE, |w| {
        (format!("/prompt-providers/{}", w.prompt_provider()), Value::Null)
    }),
    ("POST /notifications/channels", ADMIN_WRITE, |_| {
        let new = json!({"name": "C", "workflow": "webhook",
            "config": {"url": "https://hooks.test/"}});
        ("/notifications/channels".into(), new)
    }),
    ("PATCH /notifications/channels/{channelId}", ADMIN_WRITE, |w| {
        (format!("/notifications/channels/{}", w.channel()), json!({"enabled": false}))
    }),
    ("DELETE /notifications/channels/{channelId}", ADMIN_WRITE, |w| {
        (format!("/notifications/channels/{}", w.channel()), Value::Null)
    }),
    ("POST /notifications/channels/{channelId}/rotate-secret", ADMIN_WRITE, |w| {
        (format!("/notifications/channels/{}/rotate-secret", w.channel()), json!({}))
    }),
    ("POST /notifications/subscriptions", ADMIN_WRITE, |w| {
        let new = json!({"channelId": w.channel(), "eventType": "registry.deleted"});
        ("/notifications/subscriptions".into(), new)
    }),
    ("PUT /model-prices/{model}", ADMIN_WRITE, |_| {
        ("/model-prices/m".into(), json!({"inputUsd": 1, "outputUsd": 2}))
    }),
    // Knowledge bases.
    ("POST /knowledge-bases", SESSION_ADMIN, |_| ("/knowledge-bases".into(), json!({"name": "K"}))),
    ("DELETE /knowledge-bases/{id}", SESSION_ADMIN, |w| {
        (format!("/knowledge-bases/{}", w.knowledge_base()), Value::Null)
    }),
    ("POST /knowledge-bases/{id}/documents", SESSION_WRITE, |w| {
        let new = json!({"name": "D", "content": "words"});
        (format!("/knowledge-bases/{}/documents", w.knowledge_base()), new)
    }),
    ("DELETE /knowledge-bases/{id}/documents/{documentId}", SESSION_WRITE, |w| {
        let documents = format!("/knowledge-bases/{}/documents", w.knowledge_base());
        let new = json!({"name": "D", "content": "words"});
        (format!("{documents}/{}", w.owner().post(&documents, new).id()), Value::Null)
    }),
];
