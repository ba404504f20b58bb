//! Kinds whose fields are the same in files and in the API.

use serde_json::json;

use super::environment::ENVIRONMENT;
use super::policy::POLICY;
use crate::base::{Name, Slug};
use crate::cli::client::files::kind::Absent::{Fixed, Kept, Null};
use crate::cli::client::files::kind::{Access, Kind, Parent, parent_and_own};

/// A registry: a folder with its own file, and those of its prompts.
pub static REGISTRY: Kind = Kind {
    order: 0,
    name: "registry",
    folder: "registries",
    key: "slug",
    check_name: |name| Slug::parse(name).map(drop),
    fields: &[("name", Kept), ("description", Null), ("visibility", Kept), ("access", Kept)],
    path: "/registries",
    by_name: true,
    ..Kind::PLAIN
};

/// That a policy examines what is published in a registry.
pub static ASSIGNMENT: Kind = Kind {
    order: 2,
    name: "assignment",
    parent: Some(Parent { kind: &POLICY, field: "registries" }),
    path: "/governance/policies/{}/assignments",
    access: Access::Bare,
    named: Some(|known, name| {
        Ok(json!({"registryRef": known.registry_ref(parent_and_own(name).1)}))
    }),
    ..Kind::PLAIN
};

/// A tool.
pub static TOOL: Kind = Kind {
    order: 3,
    name: "tool",
    folder: "tools",
    check_new_name: |name| Name::parse(name).map(drop),
    fields: &[
        ("description", Null),
        ("prompt", Null),
        ("type", Kept),
        ("providerConfig", Kept),
        ("version", Kept),
        ("tags", Kept),
    ],
    path: "/tools",
    ..Kind::PLAIN
};

/// A variable of an environment.
pub static VARIABLE: Kind = Kind {
    order: 5,
    name: "variable",
    fields: &[("value", Kept)],
    parent: Some(Parent { kind: &ENVIRONMENT, field: "variables" }),
    path: "/environments/{}/variables",
    by_name: true,
    access: Access::Value,
    ..Kind::PLAIN
};

/// A fleet.
pub static FLEET: Kind = Kind {
    order: 6,
    name: "fleet",
    folder: "fleets",
    check_new_name: |name| Name::parse(name).map(drop),
    fields: &[("description", Null), ("access", Kept)],
    path: "/fleets",
    ..Kind::PLAIN
};

/// A channel of notifications.
pub static CHANNEL: Kind = Kind {
    order: 8,
    name: "channel",
    folder: "channels",
    check_new_name: |name| Name::parse(name).map(drop),
    fields: &[("workflow", Fixed), ("config", Kept), ("enabled", Kept)],
    path: "/notifications/channels",
    ..Kind::PLAIN
};

/// That a channel gets events of a type.
pub static SUBSCRIPTION: Kind = Kind {
    order: 9,
    name: "subscription",
    parent: Some(Parent { kind: &CHANNEL, field: "events" }),
    path: "/notifications/subscriptions",
    access: Access::Bare,
    named: Some(|known, name| {
        let (channel, event) = parent_and_own(name);
        Ok(json!({"channelId": known.id(&CHANNEL, channel)?, "eventType": event}))
    }),
    ..Kind::PLAIN
};

/// A listing of the agent index.
pub static LISTING: Kind = Kind {
    order: 10,
    name: "listing",
    folder: "listings",
    key: "handle",
    fields: &[
        ("stableKey", Fixed),
        ("pubkey", Kept),
        ("displayName", Kept),
        ("description", Null),
        ("skills", Kept),
        ("visibility", Kept),
        ("contactPolicy", Kept),
        ("cardState", Kept),
    ],
    path: "/agent-index/listings",
    ..Kind::PLAIN
};
