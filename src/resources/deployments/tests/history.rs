//! History, redeploying, what is live, and the heatmap.

use super::super::{changes, deployed, history, rollback};
use super::*;
use crate::auth::{Access, Restricted};
use crate::base::Kind;
use crate::resources::fleets;
use crate::resources::registries::Registry;

fn listed(world: &World, query: Value) -> Vec<Value> {
    let page = read(world, &world.member, history::list, (), query).unwrap();
    page.items.into_iter().map(|one| json!(one)).collect()
}

fn ids(rows: &[Value]) -> Vec<Value> {
    rows.iter().map(|row| row["id"].clone()).collect()
}

fn of_agent(world: &World, key: &str, query: Value) -> Vec<Value> {
    let page = read(world, &world.member, history::of_agent, key.to_string(), query).unwrap();
    page.items.into_iter().map(|one| json!(one)).collect()
}

#[test]
fn every_job_adds_a_record_and_the_newest_is_live() {
    let world = World::new();
    for _ in 0..3 {
        world.deployed(&["ann", "bob"], json!({}));
        world.fixture.pass_secs(60);
    }
    let rows = of_agent(&world, "ann", json!({}));
    let live: Vec<_> = rows.iter().map(|row| row["live"].as_bool().unwrap()).collect();
    assert_eq!(live, [true, false, false]);
    assert!(rows[0]["deployedAt"].as_str() > rows[2]["deployedAt"].as_str());
    assert_eq!(of_agent(&world, "ann", json!({"environment": "dev"})), rows);
    assert!(of_agent(&world, "ann", json!({"environment": "none"})).is_empty());

    assert_eq!(listed(&world, json!({})).len(), 6);
    assert_eq!(listed(&world, json!({"stableKey": "ann"})), rows);
    let id = world.dev.to_string();
    assert_eq!(listed(&world, json!({"stableKey": "ann", "environment": id})), rows);
    assert_eq!(listed(&world, json!({"environment": "dev"})).len(), 6);
    assert!(listed(&world, json!({"stableKey": "nobody"})).is_empty());
    let between = json!({
        "from": "2026-01-15T12:01:00Z", "to": "2026-01-15T12:02:00Z", "stableKey": "ann",
    });
    assert_eq!(ids(&listed(&world, between)), ids(&rows[1..2]));
}

#[test]
fn a_list_is_walked_page_by_page() {
    let world = World::new();
    for n in 0..5 {
        // Some at the same time.
        world.fixture.pass_secs(n % 2);
        world.deployed(&["ann"], json!({}));
    }
    let all = ids(&listed(&world, json!({})));
    let (mut after, mut walked) = (None, Vec::new());
    loop {
        let mut args = args((), Fixture::input(json!({"environment": "dev"})).unwrap());
        (args.page.limit, args.page.after) = (2, after);
        let list = |view: &crate::store::View| history::list(view, &Req::new(&args, &world.member));
        let page = world.store.read_now(world.org, list).unwrap();
        walked.extend(page.items.iter().map(|one| json!(one.id)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(walked, all);
}

#[test]
fn an_earlier_deployment_is_deployed_again_as_it_was() {
    let world = World::new();
    let tool = world.tool("t", json!({"a": 1}));
    world.deployed(&["ann"], json!({"toolRefs": [{"toolId": tool}], "model": "m"}));
    world.prompt("1.1.0", "Other.");
    let other = json!({"providerConfig": {"a": 2}, "bumpVersion": "patch"});
    world.patch_tool(tool, other).unwrap();
    world.deployed(&["ann"], json!({}));
    let rows = of_agent(&world, "ann", json!({}));
    let old = &rows[1];
    let redeploy = |key: &str| {
        let made = world.write(history::redeploy, (key.to_string(), id(old)), ());
        made.map(|job| json!(job))
    };
    assert_eq!(redeploy("bob").unwrap_err().kind(), Kind::NotFound);
    let job = redeploy("ann").unwrap();
    assert_eq!((&job["version"], &job["model"]), (&json!("1.0.0"), &json!("m")));
    world.run();
    let again = of_agent(&world, "ann", json!({})).remove(0);
    for field in ["compiled", "config", "tools", "hash", "version", "model"] {
        assert_eq!(again[field], old[field], "{field}");
    }
    assert!(again["live"] == true && again["jobId"] == job["id"]);
    world.assert_sound();
}

#[test]
fn what_is_live_is_found_by_agent_and_environment() {
    let world = World::new();
    let get = |query: Value| {
        read(&world, &world.member, deployed::get, "ann".to_string(), query).map(|one| json!(one))
    };
    let look = |query: Value| read(&world, &world.member, deployed::look, "ann".to_string(), query);
    let dev = json!({"environment": "dev"});
    for none in [json!({"environment": "none"}), dev.clone()] {
        assert_eq!(get(none).unwrap_err().kind(), Kind::NotFound);
    }
    world.deployed(&["ann"], json!({}));
    let first = look(dev.clone()).unwrap();
    assert_eq!(get(dev.clone()).unwrap(), of_agent(&world, "ann", json!({}))[0]);
    world.deployed(&["ann"], json!({}));
    let second = look(dev.clone()).unwrap();
    assert!(first.topic == second.topic && first.version != second.version);
    environments::tests::patch(&world, world.dev, json!({"access": "restricted"}));
    assert_eq!(get(dev).unwrap_err().code(), "grant_required");
    assert!(of_agent(&world, "ann", json!({})).is_empty());
}

#[test]
fn the_heatmap_counts_jobs_by_their_day_and_present_state() {
    let world = World::new();
    let other = json!({"slug": "prod", "name": "P", "access": "restricted"});
    environments::tests::make(&world, other).unwrap();
    world.deployed(&["ann"], json!({}));
    world.fixture.pass_secs(24 * 3600);
    let cancelled = world.deploy(&["ann"], json!({})).unwrap();
    world.write(jobs::cancel, id(&cancelled), ()).unwrap();
    world.deploy_as(&world.owner, &["ann"], json!({"environment": "prod"})).unwrap();
    let show = |who: &Principal, query: Value| {
        let page = read(&world, who, history::heatmap, (), query).unwrap();
        json!(page.items)
    };
    let first = json!({"date": "2026-01-15", "counts": {"complete": 1}});
    let second = json!({"date": "2026-01-16", "counts": {"approved": 1, "cancelled": 1}});
    // The newest day first.
    assert_eq!(show(&world.owner, json!({})), json!([second, first]));
    // Others do not see the jobs of an environment that they may not use.
    let visible = json!({"date": "2026-01-16", "counts": {"cancelled": 1}});
    assert_eq!(show(&world.member, json!({})), json!([visible, first]));
    let to = json!({"to": "2026-01-16T00:00:00Z"});
    assert_eq!(show(&world.owner, to), json!([first]));
    let from = json!({"from": "2026-01-16T00:00:00Z"});
    assert_eq!(show(&world.owner, from), json!([second]));
    let year = json!({"to": "2027-01-16T00:00:00Z"});
    assert_eq!(show(&world.owner, year), json!([second]));
    let long = json!({"from": "1999-01-01T00:00:00Z"});
    let refused = read(&world, &world.owner, history::heatmap, (), long).unwrap_err();
    assert_eq!(refused.issues()[0].path, "from");
    world.assert_sound();
}

/// The heatmap is the list of jobs, counted: for each of these callers, whatever they may not use.
#[test]
fn the_heatmap_counts_exactly_the_jobs_that_are_listed() {
    let world = World::new();
    let environment = |slug: &str, access: &str| {
        let body = json!({"slug": slug, "name": slug, "access": access});
        environments::tests::make(&world, body).unwrap().id
    };
    let shut = environment("shut", "restricted");
    let gone = environment("gone", "restricted");
    let was_open = environment("was-open", "organization");
    let vault = artifacts::tests::registry(&world, "vault");
    let mut version = artifacts::tests::version("prompt", "hello", "1.0.0", "Hello.");
    version["registryRef"] = json!("acme/vault");
    artifacts::tests::publish(&world, version).unwrap();
    let restrict = move |tx: &mut Tx| {
        tx.put(&Restricted::new(Registry { access: Access::Restricted, ..vault.clone() }))
    };
    world.store.write_blocking(world.org, restrict).unwrap();
    let fleet = |name: &str| {
        let body = json!({"name": name, "access": "restricted"});
        fleets::tests::make(&world, body).id
    };
    let (fleet, other) = (fleet("f"), fleet("o"));
    for (agent, fleet) in [("cat", fleet), ("dog", fleet), ("eel", other)] {
        world.agent(agent, json!({}));
        let patch = json!({"fleetId": fleet});
        agents::tests::patch_as(&world, &world.owner, agent, patch).unwrap();
    }
    world.agent("fox", json!({}));
    let vault = json!({"registryRef": "acme/vault"});
    for (agents, more) in [
        (&["ann", "bob"][..], json!({})),
        (&["ann", "bob"], json!({})),
        (&["ann"], json!({"environment": "shut"})),
        (&["ann"], vault.clone()),
        (&["cat"], vault),
        (&["cat", "ann"], json!({})),
        (&["cat", "dog", "eel"], json!({})),
        (&["cat"], json!({"environment": "shut"})),
        (&["eel"], json!({})),
        (&["fox"], json!({})),
    ] {
        world.deploy_as(&world.owner.clone(), agents, more).unwrap();
        world.fixture.pass_secs(8 * 3600);
    }
    for at in ["gone", "was-open"] {
        let job = world.deploy_as(&world.owner.clone(), &["ann"], json!({"environment": at}));
        let job = job.unwrap();
        world.write_as(&world.owner, jobs::cancel, id(&job), ()).unwrap();
    }
    world.run();
    let check = |who: &Principal| {
        let listed = read(&world, who, jobs::list, (), json!({})).unwrap().items;
        let mut expected = std::collections::BTreeMap::<(String, String), u64>::new();
        for job in &listed {
            let job = json!(job);
            let date = job["createdAt"].as_str().unwrap()[..10].to_string();
            let state = job["state"].as_str().unwrap().to_string();
            *expected.entry((date, state)).or_default() += 1;
        }
        let shown = read(&world, who, history::heatmap, (), json!({})).unwrap().items;
        let mut counted = std::collections::BTreeMap::new();
        for day in &shown {
            let day = json!(day);
            for (state, count) in day["counts"].as_object().unwrap() {
                let at = (day["date"].as_str().unwrap().to_string(), state.clone());
                counted.insert(at, count.as_u64().unwrap());
            }
        }
        assert_eq!(counted, expected);
        listed.len()
    };
    assert_eq!([&world.owner, &world.member].map(check), [12, 4]);
    fleets::tests::grant(&world, &world.member, fleet);
    assert_eq!(check(&world.member), 5);
    environments::tests::grant(&world, &world.member, shut);
    assert_eq!(check(&world.member), 7);
    // What was restricted stays hidden after its deletion, and what was open stays visible.
    for (environment, seen) in [(gone, 7), (was_open, 7)] {
        environments::tests::remove(&world, environment).unwrap();
        assert_eq!(check(&world.member), seen);
    }
    let delete = |key: &str| {
        world.write_as(&world.owner, delete_agent, key.to_string(), ()).map(drop).unwrap();
    };
    delete("fox");
    assert_eq!(check(&world.member), 7);
    delete("eel");
    assert_eq!([&world.owner, &world.member].map(check), [12, 7]);
    world.assert_sound();
}

#[test]
fn deployments_that_the_caller_may_not_see_end_no_page() {
    let world = World::new();
    let closed = json!({"slug": "closed", "name": "C", "access": "restricted"});
    environments::tests::make(&world, closed).unwrap();
    world.deploy_as(&world.owner, &["ann"], json!({"environment": "closed"})).unwrap();
    world.run();
    world.deployed(&["ann"], json!({}));
    let mut args = args((), Fixture::input(json!({"stableKey": "ann"})).unwrap());
    args.page.limit = 1;
    let list = |view: &crate::store::View| history::list(view, &Req::new(&args, &world.member));
    let page = world.store.read_now(world.org, list).unwrap();
    assert_eq!((page.items.len(), page.next), (1, None));
}

#[test]
fn a_rollback_is_applied_in_one_transaction_unless_other_jobs_are_before_it() {
    let world = World::new();
    let keys: Vec<_> = (0..45).map(|n| format!("a{n}")).collect();
    keys.iter().for_each(|key| world.agent(key, json!({})));
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    world.deployed(&keys, json!({}));
    world.prompt("1.1.0", "Other.");
    let job = world.deployed(&keys, json!({}));
    // A job for one of the agents is before it.
    world.deploy(&["a44"], json!({})).unwrap();
    let roll_back = |force: bool| {
        let body = Fixture::input(json!({"force": force})).unwrap();
        world.write(rollback::roll_back, id(&job), body).map(|job| json!(job))
    };
    let back = roll_back(false).unwrap();
    let [first, second] = <[Job; 2]>::try_from(world.tasks()).unwrap();
    world.prepare(&second);
    assert_eq!(states(&world.job(&back))[0], "waiting");
    world.prepare(&first);
    assert_eq!(world.deployments().len(), 91);
    world.step();
    assert_eq!(world.deployments().len(), 136);
    world.run();
    assert_eq!(world.job(&back)["state"], "complete");
    assert!(world.deployments()[91..].iter().all(|one| one.version.as_str() == "1.0.0"));
    let refused = roll_back(false).unwrap_err();
    assert_eq!(refused.code(), "deployed_since");
    assert!(refused.message().contains("a0, a1"));
    roll_back(true).unwrap();
    world.run();
    world.assert_sound();
}

#[test]
fn tools_are_rolled_back_to_the_versions_that_were_in_use() {
    let world = World::new();
    let [a, b] = ["a", "b"].map(|name| {
        let tool = world.tool(name, json!({}));
        world.patch_tool(tool, json!({"version": "2.0.0"})).unwrap();
        tool
    });
    let deploy = |tools: Value, more: Value| {
        let mut body = json!({"toolIds": tools, "environment": "dev"});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        let job = planning::tool_job(&world, body).unwrap();
        world.run();
        world.job(&job)
    };
    let used = || json!(environments::tests::shown(&world, world.dev))["toolVersions"].take();
    let at = |of_a: &str, of_b: &str| json!({a.to_string(): of_a, b.to_string(): of_b});
    let roll_back = |job: &Value, force: bool| {
        let body = Fixture::input(json!({"force": force})).unwrap();
        let back = world.write(rollback::roll_back, id(job), body).map(|job| json!(job));
        world.run();
        back
    };
    let one = deploy(json!([a]), json!({"version": "1.0.0"}));
    assert_eq!((&one["version"], &one["state"]), (&json!("1.0.0"), &json!("complete")));
    deploy(json!([b]), json!({"version": "1.0.0"}));
    let both = deploy(json!([a, b]), json!({}));
    assert_eq!(used(), at("2.0.0", "2.0.0"));

    let first = roll_back(&one, true).unwrap_err();
    assert_eq!(first.code(), "nothing_before");
    assert!(first.message().ends_with(": a"), "{}", first.message());
    let back = roll_back(&both, false).unwrap();
    assert_eq!((&back["kind"], &back["version"]), (&json!("tools"), &json!("1.0.0")));
    assert_eq!(used(), at("1.0.0", "1.0.0"));
    let moved = roll_back(&both, false).unwrap_err();
    assert_eq!(moved.code(), "deployed_since");
    assert!(moved.message().ends_with(": a, b"), "{}", moved.message());
    roll_back(&both, true).unwrap();
    assert_eq!(used(), at("1.0.0", "1.0.0"));

    // Under the approvals of the environment.
    let again = deploy(json!([a, b]), json!({}));
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    assert_eq!(roll_back(&again, false).unwrap()["state"], "pending_approval");
    // With approvals, the environment keeps its tools.
    world.set_approvals(Value::Null);
    tools::tests::delete(&world, a);
    let deleted = roll_back(&again, true).unwrap_err();
    assert_eq!(deleted.code(), "target_deleted");
    world.assert_sound();
}

#[test]
fn a_rollback_names_each_agent_that_cannot_be_brought_back() {
    let world = World::new();
    world.agent("cat", json!({}));
    let empty = world.deploy(&["ann"], json!({})).unwrap();
    let roll_back = |job: &Value, force: bool| {
        let body = Fixture::input(json!({"force": force})).unwrap();
        let back = world.write_as(&world.owner, rollback::roll_back, id(job), body);
        back.map(|job| json!(job))
    };
    assert_eq!(roll_back(&empty, true).unwrap_err().code(), "deployment_unfinished");
    world.write(jobs::cancel, id(&empty), ()).unwrap();
    assert_eq!(roll_back(&empty, true).unwrap_err().code(), "nothing_deployed");

    world.deployed(&["ann", "cat"], json!({}));
    let job = world.deployed(&["ann", "bob", "cat"], json!({}));
    let refused = |force, code: &str, named: &str| {
        let error = roll_back(&job, force).unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Conflict, code));
        assert!(error.message().ends_with(named), "{}", error.message());
    };
    refused(true, "nothing_before", ": bob");
    world.write(delete_agent, "cat".to_string(), ()).unwrap();
    refused(true, "target_deleted", ": cat");
    world.deployed(&["ann"], json!({}));
    refused(false, "target_deleted", ": cat");
    world.assert_sound();
}

#[test]
fn a_preview_shows_what_would_change_and_has_no_effect() {
    let world = World::new();
    world.deployed(&["ann"], json!({}));
    world.prompt("1.1.0", "Bye.");
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let body = world.body(&["ann", "bob"], json!({"model": "m"}));
    let preview = json!(read(&world, &world.member, changes::preview, (), body).unwrap());
    let [ann, bob] = [0, 1].map(|n| preview["targets"][n].clone());
    assert_eq!(ann["live"]["version"], "1.0.0");
    let diff = "--- 1.0.0\n+++ 1.1.0\n@@ -1 +1 @@\n-Hello.\n\\ No newline at end of file\n+Bye.\n\\ No \
                newline at end of file\n";
    assert_eq!(ann["diff"], diff);
    let paths = |target: &Value| -> Vec<String> {
        let changes = target["changes"].as_array().unwrap().iter();
        changes.map(|change| change["path"].as_str().unwrap().into()).collect()
    };
    assert_eq!(paths(&ann), ["promptVersion", "model"]);
    assert_eq!(bob["live"], Value::Null);
    assert!(bob["diff"].as_str().unwrap().starts_with("--- nothing\n+++ 1.1.0\n"));
    let job = world.deploy(&["ann", "bob"], json!({"model": "m"})).unwrap();
    assert_eq!((&preview["plan"], &preview["planHash"]), (&job["plan"], &job["planHash"]));
    assert_eq!(world.deployments().len(), 1);
}
