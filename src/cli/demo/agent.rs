//! The loop of an agent: wait to be woken, look why, do it, remember it, say so.

use std::convert::Infallible;

use serde_json::{Value, json};

use super::client::Client;
use super::sample::Sample;
use crate::base::Error;
use crate::cli::output::say;

/// Plays `scribe` until it is dropped.
pub async fn play(api: &Client, sample: &Sample) -> Infallible {
    loop {
        if let Err(error) = wake_and_work(api, sample).await {
            tracing::warn!(%error, "the demo's agent could not do its work");
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
}

async fn wake_and_work(api: &Client, Sample { team, scribe }: &Sample) -> Result<(), Error> {
    let wakes = format!("/teams/{team}/agents/{scribe}/wakes");
    let woken = api.get(&format!("{wakes}?orgSlug=acme&wait=60")).await?;
    for wake in woken["items"].as_array().into_iter().flatten() {
        say(&format!("[scribe] woken: {}", text(&wake["reason"])));
        if let Some(task) = wake["taskId"].as_str() {
            work_on(api, team, scribe, task).await?;
        }
        if let Some(message) = wake["messageId"].as_str() {
            let read = format!("/teams/{team}/messages/{message}/consume");
            let read = api.post(&read, json!({"agentId": scribe})).await?;
            say(&format!("[scribe] read: {}", text(&read["body"])));
        }
        api.post(&format!("{wakes}/ack"), json!({"wakeIds": [wake["id"]]})).await?;
    }
    Ok(())
}

async fn work_on(api: &Client, team: &str, scribe: &str, task: &str) -> Result<(), Error> {
    let claim = format!("/teams/{team}/tasks/{task}/claim");
    let task = api.post(&claim, json!({"agentId": scribe})).await?;
    say(&format!("[scribe] claimed task {}: {}", task["number"], text(&task["title"])));
    let memory = json!({
        "content": format!("Worked on \"{}\" when asked to.", text(&task["title"])),
        "tags": ["done"],
    });
    api.post(&format!("/teams/{team}/agents/{scribe}/memories"), memory).await?;
    let told = json!({
        "fromAgentId": scribe, "taskId": task["id"],
        "subject": format!("About task {}", task["number"]),
        "body": format!("I have begun: {}.", text(&task["title"])),
    });
    api.post(&format!("/teams/{team}/inbox"), told).await?;
    say("[scribe] remembered it, and told the humans");
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
