//! What spending brings: who is told, what is held back, and when it goes on.

use std::time::Duration;

use bincode::{Decode, Encode};
use serde_json::{Value, json};

use super::*;
use crate::outbox::Event;
use crate::resources::teams::member::fetch_member;
use crate::resources::teams::rousing::run_jobs;
use crate::resources::teams::testing::{
    add_agent, add_scrum_master, code, events, take, task, team,
};
use crate::resources::teams::wakes::WakeReason;
use crate::resources::teams::{claims, manage, members, runs};
use crate::resources::testing::Fixture;
use crate::store::codec;

type Place = (Id<Team>, Id<Member>);

const DAY: i64 = 24 * 3600;

fn spend(fixture: &Fixture, at: Place, cost: f64) {
    let body = json!({"status": "succeeded", "costUsd": cost});
    fixture.write(runs::create, at, Fixture::input(body).unwrap()).unwrap();
}

fn set(fixture: &Fixture, team: Id<Team>, patch: Value) -> Value {
    json!(fixture.write(manage::update, team, Fixture::input(patch).unwrap()).unwrap())
}

fn set_agent(fixture: &Fixture, at: Place, patch: Value) -> Value {
    json!(fixture.write(members::update, at, Fixture::input(patch).unwrap()).unwrap())
}

fn exhausted(fixture: &Fixture) -> Vec<Event> {
    let is_one = |event: &Event| event.event_type == EventType::TeamBudgetExhausted;
    events(fixture).into_iter().filter(is_one).collect()
}

fn claim(fixture: &Fixture, (team, agent): Place) -> Result<()> {
    let id = task(fixture, team, json!({"title": "Free"})).id;
    let body = Fixture::input(json!({"agentId": agent}))?;
    fixture.write(claims::claim, (team, id), body).map(drop)
}

fn pause(fixture: &Fixture, team: Id<Team>, agent: Id<Member>) -> Value {
    let held = |view: &View| Ok(json!(holds::of_member(view, &fetch_member(view, team, agent)?)?));
    fixture.store.read_now(fixture.org, held).unwrap()
}

fn low(fixture: &Fixture) -> Vec<(Value, Value)> {
    let page = fixture.read(list_low, (), ()).unwrap();
    let shown = |one: &LowBudget| (json!(one.agent_id), json!(one)["budget"]["spentUsd"].clone());
    page.items.iter().map(shown).collect()
}

#[test]
fn exceeding_the_budget_is_one_event_per_month() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(0.3));
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    // As binary fractions 0.1 and 0.2 make more than 0.3.
    for cost in [0.1, 0.2, 0.0] {
        spend(&fixture, ann, cost);
    }
    assert!(exhausted(&fixture).is_empty());
    for _ in 0..2 {
        spend(&fixture, ann, 0.000_000_1);
        assert_eq!(exhausted(&fixture).len(), 1);
    }
    let payload = &exhausted(&fixture)[0].payload.0;
    let expected = json!({
        "teamId": crew, "teamName": "crew", "monthlyUsd": 0.3, "spentUsd": 0.300_000_1,
        "onExhausted": "notify", "agentId": null, "stableKey": null, "agentName": null,
    });
    assert_eq!(json!(payload), expected);

    // The clock starts on the 15th of January.
    fixture.pass_secs(17 * DAY);
    spend(&fixture, ann, 0.3);
    assert_eq!(exhausted(&fixture).len(), 1);
    spend(&fixture, ann, 0.1);
    assert_eq!(exhausted(&fixture).len(), 2);
}

#[test]
fn what_an_earlier_release_has_told_of_is_not_told_again() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(1.0));
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    let told = fixture.store.write_blocking(fixture.org, move |tx| {
        let month_start = tx.now().month_start();
        tx.insert(&MonthlySpending {
            team: crew,
            month_start,
            spent_usd: 1.5,
            exhaustion_published: true,
        })
    });
    told.unwrap();
    spend(&fixture, ann, 1.0);
    assert!(exhausted(&fixture).is_empty());
    assert_eq!(low(&fixture), [(Value::Null, json!(2.5))]);
}

#[test]
fn without_a_budget_spending_publishes_no_event() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    spend(&fixture, ann, 1e9);
    assert!(exhausted(&fixture).is_empty() && low(&fixture).is_empty());
}

#[test]
fn a_budget_that_pauses_holds_its_team_back_until_it_is_raised() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}}));
    task(&fixture, crew, json!({"title": "Count", "assigneeAgentId": bob}));
    spend(&fixture, (crew, ann), 0.99);
    claim(&fixture, (crew, ann)).unwrap();
    spend(&fixture, (crew, ann), 0.01);

    assert_eq!(code(claim(&fixture, (crew, ann))), "agent_paused");
    assert!(take(&fixture, crew, bob).is_empty());
    let expected = json!({
        "scope": "team_budget", "by": null, "since": "2026-01-15T12:00:00.000Z",
        "endsAt": "2026-02-01T00:00:00.000Z", "reason": null,
    });
    assert_eq!(pause(&fixture, crew, bob), expected);
    // What a run that went on has cost is counted.
    spend(&fixture, (crew, ann), 2.0);
    assert_eq!(exhausted(&fixture).len(), 1);

    // Not by so little.
    assert_eq!(set(&fixture, crew, json!({"budget": {"monthlyUsd": 3}}))["paused"], expected);
    let raised = set(&fixture, crew, json!({"budget": {"monthlyUsd": 3.5}}));
    assert_eq!(raised["paused"], Value::Null);
    assert_eq!(raised["budget"]["onExhausted"], "pause", "it stays as it was");
    assert_eq!(take(&fixture, crew, bob).len(), 1);
    claim(&fixture, (crew, ann)).unwrap();
    // Lowered, it holds back at once.
    let lowered = set(&fixture, crew, json!({"budget": {"monthlyUsd": 2}}));
    assert_eq!(lowered["paused"]["scope"], "team_budget");
    let told = set(&fixture, crew, json!({"budget": {"monthlyUsd": 2, "onExhausted": "notify"}}));
    assert_eq!(told["paused"], Value::Null);
}

#[test]
fn a_budget_of_an_agent_holds_that_agent_back_and_no_other() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    spend(&fixture, (crew, ann), 4.0);
    let budget = json!({"budget": {"monthlyUsd": 5, "onExhausted": "pause"}});
    let shown = set_agent(&fixture, (crew, ann), budget)["budget"].clone();
    let expected = json!({
        "monthlyUsd": 5.0, "spentUsd": 4.0, "onExhausted": "pause", "unpricedTokens": 0,
    });
    assert_eq!(shown, expected);
    assert_eq!(low(&fixture), [(json!(ann), json!(4.0))]);
    spend(&fixture, (crew, bob), 100.0);
    claim(&fixture, (crew, ann)).unwrap();
    spend(&fixture, (crew, ann), 1.0);
    assert_eq!(code(claim(&fixture, (crew, ann))), "agent_paused");
    assert_eq!(pause(&fixture, crew, ann)["scope"], "agent_budget");
    claim(&fixture, (crew, bob)).unwrap();
    let told = exhausted(&fixture);
    assert_eq!((told.len(), &told[0].payload.0["agentName"]), (1, &json!("ann")));
    assert_eq!(set_agent(&fixture, (crew, ann), json!({"budget": null}))["paused"], Value::Null);

    set_agent(&fixture, (crew, ann), json!({"budget": {"monthlyUsd": 5}}));
    fixture.write(members::delete, (crew, ann), ()).unwrap();
    assert!(low(&fixture).is_empty());
    fixture.assert_sound();
}

#[test]
fn agents_look_again_when_the_month_ends_in_the_zone_of_the_team() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    set(
        &fixture,
        crew,
        json!({
            "budget": {"monthlyUsd": 1, "onExhausted": "pause"}, "timeZone": "america/new_york",
        }),
    );
    task(&fixture, crew, json!({"title": "Count", "assigneeAgentId": ann}));
    spend(&fixture, (crew, ann), 1.0);
    assert_eq!(pause(&fixture, crew, ann)["endsAt"], "2026-02-01T05:00:00.000Z");
    let sweep = || {
        let settings = RetentionSettings::default();
        let run = move |tx: &mut Tx| end_months(tx, &settings).map(drop);
        fixture.store.write_blocking(fixture.org, run).unwrap();
        fixture.store.read_now(fixture.org, |view| view.count(&CURRENT, &(), 9))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    // From noon on the 15th to just before five on the 1st.
    fixture.pass_secs(17 * DAY - 7 * 3600 - 1);
    assert_eq!(sweep().unwrap(), 1);
    assert!(take(&fixture, crew, ann).is_empty());
    fixture.pass_secs(1);
    assert_eq!(pause(&fixture, crew, ann), Value::Null, "whoever asks is not held back");
    let mut listener = fixture.store.signals().subscribe(ann.uuid());
    assert_eq!(sweep().unwrap(), 0);
    run_jobs(&fixture);
    let told = async { tokio::time::timeout(Duration::from_secs(5), listener.notified()).await };
    runtime.block_on(told).expect("who waits is told");
    assert_eq!(take(&fixture, crew, ann).len(), 1);
    assert!(low(&fixture).is_empty());
}

/// What the wakes of this agent say of budgets; it has no others.
fn heard(fixture: &Fixture, crew: Id<Team>, agent: Id<Member>) -> Vec<String> {
    let wakes = take(fixture, crew, agent);
    assert!(wakes.iter().all(|wake| wake.reason == WakeReason::BudgetLow));
    wakes.into_iter().map(|wake| wake.text.unwrap().into_string()).collect()
}

#[test]
fn the_scrum_master_hears_of_a_budget_that_is_low_and_of_one_that_is_used_up() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(10.0));
    let ann = add_agent(&fixture, crew, "ann");
    let master = add_scrum_master(&fixture, crew, "max");
    let heard = || heard(&fixture, crew, master);
    spend(&fixture, (crew, ann), 7.99);
    assert!(heard().is_empty());
    spend(&fixture, (crew, ann), 0.01);
    spend(&fixture, (crew, ann), 1.0);
    assert_eq!(heard(), ["The budget of the team is low. Spent this month: 9 of 10 USD."]);
    spend(&fixture, (crew, ann), 2.0);
    spend(&fixture, (crew, ann), 1.0);
    assert_eq!(heard(), ["The budget of the team is used up. Spent this month: 12 of 10 USD."]);
    // One does not take the place of another.
    set_agent(&fixture, (crew, ann), json!({"budget": {"monthlyUsd": 20}}));
    let bob = add_agent(&fixture, crew, "bob");
    set_agent(&fixture, (crew, bob), json!({"budget": {"monthlyUsd": 1}}));
    spend(&fixture, (crew, ann), 6.0);
    spend(&fixture, (crew, bob), 0.9);
    let whose: Vec<_> = heard().iter().map(|text| text.contains("agent ann")).collect();
    assert_eq!(whose, [true, false]);
    // It knows what it has done itself.
    set_agent(&fixture, (crew, master), json!({"budget": {"monthlyUsd": 1}}));
    spend(&fixture, (crew, master), 2.0);
    assert!(heard().is_empty());
}

#[test]
fn those_held_back_in_a_month_are_told_though_the_next_is_low_at_once() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}}));
    spend(&fixture, (crew, ann), 1.0);
    fixture.pass_secs(17 * DAY);
    spend(&fixture, (crew, ann), 0.9);
    let mut listener = fixture.store.signals().subscribe(ann.uuid());
    let end = |tx: &mut Tx| end_months(tx, &RetentionSettings::default()).map(drop);
    fixture.store.write_blocking(fixture.org, end).unwrap();
    run_jobs(&fixture);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let told = async { tokio::time::timeout(Duration::from_secs(5), listener.notified()).await };
    runtime.block_on(told).expect("who waits is told");
    assert_eq!(low(&fixture).len(), 1, "that of this month stays");
}

#[test]
fn a_month_that_goes_on_in_another_zone_is_not_told_of_again() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(1.0));
    let ann = add_agent(&fixture, crew, "ann");
    spend(&fixture, (crew, ann), 2.0);
    // Half past midnight on the 1st of February.
    fixture.pass_secs(16 * DAY + 12 * 3600 + 1800);
    let end = |tx: &mut Tx| end_months(tx, &RetentionSettings::default()).map(drop);
    fixture.store.write_blocking(fixture.org, end).unwrap();
    set(&fixture, crew, json!({"timeZone": "America/New_York"}));
    spend(&fixture, (crew, ann), 0.5);
    assert_eq!(exhausted(&fixture).len(), 1);
    assert_eq!(low(&fixture), [(Value::Null, json!(2.5))]);
}

#[test]
fn of_a_budget_of_nothing_nothing_is_begun_in_any_month() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    set_agent(&fixture, (crew, ann), json!({"budget": {"monthlyUsd": 0, "onExhausted": "pause"}}));
    for _ in 0..2 {
        let refused = claim(&fixture, (crew, ann)).unwrap_err();
        assert_eq!(refused.code(), "agent_paused");
        assert!(refused.message().ends_with("; raise the budget"), "{}", refused.message());
        assert_eq!(pause(&fixture, crew, ann)["endsAt"], Value::Null, "no month ends it");
        fixture.pass_secs(31 * DAY);
    }
}

#[test]
fn a_budget_of_nothing_is_told_of_in_each_month_since_its_begin() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    set(&fixture, crew, json!({"timeZone": "Asia/Tokyo"}));
    set_agent(&fixture, (crew, ann), json!({"budget": {"monthlyUsd": 0, "onExhausted": "pause"}}));
    // Seven hours into February there, and not yet here.
    fixture.pass_secs(16 * DAY + 10 * 3600);
    assert_eq!(pause(&fixture, crew, ann)["since"], "2026-01-31T15:00:00.000Z");
    end_all(&fixture);
    assert_eq!(low(&fixture), [(json!(ann), json!(0.0))]);
    assert_eq!(exhausted(&fixture).len(), 2);
    assert_eq!(waiting(&fixture), 1);
}

#[test]
fn a_budget_that_was_raised_in_another_month_holds_nobody_in_the_one_before() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(1.0));
    let ann = add_agent(&fixture, crew, "ann");
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}}));
    // February there, January here.
    fixture.pass_secs(16 * DAY);
    set(&fixture, crew, json!({"timeZone": "Pacific/Kiritimati"}));
    spend(&fixture, (crew, ann), 1.0);
    assert_eq!(pause(&fixture, crew, ann)["scope"], "team_budget");
    set(&fixture, crew, json!({"timeZone": "UTC"}));
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 100, "onExhausted": "pause"}}));
    fixture.pass_secs(DAY);
    assert_eq!(pause(&fixture, crew, ann), Value::Null);
    assert_eq!(low(&fixture), []);
}

/// Tells those of months that have ended, step by step; returns how many steps it took.
fn end_all(fixture: &Fixture) -> usize {
    let mut settings = RetentionSettings::default();
    for steps in 1.. {
        let own = settings.clone();
        let step = move |tx: &mut Tx| end_months(tx, &own);
        match fixture.store.write_blocking(fixture.org, step).unwrap() {
            SweepProgress::Clean => return steps,
            SweepProgress::More => {}
            SweepProgress::MoreBehind(place) => settings.behind = Some(place),
        }
    }
    unreachable!("it ends")
}

fn waiting(fixture: &Fixture) -> usize {
    let count = |view: &View| view.count(&CURRENT, &(), usize::MAX);
    fixture.store.read_now(fixture.org, count).unwrap()
}

/// Does the jobs that judge the budgets of agents; returns how many there were.
fn judge_all(fixture: &Fixture) -> usize {
    let run = |tx: &mut Tx| {
        let mut jobs: Vec<Job> = tx.all(ListSource::TABLE, &())?;
        jobs.retain(|job| job.kind == "team.judge_budgets");
        for job in &jobs {
            judge_next_members(tx, job)?;
            tx.remove(job)?;
        }
        Ok(jobs.len())
    };
    fixture.store.write_blocking(fixture.org, run).unwrap()
}

#[test]
fn agents_of_a_month_that_goes_on_in_another_zone_are_held_back_and_told_when_it_ends() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    set_agent(&fixture, (crew, ann), json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}}));
    spend(&fixture, (crew, ann), 1.0);
    // Half past midnight on the 1st of February.
    fixture.pass_secs(16 * DAY + 12 * 3600 + 1800);
    end_all(&fixture);
    assert_eq!(waiting(&fixture), 0);
    set(&fixture, crew, json!({"timeZone": "America/New_York"}));
    assert_eq!(waiting(&fixture), 1, "its end is to come");
    let held = pause(&fixture, crew, ann);
    assert_eq!(
        (&held["scope"], &held["endsAt"]),
        (&json!("agent_budget"), &json!("2026-02-01T05:00:00.000Z"),)
    );
    assert_eq!(low(&fixture), [(json!(ann), json!(1.0))]);
    assert_eq!(exhausted(&fixture).len(), 1, "of a month it is told once");
    fixture.pass_secs(5 * 3600);
    let mut listener = fixture.store.signals().subscribe(ann.uuid());
    end_all(&fixture);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let told = async { tokio::time::timeout(Duration::from_secs(5), listener.notified()).await };
    runtime.block_on(told).expect("who waits is told");
    assert_eq!(pause(&fixture, crew, ann), Value::Null);
}

#[test]
fn a_budget_whose_end_was_told_holds_nobody_until_it_is_judged_anew() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    set_agent(&fixture, (crew, ann), json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}}));
    spend(&fixture, (crew, ann), 1.0);
    let end = move |tx: &mut Tx| {
        let state: BudgetState = tx.view().first(&CURRENT, &(), Order::Ascending)?.unwrap();
        tx.put(&BudgetState { is_over: true, ..state })
    };
    fixture.store.write_blocking(fixture.org, end).unwrap();
    assert_eq!(pause(&fixture, crew, ann), Value::Null);
    spend(&fixture, (crew, ann), 0.5);
    assert_eq!(pause(&fixture, crew, ann)["scope"], "agent_budget");
}

#[test]
fn of_many_agents_a_job_judges_the_budgets_in_another_zone() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let agents: Vec<_> = (0..=rousing::AT_ONCE)
        .map(|n| add_agent(&fixture, crew, String::leak(format!("agent-{n}"))))
        .collect();
    for agent in &agents {
        let budget = json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}});
        set_agent(&fixture, (crew, *agent), budget);
        spend(&fixture, (crew, *agent), 1.0);
    }
    // Half past midnight on the 1st of February.
    fixture.pass_secs(16 * DAY + 12 * 3600 + 1800);
    end_all(&fixture);
    assert_eq!(waiting(&fixture), 0);
    set(&fixture, crew, json!({"timeZone": "America/New_York"}));
    assert_eq!(waiting(&fixture), rousing::AT_ONCE);
    assert_eq!(judge_all(&fixture), 1);
    assert_eq!(waiting(&fixture), rousing::AT_ONCE + 1);
    assert_eq!(judge_all(&fixture), 0);
}

#[test]
fn months_are_ended_some_at_a_time_and_what_goes_on_is_left_behind() {
    let fixture = Fixture::new();
    let (crew, west) = (team(&fixture, "crew", None), team(&fixture, "west", None));
    set(&fixture, west, json!({"timeZone": "America/New_York"}));
    let states = move |tx: &mut Tx| {
        for team in (0..SWEEP_ROWS).map(|n| if n < 250 { crew } else { west }) {
            let (agent, month_start) = (Some(tx.new_id()), tx.now().month_start());
            tx.insert(&BudgetState {
                team,
                agent,
                month_start,
                low_since: Some(tx.now()),
                exhausted_at: None,
                exhaustion_published: false,
                is_over: false,
                held_since: None,
                hold_published: false,
            })?;
        }
        Ok(())
    };
    fixture.store.write_blocking(fixture.org, states).unwrap();
    // Half past midnight on the 1st of February.
    fixture.pass_secs(16 * DAY + 12 * 3600 + 1800);
    assert_eq!(end_all(&fixture), 3, "a hundred are ended in a step");
    assert_eq!(waiting(&fixture), SWEEP_ROWS - 250, "those of the west");
}

/// A state as no release stores it.
#[derive(Clone, Debug, Encode, Decode)]
struct Unreadable(BudgetState);

impl Record for Unreadable {
    const TABLE: &'static str = BudgetState::TABLE;
    const VERSION: u8 = 99;
    type Key = <BudgetState as Record>::Key;
    fn key(&self) -> Self::Key {
        self.0.key()
    }
    fn upgrade(_: u8, body: &[u8]) -> Result<Self> {
        codec::decode_body(body).map(Unreadable)
    }
}

#[test]
fn a_budget_that_cannot_be_read_keeps_no_other_month_from_ending() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let budget = || json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}});
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    for agent in [ann, bob] {
        set_agent(&fixture, (crew, agent), budget());
        spend(&fixture, (crew, agent), 1.0);
    }
    let damage = move |tx: &mut Tx| {
        let first: BudgetState = tx.view().first(&CURRENT, &(), Order::Ascending)?.unwrap();
        assert_eq!(first.agent, Some(ann));
        tx.put(&Unreadable(first))
    };
    fixture.store.write_blocking(fixture.org, damage).unwrap();
    fixture.pass_secs(31 * DAY);
    assert_eq!(end_all(&fixture), 1);
    assert_eq!(waiting(&fixture), 1, "it is left as it is");
    let state = move |view: &View| {
        let month = view.now().minus_secs(31 * DAY).month_start();
        view.fetch::<BudgetState>(&(crew, Some(bob), month))
    };
    assert!(fixture.store.read_now(fixture.org, state).unwrap().is_over);
}

#[test]
fn a_wake_says_how_the_budget_stands_when_it_is_handed_out_and_is_dropped_when_it_is_fine() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(10.0));
    let ann = add_agent(&fixture, crew, "ann");
    let master = add_scrum_master(&fixture, crew, "max");
    let heard = || heard(&fixture, crew, master);
    spend(&fixture, (crew, ann), 8.0);
    spend(&fixture, (crew, ann), 3.0);
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 12}}));
    assert_eq!(heard(), ["The budget of the team is low. Spent this month: 11 of 12 USD."]);

    spend(&fixture, (crew, ann), 2.0);
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 100}}));
    assert!(heard().is_empty(), "it was raised");
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 13}}));
    set(&fixture, crew, json!({"budget": null}));
    assert!(heard().is_empty(), "it was taken away");
    set_agent(&fixture, (crew, ann), json!({"budget": {"monthlyUsd": 1}}));
    fixture.pass_secs(31 * DAY);
    assert!(heard().is_empty(), "the month has ended");
    spend(&fixture, (crew, ann), 2.0);
    fixture.write(members::delete, (crew, ann), ()).unwrap();
    assert!(heard().is_empty(), "the agent has left");
    fixture.assert_sound();
}

#[test]
fn a_budget_that_is_used_up_holds_back_and_tells_once_it_is_to_pause() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(1.0));
    let ann = add_agent(&fixture, crew, "ann");
    let master = add_scrum_master(&fixture, crew, "max");
    let texts = || -> Vec<String> {
        let peek = Fixture::input(json!({"peek": true})).unwrap();
        let wakes = fixture.write(wakes::take, (crew, master), peek).unwrap().items;
        wakes.into_iter().map(|wake| wake.text.unwrap().into_string()).collect()
    };
    spend(&fixture, (crew, ann), 2.0);
    assert_eq!((take(&fixture, crew, master).len(), exhausted(&fixture).len()), (1, 1));
    fixture.pass_secs(3600);
    let pausing = || json!({"budget": {"monthlyUsd": 1, "onExhausted": "pause"}});
    let shown = set(&fixture, crew, pausing());
    assert_eq!(shown["paused"]["since"], "2026-01-15T13:00:00.000Z", "not before");
    assert_eq!(code(claim(&fixture, (crew, ann))), "agent_paused");
    let told = exhausted(&fixture);
    assert_eq!((told.len(), &told[1].payload.0["onExhausted"]), (2, &json!("pause")));
    assert!(texts().iter().all(|text| text.contains("nothing is begun")), "{:?}", texts());
    assert_eq!(texts().len(), 1);
    // Once a month, also if it changes to and fro.
    set(&fixture, crew, json!({"budget": {"monthlyUsd": 1, "onExhausted": "notify"}}));
    claim(&fixture, (crew, ann)).unwrap();
    set(&fixture, crew, pausing());
    assert_eq!(exhausted(&fixture).len(), 2);
    assert_eq!(low(&fixture), [(Value::Null, json!(2.0))]);
}

#[test]
fn a_budget_says_how_many_tokens_count_nothing_in_it() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", Some(1.0));
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let budget = || json!({"budget": {"monthlyUsd": 1}});
    set_agent(&fixture, (crew, ann), budget());
    let body = json!({"status": "succeeded", "usage": [
        {"model": "misspelt", "input": 100, "output": 20, "cached": 50},
        {"model": "known", "input": 7, "costUsd": 0.5},
    ]});
    fixture.write(runs::create, (crew, ann), Fixture::input(body).unwrap()).unwrap();
    let unpriced = |shown: Value| shown["budget"]["unpricedTokens"].clone();
    assert_eq!(unpriced(set(&fixture, crew, json!({}))), 120);
    assert_eq!(unpriced(set_agent(&fixture, (crew, ann), json!({}))), 120);
    assert_eq!(unpriced(set_agent(&fixture, (crew, bob), budget())), 0);
    fixture.pass_secs(31 * DAY);
    assert_eq!(unpriced(set(&fixture, crew, json!({}))), 0);
}
