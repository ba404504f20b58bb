//! Spans as OTLP has them: protobuf's JSON form of `ExportTraceServiceRequest`, with the attributes of
//! OpenTelemetry's conventions for HTTP servers and clients (reference: command-line, "Traces").

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::Failure;
use super::client::is_reserved;
use super::connect::Target;
use super::span::{Side, Span};
use crate::base::{TraceParent, hex};

/// The path of traces below the base URL of a collector.
const PATH: &str = "/v1/traces";

/// `SPAN_KIND_SERVER` and `SPAN_KIND_CLIENT`.
const SERVER: u8 = 2;
const CLIENT: u8 = 3;

/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// Bits of `flags` beside those of the trace: that the parent is known to be elsewhere, and is.
const HAS_IS_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;

/// A collector, and the headers that it is sent. They may hold a secret.
#[derive(Clone)]
pub struct SpanTarget {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    is_tls: bool,
    /// The host, with its port if the URL has one.
    authority: String,
}

/// Without the headers, and without the path.
impl std::fmt::Debug for SpanTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.host())
    }
}

impl SpanTarget {
    /// Parses the base URL of a collector, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it, or that of its traces.
    /// The error is a phrase that never repeats the URL.
    pub fn parse(endpoint: &str) -> Result<Self, &'static str> {
        if endpoint.contains(['?', '#']) {
            return Err("must be without a query and a fragment");
        }
        let base = endpoint.trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base);
        let url = format!("{base}{PATH}");
        let target = Target::parse(&url, false).map_err(|failure| match failure {
            Failure::Url("it must not contain user information") => {
                "must not contain user information: put it into the file of --otlp-header-file"
            }
            _ => "must be the http or https URL of a collector, such as http://localhost:4318",
        })?;
        let (_, _, is_tls) = target.server();
        let authority = target.authority.to_str().unwrap_or_default().into();
        Ok(SpanTarget { url, headers: Vec::new(), is_tls, authority })
    }

    /// Adds headers, a line `Name: value` for each; lines that begin with `#` are comments. The error is a
    /// phrase that repeats none of them.
    pub fn with_headers(mut self, lines: &str) -> Result<Self, String> {
        for (number, line) in (1..).zip(lines.lines()) {
            // HTTP allows it in a name, so that what was commented out would be sent.
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let wrong = |why: &str| format!("line {number} {why}");
            let Some((name, value)) = line.split_once(':') else {
                return Err(wrong("is no header: write Name: value"));
            };
            let (name, value) = (name.trim(), value.trim());
            let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
            if value.is_empty() {
                return Err(wrong("has no value"));
            }
            let (Ok(key), Ok(_)) = pair else {
                return Err(wrong("is no header that HTTP allows: write Name: value"));
            };
            if is_reserved(&key) || key == CONTENT_TYPE {
                return Err(wrong("is a header that the server sets itself"));
            }
            self.headers.push((name.into(), value.into()));
        }
        Ok(self)
    }

    /// Whether what is sent can be read on its way.
    pub fn is_in_clear(&self) -> bool {
        !self.is_tls
    }

    /// The host, with its port if the URL has one.
    pub fn host(&self) -> &str {
        &self.authority
    }

    /// The host without its port; an IPv6 address in brackets.
    pub fn host_name(&self) -> &str {
        match self.authority.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => name,
            _ => &self.authority,
        }
    }
}

/// The server whose spans they are.
#[derive(Clone, Debug)]
pub struct Service {
    /// Tells the servers of one installation, and the starts of one server, apart.
    pub instance: String,
    /// Host, port and whether it is encrypted, of the URL under which clients reach it.
    pub(super) public: Option<(String, u16, bool)>,
}

impl Service {
    /// A server that is reached under `public_url`, if it is known.
    pub fn new(instance: String, public_url: Option<&str>) -> Self {
        let public = public_url.and_then(|url| Target::parse(url, false).ok());
        Service { instance, public: public.map(|target| target.server()) }
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Numbers of 64 bits are texts in protobuf's JSON form.
fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// The body of the request that exports these spans.
pub(super) fn body(service: &Service, spans: &[Span]) -> Vec<u8> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let resource = [
        text("service.name", "roadstead"),
        text("service.version", VERSION),
        text("service.instance.id", &service.instance),
    ];
    let spans: Vec<Value> = spans.iter().map(|span| encoded(service, span)).collect();
    let scope = json!({"name": "roadstead", "version": VERSION});
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    body.to_string().into_bytes()
}

fn encoded(service: &Service, span: &Span) -> Value {
    let (own, begun) = span.random.split_at(8);
    let (trace, own) = match &span.side {
        Side::Client { told: Some(told), .. } => (Some(told), told.span_id()),
        _ => (span.parent.as_ref(), hex(own)),
    };
    let kind = if matches!(span.side, Side::Client { .. }) { CLIENT } else { SERVER };
    // What makes a call is of this server.
    let remote = if span.parent.is_some() && kind == SERVER { IS_REMOTE } else { 0 };
    let mut value = json!({
        "traceId": trace.map_or_else(|| hex(begun), TraceParent::trace_id),
        "spanId": own,
        // Only what is sampled is exported.
        "flags": 1 | HAS_IS_REMOTE | remote,
        "name": name(span),
        "kind": kind,
        "startTimeUnixNano": span.start_nanos.to_string(),
        "endTimeUnixNano": span.end_nanos.to_string(),
        "attributes": attributes(service, span),
        "status": if span.error().is_some() { json!({"code": ERROR}) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        value["parentSpanId"] = parent.span_id().into();
    }
    value
}

/// Few names for however many requests: of the method and the pattern of the path. What others call has
/// no pattern.
fn name(span: &Span) -> String {
    let method = if span.method == "_OTHER" { "HTTP" } else { span.method };
    match &span.side {
        Side::Server { route: Some(route), .. } => format!("{method} {route}"),
        _ => method.into(),
    }
}

/// Neither the path nor the query: both may hold secrets, and a path names what others called it.
fn attributes(service: &Service, span: &Span) -> Vec<Value> {
    let public = service.public.as_ref();
    let (server, is_tls) = match &span.side {
        Side::Client { server, .. } => (Some(server), server.2),
        Side::Server { is_tls, .. } => (public, *is_tls || public.is_some_and(|public| public.2)),
    };
    let mut attributes = vec![
        text("http.request.method", span.method),
        text("url.scheme", if is_tls { "https" } else { "http" }),
    ];
    let status = span.status();
    attributes.extend(status.map(|status| number("http.response.status_code", status.into())));
    if let Side::Server { route: Some(route), .. } = &span.side {
        attributes.push(text("http.route", route));
    }
    if let Some((host, port, _)) = server {
        attributes.extend([text("server.address", host), number("server.port", (*port).into())]);
    }
    attributes.extend(span.error().map(|error| text("error.type", &error)));
    attributes
}

/// How many spans a collector says it has refused of those that it has answered with success.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        partial_success: PartialSuccess,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PartialSuccess {
        rejected_spans: Value,
    }
    let answer = serde_json::from_slice::<Answer>(answer).ok();
    // A text, as 64 bits are; some write a number.
    answer.map_or(0, |answer| match answer.partial_success.rejected_spans {
        Value::String(number) => number.parse().unwrap_or(0),
        number => number.as_u64().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn span() -> Span {
        Span {
            parent: None,
            random: std::array::from_fn(|at| at as u8),
            start_nanos: 1_800_000_000_123_456_789,
            end_nanos: 1_800_000_000_123_999_999,
            method: "GET",
            side: answered(Some("/api/teams/{teamId}"), 200),
        }
    }

    fn answered(route: Option<&str>, status: u16) -> Side {
        Side::Server { route: route.map(String::from), is_tls: false, status }
    }

    fn sent(service: &Service, span: Span) -> (Value, Vec<(String, String)>) {
        let body: Value = serde_json::from_slice(&body(service, &[span])).unwrap();
        let span = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone();
        let attributes = span["attributes"].as_array().unwrap().iter().map(|attribute| {
            let value = &attribute["value"];
            let value = value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap();
            (attribute["key"].as_str().unwrap().to_string(), value.to_string())
        });
        let attributes = attributes.collect();
        (span, attributes)
    }

    #[test]
    fn a_span_is_written_as_otlp_has_it() {
        let service = Service::new("one".into(), None);
        let (root, attributes) = sent(&service, span());
        assert_eq!(root["traceId"], "08090a0b0c0d0e0f1011121314151617");
        assert_eq!(root["spanId"], "0001020304050607");
        assert!(root.get("parentSpanId").is_none());
        assert_eq!((&root["name"], &root["kind"]), (&json!("GET /api/teams/{teamId}"), &json!(2)));
        assert_eq!(root["startTimeUnixNano"], "1800000000123456789");
        assert_eq!(root["endTimeUnixNano"], "1800000000123999999");
        assert_eq!((&root["status"], &root["flags"]), (&json!({}), &json!(0x101)));
        let expected = [
            ("http.request.method", "GET"),
            ("url.scheme", "http"),
            ("http.response.status_code", "200"),
            ("http.route", "/api/teams/{teamId}"),
        ];
        assert_eq!(attributes, expected.map(|(key, value)| (key.into(), value.into())));

        let (child, _) =
            sent(&service, Span { parent: TraceParent::parse(PARENT.as_bytes()), ..span() });
        assert_eq!(child["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(child["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!((&child["spanId"], &child["flags"]), (&root["spanId"], &json!(0x301)));
    }

    #[test]
    fn errors_are_those_of_the_server_and_what_is_no_route_has_a_name_of_its_method() {
        let service = Service::new("one".into(), Some("https://agents.test"));
        let (failed, attributes) =
            sent(&service, Span { side: answered(Some("/a"), 503), ..span() });
        assert_eq!(failed["status"], json!({"code": 2}));
        for (key, value) in [
            ("error.type", "503"),
            ("url.scheme", "https"),
            ("server.address", "agents.test"),
            ("server.port", "443"),
        ] {
            assert!(attributes.contains(&(key.into(), value.into())), "{key}: {attributes:?}");
        }
        let missing = Span { side: answered(None, 404), ..span() };
        let (missing, attributes) = sent(&service, missing);
        assert_eq!((&missing["name"], &missing["status"]), (&json!("GET"), &json!({})));
        assert!(!attributes.iter().any(|(key, _)| key == "http.route" || key == "error.type"));
        let (other, _) =
            sent(&service, Span { method: "_OTHER", side: answered(None, 200), ..span() });
        assert_eq!(other["name"], "HTTP");
    }

    #[test]
    fn a_call_is_a_span_of_a_client_with_the_ids_that_it_told() {
        let service = Service::new("one".into(), Some("https://agents.test"));
        let of = |told: Option<&str>, end| {
            let told = told.and_then(|told| TraceParent::parse(told.as_bytes()));
            let side = Side::Client { told, server: ("hooks.test".into(), 8443, true), end };
            sent(&service, Span { method: "POST", side, ..span() })
        };
        let (call, attributes) = of(Some(PARENT), Ok(204));
        assert_eq!((&call["kind"], &call["name"]), (&json!(3), &json!("POST")));
        assert_eq!(call["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((&call["spanId"], &call["status"]), (&json!("00f067aa0ba902b7"), &json!({})));
        let expected = [
            ("http.request.method", "POST"),
            ("url.scheme", "https"),
            ("http.response.status_code", "204"),
            ("server.address", "hooks.test"),
            ("server.port", "8443"),
        ];
        assert_eq!(attributes, expected.map(|(key, value)| (key.into(), value.into())));
        for (end, error) in [(Ok(404), "404"), (Ok(503), "503"), (Err("timeout"), "timeout")] {
            let side = Side::Client { told: None, server: ("a.test".into(), 80, false), end };
            let parent = TraceParent::parse(PARENT.as_bytes());
            let (child, _) = sent(&service, Span { method: "POST", side, parent, ..span() });
            assert_eq!(child["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
            assert_eq!(child["spanId"], "0001020304050607");
            assert_eq!(
                (&child["parentSpanId"], &child["flags"]),
                (&json!("00f067aa0ba902b7"), &json!(257))
            );
            let (failed, attributes) = of(None, end);
            assert_eq!(failed["traceId"], "08090a0b0c0d0e0f1011121314151617");
            assert_eq!(failed["status"], json!({"code": 2}));
            assert!(attributes.contains(&("error.type".into(), error.into())), "{attributes:?}");
            let has_status = attributes.iter().any(|(key, _)| key == "http.response.status_code");
            assert_eq!(has_status, end.is_ok());
        }
    }

    #[test]
    fn an_endpoint_is_the_base_of_a_collector_or_the_url_of_its_traces() {
        for (endpoint, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://a.test/otlp", "https://a.test/otlp/v1/traces"),
            ("https://a.test/otlp/v1/traces", "https://a.test/otlp/v1/traces"),
            ("https://a.test/v1/traces/", "https://a.test/v1/traces"),
        ] {
            assert_eq!(SpanTarget::parse(endpoint).unwrap().url, url);
        }
        for wrong in
            ["", "localhost:4318", "grpc://a.test", "http://u:p@a.test", "http://a.test/?key=x"]
        {
            assert!(SpanTarget::parse(wrong).is_err(), "{wrong}");
        }
        let target = SpanTarget::parse("https://a.test:4318/secret-path").unwrap();
        assert_eq!(format!("{target:?}"), "a.test:4318");
    }

    #[test]
    fn headers_are_lines_and_errors_repeat_none() {
        let target = || SpanTarget::parse("http://localhost:4318").unwrap();
        let lines = "Authorization: Basic a:b=\r\n\n x-org :  1\n#x-old: geheim\n # A comment\n";
        let headers = target().with_headers(lines).unwrap();
        let expected = [("Authorization", "Basic a:b="), ("x-org", "1")];
        assert_eq!(headers.headers, expected.map(|(name, value)| (name.into(), value.into())));
        for wrong in [
            "geheim",
            "a\nb: c\u{1}",
            "ge heim: a",
            "geheim: ",
            "host: geheim",
            "Content-Type: a/b",
        ] {
            let error = target().with_headers(wrong).err().unwrap();
            assert!(error.starts_with("line 1 ") && !error.contains("geheim"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_a_collector_refuses_is_read_of_its_answer() {
        for (answer, expected) in [
            ("", 0),
            ("{}", 0),
            ("{\"partialSuccess\":{}}", 0),
            ("{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"no\"}}", 3),
            ("{\"partialSuccess\":{\"rejectedSpans\":3}}", 3),
            ("{\"partialSuccess\":{\"rejectedSpans\":-3}}", 0),
        ] {
            assert_eq!(rejected(answer.as_bytes()), expected, "{answer}");
        }
    }
}
