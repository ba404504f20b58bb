//! Who may do what to what: every operation as everybody who stands in some relation to what it names.
//! Nobody's expectation is read from the route: the table is written by hand from the reference
//! (identity-and-rights; teams-and-wakes, "Restricted agents"), and what takes which grant follows from
//! what a request names.

use std::collections::BTreeMap;

use roadstead::api::{Method, Route};
use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Caller, Reply};
use crate::fixture::{Fixture, key_of};
use crate::restricted::Vault;
use crate::routes::{all_routes, ask, path_with};

// ── What the reference says ──────────────────────────────────────────────────

/// Whom an operation is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// Anybody, without a credential.
    Anybody,
    /// Outside agents, which sign their requests.
    Outside,
    /// Whoever it is about, in a session or with a key; it is about no organization.
    Oneself,
    Member,
    Admin,
}
use For::*;

/// Whether API keys are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Session,
    Both,
}
use By::*;

/// The operations by resource.
const OPERATIONS: &[(For, By, &str, &[&str])] = &[
    (Anybody, Both, "organization", &["set_up"]),
    (Anybody, Both, "setup", &["get"]),
    (Anybody, Both, "invitation", &["accept", "preview"]),
    (Anybody, Both, "password_reset", &["ask", "use"]),
    (Anybody, Both, "mail_recipient", &["confirm"]),
    (Anybody, Both, "session", &["sign_in", "sign_in_code"]),
    (Anybody, Both, "device_sign_in", &["begin", "finish"]),
    (Anybody, Both, "sign_in_provider", &["list"]),
    (Anybody, Both, "provider_session", &["begin", "sign_in", "end", "sign_out"]),
    (Outside, Both, "exchange_request", &["create", "get"]),
    (Outside, Both, "exchange_message", &["create", "list"]),
    (Oneself, Session, "session", &["get", "list", "confirm", "end", "end_others", "sign_out"]),
    (Oneself, Session, "device_sign_in", &["preview", "approve", "deny"]),
    (Oneself, Session, "sign_in_link", &["list", "create", "delete"]),
    (Oneself, Session, "user", &["get", "update", "change_password"]),
    (Oneself, Session, "second_factor", &["get", "begin", "confirm", "end"]),
    (Oneself, Session, "organization", &["list", "create"]),
    (Oneself, Both, "credential", &["get"]),
    (Oneself, Both, "action_workflow", &["list"]),
    // The organization, its people and their rights.
    (Admin, Session, "organization", &["update"]),
    (Admin, Session, "sign_in_settings", &["get", "set"]),
    (Admin, Session, "invitation", &["create", "list", "delete"]),
    (Member, Both, "member", &["list", "get"]),
    (Admin, Session, "member", &["update", "delete"]),
    (Admin, Session, "password_reset", &["create"]),
    (Admin, Session, "second_factor", &["reset"]),
    (Admin, Session, "service_account", &["create", "list", "get", "update", "delete"]),
    (Member, Session, "api_key", &["create", "rotate", "list", "delete"]),
    (Admin, Session, "api_key", &["take_over"]),
    (Member, Both, "access_grant", &["list"]),
    (Admin, Both, "access_grant", &["create", "create_many", "delete"]),
    (Admin, Both, "access", &["explain"]),
    (Admin, Session, "audit_entry", &["list", "get"]),
    (Admin, Session, "audit_checkpoint", &["get"]),
    (Admin, Both, "system", &["get"]),
    (Member, Session, "search", &["list"]),
    (Member, Session, "waiting", &["count"]),
    // Registries.
    (Member, Both, "registry", &["list", "get"]),
    (Admin, Session, "registry", &["create", "update", "delete"]),
    (Member, Both, "artifact", &["list", "update"]),
    (
        Member,
        Both,
        "artifact_version",
        &["list", "content", "diff", "dependents", "publish", "clone", "delete"],
    ),
    (Member, Both, "artifact_label", &["move", "delete", "history"]),
    (Member, Both, "protected_label", &["list", "get"]),
    (Admin, Session, "protected_label", &["set", "delete"]),
    (Member, Both, "label_change", &["list", "get", "diff", "approve", "deny", "cancel"]),
    (Member, Both, "label_change_approval", &["list"]),
    (Member, Both, "draft", &["list", "get", "save", "publish", "delete"]),
    (Member, Both, "prompt", &["compile", "render", "preview", "try", "compare"]),
    (Member, Both, "prompt_input", &["list_all", "list", "get", "create", "update", "delete"]),
    // Governance.
    (Member, Both, "policy", &["list", "get"]),
    (Admin, Both, "policy", &["create", "update", "delete"]),
    (Member, Both, "policy_assignment", &["list"]),
    (Admin, Both, "policy_assignment", &["create", "delete"]),
    (Member, Both, "flag", &["list"]),
    (Admin, Both, "flag", &["clear"]),
    (Member, Both, "governance", &["check"]),
    // Agents, tools, fleets.
    (
        Member,
        Both,
        "agent",
        &["list", "get", "create", "update", "delete", "deployed", "heartbeat", "pause", "resume"],
    ),
    (Member, Both, "agent_version", &["list", "get", "diff", "create", "restore"]),
    (Member, Both, "agent_place", &["list"]),
    (Member, Both, "tool", &["list", "get", "create", "update", "delete"]),
    (Member, Both, "tool_type", &["list"]),
    (Member, Both, "tool_version", &["list"]),
    (Member, Session, "fleet", &["list", "get"]),
    (Admin, Session, "fleet", &["create", "update", "delete"]),
    // Environments.
    (Member, Both, "environment", &["list", "get"]),
    (Admin, Both, "environment", &["create", "update", "delete"]),
    (Member, Both, "environment_variable", &["list", "get", "usage"]),
    (Admin, Both, "environment_variable", &["set", "delete"]),
    (Member, Both, "environment_secret", &["list"]),
    (Admin, Both, "environment_secret", &["set", "delete"]),
    (Member, Both, "provider_credential", &["list"]),
    (Admin, Both, "provider_credential", &["set", "delete"]),
    // Deployments.
    (
        Member,
        Both,
        "deployment",
        &[
            "list",
            "get",
            "create",
            "create_tools",
            "preview",
            "approve",
            "deny",
            "cancel",
            "roll_back",
        ],
    ),
    (Member, Both, "deployment_approval", &["list"]),
    (Member, Both, "deployment_change", &["list"]),
    (Member, Both, "agent_deployment", &["list", "redeploy"]),
    (Member, Session, "deployment_record", &["list", "get"]),
    (Member, Session, "live_deployment", &["list"]),
    (Member, Session, "heatmap", &["get"]),
    // Providers and knowledge bases.
    (Member, Both, "llm_provider", &["list", "get"]),
    (Admin, Both, "llm_provider", &["create", "update", "delete", "test"]),
    (Member, Both, "prompt_provider", &["list", "get", "list_prompts", "import"]),
    (Admin, Both, "prompt_provider", &["create", "update", "delete"]),
    (Member, Session, "knowledge_base", &["list", "get"]),
    (Admin, Session, "knowledge_base", &["create", "update", "delete"]),
    (
        Member,
        Session,
        "document",
        &["list", "get", "create", "upload", "replace", "replace_file", "delete", "search"],
    ),
    // The agent index.
    (Member, Both, "listing", &["list", "get"]),
    (Admin, Both, "listing", &["create", "update", "delete"]),
    (Member, Both, "agent_card", &["get"]),
    (Member, Both, "domain", &["list", "get"]),
    (Admin, Both, "domain", &["create", "delete", "verify"]),
    // Notifications.
    (Member, Both, "notification", &["list"]),
    (Admin, Both, "notification", &["redeliver"]),
    (Member, Both, "channel", &["list", "get"]),
    (Admin, Both, "channel", &["create", "update", "delete", "test", "redeliver", "rotate_secret"]),
    (Member, Both, "subscription", &["list"]),
    (Admin, Both, "subscription", &["create", "update", "delete"]),
    // Teams.
    (Member, Both, "team", &["list", "get", "create", "update", "pause", "resume"]),
    (Member, Both, "all_teams", &["get"]),
    (Admin, Both, "all_teams", &["pause", "resume"]),
    (Admin, Both, "team", &["delete"]),
    (
        Member,
        Both,
        "team_agent",
        &["list", "get", "create", "update", "delete", "pause", "resume", "heartbeat"],
    ),
    (Member, Both, "task", &["list", "get", "create", "update", "claim"]),
    (Member, Both, "overdue_task", &["list"]),
    (Member, Both, "assigned_task", &["list"]),
    (Member, Both, "message", &["list", "get", "create", "update", "consume"]),
    (Member, Both, "inbox_message", &["create"]),
    (Member, Both, "wake", &["take", "acknowledge"]),
    (Member, Both, "failed_wake", &["list_all", "list", "retry"]),
    (Member, Both, "memory", &["list", "create", "delete"]),
    (Member, Both, "run", &["list", "create"]),
    (Member, Both, "schedule", &["list", "get", "create", "update", "delete", "pause", "resume"]),
    (Member, Both, "schedule_run", &["list"]),
    (Member, Both, "team_approval", &["list", "create"]),
    (Member, Session, "team_approval", &["decide"]),
    (Member, Both, "timeline_entry", &["list", "create"]),
    (Member, Both, "activity_entry", &["list"]),
    (Member, Both, "low_budget", &["list"]),
    (Member, Both, "team_usage", &["list"]),
    (Member, Both, "model_price", &["list", "get"]),
    (Admin, Both, "model_price", &["set", "delete"]),
    (Member, Both, "domain_rule", &["list", "create", "delete"]),
    (Member, Both, "peer", &["list", "get", "accept", "refuse", "block", "delete"]),
    (Member, Both, "peer_message", &["create"]),
    (Member, Both, "waiting_message", &["list"]),
    (Member, Both, "waiting_approval", &["list"]),
    (Member, Both, "waiting_peer", &["list"]),
];

/// The grant that naming something takes: for the fleet, the registry or the environment of the vault.
const TAKES: &[(&str, Granted)] = &[
    ("fleetId", Granted::Fleet),
    ("stableKey", Granted::Fleet),
    ("agentIds", Granted::Fleet),
    ("agentId", Granted::Fleet),
    ("fromAgentId", Granted::Fleet),
    ("toAgentId", Granted::Fleet),
    ("assigneeAgentId", Granted::Fleet),
    ("memoryId", Granted::Fleet),
    ("messageId", Granted::Fleet),
    ("approvalId", Granted::Fleet),
    ("scheduleId", Granted::Fleet),
    ("deploymentId", Granted::Fleet),
    ("registrySlug", Granted::Registry),
    ("registryRef", Granted::Registry),
    ("registryId", Granted::Registry),
    ("targetRegistryRef", Granted::Registry),
    ("draftId", Granted::Registry),
    ("flagId", Granted::Registry),
    ("assignmentId", Granted::Registry),
    ("changeId", Granted::Registry),
    ("environmentId", Granted::Environment),
    ("environment", Granted::Environment),
    ("updateEnvironmentVersions", Granted::Environment),
    ("jobId", Granted::Environment),
];

/// What a grant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Granted {
    Fleet,
    Registry,
    Environment,
}
const ALL: [Granted; 3] = [Granted::Fleet, Granted::Registry, Granted::Environment];

// ── Who asks ─────────────────────────────────────────────────────────────────

/// How somebody stands to the organization and to what is restricted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// No credential.
    Nobody,
    /// A member of another organization.
    Stranger,
    /// Was an admin with grants, and was removed.
    Left,
    /// A member without a grant, whatever they were: an approver of the environment, the maker of what
    /// is asked for, a demoted admin.
    Ungranted,
    /// A member with these grants.
    With(&'static [Granted]),
    /// A viewer with all grants.
    Viewer,
    Administrator,
}

struct Asking {
    who: String,
    relation: Relation,
    is_key: bool,
    caller: Caller,
}

/// What somebody is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Refused(u16, &'static str),
    /// Refused, or shown nothing.
    Nothing,
    /// Neither role nor grant is missing. It may be there no more: `listed` asks each caller for something
    /// new, and expects 200.
    LetIn,
}

/// The operations of members that only read, by what they are called in every resource.
const READS: [&str; 17] = [
    "count",
    "list",
    "list_all",
    "list_prompts",
    "get",
    "content",
    "diff",
    "dependents",
    "history",
    "usage",
    "deployed",
    "compile",
    "render",
    "preview",
    "check",
    "search",
    // A key of one's own.
    "rotate",
];

/// Whether a viewer may do what a member may.
fn is_for_viewers(name: &str) -> bool {
    let of_resource = name.split('.').next_back().unwrap();
    READS.contains(&of_resource) || matches!(name, "api_key.delete")
}

fn answer((name, whom, by): (&str, For, By), takes: &[Granted], asking: &Asking) -> Option<Answer> {
    let (relation, is_key) = (asking.relation, asking.is_key);
    Some(match (whom, relation) {
        (Anybody, _) => return None,
        (Outside, _) | (_, Relation::Nobody) => Answer::Refused(401, "unauthenticated"),
        _ if is_key && by == Session => Answer::Refused(401, "session_required"),
        (_, Relation::Left) if is_key => Answer::Refused(401, "unauthenticated"),
        // What one does to oneself ends the walk.
        (Oneself, _) => return None,
        (_, Relation::Stranger | Relation::Left) => Answer::Refused(404, "organization_not_found"),
        (_, Relation::Administrator) => Answer::LetIn,
        (Admin, _) => Answer::Refused(403, "admin_required"),
        (_, Relation::Viewer) if !is_for_viewers(name) => Answer::Refused(403, "member_required"),
        (_, Relation::Ungranted) if !takes.is_empty() => Answer::Nothing,
        (_, Relation::With(grants)) if takes.iter().any(|one| !grants.contains(one)) => {
            Answer::Nothing
        }
        _ => Answer::LetIn,
    })
}

/// Whether a reply is what is expected.
fn is_answered(expected: Answer, reply: &Reply) -> bool {
    let code = reply.json()["code"].as_str().unwrap_or_default().to_string();
    match expected {
        Answer::Refused(status, word) => (reply.status, &*code) == (status, word),
        Answer::Nothing => {
            let is_empty = reply.status == 200 && reply.json()["items"] == json!([]);
            (is_empty || matches!(reply.status, 403 | 404)) && code != "organization_not_found"
        }
        Answer::LetIn => {
            let missing = ["grant_required", "admin_required", "organization_not_found"];
            reply.status < 500 && ![400, 401].contains(&reply.status) && !missing.contains(&&*code)
        }
    }
}

/// Everybody, in a session and with a key.
fn everybody(acme: &Fixture, vault: &mut Vault) -> Vec<Asking> {
    let mut all = Vec::new();
    let mut add = |who: &str, relation, session: Caller, key: Caller| {
        for (is_key, caller) in [(false, session), (true, key)] {
            let who = format!("{who} {}", if is_key { "with a key" } else { "in a session" });
            all.push(Asking { who, relation, is_key, caller });
        }
    };
    add("nobody", Relation::Nobody, acme.anonymous.clone(), acme.anonymous.clone());
    let other = Fixture::new();
    let (theirs, their_key) = (other.owner.about(&acme.slug), other.key.about(&acme.slug));
    add("a stranger", Relation::Stranger, theirs, their_key);
    add("an admin", Relation::Administrator, acme.admin.clone(), key_of(&acme.admin));
    add("a member", Relation::Ungranted, acme.member.clone(), key_of(&acme.member));
    let resources = vault.ids.clone();
    let grant = |user: &str, kind: Granted| {
        let (kind, name) = match kind {
            Granted::Fleet => ("fleet", "fleetId"),
            Granted::Registry => ("registry", "registrySlug"),
            Granted::Environment => ("environment", "environmentId"),
        };
        let grant = json!({"userId": user, "resourceType": kind, "resourceId": resources[name]});
        acme.owner.post("/access-grants", grant).id()
    };
    const PARTS: [&[Granted]; 4] = [
        &ALL,
        &[Granted::Registry, Granted::Environment],
        &[Granted::Fleet, Granted::Environment],
        &[Granted::Fleet, Granted::Registry],
    ];
    for (n, grants) in PARTS.into_iter().enumerate() {
        let (session, id) = acme.person(&format!("with-{n}"), Role::Member);
        grants.iter().for_each(|kind| drop(grant(&id, *kind)));
        let key = key_of(&session);
        add(&format!("with {grants:?}"), Relation::With(grants), session, key);
    }

    let member = |id: &str| format!("/organizations/members/{id}");
    let (left, left_id) = acme.person("left", Role::Admin);
    let (demoted, demoted_id) = acme.person("demoted", Role::Admin);
    let (maker, maker_id) = acme.person("maker", Role::Member);
    let (approver, approver_id) = acme.person("approver", Role::Member);
    let (viewer, viewer_id) = acme.person("viewer", Role::Admin);
    let keys = [&left, &demoted, &maker, &approver, &viewer].map(key_of);
    for id in [&left_id, &viewer_id] {
        ALL.into_iter().for_each(|kind| drop(grant(id, kind)));
    }
    let made = ALL.map(|kind| grant(&maker_id, kind));
    vault.made_by(&maker);
    made.iter().for_each(|grant| drop(acme.owner.delete(&format!("/access-grants/{grant}")).ok()));
    acme.owner.delete(&member(&left_id)).ok();
    acme.owner.patch(&member(&demoted_id), json!({"role": "member"})).ok();
    acme.owner.patch(&member(&viewer_id), json!({"role": "viewer"})).ok();
    let environment = format!("/environments/{}", vault.ids["environmentId"]);
    let approvals = json!({"approvals": {"approverIds": [approver_id, viewer_id]}});
    acme.owner.patch(&environment, approvals).ok();
    let [left_key, demoted_key, maker_key, approver_key, viewer_key] = keys;
    add("who has left", Relation::Left, left, left_key);
    add("a demoted admin", Relation::Ungranted, demoted, demoted_key);
    add("the maker, whose grants ended", Relation::Ungranted, maker, maker_key);
    add("the approver, without a grant", Relation::Ungranted, approver, approver_key);
    add("a viewer with all grants", Relation::Viewer, viewer, viewer_key);
    all
}

// ── The walk ─────────────────────────────────────────────────────────────────

/// Whom the operations are for, by name.
fn table() -> BTreeMap<String, (For, By)> {
    let mut table = BTreeMap::new();
    for (whom, by, resource, names) in OPERATIONS {
        for name in *names {
            let known = table.insert(format!("{resource}.{name}"), (*whom, *by));
            assert!(known.is_none(), "{resource}.{name} is there twice");
        }
    }
    table
}

/// What a request to a route takes.
fn takes(vault: &Vault, route: &Route, fields: &Value) -> Vec<Granted> {
    // Every member sees that an agent is in a team, and when it came.
    if matches!(route.name, "team_agent.get" | "activity_entry.list") {
        return Vec::new();
    }
    // It takes the tool away from the environment that uses it.
    if route.name == "tool.delete" {
        return vec![Granted::Environment];
    }
    let named = vault.named_by(route, fields);
    TAKES.iter().filter(|(name, _)| named.contains(name)).map(|(_, grant)| *grant).collect()
}

#[test]
fn everybody_is_answered_as_the_reference_says() {
    let acme = Fixture::new();
    let mut vault = Vault::whole(&acme);
    let (table, routes) = (table(), all_routes());
    let names: Vec<_> = routes.iter().map(|route| route.name.to_string()).collect();
    let unknown: Vec<_> = names.iter().filter(|name| !table.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "say whom these are for: {unknown:?}");
    let gone: Vec<_> = table.keys().filter(|name| !names.contains(*name)).collect();
    assert!(gone.is_empty(), "there are no such operations: {gone:?}");

    let everybody = everybody(&acme, &mut vault);
    let state = vault.state(&acme);
    let walk = |wanted: &dyn Fn(&Route, Answer) -> bool| {
        let (mut cells, mut wrong) = (0, Vec::new());
        for route in &routes {
            let (whom, by) = table[route.name];
            let fields = vault.fields(route);
            let takes = takes(&vault, route, &fields);
            for asking in &everybody {
                let operation = (route.name, whom, by);
                let Some(expected) = answer(operation, &takes, asking) else { continue };
                if !wanted(route, expected) {
                    continue;
                }
                let reply = ask(&asking.caller, route, &path_with(route, &vault.ids), &fields);
                if !is_answered(expected, &reply) {
                    let (name, who, status) = (route.name, &asking.who, reply.status);
                    let text = reply.text();
                    wrong.push(format!("{name} {fields} as {who}: {expected:?}: {status} {text}"));
                }
                cells += 1;
            }
        }
        assert!(wrong.is_empty(), "{} of {cells}:\n{}", wrong.len(), wrong.join("\n"));
        cells
    };
    let refused = walk(&|_, answer| answer != Answer::LetIn);
    assert_eq!(vault.state(&acme), state, "whoever is refused changes nothing");
    // What deletes comes last, so that it is there for the others.
    let is_last = |route: &Route| route.method == Method::Delete;
    let let_in = walk(&|route, answer| answer == Answer::LetIn && !is_last(route))
        + walk(&|route, answer| answer == Answer::LetIn && is_last(route));
    assert!(refused > 2000 && let_in > 1000, "{refused} {let_in}");
}
