//! Reads request bodies within their limits (reference: conventions, "Bodies").

use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap};
use tokio::time::{Instant, timeout_at};

use super::fair_budget::{FairBudget, Share};
use super::headers::{charset, media_type};
use crate::api::execute::Arguments;
use crate::api::{Route, Uploaded, count_values, op::Upload};
use crate::base::{Error, Issue, Kind, Result, address_block};

/// Limit of a JSON body: three times the largest prompt, and small beside the 24 MB of the server.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Limit of a body or form that needs no account: five times the largest without a credential.
pub const MAX_OPEN_BODY_BYTES: usize = 16 * 1024;

/// Limit of a form: the largest prompt with each of its characters encoded, and the other fields.
pub const MAX_FORM_BYTES: usize = MAX_BODY_BYTES;

/// Limit of what a form with a file has beside it: a few short fields and their heads.
pub const MAX_PARTS_BYTES: usize = 64 * 1024;

const FIELDS: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

/// Maximum time between two reads of a body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit of a body: without one, a byte every 29 s would hold a connection for a year.
const TOTAL_TIME: Duration = Duration::from_secs(60);

/// A body with a credential gets another second for each 16 KiB: slow lines send that much.
const BYTES_PER_SEC: u64 = 16 * 1024;

/// A body lets other tasks of its thread run after each so many bytes: reading them takes a tenth of
/// a millisecond, and dozens of connections may have them ready.
const TURN_BYTES: usize = 64 * 1024;

/// Limit of the bytes read of an unwanted body: more than a client sends by mistake.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;
/// Time limit of reading an unwanted body.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// Maximum time between two reads of an unwanted body, since the response waits for it.
const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Refuses a body whose media type is not JSON. A body without a media type is accepted.
fn require_json(headers: &HeaderMap) -> Result<()> {
    let Some(media_type) = media_type(headers) else { return Ok(()) };
    let is_json = media_type == "application/json"
        || media_type.split_once('/').is_some_and(|(kind, rest)| {
            !kind.is_empty() && rest.len() > "+json".len() && rest.ends_with("+json")
        });
    if is_json {
        return Ok(());
    }
    Err(Error::new(
        Kind::Media,
        "unsupported_media_type",
        "send JSON, with Content-Type: application/json",
    ))
}

/// Returns which of these is the media type of a body; refuses one without, or of another.
fn require_media_type(
    headers: &HeaderMap,
    media_types: &'static [&'static str],
) -> Result<&'static str> {
    let sent = media_type(headers);
    let accepted = media_types.iter().find(|accepted| sent.as_deref() == Some(accepted));
    if let Some(accepted) = accepted {
        return Ok(accepted);
    }
    let message = format!("send one of these, by its Content-Type: {}", media_types.join(", "));
    Err(Error::new(Kind::Media, "unsupported_media_type", message))
}

/// Refuses a body that is encoded in any way.
fn require_unencoded(headers: &HeaderMap) -> Result<()> {
    if !headers.contains_key(CONTENT_ENCODING) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Media,
        "unsupported_content_encoding",
        "send the body as it is, without a Content-Encoding",
    ))
}

/// A client, by whom memory is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The fingerprint of a valid credential.
    Credential([u8; 32]),
    /// The [block](address_block) of the address of a request without one.
    Address(IpAddr),
}

impl Sender {
    /// The client of a request with this verified credential, or without one from this address.
    pub fn new(credential: Option<[u8; 32]>, address: IpAddr) -> Self {
        credential.map_or_else(|| Sender::Address(address_block(address)), Sender::Credential)
    }
}

/// The memory for the bodies of all requests in flight, which clients share fairly: otherwise the
/// bodies on 16,384 connections could be 16 GiB, and once parsed more.
pub struct BodyBudgets {
    reading: FairBudget<Sender>,
    parsed: FairBudget<Sender>,
}

/// Bytes of the bodies as received: 18 of the largest of one client.
const MAX_READING_BYTES: usize = 24 * 1024 * 1024;

/// Estimated bytes of the bodies as parsed: more than one of the heaviest. Few are executed at a
/// time, and together with all else a server stays below 256 MB.
const MAX_PARSED_BYTES: usize = 32 * 1024 * 1024;

/// What a byte of a body weighs once parsed: text is in the parsed value, in the input of the
/// operation, in the record that is stored and in the answer.
const WEIGHT_OF_BYTE: usize = 4;

/// What a value weighs once parsed: 72 bytes, up to 170 as an object's member, in the parsed body
/// and, for JSON of any form, in the input.
const WEIGHT_OF_VALUE: usize = 256;

/// Maximum wait for memory; then 503. Requests that hold some end within a fraction of it.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// When to retry: by then what was read or executed has ended or failed.
const RETRY_SECS: u32 = 5;

impl Default for BodyBudgets {
    fn default() -> Self {
        BodyBudgets {
            reading: FairBudget::new(MAX_READING_BYTES),
            parsed: FairBudget::new(MAX_PARSED_BYTES),
        }
    }
}

impl BodyBudgets {
    /// Reserves what a body will weigh once parsed.
    ///
    /// # Errors
    /// 400 if it has too many values to be parsed; 503 if there is no memory for it in time.
    async fn reserve_parsed(&self, client: Sender, body: &[u8]) -> Result<Share<Sender>> {
        let weight = weight(body.len(), count_values(body)?);
        self.parsed.take(Some(client), weight, MAX_WAIT).await.ok_or_else(overloaded)
    }
}

/// An upper bound, roughly, of the memory that a body takes once parsed.
fn weight(bytes: usize, values: usize) -> usize {
    bytes * WEIGHT_OF_BYTE + values * WEIGHT_OF_VALUE
}

fn overloaded() -> Error {
    Error::busy("overloaded", "too many large requests are in progress; try again", RETRY_SECS)
}

/// The arguments of a request, and the memory reserved for them.
pub struct Sent {
    pub arguments: Arguments,
    /// Held until the request is answered.
    pub _memory: Vec<Share<Sender>>,
}

/// Reads the body of a request, if its route takes one, and reserves the memory for it.
///
/// # Errors
/// 415 for another media type, 413 if it is too large, 408 if it takes too long, 400 if it breaks
/// off, 503 if there is no memory for it in time.
pub async fn read(
    route: &Route,
    headers: &HeaderMap,
    body: &mut Incoming,
    budgets: &BodyBudgets,
    client: Sender,
) -> Result<Sent> {
    if !route.method.has_body() {
        return Ok(Sent { arguments: Arguments::Query, _memory: Vec::new() });
    }
    require_unencoded(headers)?;
    let (max_bytes, media_type) = match &route.operation.upload {
        None => {
            require_json(headers)?;
            let is_open = !route.policy.needs_account();
            (if is_open { MAX_OPEN_BODY_BYTES } else { MAX_BODY_BYTES }, "")
        }
        Some(Upload { media_types, max_bytes }) => {
            (*max_bytes, require_media_type(headers, media_types)?)
        }
    };
    let (bytes, read) = read_whole(body, max_bytes, Pace::of(client), budgets, client).await?;
    let Some(_) = route.operation.upload else {
        let parsed = budgets.reserve_parsed(client, &bytes).await?;
        return Ok(Sent { arguments: Arguments::Body(bytes), _memory: vec![read, parsed] });
    };
    let upload = Uploaded { bytes, media_type, charset: charset(headers) };
    Ok(Sent { arguments: Arguments::Upload(upload), _memory: vec![read] })
}

/// A body as it was sent, the fields of a form or JSON, and the memory reserved for it once parsed.
pub struct SentBytes {
    pub bytes: Bytes,
    /// Held until the request is answered.
    pub _memory: [Share<Sender>; 2],
}

/// Reads the fields of a form of at most `max_bytes`. A form with a file of at most
/// `max_file_bytes`, where that is given, is `multipart/form-data`, and has at most
/// [`MAX_PARTS_BYTES`] beside the file.
///
/// # Errors
/// As [`read`].
pub async fn read_form(
    headers: &HeaderMap,
    body: &mut Incoming,
    budgets: &BodyBudgets,
    client: Sender,
    max_bytes: usize,
    max_file_bytes: Option<usize>,
) -> Result<SentBytes> {
    require_unencoded(headers)?;
    let accepted: &'static [&'static str] =
        if max_file_bytes.is_some() { &[FIELDS, MULTIPART] } else { &[FIELDS] };
    let is_multipart = require_media_type(headers, accepted)? == MULTIPART;
    let max_file_bytes = max_file_bytes.filter(|_| is_multipart);
    let max_bytes = max_file_bytes.map_or(max_bytes, |file| file + MAX_PARTS_BYTES);
    let (bytes, read) = read_whole(body, max_bytes, Pace::of(client), budgets, client).await?;
    // A file is not parsed.
    let parsed_bytes = if is_multipart { bytes.len().min(MAX_PARTS_BYTES) } else { bytes.len() };
    let fields = bytes[..parsed_bytes].iter().filter(|byte| **byte == b'&').count() + 1;
    let weight = weight(parsed_bytes, fields);
    let parsed = budgets.parsed.take(Some(client), weight, MAX_WAIT).await;
    let parsed = parsed.ok_or_else(overloaded)?;
    Ok(SentBytes { bytes, _memory: [read, parsed] })
}

/// Reads a JSON body of a sender whose credential was verified, and reserves the memory for it.
///
/// # Errors
/// As [`read`].
pub async fn read_json(
    headers: &HeaderMap,
    body: &mut Incoming,
    budgets: &BodyBudgets,
    client: Sender,
) -> Result<SentBytes> {
    require_unencoded(headers)?;
    require_json(headers)?;
    let (bytes, read) = read_whole(body, MAX_BODY_BYTES, Pace::of(client), budgets, client).await?;
    let parsed = budgets.reserve_parsed(client, &bytes).await?;
    Ok(SentBytes { bytes, _memory: [read, parsed] })
}

/// The time that a body may take.
#[derive(Clone, Copy)]
struct Pace {
    total: Duration,
    /// Whether it gets a second more for each [`BYTES_PER_SEC`] received.
    is_extended: bool,
}

impl Pace {
    fn of(client: Sender) -> Self {
        Pace { total: TOTAL_TIME, is_extended: matches!(client, Sender::Credential(_)) }
    }

    /// When a body of which this much was received must be complete.
    fn deadline(self, start: Instant, received: usize) -> Instant {
        let more = if self.is_extended { received as u64 / BYTES_PER_SEC } else { 0 };
        start + self.total + Duration::from_secs(more)
    }
}

async fn read_whole<B: Body<Data = Bytes, Error: Display> + Unpin>(
    body: &mut B,
    max_bytes: usize,
    pace: Pace,
    budgets: &BodyBudgets,
    client: Sender,
) -> Result<(Bytes, Share<Sender>)> {
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(too_large(max_bytes));
    }
    let announced = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let start = Instant::now();
    let mut memory =
        budgets.reading.take(Some(client), 0, MAX_WAIT).await.ok_or_else(overloaded)?;
    let mut whole = Vec::new();
    let mut first = None;
    let (mut length, mut reserved) = (0, 0);
    let mut turn = Turn::default();
    loop {
        let deadline = pace.deadline(start, length).min(Instant::now() + READ_TIMEOUT);
        let Ok(frame) = timeout_at(deadline, body.frame()).await else {
            return Err(too_slow());
        };
        let data = match frame {
            None => break,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(_trailers) => continue,
            },
            Some(Err(error)) => {
                return Err(
                    Error::invalid(vec![Issue::new("", "the body broke off")]).detail(error)
                );
            }
        };
        length += data.len();
        if length > max_bytes {
            return Err(too_large(max_bytes));
        }
        // All that is announced, once some of it has arrived: bodies that each hold a part of the
        // budget would wait for each other.
        let needed = length.max(announced.unwrap_or(0));
        if !memory.grow(needed - reserved, MAX_WAIT).await {
            return Err(overloaded());
        }
        reserved = needed;
        // Most bodies arrive in one piece, which is then not copied.
        match (first.take(), whole.is_empty()) {
            (None, true) => first = Some(data),
            (Some(before), _) => {
                whole.reserve_exact(needed);
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&data);
            }
            (None, false) => whole.extend_from_slice(&data),
        }
        turn.read(length).await;
    }
    Ok((first.unwrap_or_else(|| whole.into()), memory))
}

/// How far a body was read when it last let other tasks run.
#[derive(Default)]
struct Turn {
    began_at: usize,
}

impl Turn {
    /// Lets other tasks run, if enough has been read since it last did.
    async fn read(&mut self, length: usize) {
        if length - self.began_at >= TURN_BYTES {
            self.began_at = length;
            tokio::task::yield_now().await;
        }
    }
}

fn too_slow() -> Error {
    Error::new(
        Kind::Timeout,
        "body_too_slow",
        "the body paused for more than 30 seconds, or took more than 60 in all, plus one for each \
         16 KiB of a request with a credential",
    )
}

fn too_large(max_bytes: usize) -> Error {
    let message = match max_bytes {
        MAX_BODY_BYTES => "the body may have 1 MiB; send less at once".into(),
        MAX_OPEN_BODY_BYTES => {
            "the body of a request that needs no credential may have 16 KiB".into()
        }
        _ => format!("the body may have {max_bytes} bytes; send less at once"),
    };
    Error::new(Kind::TooLarge, "body_too_large", message)
}

/// Reads and discards the rest of a body that was refused or not needed; returns whether all of it
/// was read. Closing a connection with unread bytes resets it, and the response may be lost; on a
/// connection that stays open the next request would be taken for the rest of this body.
pub async fn drain(headers: &HeaderMap, body: &mut Incoming) -> bool {
    if body.is_end_stream() {
        return true;
    }
    // A client that waits for 100 Continue has sent nothing yet, and reading would send it.
    if headers.contains_key(EXPECT) || body.size_hint().lower() > MAX_DRAINED_BYTES as u64 {
        return false;
    }
    let all = async {
        let mut passed = 0;
        let mut turn = Turn::default();
        loop {
            let frame = match tokio::time::timeout(DRAIN_IDLE_TIMEOUT, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return true,
                Ok(Some(Err(_))) | Err(_) => return false,
            };
            passed += frame.data_ref().map_or(0, Bytes::len);
            if passed > MAX_DRAINED_BYTES {
                return false;
            }
            turn.read(passed).await;
        }
    };
    tokio::time::timeout(DRAIN_TIME, all).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::{Frame, SizeHint};

    use super::*;

    const ADA: Sender = Sender::Credential([1; 32]);

    /// A body that never ends, a byte at every other look.
    #[derive(Default)]
    struct Trickle {
        is_ready: bool,
    }

    impl Body for Trickle {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.is_ready = !self.is_ready;
            if self.is_ready {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"0")))));
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_body_that_never_pauses_has_a_total_time_as_well() {
        let pace = Pace { total: Duration::from_millis(20), is_extended: false };
        let budgets = BodyBudgets::default();
        let read = read_whole(&mut Trickle::default(), usize::MAX, pace, &budgets, ADA).await;
        let Err(error) = read else { panic!("it never ends") };
        assert_eq!((error.kind(), error.code()), (Kind::Timeout, "body_too_slow"));
    }

    /// A body of equal pieces, after which it ends or never does.
    struct Pieces {
        piece: Bytes,
        left: usize,
        ends: bool,
        /// The length that it announces.
        announced: Option<usize>,
    }

    impl Pieces {
        fn new(left: usize, bytes: usize, ends: bool) -> Self {
            Pieces { piece: Bytes::from(vec![b' '; bytes]), left, ends, announced: None }
        }
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if let Some(left) = self.left.checked_sub(1) {
                self.left = left;
                return Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))));
            }
            if self.ends { Poll::Ready(None) } else { Poll::Pending }
        }
        fn size_hint(&self) -> SizeHint {
            self.announced.map_or_else(SizeHint::default, |all| SizeHint::with_exact(all as u64))
        }
    }

    #[tokio::test]
    async fn unfinished_bodies_of_a_client_are_bounded_and_do_not_hold_up_others() {
        let budgets = BodyBudgets::default();
        let piece = |ends| Pieces::new(1, MAX_BODY_BYTES, ends);
        let mut unfinished: Vec<_> = (0..100)
            .map(|_| {
                let mut piece = piece(false);
                let budgets = &budgets;
                let pace = Pace::of(ADA);
                Box::pin(async move {
                    read_whole(&mut piece, MAX_BODY_BYTES, pace, budgets, ADA).await.map(drop)
                })
            })
            .collect();
        for reading in &mut unfinished {
            tokio::select! {
                biased;
                _ = reading => panic!("it neither ends nor is refused yet"),
                () = std::future::ready(()) => {}
            }
        }
        assert!(budgets.reading.try_take(Some(ADA), MAX_BODY_BYTES).is_none());
        let read = async |client| {
            let mut piece = piece(true);
            let pace = Pace::of(client);
            let reading = read_whole(&mut piece, MAX_BODY_BYTES, pace, &budgets, client);
            tokio::time::timeout(READ_TIMEOUT, reading).await.unwrap().map(drop)
        };
        assert!(read(Sender::Credential([2; 32])).await.is_ok());
        assert!(read(Sender::new(None, IpAddr::from([192, 0, 2, 1]))).await.is_ok());
        drop(unfinished);
        assert!(read(ADA).await.is_ok());
    }

    #[test]
    fn a_body_has_60_seconds_and_with_a_credential_one_more_for_each_16_kib() {
        let start = Instant::now();
        let secs =
            |client, received| (Pace::of(client).deadline(start, received) - start).as_secs();
        let unknown = Sender::new(None, IpAddr::from([192, 0, 2, 1]));
        assert_eq!((secs(unknown, 0), secs(unknown, 1024 * 1024)), (60, 60));
        assert_eq!((secs(ADA, 0), secs(ADA, 16_383), secs(ADA, 1024 * 1024)), (60, 60, 124));
    }

    #[test]
    fn the_heaviest_body_fits_into_the_budgets_of_one_client() {
        let heaviest = format!("{{\"a\":[{}0]}}", "0,".repeat(49_997));
        let values = count_values(heaviest.as_bytes()).unwrap();
        assert_eq!(values, 50_000);
        let weight = weight(MAX_BODY_BYTES, values);
        assert!(weight <= MAX_PARSED_BYTES * 3 / 4, "{weight}");
        const { assert!(MAX_BODY_BYTES <= MAX_READING_BYTES * 3 / 4) };
    }

    #[tokio::test]
    async fn a_body_of_too_many_values_is_refused_while_there_is_no_memory_to_parse_any() {
        let budgets = BodyBudgets::default();
        let all = budgets.parsed.try_take(None, MAX_PARSED_BYTES).unwrap();
        let zeros = format!("[{}0]", "0,".repeat(500_000));
        let reserved = budgets.reserve_parsed(ADA, zeros.as_bytes()).await;
        let Err(error) = reserved else { panic!("it is not refused") };
        assert_eq!((error.kind(), error.code()), (Kind::Invalid, "invalid_request"));
        drop(all);
    }

    #[tokio::test]
    async fn a_body_that_has_begun_has_the_memory_for_all_that_was_announced() {
        let budgets = BodyBudgets::default();
        let held = || MAX_READING_BYTES - free(&budgets.reading);
        for (pieces, expected) in [(0, 0), (1, MAX_BODY_BYTES)] {
            let unended = Pieces::new(pieces, MAX_BODY_BYTES / 2, false);
            let mut body = Pieces { announced: Some(MAX_BODY_BYTES), ..unended };
            let reading = read_whole(&mut body, MAX_BODY_BYTES, Pace::of(ADA), &budgets, ADA);
            tokio::select! {
                biased;
                _ = reading => panic!("it never ends"),
                () = async { assert_eq!(held(), expected) } => {}
            }
        }
    }

    #[tokio::test]
    async fn while_a_body_is_read_other_tasks_run() {
        let budgets = BodyBudgets::default();
        let mut body = Pieces::new(64, 16 * 1024, true);
        let mut others = 0;
        let reading = read_whole(&mut body, MAX_BODY_BYTES, Pace::of(ADA), &budgets, ADA);
        let mut reading = std::pin::pin!(reading);
        while soon(&mut reading).await.is_none() {
            others += 1;
        }
        assert_eq!(others, MAX_BODY_BYTES / TURN_BYTES);
    }

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            end = future => Some(end),
            () = std::future::ready(()) => None,
        }
    }

    /// What nobody holds.
    fn free(budget: &FairBudget<Sender>) -> usize {
        let fits = |amount: &usize| budget.try_take(None, *amount).is_some();
        (0..=MAX_READING_BYTES).rev().step_by(MAX_BODY_BYTES / 2).find(fits).unwrap_or(0)
    }
}
