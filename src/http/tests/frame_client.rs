//! A client of HTTP/2 that sends whatever it is told to, frame by frame.

use std::time::Duration;

use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::tls::{PATIENCE, Tls};
use super::*;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
/// A frame that answers one of the same kind.
const ACK: u8 = 1;

pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame that came.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) kind: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Came {
    /// The number with which a stream or a connection was ended.
    pub(super) fn reason(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    /// The status, which is the first field of a head.
    pub(super) fn status(&self) -> String {
        assert_eq!(self.kind, HEADERS, "{self:?}");
        // Behind the size of the table of fields, which is none.
        let field = self.payload.iter().position(|byte| byte & 0xE0 != 0x20).unwrap();
        // Those of the static table (RFC 7541, appendix A), or one in Huffman's code.
        match &self.payload[field..] {
            [0x88, ..] => "200".into(),
            [0x8b, ..] => "304".into(),
            [0x8c, ..] => "400".into(),
            [0x8d, ..] => "404".into(),
            [0x8e, ..] => "500".into(),
            [0x08 | 0x48, 0x82, high, low, ..] => digits(u32::from_be_bytes([*high, *low, 0, 0])),
            [0x08 | 0x48, 0x83, a, b, c, ..] => digits(u32::from_be_bytes([*a, *b, *c, 0])),
            _ => panic!("{self:?}"),
        }
    }
}

/// Three digits in Huffman's code: 0, 1 and 2 have five bits, the others six.
fn digits(mut bits: u32) -> String {
    let mut text = String::new();
    while text.len() < 3 {
        let (digit, taken) = match bits >> 27 {
            small @ 0..3 => (small, 5),
            _ => ((bits >> 26) - 0x16, 6),
        };
        bits <<= taken;
        text.extend(char::from_digit(digit, 10));
    }
    text
}

/// A frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A text of a head: its length, which may not fit into seven bits, and its bytes.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = match text.len() {
        short @ ..127 => vec![short as u8],
        long => {
            let mut rest = long - 127;
            let mut length = vec![127];
            while rest >= 128 {
                length.push((rest % 128 + 128) as u8);
                rest /= 128;
            }
            length.push(rest as u8);
            length
        }
    };
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The head of a request with these fields besides.
pub(super) fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let method = if method == "GET" { vec![0x82] } else { [&[2][..], &text(method)].concat() };
    let mut head = [&method[..], &[0x87, 4], &text(path), &[1], &text("a")].concat();
    for (name, value) in fields {
        head.extend([&[0][..], &text(name), &text(value)].concat());
    }
    head
}

/// A connection of HTTP/2.
pub(super) struct FrameClient {
    pub(super) stream: TlsStream<TcpStream>,
    /// The number of the last request.
    last: u32,
}

impl FrameClient {
    /// Connects, and begins with these settings (RFC 9113, 6.5.2).
    pub(super) async fn open(tls: &Tls, settings: &[(u16, u32)]) -> Self {
        let stream = tls.connect().await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut client = FrameClient { stream, last: 0 };
        // No table of fields, so that the same status is sent in the same way.
        let settings: Vec<_> = [(1, 0)]
            .iter()
            .chain(settings)
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        client.send(&frame(SETTINGS, 0, 0, &settings)).await;
        client
    }

    /// Sends bytes; the server may have closed the connection.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// The number of the next request.
    pub(super) fn next(&mut self) -> u32 {
        self.last = if self.last == 0 { 1 } else { self.last + 2 };
        self.last
    }

    /// Asks for a path; returns the number of the request.
    pub(super) async fn get(&mut self, path: &str) -> u32 {
        self.ask(&head("GET", path, &[])).await
    }

    /// Sends a request with this head and no body.
    pub(super) async fn ask(&mut self, head: &[u8]) -> u32 {
        let number = self.next();
        self.send(&frame(HEADERS, END_HEADERS | END_STREAM, number, head)).await;
        number
    }

    /// The next frame that is neither a setting nor an answer to one; none once the connection has ended.
    /// Who does not answer looks is not there any more: they are answered.
    pub(super) async fn came(&mut self) -> Option<Came> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.ok()?;
            let [high, middle, low, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            let stream = u32::from_be_bytes(stream);
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(&frame(SETTINGS, ACK, 0, &[])).await,
                PING if flags & ACK == 0 => self.send(&frame(PING, ACK, 0, &payload)).await,
                SETTINGS | PING | WINDOW_UPDATE => {}
                _ => return Some(Came { kind, stream, payload }),
            }
        }
    }

    /// The next frame of these kinds; the time is that of what has a limit of 30 seconds.
    pub(super) async fn next_of(&mut self, kinds: &[u8]) -> Option<Came> {
        let found = async {
            loop {
                match self.came().await {
                    Some(came) if kinds.contains(&came.kind) => return Some(came),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        timeout(2 * PATIENCE, found).await.expect("something comes in time")
    }

    /// The status of the answer to a request, while answers to others may come as well.
    pub(super) async fn status(&mut self, number: u32) -> String {
        loop {
            let came = self.next_of(&[HEADERS, RST_STREAM, GOAWAY]).await.expect("it is open");
            assert_ne!(came.kind, GOAWAY, "{came:?}");
            if came.stream == number {
                return came.status();
            }
        }
    }

    /// Reads until the connection ends; returns with what reason it was told so.
    pub(super) async fn ended(&mut self) -> Option<u32> {
        let mut reason = None;
        while let Some(came) = self.next_of(&[GOAWAY]).await {
            reason = Some(came.reason());
        }
        reason
    }
}

/// Asks over a connection of its own.
pub(super) async fn other_is_answered(tls: &Tls) {
    let asked = async {
        let mut other = FrameClient::open(tls, &[]).await;
        let number = other.get("/healthz").await;
        assert_eq!(other.status(number).await, "200");
    };
    timeout(Duration::from_secs(5), asked).await.expect("others are not held up");
}
