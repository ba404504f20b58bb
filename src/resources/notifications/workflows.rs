//! Action workflows: the ways in which a channel delivers events, each with the schema of its
//! configuration (reference: events, "Action workflows").
//!
//! All of them are listed; those that deliver are values of [`Workflow`] in the entry of
//! notifications.

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::Req;
use crate::base::{Email, HttpUrl, Id, Json, JsonMap, Result};
use crate::outbox::{Effect, EventType, Workflow};
use crate::store::{Page, View};

/// A mail goes to at most 50 addresses: a channel notifies a few people and is no mailing list.
const MAX_RECIPIENTS: usize = 50;

/// Delivers into the log, where an event is anyway.
pub const IN_APP: Workflow = Workflow {
    key: WorkflowKey::InApp.name(),
    effect: |_, _| Ok(Effect::Rows(Box::new(|_| Ok(())))),
};

/// The names of the workflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowKey {
    /// Kept in the log, for people to read.
    InApp,
    /// Posted to an address, signed.
    Webhook,
    /// Sent by mail.
    Email,
    /// Posted to Slack.
    Slack,
    /// Becomes a task of a team.
    TeamTask,
    /// Wakes an agent.
    AgentWake,
}

const ALL: [WorkflowKey; 6] = [
    WorkflowKey::InApp,
    WorkflowKey::Webhook,
    WorkflowKey::Email,
    WorkflowKey::Slack,
    WorkflowKey::TeamTask,
    WorkflowKey::AgentWake,
];

/// A way to tell of events.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionWorkflow {
    /// Its name.
    key: WorkflowKey,
    /// The key of its name's translation, for the client to resolve.
    label_key: String,
    /// The key of its description's translation, for the client to resolve.
    description_key: String,
    /// What a channel's `config` must be: JSON Schema 2020-12.
    #[schemars(with = "JsonMap")]
    config_schema: Json,
    /// What a channel may subscribe to.
    event_types: Vec<EventType>,
}

impl WorkflowKey {
    const fn name(self) -> &'static str {
        match self {
            WorkflowKey::InApp => "in_app",
            WorkflowKey::Webhook => "webhook",
            WorkflowKey::Email => "email",
            WorkflowKey::Slack => "slack",
            WorkflowKey::TeamTask => "team_task",
            WorkflowKey::AgentWake => "agent_wake",
        }
    }

    /// The JSON Schema of a channel's `config`.
    fn config_schema(self) -> Value {
        let url = schema_of::<HttpUrl>();
        let id = schema_of::<Id<()>>();
        match self {
            WorkflowKey::InApp => object(json!({}), json!([])),
            WorkflowKey::Webhook => {
                // Generated if absent.
                let secret = json!({
                    "type": ["string", "null"],
                    "pattern": "^whsec_[A-Za-z0-9+/]+={0,2}$",
                    "maxLength": 256,
                });
                object(json!({"url": url, "secret": secret}), json!(["url"]))
            }
            WorkflowKey::Email => {
                let to = json!({
                    "type": "array",
                    "items": schema_of::<Email>(),
                    "minItems": 1,
                    "maxItems": MAX_RECIPIENTS,
                });
                object(json!({"to": to}), json!(["to"]))
            }
            WorkflowKey::Slack => object(json!({"url": url}), json!(["url"])),
            WorkflowKey::TeamTask => {
                let assignee = json!({"type": ["string", "null"], "format": "uuid"});
                object(json!({"teamId": id, "assigneeAgentId": assignee}), json!(["teamId"]))
            }
            WorkflowKey::AgentWake => {
                object(json!({"teamId": id.clone(), "agentId": id}), json!(["teamId", "agentId"]))
            }
        }
    }
}

/// A schema that lets unknown fields through, as everywhere
/// (reference: conventions, "Unknown fields").
fn object(properties: Value, required: Value) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

fn schema_of<T: JsonSchema>() -> Value {
    T::json_schema(&mut SchemaGenerator::default()).to_value()
}

/// GET /notifications/action-workflows.
pub fn list(_: &View, req: &Req) -> Result<Page<ActionWorkflow>> {
    let start = match req.page.after.as_deref() {
        Some([last, ..]) => usize::from(*last) + 1,
        _ => 0,
    };
    let workflows = ALL.into_iter().skip(start).take(req.page.limit);
    let items: Vec<_> = workflows.map(workflow).collect();
    let end = start + items.len();
    let next = (0 < end && end < ALL.len()).then(|| vec![end as u8 - 1]);
    Ok(Page { items, next })
}

fn workflow(key: WorkflowKey) -> ActionWorkflow {
    let name = key.name();
    ActionWorkflow {
        key,
        label_key: format!("workflows.{name}.label"),
        description_key: format!("workflows.{name}.description"),
        config_schema: Json(key.config_schema()),
        event_types: EventType::ALL.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Req;
    use crate::resources::testing::{World, args};
    use crate::store::PageRequest;

    #[test]
    fn each_of_the_six_workflows_has_its_key() {
        let world = World::new();
        let page = world.read(list, (), ()).unwrap();
        let told = serde_json::to_value(&page.items).unwrap();
        for (workflow, name) in told.as_array().unwrap().iter().zip([
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
            assert_eq!(workflow["eventTypes"].as_array().unwrap().len(), 35);
        }
        assert_eq!((page.items.len(), page.next), (6, None));
    }

    #[test]
    fn the_parts_of_the_list_make_up_the_whole() {
        let world = World::new();
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let mut parts = args((), ());
            parts.page = PageRequest { limit: 4, after };
            let read = |view: &View| list(view, &Req::new(&parts, &world.member));
            let page = world.store.read_now(world.org, read).unwrap();
            seen.extend(page.items.iter().map(|workflow| workflow.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, ALL);
    }

    #[test]
    fn schemas_take_a_good_configuration_and_refuse_a_bad_one() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let url = "https://hooks.test/a";
        for (key, good, bad) in [
            (WorkflowKey::InApp, json!({}), json!([])),
            (WorkflowKey::Webhook, json!({"url": url, "secret": null}), json!({"secret": "x"})),
            (
                WorkflowKey::Webhook,
                json!({"url": url, "secret": "whsec_c2VjcmV0"}),
                json!({"url": url, "secret": "c2VjcmV0"}),
            ),
            (WorkflowKey::Email, json!({"to": ["ada@acme.test"]}), json!({"to": []})),
            (WorkflowKey::Slack, json!({"url": url, "later": 1}), json!({})),
            (WorkflowKey::TeamTask, json!({"teamId": id}), json!({"assigneeAgentId": id})),
            (WorkflowKey::AgentWake, json!({"teamId": id, "agentId": id}), json!({"teamId": id})),
        ] {
            let schema = key.config_schema();
            assert!(jsonschema::draft202012::meta::is_valid(&schema), "{schema}");
            assert!(jsonschema::draft202012::is_valid(&schema, &good), "{schema} {good}");
            assert!(!jsonschema::draft202012::is_valid(&schema, &bad), "{schema} {bad}");
        }
    }
}
