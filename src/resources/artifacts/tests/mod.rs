//! Artifacts in an in-memory store: publishing, resolution, references, drafts and deletion.

mod consistency;
mod deletion;
mod drafts;
mod metadata;
mod protected;
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
use crate::resources::testing::{Fixture, args, user};
use crate::store::{ListSource, Tx, View};

/// Creates a private registry that every member may use.
pub fn registry(fixture: &Fixture, slug: &'static str) -> Registry {
    with_access(fixture, slug, Access::Organization)
}

/// Creates a private registry with this access.
pub fn with_access(fixture: &Fixture, slug: &'static str, access: Access) -> Registry {
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
            updated_by: None,
        };
        tx.insert(&Restricted::new(registry.clone())).map(|()| registry)
    };
    fixture.store.write_blocking(fixture.org, create).unwrap()
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
pub fn call<P, I, O>(
    fixture: &Fixture,
    operation: Calling<P, I, O>,
    at: P,
    body: Value,
) -> Result<O>
where
    P: Send + 'static,
    I: Input,
    O: Send + 'static,
{
    let (parts, who) = (args(at, Fixture::input::<I>(body)?), fixture.member.clone());
    let written = fixture.store.write_blocking(fixture.org, move |tx| {
        operation(tx, &Req::new(&parts, &who), &mut Calls::default())
    });
    written?.done()
}

/// Publishes as somebody.
pub fn publish_as(fixture: &Fixture, who: &Principal, body: Value) -> Result<ArtifactVersion> {
    let (parts, who) = (args((), Fixture::input(body)?), who.clone());
    let written = fixture.store.write_blocking(fixture.org, move |tx| {
        super::publishing::create(tx, &Req::new(&parts, &who), &mut Calls::default())
    });
    written?.done()
}

/// Publishes as a member.
pub fn publish(fixture: &Fixture, body: Value) -> Result<ArtifactVersion> {
    call(fixture, super::publishing::create, (), body)
}

/// Publishes a prompt.
pub fn prompt(fixture: &Fixture, name: &str, number: &str, source: &str) -> ArtifactVersion {
    publish(fixture, version("prompt", name, number, source)).unwrap()
}

/// Publishes a promptlet.
pub fn promptlet(fixture: &Fixture, name: &str, number: &str, source: &str) -> ArtifactVersion {
    publish(fixture, version("promptlet", name, number, source)).unwrap()
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
pub fn content(fixture: &Fixture, query: Value) -> Result<Value> {
    fixture.read(super::content::get, (), Fixture::input(query)?).map(|content| json!(content))
}

/// Deletes a version.
pub fn delete(fixture: &Fixture, kind: &str, name: &str, number: &str) -> Result<()> {
    let query = about(kind, name, json!({"version": number}));
    fixture.write(super::deletion::delete, (), Fixture::input(query)?).map(drop)
}

/// Sets a label of a prompt.
pub fn label(fixture: &Fixture, name: &str, label: &str, number: &str) -> Result<Value> {
    let body = about("prompt", name, json!({"label": label, "version": number}));
    fixture.write(labels::set, (), Fixture::input(body)?).map(|artifact| json!(artifact))
}

/// Lists the artifacts of `acme/main`.
pub fn artifacts(fixture: &Fixture, kind: Option<&str>) -> Vec<Value> {
    let query = json!({"registryRef": "acme/main", "artifactType": kind});
    let page = fixture.read(artifact::list, (), Fixture::input(query).unwrap()).unwrap();
    page.items.into_iter().map(|artifact| json!(artifact)).collect()
}

/// Lists the dependents of a promptlet: type, name, version, range and the resolved version.
pub fn dependents_of(fixture: &Fixture, name: &str, version: Option<&str>) -> Result<Vec<String>> {
    let query = about("promptlet", name, json!({"version": version}));
    let page = fixture.read(dependents::list, (), Fixture::input(query)?)?;
    let row = |dependent: Value| {
        let text = |field: &str| dependent[field].as_str().unwrap().to_string();
        ["artifactType", "name", "version", "range", "resolved"].map(text).join(" ")
    };
    Ok(page.items.into_iter().map(|dependent| row(json!(dependent))).collect())
}

/// Counts the rows of each table of artifacts.
pub fn rows(fixture: &Fixture) -> [usize; 6] {
    let count = |view: &View| -> Result<[usize; 6]> {
        Ok([
            view.count(ListSource::<artifact::Artifact>::TABLE, &(), usize::MAX)?,
            view.count(ListSource::<VersionRecord>::TABLE, &(), usize::MAX)?,
            view.count(ListSource::<VersionText>::TABLE, &(), usize::MAX)?,
            view.count(ListSource::<ImportReference>::TABLE, &(), usize::MAX)?,
            view.count(ListSource::<VariableReference>::TABLE, &(), usize::MAX)?,
            view.count(ListSource::<super::drafts::Draft>::TABLE, &(), usize::MAX)?,
        ])
    };
    fixture.store.read_now(fixture.org, count).unwrap()
}
