//! `/first-visit`: signs in with the link that the demo has made. The token is in the link's fragment, as
//! that of `/setup`.

use askama::Template;

use super::setup::token;
use crate::base::{Error, Result};
use crate::console::errors::no_such_page;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/first-visit")
    .get(|visit| Box::pin(async { show(visit, None) }))
    .post(|visit| Box::pin(begin(visit)))];

const USED: &str = "was used already, or is too old; sign in with the address and the password that the demo \
                    has printed";

#[derive(Template)]
#[template(path = "first_visit.html")]
struct FirstVisitPage {
    frame: Frame,
}

fn show(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    if visit.first_visit.is_none() {
        return Err(no_such_page());
    }
    let frame = visit.frame("Look around").failed(error).script("fragment");
    render(frame.status, &FirstVisitPage { frame })
}

async fn begin(visit: &Visit) -> Result<Reply> {
    let offered = visit.first_visit.as_ref().ok_or_else(no_such_page)?;
    let now = visit.api.calls.executor.store.clock().now();
    match offered.take(token(visit.form.get("link")), now) {
        Some(session) => Ok(Reply::see_other("/").session(SessionChange::Begun(session))),
        None => {
            let error = Error::invalid_at("link", USED);
            show(visit, Some(&error))
        }
    }
}
