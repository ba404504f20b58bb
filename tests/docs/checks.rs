//! `.ci/run` installs what tests look for, and lists at its end all that was left out.

use std::fs;
use std::path::Path;

/// Packages that every Debian has.
const ESSENTIAL: [&str; 2] = ["coreutils", "dpkg"];

/// The packages whose programs a source looks for, by `optional::program`.
fn packages(source: &str) -> Vec<&str> {
    let calls = source.split("program").skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix("_in_path").unwrap_or(rest).strip_prefix('(')?;
        rest.split(')').next()
    });
    calls
        .filter_map(|call| match call.split(", ").collect::<Vec<_>>()[..] {
            [_, _, package] => package.strip_prefix('"')?.strip_suffix('"'),
            _ => None,
        })
        .collect()
}

#[test]
fn the_checks_install_the_programs_that_tests_look_for() {
    let some =
        r#"program("a", "what", "b").map(f); program_in_path("c", what, "d")?; program("/e", "f")"#;
    assert_eq!(packages(some), ["b", "d"]);
    let checks = fs::read_to_string(".ci/run").unwrap();
    let installed: Vec<_> = checks
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("needs "))
        .flat_map(|pairs| pairs.split(' ').skip(1).step_by(2))
        .collect();
    assert!(installed.contains(&"curl") && installed.contains(&"openssh-client"), "{installed:?}");
    for folder in ["tests/tools", "tests/cli"] {
        for path in crate::sources(Path::new(folder)) {
            let source = fs::read_to_string(&path).unwrap();
            for package in packages(&source) {
                let is_there = installed.contains(&package) || ESSENTIAL.contains(&package);
                assert!(is_there, "{}: .ci/run does not install {package}", path.display());
            }
        }
    }
}

#[test]
fn the_checks_list_at_their_end_what_any_run_of_tests_has_left_out() {
    let checks = fs::read_to_string(".ci/run").unwrap();
    let runs: Vec<_> = checks
        .lines()
        .map(str::trim_start)
        .filter(|line| {
            line.contains("$TEST") && !line.starts_with("step ") && !line.contains("README")
        })
        .collect();
    assert!(runs.len() > 2, "{runs:?}");
    for run in runs {
        // Words before it are variables.
        let is_kept = run.split(' ').find(|word| !word.contains('=')) == Some("tested");
        assert!(is_kept, "what it leaves out is not in the list: {run}");
    }
    assert!(!checks.contains("step 'NOT TESTED"), "use left_out, whose lines are listed");
}
