//! The kinds of resources that plain files are about: each declares what it is in files, and in the API.

mod agent;
mod environment;
mod plain;
mod policy;

use super::kind::{Kind, Parent};

pub use agent::AGENT;
pub use environment::ENVIRONMENT;
pub use plain::{ASSIGNMENT, CHANNEL, FLEET, LISTING, REGISTRY, SUBSCRIPTION, TOOL, VARIABLE};
pub use policy::POLICY;

/// All kinds, in the order in which they are created.
pub static KINDS: [&Kind; 11] = [
    &REGISTRY,
    &POLICY,
    &ASSIGNMENT,
    &TOOL,
    &ENVIRONMENT,
    &VARIABLE,
    &FLEET,
    &AGENT,
    &CHANNEL,
    &SUBSCRIPTION,
    &LISTING,
];

/// The last kind before versions and labels, which policies examine and agents refer to.
pub static LAST_BEFORE_TEXTS: &Kind = &ASSIGNMENT;

/// The kinds that are in the file of one of this kind.
pub fn children_of(kind: &'static Kind) -> impl Iterator<Item = (&'static Kind, &'static Parent)> {
    let parts = KINDS.iter().filter_map(|part| Some((*part, part.parent.as_ref()?)));
    parts.filter(move |(_, parent)| parent.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_their_order_and_refer_to_none_that_is_later() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert_eq!(usize::from(kind.order), at, "{kind:?}");
            assert_eq!(kind.folder.is_empty(), kind.parent.is_some(), "{kind:?}");
            assert!(kind.parent.as_ref().is_none_or(|of| of.kind < *kind), "{kind:?}");
        }
    }
}
