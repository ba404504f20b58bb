//! The transaction of a write, the same for all routes: authorization, replay, `If-Match`, the
//! operation, the audit entry, the idempotency record.

use std::sync::{Arc, Mutex};

use super::audit::audit;
use super::authorize::AuthContext;
use super::call_round::{CallRound, MAX_ROUNDS, too_many_rounds};
use super::condition::IfMatch;
use super::context::RequestContext;
use super::replay::RequestFingerprint;
use crate::api::action::{BoundWrite, CallTime};
use crate::api::audit::{AuditOutcome, Audited};
use crate::api::calls::{Calls, Outcome, PendingCalls};
use crate::api::output::{Answer, ResourceRef};
use crate::api::request::Principal;
use crate::api::route::Method;
use crate::api::scope::OrgHint;
use crate::base::{Error, Id, Result};
use crate::store::Tx;

/// The result of a committed transaction.
pub enum Written {
    /// The operation was done.
    Done(Answer),
    /// The request was executed before; this is its stored answer.
    Replayed(Vec<u8>),
    /// The operation refused it; what it wrote to record that is committed.
    Refused(Error),
}

/// The parts of a transaction other than the operation.
struct Transaction {
    auth: AuthContext,
    request_id: String,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<IfMatch>,
}

/// Runs a write.
pub async fn write(
    context: &RequestContext<'_>,
    mut operation: BoundWrite,
    time: CallTime,
    hint: &OrgHint,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<IfMatch>,
) -> Result<Written> {
    let transaction = Transaction {
        auth: context.auth(hint),
        request_id: context.request.request_id.into(),
        fingerprint,
        expected,
    };
    if time.is_some() {
        return write_calling(context, operation, time, transaction).await;
    }
    let attempt =
        move |tx: &mut Tx| transaction.run(tx, |tx, who| operation(tx, who, &mut Calls::default()));
    context.executor.store.write_as(context.work, Id::NIL, attempt).await
}

/// Runs a write until all results of its calls are known; only that run is committed.
async fn write_calling(
    context: &RequestContext<'_>,
    operation: BoundWrite,
    time: CallTime,
    transaction: Transaction,
) -> Result<Written> {
    // Taken only if there are calls: otherwise the store alone serializes repeated requests.
    let mut claim = None;
    let fingerprint = transaction.fingerprint;
    let shared = Arc::new((transaction, Mutex::new(operation)));
    let mut round = CallRound::new(context.executor, time, context.signer.is_some());
    for _ in 0..MAX_ROUNDS {
        let asked = Arc::new(Mutex::new(PendingCalls::default()));
        let attempt = {
            let (shared, known, asked) = (shared.clone(), round.known(), asked.clone());
            move |tx: &mut Tx| {
                let (transaction, operation) = &*shared;
                transaction.run(tx, |tx, who| {
                    let mut calls = Calls::new(known.clone());
                    let mut operation = operation.lock().map_err(|_| too_many_rounds())?;
                    let outcome = operation(tx, who, &mut calls);
                    let mut asked = asked.lock().map_err(|_| too_many_rounds())?;
                    *asked = calls.into_pending();
                    // Some results are not known yet: nothing of this attempt may be committed.
                    if asked.is_empty() { outcome } else { Err(too_many_rounds()) }
                })
            }
        };
        let work = round.work(context.work);
        let written = context.executor.store.write_as(work, Id::NIL, attempt).await;
        let asked = std::mem::take(&mut *asked.lock().map_err(|_| too_many_rounds())?);
        if asked.is_empty() {
            return written;
        }
        if let (None, Some(fingerprint)) = (&claim, fingerprint) {
            claim = Some(context.executor.coordination.begin(fingerprint.request)?);
        }
        round.run(asked).await?;
    }
    Err(too_many_rounds())
}

impl Transaction {
    /// May be run more than once.
    fn run(
        &self,
        tx: &mut Tx,
        mut operation: impl FnMut(&mut Tx, &Principal) -> Result<Outcome<Answer>>,
    ) -> Result<Written> {
        let who = self.auth.enter(tx)?;
        if self.auth.route.method == Method::Delete {
            tx.mark_deletion();
        }
        if let Some(fingerprint) = &self.fingerprint
            && let Some(stored) = fingerprint.replay(tx)?
        {
            return Ok(Written::Replayed(stored));
        }
        if let Some(expected) = &self.expected {
            expected.check_preconditions(tx, &who)?;
        }
        let answer = match operation(tx, &who)? {
            Outcome::Done(answer) => answer,
            Outcome::Refused(error) => return Ok(Written::Refused(error)),
        };
        // After the operation, so that a missing resource is 404 and not 412.
        if let Some(expected) = &self.expected {
            expected.require_tag()?;
        }
        // What is there already is answered as it is: there is nothing to record.
        if !tx.has_changes() {
            return Ok(Written::Done(answer));
        }
        self.audit(tx, &who, &answer)?;
        if let Some(fingerprint) = &self.fingerprint {
            fingerprint.store(tx, &answer)?;
        }
        Ok(Written::Done(answer))
    }

    fn audit(&self, tx: &mut Tx, who: &Principal, answer: &Answer) -> Result<()> {
        let named = || self.auth.hint.params.last().and_then(ResourceRef::id);
        let resource = answer.resource.clone().or_else(named);
        let audited = Audited {
            action: self.auth.route.name,
            resource: resource.as_ref(),
            peer: answer.peer.as_ref(),
            request_id: &self.request_id,
            outcome: AuditOutcome::Success,
        };
        audit(tx, who, audited)
    }
}
