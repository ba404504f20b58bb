//! Which versions belong in files, and in which order texts that import each other are published.

use std::collections::{BTreeMap, BTreeSet};

use super::remote::Row;
use super::state::{ArtifactKey, State, Text, VersionName, numbers};
use crate::base::Range;
use crate::templates::compile;

/// The versions that files are made of: the highest of each artifact and model, those with a label,
/// and those that these import.
pub fn kept(state: &State<Row>) -> BTreeSet<VersionName> {
    let mut highest: BTreeMap<(&ArtifactKey, &str), &VersionName> = BTreeMap::new();
    for version in state.versions.keys() {
        // In order: the last is the highest.
        highest.insert((&version.artifact, &version.model), version);
    }
    let mut open: Vec<VersionName> = highest.into_values().cloned().collect();
    let numbers = |version: &str| numbers(version).unwrap_or_default();
    for ((artifact, _), version) in &state.labels {
        open.extend(state.models_of(artifact, numbers(version)).cloned());
    }
    let mut kept = BTreeSet::new();
    while let Some(version) = open.pop() {
        let imports = state.versions.get(&version).map(|row| row.imports.as_slice());
        for (name, of) in imports.unwrap_or_default() {
            let registry = version.artifact.registry.clone();
            let imported = ArtifactKey { registry, is_prompt: false, name: name.clone() };
            let models = state.models_of(&imported, numbers(of));
            open.extend(models.filter(|import| !kept.contains(*import)).cloned());
        }
        kept.insert(version);
    }
    kept
}

/// Sorts versions so that each comes after those that it imports.
///
/// # Errors
/// The versions of a cycle.
pub fn sorted(
    versions: &BTreeMap<VersionName, Text>,
) -> Result<Vec<&VersionName>, Vec<&VersionName>> {
    let needs: BTreeMap<&VersionName, Vec<&VersionName>> = versions
        .iter()
        .map(|(version, text)| (version, imported(versions, version, text)))
        .collect();
    let mut sorted = Vec::new();
    let mut done = BTreeSet::new();
    for version in versions.keys() {
        // Depth first, without recursion: the chain of imports of hostile files may be long.
        let mut path: Vec<(&VersionName, usize)> = vec![(version, 0)];
        let mut on_path = BTreeSet::from([version]);
        while let Some((at, next)) = path.pop() {
            if done.contains(at) {
                on_path.remove(at);
                continue;
            }
            match needs[at].get(next) {
                None => {
                    done.insert(at);
                    on_path.remove(at);
                    sorted.push(at);
                }
                Some(import) => {
                    path.push((at, next + 1));
                    if !done.contains(import) {
                        if !on_path.insert(import) {
                            return Err(on_path.into_iter().collect());
                        }
                        path.push((import, 0));
                    }
                }
            }
        }
    }
    Ok(sorted)
}

/// The versions among these that a text imports: of each import the highest in its range.
fn imported<'a>(
    versions: &'a BTreeMap<VersionName, Text>,
    of: &VersionName,
    text: &Text,
) -> Vec<&'a VersionName> {
    let mut imports: Vec<(String, Range)> = Vec::new();
    let _ = compile(&text.source, |name, range| {
        imports.push((name.to_string(), *range));
        Ok::<_, std::convert::Infallible>(Err(String::new()))
    });
    let mut found = Vec::new();
    for (name, range) in imports {
        let artifact =
            ArtifactKey { registry: of.artifact.registry.clone(), is_prompt: false, name };
        let first = VersionName { artifact, numbers: [0; 3], model: String::new() };
        let all = versions.range(first.clone()..).map(|(version, _)| version);
        let all: Vec<_> = all.take_while(|other| other.artifact == first.artifact).collect();
        let is_in = |version: &&&VersionName| {
            version.numbers >= range.from() && range.to().is_none_or(|to| version.numbers < to)
        };
        let Some(highest) = all.iter().rev().find(is_in) else { continue };
        found.extend(all.iter().copied().filter(|other| other.numbers == highest.numbers));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str, numbers: [u64; 3], source: &str) -> (VersionName, Text) {
        let is_prompt = name.starts_with('p');
        let artifact = ArtifactKey { registry: "main".into(), is_prompt, name: name.into() };
        let name = VersionName { artifact, numbers, model: "generic".into() };
        (name, Text { source: source.into(), ..Text::default() })
    }

    #[test]
    fn what_is_imported_comes_first() {
        let versions = BTreeMap::from([
            version("a", [1, 0, 0], "{{ import \"z@^1.0\" }}"),
            version("z", [1, 2, 0], "text"),
            version("z", [2, 0, 0], "{{ import \"a\" }}"),
            version("p", [1, 0, 0], "{{ import \"z\" }}"),
        ]);
        let order = sorted(&versions).unwrap();
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        assert_eq!(
            order,
            [
                "promptlet main/z@1.2.0",
                "promptlet main/a@1.0.0",
                "promptlet main/z@2.0.0",
                "prompt main/p@1.0.0"
            ]
        );
    }

    #[test]
    fn a_cycle_is_found_however_long() {
        let own = BTreeMap::from([version("a", [1, 0, 0], "{{ import \"a\" }}")]);
        assert!(sorted(&own).is_err());
        let many = (0..5000).map(|at| {
            let source = format!("{{{{ import \"a{}\" }}}}", (at + 1) % 5000);
            version(&format!("a{at}"), [1, 0, 0], &source)
        });
        assert!(sorted(&many.collect()).is_err());
    }
}
