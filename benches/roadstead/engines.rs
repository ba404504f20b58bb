//! What a store in PostgreSQL costs: the server over its own files, one server over PostgreSQL and three,
//! all processes of this machine, create, read and list tasks and wake agents, in turn (reference:
//! running-many).

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use roadstead::app::DataDir;
use serde_json::{Value, json};

use crate::client::{self, Connection, in_turn, spread};
use crate::filling::{Filling, bootstrap};
use crate::fixture::{file, id, place};
use crate::postgres_server::PostgresServer;
use crate::process::{BINARY, Served};
use crate::relay::Relay;
use crate::requests;
use crate::rounds::{self, TIME, median};
use crate::table::{Row, Target, time};
use crate::wakes::{self, Waiter};

/// Tasks of the small store and of the large one.
const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const MANY_WHEN_QUICK: usize = 100_000;

const FEW_AT_ONCE: usize = 1;
const MANY_AT_ONCE: usize = 64;
const CONNECTIONS: [usize; 2] = [FEW_AT_ONCE, MANY_AT_ONCE];

/// What is measured against more than files, and of which server.
const READ_TASK: &str = "read of a task";
const CREATE_TASK: &str = "create of a task";

/// What one server is to do on a machine of two processors: reads and creations a second, many at once; the
/// time of one creation; how often a transaction of many clients of one organization runs again. And how much
/// more three servers are to read.
const READS_A_SECOND: f64 = 4_000.0;
const CREATIONS_A_SECOND: f64 = 1_500.0;
const CREATION_TIME: Duration = Duration::from_millis(1);
const MOST_CONFLICTS: f64 = 0.1;
const THREE_TO_ONE: f64 = 1.5;

/// The server whose database is elsewhere: how much longer a round trip takes, and how long a read and a
/// creation may take then.
const FAR: &str = "PostgreSQL, one server, 1 ms away";
const DISTANCE: Duration = Duration::from_millis(1);
const FAR_READ_TIME: Duration = Duration::from_millis(4);
const FAR_CREATION_TIME: Duration = Duration::from_millis(8);

/// Agents that wait: with 64 messages at once each is woken every second time.
const AGENTS: usize = 128;

/// Messages of a run, one after another and in bursts.
const SINGLE: usize = 100;
const BURSTS: usize = 5;

/// So many different tasks are read.
const READ: usize = 10_000;

/// Tasks stored per transaction, within its limit of writes.
const AT_ONCE: usize = 1_000;

/// The settings of the database server: those of its package, and what running-many asks for. Four
/// servers have up to 33 connections each.
const SETTINGS: [&str; 3] = [
    "max_connections=200",
    "max_pred_locks_per_transaction=1024",
    "max_pred_locks_per_relation=10000",
];

/// How long the standby may take to follow.
const FOLLOWING: Duration = Duration::from_secs(60);

/// The rows of engines.
pub fn rows(quick: bool) -> Vec<Row> {
    let Some(database) = PostgresServer::start_in(place(), &SETTINGS) else { return vec![] };
    eprintln!("  {}", database.sql("SELECT version()"));
    let many = if quick { MANY_WHEN_QUICK } else { MANY };
    let mut rows = compare(&database, FEW);
    rows.extend(compare(&database, many));
    rows
}

/// What is in a store.
struct Filled {
    key: String,
    team: String,
    agents: Vec<String>,
    tasks: Vec<String>,
}

/// The servers of a store.
struct Side {
    name: &'static str,
    servers: Vec<Served>,
}

/// What one run of a side gave.
struct Measured {
    rate: f64,
    half: Duration,
    most: Duration,
    /// Requests that were repeated, since the server was overloaded.
    refused: usize,
    /// Transactions that ran again, and those that were committed.
    conflicts: f64,
    commits: f64,
}

/// Compares all sides with `count` tasks each, all of which were moved from the same files.
fn compare(database: &PostgresServer, count: usize) -> Vec<Row> {
    let place = place();
    let data = file(&place, "data");
    let filled = fill(&data, count);
    let url = database.database(&format!("one_{count}"));
    migrate(&data, &url);
    // So that it is not done while something is measured.
    database.sql_at(&url, "VACUUM ANALYZE kv");
    database.sql(&format!("CREATE DATABASE three_{count} TEMPLATE one_{count}"));
    database.sql("CHECKPOINT");
    let key = fs::read_to_string(data.join("secret.key")).expect("it has a key");
    let over = |name, url: &str, servers| Side {
        name,
        servers: (0..servers).map(|_| over_store(url, &key)).collect(),
    };
    let files = Side { name: "files", servers: vec![Served::start(&data, &["--rate-limit", "0"])] };
    let one = over("PostgreSQL, one server", &url, 1);
    let three = over("PostgreSQL, three servers", &url.replace("one_", "three_"), 3);
    let sides = [&files, &one, &three];

    let team = format!("/teams/{}", filled.team);
    let tasks = format!("{team}/tasks");
    let step = (count / READ).max(1);
    // Not one after another: neighbours are in one page.
    let order = (0..READ).map(|nth| nth * 7919 % READ * step);
    let read: Vec<_> =
        order.map(|nth| filled.get(&format!("{tasks}/{}", filled.tasks[nth]))).collect();
    let create = vec![filled.post(&tasks, requests::task())];
    let mut rows = load_rows(READ_TASK, count, &sides, read.clone());
    rows.extend(load_rows("list of 50 tasks", count, &sides, vec![filled.get(&tasks)]));
    rows.extend(wake_rows(count, &sides, &filled));
    // Last, since the stores grow by it.
    rows.extend(load_rows(CREATE_TASK, count, &sides, create.clone()));
    if count == FEW {
        let network = Relay::far(database.port(), DISTANCE);
        let [here, there] = [database.port(), network.port].map(|port| format!(":{port}/"));
        let far = over(FAR, &url.replace(&here, &there), 1);
        rows.extend(load_rows(READ_TASK, count, &[&files, &far], read));
        rows.extend(load_rows(CREATE_TASK, count, &[&files, &far], create.clone()));
        let replicated = Side { name: "PostgreSQL, one server, synchronous standby", ..one };
        rows.extend(with_standby(database, || {
            load_rows(CREATE_TASK, count, &[&files, &replicated], create)
        }));
    }
    rows
}

/// Creates a data directory with `count` tasks.
fn fill(data: &Path, count: usize) -> Filled {
    let store = DataDir::at(data).create().expect("it is new");
    let founded = bootstrap(&store);
    let filling = Filling { store: &store, founded: &founded };
    let new_team = std::iter::once(json!({"slug": "crew", "name": "Crew"}));
    let team = filling.store("team.create", &[], new_team, 1, |team| id(&team)).remove(0);
    let keys = (0..AGENTS).map(|nth| format!("agent-{nth}"));
    let new = keys.clone().map(|key| json!({"stableKey": key, "name": "Agent"}));
    filling.store("agent.create", &[], new, AGENTS, drop);
    let hired = keys.map(|key| json!({"stableKey": key, "role": "member"}));
    let agents = filling.store("team_agent.create", &[&team], hired, AGENTS, |agent| id(&agent));
    let new = std::iter::repeat_n(requests::task(), count);
    let tasks = filling.store("task.create", &[&team], new, AT_ONCE, |task| id(&task));
    store.close();
    let (_, key) = founded.key.expect("a key was asked for");
    Filled { key, team, agents, tasks }
}

impl Filled {
    fn get(&self, path: &str) -> Vec<u8> {
        requests::get("localhost", &self.key, path)
    }

    fn post(&self, path: &str, body: Value) -> Vec<u8> {
        requests::send("localhost", &self.key, "POST", path, body)
    }
}

fn migrate(data: &Path, url: &str) {
    let start = Instant::now();
    let mut command = Command::new(BINARY);
    command.args(["migrate", "--json", "--to", url, "--from"]).arg(data);
    let output = command.stderr(Stdio::inherit()).output().expect("the binary can be run");
    assert!(output.status.success(), "the store was not moved");
    let moved: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let (records, secs) = (&moved["records"], start.elapsed().as_secs_f64());
    eprintln!("  migrate: {records} records in {secs:.0} s");
}

/// A server over the store at this URL.
fn over_store(url: &str, key: &str) -> Served {
    let mut command = Command::new(BINARY);
    command.args(["serve", "--rate-limit", "0", "--store", url]);
    command.env("ROADSTEAD_SECRET_KEY", key).env_remove("CREDENTIALS_DIRECTORY");
    Served::start_command(command)
}

impl Side {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.address).collect()
    }

    fn load(&self, connections: usize, requests: &[Vec<u8>]) -> Measured {
        let before = self.transactions();
        let load = spread(&self.addresses(), connections, TIME, in_turn(connections, requests));
        let after = self.transactions();
        let [conflicts, commits] = [0, 1].map(|at: usize| after[at] - before[at]);
        let measured = Measured::new(load.rate(), load.times);
        Measured { refused: load.refused, conflicts, commits, ..measured }
    }

    /// How many transactions ran again so far, and how many were committed.
    fn transactions(&self) -> [f64; 2] {
        let names = ["roadstead_transaction_conflicts_total", "roadstead_commit_attempts_sum"];
        let mut sums = [0.0; 2];
        client::runtime().block_on(async {
            for address in self.addresses() {
                let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\n\r\n");
                let mut connection = Connection::open(address).await;
                let answer = connection.ask(request.as_bytes()).await;
                let metrics = String::from_utf8_lossy(answer.body);
                for (sum, name) in sums.iter_mut().zip(names) {
                    let value = metrics.lines().find_map(|line| {
                        line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok()
                    });
                    *sum += value.expect("the metrics have it");
                }
            }
        });
        sums
    }

    fn wake(&self, filled: &Filled, at_once: usize) -> Measured {
        let addresses = self.addresses();
        let messages = format!("/teams/{}/messages", filled.team);
        let waiter = |(nth, agent): (usize, &String)| Waiter {
            server: addresses[nth % addresses.len()],
            key: filled.key.clone(),
            wakes: format!("/teams/{}/agents/{agent}/wakes", filled.team),
            message: filled.post(&messages, requests::message(agent)),
        };
        let agents: Vec<_> = filled.agents.iter().enumerate().map(waiter).collect();
        let rounds = if at_once == 1 { SINGLE } else { BURSTS };
        let (times, took, refused) = wakes::measure(&agents, &addresses, at_once, rounds);
        let measured = Measured::new(times.len() as f64 / took.as_secs_f64(), times);
        Measured { refused, ..measured }
    }
}

impl Measured {
    fn new(rate: f64, mut times: Vec<Duration>) -> Self {
        times.sort();
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        Measured { rate, half, most, refused: 0, conflicts: 0.0, commits: 0.0 }
    }
}

/// Has all sides answer `requests`, with one connection and with many.
fn load_rows(what: &str, count: usize, sides: &[&Side], requests: Vec<Vec<u8>>) -> Vec<Row> {
    let measure = |side: &Side, connections| side.load(connections, &requests);
    measured_rows(what, count, sides, measure)
}

/// Has all sides wake agents, one and many at once.
fn wake_rows(count: usize, sides: &[&Side], filled: &Filled) -> Vec<Row> {
    let measure = |side: &Side, connections| side.wake(filled, connections);
    measured_rows("message to wake", count, sides, measure)
}

/// Measures sides in turn, the first of which is the baseline.
fn measured_rows(
    what: &str,
    count: usize,
    sides: &[&Side],
    measure: impl Fn(&Side, usize) -> Measured,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let mut runs: Vec<_> = sides.iter().map(|side| || measure(side, connections)).collect();
        let mut runs: Vec<_> =
            runs.iter_mut().map(|run| run as &mut dyn FnMut() -> Measured).collect();
        let outcomes = rounds::run_each(&mut runs);
        for (side, ours) in sides.iter().zip(&outcomes) {
            eprintln!(
                "  {what}, {count} tasks, {connections} at once, {}: {}",
                side.name,
                figure(ours)
            );
        }
        for (side, ours) in sides.iter().zip(&outcomes).skip(1) {
            let ratios = ours.iter().zip(&outcomes[0]).map(|(ours, files)| ours.rate / files.rate);
            rows.push(Row {
                name: format!("{what}, {count} tasks, {connections} at once, {}", side.name),
                ours: figure(ours),
                baseline: format!("{} {}", sides[0].name, figure(&outcomes[0])),
                ratio: median(ratios),
                target: Target::None,
            });
        }
        let is_far = sides.iter().any(|side| side.name == FAR);
        rows.extend(goals(what, count, connections, is_far, &outcomes));
    }
    rows
}

/// What is to be reached, of the outcomes of files, one server and three, or of files and one that is far
/// from its database.
fn goals(
    what: &str,
    count: usize,
    connections: usize,
    is_far: bool,
    outcomes: &[Vec<Measured>],
) -> Vec<Row> {
    // Where requests were repeated, nothing is reached.
    if outcomes.iter().flatten().any(|run| run.refused > 0) {
        return vec![];
    }
    let row = |goal: &str, ours, baseline, ratio, target| Row {
        name: format!("{what}, {count} tasks, {connections} at once: {goal}"),
        ours,
        baseline,
        ratio,
        target,
    };
    let within = |side: &str, runs: &[Measured], limit: Duration| {
        let half = median(runs.iter().map(|run| run.half.as_secs_f64()));
        let (ours, ratio) = (time(Duration::from_secs_f64(half)), half / limit.as_secs_f64());
        row(side, ours, format!("limit {}", time(limit)), ratio, Target::AtMost(1.0))
    };
    if let ([_, far], true, FEW_AT_ONCE) = (outcomes, is_far, connections) {
        let limit = if what == READ_TASK { FAR_READ_TIME } else { FAR_CREATION_TIME };
        return vec![within(FAR, far, limit)];
    }
    let [_, one, three] = outcomes else { return vec![] };
    let rate = median(one.iter().map(|run| run.rate));
    let a_second = |least: f64| {
        let (ours, baseline) = (format!("{rate:.0}/s"), format!("target {least:.0}/s"));
        row("one server", ours, baseline, rate / least, Target::AtLeast(1.0))
    };
    match (what, connections) {
        (READ_TASK, MANY_AT_ONCE) => {
            let pairs = three.iter().zip(one);
            let ratio = median(pairs.map(|(three, one)| three.rate / one.rate));
            let (ours, baseline) = (figure(three), figure(one));
            let target = Target::AtLeast(THREE_TO_ONE);
            vec![
                a_second(READS_A_SECOND),
                row("three servers / one server", ours, baseline, ratio, target),
            ]
        }
        (CREATE_TASK, FEW_AT_ONCE) => vec![within("one server", one, CREATION_TIME)],
        (CREATE_TASK, MANY_AT_ONCE) => {
            let each = conflicts_each(one);
            let (ours, limit) = (format!("{each:.3}"), format!("limit {MOST_CONFLICTS:.1}"));
            let goal = "conflicts for each transaction, one server";
            let conflicts = row(goal, ours, limit, each / MOST_CONFLICTS, Target::AtMost(1.0));
            vec![a_second(CREATIONS_A_SECOND), conflicts]
        }
        _ => vec![],
    }
}

/// How often a transaction ran again for each that was committed.
fn conflicts_each(runs: &[Measured]) -> f64 {
    let sum = |of: fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>();
    sum(|run| run.conflicts) / sum(|run| run.commits).max(1.0)
}

/// Medians of the rounds: the rate, and within which time half of the responses and 99 % of them came.
fn figure(runs: &[Measured]) -> String {
    let rate = median(runs.iter().map(|run| run.rate));
    let of = |get: fn(&Measured) -> Duration| {
        time(Duration::from_secs_f64(median(runs.iter().map(|run| get(run).as_secs_f64()))))
    };
    let refused = match runs.iter().map(|run| run.refused).sum() {
        0 => String::new(),
        refused => format!(", {refused} repeated"),
    };
    let each = conflicts_each(runs);
    let conflicts = if each > 0.0 {
        format!(", {each:.3} conflicts for each transaction")
    } else {
        String::new()
    };
    let (half, most) = (of(|run| run.half), of(|run| run.most));
    format!("{rate:.0}/s, p50 {half}, p99 {most}{refused}{conflicts}")
}

/// Runs `measure` while a standby has to confirm every commit.
fn with_standby<T>(database: &PostgresServer, measure: impl FnOnce() -> T) -> T {
    let standby = database.standby(database.port(), "standby", &SETTINGS);
    let set = |statement: &str| {
        database.sql(statement);
        database.sql("SELECT pg_reload_conf()");
    };
    set("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    let start = Instant::now();
    let follows = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    while database.sql(follows) != "1" {
        assert!(start.elapsed() < FOLLOWING, "the standby does not follow");
        std::thread::sleep(Duration::from_millis(50));
    }
    let measured = measure();
    set("ALTER SYSTEM RESET synchronous_standby_names");
    drop(standby);
    measured
}
