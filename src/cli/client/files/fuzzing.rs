//! Directories of plain files.

use super::kept::{keeping, meaning};
use super::local::{parse, to_tree};
use super::tree::{MARK, MARK_CONTENT, Tree, is_file_name};
use crate::cli::failure::Failure;

/// Begins a file: its path follows, and from the next line on its content.
const FILE: &str = "=== ";

/// Files that can be read are written as files that say the same; others are refused with a reason.
///
/// # Panics
/// If that is not so.
pub fn files(input: &[u8]) {
    let tree = tree(&String::from_utf8_lossy(input));
    let state = match parse(&tree) {
        Ok(state) => state,
        Err(Failure::Usage(why)) => return assert!(!why.is_empty()),
        Err(Failure::Failed(why)) => panic!("it is not the files that are wrong: {why}"),
    };
    let written = match to_tree(&state) {
        Ok(written) => written,
        Err(Failure::Failed(why) | Failure::Usage(why)) => {
            // The name of a prompt is part of that of its file, and may be none.
            return assert!(why.contains("cannot be the name of a file"), "{why}");
        }
    };
    for (path, text) in written.iter().filter(|(path, _)| *path != MARK) {
        assert_eq!(meaning(path, text).as_ref(), Some(text), "{path}");
    }
    assert_eq!(parse(&keeping(&tree, written.clone())).ok(), Some(state.clone()), "{tree:#?}");
    match parse(&written) {
        Ok(again) => {
            assert_eq!(state.resources, again.resources, "{written:#?}");
            assert_eq!(state.versions, again.versions, "{written:#?}");
            assert_eq!(state.labels, again.labels, "{written:#?}");
            assert_eq!(state.tags, again.tags, "{written:#?}");
            assert_eq!(state.inputs, again.inputs, "{written:#?}");
        }
        Err(Failure::Failed(why) | Failure::Usage(why)) => panic!("{why}: {written:#?}"),
    }
}

/// The files of a text, without those that no directory can have.
fn tree(text: &str) -> Tree {
    let mut tree = Tree::from([(MARK.to_string(), MARK_CONTENT.to_string())]);
    for file in format!("\n{text}").split(&format!("\n{FILE}")).skip(1) {
        let (path, content) = file.split_once('\n').unwrap_or((file, ""));
        if path.split('/').all(is_file_name) {
            tree.insert(path.to_string(), format!("{content}\n"));
        }
    }
    tree
}
