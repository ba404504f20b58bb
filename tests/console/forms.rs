//! What every page and form has: headers, guards, budgets, themes; errors as pages.

use crate::server::Running;
use crate::visitor::Page;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

#[track_caller]
fn is_safe(page: &Page) {
    let header = |name: &str| page.reply.header(name).unwrap_or_default().to_string();
    assert_eq!(header("content-security-policy"), POLICY, "{}", page.path);
    assert_eq!(header("cache-control"), "no-store", "{}", page.path);
    assert_eq!(header("referrer-policy"), "same-origin");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("cross-origin-opener-policy"), "same-origin");
    assert_eq!(header("cross-origin-resource-policy"), "same-origin");
    for inline in ["<script>", "<style", " style=", " onclick=", "javascript:"] {
        assert!(!page.text.contains(inline), "{inline} on {}", page.path);
    }
}

#[test]
fn every_answer_has_the_headers_of_a_page() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    for path in ["/o/acme", "/account", "/sign-in", "/", "/o/nowhere", "/nothing"] {
        is_safe(&ada.get(path));
    }
    is_safe(&server.visitor().get("/sign-in"));
    is_safe(&server.visitor().post("/sign-in", &[], ""));
}

#[test]
fn a_form_is_accepted_from_this_origin_and_its_own_session_only() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get("/account");
    let token = page.field("/account", "_token");
    let host = format!("http://{}", server.address);
    let body = format!("name=Mallory&_token={token}&_return=%2Faccount");
    let name = || server.ada().get("/auth/session").ok()["user"]["name"].clone();
    for foreign in [
        &[][..],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Sec-Fetch-Site", "cross-site"), ("Origin", &*host)],
        &[("Origin", "http://127.0.0.1")],
        &[("Origin", "null")],
    ] {
        let refused = ada.post("/account", foreign, &body);
        assert_eq!(refused.status, 403, "{foreign:?}");
        refused.shows("sent from another site");
    }
    let own = [("Sec-Fetch-Site", "same-origin")];
    let bodies = ["name=Mallory&_return=%2Faccount".into(), body.replace(&token, "AAAA")];
    for without in bodies {
        let shown = ada.post("/account", &own, &without);
        shown.shows("Nothing was done");
        assert_eq!(shown.field("/account", "name"), "Mallory", "what was entered stays");
    }
    // The token of somebody else's session, and of a visitor.
    let other = server.signed_in("ada@acme.test").get("/account");
    let other = other.field("/account", "_token");
    ada.post("/account", &own, &body.replace(&token, &other)).shows("Nothing was done");
    let visitor = server.visitor().get("/sign-in").field("/sign-in", "_token");
    ada.post("/account", &own, &body.replace(&token, &visitor)).shows("Nothing was done");
    assert_eq!(name(), "Ada");
    // An older browser, which sends no Sec-Fetch-Site.
    assert_eq!(ada.post("/account", &[("Origin", &*host)], &body).status, 303);
    assert_eq!(name(), "Mallory");
}

#[test]
fn a_form_that_is_sent_twice_is_done_once() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get("/o/acme/registries/new");
    let fields = [("name", "Main"), ("slug", "main")];
    for _ in 0..2 {
        let reply = ada.send(&page, "/o/acme/registries/new", &fields);
        assert_eq!(reply.location(), "/o/acme/prompts/main");
    }
    let again = ada.get("/o/acme/registries/new");
    assert_eq!(ada.send(&again, "/o/acme/registries/new", &fields).status, 409);
}

#[test]
fn a_link_from_elsewhere_is_followed_by_the_page_itself() {
    let server = Running::new();
    let visitor = server.visitor();
    let foreign = [("Sec-Fetch-Site", "cross-site")];
    let page = visitor.request("GET", "/o/acme/prompts?type=prompt", &foreign, "");
    assert_eq!(page.status, 200);
    assert!(page.text.contains("content=\"0; url=/o/acme/prompts?type=prompt\""), "{}", page.text);
    is_safe(&page);
    for path in ["/setup", "/invitations", "/sign-in"] {
        let page = visitor.request("GET", path, &foreign, "");
        assert!(!page.text.contains("http-equiv"), "{path}");
    }
    let ada = server.signed_in("ada@acme.test");
    ada.request("GET", "/o/acme", &foreign, "").shows("Today");
}

#[test]
fn what_one_may_not_see_looks_as_what_does_not_exist() {
    let server = Running::new();
    server.add("ben", "member");
    let body = serde_json::json!({"slug": "globex", "name": "Globex"});
    server.api("ben@acme.test").ask("POST", "/organizations").json(&body).send().ok();
    let ada = server.signed_in("ada@acme.test");
    let page = |path: &str| {
        let page = ada.get(path);
        assert_eq!(page.status, 404, "{path}");
        let id = page.reply.header("x-request-id").unwrap().to_string();
        page.words().replace(&id, "ID")
    };
    assert_eq!(page("/o/globex"), page("/o/never"));
    assert_eq!(page("/o/globex/prompts/main"), page("/o/never/prompts/main"));
    assert!(page("/o/acme/prompts/never").contains("There is no such registry."));
}

#[test]
fn programs_still_get_json_for_what_does_not_exist() {
    let server = Running::new();
    let get = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        crate::client::raw(server.address, head.as_bytes())
    };
    get("/nothing").refused(404, "no_such_path");
    assert_eq!(
        server.visitor().get("/nothing").reply.header("content-type"),
        Some("text/html; charset=utf-8")
    );
}

#[test]
fn assets_are_compressed_and_kept_and_small() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    server.registry();
    server.team("crew", "scribe");
    let board = "/o/acme/teams/crew/board";
    for path in ["/o/acme", board, "/o/acme/prompts/main/notes/edit", "/sign-in"] {
        let page = ada.open(path);
        let tags = crate::html::tags(&page.text);
        let assets = tags.iter().filter(|tag| matches!(tag.name.as_str(), "link" | "script"));
        let paths: Vec<_> = assets.filter_map(|tag| tag.get("href").or(tag.get("src"))).collect();
        assert!(paths.len() > 4, "{paths:?}");
        let mut bytes = 0;
        for path in paths {
            let plain = ada.get(path);
            assert_eq!(plain.status, 200, "{path}");
            let cache = plain.reply.header("cache-control");
            assert_eq!(cache, Some("public, max-age=31536000, immutable"));
            bytes += plain.reply.body.len();
            let packed = ada.request("GET", path, &[("Accept-Encoding", "br, gzip")], "");
            assert_eq!(packed.reply.header("content-encoding"), Some("gzip"));
            assert!(packed.reply.body.len() < plain.reply.body.len());
        }
        // The editor has three modules of its own, beside that which follows what waits.
        let most = if path.ends_with("/edit") { 62_000 } else { 50_000 };
        assert!(bytes < most, "{bytes} bytes of assets of {path}");
    }
    assert_eq!(ada.get("/assets/console.000000000000.css").status, 404);
}

#[test]
fn a_theme_is_kept_and_left_to_the_system() {
    let server = Running::new();
    let visitor = server.visitor();
    let page = visitor.get("/sign-in");
    assert!(!page.text.contains("data-theme"));
    let dark = visitor.submit(&page, "/theme", &[("theme", "dark")]);
    assert!(dark.text.contains("<html lang=\"en\" data-theme=\"dark\">"));
    let system = visitor.submit(&dark, "/theme", &[("theme", "system")]);
    assert!(!system.text.contains("data-theme"));
}

#[test]
fn a_wrong_method_and_a_body_that_is_no_form_are_refused() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let put = ada.request("PUT", "/account", &[], "");
    assert_eq!((put.status, put.reply.header("allow")), (405, Some("GET, HEAD, POST")));
    let head = ada.request("HEAD", "/o/acme", &[], "");
    assert_eq!((head.status, head.reply.body.len()), (200, 0));
    let large = format!("name={}", "x".repeat(1024 * 1024));
    let page = ada.post("/account", &[("Sec-Fetch-Site", "same-origin")], &large);
    assert_eq!(page.status, 413);
    is_safe(&page);
}

#[test]
fn a_form_for_anyone_takes_16_kib_and_one_that_may_carry_a_text_more() {
    let server = Running::new();
    let visitor = server.visitor();
    let own = [("Sec-Fetch-Site", "same-origin")];
    let form = |bytes: usize| format!("name={}", "x".repeat(bytes - "name=".len()));
    for path in ["/theme", "/invitations", "/reset-password", "/sign-out"] {
        assert_ne!(visitor.post(path, &own, &form(16 * 1024)).status, 413, "{path}");
        assert_eq!(visitor.post(path, &own, &form(16 * 1024 + 1)).status, 413, "{path}");
    }
    // What was filled in a session that has ended, and the sign-in that brings it along.
    for path in ["/o/acme/registries/new", "/sign-in"] {
        assert_ne!(visitor.post(path, &own, &form(1024 * 1024)).status, 413, "{path}");
        assert_eq!(visitor.post(path, &own, &form(1024 * 1024 + 1)).status, 413, "{path}");
    }
}
