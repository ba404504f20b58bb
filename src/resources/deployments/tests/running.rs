//! Queues, steps, cancellation and what a deployment keeps from being deleted.

use super::super::job::{DeploymentJob, TargetState};
use super::super::target::DeploymentTarget;
use super::planning::tool_job;
use super::*;
use crate::base::Kind;
use crate::resources::environments as environment;

fn agents_of(world: &World, number: usize) -> Vec<String> {
    let keys: Vec<_> = (0..number).map(|n| format!("a{n}")).collect();
    keys.iter().for_each(|key| world.agent(key, json!({})));
    keys
}

#[test]
fn a_job_is_applied_in_steps_each_target_once_and_resumed_after_any_of_them() {
    let world = World::new();
    let keys = agents_of(&world, 45);
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let job = world.deploy(&keys, json!({})).unwrap();
    let mut applied = Vec::new();
    while !world.tasks().is_empty() {
        // The process may stop here: all that is left is in the store.
        world.step();
        applied.push(world.deployments().len());
        assert!(applied.len() < 20, "{applied:?}");
    }
    assert_eq!(applied, [20, 40, 45]);
    let job = world.job(&job);
    assert_eq!(job["state"], "complete");
    assert!(states(&job).iter().all(|state| *state == "applied"));
    assert_eq!(world.agent_status("a44"), "deployed");
    assert_eq!(world.event_types(), ["deployment.complete"]);
    world.assert_sound();
}

#[test]
fn an_attempt_that_lost_its_lease_changes_nothing() {
    let world = World::new();
    world.deploy(&["ann"], json!({})).unwrap();
    let task = world.tasks().remove(0);
    world.run();
    assert_eq!(world.deployments().len(), 1);
    // The runner drops what comes after its lease; here the handler is called nevertheless.
    let prepared = world.store.write_blocking(world.org, move |tx| {
        Ok(matches!((RUN.prepare)(tx, &task)?, Prepared::Done))
    });
    assert!(prepared.unwrap());
    assert_eq!(world.deployments().len(), 1);
}

#[test]
fn jobs_for_one_agent_are_applied_in_the_order_of_their_approval() {
    let world = World::new();
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    for version in ["1.1.0", "1.2.0", "1.3.0"] {
        world.prompt(version, version);
    }
    let versions = ["1.1.0", "1.2.0", "1.3.0"];
    let made = versions.map(|version| {
        let agents: &[&str] = if version == "1.2.0" { &["bob", "ann"] } else { &["ann"] };
        world.deploy(agents, json!({"version": version})).unwrap()
    });
    for n in [2, 1, 0] {
        approving::approve(&world, &world.owner, &made[n], json!({})).unwrap();
    }
    // The tasks of later jobs come first, and give up until it is their turn.
    let tasks = world.tasks();
    for task in tasks.iter().rev() {
        world.prepare(task);
    }
    world.run();
    let texts: Vec<_> = world.deployments().iter().map(|one| one.version.to_string()).collect();
    // The second job applies bob at once and waits for ann.
    assert_eq!(texts, ["1.2.0", "1.3.0", "1.2.0", "1.1.0"]);
    let live = world.live("ann").unwrap();
    assert_eq!(live.used.unwrap().version.as_str(), "1.1.0");
    for job in &made {
        assert_eq!(world.job(job)["state"], "complete");
    }
    assert!(world.tasks().is_empty());
    world.assert_sound();
}

#[test]
fn a_job_is_cancelled_by_its_creator_or_an_admin_and_its_rest_is_skipped() {
    let world = World::new();
    let keys = agents_of(&world, 30);
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let job = world.deploy_as(&world.owner, &keys, json!({})).unwrap();
    world.step();
    let cancel = |who| world.write_as(who, jobs::cancel, id(&job), ());
    assert_eq!(cancel(&world.member).unwrap_err().code(), "creator_required");
    let cancelled = json!(cancel(&world.owner).unwrap());
    assert_eq!(cancelled["state"], "cancelled");
    let count = |state| states(&cancelled).iter().filter(|one| **one == state).count();
    assert_eq!((count("applied"), count("skipped")), (20, 10));
    assert_eq!(cancel(&world.owner).unwrap_err().code(), "deployment_finished");
    world.run();
    assert_eq!(world.job(&job), cancelled);
    assert_eq!(world.deployments().len(), 20);
    world.assert_sound();
}

#[test]
fn the_next_job_in_the_queue_runs_when_the_one_before_it_is_cancelled() {
    let world = World::new();
    let first = world.deploy(&["ann"], json!({})).unwrap();
    let second = world.deploy(&["ann"], json!({})).unwrap();
    let [_, task] = <[Job; 2]>::try_from(world.tasks()).unwrap();
    world.prepare(&task);
    assert_eq!(world.tasks().len(), 1);
    world.write(jobs::cancel, id(&first), ()).unwrap();
    world.run();
    assert_eq!(world.job(&second)["state"], "complete");
    assert_eq!(world.job(&first)["state"], "cancelled");
}

#[test]
fn a_job_that_waits_for_another_one_is_approved_until_it_begins() {
    let world = World::new();
    let first = world.deploy(&["ann"], json!({})).unwrap();
    let waiting = [
        world.deploy(&["ann", "bob"], json!({})).unwrap(),
        world.deploy(&["bob", "ann"], json!({})).unwrap(),
    ];
    let [task, others @ ..] = <[Job; 3]>::try_from(world.tasks()).unwrap();
    for other in others.iter().rev() {
        world.prepare(other);
    }
    // The last one is behind the second for bob, as the second is behind the first for ann.
    for job in &waiting {
        assert_eq!(world.job(job)["state"], "approved");
    }
    world.prepare(&task);
    world.run();
    for job in [&first].into_iter().chain(&waiting) {
        assert_eq!(world.job(job)["state"], "complete");
    }
}

#[test]
fn a_job_that_waits_for_its_second_target_is_running() {
    let world = World::new();
    world.deploy(&["ann"], json!({})).unwrap();
    let second = world.deploy(&["bob", "ann"], json!({})).unwrap();
    let [_, task] = <[Job; 2]>::try_from(world.tasks()).unwrap();
    world.prepare(&task);
    let second = world.job(&second);
    assert_eq!(
        (&second["state"], states(&second)),
        (&json!("running"), vec!["applied", "waiting"])
    );
}

#[test]
fn tools_are_deployed_by_moving_the_references_of_the_environment() {
    let world = World::new();
    let [a, b] = ["a", "b"].map(|name| world.tool(name, json!({})));
    world.patch_tool(b, json!({"version": "1.2.0"})).unwrap();
    let job = tool_job(&world, json!({"toolIds": [a, b], "environment": "dev"})).unwrap();
    assert_eq!((&job["kind"], &job["promptName"]), (&json!("tools"), &Value::Null));
    assert_eq!(job["plan"]["targets"][1]["config"], json!({"name": "b", "type": "http"}));
    world.run();
    let versions = json!(environment::tests::shown(&world, world.dev))["toolVersions"].take();
    assert_eq!(versions, json!({a.to_string(): "1.0.0", b.to_string(): "1.2.0"}));
    assert_eq!(states(&world.job(&job)), ["applied", "applied"]);

    for (body, path) in [
        (json!({"toolIds": [a, a], "environment": "dev"}), "toolIds[1]"),
        (json!({"toolIds": [a, b], "environment": "dev", "version": "1.0.0"}), "version"),
    ] {
        assert_eq!(tool_job(&world, body).unwrap_err().issues()[0].path, path);
    }
    let unknown = json!({"toolIds": [a], "environment": "dev", "version": "9.0.0"});
    assert_eq!(tool_job(&world, unknown).unwrap_err().kind(), Kind::NotFound);

    // A tool stays while a job waits for it. One that earlier releases have deleted fails, the others
    // do not.
    let job = tool_job(&world, json!({"toolIds": [a, b], "environment": "dev"})).unwrap();
    let delete = |tool| world.write(delete_tool, tool, ()).map(drop);
    assert_eq!(delete(a).unwrap_err().code(), "tool_in_deployment");
    let remove = move |tx: &mut Tx| tx.remove(&tx.fetch::<tools::Tool>(&a)?);
    world.store.write_blocking(world.org, remove).unwrap();
    world.run();
    let job = world.job(&job);
    assert_eq!((&job["state"], states(&job)), (&json!("partial"), vec!["failed", "applied"]));
    assert_eq!(world.event_types().last().unwrap(), "deployment.partial");
    delete(b).unwrap();
    world.assert_sound();
}

#[test]
fn an_agent_is_not_deleted_while_a_job_waits_for_it_and_then_is_no_longer_live() {
    let world = World::new();
    world.deploy(&["ann"], json!({})).unwrap();
    let delete = |key: &str| world.write(delete_agent, key.to_string(), ()).map(drop);
    assert_eq!(delete("ann").unwrap_err().code(), "agent_in_deployment");
    delete("bob").unwrap();
    world.run();
    assert_eq!(world.agent_status("ann"), "deployed");
    delete("ann").unwrap();
    assert_eq!(world.deployments().len(), 1);
    environment::tests::remove(&world, world.dev).unwrap();
    world.assert_sound();
}

#[test]
fn what_is_live_or_pending_keeps_environment_version_and_registry() {
    let world = World::new();
    let job = world.deploy(&["ann"], json!({})).unwrap();
    let environment = || environment::tests::remove(&world, world.dev).unwrap_err();
    assert_eq!(environment().code(), "deployment_pending");
    world.run();
    assert_eq!(world.job(&job)["state"], "complete");
    assert_eq!(environment().code(), "deployment_live");
    let version = |number| artifacts::tests::delete(&world, "prompt", "hello", number);
    assert_eq!(version("1.0.0").unwrap_err().code(), "version_deployed");
    let registry = || {
        let input = "main".to_string();
        world.write_as(&world.owner, crate::resources::registries::delete, input, ()).map(drop)
    };
    assert_eq!(registry().unwrap_err().code(), "registry_deployed");

    world.prompt("1.1.0", "Other.");
    world.deployed(&["ann"], json!({}));
    version("1.0.0").unwrap();
    assert_eq!(version("1.1.0").unwrap_err().code(), "version_deployed");
    world.write(delete_agent, "ann".to_string(), ()).unwrap();
    registry().unwrap();
    world.complete_removals();
    world.assert_sound();
}

#[test]
fn a_version_that_is_deleted_while_its_job_waits_is_deployed_all_the_same() {
    let world = World::new();
    let job = world.deploy(&["ann"], json!({})).unwrap();
    world.prompt("1.1.0", "Other.");
    artifacts::tests::delete(&world, "prompt", "hello", "1.0.0").unwrap();
    world.run();
    assert_eq!(world.job(&job)["state"], "complete");
    assert_eq!(world.live("ann").unwrap().used, None);
    let slug = "main".to_string();
    let registry = world.write_as(&world.owner, crate::resources::registries::delete, slug, ());
    assert_eq!(registry.map(drop).unwrap_err().code(), "registry_deployed");
    world.assert_sound();
}

#[test]
fn a_waiting_target_is_of_an_unfinished_job_alone() {
    let world = World::new();
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let denied = world.deploy(&["ann"], json!({})).unwrap();
    approving::deny(&world, &world.owner, &denied, json!({})).unwrap();
    let waiting = |world: &World| {
        let all: Vec<DeploymentTarget> =
            world.store.read_now(world.org, |view| view.all(ListSource::TABLE, &())).unwrap();
        all.iter().filter(|target| target.state == TargetState::Waiting).count()
    };
    assert_eq!(waiting(&world), 0);
    world.write(delete_agent, "ann".to_string(), ()).unwrap();
}

#[test]
fn a_tool_that_is_defined_anew_under_its_version_is_not_what_was_approved() {
    let world = World::new();
    let tool = world.tool("t", json!({"url": "https://good.test"}));
    let make = || tool_job(&world, json!({"toolIds": [tool], "environment": "dev"})).unwrap();
    let first = make();
    let patch = json!({"providerConfig": {"url": "https://other.test"}});
    // Earlier releases let a version be changed that was planned.
    tools::tests::patch(&world, tool, patch).unwrap();
    world.run();
    let first = world.job(&first);
    assert_eq!((&first["state"], states(&first)), (&json!("error"), vec!["failed"]));
    let second = make();
    assert_ne!(first["planHash"], second["planHash"]);
    world.run();
    assert_eq!(world.job(&second)["state"], "complete");
    world.assert_sound();
}

/// Returns what the check finds wrong.
fn stuck(world: &World) -> Vec<String> {
    use crate::store::View;
    let find = |view: &View| {
        let mut findings = crate::store::check::Findings::default();
        super::super::running::check(view, &mut findings)?;
        Ok(findings.messages)
    };
    world.store.read_now(world.org, find).unwrap()
}

fn mend(world: &World) -> Option<String> {
    world.store.write_blocking(world.org, super::super::running::mend).unwrap()
}

#[test]
fn a_deployment_whose_row_of_the_outbox_was_lost_is_found_and_runs_after_a_repair() {
    let world = World::new();
    let jobs = [(), ()].map(|()| world.deploy(&["ann"], json!({})).unwrap());
    let [lost, other] = <[Job; 2]>::try_from(world.tasks()).unwrap();
    world.prepare(&other);
    assert_eq!(stuck(&world), Vec::<String>::new());
    world.store.write_blocking(world.org, move |tx| tx.remove(&lost)).unwrap();
    world.run();
    assert_eq!(world.deployments().len(), 0, "the second waits for the first");
    let first = jobs[0]["id"].as_str().unwrap();
    assert_eq!(stuck(&world), [format!("deployment {first}: nothing runs it any more")]);
    assert_eq!(mend(&world), Some("nothing runs it any more".into()));
    assert_eq!(mend(&world), None);
    world.run();
    for job in jobs {
        assert_eq!(world.job(&job)["state"], "complete");
    }
    world.assert_sound();
}

#[test]
fn a_deployment_behind_one_that_was_lost_is_found_and_runs_after_a_repair() {
    let world = World::new();
    let jobs = [(), ()].map(|()| world.deploy(&["ann", "bob"], json!({})).unwrap());
    for task in world.tasks().iter().rev() {
        world.prepare(task);
        if world.tasks().len() == 1 {
            break;
        }
    }
    let (lost, row) = (id::<DeploymentJob>(&jobs[0]), world.tasks().remove(0));
    let lose = move |tx: &mut Tx| {
        tx.remove(&row)?;
        let job: DeploymentJob = tx.fetch(&lost)?;
        tx.remove(&job)
    };
    world.store.write_blocking(world.org, lose).unwrap();
    let second = jobs[1]["id"].as_str().unwrap();
    assert_eq!(stuck(&world), [format!("deployment {second}: nothing runs it any more")]);
    assert!(mend(&world).is_some());
    assert_eq!(mend(&world), None);
    world.run();
    assert_eq!(world.job(&jobs[1])["state"], "complete");
    world.assert_sound();
}
