//! The newest durable state.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use tokio::sync::Notify;

use crate::store::engine::Reader;

/// A durable state and the number of the commit that made it.
#[derive(Clone)]
pub(super) struct State {
    pub reader: Arc<dyn Reader>,
    pub number: u64,
}

/// The newest durable state, shared by all readers.
#[derive(Clone)]
pub(super) struct CurrentSnapshot(Arc<Shared>);

struct Shared {
    state: RwLock<State>,
    /// Whether opening the storage anew has failed, and there was no other reader since.
    is_given_up: AtomicBool,
    /// Notified of each other reader.
    changed: Notify,
}

impl CurrentSnapshot {
    /// Begins with this one.
    pub fn new(reader: Arc<dyn Reader>) -> Self {
        let state = RwLock::new(State { reader, number: 0 });
        let (is_given_up, changed) = (AtomicBool::new(false), Notify::new());
        CurrentSnapshot(Arc::new(Shared { state, is_given_up, changed }))
    }

    /// The newest state, as of now.
    pub fn get(&self) -> State {
        self.0.state.read().expect("no thread panics while holding it").clone()
    }

    /// Replaces the current state; returns the number of the new one.
    pub fn set(&self, reader: Arc<dyn Reader>) -> u64 {
        let mut state = self.0.state.write().expect("no thread panics while holding it");
        let next = State { reader, number: state.number + 1 };
        let old = std::mem::replace(&mut *state, next);
        drop(state);
        self.notify(false);
        // The old reader is dropped after the lock is released.
        old.number + 1
    }

    /// Replaces the reader of the current state by another one of the same state.
    pub fn replace(&self, reader: Arc<dyn Reader>) {
        let mut state = self.0.state.write().expect("no thread panics while holding it");
        let old = std::mem::replace(&mut state.reader, reader);
        drop(state);
        self.notify(false);
        drop(old);
    }

    /// Says that the storage could not be opened anew: nobody waits for another reader then.
    pub fn give_up(&self) {
        self.notify(true);
    }

    fn notify(&self, is_given_up: bool) {
        self.0.is_given_up.store(is_given_up, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Waits for another reader than this one; `None` if the storage cannot be opened anew.
    pub async fn after(self, reader: Arc<dyn Reader>) -> Option<Arc<dyn Reader>> {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            // From here on, no change is missed.
            changed.as_mut().enable();
            let newest = self.get().reader;
            if !Arc::ptr_eq(&newest, &reader) {
                return Some(newest);
            }
            if self.0.is_given_up.load(Ordering::SeqCst) {
                return None;
            }
            changed.await;
        }
    }
}
