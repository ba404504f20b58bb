//! Operations: one or two functions over a view or a transaction, whose signatures determine the
//! types, the validation and the OpenAPI document of a route.
//!
//! Each constructor can be combined with each method: a GET with outgoing calls is
//! `Route::get(.., read_calling(..))`, a PATCH with them `Route::patch(.., write_calling(..))`, and
//! a POST with [`read`] is a query without side effects.

mod bind;
mod content;
mod hash;
mod names;
mod shape;
mod waiting;

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

pub use bind::CommonParams;
use bind::RouteNames;
pub use content::{Upload, download, upload};
pub use hash::{Complete, hash};
use names::InputNames;
pub use shape::Shape;
pub use waiting::{take, watch};

use super::action::{Action, BoundRequest};
use super::calls::{Calls, Outcome};
use super::common_params::cursor;
use super::output::{Answer, Output};
use super::read::Input;
use super::request::{Args, PathParams, RawArgs, Req};
use crate::base::Result;
use crate::store::{Page, Tx, View};

type Binder = Box<dyn Fn(bool, &'static str, RawArgs) -> Result<BoundRequest> + Send + Sync>;
type ListCallingFn<P, I, O> = fn(&View, &Req<P, I>, &mut Calls) -> Result<Page<O>>;
type WriteCallingFn<P, I, O> = fn(&mut Tx, &Req<P, I>, &mut Calls) -> Result<Outcome<O>>;
/// Generates a schema; the schemas it refers to are added to the generator.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// An operation whose types are erased but for their schemas.
pub struct Operation {
    pub shape: Shape,
    /// Whether it makes outgoing calls, which may fail (502).
    pub calls: bool,
    /// Whether its answers may contain a secret that is shown only once.
    pub may_show_secret: bool,
    /// Whether it answers with plain text to clients that prefer it.
    pub has_text: bool,
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
        let names = InputNames::of::<I, O>(shape);
        Operation {
            shape,
            calls: false,
            may_show_secret: false,
            has_text: false,
            upload: None,
            params: P::schemas(),
            input: |generator| generator.subschema_for::<I>(),
            output: |generator| generator.subschema_for::<O>(),
            bind: Box::new(move |is_patch, path, raw| {
                let route =
                    RouteNames { shape, path, names: &names, others: names.others(is_patch) };
                let (hint, args, mut common) = bind::bind::<P, I>(&route, raw)?;
                Ok(BoundRequest { hint, action: bind(args, &mut common) })
            }),
        }
    }

    fn calling(self) -> Self {
        Operation { calls: true, ..self }
    }

    fn showing<O: Output>(self) -> Self {
        Operation { may_show_secret: O::MAY_SHOW_SECRET, ..self }
    }

    /// Binds the arguments of a request to the route with this `path`, which may be a PATCH.
    ///
    /// # Errors
    /// 400 with every problem found.
    pub fn bind(&self, is_patch: bool, path: &'static str, raw: RawArgs) -> Result<BoundRequest> {
        (self.bind)(is_patch, path, raw)
    }
}

/// The body of a page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageBody<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl<T> PageBody<T> {
    /// A page of the list whose cursors this key signs.
    fn new(page: Page<T>, list: &[u8; 32]) -> Self {
        let next_cursor = page.next.map(|position| cursor(list, &position));
        PageBody { items: page.items, next_cursor }
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

/// Reads one thing; `text` is what a client gets that prefers plain text.
pub fn read_or_text<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: fn(&View, &Req<P, I>) -> Result<O>,
    text: fn(O) -> String,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let wants_text = common.wants_text;
        let read = move |view: &View, who: &_, _: &mut Calls| {
            let out = read(view, &Req::new(&args, who))?;
            if wants_text { Ok(Answer::text(text(out))) } else { Answer::read(&out) }
        };
        Action::Read(Box::new(read), None)
    };
    Operation { has_text: true, ..Operation::new::<P, I, O>(Shape::One, bind) }
}

/// Reads one thing with outgoing calls, which may take `total_secs` together.
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

/// Reads a list page by page.
pub fn list<P: PathParams, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
    list: fn(&View, &Req<P, I>) -> Result<Page<O>>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let key = common.list;
        let read = move |view: &View, who: &_, _: &mut Calls| {
            Answer::list(&PageBody::new(list(view, &Req::new(&args, who))?, &key))
        };
        Action::Read(Box::new(read), None)
    };
    Operation::new::<P, I, O>(Shape::BoundedList, bind)
}

/// Reads a list with outgoing calls, which may take `total_secs` together.
pub fn list_calling<P: PathParams, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
    total_secs: u64,
    list: ListCallingFn<P, I, O>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let key = common.list;
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            let page = list(view, &Req::new(&args, who), calls)?;
            Answer::list(&PageBody::new(page, &key))
        };
        Action::Read(Box::new(read), Some(Duration::from_secs(total_secs)))
    };
    Operation::new::<P, I, O>(Shape::BoundedList, bind).calling()
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
    Operation::new::<P, I, O>(Shape::Write, bind).showing::<O>()
}

/// Writes with outgoing calls, which may take `total_secs` together.
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
    Operation::new::<P, I, O>(Shape::Write, bind).showing::<O>().calling()
}
