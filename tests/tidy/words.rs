//! Words that stay out of some layers, because something better does their work there or because
//! the layer must not know what they mean.

use crate::source::{self, Kind, Source, starts_with, tokens};
use crate::{assert_clean, assert_reports, of_product};

/// Code that stays out of some paths.
struct Ban {
    code: &'static [&'static str],
    /// Beginnings of the paths where it is banned.
    paths: &'static [&'static str],
    /// Beginnings of the paths where it is allowed nevertheless.
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
        code: &["SystemTime::now", "OffsetDateTime::now_utc"],
        paths: EVERYWHERE,
        except: &["src/store/clock.rs"],
        instead: "ask the transaction: tx.now(), view.now(); outside of one, the store's clock",
    },
    Ban {
        code: &["Instant::now"],
        paths: PURE,
        // Executing a route waits: deadlines of long polls, calls and searches are in real time. So is
        // that of the process that reads a file.
        except: &["src/api/execute/", "src/resources/knowledge_bases/extraction/pdf/"],
        instead: "ask the transaction: tx.now(), view.now()",
    },
    Ban {
        code: &["rand::", "getrandom::", "Uuid::new_v4", "Uuid::now_v7"],
        paths: EVERYWHERE,
        // A malformed request is answered before there is a store to ask.
        except: &["src/store/clock.rs", "src/http/wire.rs"],
        instead: "ask the transaction: tx.new_id(), tx.random(); outside of one, the store's clock",
    },
    Ban {
        code: &["tokio::spawn", "std::thread", "thread::"],
        paths: PURE,
        // What was asked of a model is recorded although its client has gone.
        except: &["src/api/execute/stream.rs"],
        instead: "write a job (outbox::enqueue) or declare a sweep",
    },
    Ban {
        code: &["println!", "eprintln!", "print!", "eprint!"],
        paths: EVERYWHERE,
        except: &[],
        instead: "return it, or log it with tracing; a command prints through cli/output.rs",
    },
    Ban {
        code: &["stdout()", "stderr()"],
        paths: EVERYWHERE,
        except: PRINTING,
        instead: "print through cli/output.rs, which shows what is not seen",
    },
    Ban {
        code: &["std::env", "env::"],
        paths: EVERYWHERE,
        except: COMMANDS,
        instead: "let the command line read it and hand it down",
    },
    Ban {
        code: &["std::process", "process::"],
        paths: EVERYWHERE,
        // Files that others wrote are read in child processes; threads for costly work lower their
        // priority (rustix::process::nice).
        except: &["src/cli/", "src/main.rs", "src/outside/child.rs", "src/store/heavy_threads.rs"],
        instead: "let the command line read it and hand it down",
    },
    Ban {
        code: &["std::fs", "tokio::fs", "fs::", "File::open"],
        paths: PURE,
        except: &[],
        instead: "keep it in the store",
    },
    Ban {
        code: &["hyper::", "hyper_util::"],
        paths: &["src/auth/", "src/api/", "src/resources/", "src/store/", "src/outbox/"],
        except: &[],
        instead: "http speaks HTTP; name a base::Kind, or a Call of outside",
    },
    Ban {
        code: &["redb::"],
        paths: EVERYWHERE,
        except: &["src/store/engine/"],
        instead: "use the store's View and Tx",
    },
    Ban {
        code: &[".set_org", ".in_org"],
        paths: &["src/resources/"],
        except: OTHER_ORGANIZATIONS,
        instead: "an operation sees the organization of its request alone (Req, View, Tx)",
    },
    Ban {
        code: &["fetch_member"],
        paths: &["src/resources/teams/"],
        // The check itself, what every member sees of an agent, and what the service does.
        except: &[
            "src/resources/teams/member.rs",
            "src/resources/teams/usable.rs",
            "src/resources/teams/members.rs",
            "src/resources/teams/notices.rs",
        ],
        instead: "a request that names an agent needs a UsableMember (AgentRef::open)",
    },
    Ban {
        code: &["TcpStream::connect", "UnixStream::connect", "UdpSocket::", "lookup_host"],
        paths: EVERYWHERE,
        // The control socket is a file of the data directory. A check of a database puts a proxy that
        // cuts connections before it. The operator names the database server, no caller does.
        except: &[
            "src/outside/",
            "src/app/control.rs",
            "src/store/engine/conformance/cutting.rs",
            "src/store/engine/postgres/url.rs",
        ],
        instead: "send a Call through outside",
    },
];

/// Files that write to stdout and stderr themselves, and what.
const PRINTING: &[&str] = &[
    "src/cli/output.rs",       // The one place that prints texts.
    "src/cli/log_writer.rs",   // Log lines, escaped as there.
    "src/cli/hidden.rs",       // The prompt for a password.
    "src/cli/password.rs",     // Asks whether it is a terminal.
    "src/cli/audit.rs",        // Entries of the audit log as lines of JSON.
    "src/cli/backup.rs",       // A backup, encrypted.
    "src/cli/completions.rs",  // A script of our own.
    "src/cli/export.rs",       // An organization as lines of JSON.
    "src/cli/extract_text.rs", // The text of a document, to the server that asked for it.
    "src/cli/common.rs",       // Asks whether it is a terminal.
    "src/cli/store_check.rs",  // Asks whether it is a terminal.
    "src/cli/demo/mod.rs",     // Asks whether it is a terminal.
    "src/cli/client/wakes.rs", // Hands stderr to a command.
    "src/cli/client/stop.rs",  // Waits until nobody reads stdout.
];

/// Files of resources that look into other organizations than the request's, and why.
const OTHER_ORGANIZATIONS: &[&str] = &[
    "src/resources/registries/locate.rs", // Finds the organization before the caller is authorized.
    "src/resources/domains/mod.rs", // Repeats the verification of the organization that holds a domain.
    "src/resources/agent_cards/mod.rs", // A public card names a team of its organization.
    "src/resources/organizations/oidc/rules.rs", // A sign-in counts in each organization of the person.
    "src/resources/organizations/key_expiry.rs", // A sweep notifies each organization of its expiring keys.
];

/// What names a resource of the product: fields, types and paths that the kernel must not know.
const RESOURCE_WORDS: &[&str] = &[
    "registryRef",
    "registry_ref",
    "RegistryOptional",
    "promptName",
    "prompt_name",
    "\"/setup",
    "/api/setup",
    "/auth/",
];

/// The layers that carry every resource and name none.
const KERNEL: [&str; 2] = ["src/api/", "src/http/"];

/// Places of the kernel that still name one (file, word), each with its reason. Better empty.
const NAMED_RESOURCES: &[(&str, &str)] = &[];

/// Names of resources in the kernel: in code, in string literals and in doc comments.
fn named_resources(source: &Source) -> Vec<String> {
    if !KERNEL.iter().any(|path| source.path.starts_with(path)) {
        return vec![];
    }
    let mut found = Vec::new();
    for token in &source.tokens {
        // With the opening quote, to distinguish a path from a part of one.
        let quote = if token.kind == Kind::Text { "\"" } else { "" };
        let text = format!("{quote}{}", token.text);
        for word in RESOURCE_WORDS.iter().filter(|word| text.contains(*word)) {
            if !NAMED_RESOURCES.contains(&(source.path.as_str(), word)) {
                let place = format!("{}:{}", source.path, token.first_line);
                found.push(format!("{place}: {word} names a resource; let its routes declare it"));
            }
        }
    }
    found
}

fn banned_words(source: &Source) -> Vec<String> {
    let is_in = |paths: &[&str]| paths.iter().any(|path| source.path.starts_with(path));
    let mut found = Vec::new();
    for ban in BANS.iter().filter(|ban| is_in(ban.paths) && !is_in(ban.except)) {
        for word in ban.code {
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

#[test]
fn code_that_has_a_better_replacement_is_not_used() {
    assert_reports(
        banned_words,
        &[
            ("src/resources/a.rs", "let now = SystemTime::now();", "ask the transaction"),
            ("src/resources/a.rs", "let t = std::time::Instant::now();", "tx.now()"),
            ("src/resources/a.rs", "use aws_lc_rs::rand::fill;", "tx.new_id()"),
            ("src/resources/a.rs", "let operand::A = b; brand::new();", ""),
            ("src/resources/a.rs", "tokio::spawn(later)", "write a job"),
            ("src/resources/a.rs", "println!(\"{a}\")", "log it with tracing"),
            ("src/resources/a.rs", "use hyper::Uri;", "http speaks HTTP"),
            ("src/resources/a.rs", "tx.set_org(org)", "alone"),
            ("src/resources/a.rs", "view\n    .in_org(org)", "alone"),
            ("src/resources/a.rs", "TableInfo::of::<A>()", ""),
            ("src/resources/a.rs", "// println!, SystemTime::now", ""),
            ("src/store/check.rs", "use redb::Database;", "View and Tx"),
            ("src/store/engine/redb.rs", "use redb::Database;", ""),
            ("src/http/handler.rs", "TcpStream::connect(there)", "outside"),
            ("src/cli/routes.rs", "println!()", "cli/output.rs"),
            ("src/cli/routes.rs", "io::stderr().write_all(text)", "cli/output.rs"),
            ("src/cli/output.rs", "io::stderr().write_all(text)", ""),
        ],
    );
    assert_clean(of_product(banned_words));
}

/// Portable forms beside their structs, which name every field again. Only references of registries need that.
fn fields_named_twice(source: &Source) -> Vec<String> {
    let start = ["portable", "!", "("].map(String::from);
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let form = &source.tokens[at..];
        if !starts_with(form, &start) || source.path == "src/base/portable.rs" {
            continue;
        }
        let mut words = form.iter().take_while(|token| token.text != ")");
        if !words.any(|token| token.text == "refs") {
            let place = format!("{}:{}", source.path, token.first_line);
            found.push(format!("{place}: put portable! {{ }} around the struct"));
        }
    }
    found
}

#[test]
fn fields_of_portable_records_are_named_once() {
    assert_reports(
        fields_named_twice,
        &[
            ("src/auth/a.rs", "crate::base::portable!(A { b });", "around the struct"),
            ("src/auth/a.rs", "portable!(A { b } refs { c });", ""),
            ("src/auth/a.rs", "crate::base::portable! { struct A { b: u8 } }", ""),
        ],
    );
    assert_clean(of_product(fields_named_twice));
}

#[test]
fn bans_name_paths_that_exist() {
    let sources = source::all();
    let bans = BANS.iter().flat_map(|ban| [ban.paths, ban.except].concat());
    for path in bans {
        assert!(sources.iter().any(|source| source.path.starts_with(path)), "{path}");
    }
}

#[test]
fn the_kernel_names_no_resource() {
    assert_reports(
        named_resources,
        &[
            ("src/api/a.rs", "let a = input.registry_ref;", "src/api/a.rs:1: registry_ref names"),
            ("src/api/a.rs", "Issue::new(\"promptName\", b)", "promptName names a resource"),
            ("src/http/a.rs", "path.starts_with(\"/auth/\")", "/auth/"),
            ("src/http/a.rs", "path == \"/setup\"", "/setup"),
            ("src/http/a.rs", "/// Reads `registryRef`.\nfn a() {}", "registryRef"),
            ("src/http/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"/setup\"; }", ""),
            ("src/http/a.rs", "let registry = Registry::default(); \"a/setup\"", ""),
            ("src/resources/a.rs", "let a = input.registry_ref;", ""),
        ],
    );
    assert_clean(of_product(named_resources));
}

#[test]
fn exceptions_of_the_kernel_are_still_needed() {
    let sources = source::all();
    for (path, word) in NAMED_RESOURCES {
        let source = sources.iter().find(|source| source.path == *path);
        assert!(
            source.is_some_and(|source| source.text.contains(word)),
            "{path} does not name {word}; remove it from NAMED_RESOURCES"
        );
    }
}
