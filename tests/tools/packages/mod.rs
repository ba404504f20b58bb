//! What `packaging/build` makes of a program: of the static one that `ROADSTEAD_STATIC` names, else of
//! the program of these tests, which needs the C library of this machine.

mod debian;
mod image;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;

use crate::optional::{is_left_out, program, run, works};
use crate::python;

/// Who answers for the package.
const MAINTAINER: [(&str, &str); 2] =
    [("DEBFULLNAME", "Somebody"), ("DEBEMAIL", "somebody@roadstead.invalid")];

/// The packages of a program.
struct Packages {
    place: tempfile::TempDir,
    program: PathBuf,
    is_static: bool,
    version: String,
    files: BTreeMap<String, PathBuf>,
}

static PACKAGES: LazyLock<Packages> = LazyLock::new(|| {
    let place = tempfile::tempdir().unwrap();
    let given = std::env::var_os("ROADSTEAD_STATIC");
    let built = given.as_ref().map_or(Path::new(env!("CARGO_BIN_EXE_roadstead")), Path::new);
    let program = place.path().join("roadstead");
    fs::copy(built, &program).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    if works("strip", &["--version"]) {
        run(Command::new("strip").arg(&program)); // As what is given away is.
    }
    let facts: Value = serde_json::from_str(&version(&program)).unwrap();
    let version = facts["version"].as_str().unwrap().to_string();
    let files = make(&program, &place.path().join("packages"), &[]);
    Packages { place, program, is_static: given.is_some(), version, files }
});

/// The packages; none where these tests are left out, which is said aloud.
fn packages() -> Option<&'static Packages> {
    let what = "packages for machines of others";
    (!is_left_out("PACKAGES", what, python::missing())).then(|| &*PACKAGES)
}

/// Makes the packages of a program; returns their files, by name.
fn make(program: &Path, folder: &Path, more: &[&Path]) -> BTreeMap<String, PathBuf> {
    let mut build = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/build"));
    build.args(["--fast", "--binary"]).arg(program).arg("--out").arg(folder).args(more);
    // Its commit may not be told where the tests run.
    run(build.envs(MAINTAINER).env("SOURCE_DATE_EPOCH", "1795688748"));
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), file.path())).collect()
}

fn version(program: &Path) -> String {
    run(Command::new(program).args(["version", "--json"]))
}

impl Packages {
    /// The one file whose name ends so.
    fn file(&self, end: &str) -> &Path {
        let mut found = self.files.iter().filter(|(name, _)| name.ends_with(end));
        let (_, file) = found.next().unwrap_or_else(|| panic!("no {end} in {:?}", self.files));
        assert_eq!(found.next(), None);
        file
    }
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_same_program_makes_the_same_packages() {
    let Some(packages) = packages() else { return };
    let again = make(&packages.program, &packages.place.path().join("again"), &[]);
    assert!(again.keys().eq(packages.files.keys()), "{again:?}");
    for (name, file) in &again {
        assert!(fs::read(file).unwrap() == fs::read(&packages.files[name]).unwrap(), "{name}");
    }
}

#[test]
fn each_package_is_named_for_version_and_machine_and_has_its_sum() {
    let Some(packages) = packages() else { return };
    let name = format!("roadstead-{}-{}", packages.version, std::env::consts::ARCH);
    let own: Vec<_> = packages.files.keys().filter(|name| !name.ends_with(".deb")).collect();
    let [sbom, archive] = ["cdx.json", "tar.gz"].map(|end| format!("{name}-linux.{end}"));
    assert_eq!(own, ["SHA256SUMS", &sbom, &archive, &format!("{name}.oci.tar")]);

    let sums = fs::read_to_string(packages.file("SHA256SUMS")).unwrap();
    let all = packages.files.iter().filter(|(name, _)| *name != "SHA256SUMS");
    let lines = all.map(|(name, file)| format!("{}  {name}\n", sha256(&fs::read(file).unwrap())));
    assert_eq!(sums, lines.collect::<String>());
}

#[test]
fn the_sums_can_be_signed_and_others_are_found_out() {
    let (Some(packages), Some(keygen)) =
        (packages(), program("ssh-keygen", "ssh-keygen", "openssh-client"))
    else {
        return;
    };
    let place = packages.place.path();
    let key = place.join("key");
    run(Command::new(&keygen).args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
    let signed = make(&packages.program, &place.join("signed"), &[Path::new("--sign"), &key]);
    let signature = &signed["SHA256SUMS.sig"];
    let public = fs::read_to_string(place.join("key.pub")).unwrap();
    let known = place.join("known");
    fs::write(&known, format!("roadstead {public}")).unwrap();

    let is_signed = |file: &Path| {
        let mut verify = Command::new(&keygen);
        verify.args(["-Y", "verify", "-n", "file", "-I", "roadstead", "-f"]).arg(&known);
        verify.arg("-s").arg(signature).stdin(fs::File::open(file).unwrap());
        verify.output().unwrap().status.success()
    };
    assert!(is_signed(&signed["SHA256SUMS"]));
    let other = place.join("other");
    fs::write(&other, fs::read_to_string(&signed["SHA256SUMS"]).unwrap().replacen('0', "1", 1))
        .unwrap();
    assert!(!is_signed(&other));
}

#[test]
fn the_archive_has_the_program_with_what_belongs_beside_it() {
    let Some(packages) = packages() else { return };
    let place = packages.place.path().join("unpacked");
    fs::create_dir(&place).unwrap();
    let archive = packages.file(".tar.gz");
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&place));
    let top: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [top] = &top[..] else { panic!("{top:?}") };
    assert_eq!(version(&top.join("roadstead")), version(&packages.program));
    for file in [
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "docs/reference/upgrading.md",
        "packaging/README.md",
        "packaging/NOTICES.txt",
        "packaging/roadstead.service",
        "packaging/roadstead.env",
        "man/roadstead-serve.1",
        "completions/roadstead.bash",
        "completions/_roadstead",
        "completions/roadstead.fish",
    ] {
        assert!(fs::metadata(top.join(file)).is_ok_and(|file| file.len() > 100), "{file}");
    }
}

#[test]
fn the_list_of_parts_has_every_package_that_is_in_the_program() {
    let Some(packages) = packages() else { return };
    let list: Value =
        serde_json::from_slice(&fs::read(packages.file(".cdx.json")).unwrap()).unwrap();
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let program = &list["metadata"]["component"];
    assert_eq!(program["version"], packages.version.as_str());
    assert_eq!(program["hashes"][0]["content"], sha256(&fs::read(&packages.program).unwrap()));
    let parts = list["components"].as_array().unwrap();
    let part = |name: &str| parts.iter().find(|part| part["name"] == name);
    let redb = part("redb").unwrap();
    let reference = format!("pkg:cargo/redb@{}", redb["version"].as_str().unwrap());
    assert_eq!(redb["purl"], reference.as_str());
    assert_eq!(redb["hashes"][0]["content"].as_str().map(str::len), Some(64));
    assert!(redb["licenses"][0]["expression"].is_string());
    assert!(part("proptest").is_none(), "it is in tests alone");
    // What is no package of Rust has the version that scanners look for, too.
    let rust = part("The Rust standard library").unwrap()["version"].as_str().unwrap();
    assert!(run(Command::new("rustc").arg("-V")).starts_with(&format!("rustc {rust} ")), "{rust}");
    let libc = part("The GNU C Library, in a statically linked program");
    assert_eq!(libc.is_some(), std::env::var_os("ROADSTEAD_STATIC").is_some());
    if let Some(libc) = libc {
        let version = run(Command::new("getconf").arg("GNU_LIBC_VERSION"));
        let version = version.trim().trim_start_matches("glibc ");
        assert!(libc["version"].as_str().unwrap().starts_with(version), "{libc}");
        assert_eq!(libc["cpe"], format!("cpe:2.3:a:gnu:glibc:{version}:*:*:*:*:*:*:*").as_str());
    }

    let needs = list["dependencies"].as_array().unwrap();
    let own = needs.iter().find(|one| one["ref"] == program["bom-ref"]).unwrap();
    assert!(own["dependsOn"].as_array().unwrap().contains(&reference.into()), "{own}");
    // It has what the notices have, which are of other machines, too.
    let licenses = run(Command::new(&packages.program).args(["licenses", "--json"]));
    let licenses: Value = serde_json::from_str(&licenses).unwrap();
    let listed = licenses["contains"].as_array().unwrap();
    for part in parts.iter().filter(|part| part["purl"].is_string()) {
        let [name, version] = ["name", "version"].map(|field| part[field].as_str().unwrap());
        let name = format!("{name} {version}");
        assert!(listed.iter().any(|one| one["name"] == name.as_str()), "{name}");
    }
}
