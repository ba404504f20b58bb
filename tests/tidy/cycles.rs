//! Files do not import each other in cycles: not between folders, and inside a folder only where
//! [`KNOWN`] still allows it.

use crate::imports::{Graph, graph};
use crate::source;

/// A cycle that still exists.
struct Known {
    /// The folder whose files, with those of the folders in it, import each other.
    folder: &'static str,
    /// The files of the cycle, by their paths in the folder.
    files: &'static [&'static str],
    reason: &'static str,
}

const KNOWN: &[Known] = &[Known {
    folder: "src/store",
    files: &[
        "list_source.rs",
        "record.rs",
        "reference.rs",
        "removal.rs",
        "sealing_key.rs",
        "tx.rs",
        "view.rs",
    ],
    reason: "a record declares its references, which act in a transaction on records, and a \
             transaction seals with the key that a record names",
}];

/// The folder that a file is in.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether all of these files are of one known cycle. A cycle may so become smaller, not larger.
fn is_known(known: &[Known], files: &[String]) -> bool {
    known.iter().any(|known| {
        files.iter().all(|file| {
            let name = file.strip_prefix(known.folder).and_then(|name| name.strip_prefix('/'));
            name.is_some_and(|name| known.files.contains(&name))
        })
    })
}

/// The cycles between files of different folders, the shortest for each import that crosses over.
fn between_folders(graph: &Graph) -> Vec<Vec<String>> {
    let crossing = graph.edges().filter(|(from, to)| folder(from) != folder(to));
    crossing.filter_map(|(from, to)| graph.cycle_through(from, to)).collect()
}

/// The groups of files of one folder that import each other, directly or by way of others of it.
fn inside_folders(graph: &Graph) -> Vec<Vec<String>> {
    graph.cycles(|from, to| folder(from) == folder(to))
}

fn assert_known(cycles: Vec<Vec<String>>) {
    let new: Vec<String> = cycles
        .into_iter()
        .filter(|cycle| !is_known(KNOWN, cycle))
        .map(|cycle| cycle.join(" → "))
        .collect();
    let advice = "move what they share into a file that imports none of them";
    assert!(new.is_empty(), "files import each other; {advice}:\n{}\n", new.join("\n"));
}

#[test]
fn cycles_are_found_between_folders_and_inside_them() {
    let files = [
        ("src/a/mod.rs", "mod b; pub use b::B;"),
        ("src/a/b.rs", "use super::c::C;"),
        ("src/a/c.rs", "use crate::d::e::E;"),
        ("src/d/mod.rs", ""),
        ("src/d/e.rs", "use super::f::F;"),
        ("src/d/f.rs", ""),
    ];
    let with = |path: &str, text: &str| graph(&[&files[..], &[(path, text)]].concat());
    let none: [[&str; 0]; 0] = [];
    assert_eq!(between_folders(&graph(&files)), none);
    assert_eq!(inside_folders(&graph(&files)), none);
    // Two files; and three, by way of a re-export.
    let two = with("src/d/e.rs", "use crate::a::c::C;");
    let cycle = ["src/a/c.rs", "src/d/e.rs"];
    assert!(between_folders(&two).iter().any(|found| *found == cycle));
    assert_eq!(inside_folders(&two), none);
    let three = with("src/d/e.rs", "use crate::a::B;");
    let cycle = ["src/a/c.rs", "src/d/e.rs", "src/a/b.rs"];
    assert!(between_folders(&three).iter().any(|found| *found == cycle));
    let inside = with("src/a/c.rs", "use crate::a; use super::b::D;");
    assert_eq!(inside_folders(&inside), [["src/a/b.rs", "src/a/c.rs"]]);
    assert_eq!(between_folders(&inside), none);
}

#[test]
fn a_known_cycle_may_only_become_smaller() {
    let known = [Known { folder: "src/a", files: &["b.rs", "c.rs", "d/e.rs"], reason: "" }];
    let files = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    assert!(is_known(&known, &files(&["src/a/b.rs", "src/a/d/e.rs"])));
    assert!(!is_known(&known, &files(&["src/a/b.rs", "src/a/c.rs", "src/a/f.rs"])));
    assert!(!is_known(&known, &files(&["src/g/b.rs", "src/g/c.rs"])));
}

#[test]
fn no_files_of_different_folders_import_each_other() {
    assert_known(between_folders(&Graph::new(source::all())));
}

#[test]
fn no_files_of_one_folder_import_each_other_save_the_known() {
    assert_known(inside_folders(&Graph::new(source::all())));
}

#[test]
fn known_cycles_are_still_there() {
    let graph = Graph::new(source::all());
    let cycles = [between_folders(&graph), inside_folders(&graph)].concat();
    for known in KNOWN {
        let found = cycles.iter().any(|cycle| is_known(std::slice::from_ref(known), cycle));
        assert!(found, "{}: no such cycle; remove it from KNOWN ({})", known.folder, known.reason);
    }
}
