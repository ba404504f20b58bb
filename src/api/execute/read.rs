//! Reads at a snapshot, with outgoing calls if the operation makes some.

use super::call_round::{CallRound, MAX_ROUNDS, too_many_rounds};
use super::context::RequestContext;
use super::etag::Etag;
use super::response::{Body, Response};
use crate::api::action::{BoundRead, CallTime};
use crate::api::calls::Calls;
use crate::api::output::EncodedOutput;
use crate::api::request::Principal;
use crate::base::Result;
use crate::store::View;

/// Answers a read, run until all results of its calls are known.
pub async fn read(
    context: &RequestContext,
    operation: BoundRead,
    time: CallTime,
) -> Result<Response> {
    let mut round: Option<CallRound> = None;
    for _ in 0..MAX_ROUNDS {
        let run = |view: &View, who: &Principal| {
            let mut calls = round.as_ref().map_or_else(Calls::default, CallRound::calls);
            // The tag is a hash of the whole answer, so it is made where that may take its time.
            let end = operation(view, who, &mut calls).map(|answer| conditional(context, answer));
            Ok((end, calls.into_pending()))
        };
        let work = round.as_ref().map_or(context.work, |round| round.work(context.work));
        let (end, asked) = context.read(work, run).await?;
        if asked.is_empty() {
            return end;
        }
        let new = || CallRound::new(context, time);
        round.get_or_insert_with(new).run(asked, context.lanes()).await?;
    }
    Err(too_many_rounds())
}

/// The response of a read: with a tag if it is one thing, without a body if the client has it.
fn conditional(context: &RequestContext, answer: EncodedOutput) -> Response {
    if !context.request.route.has_tag() {
        return Response::json(answer.body);
    }
    let tag = Etag::of(&answer.body);
    let is_wanted = !context.request.preconditions.has(&tag);
    let body = if answer.is_text { Body::Text } else { Body::Json };
    Response::tagged(tag, is_wanted.then(|| body(answer.body.into())))
}
