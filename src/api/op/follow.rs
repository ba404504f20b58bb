//! Operations that follow a list.

use std::sync::Arc;

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{Action, FollowAction, FollowPoint, Followed, TakenItem};
use crate::api::common_params::cursor;
use crate::api::output::Output;
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Principal, Req};
use crate::base::{Error, Result};
use crate::store::View;

type FollowFn<P, I, O> = fn(&View, &Req<P, I>, &FollowPoint) -> Result<Followed<O>>;

/// Reads a list page by page; where it ends, waits (`wait`, 0 to 60 seconds) until it grows. As a stream
/// it continues indefinitely: each new item is an event named `event`, whose id is that of the item, and a
/// client that connects again goes on after the last one that it had.
pub fn follow<P: PathParams, I: Input + JsonSchema, O: Output>(
    event: &'static str,
    read: FollowFn<P, I, O>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let CommonParams { wait_secs, list, .. } = *common;
        Action::Follow(Arc::new(Follow { args, wait_secs, list, read }))
    };
    Operation::new::<P, I, O>(Shape::Follow(event), bind).showing::<O>()
}

struct Follow<P, I, O> {
    args: Args<P, I>,
    wait_secs: u64,
    list: [u8; 32],
    read: FollowFn<P, I, O>,
}

impl<P: PathParams, I: Input, O: Output> FollowAction for Follow<P, I, O> {
    fn read(
        &self,
        view: &View,
        who: &Principal,
        point: &FollowPoint,
    ) -> Result<Followed<TakenItem>> {
        let Followed { items, next, end, begin, topic, again_at } =
            (self.read)(view, &Req::new(&self.args, who), point)?;
        let items = items.iter().map(|thing| {
            let json = serde_json::to_value(thing)
                .map_err(|e| Error::internal(format!("cannot be written: {e}")))?;
            let id = thing.resource().map(|resource| resource.id).unwrap_or_default();
            Ok(TakenItem { id, json })
        });
        let items = items.collect::<Result<_>>()?;
        Ok(Followed { items, next, end, begin, topic, again_at })
    }

    fn cursor(&self, position: &[u8]) -> String {
        cursor(&self.list, position)
    }

    fn wait_secs(&self) -> u64 {
        self.wait_secs
    }
}
