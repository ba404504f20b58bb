//! Flags of every command, and logging.

use std::env;
use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::failure::Failure;
use super::log_writer::OneLineEach;
use super::output;
use crate::app::{DataDir, KeySource, panics};

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
    #[arg(long, env = "ROADSTEAD_JSON", help_heading = "Common")]
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

/// Returns the path under which this program can be started again: with `/proc` also after its file
/// was replaced by that of another version, without it the path by which it was started.
pub(super) fn program() -> Option<PathBuf> {
    const RUNNING: &str = "/proc/self/exe";
    let is_linux = cfg!(target_os = "linux") && std::fs::exists(RUNNING).unwrap_or(false);
    if is_linux {
        return Some(RUNNING.into());
    }
    let called = || as_called(&env::args_os().next()?, env::var_os("PATH").as_deref());
    env::current_exe().ok().or_else(called)
}

/// Returns a command that is this program, for a child process.
pub(super) fn restarted() -> Result<Command, Failure> {
    let unknown = || {
        let why = "the path of this program cannot be found, which it needs to start itself again";
        Failure::Failed(format!("{why}: mount /proc, or call the program by its path"))
    };
    program().map(Command::new).ok_or_else(unknown)
}

/// Returns the program that a shell starts by this name.
fn as_called(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.parent()? != Path::new("") {
        return std::path::absolute(name).ok();
    }
    env::split_paths(path?).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Initializes logging of a command that serves: its panics are log lines, too.
pub(super) fn init_server_logging(common: &Common) {
    init_logging(common);
    panics::record_all();
}

/// Initializes logging to stderr.
pub(super) fn init_logging(common: &Common) {
    let has_colors = common.log_format == LogFormat::Human && std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_max_level(common.log_level)
        .with_writer(OneLineEach { has_colors })
        // Where the log cannot be written, that cannot be said either: it would panic, again and again.
        .log_internal_errors(false)
        .with_target(false);
    // What HTTP/2 consists of is nothing that the log is asked for, also not at debug.
    let own = Targets::new().with_default(common.log_level).with_target("h2", LevelFilter::OFF);
    match common.log_format {
        LogFormat::Human => lines.with_ansi(has_colors).finish().with(own).init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().with(own).init(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::thread;

    use super::*;

    const IN_CHILD: &str = "ROADSTEAD_TEST_PANICS";

    #[test]
    fn without_proc_the_program_is_the_one_that_was_called() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("roadstead");
        std::fs::write(&file, "").unwrap();
        let path = env::join_paths([Path::new("/nothing/here"), place.path()]).unwrap();
        let called = |name: &str| as_called(OsStr::new(name), Some(&path));
        assert_eq!(called("roadstead"), Some(file));
        assert_eq!(called("/opt/roadstead"), Some("/opt/roadstead".into()));
        assert_eq!(called("./roadstead"), Some(env::current_dir().unwrap().join("roadstead")));
        assert_eq!(called("other"), None);
        assert_eq!(as_called(OsStr::new("roadstead"), None), None);
    }

    /// The hook and the log are of the process, so it panics in one of its own: this test again.
    #[test]
    fn a_panic_of_a_command_that_serves_is_one_line_of_its_log_and_nothing_else() {
        if env::var_os(IN_CHILD).is_some() {
            init_server_logging(&Common {
                data: String::new(),
                json: true,
                log_format: LogFormat::Json,
                log_level: LevelFilter::INFO,
            });
            let panicking = thread::Builder::new().name("writer".into());
            panicking.spawn(|| panic!("on\npurpose")).unwrap().join().unwrap_err();
            return;
        }
        let name = format!("{}::a_panic_of", module_path!().split_once("::").unwrap().1);
        let mut child = Command::new(env::current_exe().unwrap());
        child.args([&name, "--nocapture"]).env(IN_CHILD, "1").env_remove("RUST_BACKTRACE");
        let output = child.stderr(Stdio::piped()).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).expect(&log)).collect();
        let [line] = lines.as_slice() else { panic!("not one line: {log}") };
        assert_eq!((&line["level"], &line["thread"]), (&"ERROR".into(), &"writer".into()), "{log}");
        assert_eq!(line["message"], "panicked: on\npurpose", "{log}");
        assert!(line["location"].as_str().unwrap().starts_with(file!()), "{log}");
    }
}
