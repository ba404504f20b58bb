//! Golden files: generated from the sources and checked in, so that a change of the product is seen
//! in review. `ROADSTEAD_UPDATE_GOLDEN=1 cargo test` updates them.

use std::path::Path;

/// Fails unless the file at `path` (relative to the crate's directory) contains `made`.
pub fn assert_kept(path: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("ROADSTEAD_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, made).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    if let Some(difference) = difference(&kept, made) {
        panic!(
            "{path} is not what the sources make; ROADSTEAD_UPDATE_GOLDEN=1 updates it\n{difference}"
        );
    }
}

/// The first lines that differ.
fn difference(kept: &str, made: &str) -> Option<String> {
    if kept == made {
        return None;
    }
    let (kept, made): (Vec<_>, Vec<_>) = (kept.lines().collect(), made.lines().collect());
    let same = kept.iter().zip(&made).take_while(|(kept, made)| kept == made).count();
    let part = |sign: char, lines: &[&str]| -> String {
        lines.iter().skip(same).take(5).map(|line| format!("{sign} {line}\n")).collect()
    };
    Some(format!("line {}:\n{}{}", same + 1, part('-', &kept), part('+', &made)))
}

#[test]
fn a_difference_is_shown_where_it_begins() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(difference("a\nb\n", "a\nc\n").unwrap(), "line 2:\n- b\n+ c\n");
    assert_eq!(difference("", "a\n").unwrap(), "line 1:\n+ a\n");
    assert!(difference("a", "a\n").is_some());
}
