//! Operations that follow a list.

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{Action, FollowAction, FollowPoint, Followed, TakenItem};
use crate::api::output::Output;
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Req};
use crate::base::Result;
use crate::store::View;

/// Reads the items after a point.
type Read<P, I, O> = fn(&View, &Req<P, I>, &FollowPoint) -> Result<Followed<O>>;

/// Reads a list page by page; where it ends, waits (`wait`, 0 to 60 seconds) until it grows. As a stream
/// it continues indefinitely: each new item is an event named `event`, whose id is that of the item, and a
/// client that connects again goes on after the last one that it had.
pub fn follow<P: PathParams, I: Input + JsonSchema, O: Output>(
    event: &'static str,
    read: Read<P, I, O>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let CommonParams { wait_secs, list, .. } = *common;
        let read = move |view: &View, who: &_, point: &FollowPoint| {
            let Followed { items, next, end, begin, topic, again_at } =
                read(view, &Req::new(&args, who), point)?;
            let items = TakenItem::all(&items)?;
            Ok(Followed { items, next, end, begin, topic, again_at })
        };
        Action::Follow(FollowAction { read: Box::new(read), list, wait_secs })
    };
    Operation::new::<P, I, O>(Shape::Follow(event), bind).showing::<O>()
}
