//! Signing in with OpenID Connect: what the operator has configured, what providers publish of themselves,
//! and the check of what they say of a person (reference: identity-and-rights, "OpenID Connect").
//!
//! Nothing here makes a call: an operation requests documents and tokens, and what is read of them is kept
//! in memory for a while ([`Oidc`]).

mod attempt;
mod discovery;
mod id_token;
mod jwks;
mod logout_token;
mod provider;
mod signed_token;
#[cfg(test)]
pub mod testing;

pub use attempt::{ATTEMPT_SECS, Confirmation, SignInAttempt};
pub use discovery::Discovery;
pub use id_token::{Expected, IdClaims, check_id_token};
pub use jwks::KeySet;
pub use logout_token::{LogoutClaims, check_logout_token};
pub use provider::{Oidc, OidcProvider};
pub use signed_token::{TokenProblem, key_id};
