//! Operations whose answer is the text of another server, passed on as it comes.

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::Action;
use crate::api::exchange::{AnyExchange, Exchange, Prepared, StreamAction};
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
                let exchange: Box<dyn AnyExchange> = Box::new(exchange);
                Ok(Prepared { exchange, server, pauses })
            }),
        })
    };
    let operation = Operation::new::<P, I, E::Answer>(Shape::Stream, bind);
    Operation { calls: true, ..operation }
}
