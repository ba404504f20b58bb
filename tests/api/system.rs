//! The state of the server: who sees it, and what it says (reference: command-line, "State of the
//! server").

use std::time::Duration;

use roadstead::api::OrganizationCreators;
use roadstead::app::backup::LastBackup;
use roadstead::app::doctor::{self, Level};
use roadstead::app::{
    AdminsChange, DataDir, ServerConfig, Startup, admins_of_installation, control,
};
use roadstead::auth::{AddressProof, Role, User};
use roadstead::base::{Id, Time};
use roadstead::outbox::RetentionSettings;
use roadstead::store::{Clock, Tx, View};
use serde_json::{Value, json};

use crate::client::server_log::plant_panic;
use crate::client::{Caller, within};
use crate::fixture::{Fixture, Running, config};

fn key_with(session: &Caller, access: Value) -> Caller {
    let made = session.post("/api-keys", json!({"name": "a key", "access": access})).ok();
    session.with_key(made["key"].as_str().unwrap())
}

#[test]
fn it_is_for_who_administers_the_installation_in_a_session_or_by_a_key_with_the_scope() {
    let running = Running::start(config());
    let acme = running.fixture();
    // The owner of the first organization, unless the operator names others.
    for admin in [&acme.owner, &acme.key] {
        admin.get("/system").ok();
    }
    acme.member.get("/system").refused(403, "admin_required");
    key_with(&acme.member, json!("full")).get("/system").refused(403, "admin_required");
    for access in [json!(["metrics:read"]), json!("read")] {
        key_with(&acme.owner, access).get("/system").ok();
    }
    key_with(&acme.owner, json!(["tool:read"])).get("/system").refused(403, "scope_missing");
    for other in [&acme.admin, &key_with(&acme.admin, json!("full"))] {
        other.get("/system").refused(403, NOT_NAMED);
    }
    running.stop();
}

const NOT_NAMED: &str = "installation_admin_required";

#[test]
fn nobody_sees_it_by_an_organization_of_their_own() {
    let running = Running::start(config());
    let acme = running.fixture();
    acme.member.post("/organizations", json!({"slug": "bens-own", "name": "B"})).ok();
    let ben = acme.member.about("bens-own");
    ben.get("/system").refused(403, NOT_NAMED);
    let key = key_with(&ben, json!("full"));
    key.get("/system").refused(403, NOT_NAMED);
    assert_eq!(ben.get("/auth/session").ok()["installationAdmin"], false);
    assert_eq!(acme.owner.get("/auth/session").ok()["installationAdmin"], true);
    let explained = "/access/explain?action=system.get&userId=";
    let asked = acme.owner.get(&format!("{explained}{}", acme.owner_id)).ok();
    assert_eq!(asked["allowed"], true);

    // The operator names Ben in place of the owner.
    let email = |id: &str| {
        let members = acme.owner.get("/organizations/members").items();
        let found = members.into_iter().find(|one| one["userId"] == json!(id)).unwrap();
        found["email"].as_str().unwrap().to_string()
    };
    let change = AdminsChange::To(vec![email(&acme.member_id).to_uppercase()]);
    let now = admins_of_installation(&running.store, Some(&change)).unwrap();
    assert_eq!((now.addresses, now.named), (vec![email(&acme.member_id)], true));
    ben.get("/system").ok();
    key.get("/system").ok();
    acme.owner.get("/system").refused(403, NOT_NAMED);
    acme.member.get("/system").refused(403, "admin_required");
    // The key of a service account counts for who answers for it.
    let account = json!({"name": "Prometheus", "role": "admin"});
    let account = ben.post("/organizations/service-accounts", account).id();
    let made = ben.post("/api-keys", json!({"name": "p", "serviceAccountId": account})).ok();
    ben.with_key(made["key"].as_str().unwrap()).get("/system").ok();

    let change = AdminsChange::To(vec!["nobody".into()]);
    assert!(admins_of_installation(&running.store, Some(&change)).is_err());
    // Names of nobody alone would lock everybody out; beside another one they are told of.
    let unknown = "nobody@acme.test".to_string();
    let change = AdminsChange::To(vec![unknown.clone()]);
    let refused = admins_of_installation(&running.store, Some(&change)).unwrap_err();
    assert!(refused.message().contains("nobody@acme.test has no account here"), "{refused}");
    ben.get("/system").ok();
    let change = AdminsChange::To(vec![email(&acme.member_id), unknown.clone()]);
    let now = admins_of_installation(&running.store, Some(&change)).unwrap();
    assert_eq!((now.addresses.len(), now.without_account), (2, vec![unknown]));
    admins_of_installation(&running.store, Some(&AdminsChange::ToFirstOwner)).unwrap();
    acme.owner.get("/system").ok();
    ben.get("/system").refused(403, NOT_NAMED);
    running.stop();
}

#[test]
fn whoever_has_not_proved_the_address_that_is_named_administers_nothing() {
    let running = Running::start(config());
    let acme = running.fixture();
    let (eve, id) = running.person(&acme, "eve", Role::Admin);
    let change = AdminsChange::To(vec![format!("eve@{}.test", acme.slug)]);
    admins_of_installation(&running.store, Some(&change)).unwrap();
    eve.get("/system").ok();
    // What an organization considers verified is not enough.
    for proof in [AddressProof::Unproved, AddressProof::Unknown] {
        let id = Id::<User>::parse(&id);
        let change = move |tx: &mut Tx| {
            let user: User = tx.fetch(&id)?;
            tx.replace(&user, &User { proof, ..user.clone() })
        };
        running.store.write_blocking(Id::NIL, change).unwrap();
        eve.get("/system").refused(403, NOT_NAMED);
    }
    // So nobody loses the right to somebody who has no account yet.
    let set = |addresses: &[&String]| {
        let change = AdminsChange::To(addresses.iter().map(|one| one.to_string()).collect());
        admins_of_installation(&running.store, Some(&change))
    };
    let [named, unknown] = ["eve", "nobody"].map(|name| format!("{name}@{}.test", acme.slug));
    assert_eq!(set(&[&unknown]).unwrap().without_account, [unknown]);
    // But the owner of the first organization would to her, who could not use it.
    admins_of_installation(&running.store, Some(&AdminsChange::ToFirstOwner)).unwrap();
    let refused = set(&[&named]).unwrap_err();
    assert!(refused.message().contains("is not proved by its account"), "{refused}");
    let owner = Id::<User>::parse(&acme.owner_id);
    let owner = move |view: &View| view.fetch::<User>(&owner);
    let owner = running.store.read_now(Id::NIL, owner).unwrap().email.into_string();
    let both = set(&[&owner, &named]).unwrap();
    assert_eq!((both.without_account, both.unproved), (Vec::new(), vec![named]));
    acme.owner.get("/system").ok();
    running.stop();
}

#[test]
fn only_who_administers_the_installation_creates_organizations_if_the_operator_says_so() {
    let organization_creators = OrganizationCreators::InstallationAdmins;
    let running = Running::start(ServerConfig { organization_creators, ..config() });
    let acme = running.fixture();
    let new = json!({"slug": "another", "name": "A"});
    acme.admin.post("/organizations", new.clone()).refused(403, NOT_NAMED);
    acme.owner.post("/organizations", new).ok();
    running.stop();
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
    assert_eq!(status["storage"]["writesRefused"], false);
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
    let both = [&acme, &globex].map(|of| {
        let members = of.owner.get("/organizations/members").items();
        let owner = members.into_iter().find(|one| one["role"] == "owner").unwrap();
        owner["email"].as_str().unwrap().to_string()
    });
    admins_of_installation(&running.store, Some(&AdminsChange::To(both.into()))).unwrap();
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
    let _control =
        control::listen(dir.clone(), running.store.clone(), link_base, startup.clone(), None);
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
