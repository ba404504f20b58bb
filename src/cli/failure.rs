//! How a command fails.

use crate::app::DataDirError;

/// Why a command failed; decides the exit code.
pub(crate) enum Failure {
    /// Exit code 1: the command failed, or `check` found damage.
    Failed(String),
    /// Exit code 2: invalid usage, or the data directory cannot be opened.
    Usage(String),
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

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}
