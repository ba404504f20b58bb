//! Tasks: numbers, claims, and who is woken when they change.

use serde_json::{Value, json};

use super::*;
use crate::resources::teams::claims::claim;
use crate::resources::teams::members;
use crate::resources::teams::task::assignee_or_scrum_master;
use crate::resources::teams::testing::{add_agent, add_scrum_master, code, take, task, team};
use crate::resources::teams::wakes::WakeReason;
use crate::resources::testing::Fixture;

fn patch(fixture: &Fixture, task: &Task, body: Value) -> Result<Task> {
    Ok(fixture.write(update, (task.team_id, task.id), Fixture::input(body)?)?.task)
}

fn claim_for(fixture: &Fixture, task: &Task, agent: Id<Member>) -> Result<Task> {
    let body = Fixture::input(json!({"agentId": agent})).unwrap();
    fixture.write(claim, (task.team_id, task.id), body).map(|claimed| claimed.task.task)
}

/// The numbers of the tasks that a query gives, in its order.
fn numbers(fixture: &Fixture, team: Id<Team>, query: Value) -> Vec<u32> {
    let page = fixture.read(list, team, Fixture::input(query).unwrap()).unwrap();
    page.items.iter().map(|shown| shown.task.number).collect()
}

#[test]
fn a_new_task_is_open_and_of_middle_priority_and_numbered_in_its_team_without_gaps() {
    let fixture = Fixture::new();
    let (crew, other) = (team(&fixture, "crew", None), team(&fixture, "other", None));
    let first = task(&fixture, crew, json!({"title": "one"}));
    let expected = json!({
        "id": first.id, "teamId": crew, "number": 1, "title": "one", "description": null,
        "projectId": null, "assigneeAgentId": null, "assigneeUserId": null, "priority": 2, "status": "open",
        "createdBy": first.created_by, "createdAt": "2026-01-15T12:00:00.000Z",
        "updatedAt": "2026-01-15T12:00:00.000Z", "updatedBy": first.created_by, "claim": null,
        "parentTaskId": null, "dependsOn": [], "dueAt": null, "labels": [],
        "children": {"total": 0, "done": 0, "cancelled": 0},
    });
    let shown = fixture.read(get, (crew, first.id), ()).unwrap();
    assert_eq!(serde_json::to_value(shown).unwrap(), expected);
    assert!(first.created_by.is_some());

    let refused = json!({"title": "two", "assigneeAgentId": Id::<Member>::NIL});
    assert_eq!(code(fixture.write(create, crew, Fixture::input(refused).unwrap())), "not_found");
    assert_eq!(task(&fixture, crew, json!({"title": "two"})).number, 2);
    assert_eq!(task(&fixture, other, json!({"title": "one"})).number, 1);
    fixture.assert_sound();
}

#[test]
fn a_task_is_found_by_its_number_in_its_team() {
    let fixture = Fixture::new();
    let (crew, other) = (team(&fixture, "crew", None), team(&fixture, "other", None));
    let ann = add_agent(&fixture, crew, "ann");
    task(&fixture, crew, json!({"title": "one"}));
    task(&fixture, crew, json!({"title": "two", "assigneeAgentId": ann}));
    task(&fixture, other, json!({"title": "one"}));
    assert_eq!(numbers(&fixture, crew, json!({"number": 2})), [2]);
    assert!(numbers(&fixture, crew, json!({"number": 3})).is_empty());
    assert!(numbers(&fixture, other, json!({"number": 2})).is_empty());
    for (filter, is_found) in [
        (json!({"number": 2, "status": "open", "assigneeAgentId": ann}), true),
        (json!({"number": 2, "unassigned": false}), true),
        (json!({"number": 2, "unassigned": true}), false),
        (json!({"number": 2, "status": "done"}), false),
        (json!({"number": 1, "assigneeAgentId": ann}), false),
    ] {
        assert_eq!(!numbers(&fixture, crew, filter.clone()).is_empty(), is_found, "{filter}");
    }
    fixture.assert_sound();
}

#[test]
fn a_patch_that_changes_nothing_leaves_the_task_as_it_was() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let made = task(&fixture, crew, json!({"title": "one", "description": "x"}));
    fixture.pass_secs(5);
    assert_eq!(patch(&fixture, &made, json!({})).unwrap(), made);
    assert_eq!(
        patch(&fixture, &made, json!({"description": "x", "status": "open"})).unwrap(),
        made
    );
    let changed = patch(&fixture, &made, json!({"description": null})).unwrap();
    assert!(changed.updated_at > made.updated_at);
}

#[test]
fn a_task_that_is_opened_again_is_free_if_its_agent_has_left() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let anns = task(&fixture, crew, json!({"title": "one", "assigneeAgentId": ann}));
    patch(&fixture, &anns, json!({"status": "done"})).unwrap();
    fixture.write(members::delete, (crew, ann), ()).unwrap();
    let done = fixture.read(get, (crew, anns.id), ()).unwrap();
    assert_eq!(done.task.assignee_agent_id, Some(ann), "it is known who did it");

    let free = patch(&fixture, &anns, json!({"status": "open"})).unwrap();
    assert_eq!(free.assignee_agent_id, None);
    assert_eq!(claim_for(&fixture, &free, bob).unwrap().assignee_agent_id, Some(bob));
    fixture.assert_sound();
}

#[test]
fn only_one_of_many_claimers_gets_the_task() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let open = task(&fixture, crew, json!({"title": "one"}));
    let won = claim_for(&fixture, &open, ann).unwrap();
    assert_eq!(won.status, TaskStatus::InProgress);
    assert_eq!(won.assignee_agent_id, Some(ann));
    assert_eq!(code(claim_for(&fixture, &open, bob)), "task_claimed");
    fixture.pass_secs(5);
    assert_eq!(claim_for(&fixture, &open, ann).unwrap(), won);
    assert_eq!(code(claim_for(&fixture, &open, Id::NIL)), "not_found");
    fixture.assert_sound();
}

#[test]
fn only_the_assignee_can_claim_an_assigned_task() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let anns = task(&fixture, crew, json!({"title": "one", "assigneeAgentId": ann}));
    assert_eq!(code(claim_for(&fixture, &anns, bob)), "task_claimed");
    assert_eq!(claim_for(&fixture, &anns, ann).unwrap().status, TaskStatus::InProgress);
}

#[test]
fn a_claim_leaves_a_blocked_task_blocked_and_a_closed_one_alone() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let blocked = task(&fixture, crew, json!({"title": "one"}));
    patch(&fixture, &blocked, json!({"status": "blocked"})).unwrap();
    assert_eq!(claim_for(&fixture, &blocked, ann).unwrap().status, TaskStatus::Blocked);
    for status in ["done", "cancelled"] {
        // Its own winner's too.
        patch(&fixture, &blocked, json!({"status": status})).unwrap();
        assert_eq!(code(claim_for(&fixture, &blocked, ann)), "task_closed");
    }
}

#[test]
fn any_status_follows_any_other() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let one = task(&fixture, crew, json!({"title": "one"}));
    for from in TaskStatus::ALL {
        for to in TaskStatus::ALL {
            for status in [from, to] {
                let changed = patch(&fixture, &one, json!({"status": status})).unwrap();
                assert_eq!(changed.status, status);
            }
        }
    }
    fixture.assert_sound();
}

#[test]
fn a_patch_changes_what_it_names_and_null_clears() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let body = json!({
        "title": "one", "description": "all of it", "projectId": "p", "assigneeAgentId": ann,
        "priority": 4,
    });
    let one = task(&fixture, crew, body);
    fixture.pass_secs(1);
    let renamed = patch(&fixture, &one, json!({"title": "new", "priority": null})).unwrap();
    let expected = Task {
        title: Title::parse("new").unwrap(),
        updated_at: one.updated_at.plus_secs(1),
        updated_by: renamed.updated_by,
        ..one.clone()
    };
    assert_eq!(renamed, expected);
    let nulls = json!({"description": null, "projectId": null, "assigneeAgentId": null});
    let cleared = patch(&fixture, &one, nulls).unwrap();
    assert_eq!(cleared.description, None);
    assert_eq!(cleared.project_id, None);
    assert_eq!(cleared.assignee_agent_id, None);
    fixture.assert_sound();
}

#[test]
fn agents_that_are_not_in_the_team_are_not_found_and_nothing_changes() {
    let fixture = Fixture::new();
    let (crew, other) = (team(&fixture, "crew", None), team(&fixture, "other", None));
    let foreign = add_agent(&fixture, other, "eve");
    let one = task(&fixture, crew, json!({"title": "one"}));
    for field in ["assigneeAgentId", "fromAgentId"] {
        assert_eq!(code(patch(&fixture, &one, json!({"title": "x", field: foreign}))), "not_found");
        let new = Fixture::input(json!({"title": "two", field: foreign})).unwrap();
        assert_eq!(code(fixture.write(create, crew, new)), "not_found");
    }
    assert_eq!(fixture.read(get, (crew, one.id), ()).unwrap().task, one);
    assert_eq!(code(fixture.read(get, (other, one.id), ())), "not_found");
    assert_eq!(code(fixture.read(get, (Id::NIL, one.id), ())), "not_found");
    assert_eq!(numbers(&fixture, crew, json!({})), [1]);
}

#[test]
fn every_filter_gives_the_tasks_it_names_newest_first() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let agents = [None, Some(ann), Some(bob)];
    let all: Vec<Task> = (0..15)
        .map(|n| {
            let new = json!({"title": "x", "assigneeAgentId": agents[n % 3]});
            let made = task(&fixture, crew, new);
            patch(&fixture, &made, json!({"status": TaskStatus::ALL[n / 3]})).unwrap()
        })
        .collect();
    let expected = |keep: &dyn Fn(&Task) -> bool| -> Vec<u32> {
        all.iter().rev().filter(|task| keep(task)).map(|task| task.number).collect()
    };
    assert_eq!(numbers(&fixture, crew, json!({})), expected(&|_| true));
    for status in TaskStatus::ALL {
        let of_status = expected(&|task| task.status == status);
        assert_eq!(numbers(&fixture, crew, json!({"status": status})), of_status);
        let both = json!({"status": status, "assigneeAgentId": ann});
        let of_both =
            expected(&|task| task.status == status && task.assignee_agent_id == Some(ann));
        assert_eq!(numbers(&fixture, crew, both), of_both);
    }
    let of_ann = expected(&|task| task.assignee_agent_id == Some(ann));
    assert_eq!(numbers(&fixture, crew, json!({"assigneeAgentId": ann})), of_ann);
    let free = expected(&|task| task.assignee_agent_id.is_none());
    assert_eq!(numbers(&fixture, crew, json!({"unassigned": true})), free);
    let taken = expected(&|task| task.assignee_agent_id.is_some());
    assert_eq!(numbers(&fixture, crew, json!({"unassigned": false})), taken);
    let neither = json!({"unassigned": true, "assigneeAgentId": ann});
    assert!(numbers(&fixture, crew, neither).is_empty());
    assert!(numbers(&fixture, crew, json!({"assigneeAgentId": Id::<()>::NIL})).is_empty());
}

#[test]
fn assigning_a_task_wakes_the_assignee_unless_it_did_so_itself() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let free = task(&fixture, crew, json!({"title": "free"}));
    let own = json!({"title": "own", "assigneeAgentId": ann, "fromAgentId": ann});
    task(&fixture, crew, own);
    patch(&fixture, &free, json!({"assigneeAgentId": ann, "fromAgentId": ann})).unwrap();
    assert!(take(&fixture, crew, ann).is_empty());

    let given =
        task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": bob}));
    patch(&fixture, &free, json!({"assigneeAgentId": bob})).unwrap();
    let wakes = take(&fixture, crew, ann);
    assert_eq!(wakes.len(), 1);
    assert_eq!((wakes[0].reason, wakes[0].task_id), (WakeReason::TaskAssigned, Some(given.id)));
    assert_eq!(take(&fixture, crew, bob)[0].task_id, Some(free.id));
    // It stays with whom it was.
    patch(&fixture, &given, json!({"assigneeAgentId": ann, "title": "y"})).unwrap();
    claim_for(&fixture, &given, ann).unwrap();
    assert!(take(&fixture, crew, ann).is_empty());
}

#[test]
fn a_task_that_can_be_worked_on_again_wakes_its_assignee_unless_it_did_so_itself() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    let to = |status: &str, by: Option<Id<Member>>| {
        patch(&fixture, &anns, json!({"status": status, "fromAgentId": by})).unwrap();
        let woken = take(&fixture, crew, ann);
        // What is handed out again is no news.
        let new = woken.into_iter().filter(|wake| wake.attempts == 1);
        new.map(|wake| (wake.reason, wake.task_id)).collect::<Vec<_>>()
    };
    let unblocked = [(WakeReason::TaskUnblocked, Some(anns.id))];
    let reopened = [(WakeReason::TaskReopened, Some(anns.id))];
    assert!(to("blocked", Some(ann)).is_empty());
    assert_eq!(to("open", None), unblocked);
    assert!(to("in_progress", None).is_empty(), "it could be worked on before");
    assert!(to("done", Some(ann)).is_empty());
    assert!(to("blocked", None).is_empty(), "there is nothing to do yet");
    assert_eq!(to("in_progress", Some(bob)), unblocked);
    assert!(to("cancelled", None).is_empty());
    assert_eq!(to("open", None), reopened);
    assert!(to("done", Some(ann)).is_empty());
    assert!(to("open", Some(ann)).is_empty(), "its own act");
    assert!(take(&fixture, crew, bob).is_empty());

    // Without an assignee it is as free as a new one.
    let free = task(&fixture, crew, json!({"title": "free"}));
    for status in ["blocked", "open"] {
        patch(&fixture, &free, json!({"status": status})).unwrap();
    }
    // Blocked again before it was taken, there is nothing to wake for.
    patch(&fixture, &anns, json!({"status": "blocked"})).unwrap();
    patch(&fixture, &anns, json!({"status": "open"})).unwrap();
    patch(&fixture, &anns, json!({"status": "blocked"})).unwrap();
    fixture.pass_secs(60);
    assert!(take(&fixture, crew, ann).is_empty());
    fixture.assert_sound();
}

#[test]
fn a_removed_agents_open_tasks_become_free_and_its_closed_ones_stay() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let master = add_scrum_master(&fixture, crew, "sam");
    let tasks: Vec<Task> = TaskStatus::ALL
        .iter()
        .map(|status| {
            let made = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
            patch(&fixture, &made, json!({"status": status})).unwrap()
        })
        .collect();
    let removed = crate::resources::teams::members::delete;
    fixture.write(removed, (crew, ann), ()).unwrap();
    for task in &tasks {
        let now = fixture.read(get, (crew, task.id), ()).unwrap();
        assert_eq!(now.task.assignee_agent_id.is_none(), !task.is_closed(), "{:?}", task.status);
        // Who has left has no access any more.
        let business = fixture
            .store
            .read_now(fixture.org, |view| assignee_or_scrum_master(view, &now.task))
            .unwrap();
        assert_eq!(business.map(|member| member.id), Some(master));
    }
    fixture.assert_sound();
}
