//! What a certificate is asked for, and whom.

use serde::{Deserialize, Serialize};

/// The directory of Let's Encrypt, an authority that all clients trust.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Where its terms of service are.
pub const LETS_ENCRYPT_TERMS: &str = "https://letsencrypt.org/repository/";

/// The most domains of a certificate that common authorities issue.
pub const MAX_DOMAINS: usize = 100;

/// What a certificate is asked for, and whom.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AcmeSettings {
    /// `--acme-directory`: the URL of the authority's directory, https.
    pub directory: String,
    /// `--domain`: what the certificate is for, in lower case, each once.
    pub domains: Vec<String>,
    /// `--acme-contact`: an e-mail address for the authority.
    pub contact: Option<String>,
    /// `--acme-agree-tos`: whether the operator has agreed to the terms of service.
    pub agrees: bool,
}
