//! `roadstead demo`
//!
//! Serves a temporary directory with a sample organization, created through the API, and runs one
//! of its agents: give it a task and watch it being woken.

mod agent;
mod client;
mod sample;

use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::common::{Common, init_server_logging, program};
use super::failure::Failure;
use super::listening::Listening;
use super::serve::run;
use super::shutdown::Shutdown;
use super::{open_files, output};
use crate::app::{DataDir, Server, ServerConfig};
use crate::auth::passwords::{self, HashRequest};
use crate::base::{Email, Id, Name, Slug};
use crate::console::FirstVisit;
use crate::resources::organizations::{self, NewFoundation};
use crate::store::{Clock, Store, codec};
use client::Client;
use sample::Sample;

/// Serve a sample organization in a temporary directory, to try things out
#[derive(Args)]
#[command(
    after_help = "The directory is removed when the demo ends, unless --data names a new directory \
                  to keep.",
    mut_arg("data", |data| data.help("Keep the data in this new directory").hide_default_value(true))
)]
pub struct Demo {
    #[command(flatten)]
    listening: Listening,

    /// Open no browser
    #[arg(long)]
    no_browser: bool,

    #[command(flatten)]
    common: Common,
}

/// The default of `--data`, for which the demo uses a temporary directory.
const DEFAULT_DATA: &str = "roadstead-data";

impl Demo {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_server_logging(&self.common);
        let demo_dir = match self.common.data.as_str() {
            DEFAULT_DATA => DemoDir::temporary()?,
            path => DemoDir { path: path.into(), is_temporary: false },
        };
        let dir = self.common.data_dir_at(&demo_dir.path);
        run(self.serve(&dir))
    }

    async fn serve(&self, dir: &DataDir) -> Result<(), Failure> {
        let shutdown = Shutdown::listen()?;
        // First, so that a port in use leaves no new directory behind.
        let listeners = self.listening.bind().await?;
        let store = dir.create()?;
        let password = codec::hex(&Clock::system().random::<8>());
        let key = create_organization(&store, &password).await?;
        let (open_files, program) = (open_files::raise(), program());
        let visit = Arc::new(FirstVisit::default());
        let first_visit = Some(visit.clone());
        let config = ServerConfig { open_files, program, first_visit, ..ServerConfig::default() };
        let server = Server::start(store.clone(), listeners, config)?;
        let client = Client::new(server.address, key.clone())?;
        let sign_in = json!({"email": OWNER, "password": password});
        let session = client.post("/auth/sign-in", sign_in).await?;
        let session = session["token"].as_str().unwrap_or_default().to_string();
        let as_ada = client.with_credential(session.clone());
        let sample = sample::fill(&client, &as_ada).await?;
        let link = sign_in_link(&visit, client.base(), session);
        self.announce(&client, &sample, (&key, &password, &link), dir)?;
        let is_opened = !self.no_browser && !self.common.json && is_at_desktop();
        let leading = if is_opened { Leading::to(&link, &dir.absolute()) } else { None };
        if let Some(leading) = &leading {
            open_browser(&leading.path);
        }
        let ended = shutdown.serve(server, &dir.absolute(), agent::run(&client, &sample)).await;
        store.close();
        ended
    }

    fn announce(
        &self,
        client: &Client,
        sample: &Sample,
        (key, password, link): (&str, &str, &str),
        dir: &DataDir,
    ) -> Result<(), Failure> {
        let (at, Sample { team, scribe: agent, pending }) = (client.base(), sample);
        let task = json!({
            "orgSlug": "acme", "title": "Write the release notes", "assigneeAgentId": agent,
        });
        let approval = json!({"orgSlug": "acme", "actingUserEmail": OWNER});
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
            format!(
                "curl -s {at}/api/agents/deployments/{pending}/approve -H 'X-API-Key: {key}' \
                 -H 'Content-Type: application/json' -d '{approval}'"
            ),
            format!(
                "curl -s '{at}/api/agents/scribe/deployed?orgSlug=acme&environment=production' \
                 -H 'X-API-Key: {key}'"
            ),
        ];
        let value = json!({
            "listening": at,
            "organization": "acme",
            "signIn": {"email": OWNER, "password": password, "link": link},
            "apiKey": key,
            "curl": curl,
        });
        let text = format!(
            "Roadstead {} serves the sample organization acme at {at}\n\n\
             Look around  {link}\n             which signs in once, within 10 minutes\n\
             Sign in as   {OWNER}  with the password  {password}\n\
             API key      {key}\n\n\
             Give the agent `scribe` a task and watch it wake here:\n  {}\n\n\
             Read what it reports to the humans:\n  {}\n\n\
             Read its prompt, as labelled production:\n  {}\n\n\
             It runs in staging. Approve its deployment to production, which waits for Ada:\n  {}\n\n\
             Read what it runs in production then:\n  {}\n\n\
             {}\n",
            env!("CARGO_PKG_VERSION"),
            curl[0],
            curl[1],
            curl[2],
            curl[3],
            curl[4],
            self.ending(dir)
        );
        output::print(self.common.json, &value, &text)
    }

    /// What becomes of the demo and its data.
    fn ending(&self, dir: &DataDir) -> String {
        if self.common.data == DEFAULT_DATA {
            return "Ctrl-C ends the demo and removes its data. To keep what you make, begin with \
                    roadstead demo --data NEW-DIRECTORY"
                .into();
        }
        let data = dir.absolute();
        format!(
            "Ctrl-C ends the demo. Its data stays: roadstead serve --data {}\nserves it from then on.",
            shell_word(&data.display().to_string())
        )
    }
}

const OWNER: &str = "ada@acme.test";

/// How long the link that signs in once is valid.
const LINK_SECS: i64 = 600;

/// Makes the link that signs a browser in once, to this session.
fn sign_in_link(visit: &FirstVisit, base: &str, session: String) -> String {
    let clock = Clock::system();
    let token = codec::hex(&clock.random::<16>());
    visit.offer(&token, session, clock.now().plus_secs(LINK_SECS));
    format!("{base}/first-visit#{token}")
}

/// A word of a command for a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A page that leads to the link, removed on drop. All users of a machine see the arguments of commands.
struct Leading {
    path: PathBuf,
}

impl Leading {
    fn to(link: &str, dir: &Path) -> Option<Self> {
        let path = dir.join("look-around.html");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path).ok()?;
        let leading = Leading { path };
        let page = format!(
            "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={link}\">\
             <title>Roadstead</title><p><a href=\"{link}\">Look around</a></p>\n"
        );
        file.write_all(page.as_bytes()).ok().map(|()| leading)
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        // What is left of it signs nobody in: the link ends with the demo.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether this was begun at a desktop. Elsewhere there is the printed link.
fn is_at_desktop() -> bool {
    std::io::stdout().is_terminal() && ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(is_set)
}

fn open_browser(page: &Path) {
    let opener = Command::new("xdg-open")
        .arg(page)
        // Ctrl-C goes to a whole group: the browser stays.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut opener) = opener {
        std::thread::spawn(move || opener.wait());
    }
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Creates the organization and its owner; returns an API key.
async fn create_organization(store: &Store, password: &str) -> Result<String, Failure> {
    let hashing = HashRequest { verify: None, make: Some(password.into()) };
    let founding = NewFoundation {
        slug: Slug::parse("acme").expect("it is a slug"),
        name: Name::parse("Acme").expect("it is a name"),
        email: Email::parse(OWNER).expect("it is an address"),
        user_name: Name::parse("Ada").expect("it is a name"),
        password_hash: passwords::run(&hashing)?.made,
        api_key: Some(Name::parse("demo").expect("it is a name")),
    };
    let founded = store.write(Id::NIL, move |tx| organizations::bootstrap(tx, &founding)).await?;
    founded.key.map(|(_, key)| key).ok_or_else(|| Failure::Failed("no API key was created".into()))
}

/// The demo's directory, removed on drop if it is temporary.
struct DemoDir {
    path: PathBuf,
    is_temporary: bool,
}

impl DemoDir {
    fn temporary() -> Result<Self, Failure> {
        let name = format!("roadstead-demo-{}", codec::hex(&Clock::system().random::<8>()));
        let path = std::env::temp_dir().join(name);
        let cannot = |error| {
            Failure::Failed(format!(
                "cannot create {}: {error}; name another place with TMPDIR, or a new directory to \
                 keep with --data",
                path.display()
            ))
        };
        // It will hold a key, which other users of this machine must not read.
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(cannot)?;
        Ok(DemoDir { path, is_temporary: true })
    }
}

impl Drop for DemoDir {
    fn drop(&mut self) {
        if self.is_temporary {
            // On failure the system cleans up its temporary directory.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/tmp/a-b_1.c"), "/tmp/a-b_1.c");
        assert_eq!(shell_word("/tmp/a b;c"), "'/tmp/a b;c'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn the_page_that_leads_to_the_link_is_of_its_owner_alone_and_goes_with_the_demo() {
        let dir = tempfile::tempdir().unwrap();
        let leading = Leading::to("http://127.0.0.1:1/first-visit#abc", dir.path()).unwrap();
        let path = leading.path.clone();
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .contains("url=http://127.0.0.1:1/first-visit#abc")
        );
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Leading::to("x", dir.path()).is_none());
        assert!(path.exists());
        drop(leading);
        assert!(!path.exists());
    }
}
