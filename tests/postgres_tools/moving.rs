//! `migrate`: into PostgreSQL, killed on the way, and back.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::client::within;
use crate::filled::{answers, directory, stop};
use crate::postgres_server::PostgresServer;
use crate::process::{Ended, Place, Serving};

/// The hashes of all tables but that of erasures, which a data directory has in its ledger.
fn hashes(report: &Value) -> Vec<(String, u64, String)> {
    let tables = report["tables"].as_array().unwrap().iter();
    let text = |table: &Value, name: &str| table[name].as_str().unwrap().to_string();
    let all =
        tables.map(|one| (text(one, "name"), one["records"].as_u64().unwrap(), text(one, "hash")));
    all.filter(|(name, ..)| name != "erasures").collect()
}

fn migrate(place: &Place, from: &str, to: &str, more: &[&str]) -> Ended {
    place.run(&[&["migrate", "--from", from, "--to", to, "--json"][..], more].concat())
}

#[test]
fn an_installation_is_moved_into_postgresql_and_back_though_it_is_interrupted() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let (place, api_key, filled, answered) = directory();
    let url = server.url();
    let data = place.data().display().to_string();

    // Killed when something has arrived.
    let args = ["migrate", "--from", &data, "--to", &url];
    let mut child =
        place.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    within(std::time::Duration::from_secs(60), "a part has arrived", || {
        assert_eq!(child.try_wait().unwrap(), None, "it was not to end before it is killed");
        let is_there = server.sql("SELECT to_regclass('kv') IS NOT NULL");
        let arrived =
            is_there == "t" && server.sql("SELECT count(*) > 0 FROM kv WHERE tbl > 15") == "t";
        arrived.then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();

    // What is there cannot be used, and nothing else can fill it.
    let key = fs::read_to_string(place.file("secret.key")).unwrap();
    let mut elsewhere = Place::new();
    let variables = [("ROADSTEAD_SECRET_KEY", key.as_str()), ("ROADSTEAD_STORE", url.as_str())];
    elsewhere.set(&variables);
    elsewhere.run(&["serve", "--listen", "127.0.0.1:0"]).fails(2, "unfinished");
    let (other, _) = Place::founded();
    let other_data = other.data().display().to_string();
    migrate(&other, &other_data, &url, &[]).fails(2, "unfinished");

    let there = migrate(&place, &data, &url, &[]).succeeds();
    assert_eq!(
        (&there["resumed"], &there["erasures"]),
        (&Value::Bool(true), &Value::from(1)),
        "{there}"
    );
    assert!(there["records"].as_u64().unwrap() > 200, "{there}");
    let again = migrate(&place, &data, &server.database("again"), &[]).succeeds();
    assert_eq!((hashes(&again), &again["resumed"]), (hashes(&there), &Value::Bool(false)));
    migrate(&place, &data, &url, &[]).fails(2, "holds a store already");

    // And back, before anything has changed.
    let back = Place::new();
    let back_data = back.data().display().to_string();
    let key_file = place.file("secret.key").display().to_string();
    let with_key = ["--secret-key-file", key_file.as_str()];
    migrate(&back, &url, &back_data, &[]).fails(2, "ROADSTEAD_SECRET_KEY");
    let other_key = other.file("secret.key").display().to_string();
    let wrong = migrate(&back, &url, &back_data, &["--secret-key-file", &other_key]);
    wrong.fails(2, "the key is not the one of this store");
    let returned = migrate(&back, &url, &back_data, &with_key).succeeds();
    assert_eq!(hashes(&there), hashes(&returned));
    assert_eq!(returned["erasures"], 1);
    migrate(&back, &url, &back_data, &with_key).fails(2, "not empty");
    assert_eq!(back.run(&["check", "--json"]).succeeds()["sound"], true);
    let ledger = |place: &Place| fs::read_to_string(place.file("erasures")).unwrap();
    assert_eq!(ledger(&back), ledger(&place));

    // Both answer as the directory did.
    for place in [&elsewhere, &back] {
        let mut serving = Serving::start(place, &["--rate-limit", "0"]);
        let acme = serving.caller(&api_key);
        assert_eq!(answers(&acme, &filled), answered);
        if std::ptr::eq(place, &elsewhere) {
            let nowhere = Place::new();
            let used = migrate(&back, &url, &nowhere.data().display().to_string(), &with_key);
            used.fails(2, "in use by the server");
        }
        acme.post(&filled.memories(), serde_json::json!({"content": "new"})).ok();
        stop(&mut serving);
        assert_eq!(place.run(&["check", "--json"]).succeeds()["sound"], true);
    }
}

#[test]
fn a_migration_into_a_directory_is_resumed_and_follows_what_has_changed() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let (place, api_key, filled, _) = directory();
    let (url, data) = (server.url(), place.data().display().to_string());
    migrate(&place, &data, &url, &[]).succeeds();
    let key = fs::read_to_string(place.file("secret.key")).unwrap();
    let mut back = Place::new();
    back.set(&[("ROADSTEAD_SECRET_KEY", key.as_str())]);
    let to = back.data().display().to_string();
    let unfinished = back.data().with_file_name("data.migrating");

    let mut child = back.command(&["migrate", "--from", &url, "--to", &to]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    within(std::time::Duration::from_secs(60), "a part has arrived", || {
        assert_eq!(child.try_wait().unwrap(), None, "it was not to end before it is killed");
        let size = fs::metadata(unfinished.join("roadstead.redb")).map_or(0, |file| file.len());
        (size > 3_000_000).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!back.data().exists());

    // The source goes on meanwhile.
    let mut over = Place::new();
    over.set(&[("ROADSTEAD_SECRET_KEY", key.as_str()), ("ROADSTEAD_STORE", url.as_str())]);
    let mut serving = Serving::start(&over, &[]);
    let acme = serving.caller(&api_key);
    acme.delete(&format!("{}/{}", filled.memories(), filled.memory)).ok();
    let answered = answers(&acme, &filled);
    stop(&mut serving);

    let report = migrate(&back, &url, &to, &[]).succeeds();
    assert_eq!((&report["resumed"], &report["erasures"]), (&Value::Bool(true), &Value::from(2)));
    assert!(!unfinished.exists());
    assert!(!back.file("secret.key").exists() && !back.file("migration").exists());
    assert_eq!(back.run(&["check", "--json"]).succeeds()["sound"], true);
    let mut serving = Serving::start(&back, &[]);
    assert_eq!(answers(&serving.caller(&api_key), &filled), answered);
    stop(&mut serving);
}
