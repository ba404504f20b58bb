//! Changes of protected labels that take approvals: asking for one, deciding about it, and what it
//! changes of what clients read (reference: registries-and-templates, "Label changes").
//!
//! A change says all that is approved: from where the label is moved, and where to, with a hash of what
//! that version says. It is applied in the transaction of the last approval, if that still holds
//! ([`current`]).

mod access;
mod asking;
mod current;
mod deciding;
mod lists;
mod texts;

pub use asking::{ask, supersede};
pub use current::info;
pub use lists::count_waiting;

use crate::api::Resource;

pub(super) const RESOURCE: Resource = Resource {
    children: &[&asking::RESOURCE, &deciding::RESOURCE, &lists::RESOURCE, &texts::RESOURCE],
    ..Resource::EMPTY
};

#[cfg(test)]
pub mod tests;
