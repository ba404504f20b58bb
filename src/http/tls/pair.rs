//! A certificate and its key, read from PEM.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::certificate::CertificateFacts;
use super::trust::{self, web_roots};

/// A certificate with those of its issuers, its key, and what it says of itself.
pub struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    /// What the certificate says of itself.
    pub facts: CertificateFacts,
    /// Whether the server has made it itself, so that nobody trusts it without being told to.
    pub is_self_made: bool,
    /// Whether browsers trust it without being told to: it was issued under one of the roots of the web.
    pub is_of_web: bool,
}

/// What is wrong with a certificate or its key. Each text goes on where the name of the file ends.
#[derive(Debug)]
pub enum PairProblem {
    /// What is wrong with the certificate.
    Certificate(String),
    /// What is wrong with the key. It never repeats anything of it.
    Key(String),
    /// Each is good, but the key is that of another certificate.
    Mismatch,
}

impl Pair {
    /// Reads both. The first certificate is the server's own; those of its issuers follow.
    ///
    /// # Errors
    /// If one of them cannot be used, or they do not belong together.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PairProblem> {
        let chain = chain(certificate).map_err(PairProblem::Certificate)?;
        let own = chain.first().map(CertificateDer::as_ref).and_then(CertificateFacts::read);
        let facts = own.ok_or_else(|| PairProblem::Certificate(not_one("its first")))?;
        let key = private_key(key).map_err(PairProblem::Key)?;
        let is_of_web = trust::is_of(&web_roots(), &chain, &facts);
        match CertifiedKey::from_der(chain, key, &default_provider()) {
            Ok(certified) => {
                let certified = Arc::new(certified);
                Ok(Pair { certified, facts, is_self_made: false, is_of_web })
            }
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(PairProblem::Mismatch)
            }
            Err(Error::InvalidCertificate(_)) => {
                Err(PairProblem::Certificate(not_one("its first")))
            }
            Err(_) => Err(PairProblem::Key(
                "holds a key that TLS cannot use here: use one of RSA with 2048 bits or more, of \
                 ECDSA on P-256, P-384 or P-521, or of Ed25519"
                    .into(),
            )),
        }
    }
}

impl Pair {
    /// The same as one that the server has made itself.
    pub fn self_made(self) -> Self {
        Pair { is_self_made: true, ..self }
    }

    /// The same as one that browsers trust.
    #[cfg(test)]
    pub fn of_web(self) -> Self {
        Pair { is_of_web: true, ..self }
    }

    /// How many certificates clients are sent: the server's own, and those of its issuers.
    pub fn certificates(&self) -> usize {
        self.certified.cert.len()
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.facts.fmt(f)
    }
}

fn not_one(which: &str) -> String {
    format!("is broken: {which} certificate cannot be read; give it in PEM, as it was issued")
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut chain = Vec::new();
    for (n, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let certificate = certificate.map_err(|_| not_one(&format!("number {n} of the")))?;
        CertificateFacts::read(&certificate)
            .ok_or_else(|| not_one(&format!("number {n} of the")))?;
        chain.push(certificate);
    }
    match (chain.is_empty(), has(pem, "PRIVATE KEY-----")) {
        (false, _) => Ok(chain),
        (true, true) => {
            Err("holds a private key and no certificate: are the two files exchanged?".into())
        }
        (true, false) => Err("holds no certificate: it must be PEM, in which one begins with \
                              -----BEGIN CERTIFICATE-----"
            .into()),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if has(pem, "BEGIN ENCRYPTED PRIVATE KEY") || has(pem, "Proc-Type: 4,ENCRYPTED") {
        return Err("is encrypted, and nobody is there to enter its passphrase at each start: \
                    decrypt it with: umask 077; openssl pkey -in FILE -out OTHER"
            .into());
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        if has(pem, "BEGIN CERTIFICATE-----") && !has(pem, "PRIVATE KEY-----") {
            "holds a certificate and no private key: are the two files exchanged?".into()
        } else {
            "holds no private key that can be read: it must be PEM, in which one begins with \
             -----BEGIN PRIVATE KEY-----, or with RSA or EC before PRIVATE"
                .to_string()
        }
    })
}

fn has(pem: &[u8], mark: &str) -> bool {
    pem.windows(mark.len()).any(|window| window == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn made(name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_pair_that_belongs_together_is_taken_with_its_issuers_or_in_one_file() {
        let ((certificate, key), (issuer, _)) = (made("a.test"), made("issuer.test"));
        let chain = format!("about it\n{certificate}{issuer}");
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!((pair.certified.cert.len(), pair.facts.names), (2, vec!["a.test".to_string()]));
        let both = format!("{key}{certificate}");
        assert!(Pair::from_pem(both.as_bytes(), both.as_bytes()).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_of_the_file_that_it_is_about() {
        let ((certificate, key), (other, _)) = (made("a.test"), made("b.test"));
        let problem = |certificate: &str, key: &str| match Pair::from_pem(
            certificate.as_bytes(),
            key.as_bytes(),
        )
        .unwrap_err()
        {
            PairProblem::Certificate(text) => format!("certificate {text}"),
            PairProblem::Key(text) => format!("key {text}"),
            PairProblem::Mismatch => "mismatch".into(),
        };
        assert_eq!(problem(&other, &key), "mismatch");
        // The issuer's comes first: it is not the server's own.
        assert_eq!(problem(&format!("{other}{certificate}"), &key), "mismatch");
        let cut = &certificate[..certificate.len() / 2];
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        for (certificate, key, part) in [
            ("", &*key, "certificate holds no certificate"),
            ("text", &key, "certificate holds no certificate"),
            (cut, &key, "certificate is broken: number 1"),
            (&format!("{certificate}{cut}"), &key, "certificate is broken: number 2"),
            (&key, &certificate, "certificate holds a private key and no certificate"),
            (&certificate, "", "key holds no private key"),
            (&certificate, &key[..key.len() / 2], "key holds no private key"),
            (&certificate, &certificate, "key holds a certificate and no private key"),
            (&certificate, &encrypted, "key is encrypted"),
        ] {
            let said = problem(certificate, key);
            assert!(said.starts_with(part), "{said}");
        }
    }
}
