//! The page before something is removed: what goes, and what breaks.

use askama::Template;

use crate::base::{Error, Result};
use crate::console::frame::{Frame, render};
use crate::console::reply::Reply;

/// A question with the form that answers it.
#[derive(Template)]
#[template(path = "confirm.html")]
pub struct Confirm {
    pub frame: Frame,
    /// What goes, and what breaks.
    pub consequences: String,
    /// The button.
    pub label: String,
    /// The page to return to.
    pub back: String,
}

impl Confirm {
    /// Shows it, with the error of an attempt.
    pub fn show(mut self, error: Option<&Error>) -> Result<Reply> {
        self.frame = self.frame.failed(error);
        render(self.frame.status, &self)
    }
}
