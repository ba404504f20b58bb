//! Moving a whole installation between a data directory and a store in PostgreSQL (reference:
//! running-many, "Moving").
//!
//! The records at one commit are copied in steps, indexes are built, and what arrived is read again
//! and compared. The target cannot be used until it is complete. A migration that was interrupted is
//! repeated: what is there already is compared instead of written.

mod copy;
mod unfinished_dir;

use std::sync::Arc;

pub use copy::{Progress, TableSum};

use super::backup::{BackupError, require_empty};
use super::data::DataDir;
use super::erasures::Erasures;
use super::format_file::{Format, check_of};
use super::placement::{ERASURES, KEY};
use super::secret_key;
use super::shared_store::{ERASURES_SINCE, SharedStore, failed_at, key_outside};
use crate::auth::installation_id;
use crate::base::MasterKey;
use crate::resources;
use crate::store::engine::postgres::{Owner, Postgres, PostgresSettings, PostgresUrl};
use crate::store::{Erasure, Store, table_names};
use copy::Source;
use unfinished_dir::UnfinishedDir;

/// What was moved.
#[derive(Debug)]
pub struct Migrated {
    /// The id of the installation.
    pub installation: String,
    /// What each table adds up to, at the target as at the source.
    pub tables: Vec<(&'static str, TableSum)>,
    /// The erasures that the target knows of.
    pub erasures: usize,
    /// Whether an earlier migration was completed.
    pub resumed: bool,
    /// Whether the target has the key; otherwise the server must be given it.
    pub has_key: bool,
}

/// Moves the data directory into an empty database. `owner` says who this is to servers.
///
/// # Errors
/// If the directory cannot be opened or is in use; if the database cannot be reached, or holds
/// anything but what an interrupted migration of the same installation left; if what arrived
/// differs.
pub fn to_database(
    dir: &DataDir,
    url: PostgresUrl,
    owner: &str,
    progress: &Progress<'_>,
) -> Result<Migrated, BackupError> {
    dir.require_exists()?;
    if dir.is_rotating()? {
        return Err(BackupError::Unusable(format!(
            "the key of {} is being replaced; complete that first: roadstead secrets rotate",
            dir.path().display()
        )));
    }
    let store = dir.open_to_check()?;
    let installation = installation_id(store.keys());
    let erasures = erasures_of(dir, &store, &installation)?;
    let failed = failed_at(&url);
    let settings = PostgresSettings {
        key_check: Some(check_of(&store.keys().current())),
        filling: Some(format!("migration of the installation {installation}")),
        owner: Some(Owner::new(owner)),
        ..PostgresSettings::new(url, table_names(&resources::tables()))
    };
    let show = |text: &str| progress(text);
    let engine = Postgres::open(settings, Arc::default(), &show).map_err(&failed)?;
    let since = erasures.since.millis().to_string();
    engine.set_note(ERASURES_SINCE, &since).map_err(&failed)?;
    let source = Source::new(store.rows(), &erasures.all)?;
    let tables = copy::copy(&source, engine.building(), progress)?.0;
    engine.complete().map_err(&failed)?;
    let (erasures, resumed) = (erasures.all.len(), !engine.is_new());
    Ok(Migrated { installation, tables, erasures, resumed, has_key: false })
}

/// Returns the erasures that the ledger has, and those that it was about to get.
fn erasures_of(dir: &DataDir, store: &Store, installation: &str) -> Result<Erasures, BackupError> {
    let mut all = store.erasures()?;
    if !dir.path().join(ERASURES).exists() {
        return Ok(Erasures::new(installation.into(), store.clock().now(), all));
    }
    let ledger = Erasures::read(dir.path())?;
    if ledger.installation != installation {
        return Err(BackupError::Unusable(format!(
            "the ledger of erasures of {} is of another installation; move it away",
            dir.path().display()
        )));
    }
    let is_known =
        |one: &Erasure| all.iter().any(|known| known.at == one.at && known.prefix == one.prefix);
    let recorded: Vec<_> = ledger.all.into_iter().filter(|one| !is_known(one)).collect();
    all.extend(recorded);
    Ok(Erasures::new(ledger.installation, ledger.since, all))
}

/// Moves a store in PostgreSQL into a new data directory. The key is kept in the directory if it is
/// given; otherwise it is the one that is kept outside, and stays there.
///
/// # Errors
/// If the database cannot be reached, holds no store or one of another key, or is in use; if the
/// directory is not empty, or cannot be written; if what arrived differs.
pub fn to_directory(
    url: PostgresUrl,
    dir: &DataDir,
    key: Option<MasterKey>,
    owner: &str,
    progress: &Progress<'_>,
) -> Result<Migrated, BackupError> {
    let has_key = key.is_some();
    let key = match key {
        Some(key) => key,
        None => key_outside(dir.key_source())?,
    };
    require_empty(dir.path())?;
    let show = |text: &str| progress(text);
    let at_source = failed_at(&url);
    let shared = SharedStore::open_to_read(url, key.clone(), Some(Owner::new(owner)), &show)?;
    let installation = installation_id(shared.store.keys());
    let erasures = shared.erasures()?;
    let target = UnfinishedDir::begin(dir, &installation)?;
    // Those that the ledger has need not be recorded by the store again.
    let source = Source::new(shared.store.rows(), &[])?;
    let resumed = target.is_resumed();
    let (tables, storage) = copy::copy(&source, target.database()?, progress)?;
    drop(storage);
    if has_key {
        target.require_absent(KEY)?;
        secret_key::write(target.path(), KEY, &key)?;
    }
    target.require_absent(ERASURES)?;
    erasures.write(target.path())?;
    // While this process was paused, a server may have taken the store over and written to it: what was
    // copied is too old then. Who is the owner until here has copied all there is.
    shared.engine.require_membership().map_err(at_source)?;
    let format = Format { current: check_of(&key), previous: None };
    target.complete(&format, dir)?;
    shared.store.close();
    let erasures = erasures.all.len();
    Ok(Migrated { installation, tables, erasures, resumed, has_key })
}
