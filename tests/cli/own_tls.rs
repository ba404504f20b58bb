//! What is told of TLS of the server's own, and what depends on it (reference: command-line, "TLS").

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Command;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};

use crate::client::eventually;
use crate::client::nostr::{NostrKey, Signed, now_secs};
use crate::process::{PASSWORD, Place, Serving};
use crate::tls::{Files, Made, connect_to, usual};

/// Sends a request over TLS; returns the answer with its head.
fn ask(
    serving: &Serving,
    trusted: &Arc<ClientConfig>,
    head: &str,
    host: &str,
    body: &str,
) -> String {
    let name = ServerName::from(serving.address.ip());
    let mut stream = connect_to(serving.address, name, trusted).unwrap();
    let length = body.len();
    let rest =
        format!("Host: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(format!("{head}\r\n{rest}").as_bytes()).unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).unwrap();
    came
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

const JSON: &str = "Content-Type: application/json";

#[test]
fn the_page_of_the_system_shows_the_fingerprint_of_a_self_signed_certificate() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &["--tls", "self-signed"]);
    let tls = &serving.announced["tls"];
    let trusted = usual(&[&fs::read_to_string(tls["certificate"].as_str().unwrap()).unwrap()]);
    let ada = json!({"email": "ada@acme.test", "password": PASSWORD}).to_string();
    let sign_in = format!("POST /api/auth/sign-in HTTP/1.1\r\n{JSON}");
    let session = body(&ask(&serving, &trusted, &sign_in, "localhost", &ada));
    let cookie = format!("Cookie: __Host-roadstead={}", session["token"].as_str().unwrap());
    let head = format!(
        "GET /o/acme/operations/system HTTP/1.1\r\n{cookie}\r\nAccept: text/html\r\n\
         Sec-Fetch-Site: same-origin"
    );
    let shown = format!("<code>{}</code>", tls["fingerprint"].as_str().unwrap());
    // What the server knows of itself is measured every ten seconds.
    let page = eventually("the certificate on the page", || {
        let page = ask(&serving, &trusted, &head, "localhost", "");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        page.contains("id=\"s-tls\"").then_some(page)
    });
    assert!(page.contains(&shown), "{shown}: {page}");
    assert!(page.contains("made by the server itself"), "{page}");
}

/// Looking for changes says once of files that stay unusable that they are: each further line is the
/// answer to a signal.
#[test]
fn sighup_has_both_files_read_again_although_they_have_not_changed() {
    let (files, (place, _)) = (Files::new(), Place::founded());
    let log = place.data().with_file_name("log");
    let mut shell = Command::new("sh");
    shell.args(["-c", "log=$1; shift; exec \"$@\" 2> \"$log\"", "sh"]).arg(&log);
    let flags = files.flags();
    let args = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let serve = place.command(&[&args[..], &flags.each_ref().map(String::as_str)].concat());
    let mut serving = Serving::under(shell, &serve);

    let said = |times: usize| {
        eventually("the line about the new files", || {
            let log = fs::read_to_string(&log).unwrap();
            let about = |line: &&str| line.contains("is not the key of the certificate");
            (log.lines().filter(about).count() == times).then_some(())
        });
    };
    // Only who reads the certificate and the key knows that they do not belong together.
    fs::write(files.key(), Made::until(2099).key).unwrap();
    said(1);
    for times in [2, 3] {
        serving.signal("HUP");
        said(times);
    }
    serving.signal("TERM");
    assert_eq!(serving.ends().0, Some(0));
}

#[test]
fn signed_requests_over_its_own_tls_need_no_public_url() {
    let (files, (place, key)) = (Files::new(), Place::founded());
    let serving = files.serve(&place, &[]);
    let trusted = usual(&[&fs::read_to_string(files.certificate()).unwrap()]);
    let team = json!({"orgSlug": "acme", "slug": "crew", "name": "Crew"}).to_string();
    let head = format!("POST /api/teams HTTP/1.1\r\nX-API-Key: {key}\r\n{JSON}");
    let made = ask(&serving, &trusted, &head, "localhost", &team);
    assert!(made.starts_with("HTTP/1.1 2"), "{made}");

    let (outside, path) = (NostrKey::new(), "/api/exchange/acme/crew/messages");
    let signed_for = |base: &str, host: &str| {
        let url = format!("{base}{path}");
        let signed = Signed { url: &url, method: "GET", body: None, at: now_secs() };
        let authorization = outside.authorization(signed);
        let head = format!("GET {path} HTTP/1.1\r\nAuthorization: {authorization}");
        let answer = ask(&serving, &trusted, &head, host, "");
        (answer.split(' ').nth(1).unwrap().to_string(), body(&answer)["code"].clone())
    };
    let port = serving.address.port();
    let own = format!("agents.test:{port}");
    // Whose signature is accepted is told that nobody has let this key in.
    let accepted = ("403".to_string(), json!("key_not_accepted"));
    assert_eq!(signed_for(&format!("https://{own}"), &own), accepted);
    let refused = ("401".to_string(), json!("unauthenticated"));
    assert_eq!(signed_for(&format!("http://{own}"), &own), refused);
    // A name that the certificate is not for, and a port that is not the server's.
    let unknown = ("503".to_string(), json!("public_url_required"));
    for host in [format!("evil.test:{port}"), "agents.test:1".into()] {
        assert_eq!(signed_for(&format!("https://{host}"), &host), unknown, "{host}");
    }
}
