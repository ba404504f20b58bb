//! Spans of requests for a collector (reference: command-line, "Traces").

use std::net::TcpListener;
use std::time::{Duration, Instant};

use roadstead::app::ServerConfig;
use roadstead::outside::SpanTarget;
use serde_json::{Value, json};

use crate::client::{Reply, eventually, raw};
use crate::fixture::{Running, config};
use crate::receiver::Receiver;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A server whose collector is here; other calls may not reach this machine.
fn exporting_to(endpoint: &str) -> Running {
    let spans = Some(SpanTarget::parse(endpoint).unwrap());
    Running::start(ServerConfig { spans, allow_private: Vec::new(), ..config() })
}

fn ask(running: &Running, method: &str, path: &str, fields: &str) -> Reply {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    raw(running.address, head.as_bytes())
}

/// The value of a counter.
fn counted(running: &Running, name: &str) -> Option<f64> {
    let text = ask(running, "GET", "/metrics", "").text();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn a_request_is_a_span_of_its_callers_trace_and_says_neither_path_nor_query() {
    let collector = Receiver::answering(&[200]);
    let running = exporting_to(&collector.url);
    let parent = |flags| format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-{flags}\r\n");
    ask(&running, "GET", "/healthz?sesame=1", &parent("01"));
    // Its caller does not record the trace.
    ask(&running, "GET", "/healthz", &parent("00"));
    ask(&running, "GET", "/api/teams/sesame?organizationId=sesame", "");
    ask(&running, "OPEN", "/sesame", "");
    running.stop();

    let mut arrived = collector.arrived();
    assert_eq!(arrived.len(), 1);
    let request = arrived.remove(0);
    assert!(request.head.starts_with("post /hook/v1/traces http/1.1"), "{}", request.head);
    assert_eq!(request.field("content-type"), "application/json");
    assert!(!request.body.contains("sesame"), "{}", request.body);
    let body = request.json();
    let [of_server] = &body["resourceSpans"].as_array().unwrap()[..] else { panic!("{body}") };
    let service = &of_server["resource"]["attributes"][0];
    assert_eq!(service, &json!({"key": "service.name", "value": {"stringValue": "roadstead"}}));
    let spans = of_server["scopeSpans"][0]["spans"].as_array().unwrap();
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["GET /healthz", "GET /api/teams/{teamId}", "HTTP"]);

    let [child, root, _] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(
        (&child["traceId"], &child["parentSpanId"]),
        (&json!(TRACE), &json!("00f067aa0ba902b7"))
    );
    assert_eq!(root.get("parentSpanId"), None);
    assert_eq!(root["traceId"].as_str().map(str::len), Some(32));
    assert_ne!(child["spanId"], root["spanId"]);
    let status = json!({"key": "http.response.status_code", "value": {"intValue": "401"}});
    assert!(root["attributes"].as_array().unwrap().contains(&status), "{root}");
    assert_eq!(root["status"], json!({}), "errors of clients are none of the server");
    let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    let (start, end) = (nanos(root, "startTimeUnixNano"), nanos(root, "endTimeUnixNano"));
    assert!(1_700_000_000_000_000_000 < start && start < end && end < start + 60_000_000_000);
}

#[test]
fn a_call_is_a_child_of_the_request_that_caused_it() {
    let (collector, agent) = (Receiver::answering(&[200]), Receiver::answering(&[200]));
    let spans = Some(SpanTarget::parse(&collector.url).unwrap());
    let running = Running::start(ServerConfig { spans, ..config() });
    let key = running.fixture().key;
    key.post("/agents", json!({"name": "Ann", "stableKey": "ann"})).ok();
    let team = format!("/teams/{}", key.post("/teams", json!({"slug": "crew", "name": "C"})).id());
    let ann = json!({"stableKey": "ann", "role": "member", "wakeUrl": agent.url});
    let ann = key.post(&format!("{team}/agents"), ann).id();
    for parent in [Some(format!("00-{TRACE}-00f067aa0ba902b7-01")), None] {
        let ask = key.ask("POST", &format!("{team}/tasks"));
        let ask = ask.org_json(json!({"title": "t", "assigneeAgentId": ann}));
        let ask = match &parent {
            Some(parent) => ask.with("traceparent", parent),
            None => ask,
        };
        ask.send().ok();
    }
    let told: Vec<_> = (0..2).map(|_| agent.next().field("traceparent").to_string()).collect();
    drop(key);
    running.stop();
    let arrived = collector.arrived();
    let bodies: Vec<_> = arrived.iter().map(|sent| sent.json()).collect();
    let all = bodies
        .iter()
        .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap());
    let (requests, calls): (Vec<_>, Vec<_>) = all
        .filter(|span| span["kind"] == 3 || span["name"] == "POST /api/teams/{teamId}/tasks")
        .partition(|span| span["kind"] == 2);
    assert_eq!((requests.len(), calls.len()), (2, 2));
    assert_eq!(
        (&requests[0]["traceId"], &requests[1]["parentSpanId"]),
        (&json!(TRACE), &Value::Null)
    );
    for (request, told) in requests.iter().zip(&told) {
        let call = calls.iter().find(|call| call["parentSpanId"] == request["spanId"]);
        let call = call.unwrap_or_else(|| panic!("{calls:?} of {request}"));
        assert_eq!(call["traceId"], request["traceId"]);
        let [trace, span] = ["traceId", "spanId"].map(|id| call[id].as_str().unwrap());
        assert_eq!(*told, format!("00-{trace}-{span}-01"));
    }
}

#[test]
fn spans_of_a_failing_collector_are_dropped_and_counted_until_it_takes_them_again() {
    let collector = Receiver::answering(&[503, 200]);
    let running = exporting_to(&collector.url);
    let (exported, dropped) =
        ("roadstead_otlp_spans_exported_total", "roadstead_otlp_spans_dropped_total");
    assert_eq!((counted(&running, exported), counted(&running, dropped)), (Some(0.0), Some(0.0)));
    eventually("spans are dropped", || counted(&running, dropped).filter(|spans| *spans > 0.0));
    eventually("spans are exported", || counted(&running, exported).filter(|spans| *spans > 0.0));
    running.stop();

    let without = Running::start(config());
    assert_eq!((counted(&without, exported), counted(&without, dropped)), (None, None));
    without.stop();
}

#[test]
fn a_collector_that_hangs_holds_up_neither_requests_nor_the_end() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = exporting_to(&format!("http://{}", collector.local_addr().unwrap()));
    // A batch, which is sent at once.
    for _ in 0..512 {
        assert_eq!(ask(&running, "GET", "/healthz", "").status, 200);
    }
    let _kept = collector.accept().unwrap();
    assert_eq!(ask(&running, "GET", "/healthz", "").status, 200);
    let begun = Instant::now();
    running.stop();
    // The call alone would have ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
