//! Registries, their artifacts and policies.

use serde_json::{Value, json};

use super::{
    ADMIN_WRITE, APPROVER, Listed, PUBLIC, RESTRICTED_READ, RESTRICTED_WRITE, SESSION_ADMIN, World,
};
use crate::registries::publish;

/// What is read of the prompt of a registry.
const CONTENT: &str = "/registries/artifact-versions/content";

impl World {
    fn new_registry(&self) -> String {
        let new = json!({"slug": self.fresh("registry"), "name": "R"});
        format!("/registries/{}", self.owner().post("/registries", new).id())
    }

    /// A version in the restricted registry that is not published yet.
    fn version(&self) -> Value {
        json!({"registryRef": self.named("vault"), "artifactType": "prompt",
            "name": self.fresh("prompt"), "version": "1.0.0", "source": "Hello."})
    }

    /// A prompt in the restricted registry; its name.
    pub fn prompt(&self) -> String {
        let name = self.fresh("prompt");
        publish(&self.acme, ["vault", "prompt", &name, "1.0.0"], "Hello.");
        name
    }

    fn label(&self, name: &str) -> Value {
        json!({"registryRef": self.named("vault"), "promptName": name, "label": "live",
            "version": "1.0.0"})
    }

    /// A change of a protected label in the restricted registry, which the member with the grants has asked
    /// for and is to approve; its path.
    pub fn label_change(&self) -> String {
        let approver = self.granted.get("/auth/user").ok()["id"].clone();
        let protection = json!({"minRole": "member", "approvals": {"approverIds": [approver]}});
        self.owner().put(&self.protected("gated"), protection).ok();
        let mut moved = self.label(&self.prompt());
        moved["label"] = json!("gated");
        let moved = self.granted.patch("/registries/artifacts/labels", moved).ok();
        let id = moved["pendingChange"]["id"].as_str().expect("it waits").to_string();
        format!("/registries/artifacts/label-changes/{id}")
    }

    /// The path of a protected label of the restricted registry.
    fn protected(&self, label: &str) -> String {
        format!("/registries/{}/protected-labels/{label}", self.registry)
    }

    /// A draft in the restricted registry: the path of its prompt's drafts, its id, and the query.
    pub fn draft(&self) -> (String, String, String) {
        let drafts = format!("/prompts/{}/drafts", self.fresh("prompt"));
        let draft = json!({"registryRef": self.named("vault"), "artifactType": "prompt",
            "draftVersion": "1.0.0", "body": "Hello."});
        let id = self.owner().post(&drafts, draft).id();
        (drafts, id, format!("registryRef={}&artifactType=prompt", self.named("vault")))
    }

    /// An input of a prompt in the restricted registry: the path of its prompt's inputs, its own, and the
    /// query.
    pub fn input(&self) -> (String, String, String) {
        let name = self.prompt();
        let inputs = format!("/prompts/{name}/inputs");
        self.owner().post(&inputs, json!({"registryRef": self.named("vault"), "name": "one"})).ok();
        let one = format!("{inputs}/one");
        (inputs, one, format!("registryRef={}", self.named("vault")))
    }

    pub fn policy(&self) -> String {
        let rules = json!([{"type": "maxLength", "value": 0}]);
        let policy = json!({"name": "P", "severity": "warning", "rules": rules});
        format!("/governance/policies/{}", self.owner().post("/governance/policies", policy).id())
    }

    /// Assigns a new policy to a new registry; the path of the assignment, and the registry's slug.
    fn assignment(&self) -> (String, String) {
        let slug = self.fresh("registry");
        self.owner().post("/registries", json!({"slug": slug, "name": "R"})).ok();
        let assignments = format!("{}/assignments", self.policy());
        let new = json!({"registryRef": self.named(&slug)});
        let id = self.owner().post(&assignments, new).id();
        (format!("{assignments}/{id}"), slug)
    }

    fn flag(&self) -> String {
        let (_, slug) = self.assignment();
        publish(&self.acme, [&slug, "prompt", "plain", "1.0.0"], "Hello.");
        let flags = self.owner().get("/governance/flags").items();
        format!("/governance/flags/{}", flags[0]["id"].as_str().unwrap())
    }
}

pub const LISTED: &[Listed] = &[
    ("POST /registries", SESSION_ADMIN, |w| {
        ("/registries".into(), json!({"slug": w.fresh("registry"), "name": "R"}))
    }),
    ("GET /registries/{registrySlug}", RESTRICTED_READ, |w| {
        (format!("/registries/{}", w.registry), Value::Null)
    }),
    ("PATCH /registries/{registrySlug}", SESSION_ADMIN, |w| {
        (w.new_registry(), json!({"visibility": "public"}))
    }),
    ("PATCH /registries/{registrySlug}", SESSION_ADMIN, |w| {
        (w.new_registry(), json!({"access": "restricted"}))
    }),
    ("DELETE /registries/{registrySlug}", SESSION_ADMIN, |w| (w.new_registry(), Value::Null)),
    ("GET /registries/artifact-versions/content", RESTRICTED_READ, |w| {
        (format!("{CONTENT}?registryRef={}&promptName=plain", w.named("vault")), Value::Null)
    }),
    ("GET /registries/artifact-versions/content", PUBLIC, |w| {
        (format!("{CONTENT}?registryRef={}&promptName=plain", w.named("public")), Value::Null)
    }),
    ("GET /registries/artifacts", RESTRICTED_READ, |w| {
        (format!("/registries/artifacts?registryRef={}", w.named("vault")), Value::Null)
    }),
    ("POST /registries/artifacts", RESTRICTED_WRITE, |w| {
        ("/registries/artifacts".into(), w.version())
    }),
    ("POST /registries/artifact-versions/clone", RESTRICTED_WRITE, |w| {
        let to = json!({"registryRef": w.named("open"), "promptName": w.fresh("prompt")});
        let clone = json!({"registryRef": w.named("vault"), "promptName": "plain",
            "version": "1.0.0", "to": to});
        ("/registries/artifact-versions/clone".into(), clone)
    }),
    ("DELETE /registries/artifact-versions", RESTRICTED_WRITE, |w| {
        let query = format!("registryRef={}&promptName={}", w.named("vault"), w.prompt());
        (format!("/registries/artifact-versions?{query}&version=1.0.0"), Value::Null)
    }),
    ("PATCH /registries/artifacts", RESTRICTED_WRITE, |w| {
        let tags =
            json!({"registryRef": w.named("vault"), "promptName": w.prompt(), "tags": ["x"]});
        ("/registries/artifacts".into(), tags)
    }),
    ("PATCH /registries/artifacts/labels", RESTRICTED_WRITE, |w| {
        ("/registries/artifacts/labels".into(), w.label(&w.prompt()))
    }),
    ("DELETE /registries/artifacts/labels", RESTRICTED_WRITE, |w| {
        let name = w.prompt();
        w.owner().patch("/registries/artifacts/labels", w.label(&name)).ok();
        let query = format!("registryRef={}&promptName={name}&label=live", w.named("vault"));
        (format!("/registries/artifacts/labels?{query}"), Value::Null)
    }),
    ("GET /registries/{registrySlug}/protected-labels/{label}", RESTRICTED_READ, |w| {
        w.owner().put(&w.protected("held"), json!({"minRole": "admin"})).ok();
        (w.protected("held"), Value::Null)
    }),
    ("PUT /registries/{registrySlug}/protected-labels/{label}", SESSION_ADMIN, |w| {
        (w.protected("held"), json!({"minRole": "admin"}))
    }),
    ("DELETE /registries/{registrySlug}/protected-labels/{label}", SESSION_ADMIN, |w| {
        w.owner().put(&w.protected("held"), json!({"minRole": "admin"})).ok();
        (w.protected("held"), Value::Null)
    }),
    ("POST /registries/artifacts/label-changes/{changeId}/approve", APPROVER, |w| {
        (format!("{}/approve", w.label_change()), json!({}))
    }),
    ("POST /registries/artifacts/label-changes/{changeId}/deny", APPROVER, |w| {
        (format!("{}/deny", w.label_change()), json!({"comment": "No"}))
    }),
    ("POST /registries/artifacts/label-changes/{changeId}/cancel", RESTRICTED_WRITE, |w| {
        (format!("{}/cancel", w.label_change()), json!({}))
    }),
    // Drafts: also of a public registry for members alone.
    ("GET /prompts/{promptName}/drafts", RESTRICTED_READ, |w| {
        let (drafts, _, query) = w.draft();
        (format!("{drafts}?{query}"), Value::Null)
    }),
    ("GET /prompts/{promptName}/drafts", super::READ, |w| {
        let query = format!("registryRef={}&artifactType=prompt", w.named("public"));
        (format!("/prompts/plain/drafts?{query}"), Value::Null)
    }),
    ("POST /prompts/{promptName}/drafts", RESTRICTED_WRITE, |w| {
        let draft = json!({"registryRef": w.named("vault"), "artifactType": "prompt",
            "draftVersion": "1.0.0", "body": "Hello."});
        (format!("/prompts/{}/drafts", w.fresh("prompt")), draft)
    }),
    ("DELETE /prompts/{promptName}/drafts/{draftId}", RESTRICTED_WRITE, |w| {
        let (drafts, id, query) = w.draft();
        (format!("{drafts}/{id}?{query}"), Value::Null)
    }),
    ("POST /prompts/{promptName}/drafts/{draftId}/publish", RESTRICTED_WRITE, |w| {
        let (drafts, id, _) = w.draft();
        (format!("{drafts}/{id}/publish"), json!({"registryRef": w.named("vault")}))
    }),
    ("POST /prompts/{promptName}/render", RESTRICTED_READ, |w| {
        ("/prompts/plain/render".into(), json!({"registryRef": w.named("vault")}))
    }),
    // Inputs, which are never public.
    ("GET /prompts/inputs", RESTRICTED_READ, |w| {
        (format!("/prompts/inputs?{}", w.input().2), Value::Null)
    }),
    ("GET /prompts/{promptName}/inputs", RESTRICTED_READ, |w| {
        let (inputs, _, query) = w.input();
        (format!("{inputs}?{query}"), Value::Null)
    }),
    ("GET /prompts/{promptName}/inputs/{inputName}", RESTRICTED_READ, |w| {
        let (_, one, query) = w.input();
        (format!("{one}?{query}"), Value::Null)
    }),
    ("POST /prompts/{promptName}/inputs", RESTRICTED_WRITE, |w| {
        let path = format!("/prompts/{}/inputs", w.fresh("prompt"));
        (path, json!({"registryRef": w.named("vault"), "name": "one"}))
    }),
    ("PATCH /prompts/{promptName}/inputs/{inputName}", RESTRICTED_WRITE, |w| {
        (w.input().1, json!({"registryRef": w.named("vault"), "message": "Hi."}))
    }),
    ("DELETE /prompts/{promptName}/inputs/{inputName}", RESTRICTED_WRITE, |w| {
        let (_, one, query) = w.input();
        (format!("{one}?{query}"), Value::Null)
    }),
    ("POST /prompts/{promptName}/compare", RESTRICTED_WRITE, |w| {
        let (inputs, _, _) = w.input();
        let compare = json!({"registryRef": w.named("vault"), "left": {}, "right": {},
            "llmProviderId": w.llm_provider(), "maxSeconds": 5});
        (inputs.replace("/inputs", "/compare"), compare)
    }),
    // Policies.
    ("POST /governance/policies", ADMIN_WRITE, |_| {
        let rules = json!([{"type": "maxLength", "value": 9}]);
        let new = json!({"name": "P", "severity": "error", "rules": rules});
        ("/governance/policies".into(), new)
    }),
    ("PATCH /governance/policies/{policyId}", ADMIN_WRITE, |w| {
        (w.policy(), json!({"severity": "error"}))
    }),
    ("DELETE /governance/policies/{policyId}", ADMIN_WRITE, |w| (w.policy(), Value::Null)),
    ("POST /governance/policies/{policyId}/assignments", ADMIN_WRITE, |w| {
        (format!("{}/assignments", w.policy()), json!({"registryRef": w.named("open")}))
    }),
    ("DELETE /governance/policies/{policyId}/assignments/{assignmentId}", ADMIN_WRITE, |w| {
        (w.assignment().0, Value::Null)
    }),
    ("POST /governance/flags/{flagId}/clear", ADMIN_WRITE, |w| {
        (format!("{}/clear", w.flag()), json!({}))
    }),
];
