//! Posting manifests to the endpoint of a provider.

use super::*;
use crate::api::audit::AuditEntry;
use crate::base::Kind;
use crate::outside::webhook;
use crate::resources::environments::{credential_tests, secret_tests, variable_tests};

const URL: &str = "https://provider.test/deploy";
const KEY: &str = "provider-key";

fn world() -> World {
    let world = World::new();
    let credential = json!({"apiKey": KEY, "endpoint": URL});
    credential_tests::put(&world, world.dev, "p", credential).unwrap();
    world
}

fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    &call.headers.iter().find(|(known, _)| known == name).unwrap().1
}

fn failed() -> EffectResult {
    EffectResult::Failed("provider.test cannot be connected to".into())
}

#[test]
fn a_manifest_is_the_deployment_signed_and_recorded_once_it_is_accepted() {
    let world = world();
    variable_tests::put(&world, world.dev, "TOKEN", "t0ken").unwrap();
    let config = json!({"p": {"auth": "Bearer ${TOKEN}", "n": 1, "deep": [["${TOKEN}"]]}});
    let tool = world.tool("t", config.clone());
    let more = json!({"toolRefs": [{"toolId": tool}]});
    let job = world.deploy(&["ann"], more).unwrap();
    let (task, call) = world.step().remove(0);
    assert_eq!((call.url.as_str(), world.deployments().len()), (URL, 0));
    let now = world.store.clock().now();
    let signed =
        webhook::signed(KEY.as_bytes(), header(&call, "webhook-id"), now.secs(), &call.body);
    assert_eq!(call.headers[..3], signed);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body["type"], "deployment");
    let filled = json!({"p": {"auth": "Bearer t0ken", "n": 1, "deep": [["t0ken"]]}});
    assert_eq!(body["data"]["tools"][0]["providerConfig"], filled);

    world.settle(&task, answer(204));
    world.run();
    let deployment = world.deployments().remove(0);
    assert_eq!(header(&call, "webhook-id"), deployment.id.to_string());
    let shown = read(&world, &world.member, super::super::history::get, deployment.id, json!({}));
    let mut shown = json!(shown.unwrap());
    assert_eq!(shown["tools"][0]["providerConfig"], config);
    shown["tools"][0]["providerConfig"] = filled;
    assert_eq!(shown, body["data"]);
    assert_eq!(world.job(&job)["state"], "complete");
    world.assert_sound();
}

#[test]
fn a_target_fails_after_three_tries_with_one_id() {
    let world = world();
    let job = world.deploy(&["ann", "bob"], json!({})).unwrap();
    let mut ids = Vec::new();
    for (n, result) in [answer(500), failed(), failed()].into_iter().enumerate() {
        let (task, call) = world.step().remove(0);
        ids.push(header(&call, "webhook-id").to_string());
        world.settle(&task, result);
        assert_eq!(world.stored(&job).next, u32::from(n == 2));
        world.fixture.pass_secs(5);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let (task, call) = world.step().remove(0);
    assert_ne!(header(&call, "webhook-id"), ids[0]);
    world.settle(&task, answer(200));
    world.run();
    let job = world.job(&job);
    assert_eq!((&job["state"], states(&job)), (&json!("partial"), vec!["failed", "applied"]));
    assert_eq!(job["targets"][0]["error"], "provider.test cannot be connected to");
    let expected = ["agent.error", "environment.inaccessible", "deployment.partial"];
    assert_eq!(world.event_types(), expected);
    assert_eq!(world.deployments().len(), 1);
    world.assert_sound();
}

/// The server is stopped between any two steps: what was posted is posted again with the same id,
/// and recorded once.
#[test]
fn a_crash_between_post_and_record_repeats_the_same_message() {
    let world = world();
    let job = world.deploy(&["ann"], json!({})).unwrap();
    let first = world.step().remove(0);
    // The lease ends; the answer to the first call comes too late.
    world.fixture.pass_secs(60);
    let second = world.step().remove(0);
    assert_eq!(header(&first.1, "webhook-id"), header(&second.1, "webhook-id"));
    assert_eq!(first.1.body, second.1.body);
    world.settle(&second.0, answer(200));
    world.run();
    assert_eq!(world.deployments().len(), 1);
    assert_eq!(world.job(&job)["state"], "complete");

    // After the third try nobody knows.
    let job = world.deploy(&["ann"], json!({})).unwrap();
    for _ in 0..3 {
        assert_eq!(world.step().len(), 1);
        world.fixture.pass_secs(60);
    }
    world.run();
    let job = world.job(&job);
    assert_eq!((&job["state"], states(&job)), (&json!("error"), vec!["failed"]));
    world.assert_sound();
}

#[test]
fn a_target_that_is_being_posted_is_not_skipped_by_cancelling() {
    for (result, state) in [(answer(200), "applied"), (failed(), "failed")] {
        let world = world();
        let job = world.deploy(&["ann", "bob"], json!({})).unwrap();
        let (task, _) = world.step().remove(0);
        world.write(jobs::cancel, id(&job), ()).unwrap();
        // The answer may still come.
        let environment = environments::tests::remove(&world, world.dev).unwrap_err();
        assert_eq!(environment.code(), "deployment_pending");
        let agent = world.write(delete_agent, "ann".to_string(), ()).map(drop).unwrap_err();
        assert_eq!(agent.code(), "agent_in_deployment");
        world.settle(&task, result);
        world.run();
        let job = world.job(&job);
        assert_eq!((&job["state"], states(&job)), (&json!("cancelled"), vec![state, "skipped"]));
        assert!(world.tasks().is_empty());
        world.assert_sound();
    }
}

#[test]
fn a_job_for_an_agent_that_is_being_posted_waits() {
    let world = world();
    world.deploy(&["ann"], json!({})).unwrap();
    let (task, _) = world.step().remove(0);
    let second = world.deploy(&["ann"], json!({})).unwrap();
    assert!(world.step().is_empty());
    world.settle(&task, answer(200));
    let posts = world.step();
    assert_eq!(posts.len(), 1);
    world.settle(&posts[0].0, answer(200));
    world.run();
    assert_eq!(world.job(&second)["state"], "complete");
    assert_eq!(world.deployments().len(), 2);
}

#[test]
fn a_tool_that_names_an_unknown_value_is_not_posted() {
    let world = world();
    let tool = world.tool("t", json!({"p": "${NOWHERE}"}));
    let job = world.deploy(&["ann"], json!({"toolRefs": [{"toolId": tool}]})).unwrap();
    world.run();
    let job = world.job(&job);
    assert_eq!(job["state"], "error");
    assert!(job["targets"][0]["error"].as_str().unwrap().contains("NOWHERE"), "{job}");
}

#[test]
fn a_deployment_that_could_not_be_signed_is_refused_before_anybody_approves_it() {
    let world = World::new();
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let unsigned = || credential_tests::put(&world, world.dev, "p", json!({"endpoint": URL}));
    unsigned().unwrap();
    let preview = || {
        let input = Fixture::input(world.body(&["ann"], json!({})))?;
        world.read(super::super::changes::preview, (), input).map(drop)
    };
    let refusals = || [preview().unwrap_err(), world.deploy(&["ann"], json!({})).unwrap_err()];
    for refusal in refusals() {
        assert_eq!(refusal.code(), "signing_key_missing");
    }
    credential_tests::put(&world, world.dev, "p", json!({"endpoint": URL, "apiKey": KEY})).unwrap();
    preview().unwrap();
    let job = world.deploy(&["ann"], json!({})).unwrap();
    credential_tests::damage(&world, world.dev, "p");
    for refusal in refusals() {
        assert_eq!(refusal.code(), "signing_key_unreadable");
    }
    // The key may go while a job waits: then it is not approved any more.
    credential_tests::put(&world, world.dev, "p", json!({})).unwrap();
    unsigned().unwrap();
    let refused = approving::approve(&world, &world.owner, &job, json!({})).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "deployment_outdated"));
    assert!(world.job(&job)["obstacle"].as_str().unwrap().contains("credential"));
}

#[test]
fn what_cannot_be_decrypted_fails_the_target_at_once() {
    let world = world();
    secret_tests::put(&world, world.dev, "TOKEN", "t0ken").unwrap();
    let tool = world.tool("t", json!({"p": "${TOKEN}"}));
    let with_tool = json!({"toolRefs": [{"toolId": tool}]});
    let fails = |damage: &dyn Fn(), agents: &[&str], more: Value| {
        let job = world.deploy(agents, more).unwrap();
        damage();
        world.run();
        let job = world.job(&job);
        assert_eq!(job["state"], "error");
        job["targets"][0]["error"].as_str().unwrap().to_string()
    };
    let error = fails(&|| secret_tests::damage(&world, world.dev, "TOKEN"), &["ann"], with_tool);
    assert_eq!(error, "the secret TOKEN of the environment cannot be decrypted; set it again");
    let error = fails(&|| credential_tests::damage(&world, world.dev, "p"), &["ann"], json!({}));
    let expected = "the apiKey of the environment's credential for the provider \"p\" cannot be \
                    decrypted; set it again";
    assert_eq!(error, expected);
    assert!(world.tasks().is_empty());
    let told = ["agent.error", "deployment.error"];
    assert_eq!(world.event_types(), [told, told].concat());
}

#[test]
fn other_providers_are_pulled() {
    let world = world();
    assert_eq!(world.deployed(&["ann"], json!({"provider": "q"}))["state"], "complete");
}

#[test]
fn a_cancelled_job_is_not_rolled_back_while_a_target_is_being_posted() {
    let world = world();
    let settle = |posts: Vec<(Job, Call)>| world.settle(&posts[0].0, answer(200));
    world.deploy(&["ann"], json!({})).unwrap();
    settle(world.step());
    world.run();
    let job = world.deploy(&["ann"], json!({})).unwrap();
    let posted = world.step();
    world.write(jobs::cancel, id(&job), ()).unwrap();
    let roll_back = || {
        let body = Fixture::input(json!({"force": true})).unwrap();
        world.write(super::super::rollback::roll_back, id(&job), body).map(drop)
    };
    assert_eq!(roll_back().unwrap_err().code(), "deployment_unfinished");
    settle(posted);
    world.run();
    roll_back().unwrap();
}

#[test]
fn each_try_audits_the_use_of_the_credential_and_of_each_secret() {
    let world = world();
    secret_tests::put(&world, world.dev, "TOKEN", "t0ken").unwrap();
    secret_tests::put(&world, world.dev, "UNUSED", "x").unwrap();
    let tool = world.tool("t", json!({"p": "${TOKEN}"}));
    let used = || -> Vec<(String, String)> {
        let entries: Vec<AuditEntry> =
            world.store.read_now(world.org, |view| view.all(ListSource::TABLE, &())).unwrap();
        let used = entries.into_iter().filter(|entry| entry.action.as_str().ends_with(".use"));
        used.map(|entry| (entry.action.to_string(), entry.resource_id.unwrap())).collect()
    };
    world.deploy(&["ann"], json!({"toolRefs": [{"toolId": tool}]})).unwrap();
    // Creating a job checks that the key can be decrypted, which uses it for nothing.
    assert!(used().is_empty());
    let each = [("provider_credential.use", "p"), ("environment_secret.use", "TOKEN")];
    for (tries, result) in [failed(), answer(500), answer(200)].into_iter().enumerate() {
        let (task, _) = world.step().remove(0);
        let known: Vec<_> = used();
        let known: Vec<_> = known.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(known, each.repeat(tries + 1));
        world.settle(&task, result);
        world.fixture.pass_secs(5);
    }
    world.run();
    assert_eq!(world.deployments().len(), 1);
}
