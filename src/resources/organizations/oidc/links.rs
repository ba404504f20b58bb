//! The accounts of providers with which a person signs in: seeing, adding and removing them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::oidc::Confirmation;
use crate::auth::{SESSION, User};
use crate::base::{Email, Error, Id, Result, Text, Time};
use crate::resources::organizations::sign_in_link::{SignInLink, link};
use crate::store::{ListSource, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// An account of a provider with which one signs in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInLink")]
pub(super) struct LinkInfo {
    id: Id<SignInLink>,
    /// The name of the provider.
    provider: String,
    issuer: String,
    /// The address that the provider had when it was linked.
    email: Option<Email>,
    linked_at: Time,
    /// Identifies the person there; only for the audit log.
    #[serde(skip)]
    subject: String,
}

impl LinkInfo {
    fn of(link: SignInLink) -> Self {
        let SignInLink { id, provider, issuer, subject, email, linked_at, .. } = link;
        LinkInfo { id, provider, issuer, email, linked_at, subject }
    }
}

impl Output for LinkInfo {
    fn resource(&self) -> Option<ResourceRef> {
        let detail = format!("{}: {}", self.provider, self.subject);
        ResourceRef::id(self.id).map(|about| about.with_detail(detail))
    }
}

/// An account of a provider to link.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"confirmation": "the-confirmation"}]))]
#[schemars(rename = "NewSignInLink")]
pub(super) struct NewLink {
    /// What the end of the sign-in with the provider has returned.
    pub confirmation: Text<1, 4000>,
}
impl Input for NewLink {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<LinkInfo>> {
    let user = req.identity().user;
    let page = view.page(ListSource::TABLE, &user, Order::Descending, &req.page, |_| true)?;
    Ok(page.map(LinkInfo::of))
}

pub(super) fn create(tx: &mut Tx, req: &Req<(), NewLink>) -> Result<LinkInfo> {
    let confirmed = Confirmation::read(&req.input.confirmation, tx.keys(), tx.now());
    let confirmed = confirmed.ok_or_else(|| {
        Error::conflict("sign_in_expired", "ten minutes are over; sign in with the provider again")
    })?;
    link(tx, req.identity().user, &confirmed).map(LinkInfo::of)
}

/// Removes a link. Sessions that were begun with it go on until they end.
pub(super) fn delete(tx: &mut Tx, req: &Req<Id<SignInLink>>) -> Result<Deleted> {
    let user: User = tx.fetch(&req.identity().user)?;
    let link: SignInLink = tx.fetch(&(user.id, req.params))?;
    let count = tx.count(ListSource::<SignInLink>::TABLE, &user.id, 2)?;
    if user.password.is_none() && count == 1 {
        return Err(Error::conflict(
            "only_way_to_sign_in",
            "you have no password, and nothing else to sign in with; choose a password first, by a \
             link from an admin or by mail",
        ));
    }
    tx.remove(&link)?;
    let about = LinkInfo::of(link).resource();
    let deleted = Deleted::new(req.params);
    Ok(match about {
        Some(about) => deleted.about(about),
        None => deleted,
    })
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/auth/links", SESSION, "sign_in_link.list", op::list(list))
            .about("List your accounts at providers"),
        Route::post("/auth/links", SESSION, "sign_in_link.create", op::write(create))
            .about("Link an account at a provider"),
        Route::delete("/auth/links/{linkId}", SESSION, "sign_in_link.delete", op::write(delete))
            .about("Unlink an account at a provider"),
    ]
}
