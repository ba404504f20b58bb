//! The settings of `serve` as they were given: their values, and where each comes from.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args as _, Command};

use super::serve::Serve;
use crate::app::{Setting, SettingSource};

/// What is shown of a secret.
const HIDDEN: &str = "(hidden)";

/// Returns the settings of `serve` among the arguments of a command that takes them; none of others.
pub fn given(matches: &ArgMatches) -> Vec<Setting> {
    let mut deepest = matches;
    while let Some((_, inner)) = deepest.subcommand() {
        deepest = inner;
    }
    let serve = Serve::augment_args(Command::new("serve"));
    let settings = serve.get_arguments().filter_map(|argument| setting(argument, deepest));
    settings.collect()
}

fn setting(argument: &Arg, matches: &ArgMatches) -> Option<Setting> {
    let id = argument.get_id().as_str();
    let long = argument.get_long()?;
    // Other commands do not have it, and do not use the settings.
    matches.try_contains_id(id).ok()?;
    let source = matches.value_source(id);
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    let values = matches.try_get_raw(id).ok().flatten();
    let value = values.map(|values| values.map(text).collect::<Vec<_>>().join(","));
    let value = value.filter(|value| !value.is_empty());
    let source = match (source, &value) {
        (Some(ValueSource::CommandLine), _) => SettingSource::Flag,
        (Some(ValueSource::EnvVariable), _) => SettingSource::Variable,
        (Some(_), Some(_)) => SettingSource::Default,
        _ => SettingSource::Unset,
    };
    let is_secret = argument.is_hide_env_values_set();
    Some(Setting {
        flag: format!("--{long}"),
        variable: argument.get_env().map(text),
        value: value.map(|value| if is_secret { HIDDEN.into() } else { value }),
        source,
    })
}
