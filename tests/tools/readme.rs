//! The commands of the README's tour work, pasted from top to bottom.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::optional::{is_left_out, run, works};
use crate::server::free_port;

/// The shell commands below a heading, up to another one.
fn commands(readme: &str, from: &str, to: &str) -> String {
    let (_, rest) = readme.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    let (part, _) = rest.split_once(to).unwrap_or_else(|| panic!("no {to} after {from}"));
    let blocks = part.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect()
}

#[test]
fn the_tour_can_be_pasted() {
    let missing = [("curl", "--version"), ("jq", "--version"), ("bash", "--version")]
        .into_iter()
        .find(|(program, argument)| !works(program, &[argument]))
        .map(|(program, _)| format!("{program} is not installed"));
    if is_left_out("README", "the README's commands", missing.as_deref()) {
        return;
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let tour = commands(&readme, "\n## A tour in five minutes\n", "\n## More about prompts\n");
    let again = commands(&readme, "\n## More about prompts\n", "\n### Policies\n");
    let port = free_port().to_string();
    let script = format!("set -e -o pipefail\n{tour}\n{again}\nkill $server; wait $server")
        // It is built already.
        .replace("cargo build --release\n", "")
        .replace("export PATH=$PWD/target/release:$PATH\n", "")
        .replace("7420", &port);
    let place = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_roadstead"));
    let path = std::env::var("PATH").unwrap();
    let said = run(Command::new("bash")
        .arg("-c")
        .arg(script)
        .current_dir(&place)
        .env("TMPDIR", place.path())
        .env("PATH", format!("{}:{path}", binary.parent().unwrap().display()))
        .env("ROADSTEAD_LISTEN", format!("127.0.0.1:{port}")));
    // The one that shows what an error looks like.
    let refused: Vec<_> = said.lines().filter(|line| line.contains(r#""requestId":"#)).collect();
    assert_eq!(refused.len(), 1, "{refused:#?}");
    for text in ["release notes for Harbour.", "release notes."] {
        let live =
            format!(r#""compiled":"Write plainly. You speak for Shipping. You write {text}""#);
        let is_live = |line: &&str| line.contains(&live) && line.contains(r#""live":true"#);
        assert_eq!(said.lines().filter(is_live).count(), 1, "{live}: {said}");
    }
    assert!(said.contains("sound: ") && said.contains(", 0 wrong"), "{said}");
    let compiled = r#"You write \"release notes\" for {{PRODUCT}}, in {{LANGUAGE}}.\nDon't guess"#;
    assert!(said.contains(compiled), "{said}");
    let is_by_jq =
        |line: &str| line.contains(r#""name":"release-notes""#) && line.contains(compiled);
    assert!(said.lines().any(is_by_jq), "{said}");
    assert!(said.contains(r#""labels":{"production":"1.2.0"}"#), "{said}");
}
