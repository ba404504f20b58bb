//! The static program that `ROADSTEAD_STATIC` names, in a directory with nothing else in it: no `/proc`,
//! no `/etc`, no `/tmp`, no libraries.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::client::Caller;
use crate::optional::{is_left_out, needs_root, program as program_in_path, run as run_tool};
use crate::process::{Ended, INIT, PASSWORD, Serving, run};

/// Whether what needs a static program, and root, is tested here. What is left out is said aloud; that only
/// root is missing is a failure where root is expected.
pub fn can_change_root(what: &str, has_static_program: bool) -> bool {
    // Without one there is nothing to test: `.ci/run` makes it for a second run.
    let no_program = (!has_static_program).then_some("ROADSTEAD_STATIC names no static program");
    let no_root = (!rustix::process::geteuid().is_root())
        .then_some("only root can change the root directory");
    !is_left_out("CHROOT", what, no_program) && !needs_root("CHROOT", what, no_root)
}

/// A directory with the program.
struct Bare {
    place: tempfile::TempDir,
    chroot: PathBuf,
}

impl Bare {
    /// None where this is left out, which is said aloud.
    fn new() -> Option<Self> {
        let program = std::env::var_os("ROADSTEAD_STATIC").map(PathBuf::from);
        if !can_change_root("an empty directory", program.is_some()) {
            return None;
        }
        let chroot = program_in_path("chroot", "an empty directory", "coreutils")?;
        let place = tempfile::tempdir().unwrap();
        let program = program.unwrap();
        // As a link where that is possible: it has debug information, and each test has its own.
        let here = place.path().join("roadstead");
        fs::hard_link(&program, &here)
            .or_else(|_| fs::copy(&program, here).map(|_| ()))
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Some(Bare { place, chroot })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.chroot);
        command.arg(self.place.path()).arg("/roadstead").args(args).env_clear();
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args), None)
    }

    fn serve(&self, more: &[&str]) -> Serving {
        Serving::of(
            self.command(&[&["serve", "--listen", "127.0.0.1:0", "--json"][..], more].concat()),
        )
    }

    /// Creates `/data` with the organization `acme`; returns its owner's key.
    fn init(&self) -> String {
        let more = ["--password-stdin", "--json", "--data", "/data"];
        let made = run(self.command(&[&INIT[..], &more].concat()), Some(PASSWORD)).succeeds();
        made["apiKey"]["key"].as_str().unwrap().into()
    }
}

#[test]
fn in_an_empty_directory_it_serves_and_its_commands_reach_it() {
    let Some(bare) = Bare::new() else { return };
    let key = bare.init();
    let mut serving = bare.serve(&["--data", "/data"]);
    serving.caller(&key).get("/teams").ok();
    let address = serving.address.to_string();
    assert_eq!(bare.run(&["health", "--json", "--listen", &address]).succeeds()["status"], "ok");
    let shown = bare.run(&["config", "show", "--data", "/data", "--json"]).succeeds();
    assert!(shown.to_string().contains("127.0.0.1:0"), "not of the server: {shown}");
    let doctor = bare.run(&["doctor", "--data", "/data", "--json"]);
    assert!(doctor.stdout.contains(r#""errors":0"#), "{doctor:?}");
    bare.run(&["backup", "/backup", "--data", "/data", "--json"]).succeeds();

    // The text of a file is read by a process of its own.
    let anonymous = Caller::anonymous(serving.address, "acme");
    let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = anonymous.ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
    let ada = anonymous.with_bearer(session["token"].as_str().unwrap());
    let base = ada.post("/knowledge-bases", json!({"name": "Handbook"})).id();
    let upload = ada.in_org(&format!("/knowledge-bases/{base}/documents/upload?name=f"));
    let upload = ada.ask("POST", &upload).with("Content-Type", "application/pdf");
    upload.bytes(include_bytes!("../api/files/reportlab.pdf").as_slice()).send().ok();

    serving.signal("TERM");
    assert_eq!(serving.ends().0, Some(0));
    bare.run(&["check", "--data", "/data", "--json"]).succeeds();
    let restore = ["restore", "/backup", "--data", "/restored", "--json"];
    let with_key = ["--erasures", "/data", "--secret-key-file", "/data/secret.key"];
    bare.run(&[&restore[..], &with_key].concat()).succeeds();
    assert_eq!(bare.run(&["check", "--data", "/restored", "--json"]).succeeds()["sound"], true);
}

#[test]
fn in_an_empty_directory_the_demo_says_where_its_data_can_go() {
    let Some(bare) = Bare::new() else { return };
    let demo = ["demo", "--listen", "127.0.0.1:0", "--json"];
    bare.run(&demo).fails(1, "TMPDIR");
    let serving = Serving::of(bare.command(&[&demo[..], &["--data", "/demo"]].concat()));
    let key = serving.announced["apiKey"].as_str().unwrap();
    assert_eq!(serving.caller(key).get("/teams").items().len(), 1);
}

#[test]
fn without_proc_a_path_too_long_for_a_socket_is_said() {
    let Some(bare) = Bare::new() else { return };
    let data = format!("/{}", "d".repeat(120));
    let mut serving = bare.serve(&["--data", &data]);
    bare.run(&["config", "show", "--data", &data]).fails(1, "too long for a socket");
    serving.signal("TERM");
    let (code, _, log) = serving.ends();
    assert_eq!(code, Some(0));
    assert!(log.contains("too long for a socket where /proc is not mounted"), "{log}");
}

/// Answers queries of DNS: `served.test` is 127.0.0.1, and there is nothing else.
fn serve_names(at: &str) {
    const NAME: &[u8] = b"\x06served\x04test\0";
    let socket = UdpSocket::bind(at).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let query = &buffer[..length];
            let name = query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
            let (name, kind) = query[12..].split_at(name);
            let exists = name == NAME;
            let has_address = exists && kind[..2] == [0, 1];
            let status = if exists { 0x80 } else { 0x83 };
            let counts = [0, 1, 0, u8::from(has_address), 0, 0, 0, 0];
            let mut answer = [&query[..2], &[0x81, status], &counts, name, &kind[..4]].concat();
            if has_address {
                // A pointer to the name; type, class, seconds, length and the address.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            }
            let _ = socket.send_to(&answer, client);
        }
    });
}

#[test]
fn names_are_looked_up_in_files_and_dns_whatever_the_machine_has_modules_for() {
    let Some(bare) = Bare::new() else { return };
    let key = bare.init();
    let serving = bare.serve(&["--data", "/data"]);
    let SocketAddr::V4(address) = serving.address else { panic!("{}", serving.address) };
    let asks = |host: &str| {
        let url = format!("http://{host}:{}", address.port());
        let mut command = bare.command(&["whoami", "--json", "--url", &url]);
        command.env("ROADSTEAD_API_KEY", &key);
        run(command, None)
    };
    asks("127.0.0.1").succeeds();
    asks("served.test").fails(1, "served.test");

    let etc = bare.place.path().join("etc");
    fs::create_dir(&etc).unwrap();
    let write = |name: &str, text: &str| fs::write(etc.join(name), text).unwrap();
    write("hosts", "127.0.0.1 localhost listed.test\n");
    asks("listed.test").succeeds();
    asks("localhost").succeeds();

    // At an address of its own: the machine may have a server at 127.0.0.1.
    const SERVER: &str = "127.0.77.53";
    serve_names(&format!("{SERVER}:53"));
    write("resolv.conf", &format!("nameserver {SERVER}\n"));
    asks("served.test").succeeds();
    asks("other.test").fails(1, "other.test");
    // Of these it would find none, and open libraries of the machine.
    write("nsswitch.conf", "hosts: mdns4_minimal [NOTFOUND=return] resolve\npasswd: sss\n");
    asks("served.test").succeeds();
    asks("listed.test").succeeds();
}

#[test]
fn it_names_no_library() {
    let Some(program) = std::env::var_os("ROADSTEAD_STATIC") else { return };
    let bytes = fs::read(Path::new(&program)).unwrap();
    let number = |at: usize, length: usize| {
        bytes[at..at + length].iter().rev().fold(0, |all, byte| (all << 8) | usize::from(*byte))
    };
    const POSITION_INDEPENDENT: usize = 3;
    const INTERPRETER: usize = 3;
    assert_eq!(number(16, 2), POSITION_INDEPENDENT);
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let kinds: Vec<_> = (0..count).map(|n| number(headers + n * size, 4)).collect();
    assert!(!kinds.contains(&INTERPRETER), "{kinds:?}");
}

#[test]
fn scanners_find_in_it_which_packages_it_has() {
    let Some(bare) = Bare::new() else { return };
    let program = bare.place.path().join("roadstead");
    let section = bare.place.path().join("section");
    let dump = format!(".dep-v0={}", section.display());
    // To a copy that nobody wants.
    let copy = bare.place.path().join("copy");
    run_tool(Command::new("objcopy").arg("--dump-section").arg(dump).arg(&program).arg(&copy));
    let unpack =
        "import sys, zlib; print(zlib.decompress(open(sys.argv[1], 'rb').read()).decode())";
    let list = run_tool(Command::new("python3").args(["-c", unpack]).arg(&section));
    let list: Value = serde_json::from_str(&list).unwrap();
    let packages = list["packages"].as_array().unwrap();
    let of = |name: &str| packages.iter().find(|package| package["name"] == name);
    let root = of("roadstead").unwrap();
    assert_eq!((&root["root"], &root["source"]), (&json!(true), &json!("local")));
    let needs = root["dependencies"].as_array().unwrap().iter();
    let needs: Vec<_> =
        needs.map(|nth| &packages[nth.as_u64().unwrap() as usize]["name"]).collect();
    assert!(needs.contains(&&json!("redb")), "{needs:?}");
    assert_eq!(of("redb").unwrap()["source"], "crates.io");
    assert!(of("proptest").is_none(), "it is in tests alone");
}
