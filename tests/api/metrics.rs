//! `/metrics`: who may read it, its two formats, what it says (reference: command-line, "Metrics").

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::client::server_log::plant_panic;
use crate::client::{Caller, Connection, Reply, eventually, raw, while_limited};
use crate::fixture::{Fixture, Running, config, key_of};

fn scrape(running: std::net::SocketAddr, fields: &str) -> Reply {
    let head = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    raw(running, head.as_bytes())
}

/// The value of a sample, by its name and labels as they are written.
fn value(text: &str, sample: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))?;
    Some(rest.parse().unwrap())
}

#[test]
fn they_are_for_direct_callers_on_this_machine_the_token_and_who_administers_the_installation() {
    let first = Running::start(config());
    let acme = first.fixture();
    let from_afar = |caller: &Caller| {
        let (name, value) = &caller.fields[0];
        scrape(acme.address, &format!("X-Forwarded-For: 192.0.2.1\r\n{name}: {value}\r\n"))
    };
    assert_eq!(scrape(acme.address, "").status, 200);
    // Also from a proxy on this machine that says no more, or something unreadable.
    for field in [
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-For: unknown",
        "Forwarded: for=_hidden",
        "Via: 1.1 proxy",
        "X-Real-IP: 127.0.0.1",
    ] {
        scrape(acme.address, &format!("{field}\r\n")).refused(401, "unauthenticated");
    }
    from_afar(&acme.owner).refused(403, "admin_required");
    from_afar(&key_of(&acme.member)).refused(403, "admin_required");
    assert_eq!(from_afar(&acme.key).status, 200);
    // Not for an admin of whatever organization.
    from_afar(&key_of(&acme.admin)).refused(403, "installation_admin_required");
    from_afar(&first.fixture().key).refused(403, "installation_admin_required");
    first.stop();

    let metrics_token = Some(roadstead::http::MetricsToken::new("scrape-me"));
    let running = Running::start(roadstead::app::ServerConfig { metrics_token, ..config() });
    for (token, status) in [("scrape-me", 200), ("scrape", 401), ("scrape-me2", 401)] {
        let fields = format!("Via: 1.1 proxy\r\nAuthorization: Bearer {token}\r\n");
        assert_eq!(scrape(running.address, &fields).status, status, "{token}");
    }
    assert_eq!(scrape(running.address, "").status, 200);
    running.stop();
}

#[test]
fn the_format_is_the_one_that_was_asked_for() {
    let acme = Fixture::new();
    let (text, open) = ("text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text");
    for (accept, expected) in [("", text), ("Accept: text/plain\r\n", text)] {
        let reply = scrape(acme.address, accept);
        assert_eq!(reply.header("content-type"), Some(expected));
        assert!(!reply.text().contains("# EOF"));
    }
    let reply = scrape(acme.address, &format!("Accept: {open}; version=1.0.0\r\n"));
    assert!(reply.header("content-type").unwrap().starts_with(open));
    assert!(reply.text().ends_with("# EOF\n"));
}

/// Checks what `promtool check metrics` checks, and that the formats agree; without promtool.
#[test]
fn every_family_is_described_once_and_named_as_is_usual() {
    // With few organizations: sums over very many may take too long to be there.
    let running = Running::start(config());
    let acme = running.fixture();
    acme.owner.post("/tools", json!({"name": "a", "type": "function"})).ok();
    let text = scrape(acme.address, "").text();
    let mut kinds = BTreeMap::new();
    let mut described = BTreeSet::new();
    let mut samples = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(described.insert(name), "described twice: {name}");
            assert!(!help.is_empty() && !help.ends_with('.'), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(described.contains(name), "no help: {name}");
            assert!(kinds.insert(name, kind).is_none(), "typed twice: {name}");
            let is_total = name.ends_with("_total");
            assert_eq!(kind == "counter", is_total, "{name} is a {kind}");
            assert!(name.starts_with("roadstead_") || name.starts_with("process_"), "{name}");
            for unit in ["_ms", "_millis", "_micros", "_kb", "_mb", "_minutes", "_percent"] {
                assert!(!name.contains(unit), "{name} is not in a base unit");
            }
        } else {
            let (sample, number) = line.rsplit_once(' ').unwrap();
            assert!(samples.insert(sample), "twice: {sample}");
            assert!(number.parse::<f64>().is_ok_and(|number| number >= 0.0), "{line}");
            let name = sample.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| {
                    name.strip_suffix(suffix).filter(|name| kinds.contains_key(name))
                })
                .unwrap_or(name);
            assert!(kinds.contains_key(family), "no type: {sample}");
        }
    }
    // The same samples in both formats.
    let names = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.filter_map(|line| Some(line.split(['{', ' ']).next()?.to_string())).collect()
    };
    // What is done in the background may add one between two requests.
    eventually("the same samples", || {
        let plain = scrape(acme.address, "").text();
        let open = scrape(acme.address, "Accept: application/openmetrics-text\r\n").text();
        (names(&plain) == names(&open)).then_some(())
    });
}

#[test]
fn requests_are_counted_by_route_and_status_and_never_by_path() {
    let running = Running::start(config());
    let acme = running.fixture();
    let unknown = "01a20000-0000-7000-8000-000000000000";
    for _ in 0..3 {
        acme.owner.get(&format!("/tools/{unknown}")).refused(404, "not_found");
    }
    acme.owner.post("/tools", json!({"name": "a", "type": "function"})).ok();
    acme.owner.get("/no/such/path").refused(404, "no_such_path");
    acme.anonymous.ask("GET", "/tools").with("Content-Length", "x").send();
    let text = scrape(running.address, "").text();
    let requests =
        |labels: &str| value(&text, &format!("roadstead_http_requests_total{{{labels}}}"));
    let tool = "method=\"GET\",route=\"/api/tools/{toolId}\"";
    assert_eq!(requests(&format!("{tool},status=\"404\"")), Some(3.0));
    assert_eq!(requests("method=\"POST\",route=\"/api/tools\",status=\"200\""), Some(1.0));
    assert!(requests("method=\"any\",route=\"unmatched\",status=\"404\"") >= Some(1.0));
    let count = format!("roadstead_http_request_duration_seconds_count{{{tool}}}");
    assert_eq!(value(&text, &count), Some(3.0));
    assert!(!text.contains(unknown) && !text.contains("/no/such/path"), "{text}");
    // The scrape before is counted, this one is not yet.
    let page = "method=\"GET\",route=\"/metrics\",status=\"200\"";
    assert_eq!(requests(page), None);
    let again = scrape(running.address, "").text();
    let page = format!("roadstead_http_requests_total{{{page}}}");
    assert_eq!(value(&again, &page), Some(1.0));
    running.stop();
}

#[test]
fn they_say_what_an_operator_needs() {
    let running = Running::start(config());
    let acme = running.fixture();
    acme.owner.post("/tools", json!({"name": "a", "type": "function"})).ok();
    let wrong = json!({"email": "nobody@acme.test", "password": "not the password"});
    let sign_in = || acme.anonymous.ask("POST", "/auth/sign-in").json(&wrong).send();
    while_limited(sign_in, sign_in);
    let team = acme.owner.post("/teams", json!({"slug": "t", "name": "T"})).id();
    acme.owner.post("/agents", json!({"stableKey": "a", "name": "A"})).ok();
    let member = json!({"stableKey": "a", "role": "member"});
    let agent = acme.owner.post(&format!("/teams/{team}/agents"), member).id();
    let path = acme.owner.in_org(&format!("/teams/{team}/agents/{agent}/wakes?wait=30"));
    let mut waiting = Connection::open(running.address).unwrap();
    waiting.write(&acme.owner.ask("GET", &path).to_bytes()).unwrap();
    // Addresses of this machine are not called.
    acme.owner.post("/agents", json!({"stableKey": "b", "name": "B"})).ok();
    let member = json!({"stableKey": "b", "role": "member", "wakeUrl": "http://127.0.0.1:9/"});
    let unreachable = acme.owner.post(&format!("/teams/{team}/agents"), member).id();
    let task = json!({"title": "Wake up", "assigneeAgentId": unreachable});
    acme.owner.post(&format!("/teams/{team}/tasks"), task).ok();

    let failed_wakes = "roadstead_deliveries_total{job=\"wake.post\",outcome=\"failed\"}";
    let text = eventually("a waiting request and a wake that cannot be posted", || {
        let text = scrape(running.address, "").text();
        let waits = value(&text, "roadstead_waiting_requests") == Some(1.0);
        let fails = value(&text, failed_wakes).is_some_and(|failed| failed >= 1.0);
        Some(text).filter(|_| waits && fails)
    });
    let at_least = |sample: &str, least: f64| {
        let found = value(&text, sample);
        assert!(found.is_some_and(|found| found >= least), "{sample}: {found:?}\n{text}");
    };
    at_least("roadstead_sign_ins_refused_total", 10.0);
    at_least("roadstead_rate_limited_requests_total{limit=\"sign-in\"}", 2.0);
    at_least("roadstead_http_connections", 2.0);
    at_least("roadstead_http_connections_accepted_total", 3.0);
    at_least("roadstead_queue_length", 0.0);
    at_least("roadstead_queue_bytes", 0.0);
    at_least("roadstead_commit_attempts_count", 1.0);
    at_least("roadstead_commit_size_bytes_sum", 100.0);
    at_least("roadstead_commit_duration_seconds_count", 1.0);
    at_least("roadstead_commits_failed_total", 0.0);
    at_least("roadstead_transaction_conflicts_total", 0.0);
    at_least("roadstead_transactions_refused_total", 0.0);
    at_least("roadstead_deliveries_total{job=\"wake.post\",outcome=\"sent\"}", 0.0);
    at_least("roadstead_wakes_dropped_total", 0.0);
    at_least(&format!("roadstead_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0);
    at_least("process_resident_memory_bytes", 1e6);
    at_least("process_open_fds", 3.0);
    drop(waiting);
    running.stop();
}

#[test]
fn what_retention_removes_is_counted_and_the_oldest_that_is_kept_has_its_time() {
    let settings =
        roadstead::outbox::RetentionSettings { log_retention_secs: -60, ..Default::default() };
    let place = tempfile::tempdir().unwrap();
    let data = roadstead::app::DataDir::at(place.path().join("data"));
    let running = Running::serve(data.create().unwrap(), "127.0.0.1:0", config());
    let acme = running.fixture();
    for name in ["a", "b", "c"] {
        acme.owner.post("/tools", json!({"name": name, "type": "function"})).ok();
    }
    let oldest = "roadstead_oldest_row_timestamp_seconds{table=\"audit_log\"}";
    let time = eventually("an entry is in the audit log", || {
        value(&scrape(running.address, "").text(), oldest)
    });
    assert!(time > 1.7e9, "{time}");
    drop(acme); // It has the store.
    running.stop();
    let store = eventually("the directory is free", || data.open().ok());
    let swept = roadstead::app::ServerConfig { settings, ..config() };
    let running = Running::serve(store, "127.0.0.1:0", swept);
    let removed = "roadstead_rows_swept_total{table=\"audit_log\"}";
    eventually("old entries are removed", || {
        value(&scrape(running.address, "").text(), removed).filter(|rows| *rows >= 1.0)
    });
    running.stop();
}

#[test]
fn panics_of_the_server_are_counted_and_logged_as_errors() {
    let running = Running::start(config());
    let count = || value(&scrape(running.address, "").text(), "roadstead_panics_total").unwrap();
    let before = count();
    plant_panic();
    assert!(count() > before);
    running.stop();
}
