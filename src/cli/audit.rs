//! `roadstead audit`

use std::fs;
use std::io::{ErrorKind, Write as _};

use clap::Args;
use serde_json::json;

use super::commands::commands;
use super::failure::Failure;
use super::installation::{self, Installation};
use super::output;
use crate::api::audit::Checkpoint;
use crate::app::control::{ControlResponse, Request};
use crate::app::{AuditReply, AuditRequest, CheckedLog, DataDir, audit_reply};
use crate::store::Store;

commands! {
    /// Read the audit logs, while the server runs or not
    pub Audit of AuditCommand { Checkpoint(CheckpointCommand), Export(Export) }
}

/// Print a value for the end of each audit log, or compare earlier ones
#[derive(Args)]
#[command(
    after_help = "Keep the values out of reach of anybody who can write the data directory. With \
                        --against, the log must still contain the entry of the value, and the \
                        chain is verified.\n\n\
                        Exit codes: 0 done, 1 the log is another one, 2 cannot be opened."
)]
struct CheckpointCommand {
    /// Only the log of this organization
    #[arg(long, value_name = "SLUG", env = "ROADSTEAD_ORG")]
    org: Option<String>,

    /// An earlier value, or a file with some; repeatable
    #[arg(long, value_name = "VALUE|FILE", env = "ROADSTEAD_AGAINST", value_delimiter = ',')]
    against: Vec<String>,

    #[command(flatten)]
    installation: Installation,
}

/// Print audit entries as JSON lines, oldest first
#[derive(Args)]
struct Export {
    /// Only the entries of this organization
    #[arg(long, value_name = "SLUG", env = "ROADSTEAD_ORG")]
    org: Option<String>,

    #[command(flatten)]
    installation: Installation,
}

// ── Where the logs are read ──────────────────────────────────────────────────

/// The logs of an installation.
enum Logs {
    /// A server has the data directory open.
    Served(DataDir),
    Opened(Box<Store>),
}

impl Logs {
    /// Opens the store unless a server runs over a data directory; returns the first reply.
    fn open(place: &Installation, request: &AuditRequest) -> Result<(Self, AuditReply), Failure> {
        if let Some(store) = place.shared_to_read()? {
            return Logs::opened(store, request);
        }
        let dir = place.existing_dir()?;
        match asked(&dir, request)? {
            Some(reply) => Ok((Logs::Served(dir), reply)),
            None => Logs::opened(dir.open()?, request),
        }
    }

    fn opened(store: Store, request: &AuditRequest) -> Result<(Self, AuditReply), Failure> {
        let logs = Logs::Opened(Box::new(store));
        let reply = logs.ask(request)?;
        Ok((logs, reply))
    }

    fn ask(&self, request: &AuditRequest) -> Result<AuditReply, Failure> {
        match self {
            Logs::Served(dir) => asked(dir, request)?.ok_or_else(|| {
                Failure::Failed("the server has stopped meanwhile; repeat the command".into())
            }),
            Logs::Opened(store) => Ok(audit_reply(store, request)?),
        }
    }
}

/// Asks the running server, if there is one.
fn asked(dir: &DataDir, request: &AuditRequest) -> Result<Option<AuditReply>, Failure> {
    let request = Request::Audit { request: request.clone() };
    installation::asked(dir, &request, &mut |_| {}, |reply| match reply {
        ControlResponse::Audit(reply) => Some(reply),
        _ => None,
    })
}

// ── Checkpoints ──────────────────────────────────────────────────────────────

impl CheckpointCommand {
    fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let mut earlier = Vec::new();
        for against in &self.against {
            earlier.extend(values(against)?);
        }
        let all = AuditRequest::Checkpoint(self.org.clone());
        let (logs, reply) = Logs::open(&self.installation, &all)?;
        let AuditReply::Checkpoints(ends) = reply else { return Err(Failure::unexpected_reply()) };
        let mut findings = Vec::new();
        for value in earlier {
            let AuditReply::Compared { log, findings: found } =
                logs.ask(&AuditRequest::Compare(value))?
            else {
                return Err(Failure::unexpected_reply());
            };
            let place = |what: String| json!({"orgSlug": log.org_slug, "message": what});
            findings.extend(found.into_iter().map(place));
        }
        let continues = (!self.against.is_empty()).then_some(findings.is_empty());
        let value = json!({"checkpoints": ends, "continues": continues, "findings": findings});
        output::print(self.installation.json(), &value, text(&ends, &findings))?;
        if continues == Some(false) {
            return Err(Failure::Failed("an audit log does not continue its checkpoint".into()));
        }
        if continues == Some(true) {
            output::status("Every checkpoint is in its audit log, whose chain is whole.");
        }
        Ok(())
    }
}

fn text(ends: &[CheckedLog], findings: &[serde_json::Value]) -> String {
    let mut text = String::new();
    for finding in findings {
        let part = |name: &str| finding[name].as_str().unwrap_or_default();
        text.push_str(&format!("{}: {}\n", part("orgSlug"), part("message")));
    }
    for end in ends {
        text.push_str(&format!("{} {}\n", end.value, end.org_slug));
    }
    text
}

/// Returns the checkpoints that an argument names: itself, or those in a file, such as the output of
/// an earlier command.
fn values(against: &str) -> Result<Vec<String>, Failure> {
    if Checkpoint::is_meant(against) {
        return match Checkpoint::parse(against) {
            Some(_) => Ok(vec![against.into()]),
            None => Err(Failure::Usage(format!("\"{against}\" is not a whole checkpoint"))),
        };
    }
    let content = fs::read_to_string(against)
        .map_err(|error| Failure::Usage(format!("{against} cannot be read: {error}")))?;
    let words = content.split(|c: char| c.is_whitespace() || "\",".contains(c));
    let found: Vec<_> = words.filter(|word| Checkpoint::is_meant(word)).collect();
    if let Some(broken) = found.iter().find(|word| Checkpoint::parse(word).is_none()) {
        return Err(Failure::Usage(format!("{against}: \"{broken}\" is not a whole checkpoint")));
    }
    if found.is_empty() {
        return Err(Failure::Usage(format!("{against} has no checkpoint")));
    }
    Ok(found.into_iter().map(String::from).collect())
}

// ── Export ───────────────────────────────────────────────────────────────────

impl Export {
    fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let (logs, reply) =
            Logs::open(&self.installation, &AuditRequest::Checkpoint(self.org.clone()))?;
        let AuditReply::Checkpoints(ends) = reply else { return Err(Failure::unexpected_reply()) };
        let mut out = std::io::stdout().lock();
        for end in ends {
            // Up to the end as it is now, so that it ends while entries are added.
            let mut after = 0;
            while after < end.sequence {
                let organization = end.organization_id.clone();
                let request = AuditRequest::Entries { organization, after };
                let AuditReply::Entries { lines, last } = logs.ask(&request)? else {
                    return Err(Failure::unexpected_reply());
                };
                let mut written = lines.iter().map(|line| output::escaped(line, |_| false));
                let written = written.try_for_each(|line| writeln!(out, "{line}"));
                match written {
                    // The reader has closed the pipe.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                    written => written.map_err(Failure::io("stdout"))?,
                }
                let Some(last) = last else { break };
                after = last;
            }
        }
        out.flush().map_err(Failure::io("stdout"))
    }
}
