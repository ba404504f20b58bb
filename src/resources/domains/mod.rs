//! Domains that organizations claim (reference: agent-index, "Domains").
//!
//! A claim proves nothing: any organization may claim any domain. It is unverified until the domain
//! itself confirms the public key of every listing with a handle on it ([`verification`]), and at most
//! one organization's claim is verified at a time.

mod domain;
mod recent;
mod repeat;
mod verification;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Calls, Deleted, Input, Outcome, Req, Resource, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName};
use crate::base::{self, Error, Id, Result};
use crate::outside::nip05;
use crate::store::{ListSource, Order, Org, Page, TableInfo, Tx, View};

use domain::VerifiedDomain;
pub use domain::{Domain, DomainState};
use recent::{RecentVerifications, check_pause};
use verification::{VERIFY_SECS, Verification, look_up, store};

/// Claimed domains and their verification.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[
        TableInfo::of::<Domain>(),
        TableInfo::of::<VerifiedDomain>(),
        TableInfo::of::<RecentVerifications>(),
    ],
    children: &[&repeat::RESOURCE],
    ..Resource::EMPTY
};

/// A domain to claim.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"domain": "acme.example"}],
))]
struct NewDomain {
    domain: base::Domain,
}

impl Input for NewDomain {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<Domain>> {
    view.page(ListSource::TABLE, &(), Order::Descending, &req.page, |_| true)
}

fn create(tx: &mut Tx, req: &Req<(), NewDomain>) -> Result<Domain> {
    let domain = Domain {
        id: tx.new_id(),
        domain: req.input.domain.clone(),
        state: DomainState::Unverified,
        verified_at: None,
        created_at: tx.now(),
        repeat_at: None,
    };
    tx.insert(&domain)?;
    Ok(domain)
}

fn get(view: &View, req: &Req<Id<Domain>>) -> Result<Domain> {
    view.fetch(&req.params)
}

fn delete(tx: &mut Tx, req: &Req<Id<Domain>>) -> Result<Deleted> {
    let domain: Domain = tx.fetch(&req.params)?;
    tx.remove(&domain)?;
    Ok(Deleted::new(req.params))
}

/// Verifies a domain. While another organization's claim is verified this one is refused, and that
/// one's verification is repeated: what the domain says to that decides, and not this request.
fn verify(tx: &mut Tx, req: &Req<Id<Domain>>, calls: &mut Calls) -> Result<Outcome<Verification>> {
    let domain: Domain = tx.fetch(&req.params)?;
    let holder = tx.get::<VerifiedDomain>(&domain.domain)?;
    if let Some(held) = holder.as_ref().filter(|held| held.org != tx.org()) {
        in_org(tx, held.org, |tx| repeat::ask(tx, held.claim))?;
        return Ok(Outcome::Refused(Error::conflict(
            "domain_verified_elsewhere",
            "another organization's claim of this domain is verified, and is being verified again; \
             let the domain confirm your public keys instead of theirs, and try again in a minute",
        )));
    }
    check_pause(&tx.view(), &domain.domain)?;
    if holder.is_some() {
        calls.take_for_holder();
    }
    let ask = |handle: &base::Handle| {
        calls.send_parsed(nip05::lookup(handle), |result| nip05::read(result, handle.name()))
    };
    match look_up(&tx.view(), &domain.domain, ask)? {
        None => Ok(Outcome::Done(Verification::pending(&domain, tx.now()))),
        Some(checked) => Ok(Outcome::Done(store(tx, &domain, checked)?)),
    }
}

/// Runs `write` in another organization.
fn in_org<T>(tx: &mut Tx, org: Id<Org>, write: impl FnOnce(&mut Tx) -> Result<T>) -> Result<T> {
    let own = tx.org();
    tx.set_org(org);
    let written = write(tx);
    tx.set_org(own);
    written
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/organizations/domains";
    const ONE: &str = "/organizations/domains/{domainId}";
    vec![
        Route::get(ALL, MEMBER, "domain.list", op::list(list))
            .needs(ScopeName::DomainRead)
            .about("List the claimed domains, newest first"),
        Route::post(ALL, ADMIN, "domain.create", op::write(create))
            .needs(ScopeName::DomainWrite)
            .about("Claim a domain"),
        Route::get(ONE, MEMBER, "domain.get", op::read(get))
            .needs(ScopeName::DomainRead)
            .about("Get a claimed domain"),
        Route::delete(ONE, ADMIN, "domain.delete", op::write(delete))
            .needs(ScopeName::DomainWrite)
            .about("Release a claimed domain"),
        Route::post(
            "/organizations/domains/{domainId}/verifications",
            ADMIN,
            "domain.verify",
            op::write(op::calling(VERIFY_SECS, verify)),
        )
        .needs(ScopeName::DomainWrite)
        .about("Verify a claimed domain by NIP-05"),
    ]
}

#[cfg(test)]
mod tests;
