//! An answer of a model as it comes: a state that takes what is heard of the calls, without I/O.

use std::collections::VecDeque;

use serde_json::Value;

use super::answer::{Part, Told, is_last, part, whole};
use super::attempt::{Attempt, Completion, with_reason};
use super::chat::{MALFORMED, refusal};
use super::endpoint::bases;
use super::frames::{Frames, Framing};
use super::key_filter::KeyFilter;
use super::provider::{LlmProvider, Provider};
use super::reason::Said;
use super::request::{self, MAX_STREAM_BYTES};
use crate::api::Heard;
use crate::base::Result;
use crate::outside::{Call, Response};
use crate::store::View;

/// The longest text, in bytes.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// How much of an error is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// A question to a model whose answer is read as it comes.
pub struct Conversation {
    api: Provider,
    /// Where the API may be, the likeliest place first.
    calls: VecDeque<Call>,
    has_key: bool,
    filter: KeyFilter,
    reading: Reading,
    told: Told,
    text: String,
    /// The bytes that were read of all answers; `None` before the first call.
    read: Option<usize>,
    end: Option<End>,
    /// Why the place before was wrong.
    before: Option<Wrong>,
}

/// How an answer ends.
type End = Result<(), Wrong>;

/// What is read of the current answer.
enum Reading {
    Nothing,
    /// The parts of the answer, and whether there was one.
    Parts {
        frames: Frames,
        has_part: bool,
    },
    /// A whole answer, although a stream was asked for.
    Whole(Vec<u8>),
    /// An error with this status.
    Error(u16, Vec<u8>),
}

/// Why there is no answer.
struct Wrong {
    why: String,
    said: Option<Said>,
    /// Whether the API is at another place than the one that was called.
    is_elsewhere: bool,
}

impl Wrong {
    fn new(why: impl Into<String>) -> Self {
        Wrong { why: why.into(), said: None, is_elsewhere: false }
    }

    fn malformed() -> Self {
        Wrong { is_elsewhere: true, ..Wrong::new(MALFORMED) }
    }

    fn weight(&self) -> (bool, bool) {
        Said::weight(self.said.as_ref())
    }
}

impl Conversation {
    /// A question to a provider's model.
    ///
    /// # Errors
    /// If the key cannot be unsealed, or the provider has no URL.
    pub fn new(view: &View, provider: &LlmProvider, attempt: &Attempt) -> Result<Self> {
        let key = provider.unsealed_key(view)?;
        let bases = bases(provider.provider, provider.base()?);
        let calls = bases
            .iter()
            .map(|base| request::call(provider, base, key.as_deref(), attempt, true))
            .collect();
        Ok(Conversation::of(provider.provider, calls, key))
    }

    /// A question that these calls put, the likeliest first.
    fn of(api: Provider, calls: VecDeque<Call>, key: Option<String>) -> Self {
        Conversation {
            api,
            calls,
            has_key: key.is_some(),
            filter: KeyFilter::new(key),
            reading: Reading::Nothing,
            told: Told::default(),
            text: String::new(),
            read: None,
            end: None,
            before: None,
        }
    }

    /// Returns the next call: the first one, or one to another place where the API may be.
    pub fn next_call(&mut self) -> Option<Call> {
        let is_over = match &self.end {
            None => false,
            Some(Ok(())) => true,
            Some(Err(wrong)) => !wrong.is_elsewhere,
        };
        let call = if is_over { None } else { self.calls.pop_front() }?;
        self.before = self.end.take().and_then(End::err).or(self.before.take());
        self.told = Told::default();
        self.read.get_or_insert(0);
        Some(call)
    }

    /// Whether nothing was asked yet.
    pub fn is_to_begin(&self) -> bool {
        self.read.is_none()
    }

    /// Takes what was heard; appends the text that may be shown. Returns whether more is read.
    pub fn hear(&mut self, heard: Heard, shown: &mut String) -> bool {
        let before = self.text.len();
        let end = match heard {
            Heard::Head(head) => {
                self.begin(head);
                None
            }
            Heard::Piece(piece) => self.read(piece),
            Heard::End => Some(self.finish()),
            // All that matters has come: some servers break off in place of an end.
            Heard::Failed(_) if self.told.stop_reason.is_some() => Some(Ok(())),
            Heard::Failed(failure) => Some(Err(Wrong::new(failure.to_string()))),
        };
        if let Some(end) = end {
            self.text += &self.filter.end();
            self.end = Some(self.weighed(end));
        }
        shown.push_str(&self.text[before..]);
        self.end.is_none()
    }

    /// Of two places that are wrong, the one counts that says why as an API does.
    fn weighed(&mut self, end: End) -> End {
        match (self.before.take(), end) {
            (Some(before), Err(now)) if before.weight() > now.weight() => {
                Err(Wrong { is_elsewhere: now.is_elsewhere, ..before })
            }
            (_, end) => end,
        }
    }

    fn begin(&mut self, head: &Response) {
        let media_type = head.header("content-type").unwrap_or_default().to_ascii_lowercase();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let parts = |framing| Reading::Parts { frames: Frames::new(framing), has_part: false };
        self.reading = if !head.is_success() {
            Reading::Error(head.status, Vec::new())
        } else if self.api == Provider::Ollama {
            parts(Framing::Lines)
        } else if media_type == "application/json" {
            Reading::Whole(Vec::new())
        } else {
            parts(Framing::Events)
        };
    }

    /// Takes a piece; returns how the answer ends, if it does with it.
    fn read(&mut self, piece: &[u8]) -> Option<End> {
        let read = self.read.get_or_insert(0);
        *read = read.saturating_add(piece.len());
        if *read > MAX_STREAM_BYTES {
            return Some(Err(Wrong::new(TOO_LONG)));
        }
        match &mut self.reading {
            Reading::Nothing => None,
            Reading::Whole(body) => {
                body.extend_from_slice(piece);
                (body.len() > MAX_TEXT_BYTES).then(|| Err(Wrong::new(TOO_LONG)))
            }
            Reading::Error(_, body) => {
                body.extend_from_slice(piece);
                (body.len() > MAX_ERROR_BYTES).then(|| self.finish())
            }
            Reading::Parts { frames, .. } => match frames.push(piece) {
                Ok(parts) => self.take_all(parts),
                Err(_) => Some(Err(Wrong::new(TOO_LONG))),
            },
        }
    }

    fn take_all(&mut self, parts: Vec<Vec<u8>>) -> Option<End> {
        for payload in parts {
            match self.take(&payload) {
                Ok(false) => {}
                Ok(true) => return Some(Ok(())),
                Err(wrong) => return Some(Err(wrong)),
            }
        }
        None
    }

    /// Takes a part of the answer; returns whether it is the last one.
    fn take(&mut self, payload: &[u8]) -> Result<bool, Wrong> {
        let is_marked = payload.trim_ascii() == b"[DONE]";
        let Reading::Parts { has_part, .. } = &mut self.reading else { return Ok(true) };
        if is_marked && *has_part {
            return Ok(true);
        }
        let malformed = |has_part: bool| Wrong { is_elsewhere: !has_part, ..Wrong::malformed() };
        let body: Value = serde_json::from_slice(payload).map_err(|_| malformed(*has_part))?;
        if body.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Wrong { said: Said::of(payload), ..Wrong::new(REFUSED) });
        }
        if let Part::Text(text) = part(self.api, &body, &mut self.told) {
            *has_part = true;
            self.say(&text)?;
        }
        Ok(is_last(self.api, &body))
    }

    fn say(&mut self, text: &str) -> Result<(), Wrong> {
        self.text += &self.filter.push(text);
        if self.text.len() > MAX_TEXT_BYTES { Err(Wrong::new(TOO_LONG)) } else { Ok(()) }
    }

    /// Takes the end of the body.
    fn finish(&mut self) -> End {
        match std::mem::replace(&mut self.reading, Reading::Nothing) {
            Reading::Nothing => Err(Wrong::malformed()),
            Reading::Error(status, body) => Err(Wrong {
                why: refusal(status, self.has_key),
                said: Said::of(&body),
                is_elsewhere: matches!(status, 404 | 405),
            }),
            Reading::Whole(body) => self.finish_whole(&body),
            Reading::Parts { frames, has_part } => {
                let parts = frames.end().map_err(|_| Wrong::new(TOO_LONG))?;
                self.reading = Reading::Parts { frames: Frames::new(Framing::Lines), has_part };
                if let Some(end) = self.take_all(parts) {
                    return end;
                }
                if self.told.stop_reason.is_some() {
                    return Ok(());
                }
                match &self.reading {
                    Reading::Parts { has_part: true, .. } => Err(Wrong::new(BROKEN_OFF)),
                    _ => Err(Wrong::malformed()),
                }
            }
        }
    }

    fn finish_whole(&mut self, body: &[u8]) -> End {
        let malformed = || Wrong { said: Said::of(body), ..Wrong::malformed() };
        let json: Value = serde_json::from_slice(body).map_err(|_| malformed())?;
        if json.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Wrong { said: Said::of(body), ..Wrong::new(REFUSED) });
        }
        let (text, told) = whole(self.api, &json).ok_or_else(malformed)?;
        self.told = told;
        self.say(&text)
    }

    /// Returns the answer, or why there is none: a sentence without a final full stop, and without
    /// secrets. `shows_reason` is for those who may change the connection: what the provider says is not
    /// for every member.
    pub fn outcome(&self, shows_reason: bool) -> Result<Completion, String> {
        match &self.end {
            Some(Ok(())) => Ok(self.so_far()),
            Some(Err(wrong)) => {
                let said = wrong.said.as_ref().filter(|_| shows_reason);
                let reason = said.map(|said| said.reason(self.filter.key()));
                Err(with_reason(&wrong.why, reason))
            }
            None => Err("it was broken off before its end".into()),
        }
    }

    /// Returns what was said until now, at its end or not.
    pub fn so_far(&self) -> Completion {
        self.told.shown(self.text.clone(), |text| self.filter.whole(text))
    }
}

/// A model that says no end.
const TOO_LONG: &str = "its answer is too long; send a smaller maxTokens";

/// An error in an answer that began as if it were one.
const REFUSED: &str = "it fails";

/// A stream without its end.
const BROKEN_OFF: &str = "its answer broke off";

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
mod tests;
