//! The groups of the page of today.

use crate::base::Time;

/// Rows of a group.
pub const ROWS: &str = "5";

/// Things of one kind that wait.
pub struct Group {
    pub title: &'static str,
    pub icon: &'static str,
    pub kind: &'static str,
    pub rows: Vec<Row>,
    /// Whether there are more than are shown.
    pub is_cut: bool,
    /// Where all of them are; empty if no page has them.
    pub all: String,
}

/// One thing that waits.
pub struct Row {
    pub title: String,
    pub path: String,
    pub detail: String,
    pub at: Time,
}
