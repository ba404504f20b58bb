//! `serve`: start, setup, shutdown.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Caller, Connection, eventually, first_limited, raw};
use crate::process::{Place, Serving, command};
use crate::tls::Files;

#[test]
fn a_new_directory_is_set_up_once_by_the_printed_link() {
    let place = Place::new();
    fs::create_dir(place.data()).unwrap();
    place.run(&["setup-link"]).fails(1, "setup link");
    let serving = Serving::start(&place, &[]);
    let link = serving.announced["setupLink"].as_str().unwrap();
    let (page, token) = link.split_once('#').unwrap();
    assert_eq!(page, format!("http://{}/setup", serving.address));
    assert_eq!(place.run(&["setup-link", "--json"]).succeeds(), json!({"setupLink": link}));
    assert_eq!(place.run(&["setup-link"]).stdout.trim(), link);
    let mode = fs::metadata(place.file("setup-link")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let anonymous = Caller::anonymous(serving.address, "acme");
    let set_up = |token: &str| {
        let body = json!({
            "token": token,
            "organization": {"slug": "acme", "name": "Acme"},
            "user": {"name": "Ada", "email": "Ada@Acme.test", "password": "correct horse battery"},
        });
        anonymous.ask("POST", "/setup").json(&body).send()
    };
    set_up("wrong").refused(401, "unauthenticated");
    let session = set_up(token).ok();
    // Gone before the answer came.
    assert!(!place.file("setup-link").exists());
    assert_eq!(session["user"]["email"], "ada@acme.test");
    assert_eq!(set_up(token).status, 404);
    let ada = anonymous.with_bearer(session["token"].as_str().unwrap());
    assert_eq!(ada.get("/organizations/members").items()[0]["emailVerified"], true);
    place.run(&["setup-link"]).fails(1, "setup link");
    drop(serving);
    let again = Serving::start(&place, &[]);
    assert_eq!(again.announced["setupLink"], json!(null));
}

#[test]
fn the_address_is_printed_as_text_too() {
    use std::io::{BufRead as _, BufReader};
    let (place, _) = Place::founded();
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"], &place.data());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("Roadstead") && line.contains("http://127.0.0.1:"), "{line}");
}

#[test]
fn a_second_server_of_a_directory_is_told_of_the_first() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let listen = serving.address.to_string();
    let second = place.run(&["serve", "--listen", &listen]);
    second.fails(1, "cannot listen on");
    second.fails(1, "a server runs already over ");
    let elsewhere = Place::new();
    let other = elsewhere.run(&["serve", "--listen", &listen]);
    other.fails(1, "choose another --listen");
    assert!(!other.stderr.contains("runs already"), "{other:?}");
}

/// What a server prints that is not set up and listens on all addresses.
fn printed_of_all_addresses(more: &[&str]) -> Vec<String> {
    use std::io::{BufRead as _, BufReader};
    let place = Place::new();
    let args = [&["serve", "--listen", "0.0.0.0:0"][..], more].concat();
    let mut command = command(&args, &place.data());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut printed = Vec::new();
    while !printed.iter().any(|line: &String| line.contains("/setup#")) {
        printed.push(lines.next().unwrap());
    }
    // It ends by itself once it has printed the rest.
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    printed.extend(lines);
    child.wait().unwrap();
    printed
}

#[test]
fn the_setup_link_is_for_other_machines_only_over_tls() {
    let plain = printed_of_all_addresses(&[]).join("\n");
    assert!(plain.contains("  http://127.0.0.1:"), "{plain}");
    assert!(plain.ends_with("could be read on the way. See --tls."), "{plain}");
    let secured = printed_of_all_addresses(&["--tls", "self-signed"]);
    let token = |line: &String| line.split_once("/setup#").map(|(_, token)| token.to_string());
    let links: Vec<_> = secured.iter().filter_map(token).collect();
    // A container, for one, has no name that others know.
    let is_told = secured.iter().any(|line| line.starts_with("From other machines: "));
    let wanted = if is_told { 2 } else { 1 };
    assert_eq!(links.len(), wanted, "{secured:?}");
    assert_eq!(links.first(), links.last(), "{secured:?}");
    let files = Files::new();
    let flags = files.flags();
    // The first name of its certificate is of this machine alone.
    let local = printed_of_all_addresses(&flags.each_ref().map(String::as_str)).join("\n");
    for (said, is_told) in [(secured.join("\n"), is_told), (local, false)] {
        assert_eq!(said.ends_with("that is in the certificate."), !is_told, "{said}");
    }
}

#[test]
fn a_port_in_use_is_reported() {
    let (place, _) = Place::founded();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    place.run(&["serve", "--listen", &at]).fails(1, "--listen");
    place.run(&["serve", "--listen", "nonsense"]).fails(2, "--listen");
    let nothing = Place::new();
    for command in ["serve", "demo"] {
        nothing.run(&[command, "--listen", &at]).fails(1, "--listen");
        assert!(!nothing.data().exists(), "{command} left a directory behind");
    }
}

#[test]
fn health_says_whether_the_server_of_an_address_is_ready() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let (at, port) = (serving.address.to_string(), serving.address.port());
    let everywhere = format!("0.0.0.0:{port}");
    for listen in [&at, &everywhere] {
        let said = place.run(&["health", "--listen", listen, "--json"]).succeeds();
        assert_eq!(said, json!({"status": "ok", "url": format!("http://{at}/readyz")}));
    }
    drop(serving);
    place.run(&["health", "--listen", &at]).fails(1, &at);
    place.run(&["health", "--listen", "127.0.0.1:0"]).fails(2, "--listen");
}

#[test]
fn links_use_the_public_url() {
    let place = Place::new();
    let serving = Serving::start(&place, &["--public-url", "https://fleet.example/"]);
    let link = serving.announced["setupLink"].as_str().unwrap();
    assert!(link.starts_with("https://fleet.example/setup#"), "{link}");
}

#[test]
fn sigterm_answers_long_polls_and_exits_soon() {
    let (place, key) = Place::founded();
    for signal in ["TERM", "INT", "HUP"] {
        let mut serving = Serving::start(&place, &[]);
        let ada = serving.caller(&key);
        let slug = signal.to_lowercase();
        let team = ada.post("/teams", json!({"slug": slug, "name": "T"})).id();
        ada.post("/agents", json!({"stableKey": slug, "name": "A"})).ok();
        let body = json!({"stableKey": slug, "role": "member"});
        let agent = ada.post(&format!("/teams/{team}/agents"), body).id();
        let path = ada.in_org(&format!("/teams/{team}/agents/{agent}/wakes?wait=60"));
        let mut waiting: Vec<_> = (0..10)
            .map(|_| {
                let mut connection = Connection::open(serving.address).unwrap();
                connection.write(&ada.ask("GET", &path).to_bytes()).unwrap();
                connection
            })
            .collect();
        // An idle connection does not delay the exit.
        let _idle = Connection::open(serving.address).unwrap();
        let begun = Instant::now();
        serving.signal(signal);
        for connection in &mut waiting {
            let reply = connection.reply(false).unwrap();
            assert_eq!(reply.ok(), json!({"items": [], "nextCursor": null}));
        }
        let (code, out, log) = serving.ends();
        assert_eq!((code, out.as_str()), (Some(0), ""), "{log}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    }
    assert_eq!(place.run(&["check"]).code, Some(0));
}

#[test]
fn the_log_is_on_stderr_and_holds_no_secret() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &["--log-level", "trace", "--log-format", "json"]);
    let ada = serving.caller(&key);
    ada.get("/tools").ok();
    ada.with_fields(&[]).with_bearer(&key).get("/tools").ok();
    let body = json!({"email": "ada@acme.test", "password": "a secret of Ada's"});
    ada.with_fields(&[]).post("/auth/sign-in", body).refused(401, "unauthenticated");
    let asked = ada.ask("GET", "/nothing").with("X-Request-Id", "find-me").send();
    assert_eq!(asked.status, 404);
    serving.signal("TERM");
    let (code, out, log) = serving.ends();
    assert_eq!((code, out.as_str()), (Some(0), ""));
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    assert!(log.contains("find-me"), "{log}");
    assert!(!log.contains(&key) && !log.contains("a secret of Ada's"), "{log}");
}

#[test]
fn the_rate_limit_applies() {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &["--rate-limit", "2"]);
    let ada = serving.caller(&key);
    let limited = first_limited(4, Duration::from_millis(500), || ada.get("/tools"));
    limited.refused(429, "rate_limited");
    assert!(limited.header("retry-after").is_some());
}

#[test]
fn metrics_tell_the_size_of_the_database() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let text = eventually("the size of the database", || {
        let text = raw(serving.address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").text();
        Some(text).filter(|text| text.contains("roadstead_database_free_pages"))
    });
    let value = |name: &str| -> u64 {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        rest.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    let bytes = value("roadstead_database_file_bytes");
    assert_eq!(bytes, fs::metadata(place.file("roadstead.redb")).unwrap().len());
    let free = value("roadstead_database_free_pages") * value("roadstead_database_page_bytes");
    assert!(0 < free && free < bytes, "{free} of {bytes} bytes are free");
}

#[test]
fn no_proxy_is_taken_from_the_environment() {
    use std::io::{ErrorKind, Read as _};
    let (mut place, key) = Place::founded();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let proxy_url = format!("http://{}", proxy.local_addr().unwrap());
    let names =
        ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    let variables: Vec<_> = names.iter().map(|name| (*name, proxy_url.as_str())).collect();
    place.set(&[&variables[..], &[("no_proxy", ""), ("NO_PROXY", "")]].concat());
    let serving = Serving::start(&place, &["--allow-private-network", "127.0.0.1"]);

    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let ada = serving.caller(&key);
    let team = ada.post("/teams", json!({"slug": "t", "name": "T"})).id();
    ada.post("/agents", json!({"stableKey": "a", "name": "A"})).ok();
    let wake_url = format!("http://{}/woken", receiver.local_addr().unwrap());
    let member = json!({"stableKey": "a", "role": "member", "wakeUrl": wake_url});
    let agent = ada.post(&format!("/teams/{team}/agents"), member).id();
    let task = json!({"title": "Wake up", "assigneeAgentId": agent});
    ada.post(&format!("/teams/{team}/tasks"), task).ok();

    let mut start = [0; 12];
    receiver.accept().unwrap().0.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"POST /woken ");
    assert!(proxy.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
}

#[test]
#[cfg(target_os = "linux")]
fn a_crash_of_the_server_writes_no_image_of_its_memory() {
    let (place, _) = Place::founded();
    let server = Serving::start(&place, &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{core}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_server_gets_no_huge_pages() {
    let (place, _) = Place::founded();
    let server = Serving::start(&place, &[]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let huge_pages = status.lines().find(|line| line.starts_with("THP_enabled")).unwrap();
    assert_eq!(huge_pages, "THP_enabled:\t0");
}
