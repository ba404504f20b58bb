//! Running the binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Caller, eventually, server_log};

/// The owner's password, where a test does not care.
pub const PASSWORD: &str = "correct horse battery";

/// How long the rest of the log of an ended process takes at most.
const LOG_ENDS: Duration = Duration::from_secs(10);

/// `init` for the organization `acme`.
pub const INIT: [&str; 9] = [
    "init",
    "--org",
    "acme",
    "--org-name",
    "Acme",
    "--email",
    "ada@acme.test",
    "--name",
    "Ada Lovelace",
];

/// A temporary data directory of one test.
pub struct Place {
    dir: tempfile::TempDir,
    /// Environment variables of every command.
    variables: Vec<(&'static str, String)>,
}

impl Place {
    pub fn new() -> Self {
        Place { dir: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// Replaces the environment variables of later commands.
    pub fn set(&mut self, variables: &[(&'static str, &str)]) {
        self.variables = variables.iter().map(|(name, value)| (*name, value.to_string())).collect();
    }

    /// The path of the data directory, which need not exist.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args, &self.data());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.data().join(name)
    }

    /// A data directory with the organization `acme`, and its owner's key.
    pub fn founded() -> (Self, String) {
        let place = Place::new();
        let made = place.init(&["--json"], None).succeeds();
        (place, made["apiKey"]["key"].as_str().unwrap().into())
    }

    /// A copy of the data directory of an ended process.
    pub fn copy(&self) -> Self {
        let copy = Place::new();
        std::fs::create_dir(copy.data()).unwrap();
        for file in std::fs::read_dir(self.data()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.file(file.file_name().to_str().unwrap())).unwrap();
        }
        copy
    }

    /// Runs `init` for the organization `acme`, with this password or [`PASSWORD`] on stdin.
    pub fn init(&self, more: &[&str], password: Option<&str>) -> Ended {
        let args = [&INIT[..], &["--password-stdin"], more].concat();
        run(self.command(&args), Some(password.unwrap_or(PASSWORD)))
    }

    /// Runs a command.
    pub fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args), None)
    }
}

/// The binary, without the environment variables of the test run.
pub fn command(args: &[&str], data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command.args(args).arg("--data").arg(data);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("ROADSTEAD_") || name == "CREDENTIALS_DIRECTORY" {
            command.env_remove(&*name);
        }
    }
    command
}

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The output of a successful command with `--json`: exactly one object.
    #[track_caller]
    pub fn succeeds(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stdout.trim_end().lines().count(), 1, "{self:?}");
        let value: Value = serde_json::from_str(&self.stdout).expect("it is JSON");
        assert!(value.is_object(), "{self:?}");
        value
    }

    /// Fails unless it exited with this code and a message containing `with`, on stderr only.
    #[track_caller]
    pub fn fails(&self, code: i32, with: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(with), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
    }
}

/// Runs a command to its end.
pub fn run(mut command: Command, stdin: Option<&str>) -> Ended {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A command that does not read stdin may have exited.
    let _ = input.write_all(stdin.unwrap_or_default().as_bytes());
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A process that serves. It is killed when dropped.
pub struct Serving {
    child: Child,
    pub address: SocketAddr,
    /// What it printed on stdout when it was ready.
    pub announced: Value,
    stdout: BufReader<ChildStdout>,
    /// The log, once it is complete; read from the start, since a process blocks when nobody reads its
    /// stderr.
    log: Mutex<Receiver<String>>,
    /// Parts of lines of errors that the test asked for.
    expected: Vec<&'static str>,
}

impl Serving {
    /// Runs `serve` on a free port.
    pub fn start(place: &Place, more: &[&str]) -> Self {
        Self::by("serve", place, more)
    }

    /// Like `start`, with another command.
    pub fn by(command_name: &str, place: &Place, more: &[&str]) -> Self {
        let args = [&[command_name, "--listen", "127.0.0.1:0", "--json"][..], more].concat();
        Self::of(place.command(&args))
    }

    /// Runs `serve` on a free port, with these limits of open files.
    pub fn with_files(place: &Place, soft: u32, hard: u32) -> Self {
        let serve = place.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut command = Command::new("sh");
        let limited = format!("ulimit -S -n {soft} && ulimit -H -n {hard} && exec \"$0\" \"$@\"");
        command.arg("-c").arg(limited);
        Self::under(command, &serve)
    }

    /// Runs a command through another, which gets its program and arguments.
    pub fn under(mut through: Command, serve: &Command) -> Self {
        through.arg(serve.get_program()).args(serve.get_args());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => through.env(name, value),
                None => through.env_remove(name),
            };
        }
        Self::of(through)
    }

    /// Runs a command that serves.
    pub fn of(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Ok(announced) = serde_json::from_str::<Value>(&line) else {
            let ended = child.wait_with_output().unwrap();
            panic!("it does not serve: {}", String::from_utf8_lossy(&ended.stderr))
        };
        let url = announced["listening"].as_str().unwrap();
        let address = url.split_once("://").unwrap().1.parse().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let (written, log) = channel();
        thread::spawn(move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).unwrap();
            let _ = written.send(log);
        });
        let log = Mutex::new(log);
        Serving { child, address, announced, stdout, log, expected: Vec::new() }
    }

    /// Expects errors in its log whose lines have one of these parts; others fail the test when the
    /// server ends.
    pub fn expect_errors(&mut self, parts: &[&'static str]) {
        self.expected.extend(parts);
    }

    /// A client with an API key of `acme`.
    pub fn caller(&self, key: &str) -> Caller {
        Caller::anonymous(self.address, "acme").with_key(key)
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A figure of its memory in bytes: `VmRSS` now, `VmHWM` at most.
    pub fn memory(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kib: usize = line.trim_matches([':', ' ', '\t', 'k', 'B']).trim().parse().unwrap();
        kib * 1024
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the exit: the exit code, and the output after it was ready.
    #[track_caller]
    pub fn ends(&mut self) -> (Option<i32>, String, String) {
        let status = eventually("its end", || self.child.try_wait().unwrap());
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        let log = self.log.get_mut().unwrap().recv().unwrap_or_default();
        server_log::assert_clean(&log, &self.expected);
        (status.code(), out, log)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Another process that has its stderr may still run.
        if let Ok(log) = self.log.get_mut().unwrap().recv_timeout(LOG_ENDS) {
            server_log::assert_clean(&log, &self.expected);
        }
    }
}
