//! `roadstead approve` and `roadstead deny`

use clap::Args;
use serde_json::{Value, json};

use super::api::{Api, segment};
use super::deploy::{changes_text, job_text, print_job};
use super::flags::ClientFlags;
use super::table::cell;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::password::{answer, can_ask};

/// Approve a deployment
#[derive(Args)]
#[command(
    after_help = "In a terminal it shows what the job changes and asks; what is approved is \
                        exactly that. Elsewhere, and with --yes, --json or --plan-hash, it does \
                        not ask.\n\n\
                        A key with deployment:approve-as decides in the name of an approver, whom \
                        --as names.\n\n\
                        A key needs the scope deployment:decide, to show the job \
                        deployment:read.\n\n\
                        Example: roadstead approve 01a1ffb5-0000-7000-8000-000000000000 --comment ok"
)]
pub struct Approve {
    /// Approve without showing what the job changes
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    job: Job,
}

/// Deny a deployment, which ends it
#[derive(Args)]
#[command(
    after_help = "A key with deployment:approve-as decides in the name of an approver, whom \
                        --as names.\n\n\
                        A key needs the scope deployment:decide."
)]
pub struct Deny {
    #[command(flatten)]
    job: Job,
}

/// The job that is decided about, and what is said of it.
#[derive(Args)]
struct Job {
    /// Id of the deployment job
    job: String,

    /// Decide only if the job has this plan
    #[arg(long, value_name = "HASH")]
    plan_hash: Option<String>,

    #[command(flatten)]
    decision: Decision,
}

/// What an approver says, and for whom.
#[derive(Args)]
pub struct Decision {
    /// A comment on the decision
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,

    /// E-mail address of the approver in whose name the key decides
    #[arg(long = "as", value_name = "ADDRESS")]
    acting: Option<String>,

    #[command(flatten)]
    pub client: ClientFlags,
}

impl Decision {
    /// The body of it, with the hash of what it is about, if that is known.
    pub fn body(&self, hash: (&str, Option<&str>)) -> Value {
        let mut body = json!({"comment": self.comment, hash.0: hash.1});
        if let Some(email) = &self.acting {
            body["actingUserEmail"] = json!(email);
        }
        body
    }
}

/// Asks in the terminal whether to approve what was shown.
///
/// # Errors
/// If the answer is not yes.
pub fn require_yes() -> Result<(), Failure> {
    match answer("Approve it? [y/N]: ")?.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Failed("not approved; nothing was decided".into())),
    }
}

impl Approve {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Approve { yes, mut job } = self;
        let client = &job.decision.client;
        let api = client.connect()?;
        if !yes && !client.json && job.plan_hash.is_none() && can_ask() {
            job.plan_hash = Some(confirmed_plan(&api, &job.job)?);
        }
        job.decide(&api, "approve")
    }
}

impl Deny {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.job.decision.client.connect()?;
        self.job.decide(&api, "deny")
    }
}

impl Job {
    fn decide(&self, api: &Api, verb: &str) -> Result<(), Failure> {
        let path = format!("{}/{verb}", path_of(&self.job));
        let body = self.decision.body(("planHash", self.plan_hash.as_deref()));
        print_job(&api.post_in_org(&path, body)?, self.decision.client.json)
    }
}

fn path_of(job: &str) -> String {
    format!("/agents/deployments/{}", segment(job))
}

/// Shows a job with what it changes, and asks whether to approve it; the hash of the plan that was shown.
///
/// # Errors
/// If the answer is not yes, or the job cannot be read.
fn confirmed_plan(api: &Api, job: &str) -> Result<String, Failure> {
    let path = path_of(job);
    let get = |path: &str| {
        api.get_in_org(path, &[]).inspect_err(|_| {
            output::status("the job cannot be shown; --yes approves without");
        })
    };
    let job = get(&path)?;
    if job["state"] != "pending_approval" {
        return Err(Failure::Failed(format!("the deployment is {}", cell(&job["state"]))));
    }
    let changes = get(&format!("{path}/changes"))?;
    output::lines(&format!("{}\n{}", changes_text(&changes["items"]), job_text(&job)));
    require_yes()?;
    Ok(cell(&job["planHash"]))
}
