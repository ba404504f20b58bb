//! Pages of other sites, in a real browser: they cannot show the console in a frame, nor send its
//! forms.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::Running;

/// Serves a page of another site.
fn site(html: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let html = Arc::new(html);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, html) = (stream.unwrap(), html.clone());
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let length = html.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n"
                );
                let _ = stream.write_all(&[head.as_bytes(), html.as_bytes()].concat());
            });
        }
    });
    address
}

#[test]
fn a_page_of_another_site_neither_frames_the_console_nor_sends_its_forms() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let browser = driver.browser(1280, 800, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        let home = format!("http://{}", server.address);
        let name = || server.ada().get("/auth/session").ok()["user"]["name"].clone();
        // With the token of the session, as if it were known.
        browser.open(&format!("{home}/account"));
        let token = browser.value("[name=_token]");
        let port = site(format!(
            "<h1>Elsewhere</h1><iframe src=\"{home}/o/acme\"></iframe><form method=\"post\" \
             action=\"{home}/account\"><input name=\"name\" value=\"Mallory\"><input \
             name=\"_token\" value=\"{token}\"><input name=\"_return\" value=\"/account\">\
             <button>Send</button></form>"
        ))
        .port();
        // Another origin of the same site, and another site.
        for host in ["127.0.0.1", "localhost"] {
            browser.open(&format!("http://{host}:{port}/"));
            browser.shows("Elsewhere");
            let framed = browser.within_frame(0, |frame| frame.text());
            assert!(!framed.contains("Today") && !framed.contains("Sign in"), "{host}: {framed}");
            browser.click("button");
            browser.shows("sent from another site");
            assert_eq!(name(), "Ada", "{host}");
        }
        browser.open(&format!("{home}/o/acme"));
        browser.shows("Today");
    });
}
