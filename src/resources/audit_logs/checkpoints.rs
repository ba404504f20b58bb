//! The end of the audit log's chain, and comparing it with an earlier one (reference: audit-log,
//! "Checkpoints").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::audit::{Checkpoint, Comparison, checkpoint, compare};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::SESSION_ADMIN;
use crate::base::{Error, Result};
use crate::store::{View, codec};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AuditCheckpointQuery")]
struct CheckpointQuery {
    /// An earlier checkpoint of this organization, to compare the log with.
    against: Option<String>,
}

impl Input for CheckpointQuery {}

/// The end of the chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct AuditCheckpoint {
    /// The checkpoint as `roadstead audit checkpoint` prints it.
    value: String,
    /// The number of the last entry; 0 if there is none.
    sequence: u64,
    /// The hash of the last entry, in hexadecimal.
    hash: String,
    /// What the log has of the earlier checkpoint; null without one.
    compared: Option<AuditComparison>,
}

impl Output for AuditCheckpoint {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// What the log has of an earlier checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AuditComparison {
    /// Its entry: the log goes on from there.
    Continues,
    /// Nothing: the log ends before its entry.
    EndsBefore,
    /// Nothing: its entry is missing among others.
    Missing,
    /// Another entry with its number.
    Differs,
    /// Nothing any more: retention has removed its entry.
    Removed,
}

fn get(view: &View, req: &Req<(), CheckpointQuery>) -> Result<AuditCheckpoint> {
    let compared = req.input.against.as_deref().map(|value| compared(view, value)).transpose()?;
    let end = checkpoint(view)?;
    Ok(AuditCheckpoint {
        value: end.to_string(),
        sequence: end.link.sequence,
        hash: codec::hex(&end.link.hash),
        compared,
    })
}

fn compared(view: &View, value: &str) -> Result<AuditComparison> {
    let earlier = Checkpoint::parse(value.trim()).filter(|earlier| earlier.org == view.org());
    let earlier = earlier.ok_or_else(|| {
        Error::invalid_at("against", "must be a checkpoint of this organization, as a whole")
    })?;
    Ok(match compare(view, &earlier)? {
        Comparison::Continues => AuditComparison::Continues,
        Comparison::EndsBefore(_) => AuditComparison::EndsBefore,
        Comparison::Missing => AuditComparison::Missing,
        Comparison::Differs => AuditComparison::Differs,
        Comparison::Removed(_) => AuditComparison::Removed,
    })
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/audit-logs/checkpoint", SESSION_ADMIN, "audit_checkpoint.get", op::read(get))
            .about("Get the end of the chain"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::testing::Fixture;
    use serde_json::{Value, json};

    fn ask(fixture: &Fixture, query: Value) -> Result<AuditCheckpoint> {
        let query = Fixture::input::<CheckpointQuery>(query)?;
        fixture.read_as(&fixture.owner, get, (), query)
    }

    #[test]
    fn a_log_continues_its_own_checkpoint_and_no_other() {
        let fixture = Fixture::new();
        let end = ask(&fixture, json!({})).unwrap();
        assert_eq!((end.sequence, end.hash.len(), end.compared), (0, 64, None));
        let again = ask(&fixture, json!({"against": end.value})).unwrap();
        assert_eq!(again.compared, Some(AuditComparison::Continues));
        let later = end.value.replace(":0:", ":7:");
        let later = ask(&fixture, json!({"against": later})).unwrap();
        assert_eq!(later.compared, Some(AuditComparison::EndsBefore));
        let (other, _) = fixture.other_org("globex");
        let foreign = end.value.replace(&fixture.org.to_string(), &other.to_string());
        for wrong in ["", "roadstead-audit:1", &foreign] {
            let refused = ask(&fixture, json!({"against": wrong})).unwrap_err();
            assert_eq!(refused.issues()[0].path, "against", "{wrong}");
        }
    }
}
