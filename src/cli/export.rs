//! `roadstead export`

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::installation::{self, Installation};
use super::output;
use crate::app::DataDir;
use crate::app::control::{ControlResponse, Request};
use crate::app::moving::{ExportReport, export_organization, left_out};
use crate::base::Error;
use crate::store::Store;

/// Progress is shown after so many lines.
const SHOWN_LINES: u64 = 1000;

/// Write an organization into a file for another installation, while the server runs or not
#[derive(Args)]
#[command(after_help = "The file has JSON lines with everything the organization owns, as of one \
                        moment; only its owner may read it. Secrets, keys, sessions, passwords, \
                        invitations and the audit log are left out: the result says how many \
                        secrets.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened.")]
pub struct Export {
    /// Slug of the organization
    #[arg(long, value_name = "SLUG", env = "ROADSTEAD_ORG")]
    org: String,

    /// File to create, or - for stdout
    file: String,

    #[command(flatten)]
    installation: Installation,
}

impl Export {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let source = self.source()?;
        if self.file == "-" {
            if self.installation.json() {
                let why = "--json prints the result, where - prints the organization: name a file";
                return Err(Failure::Usage(why.into()));
            }
            let report = written(&source, &self.org, &mut io::stdout().lock(), "stdout");
            output::progress("");
            output::status(&text(&report?, "stdout"));
            return Ok(());
        }
        let file = create(&self.file)?;
        let report = written(&source, &self.org, &mut BufWriter::new(&file), &self.file)
            .and_then(|report| file.sync_all().map_err(Failure::io(&self.file)).map(|()| report));
        output::progress("");
        if report.is_err() {
            // A part of an organization is of no use.
            let _ = fs::remove_file(&self.file);
        }
        let report = report?;
        let tables: Vec<_> = left_out()
            .into_iter()
            .map(|(table, reason)| json!({"table": table, "reason": reason}))
            .collect();
        let value = json!({
            "file": self.file,
            "orgSlug": report.org_slug,
            "members": report.members,
            "records": report.records,
            "secretsLeftOut": report.secrets_left_out,
            "tablesLeftOut": tables,
        });
        output::print(self.installation.json(), &value, text(&report, &self.file))
    }

    fn source(&self) -> Result<Source, Failure> {
        match self.installation.shared_to_read()? {
            Some(store) => Ok(Source::Store(Box::new(store))),
            None => Ok(Source::Directory(self.installation.existing_dir()?)),
        }
    }
}

/// Where the organization is.
enum Source {
    /// A server may have it open.
    Directory(DataDir),
    Store(Box<Store>),
}

/// Creates a file that only its owner may read. One that exists is not replaced.
fn create(path: &str) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(path);
    created.map_err(|error| Failure::Failed(format!("{path} cannot be created: {error}")))
}

fn text(report: &ExportReport, file: &str) -> String {
    let ExportReport { org_slug, members, records, secrets_left_out } = report;
    format!(
        "The organization {org_slug} is in {file}. Members: {members}, records: {records}.\nLeft out: \
         secrets ({secrets_left_out}), API keys, sessions, passwords, invitations, the audit log."
    )
}

/// Has the running server write the organization, or does it in its place. `name` is that of what is
/// written to.
fn written(
    source: &Source,
    slug: &str,
    out: &mut dyn Write,
    name: &str,
) -> Result<ExportReport, Failure> {
    let mut lines = 0;
    let mut failed = None;
    let mut write = |text: &str| {
        lines += text.lines().count() as u64;
        output::progress(&format!("{} lines", lines / SHOWN_LINES * SHOWN_LINES));
        if failed.is_none() {
            failed = out.write_all(text.as_bytes()).err();
        }
        failed.is_none()
    };
    let report = match source {
        Source::Directory(dir) => match asked(dir, slug, &mut write)? {
            Some(report) => report,
            None => exported(&dir.open()?, slug, &mut write)?,
        },
        Source::Store(store) => exported(store, slug, &mut write)?,
    };
    match failed {
        None => out.flush().map(|()| report).map_err(Failure::io(name)),
        Some(error) => Err(Failure::Failed(format!("{name} cannot be written: {error}"))),
    }
}

/// Has the server that runs over the directory export the organization, if one does.
fn asked(
    dir: &DataDir,
    slug: &str,
    write: &mut dyn FnMut(&str) -> bool,
) -> Result<Option<ExportReport>, Failure> {
    let request = Request::Export { slug: slug.into() };
    let mut part = |part: ControlResponse| {
        if let ControlResponse::Lines(text) = part {
            write(&text);
        }
    };
    installation::asked(dir, &request, &mut part, |reply| match reply {
        ControlResponse::Exported(report) => Some(report),
        _ => None,
    })
}

fn exported(
    store: &Store,
    slug: &str,
    write: &mut dyn FnMut(&str) -> bool,
) -> Result<ExportReport, Failure> {
    let exported = export_organization(store, slug, &mut |line| {
        if write(&line) { Ok(()) } else { Err(Error::internal("the file cannot be written")) }
    });
    Ok(exported?)
}
