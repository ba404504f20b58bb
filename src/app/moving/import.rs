//! Writing an organization that arrives, in steps that a crash may interrupt.
//!
//! The steps are the same for a running server, which gets them through the control socket, and for a
//! data directory that the command opens itself.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ExportFile, Problem, Row, exported};
use crate::auth::{Organization, organization_named};
use crate::base::{Error, Exporting, Id, Importing, Portable as _, Result, Slug, from_hex};
use crate::resources;
use crate::resources::organizations::moving::{
    self, ArrivingOrganization, ImportProgress, MovedMember,
};
use crate::store::check::Findings;
use crate::store::{Org, Store, TableRows};

/// Records of one transaction: their indexes included, far fewer than what one may write.
const ROWS_AT_ONCE: usize = 500;

/// The same in bytes of JSON, unless one alone has more: other writes wait while it is committed.
const BYTES_AT_ONCE: usize = 1024 * 1024;

/// A step of an import.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportStep {
    /// Begins, or goes on where the import of this file was interrupted.
    Begin(Box<Arriving>),
    /// Writes records; `first` is the number of the first in the file.
    Rows { first: u64, rows: Vec<Row> },
    /// Checks that records could be written that follow the organization.
    Probe { rows: Vec<Row> },
    /// Writes the organization and its members.
    Publish,
    /// Ends it.
    Finish,
    /// Deletes some of what was written, as long as nobody sees it.
    Undo,
}

/// An [`ArrivingOrganization`] in JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Arriving {
    organization: Value,
    slug: Option<String>,
    members: Vec<Value>,
    digest: String,
    source: String,
    #[serde(default)]
    accepts_unproved: bool,
}

impl Arriving {
    fn of(arriving: &ArrivingOrganization) -> Self {
        let out = &mut Exporting::default();
        Arriving {
            organization: arriving.organization.to_json(out),
            slug: arriving.slug.as_ref().map(ToString::to_string),
            members: arriving.members.iter().map(|member| member.to_json(out)).collect(),
            digest: blake3::Hash::from(arriving.digest).to_hex().to_string(),
            source: arriving.source.clone(),
            accepts_unproved: arriving.accepts_unproved,
        }
    }

    fn read(&self) -> Result<ArrivingOrganization> {
        let input = Importing::default();
        let wrong = |what| Error::invalid_at("file", what);
        let member = |member: &Value| MovedMember::from_json(member.clone(), &input);
        Ok(ArrivingOrganization {
            organization: Organization::from_json(self.organization.clone(), &input)
                .map_err(wrong)?,
            slug: self.slug.as_deref().map(Slug::parse).transpose().map_err(wrong)?,
            members: self.members.iter().map(member).collect::<Result<_, _>>().map_err(wrong)?,
            digest: from_hex(&self.digest).ok_or_else(|| wrong("has no hash".into()))?,
            source: self.source.clone(),
            accepts_unproved: self.accepts_unproved,
        })
    }
}

/// The answer to an [`ImportStep`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportReply {
    /// How many records are written, and whether the organization is there.
    Progress {
        done: u64,
        published: bool,
    },
    Finished(ImportReport),
    /// Whether nothing is left of it.
    Undone(bool),
}

/// What an import has done.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    pub organization_id: String,
    pub org_slug: String,
    pub records: u64,
    /// Addresses of members who had an account here.
    pub known_members: Vec<String>,
    /// Addresses of members whose account was created; they have no password.
    pub created_members: Vec<String>,
}

// ── In the store ─────────────────────────────────────────────────────────────

/// Carries out a step. Blocks.
///
/// # Errors
/// If the step is refused or the store fails; nothing of it is written then.
pub fn import_step(store: &Store, step: &ImportStep) -> Result<ImportReply> {
    match step {
        ImportStep::Begin(arriving) => {
            let arriving = arriving.read()?;
            let begin = move |tx: &mut crate::store::Tx| moving::begin_import(tx, &arriving);
            Ok(progress(store.write_blocking(Id::NIL, begin)?))
        }
        ImportStep::Rows { first, rows } => write_rows(store, *first, rows.clone()),
        ImportStep::Probe { rows } => probe_rows(store, rows),
        ImportStep::Publish => {
            store.write_blocking(organization(store)?, moving::publish_import)?;
            Ok(progress(store.read_now(Id::NIL, moving::current_import)?.1))
        }
        ImportStep::Finish => finish(store),
        ImportStep::Undo => undo(store),
    }
}

fn progress(ImportProgress { done, published }: ImportProgress) -> ImportReply {
    ImportReply::Progress { done, published }
}

fn organization(store: &Store) -> Result<Id<Org>> {
    Ok(store.read_now(Id::NIL, moving::current_import)?.0.organization.id)
}

/// The tables of an export, by name.
struct Tables(HashMap<&'static str, TableRows>);

impl Tables {
    fn all() -> Self {
        Tables(exported().into_iter().map(|(table, rows)| (table.name, rows)).collect())
    }

    /// Returns the table of a row, which is one of the installation or not.
    fn of(&self, row: &Row, of_installation: bool) -> Result<TableRows> {
        let table = &row.table;
        let wrong = |what: &str| Error::invalid_at("table", format!("{table:.64?} is {what}"));
        let rows = *self.0.get(table.as_str()).ok_or_else(|| wrong("not one of an export"))?;
        if rows.of_installation == of_installation { Ok(rows) } else { Err(wrong("out of order")) }
    }
}

fn write_rows(store: &Store, first: u64, rows: Vec<Row>) -> Result<ImportReply> {
    let (tables, org) = (Tables::all(), organization(store)?);
    let progress = store.write_blocking(org, move |tx| {
        let (import, progress) = moving::current_import(&tx.view())?;
        let input = import.importing();
        for (n, row) in rows.iter().enumerate() {
            let table = tables.of(row, progress.published)?;
            (table.insert)(tx, row.record.clone(), &input).map_err(|error| {
                let place = format!("record {}", first + n as u64 + 1);
                Error::conflict("import_refused", format!("{place}: {}", error.message()))
            })?;
        }
        moving::advance_import(tx, first, rows.len() as u64)?;
        Ok(moving::current_import(&tx.view())?.1)
    });
    Ok(self::progress(progress?))
}

fn probe_rows(store: &Store, rows: &[Row]) -> Result<ImportReply> {
    let tables = Tables::all();
    store.read_now(organization(store)?, |view| {
        let (import, progress) = moving::current_import(view)?;
        let input = import.importing();
        for row in rows {
            (tables.of(row, true)?.probe)(view, row.record.clone(), &input)?;
        }
        Ok(self::progress(progress))
    })
}

fn finish(store: &Store) -> Result<ImportReply> {
    let (import, progress) = store.read_now(Id::NIL, moving::current_import)?;
    let members = store.write_blocking(Id::NIL, moving::finish_import)?;
    let texts = |emails: Vec<crate::base::Email>| emails.iter().map(ToString::to_string).collect();
    Ok(ImportReply::Finished(ImportReport {
        organization_id: import.organization.id.to_string(),
        org_slug: import.organization.slug.to_string(),
        records: progress.done,
        known_members: texts(members.known),
        created_members: texts(members.created),
    }))
}

/// Deletes some records; in the end the record of the import.
fn undo(store: &Store) -> Result<ImportReply> {
    let (import, progress) = store.read_now(Id::NIL, moving::current_import)?;
    if progress.published {
        return Err(Error::conflict(
            "import_published",
            "the organization is there already; repeat the import with its file, which completes it",
        ));
    }
    let org = import.organization.id;
    for (_, rows) in exported() {
        let more = store.write_blocking(org, move |tx| {
            tx.mark_deletion();
            (rows.erase)(tx)
        })?;
        if more {
            return Ok(ImportReply::Undone(false));
        }
    }
    store.write_blocking(Id::NIL, moving::cancel_import)?;
    Ok(ImportReply::Undone(true))
}

// ── From the file ────────────────────────────────────────────────────────────

/// Imports a file by steps that `apply` carries out; passes the records that are written to `show`.
/// What was refused is undone, as long as nobody sees it.
///
/// # Errors
/// Why the file is refused, or what `apply` returns.
pub fn import_file(
    file: &mut ExportFile,
    apply: &mut dyn FnMut(ImportStep) -> Result<ImportReply, Problem>,
    show: &mut dyn FnMut(u64),
) -> Result<ImportReport, Problem> {
    let begun = apply(ImportStep::Begin(Box::new(Arriving::of(&file.arriving))))?;
    let ImportReply::Progress { done, published } = begun else { return Err(unexpected()) };
    match write_all(file, ImportProgress { done, published }, apply, show) {
        Ok(report) => Ok(report),
        Err(problem) => match undo_import(apply) {
            Ok(()) => Err(Problem(format!("{problem}; nothing of it was left behind"))),
            Err(_) => Err(Problem(format!(
                "{problem}; what was written so far can be completed with the same file, or removed \
                 with --undo unless the organization is there already"
            ))),
        },
    }
}

/// Removes what an unfinished import has written.
///
/// # Errors
/// If there is none, or it is published; what `apply` returns.
pub fn undo_import(
    apply: &mut dyn FnMut(ImportStep) -> Result<ImportReply, Problem>,
) -> Result<(), Problem> {
    loop {
        match apply(ImportStep::Undo)? {
            ImportReply::Undone(true) => return Ok(()),
            ImportReply::Undone(false) => {}
            _ => return Err(unexpected()),
        }
    }
}

fn unexpected() -> Problem {
    Problem("an unexpected reply".into())
}

fn write_all(
    file: &mut ExportFile,
    mut at: ImportProgress,
    apply: &mut dyn FnMut(ImportStep) -> Result<ImportReply, Problem>,
    show: &mut dyn FnMut(u64),
) -> Result<ImportReport, Problem> {
    let mut rows = Rows::after(file, at.done)?;
    loop {
        let part = rows.part(at.published)?;
        if !part.is_empty() {
            let first = at.done;
            at.done += part.len() as u64;
            apply(ImportStep::Rows { first, rows: part })?;
            show(at.done);
        } else if at.published {
            break;
        } else {
            // Once the organization is there, nothing may be refused any more.
            loop {
                let part = rows.part(true)?;
                if part.is_empty() {
                    break;
                }
                apply(ImportStep::Probe { rows: part })?;
            }
            rows.end()?;
            apply(ImportStep::Publish)?;
            at.published = true;
            rows = Rows::after(file, at.done)?;
        }
    }
    rows.end()?;
    match apply(ImportStep::Finish)? {
        ImportReply::Finished(report) => Ok(report),
        _ => Err(unexpected()),
    }
}

/// The records of a file, in parts for one transaction.
struct Rows<'a> {
    file: &'a mut ExportFile,
    next: Option<(Row, usize)>,
    /// Whether the records of each table are the installation's.
    of_installation: HashMap<&'static str, bool>,
}

impl<'a> Rows<'a> {
    /// Those after the first `done`.
    fn after(file: &'a mut ExportFile, done: u64) -> Result<Self, Problem> {
        file.rewind(done)?;
        let next = file.next_row()?;
        let tables = exported().into_iter();
        let of_installation = tables.map(|(table, rows)| (table.name, rows.of_installation));
        Ok(Rows { file, next, of_installation: of_installation.collect() })
    }

    /// Returns the next records that are the installation's or not; none if others follow.
    fn part(&mut self, of_installation: bool) -> Result<Vec<Row>, Problem> {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while let Some((row, size)) = self.next.take_if(|(row, size)| {
            let fits = part.len() < ROWS_AT_ONCE && bytes + *size <= BYTES_AT_ONCE;
            // A table that is not known is refused with the organization's own.
            let is = self.of_installation.get(row.table.as_str()).copied().unwrap_or_default();
            (part.is_empty() || fits) && is == of_installation
        }) {
            part.push(row);
            bytes += size;
            self.next = self.file.next_row()?;
        }
        Ok(part)
    }

    /// Requires that none is left.
    fn end(&self) -> Result<(), Problem> {
        match &self.next {
            None => Ok(()),
            Some((row, _)) => Err(Problem(format!("the table {:.64?} is out of order", row.table))),
        }
    }
}

/// Checks an imported organization: every record, reference and index, and what must hold between
/// records.
///
/// # Errors
/// What is wrong; if the store fails.
pub fn check_imported(store: &Store, slug: &str) -> Result<(), Problem> {
    let failed = |error: Error| Problem(error.message().into());
    let mut findings = store.check(&super::tables()).map_err(failed)?;
    let org = store.read_now(Id::NIL, |view| organization_named(view, slug)).map_err(failed)?;
    if let Some(org) = org {
        let check =
            |findings: &mut Findings| store.read_now(org, |view| resources::check(view, findings));
        check(&mut findings).map_err(failed)?;
    }
    match findings.messages.first() {
        None => Ok(()),
        Some(first) => Err(Problem(format!(
            "the file is not sound: {} findings, the first: {first}",
            findings.wrong
        ))),
    }
}
