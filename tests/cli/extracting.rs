//! `extract-text`, with which the server reads uploaded files: what its process is limited to
//! (reference: knowledge-bases, "Files").

use std::fs;
use std::process::{Command, Stdio};

use crate::client::eventually;

/// A soft limit in the text of `/proc/<pid>/limits`.
fn limit(limits: &str, name: &str) -> String {
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().into()
}

/// The niceness of a process.
fn niceness(pid: &str) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which may have spaces, the 17th field.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(16).unwrap().parse().unwrap()
}

#[test]
fn the_process_has_little_memory_and_time_a_low_priority_and_writes_no_files() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command.args(["extract-text", "--format", "PDF"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // As the server starts it.
    command.env_clear().env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    let mut child = command.spawn().unwrap();
    let pid = child.id().to_string();
    // It waits for its file.
    let own = niceness("self");
    eventually("it has limited itself", || {
        (own == 19 || niceness(&pid) == (own + 10).min(19)).then_some(())
    });
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    assert_eq!(limit(&limits, "Max data size"), (256 * 1024 * 1024).to_string());
    assert_eq!(limit(&limits, "Max cpu time"), "10");
    assert_eq!(limit(&limits, "Max file size"), "0");
    assert_eq!(limit(&limits, "Max core file size"), "0");
    drop(child.stdin.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stdout.starts_with(b"U"), "{ended:?}");
}
