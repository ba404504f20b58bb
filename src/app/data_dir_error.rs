//! Why a data directory cannot be used.

use std::fmt;

/// A sentence for the operator: what is wrong with the data directory or its key, and what to do.
#[derive(Debug)]
pub struct DataDirError(pub String);

impl fmt::Display for DataDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DataDirError {}
