//! Replacement of the key of a store in PostgreSQL, while no server uses it.
//!
//! 1. The store belongs to the new key, under which the old one is sealed beside it. From then on
//!    nothing but a rotation to the same key can open it.
//! 2. Everything is sealed again ([`Rotation`]).
//! 3. The old key is removed.
//!
//! Whatever the process does not survive, the next one with the new key completes.

use std::sync::Arc;

use super::data_dir_error::DataDirError;
use super::format_file::{PreviousKey, check_of};
use super::rotation::{Rotated, end_sessions};
use super::secret_key::KeySource;
use super::shared_store::{failed_at, key_outside};
use crate::base::{Error, Id, Keys, MasterKey};
use crate::resources;
use crate::store::engine::postgres::{Owner, Postgres, PostgresSettings, PostgresUrl};
use crate::store::{Clock, Rotation, RotationProgress, Signals, Store, build_indexes, table_names};

/// Replaces the key of a store by `next`; completes a replacement by it that was interrupted.
/// `owner` says who this is to servers. Blocks.
///
/// # Errors
/// If there is no new key; if the store cannot be opened with the present one, or is in use; if it
/// fails.
pub fn rotate_store(
    url: PostgresUrl,
    key_source: &KeySource,
    next: Option<MasterKey>,
    owner: &str,
    progress: &mut dyn FnMut(RotationProgress),
) -> Result<Rotated, DataDirError> {
    let Some(next) = next else {
        return Err(DataDirError(
            "the new key must be supplied: create one with openssl rand -hex 32, and give it as \
             --new-key-file FILE or in the variable ROADSTEAD_NEW_SECRET_KEY"
                .into(),
        ));
    };
    let failed = failed_at(&url);
    let tables = resources::tables();
    let settings = PostgresSettings {
        owner: Some(Owner::new(owner)),
        ..PostgresSettings::new(url, table_names(&tables))
    };
    let signals = Arc::<Signals>::default();
    let engine = Postgres::open(settings, signals.clone(), &|_| {}).map_err(&failed)?;
    let keys = begin(&engine, key_source, &next, &failed)?;
    build_indexes(&mut engine.building(), &tables, &|_| {}).map_err(&failed)?;
    let engine = Arc::new(engine);
    let store = Store::start_over(engine.clone(), signals, Clock::system(), keys, &tables);
    let store = store.map_err(&failed)?;
    let mut rotation = Rotation::begin(&store, &tables, &next).map_err(&failed)?;
    let began = Id::new(store.clock().new_id());
    let mut resealed = 0;
    while let Some(done) = rotation.step().map_err(&failed)? {
        resealed = done.resealed;
        progress(done);
    }
    end_sessions(&store, began);
    engine.set_key(&check_of(&next), None).map_err(failed)?;
    rotation.end();
    store.close();
    let to_do = "before a server is started again, put the new key where the old one was, for all \
                 of them; the old one opens nothing any more";
    Ok(Rotated { resealed, to_do: Some(to_do.into()), is_destroyed: false })
}

/// Does step 1, unless it is done. Returns the keys with which the store is opened.
fn begin(
    engine: &Postgres,
    key_source: &KeySource,
    next: &MasterKey,
    failed: &impl Fn(Error) -> DataDirError,
) -> Result<Keys, DataDirError> {
    let header = engine.header().map_err(failed)?;
    if let Some(previous) = header.previous {
        let unsealed = PreviousKey::parse(&previous).filter(|_| header.key_check == check_of(next));
        let Some(previous) = unsealed.and_then(|previous| previous.unseal(next)) else {
            return Err(DataDirError(
                "the key is being replaced by another one; complete that first, by the same command \
                 with that new key"
                    .into(),
            ));
        };
        return Ok(Keys::with_previous(next.clone(), Some(previous)));
    }
    let current = key_outside(key_source)?;
    if header.key_check != check_of(&current) {
        return Err(DataDirError("the key is not the one of this store".into()));
    }
    if current == *next {
        return Err(DataDirError(
            "the new key is the present one; create another with: openssl rand -hex 32".into(),
        ));
    }
    let previous = PreviousKey::seal(&current, next)?;
    engine.set_key(&check_of(next), Some(&previous.text())).map_err(failed)?;
    Ok(Keys::with_previous(current, None))
}
