//! Operations with a password: prepare, hash, write. Inside a transaction, 20 ms of hashing would
//! block every other writer.

use super::audit::audit;
use super::context::RequestContext;
use crate::api::action::{Attempt, HashAction};
use crate::api::audit::{AuditOutcome, Audited};
use crate::api::org_source::OrgHint;
use crate::api::output::EncodedOutput;
use crate::api::request::Principal;
use crate::auth::in_session;
use crate::auth::passwords::Lane;
use crate::base::{Id, Result};

/// Runs an operation with a password.
pub async fn hash(
    context: &RequestContext<'_>,
    mut operation: Box<dyn HashAction>,
) -> Result<EncodedOutput> {
    let (executor, request) = (context.executor, context.request);
    let who = match &context.identity {
        Some(identity) => Principal::Identity(identity.clone()),
        None => Principal::Anonymous,
    };
    let plan = executor.store.read(Id::NIL, |view| operation.prepare(view, &who)).await?;
    match &plan.attempt {
        None => {}
        Some(Attempt::Email(email, known)) => {
            executor.coordination.take_sign_in(email, *known, request.address)?;
        }
        Some(Attempt::Address) => executor.coordination.take_attempt_of(request.address)?,
    }
    let is_known = matches!(plan.attempt, Some(Attempt::Email(_, true)));
    let verifies = plan.attempt.is_some();
    let lane = if is_known || context.identity.is_some() { Lane::Known } else { Lane::Unknown };
    let hashed = executor.passwords.run(lane, plan.hashing).await?;
    let auth = context.auth(&OrgHint::default());
    let action = request.route.name;
    let request_id = request.request_id.to_string();
    let written = executor.store.write_as(context.work, Id::NIL, move |tx| {
        // The session may have been revoked meanwhile.
        let identity = auth.auth_request().identify(&tx.view())?;
        let who = identity.map_or(Principal::Anonymous, Principal::Identity);
        let (answer, user) = operation.complete(tx, &who, &hashed)?;
        let who = match user {
            Some(user) => Principal::Identity(in_session(tx, user)?),
            None => who,
        };
        let outcome = AuditOutcome::Success;
        let (resource, detail, request_id) = (None, None, &*request_id);
        audit(tx, &who, Audited { action, resource, detail, peer: None, request_id, outcome })?;
        Ok(answer)
    });
    let written = written.await;
    if let Err(error) = &written
        && verifies
        && executor.meters.sign_in_failed(error)
    {
        // Tools that ban addresses read this line: packaging/fail2ban. What was typed may be a
        // password in the wrong field, so no part of it is logged.
        let (client, request_id) = (request.address, request.request_id);
        let route = format!("/api{}", request.route.path);
        tracing::info!(%client, route, request_id, "sign-in failed");
    }
    written
}
