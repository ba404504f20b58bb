//! Routes whose operations do more than read or write: hash a password, wait, call outside.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::action::{
    Action, Answer, HashAction, Look, Taken, TakenPart, WaitAction, WatchAction, Watched, Work,
};
use super::calls::{Calls, Outcome};
use super::extra::{Extra, cursor};
use super::read::Input;
use super::request::{At, Parts, Req, Who};
use super::route::{Listed, Method, Route, Shape};
use super::scope::Scope;
use crate::auth::passwords::Hashed;
use crate::auth::{Rule, User};
use crate::base::{Error, Id, Result};
use crate::store::{Page, Tx, View};

type ListFn<P, I, O> = fn(&View, &Req<P, I>, &mut Calls) -> Result<Page<O>>;
type DecideFn<P, I, O> = fn(&mut Tx, &Req<P, I>, &mut Calls) -> Result<Outcome<O>>;
type SettleFn<I, O> = fn(&mut Tx, &Req<(), I>, &Hashed) -> Result<(O, Id<User>)>;

impl Route {
    /// A POST with a password in it: `look` says what is to be hashed, `settle` writes and says
    /// whose doing it was.
    pub fn hashing<I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        look: fn(&View, &Req<(), I>) -> Result<Work>,
        settle: SettleFn<I, O>,
    ) -> Self {
        struct Both<I, O> {
            parts: Parts<(), I>,
            look: fn(&View, &Req<(), I>) -> Result<Work>,
            settle: SettleFn<I, O>,
        }
        impl<I: Input, O: Serialize> HashAction for Both<I, O> {
            fn look(&self, view: &View, who: &Who) -> Result<Work> {
                (self.look)(view, &Req::new(&self.parts, who))
            }
            fn settle(
                &mut self,
                tx: &mut Tx,
                who: &Who,
                hashed: &Hashed,
            ) -> Result<(Answer, Id<User>)> {
                let (out, user) = (self.settle)(tx, &Req::new(&self.parts, who), hashed)?;
                Ok((Answer::of(&out)?, user))
            }
        }
        let bind = move |parts: Parts<(), I>, _: &Extra| {
            Ok(Action::Hash(Box::new(Both { parts, look, settle }) as Box<dyn HashAction>))
        };
        Self::new::<(), I, O>(Method::Post, path, rule, name, Shape::Change, bind)
            .scope(Scope::Installation)
    }

    /// A GET that waits (`wait`, 0 to 60 seconds) until `look` finds something and then takes a part
    /// of it, as a list is read.
    /// With `Accept: text/event-stream` it goes on, each thing being an event named `event`.
    pub fn wait<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        event: &'static str,
        look: fn(&View, &Req<P, I>) -> Result<Look>,
        take: fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>,
    ) -> Self {
        struct Both<P, I, O> {
            parts: Parts<P, I>,
            secs: u64,
            list: [u8; 32],
            look: fn(&View, &Req<P, I>) -> Result<Look>,
            take: fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>,
        }
        impl<P: At, I: Input, O: Serialize> WaitAction for Both<P, I, O> {
            fn look(&self, view: &View, who: &Who) -> Result<Look> {
                (self.look)(view, &Req::new(&self.parts, who))
            }
            fn take(&self, tx: &mut Tx, who: &Who) -> Result<TakenPart> {
                let page = (self.take)(tx, &Req::new(&self.parts, who))?;
                let taken = page.items.iter().map(|thing| {
                    let json = serde_json::to_value(thing)
                        .map_err(|e| Error::internal(format!("cannot be written: {e}")))?;
                    let id = json.get("id").and_then(Value::as_str).unwrap_or_default().into();
                    Ok(Taken { id, json })
                });
                let next_cursor = page.next.map(|position| cursor(&self.list, &position));
                Ok(TakenPart { items: taken.collect::<Result<_>>()?, next_cursor })
            }
            fn wait_secs(&self) -> u64 {
                self.secs
            }
        }
        let bind = move |parts: Parts<P, I>, extra: &Extra| {
            let Extra { wait_secs: secs, list, .. } = *extra;
            Ok(Action::Wait(Arc::new(Both { parts, secs, list, look, take })))
        };
        Self::new::<P, I, O>(Method::Get, path, rule, name, Shape::Wait(event), bind)
    }

    /// A GET of one thing that waits (`wait`, 0 to 60 seconds) as long as the thing is what the
    /// caller's `If-None-Match` says it has; `look` says which thing that is.
    pub fn watch<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&View, &Req<P, I>) -> Result<O>,
        look: fn(&View, &Req<P, I>) -> Result<Watched>,
    ) -> Self {
        struct Both<P, I, O> {
            parts: Parts<P, I>,
            secs: u64,
            operation: fn(&View, &Req<P, I>) -> Result<O>,
            look: fn(&View, &Req<P, I>) -> Result<Watched>,
        }
        impl<P: At, I: Input, O: Serialize> WatchAction for Both<P, I, O> {
            fn read(&self, view: &View, who: &Who) -> Result<Answer> {
                Answer::of(&(self.operation)(view, &Req::new(&self.parts, who))?)
            }
            fn look(&self, view: &View, who: &Who) -> Result<Watched> {
                (self.look)(view, &Req::new(&self.parts, who))
            }
            fn wait_secs(&self) -> u64 {
                self.secs
            }
        }
        let bind = move |parts: Parts<P, I>, extra: &Extra| {
            let secs = extra.wait_secs;
            Ok(Action::Watch(Box::new(Both { parts, secs, operation, look })))
        };
        Self::new::<P, I, O>(Method::Get, path, rule, name, Shape::Watch, bind)
    }

    /// A POST that changes nothing: its question does not fit into a query.
    pub fn ask<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&View, &Req<P, I>) -> Result<O>,
    ) -> Self {
        Self::read(Method::Post, path, rule, name, Shape::Ask, operation)
    }

    /// The same with answers from outside, for all of which there are `total_secs`.
    pub fn ask_calling<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        total_secs: u64,
        operation: fn(&View, &Req<P, I>, &mut Calls) -> Result<O>,
    ) -> Self {
        let bind = move |parts: Parts<P, I>, _: &Extra| {
            let read = move |view: &View, who: &Who, calls: &mut Calls| {
                Answer::of(&operation(view, &Req::new(&parts, who), calls)?)
            };
            Ok(Action::CallAndRead(Box::new(read), Duration::from_secs(total_secs)))
        };
        Self::new::<P, I, O>(Method::Post, path, rule, name, Shape::Ask, bind).calling()
    }

    /// A GET of a list that lies outside; for all calls together there are `total_secs`.
    pub fn list_calling<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        total_secs: u64,
        operation: ListFn<P, I, O>,
    ) -> Self {
        let bind = move |parts: Parts<P, I>, extra: &Extra| {
            let list = extra.list;
            let read = move |view: &View, who: &Who, calls: &mut Calls| {
                let page = operation(view, &Req::new(&parts, who), calls)?;
                Answer::of(&Listed::new(page, &list))
            };
            Ok(Action::CallAndRead(Box::new(read), Duration::from_secs(total_secs)))
        };
        Self::new::<P, I, O>(Method::Get, path, rule, name, Shape::List, bind).calling()
    }

    /// A POST whose operation needs answers from outside; for all calls together there are
    /// `total_secs`.
    pub fn post_calling<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        total_secs: u64,
        operation: DecideFn<P, I, O>,
    ) -> Self {
        let bind = move |parts: Parts<P, I>, _: &Extra| {
            let write = move |tx: &mut Tx, who: &Who, calls: &mut Calls| {
                let outcome = operation(tx, &Req::new(&parts, who), calls)?;
                outcome.try_map(|out| Answer::of(&out))
            };
            Ok(Action::CallAndWrite(Box::new(write), Duration::from_secs(total_secs)))
        };
        Self::new::<P, I, O>(Method::Post, path, rule, name, Shape::Change, bind).calling()
    }

    fn calling(mut self) -> Self {
        self.calls = true;
        self
    }
}
