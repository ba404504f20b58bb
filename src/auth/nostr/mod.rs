//! Requests signed with a Nostr key (NIP-98; reference: exchange, "Signed requests"): who signed a
//! request, and whether the signature is for this request.

mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD_INDIFFERENT};

pub use event::{Event, EventId};

use crate::base::{Error, Kind, PublicKey, Result, Time, from_hex};

/// The kind of an event that signs an HTTP request.
const KIND: u64 = 27235;

/// How far the clock of a sender may be from ours, in seconds (the suggestion of NIP-98).
pub const WINDOW_SECS: i64 = 60;

/// The longest event that is read: several times the longest with a URL of 2,000 characters.
/// Everything before the signature is checked, so little must be done for a long one.
const MAX_EVENT_BYTES: usize = 8 * 1024;

/// Some libraries leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PAD_INDIFFERENT);

/// The request that an event must be for.
#[derive(Clone, Copy, Debug)]
pub struct SignedTarget<'a> {
    /// The base of the server's URLs, without a slash at its end.
    pub base: &'a str,
    /// Path and query, as they were sent.
    pub target: &'a str,
    /// The method of the request.
    pub method: &'a str,
}

/// The signer of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    pub pubkey: PublicKey,
    /// The event that signs the request. Each is accepted once.
    pub event: EventId,
    /// When the event says that it was signed.
    pub signed_at: Time,
    /// The SHA-256 of the body, if the event has one.
    payload: Option<[u8; 32]>,
}

/// An event that is for a request. Neither its key nor its signature is checked yet, which costs the
/// most.
#[derive(Debug)]
pub struct Claim {
    event: Event,
    signer: Signer,
}

impl Claim {
    /// Reads the text after `Nostr ` in `Authorization`, and checks everything but the signature.
    ///
    /// # Errors
    /// 401 with the reason.
    pub fn read(token: &str, now: Time, target: SignedTarget) -> Result<Self> {
        let text = Some(token).filter(|token| token.len() <= MAX_EVENT_BYTES);
        let json = text.and_then(|token| BASE64.decode(token).ok());
        let event = json.as_deref().and_then(Event::parse).ok_or_else(|| {
            refused("Authorization: Nostr must be followed by a signed event, as JSON in Base64")
        })?;
        let signer = signer(&event, now, target)?;
        if !event.has_own_id() {
            return Err(refused("the id of the event is not the hash of its content"));
        }
        Ok(Claim { event, signer })
    }

    /// Returns the key that it says it is signed with; whether that is a key is not known yet.
    pub fn pubkey(&self) -> &PublicKey {
        &self.signer.pubkey
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// 401.
    pub fn verify(self) -> Result<Signer> {
        if self.event.is_signed() {
            return Ok(self.signer);
        }
        Err(refused("the signature of the event is not of its pubkey"))
    }
}

impl Signer {
    /// Checks that the event is for this body. Without a body the event needs no `payload`.
    ///
    /// # Errors
    /// 401.
    pub fn require_payload(&self, body: &[u8]) -> Result<()> {
        let sent = digest(&SHA256, body);
        let is_signed = match &self.payload {
            Some(payload) => payload == sent.as_ref(),
            None => body.is_empty(),
        };
        if is_signed {
            return Ok(());
        }
        Err(refused("the event's payload must be the SHA-256 of the body, in hexadecimal"))
    }

    /// When the event is refused for its age, and need not be remembered any more.
    pub fn ends_at(&self) -> Time {
        self.signed_at.plus_secs(WINDOW_SECS + 1)
    }
}

/// Checks what an event says of a request; its key is not checked.
fn signer(event: &Event, now: Time, target: SignedTarget) -> Result<Signer> {
    if event.kind != KIND {
        return Err(refused("the event must have kind 27235 (NIP-98)"));
    }
    let off_secs = event.created_at.checked_sub(now.secs());
    if off_secs.is_none_or(|secs| secs.unsigned_abs() > WINDOW_SECS.unsigned_abs()) {
        return Err(refused("the event's created_at must be within 60 seconds of the time here"));
    }
    let method = event.tag("method")?;
    if !method.is_some_and(|method| method.eq_ignore_ascii_case(target.method)) {
        return Err(refused("the event's method must be that of the request"));
    }
    if !event.tag("u")?.is_some_and(|url| is_url_of(url, target)) {
        // The path is the client's own; the base is what a proxy may have hidden.
        let message = format!(
            "the event's u must be the URL of this request, which begins with {}",
            target.base
        );
        return Err(Error::new(Kind::Unauthenticated, "unauthenticated", message));
    }
    let payload = match event.tag("payload")? {
        None => None,
        Some(text) => Some(from_hex(&text.to_ascii_lowercase()).ok_or_else(|| {
            refused("the event's payload must be the SHA-256 of the body, in hexadecimal")
        })?),
    };
    // 64 lower-case digits, since it was read; whether a key has them is checked with the signature.
    let pubkey = PublicKey::from_trusted(event.pubkey.clone());
    let signed_at = Time::from_millis(event.created_at * 1000);
    Ok(Signer { pubkey, event: event.id, signed_at, payload })
}

/// Whether a URL is that of the request: scheme and host in any case, with or without the scheme's
/// own port; everything after them must be the same.
fn is_url_of(url: &str, SignedTarget { base, target, .. }: SignedTarget) -> bool {
    let (Some(signed), Some(base)) = (Split::of(url), Split::of(base)) else { return false };
    signed.scheme.eq_ignore_ascii_case(base.scheme)
        && signed.host().eq_ignore_ascii_case(base.host())
        && signed.rest.strip_prefix(base.rest) == Some(target)
}

/// A URL in three parts.
struct Split<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// Path and query, with the first slash.
    rest: &'a str,
}

impl<'a> Split<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, after) = url.split_once("://")?;
        let (authority, rest) = after.split_at(after.find('/').unwrap_or(after.len()));
        Some(Split { scheme, authority, rest })
    }

    /// The host, with its port unless that is the one of the scheme.
    fn host(&self) -> &'a str {
        let port = if self.scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
        self.authority.strip_suffix(port).unwrap_or(self.authority)
    }
}

fn refused(message: &'static str) -> Error {
    Error::unauthenticated(message)
}
