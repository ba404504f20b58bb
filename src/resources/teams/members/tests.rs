//! Agents in a team: who may be in it, what is published, which secret is shown.

use serde_json::Value;

use super::*;
use crate::outbox::EventType::{TeamAgentHired, TeamAgentSkillsGranted, TeamAgentTerminated};
use crate::resources::teams::member::wake_key;
use crate::resources::teams::testing::{add_agent, agent, code, events, published, team};
use crate::resources::testing::Fixture;

fn try_add(fixture: &Fixture, team: Id<Team>, body: Value) -> Result<TeamAgentCreated> {
    fixture.write(super::add_agent, team, Fixture::input(body)?)
}

fn patch(
    fixture: &Fixture,
    team: Id<Team>,
    member: Id<Member>,
    body: Value,
) -> Result<TeamAgentCreated> {
    fixture.write(update, (team, member), Fixture::input(body)?)
}

#[test]
fn an_agent_is_in_a_team_once_and_a_team_has_one_scrum_master() {
    let fixture = Fixture::new();
    let (crew, other) = (team(&fixture, "crew", None), team(&fixture, "other", None));
    for key in ["ann", "bob"] {
        agent(&fixture, key);
    }
    let as_role = |key: &str, role: &str| json!({"stableKey": key, "role": role});
    try_add(&fixture, crew, as_role("ann", "scrum_master")).unwrap();

    let again = try_add(&fixture, crew, as_role("ann", "member"));
    assert_eq!(code(again), "agent_in_team");
    let second = try_add(&fixture, crew, as_role("bob", "scrum_master"));
    assert_eq!(code(second), "scrum_master_taken");
    let bob = try_add(&fixture, crew, as_role("bob", "member")).unwrap().agent.id;
    let promoted = patch(&fixture, crew, bob, json!({"role": "scrum_master"}));
    assert_eq!(code(promoted), "scrum_master_taken");
    assert_eq!(code(try_add(&fixture, crew, as_role("nobody", "member"))), "not_found");
    try_add(&fixture, other, as_role("ann", "scrum_master")).unwrap();
    fixture.assert_sound();
}

#[test]
fn a_place_that_became_free_can_be_taken() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    patch(&fixture, crew, ann, json!({"role": "scrum_master"})).unwrap();
    patch(&fixture, crew, ann, json!({"role": "member"})).unwrap();
    patch(&fixture, crew, bob, json!({"role": "scrum_master"})).unwrap();
    fixture.write(delete, (crew, bob), ()).unwrap();
    let body = json!({"stableKey": "bob", "role": "scrum_master"});
    assert_ne!(try_add(&fixture, crew, body).unwrap().agent.id, bob);
    fixture.assert_sound();
}

#[test]
fn the_wake_secret_is_of_one_host_and_shown_with_its_first_wake_url_alone() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    agent(&fixture, "ann");
    let url = json!({"stableKey": "ann", "role": "member", "wakeUrl": "https://a.test/wake"});
    let made = try_add(&fixture, crew, url).unwrap();
    let secret = made.wake_secret.unwrap();
    let bob = add_agent(&fixture, crew, "bob");

    let same_host = json!({"wakeUrl": "https://a.test/other"});
    assert!(patch(&fixture, crew, made.agent.id, same_host).unwrap().wake_secret.is_none());
    assert!(patch(&fixture, crew, bob, json!({"skills": []})).unwrap().wake_secret.is_none());
    let url = json!({"wakeUrl": "https://b.test/wake"});
    let mut shown = vec![secret.clone()];
    shown.extend(patch(&fixture, crew, bob, url.clone()).unwrap().wake_secret);
    let cleared = patch(&fixture, crew, bob, json!({"wakeUrl": null})).unwrap();
    assert!(cleared.wake_secret.is_none() && cleared.agent.wake_url.is_none());
    shown.extend(patch(&fixture, crew, bob, url).unwrap().wake_secret);
    let other_host = json!({"wakeUrl": "https://c.test/wake"});
    shown.extend(patch(&fixture, crew, bob, other_host).unwrap().wake_secret);
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 4, "each of another URL, or host, is another");

    let key = fixture
        .store
        .read_now(fixture.org, |view| wake_key(view, &fetch_member(view, crew, made.agent.id)?));
    assert_eq!(key.unwrap(), webhook::secret_key(&secret));
}

#[test]
fn only_new_skills_are_an_event() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    for skills in [json!(["rust", "sql"]), json!(["sql"]), json!(["sql", "go"])] {
        patch(&fixture, crew, ann, json!({"skills": skills})).unwrap();
    }
    fixture.write(delete, (crew, ann), ()).unwrap();

    let granted = [TeamAgentSkillsGranted, TeamAgentSkillsGranted];
    let expected = [[TeamAgentHired].as_slice(), &granted, &[TeamAgentTerminated]].concat();
    assert_eq!(published(&fixture), expected);
    let events = events(&fixture);
    assert_eq!(events[1].payload.0["skills"], json!(["rust", "sql"]));
    assert_eq!(events[2].payload.0["skills"], json!(["go"]));
    assert_eq!(events[2].payload.0["agentId"], json!(ann));
}

#[test]
fn an_agent_is_shown_with_every_field_and_no_secret() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    agent(&fixture, "ann");
    let url = json!({"stableKey": "ann", "role": "member", "wakeUrl": "https://a.test/wake"});
    let id = try_add(&fixture, crew, url).unwrap().agent.id;
    let shown = fixture.read(get, (crew, id), ()).unwrap();
    let expected = json!({
        "id": id, "teamId": crew, "stableKey": "ann", "name": "ann", "role": "member",
        "skills": [], "wakeUrl": "https://a.test/wake", "maxAttempts": 10,
        "budget": null, "failedWakes": 0, "paused": null,
        "hiredAt": "2026-01-15T12:00:00.000Z",
    });
    assert_eq!(serde_json::to_value(shown).unwrap(), expected);
}

#[test]
fn ids_outside_of_the_team_are_not_found() {
    let fixture = Fixture::new();
    let (crew, other) = (team(&fixture, "crew", None), team(&fixture, "other", None));
    let ann = add_agent(&fixture, crew, "ann");
    for at in [(other, ann), (Id::NIL, ann), (crew, Id::NIL)] {
        assert_eq!(code(fixture.read(get, at, ())), "not_found");
        assert_eq!(code(patch(&fixture, at.0, at.1, json!({}))), "not_found");
        assert_eq!(code(fixture.write(delete, at, ())), "not_found");
    }
    assert_eq!(code(fixture.read(list, Id::NIL, ())), "not_found");
    assert_eq!(fixture.read(list, crew, ()).unwrap().items.len(), 1);
}

#[test]
fn at_most_50_skills_are_taken() {
    let skills = |n: usize| json!({"skills": vec!["x"; n]});
    assert!(Fixture::input::<TeamAgentPatch>(skills(50)).is_ok());
    let error = Fixture::input::<TeamAgentPatch>(skills(51)).err().unwrap();
    assert_eq!(error.issues()[0].path, "skills");
}
