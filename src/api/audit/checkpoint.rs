//! Checkpoints: the position of a chain's end as a text to keep elsewhere, and the comparison of one
//! with the chain as it is.

use std::fmt;

use super::chain::{ChainHead, ChainedEntry, Link};
use super::retention::ChainStart;
use crate::base::{Id, Result};
use crate::store::{Org, View, codec};

/// How the text of a checkpoint begins: what it is and its version.
const PREFIX: &str = "roadstead-audit:1:";

/// A position in the chain of an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub org: Id<Org>,
    pub link: Link,
}

/// `roadstead-audit:1:<organization id>:<sequence>:<hash>`.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Link { sequence, hash } = &self.link;
        write!(f, "{PREFIX}{}:{sequence}:{}", self.org, codec::hex(hash))
    }
}

impl Checkpoint {
    /// Whether a text is meant as a checkpoint.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Reads the text of a checkpoint; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.split(':');
        let (org, sequence, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let org = uuid::Uuid::parse_str(org).ok().map(Id::new)?;
        let link = Link { sequence: sequence.parse().ok()?, hash: hash_in(hash)? };
        let checkpoint = Checkpoint { org, link };
        (checkpoint.to_string() == text).then_some(checkpoint)
    }
}

fn hash_in(hex: &str) -> Option<[u8; 32]> {
    let digits = hex.as_bytes().chunks_exact(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    digits.collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// Returns the position of the end of the organization's chain.
pub fn checkpoint(view: &View) -> Result<Checkpoint> {
    let head: Option<ChainHead> = view.get(&())?;
    Ok(Checkpoint { org: view.org(), link: head.map_or(Link::START, |head| head.last) })
}

/// What a chain has of an earlier checkpoint of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It has that entry.
    Continues,
    /// It ends before that entry, after this number of entries: an older state of the log.
    EndsBefore(u64),
    /// The entry is not there although later ones are.
    Missing,
    /// It has another entry with that number: not the same log.
    Differs,
    /// The entry was removed by retention, with all up to this one: nothing can be said.
    Removed(u64),
}

/// Compares the organization's chain with an earlier checkpoint of it. Hashes are compared as they
/// are stored: whether they are right is for [`verify`](super::verify()).
pub fn compare(view: &View, checkpoint: &Checkpoint) -> Result<Comparison> {
    let start = view.get::<ChainStart>(&())?.map_or(Link::START, |start| start.before);
    let Link { sequence, hash } = checkpoint.link;
    if sequence < start.sequence {
        return Ok(Comparison::Removed(start.sequence));
    }
    let here = if sequence == start.sequence {
        Some(start.hash)
    } else {
        view.get::<ChainedEntry>(&sequence)?.map(|chained| chained.hash)
    };
    if let Some(here) = here {
        return Ok(if here == hash { Comparison::Continues } else { Comparison::Differs });
    }
    let last = checkpoint_sequence(view)?;
    Ok(if last < sequence { Comparison::EndsBefore(last) } else { Comparison::Missing })
}

fn checkpoint_sequence(view: &View) -> Result<u64> {
    Ok(checkpoint(view)?.link.sequence)
}
