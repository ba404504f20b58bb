//! The flags of certificates that the server gets from an authority (`--tls acme`).

use clap::Args;

use super::failure::Failure;
use super::values;
use crate::app::tls::{AcmeSettings, LETS_ENCRYPT, LETS_ENCRYPT_TERMS, MAX_DOMAINS};
use crate::base::{Domain, Email, HttpUrl};

/// What an authority is asked for, and which.
#[derive(Args)]
pub(super) struct AcmeFlags {
    /// A domain that the certificate of --tls acme is for (repeatable)
    #[arg(
        long,
        value_name = "NAME",
        env = "ROADSTEAD_DOMAIN",
        value_parser = values::domain,
        value_delimiter = ','
    )]
    domain: Vec<Domain>,

    /// The directory of the authority that issues it (ACME, RFC 8555)
    #[arg(
        long,
        value_name = "URL",
        env = "ROADSTEAD_ACME_DIRECTORY",
        default_value = LETS_ENCRYPT,
        value_parser = values::https_url
    )]
    acme_directory: HttpUrl,

    /// E-mail address that the authority is given, for its notices
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "ROADSTEAD_ACME_CONTACT",
        value_parser = values::email
    )]
    acme_contact: Option<Email>,

    /// You have read the terms of service of the authority, and agree to them
    #[arg(long, env = "ROADSTEAD_ACME_AGREE_TOS")]
    acme_agree_tos: bool,
}

impl AcmeFlags {
    /// Refuses what has no meaning without `--tls acme`.
    ///
    /// # Errors
    /// If there is anything.
    pub(super) fn require_none(&self) -> Result<(), Failure> {
        let given = [
            ("--domain", !self.domain.is_empty()),
            ("--acme-directory", self.acme_directory.as_str() != LETS_ENCRYPT),
            ("--acme-contact", self.acme_contact.is_some()),
            ("--acme-agree-tos", self.acme_agree_tos),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::Usage(format!(
                "{flag} is about the certificate of --tls acme: give that, too, or leave it out"
            ))),
        }
    }

    /// What an authority is asked for.
    ///
    /// # Errors
    /// If something is missing, or too much.
    pub(super) fn settings(&self) -> Result<AcmeSettings, Failure> {
        let directory = self.acme_directory.to_string();
        let mut domains: Vec<String> = Vec::new();
        for domain in &self.domain {
            if !domains.iter().any(|known| known == domain.as_str()) {
                domains.push(domain.to_string());
            }
        }
        let problem = if domains.is_empty() {
            "--tls acme needs --domain: the names that the certificate is for".into()
        } else if domains.len() > MAX_DOMAINS {
            format!(
                "--domain is there {} times: a certificate has at most {MAX_DOMAINS}",
                domains.len()
            )
        } else if directory == LETS_ENCRYPT && !self.acme_agree_tos {
            format!(
                "--tls acme makes an account with Let's Encrypt: read its terms of service \
                 ({LETS_ENCRYPT_TERMS}), and give --acme-agree-tos"
            )
        } else {
            let contact = self.acme_contact.as_ref().map(ToString::to_string);
            return Ok(AcmeSettings { directory, domains, contact, agrees: self.acme_agree_tos });
        };
        Err(Failure::Usage(problem))
    }
}
