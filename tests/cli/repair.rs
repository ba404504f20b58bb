//! `roadstead repair` (reference: backup, "Repair"), and when it and `check` are recommended.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use roadstead::api::audit::{ChainHead, ChainedEntry};
use roadstead::auth::Membership;
use roadstead::resources;
use roadstead::store::engine::{
    KeyRange, LocalStorage as _, LoggedRedb, Order, WriteBatch, WriteOp,
};
use roadstead::store::{Record, table_names};
use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::process::{Ended, PASSWORD, Place, Serving, command, run};

const REPAIR: [&str; 2] = ["repair", "--json"];
const APPLY: [&str; 3] = ["repair", "--json", "--apply"];

fn stop(mut serving: Serving) {
    serving.signal("TERM");
    serving.ends();
}

/// The value of a command that failed as one does that finds damage.
#[track_caller]
fn finds(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(1), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn repaired(place: &Place) -> PathBuf {
    place.data().with_file_name("data.repaired")
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files
        .map(|entry| (entry.file_name().to_string_lossy().into(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// The rows of a table, and changes to them: what a fault of the store leaves.
pub struct Tables(LoggedRedb);

impl Tables {
    pub fn of(place: &Place) -> Self {
        let tables = table_names(&resources::tables());
        let path = place.file("roadstead.redb");
        Tables(eventually("the directory is free", || LoggedRedb::open(&path, tables.clone()).ok()))
    }

    pub fn rows(&mut self, table: &'static str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut rows, all) = (Vec::new(), KeyRange { from: &[], to: None });
        let reader = self.0.snapshot().unwrap();
        let mut add = |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        };
        reader.scan(table, all, Order::Ascending, &mut add).unwrap();
        rows
    }

    fn change(&mut self, table: &'static str, key: &[u8], op: WriteOp) {
        let mut writes = WriteBatch::default();
        writes.add(table, key.to_vec(), op);
        self.0.commit(&writes).alone().unwrap();
    }

    /// Removes the rows of a table whose keys or values have these bytes in them; returns their number.
    fn lose(&mut self, table: &'static str, with: &[u8]) -> usize {
        let has = |bytes: &[u8]| bytes.windows(with.len()).any(|part| part == with);
        let rows = self.rows(table);
        let lost: Vec<_> = rows.iter().filter(|(key, value)| has(key) || has(value)).collect();
        lost.iter().for_each(|(key, _)| self.change(table, key, WriteOp::Delete));
        lost.len()
    }
}

/// Creates a team with a task, and returns its id.
fn team(owner: &Caller, slug: &str) -> String {
    let id = owner.post("/teams", json!({"slug": slug, "name": slug})).id();
    owner.post(&format!("/teams/{id}/tasks"), json!({"title": format!("of {slug}")})).ok();
    id
}

/// A directory in which the log has lost rows as it did under load: teams whose slugs are used twice,
/// tasks without their team, a membership without its account, gaps in the audit log, index entries without
/// records and records without entries; and a record of flipped bits.
///
/// Returns the ids of the teams 3 and 5 besides.
fn lossy() -> (Place, String, [String; 2]) {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let owner = serving.caller(&key);
    let ids: Vec<_> = (0..12).map(|n| team(&owner, &format!("team-{n:02}"))).collect();
    stop(serving);
    let mut tables = Tables::of(&place);
    // What a writer does not find it makes again.
    assert_eq!(tables.lose("teams.by_slug", b"team-03"), 1);
    drop(tables);
    let serving = Serving::start(&place, &[]);
    let again = serving.caller(&key).post("/teams", json!({"slug": "team-03", "name": "Again"}));
    assert_ne!(again.id(), ids[3]);
    stop(serving);
    let mut tables = Tables::of(&place);
    assert_eq!(tables.lose("teams", b"team-05"), 1);
    let entries = tables.rows(ChainedEntry::TABLE);
    for at in [6, 7, 11] {
        tables.change(ChainedEntry::TABLE, &entries[at].0, WriteOp::Delete);
    }
    let (task, mut value) = tables.rows("tasks").pop().unwrap();
    value[9] ^= 1;
    tables.change("tasks", &task, WriteOp::Put(value));
    let (posting, _) = tables.rows("audit_log.postings").pop().unwrap();
    tables.change("audit_log.postings", &posting, WriteOp::Delete);
    drop(tables);
    (place, key, [ids[3].clone(), ids[5].clone()])
}

#[test]
fn a_directory_that_lost_rows_becomes_one_that_is_sound_and_serves_the_rest() {
    let (place, key, [kept, lost_team]) = lossy();
    let checked = finds(&place.run(&["check", "--json"]));
    let next = checked["next"].as_str().unwrap();
    assert!(next.starts_with("roadstead repair --data /"), "{next}");
    let before = contents(&place.data());
    let planned = place.run(&REPAIR).succeeds();
    assert_eq!(planned["applied"], false);
    assert_eq!(planned["before"]["wrong"], checked["wrong"]);
    assert!(contents(&place.data()) == before, "a dry run changes nothing");
    assert_eq!(fs::read_dir(place.data().parent().unwrap()).unwrap().count(), 1);

    let done = place.run(&APPLY).succeeds();
    assert!(contents(&place.data()) == before, "the damaged directory is only read");
    assert_eq!(done["repair"]["lost"], planned["repair"]["lost"], "it does what it said");
    let (lost, after) = (&done["repair"]["lost"], &done["repair"]["after"]);
    assert_eq!((&after["sound"], &after["wrong"]), (&json!(true), &json!(0)), "{done}");
    assert_eq!(lost["duplicate"]["tables"], json!({"teams": 1}));
    assert_eq!(lost["unreadable"]["tables"], json!({"tasks": 1}));
    assert!(lost["removed"]["tables"]["tasks"].as_u64() >= Some(1), "{lost}");
    assert_eq!(done["repair"]["restartedAuditLogs"][0]["orgSlug"], "acme");
    assert_eq!(done["repair"]["restartedAuditLogs"][0]["brokenAt"], 7);

    let new = repaired(&place);
    let checked = run(command(&["check", "--json"], &new), None).succeeds();
    assert_eq!(checked["sound"], true);
    let serving = Serving::of(command(&["serve", "--listen", "127.0.0.1:0", "--json"], &new));
    let owner = serving.caller(&key);
    let teams = owner.walk("/teams", 100);
    assert_eq!(teams.len(), 11, "{teams:?}");
    let third = teams.iter().find(|team| team["slug"] == "team-03").unwrap();
    assert_eq!(third["id"], json!(kept), "the one with a task, not the empty one");
    assert_eq!(owner.walk(&format!("/teams/{kept}/tasks"), 100)[0]["title"], "of team-03");
    assert_eq!(owner.get(&format!("/teams/{lost_team}")).status, 404);
    team(&owner, "team-05");
    drop(serving);
    let exported = eventually("the directory is free", || {
        let ended = run(command(&["audit", "export"], &new), None);
        (ended.code == Some(0)).then_some(ended.stdout)
    });
    let restart = exported.lines().find(|line| line.contains("audit_log.restart")).unwrap();
    assert!(restart.contains("the chain was broken at entry 7"), "{restart}");
}

/// Whoever looks for what is gone finds all of it in one file.
#[test]
fn what_was_lost_is_in_a_file_of_the_new_directory_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt as _;
    let (place, ..) = lossy();
    let done = place.run(&APPLY).succeeds();
    let file = repaired(&place).join("left-out.jsonl");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let lines = fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = done["repair"]["lost"].as_object().unwrap();
    let count = kinds.values().map(|kind| kind["count"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(lines.len() as u64, count);
    let of = |kind: &str| lines.iter().find(|line| line["kind"] == kind).unwrap();
    let team = of("duplicate");
    assert_eq!((&team["table"], &team["record"]["slug"]), (&json!("teams"), &json!("team-03")));
    assert!(team["why"].as_str().unwrap().contains("the same key in teams.by_slug"), "{team}");
    let unreadable = of("unreadable");
    assert_eq!(unreadable["record"], Value::Null);
    assert!(unreadable["value"].as_str().unwrap().len() > 20, "{unreadable}");
}

#[test]
fn a_log_whose_end_was_replaced_goes_on_after_a_repair() {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    team(&serving.caller(&key), "t");
    stop(serving);
    let mut tables = Tables::of(&place);
    let (head, _) = tables.rows(ChainHead::TABLE).remove(0);
    tables.change(ChainHead::TABLE, &head, WriteOp::Delete);
    drop(tables);
    finds(&place.run(&["check", "--json"]));
    let done = place.run(&APPLY).succeeds();
    let log = &done["repair"]["restartedAuditLogs"][0];
    assert_eq!(log["chainedAgain"], 0, "what is as it was appended stays so");
    let checked = run(command(&["check", "--json"], &repaired(&place)), None);
    assert_eq!(checked.succeeds()["sound"], true);
}

/// What a bad sector leaves of a server that was killed.
#[test]
fn a_damaged_log_loses_the_change_that_is_damaged_and_none_after_it() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    let owner = serving.caller(&key);
    let ids: Vec<_> = (0..6).map(|n| team(&owner, &format!("team-{n:02}"))).collect();
    serving.signal("KILL");
    serving.ends();
    let of_task = b"of team-02";
    let damaged = ["roadstead.wal-1", "roadstead.wal-2"].map(|name| {
        let mut log = fs::read(place.file(name)).unwrap();
        let at = log.windows(of_task.len()).position(|part| part == of_task);
        at.inspect(|at| log[*at] ^= 1);
        fs::write(place.file(name), log).unwrap();
        at.is_some()
    });
    assert!(damaged.contains(&true), "the database has it already");
    let refused = eventually("the directory is free", || {
        let ended = place.run(&["check"]);
        (!ended.stderr.contains("in use")).then_some(ended)
    });
    assert!(refused.stderr.contains("roadstead repair"), "{refused:?}");
    let before = contents(&place.data());
    let shown = place.run(&["repair"]);
    assert!(shown.stdout.contains("of the log is missing or broken"), "{shown:?}");
    let done = place.run(&APPLY).succeeds();
    assert!(contents(&place.data()) == before, "the damaged directory stays as it is");
    let missing = done["repair"]["missingLog"].as_array().unwrap();
    assert_eq!(missing.len(), 1, "{done}");
    let new = repaired(&place);
    assert_eq!(run(command(&["check", "--json"], &new), None).succeeds()["sound"], true);
    let serving = Serving::of(command(&["serve", "--listen", "127.0.0.1:0", "--json"], &new));
    let owner = serving.caller(&key);
    for (n, id) in ids.iter().enumerate() {
        let tasks = owner.get(&format!("/teams/{id}/tasks")).items();
        assert_eq!(tasks.len(), usize::from(n != 2), "{tasks:?}");
    }
}

/// Without the front nobody knows that the file is one of a log; all records are there.
#[test]
fn a_log_whose_front_is_damaged_is_repaired_without_a_loss() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    let id = team(&serving.caller(&key), "t");
    serving.signal("KILL");
    serving.ends();
    let file = place.file("roadstead.wal-1");
    let mut log = fs::read(&file).unwrap();
    log[0] ^= 1;
    fs::write(&file, log).unwrap();
    let refused = |ended: &Ended| ended.stderr.contains("roadstead repair");
    eventually("the directory is free", || refused(&place.run(&["check"])).then_some(()));
    let done = place.run(&APPLY).succeeds();
    assert_eq!(done["repair"]["missingLog"], json!([]), "{done}");
    assert_ne!(done["before"]["wrong"], 0, "{done}");
    let new = repaired(&place);
    let serving = Serving::of(command(&["serve", "--listen", "127.0.0.1:0", "--json"], &new));
    assert_eq!(serving.caller(&key).get(&format!("/teams/{id}/tasks")).items().len(), 1);
}

#[test]
fn an_organization_whose_row_is_gone_is_made_again_for_its_members() {
    for is_in_index in [true, false] {
        let (place, key) = Place::founded();
        let serving = Serving::start(&place, &[]);
        let team = team(&serving.caller(&key), "t");
        stop(serving);
        let mut tables = Tables::of(&place);
        let (organization, _) = tables.rows("organizations").remove(0);
        tables.change("organizations", &organization, WriteOp::Delete);
        if !is_in_index {
            tables.lose("organizations.by_slug", b"acme");
        }
        drop(tables);
        let done = place.run(&APPLY).succeeds();
        assert_eq!(done["repair"]["lost"]["recreated"]["tables"]["organizations"], 1, "{done}");
        assert_eq!(done["repair"]["lost"]["removed"]["count"], 0, "{done}");
        let new = repaired(&place);
        assert_eq!(run(command(&["check", "--json"], &new), None).succeeds()["sound"], true);
        let serving = Serving::of(command(&["serve", "--listen", "127.0.0.1:0", "--json"], &new));
        let owner = serving.caller(&key);
        let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
        let session = owner.with_fields(&[]).post("/auth/sign-in", sign_in).ok();
        let admin = owner.with_bearer(session["token"].as_str().unwrap());
        let own = admin.get("/organizations").items();
        let slug = own[0]["slug"].as_str().unwrap();
        assert_eq!(slug == "acme", is_in_index, "{own:?}");
        assert!(is_in_index || slug.starts_with("recovered-"), "{own:?}");
        let owner = Caller::anonymous(serving.address, slug).with_bearer(&key);
        assert_eq!(owner.get(&format!("/teams/{team}")).ok()["slug"], "t");
    }
}

#[test]
fn keys_of_an_account_that_is_no_member_any_more_are_gone() {
    let (place, key) = Place::founded();
    let mut tables = Tables::of(&place);
    let (membership, _) = tables.rows(Membership::TABLE).remove(0);
    tables.change(Membership::TABLE, &membership, WriteOp::Delete);
    drop(tables);
    let done = place.run(&APPLY).succeeds();
    assert_eq!(done["repair"]["lost"]["removed"]["tables"]["api_keys"], 1, "{done}");
    let new = repaired(&place);
    let serving = Serving::of(command(&["serve", "--listen", "127.0.0.1:0", "--json"], &new));
    assert_eq!(serving.caller(&key).get("/teams").status, 401);
}

#[test]
fn a_sound_directory_and_a_place_in_use_are_left_alone() {
    let (place, _) = Place::founded();
    let done = place.run(&APPLY).succeeds();
    assert_eq!((&done["applied"], &done["repair"]), (&json!(false), &Value::Null));
    assert!(!repaired(&place).exists());
    let shown = place.run(&["repair"]);
    assert!(shown.stdout.starts_with("sound: ") && shown.stdout.contains("nothing to repair"));
    fs::create_dir(repaired(&place)).unwrap();
    fs::write(repaired(&place).join("mine"), "mine").unwrap();
    place.run(&REPAIR).fails(2, "is not empty");
    let within = place.file("new");
    place.run(&["repair", "--into", within.to_str().unwrap()]).fails(2, "stays as it is");
    Place::new().run(&REPAIR).fails(2, "not a data directory");
    let other = place.data().with_file_name("other");
    let into = ["repair", "--into", other.to_str().unwrap()];
    let serving = Serving::start(&place, &[]);
    place.run(&into).fails(2, "in use by another process");
    drop(serving);
}

#[test]
fn the_first_start_of_a_directory_of_an_older_release_recommends_a_check_once() {
    let (place, _) = Place::founded();
    let log = |place: &Place| {
        let mut serving = Serving::start(place, &[]);
        serving.signal("TERM");
        serving.ends().2
    };
    let recommends = |log: &str| log.contains("roadstead check --data");
    assert!(!recommends(&log(&place)), "a new one has lost nothing");
    fs::remove_file(place.file("written-by")).unwrap();
    let first = eventually("the directory is free", || Some(log(&place)));
    assert!(recommends(&first), "{first}");
    assert!(!recommends(&log(&place)));
}

/// A prompt without its text, and what imports it, cannot be used by anybody.
#[test]
fn a_version_whose_text_is_gone_is_removed_with_those_that_import_it() {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let owner = serving.caller(&key);
    let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = owner.with_fields(&[]).post("/auth/sign-in", sign_in).ok();
    let admin = owner.with_bearer(session["token"].as_str().unwrap());
    admin.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let publish = |kind: &str, name: &str, version: &str, source: &str| {
        let artifact = json!({
            "registryRef": "acme/main", "artifactType": kind, "name": name, "version": version,
            "source": source,
        });
        owner.post("/registries/artifacts", artifact).ok();
    };
    publish("promptlet", "voice", "1.0.0", "Lost words for {{TEAM}}.");
    publish("prompt", "scribe", "1.0.0", "Kept.");
    publish("prompt", "scribe", "1.1.0", "{{ import \"voice@1.0.0\" }} More.");
    stop(serving);
    let mut tables = Tables::of(&place);
    let texts = tables.rows("artifact_texts");
    // The oldest: that of the prompt has these words, too.
    let has_words = |value: &[u8]| value.windows(10).any(|part| part == b"Lost words");
    let text = texts.iter().find(|(_, value)| has_words(value));
    let key_of_text = text.unwrap().0.clone();
    tables.change("artifact_texts", &key_of_text, WriteOp::Delete);
    drop(tables);
    let found = finds(&place.run(&["check", "--json"]))["findings"].to_string();
    assert!(found.contains("has no text"), "{found}");
    let done = place.run(&APPLY).succeeds();
    let lost = &done["repair"]["lost"];
    assert_eq!(lost["removed"]["tables"]["artifact_versions"], 2, "{lost}");
    assert_eq!(lost["changed"]["tables"]["artifacts"], 1, "the highest version is another: {lost}");
    let new = repaired(&place);
    assert_eq!(run(command(&["check", "--json"], &new), None).succeeds()["sound"], true);
}
