//! Promptlets in files that are to be published before what imports them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::artifact::Artifact;
use super::newest::{Bump, is_same};
use super::which::ArtifactKind;
use crate::cli::client::api::Api;
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::failure::Failure;
use crate::templates;

/// So long a chain of imports is followed: a longer one is refused by the server.
const MAX_DEPTH: usize = 17;

/// Where they are, and where they will be published.
pub struct Unpublished<'a> {
    pub api: &'a Api,
    pub registry: &'a str,
    /// The directory: each is a file NAME.md.
    pub dir: &'a Path,
    /// What publishing one raises.
    pub bump: Bump,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    seen: BTreeSet<String>,
    /// As the API takes them, each after those that it imports.
    promptlets: Vec<Value>,
}

impl Unpublished<'_> {
    /// Returns what a text imports and publishing the files of the directory would change, directly or
    /// through others, each after those that it imports. `name` is that of a promptlet that has the
    /// text.
    ///
    /// # Errors
    /// A file that cannot be read or is wrong; those of the API.
    pub fn imported_by(&self, name: Option<&str>, source: &str) -> Result<Vec<Value>, Failure> {
        let mut found = Found::default();
        // A text does not import itself; that it does through others is for the server to say.
        found.seen.extend(name.map(String::from));
        self.add_imports(source, 0, &mut found)?;
        Ok(found.promptlets)
    }

    fn add_imports(&self, source: &str, depth: usize, found: &mut Found) -> Result<(), Failure> {
        if depth == MAX_DEPTH {
            return Ok(());
        }
        for name in templates::imports(source) {
            if !found.seen.insert(name.to_string()) {
                continue;
            }
            let path = self.dir.join(format!("{name}.md"));
            if path.is_symlink() {
                return Err(Failure::Usage(format!("{} is a link", path.display())));
            }
            if !path.exists() {
                continue;
            }
            let file = PromptFile::read(&path.to_string_lossy())?;
            self.add_imports(&file.source, depth + 1, found)?;
            found.promptlets.extend(self.changed(name.as_str(), &file)?);
        }
        Ok(())
    }

    /// A promptlet as it will be published; nothing if it is.
    fn changed(&self, name: &str, file: &PromptFile) -> Result<Option<Value>, Failure> {
        let (api, registry, kind) = (self.api, self.registry.into(), ArtifactKind::Promptlet);
        let artifact = Artifact { api, registry, kind, name };
        let newest = artifact.newest(file.model.as_deref())?;
        if newest.is_some_and(|newest| is_same(&newest, file)) {
            return Ok(None);
        }
        let version = match &file.version {
            Some(version) => version.clone(),
            None => artifact.next_version(self.bump)?,
        };
        let (source, model) = (&file.source, &file.model);
        Ok(Some(json!({"name": name, "version": version, "source": source, "model": model})))
    }
}
