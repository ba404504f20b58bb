//! A real Arize Phoenix on this machine: installed once, started for a test, ended with it. It
//! keeps its data in a temporary directory, listens on the loopback interface alone and is told to
//! call nobody.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{self, Reply};
use crate::optional::{Installed, installed as place_of};
use crate::python::{self, Packages};

static ENVIRONMENT: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "phoenix-20.26.1",
        what: "Arize Phoenix for its test (once, about a minute)",
        wanted: &["arize-phoenix==20.26.1"],
        constraints: "tests/phoenix/constraints.txt",
    })
});

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
    let place = place_of("PHOENIX", "a real Arize Phoenix", &ENVIRONMENT)?;
    Some(place.join("bin/python"))
}
