//! Inputs of a prompt: what its versions are tried on, and what a good answer has
//! (reference: registries-and-templates, "Inputs of a prompt").
//!
//! Who publishes writes them, since a policy may require them, and who may use the registry reads them; they
//! are never public. They may come before the first version, and go with the last one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::{MAX_INPUT_BYTES, PromptInput, check_bounds, prompt};
use super::label_history::audited_artifact;
use crate::api::{Deleted, Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{
    ArtifactName, BoundedList, Error, Id, Issue, Nullable, Result, Slug, StringMap,
    StringMapSchema, Text, Time, VariableName,
};
use crate::resources::governance::Expectation;
use crate::resources::registries::{self, Registry};
use crate::store::{ListSource, Order, Page, Record as _, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<PromptInput>()], ..Resource::EMPTY };

/// The bounds of the fields are those of all texts of an input: of them together it is said apart.
type InputText = Text<1, MAX_INPUT_BYTES>;

// ── What callers send and see ────────────────────────────────────────────────

/// Selects the inputs of a registry or of a prompt in it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
}

impl Input for InputQuery {}

/// What a good answer to an input has.
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub struct NewInputExpectation {
    /// Texts that it contains, in this case of letters, each of one line; none if absent.
    contains: Option<BoundedList<InputText, 0, 20>>,
    /// A question about it that has the answer yes, asked of a language model; without one if absent.
    judge: Option<InputText>,
}

impl NewInputExpectation {
    fn read(&self) -> Expectation {
        let contains = self.contains.iter().flat_map(|texts| texts.iter());
        Expectation {
            contains: contains.map(|text| text.to_string()).collect(),
            judge: self.judge.as_ref().map(|question| question.to_string()),
        }
    }
}

/// An input to create. Its texts have at most 16 KiB together.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "name": "first-release",
        "variables": {"PRODUCT": "Roadstead"}, "message": "Write about release 1.0.",
        "expect": {"contains": ["Roadstead"], "judge": "Does it say what is new?"}}],
))]
pub struct NewPromptInput {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// Its name, unique among those of the prompt.
    name: Slug,
    /// Values of variables, by name; none if absent.
    #[schemars(with = "Option<StringMapSchema>")]
    variables: Option<StringMap>,
    /// What the person says first. If absent, the prompt itself is what the model is asked.
    message: Option<InputText>,
    /// What a good answer has; anything if absent.
    expect: Option<NewInputExpectation>,
}

impl Input for NewPromptInput {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        check_variables(self.variables.as_ref(), issues);
        check_lines(self.expect.as_ref(), issues);
    }
}

/// Changes to an input. Absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "message": "Write about release 2.0."}],
))]
pub struct PromptInputPatch {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// All values of variables from now on, by name.
    #[schemars(with = "Option<StringMapSchema>")]
    variables: Option<StringMap>,
    /// What the person says first; null if the prompt itself is what the model is asked.
    #[serde(default)]
    message: Nullable<InputText>,
    /// What a good answer has from now on, as a whole.
    expect: Option<NewInputExpectation>,
}

impl Input for PromptInputPatch {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        check_variables(self.variables.as_ref(), issues);
        check_lines(self.expect.as_ref(), issues);
    }
}

fn check_variables(variables: Option<&StringMap>, issues: &mut Vec<Issue>) {
    for name in variables.into_iter().flat_map(|variables| variables.keys()) {
        if let Err(why) = VariableName::parse(name.as_str()) {
            issues.push(Issue::new("variables", format!("has a name that {why}")));
            return;
        }
    }
}

/// What an answer contains is a line: a form has them below each other.
fn check_lines(expect: Option<&NewInputExpectation>, issues: &mut Vec<Issue>) {
    let texts = expect.and_then(|expect| expect.contains.as_ref());
    for (n, text) in texts.into_iter().flat_map(|texts| texts.iter()).enumerate() {
        if text.contains(['\n', '\r']) || text.trim().is_empty() {
            let message = "must be one line with something in it";
            issues.push(Issue::new(format!("expect.contains[{n}]"), message));
        }
    }
}

/// An input of a prompt, as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PromptInput")]
pub struct InputInfo {
    /// The registry: `<orgSlug>/<registrySlug>`.
    registry_ref: String,
    /// The prompt.
    prompt_name: ArtifactName,
    name: Slug,
    /// Values of variables, by name.
    #[schemars(with = "StringMapSchema")]
    variables: StringMap,
    /// What the person says first; null if the prompt itself is what the model is asked.
    message: Option<String>,
    expect: Expectation,
    created_by: Id<User>,
    created_at: Time,
    /// The user who last changed it, also through a key.
    updated_by: Id<User>,
    updated_at: Time,
    /// What was changed, for the audit log.
    #[serde(skip)]
    about: ResourceRef,
}

impl Output for InputInfo {
    fn resource(&self) -> Option<ResourceRef> {
        Some(self.about.clone())
    }
}

fn info(registry: &Registry, input: PromptInput) -> InputInfo {
    InputInfo {
        about: audited(registry, &input),
        registry_ref: registry.reference.clone(),
        prompt_name: input.of.name,
        name: input.name,
        variables: input.variables,
        message: input.message,
        expect: input.expect,
        created_by: input.created_by,
        created_at: input.created_at,
        updated_by: input.updated_by,
        updated_at: input.updated_at,
    }
}

/// How the audit log names an input: by its prompt, with its own name beside.
fn audited(registry: &Registry, input: &PromptInput) -> ResourceRef {
    audited_artifact(registry, &input.of).with_detail(format!("input {}", input.name))
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<String, InputQuery>) -> Result<Page<InputInfo>> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    // The prompt need not exist yet. A name that none can have is no error, but has no inputs.
    let Ok(of) = prompt(&registry, &req.params) else { return Ok(Page::single(Vec::new())) };
    let page =
        view.page(ListSource::<PromptInput>::TABLE, &of, Order::Ascending, &req.page, |_| true)?;
    Ok(page.map(|input| info(&registry, input)))
}

fn list_all(view: &View, req: &Req<(), InputQuery>) -> Result<Page<InputInfo>> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    let of = registry.id;
    let page =
        view.page(ListSource::<PromptInput>::TABLE, &of, Order::Ascending, &req.page, |_| true)?;
    Ok(page.map(|input| info(&registry, input)))
}

/// Returns the input that a path names, and its registry.
///
/// # Errors
/// 404 if there is none.
fn named(
    view: &View,
    registry: &Registry,
    (prompt_name, name): &(String, String),
) -> Result<PromptInput> {
    let of = prompt(registry, prompt_name)?;
    let name = Slug::parse(name.as_str()).map_err(|_| Error::no_such("input").at("inputName"))?;
    view.fetch(&(of, name))
}

fn get(view: &View, req: &Req<(String, String), InputQuery>) -> Result<InputInfo> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    Ok(info(&registry, named(view, &registry, &req.params)?))
}

fn create(tx: &mut Tx, req: &Req<ArtifactName, NewPromptInput>) -> Result<InputInfo> {
    let new = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), &new.registry_ref)?;
    let of = prompt(&registry, &req.params)?;
    let by = req.caller().user();
    let input = PromptInput {
        of,
        name: new.name.clone(),
        variables: new.variables.clone().unwrap_or_default(),
        message: new.message.as_ref().map(|message| message.to_string()),
        expect: new.expect.clone().unwrap_or_default().read(),
        created_by: by,
        created_at: tx.now(),
        updated_by: by,
        updated_at: tx.now(),
    };
    if tx.view().has::<PromptInput>(&input.key())? {
        return Err(Error::conflict(
            "input_exists",
            "the prompt has an input of this name already; change that one, or choose another name",
        ));
    }
    require_small(&input)?;
    tx.insert(&input)?;
    check_bounds(&tx.view(), &input.of)?;
    Ok(info(&registry, input))
}

/// The input that a request would change, as a GET of it answers.
fn patched(view: &View, req: &Req<(String, String), PromptInputPatch>) -> Result<InputInfo> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    Ok(info(&registry, named(view, &registry, &req.params)?))
}

fn update(tx: &mut Tx, req: &Req<(String, String), PromptInputPatch>) -> Result<InputInfo> {
    let patch = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), &patch.registry_ref)?;
    let old = named(&tx.view(), &registry, &req.params)?;
    let mut new = old.clone();
    if let Some(variables) = &patch.variables {
        new.variables.clone_from(variables);
    }
    match &patch.message {
        Nullable::Absent => {}
        Nullable::Clear => new.message = None,
        Nullable::Set(message) => new.message = Some(message.to_string()),
    }
    if let Some(expect) = &patch.expect {
        new.expect = expect.read();
    }
    if new == old {
        return Ok(info(&registry, old));
    }
    require_small(&new)?;
    (new.updated_at, new.updated_by) = (tx.now(), req.caller().user());
    tx.replace(&old, &new)?;
    check_bounds(&tx.view(), &new.of)?;
    Ok(info(&registry, new))
}

/// # Errors
/// 400 if the texts of an input are too long together.
fn require_small(input: &PromptInput) -> Result<()> {
    if input.bytes() <= MAX_INPUT_BYTES {
        return Ok(());
    }
    Err(Error::invalid_at(
        "variables",
        "must have at most 16 KiB together with the message and what is expected",
    ))
}

fn delete(tx: &mut Tx, req: &Req<(String, String), InputQuery>) -> Result<Deleted> {
    let registry = registries::require_usable(&tx.view(), req.caller(), &req.input.registry_ref)?;
    let input = named(&tx.view(), &registry, &req.params)?;
    tx.remove(&input)?;
    Ok(Deleted::new(&input.name).about(audited(&registry, &input)))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const OF_REGISTRY: &str = "/prompts/inputs";
    const ALL: &str = "/prompts/{promptName}/inputs";
    const ONE: &str = "/prompts/{promptName}/inputs/{inputName}";
    let source = OrgSource::Named(&registries::BY_REFERENCE);
    let (read, write) = (ScopeName::ArtifactRead, ScopeName::ArtifactPublish);
    vec![
        Route::get(OF_REGISTRY, MEMBER, "prompt_input.list_all", op::list(list_all))
            .org_source(source)
            .needs_for(read, &registries::NAMED_REGISTRY)
            .about("List the inputs of all prompts of a registry"),
        Route::get(ALL, MEMBER, "prompt_input.list", op::list(list))
            .org_source(source)
            .needs_for(read, &registries::NAMED_REGISTRY)
            .about("List the inputs of a prompt"),
        Route::post(ALL, MEMBER, "prompt_input.create", op::write(create))
            .org_source(source)
            .needs_for(write, &registries::NAMED_REGISTRY)
            .about("Create an input of a prompt"),
        Route::get(ONE, MEMBER, "prompt_input.get", op::read(get))
            .org_source(source)
            .needs_for(read, &registries::NAMED_REGISTRY)
            .about("Get an input of a prompt"),
        Route::patch(ONE, MEMBER, "prompt_input.update", op::write(update))
            .org_source(source)
            .compared_with(op::read(patched))
            .needs_for(write, &registries::NAMED_REGISTRY)
            .about("Update an input of a prompt"),
        Route::delete(ONE, MEMBER, "prompt_input.delete", op::write(delete))
            .org_source(source)
            .needs_for(write, &registries::NAMED_REGISTRY)
            .about("Delete an input of a prompt"),
    ]
}
