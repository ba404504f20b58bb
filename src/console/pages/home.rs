//! `/`: leads to the visitor's organization. Someone who is a member of none may create one.

use crate::base::Result;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::signed_in("/").get(|visit| Box::pin(async { go(visit) })),
    Page::signed_in("/organizations/new").form(|visit| Box::pin(new(visit))),
];

fn go(visit: &Visit) -> Result<Reply> {
    let first = visit.signed_in().memberships.first();
    Ok(match first {
        Some(member) => Reply::see_other(format!("/o/{}", member.org_slug)),
        None => Reply::see_other("/organizations/new"),
    })
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let fields = vec![
        Field::text("name", "Name").complete("organization"),
        Field::text("slug", "Short name").hint(
            "Part of every address: lower-case letters, digits and hyphens. It never changes.",
        ),
    ];
    let page = Form::create("/organizations", fields, "Create")
        .done("/o/{slug}", Flash::OrganizationCreated)
        .page(visit.frame("New organization").script("slug"));
    Ok(match visit.signed_in().memberships.is_empty() {
        true => page.lead(
            "You are not a member of any organization. Ask to be invited to one, or create your own.",
        ),
        false => page,
    })
}
