//! Deploying again: rollbacks and redeployments of what has lost something since.

use super::super::{changes, history, rollback};
use super::*;
use crate::auth::{Access, Restricted};
use crate::base::Kind;
use crate::resources::registries::Registry;

fn roll_back(world: &World, job: &Value) -> Result<Value> {
    let body = Fixture::input(json!({"force": true}))?;
    world.write_as(&world.owner, rollback::roll_back, id(job), body).map(|job| json!(job))
}

fn newest(world: &World, key: &str) -> Value {
    let listed = read(world, &world.owner, history::of_agent, key.to_string(), json!({}));
    json!(listed.unwrap().items.first().unwrap())
}

fn delete_registry(world: &World) -> Result<()> {
    let slug = "main".to_string();
    world.write_as(&world.owner, crate::resources::registries::delete, slug, ()).map(drop)
}

#[test]
fn a_registry_stays_while_a_deleted_version_of_it_is_live_after_a_rollback() {
    let world = World::new();
    world.deployed(&["ann"], json!({}));
    world.prompt("1.1.0", "Other.");
    let job = world.deployed(&["ann"], json!({}));
    artifacts::tests::delete(&world, "prompt", "hello", "1.0.0").unwrap();
    roll_back(&world, &job).unwrap();
    world.run();
    assert_eq!(newest(&world, "ann")["version"], "1.0.0");
    artifacts::tests::delete(&world, "prompt", "hello", "1.1.0").unwrap();
    assert_eq!(delete_registry(&world).unwrap_err().code(), "registry_deployed");
    world.write(delete_agent, "ann".to_string(), ()).unwrap();
    delete_registry(&world).unwrap();
    world.complete_removals();
    world.assert_sound();
}

#[test]
fn what_came_from_a_deleted_registry_is_deployed_again() {
    let world = World::new();
    artifacts::tests::registry(&world, "other");
    let source = json!({"registryRef": "acme/other", "artifactType": "prompt", "name": "hello",
        "version": "2.0.0", "source": "Other."});
    artifacts::tests::publish(&world, source).unwrap();
    world.deployed(&["ann"], json!({}));
    let job = world.deployed(&["ann"], json!({"registryRef": "acme/other"}));
    delete_registry(&world).unwrap();
    world.complete_removals();
    let back = roll_back(&world, &job).unwrap();
    world.run();
    assert_eq!(world.job(&back)["state"], "complete");
    world.assert_sound();
}

#[test]
fn a_deployment_is_repeated_under_approvals_without_its_version_and_its_tool() {
    let world = World::new();
    let tool = world.tool("t", json!({"a": 1}));
    world.deployed(&["ann"], json!({"toolRefs": [{"toolId": tool}]}));
    let old = newest(&world, "ann");
    artifacts::tests::delete(&world, "prompt", "hello", "1.0.0").unwrap_err();
    world.prompt("1.1.0", "Other.");
    world.deployed(&["ann"], json!({}));
    artifacts::tests::delete(&world, "prompt", "hello", "1.0.0").unwrap();
    tools::tests::delete(&world, tool);
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let job = world.write(history::redeploy, ("ann".to_string(), id(&old)), ());
    let job = json!(job.unwrap());
    assert_eq!(job["state"], "pending_approval");
    world.run();
    assert_eq!(newest(&world, "ann")["version"], "1.1.0");
    approving::approve(&world, &world.owner, &job, json!({})).unwrap();
    world.run();
    let new = newest(&world, "ann");
    for field in ["compiled", "config", "tools", "hash", "version"] {
        assert_eq!(new[field], old[field], "{field}");
    }
    world.assert_sound();
}

#[test]
fn a_rollback_does_not_bring_back_different_providers() {
    let world = World::new();
    world.deployed(&["ann"], json!({"provider": "p"}));
    world.deployed(&["bob"], json!({"provider": "q"}));
    let job = world.deployed(&["ann", "bob"], json!({}));
    let refused = roll_back(&world, &job).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "providers_differ"));
    assert_eq!(world.deployments().len(), 4);
}

#[test]
fn a_preview_hides_what_is_live_from_those_who_may_not_read_it() {
    let world = World::new();
    let vault = artifacts::tests::registry(&world, "vault");
    let source = json!({"registryRef": "acme/vault", "artifactType": "prompt", "name": "hello",
        "version": "2.0.0", "source": "Canary."});
    artifacts::tests::publish(&world, source).unwrap();
    world.deployed(&["ann"], json!({"registryRef": "acme/vault", "model": "canary-model"}));
    let closed = Restricted::new(Registry { access: Access::Restricted, ..vault });
    world.store.write_blocking(world.org, move |tx| tx.put(&closed)).unwrap();
    let shown = |who: &Principal| {
        let body = world.body(&["ann", "bob"], json!({}));
        json!(read(&world, who, changes::preview, (), body).unwrap())
    };
    let (hidden, whole) = (shown(&world.member), shown(&world.owner));
    assert_eq!(hidden["planHash"], whole["planHash"]);
    assert_eq!(hidden["targets"][1], whole["targets"][1]);
    assert_eq!(hidden["targets"][0]["live"], Value::Null);
    assert!(hidden["targets"][0]["diff"].as_str().unwrap().starts_with("--- nothing\n"));
    assert!(!hidden.to_string().to_lowercase().contains("canary"), "{hidden}");
    assert!(whole["targets"][0]["diff"].as_str().unwrap().contains("-Canary."));
}
