//! `roadstead migrate`

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::common::{Common, init_logging};
use super::failure::Failure;
use super::output;
use super::serve_store::this_process;
use crate::app::key_in_file;
use crate::app::migration::{Migrated, TableSum, to_database, to_directory};
use crate::store::engine::postgres::PostgresUrl;

/// Move an installation from a data directory into PostgreSQL, or back
#[derive(Args)]
#[command(
    after_help = "No server may run at either end. The source is not changed; the target must be \
                        empty, and cannot be used until it is complete. At the end everything is \
                        read again and compared. If it is interrupted, repeat the same command: it \
                        goes on where it was.\n\n\
                        The key of the installation stays the same. A store in PostgreSQL needs it \
                        from elsewhere, in ROADSTEAD_SECRET_KEY or a systemd credential; in the \
                        other direction --secret-key-file puts it into the directory.\n\n\
                        Examples:\n  roadstead migrate --from /var/lib/roadstead \
                        --to postgres://roadstead@db1,db2/roadstead\n  \
                        roadstead migrate --from postgres://roadstead@db1,db2/roadstead --to back\n\n\
                        Exit codes: 0 done, 1 failed (repeat it), 2 cannot be done."
)]
pub struct Migrate {
    /// The source: a data directory, or postgres://USER:PASSWORD@HOST[,HOST…]/DATABASE
    #[arg(long, value_name = "DIR|URL", env = "ROADSTEAD_FROM", hide_env_values = true)]
    from: String,

    /// The target: the other of the two
    #[arg(long, value_name = "DIR|URL", env = "ROADSTEAD_TO", hide_env_values = true)]
    to: String,

    /// File with the installation's key, readable by its owner only; it is stored in the directory
    #[arg(long, value_name = "FILE", env = "ROADSTEAD_SECRET_KEY_FILE")]
    secret_key_file: Option<PathBuf>,

    #[command(flatten)]
    common: Common,
}

impl Migrate {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let begun = Instant::now();
        let owner = this_process("roadstead migrate");
        let ends = (url(&self.from, "--from")?, url(&self.to, "--to")?);
        let (from, to, migrated) = match ends {
            (None, Some(url)) => {
                if self.secret_key_file.is_some() {
                    return Err(Failure::Usage(
                        "--secret-key-file is stored in a directory, and --to is a database; \
                         leave it out"
                            .into(),
                    ));
                }
                let dir = self.common.data_dir_at(&self.from);
                let (from, to) = (dir.absolute().display().to_string(), url.shown());
                (from, to, to_database(&dir, url, &owner, &output::progress))
            }
            (Some(url), None) => {
                let key = self.secret_key_file.as_deref().map(key_in_file).transpose()?;
                let dir = self.common.data_dir_at(&self.to);
                let (from, to) = (url.shown(), dir.absolute().display().to_string());
                (from, to, to_directory(url, &dir, key, &owner, &output::progress))
            }
            _ => {
                return Err(Failure::Usage(
                    "one of --from and --to must be a data directory, and the other begin with \
                     postgres://"
                        .into(),
                ));
            }
        };
        output::progress("");
        let migrated = migrated?;
        let to_do = to_do(&migrated, &from, &to);
        let value = value(&migrated, (&from, &to), &to_do, begun);
        let (rows, bytes) = totals(&migrated);
        let resumed =
            if migrated.resumed { ", going on with an interrupted migration" } else { "" };
        let text = format!(
            "Moved {rows} records ({bytes} bytes) from {from} to {to}, compared{resumed}.\n\n\
             To do: {to_do}."
        );
        output::print(self.common.json, &value, &text)
    }
}

/// Returns the URL, if it is one: not by clap, which would repeat it with its password.
fn url(text: &str, flag: &str) -> Result<Option<PostgresUrl>, Failure> {
    if !text.contains("://") {
        return Ok(None);
    }
    let parsed = PostgresUrl::parse(text);
    parsed.map(Some).map_err(|problem| Failure::Usage(format!("{flag} {problem}")))
}

fn totals(migrated: &Migrated) -> (u64, u64) {
    let sums = migrated.tables.iter().map(|(_, sum)| sum);
    sums.fold((0, 0), |(rows, bytes), sum| (rows + sum.rows, bytes + sum.bytes))
}

fn to_do(migrated: &Migrated, from: &str, to: &str) -> String {
    let give_key = if migrated.has_key {
        ""
    } else {
        "give the server the key in ROADSTEAD_SECRET_KEY or as a systemd credential, "
    };
    format!(
        "{give_key}start it over {to}, and never again over {from}: both would deliver. Keep that \
         until the new one has proved itself"
    )
}

fn value(migrated: &Migrated, (from, to): (&str, &str), to_do: &str, begun: Instant) -> Value {
    let (records, bytes) = totals(migrated);
    let tables = migrated.tables.iter().map(|(name, TableSum { rows, bytes, hash })| {
        json!({ "name": name, "records": rows, "bytes": bytes, "hash": hash })
    });
    json!({
        "from": from,
        "to": to,
        "installation": migrated.installation,
        "records": records,
        "bytes": bytes,
        "tables": tables.collect::<Vec<_>>(),
        "erasures": migrated.erasures,
        "resumed": migrated.resumed,
        "toDo": to_do,
        "seconds": begun.elapsed().as_secs(),
    })
}
