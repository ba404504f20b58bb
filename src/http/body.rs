//! Reading a body within its limits (reference: conventions, "Bodies").

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderMap};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::execute::Arguments;
use crate::api::{Route, op::Upload};
use crate::base::{Error, Issue, Kind, Result};

/// A body of JSON may have 1 MiB: the largest prompt fits three times, and a server of 24 MB stays one.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Between two bytes of a body may be 30 s.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a body that nobody wants is read: more than anybody sends by mistake.
const MAX_DRAINED_BYTES: u64 = 64 * 1024 * 1024;
/// And for how long.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// The answer waits for it, so it ends as well when nothing comes for so long.
const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Refuses a body that says that it is not JSON. None that says nothing.
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

/// Refuses a body that does not say that it is one of these.
fn must_be_one_of(headers: &HeaderMap, media_types: &[&str]) -> Result<()> {
    if media_type(headers).is_some_and(|sent| media_types.contains(&sent.as_str())) {
        return Ok(());
    }
    let message = format!("send one of these, by its Content-Type: {}", media_types.join(", "));
    Err(Error::new(Kind::Media, "unsupported_media_type", message))
}

/// The media type of a body, if it says one, in small letters and without parameters.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Memory for the bodies of callers who have shown no credential, of whom there may be one on each
/// of 16,384 connections. All of theirs together, beyond what does not count, are
/// held within 64 MiB.
#[derive(Clone)]
pub struct AnonymousBudget(Arc<Semaphore>);

impl Default for AnonymousBudget {
    fn default() -> Self {
        AnonymousBudget(Arc::new(Semaphore::new(MAX_ANONYMOUS_BYTES)))
    }
}

/// Enough for sixty of the largest at once, and nothing that a small machine would miss.
const MAX_ANONYMOUS_BYTES: usize = 64 * 1024 * 1024;

/// The beginning of an anonymous body does not count, as a connection's buffer may be as large. What
/// signing in, accepting and setting up take is smaller, so that nobody can keep others from it by
/// filling what counts.
const UNCOUNTED_BYTES: usize = 16 * 1024;

/// What was sent with a request, and the memory that is set aside for it.
pub struct Sent {
    /// The arguments.
    pub arguments: Arguments,
    /// Held until the request is answered.
    pub _place: Option<OwnedSemaphorePermit>,
}

/// Makes the place of an anonymous body large enough for so many bytes.
fn reserve(
    anonymous: &AnonymousBudget,
    place: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<()> {
    let held = place.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = bytes.saturating_sub(UNCOUNTED_BYTES).saturating_sub(held);
    if more == 0 {
        return Ok(());
    }
    let more = u32::try_from(more).unwrap_or(u32::MAX); // More than there is.
    let more = anonymous.0.clone().try_acquire_many_owned(more).map_err(|_| {
        Error::busy(
            "overloaded",
            "too many are sending much without a credential; try again",
            ANONYMOUS_RETRY_SECS,
        )
    })?;
    match place {
        Some(place) => place.merge(more),
        None => *place = Some(more),
    }
    Ok(())
}

/// As long as passing over a refused body may take.
const ANONYMOUS_RETRY_SECS: u32 = 5;

/// Reads what was sent with a request, if its route takes anything beside the query; that of an
/// anonymous caller within what there is for them all.
///
/// # Errors
/// 415 if it is of another media type, 413 if it is too large, 408 if it pauses too long, 400 if it
/// breaks off, 503 if there is no memory left for anonymous callers.
pub async fn read(
    route: &Route,
    headers: &HeaderMap,
    body: &mut Incoming,
    anonymous: Option<&AnonymousBudget>,
) -> Result<Sent> {
    if !route.method.has_body() {
        return Ok(Sent { arguments: Arguments::Query, _place: None });
    }
    let max_bytes = match &route.operation.upload {
        None => {
            require_json(headers)?;
            MAX_BODY_BYTES
        }
        Some(Upload { media_types, max_bytes }) => {
            must_be_one_of(headers, media_types)?;
            *max_bytes
        }
    };
    let (bytes, _place) = read_whole(body, max_bytes, anonymous).await?;
    let arguments = match &route.operation.upload {
        None => Arguments::Body(bytes),
        Some(_) => Arguments::Upload(bytes),
    };
    Ok(Sent { arguments, _place })
}

async fn read_whole(
    body: &mut Incoming,
    max_bytes: usize,
    anonymous: Option<&AnonymousBudget>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>)> {
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(too_large(max_bytes));
    }
    let mut whole = BytesMut::new();
    let mut first = None;
    let mut place = None;
    loop {
        let frame = tokio::time::timeout(READ_TIMEOUT, body.frame()).await.map_err(|_| {
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
        if length > max_bytes {
            return Err(too_large(max_bytes));
        }
        if let Some(anonymous) = anonymous {
            reserve(anonymous, &mut place, length)?;
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
    Ok((first.unwrap_or_else(|| whole.freeze()), place))
}

fn too_large(max_bytes: usize) -> Error {
    if max_bytes == MAX_BODY_BYTES {
        return Error::new(
            Kind::TooLarge,
            "body_too_large",
            "the body may have 1 MiB; send less at once",
        );
    }
    let message = format!("the body may have {max_bytes} bytes; send less at once");
    Error::new(Kind::TooLarge, "body_too_large", message)
}

/// Reads what is left of a body that was refused or not asked for, and says whether all was read.
/// A connection that closes with bytes unread is reset, and the answer may be lost with it; a
/// sender that keeps it would have its next request taken for the rest of this body.
pub async fn drain(headers: &HeaderMap, body: &mut Incoming) -> bool {
    if body.is_end_stream() {
        return true;
    }
    // Who waits to be told to go on has sent nothing yet, and reading would tell them so.
    if headers.contains_key(EXPECT) || body.size_hint().lower() > MAX_DRAINED_BYTES {
        return false;
    }
    let all = async {
        let mut passed = 0;
        loop {
            let frame = match tokio::time::timeout(DRAIN_IDLE_TIMEOUT, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return true,
                Ok(Some(Err(_))) | Err(_) => return false,
            };
            passed += frame.data_ref().map_or(0, |data| data.len() as u64);
            if passed > MAX_DRAINED_BYTES {
                return false;
            }
        }
    };
    tokio::time::timeout(DRAIN_TIME, all).await.unwrap_or(false)
}
