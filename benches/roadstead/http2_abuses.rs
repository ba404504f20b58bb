//! What clients of HTTP/2 may try, and the writes of others meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{self, Connection};
use crate::fixture::Fixture;
use crate::table::{Row, Target, time};
use crate::tls_client::Client;

/// The longest that 99 of 100 small writes may take beside an abuse, as beside a costly neighbour.
const WRITE_LIMIT: Duration = Duration::from_millis(50);
const WRITES: usize = 600;
const PAUSE: Duration = Duration::from_millis(5);

/// What clients of HTTP/2 may try, again and again on connection after connection.
pub struct Abuse {
    /// Its name in the table.
    pub name: &'static str,
    /// What is sent for the nth stream.
    frames: fn(u32) -> Vec<u8>,
}

/// No clients at all, to compare with.
pub const ALONE: Abuse = Abuse { name: "nothing", frames: |_| Vec::new() };

/// All of them.
pub const ABUSES: [Abuse; 5] = [
    Abuse { name: "streams that are reset at once", frames: reset },
    Abuse { name: "a head continued without end", frames: continued },
    Abuse { name: "heads of a few bytes that stand for many", frames: bomb },
    Abuse { name: "bodies that never end", frames: unfinished },
    Abuse { name: "looks whether the server is there", frames: pings },
];

/// How many clients there are of each.
pub const CLIENTS: usize = 8;
/// What a connection begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of a GET of `/` of the host `a`, compressed.
const GET: &[u8] = &[0x82, 0x87, 0x84, 0x01, 1, b'a'];
const POST: &[u8] = &[0x83, 0x87, 0x84, 0x01, 1, b'a'];

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn reset(stream: u32) -> Vec<u8> {
    [frame(1, 5, stream, GET), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
}

fn continued(stream: u32) -> Vec<u8> {
    let first = if stream == 1 { frame(1, 1, 1, GET) } else { Vec::new() };
    [first, frame(9, 0, 1, &[0x82; 16_000])].concat()
}

fn bomb(stream: u32) -> Vec<u8> {
    let mut head = GET.to_vec();
    if stream == 1 {
        // A field that is remembered: `x`, with 4,000 bytes.
        head.extend([0x40, 1, b'x', 0x7F, 0xA1, 0x1E]);
        head.extend([b'v'; 4000]);
    }
    head.extend([0xBE; 15]);
    frame(1, 5, stream, &head)
}

fn unfinished(stream: u32) -> Vec<u8> {
    [frame(1, 4, stream, POST), frame(0, 0, stream, &[b'{'; 16_000])].concat()
}

fn pings(_: u32) -> Vec<u8> {
    frame(6, 0, 0, &[0; 8]).repeat(500)
}

impl Abuse {
    /// Measures small writes meanwhile, on a connection of their own.
    pub fn measure(&self, fixture: &Fixture, client: &Client) -> Row {
        eprintln!("  {}", self.name);
        let over = Arc::new(AtomicBool::new(false));
        let write = fixture.post_task();
        let mut times = std::thread::scope(|scope| {
            let is_over = over.clone();
            scope.spawn(move || client::runtime().block_on(self.run(client, &is_over)));
            let times = client::runtime().block_on(async {
                let mut connection = Connection::open(fixture.address).await;
                let mut times = Vec::new();
                for _ in 0..WRITES {
                    let start = Instant::now();
                    connection.ask(&write).await;
                    times.push(start.elapsed());
                    tokio::time::sleep(PAUSE).await;
                }
                times
            });
            over.store(true, Ordering::Relaxed);
            times
        });
        times.sort_unstable();
        let (most, half) = (times[WRITES * 99 / 100], times[WRITES / 2]);
        Row {
            name: format!("HTTP/2, {CLIENTS} clients: {}: another's write, p99", self.name),
            ours: format!("{} (p50 {})", time(most), time(half)),
            baseline: format!("limit {}", time(WRITE_LIMIT)),
            ratio: most.as_secs_f64() / WRITE_LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        }
    }

    /// Has the clients try it until it is over.
    pub async fn run(&self, client: &Client, over: &AtomicBool) {
        if (self.frames)(1).is_empty() {
            return;
        }
        let clients = (0..CLIENTS).map(|_| async {
            while !over.load(Ordering::Relaxed) {
                self.once(client, over).await;
            }
        });
        let mut clients: Vec<_> = clients.map(Box::pin).collect();
        std::future::poll_fn(|cx| {
            clients.retain_mut(|client| client.as_mut().poll(cx).is_pending());
            if clients.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// A connection until the server ends it, or does not answer for a moment.
    async fn once(&self, client: &Client, over: &AtomicBool) {
        let stream = client.connect(&client.http2).await;
        let (mut reading, mut writing) = tokio::io::split(stream);
        let sending = async {
            writing.write_all(PREFACE).await?;
            writing.write_all(&frame(4, 0, 0, &[])).await?;
            for stream in (1..).step_by(2) {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                writing.write_all(&(self.frames)(stream)).await?;
                writing.flush().await?;
            }
            std::io::Result::Ok(())
        };
        let ended = async {
            let mut bytes = vec![0; 16 * 1024];
            while reading.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
        };
        let sent = tokio::time::timeout(Duration::from_secs(1), sending);
        tokio::select! {
            _ = sent => {}
            () = ended => {}
        }
    }
}
