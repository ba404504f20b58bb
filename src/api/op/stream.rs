//! Operations whose answer is what other servers say, passed on as it comes.

use std::sync::Arc;

use schemars::JsonSchema;

use super::{CommonParams, Operation, SchemaOf, Shape};
use crate::api::action::Action;
use crate::api::batch::Batch;
use crate::api::exchange::{Exchange, Prepared, PreparedBatch, StreamAction, StreamWork};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Req};
use crate::base::Result;
use crate::store::View;

/// Has `prepare` say what is called, passes on the text of the answer as it comes to a client that asks
/// for a stream, and answers what the exchange concludes. The audit log has an entry of each.
pub fn stream<P: PathParams, I: Input + JsonSchema, E: Exchange>(
    prepare: fn(&View, &Req<P, I>) -> Result<Prepared<E>>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        Action::Stream(StreamAction {
            prepare: Box::new(move |view, who| {
                let Prepared { exchange, server, pauses } = prepare(view, &Req::new(&args, who))?;
                Ok((StreamWork::Exchange(Box::new(exchange), pauses), server))
            }),
        })
    };
    let operation = Operation::new::<P, I, E::Answer>(Shape::Stream, bind);
    Operation { calls: true, ..operation }
}

/// Has `prepare` say what is asked about, passes on what came of each thing, as an event of this name, to a
/// client that asks for a stream, and answers what the batch concludes. The audit log has an entry of each.
pub fn batch<P: PathParams, I: Input + JsonSchema, B: Batch>(
    event: &'static str,
    prepare: fn(&View, &Req<P, I>) -> Result<PreparedBatch<B>>,
) -> Operation
where
    B::Item: JsonSchema,
{
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        Action::Stream(StreamAction {
            prepare: Box::new(move |view, who| {
                let PreparedBatch { batch, server, time } = prepare(view, &Req::new(&args, who))?;
                let batch = Arc::new(batch);
                Ok((StreamWork::Batch { batch, time, event }, server))
            }),
        })
    };
    let operation = Operation::new::<P, I, B::Answer>(Shape::Batch(event), bind);
    let item: SchemaOf = |generator| generator.subschema_for::<B::Item>();
    Operation { calls: true, item: Some(item), ..operation }
}
