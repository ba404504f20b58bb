//! Names of files that some file systems cannot hold: files may be made on one machine and checked out
//! on another.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;

/// Warnings of one directory; of the others the number is told.
const MAX_WARNINGS: usize = 20;

/// What no name may have on Windows.
const NOT_ON_WINDOWS: [char; 8] = ['<', '>', ':', '"', '|', '?', '*', '\\'];

/// Returns what is equal for names that are those of one file on Windows or macOS.
pub fn folded(path: &str) -> String {
    path.nfc().flat_map(char::to_lowercase).nfc().collect()
}

/// Whether Windows takes a name, whatever its ending is, for that of a device.
pub fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        stem => {
            let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
            number.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
        }
    }
}

/// Returns which files cannot be beside each other, or at all, on Windows or macOS; the first 20.
pub fn warnings<'a>(paths: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut by_name: BTreeMap<String, &str> = BTreeMap::new();
    for path in paths {
        let first = *by_name.entry(folded(path)).or_insert(path);
        if first != path {
            found.push(format!(
                "{path}: on Windows and macOS it is the same file as {first}, whose name differs only in \
                 the case or the form of its letters; rename one"
            ));
        } else if !path.split('/').all(is_on_windows) {
            found.push(format!("{path}: no file on Windows can have this name"));
        }
    }
    let rest = found.len().saturating_sub(MAX_WARNINGS);
    if rest > 0 {
        found.truncate(MAX_WARNINGS);
        found.push(format!("names of {rest} more files are such"));
    }
    found
}

fn is_on_windows(name: &str) -> bool {
    !is_device(name) && !name.contains(NOT_ON_WINDOWS) && !name.ends_with(['.', ' '])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(paths: &[&str]) -> Vec<String> {
        let paths: BTreeSet<String> = paths.iter().map(|path| path.to_string()).collect();
        warnings(&paths)
    }

    #[test]
    fn names_that_are_one_file_elsewhere_are_told() {
        let found = of(&["p/Greeting.md", "p/greeting.md", "p/greeting2.md", "q/GREETING.md"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("p/greeting.md: "), "{found:?}");
        assert!(found[0].contains("as p/Greeting.md"), "{found:?}");
        assert_eq!(of(&["t/caf\u{e9}.toml", "t/cafe\u{301}.toml"]).len(), 1);
        assert_eq!(of(&["t/\u{c9}.toml", "t/e\u{301}.toml"]).len(), 1);
        assert_eq!(of(&["t/cafe.toml", "t/caf\u{e9}.toml", "a/x.md", "b/x.md"]).len(), 0);
    }

    #[test]
    fn names_that_windows_has_no_files_of_are_told() {
        for bad in
            ["nul.md", "con/a.md", "a/Aux.x.md", "com1.toml", "a:b.toml", "a?.md", "a.", "a /b"]
        {
            assert_eq!(of(&[bad]).len(), 1, "{bad}");
        }
        for good in ["null.md", "com10.md", "com.md", "a.con", "v1..md", "a~b@1.0.0.md", "lpt.md"] {
            assert_eq!(of(&[good]).len(), 0, "{good}");
        }
    }

    #[test]
    fn warnings_are_bounded() {
        let paths: Vec<String> = (0..1000).map(|number| format!("{number}?.md")).collect();
        let found = of(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.len(), MAX_WARNINGS + 1);
        assert_eq!(found.last().unwrap(), "names of 980 more files are such");
    }
}
