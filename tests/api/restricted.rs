//! What a member without an access grant learns of restricted resources: nothing, on any route
//! (reference: identity-and-rights, "Restricted resources").

use std::collections::BTreeMap;

use roadstead::api::{Method, Route};
use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::fixture::{Fixture, key_of};
use crate::routes::{all_routes, ask, ask_sample, path_with, sample};
use crate::schema;

/// A word in every name of what is restricted.
const WORD: &str = "canary";

/// The path parameters that name something restricted.
const RESTRICTED: [&str; 15] = [
    "agentId",
    "memoryId",
    "messageId",
    "approvalId",
    "scheduleId",
    "registrySlug",
    "draftId",
    "flagId",
    "assignmentId",
    "changeId",
    "environmentId",
    "fleetId",
    "stableKey",
    "jobId",
    "deploymentId",
];

/// What every member sees of an agent of a team, whatever its fleet: that it is there.
const SHOWN: [&str; 2] = ["agentId", "teamId"];

/// One restricted resource of each kind, with everything that can belong to it.
pub struct Vault {
    /// Ids of the resources and of what belongs to them, by the name of the path parameter.
    pub ids: BTreeMap<&'static str, String>,
    /// References to them, by the name of the input.
    inputs: BTreeMap<&'static str, Value>,
}

/// What exists before the restricted resources, and which every member may see.
struct Open {
    policy: String,
    tool: String,
}

fn open(acme: &Fixture) -> Open {
    let rules = json!([{"type": "maxLength", "value": 0}]);
    let policy = json!({"name": "P", "severity": "warning", "rules": rules});
    let policy = acme.owner.post("/governance/policies", policy).id();
    let tool = acme.owner.post("/tools", json!({"name": "t", "type": "function"})).id();
    acme.owner.post("/registries", json!({"slug": "open", "name": "Open"})).ok();
    publish(&acme.owner, "open", "prompt", "open-prompt", "Hello {{OPEN}}");
    Open { policy, tool }
}

fn publish(owner: &Caller, registry: &str, kind: &str, name: &str, source: &str) {
    let version = json!({"registryRef": format!("{}/{registry}", owner.org), "artifactType": kind,
        "name": name, "version": "1.0.0", "source": source});
    owner.post("/registries/artifacts", version).ok();
}

/// Deploys a prompt to an agent, and waits until that is done.
fn deploy(owner: &Caller, agent: &str, environment: &str, prompt: &str) -> Value {
    let (registry, variable) = match prompt {
        "open-prompt" => ("open", "OPEN"),
        _ => ("canary-vault", "CANARY"),
    };
    let new = json!({"agentIds": [agent], "environment": environment, "promptName": prompt,
        "version": "*", "registryRef": format!("{}/{registry}", owner.org), "provider": "p",
        "agentVariables": {variable: "v"}});
    complete(owner, owner.post("/agents/deployments", new).id())
}

fn complete(owner: &Caller, job: String) -> Value {
    let path = format!("/agents/deployments/{job}");
    eventually("the deployment is complete", || {
        Some(owner.get(&path).ok()).filter(|job| job["state"] == "complete")
    })
}

/// An agent that every member may use, and what was deployed to it.
fn open_deployment(acme: &Fixture) {
    for slug in ["open-env", "other-env"] {
        acme.owner.post("/environments", json!({"slug": slug, "name": "Open"})).ok();
    }
    acme.owner.post("/agents", json!({"stableKey": "open-agent", "name": "Open"})).ok();
    deploy(&acme.owner, "open-agent", "open-env", "open-prompt");
}

impl Vault {
    /// All that there is, beside what is open: deployed, and in a team.
    pub fn whole(acme: &Fixture) -> Self {
        let open = open(acme);
        open_deployment(acme);
        let mut vault = Vault::make(acme, &open);
        vault.deploy(acme);
        vault.hire(acme);
        vault
    }

    /// Deploys what is restricted: to a restricted environment, from a restricted registry, to an
    /// agent of a restricted fleet, and tools.
    fn deploy(&mut self, acme: &Fixture) {
        let owner = &acme.owner;
        let fleet = json!({"name": "Canary", "access": "restricted"});
        let fleet = owner.post("/fleets", fleet).id();
        let agent = json!({"stableKey": "canary-agent", "name": "Canary", "fleetId": fleet});
        owner.post("/agents", agent).ok();
        owner.post("/agents/canary-agent/versions", json!({})).ok();
        let job = deploy(owner, "open-agent", "canary-prod", "open-prompt");
        deploy(owner, "open-agent", "other-env", "canary-prompt");
        let to_agent = deploy(owner, "canary-agent", "open-env", "open-prompt");
        let tools = json!({"toolIds": [self.ids["toolId"]], "environment": "canary-prod"});
        complete(owner, owner.post("/agents/tool-deployments", tools).id());
        let beat = json!({"environment": "open-env", "hash": "x", "error": "canary"});
        owner.post("/agents/canary-agent/heartbeat", beat).ok();
        let text = |value: &Value| value.as_str().unwrap().to_string();
        let change = self.ask_to_move(acme);
        self.ids.extend([
            ("changeId", change),
            ("label", "canary-gate".into()),
            ("fleetId", fleet),
            ("stableKey", "canary-agent".into()),
            ("jobId", text(&job["id"])),
            ("deploymentId", text(&to_agent["targets"][0]["deploymentId"])),
        ]);
        self.inputs.insert("agentIds", json!(["open-agent", "canary-agent"]));
        self.inputs.insert("environment", json!("canary-prod"));
        self.inputs.insert("toolIds", json!([self.ids["toolId"]]));
        self.inputs.insert("fleetId", json!(self.ids["fleetId"]));
        self.inputs.insert("stableKey", json!("canary-agent"));
    }

    /// Protects a label of the restricted registry, and asks for a move of it; the id of the change.
    fn ask_to_move(&self, acme: &Fixture) -> String {
        let registry = &self.ids["registrySlug"];
        let protection =
            json!({"minRole": "member", "approvals": {"approverIds": [acme.owner_id]}});
        let path = format!("/registries/{registry}/protected-labels/canary-gate");
        acme.owner.put(&path, protection).ok();
        let moved = json!({"registryRef": registry, "promptName": "canary-prompt",
            "label": "canary-gate", "version": "1.0.0"});
        let moved = acme.owner.patch("/registries/artifacts/labels", moved).ok();
        moved["pendingChange"]["id"].as_str().expect("it waits").to_string()
    }

    /// Puts another agent of the restricted fleet into a team, with everything that is its own. Its
    /// name is no secret there.
    fn hire(&mut self, acme: &Fixture) {
        let owner = &acme.owner;
        let agent =
            json!({"stableKey": "quiet-agent", "name": "Quiet", "fleetId": self.ids["fleetId"]});
        owner.post("/agents", agent).ok();
        let team = owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
        let hired = json!({"stableKey": "quiet-agent", "role": "scrum_master"});
        let agent = owner.post(&format!("/teams/{team}/agents"), hired).id();
        let in_team = |path: &str| format!("/teams/{team}{path}");
        let own = |path: &str| in_team(&format!("/agents/{agent}{path}"));
        let memory = owner.post(&own("/memories"), json!({"content": "canary"})).id();
        let mail = json!({"toAgentId": agent, "subject": "canary", "body": "canary"});
        let mail = owner.post(&in_team("/messages"), mail).id();
        let run = json!({"status": "failed", "error": "canary", "costUsd": 1});
        owner.post(&own("/runs"), run).ok();
        let question = json!({"agentId": agent, "title": "canary"});
        let question = owner.post(&in_team("/approvals"), question).id();
        let task = owner.post(&in_team("/tasks"), json!({"title": "t"})).id();
        let schedule = json!({"name": "canary", "cron": "0 9 * * *",
            "wake": {"agentId": agent, "text": "canary"}});
        let schedule = owner.post(&in_team("/schedules"), schedule).id();
        self.ids.extend([
            ("teamId", team),
            ("agentId", agent.clone()),
            ("memoryId", memory),
            ("messageId", mail),
            ("approvalId", question),
            ("taskId", task),
            ("scheduleId", schedule),
        ]);
        for name in ["agentId", "fromAgentId", "toAgentId", "assigneeAgentId"] {
            self.inputs.insert(name, json!(agent));
        }
    }

    /// Has a member who may use all of it make a draft, a job and a message to its agent in the place of
    /// those that were there.
    pub fn made_by(&mut self, maker: &Caller) {
        let draft = json!({"registryRef": self.ids["registrySlug"], "artifactType": "prompt",
            "draftVersion": "1.2.0", "body": "canary"});
        let draft = maker.post("/prompts/canary-prompt/drafts", draft).id();
        let job = deploy(maker, "open-agent", "canary-prod", "open-prompt");
        let mail = json!({"toAgentId": self.ids["agentId"], "body": "canary"});
        let mail = maker.post(&format!("/teams/{}/messages", self.ids["teamId"]), mail).id();
        let job = job["id"].as_str().unwrap().to_string();
        self.ids.extend([("draftId", draft), ("jobId", job), ("messageId", mail)]);
    }

    fn make(acme: &Fixture, open: &Open) -> Self {
        let owner = &acme.owner;
        let registry = json!({"slug": "canary-vault", "name": "Canary", "access": "restricted"});
        let registry = owner.post("/registries", registry).id();
        let assignment = format!("/governance/policies/{}/assignments", open.policy);
        let assignment = owner.post(&assignment, json!({"registryId": registry})).id();
        publish(owner, "canary-vault", "promptlet", "canary-tone", "{{CANARY}}");
        publish(owner, "canary-vault", "prompt", "canary-prompt", "{{ import \"canary-tone\" }}");
        let label = json!({"registryRef": registry, "promptName": "canary-prompt",
            "label": "canary", "version": "1.0.0"});
        owner.patch("/registries/artifacts/labels", label).ok();
        let draft = json!({"registryRef": registry, "artifactType": "prompt",
            "draftVersion": "1.1.0", "body": "canary"});
        let draft = owner.post("/prompts/canary-prompt/drafts", draft).id();
        let flags = owner.get("/governance/flags").ok();
        let flag = flags["items"][0]["id"].as_str().expect("a flag was raised").to_string();

        let environment = json!({"slug": "canary-prod", "name": "Canary", "access": "restricted"});
        let environment = owner.post("/environments", environment).id();
        let variable = format!("/environments/{environment}/variables/CANARY");
        owner.put(&variable, json!({"value": "canary"})).ok();
        let moved = json!({"updateEnvironmentVersions": [environment]});
        owner.patch(&format!("/tools/{}", open.tool), moved).ok();
        let (_, eve) = acme.person("eve", Role::Member);
        for (kind, id) in [("registry", &registry), ("environment", &environment)] {
            let grant = json!({"userId": eve, "resourceType": kind, "resourceId": id});
            owner.post("/access-grants", grant).ok();
        }
        Vault {
            ids: BTreeMap::from([
                ("registrySlug", registry.clone()),
                ("promptName", "canary-prompt".into()),
                ("draftId", draft),
                ("flagId", flag),
                ("policyId", open.policy.clone()),
                ("assignmentId", assignment),
                ("environmentId", environment.clone()),
                ("name", "CANARY".into()),
                ("toolId", open.tool.clone()),
            ]),
            inputs: BTreeMap::from([
                ("registryRef", json!(registry)),
                ("registryId", json!(registry)),
                ("targetRegistryRef", json!(registry)),
                ("promptName", json!("canary-prompt")),
                ("version", json!("1.0.0")),
                ("from", json!("1.0.0")),
                ("to", json!("1.0.0")),
                ("label", json!("canary")),
                ("updateEnvironmentVersions", json!([environment])),
                ("resourceType", json!("environment")),
                ("resourceId", json!(environment)),
            ]),
        }
    }

    /// The parameters and inputs of a route that name something restricted: what they are called.
    pub fn named_by<'a>(&'a self, route: &Route, fields: &Value) -> Vec<&'a str> {
        let inputs = [
            "registryRef",
            "registryId",
            "targetRegistryRef",
            "updateEnvironmentVersions",
            "agentIds",
            "environment",
            "fleetId",
            "agentId",
            "fromAgentId",
            "toAgentId",
            "assigneeAgentId",
            "stableKey",
        ];
        let in_path = RESTRICTED.iter().filter(|name| route.path.contains(&format!("{{{name}}}")));
        let sent = inputs.iter().filter(|name| fields.get(name).is_some());
        in_path.chain(sent).copied().collect()
    }

    /// A request to a route that names what is restricted wherever it can.
    pub fn fields(&self, route: &Route) -> Value {
        let mut fields = sample(route);
        for (name, schema) in schema::inputs(route) {
            match self.inputs.get(name.as_str()) {
                // A time; the tags that there were.
                Some(_) if schema.to_string().contains("date-time") => {}
                Some(_) if route.name == "artifact.update" && name == "from" => {}
                Some(_) if route.path.starts_with("/deployments") && name != "environment" => {}
                // The other end of a copy.
                Some(_) if fields[&name].is_object() => {
                    fields[&name]["registryRef"] = self.inputs["registryRef"].clone();
                }
                Some(value) => fields[&name] = value.clone(),
                None => {}
            }
        }
        fields
    }

    /// Whether a text tells of it.
    pub fn is_in(&self, text: &str) -> bool {
        let ids = RESTRICTED.iter().filter(|name| !SHOWN.contains(name));
        let mut ids = ids.filter_map(|name| self.ids.get(name));
        text.to_lowercase().contains(WORD) || ids.any(|id| text.contains(id))
    }

    /// What the owner sees of it.
    pub fn state(&self, acme: &Fixture) -> Vec<String> {
        let registry = &self.ids["registrySlug"];
        let environment = &self.ids["environmentId"];
        let team = format!("/teams/{}", self.ids["teamId"]);
        let agent = format!("{team}/agents/{}", self.ids["agentId"]);
        [
            format!("{agent}/memories"),
            format!("{agent}/runs"),
            format!("{agent}/wakes?peek=true"),
            agent,
            format!("{team}/messages"),
            format!("{team}/approvals"),
            format!("{team}/schedules/{}", self.ids["scheduleId"]),
            format!("{team}/timeline"),
            format!("/registries/{registry}"),
            format!("/registries/artifacts?registryRef={registry}"),
            format!(
                "/registries/artifact-versions?registryRef={registry}&promptName=canary-prompt"
            ),
            format!("/prompts/canary-prompt/drafts?registryRef={registry}&artifactType=prompt"),
            format!("/environments/{environment}"),
            "/governance/flags".into(),
            format!("/governance/policies/{}/assignments", self.ids["policyId"]),
            "/agents".into(),
            "/agents/canary-agent/versions".into(),
            "/agents/deployments".into(),
            "/deployments".into(),
            "/fleets".into(),
            "/notifications/logs".into(),
        ]
        .iter()
        .map(|path| acme.owner.get(path).likeness())
        .collect()
    }
}

/// The reads of a member, without a reference to anything.
fn reads(member: &Caller) -> Vec<(String, String)> {
    let routes = all_routes().into_iter().filter(|route| route.method == Method::Get);
    let unnamed = routes.filter(|route| !route.path.contains('{'));
    unnamed.map(|route| (route.name.to_string(), ask_sample(member, &route).likeness())).collect()
}

#[test]
fn no_list_or_count_changes_for_a_member_without_the_grant() {
    let acme = Fixture::new();
    let open = open(&acme);
    let member = &acme.member;
    let usage = |caller: &Caller| caller.get("/environments/variables/OPEN/usage").likeness();
    open_deployment(&acme);
    // It is written within seconds, and again after minutes.
    eventually("the use of the session is listed", || {
        member.get("/auth/sessions").items()[0]["lastUse"].is_object().then_some(())
    });
    let (before, used) = (reads(member), usage(member));
    let mut vault = Vault::make(&acme, &open);
    vault.deploy(&acme);
    let after = reads(member);
    assert_eq!(usage(member), used);
    for (before, after) in before.iter().zip(&after) {
        // The members of an organization are no secret, and one has joined.
        if before.0 != "member.list" {
            assert_eq!(before, after, "{}", before.0);
        }
        assert!(!vault.is_in(&after.1), "{}: {}", after.0, after.1);
    }
    let seen = reads(&acme.owner).into_iter().filter(|(_, text)| vault.is_in(text)).count();
    assert!(seen >= 9, "the owner sees it in {seen} lists");
}

#[test]
fn no_route_shows_or_changes_what_is_restricted_to_a_member_without_the_grant() {
    let acme = Fixture::new();
    let vault = Vault::whole(&acme);
    let state = vault.state(&acme);
    let mut refused = 0;
    for caller in [acme.member.clone(), key_of(&acme.member)] {
        // Signing out ends the walk. Every member sees that an agent is in a team.
        let skipped = ["session.sign_out", "team_agent.get"];
        for route in all_routes().iter().filter(|route| !skipped.contains(&route.name)) {
            let fields = vault.fields(route);
            let reply = ask(&caller, route, &path_with(route, &vault.ids), &fields);
            let context = format!("{} {fields}: {} {}", route.name, reply.status, reply.text());
            assert!(reply.status < 500, "{context}");
            assert!(!vault.is_in(&reply.text()), "{context}");
            // Every member sees that an agent came into a team.
            let is_known = route.name == "activity_entry.list";
            if vault.named_by(route, &fields).is_empty() || reply.status == 401 || is_known {
                continue;
            }
            let is_empty = reply.status == 200 && reply.json()["items"] == json!([]);
            assert!(is_empty || matches!(reply.status, 403 | 404), "{context}");
            refused += 1;
        }
    }
    assert!(refused > 90, "{refused}");
    assert_eq!(vault.state(&acme), state);
}

#[test]
fn the_log_has_what_is_restricted_for_those_who_may_use_it() {
    let acme = Fixture::new();
    let open = open(&acme);
    let (granted, granted_id) = acme.person("gil", Role::Member);
    let vault = Vault::make(&acme, &open);
    let registry = &vault.ids["registrySlug"];
    let total = |caller: &Caller, query: &str| {
        let log = caller.get(&format!("/notifications/logs?{query}")).ok();
        assert_eq!(log["pagination"]["totalExact"], true);
        let items = log["items"].as_array().unwrap();
        assert_eq!(log["pagination"]["total"], items.len());
        items.len()
    };
    let types = ["", "eventType=registry.artifact_published", "eventType=governance.violation"];
    let counts = |caller: &Caller| types.map(|query| total(caller, query));
    // One publication is in the open registry, which has no policy.
    let (all, some) = ([5, 3, 2], [1, 1, 0]);
    assert_eq!((counts(&acme.owner), counts(&acme.member)), (all, some));
    assert_eq!(counts(&granted), some);
    let grant = json!({"userId": granted_id, "resourceType": "registry", "resourceId": registry});
    let grant = acme.owner.post("/access-grants", grant).id();
    assert_eq!(counts(&granted), all);
    acme.owner.delete(&format!("/access-grants/{grant}")).ok();
    assert_eq!(counts(&granted), some);

    let path = format!("/registries/{registry}");
    acme.owner.patch(&path, json!({"access": "organization"})).ok();
    assert_eq!(counts(&acme.member), all);
    acme.owner.patch(&path, json!({"access": "restricted"})).ok();
    assert_eq!(counts(&acme.member), some);
    // The deletion does not reveal what was restricted until then, nor does it hide what was open.
    acme.owner.delete(&path).ok();
    assert_eq!((counts(&acme.owner)[0], counts(&acme.member)), (6, some));
    acme.owner.delete("/registries/open").ok();
    assert_eq!((counts(&acme.owner)[0], counts(&acme.member)), (7, [2, 1, 0]));
}

#[test]
fn an_event_about_several_restricted_resources_is_for_those_who_may_use_them_all() {
    let acme = Fixture::new();
    let open = open(&acme);
    open_deployment(&acme);
    let mut vault = Vault::make(&acme, &open);
    vault.deploy(&acme);
    deploy(&acme.owner, "canary-agent", "canary-prod", "canary-prompt");
    let (granted, granted_id) = acme.person("gil", Role::Member);
    let seen = |caller: &Caller| {
        ["deployment.complete", "agent.error"].map(|event| {
            let log = caller.get(&format!("/notifications/logs?eventType={event}")).ok();
            let items = log["items"].as_array().unwrap();
            assert_eq!(log["pagination"]["total"], items.len());
            items.len()
        })
    };
    assert_eq!([&acme.owner, &acme.member, &granted].map(seen), [[6, 1], [1, 0], [1, 0]]);
    let mut grants = Vec::new();
    // With the environment: a deployment to it and one of tools; with the registry: one from it; with
    // the fleet: one to its agent, and the one of all three.
    for (kind, id, expected) in [
        ("environment", "environmentId", [3, 0]),
        ("registry", "registrySlug", [4, 0]),
        ("fleet", "fleetId", [6, 1]),
    ] {
        let grant = json!({"userId": granted_id, "resourceType": kind,
            "resourceId": vault.ids[id]});
        grants.push(acme.owner.post("/access-grants", grant).id());
        assert_eq!(seen(&granted), expected, "{kind}");
    }
    for (grant, expected) in grants.iter().zip([[3, 1], [2, 1], [1, 0]]) {
        acme.owner.delete(&format!("/access-grants/{grant}")).ok();
        assert_eq!(seen(&granted), expected);
    }
}

#[test]
fn a_grant_for_one_restricted_resource_shows_no_other_of_its_kind() {
    let acme = Fixture::new();
    let (granted, granted_id) = acme.person("gil", Role::Member);
    let (_, other_id) = acme.person("hal", Role::Member);
    let grant = |user: &str, kind: &str, resource: &str| {
        let grant = json!({"userId": user, "resourceType": kind, "resourceId": resource});
        acme.owner.post("/access-grants", grant).ok();
    };
    for (kind, path) in
        [("registry", "/registries"), ("environment", "/environments"), ("fleet", "/fleets")]
    {
        let make = |name: &str| {
            let mut new = json!({"name": name, "access": "restricted"});
            if kind != "fleet" {
                new["slug"] = json!(name);
            }
            let made = acme.owner.post(path, new).ok();
            made["id"].as_str().unwrap().to_string()
        };
        grant(&granted_id, kind, &make("one"));
        grant(&other_id, kind, &make("two"));
        let listed = |caller: &Caller| {
            let found = caller.get(&format!("/access-grants?resourceType={kind}")).ok();
            found["items"].as_array().unwrap().len()
        };
        assert_eq!((listed(&acme.owner), listed(&granted)), (2, 1), "{kind}");
    }
}
