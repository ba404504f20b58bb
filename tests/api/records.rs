//! Released records of every kind and version stay readable.
//!
//! `tests/golden/records/` has the stored bytes of one of each. A new kind of record, or a new
//! version, needs one more: `ROADSTEAD_UPDATE_GOLDEN=1 cargo test --test api records` writes those
//! that are missing and leaves the rest alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::ReadableDatabase as _;
use redb::ReadableTable as _;
use roadstead::api::audit::{ChainStart, Link, SystemAction, audit_system};
use roadstead::app::{AdminsChange, DataDir, ServerConfig, admins_of_installation};
use roadstead::auth::Organization;
use roadstead::base::{Email, Id, Importing, Portable as _, Result};
use roadstead::outbox::{
    About, Channel, Delivery, DeliveryStatus, Event, EventType, Subscription, publish,
    redeliver_range,
};
use roadstead::outside::smtp::{SmtpConfig, SmtpUrl};
use roadstead::resources::organizations::moving::{
    ArrivingOrganization, MovedMember, begin_import,
};
use roadstead::resources::{self, organizations};
use roadstead::store::{ListSource, TableInfo, Tx, View};
use serde_json::json;

use crate::client::second_factor::App;
use crate::client::{Caller, eventually, within};
use crate::exchange;
use crate::fixture::{Fixture, Running, config};
use crate::https::SITES;
use crate::oidc_provider::{Provider, person};
use crate::sites::names;

/// The public key of the listing.
pub const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";

pub fn tables() -> Vec<TableInfo> {
    [resources::tables(), roadstead::store::TABLES.to_vec()].concat()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/records")
}

pub fn file_of(table: &TableInfo) -> PathBuf {
    golden().join(format!("{}.v{}", table.name, table.version))
}

#[test]
fn every_released_record_still_decodes() {
    if std::env::var_os("ROADSTEAD_UPDATE_GOLDEN").is_some() {
        write_missing();
    }
    let tables = tables();
    let mut read = 0;
    for file in std::fs::read_dir(golden()).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_string();
        let (table, version) = name.rsplit_once(".v").expect("a table and a version");
        let table = tables.iter().find(|info| info.name == table).expect("a table that exists");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut lines = text.lines().map(bytes);
        let (key, value) = (lines.next().unwrap(), lines.next().unwrap());
        let rewritten = table.rewrite(&key, &value).unwrap_or_else(|e| panic!("{name}: {e}"));
        if version == table.version.to_string() {
            assert_eq!(
                rewritten, value,
                "{name}: written otherwise than it was, without a new version"
            );
        }
        read += 1;
    }
    assert!(read >= tables.len());
}

#[test]
fn every_kind_of_record_has_a_sample() {
    let missing: Vec<_> =
        tables().iter().filter(|table| !file_of(table).exists()).map(|table| table.name).collect();
    assert_eq!(missing, Vec::<&str>::new(), "see the head of this file");
}

pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the missing samples, from directories with records of every kind.
fn write_missing() {
    std::fs::create_dir_all(golden()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let (fresh, used) = (place.path().join("fresh"), place.path().join("used"));
    let store = DataDir::at(&fresh).create().unwrap();
    store.write_blocking(Id::NIL, organizations::issue_setup_token).unwrap();
    store.write_blocking(Id::new(uuid::Uuid::from_u128(1)), channel_with_delivery).unwrap();
    store.write_blocking(Id::new(uuid::Uuid::from_u128(1)), audit_log_to_be).unwrap();
    store.write_blocking(Id::NIL, unfinished_import).unwrap();
    let email = Email::parse("ada@acme.test").unwrap();
    let ask = move |tx: &mut Tx| organizations::request_reset_mail(tx, &email, "http://acme.test");
    store.write_blocking(Id::NIL, ask).unwrap();
    roadstead::app::rotate(&DataDir::at(&fresh), &store, None, None, &mut |_| {}).unwrap();
    drop(store);
    fill(&used, true);
    for dir in [fresh, used] {
        let path = DataDir::at(dir).database();
        // The server's threads release the file shortly after it stopped.
        let database = eventually("the database is free", || redb::Database::open(&path).ok());
        let reader = database.begin_read().unwrap();
        for table in tables() {
            let definition = redb::TableDefinition::<&[u8], &[u8]>::new(table.name);
            let opened = reader.open_table(definition).unwrap();
            if let Some((key, value)) = opened.first().unwrap()
                && !file_of(&table).exists()
            {
                let text = format!("{}\n{}\n", hex(key.value()), hex(value.value()));
                std::fs::write(file_of(&table), text).unwrap();
            }
        }
    }
}

/// Creates a channel with a subscription and a dead delivery, for which there are no routes yet.
fn channel_with_delivery(tx: &mut Tx) -> Result<()> {
    let (now, event_type) = (tx.now(), EventType::AgentError);
    let config = json!({"url": "https://hooks.test/"});
    let channel = Channel::new(tx, "c", "webhook", config, Some("s"))?.with_secret(tx, "t")?;
    let id = channel.id;
    tx.insert(&channel)?;
    redeliver_range(tx, id, (now, now), None)?;
    let (subscription, enabled) = (tx.new_id(), true);
    tx.insert(&Subscription {
        id: subscription,
        channel: id,
        event_type,
        enabled,
        created_at: now,
    })?;
    publish(tx, event_type, About::resource("agent", tx.org()), json!({"stableKey": "ann"}))?;
    let event: Event = tx.all(ListSource::TABLE, &())?.remove(0);
    tx.insert(&Delivery {
        id: tx.new_id(),
        channel: id,
        event: event.id,
        event_type,
        guarded_by: Vec::new(),
        created_at: event.created_at,
        status: DeliveryStatus::Dead,
        attempts: 1,
        error: Some("e".into()),
        sent_at: Some(now),
        next_attempt_at: None,
        job: None,
    })
}

/// Creates what a directory in use has for a moment, or after a year: a pending audit entry, and the
/// record of what retention removed.
fn audit_log_to_be(tx: &mut Tx) -> Result<()> {
    let action = "environment_secret.use";
    audit_system(tx, SystemAction { action, resource_id: "TOKEN", detail: "d", cause: "c" })?;
    let before = Link { sequence: 1, hash: [1; 32] };
    tx.insert(&ChainStart { before, removed_at: tx.now(), seal: [2; 32] })
}

/// Creates the record of an import that was interrupted.
fn unfinished_import(tx: &mut Tx) -> Result<()> {
    let (id, at) = (uuid::Uuid::from_u128(1), "2026-01-15T12:00:00.000Z");
    let organization = json!({"id": id, "slug": "moved", "name": "Moved", "created_at": at,
        "updated_at": at, "updated_by": id});
    let member = json!({"user": id, "is_service": false, "email": "ada@moved.test", "name": "Ada",
        "image": "https://a.test/", "created_at": at, "role": "Owner", "email_verified": true,
        "joined_at": at});
    let input = Importing::default();
    let arriving = ArrivingOrganization {
        organization: Organization::from_json(organization, &input).unwrap(),
        slug: None,
        members: vec![MovedMember::from_json(member, &input).unwrap()],
        digest: [1; 32],
        source: "elsewhere".into(),
        accepts_unproved: false,
    };
    begin_import(tx, &arriving).map(drop)
}

/// Creates records of every kind. With `much`, includes a removal too large for one transaction,
/// which leaves a row until the sweep completes it.
pub fn fill(dir: &Path, much: bool) {
    let store = DataDir::at(dir).create().unwrap();
    let token = store.write_blocking(Id::NIL, organizations::issue_setup_token).unwrap();
    SITES.serve("acme.test", |name| names(name, KEY));
    let url = SmtpUrl::parse("smtp://127.0.0.1:1?tls=none").unwrap();
    let smtp = SmtpConfig { url, from: "roadstead@acme.test".into(), extra_roots_pem: None };
    let provider = Provider::start(&SITES, &format!("id-{}.test", uuid::Uuid::now_v7()));
    let oidc = vec![provider.configured()];
    let with_mail = ServerConfig { smtp: Some(smtp), oidc, ..config() };
    let running = Running::serve(store, "127.0.0.1:0", with_mail);
    let sign_in = json!({"email": "eve@acme.test", "password": "correct horse"});
    let user = json!({"name": "Eve", "email": sign_in["email"], "password": sign_in["password"]});
    let organization = json!({"slug": "acme", "name": "Acme"});
    let setup = json!({"token": token, "organization": organization, "user": user});
    let anonymous = running.anonymous();
    anonymous.ask("POST", "/setup").json(&setup).send().ok();
    let eve = guard(&anonymous, &sign_in);
    let_in(&anonymous, &eve, &sign_in["password"]);
    let eve = eve.about("acme");
    let forgotten = json!({"email": sign_in["email"]});
    anonymous.ask("POST", "/auth/password/forgot").json(&forgotten).send().ok();
    let mails: Vec<_> =
        tables().into_iter().filter(|table| table.name == "password_reset_mails").collect();
    eventually("a link is mailed", || {
        Some(()).filter(|()| running.store.check(&mails).unwrap().records > 0)
    });
    let fixture = running.fixture();
    fill_organization(&fixture, much);
    if much {
        wait_for_schedule(&fixture);
    }
    let organizations = |view: &View| view.all::<Organization>(ListSource::TABLE, &());
    let acme = running.store.read_now(Id::NIL, organizations).unwrap()[0].id;
    running.store.write_blocking(acme, channel_with_delivery).unwrap();
    sign_in_with(&provider, &eve, &anonymous);
    let admins = AdminsChange::To(vec!["eve@acme.test".into()]);
    admins_of_installation(&running.store, Some(&admins)).unwrap();
    running.stop();
}

/// Signs somebody in with a provider, who joins by their domain, and requires it in the organization.
fn sign_in_with(provider: &Provider, owner: &Caller, anonymous: &Caller) {
    let eve = owner.get("/auth/session").ok()["user"]["id"].clone();
    // One each: what a domain has granted, no rule grants again.
    let [ruled, joined] = ["granted", "joined"].map(|slug| {
        let registry = owner.post("/registries", json!({"slug": slug, "name": slug})).ok();
        json!([{"resourceType": "registry", "resourceId": registry["id"]}])
    });
    let given = json!({"provider": "kc", "value": "ops", "role": "admin", "grants": ruled});
    let rule = json!({"domain": "acme.test", "provider": "kc", "role": "member", "grants": joined});
    let settings = json!({"domains": [rule], "breakGlassUserId": eve, "rules": [given]});
    owner.put("/organizations/sign-in", settings).ok();
    let begin = json!({"provider": "kc"});
    let begun = anonymous.ask("POST", "/auth/providers/begin").json(&begin).send().ok();
    let mut grace = person("grace");
    (grace["groups"], grace["sid"]) = (json!(["ops"]), json!("session-1"));
    let back = provider.sign_in(begun["url"].as_str().unwrap(), grace, "ES256");
    let (_, query) = back.split_once('?').unwrap();
    let mut answer = json!({"provider": "kc", "attempt": begun["attempt"]});
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        answer[&*name] = json!(value);
    }
    anonymous.ask("POST", "/auth/providers/finish").json(&answer).send().ok();
}

/// Turns the second factor of who signs in with these on, requires it in their organization, and begins
/// another sign-in. Returns their session.
fn guard(anonymous: &Caller, sign_in: &serde_json::Value) -> Caller {
    let ask = || anonymous.ask("POST", "/auth/sign-in").json(sign_in).send();
    let session = anonymous.with_bearer(ask().ok()["token"].as_str().unwrap());
    App::turned_on(&session, sign_in["password"].as_str().unwrap());
    let required = json!({"orgSlug": "acme", "secondFactorRequired": true});
    session.ask("PATCH", "/organizations").json(&required).send().ok();
    ask().refused(401, "code_required");
    session
}

/// Lets a command line in, while others wait for that, and confirms who somebody is before.
fn let_in(anonymous: &Caller, session: &Caller, password: &serde_json::Value) {
    let post = |caller: &Caller, path: &str, body| caller.ask("POST", path).json(&body).send();
    let begin = || {
        let asked = json!({"client": "roadstead on a laptop"});
        post(anonymous, "/auth/device-sign-ins", asked).ok()
    };
    let approve = |begun: &serde_json::Value| {
        let code = begun["userCode"].as_str().unwrap();
        post(session, &format!("/auth/device-sign-ins/{code}/approve"), json!({})).ok();
    };
    let (first, second, third) = (begin(), begin(), begin());
    approve(&first);
    approve(&second);
    let finish = |begun: &serde_json::Value| {
        let body = json!({"deviceCode": begun["deviceCode"]});
        post(anonymous, "/auth/device-sign-ins/finish", body)
    };
    finish(&first).ok();
    finish(&third).refused(400, "authorization_pending");
    // A code of the second factor is due, which counts once: the password alone is refused.
    let confirm = json!({"password": password});
    post(session, "/auth/session/confirm", confirm).refused(400, "invalid_request");
}

/// Waits until a schedule was due, which takes a minute, and pauses everything again. Meanwhile a lease
/// ends, a wake fails, and the task is found to be overdue.
fn wait_for_schedule(fixture: &Fixture) {
    let key = &fixture.key;
    let team = key.get("/teams?slug=crew").items()[0]["id"].as_str().unwrap().to_string();
    let schedules = format!("/teams/{team}/schedules");
    let schedule = key.get(&schedules).items()[0]["id"].as_str().unwrap().to_string();
    let places = [format!("/teams/{team}"), "/teams".into()];
    for place in &places {
        fixture.owner.post(&format!("{place}/resume"), json!({})).ok();
    }
    let owner = &fixture.owner;
    let cat = json!({"stableKey": "cat", "role": "member", "maxAttempts": 1});
    let cat = owner.post(&format!("/teams/{team}/agents"), cat).id();
    let mail = json!({"body": "b", "toAgentId": cat});
    owner.post(&format!("/teams/{team}/messages"), mail).ok();
    let wakes = format!("/teams/{team}/agents/{cat}/wakes");
    assert_eq!(owner.get(&wakes).items().len(), 1);
    within(Duration::from_secs(90), "the schedule is due", || {
        let runs = key.get(&format!("{schedules}/{schedule}/runs")).items();
        (!runs.is_empty()).then_some(())
    });
    within(Duration::from_secs(90), "a wake that is not acknowledged fails", || {
        let failed = owner.get("/teams/failed-wakes").items();
        (!failed.is_empty()).then_some(())
    });
    for place in &places {
        fixture.owner.post(&format!("{place}/pause"), json!({"reason": "r"})).ok();
    }
}

/// Creates records of every kind in one organization; see [`fill`].
pub fn fill_organization(fixture: &Fixture, much: bool) {
    let (owner, key) = (&fixture.owner, &fixture.key);
    let old = owner.post("/api-keys", json!({"name": "k", "expiresInDays": 30})).id();
    owner.post(&format!("/api-keys/{old}/rotate"), json!({"overlapSecs": 2_592_000})).ok();
    let account = owner.post("/organizations/service-accounts", json!({"name": "bot"})).id();
    let scoped = json!({"name": "s", "serviceAccountId": account,
        "access": ["label:move@main#staging", "tool:read"]});
    owner.post("/api-keys", scoped).ok();
    owner.post("/organizations/members", json!({"email": "new@acme.test", "role": "member"})).ok();
    let mail = json!({"name": "m", "workflow": "email", "config": {"to": ["v@else.test"]}});
    owner.post("/notifications/channels", mail).ok();
    let domain = owner.post("/organizations/domains", json!({"domain": "acme.test"})).id();
    let setup = json!({"slug": "prod", "name": "Prod", "description": "d", "access": "restricted",
        "approvals": {"approverIds": [fixture.owner_id]}});
    let environment = owner.post("/environments", setup).id();
    owner
        .put(&format!("/environments/{environment}/variables/TONE"), json!({"value": "kind"}))
        .ok();
    owner.put(&format!("/environments/{environment}/secrets/TOKEN"), json!({"value": "s"})).ok();
    let credential =
        json!({"apiKey": "k", "endpoint": "http://127.0.0.1:9/", "config": {"a": null}});
    owner.put(&format!("/environments/{environment}/provider-credentials/openai"), credential).ok();
    let fleet = json!({"name": "F", "description": "d", "access": "restricted"});
    let fleet = owner.post("/fleets", fleet).id();
    let grant = json!({"userId": fixture.member_id, "resourceType": "environment",
        "resourceId": environment});
    owner.post("/access-grants", grant).ok();
    owner.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
    let restricted = json!({"slug": "gone", "name": "Gone", "access": "restricted"});
    let restricted = owner.post("/environments", restricted).id();
    owner.delete(&format!("/environments/{restricted}")).ok();
    owner.post("/registries", json!({"slug": "main", "name": "Main", "description": "d"})).ok();
    let provider = json!({"name": "L", "provider": "custom", "baseUrl": "http://127.0.0.1:9/",
        "apiKey": "k", "config": {"model": "m"}, "isDefault": true});
    let provider = owner.post("/llm-providers", provider).id();
    let rules = json!([{"type": "forbidPattern", "value": "p"}, {"type": "maxLength", "value": 9},
        {"type": "judge", "value": "q", "llmProviderId": provider}]);
    let policy = json!({"name": "P", "severity": "warning", "rules": rules, "description": "d"});
    let policy = owner.post("/governance/policies", policy).id();
    let assignments = format!("/governance/policies/{policy}/assignments");
    owner.post(&assignments, json!({"registryRef": "main"})).ok();
    publish_artifacts(owner);
    let tool = json!({"name": "t", "type": "http", "description": "d", "prompt": "p", "message": "m",
        "tags": ["Docs"], "providerConfig": {"a": null, "b": "${TONE}"}});
    let tool = key.post("/tools", tool).id();
    key.patch(&format!("/tools/{tool}"), json!({"updateEnvironmentVersions": ["dev"]})).ok();
    let provider = json!({"name": "p", "kind": "mlflow", "baseUrl": "http://127.0.0.1:9/",
        "credentials": {"apiKey": "k"}});
    owner.post("/prompt-providers", provider).ok();
    let draft = json!({"model": "m", "toolRefs": [{"toolId": tool, "version": "1.0.0"}],
        "variables": {"A": "b"}, "providerConfig": {"x": null}});
    let body = json!({"stableKey": "cat", "name": "cat", "fleetId": fleet});
    owner.post("/agents", body).ok();
    for agent in ["ann", "bob"] {
        let agent = json!({"stableKey": agent, "name": agent, "description": "d", "draft": draft,
            "tags": ["Docs", "b"]});
        key.post("/agents", agent).ok();
    }
    key.post("/agents/ann/versions", json!({"message": "m"})).ok();
    let listing = json!({"stableKey": "ann", "handle": "ann@acme.test", "pubkey": KEY,
        "displayName": "Ann", "description": "d", "skills": ["s"], "visibility": "public",
        "cardState": "published"});
    owner.post("/agent-index/listings", listing).ok();
    owner.post(&format!("/organizations/domains/{domain}/verifications"), json!({})).ok();
    deploy(owner);
    let team = json!({"slug": "crew", "name": "Crew", "description": "d",
        "budget": {"monthlyUsd": 1}});
    let team = format!("/teams/{}", key.post("/teams", team).id());
    key.patch(&team, json!({"budget": {"monthlyUsd": 2, "onExhausted": "notify"}})).ok();
    key.patch(&team, json!({"budget": {"monthlyUsd": 1}})).ok();
    let ann = json!({"stableKey": "ann", "role": "scrum_master", "skills": ["s"],
        "wakeUrl": "http://127.0.0.1:9/"});
    let ann = key.post(&format!("{team}/agents"), ann).id();
    let bob =
        key.post(&format!("{team}/agents"), json!({"stableKey": "bob", "role": "member"})).id();
    let task = json!({"title": "t", "description": "d", "projectId": "p", "assigneeAgentId": ann});
    let task = key.post(&format!("{team}/tasks"), task).id();
    let due = "2031-01-01T00:00:00Z";
    let parent = key.post(&format!("{team}/tasks"), json!({"title": "t", "dueAt": due})).id();
    let more =
        json!({"parentTaskId": parent, "dependsOn": [parent], "labels": ["l"], "dueAt": due});
    key.patch(&format!("{team}/tasks/{task}"), more).ok();
    let claim = json!({"agentId": ann, "worker": "w", "leaseSecs": 86_400});
    key.post(&format!("{team}/tasks/{task}/claim"), claim).ok();
    if much {
        let late = json!({"title": "t", "dueAt": "2026-01-01T00:00:00Z"});
        let late = key.post(&format!("{team}/tasks"), late).id();
        let claim = json!({"agentId": ann, "worker": "x", "leaseSecs": 10});
        key.post(&format!("{team}/tasks/{late}/claim"), claim).ok();
    }
    let note = json!({"body": "b", "subject": "s", "toAgentId": bob, "taskId": task});
    let note = key.post(&format!("{team}/messages"), note).id();
    key.post(&format!("{team}/messages/{note}/consume"), json!({"agentId": bob})).ok();
    key.get(&format!("{team}/agents/{bob}/wakes")).ok();
    key.ask("POST", &format!("{team}/inbox"))
        .with("idempotency-key", "once")
        .org_json(json!({"fromAgentId": ann, "body": "b", "subject": "s"}))
        .send()
        .ok();
    key.post(&format!("{team}/agents/{ann}/memories"), json!({"content": "c", "tags": ["t"]})).ok();
    let forgotten =
        key.post(&format!("{team}/agents/{ann}/memories"), json!({"content": "x"})).id();
    key.delete(&format!("{team}/agents/{ann}/memories/{forgotten}")).ok(); // An erasure.
    let run = json!({"status": "failed", "costUsd": 0.5, "error": "e", "taskId": task});
    key.post(&format!("{team}/agents/{ann}/runs"), run).ok();
    owner.put("/model-prices/m", json!({"inputUsd": 1, "outputUsd": 2, "cachedUsd": 0.5})).ok();
    let usage = json!([{"model": "m", "input": 2_000_000, "output": 1, "cached": 1}]);
    let run = json!({"status": "succeeded", "taskId": task, "usage": usage});
    key.post(&format!("{team}/agents/{ann}/runs"), run).ok();
    let schedule = json!({"name": "s", "everySecs": 60, "timeZone": "Europe/Berlin",
        "onMissed": "once", "task": {"title": "t", "description": "d", "assigneeAgentId": ann}});
    key.post(&format!("{team}/schedules"), schedule).ok();
    let question = json!({"agentId": ann, "title": "t", "body": "b", "taskId": task});
    key.post(&format!("{team}/approvals"), question).ok();
    let entry = json!({"kind": "milestone", "title": "t", "body": "b", "agentId": ann});
    key.post(&format!("{team}/timeline"), entry).ok();
    exchange::fill(fixture, team.trim_start_matches("/teams/"));
    for _ in 0..if much { 1010 } else { 1 } {
        key.post(&format!("{team}/tasks"), json!({"title": "t", "assigneeAgentId": bob})).ok();
    }
    owner.delete(&format!("{team}/agents/{bob}")).ok();
    key.post("/agents/ann/pause", json!({"reason": "r"})).ok();
    key.post(&format!("{team}/agents/{ann}/pause"), json!({"reason": "r"})).ok();
    key.post(&format!("{team}/pause"), json!({"reason": "r"})).ok();
    owner.post("/teams/pause", json!({"reason": "r"})).ok();
    know(fixture);
}

/// Creates records of every kind about knowledge bases: of a document in the index, and of one that
/// gets into it a second later.
fn know(fixture: &Fixture) {
    let base = json!({"name": "K", "description": "d"});
    let base = fixture.owner.post("/knowledge-bases", base).id();
    let documents = format!("/knowledge-bases/{base}/documents");
    let add = || fixture.owner.post(&documents, json!({"name": "D", "content": "words"})).ok();
    add();
    let metrics = resources::metrics();
    let pending = metrics.iter().find(|metric| metric.name == "roadstead_document_changes");
    let pending = pending.expect("it is a metric").read;
    eventually("the document is in the index", || {
        let pending = fixture.store.read_now(fixture.org, pending).unwrap();
        (pending == 0).then_some(())
    });
    add();
}

/// Creates records of every kind about deployments: a job that is done and one that waits.
fn deploy(owner: &Caller) {
    let deployment = |environment: &str| {
        let new = json!({"agentIds": ["ann"], "promptName": "answer", "version": "live",
            "environment": environment, "provider": "p", "registryRef": "texts",
            "agentVariables": {"TONE": "kind", "QUESTION": "q"}});
        owner.post("/agents/deployments", new).id()
    };
    let job = format!("/agents/deployments/{}", deployment("dev"));
    eventually("the deployment is complete", || {
        Some(owner.get(&job).ok()).filter(|job| job["state"] == "complete")
    });
    deployment("prod");
    let heartbeat = json!({"environment": "dev", "hash": "h", "error": "e"});
    owner.post("/agents/ann/heartbeat", heartbeat).ok();
}

/// Creates records of every kind in registries.
fn publish_artifacts(owner: &Caller) {
    owner.post("/registries", json!({"slug": "texts", "name": "Texts"})).ok();
    let rules = json!([{"type": "maxLength", "value": 0}]);
    let policy = json!({"name": "P", "severity": "warning", "rules": rules});
    let policy = owner.post("/governance/policies", policy).id();
    let assignments = format!("/governance/policies/{policy}/assignments");
    owner.post(&assignments, json!({"registryRef": "texts"})).ok();
    let version = |kind: &str, name: &str, source: &str| {
        let version = json!({"registryRef": "texts", "artifactType": kind, "name": name,
            "version": "1.0.0", "source": source, "metadata": {"a": null}, "message": "m",
            "tags": ["Docs"]});
        owner.post("/registries/artifacts", version).ok();
    };
    version("promptlet", "tone", "Be {{TONE}}.");
    version("prompt", "answer", "{{ import \"tone@^1.0\" }} Answer {{QUESTION}}.");
    let label = json!({"registryRef": "texts", "promptName": "answer", "label": "live",
        "version": "1.0.0"});
    owner.patch("/registries/artifacts/labels", label).ok();
    let me = owner.get("/auth/user").ok()["id"].clone();
    let protection = json!({"minRole": "member", "userIds": [me],
        "approvals": {"approverIds": [me]}});
    owner.put("/registries/texts/protected-labels/gated", protection).ok();
    let gated = json!({"registryRef": "texts", "promptName": "answer", "label": "gated",
        "version": "1.0.0"});
    owner.patch("/registries/artifacts/labels", gated).ok();
    let draft = json!({"registryRef": "texts", "artifactType": "prompt", "draftVersion": "1.1.0",
        "body": "b", "metadata": {"a": null}});
    owner.post("/prompts/answer/drafts", draft).ok();
    let input = json!({"registryRef": "texts", "name": "first", "variables": {"QUESTION": "q"},
        "message": "m", "expect": {"contains": ["c"], "judge": "j"}});
    owner.post("/prompts/answer/inputs", input).ok();
}
