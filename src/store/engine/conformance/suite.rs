//! The suite against a database: each check with its control, in a schema of its own, which is
//! removed at the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::postgres::{Control, Node, Postgres, PostgresSettings, PostgresUrl};
use super::super::{Engine, WorkLease, WriteBatch, WriteOp};
use super::{Anomaly, Book, CuttingProxy, TABLE, anomalies, attempt, value, write_book};
use crate::base::Result;
use crate::store::Clock;
use crate::store::codec::hex;
use crate::store::signals::Signals;

/// Rounds of each anomaly against the control: one that is not isolated shows it in most of them.
const CONTROL_ROUNDS: usize = 10;

/// Writers of the crash book.
const WRITERS: usize = 8;

/// One of so many commits is cut.
const CUT_ONE_OF: u64 = 15;

/// How long one book is written at most: where nothing can be cut, the check fails.
const MAX_BOOK_TIME: Duration = Duration::from_secs(180);

/// How long a node waits for a lease that nobody keeps: it is given to another after eight seconds.
const TAKEOVER_TIME: Duration = Duration::from_secs(60);

/// How long a lease that somebody keeps must stay with them.
const KEPT_TIME: Duration = Duration::from_secs(10);

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds of each anomaly.
    pub rounds: usize,
    /// Commits of the crash book whose connections are cut.
    pub cuts: u64,
}

/// What the suite found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The anomalies of the engine.
    pub anomalies: Vec<Anomaly>,
    /// Those of the control, whose transactions are not validated: all but the first must be found.
    pub control_anomalies: Vec<Anomaly>,
    /// The crash book, with connections cut at their commits.
    pub book: Book,
    /// How many were cut.
    pub cuts: u64,
    /// Commits that were not answered: resolved as stored, as not stored, and not at all.
    pub unanswered: [u64; 3],
    /// The book of the control, which repeats what was not answered: it must not be sound.
    pub control_book: Book,
    /// Taking over the lease.
    pub lease: LeaseCheck,
}

/// What came of two nodes that both want the lease.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseCheck {
    /// A second one did not get it while the first was there, and got it when that left.
    pub second_waits: bool,
    /// Another got it when one was silent.
    pub silent_is_replaced: bool,
    /// The background work of the silent one was refused afterwards,
    pub replaced_is_fenced: bool,
    /// and its other writes were not.
    pub replaced_goes_on: bool,
    /// The control, which writes without asking for the lease, was not refused.
    pub control_is_stored: bool,
}

impl LeaseCheck {
    /// Returns whether at most one node does the background work at a time.
    pub fn is_right(&self) -> bool {
        self.second_waits
            && self.silent_is_replaced
            && self.replaced_is_fenced
            && self.replaced_goes_on
    }
}

impl Report {
    /// Returns what is wrong with the database, a line each; none if it can hold a store.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for Anomaly { name, rounds, found } in &self.anomalies {
            if *found > 0 {
                problems
                    .push(format!("transactions are not isolated: {name}, {found} of {rounds}"));
            }
        }
        // The database refuses the second of two updates of one row at that level, too.
        for Anomaly { name, found, .. } in self.control_anomalies.iter().skip(1) {
            if *found == 0 {
                problems.push(format!(
                    "the check is blind: {name} was not found at REPEATABLE READ, where it must be"
                ));
            }
        }
        if !self.book.is_sound() {
            let Book { lost, repeated, torn, .. } = self.book;
            problems.push(format!(
                "acknowledged writes are wrong after failures: {lost} lost, {repeated} repeated, \
                 {torn} torn"
            ));
        }
        let [committed, not_committed, _] = self.unanswered;
        if committed == 0 || not_committed == 0 {
            problems.push("the check is blind: no commit was cut on both sides of it".into());
        }
        if self.control_book.is_sound() {
            problems.push(
                "the check is blind: repeating commits that were not answered did no harm".into(),
            );
        }
        if !self.lease.is_right() {
            problems.push(format!("two nodes can have the lease at once: {:?}", self.lease));
        }
        if !self.lease.control_is_stored {
            problems.push("the check is blind: writes without the lease did no harm".into());
        }
        problems
    }
}

/// The database that is examined.
struct Examined<'a> {
    url: &'a PostgresUrl,
    schema: String,
}

impl Examined<'_> {
    fn open(&self, url: &PostgresUrl, control: Option<Control>) -> Result<Arc<Postgres>> {
        self.open_as(url, control, None)
    }

    fn open_as(
        &self,
        url: &PostgresUrl,
        control: Option<Control>,
        node: Option<Node>,
    ) -> Result<Arc<Postgres>> {
        let settings = PostgresSettings {
            schema: Some(self.schema.clone()),
            node,
            control,
            ..PostgresSettings::new(url.clone(), vec![TABLE])
        };
        Postgres::open(settings, Arc::<Signals>::default(), &|_| {}).map(Arc::new)
    }
}

/// Runs the suite against a database. `progress` gets a line for each step. Blocks, for a minute or
/// a few.
///
/// # Errors
/// If the database cannot be reached or used.
pub fn run_suite(url: &PostgresUrl, effort: Effort, progress: &dyn Fn(&str)) -> Result<Report> {
    let schema = format!("roadstead_check_{}", hex(&Clock::system().random::<4>()));
    let examined = Examined { url, schema };
    let first = examined.open(url, None)?;
    let report = examine(&examined, &first, effort, progress);
    progress("removing what was written");
    let removed = first.drop_schema();
    progress("");
    let report = report?;
    removed.map(|()| report)
}

fn examine(
    examined: &Examined,
    engine: &Arc<Postgres>,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> Result<Report> {
    let shared: Arc<dyn Engine> = engine.clone();
    let found = anomalies(&shared, effort.rounds, progress)?;
    progress("control: REPEATABLE READ");
    let control: Arc<dyn Engine> = examined.open(examined.url, Some(Control::RepeatableRead))?;
    let control_anomalies =
        anomalies(&control, CONTROL_ROUNDS, &|line| progress(&format!("control: {line}")))?;
    drop(control);
    let (book, cuts, unanswered) = book(examined, engine, None, effort.cuts, progress)?;
    let repeats = Some(Control::RepeatUnanswered);
    let (control_book, ..) = self::book(examined, engine, repeats, effort.cuts.min(40), progress)?;
    progress("the lease");
    let mut lease = lease(examined)?;
    progress("control: the lease");
    lease.control_is_stored = !is_fenced(examined, Control::Unfenced)?.2;
    Ok(Report { anomalies: found, control_anomalies, book, cuts, unanswered, control_book, lease })
}

/// Writes a book through a proxy that cuts, and compares it with what is stored.
fn book(
    examined: &Examined,
    engine: &Arc<Postgres>,
    control: Option<Control>,
    cuts: u64,
    progress: &dyn Fn(&str),
) -> Result<(Book, u64, [u64; 3])> {
    let name = if control.is_some() { "control" } else { "book" };
    let proxy = CuttingProxy::start(examined.url)?;
    let through = examined.open(&proxy.url(examined.url), control)?;
    let writing: Arc<dyn Engine> = through.clone();
    let begun = Instant::now();
    proxy.cut_one_of(CUT_ONE_OF);
    let entries = write_book(&writing, name, WRITERS, &|steps| {
        progress(&format!("crash {name}: {steps} steps, {} of {cuts} cuts", proxy.cuts()));
        proxy.cuts() >= cuts || begun.elapsed() > MAX_BOOK_TIME
    })?;
    proxy.cut_one_of(0);
    let book = Book::compare(&**engine, name, &entries)?;
    let counted = through.unanswered();
    let unanswered = [&counted.committed, &counted.not_committed, &counted.unknown];
    Ok((book, proxy.cuts(), unanswered.map(|count| count.load(Ordering::Relaxed))))
}

/// Has two nodes want the lease.
fn lease(examined: &Examined) -> Result<LeaseCheck> {
    let first = examined.open_as(examined.url, None, Some(node("a")))?;
    let is_held = work_lease(&first, TAKEOVER_TIME).is_some();
    let second = examined.open_as(examined.url, None, Some(node("b")))?;
    let is_kept = work_lease(&second, KEPT_TIME).is_none() && first.leases().borrow().is_some();
    drop(first);
    let second_waits = is_held && is_kept && work_lease(&second, TAKEOVER_TIME).is_some();
    drop(second);
    let (silent_is_replaced, replaced_goes_on, replaced_is_fenced) =
        is_fenced(examined, Control::Silent)?;
    Ok(LeaseCheck {
        second_waits,
        silent_is_replaced,
        replaced_is_fenced,
        replaced_goes_on,
        control_is_stored: false,
    })
}

/// Has a node replaced that is silent. Returns whether another one got its lease, whether it could
/// still write, and whether its background work was refused.
fn is_fenced(examined: &Examined, control: Control) -> Result<(bool, bool, bool)> {
    let put = |engine: &dyn Engine, key: &'static [u8], value: &'static [u8]| {
        attempt(engine, move |_| {
            let mut writes = WriteBatch::default();
            writes.add(TABLE, key.to_vec(), WriteOp::Put(value.to_vec()));
            Ok(writes)
        })
    };
    let silent = examined.open_as(examined.url, Some(control), Some(node("c")))?;
    let Some(old) = work_lease(&silent, TAKEOVER_TIME) else { return Ok((false, false, false)) };
    put(&*old.engine, b"work", b"c")?;
    let next = examined.open_as(examined.url, None, Some(node("d")))?;
    let Some(new) = work_lease(&next, TAKEOVER_TIME) else { return Ok((false, false, false)) };
    put(&*new.engine, b"work", b"d")?;
    let is_refused = put(&*old.engine, b"work", b"late").is_err();
    let goes_on = put(&*silent, b"request", b"c").is_ok();
    let stored = value(&*next.snapshot(), b"work")?;
    Ok((true, goes_on, is_refused && stored.as_deref() == Some(b"d")))
}

fn node(name: &str) -> Node {
    Node::new("check", name)
}

/// Waits until a node has the lease.
fn work_lease(node: &Postgres, time: Duration) -> Option<WorkLease> {
    let (leases, until) = (node.leases(), Instant::now() + time);
    loop {
        let lease = leases.borrow().clone();
        if lease.is_some() || Instant::now() >= until {
            return lease;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
