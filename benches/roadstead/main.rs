//! Benchmarks of Roadstead against a baseline: `cargo bench`.
//!
//! Every result is a ratio of two measurements of one run, taken in turn on the same machine, with
//! the load generator on the same processors. The output is one table.
//!
//! `cargo bench -- reads` measures only the reads of tasks; there are also `commits` (of the engine
//! alone), `writes`, `wakes`, `pauses`, `dependencies`, `schedules`, `activity`, `audit`, `deliveries`, `growth`, `log` and `process`, for registries `contents`, `promotions`, `publishing`
//! and `versions`, `deployments` and `waiting` (for them), `neighbours` for what one organization's
//! costly requests do to the others, `signatures` for those of agents outside, `agent-index` for
//! searches and `nostr.json`, `search` for documents of knowledge bases, `console` for its pages, `mcp`,
//! `plans` of plain files, `backup`, `tls` with HTTP/2, and `engines`, which compares a store in PostgreSQL with files
//! (`--features postgres`). `--quick` (or
//! `ROADSTEAD_BENCH_QUICK=1`) stores 100,000 tasks, listings and deployments instead of a million, and
//! 20,000 versions and documents instead of 100,000; `--full` stores 10,000,000 tasks for `growth`.
//!
//! The profile is `release`, without link-time optimization; `cargo bench --profile dist` measures what
//! is given away. The last line says which it was.
//!
//! A bench in which a request failed, or whose server logged an error or panicked, is no figure: its
//! rows are left out, and the exit code is 1.
//!
//! `cargo bench -- profile-reads`, `profile-writes`, `profile-publishing` and `profile-contents` measure nothing: they
//! run the load on Roadstead alone for ten seconds, for a profiler.

mod abuses;
mod activity;
mod agent_index;
mod audit;
mod backup;
#[allow(dead_code)] // Tests ask what was called.
#[path = "../../tests/client/calls.rs"]
mod calls;
mod client;
mod commits;
mod console;
mod contents;
mod deliveries;
mod dependencies;
mod deployments;
#[cfg(feature = "postgres")]
mod engines;
mod filling;
mod growth;
mod http2_abuses;
mod log;
mod mcp;
mod neighbours;
mod pauses;
mod phoenix;
mod plans;
#[cfg(feature = "postgres")]
#[allow(clippy::unwrap_used)] // It is of the tests.
#[path = "../../tests/postgres_server/mod.rs"]
mod postgres_server;
#[cfg(feature = "postgres")]
#[allow(clippy::unwrap_used, dead_code)] // It is of the tests, which cut it, too.
#[path = "../../tests/postgres_tools/relay.rs"]
mod relay;
mod process;
mod processor;
mod promotions;
mod publishing;
mod reads;
mod registry;
mod requests;
mod rounds;
mod schedules;
mod search;
mod secured;
mod signatures;
#[allow(dead_code)] // Tests need the rest.
#[path = "../../tests/client/server_log.rs"]
mod server_log;
#[allow(clippy::unwrap_used)] // It is of the tests.
#[path = "../../tests/api/sites.rs"]
mod sites;
mod table;
mod tls;
mod tls_client;
mod versions;
mod waiting;
mod wakes;
mod fixture;
mod writes;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Cargo passes --bench.
    let arguments: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let selected: Vec<_> = arguments.iter().filter(|arg| !arg.starts_with("--")).collect();
    let quick = arguments.iter().any(|arg| arg == "--quick")
        || std::env::var("ROADSTEAD_BENCH_QUICK").is_ok_and(|quick| quick == "1");
    let full = arguments.iter().any(|arg| arg == "--full");
    let parts: [(&str, &dyn Fn() -> Vec<table::Row>); 34] = [
        ("commits", &|| commits::rows(quick)),
        ("reads", &reads::rows),
        ("writes", &writes::rows),
        ("wakes", &wakes::rows),
        ("pauses", &pauses::rows),
        ("dependencies", &|| dependencies::rows(quick)),
        ("schedules", &schedules::rows),
        ("activity", &|| activity::rows(quick)),
        ("deliveries", &|| deliveries::rows(quick)),
        ("growth", &|| growth::rows(quick, full)),
        ("log", &|| log::rows(quick)),
        ("process", &process::rows),
        ("contents", &contents::rows),
        ("promotions", &promotions::rows),
        ("publishing", &|| publishing::rows(quick)),
        ("versions", &|| versions::rows(quick)),
        ("audit", &|| audit::rows(quick)),
        ("backup", &|| backup::rows(quick)),
        ("deployments", &|| deployments::rows(quick)),
        ("waiting", &waiting::rows),
        ("neighbours", &|| neighbours::rows(quick)),
        ("neighbours-tls", &|| secured::rows(quick)),
        ("signatures", &signatures::rows),
        ("agent-index", &|| agent_index::rows(quick)),
        ("search", &|| search::rows(quick)),
        ("mcp", &mcp::rows),
        ("console", &|| console::rows(quick)),
        ("plans", &plans::rows),
        ("tls", &tls::rows),
        ("engines", &|| engines(quick)),
        ("profile-reads", &reads::profile),
        ("profile-contents", &contents::profile),
        ("profile-writes", &writes::profile),
        ("profile-publishing", &publishing::profile),
    ];
    // Every panic of this process: of its servers, and of the load.
    server_log::capture(|_| true);
    let mut rows = Vec::new();
    let mut has_failed = false;
    for (name, measure) in parts {
        let all = selected.is_empty() && !name.starts_with("profile");
        if all || selected.iter().any(|selected| *selected == name) {
            eprintln!("measuring {name} …");
            // A panic ends the part, not the others.
            let measured = catch_unwind(AssertUnwindSafe(measure)).unwrap_or_default();
            let faults = server_log::take_unexpected();
            if faults.is_empty() {
                rows.extend(measured);
            } else {
                has_failed = true;
                eprintln!("\n*** {name} is no figure: ***\n{}\n", faults.join("\n"));
            }
        }
    }
    if !rows.is_empty() {
        table::print(&rows);
        println!("\nBuilt with the profile {}", profile());
    }
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The profile of Cargo.toml that this was built with, from the folder that it is in. `cargo bench` takes
/// that of `cargo build --release`, and with `--profile dist` that of what is given away.
fn profile() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().and_then(Path::parent).and_then(Path::file_name);
    folder.map_or_else(|| "unknown".into(), |name| name.to_string_lossy().into_owned())
}

/// Compares the engines of a store.
#[cfg(feature = "postgres")]
fn engines(quick: bool) -> Vec<table::Row> {
    engines::rows(quick)
}

#[cfg(not(feature = "postgres"))]
fn engines(_: bool) -> Vec<table::Row> {
    eprintln!("\n*** NOT MEASURED against PostgreSQL: it needs --features postgres. ***\n");
    Vec::new()
}
