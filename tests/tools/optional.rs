//! Tests with real programs of others, each of which can be left out, but never silently.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// What is installed for tests, or why it cannot be had here.
pub type Installed<T> = Result<T, String>;

/// What a command says that finds no network; any other failure of it is one of the test.
const NO_NETWORK: [&str; 16] = [
    "Temporary failure in name resolution",
    "Name or service not known",
    "Failed to establish a new connection",
    "ConnectTimeoutError",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ECONNREFUSED",
    "ENETUNREACH",
    "ETIMEDOUT",
    "ECONNRESET",
    "ERR_SOCKET_TIMEOUT",
    "E403",
    "ProxyError",
    "Read timed out",
    "Failed to resolve",
    "No matching distribution found",
];

/// Why a test of a full disk is left out.
pub const CANNOT_MOUNT: &str = "no file system can be mounted here (unshare -Urm)";

/// Why a test is left out: `ROADSTEAD_TEST_<NAME>` is `off`, or what is `missing`. It is said aloud.
pub fn is_left_out(name: &str, what: &str, missing: Option<&str>) -> bool {
    let flag = format!("ROADSTEAD_TEST_{name}");
    let is_off = std::env::var(&flag).is_ok_and(|value| value == "off");
    let why = if is_off { Some(format!("{flag} is off")) } else { missing.map(String::from) };
    if let Some(why) = &why {
        say(&format!("\n*** NOT TESTED against {what}: {why}. ***\n"));
    }
    why.is_some()
}

/// The same for what root may do everywhere but in some containers. Where `ROADSTEAD_TEST_ROOT` is
/// `expected`, as `.ci/run` has it for root, the test fails instead of being left out.
pub fn needs_root(name: &str, what: &str, missing: Option<&str>) -> bool {
    let is = |name: &str, word: &str| {
        std::env::var(format!("ROADSTEAD_TEST_{name}")).is_ok_and(|value| value == word)
    };
    if let Some(missing) = missing.filter(|_| is("ROOT", "expected") && !is(name, "off")) {
        panic!("{what} is not tested, where root is expected: {missing}");
    }
    is_left_out(name, what, missing)
}

/// What a test needs of what is installed, which is done first if need be; none where the test is left
/// out, which is said aloud.
pub fn installed<'a, T>(
    name: &str,
    what: &str,
    place: &'a LazyLock<Installed<T>>,
) -> Option<&'a T> {
    // For what is off nothing is installed.
    if is_left_out(name, what, None) {
        return None;
    }
    match &**place {
        Ok(place) => Some(place),
        Err(missing) => {
            is_left_out(name, what, Some(missing));
            None
        }
    }
}

/// Runs a command that downloads, which must succeed where there is a network.
#[track_caller]
pub fn download(command: &mut Command) -> Installed<()> {
    let done = command.stdin(Stdio::null()).output().unwrap();
    if done.status.success() {
        return Ok(());
    }
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let sign = NO_NETWORK.iter().find(|sign| said.iter().any(|text| text.contains(**sign)));
    let Some(sign) = sign else { panic!("{command:?}: {}\n{}", said[0], said[1]) };
    Err(format!("it is not installed yet and cannot be downloaded ({sign})"))
}

/// The path of a program; none where it is left out or not installed, which is said aloud.
pub fn program(name: &str, what: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers where the path of ordinary users does not lead.
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    let missing = format!("it is not installed (apt-get install {package})");
    let missing = found.is_none().then_some(missing.as_str());
    if is_left_out(&name.to_uppercase().replace('-', "_"), what, missing) { None } else { found }
}

/// Whether a command succeeds.
pub fn works(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a command, which must succeed, and returns what it printed.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let done = command.stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {stdout}\n{stderr}");
    stdout
}

/// The test runner holds back what goes through `eprintln!`, this it does not.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
