//! Value types that all layers share. Nothing here does I/O, waits or reads a clock.

mod canonical;
mod checked;
mod error;
mod field;
mod id;
mod json;
mod keys;
mod list;
mod names;
mod number;
mod selector;
mod text;
mod time;

pub use canonical::canonical;
pub use checked::checked;
pub use error::{Error, Issue, Kind, Limit, Result};
pub use field::Field;
pub use id::Id;
pub use json::{Json, JsonMap, StringMap};
pub use keys::{Keys, Sealed};
pub use list::List;
pub use names::{ArtifactName, Label, Slug, StableKey, VariableName, Version};
pub use number::{Int, Usd};
pub use selector::{Range, Selector};
pub use text::{
    Body, Checked, Description, Domain, Email, HttpUrl, Name, Prompt, Rule as TextRule, Skill,
    Text, Title,
};
pub use time::Time;
