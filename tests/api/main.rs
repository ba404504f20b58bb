//! The API as clients see it: a real server, real sockets, requests and responses (docs/reference).

#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
#[allow(dead_code)] // A part of each is enough here.
#[path = "../tools/node.rs"]
mod node;
#[allow(dead_code)] // A part of it is enough here.
#[path = "../tools/optional.rs"]
mod optional;
#[cfg(feature = "postgres")]
#[path = "../postgres_server/mod.rs"]
mod postgres_server;
#[path = "../tools/python.rs"]
mod python;
mod receiver;
mod schema;
mod fixture;
mod fleets;
mod sites;

mod activity;
mod agent_index;
mod agents;
mod artifacts;
mod asking_again;
mod audit;
mod changed_by;
mod channels;
mod clones;
mod comparing;
mod comparing_access;
mod conditions;
mod conventions;
mod delegated;
mod deployment_endpoints;
mod deployment_log;
mod deployments;
mod drafts;
mod environments;
mod exchange;
mod explain;
mod governance;
mod https;
mod ids;
mod imports;
mod inputs;
mod invitations;
mod key_rotation;
mod knowledge_bases;
mod listed;
mod lists;
mod manifests;
mod llm_providers;
mod matrix;
mod mcp;
mod metrics;
mod nostr_sdk;
mod moving;
mod notifications;
mod oidc_provider;
mod order;
mod password_resets;
mod passing;
mod people;
mod protected_labels;
mod providers;
mod records;
mod registries;
mod removals;
mod repeats;
mod restricted;
mod restricted_agents;
mod routes;
mod scheduling;
mod scopes;
mod search;
mod second_factor;
mod service_accounts;
mod spans;
mod system;
mod tags;
mod teams;
mod tools;
mod trying;
mod upgrades;
mod viewers;
mod wake_table;
mod waking;
mod walking;
mod watching;
mod wire;
