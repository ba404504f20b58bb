//! What a pause holds back, and what resuming brings.

use serde_json::{Value, json};

use super::*;
use crate::outbox::Job;
use crate::resources::teams::rousing::{AT_ONCE, rouse_all, rouse_team, run_jobs};
use crate::resources::teams::testing::{
    add_agent, agent, code, hire, insert_agent, take, task, team,
};
use crate::resources::teams::wakes::Wake;
use crate::resources::teams::{claims, members, tasks};
use crate::resources::testing::{Fixture, args, user};
use crate::store::{ACCESS_CHANGED, ListSource, Listener};

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
    fixture.write(claims::claim, (team, id), claim).map(drop)
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
fn nor_does_it_take_or_begin_a_task_by_changing_or_creating_one_and_others_give_it_some() {
    let fixture = Fixture::new();
    let at = ann(&fixture);
    let bob = add_agent(&fixture, at.0, "bob");
    let free = task(&fixture, at.0, json!({"title": "Free"})).id;
    let own = task(&fixture, at.0, json!({"title": "Own", "assigneeAgentId": at.1})).id;
    let patch =
        |id, body: Value| fixture.write(tasks::update, (at.0, id), Fixture::input(body).unwrap());
    let create = |body| fixture.write(tasks::create, at.0, Fixture::input(body).unwrap());
    let begins = json!({"status": "in_progress", "fromAgentId": at.1});
    let takes = json!({"assigneeAgentId": at.1, "fromAgentId": at.1});
    let makes = json!({"title": "New", "assigneeAgentId": at.1, "fromAgentId": at.1});
    each_scope(&fixture, at, |scope| {
        assert_eq!(code(patch(free, takes.clone())), "agent_paused", "{scope}");
        assert_eq!(code(patch(own, begins.clone())), "agent_paused");
        assert_eq!(code(create(makes.clone())), "agent_paused");
        patch(own, json!({"title": "Still its own", "fromAgentId": at.1})).unwrap();
        patch(free, json!({"assigneeAgentId": at.1, "fromAgentId": bob})).unwrap();
        patch(free, json!({"assigneeAgentId": null})).unwrap();
    });
    patch(free, takes).unwrap();
    patch(own, begins).unwrap();
    create(makes).unwrap();
}

#[test]
fn resuming_a_team_or_all_wakes_their_agents_and_nobody_else_who_waits() {
    let fixture = Fixture::new();
    let at = ann(&fixture);
    let other = team(&fixture, "other", None);
    let bob = add_agent(&fixture, other, "bob");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let signals = fixture.store.signals();
    let is_told = |listener: &mut Listener| {
        let told = async {
            let soon = std::time::Duration::from_millis(20);
            tokio::time::timeout(soon, listener.notified()).await.is_ok()
        };
        runtime.block_on(told)
    };
    let listen = || [ACCESS_CHANGED, at.1.uuid(), bob.uuid()].map(|topic| signals.subscribe(topic));
    let begin = || Fixture::input(json!({})).unwrap();
    let end = || Fixture::input(json!({})).unwrap();
    fixture.write(pause_team, at.0, begin()).unwrap();
    let mut heard = listen();
    fixture.write(resume_team, at.0, end()).unwrap();
    run_jobs(&fixture);
    assert_eq!(heard.each_mut().map(is_told), [false, true, false]);

    fixture.write_as(&fixture.owner, pause_all, (), begin()).unwrap();
    let mut heard = listen();
    fixture.write_as(&fixture.owner, resume_all, (), end()).unwrap();
    run_jobs(&fixture);
    assert_eq!(heard.each_mut().map(is_told), [false, true, true]);
}

#[test]
fn every_agent_of_a_large_team_is_told() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let who = fixture.member.clone();
    let filled = fixture.store.write_blocking(fixture.org, move |tx| {
        let mut members = Vec::new();
        for number in 0..2 * AT_ONCE + 1 {
            let key = format!("a{number}");
            insert_agent(tx, &key)?;
            let hired = Fixture::input(json!({"stableKey": key, "role": "member"}))?;
            let hired = members::add_agent(tx, &Req::new(&args(crew, hired), &who))?;
            members.push(serde_json::from_value::<Id<Member>>(json!(hired)["id"].clone()).unwrap());
        }
        Ok(members)
    });
    let mut heard: Vec<_> =
        filled.unwrap().iter().map(|id| fixture.store.signals().subscribe(id.uuid())).collect();
    let rouse = move |tx: &mut Tx| rouse_members(tx, crew, Id::NIL);
    fixture.store.write_blocking(fixture.org, rouse).unwrap();
    run_jobs(&fixture);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for listener in &mut heard {
        let told = async {
            let long = std::time::Duration::from_secs(5);
            tokio::time::timeout(long, listener.notified()).await
        };
        runtime.block_on(told).expect("it is told");
    }
}

#[test]
fn a_reason_is_hidden_of_a_restricted_agent_alone_not_of_its_team_or_of_all() {
    let fixture = Fixture::new();
    let at = ann(&fixture);
    let fleet = json!({"name": "Closed", "access": "restricted"});
    let fleet = crate::resources::fleets::tests::make(&fixture, fleet).id;
    let patch = json!({"fleetId": fleet});
    crate::resources::agents::tests::patch_as(&fixture, &fixture.owner, "ann", patch).unwrap();
    let shown = || {
        let shown = fixture.read(crate::resources::teams::members::get, at, ()).unwrap();
        let paused = json!(shown)["paused"].clone();
        [paused["scope"].clone(), paused["reason"].clone()]
    };
    let why = || Fixture::input(reason()).unwrap();
    fixture.write_as(&fixture.owner, pause_member, at, why()).unwrap();
    assert_eq!(shown(), [json!("team_agent"), json!(null)]);
    fixture.write_as(&fixture.owner, pause_agent, "ann".into(), why()).unwrap();
    assert_eq!(shown(), [json!("agent"), json!(null)]);
    fixture.write(pause_team, at.0, why()).unwrap();
    assert_eq!(shown(), [json!("team"), json!("It loops")]);
    fixture.write_as(&fixture.owner, pause_all, (), why()).unwrap();
    assert_eq!(shown(), [json!("organization"), json!("It loops")]);
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

#[test]
fn a_pause_of_a_team_says_who_changed_it_and_when() {
    let fixture = Fixture::new();
    let id = team(&fixture, "crew", None);
    let (owner, member) = (&fixture.owner, &fixture.member);
    let pause = |who| {
        fixture.pass_secs(1);
        let why = Fixture::input(reason()).unwrap();
        json!(fixture.write_as(who, pause_team, id, why).unwrap())
    };
    let resume = |who| {
        fixture.pass_secs(1);
        let no = Fixture::input(json!({})).unwrap();
        json!(fixture.write_as(who, resume_team, id, no).unwrap())
    };
    let paused = pause(owner);
    assert_eq!(paused["updatedBy"], json!(user(owner)));
    assert_eq!(paused["updatedAt"], paused["paused"]["since"]);
    assert_eq!(pause(member), paused, "it is paused already");
    let resumed = resume(member);
    assert_eq!(resumed["updatedBy"], json!(user(member)));
    assert!(resumed["updatedAt"].as_str() > paused["updatedAt"].as_str());
    assert_eq!(resume(owner), resumed, "nothing is paused");
    fixture.assert_sound();
}
