//! What a job freezes when it is created, and what is refused.

use super::super::{changes, deployed, heartbeats, history};
use super::*;
use crate::base::Kind;
use crate::resources::environments::variable_tests;
use crate::resources::{environments as environment, fleets};

#[test]
fn a_job_shows_its_plan_and_its_targets() {
    let world = World::new();
    let job = world.deploy(&["ann", "bob"], json!({"model": "m"})).unwrap();
    assert_eq!(job["state"], "approved");
    let mut job = world.deployed(&["ann"], json!({"model": "m"}));
    let plan = job["plan"].take();
    let target = &plan["targets"][0];
    assert_eq!(target["compiled"], "Hello.");
    assert_eq!((&target["stableKey"], &target["version"]), (&json!("ann"), &json!("1.0.0")));
    assert_eq!(
        target["config"],
        json!({
            "registryRef": "acme/main", "promptName": "hello", "promptVersion": "1.0.0",
            "model": "m", "provider": "p", "toolRefs": [], "variables": {}, "providerConfig": {},
        })
    );
    assert_eq!((&plan["tools"], &plan["approvals"]), (&json!([]), &Value::Null));
    let known = ["registryRef", "promptName", "version", "provider", "model", "kind", "state"];
    let known: Vec<_> = known.iter().map(|name| job[*name].take()).collect();
    let expected = ["acme/main", "hello", "1.0.0", "p", "m", "agents", "complete"];
    assert_eq!(known, expected);
    assert_eq!(job["planHash"].as_str().unwrap().len(), 64);
    assert_eq!(states(&job), ["applied"]);
    world.assert_sound();
}

#[test]
fn a_value_comes_from_the_request_then_the_draft_then_the_environment() {
    let world = World::new();
    world.prompt("1.1.0", "{{A}} {{B}} {{C}} \\{{D}} {{A}}");
    for name in ["A", "B", "C"] {
        variable_tests::put(&world, world.dev, name, "environment").unwrap();
    }
    world.agent("cy", json!({"variables": {"A": "draft", "B": "{{C}}", "UNUSED": "x"}}));
    let more = json!({"agentVariables": {"A": "given", "ALSO_UNUSED": ""}});
    let job = world.deploy(&["cy"], more).unwrap();
    let target = &job["plan"]["targets"][0];
    // A value is not expanded again.
    assert_eq!(target["compiled"], "given {{C}} environment {{D}} given");
    let variables = json!({"A": "given", "ALSO_UNUSED": "", "B": "{{C}}", "UNUSED": "x"});
    assert_eq!(target["config"]["variables"], variables);
}

#[test]
fn every_variable_without_a_value_is_reported() {
    let world = World::new();
    world.prompt("1.1.0", "{{B}} {{A}} {{B}} {{C}}");
    let refused = world.deploy(&["ann", "bob"], json!({"agentVariables": {"C": ""}})).unwrap_err();
    let paths: Vec<_> = refused.issues().iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["agentVariables.A", "agentVariables.B"]);
    assert!(refused.issues()[0].message.contains("ann"));
    assert!(world.tasks().is_empty());
}

#[test]
fn the_plan_does_not_change_with_what_it_was_made_of() {
    let world = World::new();
    let tool = world.tool("t", json!({"openai": {"url": "a"}}));
    world.prompt("1.1.0", "{{A}}");
    variable_tests::put(&world, world.dev, "A", "before").unwrap();
    world.agent("cy", json!({"toolRefs": [{"toolId": tool}]}));
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let job = world.deploy(&["cy"], json!({})).unwrap();

    variable_tests::put(&world, world.dev, "A", "after").unwrap();
    world.prompt("1.2.0", "other");
    let other = json!({"providerConfig": {"openai": {"url": "b"}}, "bumpVersion": "patch"});
    world.patch_tool(tool, other).unwrap();
    let draft = json!({"draft": {"model": "other", "toolRefs": []}});
    agents::tests::update_agent(&world, "cy", draft).unwrap();
    assert_eq!(world.job(&job), job);
    approving::approve(&world, &world.owner, &job, json!({})).unwrap();
    world.run();
    let applied = world.deployments().remove(0);
    let shown = read(&world, &world.member, super::super::history::get, applied.id, json!({}));
    let shown = json!(shown.unwrap());
    assert_eq!(shown["compiled"], "before");
    assert_eq!(shown["tools"][0]["providerConfig"], json!({"openai": {"url": "a"}}));
    assert_eq!(shown["hash"], job["plan"]["targets"][0]["hash"]);
    assert_eq!(world.job(&job)["planHash"], job["planHash"]);
    world.assert_sound();
}

#[test]
fn a_tool_has_its_own_version_or_the_environments_or_the_newest() {
    let world = World::new();
    let [own, environments, newest] = ["own", "env", "newest"].map(|name| {
        let tool = world.tool(name, json!({}));
        world.patch_tool(tool, json!({"version": "2.0.0"})).unwrap();
        tool
    });
    let body = json!({"toolIds": [environments], "environment": "dev", "version": "1.0.0"});
    tool_job(&world, body).unwrap();
    world.run();
    let refs = json!([
        {"toolId": own, "version": "1.0.0"}, {"toolId": environments}, {"toolId": newest},
    ]);
    let job = world.deploy(&["ann"], json!({"toolRefs": refs})).unwrap();
    let tool = |id: Id<tools::Tool>, name: &str, version: &str| {
        json!({
            "toolId": id, "name": name, "version": version, "type": "http", "prompt": null,
            "providerConfig": {}, "placeholders": [], "warnings": [],
        })
    };
    let expected = json!([
        tool(own, "own", "1.0.0"),
        tool(environments, "env", "1.0.0"),
        tool(newest, "newest", "2.0.0"),
    ]);
    assert_eq!(job["plan"]["tools"], expected);
    let config = &job["plan"]["targets"][0]["config"]["toolRefs"];
    let exact: Vec<_> = config.as_array().unwrap().iter().map(|tool| &tool["version"]).collect();
    assert_eq!(exact, ["1.0.0", "1.0.0", "2.0.0"]);
    let unknown = Id::<()>::new(uuid::Uuid::from_u128(7)).to_string();
    for (wrong, path) in [
        (json!({"toolId": unknown}), "toolRefs[1].toolId"),
        (json!({"toolId": newest, "version": "9.0.0"}), "toolRefs[1].version"),
    ] {
        let refused = world.deploy(&["ann"], json!({"toolRefs": [{"toolId": own}, wrong]}));
        assert_eq!(refused.unwrap_err().path(), Some(path));
    }
}

pub fn tool_job(world: &World, body: Value) -> Result<Value> {
    let made = world.write(jobs::create_tools, (), Fixture::input(body)?)?;
    Ok(json!(made))
}

#[test]
fn what_does_not_exist_is_404_and_what_is_ambiguous_400() {
    let world = World::new();
    let unknown = Id::<()>::new(uuid::Uuid::from_u128(7)).to_string();
    for (more, code) in [
        (json!({"agentIds": ["ann", "nobody"]}), "not_found"),
        (json!({"agentIds": [unknown]}), "not_found"),
        (json!({"environment": "nowhere"}), "not_found"),
        (json!({"promptName": "other"}), "not_found"),
        (json!({"version": "2"}), "not_found"),
        (json!({"version": "no-label"}), "not_found"),
        (json!({"registryRef": "acme/other"}), "not_found"),
        (json!({"registryRef": "other/main"}), "organization_not_found"),
        (json!({"toolRefs": [{"toolId": unknown}]}), "not_found"),
    ] {
        let refused = world.deploy(&["ann"], more.clone()).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (Kind::NotFound, code), "{more}");
    }
    let ann = agents::tests::id_of(&world, "ann");
    for (more, path) in [
        (json!({"agentIds": ["ann", "bob", ann]}), "agentIds[2]"),
        (json!({"agentIds": []}), "agentIds"),
        (json!({"agentIds": vec!["a"; 101]}), "agentIds"),
        (json!({"registryRef": null}), "registryRef"),
        (json!({"agentVariables": {"1": "x"}}), "agentVariables.1"),
    ] {
        let refused = world.deploy(&["ann"], more.clone()).unwrap_err();
        assert_eq!(refused.issues()[0].path, path, "{more}");
    }
    assert!(world.tasks().is_empty() && world.events().is_empty());
}

#[test]
fn the_registry_and_the_model_come_from_each_draft() {
    let world = World::new();
    let mut version = artifacts::tests::version("prompt", "hello", "1.0.0", "For m.");
    version["model"] = json!("m");
    artifacts::tests::publish(&world, version).unwrap();
    world.agent("cy", json!({"registryRef": "main", "model": "m"}));
    world.agent("dee", json!({"registryRef": "acme/main"}));
    let job = world.deploy(&["cy", "dee"], json!({"registryRef": null})).unwrap();
    let texts = [0, 1].map(|n| job["plan"]["targets"][n]["compiled"].clone());
    assert_eq!(texts, ["For m.", "Hello."]);
    assert_eq!((&job["registryRef"], &job["model"]), (&json!("acme/main"), &Value::Null));
    // What runs is shown, also where nobody but the version names it.
    let models = [0, 1].map(|n| job["plan"]["targets"][n]["config"]["model"].clone());
    assert_eq!(models, [json!("m"), json!("generic")]);
}

#[test]
fn a_restricted_environment_or_registry_needs_a_grant() {
    let world = World::new();
    environment::tests::patch(&world, world.dev, json!({"access": "restricted"}));
    let refused = world.deploy(&["ann"], json!({})).unwrap_err();
    assert_eq!(refused.code(), "grant_required");
    let job = world.deploy_as(&world.owner, &["ann"], json!({})).unwrap();
    world.run();
    let shown = world.read(jobs::get, id(&job), ()).unwrap_err();
    assert_eq!(shown.code(), "grant_required");
    let all = || read(&world, &world.member, jobs::list, (), json!({})).unwrap().items.len();
    assert_eq!(all(), 0);
    environment::tests::grant(&world, &world.member, world.dev);
    assert_eq!(all(), 1);
    world.read(jobs::get, id(&job), ()).unwrap();

    artifacts::tests::with_access(&world, "closed", crate::auth::Access::Restricted);
    let refused = world.deploy(&["ann"], json!({"registryRef": "closed"})).unwrap_err();
    assert_eq!(refused.code(), "grant_required");
}

#[test]
fn texts_are_stored_once_and_large_plans_are_refused() {
    let world = World::new();
    world.prompt("1.1.0", &"x".repeat(300_000));
    for n in 0..30 {
        world.agent(&format!("a{n}"), json!({}));
    }
    let keys: Vec<_> = (0..30).map(|n| format!("a{n}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let refused = world.deploy(&keys, json!({})).unwrap_err();
    assert_eq!(refused.code(), "deployment_too_large");
    let job = world.deploy(&keys[..20], json!({})).unwrap();
    let count = world.store.read_now(world.org, |view| {
        let all: Vec<super::super::contents::DeploymentContent> =
            view.all(ListSource::TABLE, &id::<DeploymentJob>(&job))?;
        Ok(all.len())
    });
    assert_eq!(count.unwrap(), 2); // The text and the configuration.

    // Two such jobs do not fit into a page.
    world.deploy(&keys[..20], json!({})).unwrap();
    let page = read(&world, &world.member, jobs::list, (), json!({})).unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (1, true));
}

#[test]
fn a_previewed_plan_is_deployed_only_if_it_is_still_the_same() {
    let world = World::new();
    let job = world.deploy(&["ann"], json!({})).unwrap();
    let more = json!({"planHash": job["planHash"]});
    let again = world.deploy(&["ann"], more.clone()).unwrap();
    assert_eq!(again["planHash"], job["planHash"]);
    world.prompt("1.1.0", "Other.");
    assert_eq!(world.deploy(&["ann"], more).unwrap_err().code(), "plan_changed");
}

#[test]
fn a_version_of_the_agent_takes_the_place_of_prompt_model_and_provider() {
    let world = World::new();
    world.prompt("1.1.0", "{{A}}");
    let tool = world.tool("t", json!({}));
    let draft = |provider: Value| {
        json!({"registryRef": "main", "promptName": "hello", "promptVersion": "1.0.0",
            "model": "m", "provider": provider, "toolRefs": [{"toolId": tool}],
            "providerConfig": {"x": 1}})
    };
    for (key, provider) in [("cy", json!("q")), ("dee", json!("r")), ("eva", Value::Null)] {
        world.agent(key, draft(provider));
        world.write(agents::create_version, key.to_string(), Default::default()).unwrap();
        // Later changes of the draft do not matter.
        let draft = json!({"draft": {"promptVersion": "1.1.0", "model": "other", "toolRefs": []}});
        agents::tests::update_agent(&world, key, draft).unwrap();
    }
    let deploy = |agents: &[&str], more: Value| {
        let mut body = json!({"agentIds": agents, "environment": "dev", "agentVersion": 1});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        let job: Result<JobInfo> = world.write(jobs::create, (), Fixture::input(body)?);
        job.map(|job| json!(job))
    };
    let job = deploy(&["cy"], json!({})).unwrap();
    let some = ["promptName", "version", "model", "provider"].map(|name| job[name].clone());
    assert_eq!(some, ["hello", "1.0.0", "m", "q"]);
    let config = &job["plan"]["targets"][0]["config"];
    assert_eq!((&config["providerConfig"], &config["provider"]), (&json!({"x": 1}), &json!("q")));
    assert_eq!(job["plan"]["tools"][0]["name"], "t");
    for agents in [&["cy", "dee"][..], &["eva"]] {
        assert_eq!(deploy(agents, json!({})).unwrap_err().issues()[0].path, "provider");
        assert_eq!(deploy(agents, json!({"provider": "p"})).unwrap()["provider"], "p");
    }
    for path in ["promptName", "version", "model"] {
        let refused = deploy(&["cy"], json!({path: "x"})).unwrap_err();
        assert_eq!(refused.issues()[0].path, path);
    }
    let missing = deploy(&["cy"], json!({"agentVersion": 2})).unwrap_err();
    assert_eq!(missing.kind(), Kind::NotFound);
    assert_eq!(deploy(&["ann"], json!({})).unwrap_err().kind(), Kind::NotFound);
    let nothing = json!({"agentIds": ["ann"], "environment": "dev"});
    let refused = Fixture::input::<super::super::plan::NewDeployment>(nothing).err().unwrap();
    let paths: Vec<_> = refused.issues().iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["promptName", "version", "provider"]);
}

#[test]
fn an_agent_of_a_restricted_fleet_needs_a_grant_in_every_way() {
    let world = World::new();
    let fleet = fleets::tests::make(&world, json!({"name": "F", "access": "restricted"})).id;
    let patch = json!({"fleetId": fleet});
    agents::tests::patch_as(&world, &world.owner, "ann", patch).unwrap();
    let job = world.deploy_as(&world.owner, &["ann", "bob"], json!({})).unwrap();
    world.run();
    let deployment = world.job(&job)["targets"][0]["deploymentId"].clone();
    let deployment = id(&json!({"id": deployment}));
    let member = &world.member;
    let beat = json!({"environment": "dev", "hash": "h"});
    let every_use = || {
        let ann = || "ann".to_string();
        let at = json!({"environment": "dev"});
        [
            world.deploy(&["ann"], json!({})).map(drop),
            read(&world, member, changes::preview, (), world.body(&["ann"], json!({}))).map(drop),
            world.read(jobs::get, id(&job), ()).map(drop),
            read(&world, member, deployed::get, ann(), at).map(drop),
            read(&world, member, history::of_agent, ann(), json!({})).map(drop),
            world.read(history::get, deployment, ()).map(drop),
            world.write(history::redeploy, (ann(), deployment), ()).map(drop),
            world.write(heartbeats::report, ann(), Fixture::input(beat.clone()).unwrap()).map(drop),
        ]
    };
    let lists = || {
        let jobs = read(&world, member, jobs::list, (), json!({})).unwrap().items.len();
        (jobs, read(&world, member, history::list, (), json!({})).unwrap().items.len())
    };
    for refused in every_use() {
        assert_eq!(refused.unwrap_err().code(), "grant_required");
    }
    let rollback = Fixture::input(json!({"force": true})).unwrap();
    for refused in [
        world.write(super::super::rollback::roll_back, id(&job), rollback).map(drop),
        approving::approve(&world, member, &job, json!({})).map(drop),
        approving::deny(&world, member, &job, json!({})).map(drop),
        world.write(jobs::cancel, id(&job), ()).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code(), "grant_required");
    }
    // The deployment of bob is visible, but not the job, which is also of ann.
    assert_eq!(lists(), (0, 1));
    fleets::tests::grant(&world, member, fleet);
    assert_eq!(lists(), (1, 2));
    for done in every_use() {
        done.unwrap();
    }
    world.assert_sound();
}
