//! Deployments: a large one, runtimes that wait for one, previews, and what must not grow with the
//! number of deployments and agents.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use roadstead::outbox::RetentionSettings;
use roadstead::resources::deployments::{self, CountedJob, DAY_SECS, Deployment, JobState};
use roadstead::store::{Clock, ListSource};
use serde_json::{Value, json};

use crate::client::{self, Connection, load};
use crate::fixture::{Fixture, id};
use crate::registry;
use crate::rounds::{self, TIME, figure, median, ratio};
use crate::table::{Row, Target, time};

/// The most agents that one job deploys to.
const AGENTS: usize = 100;

/// Rounds of one deployment and as many publications as it has agents.
const ROUNDS: usize = 7;

const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;

/// Deployments stored per transaction: five keys each, within its limit of writes.
const AT_ONCE: usize = 2_000;

const CONNECTIONS: usize = 16;

/// Silent agents.
const SILENT: usize = 10;
const FEW_SILENT: usize = 100;
const MANY_SILENT: usize = 10_000;

/// The rows of deployments.
pub fn rows(quick: bool) -> Vec<Row> {
    let most = if quick { MANY_WHEN_QUICK } else { MANY };
    let mut rows = vec![large()];
    rows.extend(previews());
    rows.extend(history(most));
    rows.push(silence());
    rows
}

/// A server with so many agents, the registry with its prompt, and an environment.
pub fn fixture(agents: usize) -> Fixture {
    filled(Fixture::new(0), agents)
}

fn filled(fixture: Fixture, agents: usize) -> Fixture {
    registry::fill(&fixture);
    let environment = json!({"slug": "production", "name": "Production"});
    fixture.store("environment.create", &[], std::iter::once(environment), 1, drop);
    let agent = |nth| json!({"stableKey": key(nth), "name": "Agent"});
    fixture.store("agent.create", &[], (0..agents).map(agent), 1_000, drop);
    fixture
}

/// The stable key of an agent.
pub fn key(nth: usize) -> String {
    format!("agent-{nth}")
}

/// What deploys the prompt to agents.
pub fn deployment(agents: impl Iterator<Item = usize>, customer: &str) -> Value {
    json!({
        "agentIds": agents.map(key).collect::<Vec<_>>(), "promptName": registry::PROMPT,
        "version": registry::LABEL, "environment": "production", "provider": "anthropic",
        "registryRef": registry::REGISTRY,
        "agentVariables": {"PRODUCT": "Harbour", "CUSTOMER": customer},
    })
}

/// Deploys, and waits until that is complete.
fn deploy(fixture: &Fixture, agents: impl Iterator<Item = usize>, customer: &str) {
    let job = fixture.ask(&fixture.post("/agents/deployments", deployment(agents, customer)));
    let job = fixture.get(&format!("/agents/deployments/{}", id(&job)));
    while fixture.ask(&job)["state"] != "complete" {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The request of a runtime for what an agent should run.
pub fn deployed(fixture: &Fixture, nth: usize) -> String {
    let path = format!("/agents/{}/deployed?environment=production", key(nth));
    String::from_utf8(fixture.get(&path)).expect("it is text")
}

/// Makes it wait for something else than what this answer has.
pub fn waiting(request: &str, head: &[u8]) -> Vec<u8> {
    let head = String::from_utf8_lossy(head);
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("it has a tag");
    request
        .replace("environment=", "wait=60&environment=")
        .replace("host:", &format!("if-none-match: {tag}\r\nhost:"))
        .into_bytes()
}

// ── A large deployment ───────────────────────────────────────────────────────

/// A deployment to 100 agents, until its last runtime has it, against 100 publications.
fn large() -> Row {
    let fixture = fixture(AGENTS);
    deploy(&fixture, 0..AGENTS, "nobody");
    let request = deployed(&fixture, AGENTS - 1);
    let (mut deploying, mut publishing) = (Vec::new(), Vec::new());
    client::runtime().block_on(async {
        let mut runtime = Connection::open(fixture.address).await;
        let mut other = Connection::open(fixture.address).await;
        for round in 0..ROUNDS {
            let wait = waiting(&request, runtime.ask(request.as_bytes()).await.head);
            let new = deployment(0..AGENTS, &format!("customer {round}"));
            let new = fixture.post("/agents/deployments", new);
            let sent = Instant::now();
            let (_, ()) = tokio::join!(runtime.ask(&wait), async {
                other.ask(&new).await;
            });
            deploying.push(sent.elapsed().as_secs_f64());
            let versions = (0..AGENTS).map(|nth| format!("{}.{nth}.0", round + 2));
            let new: Vec<_> = versions
                .map(|version| {
                    let source = registry::source(&version);
                    registry::publish(&fixture, "prompt", "other", &version, &source)
                })
                .collect();
            let sent = Instant::now();
            for publication in &new {
                other.ask(publication).await;
            }
            publishing.push(sent.elapsed().as_secs_f64());
        }
    });
    let half = |times: &[f64]| Duration::from_secs_f64(median(times.iter().copied()));
    Row {
        name: format!("deploy to {AGENTS} agents, until the last has it"),
        ours: time(half(&deploying)),
        baseline: format!("{AGENTS} publications {}", time(half(&publishing))),
        ratio: median(deploying.iter().zip(&publishing).map(|(one, other)| one / other)),
        target: Target::AtMost(1.0),
    }
}

// ── Previews ─────────────────────────────────────────────────────────────────

/// Previews, with something live to compare with, against rendering the same text.
fn previews() -> Vec<Row> {
    let fixture = fixture(AGENTS);
    deploy(&fixture, 0..AGENTS, "nobody");
    let variables = json!({"PRODUCT": "Harbour", "CUSTOMER": "somebody"});
    let rendering = json!({
        "registryRef": registry::REGISTRY, "version": registry::LABEL, "variables": variables,
    });
    let render = fixture.post(&format!("/prompts/{}/render", registry::PROMPT), rendering);
    let preview = |agents| {
        let new = deployment(0..agents, "somebody");
        fixture.post("/agents/deployments/preview", new)
    };
    let requests = [render, preview(1), preview(AGENTS)];
    let [mut render, mut one, mut all] = requests
        .each_ref()
        .map(|request| || load(fixture.address, CONNECTIONS, TIME, std::slice::from_ref(request)));
    let outcomes = rounds::run(&mut [&mut render, &mut one, &mut all]);
    let [render, one, all] = [0, 1, 2].map(|side| &outcomes[side]);
    vec![
        Row {
            name: "previews for an agent".into(),
            ours: figure(one),
            baseline: format!("renderings {}", figure(render)),
            ratio: ratio(one, render),
            target: Target::AtLeast(0.25),
        },
        Row {
            name: format!("previews for {AGENTS} agents, times {AGENTS}"),
            ours: figure(all),
            baseline: format!("for one {}", figure(one)),
            ratio: ratio(all, one) * AGENTS as f64,
            target: Target::AtLeast(1.0),
        },
    ]
}

// ── History ──────────────────────────────────────────────────────────────────

/// History and heatmap with many deployments, compared with few.
fn history(most: usize) -> Vec<Row> {
    let (few, many) = (with_history(FEW), with_history(most));
    let row = |name, path: &dyn Fn(usize) -> String| {
        let requests = |fixture: &Fixture| -> Vec<_> {
            (0..100).map(|nth| fixture.get_in_session(&path(nth))).collect()
        };
        let (of_few, of_many) = (requests(&few), requests(&many));
        let outcomes = rounds::run(&mut [
            &mut || load(many.address, CONNECTIONS, TIME, &of_many),
            &mut || load(few.address, CONNECTIONS, TIME, &of_few),
        ]);
        Row {
            name: format!("{name} among {most} deployments, time"),
            ours: figure(&outcomes[0]),
            baseline: format!("among {FEW} {}", figure(&outcomes[1])),
            ratio: ratio(&outcomes[1], &outcomes[0]),
            target: Target::AtMost(2.0),
        }
    };
    let end = |nth: usize| many.store.clock().now().minus_secs(nth as i64 * 3 * DAY_SECS);
    vec![
        row("newest 20", &|_| "/deployments?limit=20".into()),
        row("20 before a time", &|nth| format!("/deployments?limit=20&to={}", end(nth))),
        row("an agent's newest 20", &|nth| {
            format!("/agents/{}/deployment-history?limit=20", key(nth))
        }),
        row("heatmap of a year", &|_| "/deployments/heatmap".into()),
    ]
}

/// A server with `count` deployments to its agents, spread over a year.
fn with_history(count: usize) -> Fixture {
    let fixture = fixture(AGENTS);
    deploy(&fixture, 0..AGENTS, "nobody");
    let start = Instant::now();
    let org = fixture.founded.organization.id;
    let first = fixture.store.read_now(org, |view| view.all(ListSource::TABLE, &()));
    let first: Vec<Deployment> = first.expect("the disk is good");
    let now = fixture.store.clock().now();
    for nth in (0..count).step_by(AT_ONCE) {
        let first = first.clone();
        let write = fixture.store.write_blocking(org, move |tx| {
            for nth in nth..nth + AT_ONCE {
                let before = (count - nth) as i64 * 365 * DAY_SECS / count as i64;
                let (id, deployed_at) = (tx.new_id(), now.minus_secs(before));
                let like = first[nth % AGENTS].clone();
                let job = CountedJob {
                    environment: like.environment,
                    registries: &[like.registry],
                    agents: &[like.agent],
                    created_at: deployed_at,
                };
                deployments::count(tx, &job, None, JobState::Complete)?;
                tx.insert(&Deployment { id, deployed_at, ..like })?;
            }
            Ok(())
        });
        write.expect("it can be stored");
    }
    eprintln!("  deployments: {count} in {:.0} s", start.elapsed().as_secs_f64());
    fixture
}

// ── Silence ──────────────────────────────────────────────────────────────────

/// What the sweep reads that finds ten silent agents among many, compared with among few.
fn silence() -> Row {
    let [few, many] = [FEW_SILENT, MANY_SILENT].map(rows_read_by_sweep);
    Row {
        name: format!("{SILENT} silent agents found among {MANY_SILENT}"),
        ours: format!("{many} rows read"),
        baseline: format!("among {FEW_SILENT} {few} rows"),
        ratio: many as f64 / few as f64,
        target: Target::AtMost(1.0),
    }
}

fn rows_read_by_sweep(agents: usize) -> u64 {
    let now = Clock::system().now();
    let fixture = filled(Fixture::at(Clock::at(now), 0), agents);
    for nth in (0..agents).step_by(AGENTS) {
        deploy(&fixture, nth..nth + AGENTS, "nobody");
    }
    let report = |agents: Range<usize>| {
        let beat = json!({"environment": "production", "hash": "unknown"});
        let beats = agents.map(|nth| (vec![key(nth)], beat.clone()));
        fixture.store_at("agent.heartbeat", beats, 500, drop);
    };
    report(0..SILENT);
    fixture.store.clock().advance_secs(300);
    report(SILENT..agents);
    fixture.store.clock().advance_secs(300);
    let sweeps = roadstead::resources::sweeps();
    let sweep = sweeps.into_iter().find(|sweep| sweep.name == "silent agents");
    let sweep = sweep.expect("there is such a sweep");
    // The server's own would find them after 15 minutes.
    let settings = RetentionSettings { stale_after_secs: 400, ..RetentionSettings::default() };
    let before = fixture.reports_read.load(Ordering::Relaxed);
    let org = fixture.founded.organization.id;
    let swept = fixture.store.write_blocking(org, move |tx| (sweep.run)(tx, &settings));
    swept.expect("it can be stored");
    let read = fixture.reports_read.load(Ordering::Relaxed) - before;
    let stale = fixture.ask(&fixture.get("/agents?status=stale&limit=100"));
    assert_eq!(stale["items"].as_array().map(Vec::len), Some(SILENT), "they are silent");
    read
}
