//! Replacement of the installation's key: `roadstead secrets rotate`.
//!
//! 1. The new key is stored, beside the old one if that is a file of the data directory.
//! 2. The format file is replaced: the directory now belongs to the new key, under which the old one
//!    is sealed in that file.
//! 3. The new key's file takes the place of the old one.
//! 4. Everything is sealed again ([`Rotation`]).
//! 5. The old key is removed from the format file.
//!
//! Whatever the process does not survive, the next one finds both keys and resumes. So does the next
//! attempt of this process after a step that failed: what it goes by is the format file, not the keys
//! in memory, which may be those before it.

use std::sync::{Mutex, PoisonError};

use super::data::DataDir;
use super::data_dir_error::DataDirError;
use super::format_file::{Format, PreviousKey, check_of};
use super::secret_key::{self, FoundKey, Origin};
use crate::auth::Session;
use crate::base::{Id, Keys, MasterKey};
use crate::resources::{self, organizations::end_sessions_before};
use crate::store::{Clock, Rotation, RotationProgress, Store};

/// Held by whoever rotates: a server completes a rotation on a thread of its own, while commands may ask for
/// it, or for the next one.
static TURN: Mutex<()> = Mutex::new(());

/// The result of a rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotated {
    /// How many secrets were sealed with the new key.
    pub resealed: u64,
    /// What the operator must do now; nothing if the key is a file of the data directory.
    pub to_do: Option<String>,
    /// Whether the old key was a file of the data directory, and so is nowhere any more unless it was kept.
    pub is_destroyed: bool,
}

/// Replaces the key of a data directory whose store is open; resumes a rotation that is under way.
/// `next` is the new key; without one it is taken from the key source, or made if the key is a file of
/// the directory. `kept` is the check of the key that the operator has kept as the old one. Blocks.
///
/// # Errors
/// If a new key is needed and there is none, another key was kept than the one that goes, a file cannot be
/// written, or the store fails.
pub fn rotate(
    dir: &DataDir,
    store: &Store,
    next: Option<MasterKey>,
    kept: Option<&str>,
    progress: &mut dyn FnMut(RotationProgress),
) -> Result<Rotated, DataDirError> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    rotate_in_turn(dir, store, next, kept, progress)
}

/// Completes a rotation that an earlier process began; `None` if there is none any more. Blocks.
///
/// # Errors
/// Those of [`rotate`].
pub fn complete_rotation(dir: &DataDir, store: &Store) -> Result<Option<Rotated>, DataDirError> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !dir.is_rotating()? {
        return Ok(None);
    }
    rotate_in_turn(dir, store, None, None, &mut |_| {}).map(Some)
}

fn rotate_in_turn(
    dir: &DataDir,
    store: &Store,
    next: Option<MasterKey>,
    kept: Option<&str>,
    progress: &mut dyn FnMut(RotationProgress),
) -> Result<Rotated, DataDirError> {
    if is_sealed_again(dir, store.keys())? {
        store.keys().end_rotation();
        let current = store.keys().current();
        // Who has kept a key has kept the present one, which is to be replaced.
        if kept.is_none() && next.as_ref().is_none_or(|next| *next == current) {
            return rotated(dir, 0, &current);
        }
    }
    let next = begin(dir, store.keys(), next, kept)?;
    let failed = |error: crate::base::Error| {
        let why = error.log_detail().unwrap_or(error.message()).to_string();
        DataDirError(format!("the rotation ended early, and can be resumed: {why}"))
    };
    let mut rotation = Rotation::begin(store, &resources::tables(), &next).map_err(failed)?;
    let began = Id::new(store.clock().new_id());
    let mut resealed = 0;
    while let Some(done) = rotation.step().map_err(failed)? {
        resealed = done.resealed;
        progress(done);
    }
    end_sessions(store, began);
    write_format(dir, &Format { current: check_of(&next), previous: None })?;
    rotation.end();
    rotated(dir, resealed, &next)
}

/// Ends the sessions that were begun before. Tokens that the old key has signed open nothing any more, and
/// would be listed as if they did. One that is damaged keeps no key from being replaced.
pub(super) fn end_sessions(store: &Store, began: Id<Session>) {
    if let Err(error) = end_sessions_before(store, began) {
        let why = error.log_detail().unwrap_or(error.message());
        tracing::warn!(why, "sessions whose tokens open nothing any more stay in lists");
    }
}

/// Whether an earlier attempt of this process has replaced the format file for the last time, and failed
/// then, when that was to be made durable: everything is sealed with the new key.
fn is_sealed_again(dir: &DataDir, keys: &Keys) -> Result<bool, DataDirError> {
    let format = Format::read(dir.path())?;
    let is_last = format.previous.is_none() && format.current == check_of(&keys.current());
    Ok(is_last && keys.previous().is_some())
}

/// Does steps 1 to 3, unless they are done. Returns the new key.
fn begin(
    dir: &DataDir,
    keys: &Keys,
    given: Option<MasterKey>,
    kept: Option<&str>,
) -> Result<MasterKey, DataDirError> {
    let format = Format::read(dir.path())?;
    let old = format.previous.as_ref().map_or(&format.current, |previous| &previous.check);
    if kept.is_some_and(|kept| kept != old) {
        return Err(DataDirError(
            "another replacement of the key has ended meanwhile, so that the file of --keep-old-key has \
             not the key that this one destroys; nothing was changed: repeat it with another FILE"
                .into(),
        ));
    }
    let current = keys.current();
    if format.previous.is_some() {
        return resume(dir, &format, current, given);
    }
    let found = secret_key::find(dir.path(), dir.key_source())?;
    let in_directory = matches!(found, Some((_, Origin::File(_))));
    let next = match given {
        Some(next) => next,
        None => new_key(dir, in_directory)?,
    };
    if next == current {
        return Err(DataDirError(
            "the new key is the present one; create another with: openssl rand -hex 32".into(),
        ));
    }
    if in_directory {
        secret_key::write_new(dir.path(), &next)
            .map_err(|error| DataDirError(format!("the new key cannot be written: {error}")))?;
    }
    let previous = Some(PreviousKey::seal(&current, &next)?);
    write_format(dir, &Format { current: check_of(&next), previous })?;
    if in_directory {
        dir.adopt_new_key()?;
    }
    Ok(next)
}

/// Returns the key to which the directory belongs since step 2, and does step 3 unless it is done.
fn resume(
    dir: &DataDir,
    format: &Format,
    in_memory: MasterKey,
    given: Option<MasterKey>,
) -> Result<MasterKey, DataDirError> {
    if given.as_ref().is_some_and(|given| check_of(given) != format.current) {
        return Err(DataDirError(
            "the key is being replaced by another one; complete that first, by the same command \
             without a new key"
                .into(),
        ));
    }
    let stored = secret_key::find_new(dir.path(), dir.key_source())?;
    let stored = stored.filter(|(key, _)| check_of(key) == format.current);
    let present = secret_key::find(dir.path(), dir.key_source())?;
    let is_in_directory = matches!(present, None | Some((_, Origin::File(_))));
    if is_in_directory && matches!(stored, Some((_, Origin::NewFile(_)))) {
        dir.adopt_new_key()?;
    }
    let found = stored.into_iter().chain(present).map(|(key, _)| key);
    let mut known = given.into_iter().chain([in_memory]).chain(found);
    known.find(|key| check_of(key) == format.current).ok_or_else(|| {
        DataDirError(
            "the key is being replaced, and the new one is not known here; give it again, as \
             --new-key-file FILE or in the variable ROADSTEAD_NEW_SECRET_KEY"
                .into(),
        )
    })
}

fn write_format(dir: &DataDir, format: &Format) -> Result<(), DataDirError> {
    format
        .write(dir.path())
        .map_err(|error| DataDirError(format!("the format file cannot be written: {error}")))
}

/// Returns the key that the operator supplied, or one that was stored by an earlier attempt, or a new
/// one.
fn new_key(dir: &DataDir, in_directory: bool) -> Result<MasterKey, DataDirError> {
    match secret_key::find_new(dir.path(), dir.key_source())? {
        Some((key, _)) => Ok(key),
        None if in_directory => Ok(MasterKey::new(Clock::system().random())),
        None => Err(DataDirError(
            "the key is kept outside of the data directory, so the new one must be supplied: create \
             one with openssl rand -hex 32, and give it as --new-key-file FILE or in the variable \
             ROADSTEAD_NEW_SECRET_KEY"
                .into(),
        )),
    }
}

/// The result of a rotation to `next`.
fn rotated(dir: &DataDir, resealed: u64, next: &MasterKey) -> Result<Rotated, DataDirError> {
    let found = secret_key::find(dir.path(), dir.key_source())?;
    let is_destroyed = matches!(found, Some((_, Origin::File(_))));
    Ok(Rotated { resealed, to_do: to_do(found, next), is_destroyed })
}

/// Says where the new key must be put, unless it is there, given what key is found.
fn to_do(found: Option<FoundKey>, next: &MasterKey) -> Option<String> {
    let place = match found {
        Some((key, _)) if key == *next => return None,
        Some((_, Origin::Variable(name))) => format!("set {name} to the new key"),
        Some((_, Origin::Credential(path))) => {
            format!("put the new key into the systemd credential {}", path.display())
        }
        Some(_) | None => "put the new key where the old one was".into(),
    };
    Some(format!("before Roadstead is started again, {place}; the old one opens nothing any more"))
}

#[cfg(test)]
mod tests;
