//! The OpenAPI 3.1 document, generated from the routes.
//!
//! It depends only on what a route declares (its operation's types, its policy, its organization), so it
//! cannot contradict the server. For each route it lists the responses of its kind; 405, 408, 414,
//! 431 and 502 are explained once, in its introduction.

mod bodies;
mod call_schemas;
mod descriptions;
mod enumerations;
mod labels;
mod names;
mod operation;
mod portable;
mod schemas;
mod shared;
mod table;
mod webhooks;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::request::path_names;
use super::route::Route;
use super::webhook::Webhook;
use labels::group;
use schemas::Schemas;

pub use call_schemas::{CallSchemas, call_schemas};
pub use labels::{scopes, who};
pub use table::{LEGEND, routes_markdown, routes_table, scopes_markdown};

/// The introduction of the document: what holds for every route (reference: conventions).
const INTRODUCTION: &str = "\
Roadstead keeps a small team's AI agents: their prompts, versions, deployments, tools, teams and \
everything around them. Most requests are about one organization, named by `orgSlug`.

**Errors.** The body of an error has a `message` for people, a stable `code` for programs, the \
`requestId` and, on 400, every problem in `issues`. A resource of another organization and one \
that does not exist get the same 404. Any request may also be answered with 405 (see `Allow`), 408 \
(too slow), 414 (a target over 16 KiB), 431 (a head over 64 KiB or 100 fields) and 502 (an \
external system failed).

**Pagination.** `limit` (1 to 200) and `cursor` select the page; `nextCursor` is null exactly on \
the last page. Lists are newest first unless stated otherwise.

**Fields.** A response always has all its fields; one without a value is `null`. In a request \
`null` means the same as absent, except in a PATCH, where it clears a nullable field. Unknown \
fields and parameters are refused (400), unless the request has `Prefer: handling=lenient`.

**Idempotency.** A POST repeated with the same `Idempotency-Key` within 24 hours gets the first \
response again, with `Idempotency-Replayed: true`.

**Conditional requests.** GET of one resource sends an `ETag`; `If-None-Match` gives 304, and \
PATCH, PUT and DELETE evaluate `If-Match` (412).

**Access.** The `x-rule` of a route says who may call it: `any` every client, `m` a member and `a` \
an admin of the organization, by API key or session, `i` as `a` if they administer the installation, \
`sm` and `sa` the same by session only, `s` \
any session, `r` as `m`, and every client if the registry is public, `n` agents outside, which \
sign their requests with NIP-98. Its `x-required-scopes` are what an API key needs whose access is \
a list of scopes. `x-asks-again` says that it asks a person in a session again who they are, if they \
proved it more than 15 minutes ago: `always`, or for requests to do what it says.";

/// What the document is about.
#[derive(Clone, Copy, Default)]
pub struct Contents<'a> {
    pub routes: &'a [Route],
    /// What the server posts.
    pub webhooks: &'a [&'a Webhook],
    /// The groups of routes, each with a description.
    pub groups: &'a [(&'a str, &'a str)],
}

impl<'a> Contents<'a> {
    /// Routes without anything else.
    pub fn routes(routes: &'a [Route]) -> Self {
        Contents { routes, ..Contents::default() }
    }
}

/// Generates the OpenAPI 3.1 document for a server of this `version`.
pub fn document(contents: Contents, version: &str) -> Value {
    make(contents, version).0
}

/// Returns the problems of the document, one sentence each: two routes of one name, path parameters
/// without a type, two types of one name, names that some language takes for another, a route without
/// a summary, a body without an example. A test keeps this empty.
pub fn problems(contents: Contents) -> Vec<String> {
    let mut problems = make(contents, "").1;
    let routes = contents.routes;
    let mut names = BTreeSet::new();
    let mut ends = BTreeSet::new();
    for route in routes {
        let end = format!("{} {}", route.method.as_str(), route.path);
        if !names.insert(operation::id(route.name)) {
            problems.push(format!("{end}: another route is called {} too", route.name));
        }
        if path_names(route.path).count() != (route.operation.params)().len() {
            problems.push(format!(
                "{end}: its operation takes {} path parameters",
                (route.operation.params)().len()
            ));
        }
        if route.policy.public_read && route.method.has_body() {
            problems
                .push(format!("{end}: a route with public reads takes its arguments in the query"));
        }
        if route.about.is_empty() {
            problems.push(format!("{end}: does not say what it does"));
        }
        if group(route) == webhooks::TAG {
            problems.push(format!("{end}: has the tag of the webhooks"));
        }
        if !ends.insert(end.clone()) {
            problems.push(format!("{end}: is declared twice"));
        }
    }
    problems
}

fn make(contents: Contents, version: &str) -> (Value, Vec<String>) {
    let Contents { routes, webhooks: posted, groups } = contents;
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
    let mut webhooks = webhooks::webhooks(posted, &mut schemas);
    let mut components = shared::components(&mut schemas);
    if !posted.is_empty() {
        tags.push(webhooks::TAG);
        for (key, parameter) in webhooks::parameters().as_object().into_iter().flatten() {
            components["parameters"][key] = parameter.clone();
        }
    }
    let mut paths = Value::Object(paths);
    let places = &mut [&mut paths, &mut webhooks, &mut components];
    let (mut definitions, mut problems) = schemas.finish(places);
    enumerations::name_values(&mut definitions);
    problems.extend(enumerations::problems(&definitions));
    components["schemas"] = Value::Object(definitions);
    let tag = |name: &&str| {
        let about = groups.iter().find(|(group, _)| group == name);
        about
            .map_or(json!({"name": name}), |(_, about)| json!({"name": name, "description": about}))
    };
    let tags: Vec<Value> = tags.iter().map(tag).collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Roadstead",
            "version": version,
            "description": INTRODUCTION,
            "contact": {"name": "Roadstead"},
            "license": {"name": "Apache License 2.0", "identifier": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/api", "description": "This server."}],
        "tags": tags,
        "paths": paths,
    });
    if !posted.is_empty() {
        document["webhooks"] = webhooks;
    }
    document["components"] = components;
    (document, problems)
}

/// Converts a path of matchit to OpenAPI's form, which has no catch-all parameters.
fn path(path: &str) -> String {
    path.replace("{*", "{")
}
