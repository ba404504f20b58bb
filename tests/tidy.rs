//! The rules of the house that a compiler does not know (`docs/ARCHITECTURE.md`): which room may
//! import which, which words stay out of which rooms, and how a file looks. Each check is a function
//! over sources, tried on a source that breaks its rule before the crate's own are read.
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "tidy/errors.rs"]
mod errors;
#[path = "tidy/events.rs"]
mod events;
mod golden;
#[path = "tidy/source.rs"]
mod source;

use std::collections::BTreeSet;

use source::{Kind, Source, starts_with, tokens};

// ── The rules, as data ───────────────────────────────────────────────────────

/// The rooms, and which rooms each may import.
const ROOMS: [(&str, &[&str]); 11] = [
    ("base", &[]),
    ("store", &["base"]),
    ("outside", &["base"]),
    ("templates", &["base"]),
    ("outbox", &["base", "store", "outside"]),
    ("auth", &["base", "store"]),
    ("api", &["base", "store", "outside", "outbox", "auth"]),
    ("resources", &["base", "store", "outbox", "auth", "api", "outside", "templates"]),
    ("http", &["base", "store", "outside", "auth", "api"]),
    ("cli", ALL_ROOMS),
    ("app", ALL_ROOMS),
];
const ALL_ROOMS: &[&str] = &[
    "base",
    "store",
    "outside",
    "templates",
    "outbox",
    "auth",
    "api",
    "resources",
    "http",
    "cli",
    "app",
];

/// Words that stay out of some rooms.
struct Ban {
    words: &'static [&'static str],
    /// Where: beginnings of paths.
    rooms: &'static [&'static str],
    /// The places where they are at home all the same.
    except: &'static [&'static str],
    /// What to do instead.
    instead: &'static str,
}

const EVERYWHERE: &[&str] = &["src/"];
/// Where only data and rules are: what happens there depends on nothing but the store.
const PURE: &[&str] = &["src/base/", "src/auth/", "src/api/", "src/resources/", "src/templates/"];
const COMMANDS: &[&str] = &["src/cli/", "src/main.rs"];

const BANS: &[Ban] = &[
    Ban {
        words: &["SystemTime::now", "OffsetDateTime::now_utc"],
        rooms: EVERYWHERE,
        except: &["src/store/source.rs"],
        instead: "ask the transaction: tx.now(), view.now(); outside of one, the store's moment",
    },
    Ban {
        words: &["Instant::now"],
        rooms: PURE,
        // How long somebody waits, and how long calls may take, the operations do not see.
        except: &["src/api/execute/"],
        instead: "ask the transaction: tx.now(), view.now()",
    },
    Ban {
        words: &["rand::", "getrandom::", "Uuid::new_v4", "Uuid::now_v7"],
        rooms: EVERYWHERE,
        // What cannot be read as a request at all is answered before there is any store to ask.
        except: &["src/store/source.rs", "src/http/wire.rs"],
        instead: "ask the transaction: tx.new_id(), tx.random(); outside of one, the store's moment",
    },
    Ban {
        words: &["tokio::spawn", "std::thread", "thread::"],
        rooms: PURE,
        except: &[],
        instead: "write a task (outbox::enqueue) or declare a sweep",
    },
    Ban {
        words: &["println!", "eprintln!", "print!", "eprint!"],
        rooms: EVERYWHERE,
        except: COMMANDS,
        instead: "return it, or log it with tracing",
    },
    Ban {
        words: &["std::env", "env::", "std::process", "process::"],
        rooms: EVERYWHERE,
        except: COMMANDS,
        instead: "let the command line read it and hand it down",
    },
    Ban {
        words: &["std::fs", "tokio::fs", "fs::", "File::open"],
        rooms: PURE,
        except: &[],
        instead: "keep it in the store",
    },
    Ban {
        words: &["hyper::", "hyper_util::"],
        rooms: &["src/auth/", "src/api/", "src/resources/", "src/store/", "src/outbox/"],
        except: &[],
        instead: "http speaks HTTP; name a base::Kind, or a Call of outside",
    },
    Ban {
        words: &["redb::"],
        rooms: EVERYWHERE,
        except: &["src/store/engine/"],
        instead: "use the store's View and Tx",
    },
    Ban {
        words: &[".enter(", ".of("],
        rooms: &["src/resources/"],
        except: OTHER_ORGANIZATIONS,
        instead: "an operation sees the organization of its request alone (Req, View, Tx)",
    },
    Ban {
        words: &["TcpStream::connect", "UnixStream::connect", "UdpSocket::", "lookup_host"],
        rooms: EVERYWHERE,
        except: &["src/outside/"],
        instead: "send a Call through outside",
    },
];

/// Files of resources that look into other organizations than the request's, and why.
const OTHER_ORGANIZATIONS: &[&str] = &[
    "src/resources/registries/locate.rs", // Finds the organization before anybody is admitted to it.
    "src/resources/organizations/keys.rs", // A sweep tells each organization of its own keys' end.
];

/// A file over this many lines of code, tests aside, holds two things.
const MAX_CODE_LINES: usize = 400;
/// No file is longer, tests and comments included.
const MAX_LINES: usize = 600;
/// Files that may import each other with files of another folder, each with its reason. Better empty.
const MUTUAL_IMPORTS: &[&str] = &[
    "src/resources/teams/wakes/mod.rs", // Members, messages and tasks wake; a wake is about them.
];
/// A function over this many lines does two things.
const MAX_FUNCTION_LINES: usize = 70;
/// Files that may be longer, each with its reason. Better empty.
const LONG_FILES: &[&str] = &[];

// ── The checks ───────────────────────────────────────────────────────────────

/// The room of a path, its first module; none for the roots of the crate.
fn room(source: &Source) -> Option<String> {
    source.module().into_iter().next()
}

/// Imports of rooms that a source's own room may not know.
fn wrong_imports(source: &Source) -> Vec<String> {
    let Some(own) = room(source) else { return vec![] };
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == own) else {
        return vec![format!("{}: no room is called {own}; add it to ROOMS", source.path)];
    };
    let mut found = Vec::new();
    for (line, path) in source.paths() {
        let Some(target) = path.first().map(String::as_str) else { continue };
        let is_room = ROOMS.iter().any(|(name, _)| *name == target);
        if is_room && target != own && !allowed.contains(&target) {
            found.push(format!("{}:{line}: {own} may not import {target}", source.path));
        }
    }
    found.dedup();
    found
}

/// The resources in order of use: those of `ALL` in `src/resources/mod.rs`. (Its `mod` lines are in
/// the order of the alphabet.)
fn order(resources: &Source) -> Vec<String> {
    let start = resources.tokens.iter().position(|token| token.is("ALL")).expect("it is there");
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

/// Uses of resources that stand below a source's own, or of the list of them.
fn upward_uses(source: &Source, order: &[String]) -> Vec<String> {
    let module = source.module();
    let [room, own, ..] = module.as_slice() else { return vec![] };
    if room != "resources" {
        return vec![];
    }
    let place = |name: &str| order.iter().position(|one| one == name);
    let mut found = Vec::new();
    for (line, path) in source.paths() {
        let [room, target, ..] = path.as_slice() else { continue };
        if room == "resources"
            && target != own
            && place(target).is_none_or(|p| Some(p) > place(own))
        {
            found.push(format!("{}:{line}: {own} may not use {target}", source.path));
        }
    }
    found.dedup();
    found
}

fn banned_words(source: &Source) -> Vec<String> {
    let is_at = |places: &[&str]| places.iter().any(|place| source.path.starts_with(place));
    let mut found = Vec::new();
    for ban in BANS.iter().filter(|ban| is_at(ban.rooms) && !is_at(ban.except)) {
        for word in ban.words {
            let code: Vec<String> = tokens(word).into_iter().map(|token| token.text).collect();
            for (at, token) in source.tokens.iter().enumerate() {
                if starts_with(&source.tokens[at..], &code) {
                    let (path, line) = (&source.path, token.first_line);
                    found.push(format!("{path}:{line}: no {word} here; {}", ban.instead));
                }
            }
        }
    }
    found
}

/// Words of resources that the kernel, which is handed routes, must not know: a route declares what
/// it needs.
const RESOURCE_WORDS: [&str; 4] = ["registryRef", "promptName", "/setup", "/auth/"];
const KERNEL: [&str; 2] = ["src/api/", "src/http/"];

fn resource_words(source: &Source) -> Vec<String> {
    if !KERNEL.iter().any(|place| source.path.starts_with(place)) {
        return vec![];
    }
    let code = source.tokens.iter().filter(|token| token.kind != Kind::Doc);
    let found = code.flat_map(|token| {
        let words = RESOURCE_WORDS.iter().filter(|word| token.text.contains(*word));
        words.map(|word| {
            format!("{}:{}: {word} is a resource's word", source.path, token.first_line)
        })
    });
    found.collect()
}

fn unexplained(source: &Source) -> Vec<String> {
    let begins = source.text.starts_with("//!");
    let complaint = || format!("{}: begins without //! (what it is for)", source.path);
    (!begins).then(complaint).into_iter().collect()
}

fn too_long(source: &Source) -> Vec<String> {
    if LONG_FILES.contains(&source.path.as_str()) {
        return vec![];
    }
    let code = source.tokens.iter().filter(|token| token.kind != Kind::Doc);
    let code: BTreeSet<usize> = code.flat_map(|token| token.first_line..=token.last_line).collect();
    let lines = source.text.lines().count();
    let mut found = Vec::new();
    if !source.is_test && code.len() > MAX_CODE_LINES {
        let over = format!("{} lines of code, over {MAX_CODE_LINES}", code.len());
        found.push(format!("{}: {over}; split it", source.path));
    }
    if lines > MAX_LINES {
        found.push(format!("{}: {lines} lines, over {MAX_LINES}; split it", source.path));
    }
    found
}

/// Functions over [`MAX_FUNCTION_LINES`], from their names to the end of their bodies.
fn long_functions(source: &Source) -> Vec<String> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(1) {
        let (function, name) = (&tokens[at], &tokens[at + 1]);
        if !function.is("fn") || name.kind != Kind::Word {
            continue;
        }
        let mut depth = 0;
        let mut last = None;
        for token in &tokens[at..] {
            depth += i32::from(token.is("{")) - i32::from(token.is("}"));
            if depth == 0 && (token.is("}") || token.is(";")) {
                last = Some(token.last_line);
                break;
            }
        }
        let lines = last.map_or(0, |last| last - function.first_line + 1);
        if lines > MAX_FUNCTION_LINES {
            let (path, line, name) = (&source.path, function.first_line, &name.text);
            found.push(format!("{path}:{line}: {name} has {lines} lines; split it"));
        }
    }
    found
}

/// Pairs of files of different folders that import each other.
fn mutual_imports(sources: &[Source]) -> Vec<String> {
    let file_of = |path: &[String]| {
        let longest = (1..=path.len()).rev();
        longest.into_iter().find_map(|parts| {
            sources.iter().find(|source| !source.is_test && source.module() == path[..parts])
        })
    };
    let folder = |source: &Source| source.path.rsplit_once('/').map(|(at, _)| at.to_string());
    let mut edges = BTreeSet::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        for (_, path) in source.paths() {
            let Some(target) = file_of(&path) else { continue };
            if folder(target) != folder(source) {
                edges.insert((source.path.clone(), target.path.clone()));
            }
        }
    }
    let may = |file: &String| MUTUAL_IMPORTS.contains(&file.as_str());
    let both = edges.iter().filter(|(one, other)| one < other && !may(one) && !may(other));
    both.filter(|(one, other)| edges.contains(&(other.clone(), one.clone())))
        .map(|(one, other)| format!("{one} and {other} import each other"))
        .collect()
}

/// Public items without a doc comment above them and their attributes.
fn undocumented(source: &Source) -> Vec<String> {
    const ITEMS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let mut words = tokens[at..].iter().skip(1).filter(|token| !token.is("async"));
        let Some(item) = words.next().filter(|item| ITEMS.iter().any(|word| item.is(word))) else {
            continue;
        };
        if tokens[at].is("pub") && !is_documented(source, at) {
            let name = words.find(|token| !token.is("fn") && token.kind == Kind::Word);
            let name = name.map_or("", |token| token.text.as_str());
            let line = item.first_line;
            found.push(format!("{}:{line}: {name} has no doc comment", source.path));
        }
    }
    found
}

/// Whether a doc comment stands before the token `at`, attributes aside.
fn is_documented(source: &Source, mut at: usize) -> bool {
    while at > 0 && source.tokens[at - 1].is("]") {
        let mut depth = 0;
        while at > 0 {
            at -= 1;
            depth += i32::from(source.tokens[at].is("]")) - i32::from(source.tokens[at].is("["));
            if depth == 0 {
                break;
            }
        }
        at = at.saturating_sub(1); // The `#`.
    }
    at > 0 && source.tokens[at - 1].kind == Kind::Doc
}

// ── The facts ────────────────────────────────────────────────────────────────

/// What `check` says about the crate's own sources must be nothing.
fn assert_tidy(check: impl Fn(&Source) -> Vec<String>) {
    let found: Vec<String> = source::all().iter().flat_map(check).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// What `check` says about each of these sources must contain a phrase; nothing, if it is empty.
fn assert_told(check: impl Fn(&Source) -> Vec<String>, cases: &[(&str, &str, &str)]) {
    for (path, text, phrase) in cases {
        let found = check(&Source::new(path, text));
        match phrase.is_empty() {
            true => assert_eq!(found, Vec::<String>::new(), "{text}"),
            false => assert!(found.iter().any(|one| one.contains(phrase)), "{text}: {found:?}"),
        }
    }
}

/// Rules about what the product does hold for what it is made of, not for its tests.
fn of_product(check: impl Fn(&Source) -> Vec<String>) -> impl Fn(&Source) -> Vec<String> {
    move |source| if source.is_test { vec![] } else { check(source) }
}

#[test]
fn rooms_import_only_from_rooms_they_may_know() {
    assert_told(
        wrong_imports,
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
            ("src/attic/mod.rs", "", "no room is called attic"),
        ],
    );
    assert_tidy(of_product(wrong_imports));
}

#[test]
fn rooms_below_are_named_before_those_that_use_them() {
    for (index, (room, allowed)) in ROOMS.iter().enumerate() {
        let below: Vec<&str> = ROOMS[..index].iter().map(|(name, _)| *name).collect();
        let all = *allowed == ALL_ROOMS;
        assert!(all || allowed.iter().all(|name| below.contains(name)), "{room}");
    }
}

#[test]
fn resources_use_only_resources_above_them() {
    let list = "mod teams; const ALL: &[Resource] = &[people::RESOURCE, tools::RESOURCE, \
                teams::RESOURCE, teams::tasks::RESOURCE];";
    let list = Source::new("src/resources/mod.rs", list);
    assert_eq!(order(&list), ["people", "tools", "teams"]);
    assert_told(
        |source| upward_uses(source, &order(&list)),
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
    assert_tidy(of_product(|source| upward_uses(source, &order(list))));
}

#[test]
fn words_stay_out_of_rooms_where_something_better_does_their_work() {
    assert_told(
        banned_words,
        &[
            ("src/resources/a.rs", "let now = SystemTime::now();", "ask the transaction"),
            ("src/resources/a.rs", "let t = std::time::Instant::now();", "tx.now()"),
            ("src/resources/a.rs", "use aws_lc_rs::rand::fill;", "tx.new_id()"),
            ("src/resources/a.rs", "let operand::A = b; brand::new();", ""),
            ("src/resources/a.rs", "tokio::spawn(later)", "write a task"),
            ("src/resources/a.rs", "println!(\"{a}\")", "log it with tracing"),
            ("src/resources/a.rs", "use hyper::Uri;", "http speaks HTTP"),
            ("src/resources/a.rs", "tx.enter(org)", "alone"),
            ("src/resources/a.rs", "view\n    .of(org)", "alone"),
            ("src/resources/a.rs", "TableInfo::of::<A>()", ""),
            ("src/resources/a.rs", "// println!, SystemTime::now", ""),
            ("src/store/check.rs", "use redb::Database;", "View and Tx"),
            ("src/store/engine/redb.rs", "use redb::Database;", ""),
            ("src/http/gate.rs", "TcpStream::connect(there)", "outside"),
            ("src/cli/routes.rs", "println!()", ""),
        ],
    );
    assert_tidy(of_product(banned_words));
}

#[test]
fn the_kernel_names_no_resource() {
    assert_told(
        resource_words,
        &[
            ("src/http/a.rs", "let a = \"registryRef\";", "registryRef is a resource's word"),
            ("src/api/a/b.rs", "if path == \"/api/setup\" {}", "src/api/a/b.rs:1: /setup"),
            ("src/api/a.rs", "path.starts_with(\"/auth/\")", "/auth/"),
            ("src/api/a.rs", "let setup = 1; use crate::auth::A;", ""),
            ("src/resources/a.rs", "let a = \"/setup\";", ""),
        ],
    );
    assert_tidy(of_product(resource_words));
}

#[test]
fn exceptions_name_places_that_there_are() {
    let sources = source::all();
    let bans = BANS.iter().flat_map(|ban| [ban.rooms, ban.except].concat());
    let excepted = LONG_FILES.iter().chain(MUTUAL_IMPORTS).copied();
    for place in bans.chain(excepted) {
        assert!(sources.iter().any(|source| source.path.starts_with(place)), "{place}");
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    assert_told(
        unexplained,
        &[("src/a.rs", "//! A.", ""), ("src/a.rs", "use b;\n//! A.", "begins without //!")],
    );
    assert_tidy(unexplained);
}

#[test]
fn no_file_holds_two_things() {
    let lines = |line: &str, count: usize| line.repeat(count);
    let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines("use a;\n", 400));
    assert_told(
        too_long,
        &[
            ("src/a.rs", &lines("use a;\n", 400), ""),
            ("src/a.rs", &lines("use a;\n", 401), "401 lines of code"),
            ("src/a.rs", &(lines("use a;\n", 150) + &test), ""),
            ("src/a.rs", &lines("use a; // A.\n\n// A.\n", 150), ""),
            ("src/a.rs", &format!("const A: &str = \"{}\";", lines("a\n", 401)), "lines of code"),
            ("src/a.rs", &lines("// A.\n", 601), "601 lines"),
        ],
    );
    assert_tidy(too_long);
}

#[test]
fn no_function_does_two_things() {
    let function = |lines: usize| format!("fn a() {{\n{}}}", "b();\n".repeat(lines - 2));
    assert_told(
        long_functions,
        &[
            ("src/a.rs", &function(70), ""),
            ("src/a.rs", &function(71), "src/a.rs:1: a has 71 lines"),
            ("src/a.rs", &format!("trait A {{ fn a();\n }} {}", function(70)), ""),
            ("src/a.rs", &format!("type A = fn();\n{}", function(71)), "src/a.rs:2: a has 71"),
        ],
    );
    assert_tidy(of_product(long_functions));
}

#[test]
fn no_two_files_of_different_folders_import_each_other() {
    let source = |(path, text): &(&str, &str)| Source::new(path, text);
    let told = |files: &[(&str, &str)]| {
        mutual_imports(&files.iter().map(source).collect::<Vec<_>>()).join("")
    };
    let one = ("src/a/b.rs", "use crate::c::d::E;");
    let other = ("src/c/d.rs", "use super::super::a::b::F;");
    assert_eq!(told(&[one, other]), "src/a/b.rs and src/c/d.rs import each other");
    assert_eq!(told(&[one, ("src/c/d.rs", "use crate::a::g::F;"), ("src/a/g.rs", "")]), "");
    assert_eq!(told(&[("src/a/b.rs", "use super::c::D;"), ("src/a/c.rs", "use super::b::E;")]), "");
    assert_eq!(mutual_imports(&source::all()), Vec::<String>::new());
}

#[test]
fn every_public_item_says_what_it_is() {
    assert_told(
        undocumented,
        &[
            ("src/a.rs", "/// A.\npub fn a() {}", ""),
            ("src/a.rs", "/// A.\n#[derive(B)]\n#[serde(c = \"]\")]\npub struct A;", ""),
            ("src/a.rs", "pub fn a() {}", "src/a.rs:1: a has no doc comment"),
            ("src/a.rs", "pub async fn a() {}", "a has no doc comment"),
            ("src/a.rs", "pub const fn a() {}", "a has no doc comment"),
            ("src/a.rs", "/// A.\npub mod a;\n#[derive(B)]\npub enum C {}", "C has no doc comment"),
            ("src/a.rs", "// A.\npub trait A {}", "A has no doc comment"),
            ("src/a.rs", "pub const A: u8 = 0;", "A has no doc comment"),
            ("src/a.rs", "struct A { pub a: u8 }\npub(crate) fn b() {}", ""),
        ],
    );
    assert_tidy(of_product(undocumented));
}

#[test]
fn sources_are_read_as_rust_reads_them() {
    let text = r###"
        /* a /* b */ c */ 'x: loop { '"' '\'' b'a' r#"d " e"# "f \" // g" h'i } // j
        /// k
        #[cfg(test)] #[l] fn m(n: [u8; 2]) { o } p!{}
    "###;
    let source = Source::new("src/a.rs", text);
    let seen: Vec<&str> = source.tokens.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(
        seen,
        [":", "loop", "{", "b", "d \" e", "f \" // g", "h", "}", "/// k", "p", "!", "{", "}"]
    );
    let lines: Vec<usize> = source.tokens.iter().map(|token| token.first_line).collect();
    assert_eq!((lines[0], lines[8], lines[9]), (2, 3, 4));
    let source = Source::new("src/a/b.rs", "use super::{c::{D, E as F}, self, g}; crate::h::i();");
    let paths: Vec<String> = source.paths().iter().map(|(_, path)| path.join(" ")).collect();
    assert_eq!(paths, ["a c D", "a c E", "a", "a g", "h i"]);
}
