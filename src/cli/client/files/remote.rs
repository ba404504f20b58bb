//! The state of an organization on a server, and the ids of its resources.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::state::{
    AGENT, ASSIGNMENT, ArtifactKey, CHANNEL, ENVIRONMENT, FLEET, Fields, KINDS, LISTING, POLICY,
    REGISTRY, ResourceName, SUBSCRIPTION, State, TOOL, VARIABLE, VersionName, child_name, numbers,
};
use crate::cli::client::api::{Api, ListCall, segment};
use crate::cli::client::refusal::Refusal;
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

impl Remote {
    /// The organization with what files have as if it were there: its ids, of which those of what is to be
    /// created are not known yet. Without its state.
    pub fn expecting<T>(&self, local: &State<T>) -> Self {
        let unknown = || uuid::Uuid::nil().to_string();
        let mut ids: BTreeMap<_, _> =
            local.resources.keys().map(|name| (name.clone(), unknown())).collect();
        ids.extend(self.ids.clone());
        Remote {
            org: self.org.clone(),
            state: State::default(),
            ids,
            members: self.members.clone(),
            providers: self.providers.clone(),
            has_fleets: self.has_fleets,
            left_out: Vec::new(),
        }
    }
}

/// A list that a state is made of.
fn list(path: impl Into<String>, query: &[(&'static str, &str)]) -> ListCall {
    let query = query.iter().map(|(name, value)| (*name, value.to_string())).collect();
    ListCall { path: path.into(), query }
}

/// The version of a server, as its document says; `None` if it shows none.
pub fn version(api: &Api) -> Option<String> {
    let document = api.get("/openapi.json", &[]).ok()?;
    document["info"]["version"].as_str().map(str::to_string)
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
    let paths = [
        "/organizations/members",
        "/llm-providers",
        "/registries",
        "/governance/policies",
        "/tools",
        "/environments",
        "/agents",
        "/notifications/channels",
        "/notifications/subscriptions",
    ];
    let mut wanted: Vec<ListCall> = paths.into_iter().map(|path| list(path, &[])).collect();
    wanted.push(list("/agent-index/listings", &[("mine", "true")]));
    wanted.push(list("/fleets", &[]));
    let mut lists = api.lists_in_org(&wanted)?;
    let fleets = lists.pop().unwrap_or_else(|| Ok(Vec::new()));
    let lists = lists.into_iter().collect::<Result<Vec<_>, _>>()?;
    let lists: [Vec<Value>; 10] = lists.try_into().unwrap_or_default();
    let [
        members,
        providers,
        registries,
        policies,
        tools,
        environments,
        agents,
        channels,
        subscriptions,
        listings,
    ] = &lists;
    for member in members {
        remote.members.insert(text(&member["email"]), text(&member["userId"]));
    }
    for provider in providers {
        remote.providers.insert(text(&provider["name"]), text(&provider["id"]));
    }
    remote.add_all(REGISTRY, registries)?;
    remote.add_all(POLICY, policies)?;
    remote.parts(api, registries, policies)?;
    remote.add_all(TOOL, tools)?;
    remote.environments(environments)?;
    remote.fleets(fleets)?;
    remote.add_all(AGENT, agents)?;
    remote.channels(channels, subscriptions)?;
    remote.add_all(LISTING, listings)?;
    Ok(remote)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

impl Remote {
    /// The fields of a resource of this kind, with names for ids.
    pub fn fields(&self, kind: usize, item: &Value) -> Fields {
        let portable = match kind {
            POLICY => self.portable_policy(item),
            ENVIRONMENT => self.portable_environment(item),
            AGENT => self.portable_agent(item),
            _ => item.clone(),
        };
        let fields = KINDS[kind].fields.iter();
        fields.map(|(field, _)| (field.to_string(), portable[*field].clone())).collect()
    }

    fn add_all(&mut self, kind: usize, items: &[Value]) -> Result<(), Failure> {
        items.iter().try_for_each(|item| self.add(kind, item))
    }

    /// Adds a resource with the fields of its kind.
    fn add(&mut self, kind: usize, item: &Value) -> Result<(), Failure> {
        let about = &KINDS[kind];
        let name = text(&item[about.key]);
        let fields = self.fields(kind, item);
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
        let mut of_kind = self.ids.range((kind, String::new())..(kind + 1, String::new()));
        let found = of_kind.find(|(_, known)| **known == *id);
        found.map_or(Value::Null, |((_, name), _)| name.clone().into())
    }

    /// What is in registries, and to which of them policies are assigned: lists of their own.
    fn parts(
        &mut self,
        api: &Api,
        registries: &[Value],
        policies: &[Value],
    ) -> Result<(), Failure> {
        let slugs: Vec<String> = registries.iter().map(|of| text(&of["slug"])).collect();
        let mut wanted = Vec::new();
        for slug in &slugs {
            let reference = format!("{}/{slug}", self.org);
            // By type, since pages of one list are read one after the other.
            let listed = ["prompt", "promptlet"].map(|kind| {
                [("registryRef", &*reference), ("artifactType", kind), ("all", "true")]
            });
            wanted.extend(listed.map(|query| list("/registries/artifacts", &query[..2])));
            wanted.extend(listed.map(|query| list("/registries/artifact-versions", &query)));
        }
        for policy in policies {
            let id = text(&policy["id"]);
            let path = format!("/governance/policies/{}/assignments", segment(&id));
            wanted.push(list(path, &[]));
        }
        let mut lists = api.lists_in_org(&wanted)?.into_iter();
        for slug in &slugs {
            for artifact in [lists.next(), lists.next()].into_iter().flatten() {
                self.labels(slug, &artifact?);
            }
            for versions in [lists.next(), lists.next()].into_iter().flatten() {
                self.versions(slug, versions?);
            }
        }
        for (policy, assignments) in policies.iter().zip(lists) {
            let name = text(&policy["name"]);
            for assignment in assignments? {
                let reference = text(&assignment["registryRef"]);
                let slug = reference.rsplit('/').next().unwrap_or_default();
                self.add_child(ASSIGNMENT, &name, slug, &assignment["id"], Fields::new());
            }
        }
        Ok(())
    }

    fn labels(&mut self, registry: &str, artifacts: &[Value]) {
        for artifact in artifacts {
            let key = artifact_key(registry, artifact);
            for (label, version) in artifact["labels"].as_object().into_iter().flatten() {
                self.state.labels.insert((key.clone(), label.clone()), text(version));
            }
        }
    }

    fn versions(&mut self, registry: &str, rows: Vec<Value>) {
        for row in rows {
            let Some(numbers) = numbers(&text(&row["version"])) else { continue };
            let (artifact, model) = (artifact_key(registry, &row), text(&row["model"]));
            let imports = row["imports"].as_object().into_iter().flatten();
            let imports = imports.map(|(name, version)| (name.clone(), text(version)));
            let known = Row { hash: text(&row["hash"]), imports: imports.collect() };
            self.state.versions.insert(VersionName { artifact, numbers, model }, known);
        }
    }

    /// A policy whose rules name providers.
    fn portable_policy(&self, policy: &Value) -> Value {
        let mut portable = policy.clone();
        for rule in portable["rules"].as_array_mut().into_iter().flatten() {
            let Some(fields) = rule.as_object_mut() else { continue };
            let provider = fields.remove("llmProviderId").filter(|id| !id.is_null());
            let is_it = |id: &String| provider.as_ref().is_some_and(|known| *known == **id);
            if let Some((name, _)) = self.providers.iter().find(|(_, id)| is_it(id)) {
                fields.insert("llmProvider".into(), name.clone().into());
            }
        }
        portable
    }

    /// An environment whose approvers are e-mail addresses.
    fn portable_environment(&self, environment: &Value) -> Value {
        let mut portable = environment.clone();
        if let Some(approvals) = portable["approvals"].as_object_mut() {
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
        portable
    }

    fn environments(&mut self, environments: &[Value]) -> Result<(), Failure> {
        for environment in environments {
            self.add(ENVIRONMENT, environment)?;
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

    fn fleets(&mut self, fleets: Result<Vec<Value>, Refusal>) -> Result<(), Failure> {
        match fleets {
            Ok(fleets) => self.add_all(FLEET, &fleets),
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

    fn channels(&mut self, channels: &[Value], subscriptions: &[Value]) -> Result<(), Failure> {
        let mut names = BTreeMap::new();
        for channel in channels.iter().filter(|channel| channel["builtIn"] != true) {
            let (name, workflow) = (text(&channel["name"]), text(&channel["workflow"]));
            if !PORTABLE_WORKFLOWS.contains(&workflow.as_str()) {
                let why = "its configuration has a secret or belongs to a team";
                self.left_out.push(format!("the channel {name} ({workflow}): {why}"));
                continue;
            }
            self.add(CHANNEL, channel)?;
            names.insert(text(&channel["id"]), name);
        }
        for subscription in subscriptions {
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
