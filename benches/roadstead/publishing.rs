//! Publishing versions of prompts: compared with the disk, with the server over redb alone and with
//! Arize Phoenix, if the tests have installed it; and with imports compared with none.

use std::time::{Duration, Instant};

use crate::client::{self, Connection, Outcome, load};
use crate::commits::appends;
use crate::fixture::{Fixture, Storage, file, place};
use crate::phoenix::Phoenix;
use crate::registry;
use crate::rounds::{self, PROFILE, ROUNDS, TIME, figure, median, rate, ratio};
use crate::table::{Row, Target, time};

const IMPORTS: usize = 10;

/// So many of each, in turn.
const PUBLISHED: usize = 200;

/// Connections that publish at the same time, each its own prompt.
const CONNECTIONS: usize = 16;

/// Measures publishing.
pub fn rows(quick: bool) -> Vec<Row> {
    let mut rows = beside_disk_and_redb(quick);
    rows.extend(beside_phoenix());
    rows.push(imports());
    rows
}

/// Publishes for a profiler.
pub fn profile() -> Vec<Row> {
    let mut publisher = Publisher::over(Storage::Logged);
    eprintln!("{:?}", publisher.run(CONNECTIONS, PROFILE));
    vec![]
}

/// A server to which versions are published.
struct Publisher {
    fixture: Fixture,
    /// Runs so far.
    runs: usize,
}

/// What stands for the version in a request, and is as long as it.
const VERSION: &str = "@version-number@";

impl Publisher {
    fn over(storage: Storage) -> Self {
        let fixture = Fixture::over(storage, 0);
        registry::fill(&fixture);
        Publisher { fixture, runs: 0 }
    }

    /// Publishes for `time`, from each connection versions of its own prompt.
    fn run(&mut self, connections: usize, time: Duration) -> Outcome {
        self.runs += 1;
        let major = 1000 + self.runs;
        let text = registry::source("next");
        let of_prompt = |nth| {
            let name = format!("prompt-{nth}");
            let request = registry::publish(&self.fixture, "prompt", &name, VERSION, &text);
            String::from_utf8(request).expect("it is text")
        };
        let requests: Vec<String> = (0..connections).map(of_prompt).collect();
        client::load_each(self.fixture.address, connections, time, move |connection, nth, out| {
            let version = format!("{major}.{:03}.{:07}", 100 + connection, 1_000_000 + nth);
            let request = &requests[connection];
            out.extend_from_slice(request.replace(VERSION, &version).as_bytes());
        })
    }
}

/// One connection compared with synced appends, and many with redb alone: in turn, in a burst and as
/// long as checkpoints take part.
fn beside_disk_and_redb(quick: bool) -> Vec<Row> {
    let place = place();
    let (mut logged, mut plain) =
        (Publisher::over(Storage::Logged), Publisher::over(Storage::Redb));
    let (mut ours, mut disk) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        disk.push(appends(&file(&place, "appends"), TIME));
        ours.push(logged.run(1, TIME));
    }
    let ratios = ours.iter().zip(&disk).map(|(ours, disk)| ours.rate / disk);
    let mut rows = vec![Row {
        name: "publish a prompt, 1 connection".into(),
        ours: figure(&ours),
        baseline: format!("1 KB appends, synced {:.0}/s", median(disk.iter().copied())),
        ratio: median(ratios),
        target: Target::AtLeast(0.5),
    }];
    let (burst, long) = if quick { (5, 30) } else { (30, 300) };
    for (kind, secs, wanted) in [("burst", burst, 4.0), ("sustained", long, 2.5)] {
        let time = Duration::from_secs(secs);
        let ours = [logged.run(CONNECTIONS, time)];
        let theirs = [plain.run(CONNECTIONS, time)];
        rows.push(Row {
            name: format!("publish a prompt, {CONNECTIONS} connections, {kind} ({secs} s)"),
            ours: figure(&ours),
            baseline: format!("redb alone {}", figure(&theirs)),
            ratio: ratio(&ours, &theirs),
            target: Target::AtLeast(wanted),
        });
    }
    rows
}

/// The same work done by Phoenix.
fn beside_phoenix() -> Option<Row> {
    let Some(phoenix) = Phoenix::start(registry::PROMPT, &registry::source("1.0.0")) else {
        eprintln!("  Phoenix is not installed (cargo test --test phoenix does it): left out");
        return None;
    };
    let mut publisher = Publisher::over(Storage::Logged);
    let text = registry::source("next");
    let versions = (0..CONNECTIONS)
        .map(|nth| phoenix.publish(&format!("prompt-{nth}"), &text))
        .collect::<Vec<_>>();
    let outcomes = rounds::run(&mut [&mut || publisher.run(CONNECTIONS, TIME), &mut || {
        load(phoenix.address, CONNECTIONS, TIME, &versions)
    }]);
    Some(Row {
        name: format!("publish a prompt, {CONNECTIONS} connections"),
        ours: figure(&outcomes[0]),
        // Its processor time is not that of this process, which is what is measured.
        baseline: format!("Phoenix {:.0}/s", rate(&outcomes[1])),
        ratio: ratio(&outcomes[0], &outcomes[1]),
        target: Target::AtLeast(60.0),
    })
}

fn imports() -> Row {
    let fixture = Fixture::new(0);
    registry::fill(&fixture);
    for nth in 0..IMPORTS {
        let name = format!("part-{nth}");
        for version in ["1.0.0", "1.1.0", "2.0.0"] {
            let text = registry::source(version);
            fixture.ask(&registry::publish(&fixture, "promptlet", &name, version, &text));
        }
    }
    let plain = registry::source("");
    let imports: String =
        (0..IMPORTS).map(|nth| format!("{{{{ import \"part-{nth}@^1.0\" }}}}\n")).collect();
    let importing = format!("{plain}{imports}");
    // As much text in the end, without any import.
    let compiled = format!("{plain}{}", registry::source("1.1.0").repeat(IMPORTS));

    let (mut with, mut without) = (Vec::new(), Vec::new());
    client::runtime().block_on(async {
        let mut connection = Connection::open(fixture.address).await;
        for nth in 0..PUBLISHED {
            for (name, source, times) in
                [("importing", &importing, &mut with), ("plain", &compiled, &mut without)]
            {
                let version = format!("1.{nth}.0");
                let request = registry::publish(&fixture, "prompt", name, &version, source);
                let sent = Instant::now();
                connection.ask(&request).await;
                times.push(sent.elapsed());
            }
        }
    });
    let half = |times: &[std::time::Duration]| {
        let secs = median(times.iter().map(std::time::Duration::as_secs_f64));
        std::time::Duration::from_secs_f64(secs)
    };
    Row {
        name: format!("publish a prompt with {IMPORTS} imports"),
        ours: time(half(&with)),
        baseline: format!("same text, no imports {}", time(half(&without))),
        ratio: half(&with).as_secs_f64() / half(&without).as_secs_f64(),
        target: Target::AtMost(2.0),
    }
}
