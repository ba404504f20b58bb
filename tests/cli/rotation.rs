//! `roadstead secrets rotate`, while the server runs and while it does not, also killed in between.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::deploying::{LOOPBACK, TEMPLATE, agents, assert_once, body_of, path_of};
use crate::process::{Ended, PASSWORD, Place, Serving};
use crate::receiver::{Receiver, Sent};

const OLD: &str = "5f0c1d2e3f4a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d3e4";
const NEW: &str = "a60c1d2e3f4a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d3e4";
const VARIABLE: &str = "ROADSTEAD_SECRET_KEY";
const ROTATE: [&str; 3] = ["secrets", "rotate", "--json"];

/// Stores secrets of several kinds; returns how many there are.
fn store_secrets(owner: &Caller) -> u64 {
    let environment = owner.post("/environments", json!({"slug": "e", "name": "E"})).id();
    for n in 0..120 {
        let path = format!("/environments/{environment}/secrets/S{n}");
        owner.put(&path, json!({"value": format!("secret {n}")})).ok();
    }
    let path = format!("/environments/{environment}/provider-credentials/p");
    owner.put(&path, json!({"apiKey": "k", "endpoint": "http://127.0.0.1:9/"})).ok();
    let provider = json!({"name": "O", "provider": "openai", "apiKey": "k"});
    owner.post("/llm-providers", provider).ok();
    122
}

/// Checks the directory, once its process has ended: the check opens every secret.
fn assert_sound(place: &Place) {
    let checked = eventually("the directory is free", || {
        let checked = place.run(&["check", "--json"]);
        (checked.code != Some(2) || !checked.stderr.contains("another process")).then_some(checked)
    });
    assert_eq!(checked.succeeds()["wrong"], json!(0), "{checked:?}");
}

#[test]
fn the_key_is_replaced_offline_and_the_old_one_is_refused() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    let secrets = store_secrets(&serving.caller(&key));
    serving.signal("TERM");
    serving.ends();
    let file = place.file("secret.key");
    let old = fs::read(&file).unwrap();
    let rotated = place.run(&ROTATE);
    let result = rotated.succeeds();
    assert_eq!((&result["resealed"], &result["oldKeyFile"]), (&json!(secrets), &json!(null)));
    assert_eq!(result["toDo"], json!(null), "{result}");
    let backups = result["backups"].as_str().unwrap();
    assert!(backups.contains("make a new backup") && backups.contains("which is gone"), "{result}");
    assert_eq!(rotated.stderr, "", "nothing is shown in a pipe");
    assert_sound(&place);
    let new = fs::read(&file).unwrap();
    assert_ne!(new, old);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&file, old).unwrap();
    let refused = place.run(&["check"]);
    refused.fails(2, "is not the key");
    assert!(refused.stderr.contains("API keys of LLM providers"), "{refused:?}");
    fs::write(&file, new).unwrap();
    let serving = Serving::start(&place, &[]);
    assert_eq!(serving.caller(&key).get("/llm-providers").items().len(), 1);
}

#[test]
fn the_old_key_is_kept_in_a_file_that_was_not_there_and_opens_backups_made_before() {
    let (place, _) = Place::founded();
    let backup = place.file("../before.backup");
    place.run(&["backup", backup.to_str().unwrap(), "--json"]).succeeds();
    let old = fs::read(place.file("secret.key")).unwrap();
    let file = place.file("../old.key");
    fs::write(&file, "mine").unwrap();
    let rotate = ["secrets", "rotate", "--keep-old-key", file.to_str().unwrap()];
    place.run(&rotate).fails(2, "exists; choose another name");
    assert_eq!(fs::read(place.file("secret.key")).unwrap(), old, "nothing has changed");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let inside = place.file("old.key");
    place
        .run(&["secrets", "rotate", "--keep-old-key", inside.to_str().unwrap()])
        .fails(2, "is in the data directory");
    fs::remove_file(&file).unwrap();

    let rotated = place.run(&rotate);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert!(rotated.stderr.contains("All sessions end"), "{rotated:?}");
    assert!(rotated.stdout.contains("old.key") && rotated.stdout.contains("signs in again"));
    assert_eq!(fs::read(&file).unwrap(), old);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let restore = ["restore", backup.to_str().unwrap(), "--without-erasures", "--json"];
    let with_key = ["--secret-key-file", file.to_str().unwrap()];
    Place::new().run(&[&restore[..], &with_key].concat()).succeeds();
    // A running server is asked to destroy this one alone.
    let _serving = Serving::start(&place, &[]);
    let old = fs::read(place.file("secret.key")).unwrap();
    let file = place.file("../second.key");
    let kept = [&ROTATE[..], &["--keep-old-key", file.to_str().unwrap()]].concat();
    let rotated = place.run(&kept).succeeds();
    assert!(rotated["backups"].as_str().unwrap().contains("second.key"), "{rotated}");
    assert_eq!(fs::read(&file).unwrap(), old);
    let help = place.run(&["secrets", "rotate", "--help"]).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("is destroyed") && help.contains("All sessions end"), "{help}");
}

#[test]
fn sessions_that_a_new_key_has_ended_are_not_listed() {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let api = serving.caller(&key).with_fields(&[]);
    let ada = json!({"email": "ada@acme.test", "password": PASSWORD});
    let sign_in = || {
        let session = api.post("/auth/sign-in", ada.clone()).ok();
        api.with_bearer(session["token"].as_str().unwrap())
    };
    let before = [sign_in(), sign_in()];
    place.run(&ROTATE).succeeds();
    before[0].get("/auth/sessions").refused(401, "unauthenticated");
    assert_eq!(sign_in().get("/auth/sessions").items().len(), 1);
}

#[test]
fn the_key_is_replaced_while_the_server_runs() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let owner = serving.caller(&key);
    let secrets = store_secrets(&owner);
    let socket = fs::metadata(place.file("control.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    thread::scope(|scope| {
        let rotation = scope.spawn(|| place.run(&ROTATE).succeeds());
        let mut written = 0;
        while !rotation.is_finished() {
            let body = json!({"name": format!("L{written}"), "provider": "openai", "apiKey": "k"});
            owner.post("/llm-providers", body).ok();
            written += 1;
        }
        let rotated: Value = rotation.join().unwrap();
        assert!(rotated["resealed"].as_u64().unwrap() >= secrets, "{rotated}");
    });
    let again = place.run(&ROTATE).succeeds();
    assert!(again["resealed"].as_u64().unwrap() >= secrets, "{again}");
    serving.signal("TERM");
    serving.ends();
    assert_sound(&place);
}

#[test]
fn a_server_killed_during_a_rotation_completes_it_at_its_next_start() {
    for pause in [0, 1, 3, 10, 30] {
        let (place, key) = Place::founded();
        let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
        store_secrets(&serving.caller(&key));
        thread::scope(|scope| {
            let rotation = scope.spawn(|| place.run(&ROTATE));
            // Wherever it is then: each of these is another place.
            thread::park_timeout(std::time::Duration::from_millis(pause));
            serving.kill();
            let ended = rotation.join().unwrap();
            // Before the server took the command, or after the last step, it succeeds.
            assert!(matches!(ended.code, Some(0..=2)), "{ended:?}");
        });
        let mut serving = Serving::start(&place, &[]);
        assert_eq!(serving.caller(&key).get("/llm-providers").items().len(), 1);
        let rotating = || fs::read_to_string(place.file("format")).unwrap().lines().count() > 2;
        eventually("the rotation is complete", || (!rotating()).then_some(()));
        serving.signal("TERM");
        serving.ends();
        assert_sound(&place);
        assert!(!place.file("secret.key.new").exists() || !rotating());
    }
}

#[test]
fn a_key_that_is_kept_elsewhere_is_replaced_by_the_supplied_one() {
    let mut place = Place::new();
    place.set(&[(VARIABLE, OLD)]);
    place.init(&["--json"], None).succeeds();
    place.run(&ROTATE).fails(1, "--new-key-file");
    let file = place.file("../new.key");
    let name = file.to_str().unwrap();
    place.run(&[&ROTATE[..], &["--new-key-file", name]].concat()).fails(2, "does not exist");
    fs::write(&file, "palaver").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    place.run(&[&ROTATE[..], &["--new-key-file", name]].concat()).fails(2, "holds no key");
    fs::write(&file, NEW).unwrap();
    let serving = Serving::start(&place, &[]);
    let rotated = place.run(&[&ROTATE[..], &["--new-key-file", name]].concat()).succeeds();
    let to_do = rotated["toDo"].as_str().unwrap();
    assert!(to_do.contains("set ROADSTEAD_SECRET_KEY to the new key"), "{to_do}");
    assert!(!rotated["backups"].as_str().unwrap().contains("is gone"), "{rotated}");
    drop(serving);
    place.run(&["check"]).fails(2, "is not the key");
    place.set(&[(VARIABLE, NEW)]);
    assert_sound(&place);
    assert!(!place.file("secret.key").exists());
}

const SIGNING_KEY: &str = "whsec_c2lnbmluZyBrZXkgb2YgdGhlIGVuZHBvaW50";
const TOKEN: &str = "a secret of the environment";

/// Runs `during` while a job is half posted: its fifth message waits for the response until that has
/// returned. Then lets the job end; checks that each message was signed and filled, and each target
/// applied once. Returns the result of `during`.
fn during_a_deployment<T>(during: impl FnOnce(&Place, &mut Serving) -> T) -> T {
    let place = TEMPLATE.place.copy();
    let mut serving = Serving::start(&place, &LOOPBACK);
    let (half, is_half) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let mut received = 0;
    let receiver = Receiver::responding(move |_| {
        received += 1;
        if received == 5 {
            half.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
        "HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n".into()
    });
    let api = serving.caller(&TEMPLATE.key);
    let dev = format!("/environments/{}", TEMPLATE.dev);
    api.put(&format!("{dev}/secrets/TOKEN"), json!({"value": TOKEN})).ok();
    let credential = json!({"apiKey": SIGNING_KEY, "endpoint": receiver.url});
    api.put(&format!("{dev}/provider-credentials/p"), credential).ok();
    let tool = json!({"name": "t", "type": "http", "providerConfig": {"p": {"auth": "${TOKEN}"}}});
    let mut body = body_of(&agents(), "dev", "1.0.0");
    body["toolRefs"] = json!([{"toolId": api.post("/tools", tool).id()}]);
    let job = api.post("/agents/deployments", body).ok();
    is_half.recv().unwrap();
    let result = during(&place, &mut serving);
    go_on.send(()).unwrap();
    let api = serving.caller(&TEMPLATE.key);
    let job = eventually("the job is complete", || {
        Some(api.get(&path_of(&job, "")).ok()).filter(|job| job["state"] == "complete")
    });
    let mut messages = Vec::new();
    eventually("all messages are noted", || {
        messages.extend(receiver.arrived());
        (messages.len() >= agents().len()).then_some(())
    });
    let is_whole = |sent: &Sent| {
        sent.is_signed_with(SIGNING_KEY)
            && sent.json()["data"]["tools"][0]["providerConfig"] == json!({"p": {"auth": TOKEN}})
    };
    assert!(messages.iter().all(is_whole));
    // The rotation has ended all sessions.
    let ada = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = api.with_fields(&[]).post("/auth/sign-in", ada).ok();
    let owner = api.with_bearer(session["token"].as_str().unwrap());
    assert_eq!(assert_once(&owner, &[job], &messages), 0);
    let rotating = || fs::read_to_string(place.file("format")).unwrap().lines().count() > 2;
    eventually("the rotation is complete", || (!rotating()).then_some(()));
    serving.signal("TERM");
    serving.ends();
    assert_sound(&place);
    result
}

#[test]
fn a_deployment_goes_on_while_the_key_is_replaced() {
    let rotated: Vec<Value> = during_a_deployment(|place, _| {
        // The second one leaves nothing that the job may have read before the first.
        (0..2).map(|_| place.run(&ROTATE).succeeds()).collect()
    });
    for one in &rotated {
        assert!(one["resealed"].as_u64().unwrap() >= 2, "{rotated:?}");
    }
}

#[test]
fn a_deployment_goes_on_after_the_server_was_killed_while_the_key_was_replaced() {
    for pause in [0, 3, 20] {
        let ended: Ended = during_a_deployment(|place, serving| {
            thread::scope(|scope| {
                let rotation = scope.spawn(|| place.run(&ROTATE));
                // Wherever it is then.
                thread::park_timeout(std::time::Duration::from_millis(pause));
                serving.kill();
                let ended = rotation.join().unwrap();
                *serving = Serving::start(place, &LOOPBACK);
                ended
            })
        });
        assert!(matches!(ended.code, Some(0..=2)), "{ended:?}");
    }
}
