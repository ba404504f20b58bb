//! The web console: pages and forms for people, an adapter of [`api::execute`](crate::api::execute)
//! beside HTTP's own.
//!
//! A page reads and changes only what routes of the API answer to its visitor ([`api`](self::api)),
//! so that rights, audit and conditions are the API's. This layer knows no record of the product.
//! Each page is one file in `pages/` with its templates; `docs/CONTRIBUTING.md`, "Adding a page",
//! says how. Everything works without scripts.

mod actions;
mod against;
mod ago;
mod api;
mod assets;
mod budget;
mod chart;
mod check;
mod choice;
mod chooser;
mod compress;
mod conflict;
mod cookies;
mod current;
mod diff;
mod dispatch;
mod errors;
mod escaper;
mod field;
mod fields;
mod filters;
mod first_visit;
mod flash;
mod form;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod guard;
mod headers;
mod heatmap;
mod hits;
mod markdown;
mod measures;
mod multipart;
mod names;
mod page;
mod passage;
mod pages;
mod paths;
mod paused;
mod people;
mod place;
mod problems;
mod reading;
mod reply;
mod roster;
mod runtimes;
mod sections;
mod site;
mod strict;
mod tags;
mod team;
mod texts;
mod things;
mod usage;
mod visit;

pub use first_visit::FirstVisit;
pub use site::Console;

#[cfg(test)]
mod tests;
