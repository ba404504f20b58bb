//! Publishing a prompt that imports ten promptlets, compared with one that imports none.

use std::time::Instant;

use crate::client::{self, Connection};
use crate::fixture::{Commits, Fixture};
use crate::registry;
use crate::rounds::median;
use crate::table::{Row, Target, time};

const IMPORTS: usize = 10;

/// So many of each, in turn.
const PUBLISHED: usize = 200;

/// The row of publishing.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(Commits::Shared, 0);
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
    vec![Row {
        name: format!("publish a prompt with {IMPORTS} imports"),
        ours: time(half(&with)),
        baseline: format!("same text, no imports {}", time(half(&without))),
        ratio: half(&with).as_secs_f64() / half(&without).as_secs_f64(),
        target: Target::AtMost(2.0),
    }]
}
