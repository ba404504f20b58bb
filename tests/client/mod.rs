//! A small HTTP/1.1 client over plain sockets, for tests: it sends exactly the given bytes,
//! which a real client would not, and blocks, so that tests read from top to bottom.

// Two test binaries use this file, each only in part.
#![allow(dead_code)]

mod caller;
mod calls;
pub mod in_process;
pub mod nostr;
mod reply;
pub mod second_factor;
pub mod server_log;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub use caller::Caller;
pub use reply::Reply;

/// Longer than any long poll of the tests, and than three files that are each read to their time limit.
const PATIENCE: Duration = Duration::from_secs(60);

// ── Connections ──────────────────────────────────────────────────────────────

/// One connection.
pub struct Connection {
    stream: TcpStream,
    /// Bytes that were read and not used yet.
    read: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, read: Vec::new() })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Shuts down the sending direction.
    pub fn finish_writing(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Reads a response with a `Content-Length`. `bodiless` for the response to a HEAD.
    pub fn reply(&mut self, bodiless: bool) -> io::Result<Reply> {
        let (status, headers) = self.head()?;
        let mut reply = Reply { status, headers, body: Vec::new() };
        if let Some(length) = reply.header("content-length").filter(|_| !bodiless) {
            let length = length.parse().map_err(io::Error::other)?;
            reply.body = self.take(length)?;
        }
        Ok(reply)
    }

    /// Reads status and headers.
    pub fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let head = self.until(b"\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status in {head:?}")))?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim_start().to_string()))
        };
        Ok((status, lines.filter_map(header).collect()))
    }

    /// Reads the next chunk of a body without a length; empty at its end.
    pub fn chunk(&mut self) -> io::Result<String> {
        let size = self.until(b"\r\n")?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        let chunk = self.take(size)?;
        self.take(2)?;
        String::from_utf8(chunk).map_err(io::Error::other)
    }

    /// Whether the server has closed the connection without sending more.
    pub fn is_closed(&mut self) -> bool {
        // Also a reset: then the server did not read everything.
        self.read.is_empty() && matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }

    fn until(&mut self, end: &[u8]) -> io::Result<String> {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end) {
                let text = self.take(at)?;
                self.take(end.len())?;
                return String::from_utf8(text).map_err(io::Error::other);
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.read.len() < length {
            self.fill()?;
        }
        Ok(self.read.drain(..length).collect())
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.read.extend_from_slice(&bytes[..read]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Sends bytes on a new connection and reads the response.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut connection = Connection::open(address).unwrap();
    // The server may answer, and close, before it has read everything.
    let _ = connection.write(bytes);
    connection.reply(false).unwrap()
}

/// The values of the fields named in `fields` (separated by spaces) as an array.
#[track_caller]
pub fn pick(value: &Value, fields: &str) -> Value {
    let field = |name| value.get(name).unwrap_or_else(|| panic!("no {name} in {value}")).clone();
    fields.split(' ').map(field).collect()
}

// ── Waiting ──────────────────────────────────────────────────────────────────

/// Sets a flag that ends the load of a test, also where the test panics: threads of a scope that go on
/// for ever would hide that.
pub struct EndOfLoad<'a>(pub &'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls until `look` returns something; fails after a minute, which is long on a busy machine too.
#[track_caller]
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(Duration::from_secs(60), what, look)
}

/// Polls until `look` returns something; fails after `time`.
#[track_caller]
pub fn within<T>(time: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < time, "{what} did not happen in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How long a test tries to reach a limit: a machine that sends more slowly than a bucket refills
/// never does.
const LIMITS_TAKE: Duration = Duration::from_secs(180);

/// Sends until a token bucket that holds `burst` and gets one back each `refill` is empty, and returns
/// the response that says so. As many got through as it held, and as it got back meanwhile: tests run
/// on slow machines too.
#[track_caller]
pub fn first_limited(burst: u32, refill: Duration, mut send: impl FnMut() -> Reply) -> Reply {
    let begun = Instant::now();
    let mut passed = 0;
    loop {
        assert!(begun.elapsed() < LIMITS_TAKE, "the limit is not reached: {passed} passed");
        let reply = send();
        if reply.status == 429 {
            assert!(passed >= burst, "limited after {passed}");
            return reply;
        }
        passed += 1;
        let refilled = (begun.elapsed().as_secs_f64() / refill.as_secs_f64()) as u32;
        // One more, of which a part was there when this began.
        assert!(passed <= burst + refilled + 1, "{passed} passed");
    }
}

/// The response with 429 to an attempt while the limit is reached, which `spend` sees to. A slow
/// machine may take as long between the two as the limit lets another one through.
#[track_caller]
pub fn while_limited(spend: impl Fn() -> Reply, attempt: impl Fn() -> Reply) -> Reply {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < LIMITS_TAKE, "attempts pass, or the limit is not reached");
        if spend().status != 429 {
            continue;
        }
        let reply = attempt();
        if reply.status == 429 {
            return reply;
        }
    }
}

/// Runs `act` `n` times concurrently and returns the results.
pub fn at_once<T: Send>(n: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(n);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|i| {
                let (act, start) = (&act, &start);
                scope.spawn(move || {
                    start.wait();
                    act(i)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not fail")).collect()
    })
}
