//! The cases: each line of the table, and what wakes nobody though something near it does.

mod held;
mod mail;
mod quiet;
mod tasks;

use super::Case;
use super::stage::Stage;

type Lines = &'static [(&'static str, &'static str)];

const fn case(request: &'static str, lines: Lines, run: fn(&mut Stage<'_>)) -> Case {
    Case { request, lines, has_clock: false, run }
}

/// One in which time passes.
const fn timed(request: &'static str, lines: Lines, run: fn(&mut Stage<'_>)) -> Case {
    Case { request, lines, has_clock: true, run }
}

const MASTER: &str = "Scrum Master";
const OR_MASTER: &str = "Assignee, else Scrum Master";

/// All of them.
pub const CASES: &[&[Case]] = &[
    tasks::CREATED,
    tasks::CHANGED,
    tasks::RELEASED,
    mail::SENT,
    mail::DECIDED,
    held::HELD,
    held::BUDGETS,
    quiet::PAUSED,
    quiet::LEFT,
    quiet::REPORTED,
    quiet::MANAGED,
];
