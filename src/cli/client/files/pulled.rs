//! What the last `pull` or `apply` left in a directory: so that the next `pull` replaces nothing that was
//! written since. A comment is no change.

use std::collections::BTreeMap;
use std::path::Path;

use super::kept::meaning;
use super::tree::{self, Tree};
use crate::cli::failure::Failure;

/// The file, which `plan` and `apply` leave alone as all whose names begin with a dot.
const FILE: &str = ".roadstead-pulled.json";

/// The longest such file: 200,000 paths with their hashes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Hashes of what files say, by their paths.
#[derive(Default)]
pub struct Pulled(BTreeMap<String, String>);

impl Pulled {
    /// Reads it; empty if there is none, as in a directory of an earlier release, or it is broken.
    pub fn read(dir: &Path) -> Self {
        let text = tree::read_file(&dir.join(FILE), MAX_BYTES).ok().and_then(Result::ok);
        text.and_then(|text| serde_json::from_str(&text).ok()).map(Pulled).unwrap_or_default()
    }

    /// Notes that the files of a directory are these now. Those that `is_kept` accepts stay as they were
    /// noted before: nobody knows whether the server has them.
    pub fn write(dir: &Path, tree: &Tree, is_kept: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let mut hashes = Pulled::read(dir).0;
        hashes.retain(|path, _| is_kept(path));
        let known = tree.iter().filter(|(path, _)| !is_kept(path));
        hashes.extend(known.map(|(path, text)| (path.clone(), hash(path, text))));
        let text = serde_json::to_string_pretty(&hashes).unwrap_or_default() + "\n";
        tree::replace(&dir.join(FILE), &text)
            .map_err(|error| Failure::Failed(format!("{FILE} cannot be written: {error}")))
    }

    /// The files of a directory that were written or changed since, and that `new` would replace or
    /// remove.
    pub fn changed_since<'a>(&self, before: &'a Tree, new: &Tree) -> Vec<&'a str> {
        let is_replaced = |path: &str, text: &str| new.get(path).is_none_or(|new| new != text);
        let is_changed = |path: &str, text: &str| {
            // Earlier releases noted the hash of the file itself.
            let same = |noted: &String| *noted == hash(path, text) || *noted == hash_of(text);
            !self.0.get(path).is_some_and(same)
        };
        let changed = before.iter().filter(|(path, text)| {
            path.as_str() != tree::MARK && is_replaced(path, text) && is_changed(path, text)
        });
        changed.map(|(path, _)| path.as_str()).collect()
    }
}

/// That of what the server has told is that of the file as it was written then.
fn hash(path: &str, text: &str) -> String {
    hash_of(meaning(path, text).as_deref().unwrap_or(text))
}

fn hash_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
