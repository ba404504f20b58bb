//! What decides about a posted manifest beside its frozen contents: the endpoint that it goes to, and
//! the secrets and variables that are filled into its tools. A plan names them, so that approvers see
//! them, and a job is applied only as long as they are as planned.

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::base::{Error, Id, Result, StringMap, Time, VariableName};
use crate::resources::agents::Provider;
use crate::resources::environments::{
    self, Environment, PlaceholderSource, ProviderCredential, Secret,
};
use crate::store::View;

// ── Records ──────────────────────────────────────────────────────────────────

crate::base::portable! {
/// Where the manifests of a job go, and what is filled into its tools, as planned. Nothing is filled if
/// runtimes fetch them.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct PlannedDelivery {
    /// Where they are posted; none if runtimes fetch them.
    pub endpoint: Option<PlannedEndpoint>,
    /// The secrets that are filled, by name.
    pub secrets: Vec<PlannedSecret>,
    /// The variables that are filled, by name.
    pub variables: Vec<PlannedVariable>,
}
}

crate::base::portable! {
/// The endpoint of a provider.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlannedEndpoint {
    /// Its scheme and host.
    pub host: String,
    /// The credential with the URL and the key.
    pub credential: Id<ProviderCredential>,
    /// When the credential was set: every state of it has another time.
    pub set_at: Time,
}
}

crate::base::portable! {
/// A secret that is filled. Its value is in no plan.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlannedSecret {
    pub name: VariableName,
    pub secret: Id<Secret>,
    /// When it was set: every value has another time.
    pub set_at: Time,
}
}

crate::base::portable! {
/// A variable that is filled.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlannedVariable {
    pub name: VariableName,
    /// The BLAKE3 hash of its value, which is a content of the job.
    pub value: [u8; 32],
}
}

// ── Planning ─────────────────────────────────────────────────────────────────

/// The endpoint that a job's manifests are posted to, if any: `provider` is that of the job, which one
/// of tools does not have.
pub fn push_target(
    view: &View,
    environment: Id<Environment>,
    provider: Option<&Provider>,
) -> Result<Option<environments::PushTarget>> {
    match provider {
        Some(provider) => environments::push_target(view, environment, provider),
        None => Ok(None),
    }
}

impl PlannedDelivery {
    /// What the hash of a plan covers of it.
    pub fn hashed(&self) -> Value {
        let hex = |hash: &[u8; 32]| blake3::Hash::from_bytes(*hash).to_string();
        let secret = |one: &PlannedSecret| json!([one.name, one.secret, one.set_at]);
        let variable = |one: &PlannedVariable| json!([one.name, hex(&one.value)]);
        json!({
            "endpoint": self.endpoint.as_ref().map(|to| json!([to.host, to.credential, to.set_at])),
            "secrets": self.secrets.iter().map(secret).collect::<Vec<_>>(),
            "variables": self.variables.iter().map(variable).collect::<Vec<_>>(),
        })
    }
}

/// Whether a name is filled with something else than `$`.
pub fn is_filled_otherwise(delivery: Option<&PlannedDelivery>, name: &str) -> bool {
    let Some(PlannedDelivery { secrets, variables, .. }) = delivery else { return false };
    let dollar = *blake3::hash(b"$").as_bytes();
    let is_other = |one: &PlannedVariable| one.name.as_str() == name && one.value != dollar;
    secrets.iter().any(|one| one.name.as_str() == name) || variables.iter().any(is_other)
}

// ── Keeping to the plan ──────────────────────────────────────────────────────

impl PlannedDelivery {
    /// Why manifests are not delivered as planned any more; `None` as long as they are.
    pub fn deviation(
        &self,
        view: &View,
        environment: Id<Environment>,
        target: Option<&environments::PushTarget>,
    ) -> Result<Option<String>> {
        let planned = self.endpoint.as_ref().map(|to| (to.credential, to.set_at));
        if planned != target.map(environments::PushTarget::credential) {
            return Ok(Some(
                "the endpoint that manifests are posted to, or its credential, has been set since \
                 this was planned"
                    .into(),
            ));
        }
        let secrets = self.secrets.iter().map(|secret| &secret.name);
        for name in secrets.chain(self.variables.iter().map(|variable| &variable.name)) {
            let source = environments::placeholder_source(view, environment, name)?;
            if let Err(why) = self.check_source(name, source.as_ref()) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// Checks that what a name stands for now is what was planned. The error is a phrase that says what
    /// has changed.
    fn check_source(
        &self,
        name: &VariableName,
        source: Option<&PlaceholderSource>,
    ) -> std::result::Result<(), String> {
        let secret = self.secrets.iter().find(|secret| secret.name == *name);
        let variable = self.variables.iter().find(|variable| variable.name == *name);
        let is_as_planned = match source {
            Some(PlaceholderSource::Secret(id, set_at)) => {
                secret.is_some_and(|planned| (planned.secret, planned.set_at) == (*id, *set_at))
            }
            Some(PlaceholderSource::Variable(value)) => {
                let hash = *blake3::hash(value.as_bytes()).as_bytes();
                variable.is_some_and(|planned| planned.value == hash)
            }
            None => secret.is_none() && variable.is_none(),
        };
        if is_as_planned {
            return Ok(());
        }
        Err(format!(
            "{name}, which is filled into the tools, has been changed since this was planned"
        ))
    }

    /// Checks that nothing is filled that was not planned.
    ///
    /// # Errors
    /// 409 that says what has changed.
    pub fn check_filled(&self, filled: &BTreeMap<VariableName, PlaceholderSource>) -> Result<()> {
        for (name, source) in filled {
            self.check_source(name, Some(source))
                .map_err(|why| Error::conflict("deployment_outdated", why))?;
        }
        Ok(())
    }
}

// ── What callers see ─────────────────────────────────────────────────────────

/// Where the manifests of a plan are posted, and what is filled into its tools. If one of these is set
/// again before the job runs, its targets fail.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDelivery {
    /// Scheme and host of the endpoint.
    endpoint: String,
    /// When the credential of the endpoint was last set.
    credential_set_at: Time,
    /// The secrets that are filled.
    secrets: Vec<PlanSecret>,
    /// The variables that are filled, with their values.
    variables: StringMap,
}

/// A secret that is filled into tools.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanSecret {
    name: VariableName,
    /// When it was last set.
    set_at: Time,
}

impl PlannedDelivery {
    /// Returns its representation, `None` if nothing is posted. `text` returns contents of the job.
    ///
    /// # Errors
    /// Those of `text`.
    pub fn info(&self, text: impl Fn(&[u8; 32]) -> Result<String>) -> Result<Option<PlanDelivery>> {
        let Some(to) = &self.endpoint else { return Ok(None) };
        let secret =
            |one: &PlannedSecret| PlanSecret { name: one.name.clone(), set_at: one.set_at };
        let variable = |one: &PlannedVariable| Ok((one.name.to_string(), text(&one.value)?));
        Ok(Some(PlanDelivery {
            endpoint: to.host.clone(),
            credential_set_at: to.set_at,
            secrets: self.secrets.iter().map(secret).collect(),
            variables: self.variables.iter().map(variable).collect::<Result<_>>()?,
        }))
    }

    /// Returns what of it concerns these names, as JSON to compare; null if nothing is posted.
    ///
    /// # Errors
    /// Those of `text`.
    pub fn comparable(
        &self,
        names: &BTreeSet<VariableName>,
        text: impl Fn(&[u8; 32]) -> Result<String>,
    ) -> Result<Value> {
        let Some(to) = &self.endpoint else { return Ok(Value::Null) };
        let secrets = self.secrets.iter().filter(|secret| names.contains(&secret.name));
        let secrets: BTreeMap<_, _> =
            secrets.map(|secret| (secret.name.to_string(), secret.set_at)).collect();
        let mut variables = StringMap::new();
        for variable in self.variables.iter().filter(|variable| names.contains(&variable.name)) {
            variables.insert(variable.name.to_string(), text(&variable.value)?);
        }
        Ok(json!({
            "endpoint": to.host, "credentialSetAt": to.set_at, "secrets": secrets,
            "variables": variables,
        }))
    }
}
