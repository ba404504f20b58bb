//! Who answers for the keys of service accounts (reference: identity-and-rights, "Service accounts").
//!
//! Such a key has no more rights than its sponsor has at present, so that it stops when they leave.
//! The answers that take away the rights of a member list the keys, and another admin takes them over.

use std::ops::ControlFlow;

use super::keys::{ApiKeyInfo, fetch_active, to_info};
use crate::api::{Req, Resource, Route, op};
use crate::auth::{ApiKey, KEYS_BY_SPONSOR, SESSION_ADMIN, User};
use crate::base::{Error, Id, Result};
use crate::store::{Order, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// An answer lists at most 1,000 keys; GET /api-keys with `createdBy` lists all.
const MAX_LISTED: usize = 1000;

/// Returns the keys of service accounts for which a user answers, oldest first.
pub(super) fn sponsored_by(view: &View, user: Id<User>) -> Result<Vec<ApiKeyInfo>> {
    let mut keys = Vec::new();
    let by = (view.org(), user);
    view.for_each(&KEYS_BY_SPONSOR, &by, Order::Ascending, |key: ApiKey| {
        keys.push(key);
        let is_full = keys.len() == MAX_LISTED;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    keys.into_iter().map(|key| to_info(view, key)).collect()
}

/// From now on the caller answers for the key. Its text and what it may do stay.
fn take_over(tx: &mut Tx, req: &Req<Id<ApiKey>>) -> Result<ApiKeyInfo> {
    let caller = req.caller();
    let old = fetch_active(&tx.view(), caller, req.params)?;
    if !tx.fetch::<User>(&old.user)?.is_service() {
        return Err(Error::conflict(
            "not_a_service_account_key",
            "this key acts as the person who created it; only keys of service accounts are taken \
             over",
        ));
    }
    let (created_by, taken_over_at) = (caller.user(), Some(tx.now()));
    let new = ApiKey { created_by, taken_over_at, ..old.clone() };
    tx.replace(&old, &new)?;
    to_info(&tx.view(), new)
}

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/api-keys/{keyId}/take-over",
            SESSION_ADMIN,
            "api_key.take_over",
            op::write(take_over),
        )
        .about("Take over a service account's key"),
    ]
}
