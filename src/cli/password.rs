//! Reading a password: from the terminal, unseen, or from stdin.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Stdin, Write as _};

use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    self, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex as Code, Termios,
};

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
    let wrong = || Failure::io("the terminal");
    let hidden = Hidden::new(io::stdin()).map_err(wrong())?;
    ask_for(prompt)?;
    let line = hidden.line();
    drop(hidden);
    let Some(line) = line.map_err(wrong())? else {
        let _ = io::stderr().write_all(b"\n");
        // As the terminal does it: a script around this one stops, too.
        let _ = kill_current_process_group(Signal::INT);
        return Err(Failure::Failed("interrupted".into()));
    };
    Ok(line)
}

/// Whether there is somebody to ask: who sees stderr and types stdin.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a terminal. What was typed before is no answer.
pub fn answer(prompt: &str) -> Result<String, Failure> {
    termios::tcflush(io::stdin(), QueueSelector::IFlush)
        .map_err(|error| Failure::io("the terminal")(error.into()))?;
    ask_for(prompt)?;
    first_line()
}

fn ask_for(prompt: &str) -> Result<(), Failure> {
    let mut stderr = io::stderr();
    let asked = stderr.write_all(visible::line(prompt).as_bytes()).and_then(|()| stderr.flush());
    asked.map_err(Failure::io("the terminal"))
}

/// A terminal that shows nothing of what is typed but the ends of lines, until this is dropped.
///
/// The keys that end a process would leave the terminal as it is: meanwhile they end the line, and
/// the process ends afterwards.
struct Hidden {
    terminal: Stdin,
    before: Termios,
}

impl Hidden {
    fn new(terminal: Stdin) -> io::Result<Self> {
        let before = termios::tcgetattr(&terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        hidden.local_modes.insert(LocalModes::ECHONL);
        for (end, key) in [(Code::VEOL, Code::VINTR), (Code::VEOL2, Code::VQUIT)] {
            hidden.special_codes[end] = before.special_codes[key];
        }
        // What was typed before the prompt stays: the other line may be there already.
        termios::tcsetattr(&terminal, OptionalActions::Drain, &hidden)?;
        Ok(Hidden { terminal, before })
    }

    /// Returns the line that is typed, without its end; `None` if it was interrupted.
    fn line(&self) -> io::Result<Option<String>> {
        // A key that does not exist has the code 0.
        let is = |byte: u8, key| byte != 0 && byte == self.before.special_codes[key];
        let mut line = Vec::new();
        for byte in self.terminal.lock().bytes() {
            match byte? {
                b'\n' => break,
                byte if is(byte, Code::VINTR) || is(byte, Code::VQUIT) => return Ok(None),
                // Nothing of a line, as elsewhere.
                byte if is(byte, Code::VSUSP) => {}
                byte => line.push(byte),
            }
        }
        let line =
            String::from_utf8(line).map_err(|_| io::Error::other("what was typed is not UTF-8"))?;
        Ok(Some(line.trim_end_matches('\r').to_string()))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&self.terminal, OptionalActions::Drain, &self.before);
    }
}
