//! The providers that run agents. Their names are free; those that are in use are offered.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::choice::Choice;
use super::strict::{List, Nullable};
use super::visit::Visit;
use crate::base::Result;

/// So many of the newest agents and environments are looked at.
const AGENTS: &str = "100";
const ENVIRONMENTS: &str = "20";

#[derive(Deserialize)]
struct Agent {
    draft: Draft,
}

#[derive(Deserialize)]
struct Draft {
    provider: Nullable<String>,
}

#[derive(Deserialize)]
struct Environment {
    /// Those that it has a credential for.
    providers: Vec<String>,
}

/// The names with this beginning that agents and credentials have which the visitor may use.
pub async fn providers(visit: &Visit, text: &str) -> Result<Vec<Choice>> {
    let agents: List<Agent> = visit.api.get("/agents", &[("limit", AGENTS)]).await?;
    let limit = [("limit", ENVIRONMENTS)];
    let environments: List<Environment> = visit.api.get("/environments", &limit).await?;
    let of_agents = agents.items.into_iter().filter_map(|agent| agent.draft.provider.0);
    let of_environments = environments.items.into_iter().flat_map(|one| one.providers);
    let names: BTreeSet<String> = of_agents.chain(of_environments).collect();
    let fit = names.into_iter().filter(|name| name.starts_with(text));
    Ok(fit.map(|value| Choice { value, label: String::new() }).collect())
}
