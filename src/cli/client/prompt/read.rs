//! `roadstead prompt list`, `get`, `render`, `diff`, `history`: nothing is changed.

use clap::Args;
use serde_json::{Map, Value, json};

use super::artifact::Artifact;
use super::which::Which;
use crate::cli::client::api::{Api, segment};
use crate::cli::client::artifact_name::registry_ref;
use crate::cli::client::assignments::Assignments;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::listed::{Limit, Listed};
use crate::cli::client::table::{cell, cells, time};
use crate::cli::client::tags::{TagFilter, tags};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// List the prompts and promptlets of a registry, or the registries
#[derive(Args)]
#[command(after_help = "Example: roadstead prompt list main --tag weekly")]
pub struct List {
    /// The registry: REGISTRY, or ORG/REGISTRY; without one, the registries that you may use are listed
    registry: Option<String>,

    #[command(flatten)]
    tag: TagFilter,

    #[command(flatten)]
    client: ClientFlags,
}

impl List {
    pub(super) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let Some(registry) = &self.registry else {
            self.tag
                .refuse("registries have no tags; name the registry whose artifacts to list")?;
            return self.registries(&api);
        };
        let registry = registry_ref(registry, &api)?;
        let query = self.tag.with([("registryRef", Some(registry.as_str()))]);
        let listed = api.list("/registries/artifacts", &query, usize::MAX)?;
        let head = ["NAME", "TYPE", "LATEST", "LABELS", "TAGS"];
        listed.show(self.client.json, head, "no artifacts", |item| {
            let labels = item["labels"].as_object().into_iter().flatten();
            let labels: Vec<_> =
                labels.map(|(label, version)| format!("{label}={}", cell(version))).collect();
            let [name, kind, latest] = cells(item, ["name", "artifactType", "latestVersion"]);
            [name, kind, latest, labels.join(" "), tags(item)]
        })
    }

    fn registries(&self, api: &Api) -> Result<(), Failure> {
        let listed = Listed::whole(api.list_in_org("/registries", &[])?);
        let head = ["REGISTRY", "NAME", "VISIBILITY"];
        listed.show(self.client.json, head, "no registries", |item| {
            cells(item, ["ref", "name", "visibility"])
        })
    }
}

/// Print the text of a prompt
#[derive(Args)]
#[command(
    after_help = "Prints the compiled text, as a model receives it but for its variables.\n\n\
                        Example: roadstead prompt get main/scribe@production"
)]
pub struct Get {
    #[command(flatten)]
    which: Which,

    /// Print the text as it was published, with its imports
    #[arg(long)]
    source: bool,

    /// Model that the text is for
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    client: ClientFlags,
}

impl Get {
    pub(super) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let version = self.which.artifact.selector.as_deref();
        let artifact = Artifact::of(&self.which, &api)?;
        let content = artifact.content(version, self.model.as_deref())?;
        let field = if self.source { "source" } else { "compiled" };
        let text = content[field].as_str().unwrap_or_default();
        output::content(self.client.json, &content, text)
    }
}

/// Print a prompt with values for its variables
#[derive(Args)]
#[command(after_help = "A variable without a value stays in place and is named on stderr.\n\n\
                        Example: roadstead prompt render main/scribe --set PRODUCT=Harbour")]
pub struct Render {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    values: Assignments,

    /// Environment, by slug or id, that supplies the other values
    #[arg(long, value_name = "ENVIRONMENT")]
    environment: Option<String>,

    /// Model that the text is for
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// Fail if a variable has no value
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    client: ClientFlags,
}

impl Render {
    pub(super) fn run(self) -> Result<(), Failure> {
        let variables = self.values.read()?;
        let api = self.client.connect()?;
        let artifact = &self.which.artifact;
        let body = json!({
            "registryRef": artifact.registry_ref(&api)?,
            "artifactType": self.which.kind.text(),
            "version": artifact.selector,
            "model": self.model,
            "environment": self.environment,
            "variables": variables,
        });
        let path = format!("/prompts/{}/render", segment(&artifact.name));
        let rendered = api.send(Method::POST, &path, &body)?;
        let missing = cell(&rendered["missing"]);
        if self.strict && !missing.is_empty() {
            return Err(Failure::Failed(format!("no value for: {missing}")));
        }
        let text = rendered["text"].as_str().unwrap_or_default();
        output::content(self.client.json, &rendered, text)?;
        if !missing.is_empty() {
            output::status(&format!("no value for: {missing}"));
        }
        Ok(())
    }
}

/// List the versions of a prompt, highest first, or the moves of a label, newest first
#[derive(Args)]
pub struct History {
    #[command(flatten)]
    which: Which,

    /// List the moves of this label instead
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,

    #[command(flatten)]
    shown: Limit,

    #[command(flatten)]
    client: ClientFlags,
}

impl History {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let api = self.client.connect()?;
        let artifact = Artifact::of(&self.which, &api)?;
        let json = self.client.json;
        if let Some(label) = self.label.as_deref() {
            let of = [("label", Some(label))];
            let moves =
                artifact.list("/registries/artifacts/labels/history", &of, self.shown.limit)?;
            let head = ["MOVED (UTC)", "FROM", "TO", "KEY"];
            return moves.show(json, head, "never moved", |item| {
                let [from, to, via] = cells(item, ["from", "to", "via"]);
                [time(&item["movedAt"]), from, to, via]
            });
        }
        let versions = artifact.list("/registries/artifact-versions", &[], self.shown.limit)?;
        let labels = labels(&artifact.list("/registries/artifacts", &[], 1)?.items);
        let head = ["VERSION", "MODEL", "PUBLISHED (UTC)", "LABELS", "MESSAGE"];
        versions.show(json, head, "no versions", |item| {
            let [version, model] = cells(item, ["version", "model"]);
            let here = labels.iter().filter(|(_, at)| at.as_str() == Some(&version));
            let here: Vec<&str> = here.map(|(label, _)| label.as_str()).collect();
            let here = here.join(" ");
            [version, model, time(&item["publishedAt"]), here, cell(&item["message"])]
        })
    }
}

fn labels(artifacts: &[Value]) -> Map<String, Value> {
    let artifact = artifacts.first().and_then(|artifact| artifact["labels"].as_object());
    artifact.cloned().unwrap_or_default()
}
