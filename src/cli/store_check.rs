//! `roadstead store-check`

use std::io::IsTerminal as _;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::common::{Common, init_logging};
use super::failure::Failure;
use super::{output, values};
use crate::store::engine::conformance::{Book, Effort, Report, run_suite};
use crate::store::engine::postgres::{Durability, PostgresUrl};

/// Check whether a database can hold a store: isolation, commits that are cut, the lease
#[derive(Args)]
#[command(
    after_help = "It writes to a new schema of the database, roadstead_check_…, and removes \
                        it at the end; the user must be allowed to create schemas. Each check has a \
                        control that does something wrong on purpose and must fail.\n\n\
                        Exit codes: 0 it can, 1 it cannot, 2 it could not be checked."
)]
pub struct StoreCheck {
    /// The database: postgres://USER:PASSWORD@HOST[,HOST…]/DATABASE
    #[arg(long, value_name = "URL", env = "ROADSTEAD_STORE", hide_env_values = true)]
    store: String,

    /// Rounds of each anomaly
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = values::whole_number, allow_negative_numbers = true)]
    rounds: u32,

    /// Commits whose connection is cut
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::whole_number, allow_negative_numbers = true)]
    cuts: u32,

    #[command(flatten)]
    common: Common,
}

impl StoreCheck {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let url = url(&self.store)?;
        let usize_of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let effort = Effort { rounds: usize_of(self.rounds.max(1)), cuts: self.cuts.into() };
        if !std::io::stderr().is_terminal() && !self.common.json {
            output::status(&format!("checking {}; this takes a minute or a few", url.shown()));
        }
        let begun = Instant::now();
        let report = run_suite(&url, effort, &output::progress).map_err(|error| {
            output::progress("");
            let why = error.log_detail().unwrap_or(error.message());
            Failure::Usage(format!("{} cannot be checked: {why}", url.shown()))
        })?;
        let problems = report.problems();
        // It was there a moment ago.
        let settings = Durability::of(&url).ok();
        let remarks = settings.as_ref().map(Durability::remarks).unwrap_or_default();
        let mut value = value(&report, &problems, begun);
        value["version"] = json!(settings.map(|settings| settings.version));
        value["remarks"] = json!(remarks);
        output::print(self.common.json, &value, text(&report, &problems, &remarks))?;
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Failure::Failed("the database cannot hold a store".into()))
        }
    }
}

/// Parses the URL of a store. Not by clap, which would repeat it with its password.
pub(super) fn url(text: &str) -> Result<PostgresUrl, Failure> {
    PostgresUrl::parse(text).map_err(|problem| Failure::Usage(format!("--store {problem}")))
}

fn value(report: &Report, problems: &[String], begun: Instant) -> Value {
    let [committed, not_committed, unknown] = report.unanswered;
    json!({
        "conforms": problems.is_empty(),
        "problems": problems,
        "anomalies": report.anomalies,
        "controlAnomalies": report.control_anomalies,
        "book": report.book,
        "cuts": report.cuts,
        "unanswered": {
            "committed": committed, "notCommitted": not_committed, "unknown": unknown,
        },
        "controlBook": report.control_book,
        "lease": report.lease,
        "seconds": begun.elapsed().as_secs(),
    })
}

fn text(report: &Report, problems: &[String], remarks: &[String]) -> String {
    let mut text = String::new();
    for (own, control) in report.anomalies.iter().zip(&report.control_anomalies) {
        text.push_str(&format!(
            "{}: {} of {} (control: {} of {})\n",
            own.name, own.found, own.rounds, control.found, control.rounds
        ));
    }
    let Book { acknowledged, refused, unknown, lost, repeated, torn } = report.book;
    let [committed, not_committed, _] = report.unanswered;
    text.push_str(&format!(
        "crash book: {} commits cut, {committed} of them stored and {not_committed} not; of \
         {acknowledged} acknowledged writes {lost} lost, {repeated} repeated, {torn} torn; \
         {refused} refused, {unknown} unknown (control: {} repeated)\n",
        report.cuts, report.control_book.repeated
    ));
    let is_right = report.lease.is_right();
    text.push_str(if is_right { "lease: one node at a time\n" } else { "lease: two at once\n" });
    for problem in problems {
        text.push_str(&format!("{problem}\n"));
    }
    for remark in remarks {
        text.push_str(&format!("setting: {remark}\n"));
    }
    text.push_str(if problems.is_empty() {
        "the database can hold a store"
    } else {
        "the database cannot hold a store"
    });
    text
}
