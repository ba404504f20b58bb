//! Outside agents as the API lets them in, and what is done with what they send.

mod posting;
mod precedence;
mod requests;
mod threads;

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use super::members::{self, accept, block, forget, refuse};
use super::requests::{OutsideRequest, ask};
use super::rules::{self, RuleKind};
use crate::api::{Calls, Principal, Req};
use crate::auth::nostr::testing::{NostrKey, signer};
use crate::base::{Error, Handle, Id, Kind, Result};
use crate::outside::{CallResult, Response, nip05};
use crate::resources::teams::peer::{Peer, PeerState};
use crate::resources::teams::team::Team;
use crate::resources::testing::{Fixture, args};
use crate::store::ListSource;

/// A fixture with the team `crew`.
struct Crew {
    fixture: Fixture,
    team: Id<Team>,
}

/// An outside agent: a key and a handle.
#[derive(Clone)]
struct Sender {
    who: Principal,
    pubkey: String,
    handle: String,
}

impl Sender {
    fn new(number: u64, handle: &str) -> Self {
        let key = NostrKey::new(number);
        let who = Principal::Signer(Arc::new(signer(&key)));
        Sender { who, pubkey: key.pubkey().to_string(), handle: handle.into() }
    }
}

/// What the domain of a handle answers.
fn document(status: u16, body: &Value) -> CallResult {
    let answer = Response { status, headers: vec![], body: body.to_string().into() };
    CallResult { answer: Ok(answer), took: Duration::ZERO }
}

impl Crew {
    fn new() -> Self {
        let fixture = Fixture::new();
        let team = crate::resources::teams::testing::team(&fixture, "crew", None);
        Crew { fixture, team }
    }

    /// Asks, the domain answering as given; also how many look-ups there were.
    fn ask_with(&self, sender: &Sender, more: Value, heard: CallResult) -> (Result<Value>, usize) {
        let mut body = json!({"handle": sender.handle, "message": "Hello"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let input: OutsideRequest = Fixture::input(body).unwrap();
        let args = Arc::new(args(("acme".to_string(), "crew".to_string()), input));
        let lookup = nip05::lookup(&Handle::parse(sender.handle.as_str()).unwrap());
        let run = |heard: Option<CallResult>| {
            let (args, who, lookup) = (args.clone(), sender.who.clone(), lookup.clone());
            self.fixture.store.write_blocking(self.fixture.org, move |tx| {
                let mut calls = Calls::default();
                if let Some(heard) = heard.clone() {
                    calls.hear(&lookup, heard);
                }
                let answered = ask(tx, &Req::new(&args, &who), &mut calls);
                if calls.asked().is_empty() {
                    return answered?.done().map(|state| (json!(state), 0));
                }
                Err(Error::internal("there are calls to make"))
            })
        };
        match run(None) {
            Err(error) if error.kind() == Kind::Internal => {
                (run(Some(heard)).map(|(state, _)| state), 1)
            }
            answered => (answered.map(|(state, _)| state), 0),
        }
    }

    /// Asks, the domain confirming the handle.
    fn ask(&self, sender: &Sender, more: Value) -> Result<Value> {
        let name = sender.handle.split_once('@').unwrap().0;
        let names = json!({"names": {name: sender.pubkey}});
        self.ask_with(sender, more, document(200, &names)).0
    }

    fn rule(&self, domain: &str, rule: &str, org_wide: bool) {
        let body = json!({"domain": domain, "rule": rule, "orgWide": org_wide});
        let input = Fixture::input(body).unwrap();
        self.fixture.write_as(&self.fixture.owner, rules::set, self.team, input).unwrap();
    }

    fn accept(&self, peer: &Value) {
        self.fixture.write(accept, (self.team, id(peer)), ()).unwrap();
    }

    fn refuse(&self, peer: &Value, reason: &str) {
        let input = Fixture::input(json!({"reason": reason})).unwrap();
        self.fixture.write(refuse, (self.team, id(peer)), input).unwrap();
    }

    fn peers(&self) -> Vec<Peer> {
        self.fixture
            .store
            .read_now(self.fixture.org, |view| view.all(ListSource::TABLE, &self.team))
            .unwrap()
    }
}

fn id(peer: &Value) -> Id<Peer> {
    Id::parse(peer["id"].as_str().unwrap())
}

/// The kind and the code of a refusal.
#[track_caller]
fn refusal<T>(result: Result<T>) -> (Kind, &'static str) {
    let error = result.err().expect("it is refused");
    (error.kind(), error.code())
}
