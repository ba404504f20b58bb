//! A server, and somebody at another desk who uses its command line as a client.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Caller;
use crate::process::{Ended, PASSWORD, Place, Serving, run};

/// A server with the organization `acme`, and a home directory for a client.
pub struct Desk {
    pub place: Place,
    pub serving: Serving,
    /// The owner's key.
    pub key: String,
    home: tempfile::TempDir,
}

impl Desk {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// The same with these flags of the server.
    pub fn with(flags: &[&str]) -> Self {
        let (place, key) = Place::founded();
        let serving = Serving::start(&place, flags);
        Desk { place, serving, key, home: tempfile::tempdir().unwrap() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.serving.address)
    }

    /// A path in the home directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file into the home directory and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    }

    /// A command without a server or a credential.
    pub fn bare(&self, args: &[&str]) -> Command {
        let mut command = crate::process::command(args, &self.place.data());
        command.env("XDG_CONFIG_HOME", self.home.path()).env("XDG_STATE_HOME", self.home.path());
        command.current_dir(self.home.path());
        command
    }

    /// A command with the owner's key.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(args);
        command.env("ROADSTEAD_URL", self.url()).env("ROADSTEAD_API_KEY", &self.key);
        command
    }

    /// Runs a command with the owner's key.
    pub fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args), None)
    }

    /// The result of a successful command with the owner's key.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).succeeds()
    }

    /// The API with the owner's key.
    pub fn api(&self) -> Caller {
        self.serving.caller(&self.key)
    }

    /// The API in a session of the owner.
    pub fn session(&self) -> Caller {
        let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
        let api = self.api().with_fields(&[]);
        let token = api.ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
        api.with_bearer(token["token"].as_str().unwrap())
    }

    /// Creates the registry `main`.
    pub fn registry(&self) {
        self.session().post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    }

    /// A key with these scopes.
    pub fn key_with(&self, scopes: &[&str]) -> String {
        let made = self.session().post("/api-keys", json!({"name": "CI", "access": scopes})).ok();
        made["key"].as_str().unwrap().to_string()
    }

    /// The team `shipping` with the agent `scribe`: their ids.
    pub fn team(&self) -> (String, String) {
        let api = self.api();
        api.post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
        let team = api.post("/teams", json!({"slug": "shipping", "name": "Shipping"})).id();
        let hired = json!({"stableKey": "scribe", "role": "member"});
        let agent = api.post(&format!("/teams/{team}/agents"), hired).id();
        (team, agent)
    }
}
