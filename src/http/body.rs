//! Reading a body within its limits (contract §1, "Body").

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderMap};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::{Error, Issue, Kind, Result};

/// A body may have 1 MiB: the largest prompt fits three times, and a server of 24 MB stays one.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Between two bytes of a body may be 30 s.
const PAUSE: Duration = Duration::from_secs(30);

/// How much of a body that nobody wants is read: more than anybody sends by mistake.
const MAX_PASSED_OVER: u64 = 64 * 1024 * 1024;
/// And for how long.
const PASSING_OVER: Duration = Duration::from_secs(5);
/// The answer waits for it, so it ends as well when nothing comes for so long.
const PASSING_OVER_PAUSE: Duration = Duration::from_secs(1);

/// Refuses a body that says that it is not JSON. None that says nothing.
///
/// # Errors
/// 415.
pub fn must_be_json(headers: &HeaderMap) -> Result<()> {
    let Some(sent) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = sent.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let json = essence == "application/json"
        || essence.split_once('/').is_some_and(|(kind, rest)| {
            !kind.is_empty() && rest.len() > "+json".len() && rest.ends_with("+json")
        });
    match json {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Media,
            "unsupported_media_type",
            "send JSON, with Content-Type: application/json",
        )),
    }
}

/// Memory for the bodies of strangers: of callers who have shown no credential, of whom there may
/// be one on each of 16,384 connections. All of theirs together, beyond what does not count, are
/// held within 64 MiB.
#[derive(Clone)]
pub struct Strangers(Arc<Semaphore>);

impl Default for Strangers {
    fn default() -> Self {
        Strangers(Arc::new(Semaphore::new(MAX_STRANGERS_BYTES)))
    }
}

/// Enough for sixty of the largest at once, and nothing that a small machine would miss.
const MAX_STRANGERS_BYTES: usize = 64 * 1024 * 1024;

/// The beginning of a stranger's body does not count, as a connection's buffer may be as large. What
/// signing in, accepting and setting up take is smaller, so that nobody can keep others from it by
/// filling what counts.
const UNCOUNTED_BYTES: usize = 16 * 1024;

/// A body that was read whole, and the place that is kept for it.
pub struct Whole {
    /// The body.
    pub bytes: Bytes,
    _place: Option<OwnedSemaphorePermit>,
}

impl Whole {
    /// No body.
    pub const NONE: Self = Whole { bytes: Bytes::new(), _place: None };
}

/// Makes the place of a stranger's body large enough for so many bytes.
fn make_room(
    strangers: &Strangers,
    place: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<()> {
    let held = place.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = bytes.saturating_sub(UNCOUNTED_BYTES).saturating_sub(held);
    if more == 0 {
        return Ok(());
    }
    let more = u32::try_from(more).expect("a body is far smaller");
    let more = strangers.0.clone().try_acquire_many_owned(more).map_err(|_| {
        Error::busy(
            "overloaded",
            "too many are sending much without a credential; try again",
            STRANGERS_RETRY_SECS,
        )
    })?;
    match place {
        Some(place) => place.merge(more),
        None => *place = Some(more),
    }
    Ok(())
}

/// As long as passing over a refused body may take.
const STRANGERS_RETRY_SECS: u32 = 5;

/// Reads a body whole; that of a stranger within what there is for them all.
///
/// # Errors
/// 413 if it is too large, 408 if it pauses too long, 400 if it breaks off, 503 if there is no
/// memory left for strangers.
pub async fn read(body: &mut Incoming, strangers: Option<&Strangers>) -> Result<Whole> {
    let too_large = || {
        Error::new(Kind::TooLarge, "body_too_large", "the body may have 1 MiB; send less at once")
    };
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    let mut first = None;
    let mut place = None;
    loop {
        let frame = tokio::time::timeout(PAUSE, body.frame()).await.map_err(|_| {
            Error::new(Kind::Timeout, "body_too_slow", "the body paused for more than 30 seconds")
        })?;
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
        let length = whole.len() + data.len() + first.as_ref().map_or(0, Bytes::len);
        if length > MAX_BODY_BYTES {
            return Err(too_large());
        }
        if let Some(strangers) = strangers {
            make_room(strangers, &mut place, length)?;
        }
        // Most bodies come in one piece, which is then not copied.
        match (first.take(), whole.is_empty()) {
            (None, true) => first = Some(data),
            (Some(before), _) => {
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&data);
            }
            (None, false) => whole.extend_from_slice(&data),
        }
    }
    Ok(Whole { bytes: first.unwrap_or_else(|| whole.freeze()), _place: place })
}

/// Reads what is left of a body that was refused or not asked for, and says whether all was read.
/// A connection that closes with bytes unread is reset, and the answer may be lost with it; a
/// sender that keeps it would have its next request taken for the rest of this body.
pub async fn pass_over(headers: &HeaderMap, body: &mut Incoming) -> bool {
    if body.is_end_stream() {
        return true;
    }
    // Who waits to be told to go on has sent nothing yet, and reading would tell them so.
    if headers.contains_key(EXPECT) || body.size_hint().lower() > MAX_PASSED_OVER {
        return false;
    }
    let all = async {
        let mut passed = 0;
        loop {
            let frame = match tokio::time::timeout(PASSING_OVER_PAUSE, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return true,
                Ok(Some(Err(_))) | Err(_) => return false,
            };
            passed += frame.data_ref().map_or(0, |data| data.len() as u64);
            if passed > MAX_PASSED_OVER {
                return false;
            }
        }
    };
    tokio::time::timeout(PASSING_OVER, all).await.unwrap_or(false)
}
