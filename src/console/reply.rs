//! What a page answers with, before it is a response.

use bytes::Bytes;
use hyper::StatusCode;
use tokio::sync::mpsc;

use super::cookies::Cookie;
use super::flash::Flash;
use crate::http::BodyAborted;

/// The answer of a page.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub content: Content,
    /// A text for the next page.
    pub flash: Option<Flash>,
    pub session: SessionChange,
    /// Cookies of a sign-in with a provider that are set, or removed by an empty value.
    pub kept: Vec<(Cookie, String)>,
    /// The theme from now on, if it is chosen; an inner `None` leaves it to the system.
    pub theme: Option<Option<&'static str>>,
    /// Whether the editor wraps lines from now on, if that is chosen.
    pub wraps: Option<bool>,
    /// The page whose form was sent without a session, once there is a new one.
    pub resumes: Option<String>,
    pub retry_after_secs: Option<u32>,
    /// Whether it shows a part of its path as it was asked for, whatever that was: such a page is not
    /// compressed.
    pub shows_input: bool,
}

/// What a reply consists of.
#[derive(Debug)]
pub enum Content {
    /// A page.
    Html(String),
    /// A picture, as SVG.
    Picture(&'static str),
    /// Another page to go to: of this server, or of a provider of sign-ins.
    SeeOther(String),
    /// Events, as they happen.
    Events(mpsc::Receiver<Result<Bytes, BodyAborted>>),
}

/// What becomes of the visitor's session.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// It stays as it is.
    None,
    /// This is the token of a new one.
    Begun(String),
    Ended,
    /// It ended before; the browser is to forget the pages that it still has of it.
    Forgotten,
}

impl Reply {
    /// A page.
    pub fn html(status: StatusCode, html: String) -> Self {
        Reply::new(status, Content::Html(html))
    }

    /// A picture, as SVG.
    pub fn picture(svg: &'static str) -> Self {
        Reply::new(StatusCode::OK, Content::Picture(svg))
    }

    /// Events, for a script.
    pub fn events(events: mpsc::Receiver<Result<Bytes, BodyAborted>>) -> Self {
        Reply::new(StatusCode::OK, Content::Events(events))
    }

    /// Another page, after a form did what it says.
    pub fn see_other(path: impl Into<String>) -> Self {
        Reply::new(StatusCode::SEE_OTHER, Content::SeeOther(path.into()))
    }

    fn new(status: StatusCode, content: Content) -> Self {
        Reply {
            status,
            content,
            flash: None,
            session: SessionChange::None,
            kept: Vec::new(),
            theme: None,
            wraps: None,
            resumes: None,
            retry_after_secs: None,
            shows_input: false,
        }
    }

    /// Says when to try again.
    pub fn retry_after(mut self, secs: Option<u32>) -> Self {
        self.retry_after_secs = secs;
        self
    }

    /// Says that it shows a part of its path, whatever that was.
    pub fn showing_input(mut self) -> Self {
        self.shows_input = true;
        self
    }

    /// Shows a text on the next page.
    pub fn flash(mut self, flash: Flash) -> Self {
        self.flash = Some(flash);
        self
    }

    /// Keeps something of a sign-in with a provider in the browser; an empty value removes it.
    pub fn keep(mut self, cookie: Cookie, value: impl Into<String>) -> Self {
        self.kept.push((cookie, value.into()));
        self
    }

    /// Changes the session.
    pub fn session(mut self, change: SessionChange) -> Self {
        self.session = change;
        self
    }
}
