//! What is counted in memory while requests are answered, and written from time to time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::api::execute::{self, Executor};
use crate::base::Id;
use crate::resources::organizations;

/// Periodically writes what is counted in memory, records erasures that nobody waits for, and drops
/// the state of idle clients.
pub async fn flush(executor: Arc<Executor>, mut stopping: watch::Receiver<bool>) {
    let mut last = false;
    while !last {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(execute::FLUSH_EVERY_SECS)) => {}
            _ = stopping.wait_for(|stopping| *stopping) => last = true,
        }
        executor.coordination.evict_idle();
        // The last time, whatever there is.
        while flush_key_usage(&executor).await && last {}
        while flush_session_usage(&executor).await && last {}
        flush_answer_sums(&executor).await;
        executor.store.record_rest_of_erasures().await;
    }
}

/// Writes some of the last uses of keys; returns whether there may be more, and they can be written.
async fn flush_key_usage(executor: &Executor) -> bool {
    let due = executor.key_usage.due();
    if due.is_empty() {
        return false;
    }
    let uses: Vec<_> = due.iter().map(|(key, at, ())| (*key, *at)).collect();
    let written =
        executor.store.write(Id::NIL, move |tx| organizations::record_key_usage(tx, &uses));
    if let Err(error) = written.await {
        executor.key_usage.restore(&due);
        tracing::warn!(%error, "the last uses of keys could not be written");
        return false;
    }
    true
}

/// Writes some of the last uses of sessions; returns whether there may be more, and they can be written.
async fn flush_session_usage(executor: &Executor) -> bool {
    let due = executor.session_usage.due();
    if due.is_empty() {
        return false;
    }
    let uses = due.clone();
    let written =
        executor.store.write(Id::NIL, move |tx| organizations::record_session_usage(tx, &uses));
    if let Err(error) = written.await {
        executor.session_usage.restore(&due);
        tracing::warn!(%error, "the last uses of sessions could not be written");
        return false;
    }
    true
}

/// Writes the sums of the answers stored for repeated requests.
async fn flush_answer_sums(executor: &Executor) {
    let due = executor.coordination.due_sums();
    if due.is_empty() {
        return;
    }
    let sums = due.clone();
    let written =
        executor.store.write(Id::NIL, move |tx| sums.iter().try_for_each(|sum| tx.put(sum)));
    if let Err(error) = written.await {
        executor.coordination.restore_sums(&due);
        tracing::warn!(%error, "the sums of stored answers could not be written");
    }
}
