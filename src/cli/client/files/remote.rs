//! The state of an organization on a server, and the ids of its resources.

use std::collections::BTreeMap;

use serde_json::Value;

use super::kind::{Fields, Kind, Known, child_name};
use super::kinds::{
    AGENT, ASSIGNMENT, CHANNEL, ENVIRONMENT, FLEET, LISTING, POLICY, REGISTRY, SUBSCRIPTION, TOOL,
    VARIABLE,
};
use super::state::{ArtifactKey, State, VersionName, input_fields, numbers};
use crate::cli::client::api::{Api, ListCall};
use crate::cli::client::refusal::Refusal;
use crate::cli::failure::Failure;

/// Channels whose configuration can be in a file: that of the others has a secret, or ids of teams.
const PORTABLE_WORKFLOWS: [&str; 2] = ["webhook", "email"];

/// The lists of what is in no file: what names in files stand for.
const MEMBERS: &str = "/organizations/members";
const PROVIDERS: &str = "/llm-providers";

/// A version on the server.
#[derive(Debug, Default)]
pub struct Row {
    pub hash: String,
    /// What changed and why.
    pub message: Option<String>,
    /// The promptlets that it imports: name and version.
    pub imports: Vec<(String, String)>,
}

/// An organization on a server.
#[derive(Default)]
pub struct Remote {
    pub known: Known,
    pub state: State<Row>,
    /// What is not in the state, and why.
    pub left_out: Vec<String>,
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
    let known = Known {
        org: api.org()?.to_string(),
        ids: BTreeMap::new(),
        members: BTreeMap::new(),
        providers: BTreeMap::new(),
        has_fleets: true,
    };
    let mut remote = Remote { known, state: State::default(), left_out: Vec::new() };
    let kinds = [&REGISTRY, &POLICY, &TOOL, &ENVIRONMENT, &FLEET, &AGENT, &CHANNEL, &SUBSCRIPTION];
    let paths = [MEMBERS, PROVIDERS].into_iter().chain(kinds.map(|kind| kind.path));
    let mut wanted: Vec<ListCall> = paths.map(|path| list(path, &[])).collect();
    wanted.push(list(LISTING.path, &[("mine", "true")]));
    let paths = wanted.iter().map(|list| list.path.as_str());
    let mut lists: BTreeMap<_, _> = paths.zip(api.lists_in_org(&wanted)?).collect();
    let mut take = |path: &str| lists.remove(path).expect("the list is among those wanted");
    for member in take(MEMBERS)? {
        remote.known.members.insert(text(&member["email"]), text(&member["userId"]));
    }
    for provider in take(PROVIDERS)? {
        remote.known.providers.insert(text(&provider["name"]), text(&provider["id"]));
    }
    let (registries, policies) = (take(REGISTRY.path)?, take(POLICY.path)?);
    remote.add_all(&REGISTRY, &registries)?;
    remote.add_all(&POLICY, &policies)?;
    remote.add_all(&TOOL, &take(TOOL.path)?)?;
    remote.environments(&take(ENVIRONMENT.path)?)?;
    remote.fleets(take(FLEET.path))?;
    remote.add_all(&AGENT, &take(AGENT.path)?)?;
    remote.channels(&take(CHANNEL.path)?, &take(SUBSCRIPTION.path)?)?;
    remote.add_all(&LISTING, &take(LISTING.path)?)?;
    // Last, since these are many requests.
    remote.parts(api, &registries, &policies)?;
    Ok(remote)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

impl Remote {
    /// The fields of a resource of this kind, with names for ids.
    pub fn fields(&self, kind: &Kind, item: &Value) -> Fields {
        let mut portable = item.clone();
        (kind.remote)(&self.known, &mut portable);
        let fields = kind.fields.iter();
        let mut take = |field| portable.get_mut(field).map(Value::take).unwrap_or_default();
        fields.map(|(field, _)| (field.to_string(), take(*field))).collect()
    }

    fn add_all(&mut self, kind: &'static Kind, items: &[Value]) -> Result<(), Failure> {
        items.iter().try_for_each(|item| self.add(kind, item))
    }

    /// Adds a resource with the fields of its kind.
    fn add(&mut self, kind: &'static Kind, item: &Value) -> Result<(), Failure> {
        let name = text(&item[kind.key]);
        let fields = self.fields(kind, item);
        self.known.ids.insert((kind, name.clone()), text(&item["id"]));
        match self.state.resources.insert((kind, name.clone()), fields) {
            None => Ok(()),
            Some(_) => Err(Failure::Failed(format!(
                "the organization has two {}s called {name:?}, and files name them; rename one",
                kind.name
            ))),
        }
    }

    fn add_child(
        &mut self,
        kind: &'static Kind,
        parent: &str,
        own: &str,
        id: &Value,
        fields: Fields,
    ) {
        let name = (kind, child_name(parent, own));
        self.known.ids.insert(name.clone(), text(id));
        self.state.resources.insert(name, fields);
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
            let reference = self.known.registry_ref(slug);
            // By type, since pages of one list are read one after the other.
            let listed = ["prompt", "promptlet"].map(|kind| {
                [("registryRef", &*reference), ("artifactType", kind), ("all", "true")]
            });
            wanted.extend(listed.map(|query| list("/registries/artifacts", &query[..2])));
            wanted.extend(listed.map(|query| list("/registries/artifact-versions", &query)));
            wanted.push(list("/prompts/inputs", &[("registryRef", &*reference)]));
        }
        for policy in policies {
            let of = (&ASSIGNMENT, child_name(&text(&policy["name"]), ""));
            wanted.push(list(self.known.list_path(&of)?, &[]));
        }
        let mut lists = api.lists_in_org(&wanted)?.into_iter();
        for slug in &slugs {
            for artifact in [lists.next(), lists.next()].into_iter().flatten() {
                self.labels_and_tags(slug, &artifact?);
            }
            for versions in [lists.next(), lists.next()].into_iter().flatten() {
                self.versions(slug, versions?);
            }
            match lists.next() {
                // A server of an earlier release has none.
                Some(Err(refusal)) if refusal.with_code("no_such_path").is_some() => {}
                inputs => self.inputs(slug, inputs.unwrap_or_else(|| Ok(Vec::new()))?),
            }
        }
        for (policy, assignments) in policies.iter().zip(lists) {
            let name = text(&policy["name"]);
            for assignment in assignments? {
                let reference = text(&assignment["registryRef"]);
                let slug = reference.rsplit('/').next().unwrap_or_default();
                self.add_child(&ASSIGNMENT, &name, slug, &assignment["id"], Fields::new());
            }
        }
        Ok(())
    }

    fn labels_and_tags(&mut self, registry: &str, artifacts: &[Value]) {
        for artifact in artifacts {
            let key = artifact_key(registry, artifact);
            for (label, version) in artifact["labels"].as_object().into_iter().flatten() {
                self.state.labels.insert((key.clone(), label.clone()), text(version));
            }
            let tags = tags(artifact);
            if !tags.is_empty() {
                self.state.tags.insert(key, tags);
            }
        }
    }

    fn versions(&mut self, registry: &str, rows: Vec<Value>) {
        for row in rows {
            let Some(numbers) = numbers(&text(&row["version"])) else { continue };
            let (artifact, model) = (artifact_key(registry, &row), text(&row["model"]));
            let imports = row["imports"].as_object().into_iter().flatten();
            let imports = imports.map(|(name, version)| (name.clone(), text(version)));
            let known = Row {
                hash: text(&row["hash"]),
                message: row["message"].as_str().map(str::to_string),
                imports: imports.collect(),
            };
            self.state.versions.insert(VersionName { artifact, numbers, model }, known);
        }
    }

    fn inputs(&mut self, registry: &str, inputs: Vec<Value>) {
        for input in inputs {
            let (registry, name) = (registry.to_string(), text(&input["promptName"]));
            let of = ArtifactKey { registry, is_prompt: true, name };
            self.state.inputs.insert((of, text(&input["name"])), portable_input(&input));
        }
    }

    fn environments(&mut self, environments: &[Value]) -> Result<(), Failure> {
        for environment in environments {
            self.add(&ENVIRONMENT, environment)?;
            let slug = text(&environment["slug"]);
            for (name, value) in environment["variables"].as_object().into_iter().flatten() {
                let fields = Fields::from_iter([("value".to_string(), value.clone())]);
                self.add_child(&VARIABLE, &slug, name, &Value::Null, fields);
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
            Ok(fleets) => self.add_all(&FLEET, &fleets),
            Err(refusal) if refusal.with_code("session_required").is_some() => {
                self.known.has_fleets = false;
                let why = "fleets: they take a session (roadstead login --email)";
                self.left_out.push(why.into());
                Ok(())
            }
            Err(refusal) => Err(refusal.into()),
        }
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
            self.add(&CHANNEL, channel)?;
            names.insert(text(&channel["id"]), name);
        }
        for subscription in subscriptions {
            let of = names.get(&text(&subscription["channelId"]));
            if let Some(channel) = of.filter(|_| subscription["enabled"] == true) {
                let event = text(&subscription["eventType"]);
                self.add_child(&SUBSCRIPTION, channel, &event, &subscription["id"], Fields::new());
            }
        }
        Ok(())
    }
}

/// The fields of an input in files.
pub fn portable_input(input: &Value) -> Fields {
    let mut fields = input_fields();
    for (name, value) in &mut fields {
        let found = input.get(name).or_else(|| input["expect"].get(name));
        if let Some(found) = found {
            *value = found.clone();
        }
    }
    fields
}

/// The tags of an artifact.
fn tags(artifact: &Value) -> Vec<String> {
    artifact["tags"].as_array().into_iter().flatten().map(text).collect()
}

fn artifact_key(registry: &str, item: &Value) -> ArtifactKey {
    let is_prompt = item["artifactType"] == "prompt";
    ArtifactKey { registry: registry.into(), is_prompt, name: text(&item["name"]) }
}
