//! The newest version of an artifact, and the one after it.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::artifact::Artifact;
use crate::base::lines;
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::failure::Failure;

/// The first version of an artifact that has none.
const FIRST: &str = "1.0.0";

/// The part of a version to raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bump {
    Major,
    Minor,
    Patch,
}

impl Artifact<'_> {
    /// The newest version that has a text for the model itself; without one, for every model.
    pub fn newest(&self, model: Option<&str>) -> Result<Option<Value>, Failure> {
        match self.content(None, model) {
            Ok(content) => {
                let model = model.unwrap_or("generic");
                Ok((content["model"] == model).then_some(content))
            }
            Err(refusal) if refusal.with_code("not_found").is_some() => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The version after the highest one, whatever model that is for.
    pub fn next_version(&self, bump: Bump) -> Result<String, Failure> {
        let highest = match self.list("/registries/artifact-versions", &[], 1) {
            Ok(versions) => versions.items.into_iter().next(),
            Err(refusal) if refusal.with_code("not_found").is_some() => None,
            Err(refusal) => return Err(refusal.into()),
        };
        let Some(version) = highest else { return Ok(FIRST.into()) };
        raised(version["version"].as_str().unwrap_or_default(), bump)
            .ok_or_else(|| Failure::Failed("the highest version cannot be raised".into()))
    }
}

/// Whether a version has the text and the metadata of a file. Other line ends make no other version.
pub fn is_same(version: &Value, file: &PromptFile) -> bool {
    let source = version["source"].as_str().unwrap_or_default();
    lines::is_same(source, &file.source) && version["metadata"] == json!(file.metadata)
}

fn raised(version: &str, bump: Bump) -> Option<String> {
    let mut numbers = version.split('.').map(|number| number.parse::<u64>().ok());
    let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(match bump {
        Bump::Major => format!("{}.0.0", major.checked_add(1)?),
        Bump::Minor => format!("{major}.{}.0", minor.checked_add(1)?),
        Bump::Patch => format!("{major}.{minor}.{}", patch.checked_add(1)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_raised_sets_the_parts_behind_it_to_zero() {
        assert_eq!(raised("1.2.3", Bump::Major).as_deref(), Some("2.0.0"));
        assert_eq!(raised("1.2.3", Bump::Minor).as_deref(), Some("1.3.0"));
        assert_eq!(raised("1.2.3", Bump::Patch).as_deref(), Some("1.2.4"));
        assert_eq!(raised(&format!("0.0.{}", u64::MAX), Bump::Patch), None);
        assert_eq!(raised("1.2", Bump::Patch), None);
    }
}
