//! Answers that are read piece by piece as they come, within bounds of bytes and of time.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::call::{BodyLimit, Call, Failure, Response};
use super::client::{Begun, Outside, response_of};
use super::connect::Connection;

/// How long nothing may come of an answer, besides the time for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// From the start of the call to the first byte of the body.
    pub first: Duration,
    /// Between two pieces.
    pub between: Duration,
}

/// An answer whose head was received. Dropping it closes the connection.
pub struct AnswerStream {
    /// Status and headers; the body of it is empty.
    pub head: Response,
    host: String,
    body: Incoming,
    limits: StreamLimits,
    /// When all of it must be there.
    deadline: Instant,
    /// When the next piece must be there, and how long that is after the one before.
    next_by: (Instant, Duration),
    read: usize,
    _connection: Connection,
    _slot: Arc<OwnedSemaphorePermit>,
}

struct StreamLimits {
    bytes: usize,
    total: Duration,
    between: Duration,
}

impl Outside {
    /// Sends one call, as [`Outside::send`] does, and waits for the head of its answer, whose body is then
    /// read piece by piece.
    ///
    /// # Errors
    /// See [`Failure`]. An error status is an answer, not an error.
    pub async fn open(&self, call: Call, pauses: Pauses) -> Result<AnswerStream, Failure> {
        let span = self.spans.as_ref().and_then(|spans| spans.calling(&call, self.part_of));
        let opened = self.open_within(call, pauses).await;
        if let Some(span) = span {
            span.end(&opened.as_ref().map(|stream| stream.head.clone()).map_err(Failure::clone));
        }
        opened
    }

    async fn open_within(&self, call: Call, pauses: Pauses) -> Result<AnswerStream, Failure> {
        let (limits, begun) = (call.limits, Instant::now());
        let first_by = begun + pauses.first.min(limits.total);
        let opened = self.begin(call, None, first_by).await;
        let Begun { target, connection, answer, slot } =
            opened.map_err(|failure| match failure {
                Failure::TimedOut { host, .. } if pauses.first < limits.total => {
                    Failure::Silent { host, pause: pauses.first }
                }
                failure => failure,
            })?;
        let (head, body) = answer.into_parts();
        let bytes = match limits.answer {
            BodyLimit::UpTo(bytes) => bytes,
            BodyLimit::Ignored => 0,
        };
        Ok(AnswerStream {
            head: response_of(&head, Vec::new()),
            host: target.host,
            body,
            limits: StreamLimits { bytes, total: limits.total, between: pauses.between },
            deadline: begun + limits.total,
            next_by: (begun + pauses.first, pauses.first),
            read: 0,
            _connection: connection,
            _slot: slot,
        })
    }
}

impl AnswerStream {
    /// Returns the next piece of the body, which is not empty; `None` at its end.
    ///
    /// # Errors
    /// See [`Failure`]: it is longer than its limit, takes too long, pauses for too long, or breaks off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let (next_by, pause) = self.next_by;
            let frame = timeout_at(next_by.min(self.deadline), self.body.frame());
            // A timeout lets pass what is there already.
            let frame = if Instant::now() < self.deadline { frame.await.ok() } else { None };
            let Some(frame) = frame else {
                let (host, after) = (self.host.clone(), self.limits.total);
                return Err(if next_by < self.deadline {
                    Failure::Silent { host, pause }
                } else {
                    Failure::TimedOut { host, after }
                });
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| Failure::protocol(&self.host, &error))?;
            // Nothing is no sign of life: neither trailers nor empty data.
            let Ok(data) = frame.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            self.read += data.len();
            if self.read > self.limits.bytes {
                return Err(Failure::TooLarge {
                    host: self.host.clone(),
                    bytes: self.limits.bytes,
                });
            }
            self.next_by = (Instant::now() + self.limits.between, self.limits.between);
            return Ok(Some(data));
        }
    }
}
