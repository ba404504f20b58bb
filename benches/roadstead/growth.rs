//! Reads and writes with a million tasks, ten with `--full`, compared with ten thousand; and the size of
//! the files of a task, compared with redb's own.

use std::time::Duration;

use serde_json::json;

use crate::client::load;
use crate::fixture::{Fixture, Storage, id};
use crate::rounds::{self, TIME, figure, ratio};
use crate::table::{Row, Target};

const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;
const MANY_WHEN_FULL: usize = 10_000_000;

/// So many that the files of the log, whose size does not grow with them, are little of it.
const SIZED: usize = 500_000;

const CONNECTIONS: usize = 16;

/// Tasks stored per transaction, within its limit of writes.
const AT_ONCE: usize = 1_000;

/// So many different ones are read.
const READ: usize = 10_000;

/// Short, so that the few remain few while more are written.
const WRITING: Duration = Duration::from_millis(200);

/// The rows of growth.
pub fn rows(quick: bool, full: bool) -> Vec<Row> {
    let most = match (quick, full) {
        (_, true) => MANY_WHEN_FULL,
        (true, _) => MANY_WHEN_QUICK,
        _ => MANY,
    };
    let (few, many) = (Fixture::new(1), Fixture::new(1));
    let few_tasks = fill(&few, FEW);
    let many_tasks = fill(&many, most);
    let reads =
        rounds::run(&mut [&mut || load(many.address, CONNECTIONS, TIME, &many_tasks), &mut || {
            load(few.address, CONNECTIONS, TIME, &few_tasks)
        }]);
    let writes = rounds::run(&mut [
        &mut || load(many.address, CONNECTIONS, WRITING, &[many.post_task()]),
        &mut || load(few.address, CONNECTIONS, WRITING, &[few.post_task()]),
    ]);
    let row = |method, outcomes: &[Vec<_>]| Row {
        name: format!("{method} of a task among {most}, time"),
        ours: figure(&outcomes[0]),
        baseline: format!("among {FEW} {}", figure(&outcomes[1])),
        ratio: ratio(&outcomes[1], &outcomes[0]),
        target: Target::AtMost(2.0),
    };
    vec![row("GET", &reads), row("POST", &writes), size()]
}

/// The bytes of the files of a stopped server for each of its tasks, with a log and without one.
fn size() -> Row {
    let [ours, alone] = [Storage::Logged, Storage::Redb].map(|storage| {
        let fixture = Fixture::over(storage, 1);
        fill(&fixture, SIZED);
        fixture.stop_and_measure() as f64 / SIZED as f64
    });
    Row {
        name: format!("files with {SIZED} tasks, of each"),
        ours: format!("{ours:.0} B"),
        baseline: format!("redb alone {alone:.0} B"),
        ratio: ours / alone,
        target: Target::AtMost(1.25),
    }
}

/// Stores `count` tasks, many in a transaction. Gives requests for some of them, spread over all.
fn fill(fixture: &Fixture, count: usize) -> Vec<Vec<u8>> {
    let task = json!({
        "title": "Find out why the nightly import takes twice as long since Tuesday",
        "description": "It took 40 minutes before. The logs are in the bucket of the import.",
    });
    let tasks = std::iter::repeat_n(task, count);
    let ids = fixture.store("task.create", &[&fixture.team], tasks, AT_ONCE, |task| id(&task));
    let step = (count / READ).max(1);
    // Not one after another: neighbours lie in one page.
    let order = (0..READ).map(|nth| nth * 7919 % READ * step);
    let request = |nth: usize| fixture.get(&format!("/teams/{}/tasks/{}", fixture.team, ids[nth]));
    order.map(request).collect()
}
