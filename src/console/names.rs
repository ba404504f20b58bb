//! Names that the editor completes: promptlets of the registry, and variables of environments.

use serde::Deserialize;

use super::place::Place;
use super::strict::List;
use super::visit::Visit;
use crate::base::{Kind, Result};

/// Environments whose variables are read: each answers with up to 1 MiB of values.
const ENVIRONMENTS: &str = "3";
/// What each list may add to a page, which has 60 KB at most.
const MAX_BYTES: usize = 8 * 1024;
/// What an entry takes beside its name.
const MARKUP_BYTES: usize = 9;

/// Names to complete, each once and sorted.
#[derive(Default)]
pub struct Names {
    pub promptlets: Vec<String>,
    pub variables: Vec<String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Environment {
    id: String,
}

impl Names {
    /// Those that the visitor may see.
    ///
    /// # Errors
    /// Those of the routes.
    pub async fn read(visit: &Visit, place: &Place) -> Result<Self> {
        let of = [("registryRef", place.registry.as_str()), ("artifactType", "promptlet")];
        let promptlets: Vec<Named> = visit.api.items("/registries/artifacts", &of).await?;
        // A promptlet does not import itself.
        let is_other = |named: &Named| place.kind != "promptlet" || named.name != place.name;
        let promptlets = promptlets.into_iter().filter(is_other);
        let few = [("limit", ENVIRONMENTS)];
        let environments: List<Environment> = visit.api.get("/environments", &few).await?;
        let mut variables = Vec::new();
        for environment in environments.items {
            let path = format!("/environments/{}/variables", environment.id);
            match visit.api.get::<List<Named>>(&path, &[("limit", "100")]).await {
                Ok(some) => variables.extend(some.items),
                // It is gone, or not for the visitor any more: a name less to complete.
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Forbidden) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Names { promptlets: bounded(promptlets), variables: bounded(variables.into_iter()) })
    }
}

/// As many names as a page has room for.
fn bounded(named: impl Iterator<Item = Named>) -> Vec<String> {
    let mut names: Vec<_> = named.map(|named| named.name).collect();
    names.sort();
    names.dedup();
    let mut bytes = 0;
    names.retain(|name| {
        bytes += name.len() + MARKUP_BYTES;
        bytes <= MAX_BYTES
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_take_no_more_than_their_room() {
        let of = |names: Vec<String>| bounded(names.into_iter().map(|name| Named { name }));
        assert_eq!(of(vec!["b".into(), "a".into(), "b".into()]), ["a", "b"]);
        let many = of((0..1000).map(|number| format!("{number:0128}")).collect());
        assert_eq!(many.len(), MAX_BYTES / (128 + MARKUP_BYTES));
    }
}
