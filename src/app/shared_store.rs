//! A store in PostgreSQL, in place of a data directory: opening it, and what is to be known about
//! it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::data_dir_error::DataDirError;
use super::format_file::check_of;
use super::secret_key::{self, KeySource};
use crate::base::{Error, Keys, Result};
use crate::store::engine::Engine as _;
use crate::store::engine::postgres::{Node, Postgres, PostgresSettings, PostgresUrl};
use crate::store::{
    Clock, Signals, Store, TableInfo, are_indexes_built, build_indexes, table_names,
};

/// A store in PostgreSQL that this process is a node of.
pub struct SharedStore {
    pub store: Store,
    pub engine: Arc<Postgres>,
}

impl SharedStore {
    /// Opens the store, founding it if the database holds none, and builds the indexes that an
    /// older release did not have. `description` says who this is to others. Blocks.
    ///
    /// # Errors
    /// If the database cannot be reached or used; if a server of another release uses it; if there
    /// is no key outside of a data directory, or it is not the one that the store was founded with; if
    /// there is no store but `must_exist`.
    pub fn open(
        url: PostgresUrl,
        key_source: &KeySource,
        description: &str,
        must_exist: bool,
        progress: &dyn Fn(&str),
    ) -> std::result::Result<Self, DataDirError> {
        let Some((key, _)) = secret_key::find_outside(key_source)? else {
            return Err(DataDirError(
                "a store in PostgreSQL needs its key from elsewhere: set ROADSTEAD_SECRET_KEY, or \
                 the systemd credential secret.key, to 64 hex digits, as created by: openssl rand \
                 -hex 32"
                    .into(),
            ));
        };
        let at = url.shown();
        let failed = |error: Error| {
            DataDirError(format!("{at}: {}", error.log_detail().unwrap_or(error.message())))
        };
        let tables = crate::resources::tables();
        let settings = PostgresSettings {
            key_check: Some(check_of(&key)),
            must_exist,
            node: Some(Node::new(env!("CARGO_PKG_VERSION"), description)),
            ..PostgresSettings::new(url, table_names(&tables))
        };
        let signals = Arc::<Signals>::default();
        let engine = Postgres::open(settings, signals.clone(), progress).map_err(failed)?;
        require_indexes(&engine, &tables, progress).map_err(failed)?;
        let engine = Arc::new(engine);
        let keys = Keys::with_previous(key, None);
        let store = Store::start_over(engine.clone(), signals, Clock::system(), keys, &tables);
        Ok(SharedStore { store: store.map_err(failed)?, engine })
    }
}

/// How often a node that waits for another to build indexes looks whether they are.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Builds the indexes if this node has the lease; otherwise waits until another one has built them.
/// No node serves before that: those of another release, which would not maintain them, are gone.
fn require_indexes(engine: &Postgres, tables: &[TableInfo], progress: &dyn Fn(&str)) -> Result<()> {
    let leases = engine.leases();
    let mut has_waited = false;
    while !are_indexes_built(&*engine.snapshot(), tables)? {
        let has_lease = leases.borrow().is_some();
        if has_lease {
            return build_indexes(&mut engine.building(), tables, progress);
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
