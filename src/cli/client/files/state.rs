//! What plain files are about: the resources of an organization by their names, without ids, times and
//! secrets, in a form that the files and the server can both be brought into.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::kind::{Fields, Kind, ResourceName, child_name, parent_and_own};
use crate::base::canonical;

/// A version of an artifact for a model. Promptlets sort before prompts, which import them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionName {
    pub artifact: ArtifactKey,
    pub numbers: [u64; 3],
    pub model: String,
}

/// An artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArtifactKey {
    pub registry: String,
    pub is_prompt: bool,
    pub name: String,
}

impl ArtifactKey {
    /// Its type in the API.
    pub fn artifact_type(&self) -> &'static str {
        if self.is_prompt { "prompt" } else { "promptlet" }
    }
}

impl std::fmt::Display for ArtifactKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.artifact_type(), self.registry, self.name)
    }
}

impl VersionName {
    /// The version as text.
    pub fn version(&self) -> String {
        let [major, minor, patch] = self.numbers;
        format!("{major}.{minor}.{patch}")
    }
}

impl std::fmt::Display for VersionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.artifact, self.version())?;
        if self.model == GENERIC { Ok(()) } else { write!(f, " for {}", self.model) }
    }
}

/// The model of a text for every model without one of its own.
pub const GENERIC: &str = "generic";

/// What a version says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    pub source: String,
    pub metadata: Fields,
    /// What changed and why; no part of its hash.
    pub message: Option<String>,
}

/// Parses three numbers with dots.
pub fn numbers(version: &str) -> Option<[u64; 3]> {
    let parts: Vec<u64> = version
        .split('.')
        .map(|part| part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit())))
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// The hash of a version, as the server makes it (reference: registries-and-templates, "Versions").
pub fn version_hash(name: &VersionName, text: &Text) -> String {
    let published = json!({
        "type": name.artifact.artifact_type(),
        "name": name.artifact.name,
        "version": name.version(),
        "model": name.model,
        "source": text.source,
        "metadata": text.metadata,
    });
    blake3::hash(canonical(&published).as_bytes()).to_string()
}

/// An organization, in files or on a server. `V` is what is known of a version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State<V> {
    pub resources: BTreeMap<ResourceName, Fields>,
    pub versions: BTreeMap<VersionName, V>,
    /// The version of each label.
    pub labels: BTreeMap<(ArtifactKey, String), String>,
    /// The tags of artifacts that say some.
    pub tags: BTreeMap<ArtifactKey, Vec<String>>,
    /// The inputs of prompts, by their names, each with all [`input_fields`].
    pub inputs: BTreeMap<InputName, Fields>,
}

/// The prompt and the name of an input.
pub type InputName = (ArtifactKey, String);

/// The fields of an input in files, and what it means if one is absent.
pub fn input_fields() -> Fields {
    let fields = [("variables", json!({})), ("message", Value::Null)];
    let expected = [("contains", json!([])), ("judge", Value::Null)];
    fields.into_iter().chain(expected).map(|(name, value)| (name.to_string(), value)).collect()
}

impl<V> State<V> {
    /// The children of a kind that a resource has, by their own names.
    pub fn children<'a>(
        &'a self,
        kind: &'static Kind,
        parent: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Fields)> {
        let before = child_name(parent, "");
        let first = (kind, before.clone());
        let all = self.resources.range(first..).map(|((of, name), fields)| (of, name, fields));
        let all = all.take_while(move |(of, name, _)| **of == kind && name.starts_with(&before));
        let named = all.map(|(_, name, fields)| (parent_and_own(name), fields));
        // Behind it may be those of a parent whose name goes on with a slash.
        named.filter(move |((of, _), _)| *of == parent).map(|((_, own), fields)| (own, fields))
    }

    /// The versions of an artifact with these numbers or higher ones, for all models.
    pub fn versions_from<'a>(
        &'a self,
        artifact: &'a ArtifactKey,
        numbers: [u64; 3],
    ) -> impl Iterator<Item = (&'a VersionName, &'a V)> {
        let first = VersionName { artifact: artifact.clone(), numbers, model: String::new() };
        self.versions.range(first..).take_while(move |(version, _)| version.artifact == *artifact)
    }

    /// The texts of a version, for one model each.
    pub fn models_of<'a>(
        &'a self,
        artifact: &'a ArtifactKey,
        numbers: [u64; 3],
    ) -> impl Iterator<Item = &'a VersionName> {
        let from = self.versions_from(artifact, numbers).map(|(version, _)| version);
        from.take_while(move |version| version.numbers == numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promptlets_sort_before_prompts() {
        let key = |is_prompt, name: &str| ArtifactKey {
            registry: "main".into(),
            is_prompt,
            name: name.into(),
        };
        assert!(key(false, "z") < key(true, "a"));
        assert_eq!(key(true, "a").to_string(), "prompt main/a");
    }

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(numbers("1.10.0"), Some([1, 10, 0]));
        for wrong in ["1.0", "1.0.0.0", "a.b.c", "+1.0.0", "", "1..0"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }
}
