//! Reading a password: from the terminal, unseen, or from stdin.

use std::io::{self, BufRead as _, IsTerminal as _, Stdin, Write as _};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};

use super::failure::Failure;
use crate::auth::passwords::Password;
use crate::base::visible;

/// Asks for a new password twice, in a terminal that does not show it.
///
/// # Errors
/// Usage, if stdin is no terminal, the password is not valid, or the two differ.
pub fn ask() -> Result<Password, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "the owner needs a password; give it on the first line of stdin, with \
             --password-stdin, or run this in a terminal"
                .into(),
        ));
    }
    let password = parse(&unseen("Password of the owner (12 characters or more): ")?)?;
    if unseen("The same password again: ")? != password.as_str() {
        return Err(Failure::Usage("the two passwords differ; nothing was created".into()));
    }
    Ok(password)
}

/// Returns the first line of stdin, without its end.
pub fn first_line() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
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

/// Asks a terminal, which does not show what is typed.
pub fn unseen(prompt: &str) -> Result<String, Failure> {
    let _hidden = Hidden::new(io::stdin())?;
    answer(prompt)
}

/// Asks a terminal.
pub fn answer(prompt: &str) -> Result<String, Failure> {
    let mut stderr = io::stderr();
    stderr.write_all(visible::line(prompt).as_bytes())?;
    stderr.flush()?;
    first_line()
}

/// A terminal that shows nothing of what is typed but the ends of lines, until this is dropped.
struct Hidden {
    terminal: Stdin,
    before: Termios,
}

impl Hidden {
    fn new(terminal: Stdin) -> io::Result<Self> {
        let before = termios::tcgetattr(&terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        // What was typed before the prompt stays: the other line may be there already.
        termios::tcsetattr(&terminal, OptionalActions::Drain, &hidden)?;
        Ok(Hidden { terminal, before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&self.terminal, OptionalActions::Drain, &self.before);
    }
}
