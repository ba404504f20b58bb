//! Reading the file of an organization, within limits, whoever wrote it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;

use serde::de::DeserializeOwned;

use super::{End, EndLine, FORMAT, Header, MemberLine, Row, exported};
use crate::base::{Importing, Portable as _};
use crate::resources::organizations::moving::{ArrivingOrganization, MAX_MEMBERS, MovedMember};

/// A line has at most 16 MiB: a record of 2 MiB, all of whose characters are escaped.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Why a file is refused: a sentence without a final full stop.
#[derive(Debug)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem(format!("the file cannot be read: {error}"))
    }
}

/// A file that was read to its end: it is whole, and nothing in it was changed since it was written.
/// What its records say is not checked yet.
pub struct ExportFile {
    lines: Lines,
    pub arriving: ArrivingOrganization,
    pub records: u64,
}

impl ExportFile {
    /// Opens a file and reads it once.
    ///
    /// # Errors
    /// If it is no whole export, or of another format.
    pub fn open(path: &Path) -> Result<Self, Problem> {
        let mut lines = Lines::of(File::open(path)?);
        // Before a line of something else is looked for.
        let begin = lines.file.fill_buf()?;
        if !begin.is_empty() && !begin.starts_with(b"{\"") {
            return Err(Problem(
                "this is no file of an organization, as roadstead export writes it; a backup is for \
                 roadstead restore"
                    .into(),
            ));
        }
        let header: Header = lines.parsed()?.ok_or_else(|| Problem("the file is empty".into()))?;
        check_format(&header)?;
        let mut members = Vec::new();
        let mut records: BTreeMap<String, u64> = BTreeMap::new();
        let mut hash = blake3::Hasher::new();
        hash.update(&lines.line);
        let end: End = loop {
            if !lines.next()? {
                return Err(Problem(format!(
                    "the file ends after line {}: it is not whole",
                    lines.number
                )));
            }
            if lines.line.starts_with(b"{\"table\":") {
                let row: Row = lines.parse()?;
                *records.entry(row.table).or_default() += 1;
            } else if lines.line.starts_with(b"{\"member\":") {
                members.push(lines.parse::<MemberLine>()?.member);
                if members.len() > MAX_MEMBERS {
                    return Err(lines.problem("there are more than 500 members"));
                }
            } else {
                break lines.parse::<EndLine>()?.end;
            }
            hash.update(&lines.line);
        };
        if lines.next()? {
            return Err(lines.problem("there is something after the end"));
        }
        let digest = hash.finalize();
        if end.hash != digest.to_hex().as_str()
            || end.records != records
            || end.members != members.len() as u64
        {
            return Err(Problem(
                "the file is not what was exported: its lines do not have the hash and the numbers \
                 that the last one says; export it again, or copy it again"
                    .into(),
            ));
        }
        let input = Importing::default();
        let wrong = |what: &str, why: String| Problem(format!("{what}: {why}"));
        let organization = crate::auth::Organization::from_json(header.organization, &input)
            .map_err(|why| wrong("organization", why))?;
        let members = members.into_iter().map(|member| MovedMember::from_json(member, &input));
        Ok(ExportFile {
            records: records.values().sum(),
            arriving: ArrivingOrganization {
                organization,
                slug: None,
                members: members.collect::<Result<_, _>>().map_err(|why| wrong("member", why))?,
                digest: digest.into(),
                source: one_line(&end.installation),
                accepts_unproved: false,
            },
            lines,
        })
    }

    /// Goes back, or on, to after the first `records` records.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn rewind(&mut self, records: u64) -> Result<(), Problem> {
        self.lines.file.rewind()?;
        self.lines.number = 0;
        for _ in 0..=self.arriving.members.len() as u64 + records {
            self.lines.next()?;
        }
        Ok(())
    }

    /// Reads the next record and its size in bytes; none after the last.
    ///
    /// # Errors
    /// If the file cannot be read, or has changed.
    pub fn next_row(&mut self) -> Result<Option<(Row, usize)>, Problem> {
        if !self.lines.next()? || !self.lines.line.starts_with(b"{\"table\":") {
            return Ok(None);
        }
        Ok(Some((self.lines.parse()?, self.lines.line.len())))
    }
}

fn check_format(header: &Header) -> Result<(), Problem> {
    if header.roadstead_export != FORMAT {
        return Err(Problem(format!(
            "the file has format {}, and this Roadstead reads format {FORMAT}; use the version that \
             wrote it, or a newer one",
            header.roadstead_export
        )));
    }
    let known: BTreeMap<_, _> =
        exported().iter().map(|(table, _)| (table.name, table.version)).collect();
    for (table, version) in &header.layouts {
        if known.get(table.as_str()) != Some(version) {
            return Err(Problem(format!(
                "the file has version {version} of {table:.64?}, which this Roadstead does not read; \
                 use the version that wrote it"
            )));
        }
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// The lines of a file, one at a time.
struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    fn of(file: File) -> Self {
        Lines { file: BufReader::new(file), line: Vec::new(), number: 0 }
    }

    /// Reads the next line; returns whether there is one.
    fn next(&mut self) -> Result<bool, Problem> {
        self.line.clear();
        self.number += 1;
        (&mut self.file).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line)?;
        match self.line.last() {
            None => Ok(false),
            Some(b'\n') => Ok(true),
            Some(_) if self.line.len() as u64 == MAX_LINE_BYTES => {
                Err(self.problem("the line is longer than 16 MiB"))
            }
            Some(_) => Err(self.problem("the line does not end: the file is not whole")),
        }
    }

    fn parsed<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Problem> {
        if self.next()? { self.parse().map(Some) } else { Ok(None) }
    }

    /// Parses the line. JSON that is nested deeper than 128 is refused by the parser.
    fn parse<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.line).map_err(|error| self.problem(&error.to_string()))
    }

    fn problem(&self, what: &str) -> Problem {
        Problem(format!("line {}: {what}", self.number))
    }
}
