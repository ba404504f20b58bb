//! What is to be said about a store in PostgreSQL.

use super::findings::{Finding, Findings};
use super::tls::{Served, judge};
use super::{open_files, settings};
use crate::app::Startup;
use crate::store::engine::SeenNode;
use crate::store::engine::postgres::{Durability, PostgresUrl, nodes_at};

/// Examines the database server of a store, with the settings that `serve` would have.
pub fn examine_store(url: &PostgresUrl, own: &Startup) -> Vec<Finding> {
    let mut found = Findings::default();
    match Durability::of(url) {
        Ok(durability) => {
            let (version, state) = (&durability.version, durability.replication());
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
    servers(url, &mut found);
    open_files(own, &mut found);
    settings(&own.settings, &mut found);
    judge(&own.settings, None, &Served::Stopped, &mut found);
    found.0
}

/// The servers of a store, and which of them does the background work.
fn servers(url: &PostgresUrl, found: &mut Findings) {
    // That it cannot be reached was found before.
    let Ok(nodes) = nodes_at(url) else { return };
    if nodes.is_empty() {
        found.ok("servers", "no server uses the store");
        return;
    }
    for one in &nodes {
        let SeenNode { id, description, release, .. } = one;
        let work = if one.has_lease { ", does the background work" } else { "" };
        let message = format!("{description} ({id}, release {release}){work}");
        if one.is_alive {
            found.ok("servers", format!("{message}: it is there"));
        } else {
            found.warn(
                "servers",
                format!("{message}: it has shown no sign of life for eight seconds"),
                "look whether it was killed, is paused or cannot reach the database; others take \
                 its work over, and forget it after ten minutes",
            );
        }
    }
    if !nodes.iter().any(|one| one.has_lease) {
        let to_do = "repeat this in ten seconds: one of them takes the work over";
        found.warn("servers", "no server does the background work", to_do);
    }
}
