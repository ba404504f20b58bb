//! What agents outside of the organization send: signed requests, and what they are refused for.

use std::time::Duration;

use roadstead::api::audit::ActorType;
use roadstead::app::ServerConfig;
use serde_json::{Value, json};

use crate::client::nostr::{NostrKey, Signed, fresh_address, now_secs};
use crate::client::{Caller, Connection, Reply, first_limited};
use crate::fixture::{Fixture, Running, config};
use crate::https::{self, Site};
use crate::receiver::Receiver;

/// The base URL of a server that is called by the name `localhost`.
const BASE: &str = "http://localhost/api";

/// An outside agent that writes to a server.
pub struct Outside {
    pub key: NostrKey,
    anonymous: Caller,
    base: String,
}

impl Outside {
    /// One with a new key.
    pub fn new(anonymous: &Caller) -> Self {
        Outside { key: NostrKey::new(), anonymous: anonymous.clone(), base: BASE.into() }
    }

    /// The same, by another base URL.
    pub fn at(self, base: &str) -> Self {
        Outside { base: base.into(), ..self }
    }

    /// The value of `Authorization` for a request made now.
    pub fn authorization(&self, method: &str, path: &str, body: Option<&Value>) -> String {
        let (url, body) = (format!("{}{path}", self.base), body.map(Value::to_string));
        let body = body.as_deref().map(str::as_bytes);
        self.key.authorization(Signed { url: &url, method, body, at: now_secs() })
    }

    /// Sends a request with this `Authorization`.
    pub fn send_with(
        &self,
        authorization: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Reply {
        let ask = self.anonymous.ask(method, path).with("Authorization", authorization);
        let ask = ask.with("X-Forwarded-For", &fresh_address());
        match body {
            Some(body) => ask.json(body).send(),
            None => ask.send(),
        }
    }

    /// Sends a signed request.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.send_with(&self.authorization(method, path, body), method, path, body)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, None)
    }

    pub fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, Some(&body))
    }
}

/// A team of the organization; its path for outside agents.
pub fn crew(acme: &Fixture) -> (String, String) {
    let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).ok();
    (team["id"].as_str().unwrap().into(), format!("/exchange/{}/crew", acme.slug))
}

/// What someone gets who is known but not accepted: the signature was accepted.
#[track_caller]
fn assert_signed(reply: &Reply) {
    reply.refused(403, "key_not_accepted");
}

#[track_caller]
fn assert_unsigned(reply: &Reply) {
    assert_asked_for(reply, "Nostr");
}

fn assert_asked_for(reply: &Reply, scheme: &str) {
    reply.refused(401, "unauthenticated");
    let challenge = format!("{scheme} realm=\"roadstead\"");
    assert_eq!(reply.header("www-authenticate"), Some(&*challenge));
}

#[test]
fn a_request_is_accepted_once_and_only_as_it_was_signed() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let outside = Outside::new(&acme.anonymous);
    let thread = format!("{path}/messages");
    let body = json!({"body": "Hello"});

    let signed = outside.authorization("POST", &thread, Some(&body));
    assert_signed(&outside.send_with(&signed, "POST", &thread, Some(&body)));
    let replayed = outside.send_with(&signed, "POST", &thread, Some(&body));
    assert_unsigned(&replayed);
    assert!(replayed.json()["message"].as_str().unwrap().contains("used before"));
    // A read is a request like any other.
    let signed = outside.authorization("GET", &thread, None);
    assert_signed(&outside.send_with(&signed, "GET", &thread, None));
    assert_unsigned(&outside.send_with(&signed, "GET", &thread, None));

    let other = json!({"body": "Goodbye"});
    let signed = |body: Option<&Value>| outside.authorization("POST", &thread, body);
    assert_unsigned(&outside.send_with(&signed(Some(&body)), "POST", &thread, Some(&other)));
    assert_unsigned(&outside.send_with(&signed(None), "POST", &thread, Some(&body)));
    let get = outside.authorization("GET", &thread, None);
    assert_unsigned(&outside.send_with(&get, "POST", &thread, Some(&body)));
    let longer = format!("{thread}?limit=1");
    assert_unsigned(&outside.send_with(
        &outside.authorization("GET", &thread, None),
        "GET",
        &longer,
        None,
    ));
    assert_signed(&outside.get(&longer));
    let elsewhere = format!("/exchange/{}/other/messages", acme.slug);
    let signed = outside.authorization("GET", &elsewhere, None);
    assert_unsigned(&outside.send_with(&signed, "GET", &thread, None));
}

#[test]
fn a_request_is_good_for_a_minute_either_way() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let outside = Outside::new(&acme.anonymous);
    let thread = format!("{path}/messages");
    let url = format!("{BASE}{thread}");
    let send = |off_secs: i64| {
        let at = now_secs() + off_secs;
        let signed = outside.key.authorization(Signed { url: &url, method: "GET", body: None, at });
        outside.send_with(&signed, "GET", &thread, None)
    };
    // A few seconds for a slow machine.
    for good in [-50, 0, 59] {
        assert_signed(&send(good));
    }
    for bad in [-3600, -61, 70, 3600] {
        assert_unsigned(&send(bad));
    }
}

#[test]
fn a_head_request_is_signed_as_one() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let outside = Outside::new(&acme.anonymous);
    let thread = format!("{path}/messages");
    assert_eq!(outside.send("HEAD", &thread, None).status, 403);
    let get = outside.authorization("GET", &thread, None);
    assert_eq!(outside.send_with(&get, "HEAD", &thread, None).status, 401);
}

#[test]
fn an_unknown_organization_looks_like_an_unknown_team() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let outside = Outside::new(&acme.anonymous);
    let team = outside.get(&format!("/exchange/{}/other/messages", acme.slug));
    let org = outside.get("/exchange/never-was/crew/messages");
    assert_eq!((team.status, team.likeness()), (404, org.likeness()));
    assert_eq!(team.json()["path"], "teamSlug");
    let request = outside.get(&format!("{path}/requests/{}", crate::fixture::unknown_id()));
    assert_eq!((request.status, &request.json()["path"]), (404, &json!("requestId")));
    // Nor does a repeated event tell which organizations there are.
    let repeated = |path: &str| {
        let signed = outside.authorization("GET", path, None);
        let ask = || outside.send_with(&signed, "GET", path, None);
        assert_eq!(ask().status, 404);
        ask().likeness()
    };
    let team = repeated(&format!("/exchange/{}/other/messages", acme.slug));
    assert_eq!(team, repeated("/exchange/never-was/crew/messages"));
}

#[test]
fn behind_a_proxy_the_public_url_counts_whatever_the_host_says() {
    let public_url = Some("https://roadstead.test/base/".to_string());
    let running = Running::start(ServerConfig { public_url, ..config() });
    let acme = running.fixture();
    let (_, path) = crew(&acme);
    let thread = format!("{path}/messages");
    let ask = |base: &str| Outside::new(&acme.anonymous).at(base).get(&thread);
    for good in ["https://roadstead.test/base/api", "https://ROADSTEAD.test:443/base/api"] {
        assert_signed(&ask(good));
    }
    for bad in [
        "http://roadstead.test/base/api",
        "https://roadstead.test/api",
        "https://evil.test/base/api",
        BASE,
    ] {
        assert_unsigned(&ask(bad));
    }
    let message = ask(BASE).json()["message"].as_str().unwrap().to_string();
    assert!(message.contains("https://roadstead.test/base"), "{message}");
}

#[test]
fn without_a_public_url_the_exchange_answers_this_machine_alone() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let target = format!("/api{path}/messages");
    let outside = Outside::new(&acme.anonymous);
    let ask = |host: &str, base: &str| {
        let url = format!("{base}{target}");
        let signed = Signed { url: &url, method: "GET", body: None, at: now_secs() };
        let authorization = outside.key.authorization(signed);
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {authorization}\r\n\
             X-Forwarded-For: {}\r\n\r\n",
            fresh_address()
        );
        let mut connection = Connection::open(acme.address).unwrap();
        connection.write(head.as_bytes()).unwrap();
        connection.reply(false).unwrap()
    };
    assert_signed(&ask("127.0.0.1:7420", "http://127.0.0.1:7420"));
    assert_unsigned(&ask("127.0.0.1:7420", "http://127.0.0.1"));
    let refused = ask("roadstead.test", "http://roadstead.test");
    refused.refused(503, "public_url_required");
}

#[test]
fn an_event_is_used_after_a_restart_too() {
    let running = Running::start(config());
    let acme = running.fixture();
    let (_, path) = crew(&acme);
    let thread = format!("{path}/messages");
    let outside = Outside::new(&acme.anonymous);
    let signed = outside.authorization("GET", &thread, None);
    assert_signed(&outside.send_with(&signed, "GET", &thread, None));
    let store = running.store.clone();
    running.stop();
    let running = Running::serve(store, "127.0.0.1:0", config());
    let outside = Outside { anonymous: running.anonymous(), ..outside };
    assert_unsigned(&outside.send_with(&signed, "GET", &thread, None));
    assert_signed(&outside.get(&thread));
}

#[test]
fn an_address_may_send_60_signed_requests_a_minute_also_wrong_ones() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let thread = format!("{path}/messages");
    let outside = Outside::new(&acme.anonymous);
    let address = fresh_address();
    let send = |authorization: &str| {
        let ask = acme.anonymous.ask("GET", &thread).with("Authorization", authorization);
        ask.with("X-Forwarded-For", &address).send()
    };
    let once = outside.authorization("GET", &thread, None);
    assert_signed(&send(&once));
    let mut wrong = 0;
    let limited = first_limited(59, Duration::from_secs(1), || {
        if wrong < 59 {
            wrong += 1;
            let reply = send(&once);
            assert_unsigned(&reply);
            return reply;
        }
        send(&outside.authorization("GET", &thread, None))
    });
    assert_eq!(limited.header("ratelimit-policy"), Some("\"nip98\";q=60;w=60"));
    assert!(limited.header("retry-after").is_some());
    assert_signed(&outside.get(&thread));
}

#[test]
fn a_signed_body_has_at_most_16_kib() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let outside = Outside::new(&acme.anonymous);
    let reply = outside.post(&format!("{path}/messages"), json!({"body": "x".repeat(16 * 1024)}));
    assert_eq!(reply.status, 413);
}

#[test]
fn keys_and_sessions_open_nothing_of_the_exchange_nor_signatures_anything_else() {
    let acme = Fixture::new();
    let (team, path) = crew(&acme);
    let thread = format!("{path}/messages");
    for caller in [&acme.owner, &acme.key, &acme.anonymous] {
        assert_unsigned(&caller.get(&thread));
    }
    let outside = Outside::new(&acme.anonymous);
    assert_asked_for(&outside.get(&format!("/teams/{team}?orgSlug={}", acme.slug)), "Bearer");
    assert_asked_for(&outside.get("/auth/session"), "Bearer");
    // A key goes before a signature, and is none.
    let signed = outside.authorization("GET", &thread, None);
    assert_unsigned(&acme.key.ask("GET", &thread).with("Authorization", &signed).send());
}

// ── Asking and deciding ──────────────────────────────────────────────────────

/// A pending request to a team; its id.
pub fn pending(acme: &Fixture, team: &str, name: &str) -> String {
    let (site, outside) = (Site::new(), Outside::new(&acme.anonymous));
    let handle = site.name(name, &outside.key.pubkey());
    let path = format!("/exchange/{}/{team}/requests", acme.slug);
    outside.post(&path, json!({"handle": handle, "message": "Hello"})).id()
}

/// Creates records of every kind of the exchange for the team `crew`.
pub fn fill(acme: &Fixture, team: &str) {
    let rule = json!({"domain": "partner.example", "rule": "block"});
    acme.owner.post(&format!("/teams/{team}/exchange/domain-rules"), rule).ok();
    let (site, outside) = (Site::new(), Outside::new(&acme.anonymous));
    let body = json!({"handle": site.name("scout", &outside.key.pubkey()), "message": "Hello",
        "replyUrl": "http://127.0.0.1:9/"});
    let path = format!("/exchange/{}/crew", acme.slug);
    let asked = outside.post(&format!("{path}/requests"), body).id();
    acme.owner.post(&format!("/teams/{team}/exchange/peers/{asked}/accept"), json!({})).ok();
    outside.post(&format!("{path}/messages"), json!({"body": "News", "subject": "s"})).ok();
}

#[test]
fn an_agent_outside_asks_is_accepted_and_writes_in_both_directions() {
    let acme = Fixture::new();
    let (team, path) = crew(&acme);
    acme.owner.post("/agents", json!({"stableKey": "max", "name": "Max"})).ok();
    let master = json!({"stableKey": "max", "role": "scrum_master"});
    let master = acme.owner.post(&format!("/teams/{team}/agents"), master).id();
    let (site, outside) = (Site::new(), Outside::new(&acme.anonymous));
    let handle = site.name("scout", &outside.key.pubkey());
    let receiver = Receiver::answering(&[204]);
    let body = json!({"handle": handle, "message": "May I?", "replyUrl": receiver.url});
    let asked = outside.post(&format!("{path}/requests"), body.clone()).ok();
    assert_eq!((&asked["state"], site.lookups()), (&json!("pending"), 1));
    assert_eq!(outside.post(&format!("{path}/requests"), body).ok(), asked);
    assert_eq!(site.lookups(), 1, "it was confirmed already");
    let own = format!("{path}/requests/{}", asked["id"].as_str().unwrap());
    assert_eq!(outside.get(&own).ok(), asked);
    assert_eq!(Outside::new(&acme.anonymous).get(&own).status, 404);

    let peers = format!("/teams/{team}/exchange/peers");
    let listed = acme.member.get(&format!("{peers}?state=pending")).items();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (&listed[0]["handle"], &listed[0]["firstMessage"]),
        (&json!(handle), &json!("May I?"))
    );
    assert_eq!(listed[0]["domain"], site.domain.as_str());
    let peer = format!("{peers}/{}", asked["id"].as_str().unwrap());
    let accepted = acme.member.post(&format!("{peer}/accept"), json!({})).ok();
    assert_eq!(accepted["state"], "accepted");
    let decided = receiver.next();
    assert_eq!(decided.json()["type"], "exchange.request_decided");
    assert_eq!(decided.json()["data"], outside.get(&own).ok());

    let thread = format!("{path}/messages");
    let sent = outside.post(&thread, json!({"body": "News", "subject": "S"})).ok();
    let wakes = acme.owner.get(&format!("/teams/{team}/agents/{master}/wakes")).items();
    let reasons: Vec<_> = wakes.iter().map(|wake| wake["reason"].clone()).collect();
    assert_eq!(reasons, ["external_request", "direct_message"]);
    let mail =
        acme.owner.get(&format!("/teams/{team}/messages/{}", sent["id"].as_str().unwrap())).ok();
    let from = json!({"type": "peer", "id": asked["id"], "name": handle});
    assert_eq!((&mail["from"], &mail["toAgentId"]), (&from, &json!(master)));

    let answered = acme.owner.post(&format!("{peer}/messages"), json!({"body": "Thanks"})).ok();
    let posted = receiver.next().json();
    assert_eq!(
        (&posted["type"], &posted["data"]["body"]),
        (&json!("exchange.message"), &json!("Thanks"))
    );
    let read = outside.get(&thread).items();
    assert_eq!(read, [posted["data"].clone(), sent]);
    assert_eq!(read[0]["id"], answered["id"]);
    let page = outside.get(&format!("{thread}?limit=1")).ok();
    let next = format!("{thread}?limit=1&cursor={}", page["nextCursor"].as_str().unwrap());
    assert_eq!(outside.get(&next).items(), read[1..]);
}

#[test]
fn a_refusal_is_readable_by_the_sender_and_posted() {
    let acme = Fixture::new();
    let (team, path) = crew(&acme);
    let (site, outside) = (Site::new(), Outside::new(&acme.anonymous));
    let handle = site.name("scout", &outside.key.pubkey());
    let receiver = Receiver::answering(&[500, 200]);
    let body = json!({"handle": handle, "message": "May I?", "replyUrl": receiver.url});
    let asked = outside.post(&format!("{path}/requests"), body.clone()).ok();
    let id = asked["id"].as_str().unwrap();
    let refuse = format!("/teams/{team}/exchange/peers/{id}/refuse");
    assert_eq!(acme.owner.post(&refuse, json!({"reason": ""})).status, 400);
    acme.owner.post(&refuse, json!({"reason": "No surveys."})).ok();
    let again = acme.owner.post(&refuse, json!({"reason": "No surveys."}));
    again.refused(409, "peer_not_pending");
    let read = outside.get(&format!("{path}/requests/{id}")).ok();
    assert_eq!((&read["state"], &read["reason"]), (&json!("refused"), &json!("No surveys.")));
    let (first, second) = (receiver.next(), receiver.next());
    assert_eq!(first.json()["data"], read);
    assert_eq!(first.field("webhook-id"), second.field("webhook-id"));
    let soon = outside.post(&format!("{path}/requests"), body);
    soon.refused(429, "asked_too_soon");
    let wait: u32 = soon.header("retry-after").unwrap().parse().unwrap();
    assert!((86_000..=86_400).contains(&wait), "{wait}");
}

#[test]
fn what_an_outside_agent_does_is_audited_by_its_handle_and_what_it_is_refused_is_not() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let (site, outside) = (Site::new(), Outside::new(&acme.anonymous));
    let handle = site.name("scout", &outside.key.pubkey());
    let before = acme.audited().len();
    let other = json!({"handle": format!("other@{}", site.domain), "message": "x"});
    assert_eq!(outside.post(&format!("{path}/requests"), other).status, 403);
    assert_eq!(outside.get(&format!("{path}/messages")).status, 403);
    assert_eq!(acme.audited().len(), before);
    let body = json!({"handle": handle, "message": "May I?"});
    let asked = outside.post(&format!("{path}/requests"), body).ok();
    let all = acme.audited();
    let entry = all.last().unwrap();
    assert_eq!((all.len(), &*entry.action), (before + 1, "exchange_request.create"));
    assert_eq!((entry.actor_type, &*entry.actor_name), (ActorType::Peer, &*handle));
    let id = asked["id"].as_str().unwrap();
    assert_eq!(entry.actor_id.unwrap().to_string(), id);
    assert_eq!((&*entry.resource_type, entry.resource_id.as_deref()), ("peer", Some(id)));
}

#[test]
fn a_repeated_request_of_one_key_is_answered_once() {
    let acme = Fixture::new();
    let (_, path) = crew(&acme);
    let site = Site::new();
    let rule = json!({"domain": site.domain, "rule": "allow"});
    acme.owner.post(&format!("{}/domain-rules", teams_exchange(&acme)), rule).ok();
    let thread = format!("{path}/messages");
    let join = |name: &str| {
        let outside = Outside::new(&acme.anonymous);
        let handle = site.name(name, &outside.key.pubkey());
        let body = json!({"handle": handle, "message": "x"});
        assert_eq!(outside.post(&format!("{path}/requests"), body).ok()["state"], "accepted");
        outside
    };
    let (one, two) = (join("one"), join("two"));
    let body = json!({"body": "Once"});
    let send = |outside: &Outside| {
        let ask = acme.anonymous.ask("POST", &thread).with("Idempotency-Key", "k");
        let signed = outside.authorization("POST", &thread, Some(&body));
        ask.with("Authorization", &signed)
            .with("X-Forwarded-For", &fresh_address())
            .json(&body)
            .send()
    };
    let first = send(&one);
    let again = send(&one);
    assert_eq!((again.json(), again.header("idempotency-replayed")), (first.json(), Some("true")));
    // Another key's is another request.
    assert!(send(&two).header("idempotency-replayed").is_none());
    assert_eq!(one.get(&thread).items().len(), 1);
}

/// The path of the exchange for members.
fn teams_exchange(acme: &Fixture) -> String {
    let teams = acme.owner.get("/teams").items();
    format!("/teams/{}/exchange", teams[0]["id"].as_str().unwrap())
}

// ── Two servers ──────────────────────────────────────────────────────────────

/// An agent with a key of its own, listed on a domain and verified there, before the domain leads to
/// the server itself; its key and its handle.
pub fn verified(acme: &Fixture, domain: &str, name: &str) -> (NostrKey, String) {
    let (owner, key) = (&acme.owner, NostrKey::new());
    let handle = Site::on(domain).name(name, &key.pubkey());
    owner.post("/agents", json!({"stableKey": name, "name": name})).ok();
    let claim = owner.post("/organizations/domains", json!({"domain": domain})).id();
    let listing = json!({
        "stableKey": name, "handle": handle, "pubkey": key.pubkey(), "displayName": name,
        "visibility": "public",
    });
    owner.post("/agent-index/listings", listing).ok();
    let path = format!("/organizations/domains/{claim}/verifications");
    let verified = owner.post(&path, json!({})).ok();
    assert_eq!(verified["state"], "verified", "{verified}");
    https::proxy(domain, acme.address);
    // From now on the server confirms what it serves itself.
    assert_eq!(owner.post(&path, json!({})).ok()["state"], "verified");
    (key, handle)
}

/// A Roadstead behind a proxy with TLS, on a domain of its own, with a team and a verified agent.
struct Installation {
    acme: Fixture,
    domain: String,
    team: String,
    _running: Running,
}

impl Installation {
    fn new(domain: &str) -> Self {
        let public_url = Some(format!("https://{domain}"));
        let running = Running::start(ServerConfig { public_url, ..config() });
        let acme = running.fixture();
        let (team, _) = crew(&acme);
        Installation { acme, domain: domain.into(), team, _running: running }
    }

    /// The agent of another installation, as it calls this one.
    fn caller(&self, key: NostrKey) -> Outside {
        let base = format!("https://{}/api", self.domain);
        Outside { key, anonymous: self.acme.anonymous.clone(), base }
    }

    fn path(&self) -> String {
        format!("/exchange/{}/crew", self.acme.slug)
    }
}

#[test]
fn agents_of_two_roadsteads_write_to_each_other() {
    let (here, there) = (Installation::new("here.test"), Installation::new("there.test"));
    // A person lets the one in, a rule the other.
    for (from, to, name, rule) in
        [(&here, &there, "scout", None), (&there, &here, "scribe", Some("allow"))]
    {
        let exchange = format!("/teams/{}/exchange", to.team);
        if let Some(rule) = rule {
            let rule = json!({"domain": from.domain, "rule": rule});
            to.acme.member.post(&format!("{exchange}/domain-rules"), rule).ok();
        }
        let (key, handle) = verified(&from.acme, &from.domain, name);
        let agent = to.caller(key);
        let receiver = Receiver::answering(&[204]);
        let body = json!({"handle": handle, "message": "May we send you news?",
            "replyUrl": receiver.url});
        let asked = agent.post(&format!("{}/requests", to.path()), body).ok();
        let peer = format!("{exchange}/peers/{}", asked["id"].as_str().unwrap());
        if rule.is_none() {
            assert_eq!(asked["state"], "pending");
            to.acme.member.post(&format!("{peer}/accept"), json!({})).ok();
            assert_eq!(receiver.next().json()["data"]["state"], "accepted");
        } else {
            assert_eq!(asked["state"], "accepted");
        }
        let thread = format!("{}/messages", to.path());
        agent.post(&thread, json!({"body": "News"})).ok();
        to.acme.member.post(&format!("{peer}/messages"), json!({"body": "Thanks"})).ok();
        let told = receiver.next().json();
        assert_eq!(
            (&told["type"], &told["data"]["body"]),
            (&json!("exchange.message"), &json!("Thanks"))
        );
        let bodies: Vec<_> =
            agent.get(&thread).items().iter().map(|message| message["body"].clone()).collect();
        assert_eq!(bodies, ["Thanks", "News"]);
        // A signature for one installation is none for the other.
        let elsewhere = Outside { anonymous: from.acme.anonymous.clone(), ..agent };
        assert_unsigned(&elsewhere.get(&thread));
    }
}
