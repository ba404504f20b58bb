//! A program that is told and tells JSON, a line each.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

/// A running program. It is killed when dropped.
pub struct Program {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Program {
    /// Starts it. What it says of its own work, such as each login that fails, is not shown.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let printed = BufReader::new(process.stdout.take().unwrap()).lines();
        let stdin = process.stdin.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || printed.map_while(Result::ok).try_for_each(|l| sender.send(l)));
        Program { process, stdin, lines }
    }

    /// Writes a line to it.
    pub fn tell(&mut self, what: &Value) {
        writeln!(self.stdin, "{what}").unwrap();
    }

    /// The next line that it prints; fails if none comes.
    pub fn hear(&mut self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(60)).expect("a line of it");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}"))
    }
}

/// A file of the tests of outgoing TLS: a certificate for `localhost`.
pub fn fixture(name: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/outside/fixtures");
    fixtures.join(name).to_str().unwrap().into()
}
