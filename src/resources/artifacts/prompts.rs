//! Trying things out: a source is compiled without being published, a published version is filled
//! with values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::publishing::compile;
use super::versions::{Imported, imports};
use super::{ArtifactId, ArtifactType, Model, USUAL, generic, meant, text, versions};
use crate::api::{Input, Output, Req, Resource, Route, Scope, op};
use crate::auth::{Caller, MEMBER};
use crate::base::{ArtifactName, Error, Prompt, Result, StringMap, Version};
use crate::resources::{environments, registries};
use crate::store::View;
use crate::templates::{self, Problem, Rendering};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// A source to compile.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compile {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// The text, in the language of templates.
    source: Prompt,
    /// The model that the text is for; `generic` where it is absent.
    model: Option<Model>,
}

impl Input for Compile {}

/// What a source compiles to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Compiled")]
pub struct CompiledInfo {
    /// The text with its imports put in. What is a problem stands in it as it was written.
    compiled: String,
    /// The promptlets that it imports itself, each with the version found for it.
    imports: StringMap,
    /// Its variables, in order of first appearance.
    variables: Vec<String>,
    /// What keeps it from being published.
    problems: Vec<Problem>,
}

impl Output for CompiledInfo {}

/// What to render, and with which values.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Render {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// A version, a range or a label; the newest where it is absent.
    version: Option<String>,
    /// The model that it is for; the generic text is taken where there is none for it.
    model: Option<String>,
    /// An environment, by id or slug, whose variables fill what `variables` leaves open.
    environment: Option<String>,
    /// Values by name.
    variables: Option<StringMap>,
}

impl Input for Render {}

/// A version filled with values.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rendered {
    /// The text. What has no value is left in place.
    text: String,
    /// The variables without a value, in order of first appearance.
    missing: Vec<String>,
    /// The version.
    version: Version,
    /// The model that its text is for.
    model: Model,
}

impl Output for Rendered {}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn try_out(view: &View, req: &Req<ArtifactName, Compile>) -> Result<CompiledInfo> {
    let input = &req.input;
    let registry = registries::named(view, req.caller(), &input.registry_ref)?.id;
    let kind = input.artifact_type.unwrap_or(USUAL);
    let id = ArtifactId { registry, kind, name: req.params.clone() };
    let model = input.model.clone().unwrap_or_else(generic);
    let compilation = compile(view, &id, &model, &input.source)?.compilation;
    let resolved = compilation.imports.into_iter().map(|import| Imported {
        name: import.name,
        range: import.range,
        version: import.version,
    });
    Ok(CompiledInfo {
        compiled: compilation.text,
        imports: imports(&resolved.collect::<Vec<_>>()),
        variables: compilation.variables,
        problems: compilation.problems,
    })
}

pub(super) fn render(view: &View, req: &Req<String, Render>) -> Result<Rendered> {
    let input = &req.input;
    let registry = registries::named(view, req.caller(), &input.registry_ref)?;
    let id = ArtifactId::named(&registry, input.artifact_type, &req.params)?;
    let selector = versions::selector(input.version.as_deref());
    let row = meant(view, &id, &selector, input.model.as_deref())?.ok_or_else(Error::not_found)?;
    let given = input.variables.as_ref();
    let environment = match &input.environment {
        Some(reference) => variables_of(view, req.caller(), reference)?,
        None => StringMap::new(),
    };
    let value = |name: &str| {
        given.and_then(|given| given.get(name)).or_else(|| environment.get(name)).cloned()
    };
    let Rendering { text, missing } = templates::render(text(view, &row)?.compiled(), value)
        .map_err(|message| Error::invalid_at("variables", message))?;
    Ok(Rendered { text, missing, version: row.version, model: row.model })
}

/// # Errors
/// 404 for an environment that is not there, 403 for one that the caller may not use.
fn variables_of(view: &View, caller: &Caller, reference: &str) -> Result<StringMap> {
    let environment = environments::find(view, reference)?.ok_or_else(Error::not_found)?;
    let environment = environment.open(view, caller)?;
    environments::variables(view, environment.id)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    let scope = Scope::Named(&registries::BY_REFERENCE);
    vec![
        Route::post("/prompts/{promptName}/compile", MEMBER, "prompt.compile", op::read(try_out))
            .scope(scope)
            .about("Compile a source without publishing it"),
        Route::post("/prompts/{promptName}/render", MEMBER, "prompt.render", op::read(render))
            .scope(scope)
            .about("Fill a version with the values of variables"),
    ]
}
