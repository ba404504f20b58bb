//! Policies, whose rules name LLM providers.

use serde_json::{Value, json};

use crate::base::Name;
use crate::cli::client::files::kind::Absent::{Kept, Null};
use crate::cli::client::files::kind::{Fields, Kind, Known};
use crate::cli::failure::Failure;

/// A policy.
pub static POLICY: Kind = Kind {
    order: 1,
    name: "policy",
    folder: "policies",
    check_new_name: |name| Name::parse(name).map(drop),
    fields: &[("description", Null), ("severity", Kept), ("rules", Kept)],
    missing,
    path: "/governance/policies",
    apply,
    remote,
    ..Kind::PLAIN
};

fn missing(known: &Known, fields: &Fields) -> Vec<String> {
    let rules = fields.get("rules").and_then(Value::as_array).into_iter().flatten();
    let named = rules.filter_map(|rule| rule["llmProvider"].as_str());
    let unknown = named.filter(|name| !known.providers.contains_key(*name));
    let why = |name| {
        format!(
            "there is no LLM provider {name:?}; files have none, since each has a secret: create it \
             first"
        )
    };
    unknown.map(why).collect()
}

fn apply(known: &Known, fields: &Fields) -> Result<Value, Failure> {
    let mut body = json!(fields);
    for rule in body.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        let provider = rule.as_object_mut().and_then(|rule| rule.remove("llmProvider"));
        if let Some(name) = provider.as_ref().and_then(Value::as_str) {
            rule["llmProviderId"] = json!(known.providers.get(name));
        }
    }
    Ok(body)
}

fn remote(known: &Known, policy: &mut Value) {
    for rule in policy["rules"].as_array_mut().into_iter().flatten() {
        let Some(fields) = rule.as_object_mut() else { continue };
        let provider = fields.remove("llmProviderId").filter(|id| !id.is_null());
        let is_it = |id: &String| provider.as_ref().is_some_and(|known| *known == **id);
        if let Some((name, _)) = known.providers.iter().find(|(_, id)| is_it(id)) {
            fields.insert("llmProvider".into(), name.clone().into());
        }
    }
}
