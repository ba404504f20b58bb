//! The state of a writer's prompt in the crash test (see `crash`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::client::Caller;

/// Texts with this word are flagged by a policy.
pub const FLAGGED: &str = "moonshine";

pub const REGISTRY: &str = "acme/main";

/// The prompt of one writer.
pub struct Shelf {
    pub name: String,
    /// The highest minor number given to a version or a draft.
    numbers: u64,
    /// Responses to publications, by version.
    published: BTreeMap<String, Value>,
    /// Versions published since the last verification.
    fresh: BTreeSet<String>,
    /// Open drafts, by id.
    drafts: BTreeMap<String, Value>,
    /// Possible versions of the label `live` (`None`: not set), the most likely one last.
    live: Vec<Option<String>>,
    /// The flags that were cleared.
    cleared: BTreeSet<String>,
}

impl Shelf {
    /// The state of a prompt that does not exist yet.
    pub fn new(name: String) -> Self {
        Shelf {
            name,
            numbers: 0,
            published: BTreeMap::new(),
            fresh: BTreeSet::new(),
            drafts: BTreeMap::new(),
            live: vec![None],
            cleared: BTreeSet::new(),
        }
    }

    /// The next version to publish.
    pub fn new_version(&mut self, title: &str) -> Value {
        let (version, source) = self.next(title);
        json!({
            "registryRef": REGISTRY, "artifactType": "prompt", "name": self.name,
            "version": version, "source": source,
        })
    }

    /// The next draft to save: path and body.
    pub fn new_draft(&mut self, title: &str) -> (String, Value) {
        let (version, body) = self.next(title);
        let draft = json!({
            "registryRef": REGISTRY, "artifactType": "prompt", "draftVersion": version,
            "body": body,
        });
        (format!("/prompts/{}/drafts", self.name), draft)
    }

    /// A version, and a text with an import and a variable that no other has.
    fn next(&mut self, title: &str) -> (String, String) {
        self.numbers += 1;
        let number = self.numbers;
        let flagged = if number.is_multiple_of(2) { FLAGGED } else { "" };
        let variable = self.variable(number);
        let source = format!("{title} {{{{{variable}}}}} {{{{ import \"tone@1\" }}}} {flagged}");
        (format!("1.{number}.0"), source)
    }

    fn variable(&self, number: impl std::fmt::Display) -> String {
        format!("{}_{number}", self.name)
    }

    /// The path to publish a draft, if there is one.
    pub fn publishing(&self) -> Option<String> {
        let id = self.drafts.keys().next()?;
        Some(format!("/prompts/{}/drafts/{id}/publish", self.name))
    }

    /// The path to clear a flag, if there is one.
    pub fn clearing(&self, caller: &Caller) -> Option<String> {
        let open = caller.ask("GET", &caller.in_org("/governance/flags?limit=200"));
        let open = open.try_send().ok()?.ok()["items"].as_array()?.clone();
        let mine = open.iter().find(|flag| flag["name"] == self.name.as_str())?;
        Some(format!("/governance/flags/{}/clear", mine["id"].as_str()?))
    }

    /// Moves the label to some version, if there is one; `None` without a response.
    pub fn move_label(&mut self, caller: &Caller, dice: u64) -> Option<()> {
        let count = self.published.len() as u64;
        if count == 0 {
            return Some(());
        }
        let version = self.published.keys().nth((dice % count) as usize)?.clone();
        let body = json!({
            "registryRef": REGISTRY, "promptName": self.name, "label": "live", "version": version,
        });
        let ask = caller.ask("PATCH", "/registries/artifacts/labels").org_json(body);
        let Ok(reply) = ask.try_send() else {
            // Either at the old version or at the new one.
            self.live.push(Some(version));
            return None;
        };
        assert_eq!(reply.ok()["labels"]["live"], version.as_str());
        self.live = vec![Some(version)];
        Some(())
    }

    pub fn know_version(&mut self, made: &Value) {
        let version = made["version"].as_str().unwrap().to_string();
        self.drafts.retain(|_, draft| draft["draftVersion"] != version.as_str());
        self.fresh.insert(version.clone());
        self.published.insert(version, made.clone());
    }

    pub fn know_draft(&mut self, draft: &Value) {
        self.drafts.insert(draft["id"].as_str().unwrap().into(), draft.clone());
    }

    pub fn know_cleared(&mut self, flag: &Value) {
        self.cleared.insert(flag["id"].as_str().unwrap().into());
    }

    /// The number of versions.
    pub fn versions(&self) -> usize {
        self.published.len()
    }

    /// Marks all versions for the next verification.
    pub fn refresh(&mut self) {
        self.fresh = self.published.keys().cloned().collect();
    }

    /// Fails unless exactly the acknowledged state is there.
    pub fn verify(&mut self, caller: &Caller) {
        let about = format!("registryRef={REGISTRY}&promptName={}", self.name);
        let content = |version: &str| {
            caller.get(&format!("/registries/artifact-versions/content?{about}&version={version}"))
        };
        for version in std::mem::take(&mut self.fresh) {
            let (made, found) = (&self.published[&version], content(&version).ok());
            for field in ["source", "compiled", "metadata", "hash", "model", "version"] {
                assert_eq!(found[field], made[field], "{} {version} {field}", self.name);
            }
            let number = version.split('.').nth(1).unwrap();
            let variable = self.variable(number);
            let usage = caller.get(&format!("/environments/variables/{variable}/usage")).ok();
            let used = usage["prompts"].as_array().unwrap();
            assert!(used.len() == 1 && used[0]["version"] == version.as_str(), "{usage}");
        }
        let there = if self.published.is_empty() {
            Vec::new()
        } else {
            caller.walk(&format!("/registries/artifact-versions?{about}"), 200)
        };
        let there: BTreeSet<_> = there.iter().map(|row| row["version"].as_str().unwrap()).collect();
        assert!(there.iter().copied().eq(self.published.keys().map(String::as_str)), "{there:?}");

        let live = content("live");
        let live = (live.status != 404).then(|| live.ok()["version"].as_str().unwrap().into());
        assert!(self.live.contains(&live), "{live:?} is none of {:?}", self.live);
        self.live = vec![live];

        let drafts =
            format!("/prompts/{}/drafts?registryRef={REGISTRY}&artifactType=prompt", self.name);
        let drafts = caller.walk(&drafts, 200);
        let drafts: BTreeMap<_, _> =
            drafts.into_iter().map(|draft| (draft["id"].as_str().unwrap().into(), draft)).collect();
        assert_eq!(drafts, self.drafts);

        // A flag was written with what it is about, and cleared for good.
        let flags = |cleared: bool| -> BTreeSet<String> {
            let all = caller.walk(&format!("/governance/flags?cleared={cleared}"), 200);
            let mine = all.iter().filter(|flag| flag["name"] == self.name.as_str());
            mine.map(|flag| flag["id"].as_str().unwrap().into()).collect()
        };
        assert_eq!(flags(true), self.cleared);
        let flagged =
            self.published.values().filter(|v| v["source"].as_str().unwrap().contains(FLAGGED));
        assert_eq!(flags(false).len() + self.cleared.len(), flagged.count());
    }
}
