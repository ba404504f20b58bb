//! Writers through the API of a server, and what they must find afterwards: the values that were
//! acknowledged, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Caller, EndOfLoad, Reply};

const WRITERS: usize = 32;

/// What one writer knows. It has a team of its own.
struct Known {
    team: String,
    /// A task whose title it changes.
    counter: String,
    /// The titles that the counter may have.
    possible: BTreeSet<String>,
    /// Titles of tasks by what became of their creation.
    acknowledged: Vec<String>,
    refused: Vec<String>,
    unknown: Vec<String>,
}

/// How a request ended.
enum End {
    Done,
    /// It has no effect.
    Refused,
    Unknown,
}

fn end(reply: std::io::Result<Reply>) -> End {
    match reply {
        Ok(reply) if reply.status == 200 => End::Done,
        Ok(reply) => {
            let code = reply.json()["code"].as_str().unwrap_or_default().to_string();
            assert_eq!(reply.status, 503, "{}", reply.text());
            if code == "outcome_unknown" { End::Unknown } else { End::Refused }
        }
        Err(_) => End::Unknown,
    }
}

/// When writes were acknowledged.
struct Beat {
    last: Instant,
    longest: Duration,
}

/// What became of the writes.
#[derive(Debug, Default)]
pub struct Found {
    pub acknowledged: usize,
    pub refused: usize,
    pub unknown: usize,
    /// Acknowledged values that are not there.
    pub lost: Vec<String>,
    /// Writes that happened twice, or although they were refused.
    pub repeated: Vec<String>,
    /// The longest time without an acknowledgement.
    pub outage: Duration,
}

impl Found {
    pub fn is_sound(&self) -> bool {
        self.lost.is_empty() && self.repeated.is_empty()
    }
}

/// Writes through these servers of one store while `during` does something to the database; then
/// compares. `during` gets a function that waits until so many writes more were acknowledged.
pub fn under_writes(servers: &[Caller], during: impl FnOnce(&dyn Fn(usize))) -> Found {
    let acme = &servers[0];
    let known: Vec<_> = (0..WRITERS).map(|number| begin(acme, number)).collect();
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let beat = Mutex::new(Beat { last: Instant::now(), longest: Duration::ZERO });
    let note = || {
        count.fetch_add(1, Ordering::SeqCst);
        let mut beat = beat.lock().unwrap();
        beat.longest = beat.longest.max(beat.last.elapsed());
        beat.last = Instant::now();
    };
    let known: Vec<Known> = thread::scope(|scope| {
        let (is_over, note) = (&is_over, &note);
        let threads: Vec<_> = known
            .into_iter()
            .enumerate()
            .map(|(number, mut known)| {
                scope.spawn(move || {
                    let mut at = number;
                    for step in 0.. {
                        if is_over.load(Ordering::SeqCst) {
                            break;
                        }
                        let acme = &servers[at % servers.len()];
                        if !known.write(acme, &format!("w{number}-{step}"), note) {
                            // As behind a proxy: that server is gone.
                            at += 1;
                        }
                    }
                    known
                })
            })
            .collect();
        let wait = |more: usize| {
            let goal = count.load(Ordering::SeqCst) + more;
            let begun = Instant::now();
            while count.load(Ordering::SeqCst) < goal {
                assert!(begun.elapsed() < Duration::from_secs(90), "nothing is acknowledged");
                thread::sleep(Duration::from_millis(5));
            }
        };
        let end = EndOfLoad(is_over);
        wait(200);
        during(&wait);
        drop(end);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut found = Found { outage: beat.into_inner().unwrap().longest, ..Found::default() };
    for known in &known {
        known.compare(acme, &mut found);
    }
    found
}

fn begin(acme: &Caller, number: usize) -> Known {
    let slug = format!("crew-{number}");
    let team = acme.post("/teams", json!({"slug": slug, "name": slug})).id();
    let title = format!("w{number}");
    let counter = acme.post(&format!("/teams/{team}/tasks"), json!({"title": title})).ok();
    Known {
        counter: format!("/teams/{team}/tasks/{}", counter["id"].as_str().unwrap()),
        team,
        possible: BTreeSet::from([title]),
        acknowledged: Vec::new(),
        refused: Vec::new(),
        unknown: Vec::new(),
    }
}

impl Known {
    /// Returns whether the server answered.
    fn write(&mut self, acme: &Caller, title: &str, note: &dyn Fn()) -> bool {
        let tasks = format!("/teams/{}/tasks", self.team);
        let created = acme.ask("POST", &tasks).org_json(json!({"title": title})).try_send();
        let mut is_answered = created.is_ok();
        match end(created) {
            End::Done => {
                note();
                self.acknowledged.push(title.into());
            }
            End::Refused => self.refused.push(title.into()),
            End::Unknown => self.unknown.push(title.into()),
        }
        let changed = acme.ask("PATCH", &self.counter).org_json(json!({"title": title})).try_send();
        is_answered &= changed.is_ok();
        match end(changed) {
            End::Done => {
                note();
                self.possible = BTreeSet::from([title.to_string()]);
            }
            End::Refused => {}
            End::Unknown => {
                self.possible.insert(title.into());
            }
        }
        is_answered
    }

    fn compare(&self, acme: &Caller, found: &mut Found) {
        found.acknowledged += self.acknowledged.len();
        found.refused += self.refused.len();
        found.unknown += self.unknown.len();
        let tasks = acme.walk(&format!("/teams/{}/tasks", self.team), 100);
        let mut counts = BTreeMap::<&str, usize>::new();
        let mut numbers = BTreeSet::new();
        for task in &tasks {
            let title = task["title"].as_str().unwrap();
            let is_counter = self.counter.ends_with(task["id"].as_str().unwrap());
            if !is_counter {
                *counts.entry(title).or_default() += 1;
            } else if !self.possible.contains(title) {
                found.lost.push(format!("{title}, not one of {:?}", self.possible));
            }
            if !numbers.insert(task["number"].as_u64().unwrap()) {
                found.repeated.push(format!("the number of {title}"));
            }
        }
        let count = |title: &String| counts.get(title.as_str()).copied().unwrap_or(0);
        found.lost.extend(self.acknowledged.iter().filter(|one| count(one) == 0).cloned());
        let twice = self.acknowledged.iter().chain(&self.unknown).filter(|one| count(one) > 1);
        found.repeated.extend(twice.cloned());
        found.repeated.extend(self.refused.iter().filter(|one| count(one) > 0).cloned());
    }
}
