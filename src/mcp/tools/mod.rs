//! Tools: routes of the API for models.
//!
//! A tool is a line of [`table`]: its name, its route, and what of the route's arguments a model is
//! not told. All else follows from the route. The list is read into the context of a model in each
//! conversation, so it is short: at most 12 KB ([`schemas`]).

mod call;
mod schemas;
mod table;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::api::Route;
use crate::api::op::Shape;
use crate::auth::Role;
use crate::base::Result;
use crate::http::Router;
use crate::mcp::era::Era;

pub use table::{ToolInfo, tools};

/// The tools of a server.
pub struct Tools {
    router: Arc<Router>,
    list: LazyLock<Value, Box<dyn FnOnce() -> Value + Send>>,
}

impl Tools {
    /// The tools of these routes. Their list is generated when it is first asked for.
    pub fn new(router: Arc<Router>) -> Self {
        let routes = router.clone();
        Tools { router, list: LazyLock::new(Box::new(move || list(&routes))) }
    }

    /// The result of `tools/list` for a role, always in the same order.
    pub fn list(&self, era: Era, role: Role) -> Value {
        let mut list = self.list.clone();
        if let Some(tools) = list["tools"].as_array_mut().filter(|_| role < Role::Member) {
            let may = |name: &str| self.find(name)?.1.ok()?.require_role(role).ok();
            tools.retain(|tool| tool["name"].as_str().and_then(may).is_some());
        }
        if !era.has_structured_content() {
            for tool in list["tools"].as_array_mut().into_iter().flatten() {
                tool.as_object_mut().and_then(|tool| tool.shift_remove("outputSchema"));
            }
        }
        list
    }

    /// Whether a call with these parameters can wait: one that leases what it returns, and one that is
    /// asked to.
    pub fn waits(&self, params: &Value) -> bool {
        let route = params["name"].as_str().and_then(|name| self.find(name)?.1.ok());
        let is_asked_to = !params["arguments"]["wait"].is_null();
        route.is_some_and(|route| {
            matches!(route.operation.shape, Shape::Wait(_)) || route.waits() && is_asked_to
        })
    }

    /// The tool of this name with its route.
    fn find(&self, name: &str) -> Option<(&'static ToolInfo, Result<Arc<Route>>)> {
        let tool = tools().iter().find(|tool| tool.name == name)?;
        Some((tool, self.router.by_pattern(tool.method, tool.path)))
    }
}

fn list(router: &Router) -> Value {
    // A test calls every tool, so each has its route.
    let found = tools().iter().filter_map(|tool| {
        router.by_pattern(tool.method, tool.path).ok().map(|route| described(tool, &route))
    });
    json!({"tools": found.collect::<Vec<_>>()})
}

/// A tool as clients see it.
fn described(tool: &ToolInfo, route: &Route) -> Value {
    let schemas = schemas::of(tool, route);
    json!({
        "name": tool.name,
        "description": tool.about.unwrap_or(route.about),
        "inputSchema": schemas.input,
        "outputSchema": schemas.output,
        "annotations": hints(tool, route),
    })
}

/// What a client may let a model do without asking. Each default of the protocol is left out: a tool
/// changes something, destroys something, and has another effect each time.
fn hints(tool: &ToolInfo, route: &Route) -> Value {
    use crate::api::Method::{Delete, Patch};
    if matches!(route.operation.shape, Shape::One | Shape::List | Shape::Walk | Shape::Watch) {
        return json!({"readOnlyHint": true});
    }
    let mut hints = json!({});
    if !matches!(route.method, Delete | Patch) {
        hints["destructiveHint"] = json!(false);
    }
    if tool.is_idempotent || matches!(route.method, Delete | Patch) {
        hints["idempotentHint"] = json!(true);
    }
    hints
}
