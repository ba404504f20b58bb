//! Searches among a million listings, compared with ten thousand, and `nostr.json`, compared with a bare
//! hyper server that sends the same bytes.

use roadstead::app::ServerConfig;
use roadstead::store::Clock;
use serde_json::{Value, json};

use crate::client::load;
use crate::fixture::{Fixture, Storage};
use crate::reads::Bare;
use crate::rounds::{self, TIME, figure, ratio};
use crate::sites::{Sites, names};
use crate::table::{Row, Target};

const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;

const CONNECTIONS: usize = 16;

/// Listings stored per transaction, within its limit of writes.
const AT_ONCE: usize = 100;

/// Listings of a domain: creating one counts those of its domain.
const OF_DOMAIN: usize = 100;

/// A valid public key.
const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";

/// The rows of the agent index.
pub fn rows(quick: bool) -> Vec<Row> {
    let most = if quick { MANY_WHEN_QUICK } else { MANY };
    let (few, many) = (filled(FEW), filled(most));
    let searches = [
        ("newest", ""),
        ("a frequent word", "q=agent"),
        ("two frequent words", "q=red+even"),
        ("a rare word", "q=rare&limit=10"),
        ("a rare word and a frequent one", "q=rare+agent&limit=10"),
        ("two words that exclude each other", "q=odd+even"),
        ("a skill", "skill=green"),
        ("a handle", "handle=a77@d0.example"),
    ];
    let mut rows: Vec<_> =
        searches.iter().map(|(name, query)| search((name, query), &few, &many, most)).collect();
    rows.push(nostr_json());
    rows
}

fn search((name, query): (&str, &str), few: &Fixture, many: &Fixture, most: usize) -> Row {
    let request = |fixture: &Fixture| [fixture.get(&format!("/agent-index/listings?{query}"))];
    let (of_few, of_many) = (request(few), request(many));
    let outcomes =
        rounds::run(&mut [&mut || load(many.address, CONNECTIONS, TIME, &of_many), &mut || {
            load(few.address, CONNECTIONS, TIME, &of_few)
        }]);
    Row {
        name: format!("Search for {name} among {most} listings, time"),
        ours: figure(&outcomes[0]),
        baseline: format!("among {FEW} {}", figure(&outcomes[1])),
        ratio: ratio(&outcomes[1], &outcomes[0]),
        target: Target::AtMost(2.0),
    }
}

/// A server with so many public listings.
fn filled(count: usize) -> Fixture {
    let fixture = Fixture::new(1);
    let listing = |nth: usize| -> Value {
        let color = ["red", "green", "blue"][nth % 3];
        let parity = if nth.is_multiple_of(2) { "even" } else { "odd" };
        let rare = if nth.is_multiple_of(997) { "rare" } else { "" };
        json!({
            "stableKey": "agent-0", "handle": format!("a{nth}@d{}.example", nth / OF_DOMAIN),
            "pubkey": KEY, "displayName": format!("Agent {nth}"), "skills": [color],
            "description": format!("{parity} {rare}"), "visibility": "public",
        })
    };
    fixture.store("listing.create", &[], (0..count).map(listing), AT_ONCE, |_| ());
    fixture
}

fn nostr_json() -> Row {
    let sites = Sites::new();
    sites.serve("acme.test", |name| names(name, KEY));
    let config = sites.configure(ServerConfig::default());
    let fixture = Fixture::with_config(Storage::Logged, 1, Clock::system(), config);
    let listing = json!({"stableKey": "agent-0", "handle": "scribe@acme.test", "pubkey": KEY,
        "displayName": "Scribe"});
    fixture.ask(&fixture.post("/agent-index/listings", listing));
    let claimed = fixture.post("/organizations/domains", json!({"domain": "acme.test"}));
    let claimed = crate::fixture::id(&fixture.ask(&claimed));
    let verify = format!("/organizations/domains/{claimed}/verifications");
    assert_eq!(fixture.ask(&fixture.post(&verify, json!({})))["state"], "verified");
    let path = "/.well-known/nostr.json?name=scribe";
    let request = [format!("GET {path} HTTP/1.1\r\nhost: acme.test\r\n\r\n").into_bytes()];
    let bare = Bare::start(fixture.address, &request[0]);
    let outcomes =
        rounds::run(&mut [&mut || load(fixture.address, CONNECTIONS, TIME, &request), &mut || {
            load(bare.address, CONNECTIONS, TIME, &request)
        }]);
    Row {
        name: format!("GET of nostr.json, {CONNECTIONS} connections"),
        ours: figure(&outcomes[0]),
        baseline: format!("bare hyper {}", figure(&outcomes[1])),
        ratio: ratio(&outcomes[0], &outcomes[1]),
        target: Target::AtLeast(0.75),
    }
}
