//! Signing out.
//!
//! A browser keeps the page that one leaves, for Back; Chromium does even with `no-store`. The answer
//! to the form comes before it does so, and the cookies that it removes and its `Clear-Site-Data` have
//! no effect on that page. So the page to sign in asks for a picture, which comes afterwards.

use serde_json::{Value, json};

use crate::base::{Kind, Result};
use crate::console::flash::Flash;
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::open("/sign-out").post(|visit| Box::pin(sign_out(visit))),
    Page::open("/signed-out").get(|visit| Box::pin(async { Ok(forget(visit)) })),
];

/// A picture of nothing.
const NOTHING: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>";

async fn sign_out(visit: &Visit) -> Result<Reply> {
    if visit.session.is_some() {
        match visit.api.post::<Value>("/auth/sign-out", json!({})).await {
            // It has ended already.
            Err(error) if error.kind() != Kind::Unauthenticated => return Err(error),
            _ => {}
        }
    }
    let done = Reply::see_other("/sign-in").flash(Flash::SignedOut);
    Ok(done.session(SessionChange::Ended))
}

fn forget(visit: &Visit) -> Reply {
    let picture = Reply::picture(NOTHING);
    if visit.session.is_some() {
        return picture;
    }
    picture.session(SessionChange::Forgotten)
}
