//! The memory of a server process with TLS: with 10,000 idle connections, with as many handshakes that stop
//! in their middle, and with what clients of HTTP/2 may try.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{self, Connection};
use crate::fixture::{file, place};
use crate::http2_abuses::{ABUSES, Abuse, CLIENTS, PREFACE, frame};
use crate::neighbours::{
    IDLE_CONNECTIONS, IDLE_LIMIT_MB, MEMORY_LIMIT_MB, abuse_time, idle_request, memory_row,
};
use crate::process::{Served, init_with_key};
use crate::table::Row;
use crate::tls_client::{Client, certify};

/// Connections whose streams stall, each with as many as it may have.
const STALLING: usize = 20;
const STREAMS: u32 = 100;

/// Measures all of it, each on a server of its own.
pub fn rows(quick: bool) -> Vec<Row> {
    let time = abuse_time(quick);
    let mut rows = vec![half_open_handshakes(), idle_connections()];
    rows.extend(ABUSES.iter().map(|abuse| abused(abuse, time)));
    rows.extend(STALLS.iter().map(|stall| stall.measure(time)));
    rows
}

/// A server process with TLS, and a client that trusts it.
struct Secured {
    server: Served,
    client: Client,
    _place: TempDir,
}

impl Secured {
    fn start() -> Self {
        let place = place();
        let data = file(&place, "data");
        init_with_key(&data);
        let (files, certificate) = certify(&place);
        let [pem, key] =
            [&files.certificate, &files.key].map(|file| file.to_str().expect("it is text"));
        // No limit is to be that of one address.
        let here = ["--trusted-proxy", "127.0.0.0/8", "--rate-limit", "0"];
        let server =
            Served::start(&data, &[&here[..], &["--tls-cert", pem, "--tls-key", key]].concat());
        let client = Client::of(server.address, &certificate);
        server.reset_peak_memory();
        Secured { server, client, _place: place }
    }
}

/// Connections that have sent all of a ClientHello but its last byte, and nothing since.
fn half_open_handshakes() -> Row {
    eprintln!("  handshakes that stop");
    let secured = Secured::start();
    let name = ServerName::from(secured.client.address.ip());
    let config = secured.client.http2.config().clone();
    let mut hello = Vec::new();
    ClientConnection::new(config, name)
        .expect("it is a name")
        .write_tls(&mut hello)
        .expect("it is memory");
    hello.pop();
    let memory = client::runtime().block_on(async {
        let mut open = Vec::new();
        for _ in 0..IDLE_CONNECTIONS {
            let mut stream = TcpStream::connect(secured.client.address).await.expect("it listens");
            stream.write_all(&hello).await.expect("the server waits for the rest");
            open.push(stream);
        }
        let memory = secured.server.memory_mb();
        // They count as long as they are open: the time for a handshake must not be over.
        for stream in &open {
            let ended = stream.try_read(&mut [0]);
            assert!(ended.is_err(), "the server has ended a handshake before it was measured");
        }
        memory
    });
    memory_row(
        format!("{IDLE_CONNECTIONS} half-open TLS handshakes: memory"),
        memory,
        IDLE_LIMIT_MB,
    )
}

/// Connections with TLS that sent one request with a large head, and nothing since.
fn idle_connections() -> Row {
    eprintln!("  idle connections with TLS");
    let secured = Secured::start();
    let request = idle_request(secured.client.address);
    let memory = client::runtime().block_on(async {
        let mut open = Vec::new();
        for _ in 0..IDLE_CONNECTIONS {
            let stream = secured.client.connect(&secured.client.http1).await;
            let mut connection = Connection::over(stream);
            connection.ask(request.as_bytes()).await;
            open.push(connection);
        }
        secured.server.memory_mb()
    });
    memory_row(format!("{IDLE_CONNECTIONS} idle TLS connections: memory"), memory, IDLE_LIMIT_MB)
}

fn abused(abuse: &Abuse, time: Duration) -> Row {
    eprintln!("  {}", abuse.name);
    let secured = Secured::start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| client::runtime().block_on(abuse.run(&secured.client, &over)));
        thread::sleep(time);
        over.store(true, Ordering::Relaxed);
    });
    let memory = secured.server.peak_memory_mb();
    let name = format!("HTTP/2, {CLIENTS} clients: {}: memory, peak", abuse.name);
    memory_row(name, memory, MEMORY_LIMIT_MB)
}

/// Streams that are begun and go on no further.
struct Stall {
    name: &'static str,
    /// What the client says of itself.
    settings: &'static [u8],
    /// What is sent on a stream.
    frames: fn(u32) -> Vec<u8>,
}

const STALLS: [Stall; 2] = [
    Stall { name: "stall in bodies of 16 KiB", settings: &[], frames: half_a_body },
    // An initial window of no bytes.
    Stall { name: "take nothing of a page", settings: &[0, 4, 0, 0, 0, 0], frames: untaken_page },
];

/// A POST whose body stops in its middle, without a credential.
fn half_a_body(stream: u32) -> Vec<u8> {
    const PATH: &[u8] = b"/api/auth/sign-in";
    const TYPE: &[u8] = b"application/json";
    // POST and https; then the path, the host `a`, the type and the length, as texts.
    let head = [
        &[0x83, 0x87, 0x04, 17][..],
        PATH,
        &[0x01, 1, b'a', 0x0F, 0x10, 16],
        TYPE,
        &[0x0F, 0x0D, 5],
        b"16384",
    ]
    .concat();
    [frame(1, 4, stream, &head), frame(0, 0, stream, &[b' '; 8 * 1024])].concat()
}

/// A GET of a page that is made for each request.
fn untaken_page(stream: u32) -> Vec<u8> {
    let head = [&[0x82, 0x87, 0x04, 8][..], b"/sign-in", &[0x01, 1, b'a']].concat();
    frame(1, 5, stream, &head)
}

impl Stall {
    fn measure(&self, time: Duration) -> Row {
        eprintln!("  {}", self.name);
        let secured = Secured::start();
        client::runtime().block_on(async {
            let mut open = Vec::new();
            for _ in 0..STALLING {
                let mut stream = secured.client.connect(&secured.client.http2).await;
                let mut sent = [PREFACE, &frame(4, 0, 0, self.settings)].concat();
                sent.extend((0..STREAMS).flat_map(|nth| (self.frames)(2 * nth + 1)));
                stream.write_all(&sent).await.expect("the server takes it");
                stream.flush().await.expect("the server takes it");
                open.push(stream);
            }
            tokio::time::sleep(time).await;
        });
        let memory = secured.server.peak_memory_mb();
        let streams = STALLING * STREAMS as usize;
        memory_row(
            format!("{streams} streams of HTTP/2 {}: memory, peak", self.name),
            memory,
            MEMORY_LIMIT_MB,
        )
    }
}
