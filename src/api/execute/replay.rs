//! Replay of answers to requests with an `Idempotency-Key` (reference: conventions, "Idempotency").

use super::context::RequestContext;
use crate::api::idempotency::{IdempotencyRecord, RETENTION_SECS};
use crate::api::output::Answer;
use crate::auth::credential_bytes;
use crate::base::{Error, Result};
use crate::store::Tx;

/// Limit of a stored answer in bytes: with its metadata it must fit into a record (2 MiB). A
/// compiled text may be larger as JSON.
const MAX_STORED_BYTES: usize = 2 * 1024 * 1024 - 1024;

/// Identifies a request and its arguments, to recognize a repetition.
#[derive(Clone, Copy)]
pub struct RequestFingerprint {
    /// A keyed hash of credential, path and key.
    pub request: [u8; 32],
    /// A keyed hash of the arguments.
    pub body: [u8; 32],
}

impl RequestFingerprint {
    /// The fingerprint of a request with an `Idempotency-Key`, if its route supports that.
    pub fn of(context: &RequestContext) -> Option<Self> {
        let request = context.request;
        let key = request.idempotency_key.filter(|_| request.route.is_idempotent())?;
        let keys = context.executor.store.keys();
        let mut named = match &context.identity {
            Some(identity) => credential_bytes(&identity.credential),
            None => Vec::new(),
        };
        let path = std::iter::once(request.route.path);
        for part in path.chain(request.params.iter().map(String::as_str)) {
            named.extend_from_slice(part.as_bytes());
            named.push(0);
        }
        named.extend_from_slice(key);
        // A query is included although a POST does not read it.
        let query = request.query.as_bytes();
        let body = request.arguments.bytes();
        let sent = [&(query.len() as u64).to_be_bytes(), query, &body].concat();
        Some(RequestFingerprint {
            request: keys.hash("roadstead 2026 idempotency request", &named),
            body: keys.hash("roadstead 2026 idempotency body", &sent),
        })
    }

    /// Returns the answer to an earlier identical request, if there was one.
    ///
    /// # Errors
    /// 409 if the key was used with other arguments, or if the answer was not stored.
    pub fn replay(&self, tx: &Tx) -> Result<Option<Vec<u8>>> {
        let Some(record) = tx.get::<IdempotencyRecord>(&self.request)? else { return Ok(None) };
        if record.at < tx.now().minus_secs(RETENTION_SECS) {
            return Ok(None);
        }
        if record.body != self.body {
            return Err(Error::conflict(
                "idempotency_key_reused",
                "this Idempotency-Key was used with another body before; use a new one",
            ));
        }
        record.answer.map(Some).ok_or_else(|| {
            Error::conflict(
                "answer_not_kept",
                "this request was executed before, and its answer was not stored: it held a secret \
                 that is shown only once, or had more than 2 MiB",
            )
        })
    }

    /// Stores an answer, unless it shows a secret or is too large: then only the fact that the
    /// request was answered is stored, if it was a write. A read may as well be repeated.
    pub fn store(&self, tx: &mut Tx, answer: &Answer, has_changed: bool) -> Result<()> {
        let is_stored = !answer.shows_secret && answer.body.len() <= MAX_STORED_BYTES;
        if !is_stored && !has_changed {
            return Ok(());
        }
        tx.put(&IdempotencyRecord {
            request: self.request,
            body: self.body,
            answer: is_stored.then(|| answer.body.clone()),
            at: tx.now(),
        })
    }
}
