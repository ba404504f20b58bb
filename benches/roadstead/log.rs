//! Pages of the notification log with a million entries, compared with ten thousand.

use roadstead::base::{Id, Json};
use roadstead::outbox::{About, Channel, Delivery, DeliveryStatus, Event, EventType};
use roadstead::store::Tx;
use serde_json::json;

use crate::client::load;
use crate::fixture::Fixture;
use crate::rounds::{self, TIME, figure, ratio};
use crate::table::{Row, Target};

const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;

const CONNECTIONS: usize = 4;

/// Events stored per transaction, each with a delivery.
const AT_ONCE: usize = 1_000;

/// So many deliveries failed, the others were sent: as many among few as among many, so that pages of
/// them are equally long and only the rest differs.
const FAILED: usize = 500;

/// The channel of the deliveries.
const CHANNEL: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Filters: of none, which all entries match, to three, which few match.
const FILTERS: [(&str, &str); 4] = [
    ("the newest", ""),
    ("of a type", "eventType=agent.drifted"),
    ("that failed", "status=failed"),
    ("of a channel and a type that failed", "eventType=agent.error&status=failed&channelId="),
];

/// The rows of the log.
pub fn rows(quick: bool) -> Vec<Row> {
    let most = if quick { MANY_WHEN_QUICK } else { MANY };
    let (few, many) = (Fixture::new(0), Fixture::new(0));
    fill(&few, FEW);
    fill(&many, most);
    let row = |(name, filter): (&str, &str)| {
        let channel = if filter.ends_with('=') { CHANNEL } else { "" };
        let request = |fixture: &Fixture| {
            vec![fixture.get(&format!("/notifications/logs?{filter}{channel}"))]
        };
        let outcomes = rounds::run(&mut [
            &mut || load(many.address, CONNECTIONS, TIME, &request(&many)),
            &mut || load(few.address, CONNECTIONS, TIME, &request(&few)),
        ]);
        Row {
            name: format!("GET of log entries {name} among {}, time", 2 * most),
            ours: figure(&outcomes[0]),
            baseline: format!("among {} {}", 2 * FEW, figure(&outcomes[1])),
            ratio: ratio(&outcomes[1], &outcomes[0]),
            target: Target::AtMost(2.0),
        }
    };
    FILTERS.map(row).into()
}

/// Stores `count` events and their deliveries through a channel.
fn fill(fixture: &Fixture, count: usize) {
    let channel: Id<Channel> = Id::parse(CHANNEL);
    for start in (0..count).step_by(AT_ONCE) {
        let store = move |tx: &mut Tx| {
            (start..start + AT_ONCE)
                .try_for_each(|nth| entry(tx, channel, nth, nth % (count / FAILED) == 2))
        };
        fixture
            .store
            .write_blocking(fixture.founded.organization.id, store)
            .expect("it can be stored");
    }
}

fn entry(
    tx: &mut Tx,
    channel: Id<Channel>,
    nth: usize,
    failed: bool,
) -> roadstead::base::Result<()> {
    let event = Event {
        id: tx.new_id(),
        event_type: EventType::ALL[nth % 3],
        about: About::resource("agent", tx.org()),
        payload: Json(json!({"name": "Scribe", "stableKey": "scribe", "n": nth})),
        created_at: tx.now(),
        attempts: 1,
        sent_at: tx.now(),
        trace: None,
    };
    tx.insert(&event)?;
    tx.insert(&Delivery {
        id: tx.new_id(),
        channel,
        event: event.id,
        event_type: event.event_type,
        guarded_by: vec![],
        created_at: event.created_at,
        status: if failed { DeliveryStatus::Failed } else { DeliveryStatus::Sent },
        attempts: 1,
        error: failed.then(|| "the channel's address answered with status 500".into()),
        sent_at: (!failed).then(|| tx.now()),
        next_attempt_at: None,
        job: None,
    })
}
