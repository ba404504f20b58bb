//! The flags of signing in with OpenID Connect.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::private_file;
use crate::auth::SESSION_SECS;
use crate::auth::oidc::OidcProvider;
use crate::base::HttpUrl;
use crate::http::names_this_machine;

/// More buttons than 20 are of no use to whoever signs in.
const MAX_PROVIDERS: usize = 20;

/// The providers with which people sign in.
#[derive(Args)]
pub(super) struct OidcFlags {
    /// A provider of sign-ins (OpenID Connect; repeatable): name=keycloak,issuer=https://…,client-id=…
    #[arg(
        long,
        value_name = "PROVIDER",
        env = "ROADSTEAD_OIDC",
        value_delimiter = ';',
        long_help = "A provider of sign-ins by OpenID Connect (repeatable; in the variable separated by \
                     semicolons). Its parts are separated by commas:\n\
                     name=NAME: in paths and rules, of small letters, digits and hyphens\n\
                     issuer=URL: exactly as the provider writes it, https\n\
                     client-id=ID\n\
                     secret-file=FILE: of mode 0600 or a credential of systemd; not for a public client\n\
                     label=TEXT: what people see, by default the name\n\
                     trust-addresses=yes: addresses count as verified although the provider does not say \
                     so, because somebody administers them\n\
                     sign-out=yes: who signs out here is led to the provider, to sign out there, too\n\
                     session-hours=N: how long a session lasts that it has let in, 1 to 12 (by default 12)"
    )]
    oidc: Vec<String>,
}

impl OidcFlags {
    /// The providers, with their secrets.
    ///
    /// # Errors
    /// Usage, if one cannot be used.
    pub(super) fn providers(&self) -> Result<Vec<OidcProvider>, Failure> {
        let mut providers: Vec<OidcProvider> = Vec::new();
        for (n, text) in self.oidc.iter().enumerate() {
            // Without the text: who mistakes secret-file has the secret in it.
            let wrong =
                |problem: String| Failure::Usage(format!("--oidc, number {}: {problem}", n + 1));
            let (mut provider, secret_file) = parse(text).map_err(wrong)?;
            if providers.iter().any(|other| other.name == provider.name) {
                return Err(wrong("another provider has this name".into()));
            }
            // People are known by issuer and subject: each would sign in the people of the other.
            if let Some(other) = providers.iter().find(|other| other.issuer == provider.issuer) {
                let name = &other.name;
                return Err(wrong(format!(
                    "{name} has this issuer already; name each issuer once"
                )));
            }
            if let Some(path) = secret_file {
                let secret = private_file::read(&path)?.trim().to_string();
                if secret.is_empty() {
                    return Err(wrong(format!("{} is empty", path.display())));
                }
                provider.secret = Some(secret);
            }
            providers.push(provider);
        }
        if providers.len() > MAX_PROVIDERS {
            return Err(Failure::Usage(format!(
                "--oidc names more than {MAX_PROVIDERS} providers"
            )));
        }
        Ok(providers)
    }
}

/// Parses a provider, and where its secret is.
fn parse(text: &str) -> Result<(OidcProvider, Option<PathBuf>), String> {
    if text.trim().is_empty() {
        return Err("it is empty; leave it out, or give name=…,issuer=…,client-id=…".into());
    }
    let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
    for part in text.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim());
        let known = KEYS.iter().position(|known| *known == key);
        let Some(index) = known else {
            return Err(format!("{key} is no part of it; they are {}", KEYS.join(", ")));
        };
        if value.is_empty() || values[index].replace(value).is_some() {
            return Err(format!("give {key} once, as {key}=…"));
        }
    }
    let [name, issuer, client_id, secret_file, label, trust, sign_out, hours] = values;
    let required = |value: Option<&str>, key| {
        value.map(String::from).ok_or_else(|| format!("{key}=… is missing"))
    };
    let name = required(name, "name")?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > 32 || !name.bytes().all(fits) {
        return Err("name must be of at most 32 small letters, digits and hyphens".into());
    }
    let issuer = required(issuer, "issuer")?;
    check_issuer(&issuer)?;
    let is_yes = |value: Option<&str>, key: &str| match value {
        None | Some("no") => Ok(false),
        Some("yes") => Ok(true),
        Some(_) => Err(format!("{key} must be yes or no")),
    };
    let trusts_addresses = is_yes(trust, "trust-addresses")?;
    let signs_out = is_yes(sign_out, "sign-out")?;
    let session_secs = session_secs(hours)?;
    let label = label.map_or_else(|| name.clone(), String::from);
    if label.chars().count() > 60 || label.chars().any(char::is_control) {
        return Err("label must be at most 60 characters".into());
    }
    let client_id = required(client_id, "client-id")?;
    let provider = OidcProvider {
        name,
        label,
        issuer,
        client_id,
        secret: None,
        trusts_addresses,
        signs_out,
        session_secs,
    };
    Ok((provider, secret_file.map(PathBuf::from)))
}

const KEYS: [&str; 8] = [
    "name",
    "issuer",
    "client-id",
    "secret-file",
    "label",
    "trust-addresses",
    "sign-out",
    "session-hours",
];

/// The length of sessions: none outlasts those of a password.
fn session_secs(hours: Option<&str>) -> Result<i64, String> {
    let longest = SESSION_SECS / 3600;
    let Some(hours) = hours else { return Ok(SESSION_SECS) };
    let hours = hours.parse::<i64>().ok().filter(|hours| (1..=longest).contains(hours));
    let hours =
        hours.ok_or_else(|| format!("session-hours must be a number from 1 to {longest}"))?;
    Ok(hours * 3600)
}

/// Requires an issuer that nobody on the way can be: one with TLS, or of this machine.
fn check_issuer(issuer: &str) -> Result<(), String> {
    let url = HttpUrl::parse(issuer).map_err(|problem| format!("issuer {problem}"))?;
    if issuer.contains(['?', '#']) {
        return Err("issuer must have neither a query nor a fragment".into());
    }
    if issuer.starts_with("https://") || names_this_machine(&url.host()) {
        return Ok(());
    }
    Err("issuer must begin with https://".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_named_by_its_parts() {
        let text = "name=kc, issuer=https://id.test/realms/a/,client-id=r=1,secret-file=/run/s,\
                    label=Our Keycloak,trust-addresses=yes,sign-out=yes";
        let (provider, secret_file) = parse(text).unwrap();
        assert_eq!((&*provider.name, &*provider.label), ("kc", "Our Keycloak"));
        assert_eq!(provider.issuer, "https://id.test/realms/a/");
        assert_eq!((&*provider.client_id, provider.trusts_addresses), ("r=1", true));
        assert!(provider.signs_out);
        assert_eq!(secret_file, Some("/run/s".into()));
        let (public, secret_file) = parse("name=a,issuer=http://127.0.0.1:1,client-id=c").unwrap();
        assert_eq!((&*public.label, public.trusts_addresses, secret_file), ("a", false, None));
        assert!(!public.signs_out);
        assert_eq!(public.session_secs, SESSION_SECS);
        let short = parse("name=a,issuer=https://id.test,client-id=c,session-hours=1").unwrap();
        assert_eq!(short.0.session_secs, 3600);
    }

    #[test]
    fn each_provider_has_a_name_and_an_issuer_of_its_own() {
        let refused = |second: &str| {
            let first = "name=a,issuer=https://id.test,client-id=c";
            let flags = OidcFlags { oidc: vec![first.into(), second.into()] };
            match flags.providers() {
                Err(Failure::Usage(problem)) => problem,
                Err(_) => "another failure".into(),
                Ok(providers) => format!("{} providers", providers.len()),
            }
        };
        for (second, word) in [
            (
                "name=a,issuer=https://other.test,client-id=c",
                "number 2: another provider has this name",
            ),
            ("name=b,issuer=https://id.test,client-id=d", "number 2: a has this issuer already"),
            ("", "number 2: it is empty"),
            ("name=b,issuer=https://other.test,client-id=c", "2 providers"),
        ] {
            let problem = refused(second);
            assert!(problem.contains(word), "{second}: {problem}");
        }
    }

    #[test]
    fn what_is_missing_unknown_or_not_safe_is_said() {
        for (text, word) in [
            ("", "it is empty"),
            (" ", "it is empty"),
            ("issuer=https://id.test,client-id=c", "name=… is missing"),
            ("name=a,client-id=c", "issuer=… is missing"),
            ("name=a,issuer=https://id.test", "client-id=… is missing"),
            ("name=A,issuer=https://id.test,client-id=c", "small letters"),
            ("name=a,name=b,issuer=https://id.test,client-id=c", "once"),
            ("name=a,issuer=http://id.test,client-id=c", "https://"),
            ("name=a,issuer=https://id.test?a,client-id=c", "query"),
            ("name=a,issuer=id.test,client-id=c", "issuer"),
            ("name=a,issuer=https://id.test,client-id=c,secret=hush", "no part"),
            ("name=a,issuer=https://id.test,client-id=c,trust-addresses=1", "yes or no"),
            ("name=a,issuer=https://id.test,client-id=c,sign-out=true", "sign-out must be yes"),
            ("name=a,issuer=https://id.test,client-id=c,session-hours=13", "from 1 to 12"),
            ("name=a,issuer=https://id.test,client-id=c,session-hours=0", "from 1 to 12"),
            ("name=a,issuer=https://id.test,client-id=c,session-hours=1.5", "from 1 to 12"),
        ] {
            let problem = parse(text).map(|_| ()).unwrap_err();
            assert!(problem.contains(word), "{text}: {problem}");
            assert!(!problem.contains("hush"));
        }
    }
}
