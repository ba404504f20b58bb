//! The runner over a store in memory, whose clock the tests move.

mod channels;
mod dead;
mod deliveries;
mod due_scan;
mod harness;
mod misdated;

use serde_json::json;

use super::*;
use crate::base::Time;
use crate::outbox::jobs::Target;
use crate::outbox::{About, Event, EventType, TABLES, dead_jobs, enqueue, publish};
use crate::outside::{self, Call, Failure, mail};
use crate::store::{Clock, ListSource, View};

const NOON: Time = Time::from_millis(1_800_000_000_000);

/// A job that publishes one event each time it is executed.
const DONE: JobHandler = JobHandler {
    kind: "test.done",
    prepare: |tx, _| leave_event(tx).map(|()| Prepared::Done),
    settle: |_, _, _| Ok(Settled::Done),
};
/// A job whose handler fails.
const BROKEN: JobHandler = JobHandler {
    kind: "test.broken",
    prepare: |_, _| Err(Error::internal("it cannot be done")),
    settle: |_, _, _| Ok(Settled::Done),
};

/// A job for which there is no place now.
const BUSY: JobHandler = JobHandler {
    kind: "test.busy",
    prepare: |_, _| Err(Error::busy("overloaded", "too much waits", 1)),
    settle: |_, _, _| Ok(Settled::Done),
};

/// A job that calls somebody, and whose result has no place.
const SENT: JobHandler = JobHandler {
    kind: "test.sent",
    prepare: |_, _| Ok(Prepared::Effect(Effect::Call(Box::new(call(URLS[0]))))),
    settle: |_, _, _| Err(Error::busy("overloaded", "too much waits", 1)),
};

/// A job with costly work that publishes an event.
const WORK: JobHandler = JobHandler {
    kind: "test.work",
    prepare: |_, _| Ok(Prepared::Effect(Effect::Work(Box::new(|| Box::new(leave_event))))),
    settle: |_, _, _| Ok(Settled::Done),
};

/// A job with work that has a fault.
const PANIC: JobHandler = JobHandler {
    kind: "test.panic",
    prepare: |_, _| Ok(Prepared::Effect(Effect::Work(Box::new(|| panic!("as scripted"))))),
    settle: |_, _, _| Ok(Settled::Done),
};

/// A job with two calls, which publishes an event for each result, and has something for the log.
const CALLS: JobHandler = JobHandler {
    kind: "test.calls",
    prepare: |_, _| {
        let calls = URLS.map(call);
        Ok(Prepared::Effect(Effect::Calls(Calls {
            calls: calls.into(),
            total: Duration::from_secs(5),
            goes_on: Box::new(|_, _| true),
        })))
    },
    settle: |tx, _, result| {
        let EffectResult::Answers(answers) = result else { panic!("it made calls") };
        for ((url, result), asked) in answers.iter().zip(URLS) {
            assert_eq!(url, asked);
            assert!(matches!(result.answer, Err(Failure::Address { .. })), "{result:?}");
            leave_event(tx)?;
        }
        Ok(Settled::Warning("a warning".into()))
    },
};

fn call(url: &str) -> Call {
    Call {
        method: outside::Method::GET,
        url: url.into(),
        headers: vec![],
        body: vec![],
        limits: outside::Limits {
            total: Duration::from_secs(5),
            answer: outside::BodyLimit::Ignored,
            https_only: false,
        },
    }
}

/// Two addresses that may not be called.
const URLS: [&str; 2] = ["http://127.0.0.1/a", "http://127.0.0.2/b"];

fn leave_event(tx: &mut Tx) -> Result<()> {
    publish(tx, EventType::AgentError, About::resource("agent", tx.org()), json!({}))
}

fn org(number: u128) -> Id<Org> {
    Id::new(uuid::Uuid::from_u128(number))
}

fn runner() -> Runner {
    let store = Store::in_memory(Clock::at(NOON), TABLES);
    Runner {
        store,
        outside: outside::Outside::new(outside::ClientConfig::default()).unwrap(),
        mail: Arc::new(mail::NotConfigured),
        jobs: vec![&DONE, &BROKEN, &BUSY, &SENT, &WORK, &PANIC, &CALLS],
        workflows: vec![],
        sweeps: vec![],
        settings: RetentionSettings::default(),
        organizations: |_| Ok(vec![org(1), org(2)]),
        meters: Arc::default(),
    }
}

async fn write_job(runner: &Runner, handler: &'static JobHandler) {
    write_job_with_key(runner, handler, None).await;
}

async fn write_job_with_key(
    runner: &Runner,
    handler: &'static JobHandler,
    key: Option<Id<Target>>,
) {
    let now = runner.store.clock().now();
    let write = move |tx: &mut Tx| enqueue(tx, handler, Id::NIL, key, now);
    runner.store.write(org(1), write).await.unwrap();
}

fn jobs(runner: &Runner) -> Vec<Job> {
    assert_eq!(runner.store.check(TABLES).unwrap().messages, Vec::<String>::new());
    runner.store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &())).unwrap()
}

fn events(runner: &Runner, org: Id<Org>) -> usize {
    runner.store.read_now(org, |view| view.count::<Event>(ListSource::TABLE, &(), 9)).unwrap()
}

#[tokio::test]
async fn a_failing_job_is_retried_with_back_off_and_then_dead() {
    for handler in [&BROKEN, &JobHandler { kind: "test.without_handler", ..BROKEN }] {
        let runner = runner();
        write_job(&runner, handler).await;
        let mut waited = vec![];
        while let Some(job) = runner.lease_one().await {
            runner.execute(job).await;
            let secs = jobs(&runner)[0].due_at.secs() - runner.store.clock().now().secs();
            waited.push(secs);
            runner.store.clock().advance_secs(secs);
        }
        let delays = [5, 300, 1800, 7200, 18_000, 18_000, 18_000, 18_000];
        assert_eq!(waited[..delays.len()], delays);
        assert_eq!(waited.len(), delays.len() + 1, "the last attempt is not followed by any");
        assert!(jobs(&runner)[0].dead);
        assert_eq!(runner.store.read_now(Id::NIL, dead_jobs).unwrap(), 1);
        // It delays no other job.
        write_job(&runner, &DONE).await;
        runner.execute(runner.lease_one().await.unwrap()).await;
        assert_eq!((events(&runner, org(1)), jobs(&runner).len()), (1, 1));
    }
}

#[tokio::test]
async fn a_job_for_which_there_is_no_place_waits_and_is_not_counted_as_failed() {
    let runner = runner();
    write_job(&runner, &BUSY).await;
    for _ in 0..20 {
        runner.execute(runner.lease_one().await.unwrap()).await;
        runner.store.clock().advance_secs(5);
    }
    let job = &jobs(&runner)[0];
    assert_eq!((job.failures, job.failing_since, job.dead), (0, None, false));
}

#[tokio::test]
async fn what_was_done_and_cannot_be_settled_counts_as_failed_so_that_it_ends() {
    let runner = runner();
    write_job(&runner, &SENT).await;
    runner.execute(runner.lease_one().await.unwrap()).await;
    let job = &jobs(&runner)[0];
    assert_eq!((job.failures, job.failing_since), (1, Some(NOON)));
}

#[tokio::test]
async fn costly_work_takes_a_turn_and_a_panic_in_it_is_a_failure_of_the_job() {
    let runner = Arc::new(runner());
    write_job(&runner, &WORK).await;
    let job = runner.lease_one().await.unwrap();
    let turns = runner.store.take_turns().await;
    let own = runner.clone();
    let mut worked = tokio::spawn(async move { own.execute(job).await });
    assert!(timeout(Duration::from_millis(50), &mut worked).await.is_err(), "it has no turn");
    drop(turns);
    worked.await.unwrap();
    assert_eq!(events(&runner, org(1)), 1);

    write_job(&runner, &PANIC).await;
    runner.execute(runner.lease_one().await.unwrap()).await;
    assert_eq!(jobs(&runner)[0].failures, 1);
}

#[tokio::test]
async fn the_results_of_several_calls_are_settled_together_and_a_warning_is_logged() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let lines = tracing_subscriber::fmt().with_ansi(false);
    let lines = lines.with_writer(Arc::new(log.reopen().unwrap())).finish();
    let _logged = tracing::subscriber::set_default(lines);
    let runner = runner();
    write_job(&runner, &CALLS).await;
    runner.execute(runner.lease_one().await.unwrap()).await;
    let logged = std::fs::read_to_string(log.path()).unwrap();
    assert!(logged.contains("WARN") && logged.contains("a warning"), "{logged}");
    assert!(logged.contains("kind=\"test.calls\"") && logged.contains("org="), "{logged}");
    assert_eq!((events(&runner, org(1)), jobs(&runner).len()), (2, 0));
    // They deliver nothing, so they count for no delivery.
    let text = format!("{:?}", runner.meters.families());
    assert!(!text.contains("Number(2") && !text.contains("Number(1"), "{text}");
}

#[tokio::test]
async fn an_attempt_that_ends_after_its_lease_changes_nothing() {
    let runner = runner();
    write_job(&runner, &DONE).await;
    let late = runner.lease_one().await.unwrap();
    assert!(runner.lease_one().await.is_none());
    runner.store.clock().advance_secs(LEASE_SECS);
    let own = runner.lease_one().await.unwrap();
    runner.execute(late).await;
    assert_eq!((events(&runner, org(1)), jobs(&runner).len()), (0, 1));
    runner.execute(own).await;
    assert_eq!((events(&runner, org(1)), jobs(&runner).len()), (1, 0));
}

#[tokio::test]
async fn a_job_that_the_last_process_was_executing_is_due_at_the_start() {
    let runner = runner();
    write_job(&runner, &DONE).await;
    // Killed before it executed the job.
    let killed = runner.lease_one().await.unwrap();
    let later = runner.store.clock().now().plus_secs(30);
    let write = move |tx: &mut Tx| enqueue(tx, &DONE, Id::NIL, None, later);
    runner.store.write(org(1), write).await.unwrap();
    assert!(runner.lease_one().await.is_none());
    runner.end_old_leases().await.unwrap();
    let again = runner.lease_one().await.unwrap();
    assert_eq!((again.id, again.attempts), (killed.id, 2));
    // What was never tried is due when it was due.
    assert!(runner.lease_one().await.is_none());
}

#[tokio::test]
async fn a_sweep_that_fails_in_one_organization_continues_with_the_next() {
    const SWEEP: Sweep = Sweep {
        name: "test",
        every_secs: 1,
        run: |tx, _| {
            if tx.org() == org(1) {
                return Err(Error::internal("it cannot be swept"));
            }
            leave_event(tx).map(|()| SweepProgress::Clean)
        },
        installation: false,
    };
    let runner = runner();
    let (_stop, stopping) = watch::channel(false);
    runner.sweep_once(&SWEEP, &stopping).await.unwrap();
    assert_eq!([1, 2].map(|n| events(&runner, org(n))), [0, 1]);
}
