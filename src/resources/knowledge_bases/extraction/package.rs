//! Packages of Office Open XML: archives whose parts say what they refer to.

use std::collections::{BTreeSet, HashMap};

use super::archive::{Archive, MAX_FILES};
use super::part_names::{path, resolved};
use crate::base::{Kind, Result};

/// What a part refers to.
pub struct Relationship {
    pub id: String,
    /// The last part of the URI that names its kind.
    pub kind: String,
    /// The name of the part; of something outside of the file, nothing of use.
    pub target: String,
}

/// The name of the part that says what a part refers to.
fn relationships_part(part: &str) -> String {
    let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
    let slash = if folder.is_empty() { "" } else { "/" };
    format!("{folder}{slash}_rels/{name}.rels")
}

/// Whether it is said what a part refers to, if it refers to something.
pub fn has_relationships(archive: &Archive, part: &str) -> bool {
    archive.has(&relationships_part(part))
}

/// Returns what a part refers to, or with `""` the whole file; nothing if it refers to nothing.
pub fn relationships(archive: &mut Archive, part: &str) -> Result<Vec<Relationship>> {
    let mut found = Vec::new();
    let Some(mut xml) = archive.xml(&relationships_part(part))? else { return Ok(found) };
    while xml.next_start()? {
        if xml.name() != "Relationship" {
            continue;
        }
        let (mut id, mut kind, mut target) = Default::default();
        for (name, value) in xml.attributes() {
            match name.as_str() {
                "Id" => id = value,
                "Type" => kind = value.rsplit('/').next().unwrap_or_default().into(),
                "Target" => target = resolved(part, path(&value)),
                _ => {}
            }
        }
        found.push(Relationship { id, kind, target });
    }
    Ok(found)
}

/// Returns the name of the part in this folder that all others belong to: as the file says, or else its
/// usual name. If what says so is damaged, the part may still be where it usually is.
///
/// # Errors
/// Those of [`relationships`], if it is not.
pub fn main_part(archive: &mut Archive, folder: &str, usual: &str) -> Result<String> {
    let parts = match relationships(archive, "") {
        Err(error) if error.kind() == Kind::Invalid && archive.has(usual) => Vec::new(),
        read => read?,
    };
    let is_own = |name: &&str| {
        let begin = name.get(..folder.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(folder)) && archive.has(name)
    };
    Ok(of_kind(&parts, "officeDocument").filter(is_own).unwrap_or(usual).into())
}

/// Returns the parts that another one lists, and whether it does: if the list is damaged, those whose names
/// are `usual` with a number and `.xml`, by that number.
///
/// # Errors
/// Those of the list; 400 for a damaged one if there are no such parts.
pub fn listed_or_usual<T>(
    archive: &mut Archive,
    list: impl FnOnce(&mut Archive) -> Result<T>,
    usual: &str,
    from_names: impl FnOnce(Vec<String>) -> T,
) -> Result<(T, bool)> {
    let error = match list(archive) {
        Err(error) if error.kind() == Kind::Invalid => error,
        listed => return Ok((listed?, true)),
    };
    let number = |name: &str| -> Option<u32> {
        name.strip_prefix(usual)?.strip_suffix(".xml")?.parse().ok()
    };
    let numbered = archive.names().filter_map(|name| Some((number(name)?, name.to_string())));
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort();
    match numbered.is_empty() {
        true => Err(error),
        false => Ok((from_names(numbered.into_iter().map(|(_, name)| name).collect()), false)),
    }
}

/// Returns the first part of this kind.
pub fn of_kind<'a>(relationships: &'a [Relationship], kind: &str) -> Option<&'a str> {
    relationships.iter().find(|one| one.kind == kind).map(|one| one.target.as_str())
}

/// The parts of this kind, each once.
pub fn all_of_kind<'a>(relationships: &'a [Relationship], kind: &str) -> BTreeSet<&'a str> {
    let of_kind = relationships.iter().filter(|one| one.kind == kind);
    of_kind.map(|one| one.target.as_str()).collect()
}

/// The name of a part that is not in the file: none has it.
pub const MISSING: &str = "";

/// The parts that another one lists by their ids.
pub struct Listing {
    /// By ids: those of its kinds until they are taken, and no name for others.
    parts: HashMap<String, Option<String>>,
    taken: usize,
    missing: usize,
}

impl Listing {
    /// A list in a part that refers to these, of which it lists those of some kinds.
    pub fn new(relationships: Vec<Relationship>, is_listed: fn(&str) -> bool) -> Self {
        let part = |one: Relationship| (one.id, is_listed(&one.kind).then_some(one.target));
        let parts = relationships.into_iter().map(part).collect();
        Listing { parts, taken: 0, missing: 0 }
    }

    /// Takes the part that one of these ids names, or [`MISSING`] if none of them names any; nothing if
    /// it was taken before or is of another kind. Of those that are missing only as many are of interest as
    /// a file may have.
    pub fn take(&mut self, ids: impl Iterator<Item = String>) -> Option<String> {
        let mut is_known = false;
        for id in ids {
            if let Some(part) = self.parts.get_mut(&id) {
                if let Some(part) = part.take() {
                    self.taken += 1;
                    return Some(part);
                }
                is_known = true;
            }
        }
        if is_known || self.missing == MAX_FILES {
            return None;
        }
        self.missing += 1;
        Some(MISSING.into())
    }

    /// Whether all that was to be taken is missing.
    pub fn is_lost(&self) -> bool {
        self.taken == 0 && self.missing > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn parts_are_found_by_targets_of_each_kind() {
        for (name, target) in [
            ("word/document.xml", "word/document.xml"),
            ("word/document.xml", "/word/document.xml"),
            ("word/document.xml", "./word/../word/document.xml"),
            ("Word/Document.xml", "word/document.xml"),
            ("word/the%20text.xml", "WORD/the%20text.xml"),
            ("word/the text.xml", "word/the%20text.xml"),
            ("word/the%20text.xml", "word\\the text.xml"),
            ("word/document.xml", "word/none.xml"),
            ("word/document.xml", "elsewhere/document.xml"),
        ] {
            let (folder, own) = name.rsplit_once('/').unwrap();
            let of_part = format!("{folder}/_rels/{own}.rels");
            let bytes = testing::archive(&[
                ("_rels/.rels", &testing::relationships(&[("a", "officeDocument", target)])),
                (&of_part, &testing::relationships(&[("b", "footnotes", "../word/notes%201.xml")])),
                (name, "<a/>"),
                ("word/Notes 1.xml", "<a/>"),
            ]);
            let mut archive = Archive::open("DOCX", &bytes).unwrap();
            let main = main_part(&mut archive, "word/", "word/document.xml").unwrap();
            assert_eq!(archive.find(&main), archive.find(name), "{name} {target}");
            assert!(archive.has(&main));
            let parts = relationships(&mut archive, &main).unwrap();
            assert!(archive.has(of_kind(&parts, "footnotes").unwrap()), "{name} {target}");
        }
    }

    #[test]
    fn a_part_is_taken_once_and_one_that_is_not_there_is_missing() {
        let one = |id: &str, kind: &str| {
            let target = format!("{id}.xml");
            Relationship { id: id.into(), kind: kind.into(), target }
        };
        let parts = vec![one("a", "slide"), one("b", "picture")];
        let mut listing = Listing::new(parts, |kind| kind == "slide");
        let mut take = |ids: &[&str]| listing.take(ids.iter().map(|id| id.to_string()));
        assert_eq!(take(&["7", "a"]).as_deref(), Some("a.xml"));
        assert_eq!((take(&["a"]), take(&["b"])), (None, None));
        for _ in 0..MAX_FILES {
            assert_eq!(take(&["c"]).as_deref(), Some(MISSING));
        }
        assert_eq!(take(&[]), None);
        assert!(!listing.is_lost());
    }
}
