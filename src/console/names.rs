//! Names that the editor completes: promptlets of the registry, and variables of environments.

use serde::Deserialize;

use super::api::Api;
use super::choice::Kind;
use super::place::Place;
use super::strict::List;
use super::visit::Visit;
use crate::base::{self, Result};

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
    /// Where a script asks for promptlets of which the page has no more room; empty if it has all.
    pub more: String,
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
    pub async fn read(visit: &Visit, place: &Place) -> Result<Self> {
        let of = [("registryRef", place.registry.as_str()), ("artifactType", "promptlet")];
        let promptlets: Vec<Named> = visit.api.items("/registries/artifacts", &of).await?;
        let is_whole = promptlets.len() < Api::MAX_ITEMS;
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
                Err(error)
                    if matches!(error.kind(), base::Kind::NotFound | base::Kind::Forbidden) => {}
                Err(error) => return Err(error),
            }
        }
        let (promptlets, has_room) = bounded(promptlets);
        let more = if is_whole && has_room { String::new() } else { more(visit, place) };
        Ok(Names { promptlets, more, variables: bounded(variables.into_iter()).0 })
    }
}

/// The address that a script asks for promptlets of the registry.
fn more(visit: &Visit, place: &Place) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("kind", Kind::Promptlet.name())
        .append_pair("registry", &place.registry)
        .finish();
    visit.in_org(&format!("/choose?{query}"))
}

/// As many names as a page has room for, and whether that is all.
fn bounded(named: impl Iterator<Item = Named>) -> (Vec<String>, bool) {
    let mut names: Vec<_> = named.map(|named| named.name).collect();
    names.sort();
    names.dedup();
    let mut bytes = 0;
    names.retain(|name| {
        bytes += name.len() + MARKUP_BYTES;
        bytes <= MAX_BYTES
    });
    (names, bytes <= MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_take_no_more_than_their_room() {
        let of = |names: Vec<String>| bounded(names.into_iter().map(|name| Named { name }));
        let all = (vec!["a".to_string(), "b".to_string()], true);
        assert_eq!(of(vec!["b".into(), "a".into(), "b".into()]), all);
        let (many, is_whole) = of((0..1000).map(|number| format!("{number:0128}")).collect());
        assert_eq!((many.len(), is_whole), (MAX_BYTES / (128 + MARKUP_BYTES), false));
    }
}
