//! Whom tasks are assigned to, what they hear of it, and what becomes of their tasks when they leave.

use serde_json::Value;

use super::*;
use crate::api::Principal;
use crate::auth::Role;
use crate::base::Email;
use crate::resources::teams::testing::{add_agent, code, events, repeat, task, team};
use crate::resources::teams::{manage, tasks};
use crate::resources::testing::{Fixture, user};

fn patch(fixture: &Fixture, task: &Task, body: Value) -> Result<Task> {
    Ok(fixture.write(tasks::update, (task.team_id, task.id), Fixture::input(body)?)?.task)
}

fn stored(fixture: &Fixture, task: &Task) -> Task {
    let key = (task.team_id, task.id);
    fixture.store.read_now(fixture.org, |view| view.fetch(&key)).unwrap()
}

/// The events about tasks of people: whose each is.
fn told(fixture: &Fixture) -> Vec<Value> {
    let all = events(fixture).into_iter();
    let of_tasks = all.filter(|event| event.event_type == EventType::TeamTaskAssigned);
    of_tasks.map(|event| event.payload.0["userName"].clone()).collect()
}

#[test]
fn a_person_has_a_task_beside_an_agent_or_without_one_and_hears_of_it_unless_they_took_it() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let agent = add_agent(&fixture, crew, "ann");
    let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
    let both = json!({"title": "one", "assigneeAgentId": agent, "assigneeUserId": ada});
    let one = task(&fixture, crew, both);
    assert_eq!((one.assignee_agent_id, one.assignee_user_id), (Some(agent), Some(ada)));
    // Ben makes the changes.
    let own = task(&fixture, crew, json!({"title": "two", "assigneeUserId": ben}));
    assert_eq!(told(&fixture), ["ada"]);
    let renamed = patch(&fixture, &own, json!({"title": "three"})).unwrap();
    assert_eq!(renamed.assignee_user_id, Some(ben));
    patch(&fixture, &own, json!({"assigneeUserId": ada})).unwrap();
    assert_eq!(told(&fixture), ["ada", "ada"]);
    // An agent that acts for him is not he.
    let given = json!({"assigneeUserId": ben, "fromAgentId": agent});
    patch(&fixture, &one, given).unwrap();
    assert_eq!(told(&fixture), ["ada", "ada", "ben"]);
    let freed = patch(&fixture, &one, json!({"assigneeUserId": null})).unwrap();
    assert_eq!((freed.assignee_agent_id, freed.assignee_user_id), (Some(agent), None));
    fixture.assert_sound();
}

#[test]
fn only_people_of_the_organization_are_assigned() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (_, eve) = fixture.other_org("other");
    let viewer = fixture.person("vera", Role::Viewer);
    let one = task(&fixture, crew, json!({"title": "one", "assigneeUserId": user(&viewer)}));
    let ben = user(&fixture.member);
    let bot = fixture.store.write_blocking(fixture.org, move |tx| {
        let (id, org) = (tx.new_id(), tx.org());
        let email = Email::parse("bot@acme.test").map_err(Error::internal)?;
        let bot = User { id, email, service_of: Some(org), ..tx.fetch::<User>(&ben)? };
        tx.insert(&bot)?;
        let (role, joined_at) = (Role::Member, tx.now());
        tx.insert(&Membership { user: id, org, role, email_verified: false, joined_at })?;
        Ok(id)
    });
    for (id, expected) in
        [(user(&eve), "not_found"), (Id::NIL, "not_found"), (bot.unwrap(), "invalid_request")]
    {
        let body = json!({"title": "new", "assigneeUserId": id});
        assert_eq!(code(patch(&fixture, &one, body.clone())), expected);
        let new = Fixture::input(body).unwrap();
        assert_eq!(code(fixture.write(tasks::create, crew, new)), expected);
    }
    assert_eq!(stored(&fixture, &one), one);
    fixture.assert_sound();
}

#[test]
fn who_leaves_loses_open_tasks_and_gets_none_back() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let cleo = fixture.person("cleo", Role::Member);
    let of_cleo = |title| json!({"title": title, "assigneeUserId": user(&cleo)});
    let open = task(&fixture, crew, of_cleo("open"));
    let closed = task(&fixture, crew, of_cleo("closed"));
    let closed = patch(&fixture, &closed, json!({"status": "done"})).unwrap();
    fixture.leave(&cleo).unwrap();
    assert_eq!(stored(&fixture, &open).assignee_user_id, None);
    // A closed one keeps them as history, until it is opened again.
    assert_eq!(stored(&fixture, &closed).assignee_user_id, Some(user(&cleo)));
    fixture.assert_sound();
    let again = patch(&fixture, &closed, json!({"status": "open"})).unwrap();
    assert_eq!(again.assignee_user_id, None);
    fixture.assert_sound();
}

#[test]
fn a_person_has_two_hundred_open_tasks_at_most() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let own = json!({"title": "t", "assigneeUserId": user(&fixture.member)});
    let first = task(&fixture, crew, own.clone());
    let times = MAX_OF_PERSON - 1;
    repeat(&fixture, tasks::create, crew, own.clone(), times);
    let new = || Fixture::input(own.clone()).unwrap();
    assert_eq!(code(fixture.write(tasks::create, crew, new())), "too_many_tasks");
    // Those that they have can be changed, and closed ones do not count.
    patch(&fixture, &first, json!({"title": "other"})).unwrap();
    let closed = patch(&fixture, &first, json!({"status": "done"})).unwrap();
    fixture.write(tasks::create, crew, new()).unwrap();
    assert_eq!(code(patch(&fixture, &closed, json!({"status": "open"}))), "too_many_tasks");
}

#[test]
fn the_tasks_of_a_person_are_listed_in_a_team_and_their_open_ones_in_all() {
    let fixture = Fixture::new();
    let teams = [team(&fixture, "one", None), team(&fixture, "two", None)];
    let ben = user(&fixture.member);
    let make = |team, person: Option<Id<User>>| {
        task(&fixture, team, json!({"title": "t", "assigneeUserId": person}))
    };
    let first = make(teams[0], Some(ben));
    let second = make(teams[0], Some(ben));
    let (free, of_ada) = (make(teams[0], None), make(teams[0], Some(user(&fixture.owner))));
    let elsewhere = make(teams[1], Some(ben));
    patch(&fixture, &first, json!({"status": "done"})).unwrap();
    let numbers = |query: Value| {
        let page = fixture.read(tasks::list, teams[0], Fixture::input(query).unwrap()).unwrap();
        page.items.iter().map(|shown| shown.task.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(json!({"assigneeUserId": ben})), [2, 1]);
    assert_eq!(numbers(json!({"assigneeUserId": ben, "status": "done"})), [1]);
    // A task that a person has is not free, also without an agent.
    assert_eq!(numbers(json!({"unassigned": true})), [free.number]);
    assert_eq!(numbers(json!({"unassigned": false})), [of_ada.number, 2, 1]);
    let mine = fixture.read(list, (), ()).unwrap().items;
    let mut ids: Vec<_> = mine.iter().map(|shown| shown.task.id).collect();
    ids.sort();
    assert_eq!(ids, [second.id, elsewhere.id]);
    let Principal::Caller(caller) = &fixture.member else { panic!("no caller") };
    let count = |at_most| {
        let count = |view: &View| count_assigned(view, caller, at_most);
        fixture.store.read_now(fixture.org, count).unwrap()
    };
    assert_eq!((count(10), count(1)), (2, 1));
}

/// Gives so many open tasks with long texts to a person.
fn long_tasks(fixture: &Fixture, team: Id<Team>, person: Id<User>, times: usize) {
    let text = "d".repeat(100_000);
    let body = json!({"title": "t", "description": text, "assigneeUserId": person});
    // A few at a time: one transaction has no room for all.
    for _ in 0..times / 10 {
        repeat(fixture, tasks::create, team, body.clone(), 10);
    }
}

/// How many open tasks are found by a person.
fn found(fixture: &Fixture, person: Id<User>) -> usize {
    let count = |view: &View| view.count(&BY_PERSON, &(person, false), 1000);
    fixture.store.read_now(fixture.org, count).unwrap()
}

#[test]
fn who_leaves_with_many_long_tasks_loses_them_in_the_background() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let cleo = fixture.person("cleo", Role::Member);
    long_tasks(&fixture, crew, user(&cleo), 90);
    fixture.leave(&cleo).unwrap();
    assert!(found(&fixture, user(&cleo)) > 1);
    fixture.assert_sound();
    // What is left is not listed, and changing it is enough.
    let query = Fixture::input(json!({"assigneeUserId": user(&cleo)})).unwrap();
    assert!(fixture.read(tasks::list, crew, query).unwrap().items.is_empty());
    let open = (user(&cleo), false);
    let first = |view: &View| view.first(&BY_PERSON, &open, Order::Ascending);
    let left: Task = fixture.store.read_now(fixture.org, first).unwrap().unwrap();
    let renamed = patch(&fixture, &left, json!({"title": "new"})).unwrap();
    assert_eq!(renamed.assignee_user_id, None);
    fixture.complete_removals();
    assert_eq!(found(&fixture, user(&cleo)), 0);
    fixture.assert_sound();
}

#[test]
fn who_comes_back_keeps_what_they_are_given() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let cleo = fixture.person("cleo", Role::Member);
    let id = user(&cleo);
    long_tasks(&fixture, crew, id, 90);
    fixture.leave(&cleo).unwrap();
    let back = fixture.store.write_blocking(fixture.org, move |tx| {
        let (org, role, joined_at) = (tx.org(), Role::Member, tx.now());
        tx.insert(&Membership { user: id, org, role, email_verified: false, joined_at })
    });
    back.unwrap();
    let new = task(&fixture, crew, json!({"title": "new", "assigneeUserId": id}));
    fixture.complete_removals();
    assert_eq!(stored(&fixture, &new).assignee_user_id, Some(id));
    fixture.assert_sound();
}

#[test]
fn tasks_of_a_team_that_is_gone_are_not_counted() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ben = user(&fixture.member);
    long_tasks(&fixture, crew, ben, 60);
    fixture.write(manage::delete, crew, ()).unwrap();
    assert!(found(&fixture, ben) > 0, "they are removed a little later");
    let Principal::Caller(caller) = &fixture.member else { panic!("no caller") };
    let counts = |view: &View| Ok((count_assigned(view, caller, 10)?, count_open(view, ben, 10)?));
    assert_eq!(fixture.store.read_now(fixture.org, counts).unwrap(), (0, 0));
}

#[test]
fn who_was_given_a_closed_task_hears_of_it_when_it_is_opened() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let one = task(&fixture, crew, json!({"title": "one"}));
    patch(&fixture, &one, json!({"status": "done"})).unwrap();
    patch(&fixture, &one, json!({"assigneeUserId": user(&fixture.owner)})).unwrap();
    assert!(told(&fixture).is_empty());
    patch(&fixture, &one, json!({"status": "open"})).unwrap();
    assert_eq!(told(&fixture), ["ada"]);
    patch(&fixture, &one, json!({"status": "in_progress"})).unwrap();
    assert_eq!(told(&fixture), ["ada"]);
}
