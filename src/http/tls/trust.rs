//! Whether browsers trust a certificate without being told to.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::certificate::CertificateFacts;

/// The roots of the web, as Mozilla's programs have them.
pub fn web_roots() -> Arc<RootCertStore> {
    Arc::new(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
}

/// Whether a certificate, with those of its issuers behind it, was issued under one of these roots: at the
/// time at which it became valid, so that it is the same at each start.
pub fn is_of(
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'_>],
    facts: &CertificateFacts,
) -> bool {
    let Some((own, issuers)) = chain.split_first() else { return false };
    let provider = Arc::new(default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider).build();
    let (Ok(verifier), Ok(secs)) = (verifier, u64::try_from(facts.not_before.secs())) else {
        return false;
    };
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(secs));
    // A star stands for any label.
    let names = facts.names.iter().map(|name| name.replacen('*', "any", 1));
    let mut names = names.filter_map(|name| ServerName::try_from(name).ok());
    names
        .next()
        .is_some_and(|name| verifier.verify_server_cert(own, issuers, &name, &[], at).is_ok())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

    use super::*;

    struct Authority {
        root: CertificateDer<'static>,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let root = params.self_signed(&key).unwrap().der().clone();
            Authority { root, issuer: Issuer::new(params, key) }
        }

        /// A certificate that has expired.
        fn issue(&self, name: &str) -> CertificateDer<'static> {
            let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 4, 1);
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap().der().clone()
        }

        fn roots(&self) -> Arc<RootCertStore> {
            let mut roots = RootCertStore::empty();
            roots.add(self.root.clone()).unwrap();
            Arc::new(roots)
        }
    }

    #[test]
    fn a_certificate_is_of_the_web_if_a_root_of_it_has_issued_it_and_of_no_other_authority() {
        let (web, own) = (Authority::new(), Authority::new());
        let is_of_web = |authority: &Authority, name: &str, roots: &Arc<RootCertStore>| {
            let own = authority.issue(name);
            let facts = CertificateFacts::read(&own).unwrap();
            is_of(roots, &[own, authority.root.clone()], &facts)
        };
        for name in ["agents.test", "*.agents.test", "10.0.0.7"] {
            assert!(is_of_web(&web, name, &web.roots()), "{name}");
            assert!(!is_of_web(&own, name, &web.roots()), "{name}");
            assert!(!is_of_web(&web, name, &web_roots()), "{name}");
        }
        assert!(web_roots().roots.len() > 50);
    }
}
