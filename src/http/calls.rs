//! Carrying out operations that need answers from outside, or searches that take long: run, make the
//! calls and searches that the run asked for, run again, until it asks for none. See
//! [`crate::api::Calls`].

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::Response;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use super::Reply;
use super::gate::Passing;
use super::write::{self, Repeatable};
use crate::api::{Asked, CallingRead, CallingWrite, Calls, Known, Named, Outcome, Search};
use crate::base::{Error, Result};
use crate::outside::Outside;

/// Calls of one request at a time: enough to fetch a list quickly, few enough not to look like an
/// attack to whoever is called.
const AT_ONCE: usize = 8;

/// How often an operation may ask for more: a list, its parts, and what judges say of them. An
/// operation whose questions never end is broken.
const MAX_ROUNDS: usize = 16;

/// When the server stops, calls under way get so long: less than requests in flight do, so that
/// whoever waits for them still hears that they were given up.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// What is under way with an `Idempotency-Key` and still calls outside: until it is done, nothing
/// says so in the store.
#[derive(Default)]
pub struct UnderWay(Mutex<HashSet<[u8; 32]>>);

/// The place of one request among those under way.
struct Turn<'a>(&'a UnderWay, [u8; 32]);

impl UnderWay {
    fn begin(&self, request: [u8; 32]) -> Result<Turn<'_>> {
        match self.0.lock().expect("nobody panics holding it").insert(request) {
            true => Ok(Turn(self, request)),
            false => Err(Error::conflict(
                "still_under_way",
                "the first request with this Idempotency-Key is still under way; repeat it later",
            )
            .retry_after(1)),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.0.lock().expect("nobody panics holding it").remove(&self.1);
    }
}

/// Requests that search at a time: on a small machine more would starve everybody else.
const SEARCHING_AT_ONCE: usize = 2;

/// Who waits longer for a place to search gets 503.
const SEARCH_WAIT: Duration = Duration::from_secs(5);

/// One request may search so long. A search is not broken off; the next is not begun.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// Where searches are made: on threads of their own, never in a transaction.
pub struct Searches(Arc<Semaphore>);

impl Default for Searches {
    fn default() -> Self {
        Searches(Arc::new(Semaphore::new(SEARCHING_AT_ONCE)))
    }
}

impl Searches {
    /// What came of each of these searches, in their order.
    ///
    /// # Errors
    /// 503 when there was no place to make them, or no time to make them all.
    async fn make(&self, searches: Vec<Search>) -> Result<Vec<bool>> {
        let Ok(Ok(place)) = timeout(SEARCH_WAIT, self.0.clone().acquire_owned()).await else {
            return Err(Error::busy("overloaded", "too many texts are examined; try again", 5));
        };
        let found = tokio::task::spawn_blocking(move || {
            // Who hangs up meanwhile makes no room for another.
            let _place = place;
            let begin = Instant::now();
            let in_time = |search: Search| match begin.elapsed() < SEARCH_TIME {
                true => search(),
                false => Err(Error::busy(
                    "too_slow",
                    "the patterns of the policies take more than 10 s for this text; shorten \
                     either, or try again when the server has less to do",
                    10,
                )),
            };
            searches.into_iter().map(in_time).collect()
        });
        found.await.map_err(|e| Error::internal(format!("searching failed: {e}")))?
    }
}

/// What was heard so far, and until when there is time to hear more.
struct Errand<'a> {
    outside: &'a Outside,
    searches: &'a Searches,
    stopping: watch::Receiver<bool>,
    known: Known,
    total: Duration,
    /// From the first call on: the store may have let us wait before.
    deadline: Option<Instant>,
}

impl Errand<'_> {
    async fn run(&mut self, asked: Asked) -> Result<()> {
        if !asked.searches.is_empty() {
            let (tags, searches): (Vec<_>, Vec<_>) = asked.searches.into_iter().unzip();
            let found = self.searches.make(searches).await?;
            Arc::make_mut(&mut self.known.found).extend(tags.into_iter().zip(found));
        }
        if !asked.calls.is_empty() {
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.total);
            let (tags, calls): (Vec<_>, Vec<_>) = asked.calls.into_iter().unzip();
            let stopping = &mut self.stopping;
            let stopped = async {
                let _ = stopping.wait_for(|stopping| *stopping).await;
                sleep(AFTER_STOP).await;
            };
            let heard = tokio::select! {
                heard = self.outside.send_all(calls, AT_ONCE, deadline) => heard,
                () = stopped => return Err(Error::busy("stopping", "the server is stopping", 5)),
            };
            Arc::make_mut(&mut self.known.heard).extend(tags.into_iter().zip(heard));
        }
        Ok(())
    }
}

/// A read. With an `Idempotency-Key` it is answered as before, and so it is written.
pub(super) async fn read(
    passing: &Passing<'_>,
    operation: CallingRead,
    total: Duration,
    named: &Named,
    repeatable: Option<Repeatable>,
) -> Result<Response<Reply>> {
    if repeatable.is_some() {
        let asking: CallingWrite =
            Box::new(move |tx, who, calls| operation(&tx.view(), who, calls).map(Outcome::Done));
        return write(passing, asking, total, named, repeatable).await;
    }
    let mut errand = errand(passing, total);
    for _ in 0..MAX_ROUNDS {
        let mut calls = Calls::new(errand.known.clone());
        let answer = passing.read(named, |view, who| operation(view, who, &mut calls));
        let asked = calls.into_asked();
        if asked.is_empty() {
            return answer.map(|answer| passing.conditional(answer.body));
        }
        errand.run(asked).await?;
    }
    Err(endless())
}

/// A write.
pub(super) async fn write(
    passing: &Passing<'_>,
    operation: CallingWrite,
    total: Duration,
    named: &Named,
    repeatable: Option<Repeatable>,
) -> Result<Response<Reply>> {
    // Where nobody outside is asked, the store alone puts repeats in a row.
    let mut turn = None;
    let operation = Arc::new(Mutex::new(operation));
    let mut errand = errand(passing, total);
    for _ in 0..MAX_ROUNDS {
        let asked = Arc::new(Mutex::new(Asked::default()));
        let attempt: write::Operation = {
            let (operation, known) = (operation.clone(), errand.known.clone());
            let asked = asked.clone();
            Box::new(move |tx, who| {
                let mut calls = Calls::new(known.clone());
                let mut operation = operation.lock().map_err(|_| endless())?;
                let outcome = operation(tx, who, &mut calls);
                let mut asked = asked.lock().map_err(|_| endless())?;
                *asked = calls.into_asked();
                // What was asked is not known yet: nothing of this attempt may stay.
                if asked.is_empty() { outcome } else { Err(endless()) }
            })
        };
        let answer = write::write(passing, attempt, named, repeatable, None).await;
        let asked = std::mem::take(&mut *asked.lock().map_err(|_| endless())?);
        if asked.is_empty() {
            return answer;
        }
        if let (None, Some(this)) = (&turn, repeatable) {
            turn = Some(passing.context.under_way.begin(this.request)?);
        }
        errand.run(asked).await?;
    }
    Err(endless())
}

fn errand<'a>(passing: &Passing<'a>, total: Duration) -> Errand<'a> {
    let context = passing.context;
    let (outside, searches) = (&context.outside, &context.searches);
    let stopping = context.stopping.clone();
    Errand { outside, searches, stopping, known: Known::default(), total, deadline: None }
}

fn endless() -> Error {
    Error::internal("an operation goes on asking for calls, or broke while it did")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_hangs_up_makes_no_room_for_another_search_before_theirs_ends() {
        let searches = Searches::default();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let search: Search = Box::new(move || Ok(ended.recv().is_err()));
        let made = Box::pin(searches.make(vec![search]));
        assert!(timeout(Duration::ZERO, made).await.is_err());
        assert_eq!(searches.0.available_permits(), SEARCHING_AT_ONCE - 1);
        drop(end);
        assert!(searches.0.acquire_many(SEARCHING_AT_ONCE as u32).await.is_ok());
    }
}
