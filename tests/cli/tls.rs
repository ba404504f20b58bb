//! TLS of the server's own (reference: command-line, "TLS"), with curl, openssl and a client of rustls.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use serde_json::{Value, json};

use crate::client::{EndOfLoad, eventually, raw};
use crate::optional::{program, run};
use crate::process::{PASSWORD, Place, Serving};

/// Longer than any request takes here.
const PATIENCE: Duration = Duration::from_secs(30);

// ── Certificates ─────────────────────────────────────────────────────────────

/// A certificate and its key, in files that a server reads.
pub struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// With a certificate for this machine and `agents.test`.
    pub fn new() -> Self {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        files.put(&Made::until(2099));
        files
    }

    pub fn put(&self, Made { certificate, key }: &Made) {
        fs::write(self.certificate(), certificate).unwrap();
        fs::write(self.key(), key).unwrap();
        fs::set_permissions(self.key(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("server.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }

    /// The flags with which a server reads them.
    pub fn flags(&self) -> [String; 4] {
        let text = |path: PathBuf| path.to_str().unwrap().to_string();
        ["--tls-cert".into(), text(self.certificate()), "--tls-key".into(), text(self.key())]
    }

    pub fn serve(&self, place: &Place, more: &[&str]) -> Serving {
        let flags = self.flags();
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Serving::start(place, &flags)
    }
}

/// A certificate that its clients trust itself, in PEM.
pub struct Made {
    pub certificate: String,
    pub key: String,
}

impl Made {
    pub fn until(year: i32) -> Self {
        let names = ["127.0.0.1", "127.0.0.2", "localhost", "agents.test"].map(String::from);
        let mut params = CertificateParams::new(names.to_vec()).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Made { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

// ── A client ─────────────────────────────────────────────────────────────────

/// A client that trusts these certificates.
pub fn client(
    trusted: &[&str],
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for pem in trusted {
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

pub fn usual(trusted: &[&str]) -> Arc<ClientConfig> {
    client(trusted, &[&TLS13, &TLS12], &["http/1.1"])
}

pub type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<Stream> {
    connect_to(address, ServerName::from(address.ip()), config)
}

/// Connects to a server that is called so.
pub fn connect_to(
    address: SocketAddr,
    name: ServerName<'static>,
    config: &Arc<ClientConfig>,
) -> std::io::Result<Stream> {
    let connection = ClientConnection::new(config.clone(), name).map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Sends a request that ends its connection, and reads the answer to its end.
pub fn asked(stream: &mut Stream, head: &str, host: &str) -> std::io::Result<String> {
    write!(stream, "{head}\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut came = String::new();
    // To its end: a connection that is cut off is an error.
    stream.read_to_string(&mut came)?;
    Ok(came)
}

fn get(address: SocketAddr, config: &Arc<ClientConfig>, path: &str) -> String {
    let mut stream = connect(address, config).unwrap();
    asked(&mut stream, &format!("GET {path} HTTP/1.1"), &address.to_string()).unwrap()
}

/// The certificate that a new connection is shown.
fn shown(address: SocketAddr, config: &Arc<ClientConfig>) -> Vec<u8> {
    let stream = connect(address, config).unwrap();
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

/// What `doctor` finds about TLS.
pub fn doctor(place: &Place, more: &[&str]) -> Vec<Value> {
    let said = place.run(&[&["doctor", "--json"][..], more].concat());
    let said: Value = serde_json::from_str(&said.stdout).unwrap();
    let findings = said["findings"].as_array().unwrap().iter();
    findings.filter(|one| one["check"].as_str().unwrap().starts_with("tls")).cloned().collect()
}

// ── What is spoken ───────────────────────────────────────────────────────────

#[test]
fn both_versions_are_spoken_sessions_resumed_and_http_2_is_chosen_where_it_is_offered() {
    let (files, (place, _)) = (Files::new(), Place::founded());
    let serving = files.serve(&place, &[]);
    let pem = fs::read_to_string(files.certificate()).unwrap();
    for version in [&TLS12, &TLS13] {
        let config = client(&[&pem], &[version], &["http/1.1"]);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut stream = connect(serving.address, &config).unwrap();
            let came = asked(&mut stream, "GET /readyz HTTP/1.1", "localhost").unwrap();
            assert!(came.starts_with("HTTP/1.1 200"), "{came}");
            assert_eq!(stream.conn.protocol_version(), Some(version.version));
            assert_eq!(stream.conn.handshake_kind(), Some(kind), "{:?}", version.version);
            assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        }
        for protocols in [&["h2"][..], &["h2", "http/1.1"], &["http/1.1", "h2"]] {
            let stream = connect(serving.address, &client(&[&pem], &[version], protocols)).unwrap();
            assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
        }
        let another = client(&[&pem], &[version], &["spdy/3"]);
        assert!(connect(serving.address, &another).is_err());
    }
}

#[test]
fn curl_and_openssl_speak_with_a_server_with_keys_of_each_kind() {
    let Some(openssl) = program("openssl", "a server with TLS", "openssl") else { return };
    let Some(curl) = program("curl", "a server with TLS", "curl") else { return };
    let (files, (place, _)) = (Files::new(), Place::founded());
    let openssl =
        |args: &[&str]| run(Command::new(&openssl).args(args).current_dir(files.folder.path()));
    let kinds: [&[&str]; 4] = [
        &["genrsa", "-traditional", "-out", "server.key", "2048"],
        &["genpkey", "-algorithm", "RSA", "-out", "server.key"],
        &["ecparam", "-name", "prime256v1", "-genkey", "-out", "server.key"],
        &[
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            "ec_paramgen_curve:P-384",
            "-out",
            "server.key",
        ],
    ];
    for kind in kinds {
        openssl(kind);
        let request = ["req", "-x509", "-key", "server.key", "-out", "server.pem", "-days", "2"];
        let names = ["-subj", "/CN=a", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
        openssl(&[&request[..], &names].concat());
        let serving = files.serve(&place, &[]);
        let url = format!("https://{}/readyz", serving.address);
        let pem = files.certificate();
        let asked = run(Command::new(&curl).args(["-sS", "--fail", "--cacert"]).arg(&pem).arg(url));
        assert_eq!(asked, "{\"status\":\"ok\"}", "{kind:?}");
        for version in ["-tls1_2", "-tls1_3"] {
            let at = serving.address.to_string();
            let said = openssl(&[
                "s_client",
                "-connect",
                &at,
                version,
                "-CAfile",
                "server.pem",
                "-verify_return_error",
                "-verify_ip",
                "127.0.0.1",
                "-alpn",
                "h2,http/1.1",
            ]);
            assert!(said.contains("ALPN protocol: h2"), "{said}");
        }
    }
    openssl(&["pkey", "-in", "server.key", "-aes256", "-passout", "pass:x", "-out", "locked.key"]);
    fs::rename(files.folder.path().join("locked.key"), files.key()).unwrap();
    let flags = files.flags();
    let refused = place.run(&[&["serve"][..], &flags.each_ref().map(String::as_str)].concat());
    refused.fails(2, "server.key is encrypted");
}

#[test]
fn curl_speaks_http_2_on_one_connection_and_http_1_if_it_is_told_to() {
    let Some(curl) = program("curl", "a server with HTTP/2", "curl") else { return };
    let (files, (place, key)) = (Files::new(), Place::founded());
    let mut serving = files.serve(&place, &["--log-level", "debug"]);
    let pem = files.certificate();
    let curl = |args: &[&str]| {
        let mut command = Command::new(&curl);
        command.args(["-sS", "--cacert"]).arg(&pem).args(["-H", &format!("X-API-Key: {key}")]);
        run(command.args(args))
    };
    let at = |path: &str| format!("https://{}{path}", serving.address);
    let figures = "\n%{http_version} %{response_code} %{num_connects}\n";
    let said = curl(&["--http1.1", "-w", figures, &at("/readyz")]);
    assert_eq!(said, "{\"status\":\"ok\"}\n1.1 200 1\n");
    let urls = vec![at("/readyz"); 20];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let said = curl(&[&["--http2", "-w", figures][..], &urls].concat());
    let answers: Vec<&str> = said.lines().filter(|line| !line.starts_with('{')).collect();
    let later = vec!["2 200 0"; 19];
    assert_eq!(answers, [&["2 200 1"][..], &later].concat());
    let body = r#"{"orgSlug": "acme", "slug": "crew", "name": "Crew"}"#;
    let json = "Content-Type: application/json";
    let teams = at("/api/teams");
    let made = curl(&["--http2", "-H", json, "--data", body, &teams]);
    assert!(made.contains("\"crew\""), "{made}");
    let head = curl(&["--http2", "-I", &at("/sign-in")]);
    assert!(head.starts_with("HTTP/2 200") && head.contains("content-length: "), "{head}");
    let large = "x".repeat(1_100_000);
    let large_file = files.folder.path().join("large");
    fs::write(&large_file, &large).unwrap();
    let data = format!("@{}", large_file.display());
    let refused = curl(&["--http2", "-w", figures, "-H", json, "--data-binary", &data, &teams]);
    assert!(refused.contains("body_too_large") && refused.ends_with("\n2 413 1\n"), "{refused}");
    serving.signal("TERM");
    let (code, _, log) = serving.ends();
    assert_eq!(code, Some(0));
    assert!(log.contains("answered") && !log.contains("WARN"), "{log}");
    assert!(!log.contains("frame"), "of frames the log says nothing: {log}");
}

#[test]
fn who_speaks_plain_http_is_told_to_use_https_and_garbage_is_no_error() {
    let (files, (place, _)) = (Files::new(), Place::founded());
    let mut serving = files.serve(&place, &[]);
    let get = raw(serving.address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    get.refused(400, "other_protocol");
    assert!(get.text().contains("use https://"), "{}", get.text());
    assert_eq!(get.header("connection"), Some("close"));
    assert_eq!(get.header("strict-transport-security"), None);
    let long = [&b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[b'x'; 60_000]].concat();
    raw(serving.address, &long).refused(400, "other_protocol");
    for garbage in [&b"\x16\x03\x01\x00\x05hello"[..], b"\x16", b"\x16\x03\x01\xff\xff", b""] {
        let mut stream = TcpStream::connect(serving.address).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let pem = fs::read_to_string(files.certificate()).unwrap();
    assert!(get_of(&serving, &pem).starts_with("HTTP/1.1 200"));
    serving.signal("TERM");
    let (code, _, log) = serving.ends();
    assert_eq!(code, Some(0));
    assert!(!log.contains("WARN") && !log.contains("handshake"), "{log}");
}

fn get_of(serving: &Serving, pem: &str) -> String {
    get(serving.address, &usual(&[pem]), "/readyz")
}

#[test]
fn metrics_are_open_to_this_machine_and_not_to_whom_a_proxy_connects_that_passes_tls_through() {
    let (files, (place, _)) = (Files::new(), Place::founded());
    let serving = files.serve(&place, &[]);
    let config = usual(&[&fs::read_to_string(files.certificate()).unwrap()]);
    for (host, status) in [("localhost:1", 200), ("127.0.0.1", 200), ("agents.test", 401)] {
        let mut stream = connect(serving.address, &config).unwrap();
        let answer = asked(&mut stream, "GET /metrics HTTP/1.1", host).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
}

// ── Settings ─────────────────────────────────────────────────────────────────

#[test]
fn a_certificate_that_has_expired_is_served_until_the_next_one_is_there_and_the_log_says_so() {
    let (files, (place, _)) = (Files::new(), Place::founded());
    files.put(&Made::until(2001));
    let mut serving = files.serve(&place, &[]);
    serving.expect_errors(&["has expired"]);
    let expired = fs::read_to_string(files.certificate()).unwrap();
    assert_eq!(serving.announced["tls"]["notAfter"], "2001-01-01T00:00:00.000Z");
    let refused = connect(serving.address, &usual(&[&expired])).expect_err("it is refused");
    assert!(refused.to_string().to_ascii_lowercase().contains("expired"), "{refused}");
    let next = Made::until(2099);
    files.put(&next);
    serving.signal("HUP");
    let is_served = || connect(serving.address, &usual(&[&next.certificate])).ok();
    eventually("the next certificate", is_served);
}

#[test]
fn a_pair_that_cannot_be_served_is_refused_before_a_port_is_opened() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let files = Files::new();
    let refused = |with: &str| {
        let flags = files.flags();
        let flags = flags.each_ref().map(String::as_str);
        // With a port that is taken, the other order would fail with 1.
        place.run(&[&["serve", "--listen", &at][..], &flags].concat()).fails(2, with);
        assert!(!place.data().exists());
    };
    files.put(&Made { key: Made::until(2099).key, ..Made::until(2099) });
    refused("server.key is not the key of the certificate in --tls-cert");
    let good = Made::until(2099);
    files.put(&Made { certificate: String::new(), key: good.key.clone() });
    refused("server.pem is empty");
    files.put(&Made { certificate: good.key.clone(), key: good.certificate.clone() });
    refused("are the two files exchanged?");
    fs::remove_file(files.key()).unwrap();
    files.put(&Made { certificate: good.certificate, key: "text".into() });
    refused("server.key holds no private key");

    let certificate = files.certificate().to_str().unwrap().to_string();
    place.run(&["serve", "--tls-cert", &certificate]).fails(2, "--tls-key");
    place.run(&["serve", "--tls", "none"]).fails(2, "self-signed");
    place.run(&["serve", "--redirect-http", "127.0.0.1:0"]).fails(2, "--redirect-http");
    let plain = ["serve", "--tls", "self-signed", "--public-url", "http://agents.test"];
    place.run(&plain).fails(2, "--public-url http://agents.test is plain HTTP");
    let twice = ["serve", "--tls", "self-signed", "--listen", &at, "--redirect-http", &at];
    drop(taken);
    place.run(&twice).fails(2, "leave one of them out");
    assert!(!place.data().exists());
}

#[test]
fn a_server_listens_at_several_addresses_and_leads_browsers_to_the_first() {
    let (files, (mut place, _)) = (Files::new(), Place::founded());
    let more = ["--listen", "127.0.0.2:0", "--redirect-http", "127.0.0.1:0"];
    let serving = files.serve(&place, &more);
    let pem = fs::read_to_string(files.certificate()).unwrap();
    let urls: Vec<&str> = serving.announced["addresses"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(urls[0] == serving.announced["listening"] && urls[1].starts_with("https://127.0.0.2:"));
    let second = urls[1].split_once("://").unwrap().1.parse().unwrap();
    assert!(get(second, &usual(&[&pem]), "/readyz").starts_with("HTTP/1.1 200"));

    let redirecting = serving.announced["redirecting"].as_str().unwrap();
    let redirecting: SocketAddr = redirecting.strip_prefix("http://").unwrap().parse().unwrap();
    let ask = |head: &str, host: &str| {
        raw(redirecting, format!("{head}\r\nHost: {host}\r\n\r\n").as_bytes())
    };
    let port = serving.address.port();
    for host in ["agents.test", "127.0.0.1:80"] {
        let reply = ask("GET /o/acme?x=%20y HTTP/1.1", host);
        let name = host.split(':').next().unwrap();
        let location = format!("https://{name}:{port}/o/acme?x=%20y");
        assert_eq!((reply.status, reply.header("location")), (308, Some(&*location)));
        assert_eq!(reply.header("connection"), Some("close"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("strict-transport-security"), None);
    }
    ask("POST /api/tools HTTP/1.1", "agents.test").refused(403, "https_required");
    ask("DELETE / HTTP/1.1", "agents.test").refused(403, "https_required");
    ask("GET / HTTP/1.1", "a/b").refused(400, "invalid_request");
    drop(serving);

    let listen = "127.0.0.1:0,127.0.0.2:0";
    place.set(&[("ROADSTEAD_LISTEN", listen), ("ROADSTEAD_JSON", "true")]);
    let serving = Serving::of(place.command(&["serve"]));
    assert_eq!(serving.announced["addresses"].as_array().map(Vec::len), Some(2));
}

#[test]
fn cookies_and_links_are_those_of_https() {
    let (files, (place, _)) = (Files::new(), Place::founded());
    let serving = files.serve(&place, &[]);
    let config = usual(&[&fs::read_to_string(files.certificate()).unwrap()]);
    let (address, port) = (serving.address, serving.address.port());
    let page = get(address, &config, "/sign-in");
    assert!(
        page.contains("set-cookie: __Host-roadstead-visitor=") && page.contains("; Secure\r\n")
    );
    assert!(!page.contains("not encrypted"), "{page}");
    let send = |head: &str, host: &str| {
        asked(&mut connect(address, &config).unwrap(), head, host).unwrap()
    };
    // Browsers that were not told to trust the certificate would not get past it.
    for path in ["/sign-in", "/readyz", "/api/nowhere", "/nowhere"] {
        let answer = send(&format!("GET {path} HTTP/1.1"), "agents.test");
        assert!(!answer.contains("strict-transport-security"), "{path}: {answer}");
    }
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0";
    for (origin, is_own) in [
        (format!("https://agents.test:{port}"), true),
        (format!("http://agents.test:{port}"), false),
        ("https://agents.test".to_string(), false),
    ] {
        let head = format!("POST /sign-in HTTP/1.1\r\nOrigin: {origin}\r\n{form}");
        let answer = send(&head, &format!("agents.test:{port}"));
        assert_eq!(!answer.contains("sent from another site"), is_own, "{origin}: {answer}");
    }

    let post = |path: &str, credential: &str, host: &str, body: &Value| -> Value {
        let body = body.to_string();
        let head = format!(
            "POST /api{path} HTTP/1.1\r\n{credential}Content-Type: application/json\r\n\
             Host: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = connect(address, &config).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut came = String::new();
        stream.read_to_string(&mut came).unwrap();
        serde_json::from_str(came.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let ada = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = post("/auth/sign-in", "", "localhost", &ada);
    let bearer = format!("Authorization: Bearer {}\r\n", session["token"].as_str().unwrap());
    for (number, (host, base)) in [
        (format!("127.0.0.1:{port}"), format!("https://127.0.0.1:{port}/")),
        (format!("agents.test:{port}"), format!("https://agents.test:{port}/")),
        // Not the port of this server, and not a name of the certificate.
        ("agents.test".to_string(), "/".into()),
        ("agents.test:1".to_string(), "/".into()),
        (format!("evil.test:{port}"), "/".into()),
    ]
    .into_iter()
    .enumerate()
    {
        let body =
            json!({"orgSlug": "acme", "email": format!("b{number}@acme.test"), "role": "member"});
        let made = post("/organizations/members", &bearer, &host, &body);
        let link = made["invitationUrl"].as_str().unwrap_or_else(|| panic!("{made}"));
        assert!(link.starts_with(&format!("{base}invitations#")), "{host}: {link}");
    }
}

// ── Replacing ────────────────────────────────────────────────────────────────

#[test]
fn a_certificate_is_replaced_under_load_without_a_failed_request_and_a_bad_one_is_not() {
    let (files, (place, _)) = (Files::new(), Place::founded());
    let first = fs::read_to_string(files.certificate()).unwrap();
    let made = [Made::until(2098), Made::until(2097)];
    let [second, third] = &made;
    let trusted = [&*first, &second.certificate, &third.certificate];
    let mut serving = files.serve(&place, &[]);
    serving.expect_errors(&["the new TLS certificate cannot be served"]);
    let address = serving.address;
    let (done, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut kept = connect(address, &usual(&trusted)).unwrap();
    kept.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut came = Vec::new();
    while !came.ends_with(b"{\"status\":\"ok\"}") {
        let mut byte = [0];
        kept.read_exact(&mut byte).unwrap();
        came.extend(byte);
    }
    thread::scope(|scope| {
        let _end = EndOfLoad(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                let config = usual(&trusted);
                while !done.load(Ordering::Relaxed) {
                    let answer = get(address, &config, "/readyz");
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let is_shown = |pem: &str| (shown(address, &usual(&trusted)) == der(pem)).then_some(());
        // One file after the other, as tools write them, the first in two parts.
        fs::write(files.certificate(), &second.certificate[..100]).unwrap();
        fs::write(files.certificate(), &second.certificate).unwrap();
        fs::write(files.key(), &second.key).unwrap();
        eventually("the second certificate", || is_shown(&second.certificate));

        fs::write(files.key(), &third.key).unwrap();
        eventually("the error", || {
            let found = doctor(&place, &[]);
            let is_it =
                |one: &&Value| one["message"].as_str().unwrap().contains("still serves an earlier");
            found.iter().find(is_it).map(|one| assert_eq!(one["level"], "error"))
        });
        assert!(is_shown(&second.certificate).is_some());
        fs::write(files.certificate(), &third.certificate).unwrap();
        serving.signal("HUP");
        eventually("the third certificate", || is_shown(&third.certificate));
    });
    assert!(requests.load(Ordering::Relaxed) > 10);
    let answer = asked(&mut kept, "GET /readyz HTTP/1.1", "localhost").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(doctor(&place, &[]).iter().all(|one| one["level"] == "ok"));
    serving.signal("TERM");
    let (code, _, log) = serving.ends();
    assert_eq!(code, Some(0));
    let said = log.matches("the new TLS certificate cannot be served").count();
    assert_eq!(said, 1, "{log}");
    assert!(log.contains("is not the key of the certificate"), "{log}");
}

// ── Self-signed ──────────────────────────────────────────────────────────────

pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_self_signed_certificate_is_made_once_and_clients_can_trust_it() {
    let (place, key) = Place::founded();
    let flags = ["--tls", "self-signed", "--public-url", "https://agents.lan:7420"];
    let serving = Serving::start(&place, &flags);
    let tls = serving.announced["tls"].clone();
    let file = PathBuf::from(tls["certificate"].as_str().unwrap());
    assert_eq!((tls["selfSigned"].as_bool(), mode(&file)), (Some(true), 0o600));
    assert_eq!(mode(&place.file("tls-self-signed.key")), 0o600);
    for name in ["agents.lan", "localhost", "127.0.0.1"] {
        assert!(tls["names"].as_array().unwrap().contains(&name.into()), "{tls}");
    }
    let pem = fs::read_to_string(&file).unwrap();
    let answer = get_of(&serving, &pem);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // A browser that insisted on TLS would let nobody past a new one.
    let page = get(serving.address, &usual(&[&pem]), "/sign-in");
    assert!(!page.contains("strict-transport-security") && page.contains("__Host-"), "{page}");

    let fingerprint = tls["fingerprint"].as_str().unwrap();
    let found = doctor(&place, &[]);
    assert!(
        found.iter().any(|one| one["message"].as_str().unwrap().contains(fingerprint)),
        "{found:?}"
    );
    let at = serving.address.to_string();
    let healthy = place.run(&["health", "--listen", &at, "--json"]).succeeds();
    assert_eq!(healthy["url"], format!("https://{at}/readyz"));

    let (url, file) = (format!("https://{at}"), file.to_str().unwrap().to_string());
    let mut client = place.run(&["whoami", "--url", &url, "--json"]);
    assert_ne!(client.code, Some(0), "without a credential");
    let key_file = place.file("a.key");
    fs::write(&key_file, &key).unwrap();
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    let whoami = ["whoami", "--url", &url, "--json", "--key", key_file.to_str().unwrap()];
    client = place.run(&whoami);
    client.fails(1, "certificate");
    place.run(&[&whoami[..], &["--ca-file", &file]].concat()).succeeds();
    drop(serving);

    let again = Serving::start(&place, &flags);
    assert_eq!(again.announced["tls"], tls);
    drop(again);
    let backup = place.data().with_file_name("backup");
    let backup = backup.to_str().unwrap();
    assert_eq!(place.run(&["backup", backup]).code, Some(0));
    let (restored, secret) = (Place::new(), place.file("secret.key"));
    let key = ["--without-erasures", "--secret-key-file", secret.to_str().unwrap()];
    let said = restored.run(&[&["restore", backup][..], &key].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!restored.file("tls-self-signed.key").exists());
    let again = Serving::start(&restored, &flags);
    assert_ne!(again.announced["tls"]["fingerprint"], tls["fingerprint"]);
}
