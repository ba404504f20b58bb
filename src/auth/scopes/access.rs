//! How much of its user's rights a key has.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use super::grammar::KeyScope;
use super::name::{ScopeName, ScopeTarget};
use crate::base::{Error, Result};

/// A key has at most 100 scopes: twice as many as there are names. All are compared on every request.
pub const MAX_SCOPES: usize = 100;

/// How much of its user's rights a key has.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum KeyAccess {
    /// All.
    #[default]
    Full,
    /// Those that change nothing: [`ScopeName::is_read`].
    Read,
    /// Those that these scopes cover.
    Scopes(Vec<KeyScope>),
}
crate::store::stored_enum!(KeyAccess { Full = 0, Read = 1, Scopes(scopes: Vec<KeyScope>) = 2 });

impl KeyAccess {
    /// Whether it includes `name` on this target; without one, on everything.
    pub fn covers(&self, name: ScopeName, target: Option<&ScopeTarget>) -> bool {
        match self {
            KeyAccess::Full => true,
            KeyAccess::Read => name.is_read(),
            KeyAccess::Scopes(scopes) => scopes.iter().any(|scope| scope.covers(name, target)),
        }
    }

    /// Whether it includes `name` on anything.
    pub fn has_some(&self, name: ScopeName) -> bool {
        match self {
            KeyAccess::Full | KeyAccess::Read => self.covers(name, None),
            KeyAccess::Scopes(scopes) => scopes.iter().any(|scope| scope.is_named(name)),
        }
    }

    /// Whether it includes nothing but scopes that change nothing.
    pub fn only_reads(&self) -> bool {
        !ScopeName::all().any(|name| !name.is_read() && self.has_some(name))
    }

    /// Requires `name` on this target; without one, on everything.
    ///
    /// # Errors
    /// 403 that names the scope.
    pub fn require(&self, name: ScopeName, target: Option<&ScopeTarget>) -> Result<()> {
        if self.covers(name, target) { Ok(()) } else { Err(self.missing(name)) }
    }

    /// Requires `name` on anything.
    ///
    /// # Errors
    /// 403 that names the scope.
    pub fn require_some(&self, name: ScopeName) -> Result<()> {
        if self.has_some(name) { Ok(()) } else { Err(self.missing(name)) }
    }

    /// Requires full access.
    ///
    /// # Errors
    /// 403.
    pub fn require_full(&self) -> Result<()> {
        if *self == KeyAccess::Full {
            return Ok(());
        }
        Err(Error::forbidden("scope_missing", "this takes an API key with full access"))
    }

    fn missing(&self, name: ScopeName) -> Error {
        if self.has_some(name) {
            return Error::forbidden(
                "scope_missing",
                format!(
                    "this API key has the scope {name} for other targets only; create a key that \
                     has {name} for this one or without a target (POST /api-keys, in a session)"
                ),
            );
        }
        Error::forbidden(
            "scope_missing",
            format!(
                "this API key lacks the scope {name}; create a key whose access includes it \
                 (POST /api-keys, in a session)"
            ),
        )
    }
}

const FULL: &str = "full";
const READ: &str = "read";

impl Serialize for KeyAccess {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            KeyAccess::Full => serializer.serialize_str(FULL),
            KeyAccess::Read => serializer.serialize_str(READ),
            KeyAccess::Scopes(scopes) => scopes.serialize(serializer),
        }
    }
}

/// Reads [`KeyAccess`]; each scope is checked where it is in the list.
struct AccessVisitor;

impl<'de> Visitor<'de> for AccessVisitor {
    type Value = KeyAccess;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("full, read or a list of scopes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<KeyAccess, E> {
        match text {
            FULL => Ok(KeyAccess::Full),
            READ => Ok(KeyAccess::Read),
            // A single scope is a likely slip.
            _ if KeyScope::parse(text).is_ok() => Err(E::custom("must be a list of scopes")),
            _ => Err(E::custom("must be full, read or a list of scopes")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KeyAccess, A::Error> {
        let mut scopes: Vec<KeyScope> = Vec::new();
        let mut is_repeated = false;
        while let Some(scope) = list.next_element()? {
            is_repeated |= scopes.contains(&scope);
            scopes.push(scope);
            if scopes.len() > MAX_SCOPES {
                return Err(A::Error::custom(format!("must have at most {MAX_SCOPES} scopes")));
            }
        }
        if scopes.is_empty() {
            return Err(A::Error::custom("must have at least one scope"));
        }
        if is_repeated {
            return Err(A::Error::custom("must not have a scope twice"));
        }
        Ok(KeyAccess::Scopes(scopes))
    }

    /// The placeholder of a value whose problems are noted already.
    fn visit_unit<E>(self) -> Result<KeyAccess, E> {
        Ok(KeyAccess::Full)
    }
}

impl<'de> Deserialize<'de> for KeyAccess {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AccessVisitor)
    }
}

/// The access of a key that has no list of scopes, for the schema only.
struct AccessLevel;

impl JsonSchema for AccessLevel {
    fn schema_name() -> Cow<'static, str> {
        "ApiKeyAccessLevel".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "All rights of the key's user, or those that change nothing.",
            "type": "string",
            "enum": [FULL, READ],
        })
    }
}

impl JsonSchema for KeyAccess {
    fn schema_name() -> Cow<'static, str> {
        "ApiKeyAccess".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = ScopeName::all().map(ScopeName::text).collect();
        let level = generator.subschema_for::<AccessLevel>();
        let scope = generator.subschema_for::<KeyScope>();
        json_schema!({
            "description": format!(
                "How much of its user's rights a key has: `full`; `read`, which is all scopes that \
                 change nothing; or a list of scopes. A scope is `kind:verb` or, where it can be \
                 narrowed to one resource, `kind:verb@target`: a registry (`artifact:publish@acme/main`), \
                 a label in one (`label:move@acme/main#staging`), a team (`team:work@shipping`) or an \
                 environment (`deployment:create@staging`), by slug. The names are {}.",
                names.join(", ")
            ),
            "oneOf": [
                level,
                {
                    "type": "array",
                    "items": scope,
                    "minItems": 1,
                    "maxItems": MAX_SCOPES,
                    "uniqueItems": true,
                    "examples": [["artifact:read", "label:move@acme/main#staging"]],
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn access(value: Value) -> KeyAccess {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn full_is_everything_and_read_what_changes_nothing() {
        for name in ScopeName::all() {
            assert!(KeyAccess::Full.covers(name, None), "{name}");
            let is_read = !matches!(
                name.verb(),
                "publish"
                    | "delete"
                    | "move"
                    | "write"
                    | "create"
                    | "cancel"
                    | "decide"
                    | "report"
                    | "work"
                    | "clear"
                    | "test"
                    | "redeliver"
            );
            assert_eq!(KeyAccess::Read.covers(name, None), is_read, "{name}");
            assert_eq!(KeyAccess::Read.has_some(name), is_read, "{name}");
        }
    }

    #[test]
    fn an_access_only_reads_if_no_scope_of_it_changes_anything() {
        for (value, only_reads) in [
            (json!("read"), true),
            (json!(["artifact:read@main", "policy:check", "deployment:preview@staging"]), true),
            (json!("full"), false),
            (json!(["artifact:read", "label:move@main#staging"]), false),
        ] {
            assert_eq!(access(value.clone()).only_reads(), only_reads, "{value}");
        }
    }

    #[test]
    fn a_narrowed_scope_covers_its_target_and_nothing_else() {
        let own = access(json!(["label:move@acme/main#staging", "artifact:read@main"]));
        let label = |slug: &str, label: &str| {
            Some(ScopeTarget { slug: slug.into(), label: Some(label.into()) })
        };
        for (name, target, is_covered) in [
            (ScopeName::LabelMove, label("main", "staging"), true),
            (ScopeName::LabelMove, label("main", "production"), false),
            (ScopeName::LabelMove, label("main", "Staging"), false),
            (ScopeName::LabelMove, label("other", "staging"), false),
            (ScopeName::LabelMove, Some(ScopeTarget::named("main")), false),
            (ScopeName::LabelMove, None, false),
            (ScopeName::ArtifactRead, Some(ScopeTarget::named("main")), true),
            (ScopeName::ArtifactRead, Some(ScopeTarget::named("acme")), false),
            (ScopeName::ArtifactRead, None, false),
            (ScopeName::ArtifactPublish, Some(ScopeTarget::named("main")), false),
        ] {
            assert_eq!(own.covers(name, target.as_ref()), is_covered, "{name} {target:?}");
        }
        assert!(own.has_some(ScopeName::LabelMove) && !own.has_some(ScopeName::TeamWork));
        let message = |name| own.require(name, None).unwrap_err().message().to_string();
        assert!(message(ScopeName::TeamWork).contains("lacks the scope team:work;"));
        assert!(message(ScopeName::LabelMove).contains("the scope label:move for other targets"));
    }

    #[test]
    fn an_access_is_full_read_or_a_list_of_distinct_scopes() {
        for value in [json!("full"), json!("read"), json!(["artifact:read", "tool:read"])] {
            assert_eq!(serde_json::to_value(access(value.clone())).unwrap(), value);
        }
        let many: Vec<_> = (0..=MAX_SCOPES).map(|n| format!("team:read@t{n}")).collect();
        assert!(serde_json::from_value::<KeyAccess>(json!(many[1..])).is_ok());
        for (value, expected) in [
            (json!("all"), "full, read or a list"),
            (json!("artifact:read"), "must be a list of scopes"),
            (json!(7), "full, read or a list"),
            (json!([]), "at least one"),
            (json!(["tool:read", "tool:read"]), "twice"),
            (json!(["tool:raed"]), "did you mean tool:read?"),
            (json!(many), "at most 100"),
        ] {
            let error = serde_json::from_value::<KeyAccess>(value.clone()).unwrap_err().to_string();
            assert!(error.contains(expected), "{value}: {error}");
        }
    }
}
