//! Flags of every command that talks to a server, and how they choose server and credential.

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::rc::Rc;

use clap::Args;

use super::api::Api;
use super::profiles::{Profile, Profiles};
use crate::base::HttpUrl;
use crate::cli::common::LogFormat;
use crate::cli::failure::Failure;
use crate::cli::{private_file, values};
use crate::outside::{ClientConfig, Outside};
use tracing::level_filters::LevelFilter;

/// Where `serve` listens unless told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:7420";

/// The variable that holds a key. It is no clap argument, since clap's help would print its value.
const KEY_VARIABLE: &str = "ROADSTEAD_API_KEY";

/// How keys begin.
const KEY_PREFIX: &str = "rsk_";

/// A key has 53 characters, the token of a session some hundred.
const MAX_CREDENTIAL_BYTES: u64 = 64 * 1024;

/// Flags of every command that talks to a server.
#[derive(Args, Clone)]
pub struct ClientFlags {
    /// URL of the server, or of its API; by default that of the profile, else http://127.0.0.1:7420
    #[arg(long, value_name = "URL", env = "ROADSTEAD_URL", value_parser = values::server_url, help_heading = "Server")]
    pub url: Option<HttpUrl>,

    /// File with an API key on its first line, readable by its owner only, or - for stdin; the
    /// variable ROADSTEAD_API_KEY holds a key itself
    #[arg(
        long,
        value_name = "FILE",
        env = "ROADSTEAD_KEY",
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub key: Option<String>,

    /// Slug of the organization; by default that of the key or the profile
    #[arg(long, value_name = "SLUG", env = "ROADSTEAD_ORG", help_heading = "Server")]
    pub org: Option<String>,

    /// Profile to use instead of the current one
    #[arg(long, value_name = "NAME", env = "ROADSTEAD_PROFILE", help_heading = "Server")]
    pub profile: Option<String>,

    /// Certificate authorities to trust besides the built-in ones
    #[arg(long, value_name = "PEM", env = "ROADSTEAD_CA_FILE", help_heading = "Server")]
    pub ca_file: Option<String>,

    /// Print one JSON object to stdout instead of text
    #[arg(long, env = "ROADSTEAD_JSON", help_heading = "Common")]
    pub json: bool,

    // Flags of every command that mean nothing to a client: it opens no data directory and logs
    // nothing.
    #[arg(long, hide = true, env = "ROADSTEAD_DATA")]
    data: Option<String>,
    #[arg(long, hide = true, value_enum, env = "ROADSTEAD_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    #[arg(long, hide = true, env = "ROADSTEAD_LOG_LEVEL")]
    log_level: Option<LevelFilter>,
}

impl ClientFlags {
    /// Returns a client of the server that the flags, the variables and the profiles name.
    ///
    /// # Errors
    /// Usage, if there is no credential for the server, or a file cannot be used.
    pub fn connect(&self) -> Result<Rc<Api>, Failure> {
        let given = self.given_key()?;
        let profile = if given.is_some() && self.profile.is_none() && self.url.is_some() {
            None // Everything is said: the profiles need not be readable.
        } else {
            self.profile(given.is_some())?
        };
        let of_profile = profile.as_ref().map(|profile| profile.url.as_str());
        let url = self.url.as_deref().or(of_profile).unwrap_or(DEFAULT_URL).to_string();
        let org = self.org.clone();
        let org = org.or_else(|| profile.as_ref().and_then(|profile| profile.org_slug.clone()));
        let credential = given.or_else(|| profile.map(|profile| profile.credential));
        let credential = credential.ok_or_else(|| {
            Failure::Usage(format!(
                "there is no key for {url}; log in (roadstead login), or put a key into the \
                 variable {KEY_VARIABLE} or a file (--key FILE)"
            ))
        })?;
        // A key that was given says itself which organization it is for.
        self.client(&url, credential, org).map(Rc::new)
    }

    /// Returns a client of the server at `url` with this credential.
    pub fn client(
        &self,
        url: &str,
        credential: String,
        org: Option<String>,
    ) -> Result<Api, Failure> {
        Api::new(self.outside()?, url, credential, org)
    }

    /// The URL that a login is for.
    pub fn login_url(&self) -> &str {
        self.url.as_deref().unwrap_or(DEFAULT_URL)
    }

    /// The profile to use, unless a URL was given that is not its own: its credential is for its
    /// server alone. With a key of one's own only what a named profile says besides counts.
    fn profile(&self, has_key: bool) -> Result<Option<Profile>, Failure> {
        if has_key && self.profile.is_none() {
            return Ok(None);
        }
        let profiles = Profiles::read()?;
        let selected = profiles.select(self.profile.as_deref())?;
        let (Some(profile), Some(url)) = (selected, self.url.as_deref()) else {
            return Ok(selected.cloned());
        };
        let same = profile.url.trim_end_matches('/') == url.trim_end_matches('/');
        match (same, &self.profile) {
            (true, _) => Ok(Some(profile.clone())),
            (false, None) => Ok(None),
            (false, Some(name)) => Err(Failure::Usage(format!(
                "the profile {name:?} is for {}, not for {url}; give one of --profile and --url",
                profile.url
            ))),
        }
    }

    /// The key of `--key` or of the variable.
    pub fn given_key(&self) -> Result<Option<String>, Failure> {
        let text = match self.key.as_deref() {
            Some(text) if text.starts_with(KEY_PREFIX) => {
                return Err(Failure::Usage(format!(
                    "--key takes a file, or - for stdin: a key on the command line is seen in the \
                     list of processes. Use the variable {KEY_VARIABLE}, and revoke this key if \
                     others use this machine"
                )));
            }
            Some("-") => {
                let mut text = String::new();
                let mut stdin = io::stdin().lock().take(MAX_CREDENTIAL_BYTES);
                stdin.read_to_string(&mut text).map_err(Failure::io("stdin"))?;
                Some(text)
            }
            Some(path) => Some(private_file::read(path.as_ref())?),
            None => match env::var(KEY_VARIABLE) {
                // A secret that a pipeline lacks must not become somebody's session.
                Ok(text) if text.is_empty() => {
                    return Err(Failure::Usage(format!(
                        "the variable {KEY_VARIABLE} is empty; set it to a key, or unset it to use \
                         the profile"
                    )));
                }
                Ok(text) => Some(text),
                Err(env::VarError::NotPresent) => None,
                Err(_) => Some("\0".into()),
            },
        };
        text.map(|text| credential(&text)).transpose()
    }

    fn outside(&self) -> Result<Outside, Failure> {
        let extra_roots_pem = match &self.ca_file {
            None => None,
            Some(path) => Some(fs::read(path).map_err(|error| {
                Failure::Usage(format!("--ca-file: {path} cannot be read: {error}"))
            })?),
        };
        // Unlike the server, a client calls no URL but the one that its user names.
        let config = ClientConfig { extra_roots_pem, ..ClientConfig::default() };
        Outside::new(config.to_everywhere()).map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// Returns a credential without the end of its line.
///
/// # Errors
/// Usage, if it cannot be one: it is empty or has blanks.
pub fn credential(text: &str) -> Result<String, Failure> {
    let line = text.lines().next().unwrap_or_default().trim_end();
    if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(line.to_string());
    }
    Err(Failure::Usage("the API key is empty, or has characters that no key has".into()))
}
