//! A directory of plain files: read with distrust, and written so that an interrupted command leaves
//! whole files.
//!
//! The files may come from anybody's branch. A link could lead out of the directory, and a pipe or a
//! file without end could hold the command up: all are refused before anything is sent.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::names::is_device;
use crate::base::{lines, visible};
use crate::cli::client::text_file::position;
use crate::cli::failure::Failure;
use crate::cli::output;

/// The longest file: a prompt of 300 KiB with its metadata.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The most files, and the most bytes of all of them together.
const MAX_FILES: usize = 200_000;
const MAX_TREE_BYTES: u64 = 1024 * 1024 * 1024;

/// The deepest file is `registries/main/prompts/scribe.md`.
const MAX_DEPTH: usize = 4;

/// The file that marks a directory as one of plain files.
pub const MARK: &str = "roadstead.toml";

/// What the mark says.
pub const MARK_CONTENT: &str = "# Plain files of a Roadstead organization: see roadstead pull \
                                --help\nformat = 1\n";

/// Texts by their paths in the directory, with slashes.
pub type Tree = BTreeMap<String, String>;

/// Reads all files of a directory, with line feeds and without byte order marks, as they are on every
/// machine; says how many had others. Files at the top whose names begin with a dot or with README are
/// left alone.
///
/// # Errors
/// Usage, naming every file that cannot be one of these.
pub fn read(dir: &Path) -> Result<Tree, Failure> {
    let mut reading = Reading { tree: Tree::new(), bytes: 0, changed: 0, problems: Vec::new() };
    reading.folder(dir, "", 0)?;
    if reading.problems.is_empty() {
        if reading.changed > 0 {
            output::status(&format!(
                "files with other line ends than LF, or a byte order mark, which are read without: {}",
                reading.changed
            ));
        }
        return Ok(reading.tree);
    }
    reading.problems.sort();
    Err(Failure::Usage(reading.problems.join("\n")))
}

struct Reading {
    tree: Tree,
    bytes: u64,
    /// How many have other line ends or a mark.
    changed: usize,
    problems: Vec<String>,
}

impl Reading {
    fn folder(&mut self, dir: &Path, below: &str, depth: usize) -> Result<(), Failure> {
        let cannot =
            |error: io::Error| Failure::Usage(format!("{} cannot be read: {error}", dir.display()));
        for entry in fs::read_dir(dir).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let Ok(name) = entry.file_name().into_string() else {
                let path = entry.path().display().to_string();
                self.problems.push(format!("{}: its name is not UTF-8", visible::line(&path)));
                continue;
            };
            if depth == 0 && (name.starts_with('.') || name.starts_with("README")) {
                continue;
            }
            let shown = visible::line(&name).into_owned();
            let is_seen = shown == name;
            let path = if below.is_empty() { shown } else { format!("{below}/{shown}") };
            if !is_seen {
                let why = "its name has characters that are not seen; rename it";
                self.problems.push(format!("{path}: {why}"));
                continue;
            }
            // Of the entry itself: a link is not followed.
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_symlink() {
                self.problems.push(format!("{path}: is a link; put the file itself there"));
            } else if kind.is_dir() && depth + 1 >= MAX_DEPTH {
                self.problems.push(format!("{path}: no folder belongs here"));
            } else if kind.is_dir() {
                self.folder(&entry.path(), &path, depth + 1)?;
            } else if kind.is_file() {
                self.file(&entry.path(), path)?;
            } else {
                self.problems.push(format!("{path}: is neither a file nor a folder"));
            }
        }
        Ok(())
    }

    fn file(&mut self, at: &Path, path: String) -> Result<(), Failure> {
        if self.tree.len() >= MAX_FILES || self.bytes > MAX_TREE_BYTES {
            return Err(Failure::Usage(format!(
                "{path}: there are more than {MAX_FILES} files or {MAX_TREE_BYTES} bytes"
            )));
        }
        match read_file(at, MAX_FILE_BYTES) {
            Ok(Ok(text)) => {
                self.bytes += text.len() as u64;
                let changes = lines::changed(&text).is_some();
                self.changed += usize::from(changes);
                let text = if changes { lines::of_file(&text).into_owned() } else { text };
                self.tree.insert(path, text);
            }
            Ok(Err(problem)) => self.problems.push(format!("{path}{problem}")),
            Err(error) => self.problems.push(format!("{path}: cannot be read: {error}")),
        }
        Ok(())
    }
}

/// Reads a file of at most so many bytes; the inner error is what is wrong with it.
pub fn read_file(path: &Path, max_bytes: u64) -> io::Result<Result<String, String>> {
    let too_long = || Ok(Err(format!(": is longer than {max_bytes} bytes")));
    // What was a file a moment ago may be a link or a pipe now.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(Err(": is neither a file nor a folder".into()));
    }
    if about.len() > max_bytes {
        return too_long();
    }
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return too_long();
    }
    Ok(String::from_utf8(bytes).map_err(|error| {
        let (line, column) = position(error.as_bytes(), error.utf8_error().valid_up_to());
        format!(":{line}:{column}: is not UTF-8 here")
    }))
}

/// What a directory that is to be written holds.
///
/// # Errors
/// Usage, if it holds files and no mark: they are somebody else's.
pub fn before(dir: &Path) -> Result<Tree, Failure> {
    fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    let before = read(dir)?;
    if !before.is_empty() && !before.contains_key(MARK) {
        return Err(Failure::Usage(format!(
            "{} has files and no {MARK}; name an empty directory, or one that was pulled before",
            dir.display()
        )));
    }
    Ok(before)
}

/// Which files were written, and which removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Those that were written.
    pub written: Vec<String>,
    /// Those that were removed.
    pub removed: Vec<String>,
}

/// Makes a directory that holds `before` hold exactly these files, besides those that are left alone.
pub fn write(dir: &Path, before: &Tree, tree: &Tree) -> Result<Written, Failure> {
    let mut done = Written::default();
    // First: where letter case does not count, it may be the file that is written.
    for path in before.keys().filter(|path| !tree.contains_key(*path)) {
        let at = dir.join(path);
        fs::remove_file(&at).map_err(|error| cannot_write(&at, &error))?;
        // An empty folder says nothing.
        let _ = at.parent().map(fs::remove_dir);
        done.removed.push(path.clone());
    }
    for (path, text) in tree {
        if before.get(path) != Some(text) {
            let at = dir.join(path);
            replace(&at, text).map_err(|error| cannot_write(&at, &error))?;
            done.written.push(path.clone());
        }
    }
    Ok(done)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{} cannot be written: {error}", path.display()))
}

/// Writes a file, whole or not at all.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("new");
    // Of an interrupted command; or a link that somebody put there, which must not be followed.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(new, path)
}

/// Whether a text can be the name of a file here.
pub fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && !matches!(name, "." | "..")
        && !name.contains(['/', '\0'])
        && name.len() < 250
}

/// The name of a file for what is called `name`, other than the `taken` ones and those of devices.
pub fn file_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let words: Vec<String> = name
        .to_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_string)
        .collect();
    let slug: String = words.join("-").trim_start_matches(['.', '-']).chars().take(64).collect();
    let slug = if slug.is_empty() { "unnamed".to_string() } else { slug };
    let slug = if is_device(&slug) { format!("_{slug}") } else { slug };
    if !taken(&slug) {
        return slug;
    }
    let mut numbered = (2..).map(|number| format!("{slug}-{number}"));
    numbered.find(|name| !taken(name)).expect("there is always another number")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn problems(make: impl Fn(&Path)) -> String {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path());
        match read(dir.path()) {
            Ok(_) => String::new(),
            Err(Failure::Usage(why) | Failure::Failed(why)) => why,
        }
    }

    #[test]
    fn files_that_could_lead_elsewhere_or_never_end_are_refused() {
        assert_eq!(problems(|dir| fs::write(dir.join("a"), "ä\n").unwrap()), "");
        assert!(problems(|dir| symlink("/etc/passwd", dir.join("a")).unwrap()).contains("a link"));
        assert!(problems(|dir| symlink(dir, dir.join("a")).unwrap()).contains("a link"));
        let large = |dir: &Path| File::create(dir.join("a")).unwrap().set_len(1 << 30).unwrap();
        assert!(problems(large).contains("longer than"));
        assert!(problems(|dir| fs::write(dir.join("a"), b"x\n\xff").unwrap()).contains("a:2:1:"));
        let deep = |dir: &Path| fs::create_dir_all(dir.join("a/b/c/d")).unwrap();
        assert!(problems(deep).contains("no folder belongs here"));
        assert_eq!(problems(|dir| symlink("x", dir.join(".git")).unwrap()), "");
    }

    #[test]
    fn a_directory_of_somebody_else_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::from([
            (MARK.to_string(), MARK_CONTENT.to_string()),
            ("tools/a.toml".to_string(), "a".to_string()),
        ]);
        let write = |tree: &Tree| {
            let Written { written, removed } =
                super::write(dir.path(), &before(dir.path())?, tree)?;
            Ok::<_, Failure>((written.len(), removed.len()))
        };
        fs::write(dir.path().join("mine"), "x").unwrap();
        assert!(write(&tree).is_err());
        fs::remove_file(dir.path().join("mine")).unwrap();
        assert!(matches!(write(&tree), Ok((2, 0))));
        assert!(matches!(write(&tree), Ok((0, 0))));
        assert_eq!(read(dir.path()).ok(), Some(tree.clone()));
        let mark = Tree::from([(MARK.to_string(), MARK_CONTENT.to_string())]);
        assert!(matches!(write(&mark), Ok((0, 1))));
        assert!(!dir.path().join("tools").exists());
    }

    #[test]
    fn names_of_files_are_plain_and_differ() {
        assert_eq!(file_name("House rules!", |_| false), "house-rules");
        assert_eq!(file_name("../../etc/passwd", |_| false), "etc-passwd");
        assert_eq!(file_name("日本", |_| false), "unnamed");
        assert_eq!(file_name("Con", |_| false), "_con");
        assert_eq!(file_name("nul.x", |_| false), "_nul.x");
        assert_eq!(file_name("A", |name| name == "a" || name == "a-2"), "a-3");
    }
}
