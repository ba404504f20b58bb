//! Why an authority does not go on with an account.

/// What an authority has against an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountFault {
    /// Nothing that is known.
    None,
    /// It does not know it.
    Unknown,
    /// It orders nothing for it any more: it was deactivated, by its holder or by the authority.
    Refused,
}
