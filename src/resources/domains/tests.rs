//! Claims, their verification and its repetition, with the answers of a table in place of domains.

mod limits;
mod rivals;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::repeat::{ENQUEUE_DUE, REPEAT};
use super::*;
use crate::api::{Calls, Principal};
use crate::base::Kind;
use crate::outbox::{
    Effect, EffectResult, Job, Prepared, RetentionSettings, Settled, SweepProgress,
};
use crate::outside::{Call, CallResult, Failure, Response};
use crate::resources::listings::tests::{self as listing, KEY, OTHER_KEY};
use crate::resources::testing::{Fixture, args};

const DAY_SECS: i64 = 24 * 3600;

/// What the domains of the world say: the key of a handle, or a failure.
#[derive(Clone, Default)]
struct World(HashMap<String, &'static str>);

impl World {
    fn saying(handles: &[(&str, &'static str)]) -> Self {
        World(handles.iter().map(|(handle, key)| (handle.to_string(), *key)).collect())
    }

    fn answer(&self, call: &Call) -> CallResult {
        let url = call.url.strip_prefix("https://").unwrap();
        let (domain, name) = url.split_once("/.well-known/nostr.json?name=").unwrap();
        let answer = match self.0.get(&format!("{name}@{domain}")) {
            Some(&"down") => {
                Err(Failure::TimedOut { host: domain.into(), after: Duration::from_secs(5) })
            }
            Some(&"junk") => Ok("<html>".into()),
            Some(key) => Ok(json!({"names": {name: key}}).to_string()),
            None => Ok(json!({"names": {}}).to_string()),
        };
        let ok = |body: String| Response { status: 200, headers: vec![], body: body.into() };
        CallResult { answer: answer.map(ok), took: Duration::ZERO }
    }
}

fn claim(fixture: &Fixture, who: &Principal, domain: &str) -> Result<Domain> {
    fixture.write_as(who, create, (), Fixture::input(json!({ "domain": domain }))?)
}

fn shown(fixture: &Fixture, who: &Principal, domain: Id<Domain>) -> Value {
    json!(fixture.read_as(who, get, domain, ()).unwrap())
}

/// Verifies a domain as somebody, with the answers of the world; returns how many calls were made in
/// each round as well.
fn verify_in(
    fixture: &Fixture,
    who: &Principal,
    domain: Id<Domain>,
    world: &World,
) -> (Result<Value>, Vec<usize>) {
    let Principal::Caller(caller) = who else { panic!() };
    let mut heard: Vec<(Call, CallResult)> = Vec::new();
    let mut rounds = Vec::new();
    loop {
        let asked: Arc<Mutex<Vec<Call>>> = Arc::default();
        let (known, asking) = (heard.clone(), asked.clone());
        let (who, args) = (who.clone(), args(domain, ()));
        let attempt = move |tx: &mut Tx| {
            let mut calls = Calls::default();
            known.iter().for_each(|(call, result)| calls.hear(call, result.clone()));
            let verified = verify(tx, &Req::new(&args, &who), &mut calls);
            let missing: Vec<_> = calls.asked().into_iter().cloned().collect();
            let is_complete = missing.is_empty();
            *asking.lock().unwrap() = missing;
            let discarded = || Error::internal("the run is discarded");
            // A refusal is committed.
            if is_complete { verified } else { Err(discarded()) }
        };
        let verified = fixture.store.write_blocking(caller.org, attempt);
        let verified = verified.and_then(Outcome::done);
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        if asked.is_empty() {
            return (verified.map(|verification| json!(verification)), rounds);
        }
        rounds.push(asked.len());
        heard.extend(asked.into_iter().map(|call| {
            let result = world.answer(&call);
            (call, result)
        }));
    }
}

fn verify_as(
    fixture: &Fixture,
    who: &Principal,
    domain: Id<Domain>,
    world: &World,
) -> Result<Value> {
    verify_in(fixture, who, domain, world).0
}

/// The outcomes of a verification, by name of the handles.
fn outcomes(verification: &Value) -> Vec<&str> {
    let results = verification["results"].as_array().unwrap();
    results.iter().map(|result| result["outcome"].as_str().unwrap()).collect()
}

fn is_verified(fixture: &Fixture, listing: &Value) -> bool {
    listing::shown(fixture, &fixture.owner, listing).unwrap()["verified"] == true
}

// ── Claims ───────────────────────────────────────────────────────────────────

#[test]
fn an_organization_claims_a_domain_once_in_any_spelling() {
    let fixture = Fixture::new();
    let made = claim(&fixture, &fixture.member, "Bücher.Example").unwrap();
    assert_eq!(made.domain.as_str(), "xn--bcher-kva.example");
    assert_eq!((made.state, made.verified_at), (DomainState::Unverified, None));
    let taken = claim(&fixture, &fixture.member, "XN--bcher-kva.example").err().unwrap();
    assert_eq!((taken.kind(), taken.code()), (Kind::Conflict, "domain_taken"));

    let (_, eve) = fixture.other_org("globex");
    assert!(claim(&fixture, &eve, "bücher.example").is_ok());
    let foreign = fixture.read_as(&eve, get, made.id, ()).err().unwrap();
    assert_eq!(foreign.kind(), Kind::NotFound);

    fixture.write(delete, made.id, ()).unwrap();
    assert_eq!(fixture.write(delete, made.id, ()).err().unwrap().kind(), Kind::NotFound);
    assert!(claim(&fixture, &fixture.member, "bücher.example").is_ok());
    fixture.assert_sound();
}

// ── Verification ─────────────────────────────────────────────────────────────

#[test]
fn a_domain_is_verified_if_it_confirms_every_handle_on_it() {
    let fixture = Fixture::new();
    let domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    let a = listing::make(&fixture, json!({"handle": "a@acme.test"})).unwrap();
    let b = json!({"handle": "b@acme.test", "pubkey": OTHER_KEY});
    let b = listing::make(&fixture, b).unwrap();
    // Neither is on exactly this domain.
    for handle in ["a@sub.acme.test", "a@cme.test"] {
        listing::make(&fixture, json!({ "handle": handle })).unwrap();
    }
    let all = World::saying(&[("a@acme.test", KEY), ("b@acme.test", OTHER_KEY)]);
    let (verified, rounds) = verify_in(&fixture, &fixture.owner, domain, &all);
    let verified = verified.unwrap();
    let result = |listing: &Value, handle: &str| json!({"listingId": listing["id"], "handle": handle, "outcome": "match", "reason": null});
    let expected = json!({
        "id": verified["id"], "domainId": domain, "state": "verified",
        "checkedAt": "2026-01-15T12:00:00.000Z",
        "results": [result(&a, "a@acme.test"), result(&b, "b@acme.test")],
    });
    assert_eq!((verified, rounds), (expected, vec![1, 1]));
    assert!(is_verified(&fixture, &a) && is_verified(&fixture, &b));
    let claim = shown(&fixture, &fixture.member, domain);
    assert_eq!(claim["verifiedAt"], "2026-01-15T12:00:00.000Z");
    assert_eq!(claim.as_object().unwrap().len(), 5, "{claim}");

    for (said, outcome) in [
        (Some(KEY), "mismatch"),
        (None, "missing"),
        (Some("down"), "unreachable"),
        (Some("junk"), "invalid"),
    ] {
        let mut world = all.clone();
        world.0.remove("b@acme.test");
        world.0.extend(said.map(|said| ("b@acme.test".to_string(), said)));
        fixture.pass_secs(60);
        let failed = verify_as(&fixture, &fixture.owner, domain, &world).unwrap();
        assert_eq!(
            (outcomes(&failed), &failed["state"]),
            (vec!["match", outcome], &json!("failed"))
        );
        let has_reason = failed["results"][1]["reason"].is_string();
        assert_eq!(has_reason, ["unreachable", "invalid"].contains(&outcome), "{failed}");
        // The other one is not verified either: its domain is not.
        assert!(!is_verified(&fixture, &a) && !is_verified(&fixture, &b), "{outcome}");
        let claim = shown(&fixture, &fixture.member, domain);
        assert_eq!(claim["verifiedAt"], "2026-01-15T12:00:00.000Z", "the last success");
    }
    fixture.pass_secs(60);
    verify_as(&fixture, &fixture.owner, domain, &all).unwrap();
    assert!(is_verified(&fixture, &b));
    let history = listing::shown(&fixture, &fixture.owner, &b).unwrap();
    let history = history["verificationHistory"].as_array().unwrap().clone();
    let seen: Vec<_> = history.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(seen, ["match", "invalid", "unreachable", "missing", "mismatch", "match"]);
    assert_eq!(history[5]["checkedAt"], "2026-01-15T12:00:00.000Z");
    fixture.assert_sound();
}

#[test]
fn a_domain_without_listings_is_unverified_or_becomes_so_again() {
    let fixture = Fixture::new();
    let domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    let none = verify_as(&fixture, &fixture.owner, domain, &World::default()).unwrap();
    assert_eq!((&none["state"], &none["results"]), (&json!("unverified"), &json!([])));
    let made = listing::make(&fixture, json!({})).unwrap();
    let world = World::saying(&[("scribe@acme.test", KEY)]);
    verify_as(&fixture, &fixture.owner, domain, &world).unwrap();
    let moved = json!({"handle": "scribe@elsewhere.test"});
    listing::patch_as(&fixture, &fixture.owner, &made, moved).unwrap();
    assert_eq!(
        shown(&fixture, &fixture.owner, domain)["state"],
        "verified",
        "until it is verified"
    );
    let again = verify_as(&fixture, &fixture.owner, domain, &world).unwrap();
    assert_eq!(again["state"], "unverified");
    fixture.assert_sound();
}

#[test]
fn a_verification_holds_for_the_handle_and_key_that_were_looked_up() {
    let fixture = Fixture::new();
    let domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    let made = listing::make(&fixture, json!({})).unwrap();
    let world = World::saying(&[("scribe@acme.test", KEY), ("b@acme.test", KEY)]);
    let verify = || verify_as(&fixture, &fixture.owner, domain, &world).unwrap();
    let patch = |patch| listing::patch_as(&fixture, &fixture.owner, &made, patch).unwrap();
    verify();
    // What does not concern it leaves it verified.
    assert_eq!(patch(json!({"displayName": "S", "visibility": "public"}))["verified"], true);
    assert_eq!(patch(json!({"pubkey": OTHER_KEY}))["verified"], false);
    assert_eq!(patch(json!({"pubkey": KEY}))["verified"], false, "not looked up since");
    verify();
    assert_eq!(patch(json!({"handle": "b@acme.test"}))["verified"], false);
    verify();
    assert!(is_verified(&fixture, &made));
    // A new listing is not verified before the next verification.
    let new = listing::make(&fixture, json!({})).unwrap();
    assert_eq!(new["verified"], false);
    verify();
    assert!(is_verified(&fixture, &new));
    // Without its claim nothing is.
    fixture.write(delete, domain, ()).unwrap();
    assert!(!is_verified(&fixture, &made) && !is_verified(&fixture, &new));
    fixture.assert_sound();
}

#[test]
fn the_history_of_a_listing_has_its_last_50_verifications() {
    let fixture = Fixture::new();
    let domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    let made = listing::make(&fixture, json!({})).unwrap();
    let mut last = Value::Null;
    for _ in 0..52 {
        fixture.pass_secs(60);
        last = verify_as(&fixture, &fixture.owner, domain, &World::default()).unwrap();
    }
    let history = listing::shown(&fixture, &fixture.owner, &made).unwrap();
    let history = history["verificationHistory"].as_array().unwrap().clone();
    assert_eq!(history.len(), 50);
    assert_eq!(history[0]["verificationId"], last["id"]);
}

// ── Repetition ───────────────────────────────────────────────────────────────

/// Runs the sweep of `acme`.
fn sweep(fixture: &Fixture) {
    let run = |tx: &mut Tx| (ENQUEUE_DUE.run)(tx, &RetentionSettings::default());
    fixture.store.write_blocking(fixture.org, run).unwrap();
}

fn jobs(fixture: &Fixture) -> Vec<Job> {
    let jobs = fixture.store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &()));
    let is_ours = |job: &Job| job.kind == REPEAT.kind;
    jobs.unwrap().into_iter().filter(is_ours).collect()
}

/// Runs the jobs that are due, as the runner does; returns how each ended, and how many calls were
/// made.
fn run(fixture: &Fixture, world: &World) -> (Vec<Settled>, usize) {
    let now = fixture.store.clock().now();
    let (mut ends, mut made) = (Vec::new(), 0);
    for job in jobs(fixture).into_iter().filter(|job| job.due_at <= now) {
        let job = Job { attempts: job.attempts + 1, ..job };
        let (own, shared) = (job.clone(), world.clone());
        let (end, calls) = fixture
            .store
            .write_blocking(job.org, move |tx| {
                tx.put(&own)?;
                let (settled, calls) = match (REPEAT.prepare)(tx, &own)? {
                    Prepared::Done => (Settled::Done, 0),
                    Prepared::Effect(Effect::Calls(asked)) => {
                        let mut answers = Vec::new();
                        for (index, call) in asked.calls.iter().enumerate() {
                            let result = shared.answer(call);
                            let goes_on = (asked.goes_on)(index, &result);
                            answers.push((call.url.clone(), result));
                            if !goes_on {
                                break;
                            }
                        }
                        let calls = answers.len();
                        ((REPEAT.settle)(tx, &own, &EffectResult::Answers(answers))?, calls)
                    }
                    _ => panic!("a verification makes calls"),
                };
                match &settled {
                    Settled::RetryAt(due_at) => tx.put(&Job { due_at: *due_at, ..own.clone() })?,
                    _ => tx.remove(&own)?,
                }
                Ok((settled, calls))
            })
            .unwrap();
        ends.push(end);
        made += calls;
    }
    (ends, made)
}

/// `acme` with a verified domain and a listing on it.
fn verified() -> (Fixture, Id<Domain>, Value, World) {
    let fixture = Fixture::new();
    let domain = claim(&fixture, &fixture.owner, "acme.test").unwrap().id;
    let made = listing::make(&fixture, json!({})).unwrap();
    let world = World::saying(&[("scribe@acme.test", KEY)]);
    verify_as(&fixture, &fixture.owner, domain, &world).unwrap();
    (fixture, domain, made, world)
}

#[test]
fn a_verified_domain_is_verified_again_every_day() {
    let (fixture, domain, made, world) = verified();
    sweep(&fixture);
    assert!(jobs(&fixture).is_empty(), "not yet");
    for day in 1..4 {
        fixture.pass_secs(DAY_SECS);
        sweep(&fixture);
        sweep(&fixture);
        assert_eq!(run(&fixture, &world), (vec![Settled::Done], 1));
        assert!(jobs(&fixture).is_empty());
        let listing = listing::shown(&fixture, &fixture.owner, &made).unwrap();
        assert_eq!(listing["verificationHistory"].as_array().unwrap().len(), day + 1);
    }
    assert_eq!(shown(&fixture, &fixture.owner, domain)["verifiedAt"], "2026-01-18T12:00:00.000Z");
    fixture.assert_sound();
}

#[test]
fn a_domain_that_was_verified_while_the_clock_was_ahead_is_verified_again_once_it_is_right() {
    let (fixture, domain, _, world) = verified();
    fixture.pass_secs(30 * DAY_SECS);
    verify_as(&fixture, &fixture.owner, domain, &world).unwrap();
    fixture.pass_secs(-30 * DAY_SECS);
    sweep(&fixture);
    assert_eq!(run(&fixture, &world), (vec![Settled::Done], 1));
    sweep(&fixture);
    assert!(jobs(&fixture).is_empty(), "then the next day");
}

#[test]
fn an_organization_with_many_due_domains_does_not_delay_the_others() {
    let fixture = Fixture::new();
    let (globex, eve) = fixture.other_org("globex");
    let mut world = World::default();
    for n in 0..5 {
        let domain = format!("d{n}.test");
        let handle = format!("scribe@{domain}");
        world.0.insert(handle.clone(), KEY);
        let who = if n == 4 { &eve } else { &fixture.owner };
        listing::make_as(&fixture, who, json!({ "handle": handle })).unwrap();
        let claimed = claim(&fixture, who, &domain).unwrap();
        verify_as(&fixture, who, claimed.id, &world).unwrap();
    }
    fixture.pass_secs(DAY_SECS);
    let sweep_all = || {
        sweep(&fixture);
        let run = |tx: &mut Tx| (ENQUEUE_DUE.run)(tx, &RetentionSettings::default());
        assert_eq!(fixture.store.write_blocking(globex, run).unwrap(), SweepProgress::Clean);
        let jobs = jobs(&fixture);
        (jobs.len(), jobs.iter().filter(|job| job.org == globex).count())
    };
    assert_eq!(sweep_all(), (3, 1), "two of the one, and the only one of the other");
    assert_eq!(sweep_all(), (5, 1), "the rest in the next run");
    assert_eq!(sweep_all(), (5, 1));
}

#[test]
fn a_verification_that_ceases_to_hold_is_logged_and_ends_until_the_next_explicit_one() {
    let (fixture, domain, made, world) = verified();
    fixture.pass_secs(DAY_SECS);
    sweep(&fixture);
    let (ends, calls) = run(&fixture, &World::saying(&[("scribe@acme.test", OTHER_KEY)]));
    let warning = "the domain acme.test is no longer verified, 1 of 1 handles failed: \
                   scribe@acme.test is mismatch";
    assert_eq!((ends, calls), (vec![Settled::Warning(warning.into())], 1));
    assert_eq!(shown(&fixture, &fixture.owner, domain)["state"], "failed");
    assert!(!is_verified(&fixture, &made));
    // Only the explicit step verifies.
    fixture.pass_secs(2 * DAY_SECS);
    sweep(&fixture);
    assert!(jobs(&fixture).is_empty());
    verify_as(&fixture, &fixture.owner, domain, &world).unwrap();
    assert!(is_verified(&fixture, &made));
    fixture.assert_sound();
}

#[test]
fn an_outage_does_not_end_a_verification_that_is_repeated() {
    let (fixture, domain, made, world) = verified();
    let down = World::saying(&[("scribe@acme.test", "down")]);
    for recovers in [true, false] {
        fixture.pass_secs(DAY_SECS);
        sweep(&fixture);
        for secs in [600, 1200, 1800] {
            let (ends, _) = run(&fixture, &down);
            let later = fixture.store.clock().now().plus_secs(secs);
            assert_eq!(ends, [Settled::RetryAt(later)]);
            assert!(is_verified(&fixture, &made));
            fixture.pass_secs(secs);
        }
        let (ends, _) = run(&fixture, if recovers { &world } else { &down });
        assert_eq!(ends[0] == Settled::Done, recovers, "{ends:?}");
        assert!(is_verified(&fixture, &made));
    }
    // Nor does it end the repetitions.
    fixture.pass_secs(DAY_SECS);
    sweep(&fixture);
    assert_eq!(run(&fixture, &world), (vec![Settled::Done], 1));
    assert_eq!(shown(&fixture, &fixture.owner, domain)["state"], "verified");
    fixture.assert_sound();
}

#[test]
fn a_repetition_asks_for_no_more_handles_after_one_that_is_not_confirmed() {
    let (fixture, domain, made, _) = verified();
    for n in 0..5 {
        listing::make(&fixture, json!({"handle": format!("t{n}@acme.test")})).unwrap();
    }
    fixture.pass_secs(DAY_SECS);
    sweep(&fixture);
    let world = World::saying(&[("scribe@acme.test", KEY), ("t0@acme.test", OTHER_KEY)]);
    let (ends, calls) = run(&fixture, &world);
    assert!(matches!(ends[..], [Settled::Warning(_)]), "{ends:?}");
    assert_eq!(calls, 2);
    assert_eq!(shown(&fixture, &fixture.owner, domain)["state"], "failed");
    assert!(!is_verified(&fixture, &made));
    fixture.assert_sound();
}

#[test]
fn a_repetition_passes_over_what_is_gone_meanwhile() {
    let (fixture, domain, made, world) = verified();
    fixture.pass_secs(DAY_SECS);
    sweep(&fixture);
    let moved = json!({"handle": "scribe@elsewhere.test"});
    listing::patch_as(&fixture, &fixture.owner, &made, moved).unwrap();
    assert_eq!(run(&fixture, &world), (vec![Settled::Done], 0));
    assert_eq!(shown(&fixture, &fixture.owner, domain)["state"], "unverified");

    let (fixture, domain, _, world) = verified();
    fixture.pass_secs(DAY_SECS);
    sweep(&fixture);
    fixture.write(delete, domain, ()).unwrap();
    assert_eq!(run(&fixture, &world), (vec![Settled::Done], 0));
    assert!(jobs(&fixture).is_empty());
    fixture.assert_sound();
}
