//! The references of tools to environment variables, as `${NAME}` in strings of their configuration,
//! stored so that the tools using a variable are found without a scan
//! (reference: registries-and-templates, "Variable usage").

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bincode::{Decode, Encode};
use serde_json::Value;

use super::tool::Tool;
use crate::base::{Id, JsonMap, Result, VariableName};
use crate::store::{AnyReference, Export, Key, ListSource, Order, Record, Reference, Tx, View};
use crate::templates::placeholders;

/// A tool uses at most 1,000 variables: each is a row written in the same transaction.
pub const MAX_VARIABLES: usize = 1000;

crate::base::portable! {
/// A reference from a tool to a variable.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ToolVariable {
    variable: VariableName,
    tool: Id<Tool>,
}
}

static TOOL: Reference<ToolVariable, Tool> = Reference::derived(
    &["tool"],
    |tool: &Tool| {
        let variables = variables_in(&tool.provider_config);
        variables.into_iter().map(|variable| (variable, tool.id)).collect()
    },
    |row: &ToolVariable, _| vec![row.tool.to_bytes()],
);

impl Record for ToolVariable {
    const TABLE: &'static str = "tool_variables";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TOOL];
    type Key = (VariableName, Id<Tool>);
    fn key(&self) -> Self::Key {
        (self.variable.clone(), self.tool)
    }
}

/// Returns the variables used in a configuration, in strings at any depth.
pub fn variables_in(config: &JsonMap) -> BTreeSet<VariableName> {
    let mut names = BTreeSet::new();
    for value in config.to_map().values() {
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

/// Updates the references of `tool` when its configuration changes from `old` to `new`.
pub(super) fn update(tx: &mut Tx, tool: Id<Tool>, old: &JsonMap, new: &JsonMap) -> Result<()> {
    let (old, new) = (variables_in(old), variables_in(new));
    let row = |variable: &VariableName| ToolVariable { variable: variable.clone(), tool };
    old.difference(&new).try_for_each(|gone| tx.remove(&row(gone)))?;
    new.difference(&old).try_for_each(|added| tx.insert(&row(added)))
}

/// Returns at most `at_most` tools that use a variable, newest first.
pub fn tools_using(view: &View, variable: &VariableName, at_most: usize) -> Result<Vec<Tool>> {
    let mut tools = Vec::new();
    view.for_each(ListSource::TABLE, variable, Order::Descending, |row: ToolVariable| {
        if tools.len() == at_most {
            return Ok(ControlFlow::Break(()));
        }
        tools.push(view.fetch(&row.tool)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(tools)
}
