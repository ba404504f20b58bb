//! The steps of every request, in their order (reference: conventions, "Order of checks").

use std::sync::Arc;

use super::audit::{append_answered, audit_refusal};
use super::authorize::Auth;
use super::condition::IfMatch;
use super::context::RequestContext;
use super::executor::Executor;
use super::not_found::locate_in;
use super::read::read;
use super::replay::{Recorded, RequestFingerprint};
use super::request::{Authenticated, Request};
use super::response::{Body, Response};
use super::write::{Written, write};
use super::{download, follow, hash, signed, stream, wait, watch};
use crate::api::action::{Action, BoundRequest, FollowAction, WaitAction};
use crate::api::op::Shape;
use crate::api::org_source::OrgHint;
use crate::api::request::Origin;
use crate::auth::nostr::Signer;
use crate::auth::{Credential, Identity, RawCredential, UsedFrom};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{View, WorkHints};

impl Executor {
    /// Executes a request whose arguments are complete.
    ///
    /// # Errors
    /// Those of each step; a 403 is recorded in the audit log.
    pub async fn call(self: &Arc<Self>, request: Request) -> Result<Response> {
        let caller = self.authenticate(&request).await?;
        self.execute(request, caller).await
    }

    /// The first steps, before the body is read: setup, authentication, rate limit.
    ///
    /// # Errors
    /// 503 before setup, 401, 429.
    pub async fn authenticate(&self, request: &Request) -> Result<Authenticated> {
        if !request.route.open_before_setup {
            self.require_setup()?;
        }
        if request.route.policy.is_signed() {
            let signer = Some(Box::pin(self.identify_signer(request)).await?);
            return Ok(Authenticated { identity: None, signer });
        }
        let is_absent = request.credential == RawCredential::Absent;
        let identity = if is_absent && request.route.policy.public_read {
            Box::pin(self.require_public(request)).await?;
            None
        } else {
            self.identify(request).await?
        };
        let counted = identity
            .as_ref()
            .map(|identity| (request.credential.fingerprint(), *identity.person().bytes()));
        let taken = self.coordination.take_request(counted, request.origin.address);
        // For the log: which credential it is.
        taken.map_err(|error| match &identity {
            Some(identity) => error.detail(identity),
            None => error,
        })?;
        Ok(Authenticated { identity, signer: None })
    }

    fn record_use(&self, identity: &Identity, request: &Request) {
        let now = self.store.clock().now();
        match identity.credential {
            Credential::Key { id, .. } => self.key_usage.record(id, now, ()),
            Credential::Session(id) => {
                let Origin { address, user_agent, .. } = &*request.origin;
                let user_agent = user_agent.clone();
                self.session_usage.record(id, now, UsedFrom { address: *address, user_agent });
            }
        }
    }

    /// Authenticates the credential; records its use. A read of a store that is elsewhere goes on in the same
    /// state, since each state takes a round trip: it is one of after the request came, as any later one,
    /// and rights and answer are of one state.
    async fn identify(&self, request: &Request) -> Result<Option<Arc<Identity>>> {
        let identify = |view: &View| self.auth(request, None).identify(view);
        let identity = if self.store.is_remote() && request.reads_at_once() {
            let (identity, point) = Box::pin(self.store.read_first(Id::NIL, identify)).await?;
            *request.identified_at() = Some(point);
            identity
        } else {
            self.store.read(Id::NIL, identify).await?
        };
        if let Some(identity) = &identity {
            self.record_use(identity, request);
        }
        Ok(identity)
    }

    /// Requires that the resource of an anonymous request is public.
    ///
    /// # Errors
    /// 401 otherwise, before any other error, so that an anonymous client learns neither whether
    /// the resource exists nor what else is wrong with the request.
    async fn require_public(&self, request: &Request) -> Result<()> {
        let route = &request.route;
        let (arguments, _) = request.arguments.parse(&request.query)?;
        let hint = OrgHint::unchecked(route.org_source, &arguments, &request.params);
        let is_admitted = |view: &View| self.auth(request, None).authorize(view, &hint).map(drop);
        self.store.read(Id::NIL, is_admitted).await
    }

    /// What is known of the work of a request of this identity before it runs.
    pub(super) fn work_hints(&self, request: &Request, identity: Option<&Identity>) -> WorkHints {
        let lane = self.authenticator.lane(&request.credential, identity);
        let user = identity.map_or(lane, |identity| *identity.person().bytes());
        let work = WorkHints { lane, user, bytes: request.arguments.len() };
        if request.is_costly() { work.costly() } else { work }
    }

    /// What authorizes the caller of a request.
    pub(super) fn auth<'a>(
        &'a self,
        request: &'a Request,
        signer: Option<&'a Arc<Signer>>,
    ) -> Auth<'a> {
        Auth { authenticator: &self.authenticator, request, signer }
    }

    /// The remaining steps: binding the arguments, and running the operation.
    ///
    /// # Errors
    /// 400 with every problem of the arguments, and those of the operation; a 403 is recorded in
    /// the audit log.
    pub async fn execute(
        self: &Arc<Self>,
        request: Request,
        caller: Authenticated,
    ) -> Result<Response> {
        if let Some(signer) = caller.signer() {
            signer.require_payload(&request.arguments.bytes())?;
        }
        let work = self.work_hints(&request, caller.identity().map(|identity| &**identity));
        let (executor, request) = (self.clone(), Arc::new(request));
        let context = RequestContext { executor, request, caller, hint: Arc::default(), work };
        let (context, bound) = if work.is_large() {
            // It waits for a turn.
            drop(context.request.identified_at().take());
            let store = &self.store;
            Box::pin(store.run_in_turn(work, move || Bound::of(context))).await??
        } else {
            Bound::of(context)?
        };
        if let Some(signer) = context.signer() {
            Box::pin(signed::use_event(&context, signer)).await?;
        }
        let request = &context.request;
        if request.route.reads_audit_log && context.identity().is_some() {
            append_answered(&self.store).await;
        }
        let answered = run(&context, bound).await;
        let answered = answered.map_err(|error| locate_in(error, request));
        match &answered {
            // Anyone outside could fill the log with refusals of what they sign.
            Err(error) if error.kind() == Kind::Forbidden && context.signer().is_none() => {
                Box::pin(audit_refusal(&context)).await;
            }
            // Asking whether it is set up sets nothing up.
            Ok(_) if request.route.open_before_setup && request.route.changes() => {
                self.coordination.end_setup();
            }
            _ => {}
        }
        answered
    }
}

/// What is made of a request's arguments before its operation runs. Reading, checking and hashing
/// them may take long.
struct Bound {
    action: Action,
    fingerprint: Option<RequestFingerprint>,
    expected: Option<IfMatch>,
}

impl Bound {
    /// Binds the arguments; in the turn of its lane, if the request is large. The context knows then how
    /// the organization is found.
    fn of(mut context: RequestContext) -> Result<(RequestContext, Self)> {
        let request = context.request.clone();
        let (arguments, mode) = request.arguments.parse(&request.query)?;
        let BoundRequest { hint, action } = request.route.bind(context.raw(&arguments, mode))?;
        context.hint = Arc::new(hint);
        let expected = match action {
            Action::Write(..) => IfMatch::of(&context, &arguments, mode)?,
            _ => None,
        };
        let fingerprint = RequestFingerprint::of(&context)?;
        Ok((context, Bound { action, fingerprint, expected }))
    }
}

/// Runs the operation by its kind. The future of a read is a part of this one; the larger ones of
/// the others are boxed, since hyper copies the future of a request with all that it may hold.
async fn run(context: &RequestContext, bound: Bound) -> Result<Response> {
    let Bound { action, fingerprint, expected } = bound;
    match action {
        Action::Read(reading, time) => read(context, reading, time).await,
        Action::Write(writing, time) => {
            let written = Box::pin(write(context, writing, time, fingerprint, expected)).await;
            if let (Ok(Written::Done(answer, Recorded::EncodedOutput)), Some(fingerprint)) =
                (&written, &fingerprint)
            {
                fingerprint.count(context, answer);
            }
            answer(written)
        }
        Action::Hash(operation) => {
            let hashed = Box::pin(hash::hash(context, operation)).await;
            hashed.map(|answer| Response::json(answer.body))
        }
        Action::Wait(operation) => Box::pin(wait(context, operation)).await,
        Action::Follow(operation) => Box::pin(followed(context, operation)).await,
        Action::Watch(operation) => Box::pin(watch::watch(context, &operation)).await,
        Action::Stream(operation) if context.request.is_stream => {
            let text = Box::pin(stream::stream(context, operation)).await?;
            Ok(Response::of(Body::TextStream(Box::new(text))))
        }
        Action::Stream(operation) => {
            Box::pin(stream::whole(context, operation)).await.map(Response::json)
        }
        Action::Download(media_type, operation) => {
            let stream = Box::pin(download::download(context, media_type, operation)).await?;
            Ok(Response::of(Body::Download(stream)))
        }
    }
}

/// Answers an operation that waits: with the first items, or with a stream of all items.
async fn wait(context: &RequestContext, operation: WaitAction) -> Result<Response> {
    match context.request.route.operation.shape {
        Shape::Wait(_) if context.request.is_head => {
            wait::probe(context, operation).await?;
            Ok(Response::of(Body::Untaken { is_stream: context.request.is_stream }))
        }
        Shape::Wait(event) if context.request.is_stream => {
            let items = wait::stream(context, operation).await?;
            Ok(Response::of(Body::Items(event, Box::new(items))))
        }
        _ => wait::wait(context, operation).await.map(Response::json),
    }
}

/// Answers an operation that follows a list: with a page, or with a stream of what comes.
async fn followed(context: &RequestContext, operation: FollowAction) -> Result<Response> {
    match context.request.route.operation.shape {
        Shape::Follow(_) if context.request.is_head => {
            follow::probe(context, operation).await?;
            Ok(Response::of(Body::Untaken { is_stream: context.request.is_stream }))
        }
        Shape::Follow(event) if context.request.is_stream => {
            let items = follow::stream(context, operation).await?;
            Ok(Response::of(Body::Items(event, Box::new(items.into()))))
        }
        _ => follow::page(context, operation).await.map(Response::json),
    }
}

fn answer(written: Result<Written>) -> Result<Response> {
    match written? {
        Written::Done(answer, recorded) => {
            let is_not_stored = recorded == Recorded::Fact;
            Ok(Response { is_not_stored, ..Response::json(answer.body) })
        }
        Written::Replayed(body) => Ok(Response { is_replayed: true, ..Response::json(body) }),
        Written::Refused(error) => Err(error),
        Written::Partial { .. } => Err(Error::internal("a write without calls has no parts")),
    }
}
