//! The kinds of operations.

/// The kind of an operation: what it answers, and whether it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Reads one thing.
    One,
    /// Reads a list page by page.
    List,
    Write,
    /// Waits for items; as a stream, each is an event of this name.
    Wait(&'static str),
    /// Reads a list, optionally waiting until it grows; as a stream, each new item is an event of this name.
    Follow(&'static str),
    /// Reads one thing, optionally waiting until it changes.
    Watch,
    /// Reads bytes of this media type.
    Download(&'static str),
}

impl Shape {
    /// Whether it changes nothing. What waits for items leases them.
    pub fn only_reads(self) -> bool {
        !matches!(self, Shape::Write | Shape::Wait(_))
    }

    /// Whether its answers are pages of a list.
    pub fn is_list(self) -> bool {
        matches!(self, Shape::List | Shape::Wait(_) | Shape::Follow(_))
    }

    /// Whether it takes `wait`.
    pub fn waits(self) -> bool {
        matches!(self, Shape::Wait(_) | Shape::Follow(_) | Shape::Watch)
    }
}
