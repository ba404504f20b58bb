//! A store in PostgreSQL, in place of a data directory: opening it, and what is to be known about
//! it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::data_dir_error::DataDirError;
use super::erasures::Erasures;
use super::format_file::check_of;
use super::secret_key::{self, KeySource};
use crate::auth::installation_id;
use crate::base::{Error, Keys, MasterKey, Result, Time};
use crate::store::engine::Engine as _;
use crate::store::engine::postgres::{Node, Owner, Postgres, PostgresSettings, PostgresUrl};
use crate::store::{
    Clock, ERASURES_KEPT_SECS, Signals, Store, TableInfo, are_indexes_built, build_indexes,
    table_names,
};

/// A store in PostgreSQL that this process is a node of.
pub struct SharedStore {
    pub store: Store,
    pub engine: Arc<Postgres>,
}

impl SharedStore {
    /// Opens the store, creating it if the database holds none, and builds the indexes that an
    /// older release did not have. `node` says who this is to others. Blocks.
    ///
    /// # Errors
    /// If the database cannot be reached or used; if a server of another release uses it; if there
    /// is no key outside of a data directory, or it is not the one that the store was created with; if
    /// there is no store but `must_exist`.
    pub fn open(
        url: PostgresUrl,
        key_source: &KeySource,
        node: Node,
        must_exist: bool,
        progress: &dyn Fn(&str),
    ) -> std::result::Result<Self, DataDirError> {
        let key = key_outside(key_source)?;
        let failed = failed_at(&url);
        let tables = crate::resources::tables();
        let may_lead = node.may_lead();
        let settings = PostgresSettings {
            key_check: Some(check_of(&key)),
            must_exist,
            node: Some(node),
            ..PostgresSettings::new(url, table_names(&tables))
        };
        let signals = Arc::<Signals>::default();
        let engine = Postgres::open(settings, signals.clone(), progress).map_err(&failed)?;
        require_indexes(&engine, &tables, may_lead, progress).map_err(&failed)?;
        let engine = Arc::new(engine);
        let keys = Keys::with_previous(key, None);
        let store = Store::start_over(engine.clone(), signals, Clock::system(), keys, &tables);
        Ok(SharedStore { store: store.map_err(failed)?, engine })
    }

    /// Opens a store that exists, to read it: servers may use it meanwhile, unless there is an
    /// `owner`. Indexes are not built; one that is incomplete cannot be read. Blocks.
    ///
    /// # Errors
    /// If the database cannot be reached or holds no store, or one of another key; if it is in use
    /// and there is an `owner`.
    pub fn open_to_read(
        url: PostgresUrl,
        key: MasterKey,
        owner: Option<Owner>,
        progress: &dyn Fn(&str),
    ) -> std::result::Result<Self, DataDirError> {
        let failed = failed_at(&url);
        let tables = crate::resources::tables();
        let settings = PostgresSettings {
            key_check: Some(check_of(&key)),
            must_exist: true,
            owner,
            ..PostgresSettings::new(url, table_names(&tables))
        };
        let signals = Arc::<Signals>::default();
        let engine = Postgres::open(settings, signals.clone(), progress).map_err(&failed)?;
        let engine = Arc::new(engine);
        let keys = Keys::with_previous(key, None);
        let store = Store::start_over(engine.clone(), signals, Clock::system(), keys, &tables);
        Ok(SharedStore { store: store.map_err(failed)?, engine })
    }

    /// Returns the ledger of erasures. It is in the store itself: complete for as long as erasures
    /// are kept, unless the store was filled from elsewhere since.
    pub(super) fn erasures(&self) -> Result<Erasures> {
        let noted = self.engine.note(ERASURES_SINCE)?.and_then(|text| text.parse().ok());
        let noted = Time::from_millis(noted.unwrap_or_default());
        // Older ones are removed by a sweep.
        let since = noted.max(self.store.clock().now().minus_secs(ERASURES_KEPT_SECS));
        Ok(Erasures::new(installation_id(self.store.keys()), since, self.store.erasures()?))
    }
}

/// The note that says since when the erasures in a store are complete, in milliseconds.
pub(super) const ERASURES_SINCE: &str = "erasures-since";

/// Returns the key that is kept outside of any data directory.
///
/// # Errors
/// If there is none.
pub fn key_outside(source: &KeySource) -> std::result::Result<MasterKey, DataDirError> {
    match secret_key::find_outside(source)? {
        Some((key, _)) => Ok(key),
        None => Err(DataDirError(
            "a store in PostgreSQL needs its key from elsewhere: set ROADSTEAD_SECRET_KEY, or the \
             systemd credential secret.key, to 64 hex digits, as created by: openssl rand -hex 32"
                .into(),
        )),
    }
}

/// Says at which store something failed.
pub(super) fn failed_at(url: &PostgresUrl) -> impl Fn(Error) -> DataDirError + use<> {
    let at = url.shown();
    move |error| DataDirError(format!("{at}: {}", error.log_detail().unwrap_or(error.message())))
}

/// How often a node that waits for another to build indexes looks whether they are.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Builds the indexes if this node has the lease; otherwise waits until another one has built them.
/// No node serves before that: those of another release, which would not maintain them, are gone.
fn require_indexes(
    engine: &Postgres,
    tables: &[TableInfo],
    may_lead: bool,
    progress: &dyn Fn(&str),
) -> Result<()> {
    let leases = engine.leases();
    let mut has_waited = false;
    while !are_indexes_built(&*engine.snapshot(), tables)? {
        let has_lease = leases.borrow().is_some();
        if has_lease {
            return build_indexes(&mut engine.building(), tables, progress);
        }
        if !may_lead {
            return Err(Error::internal("its indexes are not built; start a server first"));
        }
        if !has_waited {
            progress("waiting for the lease, or for another server that builds indexes");
        }
        has_waited = true;
        thread::sleep(LOOK_INTERVAL);
    }
    if has_waited {
        progress("");
    }
    Ok(())
}
