//! Flags of every command, and logging.

use std::env;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;

use super::log_writer::OneLineEach;
use super::output;
use crate::app::{DataDir, KeySource};

/// Flags of every command.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The data directory
    #[arg(
        long,
        value_name = "DIR",
        env = "ROADSTEAD_DATA",
        default_value = "roadstead-data",
        help_heading = "Common"
    )]
    pub data: String,

    /// Print one JSON object to stdout instead of text
    #[arg(
        long,
        env = "ROADSTEAD_JSON",
        value_parser = BoolishValueParser::new(),
        help_heading = "Common"
    )]
    pub json: bool,

    /// Format of log lines on stderr
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        env = "ROADSTEAD_LOG_FORMAT",
        default_value = "human",
        help_heading = "Common"
    )]
    pub log_format: LogFormat,

    /// Log level: error, warn, info, debug (one line per request) or trace
    #[arg(
        long,
        value_name = "LEVEL",
        env = "ROADSTEAD_LOG_LEVEL",
        default_value = "info",
        help_heading = "Common"
    )]
    pub log_level: LevelFilter,
}

impl Common {
    pub(super) fn data_dir(&self) -> DataDir {
        self.data_dir_at(&self.data)
    }

    /// A data directory, with the key from the environment, if any. The variable is not a clap
    /// argument, because clap's help would print its value.
    pub(super) fn data_dir_at(&self, path: impl Into<PathBuf>) -> DataDir {
        DataDir::at(path).with_progress(output::progress).with_key_source(KeySource {
            variable: env::var_os("ROADSTEAD_SECRET_KEY"),
            credentials: env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            new_variable: env::var_os("ROADSTEAD_NEW_SECRET_KEY"),
        })
    }
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Readable text, in color on a terminal.
    Human,
    /// One JSON object per line.
    Json,
}

/// Returns the path under which this program can be started again, also after its file was replaced
/// by that of another version.
pub(super) fn program() -> Option<PathBuf> {
    const RUNNING: &str = "/proc/self/exe";
    let is_linux = cfg!(target_os = "linux") && std::fs::exists(RUNNING).unwrap_or(false);
    if is_linux { Some(RUNNING.into()) } else { env::current_exe().ok() }
}

/// Initializes logging to stderr.
pub(super) fn init_logging(common: &Common) {
    let has_colors = common.log_format == LogFormat::Human && std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_max_level(common.log_level)
        .with_writer(OneLineEach { has_colors })
        .with_target(false);
    match common.log_format {
        LogFormat::Human => lines.with_ansi(has_colors).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
