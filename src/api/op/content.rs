//! Operations that take or return bytes instead of JSON.

use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{Action, DownloadAction, Offset, Piece};
use crate::api::calls::{Calls, Outcome};
use crate::api::output::{Answer, Output};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Principal, Req};
use crate::base::Result;
use crate::store::{Tx, View};

/// The bytes that an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Limit in bytes; they are held in memory until the operation is done.
    pub max_bytes: usize,
    /// The accepted media types; a request without `Content-Type` is refused as well.
    pub media_types: &'static [&'static str],
}

/// Writes the bytes of the body; the arguments are in the query.
pub fn upload<P: PathParams, I: Input + JsonSchema, O: Output>(
    upload: Upload,
    write: fn(&mut Tx, &Req<P, I>, &Bytes) -> Result<O>,
) -> Operation {
    let bind = move |args: Args<P, I>, common: &mut CommonParams| {
        let content = std::mem::take(&mut common.content);
        let write = move |tx: &mut Tx, who: &_, _: &mut Calls| {
            Answer::written(&write(tx, &Req::new(&args, who), &content)?).map(Outcome::Done)
        };
        Action::Write(Box::new(write), None)
    };
    let operation = Operation::new::<P, I, O>(Shape::Write, bind).showing::<O>();
    Operation { upload: Some(upload), ..operation }
}

/// Reads bytes of `media_type` piece by piece: `read` returns the piece at an offset, which it
/// defines itself. Each piece is read at its own snapshot.
pub fn download<P: PathParams, I: Input + JsonSchema>(
    media_type: &'static str,
    read: fn(&View, &Req<P, I>, Offset) -> Result<Piece>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        Action::Download(Arc::new(Download { args, media_type, read }))
    };
    Operation::new::<P, I, String>(Shape::Download(media_type), bind)
}

struct Download<P, I> {
    args: Args<P, I>,
    media_type: &'static str,
    read: fn(&View, &Req<P, I>, Offset) -> Result<Piece>,
}

impl<P: PathParams, I: Input> DownloadAction for Download<P, I> {
    fn piece(&self, view: &View, who: &Principal, offset: Offset) -> Result<Piece> {
        (self.read)(view, &Req::new(&self.args, who), offset)
    }

    fn media_type(&self) -> &'static str {
        self.media_type
    }
}
