//! The export of spans while a server runs, and at its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::base::Result;
use crate::outside::{ClientConfig, Resolver, Service, SpanExporter, SpanTarget, Spans};
use crate::store::Store;

/// Time to send what is queued at the end, after the 8 s for connections: all of it has 10 s.
const REST: Duration = Duration::from_millis(1500);

/// The exporter of the spans of a server with these settings; none if it has no collector.
pub(super) fn exporter(
    target: Option<&SpanTarget>,
    (calls, resolver): (ClientConfig, Resolver),
    public_url: Option<&str>,
    store: &Store,
) -> Result<Option<SpanExporter>> {
    let Some(target) = target.cloned() else { return Ok(None) };
    tracing::info!(collector = target.host(), "spans of requests and calls are exported");
    let service = Service::new(store.clock().new_id().to_string(), public_url);
    let store = store.clone();
    let clock = move || (store.clock().now_nanos(), store.clock().random());
    let spans = Arc::new(Spans::new(Box::new(clock)));
    SpanExporter::new(spans, target, service, (calls, resolver)).map(Some)
}

/// Exports spans until the last request is answered, and then the rest.
pub(super) async fn export(exporter: Option<SpanExporter>, served: watch::Receiver<bool>) {
    if let Some(exporter) = exporter {
        exporter.export(served).await;
    }
}

/// Waits for the rest, but no longer than there is time.
pub(super) async fn end(mut exporting: JoinHandle<()>) {
    if tokio::time::timeout(REST, &mut exporting).await.is_err() {
        exporting.abort();
        tracing::warn!("the last spans could not be exported in time");
    }
}
