//! What removing a team, or an agent from a team, takes along.

use serde_json::json;

use super::member::Member;
use super::message::Message;
use super::spending::MonthlySpending;
use super::task::{Task, TaskCounter};
use super::testing::{add_agent, agent, message, repeat, task, team};
use super::{manage, members, messages, tasks, team as teams, wakes};
use crate::resources::agents;
use crate::resources::testing::Fixture;
use crate::store::{ListSource, MAX_DEFERRED_CHANGES, PendingRemoval, Record, View};

fn count<R: Record>(fixture: &Fixture) -> usize {
    let count = |view: &View| view.count(ListSource::<R>::TABLE, &(), usize::MAX);
    fixture.store.read_now(fixture.org, count).unwrap()
}

fn rows(fixture: &Fixture) -> Vec<usize> {
    vec![
        count::<teams::Team>(fixture),
        count::<Member>(fixture),
        count::<Task>(fixture),
        count::<TaskCounter>(fixture),
        count::<Message>(fixture),
        count::<wakes::Wake>(fixture),
        count::<MonthlySpending>(fixture),
        count::<PendingRemoval>(fixture),
    ]
}

#[test]
fn a_deleted_team_takes_everything_along_and_leaves_other_teams_alone() {
    let fixture = Fixture::new();
    let (crew, other) = (team(&fixture, "crew", None), team(&fixture, "other", None));
    let ann = add_agent(&fixture, crew, "ann");
    let eve = add_agent(&fixture, other, "eve");
    for (team, member) in [(other, eve), (crew, ann)] {
        task(&fixture, team, json!({"title": "x", "assigneeAgentId": member}));
        message(&fixture, team, json!({"body": "x", "toAgentId": member}));
    }
    // A message is a row with an index entry, and a wake.
    let mail = json!({"body": "x", "toAgentId": ann});
    repeat(&fixture, messages::send, crew, mail, MAX_DEFERRED_CHANGES);
    let spent = fixture.store.write_blocking(fixture.org, move |tx| {
        let month_start = tx.now();
        let spending = MonthlySpending {
            team: crew,
            month_start,
            spent_usd: 1.0,
            exhaustion_published: false,
        };
        tx.insert(&spending)
    });
    spent.unwrap();

    fixture.write(manage::delete, crew, ()).unwrap();
    assert!(rows(&fixture)[7] > 0, "it is more than one transaction removes");
    fixture.assert_sound();
    assert!(fixture.complete_removals() > 1, "the rest is more than one step removes");
    assert_eq!(rows(&fixture), [1, 1, 1, 1, 1, 2, 0, 0]);
    fixture.assert_sound();
}

#[test]
fn a_deleted_teams_agents_are_free_at_once() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    agent(&fixture, "bob");
    let delete =
        |name: &str| fixture.write(agents::tests::remove, name.to_string(), ()).map(|_| ());
    assert_eq!(delete("ann").unwrap_err().code(), "agent_in_team");
    delete("bob").unwrap();
    let mail = json!({"body": "x", "toAgentId": ann});
    repeat(&fixture, messages::send, crew, mail, MAX_DEFERRED_CHANGES);
    fixture.write(manage::delete, crew, ()).unwrap();
    assert_eq!(count::<Member>(&fixture), 1, "it is not removed yet");
    delete("ann").unwrap();
    fixture.assert_sound();
    fixture.complete_removals();
    assert_eq!(rows(&fixture), [0; 8]);
}

#[test]
fn an_agent_stays_until_it_has_left_all_teams() {
    let fixture = Fixture::new();
    let teams = [team(&fixture, "crew", None), team(&fixture, "other", None)];
    let ann = add_agent(&fixture, teams[0], "ann");
    let body = json!({"stableKey": "ann", "role": "member"});
    fixture.write(members::add_agent, teams[1], Fixture::input(body).unwrap()).unwrap();
    let delete = || fixture.write(agents::tests::remove, "ann".to_string(), ());
    assert_eq!(delete().unwrap_err().code(), "agent_in_team");
    fixture.write(members::delete, (teams[0], ann), ()).unwrap();
    assert_eq!(delete().unwrap_err().code(), "agent_in_team");
    fixture.write(super::manage::delete, teams[1], ()).unwrap();
    delete().unwrap();
}

#[test]
fn all_rows_of_a_removed_agent_are_deleted_however_many() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let other = message(&fixture, crew, json!({"body": "x", "toAgentId": bob}));
    let many = MAX_DEFERRED_CHANGES / 4;
    let new = json!({"title": "x", "assigneeAgentId": ann});
    repeat(&fixture, tasks::create, crew, new, many);
    fixture.write(members::delete, (crew, ann), ()).unwrap();
    assert_eq!(count::<PendingRemoval>(&fixture), 1);
    fixture.assert_sound();
    fixture.complete_removals();
    assert_eq!(rows(&fixture), [1, 1, many, 1, 1, 1, 0, 0]);
    let view = |view: &View| view.all(ListSource::<Task>::TABLE, &());
    let all = fixture.store.read_now(fixture.org, view).unwrap();
    assert!(all.iter().all(|task| task.assignee_agent_id.is_none()));
    let wakes = |view: &View| view.all(ListSource::<wakes::Wake>::TABLE, &());
    let left = fixture.store.read_now(fixture.org, wakes).unwrap();
    assert_eq!(left[0].message_id, Some(other.id));
    fixture.assert_sound();
}

#[test]
fn few_rows_of_a_removed_agent_go_with_it() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    fixture.write(members::delete, (crew, ann), ()).unwrap();
    assert_eq!(rows(&fixture), [1, 0, 1, 1, 0, 0, 0, 0]);
}
