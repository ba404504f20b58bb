//! Who owns the files of a data directory.

use std::fs::{File, metadata};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;

/// Gives a new file to the owner of its directory: what a command of root creates must be of use to
/// the server of another user. By its handle, since that user could replace the path by a link.
pub fn give_to_owner_of_directory(file: &File, path: &Path) {
    let directory = path.parent().map(metadata);
    let (Some(Ok(directory)), Ok(own)) = (directory, file.metadata()) else { return };
    if directory.uid() != own.uid() {
        // Only root may. For others there is nothing to give.
        let _ = fchown(file, Some(directory.uid()), Some(directory.gid()));
    }
}
