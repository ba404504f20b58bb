//! The command line: one file a command (contract §2).
//!
//! Results go to stdout, for a person or, with `--json`, as one JSON object; everything else goes
//! to stderr. Exit codes: 0 done, 1 failed or not sound, 2 wrong usage or a data directory that
//! cannot be opened.

mod check;
mod demo;
mod init;
mod openapi;
mod output;
mod routes;
mod serve;
mod setup_link;
mod values;
mod version;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tracing::level_filters::LevelFilter;

use crate::app::{DataDir, OutsideKey, Unusable};

/// One self-hosted binary in which a small team keeps its AI agents.
#[derive(Parser)]
#[command(
    name = "roadstead",
    version,
    about,
    long_about = "Roadstead keeps a team's AI agents: their versions, tools and environments, and \
                  the teams in which they get tasks, read mail, remember, and are woken.\n\n\
                  Try it:      roadstead demo\n\
                  Use it:      roadstead serve        (prints a link to set it up)\n\
                  See it all:  roadstead routes",
    after_help = "Every flag can also be given as an environment variable: ROADSTEAD_ and its \
                  name in capitals, with underscores (--log-format is ROADSTEAD_LOG_FORMAT). The \
                  flag wins.\n\nROADSTEAD_SECRET_KEY, or the systemd credential secret.key, holds \
                  the installation's key where it is not to lie in the data directory: 64 hex \
                  digits, as made by: openssl rand -hex 32"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Init(init::Init),
    Demo(demo::Demo),
    Check(check::Check),
    Routes(routes::Routes),
    Openapi(openapi::OpenApi),
    SetupLink(setup_link::SetupLink),
    Version(version::Version),
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Where the data lies
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

    /// How log lines on stderr look
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        env = "ROADSTEAD_LOG_FORMAT",
        default_value = "human",
        help_heading = "Common"
    )]
    pub log_format: LogFormat,

    /// The least important lines to log: error, warn, info, debug (one line a request) or trace
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
    fn data_dir(&self) -> DataDir {
        self.data_dir_at(&self.data)
    }

    /// A data directory, with the key that the environment may hold. Not by clap, whose help would
    /// print the variable's value.
    fn data_dir_at(&self, path: impl Into<PathBuf>) -> DataDir {
        DataDir::at(path).with_progress(output::progress).with_key_from(OutsideKey {
            variable: env::var_os("ROADSTEAD_SECRET_KEY"),
            credentials: env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from),
        })
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    /// For a person.
    Human,
    /// One JSON object a line.
    Json,
}

/// Why a command ends without having done its work.
pub(crate) enum Failure {
    /// Exit code 1: it failed, or what was checked is not sound.
    Failed(String),
    /// Exit code 2: it was used wrongly, or the data directory cannot be opened.
    Unusable(String),
}

impl From<crate::base::Error> for Failure {
    fn from(error: crate::base::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<Unusable> for Failure {
    fn from(unusable: Unusable) -> Self {
        Failure::Unusable(unusable.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(command) => command.run(),
        Command::Init(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Routes(command) => command.run(),
        Command::Openapi(command) => command.run(),
        Command::SetupLink(command) => command.run(),
        Command::Version(command) => command.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            output::complain(&message);
            ExitCode::from(1)
        }
        Err(Failure::Unusable(message)) => {
            output::complain(&message);
            ExitCode::from(2)
        }
    }
}

/// Sends log lines to stderr.
fn log(common: &Common) {
    use std::io::IsTerminal as _;
    let lines = tracing_subscriber::fmt()
        .with_max_level(common.log_level)
        .with_writer(std::io::stderr)
        .with_target(false);
    match common.log_format {
        LogFormat::Human => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
