//! The types of tools that are known. A tool may be of any other (reference: agents, "Tools"):
//! nothing here depends on a type, it tells people and providers what to expect.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Req;
use crate::base::Result;
use crate::store::{Page, View};

/// A type of tool.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ToolType {
    /// The word that stands in a tool's `type`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What such a tool is.
    description: &'static str,
}

const KNOWN: &[ToolType] = &[
    ToolType {
        kind: "function",
        description: "A function that the agent's own program carries out",
    },
    ToolType { kind: "mcp", description: "A server that speaks the Model Context Protocol" },
    ToolType { kind: "http", description: "An HTTP endpoint that is called with the arguments" },
    ToolType { kind: "retrieval", description: "A search in documents" },
    ToolType { kind: "code", description: "A place to run code that the model writes" },
    ToolType { kind: "browser", description: "A web browser that the model steers" },
    ToolType { kind: "agent", description: "Another agent that takes over a part of the work" },
];

/// They are few: the list has one part.
pub fn list(_: &View, _: &Req) -> Result<Page<ToolType>> {
    Ok(Page::whole(KNOWN.to_vec()))
}
