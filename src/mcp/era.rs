//! The two eras of the protocol.

/// How requests and results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Each request says which revision it speaks.
    Modern,
    /// A handshake comes first.
    Legacy,
}
