//! A PostgreSQL server for tests, started with Debian's programs, or those in the folder
//! `ROADSTEAD_TEST_POSTGRES`, as a user without rights. `pg_basebackup`, for standbys, must be of the
//! server's version.
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
use std::time::{Duration, Instant};

use roadstead::store::engine::postgres::PostgresUrl;
use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

/// The user `nobody`: root may not run a server.
const NOBODY: u32 = 65_534;

/// A running server with its own data directory.
pub struct PostgresServer {
    programs: PathBuf,
    place: TempDir,
    port: u16,
    settings: Vec<&'static str>,
    child: Option<Child>,
    /// Whether its directory goes with the process.
    is_static: bool,
}

/// The folder of the programs of the server: that of `ROADSTEAD_TEST_POSTGRES`, or of the newest one
/// that is installed. Where there is none, or it is `off`, that is said aloud.
fn programs() -> Option<PathBuf> {
    let chosen = std::env::var("ROADSTEAD_TEST_POSTGRES").ok().filter(|value| !value.is_empty());
    let why = match (chosen.as_deref(), installed()) {
        (Some("off"), _) => "ROADSTEAD_TEST_POSTGRES is off",
        (Some(folder), _) => {
            let folder = PathBuf::from(folder);
            assert!(folder.join("initdb").is_file(), "ROADSTEAD_TEST_POSTGRES has no initdb");
            return Some(folder);
        }
        (None, Some(folder)) => return Some(folder),
        (None, None) => "it is not installed (apt-get install postgresql)",
    };
    say(&format!("\n*** NOT TESTED against PostgreSQL: {why}. ***\n"));
    None
}

/// The folder of the newest programs of Debian's.
fn installed() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    found.retain(|folder| folder.join("initdb").is_file());
    found.sort();
    found.pop()
}

/// Says something aloud: the test runner holds back what goes through `eprintln!`, this it does not.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A server for all tests of a binary, which crashes lose; none if it is not installed.
pub fn shared() -> Option<&'static PostgresServer> {
    const SETTINGS: [&str; 4] = [
        "fsync=off",
        "max_connections=400",
        "max_pred_locks_per_transaction=1024",
        "max_pred_locks_per_relation=10000",
    ];
    static SERVER: LazyLock<Option<PostgresServer>> =
        LazyLock::new(|| PostgresServer::start_with(&SETTINGS, &[], true));
    SERVER.as_ref()
}

/// How long a server may take to start: after a crash it recovers.
const START: Duration = Duration::from_secs(120);

impl PostgresServer {
    /// Starts a server; none if it is not installed.
    pub fn start(settings: &[&'static str]) -> Option<Self> {
        Self::start_with(settings, &[], false)
    }

    /// Starts a server with its directory in `place`.
    pub fn start_in(place: TempDir, settings: &[&'static str]) -> Option<Self> {
        Self::start_at(place, settings, &[], false)
    }

    /// Starts a server with these files, by name and content, in its directory.
    pub fn start_with(
        settings: &[&'static str],
        files: &[(&str, &str)],
        is_static: bool,
    ) -> Option<Self> {
        Self::start_at(tempfile::tempdir().unwrap(), settings, files, is_static)
    }

    fn start_at(
        place: TempDir,
        settings: &[&'static str],
        files: &[(&str, &str)],
        is_static: bool,
    ) -> Option<Self> {
        let programs = programs()?;
        if getuid().is_root() {
            chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let settings = settings.to_vec();
        let mut server =
            PostgresServer { programs, place, port: 0, settings, child: None, is_static };
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
        // Not before, so that hardly anybody else has it by then.
        server.port = free_port();
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
        let own = self.programs.join(program);
        // A folder of a server alone has no clients: those of another version speak with it as well.
        let found = if own.is_file() { own } else { installed().unwrap_or_default().join(program) };
        self.command_at(&found, arguments)
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
        let begun = Instant::now();
        while !is_ready() {
            let log = || std::fs::read_to_string(self.place.path().join("log"));
            assert!(begun.elapsed() < START, "the server does not start: {:?}", log());
            // Each look is a process, which takes time from the server.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts a standby of this server, which it reaches at `port` and streams from as `name`. Its
    /// directory is beside that of this server.
    pub fn standby(&self, port: u16, name: &str, settings: &[&'static str]) -> Self {
        let mut standby = PostgresServer {
            programs: self.programs.clone(),
            place: TempDir::new_in(self.place.path().parent().unwrap()).unwrap(),
            port: 0,
            settings: settings.to_vec(),
            child: None,
            is_static: false,
        };
        if getuid().is_root() {
            chown(standby.place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let primary = format!("host=127.0.0.1 port={port} user=roadstead application_name={name}");
        let arguments = ["-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", &primary, "-D"];
        let mut copy = standby.command("pg_basebackup", arguments);
        let copied = copy.arg(standby.data()).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        standby.port = free_port();
        standby.resume();
        standby
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        let data = self.data();
        let mut promote = self.command("pg_ctl", ["promote", "-w", "-D"]);
        let promoted = promote.arg(data).output().unwrap();
        assert!(promoted.status.success(), "{}", String::from_utf8_lossy(&promoted.stderr));
    }

    /// Its processes: the first one, and those of its connections and tasks.
    fn processes(&self) -> Vec<Pid> {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let first: i32 = file.lines().next().unwrap().trim().parse().unwrap();
        let parent_of = |pid: i32| -> Option<i32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let children = pids.filter(|pid| parent_of(*pid) == Some(first));
        std::iter::once(first).chain(children).filter_map(Pid::from_raw).collect()
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, signal: Signal) {
        for process in self.processes() {
            // Some end meanwhile.
            let _ = kill_process(process, signal);
        }
    }

    /// Kills all its processes (SIGKILL).
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.crash();
    }

    /// Runs a statement and returns its result.
    pub fn sql(&self, statement: &str) -> String {
        self.sql_at(&self.url(), statement)
    }

    /// The same in the database at this URL.
    pub fn sql_at(&self, url: &str, statement: &str) -> String {
        let mut psql = self.command("psql", ["-AtX", "-v", "ON_ERROR_STOP=1", "-c", statement]);
        let output = psql.arg(url).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().into()
    }

    /// Creates another database, and returns its URL.
    pub fn database(&self, name: &str) -> String {
        self.sql(&format!("CREATE DATABASE {name}"));
        format!("postgres://roadstead@127.0.0.1:{}/{name}", self.port)
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends all its processes at once, as a crash does.
    pub fn crash(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
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

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A name for a schema that no other test uses.
pub fn new_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
}
