//! The record of an input of a prompt, and how much there may be of them.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::id::ArtifactId;
use crate::auth::{Restricted, User};
use crate::base::{Error, Id, Result, Slug, StringMap, Time};
use crate::resources::governance::{Expectation, InputCase};
use crate::resources::registries::{ArtifactType, Registry};
use crate::store::{AnyReference, Export, Key, ListSource, Order, Record, Reference, Tx, View};

/// A prompt has at most 50 inputs: a model answers each of them twice in a comparison.
pub const MAX_INPUTS: usize = 50;

/// The texts of one input have at most 16 KiB, those of all inputs of a prompt 256 KiB: they are read, and
/// filled in, for each publication that takes them.
pub const MAX_INPUT_BYTES: usize = 16 * 1024;
const MAX_ALL_BYTES: usize = 256 * 1024;

crate::base::portable! {
/// An input on which versions of a prompt are tried.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PromptInput {
    /// The prompt, which need not be published yet: a policy may require inputs of its first version.
    pub of: ArtifactId,
    /// Its name, unique among those of the prompt.
    pub name: Slug,
    /// Values of variables, by name.
    pub variables: StringMap,
    /// What the person says first; none if the prompt says it all.
    pub message: Option<String>,
    /// What a good answer has.
    pub expect: Expectation,
    pub created_by: Id<User>,
    pub created_at: Time,
    pub updated_by: Id<User>,
    pub updated_at: Time,
}
}

static REGISTRY: Reference<PromptInput, Restricted<Registry>> = Reference::cascade(
    &["of.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |input: &PromptInput, _| vec![input.of.registry.to_bytes()],
)
.deferred();

impl Record for PromptInput {
    const TABLE: &'static str = "prompt_inputs";
    const NOUN: &'static str = "input";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    type Key = (ArtifactId, Slug);
    fn key(&self) -> Self::Key {
        (self.of.clone(), self.name.clone())
    }
}

impl PromptInput {
    /// The bytes of its texts.
    pub fn bytes(&self) -> usize {
        let variables = self.variables.iter().map(|(name, value)| name.len() + value.len());
        let expected = self.expect.contains.iter().map(String::len);
        let others = [&self.message, &self.expect.judge].into_iter().flatten().map(String::len);
        variables.chain(expected).chain(others).sum()
    }

    fn case(self) -> InputCase {
        let PromptInput { name, variables, message, expect, .. } = self;
        InputCase { name, variables, message, expect }
    }
}

/// Returns the identity of the prompt of this name, whether or not it is published.
///
/// # Errors
/// 404 for a name that no prompt can have.
pub fn prompt(registry: &Registry, name: &str) -> Result<ArtifactId> {
    ArtifactId::parse(registry, Some(ArtifactType::Prompt), name)
}

/// Returns the inputs of a prompt, by name.
pub fn inputs_of(view: &View, of: &ArtifactId) -> Result<Vec<PromptInput>> {
    view.all(ListSource::<PromptInput>::TABLE, of)
}

/// Returns the inputs of a prompt as a model is asked about them.
pub fn cases_of(view: &View, of: &ArtifactId) -> Result<Vec<InputCase>> {
    Ok(inputs_of(view, of)?.into_iter().map(PromptInput::case).collect())
}

/// Checks that the inputs of a prompt, one of which was just written, are within their bounds.
///
/// # Errors
/// 409 if they are not.
pub fn check_bounds(view: &View, of: &ArtifactId) -> Result<()> {
    let (mut count, mut bytes) = (0, 0);
    view.for_each(ListSource::TABLE, of, Order::Ascending, |input: PromptInput| {
        count += 1;
        bytes += input.bytes();
        Ok(ControlFlow::Continue(()))
    })?;
    let what = match () {
        () if count > MAX_INPUTS => "a prompt has at most 50 inputs; delete one that says little",
        () if bytes > MAX_ALL_BYTES => {
            "the texts of all inputs of a prompt have at most 256 KiB; shorten some, or delete one"
        }
        () => return Ok(()),
    };
    Err(Error::conflict("inputs_full", what))
}

/// Removes the inputs of a prompt whose last version is deleted.
pub fn remove_all(tx: &mut Tx, of: &ArtifactId) -> Result<()> {
    let inputs = inputs_of(&tx.view(), of)?;
    inputs.iter().try_for_each(|input| tx.remove(input))
}
