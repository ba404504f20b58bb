//! Files do not import each other in circles: not between folders, and inside a folder only where
//! [`KNOWN`] still allows it.

use crate::imports::{Graph, graph};
use crate::source;

/// A circle that is not taken apart yet.
struct Known {
    /// The folder whose files, with those of the folders in it, import each other.
    folder: &'static str,
    /// The files of the circle, by their paths in the folder.
    files: &'static [&'static str],
    reason: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        folder: "src/api/openapi",
        files: &["mod.rs", "operation.rs"],
        reason: "the document and its operations share types; goes with the execution layer",
    },
    Known {
        folder: "src/api/read",
        files: &["access.rs", "collect.rs", "reader.rs"],
        reason: "the reader, its lists and its accessors; goes with the execution layer",
    },
    Known {
        folder: "src/http",
        files: &[
            "calls.rs",
            "gate.rs",
            "metrics.rs",
            "mod.rs",
            "pages.rs",
            "server.rs",
            "wait.rs",
            "watching.rs",
            "write.rs",
        ],
        reason: "the pipeline and its context; goes with the execution layer",
    },
    Known {
        folder: "src/resources/agents",
        files: &["mod.rs", "versions.rs"],
        reason: "routes in mod.rs, records used by the versions",
    },
    Known {
        folder: "src/resources/artifacts",
        files: &[
            "artifact.rs",
            "cloning.rs",
            "content.rs",
            "deletion.rs",
            "dependents.rs",
            "diff.rs",
            "drafts.rs",
            "labels.rs",
            "mod.rs",
            "prompts.rs",
            "publishing.rs",
            "removal.rs",
            "variables.rs",
            "versions.rs",
        ],
        reason: "routes in mod.rs; deletion and publication use each other",
    },
    Known {
        folder: "src/resources/environments",
        files: &["approvals.rs", "mod.rs", "references.rs", "variables.rs"],
        reason: "routes in mod.rs; variables and approvals use each other",
    },
    Known {
        folder: "src/resources/governance",
        files: &[
            "assignments.rs",
            "examination.rs",
            "flags.rs",
            "judge.rs",
            "mod.rs",
            "policies.rs",
        ],
        reason: "routes in mod.rs; policies and their examination use each other",
    },
    Known {
        folder: "src/resources/llm_providers",
        files: &["mod.rs", "uses.rs"],
        reason: "the record in mod.rs, what uses it beside it",
    },
    Known {
        folder: "src/resources/organizations",
        files: &["accounts.rs", "sessions.rs"],
        reason: "a session is an account signed in",
    },
    Known {
        folder: "src/resources/organizations",
        files: &["founding.rs", "invitations.rs", "mod.rs"],
        reason: "the routes of mod.rs; an invitation founds a membership",
    },
    Known {
        folder: "src/resources/prompt_providers",
        files: &[
            "credentials.rs",
            "http.rs",
            "import.rs",
            "langfuse.rs",
            "mlflow.rs",
            "mod.rs",
            "phoenix.rs",
            "roadstead.rs",
            "server.rs",
        ],
        reason: "the record in mod.rs, the kinds of providers beside it",
    },
    Known {
        folder: "src/resources/registries",
        files: &["locate.rs", "mod.rs"],
        reason: "the record in mod.rs, how one is located beside it",
    },
    Known {
        folder: "src/resources/tools",
        files: &["mod.rs", "variables.rs", "versions.rs"],
        reason: "the record in mod.rs, versions and variables beside it",
    },
    Known {
        folder: "src/store",
        files: &["check.rs", "codec.rs", "record.rs"],
        reason: "the check reads records by their codec; goes with the indexes",
    },
    Known {
        folder: "src/store/engine",
        files: &["group.rs", "layer.rs", "mod.rs"],
        reason: "the overlay and the group share types of mod.rs; goes with the indexes",
    },
    // Between two folders as well: goes with the relations.
    Known {
        folder: "src/resources/teams",
        files: &[
            "approvals.rs",
            "leftovers.rs",
            "lists.rs",
            "members.rs",
            "memories.rs",
            "messages.rs",
            "mod.rs",
            "runs.rs",
            "tasks.rs",
            "team.rs",
            "timeline.rs",
            "wakes/delivery.rs",
            "wakes/mod.rs",
            "wakes/webhooks.rs",
        ],
        reason: "what a team deletes and wakes; goes with the relations",
    },
];

/// The folder that a file is in.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether all of these files are of one known circle. A circle may so become smaller, not larger.
fn is_known(known: &[Known], files: &[String]) -> bool {
    known.iter().any(|known| {
        files.iter().all(|file| {
            let name = file.strip_prefix(known.folder).and_then(|name| name.strip_prefix('/'));
            name.is_some_and(|name| known.files.contains(&name))
        })
    })
}

/// The circles between files of different folders, the shortest for each import that crosses over.
fn between_folders(graph: &Graph) -> Vec<Vec<String>> {
    let crossing = graph.edges().filter(|(from, to)| folder(from) != folder(to));
    crossing.filter_map(|(from, to)| graph.circle_through(from, to)).collect()
}

/// The groups of files of one folder that import each other, directly or by way of others of it.
fn inside_folders(graph: &Graph) -> Vec<Vec<String>> {
    graph.circles(|from, to| folder(from) == folder(to))
}

fn assert_known(circles: Vec<Vec<String>>) {
    let new: Vec<String> = circles
        .into_iter()
        .filter(|circle| !is_known(KNOWN, circle))
        .map(|circle| circle.join(" → "))
        .collect();
    let advice = "move what they share into a file that imports none of them";
    assert!(new.is_empty(), "files import each other; {advice}:\n{}\n", new.join("\n"));
}

#[test]
fn circles_are_found_between_folders_and_inside_them() {
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
    let circle = ["src/a/c.rs", "src/d/e.rs"];
    assert!(between_folders(&two).iter().any(|found| *found == circle));
    assert_eq!(inside_folders(&two), none);
    let three = with("src/d/e.rs", "use crate::a::B;");
    let circle = ["src/a/c.rs", "src/d/e.rs", "src/a/b.rs"];
    assert!(between_folders(&three).iter().any(|found| *found == circle));
    let inside = with("src/a/c.rs", "use crate::a; use super::b::D;");
    assert_eq!(inside_folders(&inside), [["src/a/b.rs", "src/a/c.rs"]]);
    assert_eq!(between_folders(&inside), none);
}

#[test]
fn a_known_circle_may_only_become_smaller() {
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
fn known_circles_are_still_there() {
    let graph = Graph::new(source::all());
    let circles = [between_folders(&graph), inside_folders(&graph)].concat();
    for known in KNOWN {
        let found = circles.iter().any(|circle| is_known(std::slice::from_ref(known), circle));
        assert!(found, "{}: no such circle; remove it from KNOWN ({})", known.folder, known.reason);
    }
}
