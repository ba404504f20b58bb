//! What the pages of prompts and promptlets have in common: where an artifact is, and who people are.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::base::{Error, Result, Time};
use crate::console::api::{Api, segment};
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser;
use crate::console::field::Field;
use crate::console::form;
use crate::console::frame::Frame;
use crate::console::problems::Problems;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;
use crate::http::{failed_events, text_events};

/// A registry.
#[derive(Deserialize)]
pub struct Registry {
    pub slug: String,
    pub name: String,
    pub description: Nullable<String>,
    pub visibility: String,
    pub access: String,
}

/// An artifact.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub artifact_type: String,
    pub name: String,
    pub latest_version: String,
    /// Labels, each with its version.
    pub labels: BTreeMap<String, String>,
    pub tags: Vec<String>,
    pub updated_at: Time,
    pub updated_by: Nullable<String>,
}

impl Artifact {
    /// The labels of a version.
    pub fn labels_of(&self, version: &str) -> Vec<&str> {
        let here = self.labels.iter().filter(|(_, at)| *at == version);
        here.map(|(label, _)| label.as_str()).collect()
    }
}

/// The model of a text that serves every model.
pub const GENERIC: &str = "generic";

/// A version of an artifact, without its text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionRow {
    pub version: String,
    pub model: String,
    pub metadata: serde_json::Map<String, Value>,
    pub hash: String,
    pub imports: BTreeMap<String, String>,
    pub variables: Vec<String>,
    pub published_by: String,
    pub published_at: Time,
    /// What changed and why.
    pub message: Nullable<String>,
}

/// The artifact that a page's path names.
pub struct Place {
    /// The slug of its registry.
    pub registry: String,
    /// `prompt` or `promptlet`.
    pub kind: &'static str,
    pub name: String,
    /// The path of its page.
    pub path: String,
}

impl Place {
    /// The artifact of a visit, whose path is `/o/{org}/{prompts or promptlets}/{registry}/{name}…`.
    pub fn of(visit: &Visit) -> Self {
        let is_promptlet = visit.path.split('/').nth(3) == Some("promptlets");
        let kind = if is_promptlet { "promptlet" } else { "prompt" };
        Place::new(visit, visit.param(1), kind, visit.param(2))
    }

    /// An artifact of the visit's organization.
    pub fn new(visit: &Visit, registry: &str, kind: &'static str, name: &str) -> Self {
        let path = visit.in_org(&format!("/{kind}s/{}/{}", segment(registry), segment(name)));
        Place { registry: registry.into(), kind, name: name.into(), path }
    }

    /// The parameters that select it.
    pub fn query<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let own = [
            ("registryRef", self.registry.as_str()),
            ("promptName", &self.name),
            ("artifactType", self.kind),
        ];
        own.iter().chain(more).copied().collect()
    }

    /// A path of one of its versions.
    pub fn version(&self, version: &str) -> String {
        format!("{}/versions/{}", self.path, segment(version))
    }

    /// Adds the pages above its own.
    pub fn above(&self, visit: &Visit, frame: Frame) -> Frame {
        let registry = visit.in_org(&format!("/prompts/{}", segment(&self.registry)));
        let artifact = [self.registry.clone(), self.name.clone(), self.kind.into()];
        let frame = Frame { artifact, ..frame };
        frame.crumb("Prompts", visit.in_org("/prompts")).crumb(self.registry.clone(), registry)
    }

    /// Adds the pages above one that is below its own.
    pub fn crumbs(&self, visit: &Visit, frame: Frame) -> Frame {
        self.above(visit, frame).crumb(self.name.clone(), self.path.clone())
    }

    /// An exact version, once for each model that it has a text for.
    pub async fn rows(&self, api: &Api, version: &str) -> Result<Vec<VersionRow>> {
        api.items("/registries/artifact-versions", &self.query(&[("version", version)])).await
    }

    /// The artifact, if there is one yet.
    pub async fn find(&self, api: &Api) -> Result<Option<Artifact>> {
        let found: List<Artifact> = api.get("/registries/artifacts", &self.query(&[])).await?;
        Ok(found.items.into_iter().next())
    }

    /// The artifact.
    ///
    /// # Errors
    /// 404, and those of the route.
    pub async fn get(&self, api: &Api) -> Result<Artifact> {
        self.find(api).await?.ok_or_else(|| Error::no_such("artifact"))
    }
}

/// The field for the environment whose values a text is filled with.
const ENVIRONMENT: Chooser = Chooser::one("environment", Kind::Environment);

/// The choice between the environments that the visitor may use, and none.
pub async fn environment(visit: &Visit, label: &'static str) -> Result<Field> {
    chooser::pick(visit, label, ENVIRONMENT, Some("No environment")).await
}

/// The field for a version of what the page is about: its number, a range or a label.
pub fn version(name: &'static str, label: &'static str) -> Field {
    Field::choose(label, Chooser::one(name, Kind::Version))
}

/// Posts to a route that passes on what a model says, for a script that shows it as it comes. What is
/// refused is said in the words of the form's fields, which are made then.
///
/// # Errors
/// Those of the routes that the fields are made of.
pub async fn passed_on(
    visit: &Visit,
    path: &str,
    body: Value,
    fields: impl Future<Output = Result<Vec<Field>>>,
) -> Result<Reply> {
    let error = match visit.api.post_for_text(path, body).await {
        Ok(events) => return Ok(Reply::events(text_events(events))),
        Err(error) => error,
    };
    // A script makes no page of a refusal.
    let problems = form::labelled(Problems::of(&error), &fields.await?);
    Ok(Reply::events(failed_events(error.code(), &problems.told())))
}

/// The field for a registry.
const REGISTRY: Chooser = Chooser::one("registryRef", Kind::Registry);

/// The choice between the registries that the visitor may use.
pub async fn registry(visit: &Visit, label: &'static str) -> Result<Field> {
    chooser::pick(visit, label, REGISTRY, None).await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LlmProvider {
    id: String,
    name: String,
    is_default: bool,
}

/// The LLM providers, the default one first: ids and names.
pub async fn llm_providers(api: &Api) -> Result<Vec<(String, String)>> {
    let mut all: Vec<LlmProvider> = api.items("/llm-providers", &[]).await?;
    all.sort_by_key(|one| !one.is_default);
    Ok(all.into_iter().map(|one| (one.id, one.name)).collect())
}

/// The same, after the choice of none, which is that of the default one.
pub async fn llm_providers_or_default(api: &Api) -> Result<Vec<(String, String)>> {
    let mut all = llm_providers(api).await?;
    all.insert(0, (String::new(), "The default one".to_string()));
    Ok(all)
}

/// The names of an organization's members.
#[derive(Default)]
pub struct People(BTreeMap<String, String>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    user_id: String,
    name: String,
}

impl People {
    /// Reads them.
    pub async fn read(api: &Api) -> Result<Self> {
        let members: Vec<Member> = api.items("/organizations/members", &[]).await?;
        let names = members.into_iter().map(|member| (member.user_id, member.name)).collect();
        Ok(People(names))
    }

    /// The name of a person.
    pub fn name(&self, id: &str) -> &str {
        self.0.get(id).map_or("a former member", String::as_str)
    }
}
