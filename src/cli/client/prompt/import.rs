//! `roadstead prompt import`: prompts of another system.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::client::api::{Api, segment};
use crate::cli::client::artifact_name::registry_ref;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::listed::Listed;
use crate::cli::client::lookup::none_called;
use crate::cli::client::table::{Table, cell, cells};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Text};

/// So many prompts are imported by one request: the server fetches them within seconds, and publishes
/// them together.
const AT_ONCE: usize = 50;

/// So many are listed by one.
const PAGE: &str = "50";

/// So many pages may follow each other without a new prompt.
const MAX_EMPTY: usize = 10;

/// Import prompts of another system, or list what it has
#[derive(Args)]
#[command(
    after_help = "The system is one of the organization's prompt providers, which an admin adds \
                        in the console.\n\n\
                        What was imported before with the same text is left as it is, so that an \
                        import that stopped can be run again.\n\n\
                        A key needs the scopes prompt_provider:read and artifact:publish.\n\n\
                        Examples:\n  roadstead prompt import Langfuse\n  \
                        roadstead prompt import Langfuse --into main --all\n  \
                        roadstead prompt import Langfuse --into main welcome goodbye"
)]
pub struct Import {
    /// The prompt provider, by name or id
    provider: String,

    /// Names of prompts there
    #[arg(value_name = "NAME", requires = "into")]
    names: Vec<String>,

    /// The registry to import into: REGISTRY, or ORG/REGISTRY
    #[arg(long, value_name = "REGISTRY")]
    into: Option<String>,

    /// Import all prompts that it has
    #[arg(long, requires = "into", conflicts_with = "names")]
    all: bool,

    /// Why they are imported: the message of the versions that this makes
    #[arg(long, short, value_name = "TEXT", requires = "into")]
    message: Option<String>,

    #[command(flatten)]
    client: ClientFlags,
}

/// What came of an import.
#[derive(Default)]
struct Outcome {
    imported: Vec<Value>,
    failed: Vec<Value>,
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let path = format!("/prompt-providers/{}", segment(&find(&api, &self.provider)?));
        let Some(registry) = &self.into else { return self.list(&api, &path) };
        let registry = registry_ref(registry, &api)?;
        let names = match (self.all, self.names.is_empty()) {
            (true, _) => names_of(&prompts(&api, &path)?),
            (false, false) => self.names.clone(),
            (false, true) => {
                return Err(Failure::Usage("name prompts to import, or give --all".into()));
            }
        };
        let mut outcome = Outcome::default();
        let mut body = json!({"registryRef": registry});
        if let Some(message) = &self.message {
            body["message"] = json!(message);
        }
        let done = outcome.import(&api, &format!("{path}/import"), &body, &names);
        output::progress("");
        // What was done is said also if the rest could not be.
        let Outcome { imported, failed } = &outcome;
        let result = json!({"imported": imported, "failed": failed});
        output::print(self.client.json, &result, outcome.text())?;
        done?;
        match failed.len() {
            0 => Ok(()),
            count => Err(Failure::Failed(format!("{count} of {} were not imported", names.len()))),
        }
    }

    fn list(&self, api: &Api, path: &str) -> Result<(), Failure> {
        let listed = Listed::whole(prompts(api, path)?);
        listed.show(self.client.json, ["NAME", "VERSION", "LABELS"], "no prompts", |item| {
            let labels = item["labels"].as_array().into_iter().flatten().map(cell);
            let [name, version] = cells(item, ["name", "version"]);
            [name, version, labels.collect::<Vec<_>>().join(" ")]
        })
    }
}

impl Outcome {
    fn import(
        &mut self,
        api: &Api,
        path: &str,
        request: &Value,
        names: &[String],
    ) -> Result<(), Failure> {
        for (n, some) in names.chunks(AT_ONCE).enumerate() {
            output::progress(&format!("{} of {} prompts", n * AT_ONCE, names.len()));
            let prompts: Vec<_> = some.iter().map(|name| json!({"name": name})).collect();
            let mut body = request.clone();
            body["prompts"] = json!(prompts);
            let mut answer = api.post_in_org(path, body)?;
            for (field, all) in [("imported", &mut self.imported), ("failed", &mut self.failed)] {
                if let Value::Array(some) = answer[field].take() {
                    all.extend(some);
                }
            }
        }
        Ok(())
    }

    fn text(&self) -> Text {
        let all = self.imported.iter().chain(&self.failed).cloned().collect::<Vec<_>>();
        Table::of(["NAME", "HERE", "VERSION", "NOTES"], &all, |item| {
            let [name, here, version] = cells(item, ["name", "artifactName", "version"]);
            let notes = item["notes"].as_array().into_iter().flatten().chain(item.get("message"));
            [name, here, version, notes.map(cell).collect::<Vec<_>>().join("; ")]
        })
        .text("nothing to import")
    }
}

/// All prompts of a provider.
fn prompts(api: &Api, path: &str) -> Result<Vec<Value>, Failure> {
    let (mut all, mut names) = (Vec::new(), BTreeSet::new());
    let (mut cursor, mut empty): (Option<String>, usize) = (None, 0);
    loop {
        output::progress(&format!("{} prompts so far", all.len()));
        // The server fetches each of them within the time of one request.
        let query = [("paged", Some("true")), ("limit", Some(PAGE)), ("cursor", cursor.as_deref())];
        let mut page = api.get_in_org(&format!("{path}/prompts"), &query)?;
        let before = names.len();
        if let Value::Array(items) = page["items"].take() {
            names.extend(items.iter().map(|item| item["name"].to_string()));
            all.extend(items);
        }
        cursor = page["nextCursor"].as_str().map(str::to_string);
        empty = if names.len() == before { empty + 1 } else { 0 };
        // A list that turns in a circle has no end.
        if cursor.is_none() || empty > MAX_EMPTY {
            output::progress("");
            return Ok(all);
        }
    }
}

fn names_of(items: &[Value]) -> Vec<String> {
    items.iter().filter_map(|item| item["name"].as_str()).map(str::to_string).collect()
}

/// Returns the id of a prompt provider.
fn find(api: &Api, name: &str) -> Result<String, Failure> {
    let all = api.list_in_org("/prompt-providers", &[])?;
    let is_it = |one: &&Value| one["name"] == name || one["id"] == name;
    let found: Vec<_> = all.iter().filter(is_it).filter_map(|one| one["id"].as_str()).collect();
    match found[..] {
        [id] => Ok(id.to_string()),
        [] => Err(none_called(&all, "name", name, "prompt provider")),
        _ => Err(Failure::Failed(format!(
            "several prompt providers are called {name:?}; name one by its id: {}",
            found.join(", ")
        ))),
    }
}
