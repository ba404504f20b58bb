//! The clients in TypeScript.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use super::{MADE, NAME, NODE, printed, with_agent};
use crate::node::Node;
use crate::optional::{installed, run};
use crate::server::Acme;

/// What the programs share.
const CALLS: &str = include_str!("../generated/calls.ts");

/// How the functions of orval send.
const ORVAL_CALL: &str = include_str!("../generated/orval_call.ts");

/// The programs, by the names of their files.
const PROGRAMS: [(&str, &str); 3] = [
    ("fetched", include_str!("../generated/fetched.ts")),
    ("hey_api", include_str!("../generated/hey_api.ts")),
    ("orval", include_str!("../generated/orval.ts")),
];

/// Compiles TypeScript with every strict rule.
fn compile(node: &Node, args: &[&str], files: &[PathBuf]) {
    run(node
        .bin("tsc")
        .args(["--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"])
        .args(args)
        .args(files));
}

#[test]
fn the_typescript_client_of_openapi_generator_works() {
    let what = "the TypeScript client of openapi-generator";
    let (Some(node), Some(made)) = (installed(NAME, what, &NODE), installed(NAME, what, &MADE))
    else {
        return;
    };
    let place = made.join("typescript-fetch");
    let source = include_str!("../generated/client.ts").replace("\"./made\"", "\"./index\"");
    std::fs::write(place.join("client.ts"), source).unwrap();
    let out = made.join("typescript-fetch-js");
    let args = ["--module", "commonjs", "--outDir", out.to_str().unwrap()];
    compile(node, &args, &[place.join("client.ts")]);
    let mut program = Command::new(&node.program);
    program.arg(out.join("client.js"));
    assert_eq!(with_agent(&Acme::start(&[]), &mut program), "done\n");
}

#[test]
fn what_other_generators_make_for_typescript_works() {
    let what = "openapi-typescript, hey-api and orval";
    let Some(node) = installed(NAME, what, &NODE) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path();
    std::os::unix::fs::symlink(node.place.join("node_modules"), place.join("node_modules"))
        .unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.join(name), text).unwrap();
    write("openapi.json", &printed(&[]));
    let config = json!({"made": {"input": "./openapi.json", "output": {
        "target": "./orval/client.ts", "client": "fetch",
        "override": {"mutator": {"path": "./orval_call.ts", "name": "call"}},
    }}});
    write("orval.config.cjs", &format!("module.exports = {config};"));
    write("orval_call.ts", ORVAL_CALL);
    write("calls.ts", CALLS);
    for args in [
        &["openapi-typescript", "openapi.json", "-o", "schema.ts"][..],
        &["openapi-ts", "-i", "openapi.json", "-o", "hey-api"],
        &["orval", "--config", "orval.config.cjs"],
    ] {
        run(node.bin(args[0]).args(&args[1..]).current_dir(place));
    }
    let files = PROGRAMS.map(|(name, source)| {
        write(&format!("{name}.ts"), source);
        place.join(format!("{name}.ts"))
    });
    let out = place.join("out");
    compile(node, &["--module", "node20", "--outDir", out.to_str().unwrap()], &files);
    for (name, _) in PROGRAMS {
        let mut program = Command::new(&node.program);
        program.arg(out.join(format!("{name}.js")));
        assert_eq!(with_agent(&Acme::start(&[]), &mut program), "done\n", "{name}");
    }
}
