//! How heavy pages are: compressed where that tells nobody anything, and with a light frame.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::json;

use crate::accessibility::kinds;
use crate::client::{Connection, Reply};
use crate::crawl::crawl;
use crate::server::Running;
use crate::visitor::Visitor;
use crate::{filled, outside};

/// What of a page is the same on all: all but what is in `main`.
fn frame(page: &str) -> usize {
    let (before, rest) = page.split_once("<main").unwrap();
    let (main, after) = rest.split_once("</main>").unwrap();
    let content = main.find("<div role=\"status\"").unwrap();
    before.len() + content + after.len()
}

/// Asks for a page as browsers do, which take what is compressed.
fn ask(server: &Running, visitor: &Visitor, path: &str) -> Reply {
    let cookies = visitor.cookies.borrow().clone();
    let all: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nAccept: text/html\r\n\
         Accept-Encoding: gzip, deflate, br\r\nSec-Fetch-Site: same-origin\r\n\
         Connection: close\r\n\r\n",
        server.address,
        all.join("; ")
    );
    let mut connection = Connection::open(server.address).unwrap();
    connection.write(head.as_bytes()).unwrap();
    connection.reply(false).unwrap()
}

#[test]
fn a_page_is_compressed_unless_something_of_the_request_is_on_it() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let page = ask(&server, &ada, "/o/acme/prompts");
    assert_eq!(page.header("content-encoding"), Some("gzip"));
    assert_eq!(page.header("vary"), Some("accept-encoding"));
    let mut text = String::new();
    GzDecoder::new(&page.body[..]).read_to_string(&mut text).unwrap();
    assert!(text.contains("Main") && page.body.len() * 2 < text.len(), "{}", page.body.len());
    let plain = ada.get("/o/acme/prompts");
    assert_eq!(plain.reply.header("content-encoding"), None);
    assert_eq!(plain.reply.header("vary"), Some("accept-encoding"));
    for path in [
        "/o/acme/search?q=guess",
        "/o/acme/prompts?guess",
        "/o/acme/guess",
        "/o/acme/variables/guess",
        "/o/acme/prompts/main/guess/edit",
        "/o/acme/promptlets/main/guess/edit",
        "/o/acme/registries/guess/new",
    ] {
        let reply = ask(&server, &ada, path);
        assert_eq!(reply.header("content-encoding"), None, "{path}");
    }
    assert_eq!(ada.get("/o/acme/registries/guess/new").status, 404);
    server.publish("prompt", "notes", "1.0.0", "Hello.\n");
    for path in ["/o/acme/prompts/main/notes/edit", "/o/acme/registries/main/new"] {
        let reply = ask(&server, &ada, path);
        assert_eq!(reply.header("content-encoding"), Some("gzip"), "{path}");
    }
}

/// Something on the pages of each kind, under names as people give them.
fn fill(server: &Running) {
    server.add("ben", "member");
    server.deployable(&["scribe"], json!(null));
    filled::operations(server, "Harbour");
    filled::directory(server, "Harbour");
    let (team, agent) = server.team("crew", "herald");
    let api = server.ada();
    let post = |path: &str, body| api.post(&format!("/teams/{team}{path}"), body).ok();
    post("/tasks", json!({"title": "Write the notes"}));
    post("/inbox", json!({"fromAgentId": agent, "subject": "Which tone?", "body": "Calm?"}));
    post("/approvals", json!({"agentId": agent, "title": "May I?", "body": "Now?"}));
    let wake = json!({"agentId": agent, "text": "Look."});
    post("/schedules", json!({"name": "Daily", "everySecs": 60, "wake": wake}));
    outside::ask(server, "crew", "May I?");
    server.publish("prompt", "notes", "1.1.0", "Good morning.");
    for model in ["small", "large"] {
        api.patch("/agents/scribe", json!({"draft": {"model": model}})).ok();
        api.post("/agents/scribe/versions", json!({})).ok();
    }
    api.post("/fleets", json!({"name": "Writers"})).ok();
    let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    api.post("/agents/deployments", job).ok();
}

#[test]
fn a_frame_of_a_page_is_at_most_5_kb() {
    let server = Running::new();
    fill(&server);
    let pages = crawl(&server.signed_in("ada@acme.test"));
    let paths = kinds(pages.keys().cloned());
    assert!(paths.len() > 60, "{paths:?}");
    let sizes = paths.iter().map(|path| (path, frame(&pages[path].text)));
    let heavy: Vec<_> = sizes.filter(|(_, size)| *size > 5 * 1024).collect();
    assert!(heavy.is_empty(), "{} of {}: {heavy:?}", heavy.len(), paths.len());
}

/// The names of a picture's parts, in its order.
fn icons() -> Vec<String> {
    let picture = include_str!("../../src/console/assets/icons.svg");
    let names = picture.split("<title>").skip(1);
    names.map(|rest| rest.split('<').next().unwrap().to_string()).collect()
}

#[test]
fn the_style_sheet_knows_where_each_icon_is() {
    let styles = include_str!("../../src/console/assets/console.css");
    for (at, name) in icons().into_iter().enumerate() {
        assert!(styles.contains(&format!(".i-{name} {{ --i: {at}; }}")), "{name} at {at}");
    }
}
