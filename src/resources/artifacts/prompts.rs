//! Previews: compiling a source without publishing it, and rendering a published version with values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compiling::{Unpublished, compile, compile_after};
use super::id::{ArtifactId, DEFAULT_TYPE, Model, generic};
use super::version::ResolvedImport;
use super::versions::{self, imports};
use crate::api::{Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName};
use crate::base::{
    ArtifactName, BoundedList, Error, Prompt, Result, StringMap, StringMapSchema, Version, visible,
};
use crate::resources::environments;
use crate::resources::registries::{self, ArtifactType};
use crate::store::View;
use crate::templates::{self, Diagnostic, Rendering};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Promptlets that a request brings along: more than a pull request changes, and each is compiled.
const MAX_PROMPTLETS: usize = 100;

// ── What callers send and see ────────────────────────────────────────────────

/// A source to compile without publishing it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main",
        "source": "{{ import \"tone-of-voice@^1.0\" }} Write about {{PRODUCT}}."}],
))]
pub struct CompileRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The text, in the template language.
    source: Prompt,
    /// The model that the text is for; `generic` if absent.
    model: Option<Model>,
    /// Promptlets that are to be published before it, each after those that it imports: imports are
    /// resolved as if they were published already.
    promptlets: Option<BoundedList<NewPromptlet, 0, MAX_PROMPTLETS>>,
}

impl Input for CompileRequest {}

/// A promptlet that is to be published before the text that imports it.
#[derive(Deserialize, JsonSchema)]
struct NewPromptlet {
    name: ArtifactName,
    /// The version that it is to be published as: imports with a range may find it.
    version: Version,
    /// The text, in the template language.
    source: Prompt,
    /// The model that the text is for; `generic` if absent.
    model: Option<Model>,
}

/// The result of compiling a source.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompiledPrompt {
    /// The text with its imports inserted. Parts that have a problem are left as they were written.
    compiled: String,
    /// The promptlets that it imports directly, each with the version that was resolved.
    imports: StringMap,
    /// The variables, in order of first appearance.
    variables: Vec<String>,
    /// The problems that prevent it from being published.
    problems: Vec<Diagnostic>,
    /// What looks like a mistake and can be published all the same, such as `\{{NAME}}`; the first 20.
    warnings: Vec<Diagnostic>,
    /// How many characters of `compiled` a reader would not see, such as tags and blanks of no width.
    invisible_characters: usize,
}

impl Output for CompiledPrompt {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A version to render, and the values of its variables.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "version": "^1",
        "variables": {"PRODUCT": "Roadstead"}}],
))]
pub struct RenderRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// A version, a range or a label; the newest version if absent.
    version: Option<String>,
    /// The model that the text is for; the generic text is used if there is none for it.
    model: Option<String>,
    /// An environment, by id or slug, that supplies the values missing from `variables`.
    environment: Option<String>,
    /// Values of variables, by name. They take precedence over those of the environment.
    #[schemars(with = "Option<StringMapSchema>")]
    variables: Option<StringMap>,
}

impl Input for RenderRequest {}

/// The text of a version with values in place of its variables.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RenderedPrompt {
    /// The text. Variables without a value are left in place.
    text: String,
    /// The variables without a value, in order of first appearance.
    missing: Vec<String>,
    /// The version that was rendered.
    version: Version,
    /// The model that the text is for.
    model: Model,
}

impl Output for RenderedPrompt {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A source to compile and fill without publishing it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "source": "Write about {{PRODUCT}}.",
        "environment": "production"}],
))]
pub struct PreviewRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The text, in the template language.
    source: Prompt,
    /// The model that the text is for; `generic` if absent.
    model: Option<Model>,
    /// An environment, by id or slug, that supplies the values missing from `variables`.
    environment: Option<String>,
    /// Values of variables, by name. They take precedence over those of the environment.
    #[schemars(with = "Option<StringMapSchema>")]
    variables: Option<StringMap>,
}

impl Input for PreviewRequest {}

/// A source with its imports inserted and values in place of its variables.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptPreview {
    /// The text. Variables without a value are left in place; empty if the source has problems.
    text: String,
    /// The variables without a value, in order of first appearance.
    missing: Vec<String>,
    /// The problems that prevent the source from being published.
    problems: Vec<Diagnostic>,
    /// How many characters of `text` a reader would not see, such as tags and blanks of no width.
    invisible_characters: usize,
}

impl Output for PromptPreview {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn preview(
    view: &View,
    req: &Req<ArtifactName, CompileRequest>,
) -> Result<CompiledPrompt> {
    let input = &req.input;
    let registry = registries::require_usable(view, req.caller(), &input.registry_ref)?.id;
    let kind = input.artifact_type.unwrap_or(DEFAULT_TYPE);
    let id = ArtifactId { registry, kind, name: req.params.clone() };
    let model = input.model.clone().unwrap_or_else(generic);
    let mut read = 0;
    let mut unpublished: Vec<Unpublished> = Vec::new();
    for new in input.promptlets.iter().flat_map(|list| list.iter()) {
        let (kind, name) = (ArtifactType::Promptlet, new.name.clone());
        let id = ArtifactId { registry, kind, name: name.clone() };
        let model = new.model.clone().unwrap_or_else(generic);
        let compiled = compile_after(view, &id, &model, &new.source, &unpublished, &mut read)?;
        // All of them are in memory together.
        read += compiled.compilation.text.len();
        let version = new.version.clone();
        unpublished.push(Unpublished { name, version, model, compiled });
    }
    let source = &input.source;
    let compiled = compile_after(view, &id, &model, source, &unpublished, &mut read)?;
    let compilation = compiled.compilation;
    let resolved = compilation.imports.into_iter().map(|import| ResolvedImport {
        name: import.name,
        range: import.range,
        version: import.version,
    });
    Ok(CompiledPrompt {
        invisible_characters: visible::count(&compilation.text),
        compiled: compilation.text,
        imports: imports(&resolved.collect::<Vec<_>>()),
        variables: compilation.variables,
        problems: compilation.problems,
        warnings: templates::warnings(source),
    })
}

pub(super) fn render(view: &View, req: &Req<String, RenderRequest>) -> Result<RenderedPrompt> {
    let input = &req.input;
    let registry = registries::require_usable(view, req.caller(), &input.registry_ref)?;
    let id = ArtifactId::parse(&registry, input.artifact_type, &req.params)?;
    let selector = versions::selector(input.version.as_deref());
    let row = versions::resolve(view, &id, &selector, input.model.as_deref())?
        .ok_or_else(|| versions::none_selected(view, &id, "version"))?;
    let values = (input.variables.as_ref(), input.environment.as_deref());
    let compiled = versions::text(view, &row)?;
    let Rendering { text, missing } = fill(view, req.caller(), compiled.compiled(), values)?;
    Ok(RenderedPrompt { text, missing, version: row.version, model: row.model })
}

/// Compiles a source and fills it, without publishing it.
pub(super) fn preview_filled(
    view: &View,
    req: &Req<ArtifactName, PreviewRequest>,
) -> Result<PromptPreview> {
    let input = &req.input;
    let registry = registries::require_usable(view, req.caller(), &input.registry_ref)?.id;
    let kind = input.artifact_type.unwrap_or(DEFAULT_TYPE);
    let id = ArtifactId { registry, kind, name: req.params.clone() };
    let model = input.model.clone().unwrap_or_else(generic);
    let compilation = compile(view, &id, &model, &input.source)?.compilation;
    if !compilation.problems.is_empty() {
        let problems = compilation.problems;
        let (text, missing) = (String::new(), Vec::new());
        return Ok(PromptPreview { text, missing, problems, invisible_characters: 0 });
    }
    let values = (input.variables.as_ref(), input.environment.as_deref());
    let Rendering { text, missing } = fill(view, req.caller(), &compilation.text, values)?;
    let invisible_characters = visible::count(&text);
    Ok(PromptPreview { text, missing, problems: Vec::new(), invisible_characters })
}

/// Fills a compiled text with the values that are given and, where there is none, with those of an
/// environment.
///
/// # Errors
/// 400 if it becomes too long; 404 if there is no such environment, 403 if the caller may not use it.
pub(super) fn fill(
    view: &View,
    caller: &Caller,
    compiled: &str,
    (given, environment): (Option<&StringMap>, Option<&str>),
) -> Result<Rendering> {
    let environment = match environment {
        Some(reference) => variables_of(view, caller, reference)?,
        None => StringMap::new(),
    };
    let value = |name: &str| {
        given.and_then(|given| given.get(name)).or_else(|| environment.get(name)).cloned()
    };
    templates::render(compiled, value).map_err(|message| Error::invalid_at("variables", message))
}

/// Returns the variables of an environment, by name.
///
/// # Errors
/// 404 if there is no such environment, 403 if the caller may not use it.
pub(super) fn variables_of(view: &View, caller: &Caller, reference: &str) -> Result<StringMap> {
    let environment = environments::find(view, reference)?
        .ok_or_else(|| Error::no_such("environment").at("environment"))?;
    let environment = environment.open(view, caller)?;
    let target = environments::scope_target(&environment);
    caller.require_scope(ScopeName::VariableRead, Some(&target))?;
    environments::variables(view, environment.id)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    let source = OrgSource::Named(&registries::BY_REFERENCE);
    vec![
        Route::post("/prompts/{promptName}/compile", MEMBER, "prompt.compile", op::read(preview))
            .org_source(source)
            .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
            .about("Compile a source without publishing it"),
        Route::post("/prompts/{promptName}/render", MEMBER, "prompt.render", op::read(render))
            .org_source(source)
            .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
            .about("Render a version with values for its variables"),
        Route::post(
            "/prompts/{promptName}/preview",
            MEMBER,
            "prompt.preview",
            op::read(preview_filled),
        )
        .org_source(source)
        .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
        .about("Compile and fill a source without publishing"),
    ]
}
