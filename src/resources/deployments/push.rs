//! Posting a manifest to the endpoint of a provider. In it, and nowhere else, the `${NAME}` of tools
//! are replaced by the secrets and variables of the environment.

use schemars::json_schema;

use super::applying;
use super::info::{DeploymentInfo, deployment_info};
use super::job::{DeploymentJob, Push};
use super::target::{DeploymentTarget, TargetAgent};
use crate::api::{Resource, Webhook};
use crate::base::{Error, Result};
use crate::outside::{Call, webhook};
use crate::resources::environments::{self, PlaceholderFiller, PushTarget};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { webhooks: &[MANIFEST_WEBHOOK], ..Resource::EMPTY };

const MANIFEST_WEBHOOK: Webhook = Webhook {
    name: "deployment",
    about: "Deliver a manifest to a provider's endpoint",
    description: "Posted to the `endpoint` of an environment's credential for the provider, signed \
                  with its `apiKey`, for each agent of a deployment. In `tools`, `${NAME}` is filled \
                  with the secrets and variables of the environment. A 2xx records the deployment. \
                  After any other answer, a 410 included, or none within 10 seconds, it is posted \
                  again, three times in all with the same `webhook-id`; then the target has failed.",
    kind: |_| json_schema!({"const": "deployment", "description": "What the message is."}),
    data: |generator| generator.subschema_for::<DeploymentInfo>(),
};

/// Returns the call that posts a target to the provider's endpoint; the use of credential and secrets
/// is audited. The message is the same at every try, its signature is new.
///
/// # Errors
/// 409 or 413 if the target cannot be posted at all.
pub fn post(
    tx: &mut Tx,
    to: &PushTarget,
    (job, target, agent): (&DeploymentJob, &DeploymentTarget, &TargetAgent),
    push: &Push,
) -> Result<Call> {
    let key = to.signing_key(&tx.view())?;
    let deployment = applying::deployment(job, target, agent, push.clone())?;
    let provider = deployment.provider.clone();
    let mut manifest = deployment_info(&tx.view(), deployment, true)?;
    let view = tx.view();
    let mut filler = PlaceholderFiller::new(view, job.environment);
    for tool in &mut manifest.tools {
        tool.provider_config = filler.fill(&tool.provider_config)?;
    }
    let missing: Vec<_> = filler.missing().iter().map(String::as_str).collect();
    if let Some(first) = missing.first() {
        let dollar = environments::dollar(&view, job.environment)?;
        return Err(Error::conflict(
            "placeholder_unknown",
            format!(
                "its tools name what is neither a secret nor a variable of the environment: {}; a text \
                 such as {} is written {}",
                missing.join(", "),
                format_args!("${{{first}}}"),
                format_args!("${{{dollar}}}{{{first}}}"),
            ),
        ));
    }
    if let Some(delivery) = &job.delivery {
        delivery.check_filled(filler.sources())?;
    }
    let secrets = filler.secrets();
    let cause = job.id.to_string();
    environments::audit_push(tx, job.environment, &provider, &secrets, &cause)?;
    let data = serde_json::to_value(&manifest)
        .map_err(|e| Error::internal(format!("a manifest cannot be written: {e}")))?;
    let message =
        webhook::Message { id: push.id.to_string(), kind: "deployment".into(), at: push.at, data };
    Ok(webhook::post(&to.endpoint, &key, &message, tx.now()))
}
