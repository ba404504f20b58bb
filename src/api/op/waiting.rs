//! Operations that wait.

use std::sync::Arc;

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{
    Action, ContentVersion, Readiness, TakenItem, TakenPage, WaitAction, WatchAction,
};
use crate::api::common_params::cursor;
use crate::api::output::{EncodedOutput, Output};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Req};
use crate::base::Result;
use crate::store::{Page, Tx, View};

/// Waits (`wait`, 0 to 60 seconds) until `poll` finds items, then takes a page of them. As a stream
/// it continues indefinitely, and each item is an event named `event`.
pub fn take<P: PathParams, I: Input + JsonSchema, O: Output>(
    event: &'static str,
    poll: fn(&View, &Req<P, I>) -> Result<Readiness>,
    take: fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let CommonParams { wait_secs, list, .. } = *common;
        let args = Arc::new(args);
        let of_poll = args.clone();
        Action::Wait(WaitAction {
            poll: Box::new(move |view, who| poll(view, &Req::new(&of_poll, who))),
            take: Arc::new(move |tx, who| {
                let page = take(tx, &Req::new(&args, who))?;
                let next_cursor = page.next.map(|position| cursor(&list, &position));
                Ok(TakenPage { items: TakenItem::all(&page.items)?, next_cursor })
            }),
            wait_secs,
        })
    };
    Operation::new::<P, I, O>(Shape::Wait(event), bind).showing::<O>()
}

/// Reads one thing, waiting (`wait`, 0 to 60 seconds) while it is what the client already has;
/// `version` returns its version.
pub fn watch<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: fn(&View, &Req<P, I>) -> Result<O>,
    version: fn(&View, &Req<P, I>) -> Result<ContentVersion>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let args = Arc::new(args);
        let of_read = args.clone();
        Action::Watch(WatchAction {
            read: Box::new(move |view, who| {
                EncodedOutput::read(&read(view, &Req::new(&of_read, who))?)
            }),
            version: Box::new(move |view, who| version(view, &Req::new(&args, who))),
            wait_secs: common.wait_secs,
        })
    };
    Operation::new::<P, I, O>(Shape::Watch, bind).showing::<O>()
}
