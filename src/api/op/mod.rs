//! Operations: one or two functions over a view or a transaction, whose signatures determine the
//! types, the validation and the OpenAPI document of a route.
//!
//! Each constructor can be combined with each method, and with outgoing calls: a GET with them is
//! `Route::get(.., read(calling(..)))`, a PATCH with them `Route::patch(.., write(calling(..)))`, and
//! a POST with [`read`] is a query without side effects.

mod bind;
mod content;
mod follow;
mod function;
mod hash;
mod names;
mod shape;
mod stream;
mod waiting;

use std::sync::OnceLock;
use std::time::Duration;

use schemars::{JsonSchema, Schema};

pub use bind::CommonParams;
use bind::RouteNames;
pub use content::{Upload, download, upload};
pub use follow::follow;
pub use function::{Calling, ReadFn, WriteFn, calling};
pub use hash::{Complete, hash, hash_counting};
use names::InputNames;
pub use names::SchemaOf;
pub use shape::Shape;
pub use stream::{batch, stream};
pub use waiting::{take, watch};

use super::action::{Action, BoundRequest};
use super::calls::Calls;
use super::common_params::cursor;
use super::output::{EncodedOutput, Output};
use super::read::Input;
use super::request::{Args, PathParams, Principal, RawArgs, Req};
use crate::base::{Error, Result};
use crate::store::{Count, Page, Tx, View, Walk};

type Binder = Box<dyn Fn(bool, &'static str, RawArgs) -> Result<BoundRequest> + Send + Sync>;

/// An operation whose types are erased but for their schemas.
pub struct Operation {
    pub shape: Shape,
    /// Whether it makes outgoing calls, which may fail (502).
    pub calls: bool,
    /// Whether its answers may contain a secret that is shown only once.
    pub may_show_secret: bool,
    /// Whether it answers with plain text to clients that prefer it.
    pub has_text: bool,
    /// Whether its list says in `more` that it was cut.
    pub says_more: bool,
    /// The bytes it takes, if any; its arguments are in the query then.
    pub upload: Option<Upload>,
    /// Generates the schemas of its path parameters.
    pub params: fn() -> Vec<Schema>,
    /// The schema of its body or query.
    pub input: SchemaOf,
    /// The schema of its answer, or of the items of its list.
    pub output: SchemaOf,
    /// What is passed on of a thing of a batch.
    pub item: Option<SchemaOf>,
    bind: Binder,
}

impl Operation {
    fn new<P: PathParams, I: Input + JsonSchema, O: JsonSchema>(
        shape: Shape,
        bind: impl Fn(Args<P, I>, &mut CommonParams) -> Action + Send + Sync + 'static,
    ) -> Self {
        // Derived at the first request: those of all routes would take much of a start.
        let names = OnceLock::new();
        let input: SchemaOf = |generator| generator.subschema_for::<I>();
        let output: SchemaOf = |generator| generator.subschema_for::<O>();
        Operation {
            shape,
            calls: false,
            may_show_secret: false,
            has_text: false,
            says_more: false,
            upload: None,
            params: P::schemas,
            input,
            output,
            item: None,
            bind: Box::new(move |is_patch, path, raw| {
                let names = names.get_or_init(|| InputNames::of(shape, input, output));
                let route = RouteNames { shape, path, names, others: names.others(is_patch) };
                let (hint, args, mut common) = bind::bind::<P, I>(&route, raw)?;
                Ok(BoundRequest { hint, action: bind(args, &mut common) })
            }),
        }
    }

    fn calling(self, limit: Option<Duration>) -> Self {
        Operation { calls: limit.is_some_and(|limit| !limit.is_zero()), ..self }
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

/// Reads one thing.
pub fn read<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: impl ReadFn<P, I, O>,
) -> Operation {
    let limit = read.calls_within();
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            EncodedOutput::read(&read.run(view, &Req::new(&args, who), calls)?)
        };
        Action::Read(Box::new(read), limit)
    };
    Operation::new::<P, I, O>(Shape::One, bind).showing::<O>().calling(limit)
}

/// Reads one thing; `text` is what a client gets that prefers plain text.
pub fn read_or_text<P: PathParams, I: Input + JsonSchema, O: Output>(
    read: impl ReadFn<P, I, O>,
    text: fn(O) -> String,
) -> Operation {
    let limit = read.calls_within();
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let wants_text = common.wants_text;
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            let out = read.run(view, &Req::new(&args, who), calls)?;
            if wants_text { Ok(EncodedOutput::text(text(out))) } else { EncodedOutput::read(&out) }
        };
        Action::Read(Box::new(read), limit)
    };
    Operation { has_text: true, ..Operation::new::<P, I, O>(Shape::One, bind).calling(limit) }
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
            EncodedOutput::list(&page.items, next_cursor, None)
        };
        Action::Read(Box::new(read), limit)
    };
    Operation::new::<P, I, O>(Shape::List, bind).showing::<O>().calling(limit)
}

/// Reads a list page by page, from either end, and counts it if the client asks for that. All its items are
/// of [pages](View::page) of the view that it gets, but for one that is looked up.
pub fn walk<P: PathParams, I: Input + JsonSchema, O: Output>(
    list: impl ReadFn<P, I, Page<O>>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let key = common.list;
        let (is_backwards, is_counted) = (common.is_reversed, common.is_counted);
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            let (req, count) = (Req::new(&args, who), Count::default());
            let mut total = None;
            if is_counted {
                require_known(who)?;
                let walk = Walk { is_backwards: false, count: Some(&count) };
                let found = list.run(&view.walking(walk), &req, calls)?;
                total = Some(count.total(found.items.len()));
            }
            let walk = Walk { is_backwards, count: None };
            let page = list.run(&view.walking(walk), &req, calls)?;
            let next_cursor = page.next.map(|position| cursor(&key, &position));
            EncodedOutput::counted_list(&page.items, next_cursor, total)
        };
        Action::Read(Box::new(read), None)
    };
    Operation::new::<P, I, O>(Shape::Walk, bind).showing::<O>()
}

/// Requires a credential: what counts a list reads more of it than a page.
fn require_known(who: &Principal) -> Result<()> {
    if matches!(who, Principal::Anonymous) {
        return Err(Error::unauthenticated(
            "`total` needs a credential: leave it out, or send one",
        ));
    }
    Ok(())
}

/// A page of a list, which may be cut where no next page follows.
pub struct CutPage<O> {
    pub page: Page<O>,
    /// Whether the list has more than this page and those before.
    pub more: bool,
}

/// Reads a list that `nextCursor` need not lead through; `more` says whether it was cut.
pub fn cut_list<P: PathParams, I: Input + JsonSchema, O: Output>(
    list: impl ReadFn<P, I, CutPage<O>>,
) -> Operation {
    let limit = list.calls_within();
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let key = common.list;
        let read = move |view: &View, who: &_, calls: &mut Calls| {
            let CutPage { page, more } = list.run(view, &Req::new(&args, who), calls)?;
            let next_cursor = page.next.map(|position| cursor(&key, &position));
            EncodedOutput::list(&page.items, next_cursor, Some(more))
        };
        Action::Read(Box::new(read), limit)
    };
    let operation = Operation::new::<P, I, O>(Shape::List, bind).showing::<O>().calling(limit);
    Operation { says_more: true, ..operation }
}

/// Writes in a transaction.
pub fn write<P: PathParams, I: Input + JsonSchema, O: Output>(
    write: impl WriteFn<P, I, O>,
) -> Operation {
    let limit = write.calls_within();
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let write = move |tx: &mut Tx, who: &_, calls: &mut Calls| {
            let outcome = write.run(tx, &Req::new(&args, who), calls)?;
            outcome.try_map(|out| EncodedOutput::written(&out))
        };
        Action::Write(Box::new(write), limit)
    };
    Operation::new::<P, I, O>(Shape::Write, bind).showing::<O>().calling(limit)
}
