//! Packages of npm for tests: installed once into a folder below `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::optional::{run, say, works};

/// Packages that are installed together. What they need is what there was on the day, so that what is
/// tried does not depend on another.
pub struct Modules {
    /// The folder, with a version that changes with the packages.
    pub folder: &'static str,
    /// What is said while they are installed.
    pub what: &'static str,
    /// The packages, with their versions.
    pub wanted: &'static [&'static str],
    pub day: &'static str,
}

/// Why nothing can be installed here.
pub fn missing() -> Option<&'static str> {
    let version = "process.exit(Number(process.versions.node.split('.')[0]) >= 20 ? 0 : 1)";
    if !works("node", &["-e", version]) {
        Some("there is no Node 20 or later")
    } else if !works("npm", &["--version"]) {
        Some("there is no npm")
    } else {
        None
    }
}

/// Returns the folder with `node_modules`, which is made first if need be.
pub fn modules(modules: &Modules) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(modules.folder);
    let complete = place.join("complete");
    if !complete.exists() {
        say(&format!("installing {} ...", modules.what));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("package.json"), "{}").unwrap();
        run(Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"])
            .arg(format!("--before={}", modules.day))
            .args(modules.wanted)
            .current_dir(&place));
        std::fs::write(complete, "").unwrap();
    }
    place
}
