//! What only happens in a terminal, and hints for mistakes at the command line.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::process::{Ended, INIT, PASSWORD, Place, run};

/// Runs a command whose stdin and stderr are a terminal, and types; its stdout is a pipe. Of the
/// result, `stderr` is what the terminal shows.
pub fn in_terminal(command: Command, typed: &str) -> Ended {
    in_terminal_after(b": ", command, typed)
}

/// The same with prompts that end like this.
pub fn in_terminal_after(prompt: &[u8], mut command: Command, typed: &str) -> Ended {
    let (mut own, terminal) = terminal();
    command.stdin(terminal.try_clone().unwrap()).stderr(terminal).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command); // It holds the terminal open.
    let mut shown = Vec::new();
    for line in typed.lines() {
        // What is typed before the prompt would be shown.
        read_until(&mut own, &mut shown, prompt);
        own.write_all(format!("{line}\n").as_bytes()).unwrap();
        read_until(&mut own, &mut shown, b"\n");
    }
    let output = child.wait_with_output().unwrap();
    // Reading fails once nobody has the terminal open any more.
    let _ = own.read_to_end(&mut shown);
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&shown).into_owned(),
    }
}

/// A terminal: the side of who sits at it, and that of programs.
fn terminal() -> (File, File) {
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, Vec::new()).unwrap();
    let terminal = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(own), File::from(terminal))
}

fn shows_what_is_typed(terminal: &File) -> bool {
    let modes = rustix::termios::tcgetattr(terminal).unwrap().local_modes;
    modes.contains(rustix::termios::LocalModes::ECHO)
}

fn read_until(from: &mut File, shown: &mut Vec<u8>, end: &[u8]) {
    let before = shown.len();
    while !shown[before..].windows(end.len()).any(|window| window == end) {
        let mut byte = [0];
        let Ok(1) = from.read(&mut byte) else { return };
        shown.push(byte[0]);
    }
}

#[test]
fn init_asks_a_terminal_twice_for_the_password_and_shows_it_never() {
    let place = Place::new();
    let args = [&INIT[..], &["--json"]].concat();
    let made = in_terminal(place.command(&args), &format!("{PASSWORD}\n{PASSWORD}\n"));
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(made.succeeds()["organization"]["slug"], "acme");
    assert_eq!(made.stderr.matches("assword").count(), 2, "{made:?}");
    assert!(!made.stderr.contains(PASSWORD) && !made.stdout.contains(PASSWORD), "{made:?}");
}

/// Whether SIGINT is ignored here, as it is in what a shell has started in the background, and in what
/// that starts.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 0b10 != 0
}

/// Ctrl-C, and what ends a program with a core dump elsewhere.
#[test]
fn a_terminal_shows_what_is_typed_after_a_hidden_prompt_was_interrupted() {
    for key in [b"half a passw\x03", b"half a passw\x1c"] {
        let place = Place::new();
        let (mut own, terminal) = terminal();
        let kept = terminal.try_clone().unwrap();
        let mut command = place.command(&INIT);
        command.stdin(terminal.try_clone().unwrap()).stderr(terminal).stdout(Stdio::null());
        command.process_group(0); // All of it is interrupted.
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut shown = Vec::new();
        read_until(&mut own, &mut shown, b": ");
        assert!(!shows_what_is_typed(&kept));
        own.write_all(key).unwrap();
        let ended = child.wait().unwrap();
        if ignores_interrupts() {
            assert_eq!(ended.code(), Some(1));
        } else {
            assert_eq!(ended.signal(), Some(2), "as an interrupted program ends: {ended:?}");
        }
        assert!(shows_what_is_typed(&kept));
        assert!(!place.data().exists());
    }
}

/// Starts `init` in a terminal, until it asks for a password.
fn asking(place: &Place) -> (Child, File, File) {
    let (mut own, terminal) = terminal();
    let kept = terminal.try_clone().unwrap();
    let mut command = place.command(&INIT);
    command.stdin(terminal.try_clone().unwrap()).stderr(terminal).stdout(Stdio::null());
    command.process_group(0);
    let child = command.spawn().unwrap();
    read_until(&mut own, &mut Vec::new(), b": ");
    assert!(!shows_what_is_typed(&kept));
    (child, own, kept)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_terminal_shows_what_is_typed_after_a_signal_has_ended_a_hidden_prompt() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let place = Place::new();
        let (mut child, mut own, kept) = asking(&place);
        own.write_all(b"half a passw").unwrap();
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(shows_what_is_typed(&kept));
        assert!(!place.data().exists());
    }
}

/// Ctrl-Z, and `fg`.
#[test]
fn a_terminal_shows_what_is_typed_while_a_hidden_prompt_is_stopped_and_is_asked_again_afterwards() {
    let place = Place::new();
    let (mut child, mut own, kept) = asking(&place);
    for _ in 0..2 {
        signal(&child, Signal::TSTP);
        let (_, status) =
            waitpid(Some(Pid::from_child(&child)), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
        assert!(shows_what_is_typed(&kept));
        signal(&child, Signal::CONT);
        let mut shown = Vec::new();
        read_until(&mut own, &mut shown, b": ");
        assert!(String::from_utf8_lossy(&shown).contains("Password of the owner"), "{shown:?}");
        assert!(!shows_what_is_typed(&kept));
    }
    for _ in 0..2 {
        own.write_all(format!("{PASSWORD}\n").as_bytes()).unwrap();
        read_until(&mut own, &mut Vec::new(), b"\n");
    }
    assert!(child.wait().unwrap().success());
    assert!(shows_what_is_typed(&kept));
    assert!(place.data().exists());
}

#[test]
fn two_different_passwords_create_nothing() {
    let place = Place::new();
    let typed = format!("{PASSWORD}\n{PASSWORD}s\n");
    let ended = in_terminal(place.command(&INIT), &typed);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("differ"), "{ended:?}");
    assert!(!place.data().exists());
}

#[test]
fn without_a_terminal_the_password_is_asked_of_nobody() {
    let place = Place::new();
    place.run(&INIT).fails(2, "--password-stdin");
    run(place.command(&INIT), Some(PASSWORD)).fails(2, "--password-stdin");
    assert!(!place.data().exists());
}

#[test]
fn flags_of_other_servers_and_quoted_values_get_a_hint() {
    let mut place = Place::new();
    for (flag, hint) in [
        ("--port", "--listen 127.0.0.1:7420"),
        ("--host", "--listen"),
        ("--data-dir", "--data DIR"),
        ("--verbose", "--log-level debug"),
    ] {
        place.run(&["serve", flag, "8080"]).fails(2, hint);
    }
    place.run(&["serve", "--port=8080"]).fails(2, "--listen 127.0.0.1:7420");
    place.set(&[("ROADSTEAD_LISTEN", "\"127.0.0.1:7420\"")]);
    place.run(&["serve"]).fails(2, "quotation marks");
    let key = "5f0c1d2e3f4a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d3e4";
    place.set(&[("ROADSTEAD_SECRET_KEY", &format!("\"{key}\""))]);
    place.run(&["serve", "--listen", "127.0.0.1:0"]).fails(2, "quotation marks");
}

#[test]
fn a_variable_that_is_empty_misspelt_or_wrong_is_named() {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--must-exist"];
    for (variable, value, said) in [
        ("ROADSTEAD_PUBLIC_URL", "", "the variable ROADSTEAD_PUBLIC_URL is empty"),
        ("ROADSTEAD_STORE", "", "the variable ROADSTEAD_STORE is empty"),
        ("ROADSTEAD_TRUSTED_PROXY", "", "the variable ROADSTEAD_TRUSTED_PROXY is empty"),
        ("ROADSTEAD_RATE_LIMIT", "many", "that of the variable ROADSTEAD_RATE_LIMIT"),
        ("ROADSTEAD_PUBLC_URL", "https://a.test", "did you mean ROADSTEAD_PUBLIC_URL?"),
        ("ROADSTEAD_PUBLIC_URL", "https://a.test/below", "must be without a path"),
    ] {
        let mut place = Place::new();
        place.set(&[(variable, value)]);
        place.run(&serve).fails(2, said);
        assert!(!place.data().exists(), "{variable}");
    }
    // The flag counts, not the variable.
    let mut place = Place::new();
    place.set(&[("ROADSTEAD_PUBLIC_URL", "")]);
    let ended = place.run(&[&serve[..], &["--public-url", "https://a.test"]].concat());
    assert!(ended.code == Some(2) && !ended.stderr.contains("is empty"), "{ended:?}");
    // What Kubernetes sets for a service of this name is nobody's mistake.
    place.set(&[("ROADSTEAD_PORT", "tcp://10.0.0.1:7420")]);
    let version = place.run(&["version"]);
    assert_eq!((version.code, version.stderr.as_str()), (Some(0), ""), "{version:?}");
}

#[test]
fn help_shows_no_token() {
    let mut place = Place::new();
    place.set(&[("ROADSTEAD_METRICS_TOKEN", "scrape-me")]);
    let help = place.run(&["serve", "--help"]);
    assert_eq!(help.code, Some(0));
    assert!(
        help.stdout.contains("METRICS_TOKEN") && !help.stdout.contains("scrape-me"),
        "{help:?}"
    );
}

#[test]
fn a_backup_asks_a_terminal_for_its_passphrase_and_shows_progress_there() {
    let (place, _) = Place::founded();
    let file = place.data().with_file_name("b");
    let file = file.to_str().unwrap();
    let secret = "a long passphrase";
    let make = place.command(&["backup", file, "--ask-passphrase", "--json"]);
    let differs = in_terminal(make, &format!("{secret}\nanother\n"));
    assert_eq!(differs.code, Some(2), "{differs:?}");
    let make = place.command(&["backup", file, "--ask-passphrase", "--json"]);
    let made = in_terminal(make, &format!("{secret}\n{secret}\n"));
    assert_eq!(made.succeeds()["encrypted"], true);
    assert!(made.stderr.contains("Backup: ") && made.stderr.contains(" records, "), "{made:?}");
    let verify = place.command(&["backup", "--verify", file, "--json"]);
    let verified = in_terminal(verify, &format!("{secret}\n"));
    assert_eq!(verified.succeeds()["verified"], true);
    assert!(!made.stderr.contains(secret) && !verified.stderr.contains(secret));
}
