//! The import graph of the crate: which file uses items of which other file. A re-export
//! (`pub use`) is followed to the file that defines the item and is no import by itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Kind, Source, Token};

/// A path in a source, from the crate's root on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub line: usize,
    pub segments: Vec<String>,
    /// The name that it is bound to: that after `as`, else its last segment.
    name: String,
    /// Whether a `pub use` names it.
    is_reexport: bool,
}

/// Every path of a source that begins with `crate`, `self`, `super`, or a module of `children`. A
/// group in braces yields one path per entry.
pub fn paths(source: &Source, children: &BTreeSet<String>) -> Vec<Path> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    let mut at = 0;
    let mut reexport_until = 0;
    while at + 1 < tokens.len() {
        if tokens[at].is("use") && is_public(tokens, at) {
            let length = tokens[at..].iter().take_while(|token| !token.is(";")).count();
            reexport_until = at + length;
        }
        let follows = at > 0 && (tokens[at - 1].is("::") || tokens[at - 1].is("."));
        let base = match tokens[at].text.as_str() {
            _ if follows || tokens[at].kind != Kind::Word || !tokens[at + 1].is("::") => None,
            "crate" => Some((at + 2, vec![])),
            "self" => Some((at + 2, source.module())),
            "super" => Some((at, source.module())),
            word if children.contains(word) => Some((at, source.module())),
            _ => None,
        };
        if let Some((start, base)) = base {
            let mut paths = Vec::new();
            follow(tokens, start, base, &mut paths);
            let line = tokens[at].first_line;
            let is_reexport = at < reexport_until;
            found.extend(paths.into_iter().map(|(segments, name)| Path {
                line,
                segments,
                name,
                is_reexport,
            }));
        }
        at += 1;
    }
    found
}

/// Whether the item whose keyword is at `at` begins with `pub` or `pub(…)`.
fn is_public(tokens: &[Token], at: usize) -> bool {
    let before = |back: usize, code: &str| at >= back && tokens[at - back].is(code);
    before(1, "pub") || (before(1, ")") && before(4, "pub"))
}

/// Follows a path from the token `at`, whose beginning is `path`; notes each path that it names
/// with the name that it is bound to, and returns the index after it.
fn follow(
    tokens: &[Token],
    mut at: usize,
    mut path: Vec<String>,
    found: &mut Vec<(Vec<String>, String)>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| !token.is("}")) {
                    at = follow(tokens, at, path.clone(), found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token.is(",")));
                }
                return at + 1;
            }
            "super" => {
                path.pop();
            }
            "self" => {}
            _ if token.kind == Kind::Word => path.push(token.text.clone()),
            "*" => at += 1,
            _ => break,
        }
        at += 1;
        if !tokens.get(at).is_some_and(|token| token.is("::")) {
            break;
        }
        at += 1;
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if let [keyword, alias, ..] = &tokens[at.min(tokens.len())..]
        && keyword.is("as")
        && alias.kind == Kind::Word
    {
        name.clone_from(&alias.text);
        at += 2;
    }
    found.push((path, name));
    at
}

/// Which file imports which. Files are named by their paths.
pub struct Graph {
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// The graph of the product's own files; those that only tests compile are left out.
    pub fn new(sources: &[Source]) -> Self {
        let sources = || sources.iter().filter(|source| !source.is_test);
        let files: BTreeMap<Vec<String>, &str> = sources()
            .map(|source| (source.module(), source.path.as_str()))
            .filter(|(module, _)| !module.is_empty())
            .collect();
        let mut paths_of = BTreeMap::new();
        let mut reexports = BTreeMap::new();
        for source in sources() {
            let module = source.module();
            let children =
                files.keys().filter(|file| file.split_last().is_some_and(|(_, p)| p == module));
            let children = children.filter_map(|file| file.last().cloned()).collect();
            let (public, private) = paths(source, &children)
                .into_iter()
                .partition::<Vec<_>, _>(|path| path.is_reexport);
            for path in public {
                reexports.insert([module.clone(), vec![path.name]].concat(), path.segments);
            }
            paths_of.insert(source.path.clone(), private);
        }
        let imports = paths_of.into_iter().map(|(file, paths)| {
            let targets =
                paths.iter().filter_map(|path| defining(&files, &reexports, &path.segments));
            (file.clone(), targets.filter(|target| *target != file).map(String::from).collect())
        });
        Graph { imports: imports.collect() }
    }

    /// The files that take part in cycles, each set of files that reach each other once. Only
    /// imports between files that `keep` accepts count.
    pub fn cycles(&self, keep: impl Fn(&str, &str) -> bool) -> Vec<Vec<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .imports
            .keys()
            .map(|file| (file.as_str(), self.reached_from(file, &keep)))
            .collect();
        let mut cycles = BTreeSet::new();
        for (file, reaches) in &reached {
            let members = reaches.iter().filter(|other| reached[**other].contains(file));
            let members: Vec<String> = members.map(|other| (*other).to_string()).collect();
            if !members.is_empty() {
                cycles.insert(members);
            }
        }
        cycles.into_iter().collect()
    }

    /// The shortest cycle through the import of `to` by `from`: the files in order.
    pub fn cycle_through(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([to]);
        while let Some(file) = queue.pop_front() {
            if file == from {
                let mut cycle = vec![file.to_string()];
                let mut at = file;
                while at != to {
                    at = came_from[at];
                    cycle.push(at.to_string());
                }
                cycle.reverse();
                cycle.rotate_right(1);
                return Some(cycle);
            }
            for next in self.imports.get(file).into_iter().flatten() {
                if next != to && !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, file);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Every import: the file that imports, and the one that is imported.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.imports
            .iter()
            .flat_map(|(file, targets)| targets.iter().map(move |to| (file.as_str(), to.as_str())))
    }

    fn reached_from(&self, file: &str, keep: impl Fn(&str, &str) -> bool) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = vec![self.imports.get_key_value(file).expect("a file").0];
        while let Some(from) = open.pop() {
            for to in self.imports.get(from).into_iter().flatten() {
                if keep(from, to) && reached.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        reached
    }
}

/// The file that defines what `path` names, re-exports followed.
fn defining<'a>(
    files: &BTreeMap<Vec<String>, &'a str>,
    reexports: &BTreeMap<Vec<String>, Vec<String>>,
    path: &[String],
) -> Option<&'a str> {
    let mut path = path.to_vec();
    // A chain of re-exports is short; a limit so that one that leads back to itself ends.
    for _ in 0..8 {
        let length = (1..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
        let Some(target) = path.get(..=length).and_then(|name| reexports.get(name)) else {
            return Some(files[&path[..length]]);
        };
        path = [target.clone(), path[length + 1..].to_vec()].concat();
    }
    None
}

#[test]
fn paths_begin_at_the_root_of_the_crate() {
    let text =
        "use super::{c::{D, E as F}, self, g}; crate::h::i(); pub use j::*; k::l(); m.j::<n>();";
    let source = Source::new("src/a/b.rs", text);
    let children = BTreeSet::from(["j".to_string()]);
    let paths: Vec<String> = paths(&source, &children)
        .iter()
        .map(|path| {
            format!(
                "{} = {}{}",
                path.name,
                path.segments.join(" "),
                if path.is_reexport { "!" } else { "" }
            )
        })
        .collect();
    assert_eq!(paths, ["D = a c D", "F = a c E", "a = a", "g = a g", "i = h i", "j = a b j!"]);
}

pub fn graph(files: &[(&str, &str)]) -> Graph {
    Graph::new(&files.iter().map(|(path, text)| Source::new(path, text)).collect::<Vec<_>>())
}

#[test]
fn an_import_leads_to_the_file_that_defines_the_item() {
    let graph = graph(&[
        ("src/lib.rs", "pub mod a; pub mod b;"),
        ("src/a/mod.rs", "mod c; mod d; pub use c::C; pub use d::{D as E, F}; fn g() { d::h() }"),
        ("src/a/c.rs", "use super::E; use super::G; use crate::a::c::I;"),
        ("src/a/d.rs", "use std::fmt; fn h() {}"),
        ("src/b.rs", "use crate::a::{self, C, F as X}; // use crate::a::E;\n"),
    ]);
    let edges: Vec<_> = graph.edges().collect();
    assert_eq!(
        edges,
        [
            ("src/a/c.rs", "src/a/d.rs"),
            ("src/a/c.rs", "src/a/mod.rs"),
            ("src/a/mod.rs", "src/a/d.rs"),
            ("src/b.rs", "src/a/c.rs"),
            ("src/b.rs", "src/a/d.rs"),
            ("src/b.rs", "src/a/mod.rs"),
        ]
    );
}
