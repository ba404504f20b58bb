//! Commands that talk to a server, as any other client of its API (reference: command-line, "As a
//! client").
//!
//! They use the public API only, by [`api::Api`]; which server and which credential say the flags
//! ([`flags`]) and the profiles ([`profiles`]). A credential is never an argument, and no message
//! has one.

pub(super) mod activity;
pub(super) mod agent;
mod api;
mod artifact_name;
mod assignments;
mod backoff;
mod bounded;
mod device_login;
pub(super) mod decide;
pub(super) mod deploy;
mod events;
pub(super) mod files;
mod flags;
mod listed;
pub(super) mod login;
pub(super) mod logout;
pub(super) mod logs;
mod lookup;
pub(super) mod message;
pub(super) mod prices;
pub(super) mod profile_commands;
mod profiles;
pub(super) mod prompt;
mod prompt_file;
mod refusal;
mod stop;
mod table;
mod tags;
pub(super) mod schedule;
pub(super) mod task;
mod text_file;
mod toml_json;
pub(super) mod tool;
pub(super) mod usage;
pub(super) mod wakes;
pub(super) mod whoami;
