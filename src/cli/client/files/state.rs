//! What plain files are about: the resources of an organization by their names, without ids, times and
//! secrets, in a form that the files and the server can both be brought into.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::base::canonical;

/// Fields of a resource, as the API calls them; ids of others are replaced by their names.
pub type Fields = Map<String, Value>;

/// A kind of resource.
pub struct Kind {
    /// For people.
    pub name: &'static str,
    /// The folder of its files; empty for what is in the file of another.
    pub folder: &'static str,
    /// The field that names it.
    pub key: &'static str,
    /// Its other fields, and what it means if a file has none.
    pub fields: &'static [(&'static str, Absent)],
}

/// What it means if a file has no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It has no value.
    Null,
    /// It stays as it is on the server.
    Kept,
    /// It never changes: a difference is no change.
    Fixed,
}
use Absent::{Fixed, Kept, Null};

/// Its place in [`KINDS`].
pub const REGISTRY: usize = 0;
/// Its place in [`KINDS`].
pub const POLICY: usize = 1;
/// Its place in [`KINDS`].
pub const ASSIGNMENT: usize = 2;
/// Its place in [`KINDS`].
pub const TOOL: usize = 3;
/// Its place in [`KINDS`].
pub const ENVIRONMENT: usize = 4;
/// Its place in [`KINDS`].
pub const VARIABLE: usize = 5;
/// Its place in [`KINDS`].
pub const FLEET: usize = 6;
/// Its place in [`KINDS`].
pub const AGENT: usize = 7;
/// Its place in [`KINDS`].
pub const CHANNEL: usize = 8;
/// Its place in [`KINDS`].
pub const SUBSCRIPTION: usize = 9;
/// Its place in [`KINDS`].
pub const LISTING: usize = 10;

/// All kinds, in the order in which they are created: none refers to a later one. Versions and labels
/// come after the assignments of policies, which examine them.
pub const KINDS: [Kind; 11] = [
    Kind {
        name: "registry",
        folder: "registries",
        key: "slug",
        fields: &[("name", Kept), ("description", Null), ("visibility", Kept), ("access", Kept)],
    },
    Kind {
        name: "policy",
        folder: "policies",
        key: "name",
        fields: &[("description", Null), ("severity", Kept), ("rules", Kept)],
    },
    Kind { name: "assignment", folder: "", key: "registry", fields: &[] },
    Kind {
        name: "tool",
        folder: "tools",
        key: "name",
        fields: &[
            ("description", Null),
            ("prompt", Null),
            ("type", Kept),
            ("providerConfig", Kept),
            ("version", Kept),
        ],
    },
    Kind {
        name: "environment",
        folder: "environments",
        key: "slug",
        fields: &[
            ("name", Kept),
            ("description", Null),
            ("access", Kept),
            ("approvals", Null),
            ("approvalTimeoutHours", Kept),
        ],
    },
    Kind { name: "variable", folder: "", key: "name", fields: &[("value", Kept)] },
    Kind {
        name: "fleet",
        folder: "fleets",
        key: "name",
        fields: &[("description", Null), ("access", Kept)],
    },
    Kind {
        name: "agent",
        folder: "agents",
        key: "stableKey",
        fields: &[
            ("name", Kept),
            ("description", Null),
            ("fleet", Null),
            ("registry", Null),
            ("promptName", Null),
            ("promptVersion", Null),
            ("model", Null),
            ("provider", Null),
            ("tools", Kept),
            ("variables", Kept),
            ("providerConfig", Kept),
        ],
    },
    Kind {
        name: "channel",
        folder: "channels",
        key: "name",
        fields: &[("workflow", Fixed), ("config", Kept), ("enabled", Kept)],
    },
    Kind { name: "subscription", folder: "", key: "event", fields: &[] },
    Kind {
        name: "listing",
        folder: "listings",
        key: "handle",
        fields: &[
            ("stableKey", Fixed),
            ("pubkey", Kept),
            ("displayName", Kept),
            ("description", Null),
            ("skills", Kept),
            ("visibility", Kept),
            ("contactPolicy", Kept),
            ("cardState", Kept),
        ],
    },
];

/// The field of a parent's file that its children are in: `registries` of a policy.
pub const CHILDREN: [(usize, usize, &str); 3] = [
    (POLICY, ASSIGNMENT, "registries"),
    (ENVIRONMENT, VARIABLE, "variables"),
    (CHANNEL, SUBSCRIPTION, "events"),
];

/// Kind and name of a resource. A child's name is that of its parent, a slash, and its own.
pub type ResourceName = (usize, String);

/// The name of a child.
pub fn child_name(parent: &str, own: &str) -> String {
    format!("{parent}/{own}")
}

/// The names of a child's parent and of itself, which has no slash.
pub fn parent_and_own(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

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
