//! Answers kept for an `Idempotency-Key`, for those who ask the same again
//! (reference: conventions, "Idempotency").

use super::context::RequestContext;
use crate::api::idempotency::{IdempotencyRecord, RETENTION_SECS};
use crate::api::output::Answer;
use crate::auth::credential_bytes;
use crate::base::{Error, Result};
use crate::store::Tx;

/// Answers of up to so many bytes are kept: with what stands beside it, one must fit into a record
/// (2 MiB). A text that was compiled may be larger as JSON.
const MAX_STORED_BYTES: usize = 2 * 1024 * 1024 - 1024;

/// What makes a request the same as one before.
#[derive(Clone, Copy)]
pub struct RequestFingerprint {
    /// A keyed hash of credential, path and key.
    pub request: [u8; 32],
    /// A keyed hash of the arguments.
    pub body: [u8; 32],
}

impl RequestFingerprint {
    /// That of a request with an `Idempotency-Key`, to a route that looks at it.
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
        // A query counts where something stands in it, though a POST does not look at it.
        let query = request.query.as_bytes();
        let body = request.arguments.bytes();
        let sent = [&(query.len() as u64).to_be_bytes(), query, &body].concat();
        Some(RequestFingerprint {
            request: keys.hash("roadstead 2026 idempotency request", &named),
            body: keys.hash("roadstead 2026 idempotency body", &sent),
        })
    }

    /// What the same request was answered before, if it was.
    ///
    /// # Errors
    /// 409 if the key came with other arguments, or if the answer was not kept.
    pub fn replay(&self, tx: &Tx) -> Result<Option<Vec<u8>>> {
        let Some(kept) = tx.get::<IdempotencyRecord>(&self.request)? else { return Ok(None) };
        if kept.at < tx.now().minus_secs(RETENTION_SECS) {
            return Ok(None);
        }
        if kept.body != self.body {
            return Err(Error::conflict(
                "idempotency_key_reused",
                "this Idempotency-Key came with another body before; use a new one",
            ));
        }
        kept.answer.map(Some).ok_or_else(|| {
            Error::conflict(
                "answer_not_kept",
                "this was done before, and its answer is not kept: it held a secret that is shown \
                 only once, or had more than 2 MiB",
            )
        })
    }

    /// Keeps an answer, unless it shows a secret or is too large: then it is kept that it was given,
    /// if something was changed. What changed nothing may as well be asked again.
    pub fn keep(&self, tx: &mut Tx, answer: &Answer, has_changed: bool) -> Result<()> {
        let is_kept = !answer.shows_secret && answer.body.len() <= MAX_STORED_BYTES;
        if !is_kept && !has_changed {
            return Ok(());
        }
        tx.put(&IdempotencyRecord {
            request: self.request,
            body: self.body,
            answer: is_kept.then(|| answer.body.clone()),
            at: tx.now(),
        })
    }
}
