//! `roadstead secrets`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::common::{Common, init_logging};
use super::failure::Failure;
use super::output;
#[cfg(feature = "postgres")]
use super::serve_store::this_process;
#[cfg(feature = "postgres")]
use super::store_flag::StoreFlag;
use crate::app::control::{self, ControlResponse, Request};
#[cfg(feature = "postgres")]
use crate::app::shared_store_rotation::rotate_store;
use crate::app::{DataDir, key_in_file, rotate};
use crate::base::MasterKey;
#[cfg(feature = "postgres")]
use crate::store::engine::postgres::PostgresUrl;

/// Manage the key that secrets are sealed with
#[derive(Args)]
pub struct Secrets {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Subcommand)]
enum SecretsCommand {
    Rotate(Rotate),
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

    #[cfg(feature = "postgres")]
    #[command(flatten)]
    store: StoreFlag,

    #[command(flatten)]
    common: Common,
}

impl Secrets {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            SecretsCommand::Rotate(rotate) => rotate.run(),
        }
    }
}

impl Rotate {
    fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let dir = self.common.data_dir();
        #[cfg(feature = "postgres")]
        let store = self.store.url()?;
        #[cfg(feature = "postgres")]
        let is_directory = store.is_none();
        #[cfg(not(feature = "postgres"))]
        let is_directory = true;
        if is_directory {
            dir.require_exists()?;
        }
        let new_key = match &self.new_key_file {
            Some(path) => Some(key_in_file(path)?),
            None => dir.supplied_new_key()?,
        };
        #[cfg(feature = "postgres")]
        let reply = match store {
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
        output::print(self.common.json, &value, &text)
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
    let rotated = rotate_store(url, dir.key_source(), new_key, &owner, &mut |done| {
        show(done.resealed, done.done, done.all);
    })?;
    Ok(Rotated { resealed: rotated.resealed, to_do: rotated.to_do })
}

struct Rotated {
    resealed: u64,
    to_do: Option<String>,
}

/// Has the running server do it, or does it in its place.
fn rotated(dir: &DataDir, new_key: Option<MasterKey>) -> Result<Rotated, Failure> {
    let request = Request::rotate_key(new_key.as_ref());
    let reply = control::ask(dir, &request, &mut |progress| {
        if let ControlResponse::Progress { resealed, done, all } = progress {
            show(resealed, done, all);
        }
    })
    .map_err(Failure::io("the control socket"))?;
    match reply {
        Some(ControlResponse::Rotated { resealed, to_do }) => Ok(Rotated { resealed, to_do }),
        Some(ControlResponse::Failed(why)) => Err(Failure::Failed(why)),
        Some(_) => Err(Failure::unexpected_reply()),
        None => {
            let store = dir.open()?;
            let rotated = rotate(dir, &store, new_key, &mut |progress| {
                show(progress.resealed, progress.done, progress.all);
            });
            let rotated = rotated.map_err(|error| Failure::Failed(error.0))?;
            Ok(Rotated { resealed: rotated.resealed, to_do: rotated.to_do })
        }
    }
}

fn show(resealed: u64, done: usize, all: usize) {
    output::progress(&format!("Sealing with the new key: {resealed} secrets, table {done}/{all}"));
}
