//! Plain files: how long it takes to find that nobody has changed any of 10,000 prompts.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::{Fixture, file, place};
use crate::process::BINARY;
use crate::registry::{REGISTRY, publication, source};
use crate::rounds::median;
use crate::table::{Row, Target, time};

const PROMPTS: usize = 10_000;

/// The longest that a plan without changes may take: a check of each pull request.
const LIMIT: Duration = Duration::from_secs(2);

const ROUNDS: usize = 5;

/// A publication writes a dozen keys; this many fit into a transaction.
const AT_ONCE: usize = 500;

/// Measures plans.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(0);
    let registry = json!({"slug": REGISTRY, "name": "Main"});
    fixture.store("registry.create", &[], std::iter::once(registry), 1, drop);
    let publications = (0..PROMPTS).map(|nth| {
        publication("prompt", &format!("prompt-{nth}"), "1.0.0", &source(&nth.to_string()))
    });
    fixture.store("artifact_version.publish", &[], publications, AT_ONCE, drop);
    let place = place();
    let directory = file(&place, "files");
    let pulled = run(&fixture, &["pull"], &directory);
    assert_eq!(pulled["files"], PROMPTS + 2, "the prompts, the registry and the mark");
    let of = |command: &'static str, check: &dyn Fn(&Value) -> bool| {
        let took = (0..ROUNDS).map(|_| {
            let begin = Instant::now();
            let said = run(&fixture, &[command], &directory);
            assert!(check(&said), "something is to be done: {said}");
            begin.elapsed().as_secs_f64()
        });
        let took = Duration::from_secs_f64(median(took));
        Row {
            name: format!("{command} of {PROMPTS} prompts without a change, median of {ROUNDS}"),
            ours: time(took),
            baseline: format!("limit {}", time(LIMIT)),
            ratio: took.as_secs_f64() / LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        }
    };
    vec![
        of("plan", &|said| said["steps"] == json!([])),
        of("pull", &|said| said["written"] == 0 && said["removed"] == 0),
    ]
}

/// Runs a command of the client; returns what it prints.
fn run(fixture: &Fixture, command: &[&str], directory: &Path) -> Value {
    let ended = Command::new(BINARY)
        .args(command)
        .arg(directory)
        .arg("--json")
        .env("ROADSTEAD_URL", format!("http://{}", fixture.address))
        .env("ROADSTEAD_API_KEY", &fixture.key)
        .output()
        .expect("the binary can be run");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    serde_json::from_slice(&ended.stdout).expect("it prints JSON")
}
