//! What removing a team, or an agent from a team, takes along.

use serde_json::json;

use super::member::Member;
use super::message::Message;
use super::task::{Task, TaskCounter};
use super::testing::{add_agent, agent, message, repeat, task, team};
use super::{members, messages, tasks, team as teams, wakes};
use crate::resources::agents;
use crate::resources::testing::World;
use crate::store::{MAX_DEFERRED_CHANGES, PendingRemoval, Record, Source, View};

fn count<R: Record>(world: &World) -> usize {
    let count = |view: &View| view.count(Source::<R>::TABLE, &(), usize::MAX);
    world.store.read_now(world.org, count).unwrap()
}

fn rows(world: &World) -> Vec<usize> {
    vec![
        count::<teams::Team>(world),
        count::<Member>(world),
        count::<Task>(world),
        count::<TaskCounter>(world),
        count::<Message>(world),
        count::<wakes::Wake>(world),
        count::<teams::MonthlySpending>(world),
        count::<PendingRemoval>(world),
    ]
}

#[test]
fn a_deleted_team_takes_everything_along_and_leaves_other_teams_alone() {
    let world = World::new();
    let (crew, other) = (team(&world, "crew", None), team(&world, "other", None));
    let ann = add_agent(&world, crew, "ann");
    let eve = add_agent(&world, other, "eve");
    for (team, member) in [(other, eve), (crew, ann)] {
        task(&world, team, json!({"title": "x", "assigneeAgentId": member}));
        message(&world, team, json!({"body": "x", "toAgentId": member}));
    }
    // A message is a row with an index entry, and a wake.
    let mail = json!({"body": "x", "toAgentId": ann});
    repeat(&world, messages::send, crew, mail, MAX_DEFERRED_CHANGES);
    let spent = world.store.write_now(world.org, move |tx| {
        let month_start = tx.now();
        let spending = teams::MonthlySpending {
            team: crew,
            month_start,
            spent_usd: 1.0,
            exhaustion_published: false,
        };
        tx.insert(&spending)
    });
    spent.unwrap();

    world.write(teams::delete, crew, ()).unwrap();
    assert!(rows(&world)[7] > 0, "it is more than one transaction removes");
    world.assert_sound();
    assert!(world.complete_removals() > 1, "the rest is more than one step removes");
    assert_eq!(rows(&world), [1, 1, 1, 1, 1, 2, 0, 0]);
    world.assert_sound();
}

#[test]
fn a_deleted_teams_agents_are_free_at_once() {
    let world = World::new();
    let crew = team(&world, "crew", None);
    let ann = add_agent(&world, crew, "ann");
    agent(&world, "bob");
    let delete = |name: &str| world.write(agents::delete, name.to_string(), ()).map(|_| ());
    assert_eq!(delete("ann").unwrap_err().code(), "agent_in_team");
    delete("bob").unwrap();
    let mail = json!({"body": "x", "toAgentId": ann});
    repeat(&world, messages::send, crew, mail, MAX_DEFERRED_CHANGES);
    world.write(teams::delete, crew, ()).unwrap();
    assert_eq!(count::<Member>(&world), 1, "it is not removed yet");
    delete("ann").unwrap();
    world.assert_sound();
    world.complete_removals();
    assert_eq!(rows(&world), [0; 8]);
}

#[test]
fn an_agent_stays_until_it_has_left_all_teams() {
    let world = World::new();
    let teams = [team(&world, "crew", None), team(&world, "other", None)];
    let ann = add_agent(&world, teams[0], "ann");
    let body = json!({"stableKey": "ann", "role": "member"});
    world.write(members::add_agent, teams[1], World::input(body).unwrap()).unwrap();
    let delete = || world.write(agents::delete, "ann".to_string(), ());
    assert_eq!(delete().unwrap_err().code(), "agent_in_team");
    world.write(members::delete, (teams[0], ann), ()).unwrap();
    assert_eq!(delete().unwrap_err().code(), "agent_in_team");
    world.write(super::team::delete, teams[1], ()).unwrap();
    delete().unwrap();
}

#[test]
fn all_rows_of_a_removed_agent_are_deleted_however_many() {
    let world = World::new();
    let crew = team(&world, "crew", None);
    let (ann, bob) = (add_agent(&world, crew, "ann"), add_agent(&world, crew, "bob"));
    let other = message(&world, crew, json!({"body": "x", "toAgentId": bob}));
    let many = MAX_DEFERRED_CHANGES / 4;
    let new = json!({"title": "x", "assigneeAgentId": ann});
    repeat(&world, tasks::create, crew, new, many);
    world.write(members::delete, (crew, ann), ()).unwrap();
    assert_eq!(count::<PendingRemoval>(&world), 1);
    world.assert_sound();
    world.complete_removals();
    assert_eq!(rows(&world), [1, 1, many, 1, 1, 1, 0, 0]);
    let view = |view: &View| view.all(Source::<Task>::TABLE, &());
    let all = world.store.read_now(world.org, view).unwrap();
    assert!(all.iter().all(|task| task.assignee_agent_id.is_none()));
    let wakes = |view: &View| view.all(Source::<wakes::Wake>::TABLE, &());
    let left = world.store.read_now(world.org, wakes).unwrap();
    assert_eq!(left[0].message_id, Some(other.id));
    world.assert_sound();
}

#[test]
fn few_rows_of_a_removed_agent_go_with_it() {
    let world = World::new();
    let crew = team(&world, "crew", None);
    let ann = add_agent(&world, crew, "ann");
    task(&world, crew, json!({"title": "x", "assigneeAgentId": ann}));
    world.write(members::delete, (crew, ann), ()).unwrap();
    assert_eq!(rows(&world), [1, 0, 1, 1, 0, 0, 0, 0]);
}
