//! Artifacts in an in-memory store: publishing, resolution, references, drafts and deletion.

mod consistency;
mod deletion;
mod drafts;
mod publishing;
mod references;
mod resolution;

use serde_json::{Value, json};

use super::id::{ArtifactId, generic};
use super::publishing::ArtifactVersion;
use super::version::{ImportReference, VariableReference, VersionRecord, VersionText};
use super::{artifact, cloning, dependents, labels, prompts, variables};
use crate::api::{Calls, Input, Outcome, Principal, Req};
use crate::auth::{Access, Restricted};
use crate::base::{Name, Result, Slug};
use crate::resources::registries::{Registry, RegistryVisibility};
use crate::resources::testing::{World, args};
use crate::store::{Source, Tx, View};

/// Creates a private registry that every member may use.
pub fn registry(world: &World, slug: &'static str) -> Registry {
    with_access(world, slug, Access::Organization)
}

/// Creates a private registry with this access.
pub fn with_access(world: &World, slug: &'static str, access: Access) -> Registry {
    let create = move |tx: &mut Tx| {
        let registry = Registry {
            id: tx.new_id(),
            slug: Slug::parse(slug).unwrap(),
            reference: format!("acme/{slug}"),
            name: Name::parse(slug).unwrap(),
            description: None,
            visibility: RegistryVisibility::Private,
            access,
            created_at: tx.now(),
            updated_at: tx.now(),
        };
        tx.insert(&Restricted::new(registry.clone())).map(|()| registry)
    };
    world.store.write_now(world.org, create).unwrap()
}

/// The body that publishes a version in `acme/main`.
pub fn version(kind: &str, name: &str, version: &str, source: &str) -> Value {
    json!({
        "registryRef": "acme/main", "artifactType": kind, "name": name, "version": version,
        "source": source,
    })
}

/// An operation that may make outgoing calls.
type Calling<P, I, O> = fn(&mut Tx, &Req<P, I>, &mut Calls) -> Result<Outcome<O>>;

/// Runs such an operation as a member; no outgoing call is needed.
pub fn call<P, I, O>(world: &World, operation: Calling<P, I, O>, at: P, body: Value) -> Result<O>
where
    P: Send + 'static,
    I: Input,
    O: Send + 'static,
{
    let (parts, who) = (args(at, World::input::<I>(body)?), world.member.clone());
    let written = world.store.write_now(world.org, move |tx| {
        operation(tx, &Req::new(&parts, &who), &mut Calls::default())
    });
    written?.done()
}

/// Publishes as a member.
pub fn publish(world: &World, body: Value) -> Result<ArtifactVersion> {
    call(world, super::publishing::create, (), body)
}

/// Publishes a prompt.
pub fn prompt(world: &World, name: &str, number: &str, source: &str) -> ArtifactVersion {
    publish(world, version("prompt", name, number, source)).unwrap()
}

/// Publishes a promptlet.
pub fn promptlet(world: &World, name: &str, number: &str, source: &str) -> ArtifactVersion {
    publish(world, version("promptlet", name, number, source)).unwrap()
}

/// A query about an artifact of `acme/main`, with `more`.
pub fn about(kind: &str, name: &str, more: Value) -> Value {
    let mut query = json!({"registryRef": "acme/main", "artifactType": kind, "promptName": name});
    for (name, value) in more.as_object().unwrap() {
        query[name] = value.clone();
    }
    query
}

/// Returns the content of a version.
pub fn content(world: &World, query: Value) -> Result<Value> {
    world.read(super::content::get, (), World::input(query)?).map(|content| json!(content))
}

/// Deletes a version.
pub fn delete(world: &World, kind: &str, name: &str, number: &str) -> Result<()> {
    let query = about(kind, name, json!({"version": number}));
    world.write(super::deletion::delete, (), World::input(query)?).map(drop)
}

/// Sets a label of a prompt.
pub fn label(world: &World, name: &str, label: &str, number: &str) -> Result<Value> {
    let body = about("prompt", name, json!({"label": label, "version": number}));
    world.write(labels::set, (), World::input(body)?).map(|artifact| json!(artifact))
}

/// Lists the artifacts of `acme/main`.
pub fn artifacts(world: &World, kind: Option<&str>) -> Vec<Value> {
    let query = json!({"registryRef": "acme/main", "artifactType": kind});
    let page = world.read(artifact::list, (), World::input(query).unwrap()).unwrap();
    page.items.into_iter().map(|artifact| json!(artifact)).collect()
}

/// Lists the dependents of a promptlet: type, name, version, range and the resolved version.
pub fn dependents_of(world: &World, name: &str, version: Option<&str>) -> Result<Vec<String>> {
    let query = about("promptlet", name, json!({"version": version}));
    let page = world.read(dependents::list, (), World::input(query)?)?;
    let row = |dependent: Value| {
        let text = |field: &str| dependent[field].as_str().unwrap().to_string();
        ["artifactType", "name", "version", "range", "resolved"].map(text).join(" ")
    };
    Ok(page.items.into_iter().map(|dependent| row(json!(dependent))).collect())
}

/// Counts the rows of each table of artifacts.
pub fn rows(world: &World) -> [usize; 6] {
    let count = |view: &View| -> Result<[usize; 6]> {
        Ok([
            view.count(Source::<artifact::Artifact>::TABLE, &(), usize::MAX)?,
            view.count(Source::<VersionRecord>::TABLE, &(), usize::MAX)?,
            view.count(Source::<VersionText>::TABLE, &(), usize::MAX)?,
            view.count(Source::<ImportReference>::TABLE, &(), usize::MAX)?,
            view.count(Source::<VariableReference>::TABLE, &(), usize::MAX)?,
            view.count(Source::<super::drafts::Draft>::TABLE, &(), usize::MAX)?,
        ])
    };
    world.store.read_now(world.org, count).unwrap()
}

/// Returns the user of a caller.
pub fn user(who: &Principal) -> crate::base::Id<crate::auth::User> {
    match who {
        Principal::Caller(caller) => caller.user(),
        _ => unreachable!("every principal of a test world is a caller"),
    }
}
