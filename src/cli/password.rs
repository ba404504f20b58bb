//! Reading a password: from the terminal, unseen, or from stdin.

use std::io::{self, BufRead as _, IsTerminal as _};

use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{self, QueueSelector};

use super::failure::Failure;
use super::hidden;
use crate::auth::passwords::Password;

/// Asks for a new password twice, in a terminal that does not show it.
///
/// # Errors
/// Usage, if stdin is no terminal, the password is not valid, or the two differ.
pub fn ask() -> Result<Password, Failure> {
    require_terminal(
        "the owner needs a password; give it on the first line of stdin, with --password-stdin, or \
         run this in a terminal",
    )?;
    let password = parse(&unseen("Password of the owner (12 characters or more): ")?)?;
    if unseen("The same password again: ")? != password.as_str() {
        return Err(Failure::Usage("the two passwords differ; nothing was created".into()));
    }
    Ok(password)
}

/// Returns the first line of stdin, without its end.
pub fn first_line() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::io("stdin"))?;
    let end = line.trim_end_matches('\n').trim_end_matches('\r').len();
    line.truncate(end);
    Ok(line)
}

/// Parses a password.
///
/// # Errors
/// Usage, if it is too short or too long.
pub fn parse(text: &str) -> Result<Password, Failure> {
    Password::parse(text).map_err(|problem| Failure::Usage(format!("the password {problem}")))
}

/// Asks a terminal, which does not show what is typed. Ctrl-C ends the process, as it does elsewhere,
/// once the terminal shows again what is typed.
pub fn unseen(prompt: &str) -> Result<String, Failure> {
    let line = hidden::unseen(prompt).map_err(Failure::io("the terminal"))?;
    let Some(line) = line else {
        // As the terminal does it: a script around this one stops, too.
        let _ = kill_current_process_group(Signal::INT);
        return Err(Failure::Failed("interrupted".into()));
    };
    Ok(line)
}

/// Refuses to ask where there is no terminal.
///
/// # Errors
/// Usage, with what else to do.
pub fn require_terminal(otherwise: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() { Ok(()) } else { Err(Failure::Usage(otherwise.into())) }
}

/// Whether there is somebody to ask: who sees stderr and types stdin.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a terminal. What was typed before is no answer.
pub fn answer(prompt: &str) -> Result<String, Failure> {
    termios::tcflush(io::stdin(), QueueSelector::IFlush)
        .map_err(|error| Failure::io("the terminal")(error.into()))?;
    hidden::ask(prompt).map_err(Failure::io("the terminal"))?;
    first_line()
}
