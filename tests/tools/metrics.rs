//! promtool finds nothing to say about `/metrics` and the samples for Prometheus, and a Prometheus that
//! scrapes a server answers the queries of the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::client::{Connection, eventually};
use crate::optional::{program, run};
use crate::server::{Acme, free_port};

/// Metrics of the samples that are there only once something has happened, or over PostgreSQL or TLS.
const LATER: [&str; 8] = [
    "roadstead_background_work",
    "roadstead_database_file_bytes",
    "roadstead_database_free_pages",
    "roadstead_database_page_bytes",
    "roadstead_deliveries_total",
    "roadstead_last_backup_timestamp_seconds",
    "roadstead_store_replicated",
    "roadstead_tls_certificate_expiry_timestamp_seconds",
];

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/monitoring")
}

fn sample(name: &str) -> String {
    fs::read_to_string(samples().join(name)).unwrap()
}

/// The queries of the dashboard, as Grafana sends them.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&sample("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.chain(dashboard["annotations"]["list"].as_array().unwrap());
    let sent = |query: &Value| {
        let text = query["expr"].as_str().unwrap().replace("$job", "roadstead");
        let text = text.replace("$__rate_interval", "1m").replace("$__interval", "1m");
        text.replace("$instance", ".*")
    };
    queries.map(sent).collect()
}

/// The names of the metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("roadstead_") || word.starts_with("process_"));
    let base = |word: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word).to_string()
    };
    ours.map(base).collect()
}

/// A Prometheus that scrapes a server. It is ended when dropped.
struct Prometheus {
    child: std::process::Child,
    url: String,
    _place: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(program: &Path, acme: &Acme) -> Self {
        let place = tempfile::tempdir().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n  - job_name: \
             roadstead\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
            samples().join("alerts.yml").display(),
            acme.serving.address
        );
        fs::write(place.path().join("prometheus.yml"), config).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let log = fs::File::create(place.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", place.path().join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", place.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Prometheus {
            child: command.spawn().unwrap(),
            url: format!("http://{address}"),
            _place: place,
        }
    }

    /// What a query finds; an error in it fails the test.
    fn query(&self, query: &str) -> Vec<Value> {
        let mut command = Command::new("curl");
        command.args(["-sS", "--get", "--data-urlencode", &format!("query={query}")]);
        let answer = run(command.arg(format!("{}/api/v1/query", self.url)));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }
}

#[test]
fn prometheus_answers_the_queries_of_the_dashboard_and_finds_a_server_well() {
    let Some(program) = program("prometheus", "Prometheus", "prometheus") else { return };
    let acme = Acme::start(&[]);
    acme.owner.get("/no/such/path");
    let prometheus = Prometheus::start(&program, &acme);
    let is_up = || {
        let ready =
            Command::new("curl").args(["-fsS", &format!("{}/-/ready", prometheus.url)]).output();
        ready.ok().filter(|ready| ready.status.success())?;
        // Two scrapes, so that there are rates.
        let scrapes =
            prometheus.query("count_over_time(up{job=\"roadstead\"}[1m]) > 1 and up == 1");
        (!scrapes.is_empty()).then_some(())
    };
    eventually("two scrapes", is_up);
    let mut empty = Vec::new();
    for query in queries() {
        if prometheus.query(&query).is_empty()
            && names(&query).iter().all(|name| !LATER.contains(&&**name))
        {
            empty.push(query);
        }
    }
    // What has no series before something of its kind has happened: errors, and checkpoints.
    let later = ["5..", "roadstead_wal_checkpoint_", "roadstead_wal_wait_"];
    empty.retain(|query| !later.iter().any(|part| query.contains(part)));
    assert!(empty.is_empty(), "these find nothing: {empty:#?}");
    let is_evaluated = || {
        let rules =
            run(Command::new("curl").args(["-fsS", &format!("{}/api/v1/rules", prometheus.url)]));
        let rules: Value = serde_json::from_str(&rules).unwrap();
        let mut rules = rules["data"]["groups"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap());
        let is_ok = |rule: &Value| rule["health"] == "ok";
        rules.all(is_ok).then_some(())
    };
    eventually("every alert is evaluated", is_evaluated);
    let firing = prometheus.query("ALERTS{alertstate=\"firing\"}");
    assert!(firing.is_empty(), "{firing:?}");
}

#[test]
fn the_alerts_and_the_dashboard_name_metrics_that_there_are() {
    let acme = Acme::start(&[]);
    let mut connection = Connection::open(acme.serving.address).unwrap();
    connection.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let served = names(&connection.reply(false).unwrap().text());
    let reference = samples().join("../../docs/reference/command-line.md");
    let documented = fs::read_to_string(reference).unwrap();
    // Some are written as `…_page_bytes`, after the first of a group.
    let is_documented = |name: &str| {
        let ends = name.match_indices('_').map(|(at, _)| format!("`…{}`", &name[at..]));
        documented.contains(&format!("`{name}`"))
            || ends.into_iter().any(|end| documented.contains(&end))
    };
    let alerts = sample("alerts.yml");
    let exprs: String = alerts.lines().filter(|line| !line.trim().starts_with('#')).collect();
    for name in names(&exprs).into_iter().chain(queries().iter().flat_map(|query| names(query))) {
        let is_later = LATER.contains(&&*name) && is_documented(&name);
        assert!(served.contains(&name) || is_later, "{name} is no metric");
    }
}

#[test]
fn promtool_takes_the_samples_and_the_alerts_do_as_their_tests_say() {
    let Some(promtool) = program("promtool", "promtool", "prometheus") else { return };
    for args in [
        ["check", "rules", "alerts.yml"].as_slice(),
        &["test", "rules", "alerts_test.yml"],
        &["check", "config", "--syntax-only", "prometheus.yml"],
    ] {
        run(Command::new(&promtool).args(args).current_dir(samples()));
    }
}

#[test]
fn promtool_has_nothing_to_say() {
    let Some(promtool) = program("promtool", "promtool", "prometheus") else { return };
    let acme = Acme::start(&[]);
    let team = acme.team("shipping", None);
    acme.assign(&team, "Be counted");
    acme.owner.get("/no/such/path");
    let text = eventually("the size of the database", || {
        let mut connection = Connection::open(acme.serving.address).unwrap();
        connection.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let text = connection.reply(false).unwrap().text();
        Some(text).filter(|text| text.contains("roadstead_database_free_pages"))
    });
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
