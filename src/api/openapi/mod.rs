//! The OpenAPI 3.1 document, made by walking the routes: nothing in it is written twice.
//!
//! What a route declares (its operation's types, its rule, its scope) is all that is looked at, so
//! the document cannot say anything else than the server does. It lists for each route the answers
//! that its own kind can give; 405, 408, 414, 431 and 502 are explained once, in its introduction.

mod labels;
mod operation;
mod schemas;
mod shared;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::request::path_names;
use super::route::Route;
use labels::group;
use schemas::Schemas;

pub use labels::who;
pub use table::{LEGEND, routes_markdown, routes_table};

/// The introduction that readers and generators see: what holds for every route
/// (reference: conventions).
const INTRODUCTION: &str = "\
Roadstead keeps a small team's AI agents: their prompts, versions, deployments, tools, teams and \
everything around them. Every request is about one organization, named by `orgSlug`.

**Errors.** A failure is answered with a `message` that a person can act on, a stable `code`, the \
`requestId`, and, on 400, every problem found in `issues`. What is foreign and what never existed \
look the same: 404. Any request may also be answered 405 (with `Allow`), 408 (too slow), 414 (a \
target over 16 KiB), 431 (a head over 64 KiB or 100 fields) and 502 (a system outside failed).

**Lists.** `limit` (1 to 200) and `cursor` choose the part; `nextCursor` is null exactly when \
nothing follows. Newest first unless said otherwise.

**Fields.** What is absent in an answer is `null`, never left out. In a request `null` means the \
same as absent, save in a PATCH of a nullable field, which it clears. Unknown fields are ignored.

**Idempotency.** A POST sent again with the same `Idempotency-Key` within 24 hours is answered as \
it was the first time, with `Idempotency-Replayed: true`.

**Conditional requests.** GET of one resource sends an `ETag`; `If-None-Match` gives 304, and \
PATCH and DELETE honour `If-Match` (412).

**Principal may call** stands at each route as `x-rule`: `any` anybody, `m` a member and `a` an admin of \
the organization, by key or session, `sm` and `sa` the same by session alone, `s` any session, `r` \
as `m`, and anybody where the registry is public.";

/// The OpenAPI 3.1 document of `routes`, for a server of this `version`.
pub fn document(routes: &[Route], version: &str) -> Value {
    make(routes, version).0
}

/// What is wrong with the document of `routes`, a sentence each: two routes of one name, path
/// parameters without a type, two types of one name, a route that does not say what it does. A
/// test keeps this empty.
pub fn problems(routes: &[Route]) -> Vec<String> {
    let mut problems = make(routes, "").1;
    let mut names = BTreeSet::new();
    let mut ends = BTreeSet::new();
    for route in routes {
        let end = format!("{} {}", route.method.as_str(), route.path);
        if !names.insert(operation::id(route.name)) {
            problems.push(format!("{end}: another route is called {} too", route.name));
        }
        if path_names(route.path).count() != route.operation.params.len() {
            problems.push(format!(
                "{end}: its operation takes {} path args",
                route.operation.params.len()
            ));
        }
        if route.policy.public_read && route.method.has_body() {
            problems.push(format!("{end}: what is public is read by a query"));
        }
        if route.about.is_empty() {
            problems.push(format!("{end}: does not say what it does"));
        }
        if !ends.insert(end.clone()) {
            problems.push(format!("{end}: is declared twice"));
        }
    }
    problems
}

fn make(routes: &[Route], version: &str) -> (Value, Vec<String>) {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    let mut tags: Vec<&str> = Vec::new();
    for route in routes {
        let item = paths.entry(path(route.path)).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] =
            operation::operation(route, &mut schemas);
        if !tags.contains(&group(route)) {
            tags.push(group(route));
        }
    }
    let mut components = shared::components(&mut schemas);
    let mut paths = Value::Object(paths);
    let (definitions, problems) = schemas.finish(&mut [&mut paths, &mut components]);
    components["schemas"] = Value::Object(definitions);
    let tags: Vec<Value> = tags.iter().map(|tag| json!({"name": tag})).collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Roadstead", "version": version, "description": INTRODUCTION},
        "servers": [{"url": "/api"}],
        "tags": tags,
        "paths": paths,
        "components": components,
    });
    (document, problems)
}

/// A path of matchit's in OpenAPI's form, which has no mark for a rest.
fn path(path: &str) -> String {
    path.replace("{*", "{")
}
