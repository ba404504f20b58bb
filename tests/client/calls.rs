//! What adapters in servers of this process, such as pages, have called: the routes, by the server.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The name of a server's threads, and a route.
static CALLS: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// What notes the calls.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let calls = Targets::new().with_target("roadstead::calls", LevelFilter::TRACE);
    <Calls as Layer<S>>::with_filter(Calls, calls)
}

/// The routes that the server with these threads has called, such as `GET /teams/{teamId}`.
pub fn of(threads: &str) -> BTreeSet<String> {
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let of_it = calls.iter().filter(|(name, _)| name == threads);
    of_it.map(|(_, route)| route.clone()).collect()
}

struct Calls;

impl<S: Subscriber> Layer<S> for Calls {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut call = Call::default();
        event.record(&mut call);
        let threads = thread::current().name().unwrap_or_default().to_string();
        let route = format!("{} {}", call.method, call.path);
        CALLS.lock().unwrap_or_else(PoisonError::into_inner).insert((threads, route));
    }
}

#[derive(Default)]
struct Call {
    method: String,
    path: String,
}

impl Visit for Call {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "method" => self.method = value.into(),
            "path" => self.path = value.into(),
            _ => {}
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
