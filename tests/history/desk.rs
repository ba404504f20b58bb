//! What is done in one organization: a registry, a team with an agent and an environment, and their
//! next random change.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::change::Change;
use crate::dice::Dice;
use crate::model::{Kind, List, Model, Who, version_key};
use crate::names::{Shape, text};

/// Far below what an environment, a user or an agent may have.
const MANY: usize = 60;

/// The lists that a desk adds to.
pub struct Lists {
    pub agents: List,
    pub keys: List,
    pub invitations: List,
    pub environments: List,
    pub registries: List,
    pub teams: List,
}

impl Lists {
    pub fn of(owner: &Arc<Who>) -> Self {
        let list = |kind, path| List::new(kind, owner, path);
        Lists {
            agents: list(Kind::Agents, "/agents"),
            keys: list(Kind::ApiKeys, "/api-keys"),
            invitations: list(Kind::Invitations, "/organizations/invitations"),
            environments: list(Kind::Environments, "/environments"),
            registries: list(Kind::Registries, "/registries"),
            teams: list(Kind::Teams, "/teams"),
        }
    }
}

/// A registry, a team with an agent and an environment, which one writer has to itself.
pub struct Desk {
    /// The owner of the organization.
    pub owner: Arc<Who>,
    /// An API key.
    pub worker: Arc<Who>,
    pub lists: Lists,
    pub artifacts: List,
    pub versions: List,
    pub registry: String,
    pub environment: String,
    pub variables: List,
    /// The agent of the team.
    pub agent: String,
    pub tasks: List,
    pub messages: List,
    pub memories: List,
    pub wakes: List,
    pub shape: Shape,
    /// What names end with that no other desk gives.
    pub tag: String,
    /// The number of changes chosen, which is in their names.
    pub count: u64,
}

impl Desk {
    /// The lists of which nobody else adds to.
    pub fn own_lists(&self) -> [&List; 7] {
        let (artifacts, versions, variables) = (&self.artifacts, &self.versions, &self.variables);
        let (tasks, messages, memories) = (&self.tasks, &self.messages, &self.memories);
        [artifacts, versions, variables, tasks, messages, memories, &self.wakes]
    }

    /// The next random change; `None` if there is nothing yet to change in this way.
    pub fn next(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        match dice.below(100) {
            0..30 => Some(self.publish_new(dice)),
            30..40 => self.publish_next(model, dice),
            40..42 => self.publish_again(model, dice),
            42..45 => self.delete_version(model, dice),
            45..48 => self.move_label(model, dice),
            48..55 => Some(self.create_agent(dice)),
            55..60 => self.version_agent(model, dice),
            60..62 => self.delete_agent(model, dice),
            62..63 => self.create_agent_again(model, dice),
            63..71 => Some(self.set_variable(model, dice)),
            71..73 => self.delete_variable(model, dice),
            73..79 => Some(self.create_task(dice)),
            79..83 => self.change_task(model, dice),
            83..87 => Some(self.send_message(dice)),
            87..92 => Some(self.remember(model, dice)),
            92..94 => self.forget(model, dice),
            94..98 => self.make_or_revoke_key(model, dice),
            _ => self.invite_or_withdraw(model, dice),
        }
    }

    fn name(&self) -> String {
        self.shape.name(&self.tag, self.count)
    }

    // ── The registry ─────────────────────────────────────────────────────────

    fn publish(&self, name: &str, version: &str, dice: &mut Dice) -> Change {
        let source = format!("{} {{{{v_{}}}}}", text(dice), dice.below(50));
        let body = json!({
            "registryRef": self.registry, "artifactType": "prompt", "name": name,
            "version": version, "source": source, "metadata": {"n": self.count},
        });
        Change::post(&self.worker, "/registries/artifacts", body)
    }

    pub fn publish_new(&self, dice: &mut Dice) -> Change {
        let (name, version) = (self.name(), self.shape.version(0));
        let artifact = json!({
            "artifactType": "prompt", "name": name, "latestVersion": version, "labels": {},
        });
        let change = self.publish(&name, &version, dice).adds_to(&self.versions);
        change.sets(&self.artifacts, &name, artifact)
    }

    fn publish_next(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let name = model.nth(&self.artifacts, dice.below(u64::MAX))?;
        let version = self.shape.version(self.count);
        let key = version_key(&name, &version);
        let latest = self.versions_of(model, &name).pop().filter(|(last, _)| *last > key);
        let latest = latest.map_or(version.clone(), |(_, version)| version);
        let change = self.publish(&name, &version, dice).adds_to(&self.versions);
        Some(change.sets(&self.artifacts, &name, json!({"latestVersion": latest})))
    }

    /// Publishes another text as a version that exists.
    fn publish_again(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let version = self.any(model, &self.versions, dice)?;
        let (name, version) = (version["name"].as_str()?, version["version"].as_str()?);
        Some(self.publish(name, version, dice).refused(409, "version_exists"))
    }

    /// Keys and numbers of the versions of an artifact, ascending.
    fn versions_of(&self, model: &Model, name: &str) -> Vec<(String, String)> {
        let begin = format!("{name}\0");
        let number = |key: &str| {
            let numbers = key[begin.len()..].split('.').map(|number| {
                let digits = number.trim_start_matches('0');
                if digits.is_empty() { "0" } else { digits }
            });
            numbers.collect::<Vec<_>>().join(".")
        };
        let keys = model.beginning(&self.versions, &begin);
        keys.map(|key| (key.to_string(), number(key))).collect()
    }

    fn delete_version(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let key = model.nth(&self.versions, dice.below(u64::MAX))?;
        let item = model.get(&self.versions, &key)?;
        let (name, version) = (item["name"].as_str()?, item["version"].as_str()?);
        if model.get(&self.artifacts, name)?["labels"]["live"] == version {
            return None; // It would be refused.
        }
        let mut others = self.versions_of(model, name);
        others.retain(|(other, _)| *other != key);
        let path = format!(
            "/registries/artifact-versions?registryRef={}&promptName={name}&version={version}",
            self.registry
        );
        let change = Change::delete(&self.worker, path).removes_from(&self.versions, &key);
        Some(match others.last() {
            Some((_, latest)) => {
                change.sets(&self.artifacts, name, json!({"latestVersion": latest}))
            }
            None => change.removes_from(&self.artifacts, name),
        })
    }

    fn move_label(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let version = self.any(model, &self.versions, dice)?;
        let (name, version) = (version["name"].as_str()?, version["version"].as_str()?);
        let body = json!({
            "registryRef": self.registry, "promptName": name, "label": "live", "version": version,
        });
        let change = Change::patch(&self.worker, "/registries/artifacts/labels", body);
        Some(change.sets(&self.artifacts, name, json!({"labels": {"live": version}})))
    }

    // ── Agents ───────────────────────────────────────────────────────────────

    pub fn create_agent(&self, dice: &mut Dice) -> Change {
        let draft = json!({"model": "m", "variables": {"text": text(dice)}});
        let body = json!({"stableKey": self.name(), "name": "A", "draft": draft});
        Change::post(&self.worker, "/agents", body).adds_to(&self.lists.agents)
    }

    fn create_agent_again(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let agent = self.any(model, &self.lists.agents, dice)?;
        let body = json!({"stableKey": agent["stableKey"], "name": "Another"});
        Some(Change::post(&self.worker, "/agents", body).refused(409, "stable_key_taken"))
    }

    fn version_agent(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let agent = self.any(model, &self.lists.agents, dice)?;
        let path = format!("/agents/{}/versions", agent["stableKey"].as_str()?);
        let versions = List::new(Kind::AgentVersions, &self.owner, &path);
        let latest = json!({"latestVersion": model.len(&versions) + 1});
        let change = Change::post(&self.worker, path, json!({})).adds_to(&versions);
        Some(change.sets(&self.lists.agents, agent["id"].as_str()?, latest))
    }

    /// Deletes an agent that has no versions and is in no team.
    fn delete_agent(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let agent = self.any(model, &self.lists.agents, dice)?;
        let stable_key = agent["stableKey"].as_str()?;
        if !agent["latestVersion"].is_null() || stable_key.starts_with("team-") {
            return None;
        }
        let change = Change::delete(&self.worker, format!("/agents/{stable_key}"));
        Some(change.removes_from(&self.lists.agents, agent["id"].as_str()?))
    }

    // ── The environment ──────────────────────────────────────────────────────

    /// Sets a variable, an existing one as often as a new one.
    pub fn set_variable(&self, model: &Model, dice: &mut Dice) -> Change {
        let is_full = model.len(&self.variables) >= MANY;
        let existing = model.nth(&self.variables, dice.below(u64::MAX));
        let name = existing.filter(|_| is_full || dice.below(2) == 0);
        let name = name.unwrap_or_else(|| self.name());
        let value = text(dice).chars().take(3_000).collect::<String>();
        let path = format!("/environments/{}/variables/{name}", self.environment);
        let change = Change::put(&self.worker, path, json!({"value": value}));
        let change = change.adds_to(&self.variables);
        self.environment_with(change, model, &name, Some(value))
    }

    fn delete_variable(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let name = model.nth(&self.variables, dice.below(u64::MAX))?;
        let path = format!("/environments/{}/variables/{name}", self.environment);
        let change = Change::delete(&self.worker, path).removes_from(&self.variables, &name);
        Some(self.environment_with(change, model, &name, None))
    }

    /// The environment shows its variables.
    fn environment_with(
        &self,
        change: Change,
        model: &Model,
        name: &str,
        value: Option<String>,
    ) -> Change {
        let environment = model.get(&self.lists.environments, &self.environment);
        let mut variables = environment.map_or(json!({}), |found| found["variables"].clone());
        match (value, variables.as_object_mut()) {
            (Some(value), _) => variables[name] = json!(value),
            (None, Some(variables)) => drop(variables.remove(name)),
            (None, None) => {}
        }
        let shown = json!({"variables": variables});
        change.sets(&self.lists.environments, &self.environment, shown)
    }

    // ── The team ─────────────────────────────────────────────────────────────

    fn create_task(&self, dice: &mut Dice) -> Change {
        let assignee = (dice.below(3) == 0).then_some(&self.agent);
        let body = json!({
            "title": self.name(), "description": text(dice), "assigneeAgentId": assignee,
            // Who assigns a task to itself is not woken.
            "fromAgentId": self.agent,
        });
        Change::post(&self.worker, &self.tasks.path, body).adds_to(&self.tasks)
    }

    fn change_task(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let task = model.nth(&self.tasks, dice.below(u64::MAX))?;
        let status = ["open", "in_progress", "blocked", "done"][dice.below(4) as usize];
        let body = json!({"title": self.name(), "status": status, "fromAgentId": self.agent});
        let change = Change::patch(&self.worker, format!("{}/{task}", self.tasks.path), body);
        Some(change.adds_to(&self.tasks))
    }

    pub fn send_message(&self, dice: &mut Dice) -> Change {
        let body = json!({"toAgentId": self.agent, "subject": self.name(), "body": text(dice)});
        let change = Change::post(&self.worker, &self.messages.path, body).adds_to(&self.messages);
        change.wakes(&self.wakes)
    }

    fn remember(&self, model: &Model, dice: &mut Dice) -> Change {
        let older = model.nth(&self.memories, dice.below(u64::MAX));
        let older = older.filter(|_| dice.below(4) == 0);
        let body = json!({"content": text(dice), "tags": [self.name()], "supersedes": older});
        let change = Change::post(&self.worker, &self.memories.path, body).adds_to(&self.memories);
        match older {
            Some(older) => change.removes_from(&self.memories, &older),
            None => change,
        }
    }

    fn forget(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let memory = model.nth(&self.memories, dice.below(u64::MAX))?;
        let change = Change::delete(&self.worker, format!("{}/{memory}", self.memories.path));
        Some(change.removes_from(&self.memories, &memory))
    }

    // ── People and keys ──────────────────────────────────────────────────────

    pub fn make_key(&self) -> Change {
        let change = Change::post(&self.owner, "/api-keys", json!({"name": self.name()}));
        change.adds_to(&self.lists.keys).loses(&[&self.lists.keys])
    }

    pub fn revoke_key(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let key = model.nth(&self.lists.keys, dice.below(u64::MAX))?;
        // The desk's own is not revoked.
        let is_own = model.get(&self.lists.keys, &key)?["name"] == "worker";
        let change = Change::delete(&self.owner, format!("/api-keys/{key}"));
        (!is_own).then(|| change.removes_from(&self.lists.keys, &key))
    }

    fn make_or_revoke_key(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        if model.len(&self.lists.keys) >= MANY || dice.below(5) < 2 {
            return self.revoke_key(model, dice);
        }
        Some(self.make_key())
    }

    fn invite_or_withdraw(&self, model: &Model, dice: &mut Dice) -> Option<Change> {
        let invitations = &self.lists.invitations;
        if model.len(invitations) >= MANY || dice.below(3) == 0 {
            let id = model.nth(invitations, dice.below(u64::MAX))?;
            let path = format!("{}/{id}", invitations.path);
            return Some(Change::delete(&self.owner, path).removes_from(invitations, &id));
        }
        let email = format!("{}@guests.test", self.name());
        let body = json!({"email": email, "role": "member"});
        let change = Change::post(&self.owner, "/organizations/members", body);
        Some(change.adds_to(invitations).loses(&[invitations]))
    }

    fn any(&self, model: &Model, list: &List, dice: &mut Dice) -> Option<Value> {
        let key = model.nth(list, dice.below(u64::MAX))?;
        model.get(list, &key)
    }
}
