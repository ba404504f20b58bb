//! A real Arize Phoenix on this machine: installed once, started for a test, ended with it. It
//! keeps its data in a temporary directory, listens on the loopback interface alone and is told to
//! call nobody.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{self, Reply};

/// The version that is installed, with what it needs as `constraints.txt` says, so that what
/// is tried does not depend on the day.
const VERSION: &str = "20.26.1";

/// How long it may take to start: it makes its tables first, which takes 15 s on a good day.
const START: Duration = Duration::from_secs(120);

/// The key that it lets in.
pub const KEY: &str = "a-key-for-this-test-alone-0123456789";

/// A Phoenix that serves. It is killed when dropped, with all processes that it started.
pub struct Phoenix {
    process: Child,
    address: SocketAddr,
    pub url: String,
    place: tempfile::TempDir,
}

impl Phoenix {
    /// Starts one, installed before if need be; none where it is switched off or cannot be.
    pub fn start() -> Option<Self> {
        let python = installed()?;
        let place = tempfile::tempdir().unwrap();
        let (address, grpc) = (free(), free());
        let log = std::fs::File::create(place.path().join("log")).unwrap();
        let mut command = Command::new(python);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PHOENIX_") {
                command.env_remove(name);
            }
        }
        let process = command
            .args(["-m", "phoenix.server.main", "serve"])
            .env("PHOENIX_WORKING_DIR", place.path())
            .env("PHOENIX_HOST", "127.0.0.1")
            .env("PHOENIX_PORT", address.port().to_string())
            .env("PHOENIX_GRPC_PORT", grpc.port().to_string())
            .env("PHOENIX_ENABLE_AUTH", "true")
            .env("PHOENIX_SECRET", "what-it-signs-with-0123456789abcdef")
            .env("PHOENIX_ADMIN_SECRET", KEY)
            .env("PHOENIX_TELEMETRY_ENABLED", "false")
            .env("PHOENIX_ALLOW_EXTERNAL_RESOURCES", "false")
            .env("PHOENIX_DISABLE_AGENT_ASSISTANT", "true")
            .env("PHOENIX_ENABLE_MCP_SERVER", "false")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let mut phoenix = Phoenix { process, address, url: format!("http://{address}"), place };
        phoenix.wait_until_it_serves();
        Some(phoenix)
    }

    fn wait_until_it_serves(&mut self) {
        let begun = Instant::now();
        while std::net::TcpStream::connect(self.address).is_err() {
            let has_ended = self.process.try_wait().unwrap().is_some();
            assert!(!has_ended && begun.elapsed() < START, "it does not serve:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.place.path().join("log")).unwrap_or_default()
    }

    fn post(&self, path: &str, body: &Value) -> Reply {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let reply = client::raw(self.address, (head + &body).as_bytes());
        assert!(reply.status < 300, "{} {}\n{}", reply.status, reply.text(), self.log());
        reply
    }

    /// Creates a prompt, or another version of one that is there; says the version's id.
    pub fn create(&self, name: &str, version: Value) -> String {
        let made = self.post("/v1/prompts", &json!({"prompt": {"name": name}, "version": version}));
        made.json()["data"]["id"].as_str().unwrap().into()
    }

    /// Puts a tag on a version.
    pub fn tag(&self, version: &str, tag: &str) {
        self.post(&format!("/v1/prompt_versions/{version}/tags"), &json!({"name": tag}));
    }
}

impl Drop for Phoenix {
    fn drop(&mut self) {
        // The group has the number of the process that leads it.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
        let _ = self.process.wait();
    }
}

/// A port that nobody listens on.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The Python that has Phoenix; none, which is said aloud, where there is not to be any.
fn installed() -> Option<PathBuf> {
    let why = match std::env::var("ROADSTEAD_TEST_PHOENIX") {
        Ok(switch) if switch == "off" => Some("ROADSTEAD_TEST_PHOENIX is off"),
        _ if !works(&["-c", "import sys; assert sys.version_info >= (3, 11)"]) => {
            Some("there is no Python 3.11 or later")
        }
        _ if !works(&["-c", "import venv, ensurepip"]) => Some("Python has no venv with pip"),
        _ => None,
    };
    if let Some(why) = why {
        say(&format!("\n*** NOT TESTED against a real Arize Phoenix: {why}. ***\n"));
        return None;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("phoenix-{VERSION}"));
    let (python, complete) = (place.join("bin/python"), place.join("complete"));
    if !complete.exists() {
        say(&format!("installing Arize Phoenix {VERSION} for its test (once, about a minute) ..."));
        let _ = std::fs::remove_dir_all(&place);
        run(Command::new("python3").args(["-m", "venv"]).arg(&place));
        let constraints =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/phoenix/constraints.txt");
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
            // Nothing is built here, and what is never imported need not be compiled.
            .args(["--only-binary", ":all:", "--no-compile", "--constraint"])
            .arg(constraints)
            .arg(format!("arize-phoenix=={VERSION}")));
        std::fs::write(complete, "").unwrap();
    }
    Some(python)
}

fn works(args: &[&str]) -> bool {
    let mut command = Command::new("python3");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn run(command: &mut Command) {
    let done = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{command:?}: {stderr}\nROADSTEAD_TEST_PHOENIX=off leaves this test out"
    );
}

/// The test runner holds back what goes through `eprintln!`, this it does not.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
