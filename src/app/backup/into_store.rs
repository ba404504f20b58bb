//! Restores a backup into a store in PostgreSQL, which cannot be used until it is complete.

use std::io::Read;

use super::error::BackupError;
use super::header::{Header, Totals};
use super::reader::Backup;
use super::restore::{LedgerUsed, RestoreSettings, Restored, key_of, ledger_for};
use crate::app::erasures::Erasures;
use crate::app::format_file::{Format, check_of};
use crate::app::secret_key::KeySource;
use crate::app::shared_store::{ERASURES_SINCE, failed_at};
use crate::base::MasterKey;
use crate::store::engine::postgres::{Owner, Postgres, PostgresSettings, PostgresUrl};
use crate::store::{
    Clock, Erasure, Key as _, Mirror, Record as _, TableInfo, build_indexes, encode, record_tables,
    table_names,
};

/// Restores a backup, from its decrypted stream, into an empty database, or one that an interrupted
/// restore of the same backup left. `owner` says who this is to servers.
///
/// # Errors
/// As [`restore`](super::restore); if the database cannot be reached or holds anything else.
pub fn restore_into(
    input: impl Read,
    url: PostgresUrl,
    key_source: &KeySource,
    settings: &RestoreSettings,
    owner: &str,
    progress: &mut dyn FnMut(&Totals),
) -> Result<(Header, Restored), BackupError> {
    let of_file = |error: BackupError| error.of(&settings.file);
    let backup = Backup::open(input).map_err(of_file)?;
    let backup = backup.collecting_audit_heads(settings.collects_audit_heads);
    let key = key_of(&backup.header, key_source, settings)?.key;
    let is_rotating =
        Format::parse("".as_ref(), &backup.header.directory_format)?.previous.is_some();
    if is_rotating {
        return Err(BackupError::Unusable(format!(
            "{} was made while the key was replaced; restore it into a data directory, start \
             the server there once, and move that: roadstead migrate",
            settings.file
        )));
    }
    let ledger = ledger_for(&backup.header, settings, &key)?;
    let failed = failed_at(&url);
    let engine = open(url, &key, &backup.header.backup_id, owner)?;
    let since = ledger.as_ref().map_or_else(|| Clock::system().now(), |ledger| ledger.since);
    engine.set_note(ERASURES_SINCE, &since.millis().to_string()).map_err(&failed)?;

    let tables = crate::resources::tables();
    let names = record_tables(&tables).iter().map(|table| table.name).collect();
    let mut mirror = Mirror::new(engine.building(), names);
    let mut erased = 0;
    let mut own = Vec::new();
    let add = |table: &TableInfo, key: &[u8], value: &[u8]| {
        if ledger.as_ref().is_some_and(|ledger| ledger.has(table.name, key)) {
            erased += 1;
        } else if table.name == Erasure::TABLE {
            own.push((key.to_vec(), value.to_vec()));
        } else {
            mirror.add(table.name, key, value)?;
        }
        Ok(())
    };
    let (header, totals) = backup.read(add, progress).map_err(of_file)?;
    for (key, value) in with_ledger(own, ledger.as_ref())? {
        mirror.add(Erasure::TABLE, &key, &value)?;
    }
    build_indexes(&mut mirror.finish()?, &tables, &|_| {})?;
    engine.complete().map_err(failed)?;
    let ledger = ledger.as_ref().map(|ledger| LedgerUsed::of(ledger, &header));
    Ok((header, Restored { totals, erased, has_key: false, ledger }))
}

fn open(
    url: PostgresUrl,
    key: &MasterKey,
    backup_id: &str,
    owner: &str,
) -> Result<Postgres, BackupError> {
    let failed = failed_at(&url);
    let settings = PostgresSettings {
        key_check: Some(check_of(key)),
        filling: Some(format!("restore of the backup {backup_id}")),
        owner: Some(Owner::new(owner)),
        ..PostgresSettings::new(url, table_names(&crate::resources::tables()))
    };
    Ok(Postgres::open(settings, std::sync::Arc::default(), &|_| {}).map_err(failed)?)
}

/// Keys and values.
type KeysAndValues = Vec<(Vec<u8>, Vec<u8>)>;

/// Adds the erasures of the ledger to those of the backup, which may be the same: the store is its
/// own ledger. In the order of their keys.
fn with_ledger(
    own: KeysAndValues,
    ledger: Option<&Erasures>,
) -> Result<KeysAndValues, BackupError> {
    let mut rows: std::collections::BTreeMap<_, _> = own.into_iter().collect();
    for erasure in ledger.into_iter().flat_map(|ledger| &ledger.all) {
        let key = erasure.id().to_bytes();
        rows.insert(key.clone(), encode(erasure, &key)?);
    }
    Ok(rows.into_iter().collect())
}
