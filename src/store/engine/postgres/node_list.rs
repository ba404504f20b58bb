//! The nodes of a store, read from outside, without joining it.

use std::thread;
use std::time::{Duration, Instant};

use super::connection::{Connector, STATEMENT_TIME};
use super::failure::Failure;
use super::failure_detector::FailureDetector;
use super::joining::FAILURE_TIMEOUT;
use super::member_rows::read_members;
use super::opening::RawConnection;
use super::shared::{OPEN_TIME, start_runtime};
use super::url::PostgresUrl;
use crate::base::Result;
use crate::store::engine::SeenNode;

/// How often they are observed.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the servers of a store, empty if the database has none: after all of them have shown a
/// heartbeat, or after eight seconds. Changes nothing. Blocks.
///
/// # Errors
/// If the database cannot be reached or read.
pub fn nodes_at(url: &PostgresUrl) -> Result<Vec<SeenNode>> {
    let runtime = start_runtime()?;
    let connector = Connector::new(url.clone(), None, runtime.handle().clone());
    let raw = connector.connect_raw(Instant::now() + OPEN_TIME);
    let nodes = raw.and_then(|raw| observe(&raw));
    runtime.shutdown_background();
    nodes.map_err(|failure| failure.error())
}

fn observe(raw: &RawConnection) -> Result<Vec<SeenNode>, Failure> {
    let sql = "SELECT 1 FROM information_schema.tables \
         WHERE table_name = 'kv' AND table_schema = current_schema()";
    if raw.run(raw.client.query(sql, &[]), STATEMENT_TIME)?.is_empty() {
        return Ok(Vec::new());
    }
    let (mut detector, begun) = (FailureDetector::default(), Instant::now());
    loop {
        detector.observe(read_members(&raw.client)?, Instant::now());
        let nodes = detector.nodes(None);
        if nodes.iter().all(|one| one.is_alive) || begun.elapsed() >= FAILURE_TIMEOUT {
            return Ok(nodes);
        }
        thread::sleep(OBSERVE_INTERVAL);
    }
}
