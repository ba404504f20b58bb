//! Which policies ask a provider: one that is asked is not deleted.

use bincode::{Decode, Encode};

use super::LlmProvider;
use crate::base::{Error, Id, Result};
use crate::store::{AnyIndex, Index, Record, Source, Tx, View};

/// What asks providers: to `governance`, a policy.
pub enum Asker {}

/// That something asks a provider.
#[derive(Clone, Debug, Encode, Decode)]
pub struct ProviderUse {
    /// The provider; [`Id::NOTHING`] stands for whichever is the default.
    provider: Id<LlmProvider>,
    asker: Id<Asker>,
}

static BY_ASKER: Index<ProviderUse, Id<Asker>> =
    Index::many("llm_provider_uses.by_asker", |one| Some(one.asker));

impl Record for ProviderUse {
    const TABLE: &'static str = "llm_provider_uses";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_ASKER];
    type Key = (Id<LlmProvider>, Id<Asker>);
    fn key(&self) -> Self::Key {
        (self.provider, self.asker)
    }
}

/// Notes that `asker` asks these providers and no others; none in the list means the default.
///
/// # Errors
/// 404 for a provider that is not there.
pub fn note_uses(
    tx: &mut Tx,
    asker: Id<Asker>,
    providers: &[Option<Id<LlmProvider>>],
) -> Result<()> {
    for old in tx.all(&BY_ASKER, &asker)? {
        tx.remove(&old)?;
    }
    for provider in providers {
        if let Some(provider) = provider
            && !tx.view().has::<LlmProvider>(provider)?
        {
            return Err(Error::not_found());
        }
        tx.put(&ProviderUse { provider: provider.unwrap_or(Id::NOTHING), asker })?;
    }
    Ok(())
}

/// Refuses that something is taken away which is asked.
pub(super) fn refuse_use(view: &View, provider: &LlmProvider) -> Result<()> {
    let is_asked = |id| Ok(view.count(Source::<ProviderUse>::TABLE, &id, 1)? > 0);
    if is_asked(provider.id)? || (provider.is_default && is_asked(Id::NOTHING)?) {
        return Err(Error::conflict(
            "llm_provider_in_use",
            "the judge of a policy asks this provider; change or delete that policy first",
        ));
    }
    Ok(())
}
