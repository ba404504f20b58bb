//! The context of a request in the pipeline.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::authorize::Auth;
use super::executor::Executor;
use super::request::{Authenticated, Request};
use crate::api::org_source::OrgHint;
use crate::api::read::SourceFormat;
use crate::api::request::{Principal, RawArgs};
use crate::auth::Identity;
use crate::auth::nostr::Signer;
use crate::base::{Error, Id, Result, address_block};
use crate::store::{Lane, Tx, View, WorkHints};

/// A request whose credential was verified, and its executor: what every step needs, now and later.
#[derive(Clone)]
pub struct RequestContext {
    pub executor: Arc<Executor>,
    pub request: Arc<Request>,
    pub caller: Authenticated,
    /// How the organization is found; empty until the arguments are bound.
    pub hint: Arc<OrgHint>,
    /// Hints for the store about its work.
    pub work: WorkHints,
}

impl RequestContext {
    /// Who calls, if the caller has an account.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.caller.identity()
    }

    /// The outside agent that signed the request.
    pub fn signer(&self) -> Option<&Arc<Signer>> {
        self.caller.signer()
    }

    /// What authorizes the caller.
    pub fn auth(&self) -> Auth<'_> {
        self.executor.auth(&self.request, self.signer())
    }

    /// See [`Auth::authorize`]. The rights are those in `view`: a request that goes on does it again.
    pub fn authorize<'v>(&self, view: &View<'v>) -> Result<(Principal, View<'v>)> {
        self.auth().authorize(view, &self.hint)
    }

    /// Authorizes the caller and scopes the transaction to the organization.
    pub fn enter(&self, tx: &mut Tx) -> Result<Principal> {
        let (who, org) = {
            let (who, view) = self.authorize(&tx.view())?;
            (who, view.org())
        };
        tx.set_org(org);
        tx.set_trace(self.request.origin.trace);
        Ok(who)
    }

    /// Reads in the snapshot in which the caller is authorized, which is the one in which they were
    /// identified, if that is held; again in the turn of its lane, if that costs much.
    ///
    /// # Errors
    /// As [`Auth::authorize`], and those of `read`; 503 if it is to be light, and costs much.
    pub async fn read<T>(
        &self,
        work: WorkHints,
        mut read: impl FnMut(&View, &Principal) -> Result<T>,
    ) -> Result<T> {
        let mut read = |view: &View| {
            let (who, view) = self.authorize(view)?;
            read(&view, &who)
        };
        let (store, at) = (&self.executor.store, self.request.at.as_ref());
        let held = self.request.identified_at().take();
        if self.request.is_light || held.is_some() {
            let end = store.read_light(Id::NIL, at.or(held.as_ref()), &mut read).await;
            // Not held while a turn is waited for.
            drop(held);
            match end {
                Some(end) => return end,
                None if self.request.is_light => {
                    return Err(Error::busy("overloaded", "it takes more than may run at once", 1));
                }
                None => return store.read_heavy(work, Id::NIL, at, read).await,
            }
        }
        store.read_in_turn(work, Id::NIL, at, read).await
    }

    /// Whether the caller has no credential of any kind.
    pub fn is_anonymous(&self) -> bool {
        self.identity().is_none() && self.signer().is_none()
    }

    /// Returns the address of the caller, if it is an outside agent.
    pub fn outside_address(&self) -> Option<IpAddr> {
        self.signer().is_some().then_some(self.request.origin.address)
    }

    /// Returns the user, as a lane of its own, and the lane of the caller. Who has no credential has the lane
    /// of the address: others without one must not wait for them.
    pub fn lanes(&self) -> (Lane, Lane) {
        let lane = self.work.lane;
        let own = match self.identity() {
            Some(identity) => *identity.user.bytes(),
            None if self.is_anonymous() => match address_block(self.request.origin.address) {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            },
            None => lane,
        };
        (own, lane)
    }

    /// Whether the request has an `If-Match` that names states, which `*` does not.
    fn names_a_state(&self) -> bool {
        let tags = &self.request.preconditions.if_match;
        let mut all = tags.iter().flat_map(|tags| tags.split(|byte| *byte == b','));
        !tags.is_empty() && all.all(|tag| tag.trim_ascii() != b"*")
    }

    /// The arguments for the called route.
    pub fn raw<'b>(&'b self, arguments: &'b Value, mode: SourceFormat) -> RawArgs<'b> {
        let source = self.request.route.org_source;
        RawArgs {
            unread_query: if mode == SourceFormat::Body { &self.request.query } else { "" },
            is_lenient: self.request.is_lenient,
            wants_text: self.request.wants_text,
            is_conditional: self.names_a_state(),
            org: source.org_slug(),
            reference: source.argument(),
            targets: self.request.route.target_arguments(),
            upload: self.request.arguments.upload(),
            mode,
            ..self.raw_in_body(arguments)
        }
    }

    /// The arguments for the GET of the same path, once the organization is known. It ignores those
    /// that only the called route takes.
    pub fn raw_of_reading<'b>(&'b self, arguments: &'b Value, mode: SourceFormat) -> RawArgs<'b> {
        RawArgs { mode, is_lenient: true, ..self.raw_in_body(arguments) }
    }

    fn raw_in_body<'b>(&'b self, arguments: &'b Value) -> RawArgs<'b> {
        let Request { params, origin, .. } = &*self.request;
        RawArgs::body(params, arguments, (origin, &self.executor.server))
    }
}
