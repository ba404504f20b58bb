//! What is to be said about a store in PostgreSQL.

use super::{Finding, Findings, open_files, settings};
use crate::app::Startup;
use crate::store::engine::postgres::{Durability, PostgresUrl};

/// Examines the database server of a store, with the settings that `serve` would have.
pub fn examine_store(url: &PostgresUrl, own: &Startup) -> Vec<Finding> {
    let mut found = Findings::default();
    match Durability::of(url) {
        Ok(durability) => {
            let state = if durability.is_replicated() { "replicated" } else { "not replicated" };
            let version = &durability.version;
            found.ok("store", format!("{}: PostgreSQL {version}, {state}", url.shown()));
            for remark in durability.remarks() {
                found.warn("store", remark, "change the settings of the database server");
            }
        }
        Err(error) => {
            let why = error.log_detail().unwrap_or(error.message());
            let to_do = "start the database server, or correct --store";
            found.error("store", format!("{} cannot be read: {why}", url.shown()), to_do);
        }
    }
    open_files(own, &mut found);
    settings(&own.settings, &mut found);
    found.0
}
