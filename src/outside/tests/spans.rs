//! The export of spans to a collector.

use serde_json::Value;
use tokio::sync::watch;

use super::*;
use crate::base::metrics::SampleValue;

/// Spans for a collector at this port of this machine.
fn spans_to(port: u16) -> SpanExporter {
    let target = SpanTarget::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    let target = target.with_headers("x-key: geheim").unwrap();
    let service = Service::new("one".into(), None);
    let calls = (ClientConfig::default(), Resolver::default());
    let spans = Arc::new(Spans::new(Box::new(|| (1, [7; 24]))));
    SpanExporter::new(spans, target, service, calls).unwrap()
}

fn span() -> Span {
    Span {
        parent: None,
        random: [7; 24],
        start_nanos: 1,
        end_nanos: 2,
        method: "GET",
        side: Side::Server { route: None, is_tls: false, status: 200 },
    }
}

fn add(exporter: &SpanExporter, count: usize) {
    (0..count).for_each(|_| exporter.spans.add(span()));
}

/// How many were exported, and how many dropped.
fn counted(exporter: &SpanExporter) -> [f64; 2] {
    let [exported, dropped] = exporter.spans.families().try_into().unwrap();
    assert_eq!(exported.name, "roadstead_otlp_spans_exported");
    [exported, dropped].map(|family| match family.samples[0].value {
        SampleValue::Number(number) => number,
        SampleValue::Distribution { .. } => panic!("it is a number"),
    })
}

/// How many spans are in a request.
fn sent(request: &str) -> usize {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("x-key: geheim") && head.contains("content-type: application/json"));
    let body: Value = serde_json::from_str(body).unwrap();
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len()
}

#[tokio::test]
async fn what_does_not_fit_into_the_queue_is_dropped_and_the_rest_is_sent_at_the_end() {
    let (port, seen) = server(async move |stream: TcpStream| stream).await;
    drop(seen);
    let spans = spans_to(port);
    add(&spans, 4096 + 3);
    assert_eq!(counted(&spans), [0.0, 3.0]);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spans = spans_to(listener.local_addr().unwrap().port());
    add(&spans, 512 + 512 + 5);
    let (_stop, stopping) = watch::channel(true);
    let collector = async {
        let mut batches = Vec::new();
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            batches.push(sent(&exchange(&mut stream, OK.as_bytes()).await));
        }
        batches
    };
    let (batches, ()) = tokio::join!(collector, spans.export(stopping));
    assert_eq!((batches, counted(&spans)), (vec![512, 512, 5], [1029.0, 0.0]));
}

#[tokio::test]
async fn a_full_batch_does_not_wait() {
    let (port, seen) = answering(OK).await;
    let spans = spans_to(port);
    let (_stop, stopping) = watch::channel(false);
    let begun = Instant::now();
    let adding = async {
        add(&spans, 512);
        seen.await.unwrap()
    };
    tokio::select! {
        request = adding => assert_eq!(sent(&request), 512),
        () = spans.export(stopping) => panic!("it ends only when it is told to"),
    }
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn spans_that_the_collector_refuses_or_that_do_not_reach_it_are_dropped() {
    let partial = r#"{"partialSuccess":{"rejectedSpans":"2"}}"#;
    let length = partial.len();
    let (closed, listener) = unused_listener();
    drop(listener);
    for (answer, expected) in [
        (Some("HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n".to_string()), [0.0, 5.0]),
        (Some("palaver".into()), [0.0, 5.0]),
        (Some(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{partial}")), [3.0, 2.0]),
        (None, [0.0, 5.0]),
    ] {
        let port = match answer {
            Some(answer) => answering(answer).await.0,
            None => closed,
        };
        let spans = spans_to(port);
        add(&spans, 5);
        let (_stop, stopping) = watch::channel(true);
        spans.export(stopping).await;
        assert_eq!(counted(&spans), expected);
    }
}

#[tokio::test]
async fn what_follows_a_failure_at_the_end_is_not_tried() {
    // It answers one request; a second one would not connect.
    let (port, seen) = answering("HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n").await;
    let spans = spans_to(port);
    add(&spans, 513);
    let (_stop, stopping) = watch::channel(true);
    spans.export(stopping).await;
    assert_eq!((sent(&seen.await.unwrap()), counted(&spans)), (512, [0.0, 513.0]));
}

#[tokio::test]
async fn each_call_is_a_span_and_those_of_an_unrecorded_trace_and_those_not_made_are_none() {
    let (receiver, _seen) = answering("HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n").await;
    let (closed, listener) = unused_listener();
    drop(listener);
    let (port, seen) = answering(OK).await;
    let spans = spans_to(port);
    let outside = open_to_loopback().with_spans(Some(spans.spans.clone()));
    let to = |url: String, told: &str| {
        let limits = Limits {
            total: Duration::from_secs(5),
            answer: BodyLimit::UpTo(9),
            https_only: url.starts_with("gopher"),
        };
        let mut headers = vec![("Authorization".to_string(), "geheim".to_string())];
        let trace = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{told}");
        headers.extend((!told.is_empty()).then(|| ("traceparent".into(), trace)));
        Call { method: Method::POST, url, headers, body: b"geheim".to_vec(), limits }
    };
    let hidden = "geheim?geheim=geheim";
    assert!(outside.send(to(format!("http://127.0.0.1:{receiver}/{hidden}"), "01")).await.is_ok());
    assert!(outside.send(to(format!("http://127.0.0.1:{closed}/{hidden}"), "")).await.is_err());
    for none in ["00", "01"] {
        let url =
            if none == "00" { format!("http://127.0.0.1:{closed}/") } else { "gopher://a/".into() };
        assert!(outside.send(to(url, none)).await.is_err());
    }
    // One that nobody waits for.
    let hangs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/{hidden}", hangs.local_addr().unwrap());
    assert!(timeout(Duration::ZERO, outside.send(to(url, ""))).await.is_err());

    let (_stop, stopping) = watch::channel(true);
    spans.export(stopping).await;
    let request = seen.await.unwrap();
    assert_eq!(sent(&request), 3);
    let body = request.split_once("\r\n\r\n").unwrap().1;
    assert!(!body.contains("geheim"), "{body}");
    let body: Value = serde_json::from_str(body).unwrap();
    let sent = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert!(sent.iter().all(|span| span["kind"] == 3 && span["name"] == "POST"), "{sent:?}");
    assert_eq!(sent[0]["spanId"], "00f067aa0ba902b7");
    let error = |span: &Value| {
        let attributes = span["attributes"].as_array().unwrap();
        let error = attributes.iter().find(|attribute| attribute["key"] == "error.type");
        error.unwrap()["value"]["stringValue"].as_str().unwrap().to_string()
    };
    let errors: Vec<_> = sent.iter().map(error).collect();
    assert_eq!(errors, ["404", "connection", "cancelled"]);
    assert_eq!(counted(&spans), [3.0, 0.0]);
}
