//! Operations with a password: prepare, hash, write. Inside a transaction, 20 ms of hashing would
//! block every other writer.

use super::audit::audit;
use super::context::RequestContext;
use super::request::Request;
use crate::api::action::{Attempt, HashAction};
use crate::api::audit::{AuditOutcome, Audited};
use crate::api::calls::Outcome;
use crate::api::output::EncodedOutput;
use crate::api::request::Principal;
use crate::auth::in_session;
use crate::auth::passwords::Lane;
use crate::base::{Error, Id, Result};
use crate::store::{View, WorkHints};

/// Runs an operation with a password.
pub async fn hash(
    context: &RequestContext,
    HashAction { prepare, complete }: HashAction,
) -> Result<EncodedOutput> {
    let (executor, request) = (&context.executor, &context.request);
    let who = context.identity().cloned().map_or(Principal::Anonymous, Principal::Identity);
    let plan = |view: &View| {
        // Before it counts as an attempt.
        context.auth().require_recent_proof(view, &who)?;
        prepare(view, &who)
    };
    let plan = executor.store.read(Id::NIL, plan).await?;
    match &plan.attempt {
        None | Some(Attempt::Invited(..)) => {}
        Some(Attempt::Email(email, known)) => {
            executor.coordination.take_sign_in(email, *known, request.origin.address)?;
        }
        Some(Attempt::Code(email)) => {
            executor.coordination.take_attempt_of(request.origin.address)?;
            executor.coordination.take_sign_in(email, true, request.origin.address)?;
        }
        Some(Attempt::Address) => executor.coordination.take_attempt_of(request.origin.address)?,
    }
    let verifies =
        matches!(plan.attempt, Some(Attempt::Email(..) | Attempt::Code(_) | Attempt::Address));
    let lane = lane_of(plan.attempt.as_ref(), context.identity().is_some());
    let hashed = executor.passwords.run(lane, plan.hashing).await?;
    let hashing = context.clone();
    let written = executor.store.write_as(context.work, Id::NIL, move |tx| {
        // The session may have been revoked meanwhile.
        let identity = hashing.auth().identify(&tx.view())?;
        let who = identity.map_or(Principal::Anonymous, Principal::Identity);
        let (answer, user) = match complete(tx, &who, &hashed)? {
            Outcome::Done(done) => done,
            // What records the refusal is committed.
            Outcome::Refused(error) => return Ok(Err(error)),
            Outcome::Partial(_) => return Err(Error::internal("a password has no parts")),
        };
        let who = match user {
            Some(user) => Principal::Identity(in_session(tx, user)?),
            None => who,
        };
        let outcome = AuditOutcome::Success;
        let Request { route, origin, .. } = &*hashing.request;
        let (action, request_id) = (route.name, &*origin.request_id);
        let (resource, detail) = (answer.resource.as_ref(), None);
        if !route.unaudited {
            let peer = None;
            audit(tx, &who, Audited { action, resource, detail, peer, request_id, outcome })?;
        }
        Ok(Ok(answer))
    });
    let written = written.await.flatten();
    if let Err(error) = &written
        && verifies
        && executor.meters.sign_in_failed(error)
    {
        // Tools that ban addresses read this line: packaging/fail2ban. What was typed may be a
        // password in the wrong field, so no part of it is logged.
        let (client, request_id) = (request.origin.address, &request.origin.request_id);
        let route = format!("/api{}", request.route.path);
        tracing::info!(%client, route, request_id, "sign-in failed");
    }
    written
}

/// The lane in which the password of an attempt is hashed.
fn lane_of(attempt: Option<&Attempt>, is_identified: bool) -> Lane {
    match attempt {
        _ if is_identified => Lane::Known,
        Some(Attempt::Email(_, true) | Attempt::Code(_)) => Lane::Known,
        Some(Attempt::Invited(inviter, org)) => {
            let (user, lane) = (*inviter.bytes(), *org.bytes());
            Lane::Invited(WorkHints { lane, user, bytes: 0 })
        }
        Some(Attempt::Email(_, false) | Attempt::Address) | None => Lane::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::base::Email;

    #[test]
    fn the_invited_wait_in_the_turn_of_inviter_and_organization_and_strangers_for_each_other() {
        let [inviter, org] = [1, 2].map(Uuid::from_u128);
        let invited = Attempt::Invited(Id::new(inviter), Id::new(org));
        let Lane::Invited(turn) = lane_of(Some(&invited), false) else { panic!("another lane") };
        assert_eq!((turn.user, turn.lane), (inviter.into_bytes(), org.into_bytes()));
        let email = |is_known| Attempt::Email(Email::parse("ada@open.test").unwrap(), is_known);
        assert!(matches!(lane_of(Some(&email(true)), false), Lane::Known));
        assert!(matches!(lane_of(Some(&invited), true), Lane::Known));
        for stranger in [Some(&email(false)), Some(&Attempt::Address), None] {
            assert!(matches!(lane_of(stranger, false), Lane::Unknown));
        }
    }
}
