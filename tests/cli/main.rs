//! The binary: commands, output, exit codes, and its data after it was killed
//! (reference: command-line).
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
mod dice;
#[allow(dead_code)] // A part of each is enough here.
#[path = "../console/html.rs"]
mod html;
#[allow(dead_code)] // A part of each is enough here.
#[path = "../tools/optional.rs"]
mod optional;
mod process;
#[path = "../api/receiver.rs"]
mod receiver;
mod search;
mod shelf;
#[allow(dead_code)] // A part of each is enough here.
#[path = "../console/visitor.rs"]
mod visitor;
#[path = "../api/sites.rs"]
mod sites;

mod acme;
mod audit;
mod backup;
mod between;
mod browser_login;
mod bounds;
mod commands;
mod comparing;
mod crash;
mod damaged_backup;
mod demo;
mod desk;
mod deploying;
mod deploying_under_load;
mod directory;
mod disk_full;
mod doctor;
mod doomed;
mod extracting;
mod input_files;
mod keys;
mod killed;
mod log;
mod logging_in;
mod moving;
mod reset_password;
mod outgoing;
mod own_tls;
mod pipelines;
mod plain_changes;
mod plain_files;
mod prompts;
mod repair;
mod pulled;
mod rotation;
mod schedules;
mod secrets;
mod serving;
mod shown;
mod spans;
mod tags;
mod teamwork;
mod terminal;
mod tls;
mod trying;
mod waking_commands;
