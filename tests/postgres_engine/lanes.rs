//! Light attempts of two lanes, each of which shares its commit with another, are isolated from each other as
//! heavy ones are.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use roadstead::base::Result;
use roadstead::store::Signals;
use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::postgres::{Control, Postgres, PostgresSettings};
use roadstead::store::engine::{
    Attempt, Budget, Engine as _, GivenBack, KeyRange, Lane, OnConflict, Order, Reader, Terms,
    WriteBatch, WriteOp,
};

use super::{Run, put};
use crate::postgres_server::{new_schema, shared};

const ROUNDS: usize = 10;

/// How long a transaction waits until the other has read, too.
const MAX_MEETING: Duration = Duration::from_secs(3);

/// The lane and the row of each.
const LANES: [Lane; 2] = [[1; 16], [2; 16]];
const OWN: [&str; 2] = ["a", "b"];

/// What two transactions find that have both read before either commits. Then each deletes its own of two rows
/// that were there at the beginning, or adds it to none, by which each alone keeps the rule.
struct Rule {
    name: &'static str,
    is_full: bool,
    finds: fn(&dyn Reader, &str, usize) -> Result<bool>,
    /// Whether so many rows at the end break the rule.
    is_broken: fn(usize) -> bool,
}

static RULES: [Rule; 4] = [
    Rule {
        name: "write skew",
        is_full: true,
        finds: |reader, base, _| {
            Ok(is_there(reader, base, OWN[0])? && is_there(reader, base, OWN[1])?)
        },
        is_broken: |rows| rows == 0,
    },
    Rule {
        name: "phantom insert",
        is_full: false,
        finds: |reader, base, _| Ok(count(reader, base)? == 0),
        is_broken: |rows| rows > 1,
    },
    Rule {
        name: "phantom delete",
        is_full: true,
        finds: |reader, base, _| Ok(count(reader, base)? == 2),
        is_broken: |rows| rows == 0,
    },
    Rule {
        name: "absent point",
        is_full: false,
        finds: |reader, base, own| Ok(!is_there(reader, base, OWN[1 - own])?),
        is_broken: |rows| rows > 1,
    },
];

fn is_there(reader: &dyn Reader, base: &str, name: &str) -> Result<bool> {
    reader.get(TABLE, format!("{base}{name}").as_bytes(), &mut |_| Ok(()))
}

/// Counts the rows whose keys begin with `base`, which ends in a slash.
fn count(reader: &dyn Reader, base: &str) -> Result<usize> {
    let to = format!("{}0", base.trim_end_matches('/'));
    let range = KeyRange { from: base.as_bytes(), to: Some(to.as_bytes()) };
    let mut rows = 0;
    reader.scan(TABLE, range, Order::Ascending, &mut |_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

fn number(reader: &dyn Reader, key: &str) -> Result<u64> {
    let mut found = 0;
    reader.get(TABLE, key.as_bytes(), &mut |value| {
        found = u64::from_be_bytes(value.try_into().unwrap());
        Ok(())
    })?;
    Ok(found)
}

/// A light attempt of a lane.
struct Light(Lane, Run, Sender<Result<()>>);

impl Attempt for Light {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        (self.1)(reader)
    }

    fn lane(&self) -> Lane {
        self.0
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        self.2.send(end).unwrap();
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        panic!("given back: {why:?}");
    }
}

fn submit(engine: &Postgres, own: usize, run: Run) -> Receiver<Result<()>> {
    let terms = Terms { budget: Budget::LIGHT, on_conflict: OnConflict::RunOnWriter };
    let (end, ended) = channel();
    engine.submit(Box::new(Light(LANES[own], run, end)), terms).unwrap();
    ended
}

/// Where two transactions meet when both have read.
#[derive(Default)]
struct Meeting {
    present: Mutex<usize>,
    met: Condvar,
}

impl Meeting {
    fn meet(&self) {
        let mut present = self.present.lock().unwrap();
        *present += 1;
        self.met.notify_all();
        drop(self.met.wait_timeout_while(present, MAX_MEETING, |present| *present < 2).unwrap());
    }
}

/// Reads by the rule, meets the other when it does so first, and writes its own row.
fn skewed(rule: &'static Rule, base: &str, own: usize, meeting: Arc<Meeting>) -> Run {
    let (base, mut is_first) = (base.to_string(), true);
    Box::new(move |reader| {
        let finds = (rule.finds)(reader, &base, own)?;
        if std::mem::take(&mut is_first) {
            meeting.meet();
        }
        let mut writes = WriteBatch::default();
        if finds {
            let op = if rule.is_full { WriteOp::Delete } else { WriteOp::Insert(Vec::new()) };
            writes.add(TABLE, format!("{base}{}", OWN[own]).into_bytes(), op);
        }
        Ok(writes)
    })
}

/// Counts in a row of the lane: what shares the transaction is committed with it, once.
fn counts(own: usize) -> Run {
    let key = format!("counter {own}");
    Box::new(move |reader| Ok(put(&[(key.as_str(), &(number(reader, &key)? + 1).to_be_bytes())])))
}

/// Whether a rule is broken after two transactions that keep it, each in a group with another.
fn is_broken(engine: &Postgres, rule: &'static Rule, base: &str) -> bool {
    if rule.is_full {
        let keys = OWN.map(|own| format!("{base}{own}"));
        let begin = Box::new(move |_: &dyn Reader| {
            Ok(put(&[(keys[0].as_str(), b""), (keys[1].as_str(), b"")]))
        });
        submit(engine, 0, begin).recv().unwrap().unwrap();
    }
    // While one of its lane runs, those that wait become the next group.
    let before = [0, 1].map(|own| {
        let (started, is_started) = channel();
        let (release, is_released) = channel::<()>();
        let end = submit(
            engine,
            own,
            Box::new(move |_| {
                started.send(()).unwrap();
                let _ = is_released.recv();
                Ok(WriteBatch::default())
            }),
        );
        is_started.recv().unwrap();
        (end, release)
    });
    let meeting = Arc::<Meeting>::default();
    let groups = [0, 1].map(|own| {
        let skewed = skewed(rule, base, own, meeting.clone());
        [submit(engine, own, skewed), submit(engine, own, counts(own))]
    });
    for (end, release) in before {
        drop(release);
        end.recv().unwrap().unwrap();
    }
    for end in groups.into_iter().flatten() {
        end.recv().unwrap().unwrap();
    }
    (rule.is_broken)(count(&*engine.snapshot(), base).unwrap())
}

/// How often each rule was broken; none without PostgreSQL.
fn broken(control: Option<Control>) -> Option<Vec<(&'static str, usize)>> {
    let settings = PostgresSettings {
        schema: Some(new_schema()),
        control,
        ..PostgresSettings::new(shared()?.parsed_url(), vec![TABLE])
    };
    let engine = Postgres::open(settings, Arc::<Signals>::default(), &|_| {}).unwrap();
    let found = RULES.iter().map(|rule| {
        let is_one = |round: &usize| is_broken(&engine, rule, &format!("{}/{round}/", rule.name));
        (rule.name, (0..ROUNDS).filter(is_one).count())
    });
    let found = found.collect();
    for own in [0, 1] {
        let counted = number(&*engine.snapshot(), &format!("counter {own}")).unwrap();
        assert_eq!(counted, (RULES.len() * ROUNDS) as u64, "each is committed once");
    }
    Some(found)
}

#[test]
fn groups_of_two_lanes_are_isolated_from_each_other() {
    let Some(found) = broken(None) else { return };
    assert!(found.iter().all(|(_, rounds)| *rounds == 0), "{found:?}");
}

#[test]
fn groups_that_are_not_validated_break_each_rule() {
    let Some(found) = broken(Some(Control::RepeatableRead)) else { return };
    assert!(found.iter().all(|(_, rounds)| *rounds > 0), "{found:?}");
}
