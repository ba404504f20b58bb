//! Budgets of teams and agents, what was used, and the prices of models.

use serde_json::{Value, json};

use crate::server::Running;
use crate::visitor::press;

const SETTINGS: &str = "/o/acme/teams/crew/settings";
const USAGE: &str = "/o/acme/teams/crew/usage";
const PRICES: &str = "/o/acme/settings/model-prices";
const NEW_PRICE: &str = "/o/acme/settings/new-model-price";

#[test]
fn a_budget_is_set_warns_stops_and_goes_on_when_it_is_raised() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(SETTINGS);
    assert_eq!(page.field(SETTINGS, "onExhausted"), "notify");
    let set = [("monthlyUsd", "10"), ("onExhausted", "pause"), ("timeZone", "Europe/Berlin")];
    let page = ada.submit(&page, SETTINGS, &set);
    page.shows("The team was saved.");
    let stored = || api.get(&format!("/teams/{team}")).ok();
    assert_eq!(stored()["budget"]["onExhausted"], "pause");
    assert_eq!(stored()["timeZone"], "Europe/Berlin");
    let refused = ada.send(&page, SETTINGS, &[("timeZone", "Middle/Earth")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("timeZone"));

    let runs = format!("/teams/{team}/agents/{agent}/runs");
    let spend = |usd: f64| api.post(&runs, json!({"status": "succeeded", "costUsd": usd})).ok();
    ada.get("/o/acme").hides("Budgets that are low");
    spend(8.5);
    let agents = "/o/acme/teams/crew/agents";
    ada.get(agents).shows("Low $8.50 of $10.00, 85.0%").shows("nothing is begun");
    ada.get("/o/acme").shows("Budgets that are low or used up").shows("$8.50 of $10.00");
    ada.get("/o/acme/waiting/budgets")
        .shows("The whole team: $8.50 of $10.00")
        .shows("low, in crew");
    spend(1.5);
    ada.get("/o/acme/waiting/budgets").shows("used up, nothing is begun, in crew");
    ada.get("/o/acme/teams").shows("Nothing is begun").shows("Used up");
    let own = format!("{agents}/{agent}");
    for path in [agents, &own] {
        let page = ada.get(path);
        page.shows("The team's budget is used up, so that nothing is begun").shows("until");
        assert!(page.links().contains(&SETTINGS.to_string()));
        assert!(!page.text.contains("value=\"resume\""), "it would do nothing");
    }
    ada.submit(&ada.get(SETTINGS), SETTINGS, &[("monthlyUsd", "20")]).shows("saved");
    ada.get(agents).hides("nothing is begun since").shows("$10.00 of $20.00");
    assert_eq!(
        (&stored()["paused"], &stored()["budget"]["onExhausted"]),
        (&Value::Null, &json!("pause"))
    );
    // Without an amount there is none.
    ada.submit(&ada.get(SETTINGS), SETTINGS, &[("monthlyUsd", "")]).shows("saved");
    assert_eq!(stored()["budget"], Value::Null);
}

#[test]
fn an_agent_has_a_budget_of_its_own() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let ada = server.signed_in("ada@acme.test");
    let own = format!("/o/acme/teams/crew/agents/{agent}");
    let budget = [("monthlyUsd", "1"), ("onExhausted", "pause")];
    let page = press(&ada, &ada.get(&own), ("action", "save"), &budget);
    page.shows("Its spending this month").shows("$0.00 of $1.00");
    let wrong = press(&ada, &page, ("action", "save"), &[("monthlyUsd", "much")]);
    assert_eq!(wrong.status, 400);
    assert!(wrong.has_problem("monthlyUsd"));
    let path = format!("/teams/{team}/agents/{agent}");
    api.post(&format!("{path}/runs"), json!({"status": "succeeded", "costUsd": 1})).ok();
    ada.get(&own).shows("The agent's budget in this team is used up");
    ada.get("/o/acme/teams/crew/agents").shows("Its budget is used up");
    ada.get("/o/acme/waiting/budgets").shows("scribe: $1.00 of $1.00");
    let page = press(&ada, &ada.get(&own), ("action", "save"), &[("monthlyUsd", "")]);
    page.hides("Its spending this month").hides("The agent's budget");
    assert_eq!(api.get(&path).ok()["budget"], Value::Null);
}

#[test]
fn what_a_team_has_used_is_shown_by_day_model_agent_and_task() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme/teams/crew/board").shows("Usage");
    ada.get(USAGE).shows("No run was reported yet.");
    let task = api.post(&format!("/teams/{team}/tasks"), json!({"title": "Count them"})).id();
    let used = json!([
        {"model": "a/b", "input": 12_000, "cached": 2000, "output": 345, "costUsd": 3},
        {"model": "small", "input": 10},
    ]);
    let run = json!({"status": "succeeded", "taskId": task, "usage": used});
    api.post(&format!("/teams/{team}/agents/{agent}/runs"), run).ok();
    let page = ada.get(USAGE);
    page.shows("a/b$3.00").shows("12,000").shows("smallno price").shows("12,010 tokens in");
    page.shows("10 tokens count nothing: no cost was reported, and the model had no price.");
    page.shows("They are of small.");
    page.shows("1 day with runs, at most $3.00 on one.");
    assert!(page.text.contains("<rect x="), "a column for the day");
    assert!(!page.text.contains("style="));
    let by = |by: &str| {
        let link = page.links().into_iter().find(|link| link.contains(&format!("?by={by}&")));
        ada.get(&link.unwrap())
    };
    let agents = by("agent");
    agents.shows("scribe$3.00");
    assert!(agents.links().contains(&format!("/o/acme/teams/crew/agents/{agent}")));
    let tasks = by("task");
    tasks.shows("Count them #1$3.00");
    assert!(tasks.links().contains(&"/o/acme/teams/crew/tasks/1".to_string()));
    let run = json!({"status": "succeeded", "costUsd": 1});
    api.post(&format!("/teams/{team}/agents/{agent}/runs"), run).ok();
    by("task").shows("no task$1.00");
    ada.get("/o/acme/teams/crew/agents").hides("count nothing");
    api.patch(&format!("/teams/{team}"), json!({"budget": {"monthlyUsd": 9}})).ok();
    ada.get("/o/acme/teams/crew/agents").shows("No price 10 tokens count nothing");
    ada.get(&format!("{USAGE}?month=2020-01")).shows("No runs in this month");
    assert_eq!(ada.get(&format!("{USAGE}?month=soon")).status, 400);
}

#[test]
fn prices_are_set_changed_and_deleted_by_admins_and_read_by_all() {
    let server = Running::new();
    server.add("ben", "member");
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    assert!(ada.get("/o/acme/settings/providers").links().contains(&PRICES.to_string()));
    ada.get(PRICES).shows("None yet.");
    let wrong = [("model", "a/b"), ("inputUsd", "much"), ("outputUsd", "10")];
    let refused = ada.send(&ada.get(NEW_PRICE), NEW_PRICE, &wrong);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("inputUsd"));
    let page = ada.submit(&refused, NEW_PRICE, &[("inputUsd", "1.25"), ("cachedUsd", "0.125")]);
    page.shows("The price was set.").shows("a/b$1.25$0.125$10");
    let stored = || server.ada().get("/model-prices").items();
    let usd = |field: &str| stored()[0][field].as_f64();
    assert_eq!(
        [usd("inputUsd"), usd("cachedUsd"), usd("outputUsd")],
        [1.25, 0.125, 10.0].map(Some)
    );
    let taken = ada.send(&refused, NEW_PRICE, &[("inputUsd", "2")]);
    assert_eq!(taken.status, 400, "it is not set over what there is");
    assert!(taken.has_problem("model"));
    assert_eq!(usd("inputUsd"), Some(1.25));
    let one = page.links().into_iter().find(|link| link.ends_with("a%2Fb")).unwrap();
    let page = ada.submit(&ada.get(&one), &one, &[("outputUsd", "12"), ("cachedUsd", "")]);
    page.shows("a/b$1.25$1.25$12");
    assert_eq!((usd("outputUsd"), &stored()[0]["cachedUsd"]), (Some(12.0), &Value::Null));

    ben.get(PRICES).shows("a/b$1.25").hides("New price").hides("Delete");
    for path in [NEW_PRICE, &one, &format!("{one}/delete")] {
        assert_eq!(ben.get(path).status, 403, "{path}");
    }
    let delete = format!("{one}/delete");
    ada.submit(&ada.get(&delete), &delete, &[]).shows("The price was deleted.").shows("None yet.");
    assert!(stored().is_empty());
}
