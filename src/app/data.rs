//! The data directory: the database, the key beside it (unless it is kept elsewhere), and the mark
//! that says both are whole and belong together.
//!
//! The mark is written last. A directory without it never finished being made, so nothing was ever
//! acknowledged in it and it is made anew; a directory with it whose database is missing has lost
//! something, and is refused rather than begun again in silence. A database in a directory without
//! the mark is moved aside, not removed, and a key there is used: the mark itself may be what was
//! lost.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::secret_key::{self, KEY, OutsideKey, write_private};
use crate::base::Keys;
use crate::store::engine::Redb;
use crate::store::{Moment, Store, build_indexes, codec, table_names};

/// The format of the directory. A larger number was written by a newer Roadstead.
const FORMAT: u32 = 1;

const DATABASE: &str = "roadstead.redb";
const MARK: &str = "format";
const SETUP_LINK: &str = "setup-link";

/// Why a directory cannot be opened, in a sentence for whoever runs the server.
#[derive(Debug)]
pub struct Unusable(pub String);

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// A data directory.
#[derive(Clone)]
pub struct DataDir {
    path: PathBuf,
    outside_key: OutsideKey,
    progress: fn(&str),
}

impl DataDir {
    /// The directory at `path`, whether or not there is one yet, with its key in it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        DataDir { path: path.into(), outside_key: OutsideKey::default(), progress: |_| {} }
    }

    /// The same, where a key from outside, if there is one, is used instead of the one in it.
    pub fn with_key_from(self, outside_key: OutsideKey) -> Self {
        DataDir { outside_key, ..self }
    }

    /// The same, telling `progress` in a line how far it is with what takes long, and an empty line
    /// when that is over.
    pub fn with_progress(self, progress: fn(&str)) -> Self {
        DataDir { progress, ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database's file.
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Whether it was made before.
    pub fn exists(&self) -> bool {
        self.path.join(MARK).exists()
    }

    /// Refuses a directory in which nothing was ever made.
    ///
    /// # Errors
    /// If it was never made.
    pub fn must_be_made(&self) -> Result<(), Unusable> {
        match self.exists() {
            true => Ok(()),
            false => Err(Unusable(format!(
                "{} is no data directory; make one with: roadstead init",
                self.path.display()
            ))),
        }
    }

    /// Opens it, or makes it if there is none.
    ///
    /// # Errors
    /// If it cannot be opened or made; the sentence says what to do.
    pub fn open_or_make(&self) -> Result<Store, Unusable> {
        if self.exists() { self.open() } else { self.make() }
    }

    /// Opens it, and builds the indexes that an older release did not have.
    ///
    /// # Errors
    /// If there is none, it is damaged, newer, or another process serves it; if its key is
    /// missing, not the one it was made with, or no key; if an index cannot be built.
    pub fn open(&self) -> Result<Store, Unusable> {
        let (disk, keys) = self.open_database()?;
        self.start(disk, keys)
    }

    /// Opens it to look at what is in it. Indexes are left as they are; those that are not whole
    /// cannot be read, and nothing can be written then.
    ///
    /// # Errors
    /// As of [`DataDir::open`].
    pub fn open_to_check(&self) -> Result<Store, Unusable> {
        let (disk, keys) = self.open_database()?;
        Store::start(disk, Moment::system(), keys, &crate::resources::tables()).map_err(told)
    }

    fn open_database(&self) -> Result<(Redb, Keys), Unusable> {
        self.must_be_made()?;
        let mark = fs::read_to_string(self.path.join(MARK)).map_err(|error| {
            Unusable(format!("{} cannot be read: {error}", self.path.join(MARK).display()))
        })?;
        let mut lines = mark.lines();
        let format = lines.next().and_then(|line| line.parse::<u32>().ok());
        match format {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                return Err(Unusable(format!(
                    "{} was written by a newer Roadstead (format {newer}); use that one",
                    self.path.display()
                )));
            }
            _ => return Err(Unusable(format!("{} is damaged", self.path.join(MARK).display()))),
        }
        let Some((keys, origin)) = secret_key::find(&self.path, &self.outside_key)? else {
            return Err(Unusable(format!(
                "the key of this data directory is missing: put it back into {}, or give it in \
                 the variable ROADSTEAD_SECRET_KEY; without it nothing sealed can be opened",
                self.path.join(KEY).display()
            )));
        };
        if lines.next() != Some(key_check(&keys).as_str()) {
            return Err(Unusable(format!(
                "{origin} is not the key that {} was made with, so that nothing sealed there would \
                 open; put the right one in its place",
                self.path.display()
            )));
        }
        let tables = table_names(&crate::resources::tables());
        Ok((Redb::open(&self.database(), tables).map_err(told)?, keys))
    }

    fn start(&self, mut disk: Redb, keys: Keys) -> Result<Store, Unusable> {
        let tables = crate::resources::tables();
        build_indexes(&mut disk, &tables, &self.progress).map_err(told)?;
        Store::start(disk, Moment::system(), keys, &tables).map_err(told)
    }

    /// Makes it: an empty database, and a new key unless there is one for it already.
    ///
    /// # Errors
    /// If there is something else in its place, it cannot be written, or what is there for a key
    /// is none.
    pub fn make(&self) -> Result<Store, Unusable> {
        if self.exists() {
            return Err(self.is_there());
        }
        let failed = |error: std::io::Error| {
            Unusable(format!("{} cannot be made: {error}", self.path.display()))
        };
        // Before anything is made: one that cannot be used shall leave nothing behind.
        let given = secret_key::find(&self.path, &self.outside_key)?;
        // Everybody's mail and the hashes of their passwords lie in it: its owner's business alone.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(failed)?;
        let dir = File::open(&self.path).map_err(failed)?;
        match dir.try_lock() {
            Ok(()) if self.exists() => return Err(self.is_there()),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = self.path.display();
                return Err(Unusable(format!("another process is making {path}; try again")));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let moment = Moment::system();
        let leftover = self.database();
        if leftover.exists() {
            let now = moment.now().millis();
            let aside = self.path.join(format!("{DATABASE}.unfinished-{now}"));
            tracing::warn!(moved_to = %aside.display(), "what was left here is moved aside");
            fs::rename(leftover, aside).map_err(failed)?;
        }
        let keys = match given {
            Some((keys, _)) => keys,
            None => {
                let key = moment.random();
                secret_key::keep(&self.path, &key).map_err(failed)?;
                Keys::new(key)
            }
        };
        let tables = table_names(&crate::resources::tables());
        let disk = Redb::create(&self.database(), tables).map_err(|error| {
            Unusable(format!("{} cannot be made: {error}", self.database().display()))
        })?;
        let mark = format!("{FORMAT}\n{}\n", key_check(&keys));
        write_private(&self.path.join(MARK), mark.as_bytes()).map_err(failed)?;
        dir.sync_all().map_err(failed)?;
        self.start(disk, keys)
    }

    fn is_there(&self) -> Unusable {
        Unusable(format!("{} is a data directory already", self.path.display()))
    }

    /// Writes the link by which the first person sets the server up.
    pub fn write_setup_link(&self, link: &str) -> std::io::Result<()> {
        self.remove_setup_link()?;
        write_private(&self.path.join(SETUP_LINK), format!("{link}\n").as_bytes())
    }

    /// The link, if there is one.
    pub fn setup_link(&self) -> Option<String> {
        fs::read_to_string(self.path.join(SETUP_LINK)).ok().map(|link| link.trim().to_string())
    }

    /// Removes it.
    pub fn remove_setup_link(&self) -> std::io::Result<()> {
        match fs::remove_file(self.path.join(SETUP_LINK)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn told(error: crate::base::Error) -> Unusable {
    Unusable(error.to_string())
}

fn key_check(keys: &Keys) -> String {
    codec::hex(&keys.hash("roadstead 2026 key check", b""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const HEX: &str = "00010203040506070809101112131415161718192021222324252627282930ff";

    fn refused(opened: Result<Store, Unusable>) -> String {
        opened.err().expect("it should have been refused").0
    }

    #[test]
    fn a_directory_is_made_once_and_opened_ever_after() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path().join("new"));
        assert!(dir.open().is_err());
        drop(dir.open_or_make().unwrap());
        drop(dir.open_or_make().unwrap());
        assert!(dir.make().is_err());
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(dir.path().to_path_buf()), 0o700);
        for file in [DATABASE, KEY, MARK] {
            assert_eq!(mode(dir.path().join(file)), 0o600, "{file}");
        }
    }

    #[test]
    fn of_many_who_make_it_at_once_one_does_and_its_key_is_the_one_that_is_kept() {
        for _ in 0..20 {
            let place = tempfile::tempdir().unwrap();
            let dir = DataDir::at(place.path().join("new"));
            let makers: Vec<_> = (0..4)
                .map(|_| {
                    let dir = dir.clone();
                    std::thread::spawn(move || dir.make())
                })
                .collect();
            let made: Vec<_> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
            assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
            drop(made);
            assert!(dir.open().is_ok());
        }
    }

    #[test]
    fn a_directory_that_was_not_finished_is_made_anew() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        fs::write(dir.database(), "half").unwrap();
        fs::write(place.path().join("secret.key.unfinished"), "half").unwrap();
        assert!(dir.open_or_make().is_ok());
        // Nothing of it is gone, in case the mark alone was lost.
        let aside = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let aside = aside.filter(|path| path.to_string_lossy().contains(".unfinished-"));
        let aside: Vec<_> = aside.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(aside, ["half"]);
    }

    #[test]
    fn a_key_that_was_put_there_before_is_used_and_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        write_private(&place.path().join(KEY), b"no key").unwrap();
        assert!(refused(dir.open_or_make()).contains("holds no key"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing was made");
        fs::write(place.path().join(KEY), HEX).unwrap();
        drop(dir.open_or_make().unwrap());
        assert_eq!(fs::read_to_string(place.path().join(KEY)).unwrap(), HEX);
    }

    #[test]
    fn what_was_lost_or_changed_is_told_and_not_begun_again() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        drop(dir.make().unwrap());
        let served = dir.open().unwrap();
        assert!(refused(dir.open()).contains("another process"));
        drop(served);
        fs::write(dir.database(), "").unwrap();
        assert!(dir.open_or_make().is_err());
        fs::remove_file(dir.database()).unwrap();
        assert!(dir.open_or_make().is_err());
        fs::write(place.path().join(MARK), "2\n").unwrap();
        assert!(refused(dir.open_or_make()).contains("newer"));
    }

    #[test]
    fn another_key_or_none_is_refused_with_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        drop(dir.make().unwrap());
        let file = place.path().join(KEY);
        let right = fs::read(&file).unwrap();

        for (content, reason) in [(HEX, "is not the key"), ("", "holds no key")] {
            fs::write(&file, content).unwrap();
            let told = refused(dir.open_or_make());
            assert!(told.contains(reason) && told.contains("secret.key"), "{told}");
        }
        fs::remove_file(&file).unwrap();
        let told = refused(dir.open_or_make());
        assert!(told.contains("missing") && told.contains("ROADSTEAD_SECRET_KEY"), "{told}");
        assert!(!file.exists(), "none was made in its place");
        fs::create_dir(&file).unwrap();
        assert!(refused(dir.open_or_make()).contains("cannot be read"));
        fs::remove_dir(&file).unwrap();

        fs::write(&file, right).unwrap();
        for (mode, is_ok) in [(0o640, false), (0o604, false), (0o620, false), (0o400, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            match dir.open() {
                Ok(_) => assert!(is_ok, "{mode:o}"),
                Err(told) => assert!(!is_ok && told.0.contains("chmod 600"), "{mode:o}: {told}"),
            }
        }
    }

    #[test]
    fn a_key_from_outside_is_used_first_the_variable_before_the_credential_and_never_written() {
        let place = tempfile::tempdir().unwrap();
        let credentials = place.path().join("credentials");
        fs::create_dir(&credentials).unwrap();
        let with = |variable: Option<&str>, credentials: Option<&Path>| {
            DataDir::at(place.path().join("data")).with_key_from(OutsideKey {
                variable: variable.map(Into::into),
                credentials: credentials.map(Into::into),
            })
        };
        // Other credentials may be there without a key among them.
        drop(with(Some(HEX), Some(&credentials)).make().unwrap());
        let data = with(None, None);
        assert!(!data.path().join(KEY).exists());
        assert!(refused(data.open()).contains("missing"));
        assert!(refused(with(None, Some(&credentials)).open()).contains("missing"));
        assert!(refused(with(Some(""), None).open()).contains("ROADSTEAD_SECRET_KEY holds no key"));

        // systemd's files may look as if others could read them.
        fs::write(credentials.join(KEY), HEX).unwrap();
        let mode = fs::Permissions::from_mode(0o440);
        fs::set_permissions(credentials.join(KEY), mode).unwrap();
        drop(with(None, Some(&credentials)).open().unwrap());
        let other = HEX.replace('0', "1");
        let told = refused(with(Some(&other), Some(&credentials)).open());
        assert!(told.contains("the variable ROADSTEAD_SECRET_KEY is not the key"), "{told}");
        assert!(!told.contains(&other), "{told}");

        // A file of its own comes last, and is not looked at when there is another.
        write_private(&data.path().join(KEY), other.as_bytes()).unwrap();
        assert!(refused(data.open()).contains("is not the key"));
        drop(with(None, Some(&credentials)).open().unwrap());
        fs::write(data.path().join(KEY), HEX).unwrap();
        drop(data.open().unwrap());
        fs::remove_file(credentials.join(KEY)).unwrap();
        fs::write(credentials.join(KEY), &other).unwrap();
        let told = refused(with(None, Some(&credentials)).open());
        assert!(told.contains("the credential ") && told.contains("is not the key"), "{told}");
    }
}
