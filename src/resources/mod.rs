//! The resources of the API: one file or folder each, registered here in order of dependency. A
//! resource may use those above it.

mod approvals;
mod environments;
mod fleet;
mod tags;
mod pauses;
mod mail_budget;
mod model_prices;
pub mod organizations;
mod registries;
mod llm_providers;
mod governance;
mod artifacts;
mod tools;
mod variable_usage;
mod prompt_providers;
mod agents;
mod fleets;
pub mod deployments;
mod listings;
mod domains;
mod teams;
mod agent_cards;
pub mod notifications;
pub mod audit_logs;
pub mod knowledge_bases;
mod search;
mod waiting;
mod system;

#[cfg(any(test, fuzzing))]
pub use llm_providers::fuzzing;

#[cfg(test)]
mod testing;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::api::openapi::{self, Contents};
use crate::api::{self, Metric, OldestRow, PublicDocument, Resource, Route, RouteRule, Webhook};
use crate::base::Result;
use crate::outbox::{Event, JobHandler, Sweep, Workflow};
use crate::store::check::Findings;
use crate::store::{ListSource, Order, Record as _, TableInfo, Tx, View};
use crate::{auth, outbox};

/// The entries of all resources, in order of dependency; entries of a folder's files are children
/// of its own.
pub const ALL: &[Resource] = &[
    approvals::RESOURCE,
    tags::RESOURCE,
    environments::RESOURCE,
    registries::RESOURCE,
    fleet::RESOURCE,
    pauses::RESOURCE,
    mail_budget::RESOURCE,
    organizations::RESOURCE,
    model_prices::RESOURCE,
    llm_providers::RESOURCE,
    governance::RESOURCE,
    artifacts::RESOURCE,
    tools::RESOURCE,
    variable_usage::RESOURCE,
    prompt_providers::RESOURCE,
    agents::RESOURCE,
    fleets::RESOURCE,
    deployments::RESOURCE,
    listings::RESOURCE,
    domains::RESOURCE,
    teams::RESOURCE,
    agent_cards::RESOURCE,
    notifications::RESOURCE,
    audit_logs::RESOURCE,
    knowledge_bases::RESOURCE,
    search::RESOURCE,
    waiting::RESOURCE,
    system::RESOURCE,
    EXPLAINED,
];

/// Explaining access takes the rules of all routes.
const EXPLAINED: Resource = Resource { routes: explained, ..Resource::EMPTY };

/// What the routes require, by the names of their actions.
static RULES: LazyLock<BTreeMap<&'static str, RouteRule>> = LazyLock::new(|| {
    let rule = |route: Route| {
        // What is about no organization asks nobody's role.
        let is_for_viewers = route.policy.role.is_none() || route.is_for_viewers();
        let Route { name, policy, required_scopes, .. } = route;
        (name, RouteRule { policy, required_scopes, is_for_viewers })
    };
    routes().into_iter().map(rule).collect()
});

fn explained() -> Vec<Route> {
    vec![organizations::explain_route(|action| RULES.get(action), artifacts::movable)]
}

/// Returns all entries: those of [`ALL`] and their descendants.
fn entries() -> impl Iterator<Item = &'static Resource> {
    ALL.iter().flat_map(Resource::flatten)
}

/// Returns the routes of all resources.
pub fn routes() -> Vec<Route> {
    entries().flat_map(|entry| (entry.routes)()).collect()
}

/// The groups of routes, by the first segment of their paths.
const GROUPS: &[(&str, &str)] = &[
    ("waiting", "How much waits for the caller."),
    (
        "environments",
        "Where agents run: their variables, secrets, credentials, approvals and access.",
    ),
    (
        "registries",
        "Registries of artifacts: prompts and promptlets, published version by version.",
    ),
    ("setup", "The first organization and its owner."),
    ("auth", "Signing in and out, passwords, invitations."),
    ("whoami", "The credential of a request."),
    ("organizations", "Organizations with their members, invitations and domains."),
    ("api-keys", "Credentials for programs."),
    ("access", "What a member or a key may do, and by which rule."),
    ("access-grants", "Who may use a restricted environment, registry or fleet."),
    ("llm-providers", "Connections to language models."),
    ("model-prices", "What models cost, by which the cost of runs follows from what they used."),
    ("governance", "Policies for what is published, and what they found."),
    ("prompts", "Drafts of prompts; compiling and rendering."),
    ("tools", "Tools that agents may call."),
    ("prompt-providers", "Prompts that other systems keep, and importing them."),
    ("agents", "Agents: a draft and its versions."),
    ("fleets", "Groups of agents, and who may use them."),
    ("agent-index", "Agents as other organizations find them: listings and agent cards."),
    ("deployments", "What was deployed where, and how much on which day."),
    ("exchange", "What agents outside of the organization call, signing their requests."),
    ("teams", "Teams of agents with their tasks, messages, wakes, memories and runs."),
    ("notifications", "Channels that report events, and the log of what was delivered."),
    ("audit-logs", "What was done and refused, by whom: a chain that shows changes."),
    ("knowledge-bases", "Documents, and searching in them."),
    ("search", "Finding by name, over all kinds."),
    ("system", "The state of the server, of the whole installation."),
    ("webhooks", "What the server posts to addresses of its users, signed; these are no routes."),
];

/// Generates the OpenAPI document of all routes, for a server of this version.
pub fn document(version: &str) -> serde_json::Value {
    let (routes, webhooks) = (routes(), webhooks());
    let contents = Contents { routes: &routes, webhooks: &webhooks, groups: GROUPS };
    openapi::document(contents, version)
}

/// Generates the document without what the server posts, for generators of clients that do not know
/// `webhooks`.
pub fn document_without_webhooks(version: &str) -> serde_json::Value {
    let routes = routes();
    openapi::document(Contents { groups: GROUPS, ..Contents::routes(&routes) }, version)
}

/// Returns the problems of the whole document.
pub fn document_problems() -> Vec<String> {
    let (routes, webhooks) = (routes(), webhooks());
    openapi::problems(Contents { routes: &routes, webhooks: &webhooks, groups: GROUPS })
}

fn webhooks() -> Vec<&'static Webhook> {
    entries().flat_map(|entry| entry.webhooks).collect()
}

/// Returns all tables: those of the resources and of the layers below.
pub fn tables() -> Vec<TableInfo> {
    let below = auth::TABLES
        .iter()
        .chain(outbox::TABLES)
        .chain(api::audit::TABLES)
        .chain(api::idempotency::TABLES)
        .chain(api::used_events::TABLES);
    below.chain(entries().flat_map(|entry| entry.tables)).copied().collect()
}

/// Verifies the consistency between the records of an organization, beyond each table's own check.
pub fn check(view: &View, findings: &mut Findings) -> Result<()> {
    entries().flat_map(|entry| entry.checks).try_for_each(|check| check(view, findings))?;
    api::audit::verify(view, findings)
}

/// Mends some of what [`check`] finds in the transaction's organization; returns what was wrong, or
/// `None` if nothing is left that can be mended.
pub fn mend(tx: &mut Tx) -> Result<Option<String>> {
    for mend in entries().flat_map(|entry| entry.mends) {
        if let Some(why) = mend(tx)? {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Returns the handlers of all jobs.
pub fn jobs() -> Vec<&'static JobHandler> {
    outbox::JOBS.iter().chain(entries().flat_map(|entry| entry.jobs)).collect()
}

/// Returns the sweeps of all resources and of the layers below.
pub fn sweeps() -> Vec<&'static Sweep> {
    let below = api::idempotency::SWEEPS
        .iter()
        .chain(api::used_events::SWEEPS)
        .chain(api::audit::SWEEPS)
        .chain([&outbox::COMPLETE_REMOVALS, &outbox::FORGET_ERASURES]);
    below.chain(entries().flat_map(|entry| entry.sweeps)).collect()
}

/// Returns the workflows of notification channels.
pub fn workflows() -> Vec<&'static Workflow> {
    entries().flat_map(|entry| entry.workflows).collect()
}

/// The oldest event of the log: the outbox is below the layer that metrics are registered in.
const OLDEST_EVENT: OldestRow = OldestRow {
    table: Event::TABLE,
    read: |view| {
        let oldest = view.first(ListSource::TABLE, &(), Order::Ascending)?;
        Ok(oldest.map(|event: Event| event.created_at))
    },
};

/// Returns the records that a retention removes, of all resources and of the layers below.
pub fn oldest() -> Vec<&'static OldestRow> {
    let below = [&api::audit::OLDEST, &api::idempotency::OLDEST, &OLDEST_EVENT].into_iter();
    below.chain(entries().flat_map(|entry| entry.oldest)).collect()
}

/// Returns the event types that resources publish.
#[cfg(test)]
fn events() -> Vec<crate::outbox::EventType> {
    entries().flat_map(|entry| entry.events).copied().collect()
}

/// Returns what the resources serve outside of `/api`.
pub fn documents() -> Vec<&'static PublicDocument> {
    entries().flat_map(|entry| entry.documents).collect()
}

/// Returns the gauges of all resources.
pub fn metrics() -> Vec<&'static Metric> {
    entries().flat_map(|entry| entry.metrics).collect()
}
