//! Data directories of every released layout are opened by this build, upgraded, consistent, and
//! served.
//!
//! `tests/golden/data/` holds one small directory of each released layout, with a row of every
//! table, listed in `contents.txt` next to it: `v1` is that of 0.1.0. `v1-later` is of a program between
//! 0.1.0 and 0.2.0. The directory of a released layout never changes ([`RELEASED`]). For the next layout,
//! raise [`NEWEST`], or delete its unreleased directory, and run
//! `ROADSTEAD_UPDATE_GOLDEN=1 cargo test --test api upgrades`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use aws_lc_rs::digest::{SHA256, digest};
use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    TableHandle as _,
};
use roadstead::app::{DataDir, rotate};
use roadstead::auth::{Membership, Organization, Role};
use roadstead::base::{Id, MasterKey};
use roadstead::outbox::{Channel, redeliver_range};
use roadstead::resources;
use roadstead::store::engine::{LocalStorage as _, LoggedRedb, WriteBatch, WriteOp};
use roadstead::store::{Key as _, ListSource, TableInfo, Tx, View, table_names};
use serde_json::json;

use crate::client::{Caller, eventually};
use crate::fixture::{Running, config};
use crate::records::{self, bytes, tables};

/// The directory of the layout that this build writes.
const NEWEST: &str = "v2";

/// The directories of released layouts, with the SHA-256 of their databases.
const RELEASED: &[(&str, &str)] =
    &[("v1", "53bdb1ab4f0a19cfde0c4282f9298e235fe8f82e95d15f8ca878e5ccbffb1ee7")];

/// Tables that are empty in a small directory in use: their rows exist only before setup, during
/// large removals, for a moment, or once something is old. The golden sample of the record is
/// inserted.
const FROM_SAMPLES: &[&str] = &[
    "setup",
    "removals",
    "audit_log.pending",
    "audit_log.starts",
    "password_reset_requests",
    "imports",
    "imports.progress",
    "erasures",
];

/// Tables without a row in a directory: theirs exist for about a second, once an invitation was
/// accepted, or once a schedule was due, and refer to rows of others, so that a sample would dangle. Their
/// samples are read by the tests of records.
const WITHOUT_ROWS: &[&str] = &[
    "password_reset_mails",
    "document_changes",
    "invited_accounts",
    "schedules.runs",
    "tasks.lease_watch",
    "tasks.told_due",
    "wakes.failed",
];

/// The key of the directories, which contain no real secrets.
const KEY: &str = "7465737420206b65792074657374206b657920207465737420206b6579202021";

/// The key before it, so that the directories have been through a rotation.
const FIRST_KEY: &str = "7465737420206b65792074657374206b657920207465737420206b6579202022";

/// A database file, most of which is empty pages (see [`packed`]).
const PACKED: &str = "roadstead.redb.packed";
const FILES: [&str; 2] = ["secret.key", "format"];

fn golden(layout: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data").join(layout)
}

/// The names of all directories.
fn layouts() -> Vec<String> {
    let found = fs::read_dir(golden("")).unwrap();
    found.map(|layout| layout.unwrap().file_name().into_string().unwrap()).collect()
}

type Definition<'a> = redb::TableDefinition<'a, &'static [u8], &'static [u8]>;

fn definition(table: &TableInfo) -> Definition<'static> {
    Definition::new(table.name)
}

// ── Packing ──────────────────────────────────────────────────────────────────

/// The minimum length of a run of equal bytes.
const MIN_RUN: usize = 16;

/// Run-length encodes `content`: the length of a run and its byte, then the length of the literal
/// bytes up to the next run and those bytes.
fn packed(content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut rest = content;
    while let Some(byte) = rest.first() {
        let run = rest.iter().take_while(|next| *next == byte).count();
        let behind = &rest[run..];
        let is_run = |bytes: &[u8]| bytes.iter().all(|next| *next == bytes[0]);
        let len = behind.windows(MIN_RUN).position(is_run).unwrap_or(behind.len());
        packed.extend((run as u32).to_le_bytes());
        packed.push(*byte);
        packed.extend((len as u32).to_le_bytes());
        packed.extend(&behind[..len]);
        rest = &behind[len..];
    }
    packed
}

fn unpacked(mut packed: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some((head, behind)) = packed.split_first_chunk::<9>() {
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()) as usize;
        content.resize(content.len() + number(0), head[4]);
        let (rest, behind) = behind.split_at(number(5));
        content.extend(rest);
        packed = behind;
    }
    content
}

#[test]
fn unpacking_reverses_packing() {
    for content in [
        vec![],
        vec![0],
        vec![255; 4096],
        vec![1, 2, 3],
        [vec![0; 5], vec![7; 3], vec![0; 15], vec![8], vec![0; 16], vec![9; 40]].concat(),
    ] {
        assert_eq!(unpacked(&packed(&content)), content);
    }
}

// ── Creating one ───────────────────────────────────────────────────────────────

fn write_private(path: &Path, content: impl AsRef<[u8]>) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Seals the secrets of a directory with another key.
fn rotate_to(dir: &DataDir, key: &str) {
    let store = eventually("the database is free", || dir.open().ok());
    let key = MasterKey::new(bytes(key).try_into().unwrap());
    rotate(dir, &store, Some(key), None, &mut |_| {}).unwrap();
}

/// Asks for deliveries again. A server would work off the request at once.
fn request_redelivery(dir: &DataDir) {
    let store = eventually("the database is free", || dir.open().ok());
    let all = |view: &View| view.all(ListSource::TABLE, &());
    let organizations: Vec<Organization> = store.read_now(Id::NIL, all).unwrap();
    let write = |tx: &mut Tx| {
        let (now, channels) = (tx.now(), tx.view().all::<Channel>(ListSource::TABLE, &())?);
        redeliver_range(tx, channels[0].id, (now, now), None).map(drop)
    };
    store.write_blocking(organizations[0].id.cast(), write).unwrap();
}

/// Rows by table, as they are stored.
type Rows = Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>;

/// The sessions, and their indexes.
fn sessions(path: &Path) -> Rows {
    let database = eventually("the database is free", || Database::open(path).ok());
    let read = database.begin_read().unwrap();
    let names = read.list_tables().unwrap().map(|table| table.name().to_string());
    let rows = |name: String| {
        let table = read.open_table(Definition::new(&name)).unwrap();
        let rows = table.iter().unwrap().map(|row| {
            let (key, value) = row.unwrap();
            (key.value().to_vec(), value.value().to_vec())
        });
        let rows = rows.collect();
        (name, rows)
    };
    names.filter(|name| name.starts_with("sessions")).map(rows).collect()
}

/// Creates the directory of the newest layout.
fn write_newest() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    write_private(&dir.join("secret.key"), FIRST_KEY);
    records::fill(dir, false);
    let path = DataDir::at(dir).database();
    let ended = sessions(&path);
    rotate_to(&DataDir::at(dir), KEY);
    request_redelivery(&DataDir::at(dir));
    // The server's threads close the file shortly after it stops.
    let mut database = eventually("the database is free", || Database::open(&path).ok());
    let write = database.begin_write().unwrap();
    for table in tables().iter().filter(|table| FROM_SAMPLES.contains(&table.name)) {
        let sample = fs::read_to_string(records::file_of(table)).unwrap();
        let mut lines = sample.lines().map(bytes);
        let (key, value) = (lines.next().unwrap(), lines.next().unwrap());
        let mut opened = write.open_table(definition(table)).unwrap();
        opened.insert(key.as_slice(), value.as_slice()).unwrap();
    }
    // The rotation has ended them, and they are read for ever as well.
    for (name, rows) in &ended {
        let mut opened = write.open_table(Definition::new(name)).unwrap();
        for (key, value) in rows {
            opened.insert(key.as_slice(), value.as_slice()).unwrap();
        }
    }
    write.commit().unwrap();
    while database.compact().unwrap() {}
    let contents = contents(&database);
    drop(database);

    let golden = golden(NEWEST);
    fs::create_dir_all(&golden).unwrap();
    for file in FILES {
        fs::copy(dir.join(file), golden.join(file)).unwrap();
    }
    fs::write(golden.join(PACKED), packed(&fs::read(path).unwrap())).unwrap();
    fs::write(golden.join("contents.txt"), contents).unwrap();
}

/// Returns a line for every table: its name, and the versions and number of its rows.
fn contents(database: &Database) -> String {
    let reader = database.begin_read().unwrap();
    let mut lines = Vec::new();
    for table in tables() {
        let Ok(opened) = reader.open_table(definition(&table)) else { continue };
        let mut versions: Vec<u8> =
            opened.iter().unwrap().map(|row| row.unwrap().1.value()[1]).collect();
        versions.sort_unstable();
        versions.dedup();
        lines.push(format!("{} {versions:?} {}\n", table.name, opened.len().unwrap()));
    }
    lines.sort();
    lines.concat()
}

// ── Opening them all ─────────────────────────────────────────────────────────

#[test]
fn every_released_data_directory_is_upgraded_consistent_and_served() {
    if std::env::var_os("ROADSTEAD_UPDATE_GOLDEN").is_some() && !golden(NEWEST).exists() {
        write_newest();
    }
    let layouts = layouts();
    assert!(RELEASED.iter().all(|(released, _)| layouts.iter().any(|one| one == released)));
    for layout in &layouts {
        let place = tempfile::tempdir().unwrap();
        let data = copy(layout, place.path());
        if layout == NEWEST {
            assert_current(&data, &golden(layout));
        }
        assert_upgraded(layout, &data, place.path());
    }
}

/// Asserts that a directory is opened, consistent, and served.
fn assert_upgraded(layout: &str, data: &DataDir, dir: &Path) {
    drop(data.open().unwrap_or_else(|error| panic!("{layout}: {error}")));
    assert_consistent(dir);
    serve(data);
    assert_consistent(dir);
}

#[test]
fn directories_of_releases_are_kept_as_they_were_released() {
    for (layout, sha256) in RELEASED {
        let found = digest(&SHA256, &fs::read(golden(layout).join(PACKED)).unwrap());
        let found: String = found.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, *sha256, "{layout}: put back the one of the release");
    }
}

#[test]
fn a_released_directory_that_was_not_closed_is_read_from_its_log() {
    for (layout, _) in RELEASED {
        let place = tempfile::tempdir().unwrap();
        let data = copy_unclosed(layout, place.path());
        let path = data.database();
        let database = eventually("the database is free", || Database::open(&path).ok());
        let rows: u64 = contents(&database)
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(rows, 0, "all of it is in the log");
        drop(database);
        assert_upgraded(layout, &data, place.path());
    }
}

/// A copy of the files of a golden directory that are not its database.
fn copy_files(layout: &str, dir: &Path) -> DataDir {
    for file in FILES {
        write_private(&dir.join(file), fs::read(golden(layout).join(file)).unwrap());
    }
    DataDir::at(dir)
}

/// A copy of a golden directory.
fn copy(layout: &str, dir: &Path) -> DataDir {
    let data = copy_files(layout, dir);
    write_private(&data.database(), unpacked(&fs::read(golden(layout).join(PACKED)).unwrap()));
    data
}

/// A copy of a golden directory as if its server had been killed before its first checkpoint: each row is
/// in the log, as it was written, and the database has none. What is in records of the log has not changed
/// since 0.1.0.
fn copy_unclosed(layout: &str, dir: &Path) -> DataDir {
    let data = copy_files(layout, dir);
    let closed = tempfile::tempdir().unwrap();
    let database = copy(layout, closed.path()).database();
    let database = Database::open(database).unwrap();
    let names = table_names(&resources::tables());
    // It leaves the database as it is when it is dropped.
    let mut storage = LoggedRedb::create(&data.database(), names.clone()).unwrap().for_inspection();
    let reader = database.begin_read().unwrap();
    for name in names {
        let table = redb::TableDefinition::<&[u8], &[u8]>::new(name);
        let Ok(opened) = reader.open_table(table) else { continue };
        let mut writes = WriteBatch::default();
        for row in opened.iter().unwrap() {
            let (key, value) = row.unwrap();
            writes.add(name, key.value().to_vec(), WriteOp::Insert(value.value().to_vec()));
        }
        if !writes.is_empty() {
            storage.commit(&writes).alone().unwrap();
        }
    }
    data
}

#[test]
fn the_check_reports_a_missing_index_without_building_it() {
    let place = tempfile::tempdir().unwrap();
    let data = copy(NEWEST, place.path());
    let database = Database::open(data.database()).unwrap();
    let write = database.begin_write().unwrap();
    let indexes = redb::TableDefinition::<&[u8], &[u8]>::new("indexes");
    let name = "tasks.by_status".to_string().to_bytes();
    assert!(write.open_table(indexes).unwrap().remove(name.as_slice()).unwrap().is_some());
    write.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let (status, report) = check(place.path());
        assert_eq!((status, &report["sound"]), (Some(0), &json!(true)));
        assert_eq!(report["unbuiltIndexes"], json!(["tasks.by_status"]));
    }
    serve(&data);
    assert_consistent(place.path());
}

/// Asserts that the newest directory has every index, and a row of every table in the current
/// version.
fn assert_current(data: &DataDir, golden: &Path) {
    let contents = contents(&Database::open(data.database()).unwrap());
    let kept = fs::read_to_string(golden.join("contents.txt")).unwrap();
    assert_eq!(contents, kept, "see the head of this file");
    for table in tables().iter().filter(|table| !WITHOUT_ROWS.contains(&table.name)) {
        let now = format!("{} [{}] ", table.name, table.version);
        let line = contents.lines().find_map(|line| line.strip_prefix(&now));
        assert!(line.is_some_and(|rows| rows != "0"), "{now}: see the head of this file");
    }
    let store = data.open_to_check().unwrap();
    assert_eq!(store.unbuilt(), Vec::<&str>::new(), "see the head of this file");
}

/// Runs `roadstead check`; returns its exit code and output.
fn check(dir: &Path) -> (Option<i32>, serde_json::Value) {
    let ended = eventually("the server let go of the database", || {
        let mut check = Command::new(env!("CARGO_BIN_EXE_roadstead"));
        let ended = check.args(["check", "--json", "--data"]).arg(dir).output().unwrap();
        (ended.status.code() != Some(2)).then_some(ended)
    });
    (ended.status.code(), serde_json::from_slice(&ended.stdout).unwrap())
}

fn assert_consistent(dir: &Path) {
    let (status, report) = check(dir);
    assert_eq!(report["findings"], json!([]));
    assert_eq!(report["unbuiltIndexes"], json!([]));
    assert!(report["records"].as_u64().unwrap() as usize > tables().len());
    assert_eq!(status, Some(0));
}

/// Serves the directory; reads the existing records and writes one.
fn serve(data: &DataDir) {
    let running = Running::serve(data.open().unwrap(), "127.0.0.1:0", config());
    let anonymous = running.anonymous();
    let sign_in = json!({"email": "eve@acme.test", "password": "correct horse"});
    let signed_in = anonymous.ask("POST", "/auth/sign-in").json(&sign_in).send();
    // Her password is right; in newer directories she has a second factor.
    let has_factor = signed_in.status == 401 && signed_in.problem()["code"] == "code_required";
    assert!(signed_in.status == 200 || has_factor, "{}", signed_in.text());
    let (organizations, members) = running
        .store
        .read_now(Id::NIL, |view| {
            let organizations: Vec<Organization> = view.all(ListSource::TABLE, &())?;
            let members: Vec<Membership> = view.all(ListSource::TABLE, &())?;
            Ok((organizations, members))
        })
        .unwrap();
    let mut read = 0;
    for organization in &organizations {
        let is_owner = |member: &&Membership| {
            member.org == organization.id.cast() && member.role == Role::Owner
        };
        let owner = members.iter().find(is_owner).expect("an owner").user;
        let caller = Caller::anonymous(running.address, organization.slug.as_str());
        let caller = caller.with_bearer(&running.session(owner));
        for list in [
            "/teams",
            "/agents",
            "/tools",
            "/environments",
            "/registries",
            "/llm-providers",
            "/prompt-providers",
            "/governance/policies",
            "/notifications/logs",
            "/access-grants",
            "/organizations/members",
        ] {
            read += caller.get(list).items().len();
        }
        caller.post("/teams", json!({"slug": "later", "name": "Later"})).ok();
        assert!(caller.get("/teams").items().iter().any(|team| team["slug"] == "later"));
    }
    assert!(organizations.len() > 1 && read > 20, "{read} items were read");
    documents_are_extended(&running, &organizations);
    running.stop();
}

/// Waits until documents have all terms by which this build finds them.
fn documents_are_extended(running: &Running, organizations: &[Organization]) {
    let metrics = resources::metrics();
    let left = metrics.iter().find(|metric| metric.name == "roadstead_documents_to_extend");
    let left = left.expect("it is a metric").read;
    eventually("all documents are extended", || {
        let of = |organization: &Organization| {
            running.store.read_now(organization.id.cast(), left).unwrap()
        };
        (organizations.iter().map(of).sum::<u64>() == 0).then_some(())
    });
}
