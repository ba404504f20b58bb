//! Looking from outside who is at a store, without coming to it.

use std::thread;
use std::time::{Duration, Instant};

use super::attendance::look_with;
use super::connection::{Connector, RawConnection, STATEMENT_TIME};
use super::entering::MAX_SILENCE;
use super::failure::Failure;
use super::shared::{OPEN_TIME, start_runtime};
use super::silence::Watch;
use super::url::PostgresUrl;
use crate::base::Result;
use crate::store::engine::SeenNode;

/// How often they are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the servers of a store, empty if the database has none: after all of them have shown a
/// beat, or after eight seconds. Changes nothing. Blocks.
///
/// # Errors
/// If the database cannot be reached or read.
pub fn nodes_at(url: &PostgresUrl) -> Result<Vec<SeenNode>> {
    let runtime = start_runtime()?;
    let connector = Connector::new(url.clone(), None, runtime.handle().clone());
    let raw = connector.connect_raw(Instant::now() + OPEN_TIME);
    let nodes = raw.and_then(|raw| watch(&raw));
    runtime.shutdown_background();
    nodes.map_err(|failure| failure.error())
}

fn watch(raw: &RawConnection) -> Result<Vec<SeenNode>, Failure> {
    let sql = "SELECT 1 FROM information_schema.tables \
         WHERE table_name = 'kv' AND table_schema = current_schema()";
    if raw.run(raw.client.query(sql, &[]), STATEMENT_TIME)?.is_empty() {
        return Ok(Vec::new());
    }
    let (mut watch, begun) = (Watch::default(), Instant::now());
    loop {
        watch.look(look_with(&raw.client)?, Instant::now());
        let nodes = watch.nodes(None);
        if nodes.iter().all(|one| one.is_alive) || begun.elapsed() >= MAX_SILENCE {
            return Ok(nodes);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
