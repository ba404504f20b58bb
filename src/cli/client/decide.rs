//! `roadstead approve` and `roadstead deny`

use clap::Args;
use serde_json::json;

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
    decision: Decision,
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
    decision: Decision,
}

#[derive(Args)]
struct Decision {
    /// Id of the deployment job
    job: String,

    /// A comment on the decision
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,

    /// Decide only if the job has this plan
    #[arg(long, value_name = "HASH")]
    plan_hash: Option<String>,

    /// E-mail address of the approver in whose name the key decides
    #[arg(long = "as", value_name = "ADDRESS")]
    acting: Option<String>,

    #[command(flatten)]
    client: ClientFlags,
}

impl Approve {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Approve { yes, mut decision } = self;
        let api = decision.client.connect()?;
        let asks = !yes && !decision.client.json && decision.plan_hash.is_none();
        if asks && can_ask() {
            decision.plan_hash = Some(confirmed_plan(&api, &decision.job)?);
        }
        decision.decide(&api, "approve")
    }
}

impl Deny {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.decision.client.connect()?;
        self.decision.decide(&api, "deny")
    }
}

impl Decision {
    fn decide(self, api: &Api, verb: &str) -> Result<(), Failure> {
        let path = format!("{}/{verb}", path_of(&self.job));
        let mut body = json!({"comment": self.comment, "planHash": self.plan_hash});
        if let Some(email) = self.acting {
            body["actingUserEmail"] = json!(email);
        }
        print_job(&api.post_in_org(&path, body)?, self.client.json)
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
    match answer("Approve it? [y/N]: ")?.trim() {
        "y" | "Y" | "yes" => Ok(cell(&job["planHash"])),
        _ => Err(Failure::Failed("not approved; nothing was decided".into())),
    }
}
