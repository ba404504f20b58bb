//! Deliveries of events through a thousand webhooks, of which ten never answer, compared with as
//! many that all answer: how many a second, and the time from an event to its arrival.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use roadstead::base::{Email, Id, Name, Slug};
use roadstead::outbox::{About, Channel, EventType, Subscription, publish};
use roadstead::resources::organizations::{self, NewFoundation};
use roadstead::store::{Org, Tx};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::client;
use crate::fixture::Fixture;
use crate::table::{Row, Target, time};

/// An organization has at most 100 channels.
const ORGANIZATIONS: usize = 10;
const CHANNELS: usize = 100;

/// One channel of each organization.
const HANGING: usize = 1;

/// Events of each organization that are published at once, for the rate.
const EVENTS: usize = 20;
const EVENTS_WHEN_QUICK: usize = 5;

/// Events that are published one after another, for the delay.
const SINGLE: usize = 40;

/// The longest delay that is acceptable while others hang.
const LIMIT: Duration = Duration::from_secs(1);

const SECRET: &str = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";

/// Measures deliveries.
pub fn rows(quick: bool) -> Vec<Row> {
    let events = if quick { EVENTS_WHEN_QUICK } else { EVENTS };
    let (rate, mut delays) = measure(HANGING, events);
    let (undisturbed, mut fastest) = measure(0, events);
    let p99 = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() * 99 / 100]
    };
    let (delay, fast) = (p99(&mut delays), p99(&mut fastest));
    let all = ORGANIZATIONS * CHANNELS;
    let hanging = ORGANIZATIONS * HANGING;
    vec![
        Row {
            name: format!("deliveries a second, {all} webhooks of which {hanging} hang"),
            ours: format!("{rate:.0}"),
            baseline: format!("none hangs {undisturbed:.0}"),
            ratio: rate / undisturbed,
            target: Target::AtLeast(0.8),
        },
        Row {
            name: format!("event to arrival, {hanging} of {all} webhooks hang, p99"),
            ours: format!("{} (none hangs {})", time(delay), time(fast)),
            baseline: format!("limit {}", time(LIMIT)),
            ratio: delay.as_secs_f64() / LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        },
    ]
}

/// Returns the deliveries a second when `events` are published at once in each organization, and
/// the delays of the deliveries of single events.
fn measure(hanging: usize, events: usize) -> (f64, Vec<Duration>) {
    let fixture = Fixture::new(0);
    let runtime = client::runtime();
    let (url, mut arrivals) = runtime.block_on(receiver());
    // Their connections wait to be accepted and never are.
    let silent = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let silent_url = format!("http://{}/", silent.local_addr().expect("it is bound"));
    let mut organizations = Vec::new();
    for nth in 0..ORGANIZATIONS {
        let org = organization(&fixture, nth);
        let (url, silent_url) = (url.clone(), silent_url.clone());
        let channels = move |tx: &mut Tx| {
            (0..CHANNELS)
                .try_for_each(|n| channel(tx, if n < hanging { &silent_url } else { &url }))
        };
        fixture.store.write_blocking(org, channels).expect("it can be stored");
        organizations.push(org);
    }
    let answering = CHANNELS - hanging;
    let mut await_arrivals = |count: usize| {
        let next = async {
            let mut last = Vec::with_capacity(count);
            for _ in 0..count {
                last.push(arrivals.recv().await.expect("the receiver runs"));
            }
            last
        };
        let next = async { tokio::time::timeout(Duration::from_secs(300), next).await };
        runtime.block_on(next).expect("everything arrives within 5 minutes")
    };
    // So that those that hang have all their places.
    organizations.iter().for_each(|org| happen(&fixture, *org, 1));
    await_arrivals(ORGANIZATIONS * answering);

    let mut delays = Vec::new();
    for nth in 0..SINGLE {
        let start = Instant::now();
        happen(&fixture, organizations[nth % ORGANIZATIONS], 1);
        delays.extend(await_arrivals(answering).into_iter().map(|at| at - start));
    }
    let start = Instant::now();
    organizations.iter().for_each(|org| happen(&fixture, *org, events));
    let count = ORGANIZATIONS * answering * events;
    let last = await_arrivals(count).into_iter().max().expect("there are some");
    (count as f64 / (last - start).as_secs_f64(), delays)
}

/// Creates an organization.
fn organization(fixture: &Fixture, nth: usize) -> Id<Org> {
    let founding = NewFoundation {
        slug: Slug::parse(format!("org-{nth}")).expect("it is a slug"),
        name: Name::parse("An organization").expect("it is a name"),
        email: Email::parse(format!("ada@org-{nth}.test")).expect("it is an address"),
        user_name: Name::parse("Ada").expect("it is a name"),
        password_hash: None,
        api_key: None,
    };
    let write = move |tx: &mut Tx| organizations::bootstrap(tx, &founding);
    let founded = fixture.store.write_blocking(Id::NIL, write);
    founded.expect("it can be stored").organization.id
}

/// Creates a webhook that is subscribed to errors of agents.
fn channel(tx: &mut Tx, url: &str) -> roadstead::base::Result<()> {
    let channel = Channel::new(tx, "Hook", "webhook", json!({"url": url}), Some(SECRET))?;
    tx.insert(&channel)?;
    tx.insert(&Subscription {
        id: tx.new_id(),
        channel: channel.id,
        event_type: EventType::AgentError,
        enabled: true,
        created_at: tx.now(),
    })
}

/// Publishes events.
fn happen(fixture: &Fixture, org: Id<Org>, events: usize) {
    let publish = move |tx: &mut Tx| {
        (0..events).try_for_each(|n| {
            let about = About::resource("agent", tx.org());
            publish(tx, EventType::AgentError, about, json!({"name": "Scribe", "n": n}))
        })
    };
    fixture.store.write_blocking(org, publish).expect("it can be stored");
}

/// A server that accepts every message; returns its URL, and when each arrived.
async fn receiver() -> (String, UnboundedReceiver<Instant>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let (note, arrivals) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let note = note.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !is_whole(&request) {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let _ = note.send(Instant::now());
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            });
        }
    });
    (url, arrivals)
}

/// Whether a request has arrived with its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() >= length)
}
