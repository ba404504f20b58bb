//! Filling a store through the routes of the product, without HTTP and many requests in a transaction.

use std::sync::Arc;
use std::time::Instant;

use roadstead::api::{Action, Calls, EncodedOutput, Principal, RawArgs, Route, ServerInfo};
use roadstead::auth::{Caller, Credential, Identity, Role};
use roadstead::base::{Email, Id, Keys, Name, Result, Slug};
use roadstead::resources::organizations::{self, Bootstrapped, NewFoundation};
use roadstead::store::{Store, Tx};
use serde_json::Value;

/// A store, with the organization that is filled.
pub struct Filling<'a> {
    pub store: &'a Store,
    pub founded: &'a Bootstrapped,
}

impl Filling<'_> {
    /// Runs a writing route for each of these bodies as the owner in a session, without HTTP and
    /// `at_once` per transaction. Returns `select` of each response.
    pub fn store<T>(
        &self,
        route: &str,
        params: &[&str],
        bodies: impl Iterator<Item = Value>,
        at_once: usize,
        select: impl Fn(Value) -> T,
    ) -> Vec<T> {
        let bodies = bodies.map(|body| (params.to_vec(), body));
        self.store_at(route, bodies, at_once, select)
    }

    /// Like `store`, with the parameters of the path for each body.
    pub fn store_at<T>(
        &self,
        route: &str,
        bodies: impl Iterator<Item = (Vec<impl AsRef<str>>, Value)>,
        at_once: usize,
        select: impl Fn(Value) -> T,
    ) -> Vec<T> {
        let start = Instant::now();
        let route = roadstead::resources::routes().into_iter().find(|known| known.name == route);
        let route = route.expect("there is such a route");
        let who = self.owner();
        let mut stored = Vec::new();
        let mut bodies = bodies.peekable();
        while bodies.peek().is_some() {
            let mut actions: Vec<_> = bodies
                .by_ref()
                .take(at_once)
                .map(|(params, body)| {
                    let params: Vec<_> = params.iter().map(AsRef::as_ref).collect();
                    bind(&route, &params, &body, self.store.keys())
                })
                .collect();
            let who = who.clone();
            let answers = self.store.write_blocking(self.founded.organization.id, move |tx| {
                actions
                    .iter_mut()
                    .map(|action| carry_out(action, tx, &who))
                    .collect::<Result<Vec<_>>>()
            });
            let answers = answers.expect("it can be stored");
            let answers = answers.iter().map(|answer| {
                select(serde_json::from_slice(&answer.body).expect("answers are JSON"))
            });
            stored.extend(answers);
        }
        if stored.len() > 1 {
            let secs = start.elapsed().as_secs_f64();
            eprintln!("  {}: {} in {secs:.0} s", route.name, stored.len());
        }
        stored
    }

    /// The owner of the organization.
    fn owner(&self) -> Principal {
        let founded = &self.founded;
        let identity = Identity {
            user: founded.user.id,
            name: founded.user.name.to_string(),
            credential: Credential::Session(Id::NIL),
            sponsor: None,
            expires_at: None,
            proved_at: None,
        };
        Principal::Caller(Arc::new(Caller {
            identity,
            org: founded.organization.id,
            org_slug: founded.organization.slug.clone(),
            role: Role::Owner,
            lacks_second_factor: false,
        }))
    }
}

fn bind(route: &Route, params: &[&str], body: &Value, keys: &Keys) -> Action {
    let params: Arc<[String]> = params.iter().map(|param| param.to_string()).collect();
    let (origin, server) = (Arc::default(), Arc::new(ServerInfo::bare(keys.clone())));
    let bound = route.bind(RawArgs::body(&params, body, (&origin, &server)));
    bound.expect("the body is what the route takes").action
}

fn carry_out(action: &mut Action, tx: &mut Tx, who: &Principal) -> Result<EncodedOutput> {
    match action {
        Action::Write(write, _) => write(tx, who, &mut Calls::default())?.done(),
        _ => panic!("the route writes"),
    }
}

/// Founds the organization `acme`, whose owner has a key.
pub fn bootstrap(store: &Store) -> Bootstrapped {
    let name = |text: &str| Name::parse(text).expect("it is a name");
    let founding = NewFoundation {
        slug: Slug::parse("acme").expect("it is a slug"),
        name: name("Acme"),
        email: Email::parse("ada@acme.test").expect("it is an address"),
        user_name: name("Ada"),
        password_hash: None,
        api_key: Some(name("bench")),
    };
    store
        .write_blocking(Id::NIL, move |tx| organizations::bootstrap(tx, &founding))
        .expect("the store is empty")
}
