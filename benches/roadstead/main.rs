//! What Roadstead does beside what it could do at best: `cargo bench`.
//!
//! Every figure is a ratio of two that were measured in one run, in turn, on the same machine with
//! the load generator on the same processors. It prints one table.
//!
//! `cargo bench -- reads` measures only the reads; there are also `writes`, `wakes`, `growth` and
//! `process`. `--quick` (or `ROADSTEAD_BENCH_QUICK=1`) stores 100,000 tasks where otherwise there
//! are a million.
//!
//! `cargo bench -- profile-reads` and `profile-writes` measure nothing: they keep Roadstead alone
//! busy for ten seconds, under a profiler.

mod client;
mod growth;
mod process;
mod processor;
mod reads;
mod rounds;
mod table;
mod wakes;
mod world;
mod writes;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // Cargo adds --bench.
    let arguments: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let chosen: Vec<_> = arguments.iter().filter(|arg| !arg.starts_with("--")).collect();
    let quick = arguments.iter().any(|arg| arg == "--quick")
        || std::env::var("ROADSTEAD_BENCH_QUICK").is_ok_and(|quick| quick == "1");
    let parts: [(&str, &dyn Fn() -> Vec<table::Row>); 7] = [
        ("reads", &reads::rows),
        ("writes", &writes::rows),
        ("wakes", &wakes::rows),
        ("growth", &|| growth::rows(quick)),
        ("process", &process::rows),
        ("profile-reads", &reads::profile),
        ("profile-writes", &writes::profile),
    ];
    let mut rows = Vec::new();
    for (name, measure) in parts {
        let all = chosen.is_empty() && !name.starts_with("profile");
        if all || chosen.iter().any(|chosen| *chosen == name) {
            eprintln!("measuring {name} …");
            rows.extend(measure());
        }
    }
    if !rows.is_empty() {
        table::print(&rows);
    }
}
