//! The state of the server as a page, and the charts of its figures.

use std::time::Duration;

use roadstead::app::ServerConfig;
use roadstead::app::backup::LastBackup;
use roadstead::store::Clock;

use crate::client::server_log::{Watch, plant_panic};
use crate::client::within;
use crate::html::{Tag, tags};
use crate::journeys::sign_in;
use crate::server::Running;
use crate::visitor::{Page, Visitor};
use crate::webdriver::driver;

const SYSTEM: &str = "/o/acme/operations/system";

/// The page once it has figures: an interval is ten seconds.
fn with_figures(visitor: &Visitor) -> Page {
    within(Duration::from_secs(30), "the first figures", || {
        let page = visitor.get(SYSTEM);
        page.words().contains("up to").then_some(page)
    })
}

#[test]
fn who_administers_the_installation_sees_it_among_operations_and_others_do_not() {
    let server = Running::new();
    server.add("ben", "member");
    server.add("grace", "admin");
    let ada = server.signed_in("ada@acme.test");
    let log = ada.get("/o/acme/operations/log");
    assert!(log.links().contains(&SYSTEM.to_string()), "{:?}", log.links());
    ada.get(SYSTEM).shows("365 days").shows("--memory-retention").shows("Nothing");
    for person in ["ben", "grace"] {
        let visitor = server.signed_in(&format!("{person}@acme.test"));
        let log = visitor.get("/o/acme/operations/log");
        assert!(!log.links().contains(&SYSTEM.to_string()), "{person}: {:?}", log.links());
        let refused = visitor.get(SYSTEM);
        assert_eq!(refused.status, 403);
        if person == "grace" {
            refused.shows("who runs the server names").hides("An owner or admin");
        }
    }
}

#[test]
fn it_says_how_to_make_a_backup_until_there_is_one_and_when_it_is_old() {
    let place = tempfile::tempdir().unwrap();
    let data_directory = Some(place.path().to_path_buf());
    let config = || ServerConfig { data_directory: data_directory.clone(), ..Default::default() };
    let page = |server: &Running| server.signed_in("ada@acme.test").get(SYSTEM);
    let shown = page(&Running::with(config()));
    shown.shows("No backup was made yet.").shows("roadstead backup").shows("None is recorded.");

    let taken_at = Clock::system().now();
    let mut last = LastBackup {
        backup_id: "b".into(),
        taken_at,
        bytes: 25 << 20,
        records: 1234,
        encrypted: true,
    };
    last.write(place.path()).unwrap();
    let shown = page(&Running::with(config()));
    shown.hides("roadstead backup").shows("25 MiB").shows("1234").hides("Overdue");
    last.taken_at = taken_at.minus_secs(3 * 86_400);
    last.write(place.path()).unwrap();
    page(&Running::with(config())).shows("older than two days").shows("Overdue");
}

#[test]
fn today_says_that_a_backup_is_due_to_those_who_see_operations() {
    let place = tempfile::tempdir().unwrap();
    let data_directory = Some(place.path().to_path_buf());
    let config = || ServerConfig { data_directory: data_directory.clone(), ..Default::default() };
    // On the first day there is little to lose.
    let server = Running::with(config());
    server.signed_in("ada@acme.test").get("/o/acme").hides("A backup is due");
    let mut last = LastBackup {
        backup_id: "b".into(),
        taken_at: Clock::system().now(),
        bytes: 1,
        records: 1,
        encrypted: true,
    };
    last.write(place.path()).unwrap();
    let server = Running::with(config());
    server.signed_in("ada@acme.test").get("/o/acme").hides("A backup is due");
    last.taken_at = last.taken_at.minus_secs(3 * 86_400);
    last.write(place.path()).unwrap();
    let server = Running::with(config());
    server.add("ben", "member");
    let today = server.signed_in("ada@acme.test").get("/o/acme");
    today.shows("A backup is due").shows("The last backup is older than two days");
    assert!(today.links().contains(&SYSTEM.to_string()));
    server.signed_in("ben@acme.test").get("/o/acme").hides("backup");
}

#[test]
fn the_figures_of_the_last_hour_are_drawn_said_and_in_a_table() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    ada.get(SYSTEM).shows("The server has just been started.");
    let page = with_figures(&ada);
    page.hides("just been started").shows("answered: now").shows("99 of 100 within: now");
    assert!(page.text.len() < 60_000, "{} bytes", page.text.len());
    let tags = tags(&page.text);
    let charts: Vec<_> = tags.iter().filter(|tag| tag.get("role") == Some("img")).collect();
    assert_eq!(charts.len(), 7);
    for chart in charts {
        // Its title and its sentence, which are there.
        for id in chart.get("aria-labelledby").unwrap().split(' ') {
            let said = tags.iter().find(|tag| tag.get("id") == Some(id)).unwrap();
            assert!(!said.text.is_empty(), "{id}");
        }
    }
    let is_line = |tag: &&Tag| tag.name == "path" && tag.get("class").is_some();
    let lines: Vec<_> = tags.iter().filter(is_line).collect();
    assert_eq!(lines.len(), 9);
    for line in lines {
        let outline = line.get("d").unwrap();
        assert!(outline.starts_with('M') && outline.contains("h0"), "{outline}");
    }
    page.shows("Minutes ago").shows("0–5");
}

#[test]
fn it_is_legible_without_scripts_and_on_a_narrow_screen_in_both_themes() {
    let Some(driver) = driver() else { return };
    let place = tempfile::tempdir().unwrap();
    let data_directory = Some(place.path().to_path_buf());
    let server = Running::with(ServerConfig { data_directory, ..Default::default() });
    with_figures(&server.signed_in("ada@acme.test"));
    for (width, scripts) in [(1280, false), (390, true), (320, false)] {
        let browser = driver.browser(width, 800, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}{SYSTEM}", server.address));
        browser.shows("The last hour");
        // Nothing but tables is wider than the screen, and each chart has a size.
        let sizes = "const wide = document.documentElement.scrollWidth > innerWidth; \
                     const all = [...document.querySelectorAll('.chart svg')]; \
                     const drawn = all.every((one) => one.getBoundingClientRect().width > 200 \
                       && one.getBoundingClientRect().height > 40); \
                     return !wide && drawn ? all.length : -1";
        assert_eq!(browser.run(sizes), 7, "{width}");
        let colours = "return new Set(['.l0', '.l1', 'path:not([class])'].map((one) => \
                       getComputedStyle(document.querySelector('.chart ' + one)).color)).size";
        assert_eq!(browser.run(colours), 3, "{width}");
    }
}

#[test]
fn it_says_when_the_server_has_panicked_and_what_to_do() {
    let _watch = Watch::new();
    plant_panic();
    // It is measured at the start.
    let shown = Running::new().signed_in("ada@acme.test").get(SYSTEM);
    shown.shows("The server has panicked since its start.").shows("roadstead check");
    shown.shows("the log of the server says where");
}
