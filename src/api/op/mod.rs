//! Operations: one or two functions over a view or a transaction, whose signatures determine the
//! types, the validation and the OpenAPI document of a route.
//!
//! Each constructor can be combined with each method, and with outgoing calls: a GET with them is
//! `Route::get(.., read(calling(..)))`, a PATCH with them `Route::patch(.., write(calling(..)))`, and
//! a POST with [`read`] is a query without side effects.

mod bind;
mod content;
mod function;
mod hash;
mod shape;
mod waiting;

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

pub use bind::CommonParams;
pub use content::{Upload, download, upload};
pub use function::{Calling, ReadFn, WriteFn, calling};
pub use hash::{Complete, hash};
pub use shape::Shape;
pub use waiting::{take, watch};

use super::action::{Action, BoundRequest};
use super::calls::Calls;
use super::common_params::cursor;
use super::output::{Answer, Output};
use super::read::Input;
use super::request::{Args, PathParams, RawArgs, Req};
use crate::base::Result;
use crate::store::{Page, Tx, View};

type Binder = Box<dyn Fn(&'static str, RawArgs) -> Result<BoundRequest> + Send + Sync>;
/// Generates a schema; the schemas it refers to are added to the generator.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// An operation whose types are erased but for their schemas.
pub struct Operation {
    pub shape: Shape,
    /// Whether it makes outgoing calls, which may fail (502).
    pub calls: bool,
    /// Whether its answers may contain a secret that is shown only once.
    pub may_show_secret: bool,
    /// The bytes it takes, if any; its arguments are in the query then.
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
        // The query parameters that identify the list.
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
                Ok(BoundRequest { hint, action: bind(args, &mut common) })
            }),
        }
    }

    fn calling(self, limit: Option<Duration>) -> Self {
        Operation { calls: limit.is_some(), ..self }
    }

    fn showing<O: Output>(self) -> Self {
        Operation { may_show_secret: O::MAY_SHOW_SECRET, ..self }
    }

    /// Binds the arguments of a request to the route with this `path`.
    ///
    /// # Errors
    /// 400 with every problem found.
    pub fn bind(&self, path: &'static str, raw: RawArgs) -> Result<BoundRequest> {
        (self.bind)(path, raw)
    }
}

/// Returns the names of an input's fields.
fn names_of<I: JsonSchema>() -> Vec<String> {
    let schema = I::json_schema(&mut SchemaGenerator::default());
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// Reads one thing.
pub fn read<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: impl ReadFn<P, I, O>,
) -> Operation {
    let limit = read.calls_within();
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            Answer::read(&read.run(view, &Req::new(&args, who), calls)?)
        };
        Action::Read(Box::new(read), limit)
    };
    Operation::new::<P, I, O>(Shape::One, bind).showing::<O>().calling(limit)
}

/// Reads a list page by page.
pub fn list<P: PathParams, I: Input + JsonSchema, O: Output>(
    list: impl ReadFn<P, I, Page<O>>,
) -> Operation {
    let limit = list.calls_within();
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let key = common.list;
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            let page = list.run(view, &Req::new(&args, who), calls)?;
            let next_cursor = page.next.map(|position| cursor(&key, &position));
            Answer::list(&page.items, next_cursor)
        };
        Action::Read(Box::new(read), limit)
    };
    Operation::new::<P, I, O>(Shape::BoundedList, bind).showing::<O>().calling(limit)
}

/// Writes in a transaction.
pub fn write<P: PathParams, I: Input + JsonSchema, O: Output>(
    write: impl WriteFn<P, I, O>,
) -> Operation {
    let limit = write.calls_within();
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let write = move |tx: &mut Tx, who: &_, calls: &mut Calls| {
            let outcome = write.run(tx, &Req::new(&args, who), calls)?;
            outcome.try_map(|out| Answer::written(&out))
        };
        Action::Write(Box::new(write), limit)
    };
    Operation::new::<P, I, O>(Shape::Write, bind).showing::<O>().calling(limit)
}
