//! The transaction of a write, the same for all routes: authorization, replay, `If-Match`, the
//! operation, the audit entry, the idempotency record.

use std::sync::{Arc, Mutex};

use super::audit::audit;
use super::call_round::{CallRound, MAX_ROUNDS, too_many_rounds};
use super::condition::IfMatch;
use super::context::RequestContext;
use super::replay::{Recorded, RequestFingerprint};
use super::request::Request;
use crate::api::action::{BoundWrite, CallTime};
use crate::api::audit::{AuditOutcome, Audited};
use crate::api::calls::{Calls, Outcome, PendingCalls, Position};
use crate::api::output::{EncodedOutput, PeerRef, ResourceRef};
use crate::api::request::{Principal, path_names};
use crate::api::route::Method;
use crate::auth::{RequiredCredential, in_session};
use crate::base::{Error, Id, Kind, Result};
use crate::store::Tx;

/// The result of a committed transaction.
pub enum Written {
    /// The operation was done, and this is stored for repetitions.
    Done(EncodedOutput, Recorded),
    /// The request was executed before; this is its stored answer.
    Replayed(Vec<u8>),
    /// The operation refused it; what it wrote to record that is committed.
    Refused(Error),
    /// A part is done, which may have written something; the operation continues here.
    Partial { next: String, has_changes: bool },
}

/// The parts of a transaction other than the operation.
struct Transaction {
    context: RequestContext,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<IfMatch>,
}

/// How far the earlier transactions of a write came.
#[derive(Clone, Default)]
struct Progress {
    /// Where the operation continues.
    position: Option<String>,
    /// Whether they wrote something, and with it the audit entry.
    has_changes: bool,
}

/// Transactions of one operation, so that one that does not advance ends: the largest version is
/// cloned in some 500.
const MAX_PARTS: usize = 2_000;

/// Runs a write.
pub async fn write(
    context: &RequestContext,
    mut operation: BoundWrite,
    time: CallTime,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<IfMatch>,
) -> Result<Written> {
    let transaction = Transaction { context: context.clone(), fingerprint, expected };
    if time.is_some() {
        return write_calling(context, operation, time, transaction).await;
    }
    let attempt = move |tx: &mut Tx| {
        transaction
            .run(tx, &Progress::default(), |tx, who| operation(tx, who, &mut Calls::default()))
    };
    context.executor.store.write_as(context.work, Id::NIL, attempt).await
}

/// Runs a write until all results of its calls are known, and only that run is committed; again for
/// each of its parts, if it has some.
async fn write_calling(
    context: &RequestContext,
    operation: BoundWrite,
    time: CallTime,
    transaction: Transaction,
) -> Result<Written> {
    // Taken only if there are calls: otherwise the store alone serializes repeated requests.
    let mut claim = None;
    let fingerprint = transaction.fingerprint;
    let shared = Arc::new((transaction, Mutex::new(operation)));
    let mut round = CallRound::new(context, time);
    let mut progress = Progress::default();
    let (mut rounds, mut parts, mut is_counted) = (0, 0, false);
    while rounds < MAX_ROUNDS && parts < MAX_PARTS {
        let asked = Arc::new(Mutex::new(PendingCalls::default()));
        let attempt = {
            let (shared, known, asked) = (shared.clone(), round.known(), asked.clone());
            let (progress, turn) = (progress.clone(), round.turn());
            move |tx: &mut Tx| {
                // Those of a run before, if this one is refused before the operation.
                *asked.lock().map_err(|_| too_many_rounds())? = PendingCalls::default();
                let (transaction, operation) = &*shared;
                transaction.run(tx, &progress, |tx, who| {
                    let mut calls = Calls::new(known.clone()).at(progress.position.clone());
                    let mut operation = operation.lock().map_err(|_| too_many_rounds())?;
                    let outcome = operation(tx, who, &mut calls);
                    let mut asked = asked.lock().map_err(|_| too_many_rounds())?;
                    *asked = calls.into_pending();
                    // Some results are not known yet: nothing of this attempt may be committed.
                    if !asked.is_empty() {
                        return Err(too_many_rounds());
                    }
                    turn.end();
                    outcome
                })
            }
        };
        let work = round.work(context.work);
        let written = context.executor.store.write_as(work, Id::NIL, attempt).await;
        let asked = std::mem::take(&mut *asked.lock().map_err(|_| too_many_rounds())?);
        let part = match written {
            Ok(Written::Partial { next, has_changes }) if asked.is_empty() => {
                Some((next, has_changes))
            }
            written if asked.is_empty() => return written,
            // It is not why the run ended: what it asked for may rest on what was never stored.
            Err(error) if error.kind() != Kind::Internal => return Err(error),
            _ => None,
        };
        if let (None, Some(fingerprint)) = (&claim, fingerprint) {
            claim = Some(context.executor.coordination.begin(fingerprint.request)?);
        }
        if let Some((next, has_changes)) = part {
            progress.position = Some(next);
            progress.has_changes |= has_changes;
            (rounds, parts) = (0, parts + 1);
        } else {
            rounds += 1;
            if round.take_turn(asked.turn, context.lanes().0).await? {
                continue;
            }
            if !std::mem::replace(&mut is_counted, true) {
                count_attempt(context)?;
            }
            round.run(asked, context.lanes()).await?;
        }
    }
    Err(too_many_rounds())
}

/// Counts a request that makes calls as an attempt to sign in, if it asks for no credential: guesses of who
/// signs in with a provider must not keep it and this server busy. By the route: a credential that it does
/// not ask for changes nothing.
fn count_attempt(context: &RequestContext) -> Result<()> {
    if context.request.route.policy.credential != RequiredCredential::None {
        return Ok(());
    }
    context.executor.coordination.take_attempt_of(context.request.origin.address)
}

impl Transaction {
    /// May be run more than once.
    fn run(
        &self,
        tx: &mut Tx,
        progress: &Progress,
        mut operation: impl FnMut(&mut Tx, &Principal) -> Result<Outcome<EncodedOutput>>,
    ) -> Result<Written> {
        let who = self.context.enter(tx)?;
        let wanted = &self.context.request.preconditions;
        if self.context.request.route.method == Method::Delete {
            tx.mark_deletion();
        }
        if let Some(fingerprint) = &self.fingerprint
            && let Some(stored) = fingerprint.replay(tx)?
        {
            return Ok(Written::Replayed(stored));
        }
        if let Some(expected) = &self.expected {
            expected.check_preconditions(wanted, tx, &who)?;
        }
        let answer = match operation(tx, &who)? {
            Outcome::Done(answer) => answer,
            Outcome::Refused(error) => return Ok(Written::Refused(error)),
            Outcome::Partial(Position { next, resource }) => {
                let has_changes = tx.has_changes();
                if has_changes && !progress.has_changes {
                    self.audit(tx, &who, resource, None)?;
                }
                return Ok(Written::Partial { next, has_changes });
            }
        };
        // After the operation, so that a missing resource is 404 and not 412.
        if let Some(expected) = &self.expected {
            expected.require_tag(wanted)?;
        }
        // What is there already is answered as it is: there is nothing to record.
        if !tx.has_changes() && !progress.has_changes {
            return Ok(Written::Done(answer, Recorded::Nothing));
        }
        if !progress.has_changes && !self.context.request.route.unaudited {
            let acted = answer.actor.map(|user| in_session(tx, user)).transpose()?;
            let who = acted.map_or(who, Principal::Identity);
            self.audit(tx, &who, answer.resource.clone(), answer.peer.as_ref())?;
            if let Some(also) = &answer.also {
                self.audit(tx, &who, Some(also.clone()), answer.peer.as_ref())?;
            }
        }
        let recorded = match &self.fingerprint {
            Some(fingerprint) => fingerprint.store(tx, &answer)?,
            None => Recorded::Nothing,
        };
        Ok(Written::Done(answer, recorded))
    }

    fn audit(
        &self,
        tx: &mut Tx,
        who: &Principal,
        resource: Option<ResourceRef>,
        peer: Option<&PeerRef>,
    ) -> Result<()> {
        let named = || self.context.request.params.last().and_then(ResourceRef::id);
        let resource = resource.or_else(named);
        let audited = Audited {
            action: self.context.request.route.name,
            resource: resource.as_ref(),
            detail: self.belongs_to(),
            peer,
            request_id: &self.context.request.origin.request_id,
            outcome: AuditOutcome::Success,
        };
        audit(tx, who, audited)
    }

    /// What the resource belongs to, as the path names it: all its parameters but the last
    /// (`environmentId …`, of a secret).
    fn belongs_to(&self) -> Option<String> {
        let Request { route, params, .. } = &*self.context.request;
        let named = path_names(route.path).zip(&**params);
        let named: Vec<_> = named.map(|(name, value)| format!("{name} {value}")).collect();
        let (_, before) = named.split_last()?;
        (!before.is_empty()).then(|| before.join(", "))
    }
}
