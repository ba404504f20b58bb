//! An answer that comes as events until the last one.

use std::time::Duration;

use serde_json::Value;

use super::api::Api;
use super::refusal::Refusal;
use crate::cli::failure::Failure;
use crate::outside::{BodyLimit, Call, Limits, Method, Pauses};

/// The server sends a comment each 15 seconds.
const PAUSES: Pauses = Pauses { first: Duration::from_secs(90), between: Duration::from_secs(60) };

/// Longer than any answer that the server passes on, of which the last event has all once more.
const MAX_BYTES: usize = 128 * 1024 * 1024;

impl Api {
    /// Posts a body to a route that passes on an answer as it comes, within this time; `each` gets the name
    /// and the data of each event before the last one. Returns the whole answer.
    ///
    /// # Errors
    /// What the server refuses, before the answer or within it; those of `each`.
    pub fn post_for_events(
        &self,
        path: &str,
        body: &Value,
        total: Duration,
        each: impl FnMut(&str, &Value) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        let mut headers = vec![
            ("accept".to_string(), "text/event-stream".to_string()),
            ("content-type".into(), "application/json".into()),
        ];
        headers.extend(self.authorization());
        let call = Call {
            method: Method::POST,
            url: format!("{}/api{path}", self.base()),
            headers,
            body: body.to_string().into_bytes(),
            limits: Limits { total, answer: BodyLimit::UpTo(MAX_BYTES), https_only: false },
        };
        self.block_on(self.read_events(call, body, each))
    }

    async fn read_events(
        &self,
        call: Call,
        sent: &Value,
        mut each: impl FnMut(&str, &Value) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        let broken = |why: String| Failure::from(Refusal::Unanswered(why));
        let opened = self.outside().open(call, PAUSES).await;
        let mut answer = opened.map_err(|failure| broken(failure.to_string()))?;
        let mut read: Vec<u8> = Vec::new();
        let mut searched = 0;
        let is_stream = answer.head.is_success();
        loop {
            let piece = answer.next().await.map_err(|failure| broken(failure.to_string()))?;
            let Some(piece) = piece else { break };
            read.extend_from_slice(&piece);
            while is_stream && let Some(end) = end_of_event(&read, &mut searched) {
                let event: Vec<u8> = read.drain(..end).collect();
                if let Some(whole) = take(&event, &mut each)? {
                    return Ok(whole);
                }
            }
        }
        if is_stream {
            return Err(broken("the answer broke off".into()));
        }
        let after = answer.head.header("retry-after").and_then(|secs| secs.parse().ok());
        Err(Refusal::of_body(answer.head.status, &read, after, Some(sent)).into())
    }
}

/// Returns where the first event ends. What was `searched` is not searched again: the last event may have
/// megabytes, which come in small pieces.
fn end_of_event(read: &[u8], searched: &mut usize) -> Option<usize> {
    let found = read[*searched..].windows(2).position(|two| two == b"\n\n");
    let end = found.map(|at| *searched + at + 2);
    *searched = if end.is_some() { 0 } else { read.len().saturating_sub(1) };
    end
}

/// Takes an event; returns the whole answer, if it is the last one.
fn take(
    event: &[u8],
    each: &mut impl FnMut(&str, &Value) -> Result<(), Failure>,
) -> Result<Option<Value>, Failure> {
    let event = String::from_utf8_lossy(event);
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    let (Some(name), Some(data)) = (field("event: "), field("data: ")) else { return Ok(None) };
    let unexpected = |_| Refusal::Unanswered("an unexpected event of the server".into());
    let data: Value = serde_json::from_str(data).map_err(unexpected)?;
    match name {
        "done" => Ok(Some(data)),
        "error" => {
            // As if it had been the answer; what fails meanwhile has no status of its own.
            Err(Refusal::of_body(502, data.to_string().as_bytes(), None, None).into())
        }
        name => each(name, &data).map(|()| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_of_an_answer_are_told_apart() {
        let mut all = String::new();
        let mut each = |name: &str, data: &Value| {
            all += &format!("{name} {data} ");
            Ok(())
        };
        for (event, is_last) in [
            (": alive\n\n", false),
            ("event: delta\ndata: {\"text\":\"a\\nb\"}\n\n", false),
            ("event: other\ndata: {}\n\n", false),
            ("event: done\ndata: {\"text\":\"a\\nb\"}\n\n", true),
        ] {
            let taken = take(event.as_bytes(), &mut each);
            assert!(taken.is_ok_and(|whole| whole.is_some() == is_last), "{event}");
        }
        let error =
            b"event: error\ndata: {\"code\":\"llm_provider_failed\",\"message\":\"no\"}\n\n";
        let failed = take(error, &mut each).err();
        assert!(matches!(failed, Some(Failure::Failed(why)) if why == "no (llm_provider_failed)"));
        assert!(take(b"event: delta\ndata: {\n\n", &mut each).is_err());
        assert_eq!(all, "delta {\"text\":\"a\\nb\"} other {} ");
    }

    #[test]
    fn an_event_ends_wherever_the_pieces_end() {
        let stream = b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n";
        for size in 1..=stream.len() {
            let (mut read, mut searched, mut ends): (Vec<u8>, _, _) = (Vec::new(), 0, Vec::new());
            for piece in stream.chunks(size) {
                read.extend_from_slice(piece);
                while let Some(end) = end_of_event(&read, &mut searched) {
                    ends.push(read.drain(..end).count());
                }
            }
            assert_eq!((ends, read.len()), (vec![18, 18], 0), "{size}");
        }
    }
}
