//! Which tools mention a variable of the environment, as `${NAME}` in a string of their
//! configuration, so that nobody has to look for it
//! (reference: registries-and-templates, "Variable usage").

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bincode::{Decode, Encode};
use serde_json::Value;

use super::Tool;
use crate::base::{Id, JsonMap, Result, VariableName};
use crate::store::{Order, Record, Source, Tx, View};
use crate::templates::placeholders;

/// A tool mentions at most 1,000 variables: each is a row that is written with it.
pub const MAX_VARIABLES: usize = 1000;

/// That a tool mentions a variable.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ToolVariable {
    variable: VariableName,
    tool: Id<Tool>,
}

impl Record for ToolVariable {
    const TABLE: &'static str = "tool_variables";
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("tool", "derived from the tool's configuration: written and removed with it")];
    type Key = (VariableName, Id<Tool>);
    fn key(&self) -> Self::Key {
        (self.variable.clone(), self.tool)
    }
}

/// The variables that a configuration mentions, in strings at any depth.
pub fn mentioned(config: &JsonMap) -> BTreeSet<VariableName> {
    let mut names = BTreeSet::new();
    for value in config.0.values() {
        collect(value, &mut names);
    }
    names
}

fn collect(value: &Value, names: &mut BTreeSet<VariableName>) {
    match value {
        Value::String(text) => {
            names.extend(placeholders(text).filter_map(|name| VariableName::parse(name).ok()));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Notes what `tool` mentions, once its configuration is `new` and no longer `old`.
pub(super) fn note(tx: &mut Tx, tool: Id<Tool>, old: &JsonMap, new: &JsonMap) -> Result<()> {
    let (old, new) = (mentioned(old), mentioned(new));
    let row = |variable: &VariableName| ToolVariable { variable: variable.clone(), tool };
    old.difference(&new).try_for_each(|gone| tx.remove(&row(gone)))?;
    new.difference(&old).try_for_each(|added| tx.insert(&row(added)))
}

/// The tools that mention a variable, the newest first, at most so many.
///
/// # Errors
/// If the store fails.
pub fn tools_using(view: &View, variable: &VariableName, at_most: usize) -> Result<Vec<Tool>> {
    let mut tools = Vec::new();
    view.each(Source::TABLE, variable, Order::Descending, |row: ToolVariable| {
        if tools.len() == at_most {
            return Ok(ControlFlow::Break(()));
        }
        tools.push(view.fetch(&row.tool)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(tools)
}
