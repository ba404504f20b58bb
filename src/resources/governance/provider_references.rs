//! References from policies to the LLM providers that their judges use: a used provider is not deleted.
//!
//! They are derived from the rules of policies, which name any number of providers.

use bincode::{Decode, Encode};

use super::super::llm_providers::LlmProvider;
use super::policy::Policy;
use crate::base::{Id, Result};
use crate::store::{AnyIndex, AnyReference, Export, Index, Key, Record, Reference, Tx};

crate::base::portable! {
/// A reference from a policy to a provider that one of its judges uses.
#[derive(Clone, Debug, Encode, Decode)]
pub struct ProviderReference {
    /// The provider; none for the default provider, whichever it is.
    provider: Option<Id<LlmProvider>>,
    policy: Id<Policy>,
}
}

static BY_POLICY: Index<ProviderReference, Id<Policy>> =
    Index::non_unique("llm_provider_uses.by_policy", |reference| Some(reference.policy));

static PROVIDER: Reference<ProviderReference, LlmProvider> = Reference::restrict(
    &["provider"],
    "llm_provider_in_use",
    "the judge of a policy uses this provider; update or delete that policy first",
    |provider: &LlmProvider| Some(provider.id).to_bytes(),
    |reference: &ProviderReference, _| reference.provider.iter().map(Key::to_bytes).collect(),
);

/// References without a provider, to the default one. Their target key is the beginning of every key.
static DEFAULT: Reference<ProviderReference, LlmProvider> = Reference::restrict(
    &["provider"],
    "llm_provider_in_use",
    "the judge of a policy uses this provider; update or delete that policy first",
    |_: &LlmProvider| None::<Id<LlmProvider>>.to_bytes(),
    |reference: &ProviderReference, _| {
        if reference.provider.is_none() { vec![vec![]] } else { vec![] }
    },
)
.when(|provider| provider.is_default)
.labelled("default");

static POLICY: Reference<ProviderReference, Policy> = Reference::cascade(
    &["policy"],
    |policy: &Policy| policy.id.to_bytes(),
    |reference: &ProviderReference, _| vec![reference.policy.to_bytes()],
)
.by(&BY_POLICY);

impl Record for ProviderReference {
    const TABLE: &'static str = "llm_provider_uses";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_POLICY];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&PROVIDER, &DEFAULT, &POLICY];
    type Key = (Option<Id<LlmProvider>>, Id<Policy>);
    fn key(&self) -> Self::Key {
        (self.provider, self.policy)
    }
}

/// Replaces the references of `policy`; none in the list stands for the default provider.
///
/// # Errors
/// 404 for a provider that does not exist.
pub fn set(tx: &mut Tx, policy: Id<Policy>, providers: &[Option<Id<LlmProvider>>]) -> Result<()> {
    for old in tx.all(&BY_POLICY, &policy)? {
        tx.remove(&old)?;
    }
    for &provider in providers {
        if let Some(id) = provider
            && !tx.view().has::<LlmProvider>(&id)?
        {
            return Err(LlmProvider::missing(&id));
        }
        tx.put(&ProviderReference { provider, policy })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::policies;
    use super::*;
    use crate::base::Kind;
    use crate::resources::llm_providers::tests::{delete, make};
    use crate::resources::testing::Fixture;

    #[test]
    fn a_used_provider_is_not_deleted() {
        let fixture = Fixture::new();
        let a = json!({"name": "a", "provider": "openai"});
        let a = make(&fixture, a).unwrap().id;
        let default = json!({"name": "b", "provider": "openai", "isDefault": true});
        let b = make(&fixture, default).unwrap().id;
        let rules = json!([{"type": "maxLength", "value": 1}]);
        let policy = json!({"name": "p", "severity": "error", "rules": rules});
        let policy = Fixture::input(policy).unwrap();
        let policy = fixture.write_as(&fixture.owner, policies::create, (), policy).unwrap().id;
        let set_references = |providers: Vec<Option<Id<LlmProvider>>>| {
            fixture.store.write_blocking(fixture.org, move |tx| set(tx, policy, &providers))
        };
        let delete = |id| delete(&fixture, id);
        set_references(vec![Some(a), Some(a), None]).unwrap();
        assert_eq!(delete(a).unwrap_err().code(), "llm_provider_in_use");
        assert_eq!(delete(b).unwrap_err().code(), "llm_provider_in_use");
        assert_eq!(set_references(vec![Some(Id::NIL)]).unwrap_err().kind(), Kind::NotFound);
        set_references(vec![None]).unwrap();
        delete(a).unwrap();
        assert_eq!(delete(a).unwrap_err().kind(), Kind::NotFound);
        set_references(vec![]).unwrap();
        delete(b).unwrap();
        fixture.assert_sound();
    }
}
