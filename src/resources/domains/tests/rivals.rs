//! Two organizations that claim one domain, and how often its host is asked.

use super::*;
use crate::resources::listings::Listing;

/// Both organizations claim `acme.test`; that of `acme` is verified.
fn rivals() -> (Fixture, Principal, [Id<Domain>; 2], [Value; 2]) {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let ours = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    let theirs = claim(&fixture, &eve, "acme.test").unwrap().id;
    let made = listing::make(&fixture, json!({})).unwrap();
    let their_body = json!({"pubkey": OTHER_KEY, "visibility": "public"});
    let their_made = listing::make_as(&fixture, &eve, their_body).unwrap();
    let world = World::saying(&[("scribe@acme.test", KEY)]);
    verify_as(&fixture, &fixture.owner, ours, &world).unwrap();
    fixture.pass_secs(1);
    (fixture, eve, [ours, theirs], [made, their_made])
}

#[test]
fn a_domain_that_still_confirms_its_holder_is_refused_to_others() {
    let (fixture, eve, [ours, theirs], [made, _]) = rivals();
    let before = listing::shown(&fixture, &fixture.owner, &made).unwrap();
    let world = World::saying(&[("scribe@acme.test", KEY)]);
    let (refused, rounds) = verify_in(&fixture, &eve, theirs, &world);
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "domain_verified_elsewhere"));
    // It looks up nothing: the verification of the holder is repeated.
    assert!(rounds.is_empty());
    assert_eq!(shown(&fixture, &eve, theirs)["state"], "unverified");
    assert_eq!(listing::shown(&fixture, &fixture.owner, &made).unwrap(), before);
    assert_eq!(run(&fixture, &world), (vec![Settled::Done], 1));
    assert_eq!(shown(&fixture, &fixture.owner, ours)["state"], "verified");
    assert!(is_verified(&fixture, &made));
    fixture.assert_sound();
}

/// Lets a rival ask, and runs what that causes; it must be refused.
fn ask_as(fixture: &Fixture, who: &Principal, claim: Id<Domain>, world: &World) {
    let refused = verify_as(fixture, who, claim, world).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "domain_verified_elsewhere"));
    run(fixture, world);
}

#[test]
fn no_outage_takes_a_domain_from_its_holder_whoever_asks() {
    for down in ["down", "junk"] {
        let (fixture, eve, [ours, theirs], [made, _]) = rivals();
        let world = World::saying(&[("scribe@acme.test", down)]);
        ask_as(&fixture, &eve, theirs, &world);
        for secs in [600, 1200, 1800] {
            fixture.pass_secs(secs);
            ask_as(&fixture, &eve, theirs, &world);
            assert_eq!(shown(&fixture, &fixture.owner, ours)["state"], "verified", "{down}");
            assert!(is_verified(&fixture, &made));
        }
        assert!(jobs(&fixture).is_empty(), "it has no answer, and the next is a day later");
        // Nor if the holder asks.
        let own = verify_as(&fixture, &fixture.owner, ours, &world).unwrap();
        assert_eq!(own["state"], "verified");
        assert_ne!(outcomes(&own), ["match"]);
        assert!(is_verified(&fixture, &made));
        let claim = shown(&fixture, &fixture.owner, ours);
        assert_eq!(claim["verifiedAt"], "2026-01-15T12:00:00.000Z", "the last success");
        fixture.assert_sound();
    }
}

#[test]
fn however_often_others_ask_a_domain_is_looked_up_a_few_times_in_an_hour() {
    let (fixture, eve, [_, theirs], _) = rivals();
    let world = World::saying(&[("scribe@acme.test", KEY)]);
    let mut made = 0;
    for _ in 0..20 {
        for _ in 0..3 {
            verify_as(&fixture, &eve, theirs, &world).unwrap_err();
            assert!(jobs(&fixture).len() <= 1);
        }
        made += run(&fixture, &world).1;
        fixture.pass_secs(60);
    }
    assert_eq!(made, 2, "besides the one of the holder");
    fixture.pass_secs(3600);
    ask_as(&fixture, &eve, theirs, &world);
    fixture.assert_sound();
}

#[test]
fn a_domain_that_confirms_none_is_asked_once_and_a_few_times_in_minutes() {
    let fixture = Fixture::new();
    let domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    for n in 10..60 {
        listing::make(&fixture, json!({"handle": format!("a{n}@acme.test")})).unwrap();
    }
    for _ in 0..5 {
        let (failed, rounds) = verify_in(&fixture, &fixture.owner, domain, &World::default());
        assert_eq!((outcomes(&failed.unwrap()), rounds), (vec!["missing"], vec![1]));
    }
    let (refused, rounds) = verify_in(&fixture, &fixture.owner, domain, &World::default());
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "verified_too_often"));
    assert_eq!((refused.retry_after_secs(), rounds), (Some(300), vec![]));
    fixture.pass_secs(300);
    // The more it confirms, the more it is asked at once, until there is one that it does not.
    let handles: Vec<String> = (10..30).map(|n| format!("a{n}@acme.test")).collect();
    let known: Vec<_> = handles.iter().map(|handle| (handle.as_str(), KEY)).collect();
    let world = World::saying(&known);
    let (failed, rounds) = verify_in(&fixture, &fixture.owner, domain, &world);
    let failed = failed.unwrap();
    assert_eq!((&failed["state"], rounds), (&json!("failed"), vec![1, 8, 41]));
    fixture.assert_sound();
}

#[test]
fn verifications_are_counted_on_whatever_is_deleted_and_made_anew() {
    let fixture = Fixture::new();
    let mut domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    for round in 0..5 {
        let made = listing::make(&fixture, json!({"handle": format!("a{round}@acme.test")}));
        let verified = verify_as(&fixture, &fixture.owner, domain, &World::default());
        assert_eq!(outcomes(&verified.unwrap()), ["missing"]);
        let gone: Id<Listing> = Id::parse(made.unwrap()["id"].as_str().unwrap());
        let remove = move |tx: &mut Tx| tx.remove(&tx.fetch::<Listing>(&gone)?);
        fixture.store.write_blocking(fixture.org, remove).unwrap();
        if round % 2 == 0 {
            fixture.write(delete, domain, ()).unwrap();
            domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
        }
        fixture.pass_secs(10);
    }
    listing::make(&fixture, json!({"handle": "b@acme.test"})).unwrap();
    let (refused, rounds) = verify_in(&fixture, &fixture.owner, domain, &World::default());
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "verified_too_often"));
    assert_eq!((refused.retry_after_secs(), rounds), (Some(250), vec![]));
    // Those of another domain and of another organization are counted apart.
    let other = claim(&fixture, &fixture.owner, "b.test").unwrap().id;
    listing::make(&fixture, json!({"handle": "b@b.test"})).unwrap();
    verify_as(&fixture, &fixture.owner, other, &World::default()).unwrap();
    let (_, eve) = fixture.other_org("globex");
    let theirs = claim(&fixture, &eve, "acme.test").unwrap().id;
    listing::make_as(&fixture, &eve, json!({})).unwrap();
    verify_as(&fixture, &eve, theirs, &World::default()).unwrap();
    fixture.assert_sound();
}

#[test]
fn verifications_of_many_domains_are_forgotten_after_an_hour() {
    let fixture = Fixture::new();
    let kept = || {
        let all = |view: &View| view.all::<RecentVerifications>(ListSource::TABLE, &());
        fixture.store.read_now(fixture.org, all).unwrap().len()
    };
    let verified = |name: &str| {
        let domain = claim(&fixture, &fixture.owner, &format!("{name}.test")).unwrap().id;
        listing::make(&fixture, json!({"handle": format!("a@{name}.test")})).unwrap();
        verify_as(&fixture, &fixture.owner, domain, &World::default()).unwrap();
    };
    ["a", "b", "c", "d"].into_iter().for_each(verified);
    assert_eq!(kept(), 4);
    fixture.pass_secs(3600);
    verified("e");
    assert_eq!(kept(), 3);
    verified("f");
    assert_eq!(kept(), 2);
    fixture.assert_sound();
}

#[test]
fn a_domain_goes_over_to_whom_it_confirms() {
    let (fixture, eve, [ours, theirs], [made, their_made]) = rivals();
    let world = World::saying(&[("scribe@acme.test", OTHER_KEY)]);
    ask_as(&fixture, &eve, theirs, &world);
    let verified = verify_as(&fixture, &eve, theirs, &world).unwrap();
    assert_eq!((&verified["state"], outcomes(&verified)), (&json!("verified"), vec!["match"]));
    assert_eq!(shown(&fixture, &fixture.owner, ours)["state"], "failed");
    let lost = listing::shown(&fixture, &fixture.owner, &made).unwrap();
    assert_eq!(lost["verified"], false);
    assert_eq!(lost["verificationHistory"][0]["outcome"], "mismatch");
    assert!(is_verified(&fixture, &their_made));
    // Back again.
    let world = World::saying(&[("scribe@acme.test", KEY)]);
    ask_as(&fixture, &fixture.owner, ours, &world);
    verify_as(&fixture, &fixture.owner, ours, &world).unwrap();
    assert!(is_verified(&fixture, &made) && !is_verified(&fixture, &their_made));
    fixture.assert_sound();
}

#[test]
fn a_domain_that_confirms_nobody_is_lost_by_its_holder() {
    let (fixture, eve, [ours, theirs], [made, _]) = rivals();
    ask_as(&fixture, &eve, theirs, &World::default());
    let failed = verify_as(&fixture, &eve, theirs, &World::default()).unwrap();
    assert_eq!(failed["state"], "failed");
    assert_eq!(shown(&fixture, &fixture.owner, ours)["state"], "failed");
    assert!(!is_verified(&fixture, &made));
    fixture.assert_sound();
}
