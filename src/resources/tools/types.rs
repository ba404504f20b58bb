//! The known types of tools. A tool may have any other type (reference: agents, "Tools"): nothing
//! here depends on it; it informs people and providers.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Output, Req, ResourceRef};
use crate::base::Result;
use crate::store::{Page, View};

/// A known type of tool.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ToolType {
    /// The value of a tool's `type`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What such a tool is.
    description: &'static str,
}

impl Output for ToolType {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
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

/// Lists the known types, in a single page.
pub fn list(_: &View, _: &Req) -> Result<Page<ToolType>> {
    Ok(Page::single(KNOWN.to_vec()))
}
