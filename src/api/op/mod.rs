//! What a route does: one function over a view or a transaction, or two, whose signatures give the
//! types, the validation and the OpenAPI document.
//!
//! Any of them goes with any method: a GET that calls outside is `Route::get(.., read_calling(..))`,
//! a PATCH that does is `Route::patch(.., write_calling(..))`, and a POST with [`read`] asks
//! without side effects.

mod bind;
mod content;
mod hash;
mod waiting;

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

pub use bind::CommonParams;
pub use content::{Upload, download, upload};
pub use hash::{Settle, hash};
pub use waiting::{take, watch};

use super::action::{Action, Bound};
use super::calls::{Calls, Outcome};
use super::extra::cursor;
use super::output::{Answer, Output};
use super::read::Input;
use super::request::{Args, PathParams, Raw, Req};
use crate::base::Result;
use crate::store::{Page, Tx, View};

type Binder = Box<dyn Fn(&'static str, Raw) -> Result<Bound> + Send + Sync>;
type ListCallingFn<P, I, O> = fn(&View, &Req<P, I>, &mut Calls) -> Result<Page<O>>;
type WriteCallingFn<P, I, O> = fn(&mut Tx, &Req<P, I>, &mut Calls) -> Result<Outcome<O>>;
/// Makes a schema, leaving those it needs in the generator.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What kind of answer an operation gives, and whether it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One thing is read.
    One,
    /// A list is read in args.
    List,
    /// Something is written.
    Change,
    /// Something is waited for; events of this name stream it.
    Wait(&'static str),
    /// One thing is read, optionally after waiting until it changes.
    Watch,
    /// Bytes of this media type are read.
    Download(&'static str),
}

impl Shape {
    /// Whether it answers a part of a list.
    pub fn is_list(self) -> bool {
        matches!(self, Shape::List | Shape::Wait(_))
    }

    /// Whether it takes `wait`.
    pub fn waits(self) -> bool {
        matches!(self, Shape::Wait(_) | Shape::Watch)
    }
}

/// An operation, its types known by their schemas alone.
pub struct Operation {
    /// What kind of answer it gives.
    pub shape: Shape,
    /// Whether it needs answers from outside, which may fail (502).
    pub calls: bool,
    /// Whether its answers may show a secret that is never shown again.
    pub may_show_secret: bool,
    /// What it takes beside its arguments, if it takes bytes; the arguments are in the query then.
    pub upload: Option<Upload>,
    /// The schemas of its path parameters.
    pub params: Vec<Schema>,
    /// The schema of its body or query.
    pub input: SchemaOf,
    /// The schema of its answer, or of the items of its list.
    pub output: SchemaOf,
    bind: Binder,
}

impl Operation {
    fn new<P: PathParams, I: Input + JsonSchema, O: JsonSchema>(
        shape: Shape,
        bind: impl Fn(Args<P, I>, &mut CommonParams) -> Action + Send + Sync + 'static,
    ) -> Self {
        // The parameters of a query that say which list it gives.
        let filters = if shape.is_list() { names_of::<I>() } else { Vec::new() };
        Operation {
            shape,
            calls: false,
            may_show_secret: false,
            upload: None,
            params: P::schemas(),
            input: |generator| generator.subschema_for::<I>(),
            output: |generator| generator.subschema_for::<O>(),
            bind: Box::new(move |path, raw| {
                let (hint, args, mut common) = bind::bind::<P, I>(shape, path, &filters, raw)?;
                Ok(Bound { hint, action: bind(args, &mut common) })
            }),
        }
    }

    fn calling(self) -> Self {
        Operation { calls: true, ..self }
    }

    fn showing<O: Output>(self) -> Self {
        Operation { may_show_secret: O::MAY_SHOW_SECRET, ..self }
    }

    /// Binds the arguments of a request to the route with this `path`.
    ///
    /// # Errors
    /// 400 with every problem found.
    pub fn bind(&self, path: &'static str, raw: Raw) -> Result<Bound> {
        (self.bind)(path, raw)
    }
}

/// The names of what an input is made of.
fn names_of<I: JsonSchema>() -> Vec<String> {
    let schema = I::json_schema(&mut SchemaGenerator::default());
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// A part of a list as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl<T> Listed<T> {
    /// A part of the list whose cursors are signed with this key.
    fn new(page: Page<T>, list: &[u8; 32]) -> Self {
        let next_cursor = page.next.map(|position| cursor(list, &position));
        Listed { items: page.items, next_cursor }
    }
}

/// Reads one thing.
pub fn read<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: fn(&View, &Req<P, I>) -> Result<O>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let read = move |view: &View, who: &_, _: &mut Calls| {
            Answer::read(&read(view, &Req::new(&args, who))?)
        };
        Action::Read(Box::new(read), None)
    };
    Operation::new::<P, I, O>(Shape::One, bind).showing::<O>()
}

/// Reads one thing with answers from outside, for all of which there are `total_secs`.
pub fn read_calling<P: PathParams, I: Input + JsonSchema, O: Output>(
    total_secs: u64,
    read: fn(&View, &Req<P, I>, &mut Calls) -> Result<O>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            Answer::read(&read(view, &Req::new(&args, who), calls)?)
        };
        Action::Read(Box::new(read), Some(Duration::from_secs(total_secs)))
    };
    Operation::new::<P, I, O>(Shape::One, bind).showing::<O>().calling()
}

/// Reads a list in args.
pub fn list<P: PathParams, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
    list: fn(&View, &Req<P, I>) -> Result<Page<O>>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let key = common.list;
        let read = move |view: &View, who: &_, _: &mut Calls| {
            Answer::list(&Listed::new(list(view, &Req::new(&args, who))?, &key))
        };
        Action::Read(Box::new(read), None)
    };
    Operation::new::<P, I, O>(Shape::List, bind)
}

/// Reads a list that lies outside; for all calls together there are `total_secs`.
pub fn list_calling<P: PathParams, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
    total_secs: u64,
    list: ListCallingFn<P, I, O>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let key = common.list;
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            let page = list(view, &Req::new(&args, who), calls)?;
            Answer::list(&Listed::new(page, &key))
        };
        Action::Read(Box::new(read), Some(Duration::from_secs(total_secs)))
    };
    Operation::new::<P, I, O>(Shape::List, bind).calling()
}

/// Writes in a transaction.
pub fn write<P: PathParams, I: Input + JsonSchema, O: Output>(
    write: fn(&mut Tx, &Req<P, I>) -> Result<O>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let write = move |tx: &mut Tx, who: &_, _: &mut Calls| {
            Answer::written(&write(tx, &Req::new(&args, who))?).map(Outcome::Done)
        };
        Action::Write(Box::new(write), None)
    };
    Operation::new::<P, I, O>(Shape::Change, bind).showing::<O>()
}

/// Writes with answers from outside; for all calls together there are `total_secs`.
pub fn write_calling<P: PathParams, I: Input + JsonSchema, O: Output>(
    total_secs: u64,
    write: WriteCallingFn<P, I, O>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let write = move |tx: &mut Tx, who: &_, calls: &mut Calls| {
            let outcome = write(tx, &Req::new(&args, who), calls)?;
            outcome.try_map(|out| Answer::written(&out))
        };
        Action::Write(Box::new(write), Some(Duration::from_secs(total_secs)))
    };
    Operation::new::<P, I, O>(Shape::Change, bind).showing::<O>().calling()
}
