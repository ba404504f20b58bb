//! Schedules, of which one server begins each time, whichever that is.

use std::time::Duration;

use serde_json::json;

use super::{Node, holder, team, three};
use crate::client::within;

/// Schedules that are due together.
const SCHEDULES: usize = 20;

/// A minute until they are due, and the takeover of the background work.
const DUE: Duration = Duration::from_secs(180);

#[test]
fn each_time_is_begun_once_though_the_server_that_does_the_background_work_is_killed() {
    let Some((_database, mut nodes, owner)) = three() else { return };
    let (team, _) = team(&owner, "crew");
    let schedules = format!("{team}/schedules");
    let made: Vec<String> = (0..SCHEDULES)
        .map(|number| {
            // Through all servers, which all know the job.
            let caller = nodes[number % 3].caller(&owner);
            let schedule = json!({"name": format!("n{number}"), "everySecs": 60,
                "task": {"title": format!("n{number}")}, "overlap": "queue", "onMissed": "once"});
            caller.post(&schedules, schedule).id()
        })
        .collect();
    let runs = |node: &Node, schedule: &str| {
        node.caller(&owner).get(&format!("{schedules}/{schedule}/runs")).items()
    };
    // Between two times, and again as soon as the first is begun: amid the others.
    nodes.remove(holder(&nodes)).kill();
    let at = holder(&nodes);
    within(DUE, "the first time", || (!runs(&nodes[at], &made[0]).is_empty()).then_some(()));
    nodes.remove(at).kill();
    let node = nodes.remove(0);
    within(DUE, "two times of each", || {
        made.iter().all(|one| runs(&node, one).len() >= 2).then_some(())
    });
    // What was begun is in its history, each time once; a time that passed meanwhile is in the next.
    let tasks = node.caller(&owner).walk(&format!("{team}/tasks"), 100);
    for (number, schedule) in made.iter().enumerate() {
        let runs = runs(&node, schedule);
        let mut due: Vec<_> = runs.iter().map(|run| run["dueAt"].as_str().unwrap()).collect();
        due.dedup();
        assert_eq!(due.len(), runs.len(), "{runs:?}");
        assert!(runs.iter().all(|run| run["outcome"] == "task_created"), "{runs:?}");
        let title = format!("n{number}");
        let of_it = tasks.iter().filter(|task| task["title"] == title.as_str()).count();
        let listed = runs.iter().filter(|run| tasks.iter().any(|task| task["id"] == run["taskId"]));
        assert_eq!(of_it, listed.count(), "{schedule}");
    }
    node.stop();
}
