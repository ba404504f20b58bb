//! The sample configurations of nginx, Caddy and HAProxy let through what the server needs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Caller, Connection, eventually, raw};
use crate::optional::{program, run};
use crate::server::{Acme, free_port};

const MIB: usize = 1024 * 1024;

/// A running proxy. It is ended when dropped.
struct Proxy {
    child: Child,
    address: SocketAddr,
    /// Its files.
    _place: tempfile::TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It ends its own processes.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &id]).status();
        let _ = self.child.wait();
    }
}

fn sample(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name)).unwrap()
}

/// Replaces a part of a sample, which must have it.
#[track_caller]
fn with(text: String, part: &str, other: &str) -> String {
    assert!(text.contains(part), "the sample has no {part}");
    text.replace(part, other)
}

fn start(mut command: Command, address: SocketAddr, place: tempfile::TempDir) -> Proxy {
    let log = fs::File::create(place.path().join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let proxy = Proxy { child: command.spawn().unwrap(), address, _place: place };
    eventually("the proxy's start", || TcpStream::connect(address).ok());
    proxy
}

/// nginx with the sample, on a free port and without TLS.
fn nginx(nginx: &Path, server: SocketAddr) -> Proxy {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().display().to_string();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let site = with(sample("nginx.conf"), "127.0.0.1:7420", &server.to_string());
    let site = with(site, "listen 443 ssl;", &format!("listen {address};"));
    let without_tls = site.lines().filter(|line| !line.trim().starts_with("ssl_certificate"));
    let site: String = without_tls.map(|line| format!("{line}\n")).collect();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|name| format!("{name}_temp_path {folder}/{name};")).join("\n");
    let whole = format!(
        "daemon off;\nworker_processes 1;\npid {folder}/pid;\nerror_log {folder}/error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off;\n{temporary}\n{site} }}\n"
    );
    let file = place.path().join("nginx.conf");
    fs::write(&file, whole).unwrap();
    let mut command = Command::new(nginx);
    command.arg("-c").arg(&file).arg("-p").arg(place.path());
    command.arg("-e").arg(place.path().join("error.log"));
    start(command, address, place)
}

/// Caddy with the sample, on a free port and without TLS.
fn caddy(caddy: &Path, server: SocketAddr) -> Proxy {
    let place = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let site = with(sample("Caddyfile"), "127.0.0.1:7420", &server.to_string());
    let site = with(
        site,
        "agents.example.com {",
        &format!("http://:{} {{\n\tbind 127.0.0.1", address.port()),
    );
    let file = place.path().join("Caddyfile");
    fs::write(&file, format!("{{\n\tadmin off\n\tauto_https off\n}}\n{site}")).unwrap();
    let mut command = Command::new(caddy);
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
    command.env("XDG_DATA_HOME", place.path()).env("XDG_CONFIG_HOME", place.path());
    start(command, address, place)
}

/// HAProxy with the sample, on a free port and without TLS.
fn haproxy(haproxy: &Path, server: SocketAddr) -> Proxy {
    let place = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let whole = with(sample("haproxy.cfg"), "127.0.0.1:7420", &server.to_string());
    let tls = "bind :443 ssl crt /etc/ssl/agents.example.com.pem alpn h2,http/1.1";
    let whole = with(whole, tls, &format!("bind {address}"));
    let file = place.path().join("haproxy.cfg");
    fs::write(&file, whole).unwrap();
    let mut command = Command::new(haproxy);
    command.arg("-db").arg("-f").arg(&file);
    start(command, address, place)
}

/// The owner of a served organization, through a proxy.
fn through(proxy: &Proxy, acme: &Acme) -> Caller {
    Caller::anonymous(proxy.address, "acme").with_bearer(acme.owner.credential())
}

/// Long polls and event streams answer the moment something happens.
fn passes_what_waits(proxy: &Proxy, acme: &Acme) {
    let ada = through(proxy, acme);
    let team = acme.team("waiting", None);
    let path = format!("/teams/{}/agents/{}/wakes", team.id, team.agent);
    let wait = ada.in_org(&format!("{path}?wait=55"));
    let mut poll = Connection::open(proxy.address).unwrap();
    poll.write(&ada.ask("GET", &wait).to_bytes()).unwrap();
    waits(acme, 1);
    acme.assign(&team, "Wake the poll");
    let woken = poll.reply(false).unwrap().items();
    assert_eq!(woken[0]["reason"], "task_assigned");
    let ack = json!({"wakeIds": [woken[0]["id"]]});
    ada.post(&format!("{path}/ack"), ack).ok();

    let stream = ada.ask("GET", &ada.in_org(&path)).with("Accept", "text/event-stream");
    let mut events = Connection::open(proxy.address).unwrap();
    events.write(&stream.to_bytes()).unwrap();
    assert_eq!(events.head().unwrap().0, 200);
    waits(acme, 1);
    for title in ["Wake the stream", "Wake it again"] {
        acme.assign(&team, title);
        let mut read = String::new();
        while !read.contains("event: wake") {
            let chunk = events.chunk().unwrap();
            assert!(!chunk.is_empty(), "the stream ended: {read}");
            read.push_str(&chunk);
        }
    }
}

/// Waits until so many requests wait in the server.
fn waits(acme: &Acme, count: usize) {
    eventually("waiting", || {
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let text = raw(acme.serving.address, request).text();
        Some(()).filter(|()| text.contains(&format!("\nroadstead_waiting_requests {count}\n")))
    });
}

/// Bodies reach the server up to its limits; what it refuses, it refuses itself.
fn passes_bodies_up_to_the_limit(proxy: &Proxy, acme: &Acme) {
    let ada = through(proxy, acme);
    let tool = |bytes: usize| {
        let rest = r#"{"orgSlug":"acme","name":"large","type":"function"}"#;
        ada.ask("POST", "/tools").bytes(format!("{}{rest}", " ".repeat(bytes - rest.len()))).send()
    };
    tool(MIB).ok();
    assert_eq!(tool(MIB + 1).problem()["code"], "body_too_large");
    // Whoever refuses it, it is the same error.
    for bytes in [10 * MIB, 10 * MIB + 1] {
        let refused = tool(bytes);
        assert_eq!((refused.status, &refused.problem()["code"]), (413, &json!("body_too_large")));
        assert_eq!(refused.header("content-type"), Some("application/json"), "{bytes}");
    }

    let base = ada.post("/knowledge-bases", json!({"name": "Files"})).id();
    // Few words: without optimization, finding them takes most of the time.
    let text = format!("{}\n", "x".repeat(1023)).repeat(10 * 1024);
    let path = ada.in_org(&format!("/knowledge-bases/{base}/documents/upload?name=Large"));
    let sent = ada.ask("POST", &path).with("Content-Type", "text/plain").bytes(text).send();
    assert_eq!(sent.ok()["size"], 10 * MIB);
}

/// A poll that nothing wakes ends with an empty answer of the server, after 55 seconds.
fn passes_the_end_of_a_poll(proxy: SocketAddr, poll: &[u8]) {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let begun = Instant::now();
    stream.write_all(poll).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let secs = begun.elapsed().as_secs();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#"{"items":[],"nextCursor":null}"#), "{answer}");
    assert!((54..75).contains(&secs), "it took {secs} s");
}

/// The client's address reaches the server, whatever the client claims to be, and `/metrics` is not
/// passed on.
fn passes_the_client_address(proxy: &Proxy, acme: &mut Acme) {
    let url = format!("http://{}", proxy.address);
    let authorization = format!("Authorization: Bearer {}", acme.owner.credential());
    let curl = |path: &str, more: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--interface", "127.0.0.2", "-H", "X-Forwarded-For: 203.0.113.9"]);
        run(command.args(more).arg(format!("{url}{path}")))
    };
    let wrong = r#"{"email": "nobody@acme.test", "password": "not a password"}"#;
    let json = "Content-Type: application/json";
    let answer = curl("/api/auth/sign-in", &["-H", json, "-d", wrong]);
    assert!(answer.contains("unauthenticated"), "{answer}");
    // Not even to those whom the server would let in.
    for more in [&[][..], &["-H", &authorization]] {
        let status = ["-o", "/dev/null", "-w", "%{http_code}"];
        assert_eq!(curl("/metrics", &[more, &status].concat()).trim(), "404");
    }
    acme.serving.signal("TERM");
    let (_, _, log) = acme.serving.ends();
    assert!(log.contains("sign-in failed client=127.0.0.2 "), "{log}");
}

/// Starts a proxy, the program at a path, in front of a server.
type Begin = fn(&Path, SocketAddr) -> Proxy;

fn checked(begin: Begin, program: PathBuf) {
    let mut acme = Acme::start(&["--trusted-proxy", "127.0.0.1"]);
    let proxy = begin(&program, acme.serving.address);
    passes_what_waits(&proxy, &acme);
    passes_bodies_up_to_the_limit(&proxy, &acme);
    passes_the_client_address(&proxy, &mut acme);
}

#[test]
fn the_server_works_behind_the_sample_of_nginx() {
    let Some(program) = program("nginx", "nginx", "nginx-light") else { return };
    checked(nginx, program);
}

#[test]
fn the_server_works_behind_the_sample_of_caddy() {
    let Some(program) = program("caddy", "Caddy", "caddy") else { return };
    checked(caddy, program);
}

#[test]
fn the_server_works_behind_the_sample_of_haproxy() {
    let Some(program) = program("haproxy", "HAProxy", "haproxy") else { return };
    checked(haproxy, program);
}

#[test]
fn a_poll_that_nothing_wakes_ends_behind_the_samples() {
    let nginx = program("nginx", "nginx", "nginx-light").map(|program| (program, nginx as Begin));
    let caddy = program("caddy", "Caddy", "caddy").map(|program| (program, caddy as Begin));
    let haproxy =
        program("haproxy", "HAProxy", "haproxy").map(|program| (program, haproxy as Begin));
    let acme = Acme::start(&["--trusted-proxy", "127.0.0.1"]);
    let team = acme.team("waiting", None);
    let wakes = format!("/teams/{}/agents/{}/wakes?wait=55", team.id, team.agent);
    let poll = acme.owner.ask("GET", &acme.owner.in_org(&wakes)).with("Connection", "close");
    let poll = &poll.to_bytes();
    let proxies: Vec<_> = [nginx, caddy, haproxy]
        .into_iter()
        .flatten()
        .map(|(program, begin)| begin(&program, acme.serving.address))
        .collect();
    thread::scope(|scope| {
        for proxy in &proxies {
            let address = proxy.address;
            scope.spawn(move || passes_the_end_of_a_poll(address, poll));
        }
    });
}

#[test]
fn the_samples_wait_longer_than_the_longest_poll() {
    for (file, setting) in [
        ("nginx.conf", "proxy_read_timeout "),
        ("Caddyfile", "response_header_timeout "),
        ("haproxy.cfg", "timeout server "),
        ("haproxy.cfg", "timeout client "),
    ] {
        let text = sample(file);
        let seconds = text.split(setting).nth(1).unwrap().split('s').next().unwrap();
        // 55 s, and time for the answer.
        assert!(seconds.parse::<u64>().unwrap() >= 60, "{file}: {setting}{seconds}s");
    }
}
