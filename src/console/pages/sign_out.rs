//! Signing out.

use serde_json::{Value, json};

use crate::base::{Kind, Result};
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/sign-out").post(|visit| Box::pin(sign_out(visit)))];

async fn sign_out(visit: &Visit) -> Result<Reply> {
    if visit.session.is_some() {
        match visit.api.post::<Value>("/auth/sign-out", json!({})).await {
            // It has ended already.
            Err(error) if error.kind() != Kind::Unauthenticated => return Err(error),
            _ => {}
        }
    }
    Ok(Reply::see_other("/sign-in").session(SessionChange::Ended))
}
