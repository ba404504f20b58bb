//! Arize Phoenix, as the tests install it, with one prompt under a tag.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::place;
use crate::registry;

/// It needs 11 to 16 s to start on such a machine when that is quiet.
const START: Duration = Duration::from_secs(120);

/// A running Phoenix.
pub struct Phoenix {
    /// Where it listens.
    pub address: SocketAddr,
    name: String,
    process: Child,
    _place: TempDir,
}

impl Phoenix {
    /// Starts it with a prompt tagged `production`, if it is installed.
    pub fn start(name: &str, template: &str) -> Option<Self> {
        let python = installed()?;
        let place = place();
        let free = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let [http, grpc] = [0, 1].map(free).map(|it| it.local_addr().expect("it is bound"));
        let process = Command::new(python)
            .args(["-m", "phoenix.server.main", "serve"])
            .env("PHOENIX_HOST", "127.0.0.1")
            .env("PHOENIX_PORT", http.port().to_string())
            .env("PHOENIX_GRPC_PORT", grpc.port().to_string())
            .env("PHOENIX_WORKING_DIR", place.path())
            .env("PHOENIX_TELEMETRY_ENABLED", "false")
            .env("PHOENIX_ALLOW_EXTERNAL_RESOURCES", "false")
            .env("PHOENIX_DISABLE_AGENT_ASSISTANT", "true")
            .env("PHOENIX_ENABLE_MCP_SERVER", "false")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is a program");
        let phoenix = Phoenix { address: http, name: name.into(), process, _place: place };
        let until = Instant::now() + START;
        while TcpStream::connect(http).is_err() {
            assert!(Instant::now() < until, "Phoenix did not start within {START:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        let made = phoenix.ask("/v1/prompts", &prompt(name, template));
        let made: Value = serde_json::from_str(&made).expect("answers are JSON");
        let version = made["data"]["id"].as_str().expect("a version was made");
        let tag = json!({"name": registry::LABEL});
        phoenix.ask(&format!("/v1/prompt_versions/{version}/tags"), &tag);
        Some(phoenix)
    }

    /// The request that reads the prompt by its tag.
    pub fn read_by_tag(&self) -> Vec<u8> {
        let path = format!("/v1/prompts/{}/tags/{}", self.name, registry::LABEL);
        format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address).into_bytes()
    }

    /// The request that publishes a version of a prompt.
    pub fn publish(&self, name: &str, template: &str) -> Vec<u8> {
        post(self.address, "/v1/prompts", &prompt(name, template)).into_bytes()
    }

    /// Posts something; the body of the answer.
    fn ask(&self, path: &str, body: &Value) -> String {
        let request = post(self.address, path, body);
        let request = request.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 20"), "{path}: {answer}");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.into()).unwrap_or_default()
    }
}

impl Drop for Phoenix {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn post(host: SocketAddr, path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The Python that has it, if the tests have installed it (`tests/phoenix/phoenix.rs`).
fn installed() -> Option<PathBuf> {
    let places = std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).ok()?;
    let places = places.flatten().filter(|place| {
        place.file_name().to_string_lossy().starts_with("phoenix-")
            && place.path().join("complete").exists()
    });
    places.map(|place| place.path().join("bin/python")).next()
}

fn prompt(name: &str, template: &str) -> Value {
    json!({
        "prompt": {"name": name},
        "version": {
            "model_provider": "OPENAI",
            "model_name": "any",
            "template": {
                "type": "chat", "messages": [{"role": "system", "content": template}],
            },
            "template_type": "CHAT",
            "template_format": "MUSTACHE",
            "invocation_parameters": {"type": "openai", "openai": {}},
        },
    })
}
