//! The kinds of operations.

/// The kind of an operation: what it answers, and whether it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Reads one thing.
    One,
    /// Reads a list page by page.
    List,
    /// Reads a list page by page, from either end, and counts it.
    Walk,
    Write,
    /// Waits for items; as a stream, each is an event of this name.
    Wait(&'static str),
    /// Reads a list, optionally waiting until it grows; as a stream, each new item is an event of this name.
    Follow(&'static str),
    /// Reads one thing, optionally waiting until it changes.
    Watch,
    /// Reads bytes of this media type.
    Download(&'static str),
    /// Answers with what another server says; as a stream, its text is passed on as it comes.
    Stream,
    /// Answers with what came of many things; as a stream, each of them is an event of this name.
    Batch(&'static str),
}

impl Shape {
    /// Whether it changes nothing. What waits for items leases them; what another server is asked may cost
    /// money.
    pub fn only_reads(self) -> bool {
        !matches!(self, Shape::Write | Shape::Wait(_) | Shape::Stream | Shape::Batch(_))
    }

    /// Whether its answers are pages of a list.
    pub fn is_list(self) -> bool {
        matches!(self, Shape::List | Shape::Walk | Shape::Wait(_) | Shape::Follow(_))
    }

    /// Whether it takes `reversed` and `total`.
    pub fn walks(self) -> bool {
        self == Shape::Walk
    }

    /// Whether it answers with a stream of events to clients that ask for one.
    pub fn streams(self) -> bool {
        matches!(self, Shape::Wait(_) | Shape::Follow(_) | Shape::Stream | Shape::Batch(_))
    }

    /// Whether it takes `wait`.
    pub fn waits(self) -> bool {
        matches!(self, Shape::Wait(_) | Shape::Follow(_) | Shape::Watch)
    }
}
