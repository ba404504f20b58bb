//! What a pause holds back, and what resuming brings.

use serde_json::{Value, json};

use super::*;
use crate::resources::teams::tasks;
use crate::resources::teams::testing::{add_agent, agent, code, hire, take, task, team};
use crate::resources::teams::wakes::Wake;
use crate::resources::testing::Fixture;

type Place = (Id<Team>, Id<Member>);

fn ann(fixture: &Fixture) -> Place {
    let team = team(fixture, "crew", None);
    (team, add_agent(fixture, team, "ann"))
}

fn assign(fixture: &Fixture, (team, ann): Place) {
    task(fixture, team, json!({"title": "Count", "assigneeAgentId": ann}));
}

fn reason() -> Value {
    json!({"reason": "It loops"})
}

fn claim(fixture: &Fixture, (team, ann): Place) -> Result<()> {
    let id = task(fixture, team, json!({"title": "Free"})).id;
    let claim = Fixture::input(json!({"agentId": ann})).unwrap();
    fixture.write(tasks::claim, (team, id), claim).map(drop)
}

/// Pauses and resumes by each kind of pause; the scope that is shown while it lasts.
fn each_scope(fixture: &Fixture, at: Place, check: impl Fn(&str)) {
    let no = || Fixture::input(json!({})).unwrap();
    let why = || Fixture::input(reason()).unwrap();
    let key = || "ann".to_string();
    fixture.write(pause_member, at, why()).unwrap();
    check("team_agent");
    fixture.write(resume_member, at, no()).unwrap();
    fixture.write(pause_agent, key(), why()).unwrap();
    check("agent");
    fixture.write(resume_agent, key(), no()).unwrap();
    fixture.write(pause_team, at.0, why()).unwrap();
    check("team");
    fixture.write(resume_team, at.0, no()).unwrap();
    fixture.write_as(&fixture.owner, pause_all, (), why()).unwrap();
    check("organization");
    fixture.write_as(&fixture.owner, resume_all, (), no()).unwrap();
}

#[test]
fn whatever_pauses_an_agent_keeps_its_wakes_in_order_and_says_who_and_why() {
    let fixture = Fixture::new();
    let at = ann(&fixture);
    each_scope(&fixture, at, |scope| {
        assign(&fixture, at);
        fixture.pass_secs(1);
        assign(&fixture, at);
        assert!(take(&fixture, at.0, at.1).is_empty(), "{scope}");
        let shown = fixture.read(crate::resources::teams::members::get, at, ()).unwrap();
        let paused = json!(shown)["paused"].clone();
        assert_eq!((&paused["scope"], &paused["reason"]), (&json!(scope), &json!("It loops")));
        assert!(paused["by"].is_string() && paused["since"].is_string());
    });
    let waiting: Vec<Wake> = take(&fixture, at.0, at.1);
    assert_eq!(waiting.len(), 8);
    assert!(waiting.is_sorted_by_key(|wake| wake.created_at));
    assert!(waiting.iter().all(|wake| wake.attempts == 1), "none was handed out before");
    fixture.assert_sound();
}

#[test]
fn a_paused_agent_neither_claims_nor_runs_and_others_do() {
    let fixture = Fixture::new();
    let at = ann(&fixture);
    let bob = (at.0, add_agent(&fixture, at.0, "bob"));
    each_scope(&fixture, at, |scope| {
        assert_eq!(code(claim(&fixture, at)), "agent_paused", "{scope}");
        let run = || Fixture::input(json!({"status": "succeeded"})).unwrap();
        let create = crate::resources::teams::runs::create;
        assert_eq!(code(fixture.write(create, at, run())), "agent_paused");
        let is_for_one = matches!(scope, "agent" | "team_agent");
        assert_eq!(claim(&fixture, bob).is_ok(), is_for_one, "{scope}");
    });
    claim(&fixture, at).unwrap();
}

#[test]
fn a_pause_in_one_team_is_none_in_another() {
    let fixture = Fixture::new();
    let at = ann(&fixture);
    let other = team(&fixture, "other", None);
    let there = hire(&fixture, other, "ann").unwrap();
    let there = (other, Id::parse(there["id"].as_str().unwrap()));
    fixture.write(pause_member, at, Fixture::input(json!({})).unwrap()).unwrap();
    claim(&fixture, there).unwrap();
    assert_eq!(code(claim(&fixture, at)), "agent_paused");
}

#[test]
fn pausing_twice_keeps_who_was_first_and_resuming_twice_changes_nothing() {
    let fixture = Fixture::new();
    agent(&fixture, "ann");
    let pause = |why: &str| {
        let input = Fixture::input(json!({"reason": why})).unwrap();
        fixture.write(pause_agent, "ann".into(), input).unwrap().paused.unwrap()
    };
    let first = pause("one");
    fixture.pass_secs(5);
    assert_eq!(pause("two"), first);
    for _ in 0..2 {
        let input = Fixture::input(json!({})).unwrap();
        assert_eq!(fixture.write(resume_agent, "ann".into(), input).unwrap().paused, None);
    }
}

#[test]
fn resuming_has_posted_what_was_not() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    agent(&fixture, "ann");
    let body = json!({"stableKey": "ann", "role": "member", "wakeUrl": "http://127.0.0.1:9/"});
    let at = (team, super::super::testing::add_agent_with(&fixture, team, body));
    let jobs = |kind: &str| {
        let of_kind = |view: &View| -> Result<usize> {
            let all: Vec<Job> = view.all(ListSource::TABLE, &())?;
            Ok(all.iter().filter(|job| job.kind == kind).count())
        };
        fixture.store.read_now(Id::NIL, of_kind).unwrap()
    };
    let begin = || Fixture::input(json!({})).unwrap();
    let end = || Fixture::input(json!({})).unwrap();
    fixture.write(pause_team, team, begin()).unwrap();
    assign(&fixture, at);
    assert_eq!(jobs("wake.post_pending"), 0);
    fixture.write(resume_team, team, end()).unwrap();
    fixture.write_as(&fixture.owner, pause_all, (), begin()).unwrap();
    fixture.write_as(&fixture.owner, resume_all, (), end()).unwrap();
    assert_eq!((jobs("team.rouse"), jobs("team.rouse_all")), (1, 1));
    let run = move |tx: &mut Tx| {
        let jobs: Vec<Job> = tx.all(ListSource::TABLE, &())?;
        let of = |kind: &str| jobs.iter().find(|job| job.kind == kind).cloned().unwrap();
        rouse_all(tx, &of("team.rouse_all"))?;
        rouse_team(tx, &of("team.rouse")).map(drop)
    };
    fixture.store.write_blocking(fixture.org, run).unwrap();
    assert_eq!((jobs("team.rouse"), jobs("wake.post_pending")), (2, 1));
}
