//! The loop of an agent: wait for a wake, do its task, store a memory, report to the humans.

use std::convert::Infallible;

use serde_json::{Value, json};

use super::client::Client;
use super::sample::Sample;
use crate::base::Error;
use crate::cli::output::status;

/// Runs the agent `scribe` until the future is dropped.
pub async fn run(api: &Client, sample: &Sample) -> Infallible {
    loop {
        if let Err(error) = wait_and_work(api, sample).await {
            tracing::warn!(%error, "the demo's agent failed; it tries again");
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
}

async fn wait_and_work(api: &Client, Sample { team, scribe, .. }: &Sample) -> Result<(), Error> {
    let wakes = format!("/teams/{team}/agents/{scribe}/wakes");
    let woken = api.get(&format!("{wakes}?orgSlug=acme&wait=60")).await?;
    for wake in woken["items"].as_array().into_iter().flatten() {
        status(&format!("[scribe] woken: {}", text(&wake["reason"])));
        if let Some(task) = wake["taskId"].as_str() {
            work_on(api, team, scribe, task).await?;
        }
        if let Some(message) = wake["messageId"].as_str() {
            let read = format!("/teams/{team}/messages/{message}/consume");
            let read = api.post(&read, json!({"agentId": scribe})).await?;
            status(&format!("[scribe] read: {}", text(&read["body"])));
        }
        api.post(&format!("{wakes}/ack"), json!({"wakeIds": [wake["id"]]})).await?;
    }
    Ok(())
}

/// Does a task that is not done yet: a note on one that is wakes, too.
async fn work_on(api: &Client, team: &str, scribe: &str, task: &str) -> Result<(), Error> {
    let path = format!("/teams/{team}/tasks/{task}");
    let found = api.get(&format!("{path}?orgSlug=acme")).await?;
    if !matches!(text(&found["status"]), "open" | "in_progress") {
        return Ok(());
    }
    let task = api.post(&format!("{path}/claim"), json!({"agentId": scribe})).await?;
    status(&format!("[scribe] claimed task {}: {}", task["number"], text(&task["title"])));
    let memory = json!({
        "content": format!("Worked on \"{}\" when asked to.", text(&task["title"])),
        "tags": ["done"],
    });
    api.post(&format!("/teams/{team}/agents/{scribe}/memories"), memory).await?;
    let report = json!({
        "fromAgentId": scribe, "taskId": task["id"],
        "subject": format!("About task {}", task["number"]),
        "body": format!("I have done it: {}.", text(&task["title"])),
    });
    api.post(&format!("/teams/{team}/inbox"), report).await?;
    api.patch(&path, json!({"status": "done"})).await?;
    status("[scribe] stored a memory, reported to the humans and finished the task");
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
