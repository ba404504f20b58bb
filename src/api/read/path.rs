//! Where in a request something stands. A path is a chain of stack frames; it becomes text only
//! when there is a problem to tell.

use std::fmt;

/// Characters of one key that are shown: more than any name of ours has, and few enough that a
/// problem's path cannot be made to fill an answer.
const MAX_KEY_CHARS: usize = 128;

/// A place in a request. Written dotted, with `[n]` from 0: `grants[1].userId`
/// (reference: conventions, "Errors").
#[derive(Clone, Copy)]
pub enum Path<'a> {
    /// The whole request; written as nothing.
    Root,
    /// A field that a type names.
    Field(&'a Path<'a>, &'a str),
    /// A key of the sender's choice.
    Entry(&'a Path<'a>, &'a str),
    /// A place in a list.
    Item(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// What encloses it.
    pub fn parent(self) -> Option<&'a Path<'a>> {
        match self {
            Path::Root => None,
            Path::Field(parent, _) | Path::Entry(parent, _) | Path::Item(parent, _) => Some(parent),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parent, key) = match self {
            Path::Root => return Ok(()),
            Path::Item(parent, index) => return write!(f, "{parent}[{index}]"),
            Path::Field(parent, key) | Path::Entry(parent, key) => (parent, key),
        };
        if !matches!(parent, Path::Root) {
            write!(f, "{parent}.")?;
        }
        match key.char_indices().nth(MAX_KEY_CHARS) {
            Some((end, _)) => write!(f, "{}…", &key[..end]),
            None => f.write_str(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_dotted_with_indexes_from_0_and_long_keys_are_cut() {
        let list = Path::Field(&Path::Root, "grants");
        let item = Path::Item(&list, 1);
        assert_eq!(Path::Field(&item, "userId").to_string(), "grants[1].userId");
        assert_eq!(Path::Root.to_string(), "");
        let long = "ä".repeat(129);
        let cut = format!("{}…", "ä".repeat(128));
        assert_eq!(Path::Entry(&Path::Root, &long).to_string(), cut);
    }
}
