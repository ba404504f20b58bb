//! Floods of requests that outside agents sign, or pretend to have signed.

use std::net::IpAddr;

use super::*;
use crate::api::{Origin, OutsideAccess};
use crate::auth::OUTSIDE_AGENT;
use crate::auth::nostr::Signer;
use crate::auth::nostr::testing::{NostrKey, token};

const BASE: &str = "http://localhost";

/// The number of the key that the organization has accepted.
const ACCEPTED: u64 = 1;

static ACCESS: OutsideAccess = OutsideAccess {
    unknown: || Error::no_such("team"),
    has_accepted: |_, _, pubkey| Ok(*pubkey == NostrKey::new(ACCEPTED).pubkey()),
};

fn route() -> Arc<Route> {
    let read = Route::get("/out/{orgSlug}", OUTSIDE_AGENT, "out.get", op::list(list));
    Arc::new(read.org_source(OrgSource::InPath(&ACCESS)))
}

/// The event that a key signs for a request to an organization; with a wrong signature, if it is
/// forged.
fn event(number: u64, slug: &str, is_forged: bool) -> Value {
    let url = format!("{BASE}/out/{slug}");
    let now = Clock::system().now().secs();
    let mut event = NostrKey::new(number).sign(now, 27235, json!([["u", url], ["method", "GET"]]));
    if is_forged {
        event["sig"] = "1".repeat(128).into();
    }
    event
}

fn from(address: IpAddr) -> Arc<Origin> {
    Arc::new(Origin { address, link_base: BASE.into(), ..Origin::default() })
}

struct Flood {
    fixture: Fixture,
    route: Arc<Route>,
    forged: String,
    forged_of_accepted: String,
}

impl Flood {
    async fn new() -> Self {
        let text = |number| token(&event(number, "open", true));
        let (forged, forged_of_accepted) = (text(2), text(ACCEPTED));
        Flood { fixture: Fixture::new().await, route: route(), forged, forged_of_accepted }
    }

    async fn admit(&self, token: &str, slug: &str, address: IpAddr) -> Result<Signer> {
        let target = format!("/out/{slug}");
        let credential = RawCredential::Nostr(token.into());
        let request = Request {
            target,
            ..Request::new(
                self.route.clone(),
                [slug.to_string()].into(),
                Arguments::Query,
                credential,
                from(address),
            )
        };
        self.fixture.executor.admit_signer(&request).await
    }

    /// Sends this from the addresses of a network until it is refused for its number: the error, and
    /// how many were not.
    async fn exhaust(&self, token: &str, network: u8) -> (Error, usize) {
        for nth in 0..10_000u16 {
            let [high, low] = nth.to_be_bytes();
            match self.admit(token, "open", IpAddr::from([10, network, high, low])).await {
                Err(error) if error.kind() == Kind::Unauthenticated => {}
                Err(error) => return (error, usize::from(nth)),
                Ok(_) => panic!("its signature is wrong"),
            }
        }
        panic!("it is never refused")
    }
}

#[tokio::test]
async fn more_than_a_network_may_send_is_refused_before_signatures_are_checked() {
    let flood = Flood::new().await;
    let (refused, before) = flood.exhaust(&flood.forged, 1).await;
    assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "rate_limited"));
    assert_eq!(refused.reached().unwrap().name, "nip98-network");
    assert!(refused.retry_after_secs().is_some() && before >= 75, "{before}");
    // A forged request of an accepted key counts, too, and looks the same from outside.
    let (refused, _) = flood.exhaust(&flood.forged_of_accepted, 1).await;
    assert_eq!(refused.reached().unwrap().name, "nip98-network");
    // From everywhere together.
    let mut refused = refused;
    for network in 2..100 {
        if refused.kind() == Kind::Limited {
            (refused, _) = flood.exhaust(&flood.forged, network).await;
        }
    }
    assert_eq!((refused.kind(), refused.code()), (Kind::Busy, "overloaded"));
    assert_eq!(refused.reached().unwrap().name, "nip98-organization");
}

#[tokio::test]
async fn an_accepted_key_is_let_in_while_strangers_flood_its_organization() {
    let flood = Flood::new().await;
    for nth in 0..60 {
        flood.exhaust(&flood.forged, 1).await;
        flood.exhaust(&flood.forged_of_accepted, 2).await;
        let signed = token(&event(ACCEPTED, "open", false));
        let admitted = flood.admit(&signed, "open", IpAddr::from([10, 1, 0, 1 + nth])).await;
        assert_eq!(admitted.unwrap().pubkey, NostrKey::new(ACCEPTED).pubkey());
    }
}

#[tokio::test]
async fn a_flood_of_one_organization_leaves_others_and_other_networks_alone() {
    let flood = Flood::new().await;
    flood.fixture.executor.store.write(Id::NIL, other_org).await.unwrap();
    let signed = |slug| token(&event(3, slug, false));
    for nth in 0..20 {
        flood.exhaust(&flood.forged, 1).await;
        // One network leaves a quarter for the others.
        let elsewhere = flood.admit(&signed("open"), "open", IpAddr::from([11, nth, 0, 1])).await;
        assert!(elsewhere.is_ok(), "{elsewhere:?}");
        let other = flood.admit(&signed("other"), "other", IpAddr::from([10, 1, 255, nth])).await;
        assert!(other.is_ok(), "{other:?}");
    }
}

fn other_org(tx: &mut Tx) -> Result<()> {
    let (id, now) = (tx.new_id(), tx.now());
    let (slug, name) = (Slug::parse("other").unwrap(), Name::parse("Other").unwrap());
    let (created_at, updated_at, updated_by) = (now, now, None);
    tx.insert(&Organization { id, slug, name, created_at, updated_at, updated_by })
}

#[tokio::test]
async fn a_refusal_of_a_flood_is_answered_after_a_delay() {
    let flood = Flood::new().await;
    let address = IpAddr::from([192, 0, 2, 1]);
    while !matches!(flood.admit(&flood.forged, "open", address).await,
        Err(error) if error.kind() == Kind::Limited)
    {}
    let begun = Instant::now();
    let credential = RawCredential::Nostr(flood.forged.clone());
    let (route, params) = (flood.route.clone(), ["open".to_string()].into());
    let request = Request {
        target: "/out/open".into(),
        ..Request::new(route, params, Arguments::Query, credential, from(address))
    };
    let refused = flood.fixture.executor.authenticate(&request).await.err().unwrap();
    assert_eq!(refused.reached().unwrap().name, "nip98");
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}
