//! `roadstead login`

use clap::Args;
use serde_json::{Value, json};

use super::api::{Api, name_one, only_organization};
use super::device_login;
use super::flags::{ClientFlags, credential};
use super::profiles::{DEFAULT, Profile, Profiles};
use super::whoami;
use crate::auth::KEY_PREFIX;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::password::{answer, first_line, require_terminal, unseen};
use crate::outside::Method;

/// Keep a server and an API key, or a session, as a profile
#[derive(Args)]
#[command(
    after_help = "Keeps the API key of --key or ROADSTEAD_API_KEY. Without one, in a terminal, it \
                        shows a code, which you enter in a browser where you are signed in; with \
                        --email it signs in with a password. Both begin a session, which lasts at \
                        most 12 hours, may do what no key may, and ends with roadstead logout.\n\n\
                        The profile becomes the CURRENT one: later commands that name none use it. \
                        Another one is taken back with roadstead profiles use NAME.\n\n\
                        Profiles are in roadstead/profiles.json below XDG_CONFIG_HOME or ~/.config, \
                        readable by you only.\n\n\
                        Example: roadstead login --url https://agents.example.com"
)]
pub struct Login {
    /// Sign in with this e-mail address and a password
    #[arg(long, value_name = "ADDRESS", env = "ROADSTEAD_EMAIL")]
    email: Option<String>,

    /// Sign in with a browser, on this machine or another, whatever else is set
    #[arg(long, env = "ROADSTEAD_BROWSER")]
    browser: bool,

    /// Read the password from the first line of stdin
    #[arg(long, requires = "email", env = "ROADSTEAD_PASSWORD_STDIN")]
    password_stdin: bool,

    /// A code of the account's second factor, or a recovery code; asked for if it is not given
    #[arg(long, value_name = "CODE", requires = "email")]
    code: Option<String>,

    #[command(flatten)]
    client: ClientFlags,
}

impl Login {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let name = self.client.profile.clone().unwrap_or_else(|| DEFAULT.into());
        // Before a password is asked for: a file that cannot be used stays as it is.
        let mut profiles = Profiles::read()?;
        let url = self.client.login_url().trim_end_matches('/').to_string();
        let credential = match &self.email {
            Some(email) if !self.browser => self.signed_in(&url, email)?,
            _ => self.key_or_browser(&url)?,
        };
        let api = self.client.client(&url, credential.clone(), None)?;
        let before = profiles.current.clone().filter(|before| *before != name);
        let kept = self.keep(&api, &mut profiles, &name, &url, credential.clone());
        if kept.is_err() && !credential.starts_with(KEY_PREFIX) {
            // Nobody has its token any more. Why it was not kept is what there is to say.
            let _ = api.send(Method::POST, "/auth/sign-out", &json!({}));
        }
        let mut who = kept?;
        who["profileBefore"] = json!(before);
        let mut text = format!(
            "{}\nprofile: {name}, the current one now: commands without --profile use it",
            whoami::text(&who)
        );
        if let Some(before) = before {
            text.push_str(&format!("\nback to {before}: roadstead profiles use {before}"));
        }
        output::print(self.client.json, &who, text)
    }

    /// Keeps a credential as a profile, and returns who it is.
    fn keep(
        &self,
        api: &Api,
        profiles: &mut Profiles,
        name: &str,
        url: &str,
        credential: String,
    ) -> Result<Value, Failure> {
        let mut who = api.whoami()?;
        let org_slug = match &self.client.org {
            Some(org) => Some(org.clone()),
            None => only_organization(&who)?,
        };
        if org_slug.is_none() {
            // Each command names one; a sign-in is not thrown away for that.
            output::status(&name_one(&who));
        }
        let expires_at = who["expiresAt"].as_str().map(str::to_string);
        let profile =
            Profile { url: url.into(), org_slug: org_slug.clone(), credential, expires_at };
        profiles.profiles.insert(name.into(), profile);
        profiles.current = Some(name.into());
        profiles.write()?;
        who["url"] = json!(url);
        who["profile"] = json!(name);
        who["orgSlug"] = json!(org_slug);
        Ok(who)
    }

    /// Returns the key that was given, or the session that a browser lets in.
    fn key_or_browser(&self, url: &str) -> Result<String, Failure> {
        if !self.browser {
            if let Some(key) = self.client.given_key()? {
                return Ok(key);
            }
            require_terminal(
                "there is no terminal to show a code in; give a key in a file (--key FILE), on stdin \
                 (--key -) or in the variable ROADSTEAD_API_KEY, or sign in with --browser or --email",
            )?;
        }
        let api = self.client.client(url, String::new(), None)?;
        match device_login::begin(&api)? {
            Some(begun) => credential(&device_login::wait(&api, &begun)?),
            None => {
                require_terminal(
                    "this server lets nobody in by the browser; use --key or --email",
                )?;
                credential(&unseen(&format!("API key for {url}: "))?)
            }
        }
    }

    /// Signs in and returns the token of the session.
    fn signed_in(&self, url: &str, email: &str) -> Result<String, Failure> {
        let password = if self.password_stdin {
            first_line()?
        } else {
            require_terminal("there is no terminal to ask for the password; use --password-stdin")?;
            unseen(&format!("Password of {email}: "))?
        };
        let api: Api = self.client.client(url, String::new(), None)?;
        let mut body = json!({"email": email, "password": password});
        if let Some(code) = &self.code {
            body["code"] = json!(code);
        }
        let session = match api.send(Method::POST, "/auth/sign-in", &body) {
            Err(refusal) => match refusal.problem().and_then(|problem| problem.challenge.clone()) {
                Some(challenge) => complete(&api, &challenge)?,
                None => return Err(refusal.into()),
            },
            session => session?,
        };
        credential(session["token"].as_str().unwrap_or_default())
    }
}

/// Completes a sign-in with the codes that are typed, until one is right or the sign-in has ended.
fn complete(api: &Api, challenge: &str) -> Result<Value, Failure> {
    require_terminal("the account has a second factor; give a code of it with --code")?;
    loop {
        let code = answer("Code of the second factor, or a recovery code: ")?;
        let body = json!({"challenge": challenge, "code": code});
        match api.send(Method::POST, "/auth/sign-in/code", &body) {
            Err(refusal) => match refusal.with_code("wrong_code") {
                Some(problem) => output::status(&problem.message),
                None => return Err(refusal.into()),
            },
            session => return Ok(session?),
        }
    }
}
