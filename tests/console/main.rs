//! The web console as people use it: pages and forms over sockets, and in a real browser.

#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
mod accessibility;
mod acting;
mod again;
mod agents;
mod asking_again;
mod audit;
mod budgets;
mod by_links;
mod called;
mod conflicts;
mod answers;
mod approving;
mod crawl;
mod editing;
mod changes;
mod choosing;
mod comparing;
mod completing;
mod day;
mod deciding;
mod filled;
mod filters;
mod finding;
mod first_hour;
mod first_steps;
mod following;
mod forms;
mod guarded;
mod html;
mod importing;
mod journeys;
mod keyboard;
mod labels;
mod lists;
mod live;
mod mail_server;
mod mending;
mod naming;
#[allow(dead_code)] // A part of it is enough here.
#[path = "../tools/optional.rs"]
mod optional;
mod offered;
#[path = "../api/oidc_provider.rs"]
mod oidc_provider;
mod outside;
mod paper;
mod pictures;
mod pictures_of_names;
mod readable;
mod reading;
#[path = "../api/receiver.rs"]
mod receiver;
mod restricted;
mod people;
mod png;
mod prompts;
mod protected_labels;
mod provider_journey;
mod provider_rules;
mod provider_sign_in;
mod provider_sign_out;
mod second_factor;
mod server;
mod operations;
mod sessions;
mod strangers;
mod streams;
mod settings;
#[path = "../api/sites.rs"]
mod sites;
mod system;
mod tags;
mod teams;
mod together;
mod weight;
mod work;
mod trying;
mod visitor;
mod uploads;
mod webdriver;
mod whole;
mod wide;
mod writing;
