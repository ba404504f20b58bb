//! The notification log and the workflows (reference: notifications, "The log").

use serde_json::{Value, json};

use crate::client::pick;
use crate::fixture::{Fixture, unknown_id};
use crate::teams::Crew;

/// The event types that the interface lists.
const EVENTS: usize = 40;

#[test]
fn every_event_is_in_the_log_of_its_organization_newest_first() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    crew.post("/timeline", json!({"kind": "summary", "title": "t"})).ok();
    let log = crew.acme.member.get("/notifications/logs").ok();
    let items = log["items"].as_array().unwrap();
    let types: Vec<_> = items.iter().map(|entry| entry["eventType"].as_str().unwrap()).collect();
    assert_eq!(types, ["team.timeline_summary", "team.agent_hired"]);
    assert_eq!(
        pick(&items[1], "status attempts error nextAttemptAt"),
        json!(["sent", 1, null, null])
    );
    assert_eq!(items[1]["payload"]["agentId"], ann);
    let pagination = json!({"limit": 50, "offset": 0, "total": 2, "totalExact": true});
    assert_eq!(log["pagination"], pagination);
    let elsewhere = Fixture::new().owner.get("/notifications/logs").ok();
    assert_eq!(elsewhere["items"], json!([]));
}

#[test]
fn the_log_is_filtered_and_paged_by_offset() {
    let crew = Crew::new();
    for n in 0..5 {
        crew.post("/timeline", json!({"kind": "milestone", "title": format!("t{n}")})).ok();
    }
    crew.hire("ann");
    let log = |query: &str| crew.acme.owner.get(&format!("/notifications/logs?{query}")).ok();
    let count = |query: &str| log(query)["items"].as_array().unwrap().len();
    let total = |query: &str| log(query)["pagination"]["total"].as_u64().unwrap();
    assert_eq!(count("eventType=team.timeline_milestone"), 5);
    assert_eq!(count("eventType=team.timeline_milestone&pagination[limit]=2"), 2);
    assert_eq!(total("eventType=team.timeline_milestone&pagination[limit]=2"), 5);
    assert_eq!(count("pagination[limit]=4&pagination[offset]=4"), 2);
    assert_eq!(count("limit=4&offset=4"), 2);
    assert_eq!(count("pagination[offset]=100"), 0);
    assert_eq!(count("status=sent"), 6);
    assert_eq!(count("status=dead"), 0);
    assert_eq!(count(&format!("channelId={}", unknown_id())), 0);

    // The range includes its start and excludes its end.
    let all = log("");
    let (newest, oldest) = (&all["items"][0]["createdAt"], &all["items"][5]["createdAt"]);
    let [newest, oldest] = [newest, oldest].map(|time| time.as_str().unwrap());
    let since = |time: &str| total(&format!("dateRange[start]={time}"));
    let until = |time: &str| total(&format!("dateRange[end]={time}"));
    assert_eq!((since(oldest), until(oldest)), (6, 0));
    assert_eq!(since(newest) + until(newest), 6);
    assert!(since(newest) >= 1);
    assert_eq!(total("dateRange.start=2020-01-01T01:00:00%2B01:00"), 6);

    let get = |query: &str| crew.acme.owner.get(&format!("/notifications/logs?{query}"));
    get("eventType=team.nothing").invalid(&["eventType"]);
    get("status=lost").invalid(&["status"]);
    get("dateRange[start]=2020-01-01").invalid(&["dateRange.start"]);
}

#[test]
fn workflows_are_listed_with_their_schemas_to_any_credential() {
    let acme = Fixture::new();
    let get = |caller: &crate::client::Caller| {
        caller.ask("GET", "/notifications/action-workflows").send()
    };
    get(&acme.anonymous).refused(401, "unauthenticated");
    for caller in [&acme.member, &acme.key] {
        let all = get(caller).items();
        let keys: Vec<_> = all.iter().map(|one| one["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["in_app", "webhook", "email", "slack", "team_task", "agent_wake"]);
        for one in &all {
            let key = one["key"].as_str().unwrap();
            assert_eq!(one["labelKey"], format!("workflows.{key}.label"));
            assert_eq!(one["descriptionKey"], format!("workflows.{key}.description"));
            assert_eq!(one["eventTypes"].as_array().unwrap().len(), EVENTS);
            let schema = jsonschema::draft202012::new(&one["configSchema"]).unwrap();
            assert!(!schema.is_valid(&Value::Null), "{key}");
        }
    }
}
