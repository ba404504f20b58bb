//! The state of an organization on a server, and the ids of its resources.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::state::{
    AGENT, ASSIGNMENT, ArtifactKey, CHANNEL, ENVIRONMENT, FLEET, Fields, KINDS, LISTING, POLICY,
    REGISTRY, ResourceName, SUBSCRIPTION, State, TOOL, VARIABLE, VersionName, child_name, numbers,
};
use crate::cli::client::api::{Api, segment};
use crate::cli::failure::Failure;

/// Channels whose configuration can be in a file: that of the others has a secret, or ids of teams.
const PORTABLE_WORKFLOWS: [&str; 2] = ["webhook", "email"];

/// A version on the server.
#[derive(Debug, Default)]
pub struct Row {
    pub hash: String,
    /// The promptlets that it imports: name and version.
    pub imports: Vec<(String, String)>,
}

/// An organization on a server.
pub struct Remote {
    pub org: String,
    pub state: State<Row>,
    /// Of resources that have an id.
    pub ids: BTreeMap<ResourceName, String>,
    /// Members by e-mail address.
    pub members: BTreeMap<String, String>,
    /// LLM providers by name.
    pub providers: BTreeMap<String, String>,
    /// Whether fleets could be read: they take a session.
    pub has_fleets: bool,
    /// What is not in the state, and why.
    pub left_out: Vec<String>,
}

/// Reads an organization.
pub fn read(api: &Api) -> Result<Remote, Failure> {
    let mut remote = Remote {
        org: api.org()?.to_string(),
        state: State::default(),
        ids: BTreeMap::new(),
        members: BTreeMap::new(),
        providers: BTreeMap::new(),
        has_fleets: true,
        left_out: Vec::new(),
    };
    for member in api.list_in_org("/organizations/members", &[])? {
        remote.members.insert(text(&member["email"]), text(&member["userId"]));
    }
    for provider in api.list_in_org("/llm-providers", &[])? {
        remote.providers.insert(text(&provider["name"]), text(&provider["id"]));
    }
    remote.registries(api)?;
    remote.policies(api)?;
    for tool in api.list_in_org("/tools", &[])? {
        remote.add(TOOL, &tool)?;
    }
    remote.environments(api)?;
    remote.fleets(api)?;
    for agent in api.list_in_org("/agents", &[])? {
        remote.add(AGENT, &remote.portable_agent(&agent))?;
    }
    remote.channels(api)?;
    for listing in api.list_in_org("/agent-index/listings", &[("mine", Some("true"))])? {
        remote.add(LISTING, &listing)?;
    }
    Ok(remote)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

impl Remote {
    /// Adds a resource with the fields of its kind.
    fn add(&mut self, kind: usize, item: &Value) -> Result<(), Failure> {
        let about = &KINDS[kind];
        let name = text(&item[about.key]);
        let fields =
            about.fields.iter().map(|(field, _)| (field.to_string(), item[*field].clone()));
        let fields: Fields = fields.collect();
        self.ids.insert((kind, name.clone()), text(&item["id"]));
        match self.state.resources.insert((kind, name.clone()), fields) {
            None => Ok(()),
            Some(_) => Err(Failure::Failed(format!(
                "the organization has two {}s called {name:?}, and files name them; rename one",
                about.name
            ))),
        }
    }

    fn add_child(&mut self, kind: usize, parent: &str, own: &str, id: &Value, fields: Fields) {
        let name = (kind, child_name(parent, own));
        self.ids.insert(name.clone(), text(id));
        self.state.resources.insert(name, fields);
    }

    fn name_of(&self, kind: usize, id: &Value) -> Value {
        let found = self.ids.iter().find(|((of, _), known)| *of == kind && **known == *id);
        found.map_or(Value::Null, |((_, name), _)| name.clone().into())
    }

    fn registries(&mut self, api: &Api) -> Result<(), Failure> {
        for registry in api.list_in_org("/registries", &[])? {
            self.add(REGISTRY, &registry)?;
            let slug = text(&registry["slug"]);
            let reference = format!("{}/{slug}", self.org);
            let query = [("registryRef", Some(reference.as_str()))];
            for artifact in api.list("/registries/artifacts", &query, usize::MAX)? {
                let key = artifact_key(&slug, &artifact);
                for (label, version) in artifact["labels"].as_object().into_iter().flatten() {
                    self.state.labels.insert((key.clone(), label.clone()), text(version));
                }
            }
            for row in api.list("/registries/artifact-versions", &query, usize::MAX)? {
                let Some(numbers) = numbers(&text(&row["version"])) else { continue };
                let (artifact, model) = (artifact_key(&slug, &row), text(&row["model"]));
                let imports = row["imports"].as_object().into_iter().flatten();
                let imports = imports.map(|(name, version)| (name.clone(), text(version)));
                let known = Row { hash: text(&row["hash"]), imports: imports.collect() };
                self.state.versions.insert(VersionName { artifact, numbers, model }, known);
            }
        }
        Ok(())
    }

    fn policies(&mut self, api: &Api) -> Result<(), Failure> {
        for mut policy in api.list_in_org("/governance/policies", &[])? {
            for rule in policy["rules"].as_array_mut().into_iter().flatten() {
                let Some(fields) = rule.as_object_mut() else { continue };
                let provider = fields.remove("llmProviderId").filter(|id| !id.is_null());
                let is_it = |id: &String| provider.as_ref().is_some_and(|known| *known == **id);
                if let Some((name, _)) = self.providers.iter().find(|(_, id)| is_it(id)) {
                    fields.insert("llmProvider".into(), name.clone().into());
                }
            }
            self.add(POLICY, &policy)?;
            let (name, id) = (text(&policy["name"]), text(&policy["id"]));
            let path = format!("/governance/policies/{}/assignments", segment(&id));
            for assignment in api.list_in_org(&path, &[])? {
                let reference = text(&assignment["registryRef"]);
                let slug = reference.rsplit('/').next().unwrap_or_default();
                self.add_child(ASSIGNMENT, &name, slug, &assignment["id"], Fields::new());
            }
        }
        Ok(())
    }

    fn environments(&mut self, api: &Api) -> Result<(), Failure> {
        for mut environment in api.list_in_org("/environments", &[])? {
            if let Some(approvals) = environment["approvals"].as_object_mut() {
                let ids = approvals.remove("approverIds").unwrap_or_default();
                let ids = ids.as_array().cloned().unwrap_or_default();
                let email = |id: &Value| {
                    let member = self.members.iter().find(|(_, known)| **known == *id);
                    member.map(|(email, _)| Value::from(email.clone()))
                };
                let mut emails: Vec<Value> = ids.iter().filter_map(email).collect();
                emails.sort_by_key(text);
                approvals.insert("approvers".into(), emails.into());
            }
            self.add(ENVIRONMENT, &environment)?;
            let slug = text(&environment["slug"]);
            for (name, value) in environment["variables"].as_object().into_iter().flatten() {
                let fields = Fields::from_iter([("value".to_string(), value.clone())]);
                self.add_child(VARIABLE, &slug, name, &Value::Null, fields);
            }
            let is_empty = |field: &str| environment[field].as_array().is_none_or(Vec::is_empty);
            if !is_empty("secretNames") || !is_empty("providers") {
                self.left_out.push(format!("secrets and credentials of the environment {slug}"));
            }
        }
        Ok(())
    }

    fn fleets(&mut self, api: &Api) -> Result<(), Failure> {
        let query = [("orgSlug", Some(self.org.as_str()))];
        match api.list("/fleets", &query, usize::MAX) {
            Ok(fleets) => fleets.iter().try_for_each(|fleet| self.add(FLEET, fleet)),
            Err(refusal) if refusal.with_code("session_required").is_some() => {
                self.has_fleets = false;
                let why = "fleets: they take a session (roadstead login --email)";
                self.left_out.push(why.into());
                Ok(())
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// An agent with its draft's fields beside its own, and names for ids.
    fn portable_agent(&self, agent: &Value) -> Value {
        let draft = &agent["draft"];
        let own = format!("{}/", self.org);
        let registry = draft["registryRef"].as_str();
        let registry = registry.map(|of| of.strip_prefix(&own).unwrap_or(of));
        let tools = draft["toolRefs"].as_array().into_iter().flatten().map(|tool| {
            let mut named = json!({"tool": self.name_of(TOOL, &tool["toolId"])});
            if !tool["version"].is_null() {
                named["version"] = tool["version"].clone();
            }
            named
        });
        let mut portable = agent.clone();
        portable["registry"] = json!(registry);
        portable["tools"] = tools.collect();
        portable["fleet"] = self.name_of(FLEET, &agent["fleetId"]);
        for field in
            ["promptName", "promptVersion", "model", "provider", "variables", "providerConfig"]
        {
            portable[field] = draft[field].clone();
        }
        portable
    }

    fn channels(&mut self, api: &Api) -> Result<(), Failure> {
        let mut names = BTreeMap::new();
        for channel in api.list_in_org("/notifications/channels", &[])? {
            if channel["builtIn"] == true {
                continue;
            }
            let (name, workflow) = (text(&channel["name"]), text(&channel["workflow"]));
            if !PORTABLE_WORKFLOWS.contains(&workflow.as_str()) {
                let why = "its configuration has a secret or belongs to a team";
                self.left_out.push(format!("the channel {name} ({workflow}): {why}"));
                continue;
            }
            self.add(CHANNEL, &channel)?;
            names.insert(text(&channel["id"]), name);
        }
        for subscription in api.list_in_org("/notifications/subscriptions", &[])? {
            let of = names.get(&text(&subscription["channelId"]));
            if let Some(channel) = of.filter(|_| subscription["enabled"] == true) {
                let event = text(&subscription["eventType"]);
                self.add_child(SUBSCRIPTION, channel, &event, &subscription["id"], Fields::new());
            }
        }
        Ok(())
    }
}

fn artifact_key(registry: &str, item: &Value) -> ArtifactKey {
    let is_prompt = item["artifactType"] == "prompt";
    ArtifactKey { registry: registry.into(), is_prompt, name: text(&item["name"]) }
}
