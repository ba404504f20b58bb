//! How much of a file is read.

use std::cell::Cell;
use std::io;

/// How many bytes of all parts of a file may still be read, once they are inflated and in UTF-8.
pub struct Budget {
    left: Cell<u64>,
    is_exceeded: Cell<bool>,
}

impl Budget {
    /// So many bytes may be read.
    pub fn new(bytes: u64) -> Self {
        Budget { left: Cell::new(bytes), is_exceeded: Cell::new(false) }
    }

    /// Counts bytes that were read.
    ///
    /// # Errors
    /// If they are more than may be read. [`Self::is_exceeded`] tells this from other errors of a reader.
    pub fn take(&self, bytes: usize) -> io::Result<()> {
        match self.left.get().checked_sub(bytes as u64) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.left.set(0);
                self.is_exceeded.set(true);
                Err(io::Error::other("it has too much"))
            }
        }
    }

    /// Whether more was read than may be.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }
}
