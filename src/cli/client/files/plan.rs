//! What would have to be done so that a server has what the files say.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::kind::{Absent, Fields, Kind, ResourceName, child_name, parent_and_own};
use super::kinds::{FLEET, KINDS, LAST_BEFORE_TEXTS, REGISTRY, children_of};
use super::remote::Remote;
use super::state::{ArtifactKey, InputName, State, Text, VersionName, version_hash};
use crate::base::canonical;
use crate::cli::failure::Failure;

/// One thing to do, by one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Create {
        resource: ResourceName,
        fields: Fields,
    },
    Change {
        resource: ResourceName,
        fields: Fields,
        before: Fields,
    },
    Remove {
        resource: ResourceName,
        /// The hash of what it is and of all that goes with it.
        holding: String,
    },
    Publish {
        version: VersionName,
        text: Text,
    },
    /// Puts a label on a version, from another or none; or, with no version, takes it off.
    Label {
        artifact: ArtifactKey,
        label: String,
        from: Option<String>,
        to: Option<String>,
    },
    /// Replaces the tags of an artifact.
    Tag {
        artifact: ArtifactKey,
        from: Vec<String>,
        to: Vec<String>,
    },
    /// Creates, changes or removes an input of a prompt.
    Input {
        input: InputName,
        from: Option<Fields>,
        to: Option<Fields>,
    },
    /// Removes a version, for all models.
    Unpublish {
        artifact: ArtifactKey,
        version: String,
        /// Those of its texts.
        hashes: Vec<String>,
    },
}

/// What is to be done, in order.
#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// What the server has and the files have not, and stays.
    pub only_on_server: Vec<String>,
}

impl Step {
    /// What it is, without ids: equal for the same step against another server.
    fn content(&self) -> Value {
        let name = |(kind, name): &ResourceName| json!([kind.name, name]);
        match self {
            Step::Create { resource, fields } => json!({"create": name(resource), "to": fields}),
            Step::Change { resource, fields, before } => {
                json!({"change": name(resource), "from": before, "to": fields})
            }
            Step::Remove { resource, holding } => {
                json!({"remove": name(resource), "holding": holding})
            }
            Step::Publish { version, text } => {
                let named = [&version.artifact.registry, &version.model];
                let mut content = json!({"publish": version_hash(version, text), "in": named});
                if let Some(message) = &text.message {
                    content["message"] = json!(message);
                }
                content
            }
            Step::Label { artifact, label, from, to } => {
                json!({"label": label, "of": artifact.to_string(), "from": from, "to": to})
            }
            Step::Tag { artifact, from, to } => {
                json!({"tag": artifact.to_string(), "from": from, "to": to})
            }
            Step::Input { input: (of, name), from, to } => {
                json!({"input": name, "of": of.to_string(), "from": from, "to": to})
            }
            Step::Unpublish { artifact, version, hashes } => {
                json!({"unpublish": artifact.to_string(), "version": version, "texts": hashes})
            }
        }
    }

    /// Its hash.
    pub fn hash(&self) -> String {
        blake3::hash(canonical(&self.content()).as_bytes()).to_string()
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let name = |(kind, name): &ResourceName| format!("{} {name}", kind.name);
        match self {
            Step::Create { resource, .. } => format!("+ {}", name(resource)),
            Step::Change { resource, fields, .. } => {
                let fields: Vec<&str> = fields.keys().map(String::as_str).collect();
                format!("~ {}: {}", name(resource), fields.join(", "))
            }
            Step::Remove { resource, .. } => format!("- {}", name(resource)),
            Step::Publish { version, .. } => format!("+ {version}"),
            Step::Label { artifact, label, from, to } => match (from, to) {
                (None, Some(to)) => format!("+ label {label} of {artifact}: {to}"),
                (Some(from), Some(to)) => format!("~ label {label} of {artifact}: {from} -> {to}"),
                (_, None) => format!("- label {label} of {artifact}"),
            },
            Step::Tag { artifact, to, .. } => format!("~ tags of {artifact}: {}", to.join(", ")),
            Step::Input { input: (of, name), from, to } => {
                let sign = match (from, to) {
                    (_, None) => '-',
                    (None, _) => '+',
                    _ => '~',
                };
                format!("{sign} input {name} of {of}")
            }
            Step::Unpublish { artifact, version, .. } => format!("- {artifact}@{version}"),
        }
    }
}

impl Plan {
    /// Its hash: that of its steps, in order.
    pub fn hash(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(Step::hash).collect();
        blake3::hash(steps.join("\n").as_bytes()).to_string()
    }
}

/// Returns the versions of the files that are published with another hash: they may still say the
/// same.
pub fn published_otherwise(local: &State<Text>, remote: &Remote) -> Vec<VersionName> {
    let differs = |(version, text): &(&VersionName, &Text)| {
        let row = remote.state.versions.get(*version);
        row.is_some_and(|row| row.hash != version_hash(version, text))
    };
    local.versions.iter().filter(differs).map(|(version, _)| version.clone()).collect()
}

/// Compares the files, whose versions are `sorted` as they can be published, with a server. `same` are
/// versions that say the same there, by another hash.
///
/// # Errors
/// Usage, with everything that no request could bring about.
pub fn plan(
    local: &State<Text>,
    sorted: &[&VersionName],
    remote: &Remote,
    same: &BTreeSet<VersionName>,
    prune: bool,
) -> Result<Plan, Failure> {
    let mut problems = missing_references(local, remote);
    let mut planning =
        Planning { local, remote, same, plan: Plan::default(), problems: Vec::new() };
    for kind in KINDS {
        planning.resources(kind);
        if kind == LAST_BEFORE_TEXTS {
            // A policy may run a new version on them.
            planning.inputs(prune);
            planning.versions(sorted);
            planning.labels();
            planning.tags();
        }
    }
    planning.removals(prune);
    problems.append(&mut planning.problems);
    if problems.is_empty() { Ok(planning.plan) } else { Err(Failure::Usage(problems.join("\n"))) }
}

struct Planning<'a> {
    local: &'a State<Text>,
    remote: &'a Remote,
    same: &'a BTreeSet<VersionName>,
    plan: Plan,
    problems: Vec<String>,
}

impl Planning<'_> {
    fn resources(&mut self, kind: &'static Kind) {
        // It takes a session to see them.
        if *kind == FLEET && !self.remote.known.has_fleets {
            return;
        }
        let of_kind = self.local.resources.iter().filter(|((of, _), _)| *of == kind);
        for (resource, fields) in of_kind {
            let (about, name) = (kind.name, &resource.1);
            let mut fields = fields.clone();
            (kind.plan)(&self.remote.known, &mut fields);
            let Some(before) = self.remote.state.resources.get(resource) else {
                fields.retain(|_, value| !value.is_null());
                if let Err(why) = (kind.check_new_name)(name) {
                    self.problems.push(format!("the name of the {about} {name:?} {why}"));
                }
                self.plan.steps.push(Step::Create { resource: resource.clone(), fields });
                continue;
            };
            let (mut to, mut from) = (Fields::new(), Fields::new());
            for (field, absent) in kind.fields {
                let (Some(new), old) = (fields.get(*field), &before[*field]) else { continue };
                if new == old {
                    continue;
                }
                if *absent == Absent::Fixed {
                    self.problems.push(format!("the {field} of the {about} {name} never changes"));
                }
                to.insert((*field).to_string(), new.clone());
                from.insert((*field).to_string(), old.clone());
            }
            if !to.is_empty() {
                let (resource, before) = (resource.clone(), from);
                self.plan.steps.push(Step::Change { resource, fields: to, before });
            }
        }
    }

    fn versions(&mut self, sorted: &[&VersionName]) {
        for version in sorted.iter().copied() {
            let text = &self.local.versions[version];
            match self.remote.state.versions.get(version) {
                Some(row) if row.hash == version_hash(version, text) => {}
                Some(_) if self.same.contains(version) => {}
                Some(_) => self.problems.push(format!(
                    "{version} is published with another content, and published versions do not \
                     change: raise its version"
                )),
                None => {
                    let (version, text) = (version.clone(), text.clone());
                    self.plan.steps.push(Step::Publish { version, text });
                }
            }
        }
    }

    fn labels(&mut self) {
        for ((artifact, label), version) in &self.local.labels {
            let from = self.remote.state.labels.get(&(artifact.clone(), label.clone())).cloned();
            if from.as_ref() != Some(version) {
                let (artifact, label) = (artifact.clone(), label.clone());
                self.plan.steps.push(Step::Label {
                    artifact,
                    label,
                    from,
                    to: Some(version.clone()),
                });
            }
        }
    }

    /// Those that the server alone has go first as well: an input that no version can pass would keep every
    /// version from being published.
    fn inputs(&mut self, prune: bool) {
        if prune {
            let steps = self.input_removals();
            self.plan.steps.extend(steps);
            self.require_prompts_of_inputs();
        }
        for (input, to) in &self.local.inputs {
            let from = self.remote.state.inputs.get(input).cloned();
            if from.as_ref() != Some(to) {
                let (input, to) = (input.clone(), Some(to.clone()));
                self.plan.steps.push(Step::Input { input, from, to });
            }
        }
    }

    fn input_removals(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (input, from) in &self.remote.state.inputs {
            let registry = (&REGISTRY, input.0.registry.clone());
            if !self.local.inputs.contains_key(input)
                && self.local.resources.contains_key(&registry)
            {
                steps.push(Step::Input {
                    input: input.clone(),
                    from: Some(from.clone()),
                    to: None,
                });
            }
        }
        steps
    }

    /// Inputs go with the last version of their prompt: where that is removed they could not stay.
    fn require_prompts_of_inputs(&mut self) {
        let of_files: BTreeSet<&ArtifactKey> = self.local.inputs.keys().map(|(of, _)| of).collect();
        for of in of_files {
            let is_of = |version: &VersionName| version.artifact == *of;
            if self.remote.state.versions.keys().any(is_of)
                && !self.local.versions.keys().any(is_of)
            {
                self.problems.push(format!(
                    "{of} has inputs in the files and no version: remove them, or keep the prompt"
                ));
            }
        }
    }

    fn tags(&mut self) {
        for (artifact, to) in &self.local.tags {
            let from = self.remote.state.tags.get(artifact).cloned().unwrap_or_default();
            if from != *to {
                let (artifact, to) = (artifact.clone(), to.clone());
                self.plan.steps.push(Step::Tag { artifact, from, to });
            }
        }
    }

    /// The removal of a resource with its children, and of a registry with what is in it.
    fn removal(&self, resource: &ResourceName) -> Step {
        let (kind, name) = resource;
        let state = &self.remote.state;
        let mut holding = vec![json!(state.resources[resource])];
        for (of, _) in children_of(kind) {
            let children = state.children(of, name);
            holding.extend(children.map(|(own, fields)| json!([child_name(name, own), fields])));
        }
        if **kind == REGISTRY {
            let versions = state.versions.iter().filter(|(of, _)| of.artifact.registry == *name);
            holding.extend(versions.map(|(of, row)| json!([of.to_string(), row.hash])));
            let labels = state.labels.iter().filter(|((of, _), _)| of.registry == *name);
            holding.extend(
                labels.map(|((of, label), version)| json!([of.to_string(), label, version])),
            );
            let inputs = state.inputs.iter().filter(|((of, _), _)| of.registry == *name);
            holding
                .extend(inputs.map(|((of, input), fields)| json!([of.to_string(), input, fields])));
        }
        let holding = blake3::hash(canonical(&holding.into()).as_bytes()).to_string();
        Step::Remove { resource: resource.clone(), holding }
    }

    /// The versions of artifacts that the files do not have, the highest first.
    fn unpublished(&self, is_removed: impl Fn(&str) -> bool) -> Vec<Step> {
        let known: BTreeSet<&ArtifactKey> =
            self.local.versions.keys().map(|version| &version.artifact).collect();
        let mut steps: Vec<Step> = Vec::new();
        for (name, row) in self.remote.state.versions.iter().rev() {
            if known.contains(&name.artifact) || is_removed(&name.artifact.registry) {
                continue;
            }
            match steps.last_mut() {
                Some(Step::Unpublish { artifact, version, hashes })
                    if *artifact == name.artifact && *version == name.version() =>
                {
                    hashes.push(row.hash.clone());
                }
                _ => {
                    let (artifact, version) = (name.artifact.clone(), name.version());
                    let hashes = vec![row.hash.clone()];
                    steps.push(Step::Unpublish { artifact, version, hashes });
                }
            }
        }
        steps
    }

    /// What the server alone has: what refers to others goes before them.
    fn removals(&mut self, prune: bool) {
        let mut removals = Vec::new();
        let resources = self.remote.state.resources.keys();
        let gone: Vec<&ResourceName> =
            resources.filter(|name| !self.local.resources.contains_key(*name)).collect();
        // With its parent a child goes by itself.
        let has_parent = |(kind, name): &ResourceName| {
            kind.parent.as_ref().is_none_or(|of| {
                let parent = (of.kind, parent_and_own(name).0.to_string());
                self.local.resources.contains_key(&parent)
            })
        };
        let gone = gone.into_iter().filter(|name| has_parent(name)).rev();
        let (later, first): (Vec<_>, Vec<_>) =
            gone.partition(|(kind, _)| *kind <= LAST_BEFORE_TEXTS);
        removals.extend(first.into_iter().map(|name| self.removal(name)));
        let is_removed =
            |slug: &str| !self.local.resources.contains_key(&(&REGISTRY, slug.to_string()));
        for (artifact, label) in self.remote.state.labels.keys() {
            let key = (artifact.clone(), label.clone());
            if !self.local.labels.contains_key(&key) && !is_removed(&artifact.registry) {
                let from = self.remote.state.labels.get(&key).cloned();
                let (artifact, label) = key;
                removals.push(Step::Label { artifact, label, from, to: None });
            }
        }
        if !prune {
            removals.extend(self.input_removals());
        }
        removals.extend(self.unpublished(is_removed));
        removals.extend(later.into_iter().map(|name| self.removal(name)));
        if prune {
            self.plan.steps.extend(removals);
        } else {
            let lines = removals.iter().map(|step| step.line()[2..].to_string());
            self.plan.only_on_server = lines.collect();
        }
    }
}

/// What resources refer to and neither the files nor the server have.
fn missing_references(local: &State<Text>, remote: &Remote) -> Vec<String> {
    let known = remote.known.expecting(local.resources.keys());
    let of = |((kind, name), fields): (&ResourceName, &Fields)| {
        let missing = (kind.missing)(&known, fields).into_iter();
        missing.map(|why| format!("the {} {name}: {why}", kind.name)).collect::<Vec<_>>()
    };
    local.resources.iter().flat_map(of).collect()
}
