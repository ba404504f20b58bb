//! The activity of a team: its order, its filters, who follows it, and who sees what of it.

use std::sync::mpsc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::api::Principal;
use crate::outbox::RetentionSettings;
use crate::resources::teams::testing::{
    add_agent, add_agent_with, agent, message, repeat, task, team,
};
use crate::resources::teams::{
    approvals, budgets, claims, manage, members, memories, messages, pausing, runs, schedules,
    tasks, timeline,
};
use crate::resources::testing::{Fixture, args, user};
use crate::resources::{agents, fleets};
use crate::store::{PageRequest, Tx};

type Entries = Followed<ActivityEntry>;

/// Reads a part as a caller, with what is settled.
fn read_as(
    fixture: &Fixture,
    who: &Principal,
    at: Id<Team>,
    query: Value,
    part: Part,
) -> Result<Entries> {
    let Part { from, limit, cursor, settled, is_stream } = part;
    let mut parts = args(at, Fixture::input::<ActivityFilter>(query)?);
    parts.page = PageRequest { limit, after: cursor };
    let settled = settled.unwrap_or_else(|| fixture.store.settled_id());
    let point = FollowPoint { from: &from, settled, is_stream };
    fixture.store.read_now(fixture.org, |view| list(view, &Req::new(&parts, who), &point))
}

struct Part {
    from: FollowFrom,
    limit: usize,
    cursor: Option<Vec<u8>>,
    settled: Option<Id<()>>,
    is_stream: bool,
}

/// The first 50 of all that there is.
fn all() -> Part {
    Part { from: FollowFrom::Request, limit: 50, cursor: None, settled: None, is_stream: false }
}

fn read(fixture: &Fixture, at: Id<Team>, query: Value, part: Part) -> Entries {
    read_as(fixture, &fixture.member, at, query, part).unwrap()
}

fn ids(found: &Entries) -> Vec<Id<ActivityEntry>> {
    found.items.iter().map(|entry| entry.id).collect()
}

fn kinds(found: &Entries) -> Vec<ActivityKind> {
    found.items.iter().map(|entry| entry.kind).collect()
}

/// A team in which one of each has happened.
fn lively(fixture: &Fixture) -> (Id<Team>, Id<Member>, Id<Task>) {
    let crew = team(fixture, "crew", Some(1.0));
    let ann = add_agent(fixture, crew, "ann");
    let about = task(fixture, crew, json!({"title": "Count"})).id;
    let claim = Fixture::input(json!({"agentId": ann})).unwrap();
    fixture.write(claims::claim, (crew, about), claim).unwrap();
    message(fixture, crew, json!({"taskId": about, "fromAgentId": ann, "body": "Half\nway"}));
    let run = json!({"status": "failed", "error": "no network", "costUsd": 5, "taskId": about});
    fixture.write(runs::create, (crew, ann), Fixture::input(run).unwrap()).unwrap();
    let question = json!({"agentId": ann, "title": "May I?", "taskId": about});
    let asked = fixture.write(approvals::create, crew, Fixture::input(question).unwrap()).unwrap();
    let answer = Fixture::input(json!({"decision": "approved"})).unwrap();
    fixture.write(approvals::decide, (crew, asked.id), answer).unwrap();
    let memory = Fixture::input(json!({"content": "42"})).unwrap();
    fixture.write(memories::create, (crew, ann), memory).unwrap();
    let entry = Fixture::input(json!({"kind": "summary", "title": "Done"})).unwrap();
    fixture.write(timeline::create, crew, entry).unwrap();
    let done = Fixture::input(json!({"status": "done", "fromAgentId": ann})).unwrap();
    fixture.write(tasks::update, (crew, about), done).unwrap();
    fixture.write(members::delete, (crew, ann), ()).unwrap();
    (crew, ann, about)
}

use ActivityKind as Kind;

/// What has happened in it.
const HAPPENED: [Kind; 12] = [
    Kind::AgentHired,
    Kind::TaskCreated,
    Kind::TaskChanged,
    Kind::MessageSent,
    Kind::RunReported,
    Kind::BudgetExhausted,
    Kind::ApprovalRequested,
    Kind::ApprovalDecided,
    Kind::MemoryStored,
    Kind::TimelineEntry,
    Kind::TaskChanged,
    Kind::AgentLeft,
];

#[test]
fn all_that_happened_is_in_one_order_in_pages_of_any_size_both_ways() {
    let fixture = Fixture::new();
    let (crew, ann, about) = lively(&fixture);
    let other = team(&fixture, "other", None);
    task(&fixture, other, json!({"title": "Not ours"}));
    let oldest_first = read(&fixture, crew, json!({"after": "start"}), all());
    // The memories of an agent go with it.
    let expected: Vec<_> =
        HAPPENED.into_iter().filter(|kind| *kind != Kind::MemoryStored).collect();
    assert_eq!(kinds(&oldest_first), expected);
    let mut newest_first = read(&fixture, crew, json!({}), all());
    newest_first.items.reverse();
    assert_eq!(json!(oldest_first.items), json!(newest_first.items));
    for (query, is_reversed) in [(json!({"after": "start"}), false), (json!({}), true)] {
        for limit in 1..=expected.len() {
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let page = read(&fixture, crew, query.clone(), Part { limit, cursor, ..all() });
                found.extend(ids(&page));
                assert!(page.items.len() == limit || page.next.is_none());
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            if is_reversed {
                found.reverse();
            }
            assert_eq!(found, ids(&oldest_first), "{query} in pages of {limit}");
        }
    }
    let changed = json!(oldest_first.items[2]);
    assert_eq!(changed["oldStatus"], "open");
    assert_eq!(changed["status"], "in_progress");
    assert_eq!(changed["assigneeAgentId"], json!(ann));
    assert_eq!(changed["task"], json!({"id": about, "number": 1, "title": "Count"}));
    assert_eq!(json!(oldest_first.items[3])["text"], "Half");
    // A user who acted without naming an agent is named, too.
    let created = json!(oldest_first.items[1]);
    assert_eq!(
        (&created["userId"], &created["name"]),
        (&json!(user(&fixture.member)), &json!("ben"))
    );
    fixture.assert_sound();
}

#[test]
fn filters_select_by_task_agent_and_kind() {
    let fixture = Fixture::new();
    let (crew, ann, about) = lively(&fixture);
    let found = |query: Value| kinds(&read(&fixture, crew, query, all()));
    let mut of_task = found(json!({"taskId": about}));
    of_task.reverse();
    let expected = [
        Kind::TaskCreated,
        Kind::TaskChanged,
        Kind::MessageSent,
        Kind::RunReported,
        Kind::ApprovalRequested,
        Kind::ApprovalDecided,
        Kind::TaskChanged,
    ];
    assert_eq!(of_task, expected);
    for kind in HAPPENED {
        let kinds = found(json!({"kind": kind}));
        let expected = HAPPENED.iter().filter(|one| **one == kind && kind != Kind::MemoryStored);
        assert_eq!(kinds.len(), expected.count(), "{kind:?}");
        assert!(kinds.iter().all(|one| *one == kind));
    }
    assert_eq!(found(json!({"agentId": ann})).len(), 8);
    assert_eq!(found(json!({"agentId": Id::<Member>::NIL})).len(), 0);
    // A task of another team is none of this one's.
    let other = team(&fixture, "other", None);
    let elsewhere = read(&fixture, other, json!({"taskId": about}), all());
    assert_eq!(kinds(&elsewhere), []);
}

#[test]
fn who_follows_gets_each_entry_once_and_none_before_it_is_settled() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let begin = read(&fixture, crew, json!({}), Part { is_stream: true, ..all() });
    assert_eq!(ids(&begin), []);
    let (held, is_held) = mpsc::channel::<()>();
    let (made, is_made) = mpsc::channel();
    let store = fixture.store.clone();
    let org = fixture.org;
    // It has its id, and is committed after what is written meanwhile.
    let slow = std::thread::spawn(move || {
        let write = async move {
            let mut first = true;
            store
                .write_as(crate::store::WorkHints::small(Id::NIL), org, move |tx| {
                    let entry = changes::TaskChange {
                        id: tx.new_id(),
                        team: crew,
                        task: Id::NIL,
                        agent: None,
                        by: None,
                        old_status: crate::resources::teams::task::TaskStatus::Open,
                        new_status: crate::resources::teams::task::TaskStatus::Done,
                        old_assignee: None,
                        new_assignee: None,
                        created_at: tx.now(),
                    };
                    tx.insert(&entry)?;
                    if std::mem::take(&mut first) {
                        made.send(entry.id).unwrap();
                        let _ = is_held.recv();
                    }
                    Ok(())
                })
                .await
        };
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(write)
    });
    let early: Id<changes::TaskChange> = is_made.recv().unwrap();
    let late = message(
        &fixture,
        crew,
        json!({"body": "x", "toAgentId": add_agent(&fixture, crew, "ann")}),
    );
    assert!(late.id.uuid() > early.uuid());
    let from = FollowFrom::Position(begin.end.clone().unwrap());
    let meanwhile = read(&fixture, crew, json!({}), Part { from: from.clone(), ..all() });
    assert_eq!(ids(&meanwhile), [], "what has a smaller id may still come");
    assert!(meanwhile.again_at.is_some());
    let newest = read(&fixture, crew, json!({}), all());
    assert_eq!(kinds(&newest), [Kind::MessageSent, Kind::AgentHired]);
    assert!(newest.items.iter().all(|entry| !entry.settled));
    drop(held);
    slow.join().unwrap().unwrap();
    let then = read(&fixture, crew, json!({}), Part { from, ..all() });
    let kinds_then = kinds(&then);
    assert_eq!(kinds_then.iter().filter(|kind| **kind == Kind::TaskChanged).count(), 1);
    assert_eq!(kinds_then.len(), 3);
    assert!(then.items.iter().all(|entry| entry.settled) && then.again_at.is_none());
    let from = FollowFrom::Position(then.end.unwrap());
    let nothing = read(&fixture, crew, json!({}), Part { from: from.clone(), ..all() });
    assert_eq!(ids(&nothing), []);
    let one_more = task(&fixture, crew, json!({"title": "x"}));
    let more = read(&fixture, crew, json!({}), Part { from, ..all() });
    assert_eq!(ids(&more), [one_more.id.cast()]);
    let event = FollowFrom::Event(then.items[1].id.to_string());
    let again = read(&fixture, crew, json!({}), Part { from: event, is_stream: true, ..all() });
    assert_eq!(ids(&again), [then.items[2].id, one_more.id.cast()]);
}

#[test]
fn what_belongs_to_a_restricted_agent_is_shown_to_those_who_may_use_it() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    agent(&fixture, "sec");
    let sec = add_agent_with(&fixture, crew, json!({"stableKey": "sec", "role": "member"}));
    message(&fixture, crew, json!({"toAgentId": sec, "body": "Secret"}));
    let budget = Fixture::input(json!({"budget": {"monthlyUsd": 1}})).unwrap();
    fixture.write(members::update, (crew, sec), budget).unwrap();
    let run = Fixture::input(json!({"status": "succeeded", "costUsd": 2})).unwrap();
    fixture.write(runs::create, (crew, sec), run).unwrap();
    let memory = Fixture::input(json!({"content": "42"})).unwrap();
    fixture.write(memories::create, (crew, sec), memory).unwrap();
    let public = json!({"fromAgentId": sec, "body": "To all"});
    fixture.write(messages::send_to_humans, crew, Fixture::input(public).unwrap()).unwrap();
    let shown = read(&fixture, crew, json!({}), all());
    assert_eq!(shown.items.len(), 7);
    assert!(kinds(&shown).contains(&Kind::BudgetExhausted));
    assert!(kinds(&shown).contains(&Kind::BudgetChanged));
    let closed = json!({"name": "Closed", "access": "restricted"});
    let closed = fleets::tests::make(&fixture, closed).id;
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(&fixture, &fixture.owner, "sec", fleet).unwrap();
    let of_member = read(&fixture, crew, json!({}), all());
    assert_eq!(kinds(&of_member), [Kind::MessageSent, Kind::AgentHired]);
    let of_owner = read_as(&fixture, &fixture.owner, crew, json!({}), all()).unwrap();
    assert_eq!(of_owner.items.len(), 7);
}

/// Has so many entries of the timeline with this body behind an agent, whose filter leaves them out: the
/// first page ends before it has found anything, and the next one goes on.
fn left_out(entry: &Value, times: usize) {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    // As many as one transaction takes.
    let at_once = if entry["body"].is_null() { 3500 } else { 40 };
    for _ in 0..times / at_once {
        repeat(&fixture, timeline::create, crew, entry.clone(), at_once);
    }
    let query = json!({"agentId": ann});
    let first = read(&fixture, crew, query.clone(), all());
    assert_eq!((first.items.len(), first.next.is_some()), (0, true));
    let second = read(&fixture, crew, query, Part { cursor: first.next, ..all() });
    assert_eq!((kinds(&second), second.next), (vec![Kind::AgentHired], None));
}

#[test]
fn a_page_ends_after_many_bytes_that_a_filter_leaves_out_and_the_next_goes_on() {
    left_out(&json!({"kind": "summary", "title": "x", "body": "x".repeat(100_000)}), 800);
}

#[test]
fn a_page_ends_after_many_rows_that_a_filter_leaves_out_and_the_next_goes_on() {
    left_out(&json!({"kind": "summary", "title": "x"}), 21_000);
}

/// Kind, status, text, agent and name of what came after `after`.
fn told(fixture: &Fixture, crew: Id<Team>, after: Id<ActivityEntry>) -> Vec<[Value; 5]> {
    let found = read(fixture, crew, json!({"after": after}), all());
    let shown = |entry: &ActivityEntry| {
        let entry = json!(entry);
        ["kind", "status", "text", "agentId", "name"].map(|field| entry[field].clone())
    };
    found.items.iter().map(shown).collect()
}

fn newest(fixture: &Fixture, crew: Id<Team>) -> Id<ActivityEntry> {
    read(fixture, crew, json!({}), all()).items[0].id
}

#[test]
fn each_pause_and_its_end_is_told_once_in_the_teams_that_it_holds() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let other = team(&fixture, "other", None);
    let bob = add_agent(&fixture, other, "bob");
    let (before, elsewhere) = (newest(&fixture, crew), newest(&fixture, other));
    let why = || Fixture::input(json!({"reason": "It loops\nall day"})).unwrap();
    let end = || Fixture::input(json!({})).unwrap();
    for _ in 0..2 {
        fixture.write(pausing::pause_member, (crew, ann), why()).unwrap();
        fixture.write(pausing::pause_agent, "ann".into(), why()).unwrap();
        fixture.write(pausing::pause_team, crew, why()).unwrap();
        fixture.write_as(&fixture.owner, pausing::pause_all, (), why()).unwrap();
    }
    for _ in 0..2 {
        fixture.write_as(&fixture.owner, pausing::resume_all, (), end()).unwrap();
        fixture.write(pausing::resume_team, crew, end()).unwrap();
        fixture.write(pausing::resume_agent, "ann".into(), end()).unwrap();
        fixture.write(pausing::resume_member, (crew, ann), end()).unwrap();
    }
    let (why, no) = (json!("It loops"), Value::Null);
    let ann = [json!(ann), json!("ann")];
    let by = |name: &str| [Value::Null, json!(name)];
    let entry = |kind: &str, scope: &str, text: &Value, [agent, name]: [Value; 2]| {
        [json!(kind), json!(scope), text.clone(), agent, name]
    };
    let expected = [
        entry("paused", "team_agent", &why, ann.clone()),
        entry("paused", "agent", &why, ann.clone()),
        entry("paused", "team", &why, by("ben")),
        entry("paused", "organization", &why, by("ada")),
        entry("resumed", "organization", &no, by("ada")),
        entry("resumed", "team", &no, by("ben")),
        entry("resumed", "agent", &no, ann.clone()),
        entry("resumed", "team_agent", &no, ann.clone()),
    ];
    assert_eq!(told(&fixture, crew, before), expected);
    assert_eq!(told(&fixture, other, elsewhere), [expected[3].clone(), expected[4].clone()]);
    let of_bob = read(&fixture, other, json!({"agentId": bob}), all());
    assert_eq!(kinds(&of_bob), [Kind::AgentHired]);
    let paused = read(&fixture, crew, json!({"kind": "paused"}), all());
    assert_eq!(paused.items.len(), 4);
    assert!(paused.items.iter().all(|entry| entry.user_id.is_some()));
    let later = team(&fixture, "later", None);
    for query in [json!({}), json!({"after": "start"})] {
        let found = read(&fixture, later, query, all());
        assert_eq!(kinds(&found), [], "it was not there yet");
    }
    fixture.write_as(&fixture.owner, manage::delete, crew, ()).unwrap();
    fixture.complete_removals();
    assert_eq!(told(&fixture, other, elsewhere).len(), 2, "what is of all stays");
    fixture.assert_sound();
}

#[test]
fn what_becomes_of_a_budget_is_told_each_time() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let before = newest(&fixture, crew);
    let set = |body: Value| {
        fixture.write(manage::update, crew, Fixture::input(body).unwrap()).unwrap();
    };
    let spend = || {
        let run = json!({"status": "succeeded", "costUsd": 2});
        fixture.write(runs::create, (crew, ann), Fixture::input(run).unwrap()).unwrap();
    };
    set(json!({"budget": {"monthlyUsd": 1}}));
    spend();
    set(json!({"name": "Crew"}));
    set(json!({"budget": {"monthlyUsd": 2.5}}));
    spend();
    fixture.pass_secs(17 * 24 * 3600);
    let end_months = budgets::RESOURCE.sweeps[0].run;
    let end = move |tx: &mut Tx| end_months(tx, &RetentionSettings::default()).map(drop);
    fixture.store.write_blocking(fixture.org, end).unwrap();
    set(json!({"budget": null}));
    let mut kinds = told(&fixture, crew, before);
    kinds.retain(|entry| entry[0] != "run_reported");
    let shown: Vec<_> = kinds.iter().map(|entry| json!(entry[..3])).collect();
    let expected = [
        json!(["budget_changed", "notify", "1 USD a month"]),
        json!(["budget_exhausted", null, null]),
        json!(["budget_changed", "notify", "2.5 USD a month"]),
        json!(["budget_exhausted", null, null]),
        json!(["budget_renewed", null, null]),
        json!(["budget_changed", null, null]),
    ];
    assert_eq!(shown, expected);
    let own = Fixture::input(json!({"budget": {"monthlyUsd": 3}})).unwrap();
    fixture.write(members::update, (crew, ann), own).unwrap();
    let last = json!(read(&fixture, crew, json!({}), all()).items[0]);
    assert_eq!((&last["agentId"], &last["resourceId"]), (&json!(ann), &json!(ann)));
    fixture.assert_sound();
}

#[test]
fn a_schedule_is_told_of_from_its_creation_to_its_end() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let before = newest(&fixture, crew);
    let wake = json!({"agentId": ann, "text": "Look"});
    let body = json!({"name": "Hourly", "cron": "0 * * * *", "wake": wake});
    let made = fixture.write(schedules::create, crew, Fixture::input(body).unwrap()).unwrap();
    let at = (crew, Id::parse(json!(made)["id"].as_str().unwrap()));
    for name in ["Daily", "Daily"] {
        let patch = Fixture::input(json!({"name": name, "cron": "0 0 * * *"})).unwrap();
        fixture.write(schedules::update, at, patch).unwrap();
    }
    let why = Fixture::input(json!({"reason": "Too often"})).unwrap();
    fixture.write(schedules::pause, at, why).unwrap();
    fixture.write(schedules::resume, at, Fixture::input(json!({})).unwrap()).unwrap();
    fixture.write(schedules::delete, at, ()).unwrap();
    let shown: Vec<_> =
        told(&fixture, crew, before).iter().map(|entry| json!(entry[..3])).collect();
    let expected = [
        json!(["schedule_created", null, "Hourly"]),
        json!(["schedule_changed", null, "Daily"]),
        json!(["paused", "schedule", "Daily"]),
        json!(["resumed", "schedule", "Daily"]),
        json!(["schedule_deleted", null, "Daily"]),
    ];
    assert_eq!(shown, expected);
    let found = read(&fixture, crew, json!({"after": before}), all());
    assert!(found.items.iter().all(|entry| entry.resource_id == at.1.cast()));
    assert_eq!(kinds(&read(&fixture, crew, json!({"agentId": ann}), all())), [Kind::AgentHired]);
    // As the schedule itself, it is for those who may use the agent that it names.
    let closed = json!({"name": "Closed", "access": "restricted"});
    let closed = fleets::tests::make(&fixture, closed).id;
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(&fixture, &fixture.owner, "ann", fleet).unwrap();
    assert!(told(&fixture, crew, before).is_empty());
    let of_owner = read_as(&fixture, &fixture.owner, crew, json!({"after": before}), all());
    assert_eq!(of_owner.unwrap().items.len(), 5);
}

#[test]
fn what_cannot_be_read_is_an_error_and_no_row_is_left_out_for_it() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let memory = Fixture::input(json!({"content": "42"})).unwrap();
    fixture.write(memories::create, (crew, ann), memory).unwrap();
    let parts = args(crew, Fixture::input::<ActivityFilter>(json!({"after": "start"})).unwrap());
    let settled = fixture.store.settled_id();
    let hints = crate::store::WorkHints::small(fixture.org);
    // How many reads a light one has.
    let (mut most, mut is_first) = (0, true);
    let count = fixture.store.read_in_turn(hints, fixture.org, None, |view| {
        while is_first && view.has::<Team>(&Id::NIL).is_ok() {
            most += 1;
        }
        is_first = false;
        Ok(())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(count).unwrap();
    let (mut failed, mut whole) = (0, 0);
    for spare in 0..100 {
        let mut first = None;
        let done = fixture.store.read_in_turn(hints, fixture.org, None, |view| {
            let is_first = first.is_none();
            if is_first {
                (spare..most).try_for_each(|_| view.has::<Team>(&Id::NIL).map(drop))?;
            }
            let point = FollowPoint { from: &FollowFrom::Request, settled, is_stream: false };
            let found = list(view, &Req::new(&parts, &fixture.member), &point);
            if is_first {
                first = Some(found.map(|found| kinds(&found)));
            }
            Ok(())
        });
        runtime.block_on(done).unwrap();
        match first.unwrap() {
            Ok(kinds) => {
                assert_eq!(kinds, [Kind::AgentHired, Kind::MemoryStored], "{spare} reads");
                whole += 1;
            }
            Err(_) => failed += 1,
        }
    }
    assert!(failed > 0 && whole > 0, "{failed} failed, {whole} did not");
}

#[test]
fn a_place_that_is_none_is_refused() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let refused = |query, part| {
        read_as(&fixture, &fixture.member, crew, query, part).err().unwrap().issues()[0]
            .path
            .clone()
    };
    assert_eq!(refused(json!({"after": "yesterday"}), all()), "after");
    let from = FollowFrom::Event("yesterday".into());
    let issue = refused(json!({}), Part { from, is_stream: true, ..all() });
    assert_eq!(issue, "Last-Event-ID");
    let gone = read_as(&fixture, &fixture.member, Id::NIL, json!({}), all()).err().unwrap();
    assert_eq!(gone.kind(), crate::base::Kind::NotFound);
    let all_settled = Part { settled: Some(Id::new(Uuid::max())), ..all() };
    assert_eq!(
        ids(&read(&fixture, crew, json!({"after": Id::<Team>::NIL.successor()}), all_settled)),
        []
    );
}
