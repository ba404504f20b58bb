//! Certificates that the server gets itself from an authority (ACME, RFC 8555), which looks at its own
//! port with TLS whether the domains are its own (TLS-ALPN-01, RFC 8737).

mod account_fault;
mod calls;
mod order;
mod renewing;
mod schedule;
mod settings;
mod stored;

pub use renewing::renew;
pub use settings::{AcmeSettings, LETS_ENCRYPT, LETS_ENCRYPT_TERMS, MAX_DOMAINS};
pub(super) use stored::{Stored, certificate_in, load};
