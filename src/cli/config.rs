//! `roadstead config`

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::Failure;
use super::installation::asked;
use super::output;
use super::serve::Serve;
use crate::app::control::{ControlResponse, Request};
use crate::app::{Setting, SettingSource};

/// Show the settings of the server
#[derive(Args)]
pub struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    Show(Show),
}

/// Print every setting, its value, and whether a flag, a variable or the default gave it
#[derive(Args)]
#[command(
    after_help = "While the server of the data directory runs, these are the settings it was \
                        started with; otherwise those that `serve` would have with the same flags \
                        and variables. Secrets are not shown."
)]
struct Show {
    #[command(flatten)]
    serve: Serve,
}

impl Config {
    pub(super) fn run(self, given: Vec<Setting>) -> Result<(), Failure> {
        let ConfigCommand::Show(Show { serve }) = self.command;
        let dir = serve.common.data_dir();
        dir.require_visible()?;
        let expected = |reply| match reply {
            ControlResponse::Status(status) => Some(status.startup.settings),
            _ => None,
        };
        let of_server =
            if dir.exists() { asked(&dir, &Request::Status, &mut |_| {}, expected)? } else { None };
        let running = of_server.is_some();
        let settings = of_server.unwrap_or(given);
        let value = json!({"running": running, "settings": settings});
        output::print(serve.common.json, &value, text(&settings, running))
    }
}

fn text(settings: &[Setting], running: bool) -> String {
    let mut text = String::from(if running {
        "The running server was started with:\n"
    } else {
        "No server runs; `serve` would use:\n"
    });
    let width = settings.iter().map(|setting| setting.flag.len()).max().unwrap_or_default();
    for Setting { flag, variable, value, source } in settings {
        let value = value.as_deref().unwrap_or("-");
        let source = match (source, variable) {
            (SettingSource::Flag, _) => "flag",
            (SettingSource::Variable, Some(variable)) => variable,
            (SettingSource::Variable, None) => "variable",
            (SettingSource::Default, _) => "default",
            (SettingSource::Unset, _) => "not set",
        };
        text.push_str(&format!("{flag:width$}  {value}  ({source})\n"));
    }
    text
}
