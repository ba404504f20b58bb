//! The context of a request in the pipeline.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::authorize::{AuthContext, AuthRequest};
use super::executor::Executor;
use super::request::Request;
use crate::api::org_source::{OrgHint, OrgSlugMode};
use crate::api::read::SourceFormat;
use crate::api::request::{Principal, RawArgs, Uploaded};
use crate::auth::Identity;
use crate::auth::nostr::Signer;
use crate::base::{Id, Result};
use crate::store::{Lane, View, WorkHints};

/// A request whose credential was verified, and its executor.
pub struct RequestContext<'a> {
    pub executor: &'a Arc<Executor>,
    pub request: &'a Request<'a>,
    pub identity: Option<Arc<Identity>>,
    /// The outside agent that signed the request.
    pub signer: Option<Arc<Signer>>,
    /// Hints for the store about its work.
    pub work: WorkHints,
}

impl RequestContext<'_> {
    /// Reads in the snapshot in which the caller is authorized; again in the turn of its lane, if
    /// that costs much.
    ///
    /// # Errors
    /// As [`AuthRequest::authorize`], and those of `read`.
    pub async fn read<T>(
        &self,
        work: WorkHints,
        hint: &OrgHint,
        mut read: impl FnMut(&View, &Principal) -> Result<T>,
    ) -> Result<T> {
        let read = |view: &View| {
            let (who, view) = self.auth_request().authorize(view, hint)?;
            read(&view, &who)
        };
        self.executor.store.read_in_turn(work, Id::NIL, self.request.at, read).await
    }

    /// Returns the address of the caller, if it is an outside agent.
    pub fn outside_address(&self) -> Option<IpAddr> {
        self.signer.is_some().then_some(self.request.address)
    }

    /// Returns the user, as a lane of its own, and the lane of the caller.
    pub fn lanes(&self) -> (Lane, Lane) {
        let lane = self.work.lane;
        (self.identity.as_ref().map_or(lane, |identity| *identity.user.bytes()), lane)
    }

    fn auth_request(&self) -> AuthRequest<'_> {
        let Request { route, credential, .. } = self.request;
        let signer = self.signer.as_ref();
        AuthRequest { authenticator: &self.executor.authenticator, route, credential, signer }
    }

    /// Returns what authorizes the caller again, later or in a transaction.
    pub fn auth(&self, hint: &OrgHint) -> AuthContext {
        AuthContext {
            executor: self.executor.clone(),
            route: self.request.route.clone(),
            credential: self.request.credential.clone(),
            signer: self.signer.clone(),
            hint: hint.clone(),
            trace: self.request.trace,
            work: self.work,
        }
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
            unread_query: if mode == SourceFormat::Body { self.request.query } else { "" },
            is_lenient: self.request.is_lenient,
            wants_text: self.request.wants_text,
            is_conditional: self.names_a_state(),
            org: source.org_slug(),
            reference: source.argument(),
            targets: self.request.route.target_arguments(),
            upload: self.request.arguments.upload(),
            ..self.raw_of_reading(arguments, mode)
        }
    }

    /// The arguments for the GET of the same path, once the organization is known. It ignores those
    /// that only the called route takes.
    pub fn raw_of_reading<'b>(&'b self, arguments: &'b Value, mode: SourceFormat) -> RawArgs<'b> {
        RawArgs {
            params: self.request.params.clone(),
            arguments,
            mode,
            unread_query: "",
            is_lenient: true,
            wants_text: false,
            is_conditional: false,
            org: OrgSlugMode::Ignored,
            reference: None,
            targets: Vec::new(),
            upload: Uploaded::default(),
            address: self.request.address,
            link_base: self.request.link_base,
            sends_mail: self.executor.outside.mail.is_configured(),
            system: self.executor.system.clone(),
            keys: self.executor.store.keys(),
        }
    }
}
