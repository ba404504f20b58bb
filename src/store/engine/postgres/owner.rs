//! Who owns a store, and where that is written down.

use super::slot::fresh;

/// The number of the table of these rows.
pub const TABLE: i16 = 1;

/// The key of the row of the owner: its token, and its description.
pub const OWNER: &[u8] = b"owner";

/// Who owns a store.
#[derive(Clone, Debug)]
pub struct Owner(Vec<u8>);

impl Owner {
    /// Creates an owner that no other equals. `description` is what others are told, such as a host
    /// name and a process id.
    pub fn new(description: &str) -> Self {
        Owner([fresh().as_slice(), description.as_bytes()].concat())
    }

    /// The content of its row.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
