//! `roadstead approve` and `roadstead deny`

use clap::Args;
use serde_json::json;

use super::api::segment;
use super::deploy::print_job;
use super::flags::ClientFlags;
use crate::cli::failure::Failure;

/// Approve a deployment
#[derive(Args)]
#[command(
    after_help = "A key with deployment:approve-as decides in the name of an approver, whom \
                        --as names.\n\n\
                        A key needs the scope deployment:decide.\n\n\
                        Example: roadstead approve 01a1ffb5-0000-7000-8000-000000000000 --comment ok"
)]
pub struct Approve {
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
        self.decision.decide("approve")
    }
}

impl Deny {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.decision.decide("deny")
    }
}

impl Decision {
    fn decide(self, verb: &str) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let path = format!("/agents/deployments/{}/{verb}", segment(&self.job));
        let mut body = json!({"comment": self.comment, "planHash": self.plan_hash});
        if let Some(email) = self.acting {
            body["actingUserEmail"] = json!(email);
        }
        print_job(&api.post_in_org(&path, body)?, self.client.json)
    }
}
