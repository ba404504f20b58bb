//! Reading a body within its limits (contract §1, "Body").

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderMap};

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

/// Reads a body whole.
///
/// # Errors
/// 413 if it is too large, 408 if it pauses too long, 400 if it breaks off.
pub async fn read(body: &mut Incoming) -> Result<Bytes> {
    let too_large = || {
        Error::new(Kind::TooLarge, "body_too_large", "the body may have 1 MiB; send less at once")
    };
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    let mut first = None;
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
        if whole.len() + data.len() + first.as_ref().map_or(0, Bytes::len) > MAX_BODY_BYTES {
            return Err(too_large());
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
    Ok(first.unwrap_or_else(|| whole.freeze()))
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
