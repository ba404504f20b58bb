//! The data directory: the database with its log, the key (unless it is kept elsewhere), and the format
//! file, which says that all are complete and belong together; and a reserve of disk space.
//!
//! The format file is written last. A directory without it was never completely created, so nothing
//! was acknowledged in it and it is created again. A directory with it whose database is missing
//! has lost data, and is refused. A database in a directory without the format file is moved aside,
//! not removed, and a key there is used: the format file may be the one that was lost.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::data_dir_error::DataDirError;
use super::erasures::Ledger;
use super::format_file::{Format, check_of};
use super::placement::{self, DATABASE, FORMAT_FILE, KEY, LOG, SETUP_LINK};
use super::secret_key::{self, KeySource, Origin, write_private};
use super::written_by;
use crate::base::{Id, Keys, MasterKey};
use crate::resources::organizations;
use crate::store::engine::{LoggedRedb, give_up_reserve_if_full};
use crate::store::{Clock, Store, TABLES, build_indexes, table_names};

/// A data directory.
#[derive(Clone)]
pub struct DataDir {
    path: PathBuf,
    key_source: KeySource,
    progress: fn(&str),
}

impl DataDir {
    /// A data directory at `path`, which need not exist, with its key in it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        DataDir { path: path.into(), key_source: KeySource::default(), progress: |_| {} }
    }

    /// Uses the key of `key_source`, if it has one, instead of the one in the directory.
    pub fn with_key_source(self, key_source: KeySource) -> Self {
        DataDir { key_source, ..self }
    }

    /// Reports the progress of slow steps to `progress`, one line each, and an empty line at the
    /// end.
    pub fn with_progress(self, progress: fn(&str)) -> Self {
        DataDir { progress, ..self }
    }

    /// What reports the progress of slow steps.
    pub(super) fn progress(&self) -> fn(&str) {
        self.progress
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the database file.
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The path of the directory from the root, with links resolved where it exists.
    pub fn absolute(&self) -> PathBuf {
        let resolved = fs::canonicalize(&self.path).or_else(|_| std::path::absolute(&self.path));
        resolved.unwrap_or_else(|_| self.path.clone())
    }

    /// Whether it was completely created.
    pub fn exists(&self) -> bool {
        self.path.join(FORMAT_FILE).exists()
    }

    /// Checks that it can be seen whether the directory was created.
    ///
    /// # Errors
    /// If this process may not look into it.
    pub fn require_visible(&self) -> Result<(), DataDirError> {
        placement::require_visible(&self.path)
    }

    /// Checks that the directory was completely created.
    ///
    /// # Errors
    /// If it was not, or this process may not look into it.
    pub fn require_exists(&self) -> Result<(), DataDirError> {
        if self.exists() {
            return Ok(());
        }
        placement::require_no_file(&self.path)?;
        self.require_visible()?;
        Err(DataDirError(format!(
            "{} is not a data directory; name yours with --data, or create one with: roadstead \
             init",
            self.absolute().display()
        )))
    }

    /// Opens the directory, or creates it if it does not exist.
    ///
    /// # Errors
    /// See [`DataDir::open`] and [`DataDir::create`].
    pub fn open_or_create(&self) -> Result<Store, DataDirError> {
        if self.exists() { self.open() } else { self.create() }
    }

    /// Opens the directory, and builds the indexes that an older release did not have.
    ///
    /// # Errors
    /// If it does not exist, is damaged, has a newer format, or is open in another process; if its
    /// key is missing, invalid, or not the one it was created with; if an index cannot be built.
    pub fn open(&self) -> Result<Store, DataDirError> {
        self.require_exists()?;
        give_up_reserve_if_full(&self.database());
        let (disk, keys) = self.open_database()?;
        self.start(disk, keys)
    }

    /// Opens it for inspection. Indexes are not built; one that is incomplete cannot be read, and
    /// then nothing can be written.
    ///
    /// # Errors
    /// As [`DataDir::open`].
    pub fn open_to_check(&self) -> Result<Store, DataDirError> {
        let (disk, keys) = self.open_database()?;
        Store::start(disk.for_inspection(), Clock::system(), keys, &crate::resources::tables())
            .map_err(data_dir_error)
    }

    fn open_database(&self) -> Result<(LoggedRedb, Keys), DataDirError> {
        self.require_exists()?;
        let keys = self.keys()?;
        placement::require_writable(&self.path, &self.database())?;
        let tables = table_names(&crate::resources::tables());
        Ok((LoggedRedb::open(&self.database(), tables).map_err(data_dir_error)?, keys))
    }

    /// Returns the keys of the directory: that of the format file, and the one before it during a
    /// rotation. Completes the replacement of the key's file if that was interrupted.
    fn keys(&self) -> Result<Keys, DataDirError> {
        let (keys, is_new) = self.keys_to_read()?;
        if is_new {
            self.adopt_new_key()?;
        }
        Ok(keys)
    }

    /// Returns the same and changes nothing, and whether the replacement of the key's file is to be
    /// completed.
    pub(super) fn keys_to_read(&self) -> Result<(Keys, bool), DataDirError> {
        let format = Format::read(&self.path)?;
        let found = secret_key::find(&self.path, &self.key_source)?;
        let new = secret_key::find_new(&self.path, &self.key_source)?;
        let replaces_file = matches!(found, None | Some((_, Origin::File(_))));
        let candidates: Vec<_> = found.into_iter().chain(new).collect();
        let Some((key, origin)) =
            candidates.iter().find(|(key, _)| check_of(key) == format.current)
        else {
            return Err(DataDirError(self.no_key(&format, &candidates)));
        };
        let is_new = replaces_file && matches!(origin, Origin::NewFile(_));
        let previous = match &format.previous {
            None => None,
            Some(previous) => Some(previous.unseal(key).ok_or_else(|| {
                DataDirError(format!("{} is damaged", self.path.join(FORMAT_FILE).display()))
            })?),
        };
        Ok((Keys::with_previous(key.clone(), previous), is_new))
    }

    /// Says why no key opens the directory, and what can be done.
    fn no_key(&self, format: &Format, candidates: &[(MasterKey, Origin)]) -> String {
        let dir = self.path.display();
        let previous = format.previous.as_ref();
        let is_previous = |(key, _): &&(MasterKey, Origin)| {
            previous.is_some_and(|old| old.check == check_of(key))
        };
        if let Some((_, origin)) = candidates.iter().find(is_previous) {
            return format!(
                "{origin} is the key that {dir} had before it began to be replaced; use the new \
                 key, the one given to roadstead secrets rotate"
            );
        }
        let what = match candidates.first() {
            Some((_, origin)) => format!("{origin} is not the key of {dir}"),
            None => format!(
                "the key of this data directory is missing; restore {} or set the variable \
                 ROADSTEAD_SECRET_KEY",
                self.path.join(KEY).display()
            ),
        };
        format!("{what}. {}", lost_without_key())
    }

    /// Checks that there is a key, and that it is the one of the directory.
    ///
    /// # Errors
    /// If it is missing or another one.
    pub fn require_key(&self) -> Result<(), DataDirError> {
        self.keys().map(drop)
    }

    /// Returns whether the replacement of the key was begun and is not complete.
    ///
    /// # Errors
    /// If the format file cannot be read.
    pub fn is_rotating(&self) -> Result<bool, DataDirError> {
        Ok(Format::read(&self.path)?.previous.is_some())
    }

    /// Returns the key that the operator supplied to replace the present one, by a variable or a systemd
    /// credential.
    ///
    /// # Errors
    /// If it is no key.
    pub fn supplied_new_key(&self) -> Result<Option<MasterKey>, DataDirError> {
        let new = secret_key::find_new(&self.path, &self.key_source)?;
        // The file in the directory is the server's own matter.
        Ok(new.filter(|(_, origin)| !matches!(origin, Origin::NewFile(_))).map(|(key, _)| key))
    }

    /// Writes the key that a rotation is to replace, or replaces already, into a new file that only its
    /// owner may read. Returns its check, by which the rotation knows it.
    ///
    /// # Errors
    /// If there is another file, it cannot be written, or the directory has no key.
    pub fn keep_old_key(&self, file: &Path) -> Result<String, DataDirError> {
        let (keys, _) = self.keys_to_read()?;
        let old = keys.previous().unwrap_or_else(|| keys.current());
        secret_key::keep(file, &old)?;
        Ok(check_of(&old))
    }

    /// Returns the key source.
    pub fn key_source(&self) -> &KeySource {
        &self.key_source
    }

    /// Puts the new key's file in the place of the old one.
    pub(super) fn adopt_new_key(&self) -> Result<(), DataDirError> {
        secret_key::adopt(&self.path).map_err(|error| {
            DataDirError(format!("{} cannot be replaced: {error}", self.path.join(KEY).display()))
        })
    }

    fn start(&self, mut disk: LoggedRedb, keys: Keys) -> Result<Store, DataDirError> {
        let tables = crate::resources::tables();
        build_indexes(&mut disk, &tables, &self.progress).map_err(data_dir_error)?;
        disk.hold_reserve();
        let store = Store::start(disk, Clock::system(), keys, &tables).map_err(data_dir_error)?;
        let ledger = Ledger::open(&self.path, &store)?;
        store.set_ledger(Arc::new(ledger));
        Ok(store)
    }

    /// Creates the directory with an empty database, and a new key unless one is given.
    ///
    /// # Errors
    /// If it exists already, cannot be written, or the given key is invalid.
    pub fn create(&self) -> Result<Store, DataDirError> {
        if self.exists() {
            return Err(self.already_exists());
        }
        placement::require_no_file(&self.path)?;
        let failed = |error: std::io::Error| {
            DataDirError(match placement::denial(&self.path, &error) {
                Some(denied) => denied,
                None => format!("{} cannot be created: {error}", self.path.display()),
            })
        };
        // Before anything is created: an invalid key must leave nothing behind.
        let given = secret_key::find(&self.path, &self.key_source)?;
        placement::require_no_foreign_files(&self.path)?;
        // It holds mail and password hashes: readable by its owner only.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(failed)?;
        let dir = File::open(&self.path).map_err(failed)?;
        match dir.try_lock() {
            Ok(()) if self.exists() => return Err(self.already_exists()),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = self.path.display();
                return Err(DataDirError(format!("another process is creating {path}; try again")));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        placement::make_private(&self.path, &dir);
        let clock = Clock::system();
        let leftover = self.database();
        if leftover.exists() {
            self.require_unused(&leftover)?;
            let now = clock.now().millis();
            let aside = self.path.join(format!("{DATABASE}.unfinished-{now}"));
            tracing::warn!(moved_to = %aside.display(), "an incomplete database was moved aside");
            fs::rename(leftover, aside).map_err(failed)?;
            for name in LOG.iter().filter(|name| self.path.join(name).exists()) {
                let aside = self.path.join(format!("{name}.unfinished-{now}"));
                fs::rename(self.path.join(name), aside).map_err(failed)?;
            }
        }
        let key = match given {
            Some((key, _)) => key,
            None => {
                let key = clock.random();
                let key = MasterKey::new(key);
                secret_key::write(&self.path, KEY, &key).map_err(failed)?;
                key
            }
        };
        let tables = table_names(&crate::resources::tables());
        let disk = LoggedRedb::create(&self.database(), tables).map_err(|error| {
            DataDirError(format!("{} cannot be created: {error}", self.database().display()))
        })?;
        written_by::note(&self.path).map_err(failed)?;
        let format = Format { current: check_of(&key), previous: None };
        format.write(&self.path).map_err(failed)?;
        self.start(disk, Keys::with_previous(key, None))
    }

    /// Notes that this release serves the directory. Recommends a check if one did that may have lost
    /// rows: once, since it is noted.
    pub fn note_served(&self) {
        if written_by::is_of_older(&self.path) {
            tracing::warn!(
                "this data directory was served by a Roadstead that could lose rows under load; stop \
                 the server when it suits you, and run: roadstead check --data {}",
                self.absolute().display()
            );
        }
        if let Err(error) = written_by::note(&self.path) {
            tracing::warn!(%error, "the version of this server could not be noted in the data directory");
        }
    }

    /// Refuses to move aside a database that was in use: the file `format` was lost, not its
    /// content. One that cannot be opened was never completed.
    fn require_unused(&self, leftover: &Path) -> Result<(), DataDirError> {
        let tables = crate::resources::tables();
        let disk = match LoggedRedb::open(leftover, table_names(&tables)) {
            Ok(disk) => disk.for_inspection(),
            // Of a running server, which still writes it.
            Err(error) if error.code() == "database_in_use" => return Err(self.format_is_missing()),
            Err(_) => return Ok(()),
        };
        // After a rotation a store does not start without its key, so that one was in use.
        let is_used = Store::start(disk, Clock::system(), Keys::new([0; 32]), &tables)
            .and_then(|store| store.read_now(Id::NIL, organizations::has_any_user))
            .unwrap_or(true);
        if is_used { Err(self.format_is_missing()) } else { Ok(()) }
    }

    fn format_is_missing(&self) -> DataDirError {
        DataDirError(format!(
            "{} has a database, but not its file `{FORMAT_FILE}`; restore that from a backup, or name \
             another directory with --data",
            self.path.display()
        ))
    }

    fn already_exists(&self) -> DataDirError {
        DataDirError(format!(
            "{} is a data directory already; serve it with roadstead serve --data, or choose another path",
            self.path.display()
        ))
    }

    /// Writes the setup link to its file, in place of an earlier one.
    pub fn write_setup_link(&self, link: &str) -> std::io::Result<()> {
        self.remove_setup_link()?;
        write_private(&self.path.join(SETUP_LINK), format!("{link}\n").as_bytes())
    }

    /// Returns the setup link, if there is one.
    pub fn setup_link(&self) -> Option<String> {
        fs::read_to_string(self.path.join(SETUP_LINK)).ok().map(|link| link.trim().to_string())
    }

    /// Removes the file of the setup link, if there is one.
    pub fn remove_setup_link(&self) -> std::io::Result<()> {
        match fs::remove_file(self.path.join(SETUP_LINK)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn data_dir_error(error: crate::base::Error) -> DataDirError {
    DataDirError(error.to_string())
}

/// Says which secrets cannot be decrypted without the key, and what can be done.
fn lost_without_key() -> String {
    let tables = [crate::resources::tables(), TABLES.to_vec()].concat();
    let lost: BTreeSet<_> =
        tables.iter().flat_map(|table| (table.sealed)()).map(|sealed| sealed.what).collect();
    let lost: Vec<_> = lost.into_iter().collect();
    format!(
        "Without it these cannot be decrypted: {}. Everything else in the directory is readable and \
         intact, so keep it, and look for the key where it was kept: a backup of secret.key, the \
         service's settings, a password store",
        lost.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const HEX: &str = "00010203040506070809101112131415161718192021222324252627282930ff";

    fn refused(opened: Result<Store, DataDirError>) -> String {
        opened.err().expect("it should have been refused").0
    }

    #[test]
    fn a_directory_is_created_once_and_opened_afterwards() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path().join("new"));
        assert!(dir.open().is_err());
        drop(dir.open_or_create().unwrap());
        drop(dir.open_or_create().unwrap());
        assert!(dir.create().is_err());
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(dir.path().to_path_buf()), 0o700);
        for file in [DATABASE, KEY, FORMAT_FILE] {
            assert_eq!(mode(dir.path().join(file)), 0o600, "{file}");
        }
    }

    #[test]
    fn an_empty_directory_that_is_taken_over_becomes_its_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("given");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        drop(DataDir::at(&path).open_or_create().unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn of_concurrent_creations_one_succeeds_and_its_key_is_kept() {
        for _ in 0..20 {
            let place = tempfile::tempdir().unwrap();
            let dir = DataDir::at(place.path().join("new"));
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let dir = dir.clone();
                    std::thread::spawn(move || dir.create())
                })
                .collect();
            let created: Vec<_> =
                threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 1);
            drop(created);
            assert!(dir.open().is_ok());
        }
    }

    #[test]
    fn an_incomplete_directory_is_created_again() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        fs::write(dir.database(), "half").unwrap();
        fs::write(place.path().join("secret.key.unfinished"), "half").unwrap();
        assert!(dir.open_or_create().is_ok());
        // Nothing is deleted, in case only the format file was lost.
        let aside = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let aside = aside.filter(|path| path.to_string_lossy().contains(".unfinished-"));
        let aside: Vec<_> = aside.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(aside, ["half"]);
    }

    #[test]
    fn the_log_of_an_incomplete_database_is_moved_aside_with_it() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        fs::write(dir.database(), "half").unwrap();
        fs::write(place.path().join(LOG[0]), "log").unwrap();
        drop(dir.open_or_create().unwrap());
        let files = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let aside = files.filter(|path| path.to_string_lossy().contains("wal-1.unfinished-"));
        let aside: Vec<_> = aside.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(aside, ["log"]);
        drop(dir.open().unwrap());
    }

    #[test]
    fn an_existing_key_is_used_and_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        write_private(&place.path().join(KEY), b"no key").unwrap();
        assert!(refused(dir.open_or_create()).contains("holds no key"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing was created");
        fs::write(place.path().join(KEY), HEX).unwrap();
        drop(dir.open_or_create().unwrap());
        assert_eq!(fs::read_to_string(place.path().join(KEY)).unwrap(), HEX);
    }

    #[test]
    fn a_lost_or_changed_directory_is_refused_and_not_created_again() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        drop(dir.create().unwrap());
        let served = dir.open().unwrap();
        assert!(refused(dir.open()).contains("another process"));
        drop(served);
        fs::write(dir.database(), "").unwrap();
        assert!(dir.open_or_create().is_err());
        fs::remove_file(dir.database()).unwrap();
        assert!(dir.open_or_create().is_err());
        fs::write(place.path().join(FORMAT_FILE), "2\n").unwrap();
        assert!(refused(dir.open_or_create()).contains("newer"));
    }

    #[test]
    fn a_wrong_or_missing_key_is_refused_with_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        drop(dir.create().unwrap());
        let file = place.path().join(KEY);
        let right = fs::read(&file).unwrap();

        for (content, reason) in [(HEX, "is not the key"), ("", "holds no key")] {
            fs::write(&file, content).unwrap();
            let message = refused(dir.open_or_create());
            assert!(message.contains(reason) && message.contains("secret.key"), "{message}");
        }
        fs::remove_file(&file).unwrap();
        let message = refused(dir.open_or_create());
        assert!(
            message.contains("missing") && message.contains("ROADSTEAD_SECRET_KEY"),
            "{message}"
        );
        assert!(!file.exists(), "none was created in its place");
        fs::create_dir(&file).unwrap();
        assert!(refused(dir.open_or_create()).contains("cannot be read"));
        fs::remove_dir(&file).unwrap();

        fs::write(&file, right).unwrap();
        for (mode, is_ok) in [(0o640, false), (0o604, false), (0o620, false), (0o400, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            match dir.open() {
                Ok(_) => assert!(is_ok, "{mode:o}"),
                Err(message) => {
                    assert!(!is_ok && message.0.contains("chmod 600"), "{mode:o}: {message}")
                }
            }
        }
    }

    #[test]
    fn the_variable_comes_before_the_credential_before_the_file_and_neither_is_written() {
        let place = tempfile::tempdir().unwrap();
        let credentials = place.path().join("credentials");
        fs::create_dir(&credentials).unwrap();
        let with = |variable: Option<&str>, credentials: Option<&Path>| {
            DataDir::at(place.path().join("data")).with_key_source(KeySource {
                variable: variable.map(Into::into),
                credentials: credentials.map(Into::into),
                new_variable: None,
            })
        };
        // The credentials directory may hold no key.
        drop(with(Some(HEX), Some(&credentials)).create().unwrap());
        let data = with(None, None);
        assert!(!data.path().join(KEY).exists());
        assert!(refused(data.open()).contains("missing"));
        assert!(refused(with(None, Some(&credentials)).open()).contains("missing"));
        assert!(refused(with(Some(""), None).open()).contains("ROADSTEAD_SECRET_KEY holds no key"));

        // The modes of systemd's files may look as if others could read them.
        fs::write(credentials.join(KEY), HEX).unwrap();
        let mode = fs::Permissions::from_mode(0o440);
        fs::set_permissions(credentials.join(KEY), mode).unwrap();
        drop(with(None, Some(&credentials)).open().unwrap());
        let other = HEX.replace('0', "1");
        let message = refused(with(Some(&other), Some(&credentials)).open());
        assert!(message.contains("the variable ROADSTEAD_SECRET_KEY is not the key"), "{message}");
        assert!(!message.contains(&other), "{message}");

        // The file in the directory comes last, and is not read when there is another key.
        write_private(&data.path().join(KEY), other.as_bytes()).unwrap();
        assert!(refused(data.open()).contains("is not the key"));
        drop(with(None, Some(&credentials)).open().unwrap());
        fs::write(data.path().join(KEY), HEX).unwrap();
        drop(data.open().unwrap());
        fs::remove_file(credentials.join(KEY)).unwrap();
        fs::write(credentials.join(KEY), &other).unwrap();
        let message = refused(with(None, Some(&credentials)).open());
        assert!(
            message.contains("the credential ") && message.contains("is not the key"),
            "{message}"
        );
    }
}
