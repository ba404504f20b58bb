//! The pages of errors.
//!
//! What does not exist and what a visitor may not know of look the same, as in the API, whose
//! messages these pages show.

use askama::Template;
use hyper::StatusCode;

use super::assets;
use super::frame::Frame;
use super::problems::sentence;
use super::reply::Reply;
use super::visit::Visit;
use crate::base::{Error, Kind};
use crate::http::status;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: Frame,
    message: String,
    advice: &'static str,
    /// The page that helps, and its label.
    remedy: (String, &'static str),
    code: &'a str,
    request_id: &'a str,
}

/// The page of an error without a visitor.
#[derive(Template)]
#[template(path = "bare_error.html")]
struct BareErrorPage<'a> {
    title: &'static str,
    message: String,
    advice: &'static str,
    /// The page that helps, and its label.
    remedy: (&'static str, &'static str),
    request_id: &'a str,
    styles: &'static str,
    icon: &'static str,
}

#[derive(Template)]
#[template(path = "refresh.html")]
struct RefreshPage<'a> {
    target: &'a str,
    styles: &'static str,
    icon: &'static str,
}

/// The error of a path without a page, and of an organization that the visitor is no member of.
pub fn no_such_page() -> Error {
    Error::new(Kind::NotFound, "no_such_page", "there is no such page, or you may not see it")
}

/// The page of an error.
pub fn page(visit: &Visit, error: &Error) -> Reply {
    let mut frame = visit.frame(title(error));
    frame.status = status(error.kind());
    // Its start page would be refused, too.
    let needs_second_factor = error.code() == "second_factor_required";
    let shown = ErrorPage {
        message: message(error),
        advice: if needs_second_factor { "" } else { advice(error) },
        remedy: match &visit.membership {
            _ if needs_second_factor => ("/account/second-factor".into(), "Set up a second factor"),
            Some(member) => (format!("/o/{}", member.org_slug), "Go to Today"),
            None => ("/".into(), "Go to the start"),
        },
        code: error.code(),
        request_id: &visit.api.calls.origin.request_id,
        frame,
    };
    let html = shown.render().unwrap_or_default();
    Reply::html(status(error.kind()), html).retry_after(error.retry_after_secs())
}

/// The page of an error of a request that is no visit.
pub fn bare(error: &Error, request_id: &str) -> Reply {
    let shown = BareErrorPage {
        title: title(error),
        message: message(error),
        advice: advice(error),
        // Until then every other page says the same.
        remedy: if error.code() == NOT_SET_UP {
            ("/setup", "Set it up")
        } else {
            ("/", "Go to the start")
        },
        request_id,
        styles: assets::path("console"),
        icon: assets::path("icon"),
    };
    let html = shown.render().unwrap_or_default();
    Reply::html(status(error.kind()), html).retry_after(error.retry_after_secs())
}

/// A page that asks for itself once more, from here.
pub fn refresh(target: &str) -> Reply {
    let (styles, icon) = (assets::path("console"), assets::path("icon"));
    let html = RefreshPage { target, styles, icon }.render().unwrap_or_default();
    Reply::html(StatusCode::OK, html)
}

fn message(error: &Error) -> String {
    // What programs are told of a path is of no use to people.
    if error.code() == "no_such_path" {
        return sentence(no_such_page().message());
    }
    let mut all = vec![sentence(error.message())];
    let issues = error.issues().iter().filter(|_| error.issues().len() > 1);
    all.extend(issues.map(|issue| sentence(&format!("{} {}", issue.path, issue.message))));
    all.join(" ")
}

/// The code of errors of a server that nobody has set up.
const NOT_SET_UP: &str = "setup_required";

fn title(error: &Error) -> &'static str {
    match error.kind() {
        _ if error.code() == NOT_SET_UP => "Not set up yet",
        Kind::NotFound => "Not found",
        Kind::Forbidden => "Not allowed",
        Kind::Conflict | Kind::Precondition => "It has changed",
        Kind::Invalid => "This cannot be done",
        Kind::Limited | Kind::Busy => "Not now",
        Kind::Unauthenticated => "Signed out",
        _ => "Something went wrong",
    }
}

/// What to do about an error.
fn advice(error: &Error) -> &'static str {
    match error.kind() {
        _ if error.code() == NOT_SET_UP => {
            "The command roadstead setup-link prints it again, on the machine of the server."
        }
        Kind::NotFound => "It may have been deleted or renamed, or you may have no access to it.",
        Kind::Forbidden if error.code() == "installation_admin_required" => {
            "Nobody in the organization can allow it: who runs the server names those who administer it."
        }
        Kind::Forbidden => {
            "An owner or admin of the organization can give you a role or a grant for it."
        }
        Kind::Limited | Kind::Busy => "Wait a moment and load the page again.",
        Kind::Internal => {
            "The log of the server has the reason, under the id of this request. Nothing that you \
             entered was saved."
        }
        _ => "",
    }
}
