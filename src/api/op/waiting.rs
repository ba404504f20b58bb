//! Operations that wait.

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{
    Action, ConditionalWaitAction, ContentVersion, Look, Taken, TakenPage, WaitAction,
};
use crate::api::extra::cursor;
use crate::api::output::{Answer, Output};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Req, Who};
use crate::base::{Error, Result};
use crate::store::{Page, Tx, View};

type TakeFn<P, I, O> = fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>;
type LookFn<P, I, T> = fn(&View, &Req<P, I>) -> Result<T>;

/// Waits (`wait`, 0 to 60 seconds) until `look` finds something and then takes a part of it, as a
/// list is read. As a stream it goes on without end, each thing being an event named `event`.
pub fn take<P: PathParams, I: Input + JsonSchema, O: Output>(
    event: &'static str,
    look: fn(&View, &Req<P, I>) -> Result<Look>,
    take: fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let CommonParams { wait_secs, list, .. } = *common;
        Action::Wait(std::sync::Arc::new(Take { args, wait_secs, list, look, take }))
    };
    Operation::new::<P, I, O>(Shape::Wait(event), bind)
}

struct Take<P, I, O> {
    args: Args<P, I>,
    wait_secs: u64,
    list: [u8; 32],
    look: LookFn<P, I, Look>,
    take: TakeFn<P, I, O>,
}

impl<P: PathParams, I: Input, O: Output> WaitAction for Take<P, I, O> {
    fn look(&self, view: &View, who: &Who) -> Result<Look> {
        (self.look)(view, &Req::new(&self.args, who))
    }

    fn take(&self, tx: &mut Tx, who: &Who) -> Result<TakenPage> {
        let page = (self.take)(tx, &Req::new(&self.args, who))?;
        let taken = page.items.iter().map(|thing| {
            let json = serde_json::to_value(thing)
                .map_err(|e| Error::internal(format!("cannot be written: {e}")))?;
            let id = thing.resource().map(|resource| resource.id).unwrap_or_default();
            Ok(Taken { id, json })
        });
        let next_cursor = page.next.map(|position| cursor(&self.list, &position));
        Ok(TakenPage { items: taken.collect::<Result<_>>()?, next_cursor })
    }

    fn wait_secs(&self) -> u64 {
        self.wait_secs
    }
}

/// Reads one thing, waiting (`wait`, 0 to 60 seconds) as long as it is what the caller says they
/// have; `look` says which thing that is.
pub fn watch<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: fn(&View, &Req<P, I>) -> Result<O>,
    look: fn(&View, &Req<P, I>) -> Result<ContentVersion>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        Action::Watch(Box::new(Watch { args, wait_secs: common.wait_secs, read, look }))
    };
    Operation::new::<P, I, O>(Shape::Watch, bind).showing::<O>()
}

struct Watch<P, I, O> {
    args: Args<P, I>,
    wait_secs: u64,
    read: LookFn<P, I, O>,
    look: LookFn<P, I, ContentVersion>,
}

impl<P: PathParams, I: Input, O: Output> ConditionalWaitAction for Watch<P, I, O> {
    fn read(&self, view: &View, who: &Who) -> Result<Answer> {
        Answer::read(&(self.read)(view, &Req::new(&self.args, who))?)
    }

    fn look(&self, view: &View, who: &Who) -> Result<ContentVersion> {
        (self.look)(view, &Req::new(&self.args, who))
    }

    fn wait_secs(&self) -> u64 {
        self.wait_secs
    }
}
