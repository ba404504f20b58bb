//! A request on its way through the pipeline.

use std::sync::Arc;

use serde_json::Value;

use super::authorize::{AuthContext, authorize};
use super::executor::Executor;
use super::request::Request;
use crate::api::read::SourceFormat;
use crate::api::request::{Principal, RawArgs};
use crate::api::scope::{OrgHint, OrgSlugMode};
use crate::auth::Identity;
use crate::base::{Id, Result};
use crate::store::View;

/// A request whose credential was verified, with what it is executed with.
pub struct RequestContext<'a> {
    pub executor: &'a Arc<Executor>,
    pub request: &'a Request<'a>,
    pub identity: Option<Arc<Identity>>,
}

impl RequestContext<'_> {
    /// Reads as the caller, at the very state at which they are admitted: 404 of the organization,
    /// 403 of the role.
    pub async fn read<T>(
        &self,
        hint: &OrgHint,
        read: impl FnOnce(&View, &Principal) -> Result<T>,
    ) -> Result<T> {
        let Request { route, credential, .. } = self.request;
        let authenticator = &self.executor.authenticator;
        let read = |view: &View| {
            let (who, view) = authorize(authenticator, route, credential, view, hint)?;
            read(&view, &who)
        };
        self.executor.store.read(Id::NIL, read).await
    }

    /// What admits the caller again, later and elsewhere.
    pub fn auth(&self, hint: &OrgHint) -> AuthContext {
        AuthContext {
            executor: self.executor.clone(),
            route: self.request.route.clone(),
            credential: self.request.credential.clone(),
            hint: hint.clone(),
        }
    }

    /// The arguments, for the route that was called.
    pub fn raw<'b>(&'b self, arguments: &'b Value, mode: SourceFormat) -> RawArgs<'b> {
        let scope = self.request.route.scope;
        RawArgs {
            org: scope.org_slug(),
            reference: scope.argument(),
            content: self.request.arguments.content(),
            ..self.raw_of_reading(arguments, mode)
        }
    }

    /// The same for the GET of the same path, once the organization is known.
    pub fn raw_of_reading<'b>(&'b self, arguments: &'b Value, mode: SourceFormat) -> RawArgs<'b> {
        RawArgs {
            params: self.request.params.clone(),
            arguments,
            mode,
            org: OrgSlugMode::Ignored,
            reference: None,
            content: bytes::Bytes::new(),
            address: self.request.address,
            link_base: self.request.link_base,
            keys: self.executor.store.keys(),
        }
    }
}
