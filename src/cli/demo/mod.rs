//! `roadstead demo`
//!
//! Serves a throw-away directory with a sample organization, made through the API as any client
//! would, and plays one of its agents: whoever gives it a task can watch it being woken.

mod agent;
mod client;
mod sample;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::serve::{Stop, listen_at, run};
use super::{Common, Failure, output, values};
use crate::app::{Config, DataDir, Server};
use crate::auth::passwords::{self, Hashing};
use crate::base::{Email, Id, Name, Slug};
use crate::resources::organizations::{self, Founding};
use crate::store::{Moment, Store, codec};
use client::Client;
use sample::Sample;

/// Serve a sample organization in a throw-away directory, to look around in
#[derive(Args)]
#[command(
    after_help = "Everything is gone when it ends, unless --data names a new directory to keep it \
                  in.",
    mut_arg("data", |data| data.help("Keep the data in this new directory").hide_default_value(true))
)]
pub struct Demo {
    /// Where to listen
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "ROADSTEAD_LISTEN",
        default_value = "127.0.0.1:7420",
        value_parser = values::host_and_port
    )]
    listen: String,

    #[command(flatten)]
    common: Common,
}

/// What `--data` is when nobody says; the demo then makes a directory of its own.
const DEFAULT_DATA: &str = "roadstead-data";

impl Demo {
    pub(super) fn run(self) -> Result<(), Failure> {
        super::log(&self.common);
        let place = match self.common.data.as_str() {
            DEFAULT_DATA => Place::throw_away()?,
            kept => Place { path: kept.into(), goes: false },
        };
        let dir = self.common.data_dir_at(&place.path);
        run(self.serve(&dir))
    }

    async fn serve(&self, dir: &DataDir) -> Result<(), Failure> {
        let stop = Stop::listen()?;
        // Before the rest, so that a port that is taken leaves no directory behind.
        let listener = listen_at(&self.listen).await?;
        let store = dir.make()?;
        let password = codec::hex(&Moment::system().random::<8>());
        let key = found(&store, &password).await?;
        let server = Server::start(store, listener, Config::default())?;
        let client = Client::new(server.address, key.clone())?;
        let sign_in = json!({"email": OWNER, "password": password});
        let session = client.post("/auth/sign-in", sign_in).await?;
        let session = client.with(session["token"].as_str().unwrap_or_default().into());
        let sample = sample::fill(&client, &session).await?;
        self.announce(&client, &sample, &key, &password)?;
        stop.serve(server, agent::play(&client, &sample)).await
    }

    fn announce(
        &self,
        client: &Client,
        sample: &Sample,
        key: &str,
        password: &str,
    ) -> Result<(), Failure> {
        let (at, team, agent) = (client.base(), &sample.team, &sample.scribe);
        let task = json!({
            "orgSlug": "acme", "title": "Write the release notes", "assigneeAgentId": agent,
        });
        let curl = [
            format!(
                "curl -s {at}/api/teams/{team}/tasks -H 'X-API-Key: {key}' \
                 -H 'Content-Type: application/json' -d '{task}'"
            ),
            format!(
                "curl -s '{at}/api/teams/{team}/messages?orgSlug=acme&audience=human' \
                 -H 'X-API-Key: {key}'"
            ),
            format!(
                "curl -s '{at}/api/registries/artifact-versions/content?registryRef=harbour\
                 &promptName=scribe&version=production' -H 'X-API-Key: {key}'"
            ),
        ];
        let value = json!({
            "listening": at,
            "organization": "acme",
            "signIn": {"email": OWNER, "password": password},
            "apiKey": key,
            "curl": curl,
        });
        let text = format!(
            "Roadstead {} serves the sample organization acme at {at}\n\n\
             Sign in as   {OWNER}  with the password  {password}\n\
             API key      {key}\n\n\
             Give the agent `scribe` a task, and watch it here being woken:\n  {}\n\n\
             Read what it tells the humans:\n  {}\n\n\
             Read the prompt that it works by, as it is in production:\n  {}\n\n\
             Ctrl-C ends the demo.\n",
            env!("CARGO_PKG_VERSION"),
            curl[0],
            curl[1],
            curl[2]
        );
        output::print(self.common.json, &value, &text)
    }
}

const OWNER: &str = "ada@acme.test";

/// The organization, its owner and an API key.
async fn found(store: &Store, password: &str) -> Result<String, Failure> {
    let hashing = Hashing { verify: None, make: Some(password.into()) };
    let founding = Founding {
        slug: Slug::parse("acme").expect("it is a slug"),
        name: Name::parse("Acme").expect("it is a name"),
        email: Email::parse(OWNER).expect("it is an address"),
        user_name: Name::parse("Ada").expect("it is a name"),
        password_hash: passwords::work(&hashing)?.made,
        api_key: Some(Name::parse("demo").expect("it is a name")),
    };
    let founded = store.write(Id::NOTHING, move |tx| organizations::found(tx, &founding)).await?;
    founded.key.map(|(_, key)| key).ok_or_else(|| Failure::Failed("no key was made".into()))
}

/// A directory that is removed at the end, or kept.
struct Place {
    path: PathBuf,
    goes: bool,
}

impl Place {
    fn throw_away() -> Result<Self, Failure> {
        let name = format!("roadstead-demo-{}", codec::hex(&Moment::system().random::<8>()));
        let path = std::env::temp_dir().join(name);
        // Ours alone: others on this machine have no business with the key in it.
        std::fs::DirBuilder::new().mode(0o700).create(Path::new(&path))?;
        Ok(Place { path, goes: true })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.goes {
            // What is left in the temporary directory is swept by the system.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
