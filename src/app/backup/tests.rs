//! A backup restored elsewhere is the same; one that is damaged, foreign or for another key is
//! refused and leaves nothing.

mod damage;
mod formats;
mod places;
mod ledger;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::block::{BlockReader, BlockWriter, Kind, MAGIC};
use super::source::{Sink, send};
use super::*;
use crate::app::erasures::Erasures;
use crate::app::{DataDir, DataDirError, KeySource};
use crate::base::{Email, Id, MasterKey, Name, Slug, Time};
use crate::outbox::{About, EventType, publish};
use crate::resources::organizations::{self, NewFoundation};
use crate::store::{Store, Tx, record_tables};

use formats::rewritten;

/// A data directory with an organization.
struct Place {
    place: TempDir,
    dir: DataDir,
    store: Store,
}

fn founded() -> Place {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::at(place.path().join("data"));
    let store = dir.create().unwrap();
    let founding = NewFoundation {
        slug: Slug::parse("acme").unwrap(),
        name: Name::parse("Acme").unwrap(),
        email: Email::parse("ada@acme.test").unwrap(),
        user_name: Name::parse("Ada").unwrap(),
        password_hash: None,
        api_key: Some(Name::parse("key").unwrap()),
    };
    let founded =
        store.write_blocking(Id::NIL, move |tx| organizations::bootstrap(tx, &founding)).unwrap();
    let org = founded.organization.id;
    let about = move || About::resource("agent", org);
    let event = move |tx: &mut Tx| publish(tx, EventType::AgentError, about(), Value::Null);
    store.write_blocking(org, event).unwrap();
    Place { place, dir, store }
}

impl Place {
    fn backup(&self) -> Vec<u8> {
        self.backup_with(false)
    }

    fn backup_with(&self, with_secret_key: bool) -> Vec<u8> {
        let mut progress = |_: &Totals| {};
        let mut writer = BackupWriter::new(Vec::new(), &mut progress).unwrap();
        send(Some(&self.dir), &self.store, with_secret_key, false, &mut writer).unwrap();
        writer.finish().unwrap().0
    }

    fn key(&self) -> MasterKey {
        self.store.keys().current()
    }

    /// A place for a directory to restore into.
    fn other(&self) -> DataDir {
        DataDir::at(self.place.path().join("other").join("data"))
    }

    /// The names in the directory above it.
    fn beside_other(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.path().join("other")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn settings(&self) -> RestoreSettings {
        RestoreSettings {
            file: "b".into(),
            key: Some(self.key()),
            erasures: None,
            collects_audit_heads: true,
        }
    }

    fn restore(&self, backup: &[u8], settings: &RestoreSettings) -> Result<Restored, BackupError> {
        restore(backup, &self.other(), settings, &mut |_| {}).map(|(_, restored)| restored)
    }
}

fn refused(result: Result<Restored, BackupError>) -> String {
    match result {
        Ok(_) => panic!("it should have been refused"),
        Err(error) => error.message().to_string(),
    }
}

/// All records of a store, by table and key.
fn records(store: &Store) -> BTreeMap<(&'static str, Vec<u8>), Vec<u8>> {
    let (rows, mut all) = (store.rows(), BTreeMap::new());
    for table in record_tables(&crate::resources::tables()) {
        rows.scan(table.name, &mut |key, value| {
            all.insert((table.name, key.to_vec()), value.to_vec());
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    }
    all
}

/// Where each block of a backup begins, and where the last ends.
fn boundaries(backup: &[u8]) -> Vec<usize> {
    let mut at = MAGIC.len();
    let mut found = vec![at];
    while at < backup.len() {
        let stored = u32::from_be_bytes(backup[at + 5..at + 9].try_into().unwrap());
        at += 9 + stored as usize + 8;
        found.push(at);
    }
    found
}

#[test]
fn a_backup_restored_elsewhere_has_every_record_and_is_sound() {
    let place = founded();
    let backup = place.backup();
    let restored = place.restore(&backup, &place.settings()).unwrap();
    let expected = records(&place.store);
    assert_eq!(restored.totals.records, expected.len() as u64);
    assert!(restored.has_key);
    assert_eq!(place.beside_other(), ["data"]);
    let store = place.other().open().unwrap();
    assert!(records(&store) == expected);
    let tables = [crate::resources::tables(), crate::store::TABLES.to_vec()].concat();
    let found = store.check(&tables).unwrap();
    assert_eq!(found.messages, Vec::<String>::new());
    assert!(found.unbuilt.is_empty() && found.entries > 0);
}

#[test]
fn a_backup_that_is_cut_anywhere_is_refused_and_nothing_is_left() {
    let place = founded();
    let backup = place.backup();
    let boundaries = boundaries(&backup);
    assert!(boundaries.len() > 5 && boundaries.last() == Some(&backup.len()));
    for at in boundaries {
        for len in [at.saturating_sub(1), at, at + 1] {
            let Some(cut) = backup.get(..len).filter(|cut| cut.len() < backup.len()) else {
                continue;
            };
            let said = refused(place.restore(cut, &place.settings()));
            let is_said = said.contains("cut short") || said.contains("not a backup");
            assert!(is_said, "{len}: {said}");
            assert!(place.beside_other().is_empty(), "cut at {len}");
        }
    }
    let longer = [backup.as_slice(), b"x"].concat();
    assert!(refused(place.restore(&longer, &place.settings())).contains("more after its end"));
}

#[test]
fn every_flipped_byte_is_found() {
    let place = founded();
    let backup = place.backup();
    for at in 0..backup.len() {
        let mut flipped = backup.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(verify(flipped.as_slice(), &mut |_| {}).is_err(), "byte {at}");
    }
    for at in boundaries(&backup).into_iter().filter(|at| *at < backup.len()) {
        let mut flipped = backup.clone();
        flipped[at + 9] ^= 1;
        let said = refused(place.restore(&flipped, &place.settings()));
        assert!(said.contains("b: the backup is damaged: block"), "{said}");
        assert!(place.beside_other().is_empty());
    }
}

#[test]
fn blocks_that_are_left_out_repeated_or_moved_are_found() {
    let place = founded();
    let backup = place.backup();
    let at = boundaries(&backup);
    let block = |n: usize| &backup[at[n]..at[n + 1]];
    let blocks = at.len() - 1;
    let order = |numbers: &[usize]| {
        let blocks = numbers.iter().map(|n| block(*n).to_vec());
        std::iter::once(MAGIC.to_vec()).chain(blocks).collect::<Vec<_>>().concat()
    };
    let all: Vec<_> = (0..blocks).collect();
    assert!(order(&all) == backup && verify(order(&all).as_slice(), &mut |_| {}).is_ok());
    let mut without = all.clone();
    without.remove(2);
    let mut twice = all.clone();
    twice.insert(2, 2);
    let mut moved = all;
    moved.swap(1, 2);
    for wrong in [without, twice, moved] {
        let said = verify(order(&wrong).as_slice(), &mut |_| {}).err().unwrap();
        assert!(said.message().contains("wrong checksum"), "{said}");
    }
}

#[test]
fn a_block_that_was_never_written_is_found_by_the_totals() {
    let place = founded();
    let backup = place.backup();
    let mut blocks = BlockReader::new(backup.as_slice()).unwrap();
    let mut shorter = BlockWriter::new(Vec::new()).unwrap();
    // As by a writer that loses a block before it is checksummed.
    for number in 1..boundaries(&backup).len() {
        let (kind, content) = blocks.next().unwrap();
        if number != 3 {
            shorter.write(kind, &content).unwrap();
        }
    }
    let said = verify(shorter.into_inner().as_slice(), &mut |_| {}).err().unwrap();
    assert!(said.message().contains("do not add up"), "{said}");
}

#[test]
fn what_is_no_backup_is_called_foreign_and_a_newer_one_newer() {
    let place = founded();
    for foreign in [&b""[..], b"SQLite format 3\0", &[0; 5000], b"roadstead"] {
        let said = refused(place.restore(foreign, &place.settings()));
        assert!(said.contains("this is not a backup of Roadstead"), "{said}");
    }
    let newer = b"roadstead backup v2\nand more".as_slice();
    assert!(refused(place.restore(newer, &place.settings())).contains("by a newer Roadstead"));
    // Of a build with one more table.
    let backup = place.backup();
    let mut blocks = BlockReader::new(backup.as_slice()).unwrap();
    let header = String::from_utf8(blocks.next().unwrap().1).unwrap();
    let header = header.replace("\"name\":\"users\"", "\"name\":\"visitors\"");
    let mut changed = BlockWriter::new(Vec::new()).unwrap();
    changed.write(Kind::Header, header.as_bytes()).unwrap();
    let said = refused(place.restore(&changed.into_inner(), &place.settings()));
    assert!(said.contains("by a newer Roadstead"), "{said}");
    assert!(place.beside_other().is_empty());
}

#[test]
fn records_that_cannot_be_decoded_or_are_out_of_order_are_found() {
    let place = founded();
    let backup = place.backup();
    let last_bit = |block: &mut Vec<u8>| *block.last_mut().unwrap() ^= 1;
    let twice = |block: &mut Vec<u8>| block.extend_from_within(2..);
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let changes: [(Change, _); 2] = [(&last_bit, "has a wrong checksum"), (&twice, "not in order")];
    for (change, why) in changes {
        // As by a writer that does not look at what it writes.
        let mut blocks = BlockReader::new(backup.as_slice()).unwrap();
        let mut changed = BlockWriter::new(Vec::new()).unwrap();
        loop {
            let (kind, mut content) = blocks.next().unwrap();
            if kind == Kind::Rows {
                change(&mut content);
            }
            changed.write(kind, &content).unwrap();
            if kind == Kind::Totals {
                break;
            }
        }
        let said = verify(changed.into_inner().as_slice(), &mut |_| {}).err().unwrap();
        assert!(said.message().contains(why), "{said}");
    }
}

#[test]
fn a_missing_or_wrong_key_is_said_before_anything_is_written() {
    let place = founded();
    let backup = place.backup();
    let missing = RestoreSettings { key: None, ..place.settings() };
    let said = refused(place.restore(&backup, &missing));
    let name = &crate::store::codec::hex(&place.key().check())[..16];
    assert!(said.contains("--secret-key-file") && said.contains(name), "{said}");
    let wrong = RestoreSettings { key: Some(MasterKey::new([9; 32])), ..place.settings() };
    assert!(refused(place.restore(&backup, &wrong)).contains("not the key of this backup"));
    let variable = Some(crate::store::codec::hex(&[9; 32]).into());
    let outside = place.other().with_key_source(KeySource { variable, ..KeySource::default() });
    let result = restore(backup.as_slice(), &outside, &missing, &mut |_| {});
    let said = result.err().unwrap();
    assert!(said.message().contains("the variable ROADSTEAD_SECRET_KEY is not the key"), "{said}");
    assert!(!place.place.path().join("other").exists(), "not even the directory above");
}

#[test]
fn a_key_that_is_kept_outside_stays_there() {
    let place = founded();
    let variable = Some(crate::store::codec::hex(place.key().bytes()).into());
    let source = KeySource { variable, ..KeySource::default() };
    let outside = place.other().with_key_source(source);
    let settings = RestoreSettings { key: None, ..place.settings() };
    let (_, restored) =
        restore(place.backup().as_slice(), &outside, &settings, &mut |_| {}).unwrap();
    assert!(!restored.has_key && !outside.path().join("secret.key").exists());
    assert!(outside.open().is_ok() && place.other().open().is_err());
}

#[test]
fn the_key_is_in_a_backup_only_if_it_was_asked_for() {
    let place = founded();
    let hex = crate::store::codec::hex(place.key().bytes());
    let header = |backup: &[u8]| {
        let content = BlockReader::new(backup).unwrap().next().unwrap().1;
        String::from_utf8(content).unwrap()
    };
    assert!(!header(&place.backup()).contains(&hex));
    let with = place.backup_with(true);
    assert!(header(&with).contains(&hex));
    let settings = RestoreSettings { key: None, ..place.settings() };
    assert!(place.restore(&with, &settings).unwrap().has_key);
    assert!(place.other().open().is_ok());
}

#[test]
fn a_backup_made_while_the_key_is_replaced_opens_with_the_new_one_and_completes_it() {
    let place = founded();
    let next = MasterKey::new([5; 32]);
    let mut backup = None;
    crate::app::rotate(&place.dir, &place.store, Some(next.clone()), None, &mut |_| {
        backup.get_or_insert_with(|| place.backup());
    })
    .unwrap();
    let settings = RestoreSettings { key: Some(next), ..place.settings() };
    place.restore(&backup.expect("it takes several steps"), &settings).unwrap();
    assert!(place.other().is_rotating().unwrap());
    let store = place.other().open().unwrap();
    crate::app::rotate(&place.other(), &store, None, None, &mut |_| {}).unwrap();
    assert!(!place.other().is_rotating().unwrap());
}

// ── Erasures ─────────────────────────────────────────────────────────────────

/// Erases the only event.
fn erase_event(place: &Place) {
    let org = place.store.read_now(Id::NIL, organizations::all).unwrap()[0];
    place.store.write_blocking(org, |tx| tx.record_erasure("events", &())).unwrap();
    // As the next start does.
    let ledger = crate::app::erasures::Ledger::open(place.dir.path(), &place.store).unwrap();
    place.store.set_ledger(std::sync::Arc::new(ledger));
}

#[test]
fn what_was_erased_after_the_backup_does_not_come_back() {
    let place = founded();
    let backup = place.backup();
    erase_event(&place);
    for ledger in [place.dir.path().to_path_buf(), place.dir.path().join("erasures")] {
        let settings = RestoreSettings { erasures: Some(ledger), ..place.settings() };
        let restored = place.restore(&backup, &settings).unwrap();
        assert_eq!(restored.erased, 1);
        let store = place.other().open().unwrap();
        let count =
            |store: &Store| records(store).keys().filter(|(table, _)| *table == "events").count();
        assert_eq!((count(&place.store), count(&store)), (1, 0));
        // A later restore of the same backup needs them, too.
        assert_eq!(Erasures::read(place.other().path()).unwrap().all.len(), 1);
        drop(store);
        fs::remove_dir_all(place.other().path()).unwrap();
    }
    assert_eq!(place.restore(&backup, &place.settings()).unwrap().erased, 0);
}

#[test]
fn a_ledger_of_another_installation_or_younger_than_the_backup_is_refused() {
    let (place, stranger) = (founded(), founded());
    let backup = place.backup();
    let with = |erasures: &Path| {
        refused(place.restore(
            &backup,
            &RestoreSettings { erasures: Some(erasures.into()), ..place.settings() },
        ))
    };
    assert!(with(stranger.dir.path()).contains("of another installation"));
    fs::remove_file(place.dir.path().join("erasures")).unwrap();
    crate::app::erasures::Ledger::open(place.dir.path(), &place.store).unwrap();
    assert!(with(place.dir.path()).contains("would come back"));
    assert!(with(&place.place.path().join("nothing")).contains("cannot be read"));
    assert!(place.beside_other().is_empty());
}

/// Whatever the ledger leaves out of a restored directory must not be referred to there.
#[test]
fn nothing_refers_to_the_records_that_are_erased() {
    for table in crate::resources::tables() {
        for reference in (table.references)() {
            assert_ne!(reference.to(), "memories", "{}", table.name);
        }
    }
}

// ── Encryption ───────────────────────────────────────────────────────────────

fn encrypted(backup: &[u8], encryption: &Encryption) -> Vec<u8> {
    let mut out = encryption.wrap(Vec::new()).unwrap();
    std::io::Write::write_all(&mut out, backup).unwrap();
    out.finish().unwrap()
}

fn decrypted(bytes: &[u8], decryption: &Decryption) -> Result<Vec<u8>, BackupError> {
    let mut never = || -> Result<Secret, BackupError> { panic!("nobody is asked") };
    let (mut stream, _) = decryption.unwrap(bytes, &mut never)?;
    let mut plain = Vec::new();
    stream.read_to_end(&mut plain)?;
    Ok(plain)
}

#[test]
fn a_backup_encrypted_to_a_recipient_opens_with_its_identity_only() {
    let (right, wrong) = (age::x25519::Identity::generate(), age::x25519::Identity::generate());
    let recipients = [right.to_public().to_string()];
    let encryption = Encryption::to_recipients(&recipients).unwrap();
    let place = founded();
    let backup = place.backup();
    let bytes = encrypted(&backup, &encryption);
    let identity = |identity: &age::x25519::Identity| {
        use age::secrecy::ExposeSecret as _;
        let text = format!("# created: today\n\n{}\n", identity.to_string().expose_secret());
        let mut decryption = Decryption::default();
        decryption.add_identities(&text).unwrap();
        decryption
    };
    assert!(decrypted(&bytes, &identity(&right)).unwrap() == backup);
    let said = decrypted(&bytes, &identity(&wrong)).unwrap_err();
    assert!(said.message().contains("to another recipient"), "{said}");
    let said = decrypted(&bytes, &Decryption::default()).unwrap_err();
    assert!(said.message().contains("--identity"), "{said}");
    for damage in [bytes.len() - 1, bytes.len() / 2] {
        let mut flipped = bytes.clone();
        flipped[damage] ^= 1;
        let right = identity(&right);
        let mut never = || -> Result<Secret, BackupError> { panic!("nobody is asked") };
        let (stream, _) = right.unwrap(flipped.as_slice(), &mut never).unwrap();
        assert!(matches!(verify(stream, &mut |_| {}), Err(BackupError::Damaged(_))));
        let (stream, _) = right.unwrap(&bytes[..damage], &mut never).unwrap();
        assert!(matches!(verify(stream, &mut |_| {}), Err(BackupError::Damaged(_))));
    }
    assert!(Encryption::to_recipients(&["age1nobody".into()]).is_err());
    assert!(Decryption::default().add_identities("nothing").is_err());
}

#[test]
fn a_backup_encrypted_to_a_passphrase_opens_with_it_only() {
    let secret = Secret::new("correct horse".into());
    let encryption = Encryption::Passphrase(secret.clone());
    let bytes = encrypted(b"content", &encryption);
    assert!(!bytes.windows(7).any(|part| part == b"content"));
    assert_eq!(decrypted(&bytes, &encryption.decryption().unwrap()).unwrap(), b"content");
    let mut wrong = Decryption::default();
    wrong.passphrase = Some(Secret::new("x".into()));
    assert!(decrypted(&bytes, &wrong).unwrap_err().message().contains("passphrase is wrong"));
    let mut asked = 0;
    let mut ask = || {
        asked += 1;
        Ok(secret.clone())
    };
    assert!(Decryption::default().unwrap(bytes.as_slice(), &mut ask).unwrap().1);
    assert!(!Decryption::default().unwrap(&b"plain"[..], &mut ask).unwrap().1);
    assert_eq!(asked, 1, "only where a passphrase is needed");
}

// ── The file ─────────────────────────────────────────────────────────────────

#[test]
fn a_file_gets_its_name_when_it_is_complete_and_replaces_only_a_backup() {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("b");
    let write = |replace: bool| -> Result<Target, BackupError> {
        let mut target = Target::create(&path, replace)?;
        target.write_all(MAGIC).unwrap();
        target.sync().unwrap();
        Ok(target)
    };
    drop(write(false).unwrap());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing is left");
    let unfinished = write(false).unwrap();
    assert!(!path.exists() && write(false).is_err(), "one at a time");
    unfinished.complete().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(write(false).err().unwrap().message().contains("--replace"));
    write(true).unwrap().complete().unwrap();
    fs::write(&path, "a thesis").unwrap();
    assert!(write(true).err().unwrap().message().contains("is no backup"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "a thesis");
}

#[test]
fn the_last_backup_is_a_metric() {
    let place = tempfile::tempdir().unwrap();
    assert!(families(place.path()).is_empty());
    let last = LastBackup {
        backup_id: "1".into(),
        taken_at: Time::from_millis(1_700_000_000_000),
        bytes: 1,
        records: 1,
        encrypted: false,
    };
    for _ in 0..2 {
        last.write(place.path()).unwrap();
    }
    assert_eq!(LastBackup::read(place.path()), Some(last));
    assert_eq!(families(place.path())[0].name, "roadstead_last_backup_timestamp_seconds");
}

#[test]
fn errors_of_the_directory_are_not_damage() {
    let error: BackupError = DataDirError("x".into()).into();
    assert_eq!(error, BackupError::Unusable("x".into()));
}
