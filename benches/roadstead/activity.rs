//! The activity of a team with a million entries, compared with a thousand: its newest page, and what
//! comes after an entry, for who follows.

use serde_json::json;

use crate::client::load;
use crate::fixture::{Fixture, id};
use crate::rounds::{self, TIME, figure, ratio};
use crate::table::{Row, Target};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;

const CONNECTIONS: usize = 4;

/// Entries stored per transaction, within its limit of writes.
const AT_ONCE: usize = 1_000;

/// A team, and the entry of it after which who follows goes on.
struct Filled {
    fixture: Fixture,
    /// The last but ten.
    after: String,
}

/// The rows of the activity.
pub fn rows(quick: bool) -> Vec<Row> {
    let most = if quick { MANY_WHEN_QUICK } else { MANY };
    let (few, many) = (filled(FEW), filled(most));
    let request = |filled: &Filled, query: &str| {
        let Filled { fixture, after } = filled;
        let query = query.replace("AFTER", after);
        vec![fixture.get(&format!("/teams/{}/activity?{query}", fixture.team))]
    };
    let row = |(name, query): (&str, &str)| {
        let outcomes = rounds::run(&mut [
            &mut || load(many.fixture.address, CONNECTIONS, TIME, &request(&many, query)),
            &mut || load(few.fixture.address, CONNECTIONS, TIME, &request(&few, query)),
        ]);
        Row {
            name: format!("GET of activity, {name} among {most}, time"),
            ours: figure(&outcomes[0]),
            baseline: format!("among {FEW} {}", figure(&outcomes[1])),
            ratio: ratio(&outcomes[1], &outcomes[0]),
            target: Target::AtMost(1.5),
        }
    };
    [("the newest", "limit=50"), ("what follows", "after=AFTER"), ("the oldest", "after=start")]
        .map(row)
        .into()
}

/// A team in which so much has happened: half of it tasks, half of it messages about one.
fn filled(count: usize) -> Filled {
    let fixture = Fixture::new(0);
    let task = json!({"title": "Find out why the import takes twice as long since Tuesday"});
    let tasks = std::iter::repeat_n(task, count / 2);
    let ids = fixture.store("task.create", &[&fixture.team], tasks, AT_ONCE, |task| id(&task));
    let note = json!({"taskId": ids[0], "body": "It took 40 minutes before, and 80 last night."});
    let notes = std::iter::repeat_n(note, count / 2);
    let ids = fixture.store("message.create", &[&fixture.team], notes, AT_ONCE, |note| id(&note));
    let after = ids[ids.len() - 11].clone();
    Filled { fixture, after }
}
