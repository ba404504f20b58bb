//! The most costly things that one organization may do, for [`crate::neighbours`].

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::neighbours::Neighbours;
use crate::signatures::{Signer, token};

/// Events of agents outside are accepted for a minute.
const LONGEST: Duration = Duration::from_secs(50);

/// The size of the largest bodies and values.
const MIB: usize = 1024 * 1024;

/// Something costly.
pub struct Abuse {
    /// Its name in the table.
    pub name: &'static str,
    /// Stores what it needs.
    pub prepare: fn(&Neighbours) -> Load,
}

/// The requests of an abuse.
pub struct Load {
    connections: usize,
    /// Whether they are sent again and again, or once.
    repeats: bool,
    /// Whether they are sent up to the middle of their bodies, which then wait.
    stalls: bool,
    /// So many are sent, if that takes no longer than [`LONGEST`].
    at_least: usize,
    /// The nth request.
    request: Arc<dyn Fn(usize) -> Vec<u8> + Send + Sync>,
}

/// The requests to send once, one after another.
fn once(requests: Vec<Vec<u8>>) -> Load {
    let connections = requests.len();
    let request = Arc::new(move |nth: usize| requests[nth].clone());
    Load { connections, repeats: false, stalls: false, at_least: 0, request }
}

/// Requests to send on so many connections, as fast as they are answered.
fn flood(connections: usize, request: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) -> Load {
    let request = Arc::new(request);
    Load { connections, repeats: true, stalls: false, at_least: 0, request }
}

impl Load {
    /// Sends the requests, for `time` if they are repeated; counts the answers by their status. An
    /// answer of 0 is a connection that was closed, or of a request that stalls, which has none.
    pub async fn run(self, address: SocketAddr, time: Duration) -> BTreeMap<u16, usize> {
        let mut busy = JoinSet::new();
        let (end, latest) = (Instant::now() + time, Instant::now() + LONGEST.max(time));
        for nth in 0..self.connections {
            let (request, step) = (self.request.clone(), self.connections);
            let (repeats, stalls, at_least) = (self.repeats, self.stalls, self.at_least);
            busy.spawn(async move {
                let mut statuses = Vec::new();
                let mut connection = Connection::open(address).await;
                if stalls {
                    let request = request(nth);
                    connection.send(&request[..request.len() / 2]).await;
                    tokio::time::sleep_until(end.into()).await;
                    return vec![0];
                }
                let mut nth = nth;
                let goes_on = |nth: usize| {
                    let now = Instant::now();
                    repeats && (now < end || (nth < at_least && now < latest))
                };
                while statuses.is_empty() || goes_on(nth) {
                    let status = connection.exchange(&request(nth)).await.unwrap_or(0);
                    if status == 0 || status == 413 {
                        connection = Connection::open(address).await;
                    }
                    statuses.push(status);
                    nth += step;
                }
                statuses
            });
        }
        let mut counts = BTreeMap::new();
        for status in busy.join_all().await.into_iter().flatten() {
            *counts.entry(status).or_default() += 1;
        }
        counts
    }
}

/// All of them.
pub const ABUSES: &[Abuse] = &[
    Abuse { name: "delete an agent with 100 versions of 1 MiB", prepare: delete_agent },
    Abuse { name: "clone a version with 200 models", prepare: clone_version },
    Abuse { name: "import 100 prompts from a list of 3.3 MB", prepare: import },
    Abuse { name: "20 connections post tools with 1 MiB of zeros", prepare: post_tools },
    Abuse { name: "8 connections publish texts of 300 KB", prepare: publish_texts },
    Abuse { name: "30 bodies of 1 MiB [0,0,…]", prepare: post_arrays },
    Abuse { name: "publish for 12 models with 1 MiB of metadata", prepare: publish_models },
    Abuse { name: "64 connections compile", prepare: compile },
    Abuse { name: "64 connections post the same team's tasks", prepare: post_tasks },
    Abuse { name: "20 connections post 49,900 values and text, 1 MiB", prepare: post_heaviest },
    Abuse { name: "64 strangers sign in from as many addresses", prepare: sign_in },
    Abuse { name: "2,000 connections of one address stall in 16 KiB", prepare: stall },
];

/// What agents outside may do, which others may hardly notice.
pub const FROM_OUTSIDE: Abuse =
    Abuse { name: "10,000 signed requests of 1,000 keys", prepare: ask_from_outside };

/// A JSON array of zeros of so many bytes.
fn zeros(bytes: usize) -> String {
    format!("[{}0]", "0,".repeat(bytes / 2 - 1))
}

/// A text in the template language of about so many bytes.
fn text(bytes: usize) -> String {
    "Answer {{CUSTOMER}} in the language of the question, in at most five sentences.\n"
        .repeat(bytes / 80)
}

fn delete_agent(neighbours: &Neighbours) -> Load {
    let agent = json!({"stableKey": "large", "name": "Large"});
    neighbours.prepare("POST", "/agents", agent);
    for nth in 0..100 {
        let config = json!({"providerConfig": {"nth": nth, "text": "x".repeat(MIB - 1024)}});
        neighbours.prepare("PATCH", "/agents/large", json!({"draft": config}));
        neighbours.prepare("POST", "/agents/large/versions", json!({}));
    }
    once(vec![neighbours.request("DELETE", "/agents/large?orgSlug=acme", "")])
}

fn registry(neighbours: &Neighbours) {
    neighbours.prepare("POST", "/registries", json!({"slug": "main", "name": "Main"}));
}

fn publication(name: &str, version: &str, model: &str, source: &str, metadata: Value) -> Value {
    json!({
        "registryRef": "main", "artifactType": "prompt", "name": name, "version": version,
        "model": model, "source": source, "metadata": metadata,
    })
}

fn clone_version(neighbours: &Neighbours) -> Load {
    registry(neighbours);
    let source = text(16 * 1024);
    for nth in 0..200 {
        let model = format!("model-{nth}");
        let body = publication("large", "1.0.0", &model, &source, json!({}));
        neighbours.prepare("POST", "/registries/artifacts", body);
    }
    let path = "/registries/artifact-versions/clone";
    let clone = |nth: usize| {
        let to = json!({"promptName": format!("clone-{nth}")});
        let body =
            json!({"registryRef": "main", "promptName": "large", "version": "1.0.0", "to": to});
        neighbours.request("POST", path, &body.to_string())
    };
    once((0..4).map(clone).collect())
}

fn import(neighbours: &Neighbours) -> Load {
    registry(neighbours);
    let prompt = |nth: usize| {
        json!({
            "name": format!("prompt-{nth}"), "version": "1", "template": text(33_000),
            "format": "text", "labels": [], "updatedAt": null,
        })
    };
    let list = json!({"items": (0..100).map(prompt).collect::<Vec<_>>(), "nextCursor": null});
    let url = format!("http://{}/", serve_json(list.to_string()));
    let provider = json!({"name": "Other", "kind": "http", "baseUrl": url});
    let provider = neighbours.prepare("POST", "/prompt-providers", provider);
    let path = format!("/prompt-providers/{}/import", provider["id"].as_str().expect("an id"));
    let import = |version: usize| {
        let prompts: Vec<_> = (0..100)
            .map(|nth| json!({"name": format!("prompt-{nth}"), "as": format!("p-{version}-{nth}")}))
            .collect();
        let body = json!({"orgSlug": "acme", "registryRef": "main", "prompts": prompts});
        neighbours.request("POST", &path, &body.to_string())
    };
    once((0..4).map(import).collect())
}

fn post_tools(neighbours: &Neighbours) -> Load {
    let config = zeros(MIB - 1024);
    let head = neighbours.key.clone();
    let address = neighbours.server.address;
    flood(20, move |nth| {
        let body = format!(
            r#"{{"orgSlug":"acme","name":"Tool {nth}","type":"function","providerConfig":{{"a":{config}}}}}"#
        );
        bytes(address, &head, "/tools", &body)
    })
}

/// The heaviest bodies that are accepted: nearly 50,000 values, and text up to the limit.
fn post_heaviest(neighbours: &Neighbours) -> Load {
    let (key, address) = (neighbours.key.clone(), neighbours.server.address);
    let values = zeros(2 * 49_900);
    let text = "x".repeat(MIB - 1024 - values.len());
    flood(20, move |nth| {
        let body = format!(
            r#"{{"orgSlug":"acme","name":"Tool {nth}","type":"function","providerConfig":{{"a":{values},"b":"{text}"}}}}"#
        );
        bytes(address, &key, "/tools", &body)
    })
}

/// Sign-ins with addresses that have no account, each from a network of its own: no rate limit holds
/// them back.
fn sign_in(neighbours: &Neighbours) -> Load {
    let address = neighbours.server.address;
    flood(64, move |nth| {
        let body = json!({"email": format!("nobody{nth}@acme.test"), "password": "not a password"});
        let body = body.to_string();
        let [_, a, b, c] = u32::try_from(nth).expect("there are fewer").to_be_bytes();
        format!(
            "POST /api/auth/sign-in HTTP/1.1\r\nhost: {address}\r\nx-forwarded-for: 10.{a}.{b}.{c}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    })
}

/// Requests without a credential whose bodies stop half way, of the largest size that these have.
fn stall(neighbours: &Neighbours) -> Load {
    let address = neighbours.server.address;
    let body = " ".repeat(16 * 1024);
    let request = format!(
        "POST /api/auth/sign-in HTTP/1.1\r\nhost: {address}\r\nx-forwarded-for: 10.0.0.1\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    Load { stalls: true, ..flood(2000, move |_| request.clone().into_bytes()) }
}

fn publish_texts(neighbours: &Neighbours) -> Load {
    registry(neighbours);
    let (key, address) = (neighbours.key.clone(), neighbours.server.address);
    let source = text(300_000);
    flood(8, move |nth| {
        let body = publication("long", &format!("1.0.{nth}"), "generic", &source, json!({}));
        bytes(address, &key, "/registries/artifacts", &body.to_string())
    })
}

fn post_arrays(neighbours: &Neighbours) -> Load {
    let (key, address, body) = (neighbours.key.clone(), neighbours.server.address, zeros(MIB - 16));
    flood(30, move |_| bytes(address, &key, "/tools", &body))
}

fn publish_models(neighbours: &Neighbours) -> Load {
    registry(neighbours);
    let (key, address) = (neighbours.key.clone(), neighbours.server.address);
    let metadata = json!({"note": "x".repeat(MIB - 4096)});
    flood(1, move |nth| {
        let (version, model) = (format!("1.0.{}", nth / 12), format!("model-{}", nth % 12));
        let body = publication("heavy", &version, &model, "Hi", metadata.clone());
        bytes(address, &key, "/registries/artifacts", &body.to_string())
    })
}

fn compile(neighbours: &Neighbours) -> Load {
    registry(neighbours);
    let (key, address) = (neighbours.key.clone(), neighbours.server.address);
    flood(64, move |nth| {
        let body = json!({"orgSlug": "acme", "registryRef": "main", "source": "Hi {{NAME}}"});
        let key = format!("{key}\r\nidempotency-key: compile-{nth}");
        bytes(address, &key, "/prompts/greeting/compile", &body.to_string())
    })
}

fn post_tasks(neighbours: &Neighbours) -> Load {
    let team = neighbours.prepare("POST", "/teams", json!({"slug": "crew", "name": "Crew"}));
    let path = format!("/teams/{}/tasks", team["id"].as_str().expect("an id"));
    let request = neighbours.request("POST", &path, r#"{"orgSlug":"acme","title":"A task"}"#);
    flood(64, move |_| request.clone())
}

/// Requests of agents outside whose domains do not answer. Each agent has a key, an address and a
/// connection of its own, and sends again as soon as it is answered. After the last one the first
/// are sent again, which were used by then.
fn ask_from_outside(neighbours: &Neighbours) -> Load {
    const REQUESTS: usize = 10_000;
    const KEYS: usize = 1000;
    neighbours.prepare("POST", "/teams", json!({"slug": "crew", "name": "Crew"}));
    let address = neighbours.server.address;
    let path = "/api/exchange/acme/crew/requests";
    let url = format!("http://{address}{path}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    let signers: Vec<_> = (0..KEYS as u64).map(Signer::new).collect();
    let request = |nth: usize| {
        let key = nth % KEYS;
        let handle = format!("agent@d{key}.invalid");
        let body = json!({"handle": handle, "message": "Hello"}).to_string();
        let event = signers[key].event("POST", &url, &body, now.as_secs() as i64, nth);
        format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Nostr {}\r\n\
             x-forwarded-for: 10.0.{}.{}\r\ncontent-length: {}\r\n\r\n{body}",
            token(&event),
            key / 256,
            key % 256,
            body.len()
        )
        .into_bytes()
    };
    let requests: Vec<_> = (0..REQUESTS).map(request).collect();
    Load { at_least: REQUESTS, ..flood(KEYS, move |nth| requests[nth % REQUESTS].clone()) }
}

/// The bytes of a POST with this key.
fn bytes(address: SocketAddr, key: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /api{path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A server that answers every request with this JSON, until the benchmark ends.
fn serve_json(body: String) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 8192];
            let _ = stream.read(&mut head);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}
