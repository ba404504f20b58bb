//! A server with an organization whose people have passwords.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::OnceLock;

use roadstead::app::{DataDir, ServerConfig};
use roadstead::base::Id;
use roadstead::resources::organizations;
use roadstead::store::Store;
use serde_json::{Value, json};

use crate::client::Caller;
use crate::client::in_process::InProcess;
use crate::visitor::Visitor;

/// The password of everyone.
pub const PASSWORD: &str = "correct horse battery";

/// A running server.
pub struct Running {
    pub address: SocketAddr,
    pub store: Store,
    /// The token of Ada's session: sign-ins are limited.
    ada: OnceLock<String>,
    server: InProcess,
}

impl Running {
    /// A server that is not set up.
    pub fn bare() -> Self {
        Running::bare_with(ServerConfig::default(), "127.0.0.1:0")
    }

    /// The same at an address.
    pub fn bare_at(address: &str) -> Self {
        Running::bare_with(ServerConfig::default(), address)
    }

    fn bare_with(config: ServerConfig, address: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let store = DataDir::at(place.path()).create().unwrap();
        // The open files stay usable, and nothing is left behind however the test ends.
        drop(place);
        let here = "127.0.0.0/8".parse().unwrap();
        let config = ServerConfig { rate_limit: 0, trusted_proxies: vec![here], ..config };
        let config = crate::outside::SITES.configure(config);
        let server = InProcess::serve(store.clone(), address, config);
        Running { address: server.address, store, ada: OnceLock::new(), server }
    }

    /// The token of its setup link.
    pub fn setup_token(&self) -> String {
        let issue = organizations::issue_setup_token;
        self.store.write_blocking(Id::NIL, issue).unwrap().unwrap()
    }

    /// A server with the organization acme, owned by Ada.
    pub fn new() -> Self {
        Running::with(ServerConfig::default())
    }

    /// The same, configured otherwise.
    pub fn with(config: ServerConfig) -> Self {
        let running = Running::bare_with(config, "127.0.0.1:0");
        let setup = json!({
            "token": running.setup_token(),
            "organization": {"slug": "acme", "name": "Acme"},
            "user": {"name": "Ada", "email": "ada@acme.test", "password": PASSWORD},
        });
        let session = running.anonymous().ask("POST", "/setup").json(&setup).send().ok();
        running.ada.get_or_init(|| session["token"].as_str().unwrap().into());
        running
    }

    /// The routes that its pages have called.
    pub fn calls(&self) -> BTreeSet<String> {
        self.server.calls()
    }

    /// The API without a credential.
    pub fn anonymous(&self) -> Caller {
        Caller::anonymous(self.address, "acme")
    }

    /// The API in a session.
    pub fn api(&self, email: &str) -> Caller {
        let body = json!({"email": email, "password": PASSWORD});
        let session = self.anonymous().ask("POST", "/auth/sign-in").json(&body).send().ok();
        self.anonymous().with_bearer(session["token"].as_str().unwrap())
    }

    /// The API as Ada.
    pub fn ada(&self) -> Caller {
        self.anonymous().with_bearer(self.ada.get().unwrap())
    }

    /// Invites someone; returns the token.
    pub fn invite(&self, email: &str, role: &str) -> String {
        let body = json!({"email": email, "role": role});
        let made = self.ada().post("/organizations/members", body).ok();
        made["token"].as_str().unwrap().into()
    }

    /// Adds someone to the organization.
    pub fn add(&self, name: &str, role: &str) {
        let token = self.invite(&format!("{name}@acme.test"), role);
        let body = json!({"token": token, "name": name, "password": PASSWORD});
        self.anonymous().ask("POST", "/auth/invitations/accept").json(&body).send().ok();
    }

    /// A browser that has not been here.
    pub fn visitor(&self) -> Visitor {
        Visitor::new(self.address)
    }

    /// A browser in which someone is signed in.
    pub fn signed_in(&self, email: &str) -> Visitor {
        let visitor = self.visitor();
        let page = visitor.get("/sign-in");
        let fields = [("email", email), ("password", PASSWORD)];
        let reply = visitor.send(&page, "/sign-in", &fields);
        assert_eq!(reply.status, 303, "{}", reply.text);
        visitor
    }

    /// Publishes a version.
    pub fn publish(&self, kind: &str, name: &str, version: &str, source: &str) -> Value {
        let body = json!({"registryRef": "main", "artifactType": kind, "name": name,
            "version": version, "source": source});
        self.ada().post("/registries/artifacts", body).ok()
    }

    /// Creates an agent, and a team with it; returns the ids of the team and of the agent in it.
    pub fn team(&self, slug: &str, key: &str) -> (String, String) {
        let api = self.ada();
        api.post("/agents", json!({"stableKey": key, "name": key})).ok();
        let team = api.post("/teams", json!({"slug": slug, "name": slug})).id();
        let hired = json!({"stableKey": key, "role": "scrum_master"});
        let agent = api.post(&format!("/teams/{team}/agents"), hired).id();
        (team, agent)
    }

    /// Creates the environment `production` and the prompt `notes` 1.0.0, and lets agents, made here,
    /// have it as their draft.
    pub fn deployable(&self, keys: &[&str], approvals: Value) {
        let api = self.ada();
        self.registry();
        self.publish("prompt", "notes", "1.0.0", "Hello.");
        let body = json!({"slug": "production", "name": "Production", "approvals": approvals});
        api.post("/environments", body).ok();
        for key in keys {
            let draft = json!({"registryRef": "acme/main", "promptName": "notes",
                "promptVersion": "*", "model": "m", "provider": "p"});
            api.post("/agents", json!({"stableKey": key, "name": key, "draft": draft})).ok();
        }
    }

    /// Creates the registry `main`.
    pub fn registry(&self) {
        self.ada().post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    }
}
