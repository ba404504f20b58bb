//! `roadstead secrets`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::backup::refuse_inside;
use super::commands::commands;
use super::failure::Failure;
use super::installation::{self, Installation};
use super::output;
#[cfg(feature = "postgres")]
use super::serve_store::this_process;
use crate::app::control::{ControlResponse, Request};
#[cfg(feature = "postgres")]
use crate::app::shared_store_rotation::rotate_store;
use crate::app::{DataDir, Rotated, key_in_file, rotate};
use crate::base::MasterKey;
use crate::store::RotationProgress;
#[cfg(feature = "postgres")]
use crate::store::engine::postgres::PostgresUrl;

commands! {
    /// Manage the key that secrets are sealed with
    pub Secrets of SecretsCommand { Rotate(Rotate) }
}

/// Seal all secrets with a new key, while the server runs or not
#[derive(Args)]
#[command(after_help = "A key in the data directory is replaced by a new one. A key that is kept \
                        elsewhere stays where it is: supply the new one with --new-key-file or in \
                        the variable ROADSTEAD_NEW_SECRET_KEY, and put it in the place of the old \
                        one afterwards.\n\nThe old key in the data directory is destroyed, and \
                        backups made before can be restored with it alone: keep it with \
                        --keep-old-key, or make a new backup afterwards. All sessions end: \
                        everybody signs in again; API keys stay valid.\n\nIf it is interrupted, \
                        nothing is lost: repeat it, or start the server, which completes it.\n\n\
                        With --store no server may run over the store, and only this command \
                        completes what was interrupted.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened.")]
struct Rotate {
    /// File with the new key, readable by its owner only
    #[arg(long, value_name = "FILE", env = "ROADSTEAD_NEW_KEY_FILE")]
    new_key_file: Option<PathBuf>,

    /// Write the old key into this new file, readable by its owner only
    #[arg(long, value_name = "FILE")]
    keep_old_key: Option<PathBuf>,

    #[command(flatten)]
    installation: Installation,
}

impl Rotate {
    fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let dir = self.installation.data_dir();
        let in_store = self.installation.store.is_given()?;
        if !in_store {
            dir.require_exists()?;
        }
        let new_key = match &self.new_key_file {
            Some(path) => Some(key_in_file(path)?),
            None => dir.supplied_new_key()?,
        };
        let mut kept = None;
        if let Some(file) = &self.keep_old_key {
            if in_store {
                return Err(Failure::Usage(
                    "--keep-old-key is for the key of a data directory; that of a store is kept \
                     elsewhere, and stays there"
                        .into(),
                ));
            }
            refuse_inside(file, &dir)?;
            kept = Some(dir.keep_old_key(file)?);
        }
        if !self.installation.json() {
            output::status(&self.about(in_store));
        }
        #[cfg(feature = "postgres")]
        let reply = match self.installation.store.url()? {
            Some(url) => of_store(url, &dir, new_key),
            None => rotated(&dir, new_key, kept),
        };
        #[cfg(not(feature = "postgres"))]
        let reply = rotated(&dir, new_key, kept);
        output::progress("");
        self.report(reply?)
    }

    /// What becomes of the old key and of sessions, said before.
    fn about(&self, in_store: bool) -> String {
        let old = match &self.keep_old_key {
            Some(_) => "The old key is kept. ",
            None if in_store => "",
            None => {
                "An old key in the data directory is destroyed; backups made before can be restored with \
                 it alone (--keep-old-key FILE keeps it). "
            }
        };
        format!("{old}All sessions end: everybody signs in again.")
    }

    fn report(&self, Rotated { resealed, to_do, is_destroyed }: Rotated) -> Result<(), Failure> {
        let file = self.keep_old_key.as_ref().map(|file| file.display().to_string());
        let place = match &file {
            Some(file) => format!(", in {file}"),
            None if is_destroyed => ", which is gone".into(),
            None => String::new(),
        };
        let backups = format!(
            "make a new backup; those made before can be restored with the old key alone{place}"
        );
        let value = json!({
            "resealed": resealed,
            "toDo": to_do,
            "backups": backups,
            "oldKeyFile": file,
        });
        let mut text = format!("Secrets sealed with the new key: {resealed}");
        for to_do in to_do.iter().chain([&backups]) {
            text.push_str(&format!("\nTo do: {to_do}."));
        }
        text.push_str("\nAll sessions have ended: everybody signs in again. API keys stay valid.");
        output::print(self.installation.json(), &value, &text)
    }
}

/// Replaces the key of a store in PostgreSQL.
#[cfg(feature = "postgres")]
fn of_store(
    url: PostgresUrl,
    dir: &DataDir,
    new_key: Option<MasterKey>,
) -> Result<Rotated, Failure> {
    let owner = this_process("roadstead secrets rotate");
    Ok(rotate_store(url, dir.key_source(), new_key, &owner, &mut show)?)
}

/// Has the running server do it, or does it in its place.
fn rotated(
    dir: &DataDir,
    new_key: Option<MasterKey>,
    kept: Option<String>,
) -> Result<Rotated, Failure> {
    let request = Request::rotate_key(new_key.as_ref(), kept.clone());
    let mut part = |part: ControlResponse| {
        if let ControlResponse::Progress { resealed, done, all } = part {
            show(RotationProgress { resealed, done, all });
        }
    };
    let there = installation::asked(dir, &request, &mut part, |reply| match reply {
        ControlResponse::Rotated { resealed, to_do, is_destroyed } => {
            Some(Rotated { resealed, to_do, is_destroyed })
        }
        _ => None,
    })?;
    if let Some(rotated) = there {
        return Ok(rotated);
    }
    let rotated = rotate(dir, &dir.open()?, new_key, kept.as_deref(), &mut show);
    rotated.map_err(|error| Failure::Failed(error.0))
}

fn show(RotationProgress { resealed, done, all }: RotationProgress) {
    output::progress(&format!("Sealing with the new key: {resealed} secrets, table {done}/{all}"));
}
