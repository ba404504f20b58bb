//! Scopes of API keys: what a key may do of what its user may
//! (reference: identity-and-rights, "Scopes of keys").
//!
//! A scope is a verb on a kind of resource (`artifact:read`), optionally on one of them
//! (`artifact:publish@acme/main`). A key never has more rights than its user; a scope only takes some
//! away.

mod access;
mod grammar;
mod name;

pub use access::{KeyAccess, MAX_SCOPES};
pub use grammar::{KeyScope, ScopeRule};
pub use name::{ScopeName, ScopeTarget, TargetForm};
