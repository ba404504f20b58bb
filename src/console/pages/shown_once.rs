//! What is shown once, in the answer to a form, and never again: a key, a link, a secret.

use askama::Template;
use hyper::StatusCode;

use crate::base::Result;
use crate::console::frame::{Frame, render};
use crate::console::guard::is_loopback;
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
    pub fn show(&self) -> Result<Reply> {
        render(StatusCode::OK, self)
    }
}

/// Whether it is a link that leads nobody elsewhere here, since its host is this machine.
fn is_only_here(secret: &str) -> bool {
    let host = secret.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    host.is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_this_machine_opens_nowhere_else() {
        for here in
            ["http://127.0.0.1:7420/invitations#x", "https://localhost/x", "http://[::1]:1/"]
        {
            assert!(is_only_here(here), "{here}");
        }
        for other in ["https://agents.example/invitations#x", "whsec_127.0.0.1", ""] {
            assert!(!is_only_here(other), "{other}");
        }
    }
}
