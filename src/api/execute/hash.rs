//! Operations with a password: look, hash, write. 20 ms of hashing would stop everybody else in a
//! transaction.

use super::audit::audit;
use super::context::RequestContext;
use crate::api::action::HashAction;
use crate::api::ledger::{Audited, Outcome};
use crate::api::output::Answer;
use crate::api::request::Who;
use crate::auth::{RawCredential, in_session};
use crate::base::{Id, Result};

/// Runs an operation with a password.
pub async fn hash(
    context: &RequestContext<'_>,
    mut operation: Box<dyn HashAction>,
) -> Result<Answer> {
    let (executor, request) = (context.executor, context.request);
    let who = match &context.identity {
        Some(identity) => Who::Identity(identity.clone()),
        None => Who::Anyone,
    };
    let work = executor.store.read(Id::NIL, |view| operation.look(view, &who)).await?;
    if let Some((email, known)) = &work.attempt {
        executor.coordination.take_sign_in(email, *known, request.address)?;
    }
    let hashed = executor.passwords.work(work.hashing).await?;
    let gatekeeper = executor.clone();
    let credential = request.credential.clone();
    let action = request.route.name;
    let request_id = request.request_id.to_string();
    let written = executor.store.write(Id::NIL, move |tx| {
        // Whoever signed out meanwhile may no longer do this.
        let who = match credential {
            RawCredential::Absent => Who::Anyone,
            _ => Who::Identity(gatekeeper.gatekeeper.identify(&tx.view(), &credential)?),
        };
        let (answer, user) = operation.settle(tx, &who, &hashed)?;
        let who = Who::Identity(in_session(tx, user)?);
        let outcome = Outcome::Success;
        audit(tx, &who, Audited { action, resource: None, request_id: &request_id, outcome })?;
        Ok(answer)
    });
    written.await
}
