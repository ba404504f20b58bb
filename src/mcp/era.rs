//! The eras of the protocol.

/// How requests and results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Each request says which revision it speaks.
    Modern,
    /// A handshake comes first; later requests repeat the revision in a header.
    Legacy,
    /// A handshake comes first, and no header; several messages may come at once, and results of tools
    /// are texts alone.
    Oldest,
}

impl Era {
    /// Whether a handshake comes first.
    pub fn has_handshake(self) -> bool {
        self != Era::Modern
    }

    /// Whether the result of a tool is JSON besides a text.
    pub fn has_structured_content(self) -> bool {
        self != Era::Oldest
    }
}
