//! The data directory: the database, the key beside it, and the mark that says both are whole.
//!
//! The mark is written last. A directory without it never finished being made, so nothing was ever
//! acknowledged in it and it is made anew; a directory with it whose database is missing has lost
//! something, and is refused rather than begun again in silence. What lies in a directory without
//! the mark is moved aside, not removed: the mark itself may be what was lost.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::base::Keys;
use crate::store::engine::Redb;
use crate::store::{Moment, Store, codec, table_names};

/// The format of the directory. A larger number was written by a newer Roadstead.
const FORMAT: u32 = 1;

const DATABASE: &str = "roadstead.redb";
const KEY: &str = "installation.key";
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
#[derive(Clone, Debug)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// The directory at `path`, whether or not there is one yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        DataDir(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The database's file.
    pub fn database(&self) -> PathBuf {
        self.0.join(DATABASE)
    }

    /// Whether it was made before.
    pub fn exists(&self) -> bool {
        self.0.join(MARK).exists()
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
                self.0.display()
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

    /// Opens it.
    ///
    /// # Errors
    /// If there is none, it is damaged, newer, or another process serves it.
    pub fn open(&self) -> Result<Store, Unusable> {
        self.must_be_made()?;
        let mark = fs::read_to_string(self.0.join(MARK)).map_err(|error| {
            Unusable(format!("{} cannot be read: {error}", self.0.join(MARK).display()))
        })?;
        let mut lines = mark.lines();
        let format = lines.next().and_then(|line| line.parse::<u32>().ok());
        match format {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                return Err(Unusable(format!(
                    "{} was written by a newer Roadstead (format {newer}); use that one",
                    self.0.display()
                )));
            }
            _ => return Err(Unusable(format!("{} is damaged", self.0.join(MARK).display()))),
        }
        let keys = self.read_key()?;
        if lines.next() != Some(key_check(&keys).as_str()) {
            return Err(Unusable(format!(
                "{} is not the key this data directory was made with; put the right one back",
                self.0.join(KEY).display()
            )));
        }
        let tables = crate::resources::tables();
        let disk = Redb::open(&self.database(), table_names(&tables))
            .map_err(|error| Unusable(error.to_string()))?;
        start(disk, keys)
    }

    /// Makes it, with a new key and an empty database.
    ///
    /// # Errors
    /// If there is something else in its place, or it cannot be written.
    pub fn make(&self) -> Result<Store, Unusable> {
        if self.exists() {
            return Err(Unusable(format!("{} is a data directory already", self.0.display())));
        }
        let failed = |error: std::io::Error| {
            Unusable(format!("{} cannot be made: {error}", self.0.display()))
        };
        // Everybody's mail and the hashes of their passwords lie in it: its owner's business alone.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let moment = Moment::system();
        let aside = format!("unfinished-{}", moment.now().millis());
        for name in [DATABASE, KEY] {
            let leftover = self.0.join(name);
            if leftover.exists() {
                let aside = self.0.join(format!("{name}.{aside}"));
                tracing::warn!(moved_to = %aside.display(), "what was left here is moved aside");
                fs::rename(leftover, aside).map_err(failed)?;
            }
        }
        let master: [u8; 32] = moment.random();
        write_private(&self.0.join(KEY), format!("{}\n", codec::hex(&master)).as_bytes())
            .map_err(failed)?;
        let tables = table_names(&crate::resources::tables());
        let disk = Redb::create(&self.database(), tables).map_err(|error| {
            Unusable(format!("{} cannot be made: {error}", self.database().display()))
        })?;
        let keys = Keys::new(master);
        let mark = format!("{FORMAT}\n{}\n", key_check(&keys));
        write_private(&self.0.join(MARK), mark.as_bytes()).map_err(failed)?;
        File::open(&self.0).and_then(|dir| dir.sync_all()).map_err(failed)?;
        start(disk, keys)
    }

    fn read_key(&self) -> Result<Keys, Unusable> {
        let path = self.0.join(KEY);
        let text = fs::read_to_string(&path).map_err(|error| {
            Unusable(format!(
                "the key {} cannot be read: {error}; without it nothing sealed can be opened",
                path.display()
            ))
        })?;
        let text = text.trim();
        let digits = |i: usize| text.get(2 * i..2 * i + 2);
        let mut master = [0; 32];
        for (i, byte) in master.iter_mut().enumerate() {
            let read = digits(i).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = read
                .filter(|_| text.len() == 64)
                .ok_or_else(|| Unusable(format!("{} is damaged", path.display())))?;
        }
        Ok(Keys::new(master))
    }

    /// Writes the link by which the first person sets the server up.
    pub fn write_setup_link(&self, link: &str) -> std::io::Result<()> {
        self.remove_setup_link()?;
        write_private(&self.0.join(SETUP_LINK), format!("{link}\n").as_bytes())
    }

    /// The link, if there is one.
    pub fn setup_link(&self) -> Option<String> {
        fs::read_to_string(self.0.join(SETUP_LINK)).ok().map(|link| link.trim().to_string())
    }

    /// Removes it.
    pub fn remove_setup_link(&self) -> std::io::Result<()> {
        match fs::remove_file(self.0.join(SETUP_LINK)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn start(disk: Redb, keys: Keys) -> Result<Store, Unusable> {
    Store::start(disk, Moment::system(), keys).map_err(|error| Unusable(error.to_string()))
}

fn key_check(keys: &Keys) -> String {
    codec::hex(&keys.hash("roadstead 2026 key check", b""))
}

/// Writes a file that only its owner may read, durably.
fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

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
    fn a_directory_that_was_not_finished_is_made_anew() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        fs::write(dir.database(), "half").unwrap();
        fs::write(place.path().join(KEY), "half").unwrap();
        assert!(dir.open_or_make().is_ok());
        // Nothing of it is gone, in case the mark alone was lost.
        let aside = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let aside = aside.filter(|path| path.to_string_lossy().contains(".unfinished-"));
        let aside: Vec<_> = aside.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(aside, ["half", "half"]);
    }

    #[test]
    fn what_was_lost_or_changed_is_told_and_not_begun_again() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        drop(dir.make().unwrap());
        let key = fs::read(place.path().join(KEY)).unwrap();
        fs::write(place.path().join(KEY), "00".repeat(32)).unwrap();
        assert!(refused(dir.open_or_make()).contains("not the key"));
        fs::write(place.path().join(KEY), key).unwrap();
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
}
