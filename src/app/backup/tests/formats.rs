//! Backups of the earlier format, those of very many organizations, and those of damaged data.

use std::os::unix::net::UnixStream;

use super::*;
use crate::auth::Organization;
use crate::store::{Clock, View};

/// A backup in another format: with another header, and what is left of its blocks.
pub fn rewritten(backup: &[u8], change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut blocks = BlockReader::new(backup).unwrap();
    let mut header: Header = serde_json::from_slice(&blocks.next().unwrap().1).unwrap();
    change(&mut header);
    let mut progress = |_: &Totals| {};
    let mut writer = BackupWriter::new(Vec::new(), &mut progress).unwrap();
    writer.header(&header).unwrap();
    loop {
        match blocks.next().unwrap() {
            (Kind::Totals, _) => return writer.finish().unwrap().0,
            (Kind::AuditHeads, block) if header.format > 1 => writer.audit_heads(&block).unwrap(),
            (Kind::Rows, block) => writer.rows(&block).unwrap(),
            _ => {}
        }
    }
}

/// Reads a backup with the ends of its audit logs.
fn read(backup: &[u8]) -> (Header, Totals) {
    let backup = Backup::open(backup).unwrap().collecting_audit_heads(true);
    backup.read(|_, _, _| Ok(()), &mut |_| {}).unwrap()
}

#[test]
fn a_backup_of_the_first_format_is_read_with_its_audit_checkpoints() {
    let place = founded();
    let backup = place.backup();
    let (now, totals) = read(&backup);
    assert_eq!((now.format, now.audit_checkpoints.len(), totals.audit_heads), (2, 1, 1));
    let first = rewritten(&backup, |header| {
        header.format = 1;
        header.erasures = None;
        header.audit_checkpoints = now.audit_checkpoints.clone();
    });
    let (header, totals) = read(&first);
    assert_eq!((header.format, totals.audit_heads), (1, 0));
    assert_eq!(header.audit_checkpoints, now.audit_checkpoints);
    assert!(place.restore(&first, &place.settings()).unwrap().totals.records > 0);
    assert!(records(&place.other().open().unwrap()) == records(&place.store));
}

#[test]
fn any_number_of_organizations_can_be_backed_up() {
    // Their audit heads are more than a block may have.
    let count = 40_000;
    let storage = {
        let mut storage = crate::store::engine::Memory::default();
        crate::store::build_indexes(&mut storage, &crate::resources::tables(), &|_| {}).unwrap();
        storage
    };
    let keys = crate::base::Keys::new([7; 32]);
    let store = Store::start(storage, Clock::system(), keys, &crate::resources::tables()).unwrap();
    for part in 0..count / 5_000 {
        let organizations = move |tx: &mut Tx| {
            (0..5_000).try_for_each(|number| {
                let now = tx.now();
                tx.insert(&Organization {
                    id: tx.new_id(),
                    slug: Slug::parse(format!("acme-{part}-{number}")).expect("it is one"),
                    name: Name::parse("Acme").expect("it is one"),
                    created_at: now,
                    updated_at: now,
                    updated_by: None,
                })
            })
        };
        store.write_blocking(Id::NIL, organizations).unwrap();
    }
    let mut progress = |_: &Totals| {};
    let mut writer = BackupWriter::new(Vec::new(), &mut progress).unwrap();
    send(None, &store, false, false, &mut writer).unwrap();
    let (backup, header, _) = writer.finish().unwrap();
    assert!(header.audit_checkpoints.is_empty(), "they are collected only if they are asked for");
    let (header, totals) = read(&backup);
    assert_eq!((header.audit_checkpoints.len(), totals.audit_heads), (count, count as u64));
}

#[test]
fn a_server_that_knows_of_damage_makes_a_backup_only_if_it_is_told_to() {
    let place = founded();
    let ask = |despite_damage: bool| {
        let (server, mut client) = UnixStream::pair().unwrap();
        let wanted = BackupWanted { with_secret_key: false, despite_damage };
        let reading = std::thread::spawn(move || {
            let mut frames = Vec::new();
            std::io::Read::read_to_end(&mut client, &mut frames).unwrap();
            frames
        });
        // On a thread, since it lowers the priority of its own.
        let (dir, store) = (place.dir.clone(), place.store.clone());
        let sent = std::thread::spawn(move || serve(&server, &dir, &store, wanted));
        (sent.join().unwrap(), reading.join().unwrap())
    };
    assert!(ask(false).0.is_ok());
    let find = |view: &View| {
        view.damage.note(&"tasks 07: is wrong");
        Ok(())
    };
    place.store.read_now(Id::NIL, find).unwrap();
    let (sent, frames) = ask(false);
    let said = sent.unwrap_err();
    assert!(said.message().contains("tasks 07: is wrong"), "{said}");
    assert!(said.message().contains("--despite-damage"), "{said}");
    assert_eq!(frames, [b'E', 0, 0, 0, 0], "nothing but the end");
    let (sent, frames) = ask(true);
    assert!(sent.is_ok() && frames.len() > 1000);
}
