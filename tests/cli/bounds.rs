//! Memory and connections that one client can take.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use serde_json::json;

use crate::client::{at_once, eventually};
use crate::process::{Place, Serving};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

#[test]
fn one_address_cannot_hold_every_connection_of_a_server_with_128_files() {
    let (place, key) = Place::founded();
    let serving = Serving::with_files(&place, 128, 128);
    // Each has begun a body, of which a byte may come now and then.
    let head = "POST /api/auth/sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{";
    let _held: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(serving.address).unwrap();
            let _ = stream.write_all(head.as_bytes());
            stream
        })
        .collect();
    let mut other = from_another_address(serving.address);
    let get = format!(
        "GET /api/tools?orgSlug=acme HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\n\
         Connection: close\r\n\r\n"
    );
    other.write_all(get.as_bytes()).unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn the_soft_limit_of_open_files_is_raised_to_the_hard_one_and_the_log_says_so() {
    let (place, _) = Place::founded();
    let mut serving = Serving::with_files(&place, 128, 256);
    serving.signal("TERM");
    let log = serving.ends().2;
    let line = log.lines().find(|line| line.contains("the limit of open files is set"));
    assert!(line.is_some_and(|line| line.contains("files=256")), "{log}");
}

/// A connection from 127.0.0.2.
fn from_another_address(to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn idle_connections_keep_no_buffers() {
    const CONNECTIONS: usize = 400;
    // 10,000 of them within 300 MB, of which a server takes 24; of a debug build, more.
    const MAX_EACH: usize = 20 * KIB;
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let large =
        format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX-Large: {}\r\n\r\n", "x".repeat(60 * KIB));
    let small = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut buffer = [0; 4096];
    let mut ask = |stream: &mut TcpStream, request: &str| {
        stream.write_all(request.as_bytes()).unwrap();
        let read = stream.read(&mut buffer).unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 200"));
    };
    ask(&mut TcpStream::connect(serving.address).unwrap(), &large);
    let before = serving.memory("VmRSS");
    let mut idle: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let mut stream = TcpStream::connect(serving.address).unwrap();
            ask(&mut stream, if n % 2 == 0 { &large } else { small });
            stream
        })
        .collect();
    eventually("less memory", || {
        let each = serving.memory("VmRSS").saturating_sub(before) / CONNECTIONS;
        (each < MAX_EACH).then_some(())
    });
    // They are as good as before.
    idle.iter_mut().for_each(|stream| ask(stream, small));
}

#[test]
fn bodies_of_many_values_and_versions_with_much_metadata_take_little_memory() {
    const MAX: usize = 256 * MIB;
    let place = Place::new();
    let password = "correct horse battery";
    let made = place.init(&["--json"], Some(password)).succeeds();
    let serving = Serving::start(&place, &[]);
    let ada = serving.caller(made["apiKey"]["key"].as_str().unwrap());
    let list = |values: usize| {
        let zeros = "0,".repeat(values - 1);
        format!("{{\"orgSlug\":\"acme\",\"name\":\"a\",\"type\":\"function\",\"x\":[{zeros}0]}}")
    };
    for values in [500_000, 49_000] {
        let body = list(values);
        // Some may be refused, or answered later than the client waits.
        at_once(30, |_| drop(ada.ask("POST", "/tools").bytes(body.as_str()).try_send()));
        let peak = serving.memory("VmHWM");
        assert!(peak < MAX, "{values}: {peak}");
    }

    let sign_in = json!({"email": "ada@acme.test", "password": password});
    let session = ada.with_fields(&[]).post("/auth/sign-in", sign_in).ok();
    let ada = ada.with_bearer(session["token"].as_str().unwrap());
    ada.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let large = "x".repeat(MIB - KIB);
    for model in 0..14 {
        let new = json!({
            "registryRef": "acme/main", "artifactType": "prompt", "name": "p",
            "version": "1.0.0", "source": "x", "model": format!("m{model}"),
            "metadata": {"text": large},
        });
        ada.post("/registries/artifacts", new).ok();
    }
    let peak = serving.memory("VmHWM");
    assert!(peak < MAX, "{peak}");
}
