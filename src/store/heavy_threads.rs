//! Threads for costly work.
//!
//! They have a lower priority than those that serve requests and commit writes. They are few, and
//! the same few are used again, also because each has memory of its own that the allocator keeps for
//! it: the threads of the runtime would take turns at the work, and each would keep what it needed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::oneshot;

use crate::base::{Error, Result};

/// The priority of the threads, added to the process's: a third of the processor time of another
/// thread, where both want it. They must not starve either: others wait for what they do.
const NICENESS: i32 = 5;

/// Work that returns how to report its result. It is reported when the thread can take other work.
type Job = Box<dyn FnOnce() -> Report + Send>;
type Report = Box<dyn FnOnce() + Send>;

/// Work for a thread, with the way to send it more.
struct Message {
    job: Job,
    again: Sender<Message>,
}

/// Threads for costly work, as many as have been needed at once. Idle ones end with this.
#[derive(Default)]
pub struct HeavyThreads {
    /// The threads without work; the one that was used last is used next.
    idle: Arc<Idle>,
}

type Idle = Mutex<Vec<Sender<Message>>>;

fn lock(idle: &Idle) -> MutexGuard<'_, Vec<Sender<Message>>> {
    idle.lock().expect("no thread panics while holding it")
}

impl HeavyThreads {
    /// Runs work on one of the threads. A panic in it continues here.
    ///
    /// # Errors
    /// If no thread can be started.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (reply, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            Box::new(move || drop(reply.send(result)))
        });
        let idle = lock(&self.idle).pop();
        let thread = idle.map_or_else(|| start(Arc::downgrade(&self.idle)), Ok)?;
        let ended = |_| Error::internal("a thread ended with its work undone");
        thread.send(Message { job, again: thread.clone() }).map_err(|_| ended(()))?;
        let result = result.await.map_err(|_| ended(()))?;
        Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

/// Starts a thread, which adds itself to `idle` after each job and ends when that is gone.
fn start(idle: Weak<Idle>) -> Result<Sender<Message>> {
    let (sender, jobs) = channel::<Message>();
    let serve = move || {
        lower_priority();
        while let Ok(Message { job, again }) = jobs.recv() {
            let report = job();
            if let Some(idle) = idle.upgrade() {
                lock(&idle).push(again);
            }
            report();
        }
    };
    let started = std::thread::Builder::new().name("heavy".into()).spawn(serve);
    started.map_err(|e| Error::internal(format!("a thread cannot be started: {e}")))?;
    Ok(sender)
}

/// Lowers the priority of the calling thread, for all its life.
pub fn lower_priority() {
    // Elsewhere it would be that of the process. Without it, work is still done.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread::{ThreadId, current};

    use super::*;

    async fn thread_id(threads: &HeavyThreads) -> ThreadId {
        threads.run(|| current().id()).await.unwrap()
    }

    #[tokio::test]
    async fn the_same_thread_is_used_again_and_not_the_callers() {
        let threads = HeavyThreads::default();
        let mut used = HashSet::new();
        for _ in 0..20 {
            used.insert(thread_id(&threads).await);
        }
        assert_eq!(used.len(), 1);
        assert!(!used.contains(&current().id()));
    }

    #[tokio::test]
    async fn work_that_is_needed_at_once_gets_a_thread_each() {
        let threads = HeavyThreads::default();
        let both = Arc::new(Barrier::new(2));
        let meet = |both: Arc<Barrier>| threads.run(move || both.wait().is_leader());
        let (one, other) = tokio::join!(meet(both.clone()), meet(both));
        assert_ne!(one.unwrap(), other.unwrap());
        assert_eq!(lock(&threads.idle).len(), 2);
    }

    #[tokio::test]
    async fn a_panic_is_the_callers_and_the_thread_goes_on() {
        let threads = Arc::new(HeavyThreads::default());
        let before = thread_id(&threads).await;
        let panicking = threads.clone();
        let task = tokio::spawn(async move { panicking.run(|| panic!("on purpose")).await });
        assert!(task.await.unwrap_err().is_panic());
        assert_eq!(thread_id(&threads).await, before);
    }

    #[tokio::test]
    async fn idle_threads_end_with_their_owner() {
        let (sender, ended) = oneshot::channel::<()>();
        let threads = HeavyThreads::default();
        // Dropped when the thread ends.
        thread_local!(static HELD: std::cell::RefCell<Option<oneshot::Sender<()>>> = const { std::cell::RefCell::new(None) });
        threads.run(move || HELD.set(Some(sender))).await.unwrap();
        drop(threads);
        assert!(ended.await.is_err());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn its_threads_have_a_lower_priority_than_others() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let here = priority();
        let there = HeavyThreads::default().run(priority).await.unwrap();
        assert_eq!((there, priority()), ((here + NICENESS).min(19), here));
    }
}
