//! Reading a prompt by its label, compared with a bare hyper server that sends the same bytes, and
//! with Arize Phoenix reading the same prompt by its tag, if the tests have installed it.

use crate::client::load;
use crate::fixture::Fixture;
use crate::phoenix::Phoenix;
use crate::reads::Bare;
use crate::registry;
use crate::rounds::{self, PROFILE, TIME, figure, rate, ratio};
use crate::table::{Row, Target};

/// One client, a few, many.
const CONNECTIONS: [usize; 3] = [1, 32, 256];

/// Where Phoenix is compared: it needs more than one to be busy, and gets slower with many.
const CONNECTIONS_OF_PHOENIX: usize = 16;

/// The rows of contents.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(0);
    registry::fill(&fixture);
    let request = [registry::read_by_label(&fixture, "")];
    let bare = Bare::start(fixture.address, &request[0]);
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let outcomes = rounds::run(&mut [
            &mut || load(fixture.address, connections, TIME, &request),
            &mut || load(bare.address, connections, TIME, &request),
        ]);
        rows.push(Row {
            name: format!("content by label, {connections} connections"),
            ours: figure(&outcomes[0]),
            baseline: format!("bare hyper {}", figure(&outcomes[1])),
            ratio: ratio(&outcomes[0], &outcomes[1]),
            target: Target::AtLeast(0.75),
        });
    }
    let Some(phoenix) = Phoenix::start(registry::PROMPT, &registry::source("1.0.0")) else {
        eprintln!("  Phoenix is not installed (cargo test --test phoenix does it): left out");
        return rows;
    };
    let by_tag = [phoenix.read_by_tag()];
    let outcomes = rounds::run(&mut [
        &mut || load(fixture.address, CONNECTIONS_OF_PHOENIX, TIME, &request),
        &mut || load(phoenix.address, CONNECTIONS_OF_PHOENIX, TIME, &by_tag),
    ]);
    rows.push(Row {
        name: format!("content by label, {CONNECTIONS_OF_PHOENIX} connections"),
        ours: figure(&outcomes[0]),
        // Its processor time is not that of this process, which is what is measured.
        baseline: format!("Phoenix by tag {:.0}/s", rate(&outcomes[1])),
        ratio: ratio(&outcomes[0], &outcomes[1]),
        target: Target::AtLeast(50.0),
    });
    rows
}

/// Reads for a profiler.
pub fn profile() -> Vec<Row> {
    let fixture = Fixture::new(0);
    registry::fill(&fixture);
    let request = [registry::read_by_label(&fixture, "")];
    eprintln!("{:?}", load(fixture.address, CONNECTIONS[1], PROFILE, &request));
    vec![]
}
