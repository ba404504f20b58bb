//! Routes executed on the memory engine, without an adapter.

use std::sync::Arc;
use std::time::Duration;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

mod batches;
mod following;
mod kinds;
mod one_state;
mod parts;
mod scopes;
mod signed;
mod streams;
mod turns;
mod waiting;

use super::*;
use crate::api::audit::{AuditEntry, AuditOutcome};
use crate::api::{
    Deleted, Input, OrgHint, OrgResolver, OrgSource, Origin, Output, Readiness, Req, ResolvedOrg,
    ResourceRef, Route, op,
};
use crate::auth::{
    ADMIN, AddressProof, MEMBER, MEMBER_OR_PUBLIC, Membership, Organization, RawCredential, Role,
    Session, User, organization_named,
};
use crate::base::{Email, Error, Id, Kind, Name, Result, Slug, Time};
use crate::outside::{self, Outside};
use crate::store::{Clock, ListSource, Order, Org, Page, Record, Store, Tx, View};

// ── A resource ───────────────────────────────────────────────────────────────

#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
struct Note {
    id: Id<Note>,
    text: String,
}

impl Record for Note {
    const TABLE: &'static str = "notes";
    type Key = Id<Note>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

impl Output for Note {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

#[derive(Deserialize, JsonSchema)]
struct NewNote {
    text: String,
}
impl Input for NewNote {}

/// The topic that is signalled when there is a note.
const TOPIC: Uuid = Uuid::from_u128(8);

fn create(tx: &mut Tx, req: &Req<(), NewNote>) -> Result<Note> {
    let note = Note { id: tx.new_id(), text: req.input.text.clone() };
    tx.insert(&note)?;
    tx.signal(TOPIC);
    Ok(note)
}

fn get(view: &View, req: &Req<Id<Note>>) -> Result<Note> {
    view.fetch(&req.params)
}

#[derive(Deserialize, JsonSchema)]
struct ShelfQuery {
    #[expect(dead_code, reason = "the resolver reads it")]
    shelf: String,
}
impl Input for ShelfQuery {}

fn shelf(view: &View, req: &Req<(), ShelfQuery>) -> Result<Page<Note>> {
    view.page(ListSource::TABLE, &(), Order::Ascending, &req.page, |_| true)
}

fn list(view: &View, req: &Req) -> Result<Page<Note>> {
    view.page(ListSource::TABLE, &(), Order::Ascending, &req.page, |_| true)
}

fn update(tx: &mut Tx, req: &Req<Id<Note>, NewNote>) -> Result<Note> {
    let old: Note = tx.fetch(&req.params)?;
    let new = Note { text: req.input.text.clone(), ..old.clone() };
    tx.replace(&old, &new)?;
    Ok(new)
}

fn delete(tx: &mut Tx, req: &Req<Id<Note>>) -> Result<Deleted> {
    let note: Note = tx.fetch(&req.params)?;
    tx.remove(&note)?;
    Ok(Deleted::new(note.id))
}

fn look(view: &View, _: &Req) -> Result<Readiness> {
    let ready = view.count::<Note>(ListSource::TABLE, &(), 1)? == 1;
    Ok(Readiness { topic: TOPIC, ready, again_at: None })
}

fn take(tx: &mut Tx, req: &Req) -> Result<Page<Note>> {
    let page = list(&tx.view(), req)?;
    page.items.iter().try_for_each(|note| tx.remove(note))?;
    Ok(page)
}

/// Resolves the organization named by the argument `shelf`; the one called `open` is public.
static BY_SHELF: OrgResolver = OrgResolver {
    argument: Some("shelf"),
    resolve: |view, hint, _| {
        let unknown: fn() -> Error = || Error::organization_not_found("orgSlug");
        let slug = hint.reference.as_deref().unwrap_or_default();
        Ok(ResolvedOrg { org: organization_named(view, slug)?.ok_or_else(unknown)?, unknown })
    },
    is_public: |_, hint: &OrgHint| Ok(hint.reference.as_deref() == Some("open")),
};

fn routes() -> Vec<Arc<Route>> {
    let routes = [
        Route::post("/notes", MEMBER, "note.create", op::write(create)),
        Route::get("/notes/{noteId}", MEMBER, "note.get", op::read(get)),
        Route::patch("/notes/{noteId}", MEMBER, "note.update", op::write(update)),
        Route::delete("/notes/{noteId}", ADMIN, "note.delete", op::write(delete)),
        Route::get("/notes/feed", MEMBER, "note.follow", op::follow("note", following::read)),
        Route::get("/notes/next", MEMBER, "note.take", op::take("note", look, take)),
        Route::get("/shelf", MEMBER_OR_PUBLIC, "shelf.list", op::list(shelf))
            .org_source(OrgSource::Named(&BY_SHELF)),
    ];
    routes.into_iter().map(Arc::new).collect()
}

// ── A world ──────────────────────────────────────────────────────────────────

struct Fixture {
    executor: Arc<Executor>,
    routes: Vec<Arc<Route>>,
    /// The organization `open`.
    org: Id<Org>,
    /// A member of it, in a session.
    member: RawCredential,
    /// The process stops when it is dropped.
    _running: watch::Sender<bool>,
}

impl Fixture {
    async fn new() -> Self {
        Self::over(Store::in_memory(Clock::system(), &[])).await
    }

    async fn over(store: Store) -> Self {
        let (_running, stopping) = watch::channel(false);
        let config = outside::ClientConfig { allow_private: vec![], extra_roots_pem: None };
        let executor = Arc::new(Executor::new(ExecutorConfig {
            system: Arc::default(),
            oidc: Arc::default(),
            coordination: Arc::new(Coordination::new(store.clone(), 0, false)),
            store: store.clone(),
            outside: Outside::new(config).unwrap(),
            stopping,
        }));
        let session = store.write(Id::NIL, |tx| member_of(tx, "open")).await.unwrap();
        let token = executor.authenticator.tokens.issue(&session.1).unwrap();
        let member = RawCredential::Token(token);
        Fixture { executor, routes: routes(), org: session.0, member, _running }
    }

    /// Calls a route with these path parameters and arguments, as the member in `open` unless
    /// `with` changes that.
    async fn call(
        &self,
        name: &str,
        params: &[&str],
        mut arguments: Value,
        with: impl FnOnce(&mut Request),
    ) -> Result<Response> {
        let named = |name: &str| self.routes.iter().find(|route| route.name == name).unwrap();
        if arguments.get("orgSlug").is_none() {
            arguments["orgSlug"] = json!("open");
        }
        let params = params.iter().map(|param| param.to_string()).collect();
        let arguments = Arguments::Json(arguments);
        let origin = Arc::new(Origin { request_id: "test".into(), ..Origin::default() });
        let mut request = Request {
            reading: Some(named("note.get").clone()),
            ..Request::new(named(name).clone(), params, arguments, self.member.clone(), origin)
        };
        with(&mut request);
        self.executor.call(request).await
    }

    async fn create(&self, text: &str) -> Value {
        let made = self.call("note.create", &[], json!({"text": text}), |_| ()).await;
        json_of(made.unwrap())
    }

    fn notes(&self) -> usize {
        let count = |view: &View| view.count::<Note>(ListSource::TABLE, &(), 9);
        self.executor.store.read_now(self.org, count).unwrap()
    }

    /// The audit log: action, resource, outcome.
    fn audited(&self) -> Vec<(String, Option<String>, AuditOutcome)> {
        let all = |view: &View| view.all::<AuditEntry>(ListSource::TABLE, &());
        let entries = self.executor.store.read_now(self.org, all).unwrap().into_iter();
        entries.map(|entry| (entry.action, entry.resource_id, entry.outcome)).collect()
    }
}

fn member_of(tx: &mut Tx, slug: &str) -> Result<(Id<Org>, Session)> {
    let now = tx.now();
    let (org, user) = (tx.new_id::<Org>(), tx.new_id::<User>());
    let name = Name::parse("Ada").unwrap();
    let slug = Slug::parse(slug).unwrap();
    tx.insert(&Organization {
        id: org,
        slug,
        name: name.clone(),
        created_at: now,
        updated_at: now,
        updated_by: None,
    })?;
    let email = Email::parse("ada@open.test").unwrap();
    tx.insert(&User {
        id: user,
        email,
        name,
        image: None,
        password: None,
        session_generation: 0,
        service_of: None,
        created_at: now,
        proof: AddressProof::Proved,
        keys_from: None,
    })?;
    tx.insert(&Membership { user, org, role: Role::Member, email_verified: true, joined_at: now })?;
    let expires_at: Time = now.plus_secs(3600);
    let session = Session { id: tx.new_id(), user, generation: 0, created_at: now, expires_at };
    tx.insert(&session)?;
    Ok((org, session))
}

fn json_of(response: Response) -> Value {
    match response.body {
        Body::Json(body) => serde_json::from_slice(&body).unwrap(),
        _ => panic!("no JSON"),
    }
}

fn refusal(response: Result<Response>) -> (Kind, &'static str) {
    let error = response.err().expect("it is refused");
    (error.kind(), error.code())
}

// ── Facts ────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn a_read_has_a_tag_and_a_client_that_has_it_gets_no_body() {
    let fixture = Fixture::new().await;
    let note = fixture.create("a").await;
    let id = note["id"].as_str().unwrap();
    let read = fixture.call("note.get", &[id], json!({}), |_| ()).await.unwrap();
    let etag = read.etag.unwrap();
    assert_eq!(json_of(read), note);
    let has_it = |request: &mut Request| request.preconditions.if_none_match = vec![b"*".to_vec()];
    let again = fixture.call("note.get", &[id], json!({}), has_it).await.unwrap();
    assert!(matches!(again.body, Body::NotModified) && again.etag == Some(etag));
    let never = fixture.call("note.get", &["never"], json!({}), |_| ()).await;
    assert_eq!(refusal(never), (Kind::NotFound, "not_found"));
}

#[tokio::test]
async fn invalid_arguments_are_reported_by_name() {
    let fixture = Fixture::new().await;
    let refused = fixture.call("note.create", &[], json!({"text": 1, "orgSlug": 2}), |_| ()).await;
    let error = refused.err().unwrap();
    let paths: Vec<_> = error.issues().iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["orgSlug", "text"]);
}

#[tokio::test]
async fn a_repeated_write_is_executed_once_and_replayed() {
    let fixture = Fixture::new().await;
    let keyed = |request: &mut Request| request.idempotency_key = Some(b"once".to_vec());
    let write = |text: &str| fixture.call("note.create", &[], json!({"text": text}), keyed);
    let first = write("a").await.unwrap();
    let second = write("a").await.unwrap();
    assert!(!first.is_replayed && second.is_replayed);
    let first = json_of(first);
    assert_eq!(json_of(second), first);
    assert_eq!(refusal(write("b").await), (Kind::Conflict, "idempotency_key_reused"));
    assert_eq!(fixture.notes(), 1);
    let id = first["id"].as_str().map(String::from);
    assert_eq!(fixture.audited(), [("note.create".into(), id, AuditOutcome::Success)]);
}

#[tokio::test]
async fn a_refusal_of_permission_is_in_the_audit_log() {
    let fixture = Fixture::new().await;
    let note = fixture.create("a").await;
    let id = note["id"].as_str().unwrap();
    let refused = fixture.call("note.delete", &[id], json!({}), |_| ()).await;
    assert_eq!(refusal(refused), (Kind::Forbidden, "admin_required"));
    assert_eq!(fixture.notes(), 1);
    assert_eq!(fixture.audited()[1], ("note.delete".into(), None, AuditOutcome::Refused));
    let anonymous = |request: &mut Request| request.credential = RawCredential::Absent;
    let refused = fixture.call("note.delete", &[id], json!({}), anonymous).await;
    assert_eq!(refusal(refused).0, Kind::Unauthenticated);
    assert_eq!(fixture.audited().len(), 2);
}

#[tokio::test]
async fn an_update_with_a_stale_tag_is_refused() {
    let fixture = Fixture::new().await;
    let note = fixture.create("a").await;
    let id = note["id"].as_str().unwrap();
    let seen = fixture.call("note.get", &[id], json!({}), |_| ()).await.unwrap().etag.unwrap();
    let update = async |text: &str| {
        let arguments = json!({"text": text});
        let as_seen = vec![seen.as_bytes().to_vec()];
        fixture
            .call("note.update", &[id], arguments, |to| to.preconditions.if_match = as_seen)
            .await
    };
    assert_eq!(json_of(update("b").await.unwrap())["text"], "b");
    assert_eq!(refusal(update("c").await), (Kind::Precondition, "changed_meanwhile"));
}

#[tokio::test]
async fn a_waiting_request_is_woken_by_a_write() {
    let fixture = Arc::new(Fixture::new().await);
    let waiting = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.call("note.take", &[], json!({"wait": 60}), |_| ()).await }
    });
    let note = fixture.create("a").await;
    assert_eq!(json_of(waiting.await.unwrap().unwrap())["items"], json!([note]));
    assert_eq!(fixture.notes(), 0);
}

#[tokio::test]
async fn a_stream_yields_items_until_access_is_revoked() {
    let fixture = Fixture::new().await;
    let stream = |request: &mut Request| request.is_stream = true;
    let response = fixture.call("note.take", &[], json!({}), stream).await.unwrap();
    let Body::Items("note", mut items) = response.body else { panic!("no stream") };
    assert!(items.next(Instant::now()).await.unwrap().unwrap().is_empty());
    for text in ["a", "b"] {
        let note = fixture.create(text).await;
        let soon = Instant::now() + Duration::from_secs(60);
        let taken = items.next(soon).await.unwrap().unwrap();
        assert_eq!(taken.iter().map(|taken| &taken.json).collect::<Vec<_>>(), [&note]);
        assert_eq!(taken[0].id, note["id"]);
    }
    let org = fixture.org;
    let leave = fixture.executor.store.write(Id::NIL, move |tx| {
        let all: Vec<Membership> = tx.view().all(ListSource::TABLE, &())?;
        all.iter().filter(|membership| membership.org == org).try_for_each(|one| tx.remove(one))
    });
    leave.await.unwrap();
    let ended = items.next(Instant::now() + Duration::from_secs(60)).await.unwrap();
    assert_eq!(ended.err().unwrap().code(), "organization_not_found");
}

#[tokio::test]
async fn only_public_resources_are_read_without_a_credential() {
    let fixture = Fixture::new().await;
    let note = fixture.create("a").await;
    fixture.executor.store.write(Id::NIL, closed).await.unwrap();
    let anonymous = |request: &mut Request| request.credential = RawCredential::Absent;
    let shelf = |slug: &str| fixture.call("shelf.list", &[], json!({"shelf": slug}), anonymous);
    assert_eq!(json_of(shelf("open").await.unwrap())["items"], json!([note]));
    for slug in ["closed", "never"] {
        assert_eq!(refusal(shelf(slug).await), (Kind::Unauthenticated, "unauthenticated"));
    }
}

fn closed(tx: &mut Tx) -> Result<()> {
    let (slug, name) = (Slug::parse("closed").unwrap(), Name::parse("Closed").unwrap());
    let (created_at, updated_at) = (tx.now(), tx.now());
    let (id, updated_by) = (tx.new_id(), None);
    tx.insert(&Organization { id, slug, name, created_at, updated_at, updated_by })
}

#[tokio::test]
async fn nothing_is_executed_before_setup() {
    let fixture = Fixture::new().await;
    let executor = Arc::new(Executor::new(ExecutorConfig {
        system: Arc::default(),
        oidc: Arc::default(),
        coordination: Arc::new(Coordination::new(fixture.executor.store.clone(), 0, true)),
        store: fixture.executor.store.clone(),
        outside: fixture.executor.outside.clone(),
        stopping: fixture.executor.stopping.clone(),
    }));
    let fixture = Fixture { executor, ..fixture };
    let refused = fixture.call("note.create", &[], json!({"text": "a"}), |_| ()).await;
    assert_eq!(refusal(refused), (Kind::Busy, "setup_required"));
}
