//! How commands name an artifact: `acme/main/scribe`, or `main/scribe` in one's own organization.

use super::api::Api;
use crate::cli::failure::Failure;

/// What a person wrote: registry, name, and what follows an `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactName {
    org: Option<String>,
    registry: String,
    pub name: String,
    /// A version, a range or a label.
    pub selector: Option<String>,
}

impl ArtifactName {
    /// Parses `[ORG/]REGISTRY/NAME[@VERSION]`.
    ///
    /// # Errors
    /// What the form is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (path, selector) = match text.split_once('@') {
            Some((path, selector)) => (path, Some(selector.to_string())),
            None => (text, None),
        };
        let parts: Vec<&str> = path.split('/').collect();
        let (org, registry, name) = match parts[..] {
            [registry, name] => (None, registry, name),
            [org, registry, name] => (Some(org), registry, name),
            _ => (None, "", ""),
        };
        let is_empty = registry.is_empty() || name.is_empty() || org == Some("");
        if is_empty || selector.as_deref() == Some("") {
            return Err("give REGISTRY/NAME or ORG/REGISTRY/NAME, optionally with @VERSION: \
                        main/scribe@production"
                .into());
        }
        let (registry, name) = (registry.to_string(), name.to_string());
        Ok(ArtifactName { org: org.map(str::to_string), registry, name, selector })
    }

    /// Returns the `registryRef` of requests.
    pub fn registry_ref(&self, api: &Api) -> Result<String, Failure> {
        Ok(format!("{}/{}", self.org(api)?, self.registry))
    }

    /// The organization that the registry is in.
    pub fn org<'a>(&'a self, api: &'a Api) -> Result<&'a str, Failure> {
        match &self.org {
            Some(org) => Ok(org),
            None => api.org(),
        }
    }

    /// Refuses a selector, for commands that take the version elsewhere or make it.
    pub fn without_selector(&self) -> Result<(), Failure> {
        match &self.selector {
            None => Ok(()),
            Some(_) => Err(Failure::Usage(format!(
                "name the artifact without @VERSION here: {}/{}",
                self.registry, self.name
            ))),
        }
    }
}

/// Parses a registry: `acme/main`, or `main` in one's own organization.
pub fn registry_ref(text: &str, api: &Api) -> Result<String, Failure> {
    if text.contains('/') { Ok(text.to_string()) } else { Ok(format!("{}/{text}", api.org()?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_registry_and_perhaps_an_organization_and_a_version() {
        let parsed = ArtifactName::parse("acme/main/scribe@^1.0").unwrap();
        assert_eq!(parsed.org.as_deref(), Some("acme"));
        assert_eq!((parsed.registry.as_str(), parsed.name.as_str()), ("main", "scribe"));
        assert_eq!(parsed.selector.as_deref(), Some("^1.0"));
        assert_eq!(ArtifactName::parse("main/scribe").unwrap().org, None);
        for wrong in ["", "scribe", "a/b/c/d", "/scribe", "main/", "/main/scribe", "main/scribe@"] {
            assert!(ArtifactName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
