//! Downloads: bytes read piece by piece, as fast as the client takes them.

use bytes::Bytes;

use super::context::RequestContext;
use crate::api::action::{BoundDownload, Offset, Piece};
use crate::base::{Id, Result};
use crate::store::View;

/// Starts a download. The first piece is read at once, so that its errors are ordinary responses;
/// later errors break the stream off.
pub async fn download(
    context: &RequestContext,
    media_type: &'static str,
    operation: BoundDownload,
) -> Result<DownloadStream> {
    let context = context.clone();
    let mut stream = DownloadStream { context, operation, media_type, first: None, next: Some(0) };
    stream.first = stream.read().await?;
    Ok(stream)
}

/// The pieces of a download.
pub struct DownloadStream {
    context: RequestContext,
    operation: BoundDownload,
    /// The media type of the bytes.
    pub media_type: &'static str,
    first: Option<Bytes>,
    next: Option<Offset>,
}

impl DownloadStream {
    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    /// Those of the operation, and of a caller who may no longer read it.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Option<Bytes>> {
        let Some(offset) = self.next else { return Ok(None) };
        let read = |view: &View| {
            let (who, view) = self.context.authorize(view)?;
            (self.operation)(&view, &who, offset)
        };
        let Piece { bytes, next } = self.context.executor.store.read(Id::NIL, read).await?;
        self.next = next;
        Ok(Some(bytes))
    }
}
