//! The kinds of resources that plain files are about: each declares what it is in files, and in the API.

mod agent;
mod environment;
mod plain;
mod policy;

use super::kind::{Kind, Parent};

pub use agent::AGENT;
pub use environment::ENVIRONMENT;
pub use plain::{ASSIGNMENT, CHANNEL, FLEET, LISTING, REGISTRY, SUBSCRIPTION, TOOL, VARIABLE};
pub use policy::POLICY;

/// All kinds, in the order in which they are created.
pub static KINDS: [&Kind; 11] = [
    &REGISTRY,
    &POLICY,
    &ASSIGNMENT,
    &TOOL,
    &ENVIRONMENT,
    &VARIABLE,
    &FLEET,
    &AGENT,
    &CHANNEL,
    &SUBSCRIPTION,
    &LISTING,
];

/// The last kind before versions and labels, which policies examine and agents refer to.
pub static LAST_BEFORE_TEXTS: &Kind = &ASSIGNMENT;

/// The kinds that are in the file of one of this kind.
pub fn children_of(kind: &'static Kind) -> impl Iterator<Item = (&'static Kind, &'static Parent)> {
    let parts = KINDS.iter().filter_map(|part| Some((*part, part.parent.as_ref()?)));
    parts.filter(move |(_, parent)| parent.kind == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::client::files::kind::{Access, Fields, Known, ResourceName};

    #[test]
    fn kinds_are_in_their_order_and_refer_to_none_that_is_later() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert_eq!(usize::from(kind.order), at, "{kind:?}");
            assert_eq!(kind.folder.is_empty(), kind.parent.is_some(), "{kind:?}");
            assert!(kind.parent.as_ref().is_none_or(|of| of.kind < *kind), "{kind:?}");
        }
        let (child, parent) = children_of(&ENVIRONMENT).next().unwrap();
        assert_eq!((child, parent.field), (&VARIABLE, "variables"));
        assert_eq!(children_of(&TOOL).count(), 0);
    }

    /// Kind, name, id, the list that it is created in, its own path, and what names it when it is created.
    type Case = (&'static Kind, &'static str, &'static str, &'static str, &'static str, Value);

    fn cases() -> [Case; 11] {
        let (policies, channels) = ("/governance/policies", "/notifications/channels");
        let assignments = "/governance/policies/p1/assignments";
        let (own, subscriptions) = ("/environments/e1/variables", "/notifications/subscriptions");
        let event = json!({"channelId": "c1", "eventType": "task.done"});
        let index = "/agent-index/listings";
        [
            (&REGISTRY, "main", "r1", "/registries", "/registries/main", json!({"slug": "main"})),
            (&POLICY, "a/b", "p1", policies, "/governance/policies/p1", json!({"name": "a/b"})),
            (
                &ASSIGNMENT,
                "a/b/main",
                "a1",
                assignments,
                "/governance/policies/p1/assignments/a1",
                json!({"registryRef": "acme/main"}),
            ),
            (&TOOL, "T", "t1", "/tools", "/tools/t1", json!({"name": "T"})),
            (&ENVIRONMENT, "x", "e1", "/environments", "/environments/e1", json!({"slug": "x"})),
            (&VARIABLE, "x/A", "", own, "/environments/e1/variables/A", Value::Null),
            (&FLEET, "F", "f1", "/fleets", "/fleets/f1", json!({"name": "F"})),
            (&AGENT, "ada", "g1", "/agents", "/agents/ada", json!({"stableKey": "ada"})),
            (&CHANNEL, "C", "c1", channels, "/notifications/channels/c1", json!({"name": "C"})),
            (
                &SUBSCRIPTION,
                "C/task.done",
                "s1",
                subscriptions,
                "/notifications/subscriptions/s1",
                event,
            ),
            (&LISTING, "h", "l1", index, "/agent-index/listings/l1", json!({"handle": "h"})),
        ]
    }

    fn known() -> Known {
        let id = |case: &Case| ((case.0, case.1.to_string()), case.2.to_string());
        Known {
            org: "acme".into(),
            ids: cases().iter().map(id).collect(),
            members: [("ada@acme.test".to_string(), "u1".to_string())].into(),
            providers: [("P".to_string(), "l1".to_string())].into(),
            has_fleets: true,
        }
    }

    #[test]
    fn each_kind_has_its_routes_and_what_names_it() {
        let known = known();
        for (kind, name, _, list, path, named) in cases() {
            let resource: ResourceName = (kind, name.into());
            assert_eq!(known.list_path(&resource).ok().as_deref(), Some(list), "{kind:?}");
            assert_eq!(known.path(&resource).ok().as_deref(), Some(path), "{kind:?}");
            // A value is set at its own path.
            if kind.access != Access::Value {
                assert_eq!(known.created(&resource, &Fields::new()).ok(), Some(named), "{kind:?}");
            }
        }
        assert!(known.path(&(&TOOL, "none".into())).is_err());
    }

    #[test]
    fn names_in_files_are_ids_in_the_api() {
        let known = known();
        for (kind, file, api) in [
            (
                &POLICY,
                json!({"rules": [{"type": "judge", "llmProvider": "P"}, {"type": "maxLength"}]}),
                json!({"rules": [{"type": "judge", "llmProviderId": "l1"}, {"type": "maxLength"}]}),
            ),
            (
                &ENVIRONMENT,
                json!({"approvals": {"approvers": ["ada@acme.test"], "minApprovals": 1}}),
                json!({"approvals": {"approverIds": ["u1"], "minApprovals": 1}}),
            ),
            (
                &AGENT,
                json!({"name": "Ada", "fleet": "F", "registry": "main", "model": "m",
                    "tools": [{"tool": "T", "version": 2}]}),
                json!({"name": "Ada", "fleetId": "f1", "draft": {"registryRef": "acme/main",
                    "model": "m", "toolRefs": [{"toolId": "t1", "version": 2}]}}),
            ),
        ] {
            let fields = file.as_object().unwrap();
            assert_eq!((kind.missing)(&known, fields), Vec::<String>::new(), "{kind:?}");
            assert_eq!((kind.apply)(&known, fields).ok(), Some(api.clone()), "{kind:?}");
            let mut answered = api;
            (kind.remote)(&known, &mut answered);
            for (field, value) in fields {
                assert_eq!(answered[field], *value, "{kind:?}");
            }
        }
        let unknown = json!({"rules": [{"llmProvider": "Q"}], "fleet": "G", "tools": [{"tool": "U"}],
            "approvals": {"approvers": ["grace@acme.test"]}});
        let missing = |kind: &Kind| (kind.missing)(&known, unknown.as_object().unwrap());
        assert!(missing(&POLICY)[0].starts_with("there is no LLM provider \"Q\""));
        let expected = ["there is no fleet \"G\"", "there is no tool \"U\""];
        assert_eq!(missing(&AGENT), expected);
        let expected = ["grace@acme.test is no member of the organization"];
        assert_eq!(missing(&ENVIRONMENT), expected);
    }
}
