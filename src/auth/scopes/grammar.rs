//! The grammar of a scope: `kind:verb`, or `kind:verb@target`.
//!
//! ```text
//! artifact:read            artifact:publish@acme/main
//! team:work@shipping       label:move@acme/main#staging
//! ```

use serde_json::json;

use super::name::{ScopeName, ScopeTarget, TargetForm};
use crate::base::{Label, Slug, TextRule, Validated, nearest};

/// A scope of an API key, as it was given.
pub type KeyScope = Validated<ScopeRule>;

/// The longest scope has a name of some 25 characters, two slugs and a label of up to 64.
const MAX_CHARS: usize = 250;

/// The rule of [`KeyScope`].
pub struct ScopeRule;

impl TextRule for ScopeRule {
    fn check(text: String) -> Result<String, String> {
        let (name, target) = split(&text);
        let name = ScopeName::parse(name).ok_or_else(|| unknown(name))?;
        if let Some(target) = target {
            check_target(name, target)?;
        }
        Ok(text)
    }

    fn schema() -> serde_json::Value {
        json!({
            "type": "string",
            "maxLength": MAX_CHARS,
            "pattern": "^[a-z]+(?:-[a-z]+)*:[a-z]+(?:@[A-Za-z0-9._/#-]+)?$",
        })
    }
}

impl KeyScope {
    /// The organization in its target, if there is one.
    pub fn target_org(&self) -> Option<&str> {
        split(self).1?.split_once('/').map(|(org, _)| org)
    }

    /// Whether it has this name, for whatever target.
    pub fn is_named(&self, name: ScopeName) -> bool {
        split(self).0 == name.text()
    }

    /// Whether it permits `name` on this target; without one, on everything.
    pub fn covers(&self, name: ScopeName, target: Option<&ScopeTarget>) -> bool {
        let (own, narrowed) = split(self);
        own == name.text()
            && narrowed.is_none_or(|to| target.is_some_and(|target| is_of(target, to)))
    }
}

/// The name and the target of a scope.
fn split(scope: &str) -> (&str, Option<&str>) {
    match scope.split_once('@') {
        Some((name, target)) => (name, Some(target)),
        None => (scope, None),
    }
}

/// Whether a resource is what the target of a scope names. The organization is that of the key, and
/// was checked when the key was created.
fn is_of(target: &ScopeTarget, named: &str) -> bool {
    let (slug, label) = match named.split_once('#') {
        Some((slug, label)) => (slug, Some(label)),
        None => (named, None),
    };
    let slug = slug.split_once('/').map_or(slug, |(_, slug)| slug);
    target.slug == slug && label.is_none_or(|label| target.label.as_deref() == Some(label))
}

/// Says what is wrong with a name that is none.
fn unknown(name: &str) -> String {
    let Some((kind, verb)) = name.split_once(':') else {
        return "must be kind:verb or kind:verb@target, such as artifact:read".into();
    };
    let mut kinds: Vec<_> = ScopeName::all().map(ScopeName::kind).collect();
    kinds.dedup();
    if !kinds.contains(&kind) {
        return match nearest(kind, kinds.iter().copied()) {
            Some(near) => format!("has an unknown kind; did you mean {near}?"),
            None => format!("has an unknown kind; the kinds are {}", kinds.join(", ")),
        };
    }
    let of_kind = ScopeName::all().filter(|name| name.kind() == kind);
    let verbs: Vec<_> = of_kind.map(ScopeName::verb).collect();
    match nearest(verb, verbs.iter().copied()) {
        Some(near) => format!("has an unknown verb; did you mean {kind}:{near}?"),
        None => format!("has an unknown verb; those of {kind} are {}", verbs.join(", ")),
    }
}

/// Checks the target of a scope with this name.
fn check_target(name: ScopeName, target: &str) -> Result<(), String> {
    let is_slug = |text: &str| Slug::parse(text).is_ok();
    let is_registry = |text: &str| match text.split_once('/') {
        Some((org, slug)) => is_slug(org) && is_slug(slug),
        None => is_slug(text),
    };
    const REGISTRY: &str = "a registry, <registrySlug> or <orgSlug>/<registrySlug>";
    let (is_valid, form) = match name.target() {
        TargetForm::Nothing => {
            return Err(format!("must have nothing after {name}: it is about all of its kind"));
        }
        TargetForm::Registry => (is_registry(target), REGISTRY.to_string()),
        TargetForm::Label => {
            let is_valid = match target.split_once('#') {
                Some((registry, label)) => is_registry(registry) && Label::parse(label).is_ok(),
                None => is_registry(target),
            };
            (is_valid, format!("{REGISTRY}, with or without #<label>"))
        }
        TargetForm::Team => (is_slug(target), "the slug of a team".into()),
        TargetForm::Environment => (is_slug(target), "the slug of an environment".into()),
    };
    if is_valid { Ok(()) } else { Err(format!("must name after @ {form}")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(text: &str) -> String {
        KeyScope::parse(text).err().unwrap_or_default()
    }

    #[test]
    fn what_is_no_scope_is_refused_with_what_is_probably_meant() {
        for (text, expected) in [
            ("", "kind:verb"),
            ("artifact", "kind:verb"),
            ("*", "kind:verb"),
            ("artefact:read", "did you mean artifact?"),
            ("Artifact:read", "did you mean artifact?"),
            (" artifact:read", "did you mean artifact?"),
            ("llm_provider:read", "did you mean llm-provider?"),
            ("spaceship:fly", "the kinds are registry, artifact, label"),
            ("artifact:publsh", "did you mean artifact:publish?"),
            ("artifact:read ", "did you mean artifact:read?"),
            ("artifact:read:all", "those of artifact are read, publish, delete"),
            ("artifact:*", "those of artifact are read, publish, delete"),
            ("deployment:approve-as", "those of deployment are read"),
            ("tool:read@search", "nothing after tool:read"),
            ("artifact:read@", "a registry"),
            ("artifact:read@main@main", "a registry"),
            ("artifact:read@Main", "a registry"),
            ("artifact:read@a/b/c", "a registry"),
            ("artifact:read@/main", "a registry"),
            ("artifact:read@main#staging", "a registry"),
            ("artifact:read@01890a5d-ac96-774b-bcce-b302099a8057", "a registry"),
            ("label:move@main#", "with or without #<label>"),
            ("label:move@#staging", "with or without #<label>"),
            ("label:move@main#a#b", "with or without #<label>"),
            ("team:work@acme/shipping", "the slug of a team"),
            ("environment:read@staging#a", "the slug of an environment"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(expected), "{text:?}: {problem}");
        }
    }

    fn slug() -> impl Strategy<Value = String> {
        "[a-z0-9]{1,9}(-[a-z0-9]{1,9}){0,2}"
    }

    fn registry() -> impl Strategy<Value = String> {
        (prop::option::of(slug()), slug()).prop_map(|(org, slug)| match org {
            Some(org) => format!("{org}/{slug}"),
            None => slug,
        })
    }

    fn scope() -> impl Strategy<Value = String> {
        let names: Vec<_> = ScopeName::all().collect();
        let label = prop::option::of("[A-Za-z][A-Za-z0-9._-]{0,8}");
        let parts = (prop::sample::select(names), any::<bool>(), slug(), registry(), label);
        parts.prop_map(|(name, is_narrowed, slug, registry, label)| {
            let target = match name.target() {
                TargetForm::Nothing => None,
                TargetForm::Registry => Some(registry),
                TargetForm::Label => Some(match label {
                    Some(label) => format!("{registry}#{label}"),
                    None => registry,
                }),
                TargetForm::Team | TargetForm::Environment => Some(slug),
            };
            match target.filter(|_| is_narrowed) {
                Some(target) => format!("{name}@{target}"),
                None => name.text().into(),
            }
        })
    }

    proptest! {
        #[test]
        fn every_scope_of_the_grammar_is_kept_as_it_is_given(text in scope()) {
            let parsed = KeyScope::parse(text.as_str()).unwrap();
            prop_assert_eq!(parsed.as_str(), &text);
            let json = serde_json::to_string(&parsed).unwrap();
            prop_assert_eq!(serde_json::from_str::<KeyScope>(&json).unwrap(), parsed.clone());
            let pattern = ScopeRule::schema()["pattern"].as_str().unwrap().to_string();
            prop_assert!(regex::Regex::new(&pattern).unwrap().is_match(&text));
            // It covers what it names, and its own name alone.
            let (name, target) = split(&text);
            let name = ScopeName::parse(name).unwrap();
            let named = target.map(|target| {
                let (registry, label) = target.split_once('#').unwrap_or((target, "any"));
                let slug = registry.rsplit('/').next().unwrap().to_string();
                ScopeTarget { slug, label: Some(label.into()) }
            });
            for other in ScopeName::all() {
                prop_assert_eq!(parsed.covers(other, named.as_ref()), other == name);
                prop_assert_eq!(parsed.is_named(other), other == name);
            }
            let elsewhere = ScopeTarget { slug: "Elsewhere".into(), label: None };
            prop_assert_eq!(parsed.covers(name, Some(&elsewhere)), target.is_none());
            prop_assert_eq!(parsed.covers(name, None), target.is_none());
        }

        #[test]
        fn any_text_is_a_scope_or_not(text in ".{0,40}|[a-z:@/#-]{0,40}") {
            if let Ok(scope) = KeyScope::parse(text.as_str()) {
                prop_assert!(ScopeName::parse(split(&scope).0).is_some());
            }
        }
    }
}
