//! Domains that an organization claims (reference: identity-and-rights, "Claimed domains").
//!
//! A claim proves nothing: it is unverified until its verification succeeds.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER};
use crate::base::{self, Id, Result, Time};
use crate::store::{AnyIndex, Index, ListSource, Order, Page, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Domain>()], ..Resource::EMPTY };

// ── Record ───────────────────────────────────────────────────────────────────

/// A domain that an organization claims.
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Domain {
    /// Identifier of the claim.
    pub id: Id<Domain>,
    /// The domain name: lower case, IDNA ASCII.
    pub domain: base::Domain,
    /// State of the verification.
    pub state: DomainState,
    /// Time of the last successful verification.
    pub verified_at: Option<Time>,
    /// Time of the claim.
    pub created_at: Time,
}

impl Output for Domain {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// The state of a claim's verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DomainState {
    /// Not verified yet.
    Unverified,
    /// Verified.
    Verified,
    /// The last verification failed.
    Failed,
}
crate::store::stored_enum!(DomainState { Unverified = 0, Verified = 1, Failed = 2 });

/// An organization's domains by name.
pub static BY_DOMAIN: Index<Domain, base::Domain> = Index::unique(
    "domains.by_domain",
    "domain_taken",
    "the organization has already claimed this domain",
    |domain| Some(domain.domain.clone()),
);

impl Record for Domain {
    const TABLE: &'static str = "domains";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DOMAIN];
    type Key = Id<Domain>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// A domain to claim.
#[derive(Deserialize, JsonSchema)]
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

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/organizations/domains", MEMBER, "domain.list", op::list(list))
            .about("List the claimed domains, newest first"),
        Route::post("/organizations/domains", ADMIN, "domain.create", op::write(create))
            .about("Claim a domain"),
        Route::get("/organizations/domains/{domainId}", MEMBER, "domain.get", op::read(get))
            .about("Get a claimed domain"),
        Route::delete(
            "/organizations/domains/{domainId}",
            ADMIN,
            "domain.delete",
            op::write(delete),
        )
        .about("Release a claimed domain"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;
    use crate::resources::testing::Fixture;
    use serde_json::json;

    fn new(domain: &str) -> NewDomain {
        Fixture::input(json!({ "domain": domain })).unwrap()
    }

    #[test]
    fn an_organization_claims_a_domain_once_in_any_spelling() {
        let fixture = Fixture::new();
        let made = fixture.write(create, (), new("Bücher.Example")).unwrap();
        assert_eq!(made.domain.as_str(), "xn--bcher-kva.example");
        assert_eq!((made.state, made.verified_at), (DomainState::Unverified, None));
        let taken = fixture.write(create, (), new("XN--bcher-kva.example")).err().unwrap();
        assert_eq!((taken.kind(), taken.code()), (Kind::Conflict, "domain_taken"));

        let (_, eve) = fixture.other_org("globex");
        assert!(fixture.write_as(&eve, create, (), new("bücher.example")).is_ok());
        let foreign = fixture.read_as(&eve, get, made.id, ()).err().unwrap();
        assert_eq!(foreign.kind(), Kind::NotFound);

        fixture.write(delete, made.id, ()).unwrap();
        assert_eq!(fixture.write(delete, made.id, ()).err().unwrap().kind(), Kind::NotFound);
        assert!(fixture.write(create, (), new("bücher.example")).is_ok());
        fixture.assert_sound();
    }
}
