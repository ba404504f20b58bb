//! How a command fails.

use std::fmt;
use std::io;

use crate::app::DataDirError;
use crate::app::backup::BackupError;

/// Why a command failed; decides the exit code.
pub(crate) enum Failure {
    /// Exit code 1: the command failed, or `check` found damage.
    Failed(String),
    /// Exit code 2: invalid usage, or the data directory cannot be opened.
    Usage(String),
}

impl Failure {
    /// Makes the failure of an operation of the system. Its error does not name the file, or what else
    /// it is about, so there is no conversion without it.
    pub fn io(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Failure::Failed(format!("{what}: {error}"))
    }

    /// The running server answered something else than was asked for: it is of another version.
    pub fn unexpected_reply() -> Self {
        Failure::Failed(
            "the server gave an unexpected reply; it may be of another version: restart it".into(),
        )
    }
}

impl From<crate::base::Error> for Failure {
    fn from(error: crate::base::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<DataDirError> for Failure {
    fn from(error: DataDirError) -> Self {
        Failure::Usage(error.0)
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Unusable(why) => Failure::Usage(why),
            BackupError::Damaged(why) | BackupError::Failed(why) => Failure::Failed(why),
        }
    }
}
