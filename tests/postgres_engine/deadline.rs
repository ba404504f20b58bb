//! An attempt that takes longer than its caller waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use roadstead::store::engine::Engine as _;
use roadstead::store::engine::conformance::TABLE;

use super::{commit, get, put};
use crate::open;
use crate::postgres_server::{new_schema, shared};

/// Attempts have 25 seconds; with all its reads this one would take a minute.
const READS: u32 = 120;
const PAUSE: Duration = Duration::from_millis(500);

#[test]
fn an_attempt_whose_time_is_over_ends_at_its_next_read_and_writes_nothing() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let (begun, runs) = (Instant::now(), Arc::<AtomicUsize>::default());
    let counted = runs.clone();
    let end = commit(&engine, move |reader| {
        counted.fetch_add(1, Ordering::SeqCst);
        for nth in 0..READS {
            reader.get(TABLE, format!("absent {nth}").as_bytes(), &mut |_| Ok(()))?;
            // Its time is what is tested.
            thread::sleep(PAUSE);
        }
        Ok(put(&[("late", b"")]))
    });
    let error = end.unwrap_err();
    assert!(error.message().contains("reading took too long"), "{error:?}");
    assert!(begun.elapsed() < READS * PAUSE - Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(get(&*engine.snapshot(), b"late"), None);
}
