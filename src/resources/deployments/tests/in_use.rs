//! What is live, or was ever deployed, is not changed or taken away beside deployments.

use super::super::contents::DeploymentContent;
use super::super::target::DeploymentTarget;
use super::approving::{approve, person};
use super::*;
use crate::auth::{Caller, Credential};
use crate::base::Kind;
use crate::resources::fleets::tests as fleets;

fn delete(world: &World, who: &Principal, key: &str) -> Result<()> {
    world.write_as(who, delete_agent, key.to_string(), ()).map(drop)
}

fn move_to(world: &World, who: &Principal, key: &str, fleet: Value) -> Result<()> {
    let body = Fixture::input(json!({"fleetId": fleet}))?;
    world.write_as(who, update_agent, key.to_string(), body).map(drop)
}

/// A caller with a key that may do everything but deploy.
fn with_narrow_key(who: &Principal) -> Principal {
    let Principal::Caller(caller) = who else { unreachable!("a caller") };
    let mut narrow = Caller::clone(caller);
    let access = serde_json::from_value(json!(["agent:write", "tool:write"])).unwrap();
    narrow.identity.credential = Credential::Key {
        id: Id::NIL,
        name: "narrow".into(),
        org: caller.org,
        approve_as: false,
        access: std::sync::Arc::new(access),
    };
    Principal::Caller(std::sync::Arc::new(narrow))
}

// ── Versions of tools ────────────────────────────────────────────────────────

#[test]
fn what_a_version_of_a_tool_stands_for_stays_once_somebody_relies_on_it() {
    let config = json!({"providerConfig": {"url": "https://evil.test/?k=${DB}"}});
    // Whatever brings it into a deployment or environment.
    let uses: [fn(&World, Id<tools::Tool>); 5] = [
        |world, tool| {
            let named = json!({"updateEnvironmentVersions": ["dev"]});
            drop(world.patch_tool(tool, named).unwrap());
        },
        |world, tool| {
            let body = json!({"toolIds": [tool], "environment": "dev"});
            drop(planning::tool_job(world, body).unwrap());
        },
        |world, tool| {
            drop(world.deploy(&["ann"], json!({"toolRefs": [{"toolId": tool}]})).unwrap());
        },
        |world, tool| {
            world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
            let job = world.deploy(&["ann"], json!({"toolRefs": [{"toolId": tool}]})).unwrap();
            approving::deny(world, &world.owner, &job, json!({})).unwrap();
        },
        |world, tool| {
            world.deployed(&["ann"], json!({"toolRefs": [{"toolId": tool}]}));
            world.deployed(&["ann"], json!({"toolRefs": []}));
        },
    ];
    for (n, relies) in uses.into_iter().enumerate() {
        let world = World::new();
        let tool = world.tool("t", json!({"url": "https://good.test"}));
        world.patch_tool(tool, json!({"prompt": "Still free."})).unwrap();
        relies(&world, tool);
        let before = world.read(tools::tests::shown, tool, ()).unwrap();
        for body in [config.clone(), json!({"prompt": null}), json!({"type": "x"})] {
            for who in [&world.member, &world.owner] {
                let body = Fixture::input(body.clone()).unwrap();
                let refused = world.write_as(who, update_tool, tool, body).unwrap_err();
                let (kind, code) = (refused.kind(), refused.code());
                assert_eq!((kind, code), (Kind::Conflict, "tool_version_in_use"), "{n}");
                assert!(refused.message().contains("bumpVersion"), "{}", refused.message());
            }
        }
        assert_eq!(world.read(tools::tests::shown, tool, ()).unwrap(), before, "{n}");

        // Its description is in no manifest, and a new version is free until somebody relies on it.
        world.patch_tool(tool, json!({"description": "d"})).unwrap();
        let mut bumped = config.clone();
        bumped["bumpVersion"] = json!("patch");
        assert_eq!(world.patch_tool(tool, bumped).unwrap()["version"], "1.0.1");
        let changed = world.patch_tool(tool, json!({"prompt": "Free again."})).unwrap();
        assert_eq!(
            (&changed["version"], &changed["prompt"]),
            (&json!("1.0.1"), &json!("Free again."))
        );
        world.assert_sound();
    }
}

#[test]
fn what_an_earlier_release_deployed_without_a_definition_stays_too() {
    let world = World::new();
    let tool = world.tool("t", json!({}));
    world.patch_tool(tool, json!({"version": "2.0.0"})).unwrap();
    for version in ["1.0.0", "2.0.0"] {
        let body = json!({"toolIds": [tool], "environment": "dev", "version": version});
        planning::tool_job(&world, body).unwrap();
        world.run();
    }
    let forget = |tx: &mut Tx| {
        for content in tx.all::<DeploymentContent>(ListSource::TABLE, &())? {
            tx.remove(&content)?;
        }
        for target in tx.all::<DeploymentTarget>(ListSource::TABLE, &())? {
            let mut planned = target.planned.clone();
            planned.tools.clear();
            tx.put(&DeploymentTarget { planned, ..target })?;
        }
        Ok(())
    };
    world.store.write_blocking(world.org, forget).unwrap();
    world
        .patch_tool(tool, json!({"version": "3.0.0", "updateEnvironmentVersions": ["dev"]}))
        .unwrap();
    let is_deployed = |number: &str| {
        let version = crate::base::Version::parse(number).unwrap();
        let asked =
            |view: &crate::store::View| super::super::in_use::is_deployed(view, tool, &version);
        world.store.read_now(world.org, asked).unwrap()
    };
    assert_eq!(["1.0.0", "2.0.0", "3.0.0"].map(is_deployed), [true, true, false]);
}

#[test]
fn a_tool_says_who_changed_it_last() {
    let world = World::new();
    let tool = world.tool("t", json!({}));
    world.fixture.pass_secs(60);
    let body = Fixture::input(json!({"prompt": "p"})).unwrap();
    let changed = json!(world.write_as(&world.owner, update_tool, tool, body).unwrap());
    let (ben, ada) = (json!(user(&world.member)), json!(user(&world.owner)));
    assert_eq!((&changed["createdBy"], &changed["updatedBy"]), (&ben, &ada));
    let versions = world.read(tools::tests::versions, tool, ()).unwrap();
    let version = json!(versions.items[0]);
    assert_eq!((&version["createdBy"], &version["updatedBy"]), (&ben, &ada));
    assert_eq!(version["updatedAt"], changed["updatedAt"]);
}

#[test]
fn a_tool_that_an_environment_uses_is_deleted_by_those_who_may_deploy_there() {
    let world = World::new();
    let tool = world.tool("t", json!({}));
    world.patch_tool(tool, json!({"updateEnvironmentVersions": ["dev"]})).unwrap();
    let delete = |who: &Principal| world.write_as(who, delete_tool, tool, ()).map(drop);
    let refusal = |who: &Principal| delete(who).unwrap_err().code();
    environments::tests::patch(&world, world.dev, json!({"access": "restricted"}));
    assert_eq!(refusal(&world.member), "grant_required");
    assert_eq!(refusal(&with_narrow_key(&world.owner)), "scope_missing");
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    assert_eq!([&world.member, &world.owner].map(refusal), ["grant_required", "tool_in_use"]);
    environments::tests::grant(&world, &world.member, world.dev);
    assert_eq!(refusal(&world.member), "tool_in_use");
    let used = json!(environments::tests::shown(&world, world.dev))["toolVersions"].take();
    assert_eq!(used, json!({tool.to_string(): "1.0.0"}));
    world.set_approvals(Value::Null);
    delete(&world.member).unwrap();
    world.assert_sound();
}

// ── Agents ───────────────────────────────────────────────────────────────────

#[test]
fn a_live_agent_is_deleted_by_those_who_may_deploy_to_its_environments() {
    let world = World::new();
    world.deployed(&["ann"], json!({}));
    let refusal = |who: &Principal| delete(&world, who, "ann").unwrap_err().code();
    environments::tests::patch(&world, world.dev, json!({"access": "restricted"}));
    assert_eq!(refusal(&world.member), "grant_required");
    assert_eq!(refusal(&with_narrow_key(&world.owner)), "scope_missing");
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    assert_eq!([&world.member, &world.owner].map(refusal), ["grant_required", "deployment_live"]);
    environments::tests::grant(&world, &world.member, world.dev);
    assert_eq!(refusal(&world.member), "deployment_live");
    assert!(world.live("ann").is_some());
    // One that is live nowhere is deleted as before.
    delete(&world, &world.member, "bob").unwrap();
    world.set_approvals(Value::Null);
    delete(&world, &world.member, "ann").unwrap();
    world.assert_sound();
}

#[test]
fn only_an_admin_puts_a_live_agent_under_another_access() {
    let world = World::new();
    let fleet = |name: &str, access: &str| {
        json!(fleets::make(&world, json!({"name": name, "access": access})))["id"].take()
    };
    let [open, other] = ["open", "other"].map(|name| fleet(name, "organization"));
    let [shut, vault] = ["shut", "vault"].map(|name| fleet(name, "restricted"));
    for granted in [&shut, &vault] {
        fleets::grant(&world, &world.member, Id::parse(granted.as_str().unwrap()));
    }
    world.deployed(&["ann"], json!({}));
    let ben = &world.member;
    // Between fleets that every member may use nothing changes.
    for to in [&open, &other, &Value::Null] {
        move_to(&world, ben, "ann", to.clone()).unwrap();
    }
    let refused = |to: &Value| move_to(&world, ben, "ann", to.clone()).unwrap_err();
    assert_eq!((refused(&shut).kind(), refused(&shut).code()), (Kind::Forbidden, "admin_required"));
    move_to(&world, &world.owner, "ann", shut.clone()).unwrap();
    for to in [&vault, &open, &Value::Null] {
        assert_eq!(refused(to).code(), "admin_required");
    }
    // Other changes are his, and so is the move of an agent that is live nowhere.
    move_to(&world, ben, "ann", shut.clone()).unwrap();
    move_to(&world, ben, "bob", vault.clone()).unwrap();
    move_to(&world, ben, "bob", Value::Null).unwrap();
    // While a job waits for it, its move would decide about that job.
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let job = world.deploy(&["bob"], json!({})).unwrap();
    let refused = move_to(&world, ben, "bob", vault.clone()).unwrap_err();
    assert_eq!(refused.code(), "admin_required");
    approve(&world, &world.owner, &job, json!({})).unwrap();
    world.run();
    assert_eq!(world.job(&job)["state"], "complete");
    world.assert_sound();
}

// ── Who has left ─────────────────────────────────────────────────────────────

#[test]
fn the_approval_of_somebody_who_has_left_does_not_count() {
    let world = World::new();
    let (cara, dan, eve) = (person(&world, "cara"), person(&world, "dan"), person(&world, "eve"));
    let all = [&cara, &dan, &eve].map(user);
    world.set_approvals(json!({"approverIds": all, "minApprovals": 2}));
    let job = world.deploy(&["ann"], json!({})).unwrap();
    approve(&world, &cara, &job, json!({})).unwrap();
    approving::leave(&world, &cara);
    let after = approve(&world, &dan, &job, json!({})).unwrap();
    assert_eq!(after["state"], "pending_approval");
    assert!(world.tasks().is_empty());
    let shown = approving::approvals(&world, &job);
    let counted = shown.iter().filter(|one| one["decision"] == "approved");
    let counted: Vec<_> = counted.map(|one| &one["user"]["emailVerified"]).collect();
    assert_eq!(counted, [&json!(true), &json!(false)], "the newest approver first");
    assert_eq!(approve(&world, &eve, &job, json!({})).unwrap()["state"], "approved");
    let (kind, payload) = world.events().pop().unwrap();
    assert_eq!(kind, "deployment.approved");
    let by: Vec<_> = payload["approvals"].as_array().unwrap().iter().collect();
    assert!(by.iter().all(|one| one["userId"] != json!(user(&cara))), "{payload}");
    world.assert_sound();
}
