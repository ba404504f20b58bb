//! Replay of answers to requests with an `Idempotency-Key` (reference: conventions, "Idempotency").

use super::context::RequestContext;
use crate::api::idempotency::{IdempotencyRecord, RETENTION_SECS};
use crate::api::output::EncodedOutput;
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
    /// The fingerprint of the credential.
    credential: [u8; 32],
    /// How many bytes of answers may still be stored for the credential.
    room: u64,
}

impl RequestFingerprint {
    /// The fingerprint of a request with an `Idempotency-Key`, if its route supports that and changes
    /// something: what changes nothing may as well be done again.
    pub fn of(context: &RequestContext) -> Result<Option<Self>> {
        let request = &context.request;
        let has_record = request.route.is_idempotent() && request.route.changes();
        let Some(key) = request.idempotency_key.as_ref().filter(|_| has_record) else {
            return Ok(None);
        };
        let keys = context.executor.store.keys();
        // Each request of an outside agent has another credential; its key is the same.
        let (mut named, credential) = match (context.identity(), context.signer()) {
            (Some(identity), _) => {
                (credential_bytes(&identity.credential), request.credential.fingerprint())
            }
            (None, Some(signer)) => (signer.pubkey.as_bytes().to_vec(), signer.pubkey.bytes()),
            (None, None) => (Vec::new(), request.credential.fingerprint()),
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
        Ok(Some(RequestFingerprint {
            credential,
            room: context.executor.coordination.answer_room(&credential)?,
            request: keys.hash("roadstead 2026 idempotency request", &named),
            body: keys.hash("roadstead 2026 idempotency body", &sent),
        }))
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
                 that is shown only once, had more than 2 MiB, or the answers stored for this credential \
                 within a day had 64 MiB",
            )
        })
    }

    /// Stores an answer, or only the fact that the request was answered, if the answer shows a secret
    /// or is too large. Returns which of the two.
    pub fn store(&self, tx: &mut Tx, answer: &EncodedOutput) -> Result<Recorded> {
        let is_stored = !answer.shows_secret
            && answer.body.len() <= MAX_STORED_BYTES
            && answer.body.len() as u64 <= self.room;
        tx.put(&IdempotencyRecord {
            request: self.request,
            body: self.body,
            answer: is_stored.then(|| answer.body.clone()),
            at: tx.now(),
        })?;
        Ok(if is_stored { Recorded::EncodedOutput } else { Recorded::Fact })
    }

    /// Counts an answer that is stored durably now.
    pub fn count(&self, context: &RequestContext, answer: &EncodedOutput) {
        context.executor.coordination.count_answer(self.credential, answer.body.len() as u64);
    }
}

/// What is stored about a request, for its repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Nothing: it had no `Idempotency-Key`, or changed nothing.
    Nothing,
    /// That it was executed, but not its answer.
    Fact,
    /// Its answer.
    EncodedOutput,
}
