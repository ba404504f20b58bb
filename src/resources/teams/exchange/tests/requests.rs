//! Asking to write to a team, and what is decided.

use super::*;
use crate::base::{Name, PublicKey, StableKey, Time};
use crate::outbox::EventType;
use crate::outside::Failure;
use crate::resources::listings::{
    CardState, ContactPolicy, Listing, ListingProfile, ListingVisibility, TermForm,
};
use crate::resources::teams::testing::{add_scrum_master, agent, events, published, take};

const DAY_SECS: i64 = 24 * 3600;

#[test]
fn a_stranger_is_pending_until_a_member_accepts_and_wakes_nobody_before() {
    let crew = Crew::new();
    let master = add_scrum_master(&crew.fixture, crew.team, "max");
    let sender = Sender::new(1, "scout@partner.test");
    let asked = crew.ask(&sender, json!({"replyUrl": "https://partner.test/r"})).unwrap();
    assert_eq!(asked["state"], "pending");
    assert_eq!((&asked["reason"], &asked["decidedAt"]), (&Value::Null, &Value::Null));
    let event = events(&crew.fixture).pop().unwrap();
    assert_eq!(event.event_type, EventType::TeamExternalRequestReceived);
    assert_eq!(
        event.payload.0,
        json!({"teamId": crew.team, "teamName": "crew", "peerId": asked["id"],
            "handle": "scout@partner.test", "pubkey": sender.pubkey, "domain": "partner.test"})
    );
    assert!(take(&crew.fixture, crew.team, master).is_empty());

    crew.accept(&asked);
    let wakes = take(&crew.fixture, crew.team, master);
    assert_eq!(wakes.len(), 1);
    assert_eq!(json!(wakes[0])["reason"], "external_request");
    assert_eq!(wakes[0].peer_id, Some(id(&asked)));
    let again = crew.fixture.write(accept, (crew.team, id(&asked)), ());
    assert_eq!(refusal(again), (Kind::Conflict, "peer_not_pending"));
    crew.fixture.assert_sound();
}

#[test]
fn a_wake_for_a_peer_that_was_blocked_meanwhile_is_dropped() {
    let crew = Crew::new();
    let master = add_scrum_master(&crew.fixture, crew.team, "max");
    let asked = crew.ask(&Sender::new(1, "a@a.test"), json!({})).unwrap();
    crew.accept(&asked);
    crew.fixture.write(block, (crew.team, id(&asked)), ()).unwrap();
    assert!(take(&crew.fixture, crew.team, master).is_empty());
}

#[test]
fn asking_again_costs_no_look_up_and_changes_nothing() {
    let crew = Crew::new();
    let sender = Sender::new(1, "a@a.test");
    let names = json!({"names": {"a": sender.pubkey}});
    let ask = |more: Value| crew.ask_with(&sender, more, document(200, &names));
    let (first, lookups) = ask(json!({}));
    assert_eq!(lookups, 1);
    let first = first.unwrap();
    let before = (crew.peers(), published(&crew.fixture));
    let (again, lookups) = ask(json!({"message": "Hello?", "replyUrl": "https://b.test"}));
    assert_eq!((again.unwrap(), lookups), (first.clone(), 0));
    assert_eq!((crew.peers(), published(&crew.fixture)), before);
    crew.accept(&first);
    let (accepted, lookups) = ask(json!({}));
    assert_eq!((&accepted.unwrap()["state"], lookups), (&json!("accepted"), 0));
    let other = Sender { handle: "b@a.test".into(), ..sender.clone() };
    assert_eq!(refusal(crew.ask(&other, json!({}))), (Kind::Conflict, "other_handle"));
}

#[test]
fn a_handle_that_its_domain_does_not_confirm_is_kept_nowhere() {
    let crew = Crew::new();
    let sender = Sender::new(1, "a@a.test");
    let other = Sender::new(2, "a@a.test").pubkey;
    let failed = |failure| CallResult { answer: Err(failure), took: Duration::ZERO };
    let host = || "a.test".to_string();
    let answers = [
        document(200, &json!({"names": {"a": other}})),
        document(200, &json!({"names": {"A": sender.pubkey}})),
        document(200, &json!({"names": {"a": sender.pubkey.to_uppercase()}})),
        document(200, &json!({})),
        document(301, &json!({"names": {"a": sender.pubkey}})),
        document(404, &json!({})),
        failed(Failure::Name { host: host(), reason: "secret of the network".into() }),
        failed(Failure::Address { host: host(), address: [10, 0, 0, 1].into() }),
    ];
    for heard in answers {
        let (refused, lookups) = crew.ask_with(&sender, json!({}), heard);
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Forbidden, "handle_not_confirmed"));
        assert!(!error.message().contains("secret") && !error.message().contains("private"));
        assert_eq!(lookups, 1);
    }
    assert!(crew.peers().is_empty() && published(&crew.fixture).is_empty());
}

#[test]
fn a_blocked_domain_or_key_is_turned_away_before_any_look_up() {
    let crew = Crew::new();
    let sender = Sender::new(1, "a@x.evil.test");
    crew.rule("evil.test", "block", true);
    crew.rule("x.evil.test", "allow", false);
    let heard = || document(200, &json!({"names": {"a": sender.pubkey}}));
    let (refused, lookups) = crew.ask_with(&sender, json!({}), heard());
    assert_eq!((refusal(refused), lookups), ((Kind::Forbidden, "domain_blocked"), 0));
    assert!(crew.peers().is_empty());

    let other = Sender::new(1, "a@other.test");
    let asked = crew.ask(&other, json!({})).unwrap();
    crew.fixture.write(block, (crew.team, id(&asked)), ()).unwrap();
    assert_eq!(refusal(crew.ask(&other, json!({}))), (Kind::Forbidden, "peer_blocked"));
    let renamed = Sender::new(1, "b@third.test");
    assert_eq!(refusal(crew.ask(&renamed, json!({}))), (Kind::Forbidden, "peer_blocked"));
    // A peer that was forgotten may ask again.
    crew.fixture.write(forget, (crew.team, id(&asked)), ()).unwrap();
    let again = crew.fixture.write(forget, (crew.team, id(&asked)), ());
    assert_eq!(refusal(again), (Kind::NotFound, "not_found"));
    assert_eq!(crew.ask(&renamed, json!({})).unwrap()["state"], "pending");
}

#[test]
fn an_allowed_domain_is_accepted_at_once_and_wakes_the_scrum_master() {
    let crew = Crew::new();
    let master = add_scrum_master(&crew.fixture, crew.team, "max");
    let early = Sender::new(2, "early@partner.test");
    assert_eq!(crew.ask(&early, json!({})).unwrap()["state"], "pending");
    crew.rule("partner.test", "allow", false);
    let asked = crew.ask(&Sender::new(1, "a@eu.partner.test"), json!({})).unwrap();
    assert_eq!(asked["state"], "accepted");
    assert!(asked["decidedAt"].is_string());
    assert_eq!(take(&crew.fixture, crew.team, master).len(), 1);
    // Who was pending before the rule is accepted when it asks again.
    assert_eq!(crew.ask(&early, json!({})).unwrap()["state"], "accepted");
    assert_eq!(take(&crew.fixture, crew.team, master).len(), 1);
    assert!(crew.peers().iter().all(|peer| peer.decided_by.is_none()));
}

#[test]
fn a_refused_sender_reads_why_and_may_ask_again_after_a_day() {
    let crew = Crew::new();
    let sender = Sender::new(1, "a@a.test");
    let asked = crew.ask(&sender, json!({})).unwrap();
    crew.refuse(&asked, "Not now.");
    let peer = crew.peers().remove(0);
    assert_eq!(peer.reason.as_deref(), Some("Not now."));
    crew.fixture.pass_secs(DAY_SECS - 10);
    let error = crew.ask(&sender, json!({})).unwrap_err();
    assert_eq!((error.code(), error.retry_after_secs()), ("asked_too_soon", Some(10)));
    crew.fixture.pass_secs(10);
    let renamed = Sender { handle: "b@b.test".into(), ..sender.clone() };
    let again = crew.ask(&renamed, json!({"message": "Now?"})).unwrap();
    assert_eq!((&again["id"], &again["state"]), (&asked["id"], &json!("pending")));
    assert_eq!((&again["reason"], &again["decidedAt"]), (&Value::Null, &Value::Null));
    let peer = crew.peers().remove(0);
    assert_eq!((&*peer.first_message, &*peer.handle), ("Now?", "b@b.test"));
    let received = EventType::TeamExternalRequestReceived;
    assert_eq!(published(&crew.fixture), [received, received]);
    crew.fixture.assert_sound();
}

/// A listing of the organization with this contact policy.
fn listing(
    crew: &Crew,
    key: &'static str,
    visibility: ListingVisibility,
    policy: ContactPolicy,
) -> String {
    let agent = agent(&crew.fixture, key);
    let handle = format!("{key}@acme.test");
    let own = handle.clone();
    let made = crew.fixture.store.write_blocking(crew.fixture.org, move |tx| {
        let profile = ListingProfile {
            stable_key: StableKey::parse(key).unwrap(),
            handle: Handle::parse(own.as_str()).unwrap(),
            pubkey: NostrKey::new(99).pubkey(),
            display_name: Name::parse(key).unwrap(),
            description: None,
            skills: vec![],
            created_at: tx.now(),
            updated_at: tx.now(),
        };
        tx.insert(&Listing {
            id: tx.new_id(),
            agent,
            profile,
            visibility,
            contact_policy: policy,
            card_state: CardState::Draft,
            term_form: TermForm::NEWEST,
            updated_by: None,
        })
    });
    made.unwrap();
    handle
}

#[test]
fn the_contact_policy_of_the_addressed_listing_holds() {
    let crew = Crew::new();
    let public = |key, policy| listing(&crew, key, ListingVisibility::Public, policy);
    let open = public("open", ContactPolicy::Open);
    let closed = public("closed", ContactPolicy::Closed);
    let some = public("some", ContactPolicy::Allowlist);
    let outsider = Sender::new(1, "a@a.test");
    let to = |sender: &Sender, listing: &str| crew.ask(sender, json!({"listing": listing}));
    crew.rule("partner.test", "allow", false);
    let partner = Sender::new(2, "b@partner.test");
    for sender in [&outsider, &partner] {
        assert_eq!(refusal(to(sender, &closed)), (Kind::Forbidden, "contact_refused"));
        let unknown = to(sender, "nobody@acme.test").unwrap_err();
        assert_eq!((unknown.kind(), unknown.path()), (Kind::NotFound, Some("listing")));
    }
    assert_eq!(refusal(to(&outsider, &some)), (Kind::Forbidden, "contact_refused"));
    assert!(crew.peers().is_empty());
    assert_eq!(to(&partner, &some).unwrap()["state"], "accepted");
    assert_eq!(to(&outsider, &open).unwrap()["state"], "pending");
}

#[test]
fn nobody_outside_learns_of_a_hidden_listing_or_of_a_contact_policy_before_the_handle_is_proved() {
    let crew = Crew::new();
    let policies = [ContactPolicy::Open, ContactPolicy::Allowlist, ContactPolicy::Closed];
    let made = |visibility, keys: [&'static str; 3]| {
        keys.into_iter()
            .zip(policies)
            .map(|(key, policy)| listing(&crew, key, visibility, policy))
            .collect::<Vec<_>>()
    };
    let hidden = made(ListingVisibility::Organization, ["a", "b", "c"]);
    let public = made(ListingVisibility::Public, ["d", "e", "f"]);
    let said = |listing: &str, is_proved: bool| {
        let sender = Sender::new(1, "a@a.test");
        let names = if is_proved { json!({"a": sender.pubkey}) } else { json!({}) };
        let heard = document(200, &json!({"names": names}));
        let error = crew.ask_with(&sender, json!({"listing": listing}), heard).0.unwrap_err();
        (error.kind(), error.code(), error.message().to_string(), error.path().map(String::from))
    };
    for is_proved in [false, true] {
        let unknown = said("nobody@acme.test", is_proved);
        assert_eq!((unknown.0, unknown.1), (Kind::NotFound, "not_found"));
        for listing in &hidden {
            assert_eq!(said(listing, is_proved), unknown, "{listing}");
        }
    }
    let unproved = said(&public[0], false);
    assert_eq!(unproved.1, "handle_not_confirmed");
    assert!(public.iter().all(|listing| said(listing, false) == unproved));
    // What is left to know to whoever has proved a handle: that the agent takes none from them.
    assert_eq!(said(&public[1], true), said(&public[2], true));
    assert!(crew.peers().is_empty());
}

/// A peer as it is stored.
fn peer(team: Id<Team>, number: u64, domain: &str, state: PeerState, at: Time) -> Peer {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    Peer {
        id: Id::new(uuid::Uuid::from_bytes(bytes)),
        team,
        // Not a point of the curve, which would take long to find.
        pubkey: PublicKey::from_trusted(format!("{number:064x}")),
        handle: Handle::parse(format!("n{number}@{domain}")).unwrap(),
        state,
        first_message: crate::base::Body::parse("x").unwrap(),
        reply_url: None,
        reason: None,
        decided_by: None,
        decided_at: (state != PeerState::Pending).then_some(at),
        created_at: at,
    }
}

impl Crew {
    fn fill(&self, numbers: std::ops::Range<u64>, state: PeerState, domain: fn(u64) -> String) {
        let team = self.team;
        let filled = self.fixture.store.write_blocking(self.fixture.org, move |tx| {
            let now = tx.now();
            numbers.clone().try_for_each(|number| {
                let at = now.plus_secs(number as i64);
                tx.insert(&peer(team, number, &domain(number), state, at))
            })
        });
        filled.unwrap();
    }
}

#[test]
fn pending_requests_of_a_domain_a_sender_and_a_team_are_limited_before_any_look_up() {
    let crew = Crew::new();
    let refused = |sender: &Sender| {
        let names = json!({"names": {"a": sender.pubkey}});
        let (refused, lookups) = crew.ask_with(sender, json!({}), document(200, &names));
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), lookups), (Kind::Limited, 0));
        assert!(error.retry_after_secs().is_some());
        error.code()
    };
    crew.fill(0..20, PeerState::Pending, |_| "busy.test".into());
    assert_eq!(refused(&Sender::new(1, "a@busy.test")), "domain_requests_full");
    assert!(crew.ask(&Sender::new(1, "a@other.test"), json!({})).is_ok());
    // A rule makes room: nobody has to decide.
    crew.rule("busy.test", "allow", false);
    assert!(crew.ask(&Sender::new(2, "a@busy.test"), json!({})).is_ok());

    crew.fill(20..199, PeerState::Pending, |number| format!("d{number}.test"));
    assert_eq!(refused(&Sender::new(3, "a@third.test")), "team_requests_full");

    let sender = Sender::new(4, "a@fourth.test");
    let pubkey = sender.pubkey.clone();
    let filled = crew.fixture.store.write_blocking(crew.fixture.org, move |tx| {
        let pending = tx.all::<Peer>(ListSource::TABLE, &())?.remove(0);
        (0..5).try_for_each(|_| {
            let team = Id::new(tx.new_id::<Team>().uuid());
            let pubkey = PublicKey::from_trusted(pubkey.clone());
            tx.insert(&Peer { team, pubkey, ..pending.clone() })
        })?;
        // Room in the team again.
        let own = tx.all::<Peer>(ListSource::TABLE, &pending.team)?;
        own.iter().take(3).try_for_each(|peer| tx.remove(peer))
    });
    filled.unwrap();
    assert_eq!(refused(&sender), "sender_requests_full");
}

#[test]
fn of_1000_peers_those_refused_the_longest_ago_make_room() {
    let crew = Crew::new();
    let first = Sender::new(1, "a@a.test");
    let second = Sender::new(2, "b@b.test");
    crew.fill(0..998, PeerState::Accepted, |number| format!("d{number}.test"));
    crew.fill(998..1000, PeerState::Refused, |_| "refused.test".into());
    let refused = || {
        let all = crew.peers();
        assert_eq!(all.len(), 1000);
        let refused = all.iter().filter(|peer| peer.state == PeerState::Refused);
        refused.map(|peer| peer.handle.name().to_string()).collect::<Vec<_>>()
    };
    crew.ask(&first, json!({})).unwrap();
    assert_eq!(refused(), ["n999"]);
    crew.ask(&second, json!({})).unwrap();
    assert_eq!(refused(), Vec::<String>::new());
    let names = json!({"names": {"c": Sender::new(3, "c@c.test").pubkey}});
    let (full, lookups) =
        crew.ask_with(&Sender::new(3, "c@c.test"), json!({}), document(200, &names));
    assert_eq!((refusal(full), lookups), ((Kind::Limited, "team_peers_full"), 0));
}

#[test]
fn accepted_peers_of_an_allowed_domain_are_limited() {
    let crew = Crew::new();
    crew.rule("partner.test", "allow", false);
    crew.fill(0..200, PeerState::Accepted, |_| "partner.test".into());
    let refused = crew.ask(&Sender::new(1, "a@partner.test"), json!({}));
    assert_eq!(refusal(refused), (Kind::Limited, "domain_peers_full"));
}

#[test]
fn peers_are_listed_by_state_and_not_for_others() {
    let crew = Crew::new();
    let one = crew.ask(&Sender::new(1, "a@a.test"), json!({})).unwrap();
    let two = crew.ask(&Sender::new(2, "b@b.test"), json!({})).unwrap();
    crew.refuse(&one, "No.");
    let list = |state: Value| {
        let filter = Fixture::input(json!({"state": state})).unwrap();
        let items = crew.fixture.read(members::list, crew.team, filter).unwrap().items;
        items.iter().map(|peer| json!(peer)["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(list(Value::Null), [two["id"].clone(), one["id"].clone()]);
    assert_eq!(list("refused".into()), [one["id"].clone()]);
    assert_eq!(list("pending".into()), [two["id"].clone()]);
    assert!(list("accepted".into()).is_empty());
    let (_, eve) = crew.fixture.other_org("other");
    let filter = Fixture::input(json!({})).unwrap();
    let foreign = crew.fixture.read_as(&eve, members::list, crew.team, filter);
    assert_eq!(refusal(foreign), (Kind::NotFound, "not_found"));
    let foreign = crew.fixture.write_as(&eve, accept, (crew.team, id(&two)), ());
    assert_eq!(refusal(foreign), (Kind::NotFound, "not_found"));
}
