//! Action workflows: kinds of channels, each with the schema of its configuration
//! (reference: notifications, "Action workflows").
//!
//! How each delivers is in `senders.rs`.

use schemars::JsonSchema;
use serde::Serialize;

use super::config;
use super::workflow_key::WorkflowKey;
use crate::api::{Output, Req, ResourceRef};
use crate::base::{Json, JsonMap, Result};
use crate::outbox::EventType;
use crate::store::{Page, View};

/// A kind of channel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionWorkflow {
    /// Key of the workflow.
    key: WorkflowKey,
    /// Translation key of the name, for the client to resolve.
    label_key: String,
    /// Translation key of the description, for the client to resolve.
    description_key: String,
    /// JSON Schema 2020-12 of a channel's `config`.
    #[schemars(with = "JsonMap")]
    config_schema: Json,
    /// Event types that a channel may subscribe to.
    event_types: Vec<EventType>,
}

impl Output for ActionWorkflow {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// GET /notifications/action-workflows.
pub fn list(_: &View, req: &Req) -> Result<Page<ActionWorkflow>> {
    let start = match req.page.after.as_deref() {
        Some([last, ..]) => usize::from(*last) + 1,
        _ => 0,
    };
    let workflows = WorkflowKey::ALL.into_iter().skip(start).take(req.page.limit);
    let items: Vec<_> = workflows.map(workflow).collect();
    let end = start + items.len();
    let next = (0 < end && end < WorkflowKey::ALL.len()).then(|| vec![end as u8 - 1]);
    Ok(Page { items, next })
}

fn workflow(key: WorkflowKey) -> ActionWorkflow {
    let name = key.name();
    ActionWorkflow {
        key,
        label_key: format!("workflows.{name}.label"),
        description_key: format!("workflows.{name}.description"),
        config_schema: Json(config::schema(key)),
        event_types: EventType::ALL.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Req;
    use crate::resources::testing::{Fixture, args};
    use crate::store::PageRequest;

    #[test]
    fn each_of_the_six_workflows_has_its_key() {
        let fixture = Fixture::new();
        let page = fixture.read(list, (), ()).unwrap();
        let listed = serde_json::to_value(&page.items).unwrap();
        for (workflow, name) in listed.as_array().unwrap().iter().zip([
            "in_app",
            "webhook",
            "email",
            "slack",
            "team_task",
            "agent_wake",
        ]) {
            assert_eq!(workflow["key"], name);
            assert_eq!(workflow["labelKey"], format!("workflows.{name}.label"));
            assert_eq!(workflow["descriptionKey"], format!("workflows.{name}.description"));
            assert_eq!(workflow["eventTypes"].as_array().unwrap().len(), 40);
        }
        assert_eq!((page.items.len(), page.next), (6, None));
    }

    #[test]
    fn the_pages_make_up_the_list() {
        let fixture = Fixture::new();
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let mut parts = args((), ());
            parts.page = PageRequest { limit: 4, after };
            let read = |view: &View| list(view, &Req::new(&parts, &fixture.member));
            let page = fixture.store.read_now(fixture.org, read).unwrap();
            seen.extend(page.items.iter().map(|workflow| workflow.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, WorkflowKey::ALL);
    }

    #[test]
    fn schemas_accept_valid_configurations_and_refuse_invalid_ones() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let url = "https://hooks.test/a";
        for (key, good, bad) in [
            (WorkflowKey::InApp, json!({}), json!([])),
            (WorkflowKey::Webhook, json!({"url": url, "secret": null}), json!({"secret": "x"})),
            (
                WorkflowKey::Webhook,
                json!({"url": url, "secret": "whsec_YSBzZWNyZXQgb2YgMjQrIGJ5dGVzISEh"}),
                json!({"url": url, "secret": "c2VjcmV0"}),
            ),
            (WorkflowKey::Email, json!({"to": ["ada@acme.test"]}), json!({"to": []})),
            (WorkflowKey::Slack, json!({"url": url}), json!({"url": url, "later": 1})),
            (WorkflowKey::TeamTask, json!({"teamId": id}), json!({"assigneeAgentId": id})),
            (WorkflowKey::AgentWake, json!({"teamId": id, "agentId": id}), json!({"teamId": id})),
        ] {
            let schema = config::schema(key);
            assert!(jsonschema::draft202012::meta::is_valid(&schema), "{schema}");
            assert!(jsonschema::draft202012::is_valid(&schema, &good), "{schema} {good}");
            assert!(!jsonschema::draft202012::is_valid(&schema, &bad), "{schema} {bad}");
        }
    }
}
