//! Why a backup cannot be made, read or restored, or an installation not moved.

use std::fmt;

use crate::app::data_dir_error::DataDirError;

/// A sentence for the operator.
#[derive(Debug, PartialEq)]
pub enum BackupError {
    /// What was asked for cannot be done with this file, key or directory; nothing is damaged.
    Unusable(String),
    /// The file is damaged.
    Damaged(String),
    /// It failed; trying again may help.
    Failed(String),
}

impl BackupError {
    /// The error of a file that is no backup of Roadstead.
    pub(super) fn foreign() -> Self {
        BackupError::Unusable("this is not a backup of Roadstead".into())
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        match self {
            BackupError::Unusable(text)
            | BackupError::Damaged(text)
            | BackupError::Failed(text) => text,
        }
    }

    /// The same about this file.
    #[must_use]
    pub fn of(self, file: &str) -> Self {
        match self {
            BackupError::Unusable(text) => BackupError::Unusable(format!("{file}: {text}")),
            BackupError::Damaged(text) => {
                BackupError::Damaged(format!("{file}: the backup is damaged: {text}"))
            }
            failed @ BackupError::Failed(_) => failed,
        }
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl From<std::io::Error> for BackupError {
    fn from(error: std::io::Error) -> Self {
        BackupError::Failed(error.to_string())
    }
}

impl From<crate::base::Error> for BackupError {
    fn from(error: crate::base::Error) -> Self {
        BackupError::Failed(error.log_detail().unwrap_or(error.message()).into())
    }
}

impl From<DataDirError> for BackupError {
    fn from(error: DataDirError) -> Self {
        BackupError::Unusable(error.0)
    }
}
