//! Knowledge bases: documents as text and from files, searching, and files that were made to do harm.

use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use roadstead::resources;
use roadstead::store::View;
use roadstead::store::check::Findings;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::client::{Caller, Reply, eventually};
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};

const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// A new knowledge base; returns its path.
fn make(acme: &Fixture) -> String {
    let made = acme.admin.post("/knowledge-bases", json!({"name": "Handbook"})).id();
    format!("/knowledge-bases/{made}")
}

#[track_caller]
fn add(caller: &Caller, base: &str, name: &str, content: &str) -> Value {
    caller.post(&format!("{base}/documents"), json!({"name": name, "content": content})).ok()
}

fn upload(caller: &Caller, base: &str, media_type: &str, bytes: &[u8]) -> Reply {
    let path = caller.in_org(&format!("{base}/documents/upload?name=A%20file"));
    caller.ask("POST", &path).with("Content-Type", media_type).bytes(bytes).send()
}

fn search(caller: &Caller, base: &str, q: &str) -> Vec<Value> {
    let q: String = form_urlencoded::byte_serialize(q.as_bytes()).collect();
    caller.get(&format!("{base}/search?q={q}")).items()
}

fn names(hits: &[Value]) -> Vec<&str> {
    hits.iter().map(|hit| hit["name"].as_str().unwrap()).collect()
}

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/api/files/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

// ── Knowledge bases and documents ────────────────────────────────────────────

#[test]
fn admins_make_knowledge_bases_and_members_write_documents() {
    let acme = Fixture::new();
    let new = json!({"name": "Handbook", "description": "How we work"});
    assert_eq!(acme.member.post("/knowledge-bases", new.clone()).status, 403);
    let made = acme.admin.post("/knowledge-bases", new).ok();
    assert_eq!((&made["documents"], &made["description"]), (&json!(0), &json!("How we work")));
    let base = format!("/knowledge-bases/{}", made["id"].as_str().unwrap());
    let document = add(&acme.member, &base, "On call", "Answer within 15 minutes. äöü");
    let expected = json!({
        "id": document["id"], "name": "On call", "mediaType": "text/plain", "size": 32,
        "createdAt": document["createdAt"], "updatedAt": document["createdAt"],
        "updatedBy": acme.member_id, "leftOut": [], "charset": null,
    });
    assert_eq!(document, expected);
    assert_eq!(acme.member.get(&base).ok()["documents"], 1);
    assert_eq!(acme.member.get(&format!("{base}/documents")).items(), [expected]);
    let one = format!("{base}/documents/{}", document["id"].as_str().unwrap());
    let shown = acme.member.get(&one).ok();
    assert_eq!(shown["content"], "Answer within 15 minutes. äöü");

    let replaced = acme.member.put(&one, json!({"name": "Calls", "content": "Be kind."})).ok();
    assert_eq!((&replaced["id"], &replaced["size"]), (&document["id"], &json!(8)));
    assert_eq!(acme.member.get(&one).ok()["content"], "Be kind.");
    assert_eq!(acme.member.get(&base).ok()["documents"], 1);
    assert_eq!(names(&search(&acme.member, &base, "kind")), ["Calls"]);
    assert_eq!(search(&acme.member, &base, "minutes").len(), 0);

    let renamed = acme.admin.patch(&base, json!({"name": "Guide", "description": null})).ok();
    assert_eq!((&renamed["name"], &renamed["description"]), (&json!("Guide"), &json!(null)));
    assert_eq!(acme.member.delete(&one).ok(), json!({"id": document["id"], "deleted": true}));
    assert_eq!(acme.member.delete(&one).status, 404);
    assert_eq!(acme.member.get(&base).ok()["documents"], 0);
    assert_eq!(acme.member.delete(&base).status, 403);
    acme.admin.delete(&base).ok();
    assert_eq!(acme.member.get(&base).status, 404);
    assert_eq!(acme.member.get(&format!("{base}/documents")).status, 404);
}

#[test]
fn keys_are_refused_and_other_organizations_see_nothing() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    let base = make(&acme);
    let document = add(&acme.member, &base, "On call", "Answer.")["id"].clone();
    let one = format!("{base}/documents/{}", document.as_str().unwrap());
    let key = key_of(&acme.admin);
    for path in ["/knowledge-bases", &base, &format!("{base}/search?q=a"), &one] {
        assert_eq!(key.get(path).status, 401, "{path}");
    }
    assert_eq!(upload(&key, &base, "text/plain", b"a").status, 401);
    for path in [&base, &one, &format!("{base}/documents"), &format!("{base}/search?q=answer")] {
        let foreign = other.owner.get(path);
        assert_eq!(foreign.status, 404, "{path}");
        assert_eq!(foreign.problem()["path"], "id", "{path}");
    }
    assert_eq!(upload(&other.owner, &base, "text/plain", b"a").status, 404);
    let elsewhere = make(&acme);
    let id = document.as_str().unwrap();
    let below = acme.member.get(&format!("{elsewhere}/documents/{id}"));
    assert_eq!((below.status, &below.problem()["path"]), (404, &json!("documentId")));
    assert_eq!(other.owner.get("/knowledge-bases").items().len(), 0);
}

#[test]
fn documents_are_bounded_and_requests_conditional_and_repeatable() {
    let acme = Fixture::new();
    let base = make(&acme);
    let documents = format!("{base}/documents");
    let large = "a b ".repeat(307_200 / 4);
    let made = acme.member.post(&documents, json!({"name": "n", "content": large})).ok();
    let one = format!("{documents}/{}", made["id"].as_str().unwrap());
    assert_eq!(acme.member.get(&one).ok()["content"], large);
    let larger = json!({"name": "n", "content": format!("{large}c")});
    let refused = acme.member.post(&documents, larger);
    assert_eq!((refused.status, &refused.problem()["issues"][0]["path"]), (400, &json!("content")));

    let tag = acme.member.get(&one).header("etag").unwrap().to_string();
    let path = acme.member.in_org(&one);
    let unchanged = acme.member.ask("GET", &path).with("If-None-Match", &tag).send();
    assert_eq!(unchanged.status, 304);
    let replace = |tag: &str, content: &str| {
        let ask = acme.member.ask("PUT", &one).with("If-Match", tag);
        ask.org_json(json!({"name": "n", "content": content})).send()
    };
    replace(&tag, "c").ok();
    replace(&tag, "theirs").refused(412, "changed_meanwhile");
    assert_eq!(acme.member.get(&one).ok()["content"], "c");
    let stale = acme.member.ask("DELETE", &path).with("If-Match", &tag).send();
    assert_eq!(stale.status, 412);

    let body = json!({"name": "once", "content": "repeated"});
    let post = || {
        let ask = acme.member.ask("POST", &documents).with("Idempotency-Key", "k");
        ask.org_json(body.clone()).send()
    };
    let (first, second) = (post(), post());
    assert_eq!(first.ok(), second.ok());
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(search(&acme.member, &base, "repeated").len(), 1);
    let uploading = || {
        let path = acme.member.in_org(&format!("{documents}/upload?name=f"));
        let ask = acme.member.ask("POST", &path).with("Idempotency-Key", "u");
        ask.with("Content-Type", "text/plain").bytes("uploaded").send()
    };
    assert_eq!(uploading().ok(), uploading().ok());
    assert_eq!(search(&acme.member, &base, "uploaded").len(), 1);
}

#[test]
fn every_write_is_audited_once() {
    let acme = Fixture::new();
    let base = make(&acme);
    let id = add(&acme.member, &base, "n", "c")["id"].as_str().unwrap().to_string();
    let text = "word ".repeat(500_000);
    let uploaded = upload(&acme.member, &base, "text/plain", text.as_bytes()).id();
    acme.member.delete(&format!("{base}/documents/{id}")).ok();
    let audited = acme.audited();
    let of = |action: &str| {
        let entries = audited.iter().filter(|entry| entry.action == action);
        entries.map(|entry| entry.resource_id.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(of("document.create"), [&*id]);
    assert_eq!(of("document.upload"), [uploaded]);
    assert_eq!(of("document.delete"), [id]);
}

#[test]
fn a_search_takes_phrases_beginnings_and_any_form_of_a_word() {
    let acme = Fixture::new();
    let base = make(&acme);
    add(&acme.member, &base, "1", "The ΟΔΥΣΣΕΥΣ depart\u{ad}ment is on call in der Größe, café");
    add(&acme.member, &base, "2", "call on Cafe 日本語");
    for (q, expected) in [
        ("οδυσσευς", &["1"][..]),
        ("GRÖSSE", &["1"]),
        ("department", &["1"]),
        ("depart*", &["1"]),
        ("\"on call\"", &["1"]),
        ("café", &["1", "2"]),
        ("cafe", &["2", "1"]),
        ("本語", &["2"]),
        ("\"on call", &["2", "1"]),
        ("\"", &[]),
        ("*", &[]),
        ("\u{301}", &[]),
    ] {
        assert_eq!(names(&search(&acme.member, &base, q)), expected, "{q}");
    }
    // The longest cursor: each of 32 words is looked up in several forms.
    for n in 0..3 {
        add(&acme.member, &base, &format!("many {n}"), "é0ß é1ß");
    }
    let q: String = (0..32).map(|n| format!("%C3%A9{n}%C3%9F+")).collect();
    assert_eq!(acme.member.walk(&format!("{base}/search?q={q}"), 1).len(), 3);
}

#[test]
fn a_search_is_a_list_of_passages() {
    let acme = Fixture::new();
    let base = make(&acme);
    for n in 0..30 {
        add(&acme.member, &base, &format!("Note {n}"), &format!("Remember number{n}, and more."));
    }
    let all = acme.member.walk(&format!("{base}/search?q=remember+number7"), 7);
    assert_eq!(all.len(), 30);
    assert_eq!(all[0]["name"], "Note 7");
    assert_eq!(all[0]["snippet"], "Remember number7, and more.");
    assert_eq!(all[0]["highlights"], json!([{"start": 0, "end": 8}, {"start": 9, "end": 16}]));
    let scores: Vec<_> = all.iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|one, other| one >= other) && scores[29] > 0.0, "{scores:?}");
    for (query, path) in
        [("", "q"), ("q=", "q"), ("q=a&limit=0", "limit"), ("q=a&cursor=x", "cursor")]
    {
        let refused = acme.member.get(&format!("{base}/search?{query}"));
        assert_eq!((refused.status, &refused.problem()["issues"][0]["path"]), (400, &json!(path)));
    }
    let unknown = acme.member.get(&format!("/knowledge-bases/{}/search?q=a", unknown_id()));
    assert_eq!(unknown.status, 404);
}

// ── Files ────────────────────────────────────────────────────────────────────

#[test]
fn files_of_text_are_kept_as_they_are() {
    let acme = Fixture::new();
    let base = make(&acme);
    for (media_type, text) in [
        ("text/plain", "Grüße\r\naus Köln"),
        ("text/markdown", "# Köln\n\n* eins"),
        ("text/csv", "city,country\nKöln,DE\n"),
        ("text/plain", ""),
    ] {
        let sent =
            upload(&acme.member, &base, &format!("{media_type}; charset=utf-8"), text.as_bytes());
        let sent = sent.ok();
        assert_eq!((&sent["mediaType"], &sent["size"]), (&json!(media_type), &json!(text.len())));
        let one = format!("{base}/documents/{}", sent["id"].as_str().unwrap());
        assert_eq!(acme.member.get(&one).ok()["content"], text);
    }
    assert_eq!(search(&acme.member, &base, "köln").len(), 3);
    for (media_type, bytes, status, code) in [
        ("application/json", &b"{}"[..], 415, "unsupported_media_type"),
        ("image/png", b"x", 415, "unsupported_media_type"),
        ("application/octet-stream", b"x", 415, "unsupported_media_type"),
        ("text/csv", b"a\0b", 400, "unreadable_document"),
    ] {
        let refused = upload(&acme.member, &base, media_type, bytes);
        assert_eq!((refused.status, &refused.problem()["code"]), (status, &json!(code)));
    }
    let path = acme.member.in_org(&format!("{base}/documents/upload"));
    let unnamed =
        acme.member.ask("POST", &path).with("Content-Type", "text/plain").bytes("a").send();
    assert_eq!((unnamed.status, &unnamed.problem()["issues"][0]["path"]), (400, &json!("name")));
}

#[test]
fn a_file_replaces_a_document_whose_name_stays_unless_another_is_given() {
    let acme = Fixture::new();
    let base = make(&acme);
    let document = upload(&acme.member, &base, "text/plain", b"first words").id();
    let path = format!("{base}/documents/{document}");
    let before = acme.member.get(&path);
    let tag = before.header("etag").unwrap().to_string();
    let put = |query: &str, tag: Option<&str>, bytes: &str| {
        let path = acme.member.in_org(&format!("{path}/upload{query}"));
        let ask = acme.member.ask("PUT", &path).with("Content-Type", "text/csv").bytes(bytes);
        match tag {
            Some(tag) => ask.with("If-Match", tag).send(),
            None => ask.send(),
        }
    };
    let replaced = put("", Some(&tag), "second,words").ok();
    assert_eq!(
        [&replaced["id"], &replaced["name"], &replaced["mediaType"], &replaced["size"]],
        [&json!(document), &json!("A file"), &json!("text/csv"), &json!(12)]
    );
    assert_eq!(acme.member.get(&path).ok()["content"], "second,words");
    assert_eq!(search(&acme.member, &base, "first").len(), 0);
    assert_eq!(search(&acme.member, &base, "second").len(), 1);
    let outdated = put("", Some(&tag), "third");
    assert_eq!((outdated.status, acme.member.get(&path).ok()["size"].clone()), (412, json!(12)));
    assert_eq!(put("?name=Other", None, "third").ok()["name"], "Other");
    assert_eq!(put("?name=", None, "fourth").status, 400);
    let gone = format!("{base}/documents/{}/upload", "018f0000-0000-7000-8000-000000000007");
    let path = acme.member.in_org(&gone);
    let missing = acme.member.ask("PUT", &path).with("Content-Type", "text/csv").bytes("x").send();
    assert_eq!(missing.status, 404);
}

#[test]
fn a_repeated_upload_of_another_type_or_charset_is_another_request() {
    let acme = Fixture::new();
    let path = acme.member.in_org(&format!("{}/documents/upload?name=A", make(&acme)));
    let send = |media_type: &str| {
        let ask = acme.member.ask("POST", &path).with("Idempotency-Key", "k");
        ask.with("Content-Type", media_type).bytes("text").send()
    };
    let first = send("text/plain").ok()["id"].clone();
    assert_eq!(send("text/plain").ok()["id"], first);
    for other in ["text/csv", "text/plain; charset=koi8-r"] {
        send(other).refused(409, "idempotency_key_reused");
    }
}

#[test]
fn the_encoding_of_a_text_is_recognized_and_said_and_another_one_can_be_given() {
    let acme = Fixture::new();
    let base = make(&acme);
    let send = |media_type: &str, charset: &str, bytes: &[u8]| {
        let path = acme.member.in_org(&format!("{base}/documents/upload?name=A%20file{charset}"));
        acme.member.ask("POST", &path).with("Content-Type", media_type).bytes(bytes).send()
    };
    let read = |sent: &Value| {
        let one = format!("{base}/documents/{}", sent["id"].as_str().unwrap());
        let shown = acme.member.get(&one).ok();
        assert_eq!(shown["charset"], sent["charset"]);
        shown["content"].as_str().unwrap().to_string()
    };
    let german = b"Stadt;Stra\xdfe\r\nK\xf6ln;Gr\xfcner Weg\r\n";
    let utf16: Vec<u8> = "\u{feff}Köln".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (media_type, given, bytes, charset, text) in [
        ("text/csv", "", &german[..], json!("windows-1252"), "Stadt;Straße\r\nKöln;Grüner Weg\r\n"),
        ("text/plain", "", &utf16, json!("UTF-16LE"), "Köln"),
        ("text/markdown", "", "Köln".as_bytes(), json!(null), "Köln"),
        (
            "text/plain",
            "&charset=ISO-8859-5",
            b"\xbf\xe0\xd8\xdb\xd8\xd2",
            json!("ISO-8859-5"),
            "Прилив",
        ),
        ("text/html", "", b"<meta charset=koi8-r><p>\xf4\xc5\xd3\xd4", json!("KOI8-R"), "Тест"),
        ("text/plain; charset=\"ISO-8859-5\"", "", b"\xbf\xe0", json!("ISO-8859-5"), "Пр"),
        ("text/csv; Charset=koi8-r", "&charset=ISO-8859-5", b"\xbf\xe0", json!("ISO-8859-5"), "Пр"),
        ("text/html", "&charset=koi8-r", b"<p>\xf4\xc5\xd3\xd4", json!("KOI8-R"), "Тест"),
    ] {
        let sent = send(media_type, given, bytes).ok();
        assert_eq!(
            (&sent["charset"], read(&sent).as_str()),
            (&charset, text),
            "{media_type}{given}"
        );
    }
    // A document whose text is replaced has no file any more.
    let sent = send("text/csv", "", german).ok();
    let one = format!("{base}/documents/{}", sent["id"].as_str().unwrap());
    let text = json!({"name": "A text", "content": "All of it."});
    assert_eq!(acme.member.put(&one, text).ok()["charset"], json!(null));
    for (media_type, given, bytes) in [
        ("text/plain", "&charset=utf-9", &b"a"[..]),
        ("text/plain", "&charset=", b"a"),
        ("application/pdf", "&charset=utf-8", b"%PDF-1.7"),
    ] {
        let refused = send(media_type, given, bytes);
        let issues = &refused.problem()["issues"];
        assert_eq!((refused.status, &issues[0]["path"]), (400, &json!("charset")), "{given}");
    }
    send("text/plain", "&charset=utf-8", b"caf\xe9").refused(400, "unreadable_document");
}

/// A file with these parts.
fn parts(parts: &[(&str, &str)]) -> Vec<u8> {
    let parts: Vec<_> = parts.iter().map(|(name, text)| (*name, vec![text.as_bytes()])).collect();
    archive(&parts)
}

const PPTX: &str = "application/vnd.openxmlformats-officedocument.presentationml.presentation";
const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
const ODT: &str = "application/vnd.oasis.opendocument.text";
const ODS: &str = "application/vnd.oasis.opendocument.spreadsheet";
const ODP: &str = "application/vnd.oasis.opendocument.presentation";
const EPUB: &str = "application/epub+zip";

/// The part that refers to this one, as `a`.
fn refers_to(kind: &str, target: &str) -> String {
    format!(
        "<Relationships><Relationship Id=\"a\" Type=\"http://b/{kind}\" Target=\"{target}\"/>\
         </Relationships>"
    )
}

/// An OpenDocument file with this content.
fn odf(body: &str, content: &str) -> Vec<u8> {
    parts(&[(
        "content.xml",
        &format!("<o:a><o:body><o:{body}>{content}</o:{body}></o:body></o:a>"),
    )])
}

/// A workbook with these rows.
fn xlsx(rows: &str) -> Vec<u8> {
    parts(&[
        ("xl/workbook.xml", "<workbook><sheet name=\"Tides\" r:id=\"a\"/></workbook>"),
        ("xl/_rels/workbook.xml.rels", &refers_to("worksheet", "worksheets/sheet1.xml")),
        ("xl/worksheets/sheet1.xml", &format!("<worksheet>{rows}</worksheet>")),
    ])
}

/// A book with this document.
fn epub(document: &str) -> Vec<u8> {
    let package = "<package><title>Tides</title><item id=\"a\" href=\"a.xhtml\" \
                   media-type=\"application/xhtml+xml\"/><itemref idref=\"a\"/></package>";
    parts(&[
        ("META-INF/container.xml", "<container><rootfile full-path=\"o/a.opf\"/></container>"),
        ("o/a.opf", package),
        ("o/a.xhtml", document),
    ])
}

#[test]
fn files_of_each_format_are_read() {
    let acme = Fixture::new();
    let base = make(&acme);
    let pptx = parts(&[
        ("ppt/presentation.xml", "<p:a><p:sldId r:id=\"a\"/></p:a>"),
        ("ppt/_rels/presentation.xml.rels", &refers_to("slide", "slides/slide1.xml")),
        ("ppt/slides/slide1.xml", "<a:p><a:r><a:t>High at noon</a:t></a:r></a:p>"),
    ]);
    let table = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>A1</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r>\
                 <w:t>B1</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p><w:r><w:t>After</w:t></w:r></w:p>";
    let cell = "<t:table t:name=\"Tides\"><t:table-row><t:table-cell><x:p>High</x:p></t:table-cell>\
                <t:table-cell><x:p>noon</x:p></t:table-cell></t:table-row></t:table>";
    let rtf = b"{\\rtf1\\ansi High at {\\b no}on\\par Gr\\'fc\\'dfe}";
    for (sent_as, media_type, bytes, text) in [
        (
            "text/html",
            "text/html",
            &b"<title>Tides</title><p>High &amp; low"[..],
            "Tides\nHigh & low",
        ),
        ("application/xhtml+xml", "text/html", b"<p>High</p><script/>low", "High\nlow"),
        ("application/rtf", "application/rtf", rtf, "High at noon\nGrüße"),
        ("text/rtf", "application/rtf", rtf, "High at noon\nGrüße"),
        (EPUB, EPUB, &epub("<p>High&nbsp;at noon</p>"), "Tides\nHigh\u{a0}at noon"),
        (DOCX, DOCX, &docx(table.as_bytes()), "A1\tB1\nAfter"),
        (PPTX, PPTX, &pptx, "High at noon"),
        (XLSX, XLSX, &xlsx("<row><c><v>1</v></c><c r=\"C1\"><v>2</v></c></row>"), "Tides\n1\t\t2"),
        (ODT, ODT, &odf("text", "<x:p>High at noon</x:p>"), "High at noon"),
        (ODS, ODS, &odf("spreadsheet", cell), "Tides\nHigh\tnoon"),
        (ODP, ODP, &odf("presentation", "<d:page><x:p>High</x:p></d:page>"), "High"),
    ] {
        let sent = upload(&acme.member, &base, sent_as, bytes).ok();
        assert_eq!((&sent["mediaType"], &sent["charset"]), (&json!(media_type), &json!(null)));
        let one = format!("{base}/documents/{}", sent["id"].as_str().unwrap());
        assert_eq!(acme.member.get(&one).ok()["content"], text, "{sent_as}");
    }
}

#[test]
fn a_file_may_have_10_mebibytes_and_is_shown_in_whole() {
    let acme = Fixture::new();
    let base = make(&acme);
    // Few words: without optimization, finding them takes most of the time.
    let line = format!("Zeile mit Umlaut ü und {}\n", "mehr".repeat(200));
    let mut text = line.repeat(10 * 1024 * 1024 / line.len());
    text.push_str(&"x".repeat(10 * 1024 * 1024 - text.len()));
    let sent = upload(&acme.member, &base, "text/plain", text.as_bytes()).ok();
    let one = format!("{base}/documents/{}", sent["id"].as_str().unwrap());
    assert!(acme.member.get(&one).ok()["content"] == text);
    assert_eq!(search(&acme.member, &base, "umlaut").len(), 1);
    text.push('x');
    let refused = upload(&acme.member, &base, "text/plain", text.as_bytes());
    assert_eq!((refused.status, &refused.problem()["code"]), (413, &json!("body_too_large")));
}

#[test]
fn pdf_and_docx_of_other_software_are_read() {
    let acme = Fixture::new();
    let base = make(&acme);
    for (name, media_type, texts) in [
        (
            "reportlab.pdf",
            "application/pdf",
            &["On call", "answers within 15 minutes", "page two"][..],
        ),
        ("reportlab-owner.pdf", "application/pdf", &["answers within 15 minutes"]),
        (
            "fpdf2.pdf",
            "application/pdf",
            &["Bereitschaft: Grüße aus Köln", "Ελληνικά", "Кириллица"],
        ),
        (
            "python-docx.docx",
            DOCX,
            &["On call", "Grüße & <Küsse>", "first cell", "second cell", "after"],
        ),
    ] {
        let sent = upload(&acme.member, &base, media_type, &file(name)).ok();
        assert_eq!(sent["size"], file(name).len(), "{name}");
        assert_eq!(sent["mediaType"], media_type);
        assert_eq!(sent["leftOut"], json!([]), "{name}");
        let one = format!("{base}/documents/{}", sent["id"].as_str().unwrap());
        let content = acme.member.get(&one).ok()["content"].as_str().unwrap().to_string();
        for text in texts {
            assert!(content.contains(text), "{name}: {text}: {content}");
        }
    }
    let encrypted =
        upload(&acme.member, &base, "application/pdf", &file("reportlab-encrypted.pdf"));
    assert_eq!(encrypted.status, 400);
    let message = encrypted.problem()["message"].as_str().unwrap().to_string();
    assert!(message.contains("encrypted"), "{message}");
}

#[test]
fn what_of_a_file_cannot_be_read_is_left_out_and_stays_told() {
    let acme = Fixture::new();
    let base = make(&acme);
    let page = |content: u32| {
        let page = "/Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] \
                    /Resources << /Font << /F1 3 0 R >> >>";
        format!("<< {page} /Contents {content} 0 R >>").into_bytes()
    };
    let whole = deflated(SHOWN.as_bytes(), 50);
    let bytes = pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 2 /Kids [4 0 R 6 0 R] >>".to_vec(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
        page(5),
        stream("/Filter /FlateDecode", &whole),
        page(7),
        stream("/Filter /FlateDecode", &whole[..whole.len() / 2]),
    ]);
    let told = json!(["page 2: a part is damaged and left out"]);
    let sent = upload(&acme.member, &base, "application/pdf", &bytes).ok();
    assert_eq!(sent["leftOut"], told);
    let one = format!("{base}/documents/{}", sent["id"].as_str().unwrap());
    assert_eq!(acme.member.get(&one).ok()["leftOut"], told);
    assert_eq!(acme.member.get(&format!("{base}/documents")).items()[0]["leftOut"], told);
    assert_eq!(search(&acme.member, &base, "words")[0]["documentId"], sent["id"]);
    let text = json!({"name": "A text", "content": "All of it."});
    assert_eq!(acme.member.put(&one, text).ok()["leftOut"], json!([]));
}

// ── Files that were made to do harm ──────────────────────────────────────────

/// A PDF of these objects, of which the first is the catalog, with a table of where they are.
fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend_from_slice(format!("{} 0 obj\n", number + 1).as_bytes());
        bytes.extend_from_slice(object);
        bytes.extend_from_slice(b"\nendobj\n");
    }
    let start = bytes.len();
    let count = objects.len() + 1;
    bytes.extend_from_slice(format!("xref\n0 {count}\n0000000000 65535 f \n").as_bytes());
    for place in places {
        bytes.extend_from_slice(format!("{place:010} 00000 n \n").as_bytes());
    }
    let end = format!("trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n");
    bytes.extend_from_slice(end.as_bytes());
    bytes
}

fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("<< {dictionary} /Length {} >>\nstream\n", content.len());
    [head.as_bytes(), content, b"\nendstream"].concat()
}

/// A PDF of so many pages, which share a content.
fn pages(count: usize, content: Vec<u8>, form: &str) -> Vec<u8> {
    let kids: String = (0..count).map(|n| format!("{} 0 R ", n + 6)).collect();
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R \
                /Resources << /Font << /F1 3 0 R >> /XObject << /X 5 0 R >> >> >>";
    let mut objects: Vec<Vec<u8>> = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Count {count} /Kids [{kids}] >>").into(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
        content,
        stream(
            "/Type /XObject /Subtype /Form /BBox [0 0 9 9] \
             /Resources << /Font << /F1 3 0 R >> /XObject << /X 5 0 R >> >>",
            form.as_bytes(),
        ),
    ];
    objects.extend((0..count).map(|_| page.as_bytes().to_vec()));
    pdf(&objects)
}

fn deflated(bytes: &[u8], times: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    for _ in 0..times {
        encoder.write_all(bytes).unwrap();
    }
    encoder.finish().unwrap()
}

/// Text that a page shows.
const SHOWN: &str = "BT /F1 12 Tf 10 10 Td (some words to show) Tj ET\n";

fn hostile_pdfs() -> Vec<(&'static str, Vec<u8>)> {
    let ordinary = pages(1, stream("", SHOWN.as_bytes()), "");
    // More than the memory of a child process.
    let inflated = deflated(&vec![b' '; 1024 * 1024], 300);
    let bomb = stream("/Filter /FlateDecode", &inflated);
    let nested = stream("/Filter [/FlateDecode /FlateDecode]", &deflated(&inflated, 1));
    let many = SHOWN.repeat(20_000);
    let mut cyclic_tree = ordinary.clone();
    let at = cyclic_tree.windows(5).position(|five| five == b"[6 0 ").unwrap();
    cyclic_tree[at + 1] = b'2';
    let deep = format!("<< /A {}{} >>", "[".repeat(200_000), "]".repeat(200_000));
    let deep = pdf(&[b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(), deep.into_bytes()]);
    let no_box = pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /Contents 3 0 R >>".to_vec(),
    ]);
    vec![
        ("no PDF", b"PK\x03\x04 something else".to_vec()),
        ("nothing", Vec::new()),
        ("a header alone", b"%PDF-1.7\n".to_vec()),
        ("cut short", ordinary[..ordinary.len() / 2].to_vec()),
        ("without text", pages(1, stream("", b""), "")),
        ("a bomb", pages(1, bomb, "")),
        ("a bomb in a bomb", pages(1, nested, "")),
        ("a tree of pages with a cycle", cyclic_tree),
        ("a form that draws itself", pages(1, stream("", b"/X Do"), "/X Do")),
        ("a form that draws itself often", pages(1, stream("", b"/X Do"), &"/X Do ".repeat(50))),
        ("deeply nested", deep),
        ("more text than there may be", pages(200, stream("", many.as_bytes()), "")),
        ("endless", pages(20_000, stream("", many.as_bytes()), "")),
        ("pages without a size", no_box),
    ]
}

/// The part of a DOCX that has its text.
const DOCUMENT: &str = "word/document.xml";

/// An archive of these parts, each in pieces.
fn archive(parts: &[(&str, Vec<&[u8]>)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, pieces) in parts {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        pieces.iter().for_each(|piece| archive.write_all(piece).unwrap());
    }
    archive.finish().unwrap().into_inner()
}

/// A DOCX with this document.
fn docx(document: &[u8]) -> Vec<u8> {
    archive(&[(DOCUMENT, vec![document])])
}

fn hostile_docx() -> Vec<(&'static str, Vec<u8>)> {
    let mebibyte = vec![b'a'; 1024 * 1024];
    let long = [b"<w:t>".as_slice(), &mebibyte.repeat(11), b"</w:t>"].concat();
    let bomb = archive(&[(DOCUMENT, vec![&mebibyte; 60].into_iter().map(Vec::as_slice).collect())]);
    let deep = [b"<w:p>".repeat(300), b"</w:p>".repeat(300)].concat();
    let laughs = b"<!DOCTYPE a [<!ENTITY b \"ha\"><!ENTITY c \"&b;&b;&b;\">]><w:t>&c;</w:t>";
    let ordinary = docx(b"<w:p><w:t>words</w:t></w:p>");
    let names: Vec<String> = (0..10_001).map(|n| format!("word/media/{n}.png")).collect();
    let parts = names.iter().map(|name| (name.as_str(), Vec::new()));
    let many: Vec<_> = parts.chain([(DOCUMENT, vec![b"<w:p/>".as_slice()])]).collect();
    let mut wrong_sum = ordinary.clone();
    let at = wrong_sum.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    wrong_sum[at + 16] ^= 1;
    vec![
        ("no archive", b"%PDF-1.7".to_vec()),
        ("a DOC", vec![0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1]),
        ("cut short", ordinary[..ordinary.len() - 30].to_vec()),
        ("another archive", archive(&[("a.txt", vec![b"words".as_slice()])])),
        ("without text", docx(b"<w:p/>")),
        ("more text than there may be", docx(&long)),
        ("a bomb", bomb),
        ("deeply nested", docx(&deep)),
        ("entities", docx(laughs)),
        ("not XML", docx(b"<w:p><w:t>words</w:r>")),
        ("not in UTF-8", docx(b"<w:p><w:t>\xff\xfe</w:t></w:p>")),
        ("XML that breaks off", docx(b"<w:p><w:t>words")),
        ("10,002 parts", archive(&many)),
        ("a wrong checksum", wrong_sum),
    ]
}

/// Files of the other formats, with their types.
fn hostile_others() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mebibyte = vec![b'a'; 1024 * 1024];
    let bomb = |name: &'static str| archive(&[(name, vec![mebibyte.as_slice(); 120])]);
    let huge = "<c t=\"inlineStr\"><t>words</t></c>".repeat(3_000_000);
    let far = "<row><c r=\"A1\"><v>1</v></c><c r=\"XFD1048576\"><v>2</v></c></row>".repeat(500_000);
    let repeated = "<t:table><t:table-row t:number-rows-repeated=\"1048576\"><t:table-cell \
                    t:number-columns-repeated=\"16384\"><x:p>words</x:p></t:table-cell></t:table-row></t:table>";
    vec![
        ("text/html", "no text", vec![0; 1000]),
        ("text/html", "without text", b"<p></p>".to_vec()),
        ("text/html", "unclosed comments", b"<!--".repeat(1_000_000)),
        ("text/html", "tables", b"<table><tr><td>".repeat(600_000)),
        ("application/rtf", "no RTF", b"words".to_vec()),
        (
            "application/rtf",
            "deeply nested",
            [b"{\\rtf1 ".to_vec(), vec![b'{'; 5_000_000]].concat(),
        ),
        ("application/rtf", "without text", b"{\\rtf1 \\bin99999999 words}".to_vec()),
        (EPUB, "a bomb", bomb("META-INF/container.xml")),
        (EPUB, "another archive", xlsx("")),
        (EPUB, "encrypted", parts(&[("META-INF/container.xml", "<a/>")])),
        (PPTX, "a bomb", bomb("ppt/presentation.xml")),
        (PPTX, "slides that are missing", parts(&[("ppt/presentation.xml", "<a/>")])),
        (XLSX, "a bomb", bomb("xl/workbook.xml")),
        (XLSX, "more text than there may be", xlsx(&format!("<row>{huge}</row>"))),
        (XLSX, "more tabs than there may be", xlsx(&far)),
        (XLSX, "without values", xlsx("<row><c/></row>")),
        (ODT, "a sheet", odf("spreadsheet", repeated)),
        (ODS, "a bomb", bomb("content.xml")),
        (ODS, "more text than there may be", odf("spreadsheet", &repeated.repeat(3_000))),
        (ODP, "no archive", b"words".to_vec()),
    ]
}

#[test]
fn a_hostile_file_is_refused_within_bounds() {
    // A server of its own, where nobody else has files read.
    let running = Running::start(config());
    let acme = running.fixture();
    let base = make(&acme);
    let pdfs = hostile_pdfs().into_iter().map(|(what, bytes)| ("application/pdf", what, bytes));
    let docx = hostile_docx().into_iter().map(|(what, bytes)| (DOCX, what, bytes));
    // Of these as much is read as there is time for, if their text is not found to be too long before.
    let long = ["more text than there may be", "endless"];
    let mut read = 0;
    for (media_type, what, bytes) in pdfs.chain(docx).chain(hostile_others()) {
        assert!(bytes.len() < 10 * 1024 * 1024, "{what}: {}", bytes.len());
        let begin = Instant::now();
        let refused = upload(&acme.member, &base, media_type, &bytes);
        let context = format!("{media_type}: {what}: {}", refused.text());
        assert!(begin.elapsed() < Duration::from_secs(50), "{context}: {:?}", begin.elapsed());
        if refused.status == 200 {
            assert!(long.contains(&what), "{context}");
            assert!(refused.ok()["leftOut"][0].as_str().unwrap().ends_with("too long to read"));
            read += 1;
            continue;
        }
        let code = refused.problem()["code"].as_str().unwrap().to_string();
        let expected = match code.as_str() {
            "unreadable_document" => 400,
            "document_too_long" => 413,
            _ => panic!("{context}"),
        };
        assert_eq!(refused.status, expected, "{context}");
    }
    assert_eq!(acme.member.get(&base).ok()["documents"], read);
    let sent = upload(&acme.member, &base, "application/pdf", &file("reportlab.pdf"));
    assert_eq!(sent.status, 200, "{}", sent.text());
}

#[test]
fn a_slow_file_of_one_member_holds_up_nobody_else() {
    // Files are read a few at a time: a server of its own, as other tests upload slow ones too.
    let running = Running::start(config());
    let acme = running.fixture();
    let base = make(&acme);
    let eve = acme.admin.clone();
    let many = SHOWN.repeat(20_000);
    let endless = pages(20_000, stream("", many.as_bytes()), "");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let eve = eve.clone();
            let (base, endless) = (&base, &endless);
            scope.spawn(move || {
                let sent = upload(&eve, base, "application/pdf", endless);
                assert!([200, 400, 413, 503].contains(&sent.status), "{}", sent.text());
            });
        }
        let begin = Instant::now();
        upload(&acme.member, &base, "application/pdf", &file("reportlab.pdf")).ok();
        add(&acme.member, &base, "n", "c");
        assert!(begin.elapsed() < Duration::from_secs(14), "{:?}", begin.elapsed());
    });
}

#[test]
fn the_index_is_sound_after_many_writes_at_once() {
    let acme = Fixture::new();
    let base = make(&acme);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (member, base) = (acme.member.clone(), &base);
            scope.spawn(move || {
                for n in 0..90 {
                    let text = format!("common thread{thread} number{n}");
                    let id = add(&member, base, "d", &text)["id"].as_str().unwrap().to_string();
                    let one = format!("{base}/documents/{id}");
                    match n % 3 {
                        0 => drop(member.delete(&one).ok()),
                        1 => drop(member.put(&one, json!({"name": "e", "content": text})).ok()),
                        _ => {}
                    }
                }
            });
        }
    });
    let count = |q: &str| acme.member.walk(&format!("{base}/search?q={q}"), 50).len();
    assert_eq!(acme.member.get(&base).ok()["documents"], 240);
    // While changes are merged.
    assert_eq!((count("common"), count("thread2"), count("number4")), (240, 60, 4));
    let metrics = resources::metrics();
    let pending =
        metrics.iter().find(|metric| metric.name == "roadstead_document_changes").unwrap();
    eventually("everything is merged", || {
        (acme.store.read_now(acme.org, pending.read).unwrap() == 0).then_some(())
    });
    assert_eq!((count("common"), count("thread2"), count("number4")), (240, 60, 4));
    let mut findings = Findings::default();
    let check = |view: &View| resources::check(view, &mut findings);
    acme.store.read_now(acme.org, check).unwrap();
    assert_eq!(findings.messages, Vec::<String>::new());
}
