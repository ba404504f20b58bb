//! Anomalies: outcomes that no order of two transactions explains.
//!
//! In each round two transactions have both read before either commits. Together their writes break
//! a rule that each of them keeps.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::super::{Engine, KeyRange, Order, Reader, WriteBatch, WriteOp};
use super::{TABLE, attempt, number, value};
use crate::base::{Error, Result};
use crate::store::Clock;
use crate::store::codec::hex;

/// What came of looking for an anomaly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anomaly {
    pub name: &'static str,
    /// How often it was looked for.
    pub rounds: usize,
    /// How often it was there.
    pub found: usize,
}

/// How long a transaction waits for the other to have read. An engine may run one after the other.
const MAX_MEETING: Duration = Duration::from_secs(3);

/// Threads that increment one counter, and how often each does.
const INCREMENTERS: usize = 6;
const INCREMENTS: usize = 15;

/// Looks for each anomaly in so many rounds. `progress` gets a line for each.
///
/// # Errors
/// If the engine fails for another reason.
pub fn anomalies(
    engine: &Arc<dyn Engine>,
    rounds: usize,
    progress: &dyn Fn(&str),
) -> Result<Vec<Anomaly>> {
    // Another run over the same rows would find what this one leaves.
    let run = hex(&Clock::system().random::<8>());
    let mut found = vec![lost_updates(engine, progress)?];
    for (name, rule) in &RULES {
        let mut violated = 0;
        for round in 0..rounds {
            progress(&format!("{name}: {round} of {rounds}"));
            let base = format!("{run}/{name}/{round}/");
            violated += usize::from(is_violated(engine, rule, base.as_bytes())?);
        }
        found.push(Anomaly { name, rounds, found: violated });
    }
    progress("");
    Ok(found)
}

/// A rule, and two transactions that each keep it.
struct Rule {
    /// The rows at the beginning.
    begin: &'static [&'static str],
    /// What a transaction (0 or 1) writes after what it has read.
    write: fn(&dyn Reader, &[u8], usize) -> Result<WriteBatch>,
    /// Whether the rule is broken at the end.
    is_broken: fn(&dyn Reader, &[u8]) -> Result<bool>,
}

const OWN: [&str; 2] = ["a", "b"];

static RULES: [(&str, Rule); 4] = [
    // At least one of two rows stays; each transaction looks at both rows by key.
    (
        "write skew",
        Rule {
            begin: &OWN,
            write: |reader, base, own| {
                let is_there = |name| Ok(value(reader, &key(base, name))?.is_some());
                let both = is_there(OWN[0])? && is_there(OWN[1])?;
                Ok(if both { delete(base, OWN[own]) } else { WriteBatch::default() })
            },
            is_broken: |reader, base| Ok(count(reader, base)? == 0),
        },
    ),
    // A range holds one row at most; each transaction finds it empty.
    (
        "phantom insert",
        Rule {
            begin: &[],
            write: |reader, base, own| {
                let is_empty = count(reader, base)? == 0;
                Ok(if is_empty { insert(base, OWN[own]) } else { WriteBatch::default() })
            },
            is_broken: |reader, base| Ok(count(reader, base)? > 1),
        },
    ),
    // A range keeps one row at least; each transaction counts two.
    (
        "phantom delete",
        Rule {
            begin: &OWN,
            write: |reader, base, own| {
                let is_full = count(reader, base)? == 2;
                Ok(if is_full { delete(base, OWN[own]) } else { WriteBatch::default() })
            },
            is_broken: |reader, base| Ok(count(reader, base)? == 0),
        },
    ),
    // One of two keys may exist; each transaction finds the other's absent.
    (
        "absent point",
        Rule {
            begin: &[],
            write: |reader, base, own| {
                let is_absent = value(reader, &key(base, OWN[1 - own]))?.is_none();
                Ok(if is_absent { insert(base, OWN[own]) } else { WriteBatch::default() })
            },
            is_broken: |reader, base| Ok(count(reader, base)? > 1),
        },
    ),
];

fn key(base: &[u8], name: &str) -> Vec<u8> {
    [base, name.as_bytes()].concat()
}

fn insert(base: &[u8], name: &str) -> WriteBatch {
    let mut writes = WriteBatch::default();
    writes.add(TABLE, key(base, name), WriteOp::Insert(b"here".to_vec()));
    writes
}

fn delete(base: &[u8], name: &str) -> WriteBatch {
    let mut writes = WriteBatch::default();
    writes.add(TABLE, key(base, name), WriteOp::Delete);
    writes
}

/// Counts the rows whose keys begin with `base`, which ends in a slash.
fn count(reader: &dyn Reader, base: &[u8]) -> Result<usize> {
    let to = [&base[..base.len() - 1], b"0"].concat();
    let mut rows = 0;
    let range = KeyRange { from: base, to: Some(&to) };
    reader.scan(TABLE, range, Order::Ascending, &mut |_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// Where two transactions meet when both have read.
#[derive(Default)]
struct Meeting {
    present: Mutex<usize>,
    met: Condvar,
}

impl Meeting {
    fn meet(&self) {
        let mut present = self.present.lock().expect("no thread panics while holding it");
        *present += 1;
        self.met.notify_all();
        let is_alone = |present: &mut usize| *present < 2;
        drop(self.met.wait_timeout_while(present, MAX_MEETING, is_alone));
    }
}

fn is_violated(engine: &Arc<dyn Engine>, rule: &'static Rule, base: &[u8]) -> Result<bool> {
    let begin = base.to_vec();
    attempt(&**engine, move |_| {
        let mut writes = WriteBatch::default();
        for name in rule.begin {
            writes.append(insert(&begin, name));
        }
        Ok(writes)
    })?;
    let meeting = Arc::<Meeting>::default();
    let run = |own: usize| {
        let (engine, base, meeting) = (engine.clone(), base.to_vec(), meeting.clone());
        let mut is_first = true;
        thread::spawn(move || {
            attempt(&*engine, move |reader| {
                let writes = (rule.write)(reader, &base, own)?;
                if std::mem::take(&mut is_first) {
                    meeting.meet();
                }
                Ok(writes)
            })
        })
    };
    for transaction in [run(0), run(1)] {
        transaction.join().map_err(|_| Error::internal("a transaction panicked"))??;
    }
    (rule.is_broken)(&*engine.snapshot(), base)
}

/// Increments a counter on several threads; each increment that is missing at the end was lost.
fn lost_updates(engine: &Arc<dyn Engine>, progress: &dyn Fn(&str)) -> Result<Anomaly> {
    const NAME: &str = "lost update";
    const COUNTER: &[u8] = b"counter";
    progress(NAME);
    let begin = number(&*engine.snapshot(), COUNTER)?;
    let threads: Vec<_> = (0..INCREMENTERS)
        .map(|_| {
            let engine = engine.clone();
            thread::spawn(move || {
                for _ in 0..INCREMENTS {
                    attempt(&*engine, |reader| {
                        let next = number(reader, COUNTER)? + 1;
                        let mut writes = WriteBatch::default();
                        let op = WriteOp::Put(next.to_be_bytes().to_vec());
                        writes.add(TABLE, COUNTER.to_vec(), op);
                        Ok(writes)
                    })?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for one in threads {
        one.join().map_err(|_| Error::internal("a transaction panicked"))??;
    }
    let rounds = INCREMENTERS * INCREMENTS;
    let counted = number(&*engine.snapshot(), COUNTER)? - begin;
    let counted = usize::try_from(counted).map_err(Error::internal)?;
    Ok(Anomaly { name: NAME, rounds, found: rounds.abs_diff(counted) })
}
