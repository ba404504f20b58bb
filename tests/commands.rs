//! The command line as people meet it: the real binary.
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

fn roadstead(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A command that goes on, and ends with the test at the latest.
struct Running(Option<Child>);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        Running(Some(roadstead(arguments).spawn().unwrap()))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    /// Ends it as systemd and Ctrl-C do.
    fn terminate(mut self) -> Output {
        let child = self.0.take().unwrap();
        let kill = format!("kill -TERM {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        child.wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200 ")
}

#[test]
fn a_port_that_is_taken_leaves_no_directory_behind() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for command in ["serve", "demo"] {
        let arguments = [command, "--listen", &address, "--data", data.to_str().unwrap()];
        let ended = roadstead(&arguments).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot listen") && said.contains("--listen"), "{said}");
        assert!(!data.exists(), "{command}");
    }
}

#[test]
fn whoever_sees_the_server_ready_finds_its_setup_link() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let address = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let arguments = ["--data", data.to_str().unwrap()];
    let mut serving =
        Running::start(&[&["serve", "--listen", &address], arguments.as_slice()].concat());
    while !is_ready(&address) {
        assert!(serving.child().try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    let link = std::fs::read_to_string(data.join("setup-link")).unwrap();
    assert!(link.starts_with(&format!("http://{address}/setup#")), "{link}");
    let printed = roadstead(&[&["setup-link"], arguments.as_slice()].concat()).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), link);
    assert_eq!(serving.terminate().status.code(), Some(0));
}

#[test]
fn the_demo_ends_without_complaint() {
    let mut demo = Running::start(&["demo", "--listen", "127.0.0.1:0"]);
    let mut said = BufReader::new(demo.child().stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "Ctrl-C ends the demo."));
    let ended = demo.terminate();
    let log = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
