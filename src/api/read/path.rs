//! Paths of values in a request. A path is a chain of stack frames; it is formatted only when there
//! is a problem to report.

use std::borrow::Cow;
use std::fmt;

/// Limit of the characters shown of a key: more than any field name has, and few enough that a path
/// cannot be made to fill the answer.
const MAX_KEY_CHARS: usize = 128;

/// A path in a request. Formatted with dots, and with `[n]` from 0: `grants[1].userId`
/// (reference: conventions, "Errors").
#[derive(Clone, Copy)]
pub enum Path<'a> {
    /// The whole request; formatted as an empty text.
    Root,
    /// A field of a type.
    Field(&'a Path<'a>, &'a str),
    /// A key chosen by the client.
    Entry(&'a Path<'a>, &'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// Returns the path of a field inside it, without the indexes of lists.
    pub fn field_pattern(&self, field: &str) -> String {
        match self {
            Path::Root => field.into(),
            Path::Item(parent, _) => parent.field_pattern(field),
            Path::Field(parent, key) | Path::Entry(parent, key) => {
                format!("{}.{field}", parent.field_pattern(key))
            }
        }
    }

    /// The path that encloses it.
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
        f.write_str(&shortened(key))
    }
}

/// Returns a key as paths show it.
pub fn shortened(key: &str) -> Cow<'_, str> {
    match key.char_indices().nth(MAX_KEY_CHARS) {
        Some((end, _)) => format!("{}…", &key[..end]).into(),
        None => key.into(),
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
        assert_eq!(item.field_pattern("userId"), "grants.userId");
        assert_eq!(Path::Root.to_string(), "");
        let long = "ä".repeat(129);
        let cut = format!("{}…", "ä".repeat(128));
        assert_eq!(Path::Entry(&Path::Root, &long).to_string(), cut);
    }
}
