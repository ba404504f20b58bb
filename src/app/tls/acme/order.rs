//! Getting a certificate: an account with the authority, an order, the proof that each domain leads here,
//! and the certificate.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::account_fault::AccountFault;
use super::calls::Calls;
use super::settings::AcmeSettings;
use super::stored::StoredAccount;
use crate::http::{Challenges, Pair, PairProblem};

/// How the state of an order is asked for until it changes: after half a second, then less and less often.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(300));

/// So much is kept of what an authority says.
const MAX_WORDS: usize = 600;

/// Why an attempt has failed.
#[derive(Debug)]
pub struct Refused {
    /// What was wrong, and what to do, as far as it is known.
    pub why: String,
    /// What the authority has against the account.
    pub account: AccountFault,
}

impl Refused {
    /// A failure with this text, of which a bounded part is kept.
    pub fn of(why: impl Into<String>) -> Self {
        let mut why = why.into();
        if let Some((end, _)) = why.char_indices().nth(MAX_WORDS) {
            why.truncate(end);
            why.push('…');
        }
        Refused { why, account: AccountFault::None }
    }
}

impl Refused {
    /// A refusal of a request that says nothing but who asks for what: if the authority does not authorize
    /// that, it is the account.
    fn of_account(error: Error) -> Self {
        match &error {
            Error::Api(problem) if kind_of(problem) == "unauthorized" => {
                let Refused { why, .. } =
                    Refused::of(format!("the authority says: {}", words(problem)));
                Refused { why, account: AccountFault::Refused }
            }
            _ => error.into(),
        }
    }
}

/// The error of RFC 8555, 6.7, that a problem is; empty if it is none of them.
fn kind_of(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or_default()
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Refused::from(problem),
            Error::Json(error) => Refused::of(format!(
                "an answer is not one of an authority ({error}): --acme-directory must be the URL of \
                 its directory"
            )),
            Error::Timeout(_) => Refused::of("the authority did not decide in time"),
            error => Refused::of(error.to_string()),
        }
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        let to_do = to_do(kind_of(&problem));
        let is_unknown = kind_of(&problem) == "accountDoesNotExist";
        let account = if is_unknown { AccountFault::Unknown } else { AccountFault::None };
        // The hint is not cut off, whatever the authority says.
        let Refused { why, .. } = Refused::of(format!("the authority says: {}", words(&problem)));
        let why = if to_do.is_empty() { why } else { format!("{why}; {to_do}") };
        Refused { why, account }
    }
}

/// What a problem says of itself and of the domains that it is about.
fn words(problem: &Problem) -> String {
    let said = |detail: &Option<String>, kind: &Option<String>| {
        detail.clone().or_else(|| kind.clone()).unwrap_or_else(|| "no reason".into())
    };
    let mut words = said(&problem.detail, &problem.r#type);
    for part in &problem.subproblems {
        let domain = match &part.identifier {
            Some(Identifier::Dns(domain)) => format!("{domain}: "),
            _ => String::new(),
        };
        words.push_str(&format!("; {domain}{}", said(&part.detail, &part.r#type)));
    }
    words
}

/// What to do about an error of this kind (RFC 8555, 6.7).
fn to_do(kind: &str) -> &'static str {
    match kind {
        "caa" => "a CAA record of the domain must name the authority, or none be there",
        "connection" | "dns" | "tls" | "unauthorized" | "incorrectResponse" => {
            "each domain must lead to this server, and the authority reach it at port 443"
        }
        "externalAccountRequired" => {
            "this authority takes only accounts that were made elsewhere, which is not supported"
        }
        "invalidContact" | "unsupportedContact" => "correct --acme-contact, or leave it out",
        "rateLimited" => "the server asks again later",
        "rejectedIdentifier" | "unsupportedIdentifier" => {
            "the authority issues no certificates for one of --domain"
        }
        "userActionRequired" | "agreementRequired" => {
            "read the terms of service of the authority, and give --acme-agree-tos"
        }
        _ => "",
    }
}

/// A certificate that was issued.
pub struct Issued {
    pub pair: Pair,
    /// Both in PEM: the certificate with those of its issuers, and its key.
    pub pem: Zeroizing<String>,
}

/// Returns the account, and what is to be stored of it if that is new.
///
/// # Errors
/// If the authority cannot be asked, or takes no such account.
pub async fn account(
    calls: &Calls,
    settings: &AcmeSettings,
    stored: Option<&StoredAccount>,
) -> Result<(Account, Option<StoredAccount>), Refused> {
    let builder = Account::builder_with_http(Box::new(calls.clone()));
    let contact = settings.contact.as_ref().map(|address| format!("mailto:{address}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let directory = settings.directory.clone();
    let known = stored.filter(|stored| stored.directory == directory);
    if let Some((known, key)) =
        known.and_then(|known| Some((known, BASE64.decode(&known.key).ok()?)))
    {
        let key = PrivatePkcs8KeyDer::from(key);
        let account = builder.from_parts(known.url.clone(), key, directory).await?;
        if known.contact == settings.contact {
            return Ok((account, None));
        }
        account.update_contacts(&contact).await.map_err(Refused::of_account)?;
        return Ok((
            account,
            Some(StoredAccount { contact: settings.contact.clone(), ..known.clone() }),
        ));
    }
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: settings.agrees,
        only_return_existing: false,
    };
    let (account, credentials) = builder.create(&new, directory.clone(), None).await?;
    let stored = StoredAccount {
        directory,
        url: account.id().to_string(),
        key: BASE64.encode(credentials.private_key().secret_pkcs8_der()),
        contact: settings.contact.clone(),
    };
    Ok((account, Some(stored)))
}

/// Orders a certificate. `challenges` has the answers to the authority from then on.
///
/// # Errors
/// If the authority cannot be asked, does not find the domains to be this server's, or issues something
/// that cannot be served.
pub async fn certificate(
    account: &Account,
    settings: &AcmeSettings,
    challenges: &Challenges,
) -> Result<Issued, Refused> {
    let domains: Vec<_> = settings.domains.iter().cloned().map(Identifier::Dns).collect();
    let order = account.new_order(&NewOrder::new(&domains)).await;
    let mut order = order.map_err(Refused::of_account)?;
    prove(&mut order, settings, challenges).await?;
    let state = order.poll_ready(&PATIENCE).await;
    if !matches!(state, Ok(OrderStatus::Ready)) {
        let found = refused_domain(&mut order).await;
        return Err(match (found, state) {
            (Some(refused), _) => refused,
            (None, Err(error)) => error.into(),
            (None, Ok(_)) => Refused::of("the authority has refused the order without a reason"),
        });
    }
    let key = KeyPair::generate().map_err(|error| Refused::of(error.to_string()))?;
    let request = request(&settings.domains, &key).map_err(|e| Refused::of(e.to_string()))?;
    order.finalize_csr(&request).await?;
    let chain = order.poll_certificate(&PATIENCE).await?;
    let key = Zeroizing::new(key.serialize_pem());
    let pem = Zeroizing::new(format!("{}\n{chain}", key.as_str()));
    let pair = Pair::from_pem(pem.as_bytes(), pem.as_bytes()).map_err(|problem| match problem {
        PairProblem::Certificate(what) => {
            Refused::of(format!("the certificate of the authority {what}"))
        }
        _ => Refused::of("the authority has issued a certificate for another key"),
    })?;
    match settings.domains.iter().find(|domain| !pair.facts.names_exactly(domain)) {
        None => Ok(Issued { pair, pem }),
        Some(domain) => Err(Refused::of(format!(
            "the authority has issued a certificate that is not for {domain}"
        ))),
    }
}

/// Puts the proof for each domain in place, and tells the authority to look.
async fn prove(
    order: &mut Order,
    settings: &AcmeSettings,
    challenges: &Challenges,
) -> Result<(), Refused> {
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next?;
        let domain = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Pending => {}
            AuthorizationStatus::Valid => continue,
            _ => return Err(Refused::of(format!("the authority refuses {domain} at once"))),
        }
        if !settings.domains.contains(&domain) {
            return Err(Refused::of(format!("the authority asks about another domain: {domain}")));
        }
        let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
            return Err(Refused::of(
                "the authority cannot look by TLS-ALPN-01, the only way here: take another one, or get \
                 certificates by another program, for --tls-cert and --tls-key",
            ));
        };
        let digest = challenge.key_authorization().digest();
        let (proof, key) =
            proof(&domain, digest.as_ref()).map_err(|e| Refused::of(e.to_string()))?;
        challenges.put(&domain, proof, key).map_err(|e| Refused::of(e.to_string()))?;
        challenge.set_ready().await?;
    }
    Ok(())
}

/// A certificate with its key.
type Proof = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// The certificate that an authority is shown for a domain (RFC 8737, 3).
fn proof(domain: &str, digest: &[u8]) -> Result<Proof, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![domain.to_string()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key)?.der().clone();
    Ok((certificate, PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

/// What is signed by the authority: the domains, and the key.
fn request(domains: &[String], key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
    let mut params = CertificateParams::new(domains)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.der().to_vec())
}

/// Why an authority has refused an order: what it says of the domain that it has not found to be this
/// server's; `None` if it says nothing of one.
async fn refused_domain(order: &mut Order) -> Option<Refused> {
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next.ok()?;
        let state = authorization.refresh().await.ok()?;
        if state.status != AuthorizationStatus::Invalid {
            continue;
        }
        let domain = state.identifier().to_string();
        let problem = state.challenges.iter().find_map(|challenge| challenge.error.clone());
        let Refused { why, .. } = Refused::from(problem?);
        return Some(Refused::of(format!("{domain}: {why}")));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Refused {
        Refused::from(serde_json::from_str::<Problem>(text).unwrap())
    }

    #[test]
    fn what_an_authority_says_is_repeated_in_part_with_what_to_do() {
        let said = problem(
            r#"{"type": "urn:ietf:params:acme:error:invalidContact", "detail": "no such domain"}"#,
        );
        let expected =
            "the authority says: no such domain; correct --acme-contact, or leave it out";
        assert_eq!(said.why, expected);
        let long = "x".repeat(100_000);
        let said = problem(&format!(
            r#"{{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "{long}"}}"#
        ));
        assert!(said.why.len() < MAX_WORDS + 100, "{}", said.why.len());
        assert!(said.why.ends_with("…; the server asks again later"), "{}", said.why);
        let parts = problem(
            r#"{"subproblems": [{"identifier": {"type": "dns", "value": "a.test"},
                "type": "urn:ietf:params:acme:error:caa"}], "detail": "two"}"#,
        );
        assert_eq!(parts.why, "the authority says: two; a.test: urn:ietf:params:acme:error:caa");
        let gone = r#"{"type": "urn:ietf:params:acme:error:accountDoesNotExist"}"#;
        let faults = [problem(gone).account, parts.account];
        assert_eq!(faults, [AccountFault::Unknown, AccountFault::None]);
    }

    #[test]
    fn what_is_not_authorized_is_the_account_where_nothing_else_was_said() {
        let unauthorized = || {
            serde_json::from_str::<Problem>(
                r#"{"type": "urn:ietf:params:acme:error:unauthorized", "detail": "deactivated"}"#,
            )
            .unwrap()
        };
        let of_order = Refused::of_account(Error::Api(unauthorized()));
        assert_eq!(of_order.account, AccountFault::Refused);
        assert_eq!(of_order.why, "the authority says: deactivated");
        let of_domain = Refused::from(unauthorized());
        assert_eq!(of_domain.account, AccountFault::None);
        assert!(of_domain.why.contains("each domain must lead to this server"));
    }
}
