//! The load generator: HTTP/1.1 over persistent connections on the calling thread. It parses only
//! where a response ends, since it shares the processors with the server under test.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::processor;

/// A persistent connection.
pub struct Connection<S = TcpStream> {
    stream: S,
    received: Vec<u8>,
}

/// A response, valid until the next one is read.
pub struct EncodedOutput<'a> {
    /// The status line and the header fields.
    pub head: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is a TCP connection");
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// One over this stream.
    pub fn over(stream: S) -> Self {
        Connection { stream, received: Vec::with_capacity(16 * 1024) }
    }

    /// Sends a request and waits for its response.
    ///
    /// # Panics
    /// If the status is not 200.
    pub async fn ask(&mut self, request: &[u8]) -> EncodedOutput<'_> {
        let answer = self.answer(request).await;
        assert!(
            answer.head.starts_with(b"HTTP/1.1 200 "),
            "{}{}",
            String::from_utf8_lossy(answer.head),
            String::from_utf8_lossy(answer.body)
        );
        answer
    }

    /// Sends a request until it is not refused because the server is overloaded (503); returns how
    /// often it was.
    ///
    /// # Panics
    /// If the status is neither 200 nor 503.
    pub async fn insist(&mut self, request: &[u8]) -> usize {
        let mut refused = 0;
        while self.answer(request).await.head.starts_with(b"HTTP/1.1 503 ") {
            refused += 1;
        }
        let status = self.received.get(9..12);
        assert_eq!(status, Some(&b"200"[..]), "{}", String::from_utf8_lossy(&self.received));
        refused
    }

    /// Sends a request and waits for its response, whatever its status.
    pub async fn answer(&mut self, request: &[u8]) -> EncodedOutput<'_> {
        let head = self.receive(request).await.expect("the server answers");
        let (head, body) = self.received.split_at(head);
        EncodedOutput { head, body }
    }

    /// Sends a part of a request. What becomes of it, nobody waits for.
    pub async fn send(&mut self, part: &[u8]) {
        let _ = self.stream.write_all(part).await;
    }

    /// Sends a request and waits for its response; returns its status.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn exchange(&mut self, request: &[u8]) -> std::io::Result<u16> {
        self.receive(request).await?;
        let digits = self.received.get(9..12).and_then(|digits| str::from_utf8(digits).ok());
        Ok(digits.and_then(|digits| digits.parse().ok()).unwrap_or(0))
    }

    /// Sends a request for something that may not be there yet; returns whether it is.
    ///
    /// # Panics
    /// If the status is neither 200 nor 404.
    pub async fn finds(&mut self, request: &[u8]) -> bool {
        let status = self.exchange(request).await.expect("the server answers");
        assert!([200, 404].contains(&status), "{}", String::from_utf8_lossy(&self.received));
        status == 200
    }

    /// Sends a request and receives its response; returns the length of the response's head.
    async fn receive(&mut self, request: &[u8]) -> std::io::Result<usize> {
        let sent = self.stream.write_all(request).await;
        self.received.clear();
        let mut expected = None;
        loop {
            match expected.or_else(|| lengths(&self.received)) {
                Some((head, body)) if self.received.len() >= head + body => return Ok(head),
                lengths => expected = lengths,
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                // A server that refuses a request may answer before it has read all of it.
                sent?;
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The lengths of head and body of a response, once its head is complete.
fn lengths(received: &[u8]) -> Option<(usize, usize)> {
    let (mut head, mut body) = (0, 0);
    for line in received.split_inclusive(|byte| *byte == b'\n') {
        head += line.len();
        if line == b"\r\n" {
            return Some((head, body));
        }
        if let Some(length) = line.strip_prefix(b"content-length: ") {
            let digits = length.iter().take_while(|byte| byte.is_ascii_digit());
            body = digits.fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
        }
    }
    None
}

/// The result of a load.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Responses per second.
    pub rate: f64,
    /// CPU time per response, without the load generator.
    pub processor: Duration,
}

/// Keeps `connections` connections busy for `time`: each sends the next of `requests` after the
/// response to the previous one.
pub fn load(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    requests: &[Vec<u8>],
) -> Outcome {
    load_each(address, connections, time, in_turn(connections, requests))
}

/// Gives each of `connections` connections these requests in turn, beginning with another one.
pub fn in_turn(
    connections: usize,
    requests: &[Vec<u8>],
) -> impl Fn(usize, usize, &mut Vec<u8>) + Send + Sync + use<> {
    let requests: std::sync::Arc<[Vec<u8>]> = requests.into();
    move |connection, nth, request| {
        let first = connection * requests.len() / connections;
        request.extend_from_slice(&requests[(first + nth) % requests.len()]);
    }
}

/// Like [`load`], with requests that `make` appends to an empty buffer: the `nth` of a connection.
pub fn load_each(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    make: impl Fn(usize, usize, &mut Vec<u8>) + Send + Sync + 'static,
) -> Outcome {
    let done = spread(&[address], connections, time, make);
    assert_eq!(done.refused, 0, "the server is overloaded");
    let answers = u32::try_from(done.times.len()).expect("a run is short");
    Outcome { rate: done.rate(), processor: done.processor / answers.max(1) }
}

/// What a load did.
pub struct Load {
    /// How long each response took, with the repetitions of its request.
    pub times: Vec<Duration>,
    /// How often a server was overloaded (503), and the request was repeated at once.
    pub refused: usize,
    /// How long it all took.
    elapsed: Duration,
    /// CPU time of this process, without the load generator.
    processor: Duration,
}

impl Load {
    /// Responses per second.
    pub fn rate(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Like [`load_each`], with the connections to several servers in turn.
pub fn spread(
    servers: &[SocketAddr],
    connections: usize,
    time: Duration,
    make: impl Fn(usize, usize, &mut Vec<u8>) + Send + Sync + 'static,
) -> Load {
    let make = std::sync::Arc::new(make);
    let runtime = runtime();
    runtime.block_on(async {
        let mut open = Vec::new();
        for number in 0..connections {
            open.push(Connection::open(servers[number % servers.len()]).await);
        }
        let before = processor::others();
        let start = Instant::now();
        let end = start + time;
        let mut busy = JoinSet::new();
        for (number, mut connection) in open.into_iter().enumerate() {
            let make = make.clone();
            busy.spawn(async move {
                let (mut times, mut refused, mut request) = (Vec::new(), 0, Vec::new());
                let mut sent = Instant::now();
                while sent < end {
                    request.clear();
                    make(number, times.len(), &mut request);
                    refused += connection.insist(&request).await;
                    let answered = Instant::now();
                    times.push(answered - sent);
                    sent = answered;
                }
                (times, refused)
            });
        }
        let (times, refused): (Vec<_>, Vec<_>) = busy.join_all().await.into_iter().unzip();
        let elapsed = start.elapsed();
        let processor = processor::others().saturating_sub(before);
        Load { times: times.concat(), refused: refused.iter().sum(), elapsed, processor }
    })
}

/// The load generator's own runtime, on one thread.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system gives a runtime")
}
