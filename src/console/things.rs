//! The names and pages of things that something else names by kind and id, as the audit log does.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::api::segment;
use super::hits;
use super::strict::List;
use super::visit::Visit;
use crate::base::{Id, Result};

/// Something that still exists: its name, and the path of its page.
#[derive(Clone, Debug, PartialEq)]
pub struct Thing {
    pub name: String,
    pub path: String,
}

/// The names of things, each looked up once. What a page names is bounded by the rows of its list.
pub struct Things<'a> {
    visit: &'a Visit,
    /// Members by their ids; empty if they are too many to be listed.
    members: &'a [(String, String)],
    known: BTreeMap<(String, String), Option<Thing>>,
}

/// Kinds that the search finds by their id.
const SEARCHED: [&str; 9] = [
    "agent",
    "environment",
    "fleet",
    "knowledge_base",
    "policy",
    "registry",
    "task",
    "team",
    "tool",
];
/// Kinds with pages by their id: kind, route, and page below the organization's.
const LISTED: [(&str, &str, &str); 5] = [
    ("channel", "/notifications/channels", "/operations/channels"),
    ("label_change", "/registries/artifacts/label-changes", "/label-changes"),
    ("listing", "/agent-index/listings", "/directory/listings"),
    ("llm_provider", "/llm-providers", "/settings/llm-providers"),
    ("prompt_provider", "/prompt-providers", "/settings/prompt-providers"),
];
/// Kinds that an entry may name by the key in their addresses: kind, route, and page.
const KEYED: [(&str, &str, &str); 2] =
    [("agent", "/agents", "/agents"), ("registry", "/registries", "/prompts")];

impl<'a> Things<'a> {
    /// Nothing is looked up yet. `members` have their ids and names.
    pub fn new(visit: &'a Visit, members: &'a [(String, String)]) -> Self {
        Things { visit, members, known: BTreeMap::new() }
    }

    /// The thing of this kind and id; `None` if it is gone, has no page, or the visitor may not see it.
    pub async fn find(&mut self, kind: &str, id: &str) -> Option<Thing> {
        let key = (kind.to_string(), id.to_string());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        // A name beside an entry is worth no error: the id stays.
        let found = self.look_up(kind, id).await.ok().flatten();
        self.known.insert(key, found.clone());
        found
    }

    /// What something belongs to, by the detail that names it.
    pub async fn owner(&mut self, detail: &str) -> Option<Thing> {
        let (kind, id) = belongs_to(detail)?;
        self.find(kind, id).await
    }

    async fn look_up(&self, kind: &str, id: &str) -> Result<Option<Thing>> {
        let is_id = !Id::<()>::parse(id).is_nil();
        if matches!(kind, "member" | "user" | "service_account") {
            let path = format!("/settings/members/{}", segment(id));
            let member = self.members.iter().find(|(known, _)| known == id);
            if self.members.is_empty() && is_id {
                let route = format!("/organizations/members/{id}");
                let found: Value = self.visit.api.get(&route, &[]).await?;
                return Ok(found["name"].as_str().map(|name| self.thing(name, &path)));
            }
            return Ok(member.map(|(_, name)| self.thing(name, &path)));
        }
        if is_id && SEARCHED.contains(&kind) {
            let found = hits::find(self.visit, &[("q", id), ("kind", kind), hits::BY_NAME]).await?;
            let hit = found.items.first().map(|item| item.hit(self.visit));
            return Ok(hit.map(|hit| Thing { name: hit.name, path: hit.path }));
        }
        if kind == "artifact" {
            return self.artifact(id).await;
        }
        if kind == "deployment" && is_id {
            // Its plan may be large, and has no name.
            let path = format!("/agents/deployments/{id}/approvals");
            self.visit.api.get::<Value>(&path, &[("limit", "1")]).await?;
            return Ok(Some(self.thing("Deployment", &format!("/deployments/jobs/{id}"))));
        }
        let pages = if is_id { &LISTED[..] } else { &KEYED[..] };
        let Some((_, route, page)) = pages.iter().find(|(known, ..)| *known == kind) else {
            return Ok(None);
        };
        let found: Value = self.visit.api.get(&format!("{route}/{}", segment(id)), &[]).await?;
        let name = ["name", "displayName"].into_iter().find_map(|field| found[field].as_str());
        Ok(Some(self.thing(name.unwrap_or(id), &format!("{page}/{}", segment(id)))))
    }

    /// A prompt or a promptlet by its address: `acme/main/prompt/release-notes`.
    async fn artifact(&self, address: &str) -> Result<Option<Thing>> {
        let Some((registry, kind, name)) = artifact(address, &self.visit.member().org_slug) else {
            return Ok(None);
        };
        let query = [("registryRef", registry), ("artifactType", kind), ("promptName", name)];
        let found: List<IgnoredAny> = self.visit.api.get("/registries/artifacts", &query).await?;
        let path = format!("/{kind}s/{}/{}", segment(registry), segment(name));
        Ok((!found.items.is_empty()).then(|| self.thing(&format!("{name} ({registry})"), &path)))
    }

    fn thing(&self, name: &str, path: &str) -> Thing {
        Thing { name: name.into(), path: self.visit.in_org(path) }
    }
}

/// The registry, the kind and the name of an artifact of this organization in its address.
fn artifact<'a>(address: &'a str, organization: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut parts = address.splitn(4, '/');
    let (own, registry) = (parts.next()?, parts.next()?);
    let (kind, name) = (parts.next()?, parts.next()?);
    (own == organization && matches!(kind, "prompt" | "promptlet"))
        .then_some((registry, kind, name))
}

/// What a detail says that something belongs to: `acme/main/prompt/notes 1.0.0`, `environmentId …`,
/// `environment …`.
fn belongs_to(detail: &str) -> Option<(&str, &str)> {
    let (first, rest) = detail.split_once(' ').unwrap_or((detail, ""));
    if first.contains('/') {
        return Some(("artifact", first));
    }
    let id = rest.split([' ', ',']).next().filter(|id| !id.is_empty())?;
    Some((first.strip_suffix("Id").unwrap_or(first), id))
}

/// Whether a detail says what something belongs to, and nothing else.
pub fn names_no_more(detail: &str) -> bool {
    belongs_to(detail).is_some_and(|(_, id)| {
        detail == id || detail.split_once(' ').is_some_and(|(_, rest)| rest == id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_says_what_something_belongs_to() {
        let address = "acme/main/prompt/notes";
        assert_eq!(belongs_to("acme/main/prompt/notes 1.0.0"), Some(("artifact", address)));
        assert_eq!(belongs_to("environmentId 42, name X"), Some(("environment", "42")));
        assert_eq!(belongs_to("environment 42"), Some(("environment", "42")));
        assert_eq!([belongs_to(""), belongs_to("main")], [None, None]);
        assert!(names_no_more(address) && names_no_more("teamId 42"));
        for more in ["acme/main/prompt/notes 1.0.0", "environmentId 42, name X", "main", ""] {
            assert!(!names_no_more(more), "{more}");
        }
    }

    #[test]
    fn an_artifact_is_one_of_this_organization() {
        assert_eq!(
            artifact("acme/main/promptlet/tone", "acme"),
            Some(("main", "promptlet", "tone"))
        );
        assert_eq!(artifact("other/main/prompt/notes", "acme"), None);
        assert_eq!(
            [artifact("acme/main", "acme"), artifact("acme/main/tool/x", "acme")],
            [None, None]
        );
    }
}
