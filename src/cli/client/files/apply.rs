//! Doing what a plan says, one request after the other.
//!
//! The steps of a plan that was begun are noted in a journal: after an interruption the plan is made
//! anew, and goes on if it has no step that the first one had not.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::plan::{Plan, Step};
use super::remote::Remote;
use super::state::{
    AGENT, ASSIGNMENT, ArtifactKey, CHANNEL, ENVIRONMENT, FLEET, Fields, KINDS, LISTING, POLICY,
    REGISTRY, ResourceName, SUBSCRIPTION, TOOL, VARIABLE, parent_and_own,
};
use crate::cli::client::api::{Api, Query, segment};
use crate::cli::client::refusal::Refusal;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// Fields of an agent that are those of its draft.
const DRAFT: [&str; 5] = ["promptName", "promptVersion", "model", "provider", "providerConfig"];

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
                "{}\n{why}\n{done} of {all} steps are done; the same command goes on from here",
                step.line()
            )));
        }
    }
    output::progress("");
    Ok(())
}

fn carry_out(api: &Api, remote: &mut Remote, step: &Step) -> Result<(), Failure> {
    match step {
        Step::Create { resource: (VARIABLE, name), .. }
        | Step::Change { resource: (VARIABLE, name), .. } => {
            // Setting one has no condition.
            if value(api, remote, name)? != planned_value(remote, name) {
                return Err(changed_meanwhile());
            }
            let Request { path, body, .. } = required(remote, step)?;
            api.put_in_org(&path, body)
        }
        Step::Create { resource, .. } => {
            let Request { path, body, .. } = required(remote, step)?;
            let created = api.post_in_org(&path, body)?;
            if let Some(id) = created["id"].as_str() {
                remote.ids.insert(resource.clone(), id.to_string());
            }
            Ok(())
        }
        Step::Change { resource, .. } => {
            let Request { path, body, .. } = required(remote, step)?;
            let Some(tag) = unchanged(api, remote, resource)? else {
                return Err(changed_meanwhile());
            };
            told(api.patch_if(&path, body, &tag)?)
        }
        Step::Remove { resource, .. } => remove(api, remote, resource),
        Step::Publish { .. } | Step::Label { to: Some(_), .. } => {
            let Request { method, path, body } = required(remote, step)?;
            Ok(api.send(method, &path, &body).map(drop)?)
        }
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
pub fn request(remote: &Remote, step: &Step) -> Result<Option<Request>, Failure> {
    let (method, path, body) = match step {
        Step::Create { resource: resource @ (VARIABLE, _), fields }
        | Step::Change { resource: resource @ (VARIABLE, _), fields, .. } => {
            (Method::Put, path(remote, resource)?, json!({"value": fields["value"]}))
        }
        Step::Create { resource, fields } => {
            (Method::Post, list_path(remote, resource)?, created(remote, resource, fields)?)
        }
        Step::Change { resource, fields, .. } => {
            (Method::Patch, path(remote, resource)?, body(remote, resource.0, fields)?)
        }
        Step::Publish { version, text } => {
            let body = json!({
                "registryRef": registry_ref(remote, &version.artifact.registry),
                "artifactType": version.artifact.artifact_type(),
                "name": version.artifact.name,
                "version": version.version(),
                "model": version.model,
                "source": text.source,
                "metadata": text.metadata,
            });
            (Method::Post, "/registries/artifacts".into(), body)
        }
        Step::Label { artifact, label, from, to: Some(to) } => {
            let mut body = named(remote, artifact);
            body["label"] = json!(label);
            body["version"] = json!(to);
            // Only from where the plan saw it.
            body["from"] = json!(from);
            (Method::Patch, "/registries/artifacts/labels".into(), body)
        }
        Step::Remove { .. } | Step::Label { to: None, .. } | Step::Unpublish { .. } => {
            return Ok(None);
        }
    };
    Ok(Some(Request { method, path, body }))
}

/// The request of a step that has one.
fn required(remote: &Remote, step: &Step) -> Result<Request, Failure> {
    let request = request(remote, step)?;
    request.ok_or_else(|| Failure::Failed(format!("{} sends nothing", step.line())))
}

fn registry_ref(remote: &Remote, slug: &str) -> String {
    if slug.contains('/') { slug.to_string() } else { format!("{}/{slug}", remote.org) }
}

fn named(remote: &Remote, artifact: &ArtifactKey) -> Value {
    json!({
        "registryRef": registry_ref(remote, &artifact.registry),
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
    let registry = registry_ref(remote, &artifact.registry);
    let of = [
        ("registryRef", Some(registry.as_str())),
        ("promptName", Some(&artifact.name)),
        ("artifactType", Some(artifact.artifact_type())),
    ];
    api.delete_in_org(path, &[&of[..], what].concat())
}

/// The tag of a resource that is as the plan saw it; none if it is gone.
///
/// # Errors
/// Somebody has changed it since.
fn unchanged(
    api: &Api,
    remote: &Remote,
    resource: &ResourceName,
) -> Result<Option<String>, Failure> {
    let (item, tag) = match api.tagged_in_org(&path(remote, resource)?)? {
        Ok(found) => found,
        Err(refusal) if refusal.with_code("not_found").is_some() => return Ok(None),
        Err(refusal) => return Err(refusal.into()),
    };
    if Some(&remote.fields(resource.0, &item)) != remote.state.resources.get(resource) {
        return Err(changed_meanwhile());
    }
    Ok(Some(tag.unwrap_or_else(|| "*".into())))
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
    let path = path(remote, resource)?;
    match resource.0 {
        // These have no content, and no route to read one.
        ASSIGNMENT | SUBSCRIPTION => api.delete_in_org(&path, &[]),
        VARIABLE => match value(api, remote, &resource.1)? {
            None => Ok(()),
            now if now == planned_value(remote, &resource.1) => api.delete_in_org(&path, &[]),
            Some(_) => Err(changed_meanwhile()),
        },
        _ => match unchanged(api, remote, resource)? {
            None => Ok(()),
            Some(tag) => told(api.delete_if(&path, &tag)?),
        },
    }
}

/// The value that a variable has now.
fn value(api: &Api, remote: &Remote, name: &str) -> Result<Option<Value>, Failure> {
    let (environment, own) = parent_and_own(name);
    let environment = path(remote, &(ENVIRONMENT, environment.to_string()))?;
    let (mut now, _) = api.tagged_in_org(&environment)??;
    Ok(now["variables"].as_object_mut().and_then(|variables| variables.remove(own)))
}

/// The value that a variable had when it was planned.
fn planned_value(remote: &Remote, name: &str) -> Option<Value> {
    let fields = remote.state.resources.get(&(VARIABLE, name.to_string()))?;
    Some(fields["value"].clone())
}

/// The path of the list that a resource is created in.
fn list_path(remote: &Remote, (kind, name): &ResourceName) -> Result<String, Failure> {
    let (parent, _) = parent_and_own(name);
    Ok(match *kind {
        REGISTRY => "/registries".into(),
        POLICY => "/governance/policies".into(),
        ASSIGNMENT => {
            format!("/governance/policies/{}/assignments", segment(&id(remote, POLICY, parent)?))
        }
        TOOL => "/tools".into(),
        ENVIRONMENT => "/environments".into(),
        VARIABLE => {
            let environment = id(remote, ENVIRONMENT, parent)?;
            format!("/environments/{}/variables", segment(&environment))
        }
        FLEET => "/fleets".into(),
        AGENT => "/agents".into(),
        CHANNEL => "/notifications/channels".into(),
        SUBSCRIPTION => "/notifications/subscriptions".into(),
        LISTING => "/agent-index/listings".into(),
        kind => unreachable!("there is no kind {kind}"),
    })
}

/// The path of a resource that exists.
fn path(remote: &Remote, resource: &ResourceName) -> Result<String, Failure> {
    let (kind, name) = resource;
    let own = match *kind {
        REGISTRY | AGENT => name.clone(),
        VARIABLE => parent_and_own(name).1.to_string(),
        kind => id(remote, kind, name)?,
    };
    Ok(format!("{}/{}", list_path(remote, resource)?, segment(&own)))
}

fn id(remote: &Remote, kind: usize, name: &str) -> Result<String, Failure> {
    let known = remote.ids.get(&(kind, name.to_string())).cloned();
    known.ok_or_else(|| Failure::Failed(format!("there is no {} {name:?}", KINDS[kind].name)))
}

/// The body that creates a resource.
fn created(remote: &Remote, resource: &ResourceName, fields: &Fields) -> Result<Value, Failure> {
    let (kind, name) = resource;
    let (parent, own) = parent_and_own(name);
    let mut body = body(remote, *kind, fields)?;
    match *kind {
        ASSIGNMENT => body["registryRef"] = json!(registry_ref(remote, own)),
        SUBSCRIPTION => {
            body["channelId"] = json!(id(remote, CHANNEL, parent)?);
            body["eventType"] = json!(own);
        }
        kind => body[KINDS[kind].key] = json!(name),
    }
    Ok(body)
}

/// Fields as a request has them: names replaced by ids.
fn body(remote: &Remote, kind: usize, fields: &Fields) -> Result<Value, Failure> {
    match kind {
        POLICY => policy_body(remote, fields),
        ENVIRONMENT => environment_body(remote, fields),
        AGENT => agent_body(remote, fields),
        _ => Ok(Value::Object(fields.clone())),
    }
}

fn policy_body(remote: &Remote, fields: &Fields) -> Result<Value, Failure> {
    let mut body = json!(fields);
    for rule in body["rules"].as_array_mut().into_iter().flatten() {
        let provider = rule.as_object_mut().and_then(|rule| rule.remove("llmProvider"));
        if let Some(name) = provider.as_ref().and_then(Value::as_str) {
            rule["llmProviderId"] = json!(remote.providers.get(name));
        }
    }
    if body["rules"].is_null() {
        body.as_object_mut().map(|body| body.remove("rules"));
    }
    Ok(body)
}

fn environment_body(remote: &Remote, fields: &Fields) -> Result<Value, Failure> {
    let mut body = json!(fields);
    let approvals = body.get_mut("approvals").and_then(Value::as_object_mut);
    if let Some(approvals) = approvals {
        let emails = approvals.remove("approvers").unwrap_or_default();
        let ids = emails
            .as_array()
            .into_iter()
            .flatten()
            .map(|email| json!(email.as_str().and_then(|email| remote.members.get(email))));
        approvals.insert("approverIds".into(), ids.collect());
    }
    Ok(body)
}

fn agent_body(remote: &Remote, fields: &Fields) -> Result<Value, Failure> {
    let (mut body, mut draft) = (json!({}), json!({}));
    for (field, value) in fields {
        match field.as_str() {
            "fleet" => {
                body["fleetId"] = match value.as_str() {
                    Some(name) => json!(id(remote, FLEET, name)?),
                    None => Value::Null,
                };
            }
            "registry" => {
                let reference = value.as_str().map(|slug| registry_ref(remote, slug));
                draft["registryRef"] = json!(reference);
            }
            "tools" => {
                let mut references = Vec::new();
                for tool in value.as_array().into_iter().flatten() {
                    let name = tool["tool"].as_str().unwrap_or_default();
                    let version = &tool["version"];
                    references.push(json!({"toolId": id(remote, TOOL, name)?, "version": version}));
                }
                draft["toolRefs"] = references.into();
            }
            "variables" => draft["variables"] = value.clone(),
            field if DRAFT.contains(&field) => draft[field] = value.clone(),
            field => body[field] = value.clone(),
        }
    }
    if draft.as_object().is_some_and(|draft| !draft.is_empty()) {
        body["draft"] = draft;
    }
    Ok(body)
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
        let absolute =
            |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
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
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(Failure::io(folder.display()))?;
        }
        let steps: Vec<String> = plan.steps.iter().map(Step::hash).collect();
        let new = self.path.with_extension("new");
        let written = fs::write(&new, json!(steps).to_string());
        let written = written.and_then(|()| fs::rename(&new, &self.path));
        written.map_err(Failure::io(self.path.display()))
    }

    /// Forgets the plan, which is done.
    pub fn end(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
