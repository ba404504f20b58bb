//! A served organization for the programs.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::client::Caller;
use crate::process::{PASSWORD, Place, Serving};

/// A served organization `acme`, its key and its owner.
pub struct Acme {
    pub key: String,
    /// The owner, in a session.
    pub owner: Caller,
    /// The owner, by a key of its own: it looks often, and has a rate limit of its own.
    pub watcher: Caller,
    pub serving: Serving,
    _place: Place,
}

/// A team with an agent.
pub struct Team {
    pub id: String,
    pub agent: String,
    /// The secret by which its posted wakes are signed.
    pub wake_secret: Value,
}

impl Acme {
    /// Serves with these flags.
    pub fn start(flags: &[&str]) -> Self {
        let (place, key) = Place::founded();
        let serving = Serving::start(&place, flags);
        let anonymous = Caller::anonymous(serving.address, "acme");
        let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
        let session = anonymous.ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
        let owner = anonymous.with_bearer(session["token"].as_str().unwrap());
        let watcher = owner.post("/api-keys", json!({"name": "watcher"})).ok();
        let watcher = anonymous.with_key(watcher["key"].as_str().unwrap());
        Acme { key, owner, watcher, serving, _place: place }
    }

    /// The base URL of the API.
    pub fn api(&self) -> String {
        format!("http://{}/api", self.serving.address)
    }

    /// Creates a team with an agent.
    pub fn team(&self, slug: &str, wake_url: Option<&str>) -> Team {
        let id = self.owner.post("/teams", json!({"slug": slug, "name": "Shipping"})).id();
        self.owner.post("/agents", json!({"stableKey": slug, "name": "Scribe"})).ok();
        let member = json!({"stableKey": slug, "role": "member", "wakeUrl": wake_url});
        let agent = self.owner.post(&format!("/teams/{id}/agents"), member).ok();
        let wake_secret = agent["wakeSecret"].clone();
        Team { id, agent: agent["id"].as_str().unwrap().into(), wake_secret }
    }

    /// Gives the agent of a team a task; returns the task's path.
    pub fn assign(&self, team: &Team, title: &str) -> String {
        let tasks = format!("/teams/{}/tasks", team.id);
        let task = json!({"title": title, "assigneeAgentId": team.agent});
        format!("{tasks}/{}", self.owner.post(&tasks, task).id())
    }
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
