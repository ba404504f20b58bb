//! Value types that all layers share. Nothing here does I/O, waits or reads a clock.

mod address;
mod bounded_list;
mod canonical;
pub mod diff;
mod error;
mod folding;
mod handle;
mod hex;
mod id;
mod json;
mod keys;
mod language;
pub mod lines;
mod log_limit;
pub mod metrics;
mod names;
mod nearest;
mod nullable;
mod number;
pub mod portable;
mod qr;
mod segment;
mod selector;
mod spelling;
mod tag;
mod text;
mod time;
mod trace;
mod validated;
pub mod visible;

pub use address::{address_block, address_network};
pub use bounded_list::BoundedList;
pub use canonical::canonical;
pub use error::{Error, Issue, Kind, ReachedLimit, Result};
pub use folding::{fold, fold_first, is_ignorable, is_unspaced, without_accents};
pub use handle::{Handle, PublicKey};
pub use hex::{from_hex, hex};
pub use id::Id;
pub use json::{Json, JsonMap, StringMap, StringMapSchema, word};
pub use keys::{KeyId, Keys, MasterKey, Sealed};
pub use language::Language;
pub use log_limit::LogLimit;
pub use names::{ArtifactName, Label, Slug, StableKey, VariableName, Version, is_uuid};
pub use nearest::nearest;
pub use nullable::Nullable;
pub use number::{Int, Temperature, Usd, whole_number};
pub(crate) use portable::portable;
pub use portable::{Exporting, Importing, Portable};
pub use qr::QrCode;
pub use segment::segment;
pub use selector::{Range, Selector};
pub use tag::Tag;
pub use text::{
    Body, Description, Domain, Email, HttpUrl, Name, Prompt, ProviderKey, Skill, Text, TextRule,
    Title, Validated, VersionMessage,
};
pub use time::Time;
pub use trace::TraceParent;
pub use validated::checked;
