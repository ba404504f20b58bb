//! The agent index: listings, the verification of domains against real HTTPS servers, and what the
//! server says of itself at well-known paths.

use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use roadstead::app::ServerConfig;
use serde_json::{Value, json};

use crate::client::{Caller, Connection, Reply, eventually, pick, while_limited};
use crate::fixture::{Fixture, Running, config, unknown_id};
use crate::sites::{Sites, names, response};

/// The public keys of the first two test vectors of BIP-340.
const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";
const OTHER_KEY: &str = "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659";

/// Lists the agent `scribe`, which is made if need be.
fn make(caller: &Caller, handle: &str, more: Value) -> Value {
    caller.post("/agents", json!({"stableKey": "scribe", "name": "Scribe"}));
    let mut body = json!({"stableKey": "scribe", "handle": handle, "pubkey": KEY,
        "displayName": "Scribe"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    caller.post("/agent-index/listings", body).ok()
}

fn path(listing: &Value) -> String {
    format!("/agent-index/listings/{}", listing["id"].as_str().unwrap())
}

/// Claims a domain; returns the path of its verifications.
fn claim(caller: &Caller, domain: &str) -> String {
    let claimed = caller.post("/organizations/domains", json!({ "domain": domain })).id();
    format!("/organizations/domains/{claimed}/verifications")
}

/// The outcome of each handle of a verification, with its reason.
fn outcomes(verification: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let results = verification["results"].as_array().unwrap().iter();
    let result = |one: &Value| (text(&one["handle"]), text(&one["outcome"]), text(&one["reason"]));
    results.map(result).collect()
}

/// GET of a path outside of the API with this `Host`.
fn get_at(running: &Running, host: &str, path: &str) -> Reply {
    let mut connection = Connection::open(running.address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    connection.write(request.as_bytes()).unwrap();
    connection.reply(false).unwrap()
}

// ── Listings ─────────────────────────────────────────────────────────────────

#[test]
fn a_listing_is_validated_with_all_its_problems() {
    let acme = Fixture::new();
    acme.admin.post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    let post = |body| acme.admin.post("/agent-index/listings", body);
    post(json!({})).invalid(&["stableKey", "handle", "pubkey", "displayName"]);
    let bad = json!({"stableKey": "scribe", "handle": "Scribe@acme.test", "pubkey": "0".repeat(64),
        "displayName": "", "skills": [""], "visibility": "secret", "contactPolicy": "x",
        "cardState": "y"});
    post(bad).invalid(&[
        "handle",
        "pubkey",
        "displayName",
        "skills[0]",
        "visibility",
        "contactPolicy",
        "cardState",
    ]);
    let good = json!({"stableKey": "scribe", "handle": "scribe@Acme.Test", "pubkey": KEY,
        "displayName": "Scribe"});
    let mut unknown = good.clone();
    unknown["stableKey"] = json!("nobody");
    let missing = post(unknown);
    assert_eq!((missing.status, missing.json()["path"].clone()), (404, json!("stableKey")));
    let made = post(good.clone()).ok();
    assert_eq!(made["handle"], "scribe@acme.test");
    post(good).refused(409, "handle_taken");
    acme.admin.patch(&path(&made), json!({"stableKey": "b"})).invalid(&["stableKey"]);
    let query = |query: &str| acme.member.get(&format!("/agent-index/listings?{query}"));
    query("mine=yes").invalid(&["mine"]);
    query("cursor=x").invalid(&["cursor"]);
    query("skil=x").invalid(&["skil"]);
    assert_eq!(query("handle=scribe@acme.test&mine=true&q=SCRIBE").items().len(), 1);
    acme.admin.delete(&path(&made)).ok();
    acme.admin.delete(&path(&made)).refused(404, "not_found");
}

#[test]
fn only_admins_of_its_organization_write_a_listing() {
    let running = Running::start(config());
    let (acme, globex) = (running.fixture(), running.fixture());
    let public = make(&acme.admin, "a@acme.test", json!({"visibility": "public"}));
    let hidden = make(&acme.admin, "b@acme.test", json!({}));
    let body = json!({"stableKey": "scribe", "handle": "c@acme.test", "pubkey": KEY,
        "displayName": "C"});
    acme.member.post("/agent-index/listings", body).refused(403, "admin_required");
    acme.member.patch(&path(&public), json!({})).refused(403, "admin_required");
    acme.member.delete(&path(&public)).refused(403, "admin_required");
    let unknown = globex.owner.get(&format!("/agent-index/listings/{}", unknown_id()));
    for listing in [&public, &hidden] {
        let path = path(listing);
        for reply in [globex.owner.patch(&path, json!({})), globex.owner.delete(&path)] {
            assert_eq!(reply.likeness(), unknown.likeness());
        }
    }
    assert_eq!(globex.owner.get(&path(&hidden)).likeness(), unknown.likeness());
    // Owners see what others do not.
    let own = acme.member.get(&path(&public)).ok();
    let foreign = globex.key.get(&path(&public)).ok();
    let fields = |listing: &Value| listing.as_object().unwrap().len();
    assert_eq!(fields(&own), fields(&foreign) + 4);
    for field in ["contactPolicy", "cardState", "updatedBy", "verificationHistory"] {
        assert!(own.get(field).is_some() && foreign.get(field).is_none(), "{field}");
    }
    assert_eq!(globex.member.walk("/agent-index/listings", 1), [foreign]);
    assert_eq!(globex.member.get("/agent-index/listings?mine=true").items(), [Value::Null; 0]);
    assert_eq!(acme.member.walk("/agent-index/listings", 1).len(), 2);
}

// ── Verification ─────────────────────────────────────────────────────────────

/// A domain that answers each name in its own way.
fn serve_everything(sites: &Sites, domain: &str) {
    sites.serve(domain, |name| match name {
        name if name.starts_with("a-") => names(name, KEY),
        "good" => names(name, KEY),
        "other" => names(name, OTHER_KEY),
        "capitals" => names(name, &KEY.to_uppercase()),
        "missing" => names("good", KEY),
        "redirect" => response(302, "location: /.well-known/nostr.json?name=good\r\n", ""),
        "failing" => response(500, "", ""),
        "junk" => response(200, "", "<html>"),
        "large" => response(200, "", &format!("{}{{\"names\": {{}}}}", " ".repeat(70_000))),
        "huge" => response(200, "", &" ".repeat(10_000_000)),
        "broken" => b"no HTTP at all\r\n\r\n".to_vec(),
        _ => {
            // Longer than anyone waits.
            std::thread::park();
            Vec::new()
        }
    });
}

#[test]
fn a_verification_tells_apart_everything_that_a_domain_may_answer() {
    let sites = Sites::new();
    let expected = [
        ("broken", "unreachable", "did not answer as HTTP asks"),
        ("capitals", "mismatch", ""),
        ("failing", "unreachable", "status 500"),
        ("good", "match", ""),
        ("huge", "invalid", "longer than 65536 bytes"),
        ("junk", "invalid", "not JSON"),
        ("large", "invalid", "longer than 65536 bytes"),
        ("missing", "missing", ""),
        ("other", "mismatch", ""),
        ("redirect", "unreachable", "redirects"),
        ("slow", "unreachable", "no complete answer within 5 s"),
    ];
    // Each on a domain of its own, since a verification ends with the first that does not match.
    for (name, ..) in expected {
        serve_everything(&sites, &format!("{name}.test"));
    }
    let running = Running::start(sites.configure(config()));
    let acme = running.fixture();
    for (name, outcome, phrase) in expected {
        let domain = format!("{name}.test");
        let verifications = claim(&acme.admin, &domain);
        let handle = format!("{name}@{domain}");
        // One that is confirmed comes before it.
        let listed = [&format!("a-{name}@{domain}"), &handle]
            .map(|handle| make(&acme.admin, handle, json!({})));
        let begun = Instant::now();
        let verified = acme.admin.post(&verifications, json!({})).ok();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(verified["state"] == "verified", outcome == "match", "{verified}");
        let found = outcomes(&verified);
        assert_eq!((found.len(), found[0].1.as_str()), (2, "match"), "{verified}");
        let (asked, said, reason) = &found[1];
        assert_eq!((asked.as_str(), said.as_str()), (handle.as_str(), outcome));
        assert!(reason.contains(phrase) && reason.is_empty() == phrase.is_empty(), "{reason}");
        let audited = acme.admin.get(&path(&listed[1])).ok();
        assert_eq!(
            audited["verificationHistory"],
            json!([{"verificationId": verified["id"],
            "checkedAt": verified["checkedAt"], "outcome": outcome}])
        );
    }
    running.stop();
}

#[test]
fn a_domain_that_cannot_be_reached_is_reported_with_the_reason() {
    let (sites, outsiders) = (Sites::new(), Sites::new());
    sites.serve_as("wrong.test", "elsewhere.test", |name| names(name, KEY));
    outsiders.serve("strange.test", |name| names(name, KEY));
    let strange = outsiders.configure(config()).resolver.0("strange.test", 443).unwrap()[0];
    sites.lead("strange.test", strange);
    sites.listen("plain.test", |mut stream| {
        let _ = std::io::Write::write_all(&mut stream, &names("a", KEY));
    });
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    sites.lead("closed.test", closed);
    sites.lead("private.test", ([10, 0, 0, 1], 443).into());
    let running = Running::start(sites.configure(config()));
    let acme = running.fixture();
    for (domain, phrase) in [
        ("wrong.test", "no TLS with wrong.test"),
        ("strange.test", "no TLS with strange.test"),
        ("plain.test", "no TLS with plain.test"),
        ("closed.test", "closed.test cannot be connected to"),
        ("private.test", "--allow-private-network"),
        ("nowhere.invalid", "nowhere.invalid cannot be resolved"),
    ] {
        make(&acme.admin, &format!("a@{domain}"), json!({}));
        let verified = acme.admin.post(&claim(&acme.admin, domain), json!({})).ok();
        let found = outcomes(&verified);
        assert_eq!((found[0].1.as_str(), &verified["state"]), ("unreachable", &json!("failed")));
        assert!(found[0].2.contains(phrase), "{domain}: {}", found[0].2);
    }
    running.stop();
}

#[test]
fn everything_but_the_verification_works_without_a_network() {
    // Nothing outside of this machine is allowed, and no name is known.
    let running = Running::start(ServerConfig { allow_private: vec![], ..config() });
    let acme = running.fixture();
    let verifications = claim(&acme.admin, "acme.invalid");
    let none = acme.admin.post(&verifications, json!({})).ok();
    assert_eq!(none["state"], "unverified");
    let made = make(&acme.admin, "scribe@acme.invalid", json!({"cardState": "published"}));
    assert_eq!(
        acme.member.get("/agent-index/listings?q=scribe").items(),
        std::slice::from_ref(&made)
    );
    let card = acme.member.get(&format!("{}/agent-card.json", path(&made))).ok();
    assert_eq!(card["name"], "Scribe");
    let verified = acme.admin.post(&verifications, json!({})).ok();
    let found = outcomes(&verified);
    assert_eq!((found[0].1.as_str(), &verified["state"]), ("unreachable", &json!("failed")));
    assert!(found[0].2.contains("acme.invalid cannot be resolved"), "{}", found[0].2);
    let reply = get_at(&running, "acme.invalid", "/.well-known/nostr.json?name=scribe");
    assert_eq!(reply.json(), json!({"names": {}}));
    running.stop();
}

/// Look-ups that wait at a domain until it answers.
#[derive(Default)]
struct Waiting {
    here: usize,
    most: usize,
    answers: bool,
}

#[test]
fn handles_are_looked_up_8_at_a_time_and_nobody_waits_meanwhile() {
    const AT_ONCE: usize = 8;
    let sites = Sites::new();
    let domain = Arc::new((Mutex::new(Waiting::default()), Condvar::new()));
    let asked = domain.clone();
    sites.serve("acme.test", move |name| {
        // The first one, without which no others are looked up.
        if name == "a0" {
            return names(name, KEY);
        }
        let mut waiting = asked.0.lock().unwrap();
        waiting.here += 1;
        waiting.most = waiting.most.max(waiting.here);
        asked.1.notify_all();
        waiting = asked.1.wait_while(waiting, |waiting| !waiting.answers).unwrap();
        waiting.here -= 1;
        names(name, KEY)
    });
    let running = Running::start(sites.configure(config()));
    let (acme, globex) = (running.fixture(), running.fixture());
    let verifications = claim(&acme.admin, "acme.test");
    for n in 0..3 * AT_ONCE {
        make(&acme.admin, &format!("a{n}@acme.test"), json!({}));
    }
    let verified = std::thread::scope(|threads| {
        let verifying = threads.spawn(|| acme.admin.post(&verifications, json!({})).ok());
        let waiting = domain.0.lock().unwrap();
        drop(domain.1.wait_while(waiting, |waiting| waiting.here < AT_ONCE).unwrap());
        // Others write while the domain does not answer, also to what is verified.
        for (who, slug) in [(&acme.admin, "a"), (&acme.key, "b"), (&globex.admin, "c")] {
            who.post("/teams", json!({"slug": slug, "name": "Crew"})).ok();
        }
        let listed = acme.admin.get("/agent-index/listings?limit=1").items();
        acme.admin.patch(&path(&listed[0]), json!({"displayName": "Meanwhile"})).ok();
        assert!(!verifying.is_finished());
        domain.0.lock().unwrap().answers = true;
        domain.1.notify_all();
        verifying.join().unwrap()
    });
    assert_eq!(verified["state"], "verified", "{verified}");
    assert_eq!(domain.0.lock().unwrap().most, AT_ONCE);
    running.stop();
}

#[test]
fn a_domain_belongs_to_the_organization_whose_keys_it_confirms() {
    let sites = Sites::new();
    let key = Arc::new(Mutex::new(KEY));
    let said = key.clone();
    sites.serve("shared.test", move |name| names(name, *said.lock().unwrap()));
    let running = Running::start(sites.configure(config()));
    let (acme, globex) = (running.fixture(), running.fixture());
    let (ours, theirs) = (claim(&acme.admin, "shared.test"), claim(&globex.admin, "shared.test"));
    let made = make(&acme.admin, "scribe@shared.test", json!({"visibility": "public"}));
    make(&globex.admin, "scribe@shared.test", json!({"pubkey": OTHER_KEY}));
    let at = "/.well-known/nostr.json?name=scribe";
    let served = || get_at(&running, "shared.test", at).json()["names"]["scribe"].clone();
    assert_eq!(served(), Value::Null);
    let verify = |who: &Caller, path: &str| who.post(path, json!({}));
    assert_eq!(verify(&acme.admin, &ours).ok()["state"], "verified");
    assert_eq!(served(), KEY);
    assert_eq!(globex.member.get(&path(&made)).ok()["verified"], true);
    verify(&globex.admin, &theirs).refused(409, "domain_verified_elsewhere");
    assert_eq!(served(), KEY);
    // What the domain says to the repetition that was asked for decides.
    let claim = ours.trim_end_matches("/verifications");
    let history = || acme.member.get(&path(&made)).ok()["verificationHistory"].clone();
    eventually("the holder is verified again", || {
        (history().as_array().unwrap().len() == 2).then_some(())
    });
    *key.lock().unwrap() = OTHER_KEY;
    verify(&globex.admin, &theirs).refused(409, "domain_verified_elsewhere");
    eventually("the holder has lost it", || {
        (acme.member.get(claim).ok()["state"] == "failed").then_some(())
    });
    assert_eq!(verify(&globex.admin, &theirs).ok()["state"], "verified");
    assert_eq!(served(), OTHER_KEY);
    let lost = acme.member.get(&path(&made)).ok();
    let outcome = &lost["verificationHistory"][0]["outcome"];
    assert_eq!((&lost["verified"], outcome), (&json!(false), &json!("mismatch")));
    // A key of the other organization reads neither claim nor verification.
    globex.key.post(&ours, json!({})).refused(404, "not_found");
    acme.member.post(&ours, json!({})).refused(403, "admin_required");
    running.stop();
}

// ── Well-known paths ─────────────────────────────────────────────────────────

#[test]
fn nostr_json_names_verified_handles_of_the_domain_that_is_asked_for() {
    let sites = Sites::new();
    sites.serve("acme.test", |name| names(name, KEY));
    let running = Running::start(sites.configure(config()));
    let acme = running.fixture();
    make(&acme.admin, "scribe@acme.test", json!({}));
    make(&acme.admin, "_@acme.test", json!({}));
    make(&acme.admin, "scribe@other.test", json!({}));
    acme.admin.post(&claim(&acme.admin, "acme.test"), json!({})).ok();
    let get = |host: &str, query: &str| {
        get_at(&running, host, &format!("/.well-known/nostr.json{query}"))
    };
    let reply = get("acme.test", "?name=scribe");
    assert_eq!((reply.status, reply.json()), (200, json!({"names": {"scribe": KEY}})));
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    for (host, query) in [("ACME.test:8443", "?name=scribe"), ("acme.test.", "?x=1&name=scribe")] {
        assert_eq!(get(host, query).json(), reply.json(), "{host} {query}");
    }
    assert_eq!(get("acme.test", "?name=_").json(), json!({"names": {"_": KEY}}));
    for (host, query) in [
        ("acme.test", ""),
        ("acme.test", "?name="),
        ("acme.test", "?name=nobody"),
        ("acme.test", "?name=Scribe"),
        ("acme.test", "?name=%FF%00"),
        ("other.test", "?name=scribe"),
        ("127.0.0.1", "?name=scribe"),
        ("localhost", "?name=scribe"),
    ] {
        let reply = get(host, query);
        assert_eq!((reply.status, reply.json()), (200, json!({"names": {}})), "{host} {query}");
    }
    let mut connection = Connection::open(running.address).unwrap();
    let post = "POST /.well-known/nostr.json HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n";
    connection.write(post.as_bytes()).unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 405);
    running.stop();
}

#[test]
fn our_own_nostr_json_is_what_a_verification_of_ours_reads() {
    let sites = Sites::new();
    sites.serve("acme.test", |name| names(name, KEY));
    let running = Running::start(sites.configure(config()));
    let acme = running.fixture();
    make(&acme.admin, "scribe@acme.test", json!({}));
    let verifications = claim(&acme.admin, "acme.test");
    acme.admin.post(&verifications, json!({})).ok();
    // From now on the domain is served by this server, behind a proxy with TLS.
    let own = running.address;
    sites.serve("acme.test", move |name| {
        let mut behind = Connection::open(own).unwrap();
        let path = format!("/.well-known/nostr.json?name={name}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: acme.test\r\n\r\n");
        behind.write(request.as_bytes()).unwrap();
        response(200, "", &behind.reply(false).unwrap().text())
    });
    let verified = acme.admin.post(&verifications, json!({})).ok();
    assert_eq!(verified["state"], "verified", "{verified}");
    // A handle that was never verified does not verify itself.
    make(&acme.admin, "new@acme.test", json!({}));
    let failed = acme.admin.post(&verifications, json!({})).ok();
    assert_eq!(outcomes(&failed)[0].1, "missing", "{failed}");
    running.stop();
}

#[test]
fn public_documents_count_for_the_rate_limit_of_their_address() {
    let running = Running::start(ServerConfig { rate_limit: 1, ..config() });
    let fetch = || get_at(&running, "a.test", "/.well-known/nostr.json?name=a");
    assert_eq!(fetch().status, 200);
    while_limited(fetch, fetch);
    running.stop();
}

// ── Agent cards ──────────────────────────────────────────────────────────────

/// Fails unless a card is valid by the schema that the A2A project publishes (`a2a/README.md`).
#[track_caller]
fn assert_a2a(card: &Value) {
    let mut schema: Value = serde_json::from_str(include_str!("a2a/a2a.json")).unwrap();
    schema["allOf"] = json!([{"$ref": "#/definitions/AgentCard"}]);
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let problems: Vec<_> = validator.iter_errors(card).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}: {card}");
    for (field, wrong) in [
        ("skills", json!([{"id": 1}])),
        ("protocolVersion", Value::Null),
        ("securitySchemes", json!({"nip98": {"type": "http"}})),
    ] {
        let mut broken = card.clone();
        broken[field] = wrong;
        assert!(!validator.is_valid(&broken), "the schema refuses what is no card: {field}");
    }
}

#[test]
fn a_card_is_served_to_those_who_see_its_listing() {
    let running = Running::start(ServerConfig {
        public_url: Some("https://agents.acme.test".into()),
        ..config()
    });
    let (acme, globex) = (running.fixture(), running.fixture());
    let more = json!({"description": "Writes release notes.", "skills": ["writing", "git"]});
    let made = make(&acme.admin, "scribe@acme.test", more);
    let card = format!("{}/agent-card.json", path(&made));
    let of = |who: &Caller| who.get(&card);
    of(&globex.member).refused(404, "not_found");
    let shown = of(&acme.member).ok();
    assert_eq!(
        pick(&shown, "protocolVersion name description version url"),
        json!(["0.3.0", "Scribe", "Writes release notes.", "0", "https://agents.acme.test/"])
    );
    let extensions = |card: &Value| card["capabilities"]["extensions"].as_array().unwrap().len();
    assert_eq!(extensions(&shown), 1, "it is in no team");
    assert_a2a(&shown);
    acme.admin.post("/agents/scribe/versions", json!({})).ok();
    let team = acme.admin.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let agents = format!("/teams/{team}/agents");
    acme.admin.post(&agents, json!({"stableKey": "scribe", "role": "member"})).ok();
    acme.admin.patch(&path(&made), json!({"visibility": "public"})).ok();
    let shown = of(&globex.member).ok();
    let exchange = format!("https://agents.acme.test/api/exchange/{}/crew/requests", acme.slug);
    let there = &shown["capabilities"]["extensions"][1];
    assert_eq!(pick(there, "uri required"), json!(["urn:roadstead:exchange", false]));
    assert_eq!(there["params"], json!({"url": exchange, "authentication": "NIP-98"}));
    // Nothing that a client of A2A would call.
    let none = json!(["1", "https://agents.acme.test/", "NONE", []]);
    assert_eq!(pick(&shown, "version url preferredTransport supportedInterfaces"), none);
    assert_eq!(shown.get("securitySchemes"), None);
    assert_a2a(&shown);
    assert_eq!(shown, of(&acme.member).ok());
    let identity = &shown["capabilities"]["extensions"][0]["params"];
    assert_eq!(*identity, json!({"handle": "scribe@acme.test", "pubkey": KEY}));
    acme.admin.patch(&path(&made), json!({"contactPolicy": "closed"})).ok();
    assert_eq!(of(&globex.member).ok(), shown, "only its owners know the contact policy");
    acme.admin.patch(&path(&made), json!({"cardState": "stale"})).ok();
    of(&globex.member).ok();
    of(&acme.anonymous).refused(401, "unauthenticated");
    running.stop();
}

#[test]
fn a_server_that_does_not_know_its_url_serves_no_card() {
    let sites = Sites::new();
    sites.serve("acme.test", |name| names(name, KEY));
    let running = Running::start(sites.configure(config()));
    let acme = running.fixture();
    let published = json!({"visibility": "public", "cardState": "published"});
    let made = make(&acme.admin, "a@acme.test", published);
    let card = || get_at(&running, "acme.test", "/.well-known/agent-card.json");
    assert_eq!(card().status, 404);
    acme.admin.post(&claim(&acme.admin, "acme.test"), json!({})).ok();
    card().refused(503, "public_url_required");
    // On this machine its URL is known.
    assert_a2a(&acme.member.get(&format!("{}/agent-card.json", path(&made))).ok());
    running.stop();
}

#[test]
fn the_card_of_a_domain_is_that_of_its_root_or_its_first_public_one() {
    let sites = Sites::new();
    sites.serve("acme.test", |name| names(name, KEY));
    let public_url = Some("https://agents.acme.test".to_string());
    let running = Running::start(sites.configure(ServerConfig { public_url, ..config() }));
    let acme = running.fixture();
    let card = || get_at(&running, "acme.test", "/.well-known/agent-card.json");
    let name = || card().json()["name"].clone();
    let public = |name: &str| {
        json!({"displayName": name, "visibility": "public",
        "cardState": "published"})
    };
    make(&acme.admin, "b@acme.test", public("B"));
    make(&acme.admin, "a@acme.test", json!({"cardState": "published"}));
    assert_eq!(card().status, 404, "the domain is not verified");
    let verifications = claim(&acme.admin, "acme.test");
    acme.admin.post(&verifications, json!({})).ok();
    assert_eq!((card().status, name()), (200, json!("B")), "the other is not public");
    assert_eq!(card().header("access-control-allow-origin"), Some("*"));
    assert_a2a(&card().json());
    assert_eq!(get_at(&running, "b.test", "/.well-known/agent-card.json").status, 404);
    let root = make(&acme.admin, "_@acme.test", public("Root"));
    assert_eq!(name(), "B");
    acme.admin.post(&verifications, json!({})).ok();
    assert_eq!(name(), "Root");
    acme.admin.patch(&path(&root), json!({"cardState": "draft"})).ok();
    assert_eq!(name(), "B");
    acme.admin.delete(verifications.trim_end_matches("/verifications")).ok();
    assert_eq!(card().status, 404);
    running.stop();
}
