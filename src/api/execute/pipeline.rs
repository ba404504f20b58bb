//! The steps of every request, in their order (reference: conventions, "Order of checks").

use std::sync::Arc;

use serde_json::Value;

use super::audit::audit_refusal;
use super::authorize::{authorize, identify};
use super::condition::IfMatch;
use super::context::RequestContext;
use super::executor::Executor;
use super::not_found::locate;
use super::read::{conditional, read};
use super::replay::RequestFingerprint;
use super::request::{Authenticated, Request};
use super::response::{Body, Response};
use super::write::{Written, write};
use super::{download, hash, wait, watch};
use crate::api::action::{Action, BoundRead, BoundRequest, BoundWrite, WaitAction};
use crate::api::calls::{Calls, Outcome};
use crate::api::op::Shape;
use crate::api::read::SourceFormat;
use crate::api::request::Principal;
use crate::api::scope::OrgHint;
use crate::auth::{Credential, Identity, RawCredential};
use crate::base::{Id, Kind, Result};
use crate::store::{Tx, View};

impl Executor {
    /// Executes a request whose arguments are complete.
    ///
    /// # Errors
    /// Those of each step; a 403 is recorded in the audit log.
    pub async fn call(self: &Arc<Self>, request: &Request<'_>) -> Result<Response> {
        let caller = self.authenticate(request).await?;
        self.execute(request, caller).await
    }

    /// The first steps, before the body is read: setup, authentication, rate limit.
    ///
    /// # Errors
    /// 503 before setup, 401, 429.
    pub async fn authenticate(&self, request: &Request<'_>) -> Result<Authenticated> {
        if !request.route.open_before_setup {
            self.require_setup()?;
        }
        let is_absent = request.credential == RawCredential::Absent;
        let identity = if is_absent && request.route.policy.public_read {
            self.require_public(request).await?;
            None
        } else {
            self.identify(request).await?
        };
        let bucket = identity.as_ref().map(|_| request.credential.fingerprint());
        self.coordination.take_request(bucket, request.address)?;
        Ok(Authenticated(identity))
    }

    /// Authenticates the credential; records the use of an API key.
    async fn identify(&self, request: &Request<'_>) -> Result<Option<Arc<Identity>>> {
        let identify =
            |view: &View| identify(&self.authenticator, request.route, view, &request.credential);
        let identity = self.store.read(Id::NIL, identify).await?;
        if let Some(identity) = &identity
            && let Credential::Key { id, .. } = identity.credential
        {
            self.key_usage.record(id, self.store.clock().now());
        }
        Ok(identity)
    }

    /// Requires that the resource of an anonymous request is public.
    ///
    /// # Errors
    /// 401 otherwise, before any other error, so that an anonymous client learns neither whether
    /// the resource exists nor what else is wrong with the request.
    async fn require_public(&self, request: &Request<'_>) -> Result<()> {
        let route = request.route;
        let (arguments, _) = request.arguments.parse(request.query)?;
        let hint = OrgHint::unchecked(route.scope, &arguments, &request.params);
        let is_admitted = |view: &View| {
            authorize(&self.authenticator, route, &RawCredential::Absent, view, &hint).map(drop)
        };
        self.store.read(Id::NIL, is_admitted).await
    }

    /// The remaining steps: binding the arguments, and running the operation.
    ///
    /// # Errors
    /// 400 with every problem of the arguments, and those of the operation; a 403 is recorded in
    /// the audit log.
    pub async fn execute(
        self: &Arc<Self>,
        request: &Request<'_>,
        Authenticated(identity): Authenticated,
    ) -> Result<Response> {
        let (arguments, mode) = request.arguments.parse(request.query)?;
        let context = RequestContext { executor: self, request, identity };
        let BoundRequest { hint, action } = request.route.bind(context.raw(&arguments, mode))?;
        let answered = run(&context, action, &hint, &arguments, mode).await;
        let answered = answered
            .map_err(|error| locate(error, request.route.path, &request.params, &arguments));
        match &answered {
            Err(error) if error.kind() == Kind::Forbidden => audit_refusal(&context, &hint).await,
            Ok(_) if request.route.open_before_setup => self.end_setup(),
            _ => {}
        }
        answered
    }
}

/// Runs the operation by its kind.
async fn run(
    context: &RequestContext<'_>,
    action: Action,
    hint: &OrgHint,
    arguments: &Value,
    mode: SourceFormat,
) -> Result<Response> {
    let fingerprint = RequestFingerprint::of(context);
    match action {
        // The answer to a query with an `Idempotency-Key` is stored, and so written.
        Action::Read(reading, time) if fingerprint.is_some() => {
            answer(write(context, stored(reading), time, hint, fingerprint, None).await)
        }
        Action::Read(reading, time) => {
            read(context, reading, time, hint).await.map(|answer| conditional(context, answer))
        }
        Action::Write(writing, time) => {
            let expected = IfMatch::of(context, hint, arguments, mode)?;
            answer(write(context, writing, time, hint, fingerprint, expected).await)
        }
        Action::Hash(operation) => {
            hash::hash(context, operation).await.map(|answer| Response::json(answer.body))
        }
        Action::Wait(operation) => wait(context, operation, hint).await,
        Action::Watch(operation) => watch::watch(context, &*operation, hint).await,
        Action::Download(operation) => {
            let stream = download::download(context, operation, hint).await?;
            Ok(Response::of(Body::Download(stream)))
        }
    }
}

/// Answers an operation that waits: with the first items, or with a stream of all items.
async fn wait(
    context: &RequestContext<'_>,
    operation: Arc<dyn WaitAction>,
    hint: &OrgHint,
) -> Result<Response> {
    match context.request.route.operation.shape {
        Shape::Wait(_) if context.request.is_head => {
            wait::probe(context, operation, hint).await?;
            Ok(Response::of(Body::Untaken { is_stream: context.request.is_stream }))
        }
        Shape::Wait(event) if context.request.is_stream => {
            let items = wait::stream(context, operation, hint).await?;
            Ok(Response::of(Body::Items(event, items)))
        }
        _ => wait::wait(context, operation, hint).await.map(Response::json),
    }
}

/// A read whose answer is kept.
fn stored(reading: BoundRead) -> BoundWrite {
    Box::new(move |tx: &mut Tx, who: &Principal, calls: &mut Calls| {
        reading(&tx.view(), who, calls).map(Outcome::Done)
    })
}

fn answer(written: Result<Written>) -> Result<Response> {
    match written? {
        Written::Done(answer) => Ok(Response::json(answer.body)),
        Written::Replayed(body) => Ok(Response { is_replayed: true, ..Response::json(body) }),
        Written::Refused(error) => Err(error),
    }
}
