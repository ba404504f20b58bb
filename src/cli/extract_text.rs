//! `roadstead extract-text`: reads a file for the server, in a process of its own.
//!
//! The libraries for some formats panic, exhaust memory or never return on some files. This process
//! has little memory and time, writes no files and ends with the server.

use std::io::{Read, Write};

use clap::Args;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::failure::Failure;
use crate::resources::knowledge_bases::{Format, MAX_FILE_BYTES, child_output};

/// Memory of the process, besides the program itself: real files of 10 MiB take less than half.
const MEMORY_BYTES: u64 = 256 * 1024 * 1024;

/// Processor time: the largest real files take a few seconds.
const CPU_SECS: u64 = 10;

/// How much lower its priority is than the server's.
const NICENESS: i32 = 10;

/// Deeply nested files make the libraries recurse.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// Extract the text of a file from standard input; used by the server for its child processes
#[derive(Args)]
#[command(hide = true)]
pub struct ExtractText {
    /// The format of the file
    #[arg(long)]
    format: String,
}

impl ExtractText {
    pub(super) fn run(self) -> Result<(), Failure> {
        let unknown = || Failure::Usage(format!("there is no format {}", self.format));
        let format = Format::named(&self.format).ok_or_else(unknown)?;
        limit();
        let mut bytes = Vec::new();
        let mut stdin = std::io::stdin().take(MAX_FILE_BYTES as u64 + 1);
        stdin.read_to_end(&mut bytes).map_err(Failure::io("stdin"))?;
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let extracting = thread.spawn(move || child_output(format, &bytes));
        let extracting = extracting.map_err(Failure::io("a thread"))?;
        let output =
            extracting.join().map_err(|_| Failure::Failed("the file is damaged".into()))?;
        std::io::stdout().write_all(&output).map_err(Failure::io("stdout"))
    }
}

/// Limits this process. What the system does not know is left out: the server ends it at its deadline
/// in any case.
fn limit() {
    let to = |resource, limit| {
        let _ = setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) });
    };
    to(Resource::Data, MEMORY_BYTES);
    to(Resource::Cpu, CPU_SECS);
    to(Resource::Fsize, 0);
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, nice, set_parent_process_death_signal};
        let _ = nice(NICENESS);
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}
