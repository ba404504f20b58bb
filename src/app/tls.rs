//! The TLS of a server: where its certificate comes from, and what is to be known about it.

mod acme;
mod files;
mod own;
mod self_signed;
mod watch;

pub use acme::{AcmeSettings, LETS_ENCRYPT, LETS_ENCRYPT_TERMS, MAX_DOMAINS, renew};
pub use files::TlsFiles;
pub use own::OwnTls;
pub(super) use own::{OfAuthority, OwnMade, look_at, look_at_acme, look_at_self_signed};
pub use self_signed::Hosts;
pub use watch::{watch, watch_expiry};
