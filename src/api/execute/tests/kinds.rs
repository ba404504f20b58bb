//! Every kind of operation: with outgoing calls, uploads, downloads, passwords.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

use bytes::Bytes;

use super::*;
use crate::api::op::Upload;
use crate::api::{Attempt, Calls, HashPlan, Offset, Outcome, Piece, Uploaded};
use crate::auth::passwords::{HashRequest, HashResult};
use crate::auth::{ANYONE, Credential, Identity, Sponsor, find_person};
use crate::outside::{BodyLimit, Call, Limits, Method};
use crate::store::{LARGE_BYTES, WorkHints};

/// Fetches the text of a new note from the address in the request.
fn fetch(tx: &mut Tx, req: &Req<(), NewNote>, calls: &mut Calls) -> Result<Outcome<Note>> {
    let limits =
        Limits { total: Duration::from_secs(30), answer: BodyLimit::UpTo(1024), https_only: false };
    let url = req.input.text.clone();
    let call = Call { method: Method::GET, url, headers: vec![], body: vec![], limits };
    let text = match calls.send(call) {
        None => "not known yet".into(),
        Some(result) => {
            let answer =
                result.answer.map_err(|failure| Error::conflict("failed", failure.to_string()))?;
            String::from_utf8(answer.body).expect("the peer sends text")
        }
    };
    let note = Note { id: tx.new_id(), text };
    tx.insert(&note)?;
    Ok(Outcome::Done(note))
}

/// Where everybody is signed out during the next run of `fetch_meanwhile`.
static MEANWHILE: Mutex<Option<Store>> = Mutex::new(None);

/// Does the same as `fetch`; another request signs everybody out during its first run.
fn fetch_meanwhile(
    tx: &mut Tx,
    req: &Req<(), NewNote>,
    calls: &mut Calls,
) -> Result<Outcome<Note>> {
    let outcome = fetch(tx, req, calls);
    if let Some(store) = MEANWHILE.lock().unwrap().take() {
        let sign_out = |tx: &mut Tx| {
            let sessions = tx.view().all::<Session>(ListSource::TABLE, &())?;
            sessions.iter().try_for_each(|session| tx.remove(session))
        };
        // A thread of a runtime may not block.
        let signed_out = std::thread::spawn(move || store.write_blocking(Id::NIL, sign_out));
        signed_out.join().unwrap().unwrap();
    }
    outcome
}

const UPLOADED: Upload = Upload { max_bytes: 1024 * 1024, media_types: &["text/plain"] };

fn upload(tx: &mut Tx, req: &Req) -> Result<Note> {
    let note = Note { id: tx.new_id(), text: String::from_utf8_lossy(&req.upload.bytes).into() };
    tx.insert(&note)?;
    Ok(note)
}

/// A note, one byte at a time.
fn download(view: &View, req: &Req<Id<Note>>, at: Offset) -> Result<Piece> {
    let text = view.fetch::<Note>(&req.params)?.text.into_bytes();
    let next = at as usize + 1;
    let bytes = Bytes::copy_from_slice(&text[next - 1..next]);
    Ok(Piece { bytes, next: (next < text.len()).then_some(next as Offset) })
}

#[derive(Deserialize, JsonSchema)]
struct Passwords {
    old: String,
    new: String,
}
impl Input for Passwords {}

fn prepare(view: &View, req: &Req<(), Passwords>) -> Result<HashPlan> {
    let hash = find_person(view, &ada())?.and_then(|user| user.password);
    let hashing = HashRequest {
        verify: hash.map(|hash| (req.input.old.clone(), Some(hash))),
        make: Some(req.input.new.clone()),
    };
    Ok(HashPlan { hashing, attempt: Some(Attempt::Email(ada(), false)) })
}

fn set_password(
    tx: &mut Tx,
    _: &Req<(), Passwords>,
    hashed: &HashResult,
) -> Result<(Note, Id<User>)> {
    let user = find_person(&tx.view(), &ada())?.expect("it is there");
    if hashed.fits != user.password {
        return Err(Error::unauthenticated("the password is wrong"));
    }
    tx.replace(&user, &User { password: hashed.made.clone(), ..user.clone() })?;
    Ok((Note { id: tx.new_id(), text: "changed".into() }, user.id))
}

fn ada() -> Email {
    Email::parse("ada@open.test").unwrap()
}

/// A fixture with routes of every kind, and so many requests per second allowed.
async fn fixture(rate: u32) -> Fixture {
    fixture_over(rate, Store::clone).await
}

/// The same over another engine of its store.
async fn fixture_over(rate: u32, other: impl FnOnce(&Store) -> Store) -> Fixture {
    let fixture = Fixture::new().await;
    let more = [
        Route::post("/notes/fetch", MEMBER, "note.fetch", op::write(op::calling(30, fetch))),
        Route::post(
            "/notes/fetch/meanwhile",
            MEMBER,
            "note.fetch_meanwhile",
            op::write(op::calling(1, fetch_meanwhile)),
        ),
        Route::post("/fetch", ANYONE, "note.fetch_openly", op::write(op::calling(30, fetch))),
        Route::put("/notes/text", MEMBER, "note.upload", op::upload(UPLOADED, upload)),
        Route::get(
            "/notes/{noteId}/text",
            MEMBER,
            "note.download",
            op::download("text/plain", download),
        ),
        Route::post("/password", ANYONE, "password.set", op::hash(prepare, set_password)),
    ];
    let store = other(&fixture.executor.store);
    let allow_private = vec!["127.0.0.0/8".parse().unwrap()];
    let executor = Arc::new(Executor::new(ExecutorConfig {
        system: Arc::default(),
        oidc: Arc::default(),
        coordination: Arc::new(Coordination::new(store.clone(), rate, false)),
        store,
        outside: Outside::new(outside::ClientConfig { allow_private, extra_roots_pem: None })
            .unwrap(),
        stopping: fixture.executor.stopping.clone(),
    }));
    let routes = fixture.routes.iter().cloned().chain(more.map(Arc::new)).collect();
    Fixture { executor, routes, ..fixture }
}

/// A peer that answers each request with its number.
fn peer() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (nth, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let nth = nth.to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{nth}", nth.len());
            let _ = stream.write_all(head.as_bytes());
        }
    });
    address
}

#[tokio::test]
async fn a_route_with_calls_commits_only_the_run_that_knows_all_results() {
    let fixture = fixture(0).await;
    let url = format!("http://{}/", peer());
    let made = fixture.call("note.fetch", &[], json!({"text": url}), |_| ()).await.unwrap();
    assert_eq!(json_of(made)["text"], "0");
    assert_eq!(fixture.notes(), 1);
    let refused = fixture.call("note.fetch", &[], json!({"text": "no address"}), |_| ()).await;
    assert_eq!(refusal(refused), (Kind::Conflict, "failed"));
    assert_eq!(fixture.notes(), 1);
}

#[tokio::test]
async fn calls_of_a_route_that_is_open_to_anyone_are_limited_whatever_credential_is_sent() {
    let fixture = fixture(0).await;
    let failed = (Kind::Conflict, "failed");
    let ask = |name| fixture.call(name, &[], json!({"text": "no address"}), |_| ());
    let mut refusals = Vec::new();
    for _ in 0..30 {
        refusals.push(refusal(ask("note.fetch_openly").await));
    }
    assert_eq!(refusals[0], failed);
    assert!(refusals.iter().any(|(kind, _)| *kind == Kind::Limited), "{refusals:?}");
    // Others of the member are not.
    assert_eq!(refusal(ask("note.fetch").await), failed);
}

#[tokio::test]
async fn a_run_that_is_refused_makes_no_calls_of_the_run_before() {
    let fixture = fixture_over(0, Store::rehearsing_all).await;
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", peer.local_addr().unwrap());
    *MEANWHILE.lock().unwrap() = Some(fixture.executor.store.clone());
    let refused = fixture.call("note.fetch_meanwhile", &[], json!({"text": url}), |_| ()).await;
    assert_eq!(refusal(refused).0, Kind::Unauthenticated);
    assert!(MEANWHILE.lock().unwrap().is_none());
    peer.set_nonblocking(true).unwrap();
    assert!(peer.accept().is_err(), "it was called");
}

#[tokio::test]
async fn an_upload_is_downloaded_as_it_was() {
    let fixture = fixture(0).await;
    let uploaded = |request: &mut Request| {
        request.query = "orgSlug=open".into();
        request.arguments = Arguments::Upload(Uploaded {
            bytes: Bytes::from_static(b"as it was"),
            media_type: "text/plain",
            charset: None,
        });
    };
    let note = json_of(fixture.call("note.upload", &[], json!({}), uploaded).await.unwrap());
    let id = note["id"].as_str().unwrap();
    let response = fixture.call("note.download", &[id], json!({}), |_| ()).await.unwrap();
    let Body::Download(mut stream) = response.body else { panic!("no download") };
    let mut text = Vec::new();
    while let Some(bytes) = stream.next().await.unwrap() {
        text.extend_from_slice(&bytes);
    }
    assert_eq!((text, stream.media_type), (b"as it was".to_vec(), "text/plain"));
}

#[tokio::test]
async fn a_password_is_verified_and_hashed_and_its_attempts_are_counted() {
    let fixture = fixture(0).await;
    let anonymous = |request: &mut Request| request.credential = RawCredential::Absent;
    let set = |old: &str, new: &str| {
        let mut arguments = json!({"old": old, "new": new});
        arguments["orgSlug"] = Value::Null;
        fixture.call("password.set", &[], arguments, anonymous)
    };
    assert_eq!(json_of(set("", "correct horse battery").await.unwrap())["text"], "changed");
    assert_eq!(refusal(set("wrong", "another").await).0, Kind::Unauthenticated);
    set("correct horse battery", "another").await.unwrap();
    let refused = loop {
        if let Err(error) = set("wrong", "another").await
            && error.kind() != Kind::Unauthenticated
        {
            break error;
        }
    };
    assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "rate_limited"));
}

#[tokio::test]
async fn requests_over_the_rate_of_a_credential_are_refused() {
    let fixture = fixture(1).await;
    let get = || fixture.call("note.get", &["never"], json!({}), |_| ());
    let refused = loop {
        if let Err(error) = get().await
            && error.kind() != Kind::NotFound
        {
            break error;
        }
    };
    assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "rate_limited"));
    assert!(refused.retry_after_secs() >= Some(1));
}

#[tokio::test]
async fn a_large_body_is_read_in_its_turn() {
    let fixture = fixture(0).await;
    let permits = fixture.executor.store.take_turns().await;
    let text = "x".repeat(LARGE_BYTES);
    let mut large = Box::pin(fixture.call("note.create", &[], json!({"text": text}), |_| ()));
    assert!(tokio::time::timeout(Duration::ZERO, &mut large).await.is_err());
    fixture.create("small").await;
    assert_eq!(fixture.notes(), 1);
    drop(permits);
    large.await.unwrap();
    assert_eq!(fixture.notes(), 2);
}

#[tokio::test]
async fn work_takes_the_turns_of_the_organization_in_which_a_session_was_used() {
    let fixture = Fixture::new().await;
    let lane = || {
        let identify = |view: &View| {
            let identity = fixture.executor.authenticator.identify(view, &fixture.member)?;
            Ok((
                identity.user,
                fixture.executor.authenticator.lane(&fixture.member, Some(&identity)),
            ))
        };
        fixture.executor.store.read_now(Id::NIL, identify).unwrap()
    };
    let (user, before) = lane();
    assert_eq!(before, *user.bytes());
    fixture.create("a").await;
    assert_eq!(lane().1, *fixture.org.bytes());
    // The key of a service account is in the turn of the admin who answers for it, too.
    let (org, admin) = (fixture.org, Id::new(Uuid::from_u128(1)));
    let credential = Credential::Key {
        id: Id::new(Uuid::from_u128(2)),
        name: "a".into(),
        org,
        approve_as: false,
        access: Arc::default(),
    };
    let service = Id::new(Uuid::from_u128(3));
    let sponsor = Some(Sponsor { user: admin, name: "b".into(), role: Role::Admin });
    let identity = Identity {
        user: service,
        name: "a".into(),
        credential,
        sponsor,
        expires_at: None,
        proved_at: None,
    };
    let (route, raw) = (fixture.routes[0].clone(), RawCredential::Key([0; 32]));
    let arguments = Arguments::Json(json!({}));
    let request = Request::new(route, Arc::default(), arguments, raw, Arc::default());
    let work = fixture.executor.work_hints(&request, Some(&identity));
    assert_eq!((work.lane, work.user), (*org.bytes(), *admin.bytes()));
    let anonymous = fixture.executor.authenticator.lane(&RawCredential::Absent, None);
    assert_eq!(anonymous, WorkHints::ANONYMOUS);
    assert_ne!(anonymous, *Id::<Org>::NIL.bytes(), "that is the lane of the server's own work");
}
