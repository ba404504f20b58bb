//! Replacing the key of a data directory, ended at every point in between.

use std::fs;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::*;
use crate::app::KeySource;
use crate::base::Id;
use crate::outbox::Channel;
use crate::store::{ListSource, Org, Tx, View};

const HEX: &str = "00010203040506070809101112131415161718192021222324252627282930ff";
const ORG: Id<Org> = Id::new(uuid::Uuid::from_u128(1));

fn channels(tx: &mut Tx) -> crate::base::Result<()> {
    for number in 0..250 {
        let old = format!("old secret {number}");
        let config = serde_json::json!({});
        let channel = Channel::new(tx, number.to_string(), "webhook", config, Some(&old))?;
        tx.insert(&channel.with_secret(tx, &format!("secret {number}"))?)?;
    }
    Ok(())
}

fn assert_all_open(store: &Store) {
    let read = |view: &View| {
        let mut opened = 0;
        view.for_each(
            ListSource::TABLE,
            &(),
            crate::store::Order::Ascending,
            |channel: Channel| {
                let name = &channel.name;
                let both = [format!("secret {name}"), format!("old secret {name}")];
                assert_eq!(channel.valid_secrets(view)?, both);
                opened += 1;
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(opened)
    };
    assert_eq!(store.read_now(ORG, read).unwrap(), 250);
}

/// Opens a directory whose previous store's threads may not have released the file yet.
fn open(dir: &DataDir) -> Result<Store, DataDirError> {
    loop {
        match dir.open() {
            Err(error) if error.0.contains("another process") => std::thread::yield_now(),
            opened => return opened,
        }
    }
}

fn filled(dir: &DataDir) {
    let store = dir.create().unwrap();
    store.write_blocking(ORG, channels).unwrap();
}

fn key_in(dir: &Path) -> String {
    fs::read_to_string(dir.join("secret.key")).unwrap()
}

fn rotate_all(dir: &DataDir, store: &Store) -> Result<Rotated, DataDirError> {
    rotate(dir, store, None, None, &mut |_| {})
}

#[test]
fn a_key_in_the_directory_is_replaced_by_a_new_one() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::at(place.path());
    filled(&dir);
    let old = key_in(place.path());
    let store = open(&dir).unwrap();
    let rotated = rotate_all(&dir, &store).unwrap();
    assert_eq!(rotated.resealed, 2 * 250);
    assert_eq!((rotated.to_do, rotated.is_destroyed), (None, true));
    drop(store);
    assert_ne!(key_in(place.path()), old);
    assert!(!place.path().join("secret.key.new").exists());
    assert_all_open(&open(&dir).unwrap());
    let new = key_in(place.path());
    fs::write(place.path().join("secret.key"), old).unwrap();
    let refused = open(&dir).err().unwrap().0;
    assert!(refused.contains("is not the key") && refused.contains("secrets of notification"));
    fs::write(place.path().join("secret.key"), new).unwrap();
    assert_all_open(&open(&dir).unwrap());
}

#[test]
fn a_rotation_that_ended_after_any_step_is_resumed_by_the_next_process() {
    let template = tempfile::tempdir().unwrap();
    filled(&DataDir::at(template.path()));
    // The last one has sealed and searched everything, and did not complete the format file.
    for steps in 0.. {
        let place = copied(template.path());
        let dir = DataDir::at(place.path());
        let store = open(&dir).unwrap();
        let mut done = 0;
        // Like the end of the process: nothing after it runs.
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut stop = |_| {
                done += 1;
                if done > steps {
                    std::panic::resume_unwind(Box::new(()));
                }
            };
            rotate(&dir, &store, None, None, &mut stop).unwrap();
        }));
        drop(store);
        if ended.is_ok() {
            assert!(steps > 40, "only {steps}");
            return;
        }
        // Files that were being written.
        fs::write(place.path().join("secret.key.unfinished"), "half").unwrap();
        fs::write(place.path().join("format.unfinished"), "half").unwrap();
        let store = open(&dir).unwrap();
        assert!(dir.is_rotating().unwrap());
        assert_all_open(&store);
        rotate_all(&dir, &store).unwrap();
        drop(store);
        assert!(!dir.is_rotating().unwrap());
        assert_all_open(&open(&dir).unwrap());
    }
}

#[test]
fn a_key_that_is_not_the_one_that_was_kept_is_not_destroyed() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::at(place.path());
    filled(&dir);
    let store = open(&dir).unwrap();
    let next = |byte| Some(MasterKey::new([byte; 32]));
    let first = dir.keep_old_key(&place.path().join("first.key")).unwrap();
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        rotate(&dir, &store, next(8), Some(&first), &mut |_| {
            std::panic::resume_unwind(Box::new(()))
        })
    }));
    assert!(stopped.is_err() && dir.is_rotating().unwrap());
    // Repeated, it is the same key that goes.
    assert_eq!(dir.keep_old_key(&place.path().join("first.key")).unwrap(), first);
    let new = check_of(&store.keys().current());
    assert!(rotate(&dir, &store, None, Some(&new), &mut |_| {}).is_err());
    rotate(&dir, &store, None, Some(&first), &mut |_| {}).unwrap();
    // It has ended while another command, which kept the first key, waited for its turn.
    let refused = rotate(&dir, &store, next(9), Some(&first), &mut |_| {}).unwrap_err().0;
    assert!(refused.contains("another FILE"), "{refused}");
    assert!(key_in(place.path()).starts_with("0808") && !dir.is_rotating().unwrap());
    let second = dir.keep_old_key(&place.path().join("second.key")).unwrap();
    rotate(&dir, &store, next(9), Some(&second), &mut |_| {}).unwrap();
    assert!(key_in(place.path()).starts_with("0909"));
    assert_all_open(&store);
}

#[test]
fn a_rotation_that_the_server_completes_waits_for_one_that_a_command_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::at(place.path());
    filled(&dir);
    let store = open(&dir).unwrap();
    let next = MasterKey::new([9; 32]);
    std::thread::scope(|scope| {
        let mut completing = None;
        rotate(&dir, &store, Some(next.clone()), None, &mut |_| {
            assert!(dir.is_rotating().unwrap());
            completing.get_or_insert_with(|| scope.spawn(|| complete_rotation(&dir, &store)));
        })
        .unwrap();
        assert_eq!(completing.unwrap().join().unwrap().unwrap(), None, "it began another");
    });
    assert!(store.keys().current() == next && !dir.is_rotating().unwrap());
    assert_all_open(&store);
}

/// A copy of a directory that nobody has open.
fn copied(template: &Path) -> tempfile::TempDir {
    open(&DataDir::at(template)).map(drop).unwrap();
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(template).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
    }
    place
}

#[test]
fn a_rotation_that_ended_between_its_files_is_resumed_or_begun_again() {
    let begun = |until: &dyn Fn(&DataDir, &MasterKey)| {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path());
        filled(&dir);
        until(&dir, &MasterKey::new([9; 32]));
        let store = open(&dir).unwrap();
        assert_all_open(&store);
        rotate_all(&dir, &store).unwrap();
        assert_eq!(store.keys().current(), MasterKey::new([9; 32]), "the stored key is used");
        drop(store);
        assert!(!place.path().join("secret.key.new").exists());
        assert_all_open(&open(&dir).unwrap());
    };
    let new_key = |dir: &DataDir, next: &MasterKey| {
        secret_key::write_new(dir.path(), next).unwrap();
    };
    let format = |dir: &DataDir, next: &MasterKey| {
        new_key(dir, next);
        let (old, _) = secret_key::find(dir.path(), dir.key_source()).unwrap().unwrap();
        let previous = Some(PreviousKey::seal(&old, next).unwrap());
        write_format(dir, &Format { current: check_of(next), previous }).unwrap();
    };
    begun(&new_key);
    begun(&format);
    begun(&|dir, next| {
        format(dir, next);
        dir.adopt_new_key().unwrap();
    });
}

#[test]
fn a_step_that_failed_is_completed_by_the_same_process() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::at(place.path());
    filled(&dir);
    let store = open(&dir).unwrap();
    let (key_file, format_file) = (place.path().join("secret.key"), place.path().join("format"));
    // The format file is replaced, and then the key's file cannot be: a directory has its name.
    let aside = place.path().join("aside");
    let next = MasterKey::new([9; 32]);
    secret_key::write_new(place.path(), &next).unwrap();
    let previous = Some(PreviousKey::seal(&store.keys().current(), &next).unwrap());
    write_format(&dir, &Format { current: check_of(&next), previous }).unwrap();
    fs::rename(&key_file, &aside).unwrap();
    fs::create_dir_all(key_file.join("x")).unwrap();
    assert!(rotate(&dir, &store, Some(next.clone()), None, &mut |_| {}).is_err());
    fs::remove_dir_all(&key_file).unwrap();
    fs::rename(&aside, &key_file).unwrap();
    assert_all_open(&store);
    let another = MasterKey::new([8; 32]);
    let refused = rotate(&dir, &store, Some(another), None, &mut |_| {}).unwrap_err().0;
    assert!(refused.contains("by another one"), "{refused}");
    let rotated = rotate(&dir, &store, Some(next.clone()), None, &mut |_| {}).unwrap();
    assert_eq!((rotated.resealed, rotated.to_do), (2 * 250, None));
    assert!(store.keys().current() == next && store.keys().previous().is_none());
    assert!(key_in(place.path()).starts_with("0909") && !dir.is_rotating().unwrap());

    // The last step: the format file is replaced, and the process was told that it was not.
    let last = MasterKey::new([10; 32]);
    let mut at_the_end = String::new();
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        rotate(&dir, &store, Some(last.clone()), None, &mut |progress| {
            if progress.done == progress.all {
                at_the_end = fs::read_to_string(&format_file).unwrap();
                std::panic::resume_unwind(Box::new(()));
            }
        })
    }));
    assert!(stopped.is_err() && at_the_end.lines().count() == 3);
    write_format(&dir, &Format { current: check_of(&last), previous: None }).unwrap();
    rotate_all(&dir, &store).unwrap();
    assert!(store.keys().current() == last && store.keys().previous().is_none());
    drop(store);
    assert_all_open(&open(&dir).unwrap());
}

#[test]
fn a_key_outside_of_the_directory_is_replaced_by_the_supplied_one() {
    let place = tempfile::tempdir().unwrap();
    let other = HEX.replace('0', "1");
    let with = |variable: &str, new: Option<&str>| {
        DataDir::at(place.path()).with_key_source(KeySource {
            variable: Some(variable.into()),
            credentials: None,
            new_variable: new.map(Into::into),
        })
    };
    filled(&with(HEX, None));
    let dir = with(HEX, None);
    let store = open(&dir).unwrap();
    let refused = rotate_all(&dir, &store).unwrap_err().0;
    assert!(refused.contains("--new-key-file"), "{refused}");
    let present = secret_key::key_in_text(HEX);
    assert!(
        rotate(&dir, &store, present, None, &mut |_| {}).unwrap_err().0.contains("present one")
    );
    assert!(!dir.is_rotating().unwrap());

    let next = secret_key::key_in_text(&other);
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        rotate(&dir, &store, next.clone(), None, &mut |_| std::panic::resume_unwind(Box::new(())))
    }));
    assert!(stopped.is_err());
    drop(store);
    let refused = open(&dir).err().unwrap().0;
    assert!(refused.contains("began to be replaced") && !refused.contains(HEX), "{refused}");
    assert_all_open(&open(&with(&other, None)).unwrap());
    let dir = with(HEX, Some(&other));
    let store = open(&dir).unwrap();
    assert_all_open(&store);
    let another = secret_key::key_in_text(&HEX.replace('0', "2"));
    assert!(rotate(&dir, &store, another, None, &mut |_| {}).is_err());
    let rotated = rotate_all(&dir, &store).unwrap();
    assert!(rotated.to_do.unwrap().contains("set ROADSTEAD_SECRET_KEY to the new key"));
    assert!(!rotated.is_destroyed);
    drop(store);
    assert_all_open(&open(&with(&other, None)).unwrap());
    assert!(open(&with(HEX, None)).is_err());
    assert!(!place.path().join("secret.key").exists());
    for file in fs::read_dir(place.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(64).any(|part| part == HEX.as_bytes() || part == other.as_bytes()));
    }
}
