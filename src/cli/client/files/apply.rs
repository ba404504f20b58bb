//! Doing what a plan says, one request after the other.
//!
//! The steps of a plan that was begun are noted in a journal: after an interruption the plan is made
//! anew, and goes on if it has no step that the first one had not.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::kind::{Access, Fields, Known, ResourceName, parent_and_own};
use super::plan::{Plan, Step};
use super::remote::{Remote, portable_input};
use super::state::{ArtifactKey, InputName};
use super::tree;
use crate::base::segment;
use crate::cli::client::api::{Api, Query, Tagged};
use crate::cli::client::refusal::Refusal;
use crate::cli::failure::Failure;
use crate::cli::{output, private_file};
use crate::outside::Method;

/// Does all steps.
///
/// # Errors
/// The first step that failed; those before it are done.
pub fn apply(api: &Api, remote: &mut Remote, plan: &Plan) -> Result<(), Failure> {
    let all = plan.steps.len();
    for (done, step) in plan.steps.iter().enumerate() {
        output::progress(&format!("{done} of {all}: {}", step.line()));
        if let Err(failure) = carry_out(api, remote, step) {
            output::progress("");
            let (Failure::Failed(why) | Failure::Usage(why)) = failure;
            return Err(Failure::Failed(format!(
                "{}\n{why}\nthis is step {} of {all}; the same command goes on from here",
                step.line(),
                done + 1
            )));
        }
    }
    output::progress("");
    Ok(())
}

fn carry_out(api: &Api, remote: &mut Remote, step: &Step) -> Result<(), Failure> {
    match step {
        Step::Create { resource, .. } | Step::Change { resource, .. }
            if resource.0.access == Access::Value =>
        {
            // Setting one has no condition.
            if value(api, remote, resource)? != planned_value(remote, resource) {
                return Err(changed_meanwhile());
            }
            let Request { path, body, .. } = required(&remote.known, step)?;
            api.put_in_org(&path, body)
        }
        Step::Create { resource, .. } => {
            let Request { path, body, .. } = required(&remote.known, step)?;
            let created = api.post_in_org(&path, body)?;
            if let Some(id) = created["id"].as_str() {
                remote.known.ids.insert(resource.clone(), id.to_string());
            }
            Ok(())
        }
        Step::Change { resource, .. } => {
            let Request { path, body, .. } = required(&remote.known, step)?;
            let Some(tag) = unchanged_resource(api, remote, resource)? else {
                return Err(changed_meanwhile());
            };
            told(api.patch_if(&path, body, &tag)?)
        }
        Step::Remove { resource, .. } => remove(api, remote, resource),
        Step::Publish { .. } | Step::Tag { .. } | Step::Label { to: Some(_), .. } => {
            let Request { method, path, body } = required(&remote.known, step)?;
            Ok(api.send(method, &path, &body).map(drop)?)
        }
        Step::Input { input, from, .. } => apply_input(api, remote, step, (input, from.as_ref())),
        Step::Label { artifact, label, from, to: None } => {
            let what = [("label", Some(label.as_str())), ("from", from.as_deref())];
            delete_of(api, remote, artifact, "/registries/artifacts/labels", &what)
        }
        Step::Unpublish { artifact, version, .. } => {
            let what = [("version", Some(version.as_str()))];
            delete_of(api, remote, artifact, "/registries/artifact-versions", &what)
        }
    }
}

/// The request of a step that sends something.
pub struct Request {
    pub method: Method,
    pub path: String,
    pub body: Value,
}

/// Returns the request by which a step is carried out; none of one that removes something.
///
/// # Errors
/// If it refers to what there is not.
pub fn request(known: &Known, step: &Step) -> Result<Option<Request>, Failure> {
    let (method, path, body) = match step {
        Step::Create { resource, fields } | Step::Change { resource, fields, .. }
            if resource.0.access == Access::Value =>
        {
            (Method::PUT, known.path(resource)?, (resource.0.apply)(known, fields)?)
        }
        Step::Create { resource, fields } => {
            (Method::POST, known.list_path(resource)?, known.created(resource, fields)?)
        }
        Step::Change { resource, fields, .. } => {
            (Method::PATCH, known.path(resource)?, (resource.0.apply)(known, fields)?)
        }
        Step::Publish { version, text } => {
            let mut body = json!({
                "registryRef": known.registry_ref(&version.artifact.registry),
                "artifactType": version.artifact.artifact_type(),
                "name": version.artifact.name,
                "version": version.version(),
                "model": version.model,
                "source": text.source,
                "metadata": text.metadata,
            });
            // A server of 0.1.0 does not know the field.
            if let Some(message) = &text.message {
                body["message"] = json!(message);
            }
            (Method::POST, "/registries/artifacts".into(), body)
        }
        Step::Label { artifact, label, from, to: Some(to) } => {
            let mut body = named(known, artifact);
            body["label"] = json!(label);
            body["version"] = json!(to);
            // Only from where the plan saw it.
            body["from"] = json!(from);
            (Method::PATCH, "/registries/artifacts/labels".into(), body)
        }
        Step::Tag { artifact, from, to } => {
            let mut body = named(known, artifact);
            body["tags"] = json!(to);
            // Only if they are as the plan saw them.
            body["from"] = json!(from);
            (Method::PATCH, "/registries/artifacts".into(), body)
        }
        Step::Input { input: (of, name), from, to: Some(to) } => {
            let path = format!("/prompts/{}/inputs", segment(&of.name));
            let mut body = json!({
                "registryRef": known.registry_ref(&of.registry),
                "variables": to["variables"],
                "message": to["message"],
                "expect": {"contains": to["contains"], "judge": to["judge"]},
            });
            match from {
                Some(_) => (Method::PATCH, format!("{path}/{}", segment(name)), body),
                None => {
                    body["name"] = json!(name);
                    (Method::POST, path, body)
                }
            }
        }
        Step::Remove { .. }
        | Step::Label { to: None, .. }
        | Step::Input { to: None, .. }
        | Step::Unpublish { .. } => {
            return Ok(None);
        }
    };
    Ok(Some(Request { method, path, body }))
}

/// The request of a step that has one.
fn required(known: &Known, step: &Step) -> Result<Request, Failure> {
    let request = request(known, step)?;
    request.ok_or_else(|| Failure::Failed(format!("{} sends nothing", step.line())))
}

/// Creates, changes or removes an input that is as the plan saw it.
fn apply_input(
    api: &Api,
    remote: &Remote,
    step: &Step,
    ((of, name), from): (&InputName, Option<&Fields>),
) -> Result<(), Failure> {
    let Some(from) = from else {
        let Request { path, body, .. } = required(&remote.known, step)?;
        return api.post_in_org(&path, body).map(drop);
    };
    let own = format!("/prompts/{}/inputs/{}", segment(&of.name), segment(name));
    let registry = remote.known.registry_ref(&of.registry);
    let query = [("registryRef", Some(registry.as_str()))];
    let found = api.tagged_of_org(&own, &query)?;
    let tag = unchanged(found, |now| portable_input(now) == *from)?;
    match (request(&remote.known, step)?, tag) {
        (None, None) => Ok(()),
        (None, Some(tag)) => told(api.delete_of_if(&own, &query, &tag)?),
        (Some(Request { path, body, .. }), Some(tag)) => told(api.patch_if(&path, body, &tag)?),
        (Some(_), None) => Err(changed_meanwhile()),
    }
}

fn named(known: &Known, artifact: &ArtifactKey) -> Value {
    json!({
        "registryRef": known.registry_ref(&artifact.registry),
        "promptName": artifact.name,
        "artifactType": artifact.artifact_type(),
    })
}

fn delete_of(
    api: &Api,
    remote: &Remote,
    artifact: &ArtifactKey,
    path: &str,
    what: Query,
) -> Result<(), Failure> {
    let registry = remote.known.registry_ref(&artifact.registry);
    let of = [
        ("registryRef", Some(registry.as_str())),
        ("promptName", Some(&artifact.name)),
        ("artifactType", Some(artifact.artifact_type())),
    ];
    api.delete_in_org(path, &[&of[..], what].concat()).map(drop)
}

/// Reads a resource, and returns what [`unchanged`] does.
fn unchanged_resource(
    api: &Api,
    remote: &Remote,
    resource: &ResourceName,
) -> Result<Option<String>, Failure> {
    let found = api.tagged_in_org(&remote.known.path(resource)?)?;
    let planned = remote.state.resources.get(resource);
    unchanged(found, |item| Some(&remote.fields(resource.0, item)) == planned)
}

/// The tag of what was read, which must be as it was planned; none if it is gone.
///
/// # Errors
/// Somebody has changed it since.
fn unchanged(
    found: Result<Tagged, Refusal>,
    is_planned: impl Fn(&Value) -> bool,
) -> Result<Option<String>, Failure> {
    match found {
        Ok((item, tag)) if is_planned(&item) => Ok(Some(tag.unwrap_or_else(|| "*".into()))),
        Ok(_) => Err(changed_meanwhile()),
        Err(refusal) if refusal.with_code("not_found").is_some() => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

fn changed_meanwhile() -> Failure {
    Failure::Failed(
        "somebody has changed or removed it since it was planned, and it is left alone: look at \
         the new plan with roadstead plan"
            .into(),
    )
}

/// The result of a change whose condition the server has examined.
fn told(result: Result<(), Refusal>) -> Result<(), Failure> {
    result.map_err(|refusal| match refusal.with_code("changed_meanwhile") {
        Some(_) => changed_meanwhile(),
        None => refusal.into(),
    })
}

/// Removes a resource as the plan saw it; one that is gone is no failure.
fn remove(api: &Api, remote: &Remote, resource: &ResourceName) -> Result<(), Failure> {
    let path = remote.known.path(resource)?;
    match resource.0.access {
        Access::Bare => api.delete_in_org(&path, &[]).map(drop),
        Access::Value => match value(api, remote, resource)? {
            None => Ok(()),
            now if now == planned_value(remote, resource) => {
                api.delete_in_org(&path, &[]).map(drop)
            }
            Some(_) => Err(changed_meanwhile()),
        },
        Access::Tagged => match unchanged_resource(api, remote, resource)? {
            None => Ok(()),
            Some(tag) => told(api.delete_if(&path, &tag)?),
        },
    }
}

/// The value that a resource has now in its parent.
fn value(
    api: &Api,
    remote: &Remote,
    (kind, name): &ResourceName,
) -> Result<Option<Value>, Failure> {
    let Some(parent) = &kind.parent else { return Ok(None) };
    let (of, own) = parent_and_own(name);
    let path = remote.known.path(&(parent.kind, of.to_string()))?;
    let (mut now, _) = api.tagged_in_org(&path)??;
    Ok(now[parent.field].as_object_mut().and_then(|values| values.remove(own)))
}

/// The value that it had when it was planned.
fn planned_value(remote: &Remote, resource: &ResourceName) -> Option<Value> {
    Some(remote.state.resources.get(resource)?["value"].clone())
}

/// The hashes of the steps of a plan that was begun, until it is done.
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// The journal of the plan with this hash: `roadstead/plans/HASH.json` in `$XDG_STATE_HOME`, else
    /// in `~/.local/state`.
    pub fn of(hash: &str) -> Result<Self, Failure> {
        if hash.is_empty() || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Failure::Usage("--plan takes the hash that roadstead plan prints".into()));
        }
        let state = private_file::user_directory("XDG_STATE_HOME", ".local/state")
            .ok_or_else(|| Failure::Usage("neither XDG_STATE_HOME nor HOME is set".into()))?;
        Ok(Journal { path: state.join("roadstead/plans").join(format!("{hash}.json")) })
    }

    /// Whether the plan was begun, and this one has none but steps of it.
    pub fn covers(&self, plan: &Plan) -> bool {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let begun: BTreeSet<String> = serde_json::from_str(&text).unwrap_or_default();
        !begun.is_empty() && plan.steps.iter().all(|step| begun.contains(&step.hash()))
    }

    /// Notes the steps of a plan that begins.
    pub fn begin(&self, plan: &Plan) -> Result<(), Failure> {
        let steps: Vec<String> = plan.steps.iter().map(Step::hash).collect();
        let written = tree::replace(&self.path, &json!(steps).to_string());
        written.map_err(Failure::io(self.path.display()))
    }

    /// Forgets the plan, which is done.
    pub fn end(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
