//! Lists, contents and diffs in a registry of 100,000 versions, compared with one of 1,000.

use crate::client::load;
use crate::fixture::Fixture;
use crate::registry;
use crate::rounds::{self, TIME, figure, ratio};
use crate::table::{Row, Target};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
const MANY_WHEN_QUICK: usize = 20_000;

const CONNECTIONS: usize = 16;

/// A publication writes a dozen keys; this many fit into a transaction.
const AT_ONCE: usize = 500;

/// All versions are of the one prompt: the worst there is.
const PROMPT: &str = "long-lived";

/// The rows of versions.
pub fn rows(quick: bool) -> Vec<Row> {
    let most = if quick { MANY_WHEN_QUICK } else { MANY };
    let (few, many) = (fixture(FEW), fixture(most));
    let mut rows = Vec::new();
    for (what, requests) in [
        ("list", list as fn(&Fixture, usize) -> Vec<Vec<u8>>),
        ("content", contents),
        ("diff", diffs),
    ] {
        let (of_few, of_many) = (requests(&few, FEW), requests(&many, most));
        let outcomes = rounds::run(&mut [
            &mut || load(many.address, CONNECTIONS, TIME, &of_many),
            &mut || load(few.address, CONNECTIONS, TIME, &of_few),
        ]);
        rows.push(Row {
            name: format!("{what} among {most} versions, time"),
            ours: figure(&outcomes[0]),
            baseline: format!("among {FEW} {}", figure(&outcomes[1])),
            ratio: ratio(&outcomes[1], &outcomes[0]),
            target: Target::AtMost(2.0),
        });
    }
    rows
}

fn fixture(versions: usize) -> Fixture {
    let fixture = Fixture::new(0);
    registry::fill(&fixture);
    let publications = (0..versions).map(|nth| {
        let source = registry::source(&version(nth));
        registry::publication("prompt", PROMPT, &version(nth), &source)
    });
    fixture.store("artifact_version.publish", &[], publications, AT_ONCE, drop);
    fixture
}

fn version(nth: usize) -> String {
    format!("{}.{}.{}", 1 + nth / 10_000, nth / 100 % 100, nth % 100)
}

/// Requests spread over all versions, not one after another: neighbours lie in one page.
fn spread(count: usize, request: impl Fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..1_000).map(|nth| request(nth * 7919 % 1_000 * (count / 1_000))).collect()
}

fn list(fixture: &Fixture, _: usize) -> Vec<Vec<u8>> {
    let path = format!("registryRef={}&promptName={PROMPT}", registry::REGISTRY);
    vec![fixture.get(&format!("/registries/artifact-versions?{path}"))]
}

fn contents(fixture: &Fixture, count: usize) -> Vec<Vec<u8>> {
    let path = format!("registryRef={}&promptName={PROMPT}", registry::REGISTRY);
    spread(count, |nth| {
        let version = version(nth);
        fixture.get(&format!("/registries/artifact-versions/content?{path}&version={version}"))
    })
}

fn diffs(fixture: &Fixture, count: usize) -> Vec<Vec<u8>> {
    let path = format!("registryRef={}&promptName={PROMPT}", registry::REGISTRY);
    spread(count, |nth| {
        let (from, to) = (version(nth), version((nth + count / 2) % count));
        fixture.get(&format!("/registries/artifact-versions/diff?{path}&from={from}&to={to}"))
    })
}
