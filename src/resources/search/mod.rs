//! Search by name over everything that a member may see, and in texts (reference: conventions,
//! "Search").
//!
//! Each kind is looked through newest first, up to a bound, for an id or for the beginning of a name,
//! a slug or a word of a title, folded (`base::fold`); where no blanks are between words, for what is
//! anywhere in it. What the caller may not see is left out before anything is counted. The texts of
//! prompts, agents and tools are searched in [`texts`].

mod names;
mod result;
mod texts;

use std::collections::BTreeSet;

use super::agents::Agent;
use super::environments::Environment;
use super::fleet::Fleet;
use super::governance::Policy;
use super::knowledge_bases::KnowledgeBase;
use super::registries::Registry;
use super::teams::Team;
use super::tools::Tool;
use crate::api::{Req, Resource, Route, op};
use crate::auth::{Caller, Restricted, SESSION_MEMBER};
use crate::base::Result;
use crate::store::{ListSource, View};

use names::{Needle, Search};
use result::{SearchKind, SearchQuery, SearchResult, SearchResults};
use result::{agent_result, tool_result, visible};

/// Searching.
pub const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The registries that the caller may see, the newest first.
fn registries(view: &View, caller: &Caller) -> Result<Vec<Registry>> {
    let all: Vec<Restricted<Registry>> = view.all(ListSource::TABLE, &())?;
    let all = all.into_iter().rev().map(|registry| visible(view, caller, registry));
    all.filter_map(Result::transpose).collect()
}

fn search(view: &View, req: &Req<(), SearchQuery>) -> Result<SearchResults> {
    let query = &req.input;
    let needle = Needle::new(&query.q);
    let is_id = needle.id.is_some();
    // What has an id is not looked for in registries.
    let mut registries = if is_id { Vec::new() } else { registries(view, req.caller())? };
    if let Some(within) = &query.within {
        registries.retain(|registry| registry.slug == *within);
    }
    let mut search = Search { view, caller: req.caller(), query, needle, found: Vec::new() };
    look(&mut search, &registries)?;
    if !is_id {
        search.exact(&query.q, &registries)?;
    }
    let mut found = search.found;
    found.sort_by_key(|(fit, result)| (result.kind, *fit));
    let mut items: Vec<_> = found.into_iter().map(|(_, result)| result).collect();
    let is_by_name = is_id || query.texts == Some(false);
    let mut others = if is_by_name { Vec::new() } else { texts::search(view, req, &registries)? };
    let named: BTreeSet<_> = items.iter().map(SearchResult::identity).collect();
    others.retain(|result| !named.contains(&result.identity()));
    let slice = query.slice();
    let mut more = slice.cut(&mut items);
    more.extend(slice.cut(&mut others));
    more.sort_unstable();
    more.dedup();
    items.extend(others);
    items.sort_by_key(|item| item.kind);
    Ok(SearchResults { items, more })
}

/// Looks through the names of all kinds.
fn look(search: &mut Search, registries: &[Registry]) -> Result<()> {
    use SearchKind as K;
    search.restricted(K::Registry, |one: Registry| {
        SearchResult::new(K::Registry, one.id, &one.name).key(&one.slug)
    })?;
    search.artifacts(registries)?;
    search.restricted(K::Agent, |one: Agent| agent_result(&one))?;
    search.restricted(K::Fleet, |one: Fleet| SearchResult::new(K::Fleet, one.id, &one.name))?;
    search.restricted(K::Environment, |one: Environment| {
        SearchResult::new(K::Environment, one.id, &one.name).key(&one.slug)
    })?;
    search.open(K::Tool, |one: Tool| tool_result(&one))?;
    search
        .open(K::Team, |one: Team| SearchResult::new(K::Team, one.id, &one.name).key(&one.slug))?;
    search.tasks()?;
    search.open(K::Policy, |one: Policy| SearchResult::new(K::Policy, one.id, &one.name))?;
    let base = |one: KnowledgeBase| SearchResult::new(K::KnowledgeBase, one.id, &one.name);
    search.open(K::KnowledgeBase, base)
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/search", SESSION_MEMBER, "search.list", op::read(search))
            .costly_with("q")
            .about("Search names of all kinds, and texts"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Principal;
    use crate::auth::Access;
    use crate::resources::testing::Fixture;
    use crate::resources::{agents, artifacts, environments, fleets, registries, tools};
    use serde_json::{Value, json};

    fn found(fixture: &Fixture, who: &Principal, text: &str) -> Vec<(SearchKind, String)> {
        let query = Fixture::input::<SearchQuery>(json!({"q": text})).unwrap();
        let found = fixture.read_as(who, search, (), query).unwrap();
        found.items.into_iter().map(|result| (result.kind, result.name)).collect()
    }

    #[test]
    fn names_are_found_by_the_beginning_of_a_word_and_by_id() {
        let fixture = Fixture::new();
        let make = |slug: &str, name: &str| {
            let body = json!({"slug": slug, "name": name});
            environments::tests::make(&fixture, body).unwrap().id
        };
        let id = make("prod-eu", "Über-See in Europe").to_string();
        make("staging", "Try-outs");
        let europe = [(SearchKind::Environment, "Über-See in Europe".to_string())];
        for text in ["eu", "PROD", "über", "see in", " Europe ", "ÜBER-SEE", &id] {
            assert_eq!(found(&fixture, &fixture.member, text), europe, "{text}");
        }
        for text in ["rope", "ro", "x", &id[..20], "-"] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
        }
    }

    #[test]
    fn names_are_found_in_any_case_form_and_width_and_without_accents() {
        let fixture = Fixture::new();
        let name = "Cafe\u{301} ΟΔΥΣΣΕΥΣ Größe 資料 ＡＢＣ";
        let body = json!({"slug": "one", "name": name});
        environments::tests::make(&fixture, body).unwrap();
        for text in [
            "caf\u{e9}",
            "CAFE",
            "οδυσσευς",
            "GRÖSSE",
            "grosse",
            "gro\u{ad}sse",
            "abc",
            "cafe\u{301} ο",
        ] {
            assert_eq!(found(&fixture, &fixture.member, text).len(), 1, "{text}");
        }
        for text in ["cäfe", "\u{301}", "\u{ad}", "\u{ad}\u{200d}", "\""] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
        }
    }

    #[test]
    fn names_in_scripts_without_blanks_are_found_by_two_characters_from_anywhere_in_them() {
        let fixture = Fixture::new();
        for (slug, name) in
            [("one", "北京大学文件"), ("two", "ภาษาไทย"), ("three", "학교에서 plan")]
        {
            environments::tests::make(&fixture, json!({"slug": slug, "name": name})).unwrap();
        }
        for text in ["北京", "大学", "文件", "ไทย", "교에", "plan"] {
            assert_eq!(found(&fixture, &fixture.member, text).len(), 1, "{text}");
        }
        for text in ["学", "学大", "lan", "大学x"] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
        }
    }

    #[test]
    fn what_is_restricted_is_found_by_admins_alone() {
        let fixture = Fixture::new();
        let body = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
        let id = environments::tests::make(&fixture, body).unwrap().id.to_string();
        registries::tests::make(&fixture, "vaults", json!({"access": "restricted"})).unwrap();
        for text in ["va", &id] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
            assert!(!found(&fixture, &fixture.owner, text).is_empty(), "{text}");
        }
    }

    #[test]
    fn of_large_records_only_the_newest_are_read() {
        let fixture = Fixture::new();
        for n in 0..6 {
            let config = json!({"text": "x".repeat(900_000)});
            let name = if n == 5 { "Newest".to_string() } else { format!("Old {n}") };
            let body = json!({"name": name, "type": "function", "providerConfig": config});
            tools::tests::make(&fixture, body).unwrap();
        }
        let names = |text| found(&fixture, &fixture.member, text).len();
        assert_eq!((names("newest"), names("old")), (1, 2));
    }

    /// What is found in texts: names with their versions, and the passages.
    fn texts(fixture: &Fixture, who: &Principal, query: Value) -> Vec<(String, String)> {
        let query = Fixture::input::<SearchQuery>(query).unwrap();
        let found = fixture.read_as(who, search, (), query).unwrap().items.into_iter();
        let text = |result: SearchResult| {
            let version = result.version.map_or(String::new(), |version| format!("@{version}"));
            result.snippet.map(|snippet| (format!("{}{version}", result.name), snippet))
        };
        found.filter_map(text).collect()
    }

    fn publish(fixture: &Fixture, registry: &str, name: &str, version: &str, source: &str) {
        let body = json!({"registryRef": format!("acme/{registry}"), "artifactType": "prompt",
            "name": name, "version": version, "source": source});
        artifacts::tests::publish(fixture, body).unwrap();
    }

    fn pair(name: &str, snippet: &str) -> (String, String) {
        (name.to_string(), snippet.to_string())
    }

    #[test]
    fn the_name_itself_comes_first_then_names_that_begin_so_then_words_then_texts() {
        let fixture = Fixture::new();
        for name in ["notes", "my notes", "notes of the week", "more notes"] {
            let body = json!({"name": name, "type": "http"});
            tools::tests::make(&fixture, body).unwrap();
        }
        let body = json!({"name": "text", "type": "http", "description": "Takes notes."});
        tools::tests::make(&fixture, body).unwrap();
        let names: Vec<_> =
            found(&fixture, &fixture.member, "notes").into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["notes", "notes of the week", "more notes", "my notes", "text"]);
    }

    #[test]
    fn texts_of_prompts_agents_and_tools_are_found_by_words() {
        let fixture = Fixture::new();
        artifacts::tests::registry(&fixture, "main");
        publish(&fixture, "main", "a", "1.0.0", "Never mention the keel.");
        publish(&fixture, "main", "a", "1.1.0", "Never mention it.");
        publish(&fixture, "main", "b", "1.0.0", "The keel, the keel.");
        let body = json!({"name": "T", "type": "http", "prompt": "Ask for keels."});
        tools::tests::make(&fixture, body).unwrap();
        let body = json!({"stableKey": "ann", "name": "Ann", "description": "Lays Keels"});
        agents::tests::make(&fixture, body).unwrap();
        let keel = |query: Value| texts(&fixture, &fixture.member, query);
        // An older version is searched only while it has a label.
        assert_eq!(keel(json!({"q": "keel"})), [pair("b@1.0.0", "The keel, the keel.")]);
        artifacts::tests::label(&fixture, "a", "live", "1.0.0").unwrap();
        let both =
            [pair("b@1.0.0", "The keel, the keel."), pair("a@1.0.0", "Never mention the keel.")];
        assert_eq!(keel(json!({"q": "KEEL"})), both);
        assert_eq!(keel(json!({"q": "\"mention the keel\""})), both[1..]);
        let all = [&both[..], &[pair("Ann", "Lays Keels"), pair("T", "Ask for keels.")]].concat();
        assert_eq!(keel(json!({"q": "kee*"})), all);
        assert_eq!(keel(json!({"q": "keel", "language": "en"})), all);
        // Each once, by its latest version.
        let mention = [pair("a@1.1.0", "Never mention it.")];
        assert_eq!(keel(json!({"q": "mention"})), mention);
        assert_eq!(keel(json!({"q": "xyz"})), []);
    }

    #[test]
    fn texts_that_one_may_not_read_neither_appear_nor_change_what_is_found() {
        let fixture = Fixture::new();
        artifacts::tests::registry(&fixture, "main");
        publish(&fixture, "main", "one", "1.0.0", "keel and mast");
        publish(&fixture, "main", "two", "1.0.0", "keel keel and some more words");
        let query = || json!({"q": "keel mast"});
        let before = texts(&fixture, &fixture.member, query());
        artifacts::tests::with_access(&fixture, "vault", Access::Restricted);
        for n in 0..20 {
            let (name, text) = (format!("secret-{n}"), "mast mast mast");
            let body = json!({"registryRef": "acme/vault", "artifactType": "prompt", "name": name,
                "version": "1.0.0", "source": text});
            artifacts::tests::publish_as(&fixture, &fixture.owner, body).unwrap();
        }
        let fleet = fleets::tests::make(&fixture, json!({"name": "F", "access": "restricted"}));
        let body = json!({"stableKey": "spy", "name": "Spy", "description": "mast",
            "fleetId": json!(fleet)["id"]});
        agents::tests::make_as(&fixture, &fixture.owner, body).unwrap();
        assert_eq!(texts(&fixture, &fixture.member, query()), before);
        let seen = texts(&fixture, &fixture.owner, query());
        assert!(
            seen.len() > before.len() && seen.iter().any(|(name, _)| name == "Spy"),
            "{seen:?}"
        );
    }

    #[test]
    fn of_many_texts_the_last_changed_are_searched_and_each_registry_has_its_share() {
        let fixture = Fixture::new();
        for registry in ["main", "other"] {
            artifacts::tests::registry(&fixture, registry);
        }
        let long = "lorem ipsum ".repeat(25_000);
        publish(&fixture, "main", "oldest", "1.0.0", &format!("rudder {long}"));
        for n in 0..8 {
            publish(&fixture, "main", &format!("p{n}"), "1.0.0", &format!("keel {n} {long}"));
        }
        publish(&fixture, "other", "small", "1.0.0", "keel");
        let names = |q: &str| -> Vec<String> {
            let found = texts(&fixture, &fixture.member, json!({"q": q}));
            found.into_iter().map(|(name, _)| name).collect()
        };
        let newest = ["small@1.0.0", "p7@1.0.0", "p6@1.0.0"];
        assert_eq!(names("keel")[..3], newest);
        assert_eq!(names("rudder"), [""; 0]);
    }

    #[test]
    fn however_many_registries_have_large_texts_2_mib_of_them_are_read() {
        let fixture = Fixture::new();
        let long = "lorem ipsum ".repeat(25_000);
        let registries = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"];
        for (n, registry) in registries.into_iter().enumerate() {
            artifacts::tests::registry(&fixture, registry);
            let text = format!("only{n} {long}");
            publish(&fixture, registry, &format!("p{n}"), "1.0.0", &text);
        }
        let found = |q: &str| texts(&fixture, &fixture.member, json!({"q": q})).len();
        // The seventh text of 300 KB exceeds it.
        assert_eq!((found("only9"), found("only3"), found("only2")), (1, 1, 0));
    }

    #[test]
    fn five_of_a_kind_are_found_the_newest_first() {
        let fixture = Fixture::new();
        for n in 0..7 {
            let body = json!({"slug": format!("prod-{n}"), "name": format!("Prod {n}")});
            environments::tests::make(&fixture, body).unwrap();
        }
        let names: Vec<_> =
            found(&fixture, &fixture.member, "prod").into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["Prod 6", "Prod 5", "Prod 4", "Prod 3", "Prod 2"]);
    }

    #[test]
    fn the_others_of_a_kind_are_found_from_an_offset_on() {
        let fixture = Fixture::new();
        for n in 0..7 {
            let body = json!({"slug": format!("prod-{n}"), "name": format!("Prod {n}")});
            environments::tests::make(&fixture, body).unwrap();
        }
        tools::tests::make(&fixture, json!({"name": "Prod tool", "type": "http"})).unwrap();
        let found = |query: Value| {
            let query = Fixture::input::<SearchQuery>(query).unwrap();
            let found = fixture.read_as(&fixture.member, search, (), query).unwrap();
            let names: Vec<_> = found.items.into_iter().map(|one| one.name).collect();
            (names.join(","), found.more)
        };
        let (names, more) = found(json!({"q": "prod"}));
        assert_eq!(names, "Prod 6,Prod 5,Prod 4,Prod 3,Prod 2,Prod tool");
        assert_eq!(more, [SearchKind::Environment]);
        let next = found(json!({"q": "prod", "kind": "environment", "offset": 5}));
        assert_eq!(next, ("Prod 1,Prod 0".into(), vec![]));
        let few = found(json!({"q": "prod", "kind": "environment", "count": 2, "offset": 1}));
        assert_eq!(few, ("Prod 5,Prod 4".into(), vec![SearchKind::Environment]));
        assert_eq!(found(json!({"q": "prod", "kind": "tool"})), ("Prod tool".into(), vec![]));
        assert_eq!(found(json!({"q": "prod", "within": "main"})), (String::new(), vec![]));
    }

    #[test]
    fn what_is_named_so_is_on_one_page_though_its_text_has_the_words_too() {
        let fixture = Fixture::new();
        let make = |key: String, name: String| {
            let body = json!({"stableKey": key, "name": name, "description": "A bot."});
            agents::tests::make(&fixture, body).unwrap();
        };
        for n in 0..12 {
            make(format!("bot-{n}"), format!("Bot {n}"));
        }
        for n in 0..8 {
            make(format!("other-{n}"), format!("Other {n}"));
        }
        let mut names = Vec::new();
        for offset in [0, 5, 10, 15] {
            let query = json!({"q": "bot", "kind": "agent", "offset": offset});
            let query = Fixture::input::<SearchQuery>(query).unwrap();
            let page = fixture.read_as(&fixture.member, search, (), query).unwrap();
            names.extend(page.items.into_iter().map(|one| one.name));
            assert_eq!(page.more.is_empty(), offset >= 10, "{offset}");
        }
        assert_eq!(names.len(), 20, "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 20, "{names:?}");
    }

    #[test]
    fn names_alone_are_found_where_no_texts_are_wanted() {
        let fixture = Fixture::new();
        for (key, name) in [("bot", "Bot"), ("other", "Other")] {
            let body = json!({"stableKey": key, "name": name, "description": "A bot."});
            agents::tests::make(&fixture, body).unwrap();
        }
        let names = |query: Value| -> Vec<String> {
            let query = Fixture::input::<SearchQuery>(query).unwrap();
            let found = fixture.read_as(&fixture.member, search, (), query).unwrap();
            found.items.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names(json!({"q": "bot", "texts": false})), ["Bot"]);
        assert_eq!(names(json!({"q": "bot", "texts": true})), ["Bot", "Other"]);
    }

    #[test]
    fn within_a_registry_only_what_is_in_it_is_found() {
        let fixture = Fixture::new();
        for registry in ["main", "other"] {
            artifacts::tests::registry(&fixture, registry);
            publish(&fixture, registry, "notes", "1.0.0", "Keel.");
        }
        let found = |query: Value| {
            let query = Fixture::input::<SearchQuery>(query).unwrap();
            let found = fixture.read_as(&fixture.member, search, (), query).unwrap();
            let places = found.items.into_iter().map(|one| one.within.unwrap_or_default());
            places.collect::<Vec<_>>().join(",")
        };
        assert_eq!(found(json!({"q": "notes"})), "other,main");
        assert_eq!(found(json!({"q": "notes", "within": "main"})), "main");
        assert_eq!(found(json!({"q": "keel", "within": "main"})), "main");
        assert_eq!(found(json!({"q": "notes", "within": "none"})), "");
    }

    #[test]
    fn what_is_called_exactly_so_is_found_however_many_are_newer() {
        let fixture = Fixture::new();
        for key in ["bot-1", "bot-2"] {
            agents::tests::make(&fixture, json!({"stableKey": key, "name": key})).unwrap();
        }
        for n in 0..1100 {
            let body = json!({"stableKey": format!("bot-1{n}"), "name": format!("Bot 1{n}")});
            agents::tests::make(&fixture, body).unwrap();
        }
        let first = |text: &str| found(&fixture, &fixture.member, text)[0].1.clone();
        assert_eq!((first("bot-1"), first("BOT-2")), ("bot-1".into(), "bot-2".into()));
        // Of one kind more are looked through.
        let of = |query: Value| {
            let query = Fixture::input::<SearchQuery>(query).unwrap();
            fixture.read_as(&fixture.member, search, (), query).unwrap().items.len()
        };
        let both = (json!({"q": "bot-2"}), json!({"q": "bot", "kind": "agent", "offset": 1000}));
        assert_eq!((of(both.0), of(both.1)), (1, 5));
    }
}
