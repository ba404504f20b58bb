//! Files that people upload through a form, and bodies that are none.

use std::path::Path;

use roadstead::app::ServerConfig;
use serde_json::json;

use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::Running;
use crate::visitor::{Page, Visitor};

const PARTS: &str = "multipart/form-data; boundary=b";
const MIB: usize = 1024 * 1024;

/// A knowledge base, and the path of the form for files.
fn knowledge_base(server: &Running) -> (String, String) {
    let base = server.ada().post("/knowledge-bases", json!({"name": "Harbour"})).id();
    let path = format!("/o/acme/knowledge/{base}/documents/upload");
    (base, path)
}

fn documents(server: &Running, base: &str) -> Vec<serde_json::Value> {
    server.ada().get(&format!("/knowledge-bases/{base}/documents")).items()
}

#[test]
fn a_file_becomes_a_document_with_its_own_name_or_another() {
    let server = Running::new();
    let (base, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(&path);
    page.shows("up to 10 MiB");
    // Some systems do not know the type.
    let file = ("tides.md", "application/octet-stream", &b"# Tides\n\nHigh at noon."[..]);
    let made = ada.send_file(&page, &path, &[], file);
    ada.open(made.location()).shows("The document was added.").shows("tides.md").shows("Markdown");
    let page = ada.get(&path);
    let file = ("a.csv", "application/vnd.ms-excel", &b"name,depth\nWest,12\n"[..]);
    let made = ada.send_file(&page, &path, &[("name", "Berths")], file);
    ada.open(made.location()).shows("Berths").shows("CSV").shows("West,12");
    let sizes: Vec<_> = documents(&server, &base).iter().map(|one| one["size"].clone()).collect();
    assert_eq!(sizes, [19, 22]);
    // A form that is sent twice is one document.
    let again = ada.send_file(&page, &path, &[("name", "Berths")], file);
    assert_eq!(again.location(), made.location());
    assert_eq!(documents(&server, &base).len(), 2);
    ada.get(&format!("/o/acme/knowledge/{base}?q=noon")).shows("tides.md");
}

#[test]
fn several_files_become_documents_and_what_cannot_be_read_keeps_none_of_the_others() {
    let server = Running::new();
    let (base, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let (tides, berths) = (("tides.md", "", &b"High at noon."[..]), ("b.csv", "", &b"West,12"[..]));
    let page = ada.get(&path);
    let sent = ada.send_files(&page, &path, &[], &[tides, berths]);
    ada.open(sent.location()).shows("The documents were added.").shows("tides.md").shows("b.csv");
    // A form that is sent twice adds each once.
    ada.send_files(&page, &path, &[], &[tides, berths]);
    assert_eq!(documents(&server, &base).len(), 2);
    let wrong = ("x.csv", "", &b"a\0b"[..]);
    let other = ("y.png", "image/png", &b"x"[..]);
    let sent = ada.send_files(&ada.get(&path), &path, &[], &[wrong, tides, other]);
    sent.shows("Not added").shows("x.csv").shows("y.png").shows("Added").shows("tides.md");
    assert_eq!((sent.status, documents(&server, &base).len()), (200, 3));
    let named = ada.send_files(&ada.get(&path), &path, &[("name", "N")], &[tides, berths]);
    assert!(named.has_problem("name"), "{}", named.words());
    let many = vec![tides; 21];
    let refused = ada.send_files(&ada.get(&path), &path, &[], &many);
    assert_eq!(refused.status, 400);
    assert_eq!(documents(&server, &base).len(), 3);
    let half = vec![b' '; 6 * MIB];
    let large = ("l.txt", "text/plain", &half[..]);
    let refused = ada.send_files(&ada.get(&path), &path, &[], &[large, large]);
    assert_eq!(refused.status, 413);
    refused.shows("send several files one by one");
}

#[test]
fn a_document_is_replaced_by_a_file_unless_somebody_else_has_replaced_it() {
    let server = Running::new();
    let (base, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let file = ("tides.md", "", &b"High at noon."[..]);
    let made = ada.send_file(&ada.get(&path), &path, &[], file);
    let document = made.location().to_string();
    let form = format!("{document}/upload");
    ada.get(&document).shows("Replace by a file");
    let (page, late) = (ada.get(&form), ada.get(&form));
    assert_eq!(page.field(&form, "name"), "tides.md");
    let done = ada.send_file(&page, &form, &[], ("b.csv", "", &b"West,12"[..]));
    ada.open(done.location())
        .shows("The document was replaced.")
        .shows("tides.md")
        .shows("West,12");
    let refused = ada.send_file(&late, &form, &[], ("c.csv", "", &b"East,9"[..]));
    assert_eq!(refused.status, 412, "{}", refused.words());
    assert!(refused.has_problem("file"));
    refused.shows("somebody else has replaced the document");
    let api = server.ada();
    let id = documents(&server, &base)[0]["id"].as_str().unwrap().to_string();
    let stored = api.get(&format!("/knowledge-bases/{base}/documents/{id}")).ok();
    assert_eq!(stored["content"], "West,12");
    let again = ada.send_file(&refused, &form, &[("name", "East")], ("c.csv", "", &b"East,9"[..]));
    ada.open(again.location()).shows("East,9");
}

#[test]
fn the_encoding_of_a_text_is_recognized_or_chosen() {
    let server = Running::new();
    let (_, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let file = ("tides.txt", "text/plain", &b"K\xf6ln, \xa4 3"[..]);
    let page = ada.get(&path);
    page.shows("Character encoding").shows("Recognize it");
    let made = ada.send_file(&page, &path, &[("charset", "")], file);
    ada.open(made.location()).shows("read as windows-1252").shows("Köln, ¤ 3");
    let made = ada.send_file(&ada.get(&path), &path, &[("charset", "windows-1251")], file);
    ada.open(made.location()).shows("read as windows-1251").shows("Kцln");
    let refused = ada.send_file(&ada.get(&path), &path, &[("charset", "utf-8")], file);
    assert!(refused.has_problem("file"), "{}", refused.words());
    assert_eq!(refused.field(&path, "charset"), "utf-8");
}

#[test]
fn what_of_a_file_could_not_be_read_is_said_on_its_page() {
    let program = Some(env!("CARGO_BIN_EXE_roadstead").into());
    let server = Running::with(ServerConfig { program, ..ServerConfig::default() });
    let (_, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let page = "/Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 << \
                /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>";
    let pdf = format!(
        "%PDF-1.7\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n\
         2 0 obj << /Type /Pages /Count 2 /Kids [3 0 R 5 0 R] >> endobj\n\
         3 0 obj << {page} /Contents 4 0 R >> endobj\n\
         4 0 obj << /Length 37 >> stream\nBT /F1 9 Tf 9 9 Td (High tide) Tj ET \nendstream endobj\n\
         5 0 obj << {page} /Contents 6 0 R >> endobj\n\
         6 0 obj << /Filter /FlateDecode /Length 4 >> stream\nnone\nendstream endobj\n\
         trailer << /Size 7 /Root 1 0 R >>\n"
    );
    let file = ("tides.pdf", "application/pdf", pdf.as_bytes());
    let made = ada.send_file(&ada.get(&path), &path, &[], file);
    let shown = ada.open(made.location());
    shown.shows("High tide").shows("Not all of the file could be read");
    shown.shows("page 2: a part is damaged and left out");
}

#[test]
fn what_is_wrong_with_a_file_is_said_at_its_field_and_its_name_stays() {
    let server = Running::new();
    let (base, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(&path);
    let long = "x".repeat(1000);
    for (name, file, field, message) in [
        ("Berths", ("", "application/octet-stream", &b""[..]), "file", "File must be chosen."),
        ("Berths", ("a.exe", "application/octet-stream", b"MZ"), "file", "or OpenDocument file."),
        ("Berths", ("a.txt", "text/plain", b"\xff\xfe\xff"), "file", "UTF-16"),
        (&long, ("a.txt", "text/plain", b"Text."), "name", "Name must"),
    ] {
        let refused = ada.send_file(&page, &path, &[("name", name)], file);
        assert_eq!(refused.status, 400, "{}", refused.words());
        refused.shows("Check what you entered").shows(message);
        assert!(refused.has_problem(field), "{}", refused.words());
        assert_eq!(refused.field(&path, "name"), name);
    }
    // A form without parts has no file either.
    let refused = ada.send(&page, &path, &[("name", "Berths")]);
    assert_eq!((refused.status, refused.field(&path, "name").as_str()), (400, "Berths"));
    assert!(documents(&server, &base).is_empty());
}

#[test]
fn a_file_has_the_limit_of_the_route_and_a_larger_body_is_not_read() {
    let server = Running::new();
    let (base, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let send = |bytes: usize| {
        let page = ada.get(&path);
        ada.send_file(&page, &path, &[], ("tides.txt", "text/plain", &vec![b'a'; bytes]))
    };
    for bytes in [10 * MIB + 1, 12 * MIB] {
        let refused = send(bytes);
        assert_eq!(refused.status, 413, "{bytes}");
        refused.shows("File may have 10 MiB; split it");
        assert!(refused.has_problem("file"));
    }
    assert!(documents(&server, &base).is_empty());
    assert_eq!(send(MIB).status, 303);
    // Nobody sends that much without a session: the page comes first, then signing in.
    let visitor = server.visitor();
    let large = vec![b'a'; MIB];
    let page = visitor.post_parts(&path, PARTS, &large);
    assert!(page.location().starts_with("/sign-in?return="), "{}", page.location());
    // Nor to a page that takes no file.
    assert_eq!(ada.post_parts("/account", PARTS, b"--b--").status, 415);
}

#[track_caller]
fn is_refused(visitor: &Visitor, path: &str, body: &[u8]) -> Page {
    let page = visitor.post_parts(path, PARTS, body);
    assert_eq!(page.status, 400, "{}", page.words());
    page.shows("open its page again").clone()
}

#[test]
fn a_body_that_no_browser_sends_does_nothing() {
    let server = Running::new();
    let (base, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let token = ada.get(&path).field(&path, "_token");
    let field = |name: &str, value: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = |name: &str| {
        field("file", "Text.").replace("\"file\"", &format!("\"file\"; filename=\"{name}\""))
    };
    let own = field("_token", &token);
    for body in [
        String::new(),
        "--b".into(),
        own.clone(),
        format!("{own}{}", file("a.txt")),
        format!("{own}{}--b--{own}", file("a.txt")),
        format!("{}--b--", own.repeat(40)),
        format!("{own}{}--b--", field("name", &"x".repeat(70_000))),
        format!("{own}{}--b--", "--b\r\n".repeat(20)),
        format!("{own}{}--b--", file("a.txt").replace("form-data", "attachment")),
    ] {
        is_refused(&ada, &path, body.as_bytes());
    }
    let no_boundary = ada.post_parts(&path, "multipart/form-data", b"--b--");
    assert_eq!(no_boundary.status, 400);
    // Well-formed, but with no token or that of nobody.
    for body in [file("a.txt"), format!("{}{}", field("_token", "AAAA"), file("a.txt"))] {
        let body = format!("{}{body}--b--", field("_return", &path));
        let shown = ada.post_parts(&path, PARTS, body.as_bytes());
        shown.shows("Nothing was done");
    }
    let whole = format!("{own}{}--b--", file("a.txt"));
    let foreign = [("Sec-Fetch-Site", "cross-site")];
    assert_eq!(ada.request("POST", &path, &foreign, &whole).status, 403);
    assert!(documents(&server, &base).is_empty());
    // The name of a file is a name, and no path or markup.
    let body = format!("{own}{}--b--", file("../../<img src=x>.txt"));
    let made = ada.post_parts(&path, PARTS, body.as_bytes());
    assert_eq!(made.status, 303, "{}", made.words());
    assert_eq!(documents(&server, &base)[0]["name"], "<img src=x>.txt");
    assert!(!ada.get(made.location()).text.contains("<img"));
}

#[test]
fn the_name_of_a_file_sent_after_the_session_ended_comes_along() {
    let server = Running::new();
    let (base, path) = knowledge_base(&server);
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(&path);
    server.api("ada@acme.test").delete("/auth/sessions").ok();
    let file = ("tides.txt", "text/plain", &b"High at noon."[..]);
    let over = ada.send_file(&page, &path, &[("name", "Tides")], file);
    assert_eq!(over.status, 401);
    let signed = [("email", "ada@acme.test"), ("password", crate::server::PASSWORD)];
    let shown = ada.send(&over, "/sign-in", &signed);
    assert_eq!(shown.field(&path, "name"), "Tides");
    let path = format!("/knowledge-bases/{base}/documents");
    assert!(server.api("ada@acme.test").get(&path).items().is_empty());
}

#[test]
fn a_person_uploads_a_file() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let (base, path) = knowledge_base(&server);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("Tides and \"berths\".md");
        std::fs::write(&file, "# Tides\r\n\r\nHigh at noon.\n").unwrap();
        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}/o/acme/knowledge/{base}", server.address));
        browser.click(&format!("a[href='{path}']"));
        browser.press("#f-file", Path::to_str(&file).unwrap());
        browser.click("main button.primary");
        browser.shows("The document was added.");
        browser.shows("Tides and \"berths\".md");
        browser.shows("High at noon.");
        assert_eq!(documents(&server, &base)[0]["size"], 25);
    });
}
