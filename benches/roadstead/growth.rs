//! Reading and writing among a million tasks, beside the same among ten thousand.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use roadstead::api::{Action, OrgSlug, Raw, Who};
use roadstead::auth::{Caller, Identity, Role, Through};
use roadstead::base::{Id, Result};
use serde_json::{Value, json};

use crate::client::load;
use crate::rounds::{self, TIME, figure, ratio};
use crate::table::{Row, Wanted};
use crate::world::{Commits, World, id};

const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;

const CONNECTIONS: usize = 16;

/// Tasks are stored so many at once: what a transaction may write.
const AT_ONCE: usize = 5_000;

/// So many different ones are read.
const READ: usize = 10_000;

/// Short, so that the few remain few while more are written.
const WRITING: Duration = Duration::from_millis(200);

/// The rows of growth.
pub fn rows(quick: bool) -> Vec<Row> {
    let most = if quick { MANY_WHEN_QUICK } else { MANY };
    let (few, many) = (World::new(Commits::Shared, 1), World::new(Commits::Shared, 1));
    let few_tasks = fill(&few, FEW);
    let many_tasks = fill(&many, most);
    let reads =
        rounds::run(&mut [&mut || load(many.address, CONNECTIONS, TIME, &many_tasks), &mut || {
            load(few.address, CONNECTIONS, TIME, &few_tasks)
        }]);
    let writes = rounds::run(&mut [
        &mut || load(many.address, CONNECTIONS, WRITING, &[many.post_task()]),
        &mut || load(few.address, CONNECTIONS, WRITING, &[few.post_task()]),
    ]);
    let row = |method, outcomes: &[Vec<_>]| Row {
        what: format!("{method} of a task among {most}, time"),
        ours: figure(&outcomes[0]),
        beside: format!("among {FEW} {}", figure(&outcomes[1])),
        ratio: ratio(&outcomes[1], &outcomes[0]),
        wanted: Wanted::AtMost(2.0),
    };
    vec![row("GET", &reads), row("POST", &writes)]
}

/// Stores `count` tasks through the operation of their route, many in a transaction. Gives requests
/// for some of them, spread over all.
fn fill(world: &World, count: usize) -> Vec<Vec<u8>> {
    let start = Instant::now();
    let create = roadstead::resources::routes()
        .into_iter()
        .find(|route| route.name == "task.create")
        .expect("tasks can be created");
    let task: Value = json!({
        "title": "Find out why the nightly import takes twice as long since Tuesday",
        "description": "It took 40 minutes before. The logs are in the bucket of the import.",
    });
    let bound = create.bind(&Raw {
        params: vec![world.team.clone()],
        query: "",
        body: task.to_string().as_bytes(),
        org: OrgSlug::Ignored,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        link_base: "",
        list: [0; 32],
    });
    let Ok(Action::Write(create)) = bound.map(|bound| bound.action) else {
        panic!("creating a task writes")
    };
    let create = Arc::new(Mutex::new(create));
    let org = world.founded.organization.id;
    let who = owner(world);
    let mut ids = Vec::new();
    while ids.len() < count {
        let (create, who) = (create.clone(), who.clone());
        let at_once = AT_ONCE.min(count - ids.len());
        let stored = world.store.write_now(org, move |tx| {
            let mut create = create.lock().expect("nobody panics holding it");
            (0..at_once).map(|_| Ok(create(tx, &who)?.body)).collect::<Result<Vec<_>>>()
        });
        ids.extend(stored.expect("tasks can be stored"));
    }
    eprintln!("  stored {count} tasks in {:.0} s", start.elapsed().as_secs_f64());
    let step = (count / READ).max(1);
    // Not one after another: neighbours lie in one page.
    let order = (0..READ).map(|nth| nth * 7919 % READ * step);
    let request = |task: &[u8]| {
        let task = id(&serde_json::from_slice(task).expect("answers are JSON"));
        world.get(&format!("/teams/{}/tasks/{task}", world.team))
    };
    order.map(|nth| request(&ids[nth])).collect()
}

/// The owner of the organization.
fn owner(world: &World) -> Who {
    let founded = &world.founded;
    let identity = Identity {
        user: founded.user.id,
        name: founded.user.name.to_string(),
        through: Through::Session(Id::NOTHING),
        expires_at: None,
    };
    Who::Caller(Arc::new(Caller {
        identity,
        org: founded.organization.id,
        org_slug: founded.organization.slug.clone(),
        role: Role::Owner,
    }))
}
