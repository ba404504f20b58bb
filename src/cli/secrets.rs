//! `roadstead secrets`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

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
                        one afterwards.\n\nIf it is interrupted, nothing is lost: repeat it, or \
                        start the server, which completes it. Afterwards everybody signs in again; \
                        API keys stay valid.\n\n\
                        With --store no server may run over the store, and only this command \
                        completes what was interrupted.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened.")]
struct Rotate {
    /// File with the new key, readable by its owner only
    #[arg(long, value_name = "FILE", env = "ROADSTEAD_NEW_KEY_FILE")]
    new_key_file: Option<PathBuf>,

    #[command(flatten)]
    installation: Installation,
}

impl Rotate {
    fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let dir = self.installation.data_dir();
        if !self.installation.store.is_given()? {
            dir.require_exists()?;
        }
        let new_key = match &self.new_key_file {
            Some(path) => Some(key_in_file(path)?),
            None => dir.supplied_new_key()?,
        };
        #[cfg(feature = "postgres")]
        let reply = match self.installation.store.url()? {
            Some(url) => of_store(url, &dir, new_key),
            None => rotated(&dir, new_key),
        };
        #[cfg(not(feature = "postgres"))]
        let reply = rotated(&dir, new_key);
        output::progress("");
        let Rotated { resealed, to_do } = reply?;
        let value = json!({"resealed": resealed, "toDo": to_do});
        let mut text = format!("Secrets sealed with the new key: {resealed}");
        if let Some(to_do) = to_do {
            text.push_str(&format!("\nTo do: {to_do}."));
        }
        text.push_str("\nBackups made before need the old key: make a new one now.");
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
fn rotated(dir: &DataDir, new_key: Option<MasterKey>) -> Result<Rotated, Failure> {
    let request = Request::rotate_key(new_key.as_ref());
    let mut part = |part: ControlResponse| {
        if let ControlResponse::Progress { resealed, done, all } = part {
            show(RotationProgress { resealed, done, all });
        }
    };
    let there = installation::asked(dir, &request, &mut part, |reply| match reply {
        ControlResponse::Rotated { resealed, to_do } => Some(Rotated { resealed, to_do }),
        _ => None,
    })?;
    if let Some(rotated) = there {
        return Ok(rotated);
    }
    let rotated = rotate(dir, &dir.open()?, new_key, &mut show);
    rotated.map_err(|error| Failure::Failed(error.0))
}

fn show(RotationProgress { resealed, done, all }: RotationProgress) {
    output::progress(&format!("Sealing with the new key: {resealed} secrets, table {done}/{all}"));
}
