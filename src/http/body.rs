//! Reads request bodies within their limits (reference: conventions, "Bodies").

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderMap};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::execute::Arguments;
use crate::api::{Route, op::Upload};
use crate::base::{Error, Issue, Kind, Result};

/// Limit of a JSON body: three times the largest prompt, and small beside the 24 MB of the server.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Maximum time between two reads of a body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of the bytes read of an unwanted body: more than a client sends by mistake.
const MAX_DRAINED_BYTES: u64 = 64 * 1024 * 1024;
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

/// Refuses a body whose media type is absent or none of these.
fn require_media_type(headers: &HeaderMap, media_types: &[&str]) -> Result<()> {
    if media_type(headers).is_some_and(|sent| media_types.contains(&sent.as_str())) {
        return Ok(());
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

/// The media type of a body, if it has one, in lower case and without parameters.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// The memory budget for bodies of anonymous clients, of which there may be one on each of 16,384
/// connections: together, beyond [`UNCOUNTED_BYTES`] of each, they hold at most 64 MiB.
#[derive(Clone)]
pub struct AnonymousBudget(Arc<Semaphore>);

impl Default for AnonymousBudget {
    fn default() -> Self {
        AnonymousBudget(Arc::new(Semaphore::new(MAX_ANONYMOUS_BYTES)))
    }
}

/// Room for sixty of the largest bodies at once, which a small machine can spare.
const MAX_ANONYMOUS_BYTES: usize = 64 * 1024 * 1024;

/// The beginning of an anonymous body does not count, since a connection's buffer may be as large.
/// The bodies of sign-in, accepting an invitation and setup are smaller, so exhausting the budget
/// does not block them.
const UNCOUNTED_BYTES: usize = 16 * 1024;

/// The arguments of a request, and the memory reserved for them.
pub struct Sent {
    pub arguments: Arguments,
    /// Held until the request is answered.
    pub _reservation: Option<OwnedSemaphorePermit>,
}

/// Extends the reservation of an anonymous body to this many bytes.
fn reserve(
    anonymous: &AnonymousBudget,
    reserved: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<()> {
    let held = reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = bytes.saturating_sub(UNCOUNTED_BYTES).saturating_sub(held);
    if more == 0 {
        return Ok(());
    }
    let more = u32::try_from(more).unwrap_or(u32::MAX); // More than the budget.
    let more = anonymous.0.clone().try_acquire_many_owned(more).map_err(|_| {
        Error::busy(
            "overloaded",
            "too many large requests without a credential; try again",
            ANONYMOUS_RETRY_SECS,
        )
    })?;
    match reserved {
        Some(reserved) => reserved.merge(more),
        None => *reserved = Some(more),
    }
    Ok(())
}

/// As long as draining a refused body may take.
const ANONYMOUS_RETRY_SECS: u32 = 5;

/// Reads the body of a request, if its route takes one; that of an anonymous client within the
/// budget.
///
/// # Errors
/// 415 for another media type, 413 if it is too large, 408 if it pauses too long, 400 if it breaks
/// off, 503 if the budget is exhausted.
pub async fn read(
    route: &Route,
    headers: &HeaderMap,
    body: &mut Incoming,
    anonymous: Option<&AnonymousBudget>,
) -> Result<Sent> {
    if !route.method.has_body() {
        return Ok(Sent { arguments: Arguments::Query, _reservation: None });
    }
    require_unencoded(headers)?;
    let max_bytes = match &route.operation.upload {
        None => {
            require_json(headers)?;
            MAX_BODY_BYTES
        }
        Some(Upload { media_types, max_bytes }) => {
            require_media_type(headers, media_types)?;
            *max_bytes
        }
    };
    let (bytes, _reservation) = read_whole(body, max_bytes, anonymous).await?;
    let arguments = match &route.operation.upload {
        None => Arguments::Body(bytes),
        Some(_) => Arguments::Upload(bytes),
    };
    Ok(Sent { arguments, _reservation })
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
    let mut reserved = None;
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
            reserve(anonymous, &mut reserved, length)?;
        }
        // Most bodies arrive in one piece, which is then not copied.
        match (first.take(), whole.is_empty()) {
            (None, true) => first = Some(data),
            (Some(before), _) => {
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&data);
            }
            (None, false) => whole.extend_from_slice(&data),
        }
    }
    Ok((first.unwrap_or_else(|| whole.freeze()), reserved))
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

/// Reads and discards the rest of a body that was refused or not needed; returns whether all of it
/// was read. Closing a connection with unread bytes resets it, and the response may be lost; on a
/// connection that stays open the next request would be taken for the rest of this body.
pub async fn drain(headers: &HeaderMap, body: &mut Incoming) -> bool {
    if body.is_end_stream() {
        return true;
    }
    // A client that waits for 100 Continue has sent nothing yet, and reading would send it.
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
