//! The command line: one file per command (reference: command-line).
//!
//! Results go to stdout, as text or, with `--json`, as one JSON object; everything else goes to
//! stderr. Exit codes: 0 success, 1 failure or a damaged data directory, 2 invalid usage or a data
//! directory that cannot be opened. Commands for servers elsewhere are in [`client`].

mod acme_flags;
mod audit;
mod backup;
mod binding;
mod check;
mod client;
mod commands;
mod common;
mod completions;
mod config;
mod demo;
mod doctor;
mod export;
mod extract_text;
mod failure;
#[cfg(any(test, fuzzing))]
pub use client::files::fuzzing;
mod health;
mod hidden;
mod hints;
mod import;
mod init;
mod installation;
mod installation_admins;
mod licenses;
mod listening;
mod log_writer;
mod machine;
mod manual;
mod memory;
#[cfg(feature = "postgres")]
mod migrate;
mod oidc_flags;
mod open_files;
mod openapi;
mod otlp_flags;
mod output;
mod passphrase;
mod password;
mod private_file;
mod repair;
mod reset_password;
mod restore;
mod routes;
mod secrets;
mod serve;
#[cfg(feature = "postgres")]
mod serve_store;
mod settings;
mod setup_link;
mod shutdown;
#[cfg(feature = "postgres")]
mod store_check;
mod store_flag;
mod values;
mod variables;
mod version;

use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::app::Setting;

use failure::Failure;

/// One self-hosted binary in which a small team keeps its AI agents.
#[derive(Parser)]
#[command(
    name = "roadstead",
    version,
    about,
    long_about = "Roadstead keeps a team's AI agents: their versions, tools and environments, and \
                  the teams in which they get tasks, read mail, remember, and are woken.\n\n\
                  Try it:      roadstead demo\n\
                  Use it:      roadstead serve        (prints a link to set it up)\n\
                  Talk to it:  roadstead login\n\
                  See it all:  roadstead routes",
    after_help = "Every flag can also be given as an environment variable: ROADSTEAD_ and its \
                  name in capitals, with underscores (--log-format is ROADSTEAD_LOG_FORMAT). The \
                  flag wins.\n\nROADSTEAD_SECRET_KEY, or the systemd credential secret.key, holds \
                  the installation's key outside of the data directory: 64 hex digits, as created \
                  by: openssl rand -hex 32"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What some commands are given besides their flags.
struct Given {
    /// Those of `serve`, with their origins.
    settings: Vec<Setting>,
    command_line: fn() -> clap::Command,
}

/// Declares the commands, of which each has a method `run`: of what is [`Given`] it takes what is behind
/// `with`.
macro_rules! all_commands {
    ($($(#[$when:meta])* $name:ident($command:ty) $(with $given:ident)?,)*) => {
        #[derive(Subcommand)]
        enum Command { $($(#[$when])* $name($command),)* }

        impl Command {
            fn run(self, given: Given) -> Result<(), Failure> {
                match self {
                    $($(#[$when])* Command::$name(command) => command.run($(given.$given)?),)*
                }
            }
        }
    };
}

all_commands! {
    Serve(serve::Serve) with settings,
    Init(init::Init),
    Demo(demo::Demo),
    Audit(audit::Audit),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Check(check::Check),
    Repair(repair::Repair),
    Doctor(doctor::Doctor) with settings,
    Health(health::Health),
    Config(config::Config) with settings,
    Export(export::Export),
    Import(import::Import),
    #[cfg(feature = "postgres")]
    Migrate(migrate::Migrate),
    ResetPassword(reset_password::ResetPassword),
    InstallationAdmins(installation_admins::InstallationAdmins),
    ExtractText(extract_text::ExtractText),
    Routes(routes::Routes),
    Openapi(openapi::OpenApi),
    Secrets(secrets::Secrets),
    SetupLink(setup_link::SetupLink),
    #[cfg(feature = "postgres")]
    StoreCheck(store_check::StoreCheck),
    Login(client::login::Login),
    Logout(client::logout::Logout),
    Profiles(client::profile_commands::ProfileCommands),
    Whoami(client::whoami::WhoAmI),
    Prompt(client::prompt::Prompt),
    Task(client::task::Task),
    Agent(client::agent::Agent),
    Tool(client::tool::Tool),
    Schedule(client::schedule::Schedule),
    Message(client::message::Message),
    Activity(client::activity::Activity),
    Wakes(client::wakes::Wakes),
    Usage(client::usage::Usage),
    Prices(client::prices::Prices),
    Deploy(client::deploy::Deploy),
    Approve(client::decide::Approve),
    Deny(client::decide::Deny),
    Logs(client::logs::Logs),
    Pull(client::files::Pull),
    Plan(client::files::ShowPlan),
    Apply(client::files::Apply),
    Completions(completions::Completions) with command_line,
    Man(manual::Manual) with command_line,
    Licenses(licenses::Licenses),
    Version(version::Version),
}

/// Returns the command line. Flags that do not name their variable have it too (reference:
/// command-line, "Common flags"), and every switch takes 1, yes or on from it.
fn command() -> clap::Command {
    with_variables(Cli::command())
}

fn with_variables(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|flag| {
        let Some(long) = flag.get_long() else { return flag };
        let variable = variables::of_flag(long);
        // A variable says yes in more ways than a flag: 1, yes, on.
        let is_switch = matches!(flag.get_action(), ArgAction::SetTrue);
        let flag = if is_switch { flag.value_parser(BoolishValueParser::new()) } else { flag };
        if flag.get_env().is_some() { flag } else { flag.env(variable).hide_env(true) }
    });
    command.mut_subcommands(with_variables)
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    memory::disable_core_dumps();
    memory::use_small_pages();
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| {
        let settings = settings::given(&matches);
        Ok((Cli::from_arg_matches(&matches)?, settings, matches))
    });
    // What a child process says on stderr is for its parent.
    if !matches!(&parsed, Ok((Cli { command: Command::Check(check) }, ..)) if check.is_child()) {
        variables::warn_of_misspelt(&command);
    }
    let (cli, settings, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
            let empty = variables::of_empty(&command, &variables::given());
            if let Some(why) = empty.filter(|_| is_missing) {
                output::error(&why);
                return ExitCode::from(2);
            }
            return refuse_usage(&hints::with_hint(error));
        }
    };
    let done = variables::require_values(&command, &matches)
        .and_then(|()| cli.command.run(Given { settings, command_line: self::command }));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            output::error(&message);
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            output::error(&message);
            ExitCode::from(2)
        }
    }
}

/// Prints help and version as clap does, and what is wrong with the arguments, which others may have
/// written, as everything else.
fn refuse_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    output::lines(&error.render().to_string());
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    /// Every flag of a command and of those below it, with its command.
    fn flags(command: &clap::Command) -> Vec<(String, &clap::Arg)> {
        let is_own = |flag: &&clap::Arg| {
            !flag.is_hide_set() && !["help", "version"].contains(&flag.get_id().as_str())
        };
        let own = command.get_arguments().filter(is_own);
        let own = own.map(|flag| (command.get_name().to_string(), flag));
        own.chain(command.get_subcommands().filter(|one| !one.is_hide_set()).flat_map(flags))
            .collect()
    }

    #[test]
    fn every_flag_has_the_variable_of_its_name() {
        let cli = super::command();
        for (command, flag) in flags(&cli) {
            let Some(long) = flag.get_long() else { continue };
            let variable = format!("ROADSTEAD_{}", long.to_uppercase().replace('-', "_"));
            let own = flag.get_env().map(|name| name.to_string_lossy().into_owned());
            assert_eq!(own, Some(variable), "{command} --{long}");
        }
    }

    #[test]
    fn every_switch_takes_more_than_true_from_its_variable() {
        let cli = super::command();
        for (command, flag) in flags(&cli) {
            if flag.get_long().is_some() && matches!(flag.get_action(), clap::ArgAction::SetTrue) {
                let values = flag.get_value_parser().possible_values().into_iter().flatten();
                let takes_1 = values.into_iter().any(|value| value.get_name() == "1");
                assert!(takes_1, "{command} {flag}");
            }
        }
    }
}
