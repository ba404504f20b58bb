//! `roadstead tool`

use clap::Args;

use super::flags::ClientFlags;
use super::listed::Limit;
use super::table::cells;
use super::tags::{TagFilter, tags};
use crate::cli::commands::commands;
use crate::cli::failure::Failure;

commands! {
    /// List tools
    pub Tool of ToolCommand { List(List) }
}

/// List tools, newest first
#[derive(Args)]
#[command(after_help = "A key needs the scope tool:read.\n\n\
                        Example: roadstead tool list --tag billing")]
struct List {
    /// Only tools of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,

    #[command(flatten)]
    tag: TagFilter,

    #[command(flatten)]
    shown: Limit,

    #[command(flatten)]
    client: ClientFlags,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let query = self.tag.with([("type", self.kind.as_deref())]);
        let listed = api.first_in_org("/tools", &query, self.shown.limit)?;
        let head = ["NAME", "TYPE", "VERSION", "TAGS", "ID"];
        listed.show(self.client.json, head, "no tools", |item| {
            let [name, kind, version, id] = cells(item, ["name", "type", "version", "id"]);
            [name, kind, version, tags(item), id]
        })
    }
}
