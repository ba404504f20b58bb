//! Usage of a variable of environments (reference: registries-and-templates, "Variable usage"):
//! every published version and every tool that uses it, from references that are updated whenever one
//! of them is written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;

use super::artifacts::variables::{self as in_artifacts, VariableReference};
use super::registries::{self, ArtifactType};
use super::tools::{self, Tool};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{ArtifactName, Id, Name, Result, VariableName, Version};
use crate::store::View;

/// The route. The references belong to artifacts and tools.
pub const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// An answer lists at most 5,000 versions and 5,000 tools: more than a person reads, and some 2 MB.
const MAX_SHOWN: usize = 5000;

/// An answer scans at most 20,000 versions, which takes some 100 ms.
const MAX_SCANNED_ROWS: usize = 20_000;

// ── What callers see ─────────────────────────────────────────────────────────

/// The versions and tools that use a variable.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableUsage {
    /// The name of the variable.
    variable_name: String,
    /// Whether anything uses it, listed here or not.
    used: bool,
    /// The published versions that use it, in registries that the caller may use; at most 5,000.
    prompts: Vec<VariablePromptUsage>,
    /// The tools that use it, newest first; at most 5,000.
    tools: Vec<VariableToolUsage>,
}

impl Output for VariableUsage {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A published version that uses a variable.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariablePromptUsage {
    /// The registry: `<orgSlug>/<registrySlug>`.
    registry_ref: String,
    /// The name of the artifact.
    name: ArtifactName,
    /// The type of the artifact.
    artifact_type: ArtifactType,
    /// The version.
    version: Version,
    /// Whether it is the latest version of the artifact.
    latest: bool,
}

/// A tool that uses a variable.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VariableToolUsage {
    /// The id of the tool.
    id: Id<Tool>,
    /// The name of the tool.
    name: Name,
    /// The current version of the tool.
    version: Version,
}

// ── Operations ───────────────────────────────────────────────────────────────

fn get(view: &View, req: &Req<String>) -> Result<VariableUsage> {
    let mut usage = VariableUsage {
        variable_name: req.params.clone(),
        used: false,
        prompts: Vec::new(),
        tools: Vec::new(),
    };
    // Nothing uses a name that no variable can have.
    let Ok(variable) = VariableName::parse(req.params.as_str()) else { return Ok(usage) };
    let tools = tools::variables::tools_using(view, &variable, MAX_SHOWN)?;
    let tool =
        |tool: Tool| VariableToolUsage { id: tool.id, name: tool.name, version: tool.version };
    usage.tools = tools.into_iter().map(tool).collect();
    usage.used = !usage.tools.is_empty();

    // The reference of each registry, if it exists and the caller may use it.
    let mut known = BTreeMap::new();
    let mut scanned = 0;
    in_artifacts::scan_versions_using(view, &variable, |found| {
        let registry = match known.entry(found.of.registry) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(entry) => entry.insert(registry_access(view, req, &found)?),
        };
        match registry {
            // Versions that are about to be removed count for nothing: the variable would seem used until
            // the last of them is removed.
            RegistryAccess::Deleted => return Ok(ControlFlow::Continue(())),
            RegistryAccess::Hidden => usage.used = true,
            RegistryAccess::Usable(reference) => {
                usage.used = true;
                usage.prompts.push(VariablePromptUsage {
                    registry_ref: reference.clone(),
                    latest: in_artifacts::is_latest(view, &found)?,
                    name: found.of.name,
                    artifact_type: found.of.kind,
                    version: found.version,
                });
            }
        }
        scanned += 1;
        let is_enough = usage.prompts.len() == MAX_SHOWN || scanned == MAX_SCANNED_ROWS;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(usage)
}

/// What a caller may see of a registry.
enum RegistryAccess {
    /// It is deleted; its contents are not removed yet.
    Deleted,
    /// The caller may not use it.
    Hidden,
    /// The caller may use it; its reference.
    Usable(String),
}

fn registry_access(
    view: &View,
    req: &Req<String>,
    found: &VariableReference,
) -> Result<RegistryAccess> {
    let Some(registry) = registries::find_by_id(view, found.of.registry)? else {
        return Ok(RegistryAccess::Deleted);
    };
    let usable = registry.open_if_usable(view, req.caller())?;
    Ok(usable.map_or(RegistryAccess::Hidden, |registry| RegistryAccess::Usable(registry.reference)))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/environments/variables/{variableName}/usage",
            MEMBER,
            "environment_variable.usage",
            op::read(get),
        )
        .needs(ScopeName::VariableRead)
        .about("List prompts and tools using a variable"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::auth::Access;
    use crate::resources::artifacts::ArtifactId;
    use crate::resources::artifacts::tests::{
        delete, prompt, promptlet, publish, registry, version, with_access,
    };
    use crate::resources::testing::Fixture;
    use crate::resources::tools::tests::{self as tool, make};
    use crate::store::Tx;

    fn usage(fixture: &Fixture, variable: &str) -> Value {
        json!(fixture.read(get, variable.to_string(), ()).unwrap())
    }

    fn names(usage: &Value, field: &str) -> Vec<String> {
        let name = |row: &Value| row["name"].as_str().unwrap().to_string();
        usage[field].as_array().unwrap().iter().map(name).collect()
    }

    #[test]
    fn usage_lists_published_versions_and_tools() {
        let fixture = Fixture::new();
        registry(&fixture, "main");
        promptlet(&fixture, "tone", "1.0.0", "{{TOKEN}}");
        prompt(&fixture, "p", "1.0.0", "{{ import \"tone\" }}");
        prompt(&fixture, "p", "1.1.0", "{{TOKEN}}");
        let config = json!({"http": {"headers": ["Bearer ${TOKEN}", {"x": "${TOKEN}${OTHER}"}]}});
        let tool = json!({"name": "t", "type": "http", "providerConfig": config});
        let tool = make(&fixture, tool).unwrap();
        let row = |name: &str, kind: &str, version: &str, latest: bool| {
            json!({
                "registryRef": "acme/main", "name": name, "artifactType": kind,
                "version": version, "latest": latest,
            })
        };
        let expected = json!({
            "variableName": "TOKEN", "used": true,
            "prompts": [
                row("tone", "promptlet", "1.0.0", true),
                row("p", "prompt", "1.1.0", true),
                row("p", "prompt", "1.0.0", false),
            ],
            "tools": [{"id": tool.id, "name": "t", "version": "1.0.0"}],
        });
        assert_eq!(usage(&fixture, "TOKEN"), expected);
        for unknown in ["token", "TOKE", "1a", "", "a b", &"a".repeat(4000)] {
            let expected =
                json!({"variableName": unknown, "used": false, "prompts": [], "tools": []});
            assert_eq!(usage(&fixture, unknown), expected);
        }
    }

    #[test]
    fn a_tool_uses_the_variables_of_its_current_version() {
        let fixture = Fixture::new();
        let body = |config: Value| json!({"name": "t", "type": "x", "providerConfig": config});
        let id = make(&fixture, body(json!({"a": "${A} ${B}"}))).unwrap().id;
        let change = json!({"providerConfig": {"b": "${B} ${C}"}, "bumpVersion": "minor"});
        tool::patch(&fixture, id, change).unwrap();
        tool::patch(&fixture, id, json!({"name": "renamed"})).unwrap();
        assert_eq!(usage(&fixture, "A")["used"], false);
        for variable in ["B", "C"] {
            let tools = usage(&fixture, variable)["tools"].clone();
            assert_eq!(tools, json!([{"id": id, "name": "renamed", "version": "1.1.0"}]));
        }
        make(&fixture, body(json!({"a": "${C}"}))).unwrap();
        assert_eq!(names(&usage(&fixture, "C"), "tools"), ["t", "renamed"], "newest first");
        tool::delete(&fixture, id);
        assert_eq!(usage(&fixture, "B")["used"], false);
        assert_eq!(names(&usage(&fixture, "C"), "tools"), ["t"]);
        fixture.assert_sound();
    }

    #[test]
    fn remaining_rows_of_a_deleted_registry_do_not_exhaust_the_scan() {
        let fixture = Fixture::new();
        registry(&fixture, "main");
        prompt(&fixture, "p", "1.0.0", "{{A}}");
        let of = ArtifactId {
            registry: fixture.store.write_blocking(fixture.org, |tx| Ok(tx.new_id())).unwrap(),
            kind: ArtifactType::Prompt,
            name: ArtifactName::parse("gone").unwrap(),
        };
        let left: Vec<_> = (0..=MAX_SCANNED_ROWS)
            .map(|n| VariableReference {
                variable: VariableName::parse("A").unwrap(),
                of: of.clone(),
                version: Version::parse(format!("1.{n}.0")).unwrap(),
            })
            .collect();
        for some in left.chunks(2000) {
            let some = some.to_vec();
            let leave = move |tx: &mut Tx| some.iter().try_for_each(|used| tx.insert(used));
            fixture.store.write_blocking(fixture.org, leave).unwrap();
        }
        let usage = usage(&fixture, "A");
        assert_eq!((&usage["used"], names(&usage, "prompts")), (&json!(true), vec!["p".into()]));
    }

    #[test]
    fn a_tool_uses_at_most_1000_variables() {
        let fixture = Fixture::new();
        let config =
            |count: usize| -> String { (0..count).map(|n| format!("${{v{n}}}")).collect() };
        let body = |count| json!({"name": "t", "type": "x", "providerConfig": {"a": [{"b": config(count)}]}});
        let id = make(&fixture, body(1000)).unwrap().id;
        let path = |error: crate::base::Error| error.issues()[0].path.clone();
        assert_eq!(path(make(&fixture, body(1001)).unwrap_err()), "providerConfig");
        assert_eq!(path(tool::patch(&fixture, id, body(1001)).unwrap_err()), "providerConfig");
        let none = json!({"providerConfig": {}});
        tool::patch(&fixture, id, none).unwrap();
        assert_eq!(usage(&fixture, "v999")["used"], false);
    }

    #[test]
    fn usage_in_inaccessible_registries_is_counted_but_not_listed() {
        let fixture = Fixture::new();
        registry(&fixture, "main");
        with_access(&fixture, "hidden", Access::Restricted);
        let mut secret = version("prompt", "secret", "1.0.0", "{{A}}");
        secret["registryRef"] = json!("acme/hidden");
        let by_owner = Fixture { member: fixture.owner.clone(), ..fixture.clone() };
        publish(&by_owner, secret).unwrap();
        let expected = json!({"variableName": "A", "used": true, "prompts": [], "tools": []});
        assert_eq!(usage(&fixture, "A"), expected);
        assert_eq!(names(&usage(&by_owner, "A"), "prompts"), ["secret"]);
        prompt(&fixture, "p", "1.0.0", "{{A}}");
        assert_eq!(names(&usage(&fixture, "A"), "prompts"), ["p"]);
        delete(&fixture, "prompt", "p", "1.0.0").unwrap();
        assert_eq!(usage(&fixture, "A"), expected);
    }
}
