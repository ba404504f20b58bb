//! Organizations that are exported and imported elsewhere (reference: moving).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use roadstead::app::DataDir;
use roadstead::app::moving::{
    ExportFile, ImportReply, ImportReport, ImportStep, Problem, check_imported,
    export_organization, import_file, import_step, undo_import,
};
use roadstead::auth::{
    AddressProof, Membership, Organization, User, find_person, is_installation_admin,
};
use roadstead::base::{Email, Id, Slug};
use roadstead::resources;
use roadstead::store::{ListSource, Store, TableExport, Tx};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Running, config};
use crate::records::fill_organization;

// ── Files and installations ──────────────────────────────────────────────────

/// The lines of an organization.
fn exported(store: &Store, slug: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let written = export_organization(store, slug, &mut |line| {
        lines.push(line);
        Ok(())
    });
    let report = written.unwrap();
    assert_eq!(lines.len() as u64, report.members + report.records + 2);
    lines
}

/// A new installation, and a place for files.
struct Place {
    dir: tempfile::TempDir,
    store: Store,
    accepts_unproved: bool,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = DataDir::at(dir.path().join("data")).create().unwrap();
        Place { dir, store, accepts_unproved: false }
    }

    /// One beside a server.
    fn of(running: &Running) -> Self {
        let (dir, store) = (tempfile::tempdir().unwrap(), running.store.clone());
        Place { dir, store, accepts_unproved: false }
    }

    /// Opens the data directory again, as after a crash.
    fn reopened(self) -> Self {
        let Place { dir, store, accepts_unproved } = self;
        drop(store);
        let data = DataDir::at(dir.path().join("data"));
        let store = crate::client::eventually("the directory is free", || data.open().ok());
        Place { dir, store, accepts_unproved }
    }

    fn file(&self, lines: &[String]) -> PathBuf {
        let path = self.dir.path().join("file");
        fs::write(&path, lines.concat()).unwrap();
        path
    }

    fn import(&self, lines: &[String]) -> Result<ImportReport, Problem> {
        self.import_as(lines, None)
    }

    fn import_as(&self, lines: &[String], slug: Option<&str>) -> Result<ImportReport, Problem> {
        let mut file = ExportFile::open(&self.file(lines))?;
        file.arriving.slug = slug.map(|slug| Slug::parse(slug).unwrap());
        file.arriving.accepts_unproved = self.accepts_unproved;
        import_file(&mut file, &mut |step| self.apply(&step), &mut |_| {})
    }

    fn apply(&self, step: &ImportStep) -> Result<ImportReply, Problem> {
        import_step(&self.store, step).map_err(|error| Problem(error.message().into()))
    }

    /// The numbers of records, by table, without those that an installation always has.
    fn records(&self) -> BTreeMap<&'static str, u64> {
        let tables = [resources::tables(), roadstead::store::TABLES.to_vec()].concat();
        let count = |table: &roadstead::store::TableInfo| {
            (table.name, self.store.check(std::slice::from_ref(table)).unwrap().records)
        };
        let all = tables.iter().map(count).filter(|(_, records)| *records > 0);
        all.filter(|(name, _)| !matches!(*name, "id_watermark" | "indexes")).collect()
    }
}

/// An organization with records of every kind, and its lines.
fn acme() -> (Running, Fixture, Vec<String>) {
    let running = Running::start(config());
    let fixture = running.fixture();
    fill_organization(&fixture, false);
    let lines = exported(&running.store, &fixture.slug);
    (running, fixture, lines)
}

/// Lines with the numbers and the hash that they have, as whoever makes up a file would write.
fn made_up(mut lines: Vec<String>) -> Vec<String> {
    let mut end: Value = serde_json::from_str(&lines.pop().unwrap()).unwrap();
    let mut records: BTreeMap<String, u64> = BTreeMap::new();
    let mut members = 0;
    for line in &lines[1..] {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        match line["table"].as_str() {
            Some(table) => *records.entry(table.into()).or_default() += 1,
            None => members += 1,
        }
    }
    end["end"]["records"] = json!(records);
    end["end"]["members"] = json!(members);
    end["end"]["hash"] = json!(blake3::hash(lines.concat().as_bytes()).to_hex().as_str());
    lines.push(format!("{end}\n"));
    lines
}

/// The number of the first line of a table.
fn first(lines: &[String], table: &str) -> usize {
    let beginning = format!("{{\"table\":\"{table}\"");
    lines.iter().position(|line| line.starts_with(&beginning)).unwrap_or_else(|| panic!("{table}"))
}

/// Lines of which one was changed.
fn with(lines: &[String], at: usize, change: impl Fn(&mut Value)) -> Vec<String> {
    let mut lines = lines.to_vec();
    let mut line: Value = serde_json::from_str(&lines[at]).unwrap();
    change(&mut line);
    lines[at] = format!("{line}\n");
    made_up(lines)
}

// ── Round trips ──────────────────────────────────────────────────────────────

/// The last line without what another installation writes differently.
fn bare_end(lines: &[String]) -> Value {
    let mut end: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    end["end"]["installation"] = Value::Null;
    end["end"]["secretsLeftOut"] = Value::Null;
    end
}

#[test]
fn an_imported_organization_is_exported_again_as_the_same_bytes() {
    let (running, fixture, lines) = acme();
    assert_eq!(exported(&running.store, &fixture.slug)[..10], lines[..10]);
    let place = Place::new();
    let report = place.import(&lines).unwrap();
    assert_eq!((report.org_slug.as_str(), report.known_members.len()), (&*fixture.slug, 0));
    assert_eq!(report.created_members.len(), 3);
    check_imported(&place.store, &fixture.slug).unwrap();
    let again = exported(&place.store, &fixture.slug);
    for (n, (one, other)) in lines.iter().zip(&again).enumerate().take(lines.len() - 1) {
        assert_eq!(one, other, "line {n}");
    }
    assert_eq!(bare_end(&lines), bare_end(&again));

    let end: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert!(end["end"]["secretsLeftOut"].as_u64().unwrap() > 3, "{end}");
    let end: Value = serde_json::from_str(again.last().unwrap()).unwrap();
    assert_eq!(end["end"]["secretsLeftOut"], 0, "none has arrived");
    running.stop();
}

#[test]
fn the_file_of_a_filled_organization_has_records_of_every_table() {
    let (running, _, lines) = acme();
    let found: BTreeSet<String> = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|line| line["table"].as_str().map(String::from))
        .collect();
    let tables = [resources::tables(), roadstead::store::TABLES.to_vec()].concat();
    // What passes within a second, takes a minute, or is made by another test.
    let fleeting = [
        "jobs",
        "removals",
        "redeliveries",
        "deliveries",
        "channels",
        "subscriptions",
        "schedules.runs",
        "wakes.failed",
    ];
    let missing: Vec<_> = tables
        .iter()
        .filter(|table| matches!((table.export)(), TableExport::Exported(_)))
        .map(|table| table.name)
        .filter(|name| !found.contains(*name) && !fleeting.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    running.stop();
}

#[test]
fn an_account_that_nobody_has_proved_becomes_a_member_only_if_the_operator_accepts_it() {
    let (running, fixture, lines) = acme();
    let ada = format!("ada@{}.test", fixture.slug);
    // An organization that considers the address verified may be the squatter's own.
    for proof in [AddressProof::Unproved, AddressProof::Unknown] {
        let other = Running::start(config());
        let squatter = Id::parse(&other.fixture().member_id);
        let email = Email::parse(&*ada).unwrap();
        let squat = move |tx: &mut roadstead::store::Tx| {
            let user: User = tx.fetch(&squatter)?;
            tx.replace(&user, &User { email: email.clone(), proof, ..user.clone() })
        };
        other.store.write_blocking(Id::NIL, squat).unwrap();
        let mut place = Place::of(&other);
        let before = place.records();
        let refused = |place: &Place| {
            let refused = place.import_as(&lines, None).unwrap_err();
            assert!(
                refused.0.contains(&ada) && refused.0.contains("--accept-unproved"),
                "{refused}"
            );
        };
        refused(&place);
        assert_eq!(place.records(), before, "{proof:?}");

        // Nor does one that was begun with it go on without.
        place.accepts_unproved = true;
        assert!(interrupted(&place, &lines, 2));
        place.accepts_unproved = false;
        refused(&place);
        place.accepts_unproved = true;
        assert_eq!(
            place.import_as(&lines, None).unwrap().known_members,
            std::slice::from_ref(&ada)
        );
        other.stop();
    }
    running.stop();
}

#[test]
fn members_are_matched_by_address_and_others_get_an_account_without_a_password() {
    let (running, fixture, lines) = acme();
    let other = Running::start(config());
    let globex = other.fixture();
    let (ada, grace) =
        (format!("ada@{}.test", fixture.slug), format!("grace@{}.test", fixture.slug));
    let known = other.store.write_blocking(Id::NIL, {
        let email = Email::parse(&*ada).unwrap();
        move |tx| {
            let user: User = tx.fetch(&Id::parse(&globex.owner_id))?;
            let changed = User { email: email.clone(), ..user.clone() };
            tx.replace(&user, &changed)?;
            Ok(changed)
        }
    });
    let known = known.unwrap();
    let place = Place::of(&other);
    let report = place.import_as(&lines, Some("moved")).unwrap();
    assert_eq!(report.known_members, [ada]);
    assert!(report.created_members.contains(&grace), "{report:?}");

    let org = Id::parse(&report.organization_id);
    other
        .store
        .read_now(org, |view| {
            let membership: Membership = view.fetch(&(known.id, org))?;
            assert_eq!(membership.role, roadstead::auth::Role::Owner);
            let user = find_person(view, &Email::parse(&*grace).unwrap())?.unwrap();
            assert_eq!(user.password, None);
            // Those who arrive have older ids than who administers the installation.
            assert!(user.id < known.id);
            assert!(is_installation_admin(view, known.id)?);
            assert!(!is_installation_admin(view, user.id)? && !user.is_proved(view)?);
            Ok(())
        })
        .unwrap();
    // Nor do they administer it once they have proved their address.
    let prove = {
        let grace = Email::parse(&*grace).unwrap();
        move |tx: &mut Tx| {
            let user = find_person(&tx.view(), &grace)?.unwrap();
            let proved = User { proof: AddressProof::Proved, ..user.clone() };
            tx.replace(&user, &proved)?;
            let view = tx.view();
            Ok((is_installation_admin(&view, proved.id)?, is_installation_admin(&view, known.id)?))
        }
    };
    assert_eq!(other.store.write_blocking(Id::NIL, prove).unwrap(), (false, true));
    // What names Ada names her as she is known here, in every record.
    let lines = exported(&other.store, "moved");
    for line in lines.iter().filter(|line| line.contains(&fixture.owner_id)) {
        // What was published and deployed is history, kept as the text that it was.
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(
            ["events", "deployment_contents"].contains(&line["table"].as_str().unwrap()),
            "{line}"
        );
    }
    let file = lines.concat();
    assert!(file.contains(&format!("\"approver_ids\":[\"{}\"]", known.id)));
    check_imported(&other.store, "moved").unwrap();
    other.stop();
    running.stop();
}

#[test]
fn an_imported_organization_works_and_says_in_its_log_where_it_came_from() {
    let (running, fixture, lines) = acme();
    let place = Place::new();
    place.import_as(&lines, Some("moved")).unwrap();
    let served = Running::serve(place.store.clone(), "127.0.0.1:0", config());
    let ada = served
        .anonymous()
        .about("moved")
        .with_bearer(&served.session(Id::parse(&fixture.owner_id)));
    let registry = &ada.get("/registries").items()[0];
    let reference = registry["ref"].as_str().unwrap();
    assert!(reference.starts_with("moved/"), "{registry}");
    ada.get(&format!("/registries/artifacts?registryRef={reference}")).ok();
    let log = crate::client::eventually("the chain begins", || {
        Some(ada.get("/audit-logs?action=organization.import").items()).filter(|log| log.len() == 1)
    });
    let detail = log[0]["resource"]["detail"].as_str().unwrap_or_default().to_string();
    assert!(detail.starts_with(&format!("{} of the installation ", fixture.slug)), "{log:?}");
    for domain in ada.get("/organizations/domains").items() {
        assert_eq!(domain["state"], "unverified");
    }
    served.stop();
    running.stop();
}

// ── Refusals ─────────────────────────────────────────────────────────────────

/// Asserts that a file is refused with this reason and nothing of it is left.
#[track_caller]
fn refused(lines: &[String], why: &str) {
    let place = Place::new();
    let before = place.records();
    let imported = place.import(lines);
    let problem = imported.err().unwrap_or_else(|| panic!("it is imported, though: {why}"));
    assert!(problem.0.contains(why), "{problem} does not say: {why}");
    assert_eq!(place.records(), before);
}

#[test]
fn a_file_that_is_cut_off_or_changed_is_refused() {
    let (running, _, lines) = acme();
    refused(&[], "the file is empty");
    for end in [1, 2, lines.len() / 2, lines.len() - 1] {
        refused(&lines[..end], "it is not whole");
    }
    let mut cut = lines.clone();
    cut.last_mut().unwrap().pop();
    refused(&cut, "the line does not end");
    let mut changed = lines.clone();
    let at = first(&lines, "tasks");
    changed[at] = changed[at].replacen("\"number\":1", "\"number\":2", 1);
    refused(&changed, "is not what was exported");
    let mut missing = lines.clone();
    missing.remove(at);
    refused(&missing, "is not what was exported");
    refused(&[lines.clone(), vec!["{}\n".into()]].concat(), "after the end");
    running.stop();
}

#[test]
fn a_file_of_another_format_or_layout_is_refused() {
    let (running, _, lines) = acme();
    refused(&with(&lines, 0, |line| line["roadstead_export"] = json!(2)), "line 1");
    refused(&with(&lines, 0, |line| line["roadsteadExport"] = json!(2)), "has format 2");
    let newer = with(&lines, 0, |line| line["layouts"]["tasks"] = json!(99));
    refused(&newer, "version 99 of \"tasks\"");
    let unknown = with(&lines, 0, |line| line["layouts"]["nothing"] = json!(1));
    refused(&unknown, "version 1 of \"nothing\"");
    running.stop();
}

#[test]
fn a_file_with_records_that_are_none_is_refused() {
    let (running, fixture, lines) = acme();
    let at = first(&lines, "tasks");
    let record = |change: fn(&mut Value)| with(&lines, at, |line| change(&mut line["record"]));
    refused(&record(|task| task["title"] = json!(7)), "tasks title: ");
    refused(&record(|task| task["title"] = json!("")), "tasks title: ");
    refused(&record(|task| task["status"] = json!("Lost")), "\"Lost\" is not known");
    refused(&record(|task| task["more"] = json!(1)), "\"more\" is not known");
    refused(
        &record(|task| drop(task.as_object_mut().unwrap().remove("title"))),
        "title is missing",
    );
    refused(&record(|task| *task = json!([])), "must be an object");

    let mut twice = lines.clone();
    twice.insert(at, lines[at].clone());
    refused(&made_up(twice), "twice in the file");
    let mut sealed = lines.clone();
    let secret = first(&lines, "environment_secrets");
    sealed = with(&sealed, secret, |line| line["record"]["value"] = json!("AAAA"));
    refused(&sealed, "secrets are not imported");

    for table in ["users", "api_keys", "audit_log", "nothing"] {
        let other = with(&lines, at, |line| line["table"] = json!(table));
        refused(&other, "is not one of an export");
    }
    let place = first(&lines, "registries.places");
    let org = Id::<()>::NIL.to_string();
    let foreign = with(&lines, place, |line| line["record"]["org"] = json!(org));
    refused(&foreign, "belongs to another organization");
    let mut early = lines.clone();
    early.swap(place, at);
    refused(&made_up(early), "out of order");
    let nobody = with(&lines, 1, |line| line["member"]["role"] = json!("Member"));
    refused(&nobody, "there is no owner");
    let mut member = lines.clone();
    member.insert(1, lines[1].clone());
    refused(&made_up(member.clone()), "a user is there twice");
    let address = with(&member, 1, |line| line["member"]["user"] = json!(org));
    refused(&address, "a user is there twice");
    assert!(lines[1].contains(&fixture.owner_id));
    running.stop();
}

#[test]
fn a_file_that_exhausts_a_reader_is_refused() {
    let (running, _, lines) = acme();
    let at = first(&lines, "tasks");
    let put = |line: String| {
        let mut lines = lines.clone();
        lines[at] = line;
        made_up(lines)
    };
    let deep =
        format!("{{\"table\":\"tasks\",\"record\":{}{}}}\n", "[".repeat(9999), "]".repeat(9999));
    refused(&put(deep), "recursion limit");
    let long = format!("{{\"table\":\"tasks\",\"record\":\"{}\"}}\n", "x".repeat(17 * 1024 * 1024));
    refused(&put(long), "longer than 16 MiB");
    let member = lines[1].clone();
    let mut many = lines.clone();
    (0..500).for_each(|_| many.insert(1, member.clone()));
    refused(&made_up(many), "more than 500 members");
    running.stop();
}

#[test]
fn a_reference_to_nothing_is_found_before_anything_counts() {
    let (running, fixture, lines) = acme();
    let team = first(&lines, "teams");
    let mut without = lines.clone();
    without.remove(team);
    let place = Place::new();
    // A trial in an empty installation comes first; the command imports what passed it.
    place.import(&made_up(without)).unwrap();
    let found = check_imported(&place.store, &fixture.slug).unwrap_err();
    assert!(found.0.contains("refers to teams"), "{found}");
    running.stop();
}

#[test]
fn what_is_there_already_is_not_imported_again() {
    let (running, fixture, lines) = acme();
    let place = Place::new();
    place.import(&lines).unwrap();
    let before = place.records();
    let again = |slug| place.import_as(&lines, slug).unwrap_err().0;
    assert!(again(None).contains("choose another slug with --as"));
    assert!(again(Some("other")).contains("is there already, perhaps with another slug"));
    assert_eq!(place.records(), before);

    // A user of the file whose id is taken by another address.
    let other = Running::start(config());
    let globex = other.fixture();
    let at = first(&lines, "teams");
    let stolen = with(&lines, 1, |line| line["member"]["user"] = json!(globex.owner_id));
    assert!(at > 1);
    let place = Place::of(&other);
    let refused = place.import_as(&stolen, Some("moved")).unwrap_err();
    assert!(refused.0.contains("with another address"), "{refused}");
    let organizations =
        |view: &roadstead::store::View| view.count::<Organization>(ListSource::TABLE, &(), 99);
    assert_eq!(other.store.read_now(Id::NIL, organizations).unwrap(), 1);
    assert_ne!(fixture.slug, "moved");
    other.stop();
    running.stop();
}

// ── Interruptions ────────────────────────────────────────────────────────────

/// Imports until so many steps are done.
fn interrupted(place: &Place, lines: &[String], steps: usize) -> bool {
    let mut left = steps;
    let mut file = ExportFile::open(&place.file(lines)).unwrap();
    file.arriving.accepts_unproved = place.accepts_unproved;
    let ended = import_file(
        &mut file,
        &mut |step| {
            if left == 0 {
                return Err(Problem("it is killed".into()));
            }
            left -= 1;
            place.apply(&step)
        },
        &mut |_| {},
    );
    ended.is_err()
}

#[test]
fn an_import_goes_on_after_each_interruption() {
    let (running, fixture, lines) = acme();
    let mut steps = 1;
    loop {
        let place = Place::new();
        if !interrupted(&place, &lines, steps) {
            break;
        }
        let place = place.reopened();
        let report = place.import(&lines).unwrap();
        assert_eq!(report.created_members.len(), 3);
        check_imported(&place.store, &fixture.slug).unwrap();
        let again = exported(&place.store, &fixture.slug);
        assert_eq!(again[..again.len() - 1], lines[..lines.len() - 1], "after {steps} steps");
        steps += 1;
    }
    assert!(steps > 3, "{steps}");
    running.stop();
}

#[test]
fn an_interrupted_import_is_seen_by_nobody_and_can_be_removed() {
    let (running, fixture, lines) = acme();
    let place = Place::new();
    let before = place.records();
    assert!(interrupted(&place, &lines, 2));
    let organizations =
        |view: &roadstead::store::View| view.count::<Organization>(ListSource::TABLE, &(), 99);
    assert_eq!(place.store.read_now(Id::NIL, organizations).unwrap(), 0);
    assert_ne!(place.records(), before);
    // Another file has to wait.
    let other = with(&lines, 1, |line| line["member"]["name"] = json!("Other"));
    let refused = place.import(&other).unwrap_err();
    assert!(refused.0.contains(&format!("of the organization {} is unfinished", fixture.slug)));
    undo_import(&mut |step| place.apply(&step)).unwrap();
    assert_eq!(place.records(), before);
    place.import(&other).unwrap();
    running.stop();
}
