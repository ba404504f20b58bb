//! An artifact of a registry, and what a server has of it.

use serde_json::{Value, json};

use super::which::{ArtifactKind, Which};
use crate::cli::client::api::{Api, Query};
use crate::cli::client::listed::Listed;
use crate::cli::client::refusal::Refusal;
use crate::cli::failure::Failure;

/// An artifact on a server.
pub struct Artifact<'a> {
    pub api: &'a Api,
    /// `ORG/REGISTRY`.
    pub registry: String,
    pub kind: ArtifactKind,
    pub name: &'a str,
}

impl<'a> Artifact<'a> {
    /// That which a command names.
    ///
    /// # Errors
    /// The organization is not known.
    pub fn of(which: &'a Which, api: &'a Api) -> Result<Self, Failure> {
        let registry = which.artifact.registry_ref(api)?;
        Ok(Artifact { api, registry, kind: which.kind, name: &which.artifact.name })
    }

    /// GET of what is about it, and has these parameters besides.
    pub fn get(&self, path: &str, more: Query) -> Result<Value, Refusal> {
        self.api.get(path, &[&self.named(), more].concat())
    }

    /// The first items of a list that is about it.
    pub fn list(&self, path: &str, more: Query, limit: usize) -> Result<Listed, Refusal> {
        self.api.list(path, &[&self.named(), more].concat(), limit)
    }

    /// The same of a list that takes the organization.
    pub fn list_in_org(&self, path: &str, more: Query, limit: usize) -> Result<Listed, Failure> {
        self.api.first_in_org(path, &[&self.named(), more].concat(), limit)
    }

    /// The text of a version, range or label, of none that of the newest, for this model or else for all.
    pub fn content(&self, version: Option<&str>, model: Option<&str>) -> Result<Value, Refusal> {
        let what = [("version", version), ("model", model)];
        self.get("/registries/artifact-versions/content", &what)
    }

    /// The fields of a body that name it.
    pub fn body(&self) -> Value {
        json!({
            "registryRef": self.registry,
            "promptName": self.name,
            "artifactType": self.kind.text(),
        })
    }

    fn named(&self) -> [(&str, Option<&str>); 3] {
        [
            ("registryRef", Some(self.registry.as_str())),
            ("promptName", Some(self.name)),
            ("artifactType", Some(self.kind.text())),
        ]
    }
}
