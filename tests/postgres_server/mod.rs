//! A PostgreSQL server for tests, started with Debian's programs as a user without rights.
#![allow(dead_code)] // Not every test binary uses all of it.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use roadstead::store::engine::postgres::PostgresUrl;
use rustix::process::getuid;

/// The user `nobody`: root may not run a server.
const NOBODY: u32 = 65_534;

/// A running server with its own data directory.
pub struct PostgresServer {
    programs: PathBuf,
    place: tempfile::TempDir,
    port: u16,
    settings: Vec<&'static str>,
    child: Option<Child>,
    /// Whether its directory goes with the process.
    is_static: bool,
}

/// The folder of the newest server that is installed. Where there is none, or it is left out, that
/// is said aloud.
fn programs() -> Option<PathBuf> {
    let is_off = std::env::var("ROADSTEAD_TEST_POSTGRES").is_ok_and(|value| value == "off");
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    found.retain(|folder| folder.join("initdb").is_file());
    found.sort();
    let why = match found.pop() {
        _ if is_off => "ROADSTEAD_TEST_POSTGRES is off",
        Some(folder) => return Some(folder),
        None => "it is not installed (apt-get install postgresql)",
    };
    say(&format!("\n*** NOT TESTED against PostgreSQL: {why}. ***\n"));
    None
}

/// Says something aloud: the test runner holds back what goes through `eprintln!`, this it does not.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A server for all tests of a binary, which crashes lose; none if it is not installed.
pub fn shared() -> Option<&'static PostgresServer> {
    const SETTINGS: [&str; 2] = ["fsync=off", "max_connections=400"];
    static SERVER: LazyLock<Option<PostgresServer>> =
        LazyLock::new(|| PostgresServer::start_with(&SETTINGS, &[], true));
    SERVER.as_ref()
}

impl PostgresServer {
    /// Starts a server; none if it is not installed.
    pub fn start(settings: &[&'static str]) -> Option<Self> {
        Self::start_with(settings, &[], false)
    }

    /// Starts a server with these files, by name and content, in its directory.
    pub fn start_with(
        settings: &[&'static str],
        files: &[(&str, &str)],
        is_static: bool,
    ) -> Option<Self> {
        let programs = programs()?;
        let place = tempfile::tempdir().unwrap();
        if getuid().is_root() {
            chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let settings = settings.to_vec();
        let mut server = PostgresServer { programs, place, port, settings, child: None, is_static };
        let data = server.data();
        let made = server
            .command("initdb", ["-A", "trust", "-U", "roadstead", "--no-sync", "-E", "UTF8", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for (name, content) in files {
            let path = data.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            if getuid().is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        server.resume();
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    fn command<S: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        self.command_at(&self.programs.join(program), arguments)
    }

    fn command_at<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.place.path()).stdin(Stdio::null());
        if getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Starts the server again.
    pub fn resume(&mut self) {
        let place = self.place.path().display().to_string();
        // Statics are not dropped, so that the server has to notice when this process ends: the
        // input of the shell is closed then.
        let script =
            "\"$@\" & server=$!; cat > /dev/null; kill -QUIT $server; wait $server; $AT_END";
        let mut command = self.command_at(Path::new("/bin/sh"), ["-c", script, "sh"]);
        let at_end = if self.is_static { format!("rm -rf {place}") } else { "true".into() };
        command.env("AT_END", at_end);
        command.arg(self.programs.join("postgres")).arg("-D").arg(self.data());
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={}", self.port),
            &format!("unix_socket_directories={place}"),
        ] {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let log = std::fs::File::create(Path::new(&place).join("log")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        let port = self.port.to_string();
        let is_ready = || {
            let mut ready = self.command("pg_isready", ["-q", "-h", "127.0.0.1", "-p", &port]);
            ready.status().unwrap().success()
        };
        let mut tries = 0;
        while !is_ready() {
            tries += 1;
            let log = || std::fs::read_to_string(self.place.path().join("log"));
            assert!(tries < 2000, "the server does not start: {:?}", log());
            std::thread::yield_now();
        }
    }

    /// Ends all its processes at once, as a crash does.
    pub fn crash(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its only database.
    pub fn url(&self) -> String {
        format!("postgres://roadstead@127.0.0.1:{}/postgres", self.port)
    }

    /// The same, parsed.
    pub fn parsed_url(&self) -> PostgresUrl {
        PostgresUrl::parse(&self.url()).unwrap()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.crash();
    }
}

/// A name for a schema that no other test uses.
pub fn new_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
}
