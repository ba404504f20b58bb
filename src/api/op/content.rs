//! Operations that take or return bytes instead of JSON.

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape, WriteFn};
use crate::api::action::{Action, Offset, Piece};
use crate::api::output::Output;
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Req};
use crate::base::Result;
use crate::store::View;

/// The bytes that an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Limit in bytes; they are held in memory until the operation is done.
    pub max_bytes: usize,
    /// The accepted media types; a request without `Content-Type` is refused as well.
    pub media_types: &'static [&'static str],
}

/// Writes the bytes of the body, which are `content` of the request; the arguments are in the query.
pub fn upload<P: PathParams, I: Input + JsonSchema, O: Output>(
    upload: Upload,
    write: impl WriteFn<P, I, O>,
) -> Operation {
    Operation { upload: Some(upload), ..super::write(write) }
}

/// Reads bytes of `media_type` piece by piece: `read` returns the piece at an offset, which it
/// defines itself. Each piece is read at its own snapshot.
pub fn download<P: PathParams, I: Input + JsonSchema>(
    media_type: &'static str,
    read: fn(&View, &Req<P, I>, Offset) -> Result<Piece>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let read = move |view: &View, who: &_, offset| read(view, &Req::new(&args, who), offset);
        Action::Download(media_type, Box::new(read))
    };
    Operation::new::<P, I, String>(Shape::Download(media_type), bind)
}
