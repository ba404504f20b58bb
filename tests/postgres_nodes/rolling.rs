//! A rolling restart behind nginx, under load.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{Node, answers, program, set_up, verify_audit_logs};
use crate::client::{Caller, EndOfLoad, eventually};
use crate::postgres_server::PostgresServer;

/// Writers, and as many readers.
const CLIENTS: usize = 4;

/// A running nginx. It is ended when dropped.
struct Nginx {
    child: Child,
    address: SocketAddr,
    _place: tempfile::TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-s", "TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// nginx before these servers, as docs/reference/running-many.md has it.
fn nginx(nginx: &Path, servers: &[SocketAddr]) -> Nginx {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().display().to_string();
    let address = free_address();
    let servers: String =
        servers.iter().map(|server| format!("server {server} max_fails=0;\n")).collect();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|name| format!("{name}_temp_path {folder}/{name};")).join("\n");
    let whole = format!(
        "daemon off;\nworker_processes 1;\npid {folder}/pid;\nerror_log {folder}/error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off;\n{temporary}\nupstream roadstead {{ {servers} keepalive 64; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://roadstead; \
         proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_set_header Host $http_host; proxy_connect_timeout 2s; \
         proxy_next_upstream error timeout http_502 http_503; }} }} }}\n"
    );
    let file = place.path().join("nginx.conf");
    fs::write(&file, whole).unwrap();
    let mut command = Command::new(nginx);
    command.arg("-c").arg(&file).arg("-p").arg(place.path());
    command.arg("-e").arg(place.path().join("error.log"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    eventually("the start of nginx", || answers(address).then_some(()));
    Nginx { child, address, _place: place }
}

/// What the clients count.
#[derive(Default)]
struct Counts {
    is_over: AtomicBool,
    reads: AtomicUsize,
    repeated: AtomicUsize,
}

/// Creates tools until it is over, with an `Idempotency-Key` each, and repeats what fails as a client
/// does; returns the names.
fn write(caller: &Caller, writer: usize, counts: &Counts) -> Vec<String> {
    let mut names = Vec::new();
    while !counts.is_over.load(Ordering::SeqCst) {
        let name = format!("w{writer}-{}", names.len());
        let body = json!({"name": name, "type": "function"});
        let mut tries = 0;
        loop {
            let ask = caller.ask("POST", "/tools").with("Idempotency-Key", &name);
            match ask.org_json(body.clone()).try_send() {
                Ok(reply) if reply.status < 500 => {
                    reply.ok();
                    break;
                }
                failed => {
                    tries += 1;
                    let failed = failed.map(|reply| reply.text());
                    assert!(tries < 50, "{name}: {failed:?}");
                    counts.repeated.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
        names.push(name);
    }
    names
}

#[test]
fn a_rolling_restart_fails_no_request_but_those_that_a_client_repeats() {
    let Some(path) = program("/usr/sbin/nginx", "nginx") else { return };
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let url = database.url();
    let addresses = [free_address(), free_address(), free_address()];
    let start = |address: &SocketAddr| Node::start_at(&url, &address.to_string());
    let mut nodes: Vec<_> = addresses.iter().map(start).collect();
    let proxy = nginx(path, &addresses);
    let owner = set_up(&nodes[0]);
    let owner = Caller::anonymous(proxy.address, "acme").with_bearer(owner.credential());
    let counts = Counts::default();
    let written = std::thread::scope(|scope| {
        let end = EndOfLoad(&counts.is_over);
        let writers: Vec<_> = (0..CLIENTS)
            .map(|writer| {
                let (caller, counts) = (owner.clone(), &counts);
                scope.spawn(move || write(&caller, writer, counts))
            })
            .collect();
        for _ in 0..CLIENTS {
            let (caller, counts) = (owner.clone(), &counts);
            scope.spawn(move || {
                while !counts.is_over.load(Ordering::SeqCst) {
                    // nginx repeats a read itself.
                    caller.get("/tools?limit=5").ok();
                    counts.reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for (at, address) in addresses.iter().enumerate() {
            let reads = counts.reads.load(Ordering::SeqCst);
            eventually("some load", || {
                (counts.reads.load(Ordering::SeqCst) > reads + 20).then_some(())
            });
            let node = nodes.remove(at);
            node.stop();
            nodes.insert(at, start(address));
        }
        drop(end);
        let names = writers.into_iter().flat_map(|writer| writer.join().unwrap());
        names.collect::<Vec<_>>()
    });
    let there: Vec<_> = owner.walk("/tools", 100);
    let names: BTreeSet<_> = there.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(there.len(), written.len(), "nothing twice");
    assert!(written.iter().all(|name| names.contains(name.as_str())), "nothing lost");
    crate::postgres_server::say(&format!(
        "restarted three servers under {} reads and {} writes, {} of them repeated",
        counts.reads.load(Ordering::SeqCst),
        written.len(),
        counts.repeated.load(Ordering::SeqCst),
    ));
    for node in nodes {
        node.stop();
    }
    verify_audit_logs(&url);
}
