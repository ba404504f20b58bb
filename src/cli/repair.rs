//! `roadstead repair`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::check::file_is_intact;
use super::common::{Common, init_logging};
use super::failure::Failure;
use super::output::{self, MAX_SHOWN, first_lines};
use crate::app::DataDir;
use crate::app::repair::{Done, RepairSettings, Repaired, repair};
use crate::store::check::Findings;
use crate::store::repair::LossKind;

/// Make a sound data directory of what can be read of a damaged one, which stays as it is
#[derive(Args)]
#[command(
    after_help = "No server may have the directory open. Without --apply it is a dry run: it says \
                        what a repair would do, and leaves nothing behind; it needs the space for \
                        the new directory meanwhile.\n\n\
                        Records that cannot be read are left out. Indexes are built again. What \
                        refers to something that is gone is removed or cleared, as deleting that \
                        would have done. Of a damaged write-ahead log, each change that is whole is \
                        kept. A broken audit log is chained again from the break on, \
                        with an entry that says so. All that is left out, removed or changed is in \
                        the file left-out.jsonl of the new directory.\n\n\
                        If you have a backup from before the damage, compare: what was written \
                        since is in the repaired directory only.\n\n\
                        Example:\n  roadstead repair --data /var/lib/roadstead\n  \
                        roadstead repair --data /var/lib/roadstead --apply\n\n\
                        Exit codes: 0 done, or nothing to repair; 1 failed, or what it makes is not \
                        sound; 2 cannot be done."
)]
pub struct Repair {
    /// Where the new directory is made: empty, or not there [default: DIR.repaired]
    #[arg(long, value_name = "DIR2", env = "ROADSTEAD_INTO")]
    into: Option<PathBuf>,

    /// Make the new directory; without it nothing is changed
    #[arg(long, env = "ROADSTEAD_APPLY")]
    apply: bool,

    #[command(flatten)]
    common: Common,
}

impl Repair {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let dir = self.common.data_dir();
        dir.require_exists()?;
        let into = self.into.clone().unwrap_or_else(|| beside(&dir));
        let repaired = file_is_intact(&self.common.data).and_then(|is_file_intact| {
            let into = into.clone();
            let settings =
                RepairSettings { damaged: &dir, into, apply: self.apply, is_file_intact };
            Ok(repair(&settings)?)
        });
        output::progress("");
        self.report(&repaired?, &dir, &DataDir::at(into))
    }

    fn report(&self, repaired: &Repaired, dir: &DataDir, into: &DataDir) -> Result<(), Failure> {
        let into = into.absolute().display().to_string();
        let data = dir.absolute().display().to_string();
        let Repaired { before, done } = repaired;
        let value = json!({
            "dataDirectory": data,
            "into": into,
            "applied": self.apply && done.is_some(),
            "before": findings(before),
            "repair": done.as_ref().map(described),
        });
        let Some(done) = done else {
            let text = format!("sound: {} records read, nothing to repair", before.records);
            return output::print(self.common.json, &value, &text);
        };
        let text = self.text(before, done, &data, &into);
        output::print(self.common.json, &value, &text)?;
        match done.after.wrong {
            0 => Ok(()),
            wrong => Err(Failure::Failed(format!(
                "{wrong} findings are left that a repair cannot mend: {}",
                done.after.messages.first().map_or("", String::as_str)
            ))),
        }
    }

    fn text(&self, before: &Findings, done: &Done, data: &str, into: &str) -> String {
        let mut text =
            format!("{data}: {} records read, {} wrong:\n", before.records, before.wrong);
        text.push_str(&first_lines(&before.messages));
        if before.wrong > MAX_SHOWN as u64 {
            text.push_str("  … (--json has the first 1,000)\n");
        }
        text.push('\n');
        text.push_str(&format!("All indexes {} built again.\n", self.verb("were", "would be")));
        text.push_str(&missing_log(done));
        text.push_str(&self.losses(done));
        text.push_str(&self.audit_logs(done));
        let sound = if done.after.wrong == 0 { "sound" } else { "not sound" };
        text.push_str(&format!("\n{into}: {} records, {sound}\n", done.records));
        text.push_str(&first_lines(&done.after.messages));
        text.push_str(&if self.apply {
            format!(
                "What was left out, removed or changed is in {into}/left-out.jsonl.\n\n\
                 Next: move {data} away, and {into} to its place; keep the old one\n"
            )
        } else {
            "Nothing was changed. To do it, repeat this with --apply\n".to_string()
        });
        text
    }

    fn verb(&self, did: &'static str, would: &'static str) -> &'static str {
        if self.apply { did } else { would }
    }

    /// A line for each kind of loss, and one for each of the first records.
    fn losses(&self, done: &Done) -> String {
        let (mut text, verb) = (String::new(), self.verb("Were", "Would be"));
        for (kind, tables) in &done.losses.counts {
            let counts = tables.iter().map(|(table, count)| format!("{count} {table}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            let what = match kind {
                LossKind::Unreadable => "left out, since they cannot be read",
                LossKind::Duplicate => "left out, since others have their unique key",
                LossKind::Erased => "left out, since they were deleted",
                LossKind::Removed => "removed, since what they belonged to is gone",
                LossKind::Recreated => "made again, since their rows are gone",
                LossKind::Changed => "changed, since what they referred to is gone",
            };
            text.push_str(&format!("{verb} {what}: {counts}\n"));
        }
        for line in done.losses.listed.iter().take(MAX_SHOWN) {
            text.push_str(&format!("  {line}\n"));
        }
        text
    }

    /// A line for each of the first audit logs that were restarted.
    fn audit_logs(&self, done: &Done) -> String {
        let mut text = String::new();
        for log in done.restarted.iter().take(MAX_SHOWN) {
            let (slug, verb) = (&log.org_slug, self.verb("was", "would be"));
            text.push_str(&match log.broken_at {
                Some(first) => format!(
                    "The audit log of {slug} {verb} restarted at entry {first}, where it is broken\n"
                ),
                None => {
                    format!("What filters find in the audit log of {slug} {verb} made again\n")
                }
            });
        }
        let more = done.restarted.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            text.push_str(&format!("… and {more} more audit logs (--json has all)\n"));
        }
        text
    }
}

/// A line for each of the first things that are missing of the write-ahead log.
fn missing_log(done: &Done) -> String {
    if done.missing_log.is_empty() {
        return String::new();
    }
    let mut text =
        "Changes that were acknowledged may be gone; what they deleted or revoked is back:\n"
            .to_string();
    text.push_str(&first_lines(&done.missing_log));
    let more = done.missing_log.len().saturating_sub(MAX_SHOWN);
    if more > 0 {
        text.push_str(&format!("  … and {more} more (--json has all)\n"));
    }
    text
}

/// `DIR.repaired`.
fn beside(dir: &DataDir) -> PathBuf {
    let path = dir.absolute();
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".repaired");
    path.with_file_name(name)
}

fn findings(of: &Findings) -> Value {
    json!({
        "sound": of.wrong == 0,
        "records": of.records,
        "indexEntries": of.entries,
        "wrong": of.wrong,
        "findings": of.messages,
    })
}

fn described(done: &Done) -> Value {
    let mut lost = json!({});
    for kind in LossKind::ALL {
        let tables = done.losses.counts.get(&kind).cloned().unwrap_or_default();
        lost[kind.name()] = json!({ "count": done.losses.count(kind), "tables": tables });
    }
    let restarted = done.restarted.iter().map(|log| {
        json!({
            "orgSlug": log.org_slug, "brokenAt": log.broken_at, "chainedAgain": log.chained,
        })
    });
    json!({
        "records": done.records,
        "missingLog": done.missing_log,
        "lost": lost,
        "listed": done.losses.listed,
        "restartedAuditLogs": restarted.collect::<Vec<_>>(),
        "after": findings(&done.after),
    })
}
