//! What is shown once, in the answer to a form, and never again: a key, a link, a secret.

use askama::Template;
use hyper::StatusCode;

use crate::base::Result;
use crate::console::frame::{Frame, render};
use crate::console::reply::Reply;

/// A secret with what to do about it.
#[derive(Template)]
#[template(path = "shown_once.html")]
pub struct ShownOnce {
    pub frame: Frame,
    pub lead: String,
    pub secret: String,
    /// A command that uses it; empty if there is none.
    pub command: String,
    /// The page to go on to, and its label.
    pub next: (String, &'static str),
}

impl ShownOnce {
    /// Shows it.
    ///
    /// # Errors
    /// If the template fails.
    pub fn show(&self) -> Result<Reply> {
        render(StatusCode::OK, self)
    }
}
