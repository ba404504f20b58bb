//! A list, as far as a command shows it.

use clap::Args;
use serde_json::{Value, json};

use super::table::Table;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Text};
use crate::cli::values;

/// Requires that a list of at most `limit` items shows some: those that come, if none of those there are.
///
/// # Errors
/// Usage otherwise: what shows none would look as if there were none.
pub fn require_some(limit: usize, follow: bool) -> Result<(), Failure> {
    if limit > 0 || follow {
        return Ok(());
    }
    Err(Failure::Usage("--limit must be at least 1; 0 goes with --follow: only what comes".into()))
}

/// How much of a list is shown.
#[derive(Args)]
pub struct Limit {
    /// How many at most
    #[arg(long, value_name = "N", default_value = "50", value_parser = values::limit,
          allow_negative_numbers = true)]
    pub limit: usize,
}

/// The first items of a list.
pub struct Listed {
    pub items: Vec<Value>,
    /// Whether there are more: a part must not look like the whole.
    has_more: bool,
}

impl Listed {
    /// A list with all its items.
    pub fn whole(items: Vec<Value>) -> Self {
        Listed { items, has_more: false }
    }

    /// The first `limit` of these items.
    pub fn first(mut items: Vec<Value>, limit: usize) -> Self {
        let has_more = items.len() > limit;
        items.truncate(limit);
        Listed { items, has_more }
    }

    /// Prints the items, as a table with a row for each, `nothing` if there are none, or as JSON.
    pub fn show<const N: usize>(
        &self,
        json: bool,
        names: [&'static str; N],
        nothing: &str,
        row: impl Fn(&Value) -> [String; N],
    ) -> Result<(), Failure> {
        self.print(json, Table::of(names, &self.items, row).text(nothing))
    }

    /// Prints the items, as a text or as JSON, and says if there are more.
    pub fn print(&self, json: bool, text: impl Into<Text>) -> Result<(), Failure> {
        output::print(json, &json!({"items": self.items, "more": self.has_more}), text)?;
        if self.has_more && !json {
            let shown = self.items.len();
            output::status(&format!("there are more than these {shown}; --limit N lists N"));
        }
        Ok(())
    }
}
