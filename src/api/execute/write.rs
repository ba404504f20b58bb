//! The transaction of a writing route, once for all of them: who calls, may they, was it answered
//! before, is it still as they saw it, the operation, the audit entry, the answer to keep.

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
use crate::api::op::Shape;
use crate::api::output::{Answer, ResourceRef};
use crate::api::request::Principal;
use crate::api::scope::OrgHint;
use crate::base::{Error, Id, Result};
use crate::store::Tx;

/// How a transaction ended that was committed.
pub enum Written {
    /// The operation was done.
    Done(Answer),
    /// It was done before; this is what was answered then.
    Replayed(Vec<u8>),
    /// It was refused, and what it wrote of that stays.
    Refused(Error),
}

/// All of a transaction but the operation.
struct Transaction {
    auth: AuthContext,
    request_id: String,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<IfMatch>,
}

/// Runs a writing operation.
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
    context.executor.store.write(Id::NIL, attempt).await
}

/// Runs it until it asks for nothing that it does not know: that run is committed.
async fn write_calling(
    context: &RequestContext<'_>,
    operation: BoundWrite,
    time: CallTime,
    transaction: Transaction,
) -> Result<Written> {
    // Where nobody outside is asked, the store alone puts repeats in a row.
    let mut claim = None;
    let fingerprint = transaction.fingerprint;
    let shared = Arc::new((transaction, Mutex::new(operation)));
    let mut round = CallRound::new(context.executor, time);
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
                    // What was asked is not known yet: nothing of this attempt may stay.
                    if asked.is_empty() { outcome } else { Err(too_many_rounds()) }
                })
            }
        };
        let written = context.executor.store.write(Id::NIL, attempt).await;
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
    /// It may be run again.
    fn run(
        &self,
        tx: &mut Tx,
        mut operation: impl FnMut(&mut Tx, &Principal) -> Result<Outcome<Answer>>,
    ) -> Result<Written> {
        let who = self.auth.enter(tx)?;
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
        // Not before the operation: that there is no such thing (404) is said first.
        if let Some(expected) = &self.expected {
            expected.require_tag()?;
        }
        let has_changed = self.auth.route.operation.shape == Shape::Write;
        if has_changed {
            self.audit(tx, &who, &answer)?;
        }
        if let Some(fingerprint) = &self.fingerprint {
            fingerprint.keep(tx, &answer, has_changed)?;
        }
        Ok(Written::Done(answer))
    }

    fn audit(&self, tx: &mut Tx, who: &Principal, answer: &Answer) -> Result<()> {
        let named = || self.auth.hint.params.last().and_then(ResourceRef::id);
        let resource = answer.resource.clone().or_else(named);
        let audited = Audited {
            action: self.auth.route.name,
            resource: resource.as_ref(),
            request_id: &self.request_id,
            outcome: AuditOutcome::Success,
        };
        audit(tx, who, audited)
    }
}
