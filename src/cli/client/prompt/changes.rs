//! `roadstead prompt changes`, `approve`, `deny` and `cancel`: label changes that take approvals.

use clap::Args;
use serde_json::{Value, json};

use super::artifact::Artifact;
use super::which::Which;
use crate::cli::client::api::{Api, segment};
use crate::cli::client::decide::{Decision, require_yes};
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::listed::Limit;
use crate::cli::client::table::{cell, cells, one_line};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::password::can_ask;

/// Where they are.
const CHANGES: &str = "/registries/artifacts/label-changes";

/// List the label changes of a prompt, newest first
#[derive(Args)]
#[command(after_help = "A key needs the scope artifact:read.\n\n\
                        Example: roadstead prompt changes main/scribe --state pending")]
pub struct Changes {
    #[command(flatten)]
    which: Which,

    /// Only those in this state: pending, approved, denied, cancelled, expired or superseded
    #[arg(long, value_name = "STATE")]
    state: Option<String>,

    #[command(flatten)]
    shown: Limit,

    #[command(flatten)]
    client: ClientFlags,
}

impl Changes {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let api = self.client.connect()?;
        let artifact = Artifact::of(&self.which, &api)?;
        let listed =
            artifact.list_in_org(CHANGES, &[("state", self.state.as_deref())], self.shown.limit)?;
        let head = ["LABEL", "FROM", "TO", "STATE", "CHANGE"];
        listed.show(self.client.json, head, "no label changes", |change| {
            cells(change, ["label", "from", "to", "state", "id"])
        })
    }
}

/// Approve a label change
#[derive(Args)]
#[command(
    after_help = "In a terminal it shows what clients will read and asks; what is approved is \
                        exactly that. Elsewhere, and with --yes, --json or --content-hash, it does \
                        not ask.\n\n\
                        A key with deployment:approve-as decides in the name of an approver, whom \
                        --as names.\n\n\
                        A key needs the scope label:decide, to show the change artifact:read.\n\n\
                        Example: roadstead prompt approve 01a1ffb5-0000-7000-8000-000000000000 \
                        --comment ok"
)]
pub struct Approve {
    /// Approve without showing what the change changes
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    change: Change,
}

/// Deny a label change, which ends it
#[derive(Args)]
#[command(
    after_help = "A key with deployment:approve-as decides in the name of an approver, whom \
                        --as names.\n\n\
                        A key needs the scope label:decide."
)]
pub struct Deny {
    #[command(flatten)]
    change: Change,
}

/// Cancel a label change that you asked for, or as an admin any
#[derive(Args)]
#[command(after_help = "A key needs the scope label:move.")]
pub struct Cancel {
    /// Id of the label change
    change: String,

    #[command(flatten)]
    client: ClientFlags,
}

/// The change that is decided about, and what is said of it.
#[derive(Args)]
struct Change {
    /// Id of the label change
    change: String,

    /// Decide only if the version that the label is moved to says this
    #[arg(long, value_name = "HASH")]
    content_hash: Option<String>,

    #[command(flatten)]
    decision: Decision,
}

impl Approve {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Approve { yes, mut change } = self;
        let client = &change.decision.client;
        let api = client.connect()?;
        if !yes && !client.json && change.content_hash.is_none() && can_ask() {
            change.content_hash = confirmed_hash(&api, &change.change)?;
        }
        change.decide(&api, "approve")
    }
}

impl Deny {
    pub(super) fn run(self) -> Result<(), Failure> {
        let api = self.change.decision.client.connect()?;
        self.change.decide(&api, "deny")
    }
}

impl Cancel {
    pub(super) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let path = format!("{}/cancel", path_of(&self.change));
        print(&api.post_in_org(&path, json!({}))?, self.client.json)
    }
}

impl Change {
    fn decide(&self, api: &Api, verb: &str) -> Result<(), Failure> {
        let path = format!("{}/{verb}", path_of(&self.change));
        let body = self.decision.body(("contentHash", self.content_hash.as_deref()));
        print(&api.post_in_org(&path, body)?, self.decision.client.json)
    }
}

/// The path of a change in the API.
pub fn path_of(change: &str) -> String {
    format!("{CHANGES}/{}", segment(change))
}

/// What was decided about a change: a line for each decision, with its comment.
pub fn decisions(api: &Api, change: &str) -> Result<String, Failure> {
    let approvals = api.list_in_org(&format!("{}/approvals", path_of(change)), &[])?;
    let decided = approvals.iter().filter(|approval| approval["decision"] != "pending");
    Ok(decided.map(decision).collect())
}

fn decision(approval: &Value) -> String {
    let [decision, comment] = cells(approval, ["decision", "comment"]);
    let (name, by) = (cell(&approval["user"]["name"]), approval["via"].as_str());
    let by = by.map(|key| format!(", by the key {}", one_line(key))).unwrap_or_default();
    let comment =
        if approval["comment"].is_null() { String::new() } else { format!(": {comment}") };
    format!("\n  {decision} by {}{by}{}", one_line(&name), one_line(&comment))
}

fn print(change: &Value, json: bool) -> Result<(), Failure> {
    output::print(json, change, text(change))
}

fn text(change: &Value) -> String {
    let [label, registry, name] = cells(change, ["label", "registryRef", "name"]);
    let [from, to, state, id] = cells(change, ["from", "to", "state", "id"]);
    let mut text = format!("{label} of {registry}/{name}: {from} -> {to} is {state}, change {id}");
    if let Some(why) = change["obstacle"].as_str() {
        text.push_str(&format!("\n  it cannot be approved any more: {}", one_line(why)));
    }
    text
}

/// Shows a change with what clients will read, and asks whether to approve it; the hash of what was shown.
///
/// # Errors
/// If the answer is not yes, or the change cannot be read.
fn confirmed_hash(api: &Api, change: &str) -> Result<Option<String>, Failure> {
    let unshown = |_: &Failure| {
        output::status("the change cannot be shown; --yes approves without");
    };
    let path = path_of(change);
    let change = api.get_in_org(&path, &[]).inspect_err(unshown)?;
    if change["state"] != "pending" {
        return Err(Failure::Failed(format!("the label change is {}", cell(&change["state"]))));
    }
    let texts = api.list_in_org(&format!("{path}/diff"), &[]).inspect_err(unshown)?;
    let texts: String = texts.iter().map(text_of_model).collect();
    output::lines(&format!("{texts}{}", text(&change)));
    require_yes()?;
    Ok(change["contentHash"].as_str().map(String::from))
}

/// What a change changes for a model.
fn text_of_model(change: &Value) -> String {
    let mut text = format!("for {}:\n", cell(&change["model"]));
    for field in ["diff", "metadataDiff"] {
        text.push_str(change[field].as_str().unwrap_or_default());
    }
    if let Some(count @ 1..) = change["invisibleCharacters"].as_u64() {
        text.push_str(&format!("invisible characters: {count}\n"));
    }
    text
}
