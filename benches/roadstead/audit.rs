//! Pages of the audit log and of the notification log among 1,000,000 entries, compared with 10,000.

use roadstead::api::audit::{ActorType, AuditEntry, AuditOutcome, append_pending};
use roadstead::base::{Id, Result};
use roadstead::outbox::{About, EventType, publish};
use roadstead::store::Tx;
use serde_json::json;

use crate::client::load;
use crate::fixture::Fixture;
use crate::rounds::{self, TIME, figure, ratio};
use crate::table::{Row, Target};

const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;

const CONNECTIONS: usize = 16;

/// Entries of one transaction: a multiple of what a step of the chain takes.
const AT_ONCE: usize = 1_000;

/// Steps that append so many.
const STEPS: usize = 10;

/// Entries about one resource: as many among few as among many, so that pages of them are equally long
/// and only the rest differs.
const OF_RESOURCE: usize = 100;

/// The rows of audit and notification logs.
pub fn rows(quick: bool) -> Vec<Row> {
    let most = if quick { MANY_WHEN_QUICK } else { MANY };
    let (few, many) = (fixture(FEW), fixture(most));
    let pages = [
        ("the newest of the audit log", "/audit-logs?"),
        ("the audit log of one actor", "/audit-logs?actor=00000000-0000-7000-8000-000000000003&"),
        ("the audit log of a resource", "/audit-logs?resourceType=tool&resourceId=r76&"),
        ("the audit log by action and actor", {
            "/audit-logs?action=tool.create&actor=00000000-0000-7000-8000-000000000003&"
        }),
        ("the newest of the notification log", "/notifications/logs?"),
        ("the notification log of a type", "/notifications/logs?eventType=agent.error&"),
    ];
    let mut rows = Vec::new();
    for (what, path) in pages {
        let path = path.trim_end_matches(['?', '&']);
        let (of_few, of_many) = ([few.get_in_session(path)], [many.get_in_session(path)]);
        let outcomes = rounds::run(&mut [
            &mut || load(many.address, CONNECTIONS, TIME, &of_many),
            &mut || load(few.address, CONNECTIONS, TIME, &of_few),
        ]);
        rows.push(Row {
            name: format!("{what} among {most}, time"),
            ours: figure(&outcomes[0]),
            baseline: format!("among {FEW} {}", figure(&outcomes[1])),
            ratio: ratio(&outcomes[1], &outcomes[0]),
            target: Target::AtMost(2.0),
        });
    }
    rows
}

fn fixture(entries: usize) -> Fixture {
    let fixture = Fixture::new(0);
    let org = fixture.founded.organization.id;
    for chunk in 0..entries / AT_ONCE {
        let first = chunk * AT_ONCE;
        let stored = fixture.store.write_blocking(org, move |tx| {
            for nth in first..first + AT_ONCE {
                add(tx, nth, nth % (entries / OF_RESOURCE))?;
            }
            // The job of the server would take a commit for each step.
            let end = Id::new(tx.new_id::<()>().uuid());
            (0..STEPS).try_for_each(|_| append_pending(tx, Id::NIL, end).map(drop))
        });
        stored.expect("they can be stored");
    }
    fixture
}

fn add(tx: &mut Tx, nth: usize, resource: usize) -> Result<()> {
    let (action, kind) = [("tool.create", "tool"), ("team.create", "team")][nth % 2];
    let actor = uuid::Uuid::from_u128(0x7000_8000_0000_0000_0000 + nth as u128 % 7);
    tx.insert(&AuditEntry {
        id: tx.new_id(),
        org: tx.org(),
        created_at: tx.now(),
        actor_type: ActorType::User,
        actor_id: Some(Id::new(actor)),
        actor_name: "Ada Lovelace".into(),
        via: None,
        person: None,
        action: action.into(),
        resource_type: kind.into(),
        resource_id: Some(format!("r{resource}")),
        detail: None,
        request_id: format!("request-{nth}"),
        outcome: AuditOutcome::Success,
    })?;
    let of = if nth.is_multiple_of(2) { EventType::AgentError } else { EventType::AgentStale };
    publish(tx, of, About::resource("agent", tx.org()), json!({"stableKey": "ann"}))
}
