//! What can be done, by the words that people look for it with: on the page of the search, and in the
//! palette that a script makes of it. Declared once; offered to those whose role lets them.

use super::api::segment;
use super::hits::{self, Item};
use super::visit::Visit;
use crate::api::Method;
use crate::base::Result;

/// Something to do.
struct Action {
    /// Before the name of a thing, if it is about one.
    words: &'static str,
    /// The kind of thing that it is about; empty if it is about none.
    of: &'static str,
    /// The path of its page below the organization's. `{id}`, `{key}` and `{within}` are those of the
    /// thing, `{org}` the slug of the organization.
    path: &'static str,
    /// The page where such a thing is chosen, as long as none is named.
    list: &'static str,
    /// The route that whoever does it must be allowed to call.
    method: Method,
    route: &'static str,
}

const fn create(words: &'static str, path: &'static str, route: &'static str) -> Action {
    Action { words, of: "", path, list: "", method: Method::Post, route }
}

const fn with(
    words: &'static str,
    of: &'static str,
    paths: (&'static str, &'static str),
    method: Method,
    route: &'static str,
) -> Action {
    Action { words, of, path: paths.0, list: paths.1, method, route }
}

const ACTIONS: &[Action] = &[
    create("New agent", "/new/agent", "/agents"),
    create("New team", "/new/team", "/teams"),
    create("New environment", "/environments/new", "/environments"),
    create("New registry", "/registries/new", "/registries"),
    create("New tool", "/tools/new", "/tools"),
    create("New fleet", "/new/fleet", "/fleets"),
    create("New policy", "/governance/new-policy", "/governance/policies"),
    create("New API key", "/settings/keys/new", "/api-keys"),
    create("New knowledge base", "/knowledge/new", "/knowledge-bases"),
    create("New notification channel", "/operations/new-channel", "/notifications/channels"),
    create("Invite a member", "/settings/invite", "/organizations/members"),
    create("Deploy", "/deployments/new", "/agents/deployments"),
    with(
        "Deploy",
        "agent",
        ("/deployments/new?agent={key}", "/deployments/new"),
        Method::Post,
        "/agents/deployments",
    ),
    with(
        "Deploy",
        "prompt",
        ("/deployments/new?registry={org}%2F{within}&prompt={id}", "/deployments/new"),
        Method::Post,
        "/agents/deployments",
    ),
    with(
        "Promote",
        "prompt",
        ("/prompts/{within}/{id}/labels", "/prompts"),
        Method::Patch,
        "/registries/artifacts/labels",
    ),
    with(
        "Edit",
        "prompt",
        ("/prompts/{within}/{id}/edit", "/prompts"),
        Method::Post,
        "/registries/artifacts",
    ),
    with("Edit", "agent", ("/agents/{key}/edit", "/agents"), Method::Patch, "/agents/key"),
    with(
        "New prompt in",
        "registry",
        ("/registries/{key}/new", "/prompts"),
        Method::Post,
        "/registries/artifacts",
    ),
    with(
        "New task in",
        "team",
        ("/teams/{key}/tasks/new", "/teams"),
        Method::Post,
        "/teams/id/tasks",
    ),
];

/// So many things are offered to do each action with.
const THINGS: &str = "5";
/// So many searches are made for what the words of a query name.
const MAX_SEARCHES: usize = 3;

/// Something that a visitor can do: what it is called, and where.
#[derive(Debug, PartialEq)]
pub struct Offered {
    pub words: String,
    pub path: String,
}

impl Action {
    /// Whether each word that was entered begins one of its own.
    fn is_meant(&self, entered: &str) -> bool {
        let own = self.words.to_lowercase();
        let begins = |word: &str| own.split(' ').any(|own| own.starts_with(word));
        !entered.is_empty() && entered.split_whitespace().all(begins)
    }

    /// The name of a thing behind its words, of which the last may be left out (`new task shipping`).
    fn thing<'a>(&self, entered: &'a str) -> Option<&'a str> {
        let own = self.words.to_lowercase();
        let short = own.strip_suffix(" in").unwrap_or(&own);
        let rest = [own.as_str(), short].into_iter().find_map(|words| entered.strip_prefix(words));
        let name = rest?.strip_prefix(' ')?.trim();
        (!name.is_empty() && name != "in").then_some(name)
    }

    /// What it is called as long as no thing is named.
    fn asking(&self) -> String {
        let article = if self.of.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        format!("{} … (choose {article} {})", self.words, self.of)
    }

    fn with(&self, visit: &Visit, item: &Item) -> Offered {
        let of = |value: Option<&str>| segment(value.unwrap_or_default());
        let path = self
            .path
            .replace("{org}", &segment(&visit.member().org_slug))
            .replace("{id}", &segment(&item.id))
            .replace("{key}", &of(item.key.as_deref()))
            .replace("{within}", &of(item.within.as_deref()));
        let within = item.within.as_deref().map(|within| format!(" ({within})"));
        let words = format!("{} {}{}", self.words, item.name, within.unwrap_or_default());
        Offered { words, path: visit.in_org(&path) }
    }
}

/// Returns what a visitor can do that is called so; without words what needs no thing.
///
/// # Errors
/// Those of the search that are not about the words.
pub async fn offered(visit: &Visit, words: &str) -> Result<Vec<Offered>> {
    let entered = words.to_lowercase();
    let mut all: Vec<Offered> = Vec::new();
    let mut searches = 0;
    for action in ACTIONS.iter().filter(|action| visit.may(action.method, action.route)) {
        let alone = |words: String, path: &str| Offered { words, path: visit.in_org(path) };
        let is_meant = action.is_meant(&entered);
        if action.of.is_empty() {
            let is_offered = entered.is_empty() || is_meant;
            all.extend(is_offered.then(|| alone(action.words.into(), action.path)));
            continue;
        }
        if let Some(name) = action.thing(&entered).filter(|_| searches < MAX_SEARCHES) {
            searches += 1;
            let query = [("q", name), ("kind", action.of), ("count", THINGS), hits::BY_NAME];
            let found = match hits::find(visit, &query).await {
                Ok(found) => found.items,
                Err(error) => visit.failed(error).map(|_| Vec::new())?,
            };
            all.extend(found.iter().map(|item| action.with(visit, item)));
        } else if is_meant && !all.iter().any(|one| one.words == action.words) {
            all.push(alone(action.asking(), action.list));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_an_action_and_what_is_behind_them_a_thing() {
        let of = |words: &str| ACTIONS.iter().find(|action| action.words == words).unwrap();
        let task = of("New task in");
        assert!(task.is_meant("new ta") && task.is_meant("task") && !task.is_meant("new team"));
        assert!(!task.is_meant(""));
        assert_eq!(task.thing("new task in shipping"), Some("shipping"));
        assert_eq!(task.thing("new task shipping north"), Some("shipping north"));
        assert_eq!(
            [task.thing("new task in "), task.thing("new tasks"), task.thing("x")],
            [None; 3]
        );
        assert_eq!(of("Promote").thing("promote release-notes"), Some("release-notes"));
        assert_eq!(of("Promote").asking(), "Promote … (choose a prompt)");
        let agent = ACTIONS.iter().find(|action| action.of == "agent").unwrap();
        assert_eq!(agent.asking(), "Deploy … (choose an agent)");
    }
}
