//! Agents, with their draft's fields beside their own, and names for ids.

use serde_json::{Value, json};

use super::plain::{FLEET, TOOL};
use crate::base::StableKey;
use crate::cli::client::files::kind::Absent::{Kept, Null};
use crate::cli::client::files::kind::{Fields, Kind, Known};
use crate::cli::failure::Failure;

/// Fields that are those of the draft, under the same names.
const DRAFT: [&str; 6] =
    ["promptName", "promptVersion", "model", "provider", "variables", "providerConfig"];

/// An agent.
pub static AGENT: Kind = Kind {
    order: 7,
    name: "agent",
    folder: "agents",
    key: "stableKey",
    check_name: |name| StableKey::parse(name).map(drop),
    fields: &[
        ("name", Kept),
        ("description", Null),
        ("fleet", Null),
        ("registry", Null),
        ("promptName", Null),
        ("promptVersion", Null),
        ("model", Null),
        ("provider", Null),
        ("tools", Kept),
        ("tags", Kept),
        ("variables", Kept),
        ("providerConfig", Kept),
    ],
    plan,
    missing,
    path: "/agents",
    by_name: true,
    apply,
    remote,
    ..Kind::PLAIN
};

fn plan(known: &Known, fields: &mut Fields) {
    if !known.has_fleets {
        fields.remove("fleet");
    }
}

fn missing(known: &Known, fields: &Fields) -> Vec<String> {
    let fleet = fields.get("fleet").and_then(Value::as_str).filter(|_| known.has_fleets);
    let tools = fields.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tools = tools.filter_map(|tool| tool["tool"].as_str());
    let named = fleet.map(|name| (&FLEET, name)).into_iter().chain(tools.map(|name| (&TOOL, name)));
    let unknown = named.filter(|(kind, name)| !known.has(kind, name));
    unknown.map(|(kind, name)| format!("there is no {} {name:?}", kind.name)).collect()
}

fn apply(known: &Known, fields: &Fields) -> Result<Value, Failure> {
    let (mut body, mut draft) = (json!({}), json!({}));
    for (field, value) in fields {
        match field.as_str() {
            "fleet" => {
                let id = value.as_str().map(|name| known.id(&FLEET, name)).transpose()?;
                body["fleetId"] = json!(id);
            }
            "registry" => {
                let reference = value.as_str().map(|slug| known.registry_ref(slug));
                draft["registryRef"] = json!(reference);
            }
            "tools" => {
                let tools = value.as_array().into_iter().flatten().map(|tool| {
                    let name = tool["tool"].as_str().unwrap_or_default();
                    Ok(json!({"toolId": known.id(&TOOL, name)?, "version": tool["version"]}))
                });
                draft["toolRefs"] = tools.collect::<Result<_, Failure>>()?;
            }
            field if DRAFT.contains(&field) => draft[field] = value.clone(),
            field => body[field] = value.clone(),
        }
    }
    if draft.as_object().is_some_and(|draft| !draft.is_empty()) {
        body["draft"] = draft;
    }
    Ok(body)
}

fn remote(known: &Known, agent: &mut Value) {
    let draft = agent["draft"].take();
    let own = format!("{}/", known.org);
    let registry = draft["registryRef"].as_str();
    agent["registry"] = json!(registry.map(|of| of.strip_prefix(&own).unwrap_or(of)));
    let tools = draft["toolRefs"].as_array().into_iter().flatten().map(|tool| {
        let mut named = json!({"tool": known.name_of(&TOOL, &tool["toolId"])});
        if !tool["version"].is_null() {
            named["version"] = tool["version"].clone();
        }
        named
    });
    agent["tools"] = tools.collect();
    agent["fleet"] = known.name_of(&FLEET, &agent["fleetId"]);
    for field in DRAFT {
        agent[field] = draft[field].clone();
    }
}
