//! What the server calls is documented: every source that makes a call has its place in the table of
//! docs/reference/air-gapped.md, and among the outgoing calls of events.md.

use std::fs;
use std::path::Path;

/// What a call, a mail or a connection begins with.
const SIGNS: [&str; 9] = [
    "Call {",
    "Effect::Mail(Mail {",
    "webhook::post(",
    "webhook::post_with_keys(",
    "nip05::lookup(",
    "llm_providers::ask(",
    "llm_providers::chosen(",
    "SpanExporter::new(",
    "tokio_postgres::",
];

/// Where calls are made, and what of the reference that is; the longest path counts. The table has all the
/// links, the list of outgoing calls the first of each. The client for calls itself and the command line,
/// whose commands are those of people, make none of the server's own.
const CALLERS: &[(&str, &[&str])] = &[
    ("src/app/spans.rs", &["command-line.md#traces"]),
    ("src/app/tls/acme/", &["command-line.md#a-certificate-of-an-authority"]),
    (
        "src/resources/artifacts/",
        &[
            "agents.md#llm-providers",
            "registries-and-templates.md#trying-a-prompt",
            "registries-and-templates.md#inputs-of-a-prompt",
        ],
    ),
    ("src/resources/deployments/", &["deployments.md#posted-manifests"]),
    ("src/resources/domains/", &["agent-index.md#verification"]),
    (
        "src/resources/governance/",
        &[
            "agents.md#llm-providers",
            "registries-and-templates.md#judges",
            "registries-and-templates.md#inputs-of-a-prompt",
        ],
    ),
    ("src/resources/llm_providers/", &["agents.md#llm-providers"]),
    (
        "src/resources/notifications/",
        &["notifications.md#action-workflows", "notifications.md#mail"],
    ),
    ("src/resources/organizations/", &["notifications.md#mail"]),
    (
        "src/resources/organizations/oidc/",
        &[
            "identity-and-rights.md#openid-connect",
            "identity-and-rights.md#signing-out-there",
            "notifications.md#mail",
        ],
    ),
    ("src/resources/prompt_providers/", &["registries-and-templates.md#prompt-providers"]),
    ("src/resources/teams/exchange/", &["exchange.md#posted-replies", "exchange.md#asking"]),
    ("src/resources/teams/wakes/", &["teams-and-wakes.md#posted-wakes"]),
    ("src/store/engine/postgres/", &["running-many.md"]),
];

const NOT_OF_THE_SERVER: [&str; 2] = ["src/outside/", "src/cli/"];

/// Whether a source makes calls, outside of its tests.
fn makes_calls(source: &str) -> bool {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.any(|line| SIGNS.iter().any(|sign| has(line, sign)))
}

/// Whether a line has a sign as a word of its own, that is not the type of a function's result.
fn has(line: &str, sign: &str) -> bool {
    line.match_indices(sign).any(|(at, _)| {
        let before = &line[..at];
        let is_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_defined = ["-> ", "struct ", "impl ", "for "].iter().any(|it| before.ends_with(it));
        is_word && !is_defined
    })
}

/// The entry of a path.
fn caller(path: &str) -> Option<usize> {
    let of = |nth: &usize| path.starts_with(CALLERS[*nth].0);
    (0..CALLERS.len()).filter(of).max_by_key(|nth| CALLERS[*nth].0.len())
}

#[test]
fn what_makes_calls_is_told_from_what_does_not() {
    for code in ["    Call {\n", "let a = Box::new(Call { url });", "use tokio_postgres::Client;\n"]
    {
        assert!(makes_calls(code), "{code}");
    }
    for code in [
        "pub fn traced(call: Call) -> Call {\n",
        "ListCall { path }",
        "// Call {",
        "a\n#[cfg(test)]\nmod tests {\n    Call {",
    ] {
        assert!(!makes_calls(code), "{code}");
    }
    let of = |path: &str| CALLERS[caller(path).unwrap()].0;
    assert_eq!(
        of("src/resources/organizations/oidc/calls.rs"),
        "src/resources/organizations/oidc/"
    );
    assert_eq!(of("src/resources/organizations/reset_mails.rs"), "src/resources/organizations/");
    assert_eq!(caller("src/resources/tags/mod.rs"), None);
}

#[test]
fn all_that_the_server_calls_is_in_the_table_for_air_gapped_machines_and_among_outgoing_calls() {
    let mut found = vec![false; CALLERS.len()];
    for path in crate::sources(Path::new("src")) {
        let shown = path.to_str().unwrap();
        let is_test = shown.ends_with("tests.rs") || shown.contains("/tests/");
        let is_of_others = NOT_OF_THE_SERVER.iter().any(|folder| shown.starts_with(folder));
        if is_test || is_of_others || !makes_calls(&fs::read_to_string(&path).unwrap()) {
            continue;
        }
        let Some(nth) = caller(shown) else {
            panic!(
                "{shown} makes calls: add it here, to the table of air-gapped.md and to events.md"
            )
        };
        found[nth] = true;
    }
    let table = fs::read_to_string("docs/reference/air-gapped.md").unwrap();
    let rows: String = table.lines().filter(|line| line.starts_with('|')).collect();
    let events = fs::read_to_string("docs/reference/events.md").unwrap();
    let list = events.split("\n## ").find(|part| part.starts_with("Outgoing calls\n")).unwrap();
    for ((path, links), found) in CALLERS.iter().zip(found) {
        assert!(found, "{path} makes no calls any more: take it out here");
        for link in *links {
            assert!(
                rows.contains(&format!("]({link})")),
                "air-gapped.md: no row of {link} ({path})"
            );
        }
        assert!(list.contains(&format!("]({})", links[0])), "events.md: no {} ({path})", links[0]);
    }
}
