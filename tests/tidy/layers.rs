//! Layers import only those below them, and a resource only those registered before it.

use std::collections::BTreeSet;

use crate::imports;
use crate::source::{self, Source};
use crate::{assert_clean, assert_reports, of_product};

/// The layers from the bottom up, and which layers each may import.
const LAYERS: [(&str, &[&str]); 13] = [
    ("base", &[]),
    ("store", &["base"]),
    ("outside", &["base"]),
    ("templates", &["base"]),
    ("outbox", &["base", "store", "outside"]),
    ("auth", &["base", "store"]),
    ("api", &["base", "store", "outside", "outbox", "auth"]),
    ("resources", &["base", "store", "outbox", "auth", "api", "outside", "templates"]),
    ("http", &["base", "store", "outside", "auth", "api"]),
    ("console", &["base", "auth", "api", "http"]),
    ("mcp", &["base", "auth", "api", "http"]),
    ("cli", ALL_LAYERS),
    ("app", ALL_LAYERS),
];
const ALL_LAYERS: &[&str] = &[
    "base",
    "store",
    "outside",
    "templates",
    "outbox",
    "auth",
    "api",
    "resources",
    "http",
    "console",
    "mcp",
    "cli",
    "app",
];

/// The layer of a source, its first module; none for the roots of the crate.
fn layer(source: &Source) -> Option<String> {
    source.module().into_iter().next()
}

/// The paths of a source with the line of each, from the crate's root on.
fn paths(source: &Source) -> impl Iterator<Item = (usize, Vec<String>)> {
    imports::paths(source, &BTreeSet::new()).into_iter().map(|path| (path.line, path.segments))
}

/// Imports of layers that a source's own layer may not know.
fn layer_violations(source: &Source) -> Vec<String> {
    let Some(own) = layer(source) else { return vec![] };
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == own) else {
        return vec![format!("{}: no layer is called {own}; add it to LAYERS", source.path)];
    };
    let mut found = Vec::new();
    for (line, path) in paths(source) {
        let Some(target) = path.first().map(String::as_str) else { continue };
        let is_layer = LAYERS.iter().any(|(name, _)| *name == target);
        if is_layer && target != own && !allowed.contains(&target) {
            found.push(format!("{}:{line}: {own} may not import {target}", source.path));
        }
    }
    found.dedup();
    found
}

/// The resources in the order of `ALL` in `src/resources/mod.rs`. (Its `mod` lines are sorted by
/// name.)
fn registration_order(resources: &Source) -> Vec<String> {
    let start = resources.tokens.iter().position(|token| token.is("ALL")).expect("a list ALL");
    let list = resources.tokens[start..].split(|token| token.is(";")).next().unwrap_or_default();
    let mut order = Vec::new();
    for entry in list.split(|token| token.is(",")) {
        // Of `teams::memories::RESOURCE` the folder, `teams`.
        let Some(first) = entry.windows(2).find(|pair| pair[1].is("::")) else { continue };
        if !order.contains(&first[0].text) {
            order.push(first[0].text.clone());
        }
    }
    order
}

/// Uses of resources registered after a source's own, or of the list of them.
fn order_violations(source: &Source, order: &[String]) -> Vec<String> {
    let module = source.module();
    let [layer, own, ..] = module.as_slice() else { return vec![] };
    if layer != "resources" {
        return vec![];
    }
    let index = |name: &str| order.iter().position(|one| one == name);
    let mut found = Vec::new();
    for (line, path) in paths(source) {
        let [layer, target, ..] = path.as_slice() else { continue };
        if layer == "resources"
            && target != own
            && index(target).is_none_or(|at| Some(at) > index(own))
        {
            found.push(format!("{}:{line}: {own} may not use {target}", source.path));
        }
    }
    found.dedup();
    found
}

#[test]
fn layers_import_only_layers_they_may_know() {
    assert_reports(
        layer_violations,
        &[
            ("src/store/tx.rs", "use crate::base::{Id, Time};", ""),
            ("src/store/tx.rs", "\nuse crate::api::Route;", "src/store/tx.rs:2: store may not"),
            ("src/store/tx.rs", "use crate::{base::Id, outbox::{self, Job}};", "import outbox"),
            ("src/store/tx.rs", "fn a() { crate::auth::b() }", "import auth"),
            ("src/store/engine/redb.rs", "use super::super::super::http::Reply;", "import http"),
            ("src/base/id.rs", "use crate::store::Key as K;", "import store"),
            ("src/base/id.rs", "// use crate::store;\nconst A: &str = \"crate::store::Key\";", ""),
            ("src/base/id.rs", "#[cfg(test)]\nmod tests { use crate::store::Key; }", ""),
            ("src/base/id.rs", "#[cfg(test)]\nuse crate::api;\nuse crate::store::Key;", "store"),
            ("src/http/gate.rs", "use crate::resources::tools;", "import resources"),
            ("src/app/mod.rs", "use crate::{cli, http, resources};", ""),
            ("src/lib.rs", "use crate::http;", ""),
            ("src/attic/mod.rs", "", "no layer is called attic"),
        ],
    );
    assert_clean(of_product(layer_violations));
}

#[test]
fn a_layer_is_listed_after_those_that_it_may_import() {
    for (index, (layer, allowed)) in LAYERS.iter().enumerate() {
        let below: Vec<&str> = LAYERS[..index].iter().map(|(name, _)| *name).collect();
        let all = *allowed == ALL_LAYERS;
        assert!(all || allowed.iter().all(|name| below.contains(name)), "{layer}");
    }
}

#[test]
fn resources_use_only_resources_registered_before_them() {
    let list = "mod teams; const ALL: &[Resource] = &[people::RESOURCE, tools::RESOURCE, \
                teams::RESOURCE, teams::tasks::RESOURCE];";
    let list = Source::new("src/resources/mod.rs", list);
    assert_eq!(registration_order(&list), ["people", "tools", "teams"]);
    assert_reports(
        |source| order_violations(source, &registration_order(&list)),
        &[
            ("src/resources/tools.rs", "use super::people;", ""),
            ("src/resources/tools.rs", "use crate::resources::people::User;", ""),
            ("src/resources/tools.rs", "use super::teams::Team;", "tools may not use teams"),
            ("src/resources/tools.rs", "use super::{people, teams};", "tools may not use teams"),
            ("src/resources/tools.rs", "use crate::resources::ALL;", "tools may not use ALL"),
            ("src/resources/teams/tasks.rs", "use super::messages;", ""),
            ("src/resources/teams/tasks.rs", "use super::super::tools;", ""),
            ("src/resources/tools/types.rs", "use super::super::teams;", "may not use teams"),
            ("src/resources/mod.rs", "use crate::resources::teams;", ""),
        ],
    );
    let sources = source::all();
    let list = sources.iter().find(|source| source.path == "src/resources/mod.rs").unwrap();
    assert_clean(of_product(|source| order_violations(source, &registration_order(list))));
}
