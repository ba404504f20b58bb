//! The answers to authorities that look whether a name is this server's (TLS-ALPN-01, RFC 8737).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::Error;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

/// The protocol of a look (ALPN), in which nothing is said after the handshake.
pub(super) const ACME_TLS: &[u8] = b"acme-tls/1";

/// The certificates that looks are shown, by the name that is looked at, while they are expected.
#[derive(Default)]
pub struct Challenges(RwLock<HashMap<String, Arc<CertifiedKey>>>);

impl Challenges {
    /// Shows this certificate to who looks at `name`.
    ///
    /// # Errors
    /// If the key cannot be used.
    pub fn put(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), Error> {
        let key = default_provider().key_provider.load_private_key(key)?;
        // Not compared with the certificate, of which the proof is a critical extension that TLS does
        // not know.
        let certified = CertifiedKey::new(vec![certificate], key);
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.to_ascii_lowercase(), Arc::new(certified));
        Ok(())
    }

    /// Expects no look any more.
    pub fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What a look is shown; `None` if it is not expected, which ends the handshake.
    pub(super) fn shown_to(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_ascii_lowercase();
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }
}

/// Whether a handshake is a look: it offers this protocol, and none in which requests are made.
pub(super) fn is_look(hello: &ClientHello<'_>) -> bool {
    let Some(offered) = hello.alpn() else { return false };
    let mut is_offered = false;
    for protocol in offered {
        is_offered |= protocol == ACME_TLS;
        if matches!(protocol, b"h2" | b"http/1.1") {
            return false;
        }
    }
    is_offered
}
