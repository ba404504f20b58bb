//! Real programs of others meet a real server: Prometheus, nginx, Caddy and HAProxy, generated
//! clients, the `standardwebhooks` package, a mail server, a proxy of models, a provider of sign-ins, systemd
//! and strace, the example agents in Python and TypeScript, linters of OpenAPI documents, and the shell with the
//! commands of README and tour.
//! Packages of the program are examined, installed and run, and with `ROADSTEAD_STATIC` a static program
//! in an empty directory.
//!
//! Node (230 MB), Python packages (400 MB), generators of clients (800 MB with what they make) and the
//! linters (85 MB) are installed once, into `target/`. Each program can be left out:
//! `ROADSTEAD_TEST_PROMETHEUS`, `_PROMTOOL`, `_HAPROXY`, `_SYSTEMD_ANALYZE`, `_STRACE`, `_NGINX`, `_CADDY`, `_CLIENT`,
//! `_GENERATORS`, `_JAVAC`, `_WEBHOOKS`, `_MAIL`, `_LITELLM`, `_OIDC`, `_AGENTS`, `_LINTERS`, `_DOCUMENTS`, `_NOTICES`,
//! `_PACKAGES`, `_DPKG_DEB`, `_INSTALL`, `_LINTIAN`, `_SSH_KEYGEN`, `_CHROOT` = `off`. What is left out, or missing,
//! is said aloud.

#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
mod node;
#[allow(dead_code)] // Other suites need the rest.
mod optional;
#[allow(dead_code)] // A part of it is enough here.
#[path = "../cli/process.rs"]
mod process;
mod program;
mod python;
#[path = "../api/receiver.rs"]
mod receiver;
mod server;

mod agents;
mod documents;
mod generated_client;
mod generators;
mod linters;
mod mail;
mod metrics;
mod models;
mod notices;
mod packages;
mod proxies;
mod sign_in_provider;
mod static_program;
mod units;
mod webhooks;

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use optional::{Installed, installed};
use python::Packages;

static ENVIRONMENT: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "tools-2",
        what: "Python packages for tests (once, half a minute)",
        wanted: &["openapi-python-client", "standardwebhooks"],
        constraints: "tests/tools/constraints.txt",
    })
});

/// The environment with the Python packages; none where the test is left out, which is said aloud.
fn environment(name: &str, what: &str) -> Option<PathBuf> {
    installed(name, what, &ENVIRONMENT).cloned()
}

#[test]
fn only_a_missing_network_makes_a_download_one_that_is_left_out() {
    let failing = |said: &str| {
        let script = format!("echo {said} >&2; exit 1");
        std::panic::catch_unwind(move || {
            optional::download(Command::new("sh").args(["-c", &script]))
        })
    };
    let missing = failing("npm error code EAI_AGAIN").unwrap().unwrap_err();
    assert!(missing.contains("cannot be downloaded (EAI_AGAIN)"), "{missing}");
    assert!(failing("npm error code ETARGET").is_err());
    assert_eq!(optional::download(&mut Command::new("true")), Ok(()));
}
