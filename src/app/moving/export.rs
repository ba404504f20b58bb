//! Writing the file of an organization.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{End, EndLine, FORMAT, Header, MemberLine, Row, exported};
use crate::auth::{Organization, Tokens, organization_named};
use crate::base::{Error, Exporting, Id, Portable as _, Result};
use crate::resources::organizations::moving::moved_members;
use crate::store::{Store, View};

/// What was exported.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportReport {
    /// The slug of the organization.
    pub org_slug: String,
    pub members: u64,
    pub records: u64,
    /// Secrets that were left out.
    pub secrets_left_out: u64,
}

/// Writes the organization with this slug, as it is now, line by line. Blocks, and holds little more
/// than a record in memory.
///
/// # Errors
/// 404 if there is none; if the store or `write` fails.
pub fn export_organization(
    store: &Store,
    slug: &str,
    write: &mut dyn FnMut(String) -> Result<()>,
) -> Result<ExportReport> {
    store.read_now(Id::NIL, |view| {
        let org = organization_named(view, slug)?;
        let org = org.ok_or_else(|| Error::no_such("organization"))?;
        // One snapshot for everything, so that the records belong together.
        Writing { hash: blake3::Hasher::new(), write }.all(&view.in_org(org))
    })
}

struct Writing<'a> {
    hash: blake3::Hasher,
    write: &'a mut dyn FnMut(String) -> Result<()>,
}

impl Writing<'_> {
    fn line(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text =
            serde_json::to_string(line).map_err(|error| Error::internal(error.to_string()))?;
        text.push('\n');
        self.hash.update(text.as_bytes());
        (self.write)(text)
    }

    fn all(mut self, view: &View) -> Result<ExportReport> {
        let mut out = Exporting::default();
        let organization: Organization = view.fetch(&view.org())?;
        let tables = exported();
        self.line(&Header {
            roadstead_export: FORMAT,
            organization: organization.to_json(&mut out),
            layouts: tables.iter().map(|(table, _)| (table.name.into(), table.version)).collect(),
        })?;
        let members = moved_members(view)?;
        for member in &members {
            self.line(&MemberLine { member: member.to_json(&mut out) })?;
        }
        let mut records = BTreeMap::new();
        for (table, rows) in &tables {
            let mut count = 0;
            (rows.read)(view, &mut out, &mut |record: Value| {
                count += 1;
                self.line(&Row { table: table.name.into(), record })
            })?;
            if count > 0 {
                records.insert(table.name.to_string(), count);
            }
        }
        let report = ExportReport {
            org_slug: organization.slug.to_string(),
            members: members.len() as u64,
            records: records.values().sum(),
            secrets_left_out: out.secrets,
        };
        let hash = self.hash.finalize().to_hex().to_string();
        let installation = Tokens::new(view.keys()).installation().to_string();
        let (members, secrets_left_out) = (report.members, report.secrets_left_out);
        let end = End { members, records, hash, secrets_left_out, installation };
        self.line(&EndLine { end })?;
        Ok(report)
    }
}
