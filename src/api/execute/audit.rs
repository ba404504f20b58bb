//! Writing down who did what, or was not allowed to.

use super::authorize::resolve;
use super::context::RequestContext;
use crate::api::audit::{self, AuditOutcome, Audited};
use crate::api::request::Principal;
use crate::api::scope::{OrgHint, Scope};
use crate::auth::{key_organization, user_organizations};
use crate::base::{Id, Result};
use crate::store::Tx;

/// Writes the audit entry: in the organization the request is about, or, for what somebody does
/// outside of any, in each they are in (with a key: in the one it is for).
pub fn audit(tx: &mut Tx, who: &Principal, audited: Audited) -> Result<()> {
    let identity = match who {
        Principal::Anonymous => return Ok(()),
        Principal::Caller(caller) => return audit::audit(tx, &caller.identity, audited),
        Principal::Identity(identity) => identity,
    };
    let organizations = match key_organization(identity) {
        Some(org) => vec![org],
        None => user_organizations(&tx.view(), identity.user)?,
    };
    for org in organizations {
        tx.enter(org);
        audit::audit(tx, identity, audited)?;
    }
    Ok(())
}

/// Writes down that somebody was not allowed to do something: in a transaction of its own, since
/// theirs left nothing.
pub async fn audit_refusal(context: &RequestContext<'_>, hint: &OrgHint) {
    let auth = context.auth(hint);
    let request_id = context.request.request_id.to_string();
    let written = context.executor.store.write(Id::NIL, move |tx| {
        let (route, authenticator) = (&auth.route, &auth.executor.authenticator);
        let (credential, hint) = (&auth.credential, &auth.hint);
        let (who, org) = {
            let (who, view) = resolve(authenticator, route, credential, &tx.view(), hint)?;
            (who, view.org())
        };
        // Somebody else's organization does not hear of those who read what is public in it.
        if matches!(who, Principal::Identity(_)) && !matches!(route.scope, Scope::Installation) {
            return Ok(());
        }
        tx.enter(org);
        let (action, outcome) = (route.name, AuditOutcome::Refused);
        audit(tx, &who, Audited { action, resource: None, request_id: &request_id, outcome })
    });
    if let Err(error) = written.await {
        tracing::warn!(%error, "a refusal could not be written to the audit log");
    }
}
