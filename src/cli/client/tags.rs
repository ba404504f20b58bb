//! Tags on the command line.

use clap::Args;
use serde_json::Value;

use super::table::cell;
use crate::cli::failure::Failure;

/// The tags that everything in a list has.
#[derive(Args)]
pub struct TagFilter {
    /// Only what has this tag; of several, or with commas between them, all of them
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
}

impl TagFilter {
    /// The parameters of a list, with these tags.
    pub fn with<'a>(
        &'a self,
        query: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Vec<(&'a str, Option<&'a str>)> {
        let tags = self.tags.iter().map(|tag| ("tag", Some(tag.as_str())));
        query.into_iter().chain(tags).collect()
    }

    /// Refuses tags where nothing has any.
    ///
    /// # Errors
    /// Usage, with this reason.
    pub fn refuse(&self, why: &str) -> Result<(), Failure> {
        if self.tags.is_empty() { Ok(()) } else { Err(Failure::Usage(format!("--tag: {why}"))) }
    }
}

/// The tags of an item, for a column.
pub fn tags(item: &Value) -> String {
    let tags = item["tags"].as_array().into_iter().flatten();
    tags.map(cell).collect::<Vec<_>>().join(", ")
}
