//! Python packages for tests: installed once into a virtual environment below `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::optional::{Installed, download, run, say, works};

/// Packages that are installed together. What they need has the versions of the constraints, so
/// that what is tried does not depend on the day.
pub struct Packages {
    /// The folder of the environment, with a version that changes with the constraints.
    pub folder: &'static str,
    /// What is said while they are installed.
    pub what: &'static str,
    /// The packages, with their versions.
    pub wanted: &'static [&'static str],
    /// The file of constraints, below the repository.
    pub constraints: &'static str,
}

/// Why nothing can be installed here.
pub fn missing() -> Option<&'static str> {
    if !works("python3", &["-c", "import sys; assert sys.version_info >= (3, 11)"]) {
        Some("there is no Python 3.11 or later")
    } else if !works("python3", &["-c", "import venv, ensurepip"]) {
        Some("Python has no venv with pip")
    } else {
        None
    }
}

/// Returns the folder of the environment, which is made first if need be.
pub fn environment(packages: &Packages) -> Installed<PathBuf> {
    if let Some(missing) = missing() {
        return Err(missing.into());
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(packages.folder);
    let complete = place.join("complete");
    if !complete.exists() {
        say(&format!("installing {} ...", packages.what));
        let _ = std::fs::remove_dir_all(&place);
        run(Command::new("python3").args(["-m", "venv"]).arg(&place));
        let constraints = Path::new(env!("CARGO_MANIFEST_DIR")).join(packages.constraints);
        download(
            Command::new(place.join("bin/python"))
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--no-input",
                    "--disable-pip-version-check",
                    "--timeout=10",
                    "--retries=2",
                ])
                // Nothing is built here, and what is never imported need not be compiled.
                .args(["--only-binary", ":all:", "--no-compile", "--constraint"])
                .arg(constraints)
                .args(packages.wanted),
        )?;
        std::fs::write(complete, "").unwrap();
    }
    Ok(place)
}
