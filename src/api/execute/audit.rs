//! Audit entries of requests and of refusals.

use std::time::Instant;

use super::context::RequestContext;
use super::request::Request;
use crate::api::audit::{self, AuditOutcome, Audited, append_pending};
use crate::api::org_source::OrgSource;
use crate::api::request::Principal;
use crate::auth::{key_organization, user_organizations};
use crate::base::{Id, LogLimit, Result};
use crate::store::{Store, Tx, WorkHints};

/// Inserts the audit entry: into the organization of the request or, for a request without one,
/// into each organization of the user (with an API key: into that of the key).
pub fn audit(tx: &mut Tx, who: &Principal, audited: Audited) -> Result<()> {
    let identity = match who {
        Principal::Anonymous => return Ok(()),
        Principal::Caller(caller) => return audit::audit(tx, &caller.identity, audited),
        Principal::Signer(signer) => return audit::audit_peer(tx, &signer.pubkey, audited),
        Principal::Identity(identity) => identity,
    };
    let organizations = match key_organization(identity) {
        Some(org) => vec![org],
        None => user_organizations(&tx.view(), identity.user)?,
    };
    for org in organizations {
        tx.set_org(org);
        audit::audit(tx, identity, audited.clone())?;
    }
    Ok(())
}

/// Steps of [`append_pending`] before a list: some thousand entries, milliseconds.
const MAX_STEPS: usize = 8;

/// Appends the entries of everything that was answered before now to the audit logs, so that what is read
/// next has them. The background job does it for all others a moment later.
pub async fn append_answered(store: &Store) {
    let end = Id::new(store.clock().new_id());
    let mut from = Id::NIL;
    for _ in 0..MAX_STEPS {
        // What fails here is appended by the job, which says why it could not be.
        match store.write(Id::NIL, move |tx| append_pending(tx, from, end)).await {
            Ok(Some(last)) => from = last,
            Ok(None) | Err(_) => return,
        }
    }
}

/// Inserts the audit entry of a refusal, in a separate transaction: the refused one was discarded.
pub async fn audit_refusal(context: &RequestContext) {
    /// On a full disk every refusal fails so.
    static LIMIT: LogLimit = LogLimit::new();
    let refused = context.clone();
    let work = WorkHints { bytes: 0, ..context.work };
    let written = context.executor.store.write_as(work, Id::NIL, move |tx| {
        let Request { route, origin, .. } = &*refused.request;
        let (who, org) = {
            let (who, view) = refused.auth().resolve(&tx.view(), &refused.hint)?;
            (who, view.org())
        };
        // Users of other organizations who read public resources leave no entry.
        if matches!(who, Principal::Identity(_))
            && !matches!(route.org_source, OrgSource::Installation)
        {
            return Ok(());
        }
        tx.set_org(org);
        let (action, outcome) = (route.name, AuditOutcome::Refused);
        let (resource, detail, request_id) = (None, None, &*origin.request_id);
        audit(tx, &who, Audited { action, resource, detail, peer: None, request_id, outcome })
    });
    if let Err(error) = written.await
        && let Some(suppressed) = LIMIT.admit(Instant::now())
    {
        tracing::warn!(%error, suppressed, "the audit entry of a refusal could not be written");
    }
}
