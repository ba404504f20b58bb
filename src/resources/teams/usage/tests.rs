//! What is summed of runs.

use serde_json::{Value, json};

use super::*;
use crate::resources::teams::runs;
use crate::resources::teams::testing::{add_agent, task, team};
use crate::resources::testing::Fixture;
use crate::resources::{agents, fleets};

type Place = (Id<Team>, Id<Member>);

fn run(fixture: &Fixture, at: Place, mut body: Value) -> Value {
    body["status"] = json!("succeeded");
    json!(fixture.write(runs::create, at, Fixture::input(body).unwrap()).unwrap())
}

fn sums(fixture: &Fixture, team: Id<Team>, query: Value) -> Vec<Value> {
    let page = fixture.read(list, team, Fixture::input(query).unwrap()).unwrap();
    page.items.iter().map(|one| json!(one)).collect()
}

/// Of each sum one field, its runs, tokens and cost.
fn short(sums: &[Value], field: &str) -> Vec<Value> {
    let one = |sum: &Value| {
        json!([sum[field], sum["runs"], sum["input"], sum["output"], sum["cached"], sum["costUsd"]])
    };
    sums.iter().map(one).collect()
}

#[test]
fn runs_are_summed_by_month_day_model_agent_and_task() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let count = task(&fixture, crew, json!({"title": "Count"})).id;
    run(
        &fixture,
        (crew, ann),
        json!({"taskId": count, "usage": [
            {"model": "big", "input": 1000, "output": 100, "cached": 400, "costUsd": 0.5},
            {"model": "small", "input": 10, "output": 1},
        ]}),
    );
    run(
        &fixture,
        (crew, ann),
        json!({"costUsd": 1, "usage": [
            {"model": "big", "input": 5, "costUsd": 0.25},
        ]}),
    );
    fixture.pass_secs(24 * 3600);
    run(&fixture, (crew, bob), json!({"costUsd": 2}));
    run(&fixture, (crew, bob), json!({}));

    let of = |by: &str| sums(&fixture, crew, json!({"by": by}));
    assert_eq!(short(&of("month"), "month"), [json!(["2026-01", 4, 1015, 101, 400, 3.5])]);
    assert_eq!(
        short(&sums(&fixture, crew, json!({})), "day"),
        [json!(["2026-01-15", 2, 1015, 101, 400, 1.5]), json!(["2026-01-16", 2, 0, 0, 0, 2.0]),]
    );
    assert_eq!(
        short(&of("model"), "model"),
        [
            // What the parts of a run do not explain, and runs that name no model.
            json!([null, 3, 0, 0, 0, 2.75]),
            json!(["big", 2, 1005, 100, 400, 0.75]),
            json!(["small", 1, 10, 1, 0, 0.0]),
        ]
    );
    assert_eq!(
        short(&of("agent"), "agentName"),
        [json!(["bob", 2, 0, 0, 0, 2.0]), json!(["ann", 2, 1015, 101, 400, 1.5]),]
    );
    assert_eq!(
        short(&of("task"), "taskTitle"),
        // Runs without a task.
        [json!([null, 3, 5, 0, 0, 3.0]), json!(["Count", 1, 1010, 101, 400, 0.5])]
    );
    fixture.assert_sound();
}

#[test]
fn tokens_of_which_nobody_knows_the_cost_are_said() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    run(
        &fixture,
        ann,
        json!({"usage": [
            {"model": "misspelt", "input": 10, "output": 2, "cached": 5},
            {"model": "known", "input": 100, "costUsd": 0},
            {"model": "unused"},
        ]}),
    );
    // Here the cost of the whole run is known.
    run(&fixture, ann, json!({"costUsd": 1, "usage": [{"model": "other", "input": 1000}]}));
    let unpriced = |query: Value, field: &str| -> Vec<Value> {
        let sums = sums(&fixture, crew, query);
        sums.iter().map(|sum| json!([sum[field], sum["unpricedTokens"]])).collect()
    };
    for (by, field, name) in
        [("month", "month", json!("2026-01")), ("agent", "agentName", json!("ann"))]
    {
        assert_eq!(unpriced(json!({"by": by}), field), [json!([name, 12])], "{by}");
    }
    let models = unpriced(json!({"by": "model", "unpriced": true}), "model");
    assert_eq!(models, [json!(["misspelt", 12])]);
    assert_eq!(unpriced(json!({"by": "model", "unpriced": false}), "model").len(), 5);
}

#[test]
fn sums_are_of_the_month_that_is_asked_for_in_the_zone_of_the_team() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    run(&fixture, ann, json!({"costUsd": 1}));
    fixture.pass_secs(17 * 24 * 3600);
    run(&fixture, ann, json!({"costUsd": 2}));
    let costs = |query: Value| -> Vec<f64> {
        let cost = |sum: &Value| sum["costUsd"].as_f64().unwrap();
        sums(&fixture, crew, query).iter().map(cost).collect()
    };
    assert_eq!(costs(json!({"by": "month"})), [2.0, 1.0], "the newest first");
    assert_eq!(costs(json!({"by": "month", "month": "2026-01"})), [1.0], "it alone");
    assert!(costs(json!({"by": "month", "month": "2025-12"})).is_empty());
    assert_eq!(costs(json!({"by": "agent"})), [2.0]);
    assert_eq!(costs(json!({"by": "agent", "month": "2026-01"})), [1.0]);
    assert!(costs(json!({"by": "agent", "month": "2025-12"})).is_empty());
    for wrong in ["2026", "2026-13", "2026-1", "2026-01-01", "26-01-0"] {
        assert!(Fixture::input::<UsageFilter>(json!({"month": wrong})).is_err(), "{wrong}");
    }
}

#[test]
fn names_of_models_do_not_add_rows_without_end() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    for part in 0..5 {
        let model = |n: usize| json!({"model": format!("m{part}-{n}"), "costUsd": 1});
        run(&fixture, ann, json!({"usage": (0..50).map(model).collect::<Vec<_>>()}));
    }
    let month = (crew, UsageBy::Model);
    let count = |view: &View| view.count(ListSource::<Usage>::TABLE, &month, usize::MAX);
    assert_eq!(fixture.store.read_now(fixture.org, count).unwrap(), MAX_MODELS + 1);
    let first = &sums(&fixture, crew, json!({"by": "model"}))[0];
    let shown = (&first["model"], &first["costUsd"], &first["runs"]);
    assert_eq!(shown, (&Value::Null, &json!(50.0), &json!(1)));
}

#[test]
fn sums_of_a_restricted_agent_are_for_those_who_may_use_it() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    run(&fixture, ann, json!({"costUsd": 1}));
    let closed =
        fleets::tests::make(&fixture, json!({"name": "Closed", "access": "restricted"})).id;
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(&fixture, &fixture.owner, "ann", fleet).unwrap();
    let query = || Fixture::input(json!({"by": "agent"})).unwrap();
    assert!(fixture.read(list, crew, query()).unwrap().items.is_empty());
    assert_eq!(fixture.read_as(&fixture.owner, list, crew, query()).unwrap().items.len(), 1);
    let whole = fixture.read(list, crew, Fixture::input(json!({"by": "month"})).unwrap()).unwrap();
    assert_eq!(whole.items.len(), 1, "what the team has spent is for all");
}
