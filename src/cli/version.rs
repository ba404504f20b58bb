//! `roadstead version`

use clap::Args;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::output;
use crate::api::API_VERSION;
use crate::app::{DATA_DIRECTORY_FORMAT, backup, moving};
use crate::{mcp, resources};

/// Print the version; with --json also how it was built, and the versions of what it stores and speaks
#[derive(Args)]
pub struct Version {
    #[command(flatten)]
    common: Common,
}

impl Version {
    pub(super) fn run(self) -> Result<(), Failure> {
        let text = format!("roadstead {}", env!("CARGO_PKG_VERSION"));
        output::print(self.common.json, &facts(), text)
    }
}

/// What is known of this build (reference: command-line, "The version").
fn facts() -> Value {
    json!({
        "name": "roadstead",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": commit(),
        "features": features(),
        "storage": {
            "dataDirectory": DATA_DIRECTORY_FORMAT,
            "backup": backup::FORMAT,
            "export": moving::FORMAT,
            "records": records(),
        },
        "api": {"version": API_VERSION, "mcp": mcp::revisions()},
    })
}

/// The commit that was built, if the build was told. A build script that asked git would compile the
/// whole program again after each commit.
fn commit() -> Option<&'static str> {
    option_env!("ROADSTEAD_COMMIT").filter(|commit| !commit.is_empty())
}

/// The features of Cargo with which this was built.
fn features() -> Vec<&'static str> {
    if cfg!(feature = "postgres") { vec!["postgres"] } else { vec![] }
}

/// The version in which the records of each table are written.
fn records() -> Map<String, Value> {
    let mut tables = resources::tables();
    tables.sort_by_key(|table| table.name);
    tables.iter().map(|table| (table.name.to_string(), json!(table.version))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_the_version_of_its_records() {
        let facts = facts();
        let records = facts["storage"]["records"].as_object().unwrap();
        assert_eq!(records.len(), resources::tables().len());
        assert!(records.values().all(|version| version.as_u64().is_some_and(|it| it >= 1)));
    }
}
