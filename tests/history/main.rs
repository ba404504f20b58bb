//! Histories of many writers: what was acknowledged is there, with its value, at once, after a
//! checkpoint, after a restart and after a kill, and nothing else is.
//!
//! Concurrent writers create organizations all the time and work at desks in old and new ones, with keys
//! that rise, fall or are scattered. Beside them a plain map has what was acknowledged; every list and
//! every item is compared with it.
//!
//! `ROADSTEAD_TEST_HISTORY=full` runs eight histories of ten million rows each, which takes hours
//! (`--release` makes it less); `ROADSTEAD_TEST_SEED` repeats the requests of a failed run, though not
//! their timing.

#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
#[path = "../cli/dice.rs"]
mod dice;
#[path = "../postgres_server/mod.rs"]
mod postgres_server;
#[allow(dead_code)] // A part is enough here.
#[path = "../cli/process.rs"]
mod process;

mod change;
mod desk;
mod model;
mod names;
mod reading;
mod server;
mod writer;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use desk::Desk;
use dice::Dice;
use model::{Kind, List, Model};
use serde_json::json;
use server::Server;
use writer::{Stop, Writer};

/// More than cores, so that commits are shared and requests conflict.
const WRITERS: usize = 8;

/// How often a history is written, compared and interrupted.
const PARTS: usize = 2;

/// Changes of each part: all that fit into two minutes of a debug build on two cores.
const CHANGES: usize = 2_500;

/// The same over PostgreSQL, where each takes many times as long.
const CHANGES_OVER_POSTGRES: usize = 250;

/// Records and entries of indexes that they write or remove.
const MIN_ROWS: u64 = 1_000_000;

/// So many times more make ten million rows.
const FULL: usize = 30;
const FULL_MIN_ROWS: u64 = 10_000_000;

/// Histories of such a run.
const FULL_SEEDS: usize = 8;

/// How many changes more are made before the server is killed.
const UNTIL_KILL: usize = 500;

/// Wakes of each agent, and how many are fetched at once.
const WAKES: usize = 240;
const AT_ONCE: usize = 20;

/// Each so many items are read by name; all are in the lists that are compared.
const SAMPLE: usize = 8;

fn is_full() -> bool {
    std::env::var("ROADSTEAD_TEST_HISTORY").is_ok_and(|value| value == "full")
}

fn writers(server: &Server, seed: &mut Dice) -> Vec<Writer> {
    (0..WRITERS).map(|n| Writer::new(server, n, Dice(seed.below(u64::MAX) | 1))).collect()
}

/// Lets all writers work at the same time. Why one stopped is noted as a fault.
fn at_once(
    server: &Server,
    writers: &mut [Writer],
    work: impl Fn(&mut Writer) -> Result<(), Stop> + Sync,
) {
    thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| {
                writer.connect(server);
                if matches!(work(writer), Err(Stop::Lost)) {
                    server.faults.note("the server is gone".into());
                }
            });
        }
    });
}

/// Lets all writers make so many random changes in all, as long as nothing is wrong.
fn write(server: &Server, writers: &mut [Writer], changes: usize) {
    let begun = AtomicUsize::new(0);
    at_once(server, writers, |writer| {
        while begun.fetch_add(1, Ordering::Relaxed) < changes && server.faults.count() == 0 {
            writer.step()?;
        }
        Ok(())
    });
}

/// Ends the database under the writers, in the middle of so many changes, and starts it again: they wait, or are
/// told that it is away and nothing is stored.
fn write_over_crash(server: &Server, writers: &mut [Writer], changes: usize) {
    let begun = AtomicUsize::new(0);
    at_once(server, writers, |writer| {
        loop {
            let nth = begun.fetch_add(1, Ordering::Relaxed);
            if nth >= changes || server.faults.count() > 0 {
                return Ok(());
            }
            if nth == changes / 2 {
                server.crash_database();
            }
            writer.step()?;
        }
    });
}

/// Kills the server under the writers after so many changes, and lets them repeat what was not answered.
fn write_until_killed(server: &mut Server, writers: &mut [Writer], changes: usize) {
    let (begun, pid) = (AtomicUsize::new(0), server.pid());
    writers.iter_mut().for_each(|writer| writer.is_careful = true);
    at_once(server, writers, |writer| {
        while server.faults.count() == 0 {
            if begun.fetch_add(1, Ordering::Relaxed) == changes {
                server.count_rows();
                server::kill(pid);
            }
            match writer.step() {
                Err(Stop::Lost) if begun.load(Ordering::Relaxed) > changes => break,
                done => done?,
            }
        }
        Ok(())
    });
    server.revive();
    at_once(server, writers, |writer| {
        writer.is_careful = false;
        writer.repeat()
    });
}

/// What all writers expect together.
fn together(server: &Server, writers: &[Writer]) -> Model {
    let mut model = Model::default();
    let members = List::new(Kind::Members, &server.owner, "/organizations/members");
    model.set(&members, &server.owner_id, &json!({"userId": server.owner_id, "role": "owner"}));
    writers.iter().for_each(|writer| model.add(&writer.model));
    model
}

/// Compares everything, and fails if anything is wrong.
fn compare(server: &mut Server, writers: &[Writer], stage: &str, nth: usize) {
    reading::everything(server, &together(server, writers), nth);
    let changes: usize = writers.iter().map(|writer| writer.acknowledged).sum();
    server.assert_sound(stage, &format!("{changes} changes acknowledged"));
}

/// Writes a history in which at least so many rows change.
fn history(seed: &mut Dice, changes: usize, min_rows: u64) {
    let mut server = Server::start();
    let mut writers = writers(&server, seed);
    for _ in 0..PARTS {
        write(&server, &mut writers, changes);
        compare(&mut server, &writers, "written", SAMPLE);
        server.checkpoint();
        compare(&mut server, &writers, "after a checkpoint", SAMPLE);
        server.restart();
        compare(&mut server, &writers, "after a restart", SAMPLE);
        write_until_killed(&mut server, &mut writers, UNTIL_KILL);
        compare(&mut server, &writers, "after a kill", SAMPLE);
    }
    server.checkpoint();
    compare(&mut server, &writers, "in the end", 1);
    let left = server.check();
    let rows = server.rows();
    server.assert_sound("checked", &format!("{rows} rows changed, {left} are left"));
    assert!(rows >= min_rows, "only {rows} rows changed; there should be {min_rows}");
}

/// Leases all wakes, changes a few other things between, and acknowledges.
fn lease_and_publish(writers: &mut [Writer]) -> Result<(), Stop> {
    let mut leased = vec![Vec::new(); writers.len()];
    for n in 0..WAKES / AT_ONCE * WRITERS {
        let at = n % WRITERS;
        let writer = &mut writers[at];
        leased[at].extend(writer.lease_wakes(0, AT_ONCE)?);
        if n % 10 == 9 {
            writer.change_at(0, |desk, _, dice| Some(desk.publish_new(dice)))?;
            writer.change_at(0, |desk, _, dice| Some(desk.create_agent(dice)))?;
            writer.change_at(0, |desk, model, dice| Some(desk.set_variable(model, dice)))?;
            writer.change_at(0, |desk, _, _| Some(desk.make_key()))?;
            writer.change_at(0, Desk::revoke_key)?;
        }
    }
    writers.iter_mut().zip(leased).try_for_each(|(writer, ids)| writer.acknowledge(0, &ids))
}

#[test]
fn what_is_written_between_many_wakes_is_there() {
    let mut server = Server::start();
    let mut writers = writers(&server, &mut Dice::new());
    at_once(&server, &mut writers, |writer| {
        writer.open_desk(server.owner.clone())?;
        for _ in 0..WAKES {
            writer.change_at(0, |desk, _, dice| Some(desk.send_message(dice)))?;
        }
        Ok(())
    });
    // What the next part of the log begins with is then only of wakes.
    server.checkpoint();
    // Why it stopped is noted as a fault.
    let _ = lease_and_publish(&mut writers);
    compare(&mut server, &writers, "written", 1);
    server.checkpoint();
    compare(&mut server, &writers, "after a checkpoint", 1);
    server.restart();
    compare(&mut server, &writers, "after a restart", 1);
    server.check();
    server.assert_sound("checked", "");
}

#[test]
fn everything_acknowledged_is_there_at_once_and_after_checkpoints_restarts_and_kills() {
    let mut seed = Dice::new();
    if !is_full() {
        return history(&mut seed, CHANGES, MIN_ROWS);
    }
    for _ in 0..FULL_SEEDS {
        history(&mut seed, FULL * CHANGES, FULL_MIN_ROWS);
    }
}

#[test]
fn over_postgres_everything_acknowledged_is_there_after_restarts_kills_and_crashes_of_the_database()
{
    let Some(mut server) = Server::over_postgres() else { return };
    let (parts, factor) = if is_full() { (PARTS, FULL) } else { (1, 1) };
    let changes = factor * CHANGES_OVER_POSTGRES;
    let mut writers = writers(&server, &mut Dice::new());
    for _ in 0..parts {
        write(&server, &mut writers, changes);
        compare(&mut server, &writers, "written", SAMPLE);
        write_over_crash(&server, &mut writers, changes);
        compare(&mut server, &writers, "after a crash of the database", SAMPLE);
        server.restart();
        write_until_killed(&mut server, &mut writers, changes / 2);
        compare(&mut server, &writers, "after a kill", SAMPLE);
    }
    compare(&mut server, &writers, "in the end", 1);
    let left = server.check();
    server.assert_sound("checked", &format!("{} rows changed, {left} are left", server.rows()));
}
