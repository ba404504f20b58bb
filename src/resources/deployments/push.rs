//! Posting a manifest to the endpoint of a provider. In it, and nowhere else, the `${NAME}` of tools
//! are replaced by the secrets and variables of the environment.

use serde_json::{Map, Value};

use super::applying;
use super::info::{DeployedTool, deployment_info};
use super::job::{DeploymentJob, Push};
use super::target::{DeploymentTarget, TargetAgent};
use crate::base::{Error, JsonMap, Result};
use crate::outside::{Call, webhook};
use crate::resources::environments::{self, PushTarget};
use crate::store::View;
use crate::templates;

/// The values of all placeholders of a manifest have at most 4 MiB: a short configuration can name a
/// long value many times.
const MAX_VALUES_BYTES: usize = 4 * 1024 * 1024;

/// Returns the call that posts a target to the provider's endpoint. The message is the same at
/// every try, its signature is new.
///
/// # Errors
/// 409 if the environment lacks a value that a tool names.
pub fn post(
    view: &View,
    endpoint: &PushTarget,
    (job, target, to): (&DeploymentJob, &DeploymentTarget, &TargetAgent),
    push: &Push,
) -> Result<Call> {
    let deployment = applying::deployment(job, target, to, push.clone())?;
    let mut manifest = deployment_info(view, deployment, true)?;
    let mut bytes = 0;
    for tool in &mut manifest.tools {
        fill(view, job, tool, &mut bytes)?;
    }
    let data = serde_json::to_value(&manifest)
        .map_err(|e| Error::internal(format!("a manifest cannot be written: {e}")))?;
    let message =
        webhook::Message { id: push.id.to_string(), kind: "deployment".into(), at: push.at, data };
    Ok(webhook::post(&endpoint.url, &endpoint.key, &message, view.now()))
}

fn fill(
    view: &View,
    job: &DeploymentJob,
    tool: &mut DeployedTool,
    bytes: &mut usize,
) -> Result<()> {
    let mut value = Value::Object(std::mem::take(&mut tool.provider_config.0));
    fill_value(&mut value, &mut |name| {
        let Some(value) = environments::placeholder_value(view, job.environment, name)? else {
            let message = format!(
                "the tool {} names {name}, which is neither a secret nor a variable of the \
                 environment",
                tool.name
            );
            return Err(Error::conflict("placeholder_unknown", message));
        };
        *bytes += value.len();
        if *bytes > MAX_VALUES_BYTES {
            return Err(Error::conflict(
                "placeholders_too_large",
                "the values of the tools' placeholders are larger than 4 MiB together",
            ));
        }
        Ok(value)
    })?;
    let filled: Map<String, Value> = match value {
        Value::Object(filled) => filled,
        _ => Map::new(),
    };
    tool.provider_config = JsonMap(filled);
    Ok(())
}

/// Replaces the placeholders in all strings of a value.
fn fill_value(value: &mut Value, filled: &mut impl FnMut(&str) -> Result<String>) -> Result<()> {
    match value {
        Value::String(text) => {
            *text = templates::fill_placeholders(text, &mut *filled)?;
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill_value(item, filled)),
        Value::Object(fields) => {
            fields.values_mut().try_for_each(|value| fill_value(value, filled))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}
