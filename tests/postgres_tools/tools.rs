//! `backup`, `restore`, `check` and `secrets rotate` over PostgreSQL.

use std::fs;

use serde_json::json;

use crate::client::{Caller, eventually, within};
use crate::filled::{Filled, answers, fill, stop};
use crate::postgres_server::PostgresServer;
use crate::process::{PASSWORD, Place, Serving};

pub const KEY: &str = "00010203040506070809101112131415161718192021222324252627282930ff";

/// A place whose commands work on the store at this URL.
pub fn over(url: &str, key: &str) -> Place {
    let mut place = Place::new();
    place.set(&[("ROADSTEAD_SECRET_KEY", key), ("ROADSTEAD_STORE", url)]);
    place
}

/// Sets a new server up; returns an API key of its owner.
pub fn set_up(serving: &Serving) -> String {
    let made = found(serving).post("/api-keys", json!({"name": "k"})).ok();
    made["key"].as_str().unwrap().into()
}

/// Ada in the session in which she founds an organization.
pub fn found(serving: &Serving) -> Caller {
    let anonymous = Caller::anonymous(serving.address, "acme");
    let link = serving.announced["setupLink"].as_str().unwrap();
    let user = json!({"name": "Ada", "email": "ada@acme.test", "password": PASSWORD});
    let setup = json!({"token": link.split_once('#').unwrap().1, "user": user,
        "organization": {"slug": "acme", "name": "Acme"}});
    let session = anonymous.ask("POST", "/setup").json(&setup).send().ok();
    anonymous.with_bearer(session["token"].as_str().unwrap())
}

/// A store that is filled, with its server.
fn filled(place: &Place) -> (Serving, String, Filled) {
    let serving = Serving::start(place, &["--rate-limit", "0"]);
    let key = set_up(&serving);
    let filled = fill(&serving.caller(&key));
    (serving, key, filled)
}

#[test]
fn a_backup_of_a_running_store_is_restored_into_a_directory_and_another_database() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let (url, other_url) = (server.url(), server.database("other"));
    let place = over(&url, KEY);
    let (mut serving, api_key, filled) = filled(&place);
    let acme = serving.caller(&api_key);
    let with_memory = answers(&acme, &filled);
    let file = place.data().with_file_name("b").display().to_string();
    let made = place.run(&["backup", &file, "--json"]).succeeds();
    assert_eq!(made["verified"], true);
    assert_eq!(place.run(&["check", "--json"]).succeeds()["sound"], true);
    acme.delete(&format!("{}/{}", filled.memories(), filled.memory)).ok();
    let without_memory = answers(&acme, &filled);
    place.run(&["restore", &file, "--erasures", &url]).fails(2, "holds a store already");
    stop(&mut serving);

    let other = over(&other_url, KEY);
    let with_ledger = ["restore", &file, "--json", "--erasures", &url];
    // With the one that was deleted before the backup, which still had it.
    assert_eq!(other.run(&with_ledger).succeeds()["erased"], 2);
    other.run(&with_ledger).fails(2, "holds a store already");
    let mut directory = Place::new();
    directory.set(&[("ROADSTEAD_SECRET_KEY", KEY)]);
    assert_eq!(directory.run(&with_ledger).succeeds()["erased"], 2);
    let mut all = Place::new();
    all.set(&[("ROADSTEAD_SECRET_KEY", KEY)]);
    all.run(&["restore", &file, "--json", "--without-erasures"]).succeeds();

    for (place, answered) in
        [(&other, &without_memory), (&directory, &without_memory), (&all, &with_memory)]
    {
        assert_eq!(place.run(&["check", "--json"]).succeeds()["sound"], true);
        let mut serving = Serving::start(place, &["--rate-limit", "0"]);
        assert_eq!(&answers(&serving.caller(&api_key), &filled), answered);
        stop(&mut serving);
    }
    // The ledger of the directory has them all, and a backup of the directory fits the database.
    let ledger = fs::read_to_string(directory.file("erasures")).unwrap();
    assert!(ledger.lines().count() >= 3, "{ledger}");
    let file = place.data().with_file_name("c").display().to_string();
    directory.run(&["backup", &file, "--json"]).succeeds();
    let third = over(&server.database("third"), KEY);
    let erasures = directory.data().display().to_string();
    third.run(&["restore", &file, "--json", "--erasures", &erasures]).succeeds();
    assert_eq!(third.run(&["check", "--json"]).succeeds()["sound"], true);
}

#[test]
fn an_installation_is_administered_beside_its_servers() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let place = over(&server.url(), KEY);
    let (mut serving, api_key, _) = filled(&place);
    let acme = serving.caller(&api_key);

    let checkpoint = place.run(&["audit", "checkpoint", "--json"]).succeeds();
    let value = checkpoint["checkpoints"][0]["value"].as_str().unwrap().to_string();
    acme.post("/agents", json!({"stableKey": "later", "name": "Later"})).ok();
    let against = ["audit", "checkpoint", "--against", &value, "--json"];
    assert_eq!(place.run(&against).succeeds()["continues"], true);
    // Entries join the chain a moment after they are stored.
    eventually("the entry of the new agent", || {
        let exported = place.run(&["audit", "export", "--org", "acme"]).stdout;

        let last = exported.lines().last().unwrap();
        last.contains("agent.create").then_some(())
    });

    let file = place.data().with_file_name("acme.jsonl").display().to_string();
    place.run(&["export", "--org", "acme", &file, "--json"]).succeeds();
    let other = over(&server.database("other"), KEY);
    let mut other_serving = Serving::start(&other, &["--rate-limit", "0"]);
    set_up(&other_serving);
    let imported = other.run(&["import", &file, "--as", "copy", "--json"]).succeeds();
    assert_eq!(imported["knownMembers"], json!(["ada@acme.test"]));

    let reset = ["reset-password", "--email", "ada@acme.test", "--json"];
    let link = other.run(&reset).succeeds()["resetUrl"].as_str().unwrap().to_string();
    let anonymous = other_serving.caller("").with_fields(&[]);
    let body =
        json!({"token": link.split_once('#').unwrap().1, "newPassword": "another horse battery"});
    anonymous.ask("POST", "/auth/password/reset").json(&body).send().ok();
    let body = json!({"email": "ada@acme.test", "password": "another horse battery"});
    let session = anonymous.ask("POST", "/auth/sign-in").json(&body).send().ok();
    let copy = Caller::anonymous(other_serving.address, "copy")
        .with_bearer(session["token"].as_str().unwrap());
    assert_eq!(copy.walk("/tools", 100).len(), acme.walk("/tools", 100).len());
    // Whoever came to the store has left it.
    within(std::time::Duration::from_secs(60), "only the server is there", || {
        let nodes = copy.get("/system").ok()["nodes"].as_array().unwrap().len();
        (nodes == 1).then_some(())
    });
    stop(&mut serving);
    stop(&mut other_serving);
    assert_eq!(other.run(&["check", "--json"]).succeeds()["sound"], true);
}

#[test]
fn a_damaged_record_is_found_by_the_check() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let place = over(&server.url(), KEY);
    let mut serving = Serving::start(&place, &[]);
    set_up(&serving);
    stop(&mut serving);
    server.sql(
        "UPDATE kv SET value = set_byte(value, length(value) - 1, 255 - get_byte(value, length(value) - 1)) \
         WHERE tbl = (SELECT get_byte(value, 0) * 256 + get_byte(value, 1) FROM kv \
         WHERE tbl = 0 AND key = 'users')",
    );
    let found = place.run(&["check"]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.stdout.contains("users") && found.stderr.contains("not sound"), "{found:?}");
    let mut other = over(&server.url(), &KEY.replace('0', "1"));
    other.run(&["check"]).fails(2, "the key is not the one");
    other.set(&[("ROADSTEAD_STORE", &server.url())]);
    other.run(&["check"]).fails(2, "ROADSTEAD_SECRET_KEY");
}

#[test]
fn the_key_of_a_store_is_replaced() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let url = server.url();
    let place = over(&url, KEY);
    let mut serving = Serving::start(&place, &[]);
    let api_key = set_up(&serving);
    place.run(&["secrets", "rotate"]).fails(2, "the new key must be supplied");
    let new_key = KEY.replace('0', "a");
    let mut both = Place::new();
    both.set(&[
        ("ROADSTEAD_SECRET_KEY", KEY),
        ("ROADSTEAD_NEW_SECRET_KEY", &new_key),
        ("ROADSTEAD_STORE", &url),
    ]);
    both.run(&["secrets", "rotate"]).fails(2, "in use by the server");
    stop(&mut serving);
    let rotated = both.run(&["secrets", "rotate", "--json"]).succeeds();
    assert!(rotated["resealed"].as_u64().is_some(), "{rotated}");
    place.run(&["check"]).fails(2, "the key is not the one");
    let renewed = over(&url, &new_key);
    assert_eq!(renewed.run(&["check", "--json"]).succeeds()["sound"], true);
    let mut serving = Serving::start(&renewed, &[]);
    serving.caller(&api_key).get("/agents").ok();
    stop(&mut serving);

    // Interrupted after its first step, with nothing sealed again yet.
    server.sql(
        "INSERT INTO kv VALUES (2, 'previous-key', convert_to('x', 'UTF8')) \
         ON CONFLICT DO NOTHING",
    );
    renewed.run(&["serve", "--listen", "127.0.0.1:0"]).fails(2, "is being replaced");
    renewed.run(&["backup", "x"]).fails(2, "is being replaced");
}

#[test]
fn a_list_of_large_rows_behind_small_ones_is_read_in_bounded_parts() {
    const LARGE: usize = 240;
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let place = over(&server.url(), KEY);
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let key = set_up(&serving);
    let acme = serving.caller(&key);
    let make = |name: String, prompt: &str| {
        acme.post("/tools", json!({"name": name, "type": "function", "prompt": prompt})).ok();
    };
    let text = "x".repeat(300_000);
    (0..LARGE).for_each(|n| make(format!("large-{n}"), &text));
    // Newer, so first: reading judges by them how many rows come next.
    (0..34).for_each(|n| make(format!("small-{n}"), "x"));
    stop(&mut serving);
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let acme = serving.caller(&key);
    let before = serving.memory("VmHWM");
    acme.get("/tools?limit=100").ok();
    let more = serving.memory("VmHWM") - before;
    assert!(more < 56 << 20, "{} MiB for a page", more >> 20);
    let (mut seen, mut cursor) = (0, String::new());
    loop {
        let page = acme.get(&format!("/tools?limit=100&cursor={cursor}")).ok();
        seen += page["items"].as_array().unwrap().len();
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = next.to_string();
    }
    assert_eq!(seen, LARGE + 34);
    stop(&mut serving);
}
