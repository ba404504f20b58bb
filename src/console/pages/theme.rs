//! The choice of a theme, kept in a cookie.

use crate::console::guard::local;
use crate::console::page::Page;
use crate::console::reply::Reply;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/theme").post(|visit| {
    Box::pin(async {
        let mut reply = Reply::see_other(local(visit.form.get("_return")));
        reply.theme = Some(match visit.form.get("theme") {
            "dark" => Some("dark"),
            "light" => Some("light"),
            _ => None,
        });
        Ok(reply)
    })
})];
