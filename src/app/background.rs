//! The background work of a server: the runner with its sweeps, and the chains of the audit logs. Of
//! several servers over one store one does it, the one that has the lease.

use tokio::sync::watch;

use super::audit;
use crate::outbox::runner::Runner;
use crate::store::Store;
use crate::store::engine::{WorkLease, WorkLeases};

/// Does the background work until `stopping` becomes true: with `leases`, whenever this server has
/// the lease.
pub(super) async fn run(
    runner: Runner,
    leases: Option<WorkLeases>,
    mut stopping: watch::Receiver<bool>,
) {
    let Some(mut leases) = leases else { return work(runner, stopping).await };
    while !*stopping.borrow() {
        let lease = tokio::select! {
            lease = held(&mut leases) => lease,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let store = runner.store.through(lease.engine.clone());
        let own = Runner { store, ..runner.clone() };
        tokio::select! {
            () = work(own, stopping.clone()) => break,
            // What is under way is dropped: nothing of it could be stored.
            () = ended(&mut leases, &lease) => {}
        }
    }
}

/// Returns the store to do the background work with that is left when the server has answered its
/// last request; none if another server does it.
pub(super) fn store_for_rest(store: &Store, leases: Option<&WorkLeases>) -> Option<Store> {
    let Some(leases) = leases else { return Some(store.clone()) };
    leases.borrow().as_ref().map(|lease| store.through(lease.engine.clone()))
}

async fn work(runner: Runner, stopping: watch::Receiver<bool>) {
    let store = runner.store.clone();
    tokio::join!(audit::chain(store, stopping.clone()), runner.run(stopping));
}

async fn held(leases: &mut WorkLeases) -> WorkLease {
    match leases.wait_for(Option::is_some).await.map(|lease| lease.clone()) {
        Ok(Some(lease)) => lease,
        // The store is closed.
        _ => std::future::pending().await,
    }
}

async fn ended(leases: &mut WorkLeases, lease: &WorkLease) {
    let _ = leases.wait_for(|now| now.as_ref() != Some(lease)).await;
}
