//! axe-core, which knows what people with assistive technology cannot use, finds nothing on any page,
//! in both themes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::nostr::sha256;
use crate::crawl;
use crate::journeys::sign_in;
use crate::optional::{download, is_left_out, run, say, works};
use crate::server::Running;
use crate::webdriver::{Browser, driver};

/// Its version, and the hash of its script.
const VERSION: &str = "4.14.1";
const SHA256: &str = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c";

/// WCAG 2.2 AA, and what axe-core advises beside it.
const RULES: [&str; 6] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/// The script, fetched from npm into `target/` the first time; none if it is left out.
fn script() -> Option<String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("axe-core-{VERSION}.js"));
    let is_missing = !place.exists() && !works("npm", &["--version"]);
    if is_left_out("AXE", "axe-core", is_missing.then_some("npm is not installed")) {
        return None;
    }
    if !place.exists() {
        say("fetching axe-core for tests (once, a second) ...");
        let folder = tempfile::tempdir().unwrap();
        let fetched = download(
            Command::new("npm")
                .args(["pack", "--loglevel=error", &format!("axe-core@{VERSION}")])
                .arg("--pack-destination")
                .arg(folder.path()),
        );
        if is_left_out("AXE", "axe-core", fetched.as_ref().err().map(String::as_str)) {
            return None;
        }
        run(Command::new("tar")
            .arg("-xzf")
            .arg(folder.path().join(format!("axe-core-{VERSION}.tgz")))
            .arg("-C")
            .arg(folder.path())
            .arg("package/axe.min.js"));
        std::fs::copy(folder.path().join("package/axe.min.js"), &place).unwrap();
    }
    let script = std::fs::read_to_string(&place).unwrap();
    assert_eq!(sha256(script.as_bytes()), SHA256, "{} is another file", place.display());
    Some(script)
}

/// What it finds on the page that a browser shows: each with the elements.
fn found(browser: &Browser, script: &str, rules: &Value) -> Vec<String> {
    browser.run(script);
    let found = browser.run_async(&format!(
        "const done = arguments[arguments.length - 1];
         axe.run(document, {{runOnly: {rules}, resultTypes: ['violations']}}).then(
           (all) => done(all.violations.map((one) => one.id + ': ' + one.nodes.slice(0, 4)
             .map((node) => node.target.join(' ') + ' ' + node.html.slice(0, 160)
               + ' ' + node.any.map((check) => check.message).join(' ')).join(' | '))),
           (error) => done([String(error)]));"
    ));
    let found = found.as_array().unwrap().iter();
    found.map(|one| one.as_str().unwrap().to_string()).collect()
}

/// One page of each kind: ids and numbers in a path are alike.
pub fn kinds(pages: impl Iterator<Item = String>) -> Vec<String> {
    let mut kinds = BTreeMap::new();
    for path in pages {
        let bare = path.split('?').next().unwrap_or_default();
        let is_id = |part: &str| part.contains(|c: char| c.is_ascii_digit() || c == '%');
        let parts = bare.split('/').map(|part| if is_id(part) { "*" } else { part });
        kinds.entry(parts.collect::<Vec<_>>().join("/")).or_insert(path);
    }
    kinds.into_values().collect()
}

/// What has the focus and is covered by something else at three points of it, after each element of a page had it.
const COVERED: &str = "
    const all = document.querySelectorAll('a[href], button, input, select, textarea, summary');
    const covered = [];
    for (const one of all) {
      if (!one.checkVisibility({visibilityProperty: true})) continue;
      one.focus();
      if (document.activeElement !== one) continue;
      const place = one.getClientRects()[0];
      const [from, to] = [Math.max(place.top, 0), Math.min(place.bottom, innerHeight)];
      const isSeen = [0.05, 0.5, 0.95].some((part) => {
        const found = document.elementFromPoint(place.left + part * place.width, (from + to) / 2);
        return found && (one.contains(found) || found.contains(one));
      });
      if (!isSeen) covered.push(one.outerHTML);
    }
    return covered.slice(0, 5);";

/// What is wider than the screen, tables, texts, the board and fields for texts aside, which scroll.
const WIDE: &str = "
    const scrolls = 'table, .board, pre, textarea, .command code, .code, .hidden';
    const wide = [...document.querySelectorAll('body *')].filter((one) => !one.closest(scrolls)
      && one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1);
    return wide.map((one) => one.outerHTML.slice(0, 160)).slice(0, 5);";

#[test]
fn what_has_the_focus_is_seen_and_only_tables_scroll_on_a_narrow_screen() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.add("ben", "member");
    crawl::fill(&server);
    crawl::fill_teams(&server);
    let ada = server.signed_in("ada@acme.test");
    let paths = kinds(crawl::crawl(&ada).into_keys());
    let mut all = Vec::new();
    for (width, script) in [(390, COVERED), (320, WIDE)] {
        let browser = driver.browser(width, 700, true);
        sign_in(&browser, &server, "ada@acme.test");
        for path in &paths {
            browser.open(&format!("http://{}{path}", server.address));
            let found = browser.run(script);
            let found = found.as_array().unwrap().iter();
            all.extend(found.map(|one| format!("{path} ({width}): {}", one.as_str().unwrap())));
        }
    }
    assert!(all.is_empty(), "{} in {} pages:\n{}", all.len(), paths.len(), all.join("\n"));
}

#[test]
fn axe_finds_nothing_on_any_page_in_both_themes() {
    let Some(script) = script() else { return };
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.add("ben", "member");
    crawl::fill(&server);
    crawl::fill_teams(&server);
    let ada = server.signed_in("ada@acme.test");
    let mut paths = kinds(crawl::crawl(&ada).into_keys());
    let home = format!("http://{}", server.address);
    paths
        .extend(["/o/acme/search?q=not", "/o/acme/none", "/o/acme/waiting/mail"].map(String::from));
    assert!(paths.len() > 80, "{paths:?}");
    let mut all = Vec::new();
    for theme in ["light", "dark"] {
        let browser = driver.browser(1280, 900, true);
        browser.open(&format!("{home}/sign-in"));
        browser.click(&format!(".theme button[value={theme}]"));
        browser.shows("Sign in");
        // What is no matter of colour is the same in both.
        let rules = match theme {
            "light" => json!({"type": "tag", "values": RULES}),
            _ => json!({"type": "rule", "values": ["color-contrast"]}),
        };
        let mut look = |path: &str| {
            let found = found(&browser, &script, &rules);
            all.extend(found.into_iter().map(|one| format!("{path} ({theme}): {one}")));
        };
        for path in ["/sign-in", "/setup", "/invitations", "/reset-password"] {
            browser.open(&format!("{home}{path}"));
            look(path);
        }
        sign_in(&browser, &server, "ada@acme.test");
        for path in &paths {
            browser.open(&format!("{home}{path}"));
            look(path);
        }
        // A form that is refused.
        browser.open(&format!("{home}/o/acme/governance/new-policy"));
        browser.fill("#f-name", "x");
        browser.click("main button.primary");
        browser.shows("Check what you entered");
        look("a refused form");
    }
    assert!(all.is_empty(), "{} in {} pages:\n{}", all.len(), paths.len(), all.join("\n"));
}
