//! `roadstead completions`

use std::io::{self, Write as _};

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::failure::Failure;

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "Example: roadstead completions bash > \
                        /usr/share/bash-completion/completions/roadstead")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,

    /// The data directory, which this command does not use
    #[arg(long, hide = true, env = "ROADSTEAD_DATA")]
    data: Option<String>,
}

impl Completions {
    pub(super) fn run(self, command_line: fn() -> Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut command_line(), "roadstead", &mut script);
        match io::stdout().write_all(&script) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::io("stdout")(error))
            }
            _ => Ok(()),
        }
    }
}
