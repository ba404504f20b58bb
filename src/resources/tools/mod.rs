//! Tools: what agents may call, each with a version (reference: agents, "Tools").
//!
//! A tool is changed in place. Its last state under each version number is stored
//! ([`versions`]), and version numbers only increase. Environments refer to a version of a tool; an
//! update moves the references of the environments in the request. `deployments` declares the route
//! of the update: what a version stands for does not change once it was deployed.

mod tool;
mod types;
pub mod variables;
mod versions;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::environments::{self, Environment};
use super::tags::{self, Tags, Wanted};
use crate::api::{Deleted, Input, Req, Resource, Route, op};
use crate::auth::{Caller, MEMBER, Restricted, ScopeName};
use crate::base::{
    Description, Error, Id, Issue, JsonMap, Name, Nullable, Prompt, Result, Version, VersionMessage,
};
use crate::store::{Key, ListSource, Order, Page, TableInfo, Tx, View};

use tool::{BY_KIND, BY_TAG};
pub use tool::{Tool, ToolKind};
pub use versions::{IsDeployed, ToolVersion, version};

/// Tools and their versions.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[
        TableInfo::of::<Tool>(),
        TableInfo::of::<ToolVersion>(),
        TableInfo::of::<variables::ToolVariable>(),
    ],
    ..Resource::EMPTY
};

// ── What callers send ────────────────────────────────────────────────────────

/// The version of a tool created without one.
const FIRST_VERSION: &str = "1.0.0";

/// A tool to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Web search", "type": "function", "version": "1.0.0",
        "providerConfig": {"openai": {"strict": true}}}],
))]
pub struct NewTool {
    name: Name,
    #[serde(rename = "type")]
    kind: ToolKind,
    /// 1.0.0 if absent.
    version: Option<Version>,
    /// Empty if absent.
    provider_config: Option<JsonMap>,
    description: Option<Description>,
    prompt: Option<Prompt>,
    tags: Option<Tags>,
    /// About its first version: why there is such a tool.
    message: Option<VersionMessage>,
}

impl Input for NewTool {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        tags::check(self.tags.as_ref(), issues);
        check_config(self.provider_config.as_ref(), issues);
    }
}

fn check_config(config: Option<&JsonMap>, issues: &mut Vec<Issue>) {
    let used = config.map_or(0, |config| variables::variables_in(config).len());
    if used > variables::MAX_VARIABLES {
        issues.push(Issue::new("providerConfig", "must mention at most 1,000 variables"));
    }
}

/// Changes to a tool; absent fields keep their value.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"description": "Searches the web.", "bumpVersion": "minor"}],
    "if" = {"required": ["version"], "properties": {"version": {"type": "string"}}},
    "then" = {"properties": {"bumpVersion": {"type": "null"}}},
))]
pub struct ToolPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    #[serde(default)]
    prompt: Nullable<Prompt>,
    #[serde(rename = "type")]
    kind: Option<ToolKind>,
    provider_config: Option<JsonMap>,
    /// All of its tags from now on.
    tags: Option<Tags>,
    /// The new version, not lower than the current one.
    version: Option<Version>,
    /// The number of the version to increase; not together with `version`.
    bump_version: Option<VersionBump>,
    /// Environments, by id or slug, to move to the resulting version; all or none.
    #[schemars(extend("maxItems" = environments::MAX_ENVIRONMENTS))]
    update_environment_versions: Option<Vec<String>>,
    /// What changed in the new version and why; takes `version` or `bumpVersion`.
    message: Option<VersionMessage>,
}

impl Input for ToolPatch {
    fn check(&self, issues: &mut Vec<Issue>) {
        tags::check(self.tags.as_ref(), issues);
        check_config(self.provider_config.as_ref(), issues);
        if self.version.is_some() && self.bump_version.is_some() {
            issues.push(Issue::new("bumpVersion", "must not be sent together with version"));
        }
        let environments = self.update_environment_versions.as_ref().map_or(0, Vec::len);
        if environments > environments::MAX_ENVIRONMENTS {
            issues.push(Issue::new(
                "updateEnvironmentVersions",
                "must name at most 1,000 environments, which is as many as there can be",
            ));
        }
    }
}

/// The number of a version to increase; those after it become 0.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VersionBump {
    /// The first.
    Major,
    /// The second.
    Minor,
    /// The third.
    Patch,
}

/// The filter of a list of tools.
#[derive(Deserialize, JsonSchema)]
pub struct ToolFilter {
    /// Only tools of exactly this type.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only those with all of these tags.
    tag: Option<Tags>,
}

impl Input for ToolFilter {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), ToolFilter>) -> Result<Page<Tool>> {
    let ToolFilter { kind, tag } = &req.input;
    let tags = Wanted::of(tag.as_ref());
    if let Some(tag) = tags.first() {
        let is_of_kind = |tool: &Tool| kind.as_ref().is_none_or(|kind| *tool.kind == **kind);
        return view.page(&BY_TAG, tag, Order::Descending, &req.page, |tool| {
            is_of_kind(tool) && tags.are_in(&tool.tags)
        });
    }
    match kind {
        None => view.page(ListSource::TABLE, &(), Order::Descending, &req.page, |_| true),
        Some(kind) => view.page(&BY_KIND, kind, Order::Descending, &req.page, |_| true),
    }
}

fn get(view: &View, req: &Req<Id<Tool>>) -> Result<Tool> {
    view.fetch(&req.params)
}

fn create(tx: &mut Tx, req: &Req<(), NewTool>) -> Result<Tool> {
    let new = &req.input;
    let tool = Tool {
        id: tx.new_id(),
        name: new.name.clone(),
        description: new.description.clone(),
        prompt: new.prompt.clone(),
        kind: new.kind.clone(),
        provider_config: new.provider_config.clone().unwrap_or_default(),
        version: new.version.clone().unwrap_or_else(|| Version::from_trusted(FIRST_VERSION.into())),
        created_by: req.caller().user(),
        created_at: tx.now(),
        updated_by: Some(req.caller().user()),
        updated_at: tx.now(),
        tags: new.tags.as_deref().unwrap_or_default().to_vec(),
    };
    tx.insert(&tool)?;
    variables::update(tx, tool.id, &JsonMap::default(), &tool.provider_config)?;
    let by = (req.caller().user(), new.message.clone());
    versions::store(tx, &tool, by, |_, _, _| Ok(false))?;
    Ok(tool)
}

/// Changes a tool, and moves the references of the environments in the request to it.
///
/// # Errors
/// 404 and 403 for the environments; 409 for a lower version, for environments with approvals, and
/// for a change of a version that somebody relies on.
pub fn update(
    tx: &mut Tx,
    req: &Req<Id<Tool>, ToolPatch>,
    is_deployed: IsDeployed,
) -> Result<Tool> {
    let old: Tool = tx.fetch(&req.params)?;
    let named = req.input.update_environment_versions.as_deref().unwrap_or_default();
    let environments = visible_environments(&tx.view(), req.caller(), named)?;
    let mut new = patched(&old, &req.input)?;
    check_approvals(&environments)?;
    let message = req.input.message.clone();
    if new.version == old.version {
        check_message(&tx.view(), &old, message.as_ref())?;
    }
    if new != old {
        // Tags are of the tool, not of a version.
        let has_other_content = Tool { tags: old.tags.clone(), ..new.clone() } != old;
        (new.updated_by, new.updated_at) = (Some(req.caller().user()), tx.now());
        tx.replace(&old, &new)?;
        variables::update(tx, new.id, &old.provider_config, &new.provider_config)?;
        if has_other_content {
            versions::store(tx, &new, (req.caller().user(), message), is_deployed)?;
        }
    }
    for id in environments.into_keys() {
        let reference = (new.id.cast(), &new.version);
        environments::add_tool_reference(tx, id, reference, req.caller().user())?;
    }
    Ok(new)
}

/// Refuses a message that the version of a tool does not have: it is given when the version is made.
///
/// # Errors
/// 400.
fn check_message(view: &View, tool: &Tool, message: Option<&VersionMessage>) -> Result<()> {
    let Some(message) = message else { return Ok(()) };
    let known = version(view, tool.id, &tool.version)?;
    if known.is_some_and(|known| known.message.as_ref() == Some(message)) {
        return Ok(()); // The same request again.
    }
    Err(Error::invalid_at(
        "message",
        "is about a new version, and that of an existing one never changes; send bumpVersion with it",
    ))
}

/// Returns the tool with the changes of a patch.
///
/// # Errors
/// 409 for a version lower than the current one: environments and agents rely on stored versions.
fn patched(old: &Tool, patch: &ToolPatch) -> Result<Tool> {
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    patch.prompt.clone().apply(&mut new.prompt);
    new.kind = patch.kind.clone().unwrap_or(new.kind);
    new.provider_config = patch.provider_config.clone().unwrap_or(new.provider_config);
    new.tags = patch.tags.as_deref().map_or(new.tags, <[_]>::to_vec);
    new.version = match (&patch.version, patch.bump_version) {
        (Some(version), _) if version.numbers() < old.version.numbers() => {
            return Err(Error::conflict(
                "tool_version_earlier",
                format!("the tool is at version {}; a version only increases", old.version),
            ));
        }
        // Earlier versions kept leading zeros; without them it would be another manifest.
        (Some(version), _) if version.numbers() == old.version.numbers() => old.version.clone(),
        (Some(version), _) => version.clone(),
        (None, Some(bump)) => next_version(&old.version, bump)?,
        (None, None) => new.version,
    };
    Ok(new)
}

fn next_version(version: &Version, bump: VersionBump) -> Result<Version> {
    let [major, minor, patch] = version.numbers();
    let up = |number: u64| {
        let full = || {
            Error::conflict(
                "tool_version_full",
                "this number of the version is at its maximum; increase one before it",
            )
        };
        number.checked_add(1).ok_or_else(full)
    };
    let [major, minor, patch] = match bump {
        VersionBump::Major => [up(major)?, 0, 0],
        VersionBump::Minor => [major, up(minor)?, 0],
        VersionBump::Patch => [major, minor, up(patch)?],
    };
    Ok(Version::from_trusted(format!("{major}.{minor}.{patch}")))
}

/// Returns the environments with these ids or slugs, each once.
///
/// # Errors
/// 404 if one of them does not exist, then 403 if the caller may not use one of them.
fn visible_environments(
    view: &View,
    caller: &Caller,
    named: &[String],
) -> Result<BTreeMap<Id<Environment>, Environment>> {
    let mut found = BTreeMap::new();
    for reference in named {
        let environment = environments::find(view, reference)?
            .ok_or_else(|| Error::no_such("environment").missing(reference.clone().to_bytes()))?;
        found.insert(environment.id(), environment);
    }
    let open = |(id, found): (Id<Environment>, Restricted<Environment>)| {
        Ok((id, environments::open_to_deploy(view, caller, found)?))
    };
    found.into_iter().map(open).collect()
}

/// Refuses environments with approvals.
///
/// # Errors
/// 409 if one of them has approvals: its tool versions change by deployments only.
fn check_approvals(environments: &BTreeMap<Id<Environment>, Environment>) -> Result<()> {
    match environments.values().find(|environment| environment.approvals.is_some()) {
        None => Ok(()),
        Some(environment) => Err(Error::conflict(
            "approval_required",
            format!(
                "the environment \"{}\" has approvals; use POST /agents/tool-deployments",
                environment.name
            ),
        )),
    }
}

/// Deletes a tool with its versions and the environments' references to it, unless a deployment waits for
/// it.
///
/// Taking a reference away changes an environment as a deployment there does, and needs as much.
pub fn delete(
    tx: &mut Tx,
    req: &Req<Id<Tool>>,
    is_waited_for: fn(&View, Id<Tool>) -> Result<bool>,
) -> Result<Deleted> {
    let tool: Tool = tx.fetch(&req.params)?;
    let view = tx.view();
    let mut opened = Vec::new();
    for (environment, _) in environments::references_to(&view, tool.id.cast())? {
        let environment: Restricted<Environment> = view.fetch(&environment)?;
        opened.push(environments::open_to_deploy(&view, req.caller(), environment)?);
    }
    if let Some(environment) = opened.iter().find(|one| one.approvals.is_some()) {
        return Err(Error::conflict(
            "tool_in_use",
            format!(
                "the environment \"{}\" uses the tool and has approvals, which a deletion cannot \
                 wait for; an admin takes them off the environment first",
                environment.name
            ),
        ));
    }
    if is_waited_for(&view, tool.id)? {
        return Err(Error::conflict(
            "tool_in_deployment",
            "a deployment of this tool waits or runs; cancel it or let it finish",
        ));
    }
    tx.remove(&tool)?;
    Ok(Deleted::new(tool.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/tools", MEMBER, "tool.list", op::walk(list))
            .needs(ScopeName::ToolRead)
            .about("List tools, newest first"),
        Route::post("/tools", MEMBER, "tool.create", op::write(create))
            .needs(ScopeName::ToolWrite)
            .about("Create a tool"),
        Route::get("/tools/types", MEMBER, "tool_type.list", op::list(types::list))
            .needs(ScopeName::ToolRead)
            .about("List known types of tools"),
        Route::get("/tools/{toolId}", MEMBER, "tool.get", op::read(get))
            .needs(ScopeName::ToolRead)
            .about("Get a tool"),
        Route::get(
            "/tools/{toolId}/versions",
            MEMBER,
            "tool_version.list",
            op::list(versions::list),
        )
        .needs(ScopeName::ToolRead)
        .about("List a tool's versions, highest first"),
    ]
}

/// Without `orgSlug`, the tool decides the organization
/// (reference: conventions, "Base path and organization").
pub fn is_in_organization(view: &View, params: &[String]) -> Result<bool> {
    let id = params.first().map_or(Id::NIL, |param| Id::parse(param));
    Ok(view.get::<Tool>(&id)?.is_some())
}

#[cfg(test)]
pub mod tests;
