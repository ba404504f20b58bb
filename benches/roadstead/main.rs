//! What Roadstead does beside what it could do at best: `cargo bench`.
//!
//! Every figure is a ratio of two that were measured in one run, in turn, on the same machine with
//! the load generator on the same processors. It prints one table.
//!
//! `cargo bench -- reads` measures only the reads of tasks; there are also `writes`, `wakes`,
//! `growth` and `process`, and for registries `contents`, `promotions`, `publishing` and
//! `versions`. `--quick` (or `ROADSTEAD_BENCH_QUICK=1`) stores 100,000 tasks where otherwise there
//! are a million, and 20,000 versions instead of 100,000.
//!
//! `cargo bench -- profile-reads`, `profile-writes` and `profile-contents` measure nothing: they
//! keep Roadstead alone busy for ten seconds, under a profiler.

mod client;
mod contents;
mod growth;
mod phoenix;
mod process;
mod processor;
mod promotions;
mod publishing;
mod reads;
mod registry;
mod rounds;
mod table;
mod versions;
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
    let parts: [(&str, &dyn Fn() -> Vec<table::Row>); 12] = [
        ("reads", &reads::rows),
        ("writes", &writes::rows),
        ("wakes", &wakes::rows),
        ("growth", &|| growth::rows(quick)),
        ("process", &process::rows),
        ("contents", &contents::rows),
        ("promotions", &promotions::rows),
        ("publishing", &publishing::rows),
        ("versions", &|| versions::rows(quick)),
        ("profile-reads", &reads::profile),
        ("profile-contents", &contents::profile),
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
