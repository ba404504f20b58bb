//! The file of profiles: servers, and a credential for each (reference: command-line, "Profiles").
//!
//! It is JSON, readable by its owner only, and replaced as a whole, so that a command that is killed
//! leaves the old file or the new one.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::failure::Failure;
use crate::cli::private_file;

/// The name of a profile that was given none.
pub const DEFAULT: &str = "default";

/// The content of the file.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profiles {
    /// The profile of commands that name none.
    pub current: Option<String>,
    /// By name.
    pub profiles: BTreeMap<String, Profile>,
}

/// A server and how to be let in there.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    pub url: String,
    pub org_slug: Option<String>,
    /// An API key, or the token of a session.
    pub credential: String,
    /// When the credential expires.
    pub expires_at: Option<String>,
}

/// Without the credential.
impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Profiles {
    /// Reads the file; empty if there is none.
    ///
    /// # Errors
    /// Usage, if others may read it, or it is not such a file.
    pub fn read() -> Result<Self, Failure> {
        let path = path()?;
        if !path.exists() {
            return Ok(Profiles::default());
        }
        let text = private_file::read(&path)?;
        // The message of serde_json could repeat a value, and values are secrets.
        serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let path = path.display();
            Failure::Usage(format!(
                "{path}:{line}:{column}: is no file of profiles; correct it, or remove it and log \
                 in again"
            ))
        })
    }

    /// Replaces the file.
    pub fn write(&self) -> Result<(), Failure> {
        let path = path()?;
        let dir = path.parent().unwrap_or(Path::new("."));
        let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        created.map_err(Failure::io(dir.display()))?;
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let text =
            serde_json::to_string_pretty(self).map_err(|e| Failure::Failed(e.to_string()))?;
        let written = replace(&new, &path, &format!("{text}\n"));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
    }

    /// The profile of this name, else the current one.
    ///
    /// # Errors
    /// Usage, if a profile was named and does not exist.
    pub fn select(&self, name: Option<&str>) -> Result<Option<&Profile>, Failure> {
        let Some(name) = name.or(self.current.as_deref()) else { return Ok(None) };
        match self.profiles.get(name) {
            Some(profile) => Ok(Some(profile)),
            None => Err(no_profile(name)),
        }
    }
}

/// The failure of a command that names a profile that does not exist.
pub fn no_profile(name: &str) -> Failure {
    Failure::Usage(format!("there is no profile {name:?}; see: roadstead profiles list"))
}

fn replace(new: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// The path of the file: `roadstead/profiles.json` in `$XDG_CONFIG_HOME`, else in `~/.config`.
pub fn path() -> Result<PathBuf, Failure> {
    let config = private_file::user_directory("XDG_CONFIG_HOME", ".config").ok_or_else(|| {
        Failure::Usage("neither XDG_CONFIG_HOME nor HOME says where profiles are kept".into())
    })?;
    Ok(config.join("roadstead").join("profiles.json"))
}
