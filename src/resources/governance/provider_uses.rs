//! Which LLM providers the judges of a policy ask: one that is asked is not deleted.
//!
//! Derived from the rules of policies, which name any number of providers.

use bincode::{Decode, Encode};

use super::super::llm_providers::LlmProvider;
use super::policies::Policy;
use crate::base::{Error, Id, Result};
use crate::store::{AnyIndex, AnyReference, Index, Key, Record, Reference, Tx};

/// That a judge of a policy asks a provider.
#[derive(Clone, Debug, Encode, Decode)]
pub struct ProviderReference {
    /// The provider; none stands for whichever is the default.
    provider: Option<Id<LlmProvider>>,
    policy: Id<Policy>,
}

static BY_POLICY: Index<ProviderReference, Id<Policy>> =
    Index::many("llm_provider_uses.by_policy", |one| Some(one.policy));

static PROVIDER: Reference<ProviderReference, LlmProvider> = Reference::restrict(
    &["provider"],
    "llm_provider_in_use",
    "the judge of a policy asks this provider; change or delete that policy first",
    |provider: &LlmProvider| Some(provider.id).to_bytes(),
    |one: &ProviderReference, _| one.provider.iter().map(Key::to_bytes).collect(),
);

/// Whichever is the default: the beginning of every key.
static DEFAULT: Reference<ProviderReference, LlmProvider> = Reference::restrict(
    &["provider"],
    "llm_provider_in_use",
    "the judge of a policy asks this provider; change or delete that policy first",
    |_: &LlmProvider| None::<Id<LlmProvider>>.to_bytes(),
    |one: &ProviderReference, _| if one.provider.is_none() { vec![vec![]] } else { vec![] },
)
.when(|provider| provider.is_default);

static POLICY: Reference<ProviderReference, Policy> = Reference::cascade(
    &["policy"],
    |policy: &Policy| policy.id.to_bytes(),
    |one: &ProviderReference, _| vec![one.policy.to_bytes()],
)
.by(&BY_POLICY);

impl Record for ProviderReference {
    const TABLE: &'static str = "llm_provider_uses";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_POLICY];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&PROVIDER, &DEFAULT, &POLICY];
    type Key = (Option<Id<LlmProvider>>, Id<Policy>);
    fn key(&self) -> Self::Key {
        (self.provider, self.policy)
    }
}

/// Notes that `policy` asks these providers and no others; none in the list means the default.
///
/// # Errors
/// 404 for a provider that is not there.
pub fn note(tx: &mut Tx, policy: Id<Policy>, providers: &[Option<Id<LlmProvider>>]) -> Result<()> {
    for old in tx.all(&BY_POLICY, &policy)? {
        tx.remove(&old)?;
    }
    for &provider in providers {
        if let Some(id) = provider
            && !tx.view().has::<LlmProvider>(&id)?
        {
            return Err(Error::not_found());
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
    use crate::resources::testing::World;

    #[test]
    fn a_provider_that_is_asked_is_not_deleted() {
        let world = World::new();
        let a = json!({"name": "a", "provider": "openai"});
        let a = make(&world, a).unwrap().id;
        let default = json!({"name": "b", "provider": "openai", "isDefault": true});
        let b = make(&world, default).unwrap().id;
        let rules = json!([{"type": "maxLength", "value": 1}]);
        let policy = json!({"name": "p", "severity": "error", "rules": rules});
        let policy = World::input(policy).unwrap();
        let policy = world.write_as(&world.owner, policies::create, (), policy).unwrap().id;
        let uses = |providers: Vec<Option<Id<LlmProvider>>>| {
            world.store.write_now(world.org, move |tx| note(tx, policy, &providers))
        };
        let delete = |id| delete(&world, id);
        uses(vec![Some(a), Some(a), None]).unwrap();
        assert_eq!(delete(a).unwrap_err().code(), "llm_provider_in_use");
        assert_eq!(delete(b).unwrap_err().code(), "llm_provider_in_use");
        assert_eq!(uses(vec![Some(Id::NIL)]).unwrap_err().kind(), Kind::NotFound);
        uses(vec![None]).unwrap();
        delete(a).unwrap();
        assert_eq!(delete(a).unwrap_err().kind(), Kind::NotFound);
        uses(vec![]).unwrap();
        delete(b).unwrap();
        world.assert_sound();
    }
}
