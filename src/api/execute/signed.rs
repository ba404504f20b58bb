//! Requests of outside agents, signed with a Nostr key (NIP-98; reference: exchange, "Signed
//! requests").

use std::sync::Arc;

use super::context::RequestContext;
use super::executor::Executor;
use super::request::Request;
use crate::api::org_source::OrgHint;
use crate::api::used_events::UsedEvent;
use crate::auth::RawCredential;
use crate::auth::nostr::{Claim, SignedTarget, Signer};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{Record as _, Tx};

/// When to retry without a public URL: an operator must restart the server first.
const RETRY_SECS: u32 = 3600;

impl Executor {
    /// Returns who signed a request; what it signed of the body is compared later.
    ///
    /// # Errors
    /// 503 if the server does not know its own URL, 401, 429.
    pub(super) fn identify_signer(&self, request: &Request) -> Result<Arc<Signer>> {
        if request.link_base.is_empty() {
            return Err(Error::busy(
                "public_url_required",
                "the server does not know its own URL, which requests to the exchange sign; start \
                 it with --public-url",
                RETRY_SECS,
            ));
        }
        let RawCredential::Nostr(token) = &request.credential else {
            return Err(Error::unauthenticated(
                "sign the request with a Nostr key (NIP-98), as Authorization: Nostr <event>; API \
                 keys and sessions are not accepted here",
            ));
        };
        let method = if request.is_head { "HEAD" } else { request.route.method.as_str() };
        let target = SignedTarget { base: request.link_base, target: request.target, method };
        let claim = Claim::read(token, self.store.clock().now(), target)?;
        // Counted before the signature is checked, which costs the most.
        self.coordination.take_signed(request.address)?;
        claim.verify().map(Arc::new)
    }
}

/// Remembers the event of a request, in a transaction of its own: even if the request is refused
/// then, the event was used. So is that of a request to an organization that does not exist: a
/// repetition must not tell which ones do.
///
/// # Errors
/// 401 if it was used before; 404 of the organization; 503 if too many are sent to it.
pub async fn use_event(
    context: &RequestContext<'_>,
    hint: &OrgHint,
    signer: &Signer,
) -> Result<()> {
    let found = context.read(context.work, hint, |view, _| Ok(view.org())).await;
    let (org, unknown) = match found {
        Ok(org) => (org, None),
        Err(error) if error.kind() == Kind::NotFound => (Id::NIL, Some(error)),
        Err(error) => return Err(error),
    };
    context.executor.coordination.take_signed_for(org)?;
    let used = UsedEvent { ends_at: signer.ends_at(), id: signer.event };
    let insert = move |tx: &mut Tx| {
        if tx.get::<UsedEvent>(&used.key())?.is_some() {
            return Err(Error::unauthenticated(
                "the event was used before; sign a new one for each request",
            ));
        }
        tx.insert(&used)
    };
    context.executor.store.write_as(context.work, org, insert).await?;
    unknown.map_or(Ok(()), Err)
}
