//! How a value is read: its source, and what happens to unknown fields.

use std::collections::HashSet;
use std::sync::Arc;

/// The source of a value, which determines how scalars are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFormat {
    /// A JSON body, with typed scalars.
    Body,
    /// A query, with scalars as texts; see [`parse_query`](super::parse_query).
    Query,
}

/// The treatment of fields that a type does not have.
#[derive(Clone, Debug)]
pub enum UnknownFields {
    /// They are ignored.
    Ignored,
    /// Each is a problem, except those of the outermost object that something else reads.
    Refused(Arc<OtherNames>),
}

/// Names in the outermost object besides the fields of the type that is read.
#[derive(Debug, Default)]
pub struct OtherNames {
    /// The names that something else reads.
    pub read_elsewhere: Vec<String>,
    /// The members of object parameters, each with its object: a query may also give them alone.
    pub members: Vec<(String, String)>,
    /// The fields without which there is no such request.
    pub required: Vec<String>,
    /// The fields of a resource that the request cannot change: paths without the indexes of lists.
    pub fixed: HashSet<String>,
}
