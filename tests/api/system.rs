//! The state of the server: who sees it, and what it says (reference: command-line, "State of the
//! server").

use std::time::Duration;

use roadstead::app::backup::LastBackup;
use roadstead::app::doctor::{self, Level};
use roadstead::app::{DataDir, ServerConfig, Startup, control};
use roadstead::base::Time;
use roadstead::outbox::RetentionSettings;
use roadstead::store::Clock;
use serde_json::{Value, json};

use crate::client::server_log::plant_panic;
use crate::client::{Caller, within};
use crate::fixture::{Fixture, Running, config};

fn key_with(session: &Caller, access: Value) -> Caller {
    let made = session.post("/api-keys", json!({"name": "a key", "access": access})).ok();
    session.with_key(made["key"].as_str().unwrap())
}

#[test]
fn it_is_for_admins_by_session_or_by_a_key_with_the_scope_of_the_metrics() {
    let acme = Fixture::new();
    for admin in [&acme.owner, &acme.admin, &acme.key] {
        admin.get("/system").ok();
    }
    acme.member.get("/system").refused(403, "admin_required");
    key_with(&acme.member, json!("full")).get("/system").refused(403, "admin_required");
    for access in [json!(["metrics:read"]), json!("read")] {
        key_with(&acme.admin, access).get("/system").ok();
    }
    key_with(&acme.admin, json!(["tool:read"])).get("/system").refused(403, "scope_missing");
}

#[test]
fn it_says_what_the_server_was_started_with_and_when_the_last_backup_was_made() {
    let place = tempfile::tempdir().unwrap();
    let settings = RetentionSettings {
        memory_retention_secs: 7200,
        log_retention_secs: 86_400,
        stale_after_secs: 60,
        ..Default::default()
    };
    let data_directory = Some(place.path().to_path_buf());
    let config = || ServerConfig {
        settings: settings.clone(),
        data_directory: data_directory.clone(),
        ..config()
    };
    let running = Running::start(config());
    let status = running.fixture().owner.get("/system").ok();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        status["retention"],
        json!({"memorySecs": 7200, "logSecs": 86_400, "staleAfterSecs": 60})
    );
    assert_eq!((&status["lastBackup"], &status["backupDue"]), (&json!(null), &json!(true)));
    assert!(status["storage"]["freeBytes"].as_u64() > Some(0), "{status}");
    assert_eq!(status["storage"]["failedCommits"], 0);
    assert_eq!(
        status["startedAt"].as_str().unwrap()[..4],
        status["measuredAt"].as_str().unwrap()[..4]
    );
    running.stop();

    let now = Time::from_millis(1000 * Clock::system().now().secs());
    for (taken_at, is_due) in [(now, false), (now.minus_secs(3 * 86_400), true)] {
        let last = LastBackup {
            backup_id: "b".into(),
            taken_at,
            bytes: 4096,
            records: 12,
            encrypted: true,
        };
        last.write(place.path()).unwrap();
        let running = Running::start(config());
        let status = running.fixture().owner.get("/system").ok();
        let taken_at = taken_at.to_string();
        let shown = json!({"takenAt": taken_at, "bytes": 4096, "records": 12, "encrypted": true});
        assert_eq!(status["lastBackup"], shown);
        assert_eq!(status["backupDue"], is_due, "{taken_at}");
        running.stop();
    }
}

#[test]
fn its_figures_are_those_of_all_organizations_together() {
    let running = Running::start(config());
    let (acme, globex) = (running.fixture(), running.fixture());
    let fresh = acme.owner.get("/system").ok();
    assert_eq!(fresh["history"]["requests"], json!([]), "no interval has ended");
    for name in ["a", "b", "c"] {
        acme.owner.post("/tools", json!({"name": name, "type": "function"})).ok();
    }
    acme.owner.post("/tools", json!({})).invalid(&["name", "type"]);
    let history = |of: &Fixture| of.owner.get("/system").ok()["history"].clone();
    // An interval is ten seconds.
    let seen = within(Duration::from_secs(30), "the end of an interval", || {
        let seen = history(&globex);
        (!seen["requests"].as_array().unwrap().is_empty()).then_some(seen)
    });
    assert_eq!(seen["intervalSecs"], 10);
    let first = |figures: &str| seen[figures][0].as_f64().unwrap_or(-1.0);
    assert!(first("requests") >= 0.4, "{seen}");
    assert!(first("writes") >= 0.3, "{seen}");
    assert!(first("p50Millis") > 0.0 && first("p99Millis") >= first("p50Millis"), "{seen}");
    assert!(first("memoryBytes") > 1e6, "{seen}");
    for none in ["failedRequests", "failedDeliveries"] {
        assert_eq!(first(none), 0.0, "{none}: {seen}");
    }
    assert!(first("queued") >= 0.0 && first("waiting") >= 0.0, "{seen}");
    assert_eq!(history(&acme)["writes"][0], seen["writes"][0], "the same for everyone");
    running.stop();
}

#[test]
fn it_says_how_often_the_server_has_panicked_and_doctor_warns() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::at(place.path().join("data"));
    let running = Running::serve(dir.create().unwrap(), "127.0.0.1:0", config());
    plant_panic();
    let startup = Startup { version: "1".into(), settings: Vec::new(), open_files: 1 << 20 };
    let link_base = "http://localhost".to_string();
    let _control = control::listen(dir.clone(), running.store.clone(), link_base, startup.clone());
    let found = doctor::examine(&dir, startup);
    let panics = found.iter().find(|finding| finding.check == "panics").unwrap();
    assert_eq!(panics.level, Level::Warning, "{panics:?}");
    assert!(panics.to_do.as_deref().unwrap().contains("roadstead check"), "{panics:?}");

    // It is measured at the start, and then every ten seconds.
    let running = Running::start(config());
    let status = running.fixture().owner.get("/system").ok();
    assert!(status["panics"].as_u64().unwrap() >= 1, "{status}");
    running.stop();
}
