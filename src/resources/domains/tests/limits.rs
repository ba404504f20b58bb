//! A domain that never answers: how long a verification waits for it, and that nobody else does.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::*;
use crate::api::execute::{Arguments, Body, Coordination, Executor, ExecutorConfig, Request};
use crate::api::{Action, OrgSlugMode, RawArgs, ServerInfo};
use crate::auth::{RawCredential, Session};
use crate::outside::{ClientConfig, Outside, Resolver};
use crate::resources::listings::Listing;

/// `acme`, for which every name leads to one address, and what executes its requests.
struct Server {
    fixture: Fixture,
    executor: Arc<Executor>,
    coordination: Arc<Coordination>,
    /// A session of the owner.
    token: String,
    runtime: Runtime,
    _running: watch::Sender<bool>,
}

impl Server {
    fn new(address: SocketAddr) -> Self {
        let fixture = Fixture::new();
        let store = fixture.store.clone();
        let allow_private = vec!["127.0.0.0/8".parse().unwrap()];
        let client = Outside::new(ClientConfig { allow_private, extra_roots_pem: None }).unwrap();
        let (running, stopping) = watch::channel(false);
        let coordination = Arc::new(Coordination::new(store.clone(), 0, false));
        let executor = Arc::new(Executor::new(ExecutorConfig {
            system: Arc::default(),
            oidc: Arc::default(),
            coordination: coordination.clone(),
            store: store.clone(),
            outside: client.resolving(Resolver(Arc::new(move |_: &str, _| Ok(vec![address])))),
            stopping,
        }));
        let Principal::Caller(owner) = &fixture.owner else { panic!() };
        let user = owner.identity.user;
        let session = store.write_blocking(Id::NIL, move |tx| {
            let (id, created_at) = (tx.new_id(), tx.now());
            let expires_at = created_at.plus_secs(3600);
            let session = Session { id, user, generation: 0, created_at, expires_at };
            tx.insert(&session).map(|()| session)
        });
        let token = executor.authenticator.tokens.issue(&session.unwrap()).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Server { fixture, executor, coordination, token, runtime, _running: running }
    }

    /// Sends a request as the owner; its answer comes through the channel.
    fn send(&self, route: Arc<Route>, params: &[String], mut body: Value) -> mpsc::Receiver<Value> {
        let (answer, answered) = mpsc::channel();
        let (executor, token, params) =
            (self.executor.clone(), self.token.clone(), params.to_vec());
        body["orgSlug"] = "acme".into();
        self.runtime.spawn(async move {
            let _ = answer.send(execute(&executor, token, &route, params, body).await);
        });
        answered
    }
    /// Claims `acme.test` and lists `count` handles on it.
    fn claimed(&self, count: usize) -> (Id<Domain>, Vec<Value>) {
        let listed = |n: usize| {
            let handle = format!("a{n:02}@acme.test");
            listing::make(&self.fixture, json!({ "handle": handle })).unwrap()
        };
        let claimed = claim(&self.fixture, &self.fixture.owner, "acme.test").unwrap();
        (claimed.id, (0..count).map(listed).collect())
    }
}

async fn execute(
    executor: &Arc<Executor>,
    token: String,
    route: &Arc<Route>,
    params: Vec<String>,
    body: Value,
) -> Value {
    try_execute(executor, token, route, params, body).await.unwrap()
}

async fn try_execute(
    executor: &Arc<Executor>,
    token: String,
    route: &Arc<Route>,
    params: Vec<String>,
    body: Value,
) -> Result<Value> {
    let credential = RawCredential::Token(token);
    let (route, arguments) = (route.clone(), Arguments::Json(body));
    let request = Request::new(route, params.into(), arguments, credential, Arc::default());
    match executor.call(request).await?.body {
        Body::Json(body) => Ok(serde_json::from_slice(&body).unwrap()),
        _ => panic!("no JSON"),
    }
}

/// A domain that accepts connections and says nothing while the receiver holds them.
fn silent() -> (SocketAddr, mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (accept, accepted) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            if accept.send(stream).is_err() {
                return;
            }
        }
    });
    (address, accepted)
}

fn route(name: &str) -> Arc<Route> {
    Arc::new(routes().into_iter().find(|route| route.name == name).unwrap())
}

/// The verification with this limit for all look-ups, in seconds.
fn verification_within(total_secs: u64) -> Arc<Route> {
    let path = "/organizations/domains/{domainId}/verifications";
    let operation = op::write(op::calling(total_secs, verify));
    Arc::new(Route::post(path, ADMIN, "domain.verify", operation))
}

#[test]
fn all_look_ups_together_have_25_seconds_and_each_has_5() {
    let fixture = Fixture::new();
    let (id, body) = (fixture.org.to_string(), json!({"orgSlug": "acme"}));
    let server = Arc::new(ServerInfo::bare(fixture.store.keys().clone()));
    let (params, origin): (Arc<[String]>, _) = ([id].into(), Arc::default());
    let body = RawArgs::body(&params, &body, (&origin, &server));
    let arguments = RawArgs { org: OrgSlugMode::Required, ..body };
    let bound = route("domain.verify").bind(arguments).unwrap();
    let Action::Write(_, total) = bound.action else { panic!("it writes") };
    assert_eq!(total, Some(Duration::from_secs(25)));
    let lookup = nip05::lookup(&base::Handle::parse("a@acme.test").unwrap());
    assert_eq!(lookup.limits.total, Duration::from_secs(5));
}

#[test]
fn a_domain_that_says_nothing_is_asked_once_until_the_limit_of_all_look_ups() {
    let (address, asked) = silent();
    let server = Server::new(address);
    let (domain, listed) = server.claimed(12);
    let begun = Instant::now();
    let verified = server.send(verification_within(1), &[domain.to_string()], json!({}));
    let verified = verified.recv().unwrap();
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(verified["state"], "failed");
    let [result] = verified["results"].as_array().unwrap().as_slice() else { panic!("{verified}") };
    let reason = json!("acme.test gave no complete answer within 1 s");
    assert_eq!((&result["outcome"], &result["reason"]), (&json!("unreachable"), &reason));
    assert_eq!(result["listingId"], listed[0]["id"]);
    // The connections that were made were accepted in order before this one.
    let _last = TcpStream::connect(address).unwrap();
    let connections = [asked.recv().unwrap(), asked.recv().unwrap()];
    assert!(asked.try_recv().is_err(), "more than {} connections", connections.len());
    server.fixture.assert_sound();
}

#[test]
fn nobody_waits_while_a_domain_is_asked_and_what_changes_meanwhile_counts() {
    let (address, asked) = silent();
    let server = Server::new(address);
    let (domain, listed) = server.claimed(2);
    let verifying = server.send(route("domain.verify"), &[domain.to_string()], json!({}));
    let held = asked.recv().unwrap();

    // Writes of the same caller, to the records that are verified, and of others.
    let another = server.send(route("domain.create"), &[], json!({"domain": "b.test"}));
    assert_eq!(another.recv().unwrap()["state"], "unverified");
    let gone: Id<Listing> = Id::parse(listed[0]["id"].as_str().unwrap());
    let remove = move |tx: &mut Tx| tx.fetch::<Listing>(&gone).and_then(|gone| tx.remove(&gone));
    server.fixture.store.write_blocking(server.fixture.org, remove).unwrap();
    let (_, eve) = server.fixture.other_org("globex");
    claim(&server.fixture, &eve, "acme.test").unwrap();
    assert!(verifying.try_recv().is_err(), "it still waits for the domain");

    drop(held);
    // The handle that was asked for is gone, and the other one has its turn.
    drop(asked.recv().unwrap());
    let verified = verifying.recv().unwrap();
    assert_eq!((&verified["state"], outcomes(&verified)), (&json!("failed"), vec!["unreachable"]));
    assert_eq!(verified["results"][0]["listingId"], listed[1]["id"]);
    server.fixture.assert_sound();
}

#[test]
fn an_organization_that_has_looked_up_too_many_handles_looks_up_no_more() {
    let (address, asked) = silent();
    let server = Server::new(address);
    let (domain, _) = server.claimed(2);
    let Principal::Caller(owner) = &server.fixture.owner else { panic!() };
    // The first request of a session is counted for its user.
    for lane in [*server.fixture.org.bytes(), *owner.user().bytes()] {
        while server.coordination.take_lookups(lane, 1).is_ok() {}
    }
    let (token, route) = (server.token.clone(), verification_within(1));
    let verifying = try_execute(
        &server.executor,
        token,
        &route,
        vec![domain.to_string()],
        json!({"orgSlug": "acme"}),
    );
    let refused = server.runtime.block_on(verifying).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "rate_limited"));
    assert!(asked.try_recv().is_err(), "nothing was sent");
    assert_eq!(shown(&server.fixture, &server.fixture.owner, domain)["state"], "unverified");
}
