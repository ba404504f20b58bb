//! What tests of teams begin with.

use serde_json::{Value, json};

use super::budget::OnExhausted;
use super::member::Member;
use super::message::Message;
use super::task::Task;
use super::team::Team;
use super::wakes::{self, Wake};
use super::{members, messages, tasks};
use crate::api::{Input, Principal, Req};
use crate::auth::Restricted;
use crate::base::{Id, Name, Result, Slug, StableKey};
use crate::outbox::{Event, EventType};
use crate::resources::agents::{Agent, AgentStatus};
use crate::resources::testing::{Fixture, args};
use crate::store::{ListSource, Tx};

/// A team that may spend `monthly_usd` a month.
pub fn team(fixture: &Fixture, slug: &'static str, monthly_usd: Option<f64>) -> Id<Team> {
    let made = fixture.store.write_blocking(fixture.org, move |tx| {
        let team = Team {
            id: tx.new_id(),
            slug: Slug::parse(slug).unwrap(),
            name: Name::parse(slug).unwrap(),
            description: None,
            monthly_usd,
            created_at: tx.now(),
            updated_at: tx.now(),
            paused: None,
            on_exhausted: OnExhausted::Notify,
            time_zone: None,
            updated_by: None,
        };
        tx.insert(&team)?;
        Ok(team.id)
    });
    made.unwrap()
}

/// An agent of the organization, in no team. Its name is its stable key.
pub fn agent(fixture: &Fixture, stable_key: &'static str) -> Id<Agent> {
    let made = fixture.store.write_blocking(fixture.org, move |tx| insert_agent(tx, stable_key));
    made.unwrap()
}

/// The same in a transaction of the test's own.
pub fn insert_agent(tx: &mut Tx, stable_key: &str) -> Result<Id<Agent>> {
    let agent = Agent {
        id: tx.new_id(),
        stable_key: StableKey::parse(stable_key).unwrap(),
        name: Name::parse(stable_key).unwrap(),
        description: None,
        fleet_id: None,
        draft: Default::default(),
        draft_revision: 1,
        latest_version: None,
        status: AgentStatus::Undeployed,
        created_at: tx.now(),
        updated_at: tx.now(),
        places: Some(vec![]),
        paused: None,
        updated_by: None,
        tags: vec![],
    };
    let id = agent.id;
    tx.insert(&Restricted::new(agent))?;
    Ok(id)
}

/// A member of a team, its agent being made for it.
pub fn add_agent(fixture: &Fixture, team: Id<Team>, stable_key: &'static str) -> Id<Member> {
    agent(fixture, stable_key);
    add_agent_with(fixture, team, json!({"stableKey": stable_key, "role": "member"}))
}

/// The team's Scrum Master, its agent being made for it.
pub fn add_scrum_master(fixture: &Fixture, team: Id<Team>, stable_key: &'static str) -> Id<Member> {
    agent(fixture, stable_key);
    add_agent_with(fixture, team, json!({"stableKey": stable_key, "role": "scrum_master"}))
}

/// A member hired with this body.
pub fn add_agent_with(fixture: &Fixture, team: Id<Team>, body: Value) -> Id<Member> {
    let made = fixture.write(members::add_agent, team, Fixture::input(body).unwrap()).unwrap();
    let made = serde_json::to_value(made).unwrap();
    Id::parse(made["id"].as_str().unwrap())
}

/// A task made with this body.
pub fn task(fixture: &Fixture, team: Id<Team>, body: Value) -> Task {
    fixture.write(tasks::create, team, Fixture::input(body).unwrap()).unwrap().task
}

/// A message sent with this body.
pub fn message(fixture: &Fixture, team: Id<Team>, body: Value) -> Message {
    fixture.write(messages::send, team, Fixture::input(body).unwrap()).unwrap()
}

/// Does an operation `times` times in one transaction: the store of tests copies all it has at each
/// commit.
pub fn repeat<P, I, O>(
    fixture: &Fixture,
    operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
    at: P,
    body: Value,
    times: usize,
) where
    P: Send + 'static,
    I: Input,
    O: 'static,
{
    let (parts, who) = (args(at, Fixture::input(body).unwrap()), fixture.member.clone());
    let done = fixture.store.write_blocking(fixture.org, move |tx| {
        (0..times).try_for_each(|_| operation(tx, &Req::new(&parts, &who)).map(|_| ()))
    });
    done.unwrap();
}

/// The wakes that an agent gets when it asks.
pub fn take(fixture: &Fixture, team: Id<Team>, agent: Id<Member>) -> Vec<Wake> {
    fixture.write(wakes::take, (team, agent), Fixture::input(json!({})).unwrap()).unwrap().items
}

/// What happened, oldest first.
pub fn events(fixture: &Fixture) -> Vec<Event> {
    fixture.store.read_now(fixture.org, |view| view.all(ListSource::TABLE, &())).unwrap()
}

/// The types of what happened, oldest first.
pub fn published(fixture: &Fixture) -> Vec<EventType> {
    events(fixture).into_iter().map(|event| event.event_type).collect()
}

/// The code of a refusal.
pub fn code<T>(result: Result<T>) -> &'static str {
    result.err().expect("an error").code()
}

/// Adds an agent of the organization to a team, as a member.
pub fn hire(fixture: &Fixture, team: Id<Team>, stable_key: &str) -> Result<Value> {
    let body = json!({"stableKey": stable_key, "role": "member"});
    let hired = fixture.write(members::add_agent, team, Fixture::input(body)?)?;
    Ok(json!(hired))
}

/// Adds an agent whose wakes are posted.
pub fn hire_with_url(fixture: &Fixture, team: Id<Team>, stable_key: &str, url: &str) {
    let body = json!({"stableKey": stable_key, "role": "member", "wakeUrl": url});
    fixture.write(members::add_agent, team, Fixture::input(body).unwrap()).unwrap();
}

/// Has the wakes of the first agent in a team posted elsewhere, as a member.
pub fn redirect_wakes(fixture: &Fixture, team: Id<Team>, url: &str) -> Result<()> {
    let first = fixture.read_as(&fixture.owner, members::list, team, ()).unwrap().items.remove(0);
    let id = serde_json::from_value(json!(first)["id"].clone()).unwrap();
    let patch = Fixture::input(json!({"wakeUrl": url})).unwrap();
    fixture.write(members::update, (team, id), patch).map(drop)
}

/// Returns the `wakeUrl` of each agent in a team, as somebody sees them.
pub fn wake_urls(fixture: &Fixture, who: &Principal, team: Id<Team>) -> Vec<Value> {
    let page = fixture.read_as(who, members::list, team, ()).unwrap();
    page.items.iter().map(|member| json!(member)["wakeUrl"].clone()).collect()
}

/// Returns the names of the agents in a team, as a member sees them.
pub fn member_names(fixture: &Fixture, team: Id<Team>) -> Vec<Value> {
    let page = fixture.read(members::list, team, ()).unwrap();
    page.items.iter().map(|member| json!(member)["name"].clone()).collect()
}
