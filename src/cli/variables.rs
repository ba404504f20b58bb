//! The environment variables of flags: those that are empty or misspelt, and the one that a refused
//! value comes from (reference: command-line, "Common flags").

use std::env;
use std::ffi::OsStr;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::failure::Failure;
use super::output;
use crate::base::nearest;

const PREFIX: &str = "ROADSTEAD_";

/// Those that belong to no flag, since clap's help would print their values.
const OF_NO_FLAG: [&str; 3] =
    ["ROADSTEAD_API_KEY", "ROADSTEAD_SECRET_KEY", "ROADSTEAD_NEW_SECRET_KEY"];

/// Returns the arguments of this process.
pub fn given() -> Vec<String> {
    env::args_os().map(|given| given.to_string_lossy().into_owned()).collect()
}

/// Returns the variable of a flag.
pub fn of_flag(long: &str) -> String {
    format!("{PREFIX}{}", long.to_uppercase().replace('-', "_"))
}

/// Refuses a variable of the command that is set and empty. What should have filled it did not, and
/// the command would do something else than was meant.
///
/// # Errors
/// Usage, naming the variable.
pub fn require_values(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, inner);
    }
    for flag in command.get_arguments() {
        let id = flag.get_id().as_str();
        let is_of_variable = matches.value_source(id) == Some(ValueSource::EnvVariable);
        let Some(variable) = flag.get_env().filter(|_| is_of_variable) else { continue };
        let mut values = matches.get_raw(id).into_iter().flatten();
        if values.all(OsStr::is_empty) {
            return Err(Failure::Usage(empty(&variable.to_string_lossy())));
        }
    }
    Ok(())
}

/// Returns why a command line is refused if it is for an empty variable: clap sees that another flag is
/// missing, and not why.
pub fn of_empty(command: &Command, given: &[String]) -> Option<String> {
    let mut command = command;
    for name in given.iter().skip(1) {
        command = command.find_subcommand(name).unwrap_or(command);
    }
    let is_given = |long: &str| {
        given.iter().filter_map(|given| given.strip_prefix("--")).any(|given| {
            given.strip_prefix(long).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    let is_empty = |name: &&OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
    let open = command.get_arguments().filter(|flag| !flag.get_long().is_some_and(is_given));
    let found = open.filter_map(|flag| flag.get_env()).find(is_empty)?;
    Some(empty(&found.to_string_lossy()))
}

fn empty(variable: &str) -> String {
    format!("the variable {variable} is empty; set it to a value, or unset it")
}

/// Says where a refused value of a flag comes from, if that is a variable. `flag` is how clap writes
/// it: `--rate-limit <N>`.
pub fn origin(flag: &str, value: &str, given: &[String]) -> Option<String> {
    let long = flag.split([' ', '=', '[']).next().unwrap_or_default();
    let name = long.strip_prefix("--")?;
    let is_given = |argument: &String| {
        let rest = argument.strip_prefix(long);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    if given.iter().any(is_given) {
        return None;
    }
    let variable = of_flag(name);
    let all = env::var(&variable).ok()?;
    if all.is_empty() {
        return Some(empty(&variable));
    }
    let is_here = all == value || all.split(',').any(|part| part == value);
    is_here.then(|| format!("the value is that of the variable {variable}"))
}

/// Warns of variables that no command knows and that are nearly one that a command does.
pub fn warn_of_misspelt(command: &Command) {
    let known = known(command);
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        if let Some(near) = misspelt(name, &known) {
            output::status(&format!(
                "roadstead: the variable {name} is not known and ignored; did you mean {near}?"
            ));
        }
    }
}

/// What others call a place or an address in the names of their variables.
const SUFFIXES: [&str; 6] = ["_DIR", "_DIRECTORY", "_PATH", "_FILE", "_ADDR", "_ADDRESS"];

/// Returns the variable that this is a misspelling of, if it is one: also in small letters, with another
/// prefix that is nearly ours, or with a word more.
fn misspelt<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    if known.iter().any(|known| known == name) {
        return None;
    }
    let upper = name.to_uppercase();
    let without = SUFFIXES.iter().find_map(|suffix| upper.strip_suffix(suffix));
    let is_it = |known: &&String| **known == upper || Some(known.as_str()) == without;
    if let Some(found) = known.iter().find(is_it) {
        return Some(found);
    }
    if let Some((prefix, rest)) = upper.split_once('_')
        && is_one_letter_off(prefix, PREFIX.trim_end_matches('_'))
        && let Some(found) = known.iter().find(|known| known.strip_prefix(PREFIX) == Some(rest))
    {
        return Some(found);
    }
    let rest = name.strip_prefix(PREFIX)?;
    let rests = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
    let near = nearest(rest, rests)?;
    known.iter().map(String::as_str).find(|known| known.strip_prefix(PREFIX) == Some(near))
}

/// Whether one letter was forgotten, added, or typed for another.
fn is_one_letter_off(text: &str, meant: &str) -> bool {
    let (text, meant) = (text.as_bytes(), meant.as_bytes());
    let same = text.iter().zip(meant).take_while(|(a, b)| a == b).count();
    let (text, meant) = (&text[same..], &meant[same..]);
    let ends = text.iter().rev().zip(meant.iter().rev()).take_while(|(a, b)| a == b).count();
    text.len().max(meant.len()) - ends == 1
}

fn known(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|flag| flag.get_env());
    let own = own.map(|name| name.to_string_lossy().into_owned());
    let below = command.get_subcommands().flat_map(known);
    own.chain(below).chain(OF_NO_FLAG.map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_nearly_a_known_one_is_misspelt_and_others_are_somebody_elses() {
        let known = known(&crate::cli::command());
        for (name, near) in [
            ("ROADSTEAD_PUBLC_URL", Some("ROADSTEAD_PUBLIC_URL")),
            ("ROADSTEAD_PUBLICURL", Some("ROADSTEAD_PUBLIC_URL")),
            ("ROADSTEAD_APIKEY", Some("ROADSTEAD_API_KEY")),
            ("ROADSTEAD_TRUSTED_PROXIES", Some("ROADSTEAD_TRUSTED_PROXY")),
            ("ROADSTEAD_DATA_DIR", Some("ROADSTEAD_DATA")),
            ("ROADSTEAD_LISTEN_ADDR", Some("ROADSTEAD_LISTEN")),
            ("ROADSTED_PUBLIC_URL", Some("ROADSTEAD_PUBLIC_URL")),
            ("roadstead_public_url", Some("ROADSTEAD_PUBLIC_URL")),
            ("ROADSTEAD_PUBLIC_URL", None),
            ("ROADSTEAD_API_KEY", None),
            // Kubernetes sets these for a service of this name, and compose files have their own.
            ("ROADSTEAD_PORT", None),
            ("ROADSTEAD_PORT_7420_TCP", None),
            ("ROADSTEAD_SERVICE_HOST", None),
            ("ROADSTEAD_VERSION", None),
            ("ROADSTEAD_IMAGE", None),
            ("PUBLIC_URL", None),
            ("HOMESTEAD_URL", None),
            ("ROADSTER_KEY", None),
        ] {
            assert_eq!(misspelt(name, &known), near, "{name}");
        }
    }

    #[test]
    fn the_value_of_a_flag_does_not_come_from_a_variable() {
        let given = ["serve".to_string(), "--rate-limit=x".to_string()];
        assert_eq!(origin("--rate-limit <N>", "x", &given), None);
        assert_eq!(origin("<FILE>", "x", &[]), None);
    }
}
