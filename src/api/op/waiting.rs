//! Operations that wait.

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{
    Action, ConditionalWaitAction, ContentVersion, Readiness, TakenItem, TakenPage, WaitAction,
};
use crate::api::common_params::cursor;
use crate::api::output::{EncodedOutput, Output};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Principal, Req};
use crate::base::{Error, Result};
use crate::store::{Page, Tx, View};

type TakeFn<P, I, O> = fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>;
type ReadFn<P, I, T> = fn(&View, &Req<P, I>) -> Result<T>;

/// Waits (`wait`, 0 to 60 seconds) until `poll` finds items, then takes a page of them. As a stream
/// it continues indefinitely, and each item is an event named `event`.
pub fn take<P: PathParams, I: Input + JsonSchema, O: Output>(
    event: &'static str,
    poll: fn(&View, &Req<P, I>) -> Result<Readiness>,
    take: fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let CommonParams { wait_secs, list, .. } = *common;
        Action::Wait(std::sync::Arc::new(Take { args, wait_secs, list, poll, take }))
    };
    Operation::new::<P, I, O>(Shape::Wait(event), bind).showing::<O>()
}

struct Take<P, I, O> {
    args: Args<P, I>,
    wait_secs: u64,
    list: [u8; 32],
    poll: ReadFn<P, I, Readiness>,
    take: TakeFn<P, I, O>,
}

impl<P: PathParams, I: Input, O: Output> WaitAction for Take<P, I, O> {
    fn poll(&self, view: &View, who: &Principal) -> Result<Readiness> {
        (self.poll)(view, &Req::new(&self.args, who))
    }

    fn take(&self, tx: &mut Tx, who: &Principal) -> Result<TakenPage> {
        let page = (self.take)(tx, &Req::new(&self.args, who))?;
        let taken = page.items.iter().map(|thing| {
            let json = serde_json::to_value(thing)
                .map_err(|e| Error::internal(format!("cannot be written: {e}")))?;
            let id = thing.resource().map(|resource| resource.id).unwrap_or_default();
            Ok(TakenItem { id, json })
        });
        let next_cursor = page.next.map(|position| cursor(&self.list, &position));
        Ok(TakenPage { items: taken.collect::<Result<_>>()?, next_cursor })
    }

    fn wait_secs(&self) -> u64 {
        self.wait_secs
    }
}

/// Reads one thing, waiting (`wait`, 0 to 60 seconds) while it is what the client already has;
/// `version` returns its version.
pub fn watch<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: fn(&View, &Req<P, I>) -> Result<O>,
    version: fn(&View, &Req<P, I>) -> Result<ContentVersion>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        Action::Watch(Box::new(Watch { args, wait_secs: common.wait_secs, read, version }))
    };
    Operation::new::<P, I, O>(Shape::Watch, bind).showing::<O>()
}

struct Watch<P, I, O> {
    args: Args<P, I>,
    wait_secs: u64,
    read: ReadFn<P, I, O>,
    version: ReadFn<P, I, ContentVersion>,
}

impl<P: PathParams, I: Input, O: Output> ConditionalWaitAction for Watch<P, I, O> {
    fn read(&self, view: &View, who: &Principal) -> Result<EncodedOutput> {
        EncodedOutput::read(&(self.read)(view, &Req::new(&self.args, who))?)
    }

    fn version(&self, view: &View, who: &Principal) -> Result<ContentVersion> {
        (self.version)(view, &Req::new(&self.args, who))
    }

    fn wait_secs(&self) -> u64 {
        self.wait_secs
    }
}
