//! The transaction of a writing route, once for all of them: who calls, may they, was it answered
//! before, is it still as they saw it, the operation, the audit entry, the answer to keep.

use std::sync::{Arc, Mutex};

use super::admit::Admission;
use super::audit::audit;
use super::call_round::{CallRound, MAX_ROUNDS, endless};
use super::condition::Expected;
use super::context::RequestContext;
use super::replay::RequestFingerprint;
use crate::api::action::{CallTime, Writing};
use crate::api::calls::{Asked, Calls, Outcome};
use crate::api::ledger::{self, Audited};
use crate::api::op::Shape;
use crate::api::output::{Answer, ResourceRef};
use crate::api::request::Who;
use crate::api::scope::OrgHint;
use crate::base::{Error, Id, Result};
use crate::store::Tx;

/// How a transaction ended that was committed.
pub enum Written {
    /// The operation was done.
    Now(Answer),
    /// It was done before; this is what was answered then.
    Before(Vec<u8>),
    /// It was refused, and what it wrote of that stays.
    Refused(Error),
}

/// All of a transaction but the operation.
struct Transaction {
    admission: Admission,
    request_id: String,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<Expected>,
}

/// Runs a writing operation.
pub async fn write(
    context: &RequestContext<'_>,
    mut operation: Writing,
    time: CallTime,
    hint: &OrgHint,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<Expected>,
) -> Result<Written> {
    let transaction = Transaction {
        admission: context.admission(hint),
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
    operation: Writing,
    time: CallTime,
    transaction: Transaction,
) -> Result<Written> {
    // Where nobody outside is asked, the store alone puts repeats in a row.
    let mut claim = None;
    let fingerprint = transaction.fingerprint;
    let shared = Arc::new((transaction, Mutex::new(operation)));
    let mut round = CallRound::new(context.executor, time);
    for _ in 0..MAX_ROUNDS {
        let asked = Arc::new(Mutex::new(Asked::default()));
        let attempt = {
            let (shared, known, asked) = (shared.clone(), round.known(), asked.clone());
            move |tx: &mut Tx| {
                let (transaction, operation) = &*shared;
                transaction.run(tx, |tx, who| {
                    let mut calls = Calls::new(known.clone());
                    let mut operation = operation.lock().map_err(|_| endless())?;
                    let outcome = operation(tx, who, &mut calls);
                    let mut asked = asked.lock().map_err(|_| endless())?;
                    *asked = calls.into_pending();
                    // What was asked is not known yet: nothing of this attempt may stay.
                    if asked.is_empty() { outcome } else { Err(endless()) }
                })
            }
        };
        let written = context.executor.store.write(Id::NIL, attempt).await;
        let asked = std::mem::take(&mut *asked.lock().map_err(|_| endless())?);
        if asked.is_empty() {
            return written;
        }
        if let (None, Some(fingerprint)) = (&claim, fingerprint) {
            claim = Some(context.executor.coordination.begin(fingerprint.request)?);
        }
        round.run(asked).await?;
    }
    Err(endless())
}

impl Transaction {
    /// It may be run again.
    fn run(
        &self,
        tx: &mut Tx,
        mut operation: impl FnMut(&mut Tx, &Who) -> Result<Outcome<Answer>>,
    ) -> Result<Written> {
        let who = self.admission.enter(tx)?;
        if let Some(fingerprint) = &self.fingerprint
            && let Some(kept) = fingerprint.replay(tx)?
        {
            return Ok(Written::Before(kept));
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
            expected.must_be_possible()?;
        }
        let has_changed = self.admission.route.operation.shape == Shape::Change;
        if has_changed {
            self.audit(tx, &who, &answer)?;
        }
        if let Some(fingerprint) = &self.fingerprint {
            fingerprint.keep(tx, &answer, has_changed)?;
        }
        Ok(Written::Now(answer))
    }

    fn audit(&self, tx: &mut Tx, who: &Who, answer: &Answer) -> Result<()> {
        let named = || self.admission.hint.params.last().and_then(ResourceRef::id);
        let resource = answer.resource.clone().or_else(named);
        let audited = Audited {
            action: self.admission.route.name,
            resource: resource.as_ref(),
            request_id: &self.request_id,
            outcome: ledger::Outcome::Success,
        };
        audit(tx, who, audited)
    }
}
