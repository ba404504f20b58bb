//! Requests of outside agents, signed with a Nostr key (NIP-98; reference: exchange, "Signed
//! requests").

use std::sync::Arc;

use super::context::RequestContext;
use super::executor::Executor;
use super::request::Request;
use crate::api::org_source::OrgSource;
use crate::api::public_url_required;
use crate::api::used_events::UsedEvent;
use crate::auth::nostr::{Claim, SignedTarget, Signer};
use crate::auth::{RawCredential, organization_named};
use crate::base::{Error, Id, Kind, PublicKey, Result};
use crate::store::{Org, Record as _, Tx, View};

impl Executor {
    /// Returns who signed a request; what it signed of the body is compared later. A client that is
    /// refused because too much is sent hears that after a delay.
    ///
    /// # Errors
    /// 503 if the server does not know its own URL, 401, 429, 503 if too many are sent to the
    /// organization.
    pub(super) async fn identify_signer(&self, request: &Request) -> Result<Arc<Signer>> {
        if request.origin.link_base.is_empty() {
            return Err(public_url_required());
        }
        let admitted = self.admit_signer(request).await;
        if let Err(error) = &admitted
            && matches!(error.kind(), Kind::Limited | Kind::Busy)
        {
            let [random] = self.store.clock().random();
            self.refusal_delay.wait(random, self.stopped()).await;
        }
        admitted.map(Arc::new)
    }

    /// Counts a request against the limits of its sender and checks its signature: first what costs
    /// the least.
    pub(super) async fn admit_signer(&self, request: &Request) -> Result<Signer> {
        let RawCredential::Nostr(token) = &request.credential else {
            return Err(Error::unauthenticated(
                "sign the request with a Nostr key (NIP-98), as Authorization: Nostr <event>; API \
                 keys and sessions are not accepted here",
            ));
        };
        self.coordination.take_signed(request.origin.address)?;
        let method = if request.is_head { "HEAD" } else { request.route.method.as_str() };
        let target =
            SignedTarget { base: &request.origin.link_base, target: &request.target, method };
        let claim = Claim::read(token, self.store.clock().now(), target)?;
        let find = |view: &View| find_accepted(view, request, claim.pubkey());
        let Addressed { org, has_accepted } = self.store.read(Id::NIL, find).await?;
        let count = || self.coordination.take_signed_for(org, request.origin.address);
        if !has_accepted {
            count()?;
            return self.signature_checks.verify(claim, request.origin.address).await;
        }
        let key = claim.pubkey().clone();
        let verified = self.signature_checks.verify(claim, request.origin.address).await;
        // Anyone can send the key of another: without its signature, or beyond what is reserved for
        // it, it is a stranger's request, which also hides that the key is accepted.
        if verified.is_err() || !self.coordination.take_reserved(org, key.bytes()) {
            count()?;
        }
        verified
    }
}

/// The organization that a signed request is about.
struct Addressed {
    /// [`Id::NIL`] if there is none: those requests share the limits of one.
    org: Id<Org>,
    /// Whether it has accepted the key that the request names.
    has_accepted: bool,
}

fn find_accepted(view: &View, request: &Request, pubkey: &PublicKey) -> Result<Addressed> {
    let unknown = Addressed { org: Id::NIL, has_accepted: false };
    let OrgSource::InPath(access) = request.route.org_source else { return Ok(unknown) };
    let slug = request.params.first().map_or("", String::as_str);
    let Some(org) = organization_named(view, slug)? else { return Ok(unknown) };
    let has_accepted = (access.has_accepted)(&view.in_org(org), &request.params, pubkey)?;
    Ok(Addressed { org, has_accepted })
}

/// Remembers the event of a request, in a transaction of its own: even if the request is refused
/// then, the event was used. So is that of a request to an organization that does not exist: a
/// repetition must not tell which ones do.
///
/// # Errors
/// 401 if it was used before; 404 of the organization.
pub async fn use_event(context: &RequestContext, signer: &Signer) -> Result<()> {
    let found = context.read(context.work, |view, _| Ok(view.org())).await;
    let (org, unknown) = match found {
        Ok(org) => (org, None),
        Err(error) if error.kind() == Kind::NotFound => (Id::NIL, Some(error)),
        Err(error) => return Err(error),
    };
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
