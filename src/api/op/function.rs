//! The functions of operations, with and without outgoing calls.

use std::time::Duration;

use crate::api::calls::{Calls, Outcome};
use crate::api::request::Req;
use crate::base::Result;
use crate::store::{Tx, View};

/// A function that makes outgoing calls. Every constructor of an operation that takes a [`ReadFn`]
/// or a [`WriteFn`] takes one of these, too.
#[derive(Clone, Copy)]
pub struct Calling<F> {
    total: Duration,
    function: F,
}

/// Lets an operation make outgoing calls, which may take `total_secs` together. The function takes
/// [`Calls`] as its last argument; that of a write returns an [`Outcome`]. With 0 it makes none, but
/// may have costly work done or be done in parts.
pub const fn calling<F>(total_secs: u64, function: F) -> Calling<F> {
    Calling { total: Duration::from_secs(total_secs), function }
}

/// A function that reads: `fn(&View, &Req<P, I>) -> Result<T>`, or one [`calling`].
pub trait ReadFn<P, I, T>: Copy + Send + Sync + 'static {
    /// The time limit of its calls, if it makes any.
    fn calls_within(&self) -> Option<Duration> {
        None
    }

    /// Runs it.
    fn run(&self, view: &View, req: &Req<P, I>, calls: &mut Calls) -> Result<T>;
}

impl<P, I, T, F> ReadFn<P, I, T> for F
where
    F: Fn(&View, &Req<P, I>) -> Result<T> + Copy + Send + Sync + 'static,
{
    fn run(&self, view: &View, req: &Req<P, I>, _: &mut Calls) -> Result<T> {
        self(view, req)
    }
}

impl<P, I, T, F> ReadFn<P, I, T> for Calling<F>
where
    F: Fn(&View, &Req<P, I>, &mut Calls) -> Result<T> + Copy + Send + Sync + 'static,
{
    fn calls_within(&self) -> Option<Duration> {
        Some(self.total)
    }

    fn run(&self, view: &View, req: &Req<P, I>, calls: &mut Calls) -> Result<T> {
        (self.function)(view, req, calls)
    }
}

/// A function that writes: `fn(&mut Tx, &Req<P, I>) -> Result<T>`, or one [`calling`].
pub trait WriteFn<P, I, T>: Copy + Send + Sync + 'static {
    /// The time limit of its calls, if it makes any.
    fn calls_within(&self) -> Option<Duration> {
        None
    }

    /// Runs it.
    fn run(&self, tx: &mut Tx, req: &Req<P, I>, calls: &mut Calls) -> Result<Outcome<T>>;
}

impl<P, I, T, F> WriteFn<P, I, T> for F
where
    F: Fn(&mut Tx, &Req<P, I>) -> Result<T> + Copy + Send + Sync + 'static,
{
    fn run(&self, tx: &mut Tx, req: &Req<P, I>, _: &mut Calls) -> Result<Outcome<T>> {
        self(tx, req).map(Outcome::Done)
    }
}

impl<P, I, T, F> WriteFn<P, I, T> for Calling<F>
where
    F: Fn(&mut Tx, &Req<P, I>, &mut Calls) -> Result<Outcome<T>> + Copy + Send + Sync + 'static,
{
    fn calls_within(&self) -> Option<Duration> {
        Some(self.total)
    }

    fn run(&self, tx: &mut Tx, req: &Req<P, I>, calls: &mut Calls) -> Result<Outcome<T>> {
        (self.function)(tx, req, calls)
    }
}
