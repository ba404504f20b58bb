//! Several requests at a time, but not all at once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// The requests in flight at once: they hide the time of the network, and leave the server to others.
const AT_ONCE: usize = 8;

/// Does the work for one item after the other.
type Worker<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + 'a>>;

/// Does the work for every item, for at most 8 at a time, and returns the results in the order of the
/// items.
///
/// # Errors
/// The first failure; the work for other items is dropped.
pub async fn all<T, R, E>(
    items: &[T],
    work: impl AsyncFn(&T) -> Result<R, E>,
) -> Result<Vec<R>, E> {
    let next = Cell::new(0);
    let mut results: Vec<Option<R>> = Vec::new();
    results.resize_with(items.len(), || None);
    let results = RefCell::new(results);
    let worker = async || {
        loop {
            let at = next.get();
            let Some(item) = items.get(at) else { return Ok(()) };
            next.set(at + 1);
            let result = work(item).await?;
            results.borrow_mut()[at] = Some(result);
        }
    };
    let mut workers: Vec<Worker<'_, E>> = Vec::new();
    for _ in 0..AT_ONCE.min(items.len()) {
        workers.push(Box::pin(worker()));
    }
    poll_fn(|context| {
        let mut at = 0;
        while let Some(worker) = workers.get_mut(at) {
            match worker.as_mut().poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(())) => drop(workers.swap_remove(at)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        if workers.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await?;
    drop(workers);
    Ok(results.into_inner().into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_are_in_order_and_few_are_in_flight() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let items: Vec<usize> = (0..50).collect();
        let work = async |item: &usize| {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            for _ in 0..50 - item {
                tokio::task::yield_now().await;
            }
            running.set(running.get() - 1);
            Ok::<_, ()>(item * 2)
        };
        let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(all(&items, work).await, Ok(doubled));
        assert_eq!((running.get(), most.get()), (0, AT_ONCE));
    }

    #[tokio::test]
    async fn the_first_failure_ends_it() {
        let done = Cell::new(0);
        let items: Vec<usize> = (0..50).collect();
        let work = async |item: &usize| {
            done.set(done.get() + 1);
            if *item == 20 { Err(*item) } else { Ok(()) }
        };
        assert_eq!(all(&items, work).await, Err(20));
        assert_eq!(done.get(), 21);
        assert_eq!(all(&[], async |_: &usize| Ok::<_, ()>(())).await, Ok(Vec::new()));
    }
}
