//! Access grants: which members may use a restricted fleet, registry or environment
//! (reference: identity-and-rights, "Access grants").
//!
//! A grant refers to a member and a resource, and is deleted with either of them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule_rights::RuleRights;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    ADMIN, Access, Caller, GRANT_BY_TARGET, GRANTS_BY_RESOURCE, GRANTS_BY_USER, Grant, Granted,
    MEMBER, Membership, ResourceType, Restrictable, Restricted, ScopeName, User,
    hidden_deleted_ids, hidden_ids,
};
use crate::base::{BoundedList, Error, Id, Kind, Result};
use crate::resources::environments::Environment;
use crate::resources::fleet::Fleet;
use crate::resources::registries::Registry;
use crate::store::{ListSource, Order, Page, Record, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A bulk request has at most 1,000 grants: they are written in one transaction, whose limits leave
/// a margin.
const MAX_BULK: usize = 1000;

/// The field of a grant that holds the references of [`grants_for`](crate::auth::grants_for): one
/// for each type of resource that there is.
const RESOURCE_ID: &str = "resource_id";

// ── What callers send and see ────────────────────────────────────────────────

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GrantFilter {
    user_id: Option<Id<User>>,
    /// Only those for resources of this type.
    resource_type: Option<ResourceType>,
    resource_id: Option<Id<Granted>>,
}
impl Input for GrantFilter {}

/// A grant to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"userId": "01890a5d-ac96-774b-bcce-b302099a8057",
        "resourceType": "environment", "resourceId": "01890a5d-ac96-774b-bcce-b302099a8058"}],
))]
#[schemars(rename = "NewAccessGrant")]
struct NewGrant {
    user_id: Id<User>,
    resource_type: ResourceType,
    resource_id: Id<Granted>,
}
impl Input for NewGrant {}

/// Grants to create in one request.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"grants": [{"userId": "01890a5d-ac96-774b-bcce-b302099a8057",
        "resourceType": "environment", "resourceId": "01890a5d-ac96-774b-bcce-b302099a8058"}]}],
))]
#[schemars(rename = "NewAccessGrants")]
struct NewGrants {
    /// The grants to make; those that exist are skipped.
    grants: BoundedList<NewGrant, 1, MAX_BULK>,
}

impl Input for NewGrants {}

/// The result of a bulk request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AccessGrantsCreated")]
struct GrantsCreated {
    /// The new grants, in the order of the request.
    created: Vec<Grant>,
    /// Number of grants that existed already or were repeated in the request.
    skipped: usize,
}

impl Output for Grant {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl Output for GrantsCreated {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── For other resources ──────────────────────────────────────────────────────

/// Returns the resources of all types that are hidden from a caller, because they may not use them,
/// or might not before they were deleted: lists leave out what is about them
/// (reference: identity-and-rights, "Restricted resources").
pub fn hidden_from(view: &View, caller: &Caller) -> Result<BTreeSet<Id<Granted>>> {
    let mut hidden = hidden_ids::<Registry>(view, caller)?;
    hidden.append(&mut hidden_ids::<Environment>(view, caller)?);
    hidden.append(&mut hidden_ids::<Fleet>(view, caller)?);
    hidden.append(&mut hidden_deleted_ids(view, caller)?);
    Ok(hidden)
}

/// Returns whether every member may see what is about a resource that can be restricted: no for one
/// that is restricted, and for one that was deleted, whatever it was.
pub fn is_open_to_members(view: &View, id: Id<()>) -> Result<bool> {
    fn is_open<T: Restrictable>(view: &View, key: &<Restricted<T> as Record>::Key) -> Result<bool>
    where
        Restricted<T>: Record,
    {
        let found = view.get::<Restricted<T>>(key)?;
        found.map_or(Ok(false), |thing| {
            Ok(thing.without_caller().access(view)? == Access::Organization)
        })
    }
    Ok(is_open::<Registry>(view, &id.cast())?
        || is_open::<Environment>(view, &id.cast())?
        || is_open::<Fleet>(view, &id.cast())?)
}

/// Grants a member the use of a resource for a rule of the owner `by`, unless there is none any more. They
/// must not have such a grant.
pub(super) fn for_rule(
    tx: &mut Tx,
    user_id: Id<User>,
    (resource_type, resource_id): (ResourceType, Id<Granted>),
    by: Id<User>,
) -> Result<Option<Grant>> {
    let new = NewGrant { user_id, resource_type, resource_id };
    if missing(tx, &new, by)?.is_some() {
        return Ok(None);
    }
    insert(tx, &new, by).map(Some)
}

/// Whether there is a resource to which access can be granted.
pub(super) fn is_grantable(
    tx: &Tx,
    (resource_type, resource_id): (ResourceType, Id<Granted>),
) -> Result<bool> {
    let new = NewGrant { user_id: Id::NIL, resource_type, resource_id };
    tx.view().target_exists(&grant(tx, &new, Id::NIL), RESOURCE_ID)
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), GrantFilter>) -> Result<Page<Grant>> {
    let GrantFilter { user_id, resource_type, resource_id } = req.input;
    let hidden = hidden_from(view, req.caller())?;
    let wanted = |grant: &Grant| {
        user_id.is_none_or(|id| grant.user_id == id)
            && resource_type.is_none_or(|kind| grant.resource_type == kind)
            && resource_id.is_none_or(|id| grant.resource_id == id)
            // The grants of a deleted resource may not be deleted yet. One whose resource cannot be
            // read is listed.
            && view.target_exists(grant, RESOURCE_ID).unwrap_or(true)
            && !hidden.contains(&grant.resource_id)
    };
    let (newest, part) = (Order::Descending, &req.page);
    match (resource_type, resource_id, user_id) {
        (Some(kind), Some(id), _) => {
            view.page(&GRANTS_BY_RESOURCE, &(kind, id), newest, part, wanted)
        }
        (_, _, Some(user)) => view.page(&GRANTS_BY_USER, &user, newest, part, wanted),
        _ => view.page(ListSource::TABLE, &(), newest, part, wanted),
    }
}

fn create(tx: &mut Tx, req: &Req<(), NewGrant>) -> Result<Grant> {
    let by = req.caller().user();
    if let Some((path, kind)) = missing(tx, &req.input, by)? {
        return Err(Error::no_such(kind).at(path));
    }
    remove_of_rule(tx, &req.input)?;
    insert(tx, &req.input, by)
}

fn create_many(tx: &mut Tx, req: &Req<(), NewGrants>) -> Result<GrantsCreated> {
    let by = req.caller().user();
    let mut made = GrantsCreated { created: Vec::new(), skipped: 0 };
    for (n, new) in req.input.grants.iter().enumerate() {
        if let Some((field, kind)) = missing(tx, new, by)? {
            let path = format!("grants[{n}].{field}");
            let message =
                format!("{path} is not a {kind} of the organization; nothing was created");
            return Err(Error::new(Kind::NotFound, "not_found", message).at(path));
        }
        match insert_new(tx, new, by)? {
            Some(grant) => made.created.push(grant),
            None => made.skipped += 1,
        }
    }
    Ok(made)
}

/// Creates a grant unless it exists by hand.
fn insert_new(tx: &mut Tx, new: &NewGrant, by: Id<User>) -> Result<Option<Grant>> {
    remove_of_rule(tx, new)?;
    let key = (new.user_id, new.resource_type, new.resource_id);
    match tx.find(&GRANT_BY_TARGET, &key)? {
        Some(_) => Ok(None),
        None => insert(tx, new, by).map(Some),
    }
}

/// Removes such a grant if a rule has made it, so that one by hand is made, which stays when the claim goes.
/// The record of what rules have given may name one that is gone.
fn remove_of_rule(tx: &mut Tx, new: &NewGrant) -> Result<()> {
    let key = (new.user_id, new.resource_type, new.resource_id);
    let Some(found) = tx.find(&GRANT_BY_TARGET, &key)? else { return Ok(()) };
    let given = tx.get::<RuleRights>(&(new.user_id, tx.org()))?;
    if given.is_some_and(|given| given.grants.contains(&found.id)) {
        tx.remove(&found)?;
    }
    Ok(())
}

fn insert(tx: &mut Tx, new: &NewGrant, by: Id<User>) -> Result<Grant> {
    let grant = grant(tx, new, by);
    tx.insert(&grant)?;
    Ok(grant)
}

fn grant(tx: &Tx, new: &NewGrant, by: Id<User>) -> Grant {
    Grant {
        id: tx.new_id(),
        user_id: new.user_id,
        resource_type: new.resource_type,
        resource_id: new.resource_id,
        created_by: by,
        created_at: tx.now(),
    }
}

/// Returns the field that refers to an unknown member or resource, if any, and what there is none of.
fn missing(tx: &Tx, new: &NewGrant, by: Id<User>) -> Result<Option<(&'static str, &'static str)>> {
    if tx.get::<Membership>(&(new.user_id, tx.org()))?.is_none() {
        return Ok(Some(("userId", "member")));
    }
    if !tx.view().target_exists(&grant(tx, new, by), RESOURCE_ID)? {
        return Ok(Some(("resourceId", "resource")));
    }
    Ok(None)
}

fn delete(tx: &mut Tx, req: &Req<Id<Grant>>) -> Result<Deleted> {
    let grant: Grant = tx.fetch(&req.params)?;
    tx.remove(&grant)?;
    Ok(Deleted::new(req.params))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/access-grants", MEMBER, "access_grant.list", op::walk(list))
            .needs(ScopeName::GrantRead)
            .about("List access grants, newest first"),
        Route::post("/access-grants", ADMIN, "access_grant.create", op::write(create))
            .needs(ScopeName::GrantWrite)
            .about("Grant a member access to a restricted resource"),
        Route::post(
            "/access-grants/bulk",
            ADMIN,
            "access_grant.create_many",
            op::write(create_many),
        )
        .needs(ScopeName::GrantWrite)
        .about("Create access grants in bulk, skipping existing ones"),
        Route::delete("/access-grants/{grantId}", ADMIN, "access_grant.delete", op::write(delete))
            .needs(ScopeName::GrantWrite)
            .about("Revoke an access grant"),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::api::Principal;
    use crate::resources::environments::tests::make;
    use crate::resources::testing::{Fixture, user};
    use crate::resources::{environments, registries};
    use crate::store::Record;
    use serde_json::{Value, json};

    const A: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
    const B: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

    fn new(who: &Principal, kind: ResourceType, thing: &str) -> NewGrant {
        NewGrant { user_id: user(who), resource_type: kind, resource_id: Id::parse(thing) }
    }

    /// Creates a grant as if its resource existed.
    fn give(fixture: &Fixture, grant: NewGrant) -> Option<Grant> {
        let by = user(&fixture.owner);
        fixture.store.write_blocking(fixture.org, move |tx| insert_new(tx, &grant, by)).unwrap()
    }

    fn same(grant: &Grant) -> NewGrant {
        let Grant { user_id, resource_type, resource_id, .. } = *grant;
        NewGrant { user_id, resource_type, resource_id }
    }

    /// Grants by hand what a grant grants.
    pub fn by_hand(fixture: &Fixture, who: &Principal, grant: &Grant) -> Result<Grant> {
        fixture.write_as(who, create, (), same(grant))
    }

    /// Grants in bulk what a grant grants; returns how many were made and skipped.
    pub fn many_by_hand(
        fixture: &Fixture,
        who: &Principal,
        grant: &Grant,
    ) -> Result<(usize, usize)> {
        let grants = BoundedList::new(vec![same(grant)]).unwrap();
        let made = fixture.write_as(who, create_many, (), NewGrants { grants })?;
        Ok((made.created.len(), made.skipped))
    }

    fn listed(fixture: &Fixture, filter: Value) -> Vec<Id<Grant>> {
        let filter = Fixture::input::<GrantFilter>(filter).unwrap();
        fixture.read(list, (), filter).unwrap().items.iter().map(Record::key).collect()
    }

    #[test]
    fn every_filter_lists_its_grants_newest_first() {
        use ResourceType::{Environment, Registry};
        let fixture = Fixture::new();
        let registry = |slug| registries::tests::make(&fixture, slug, json!({})).unwrap().id;
        let (a, c) = (registry("a").to_string(), registry("c").to_string());
        let b = environments::tests::make(&fixture, json!({"slug": "b", "name": "B"})).unwrap();
        let (a, b, c) = (a.as_str(), &*b.id.to_string(), c.as_str());
        let (ada, ben) = (&fixture.owner, &fixture.member);
        let of_a = a;
        let given =
            [(ben, Registry, a), (ada, Registry, a), (ben, Environment, b), (ben, Registry, c)];
        let [a, b, c, d] =
            given.map(|(who, kind, thing)| give(&fixture, new(who, kind, thing)).unwrap().id);
        let ben = user(ben);
        assert_eq!(listed(&fixture, json!({})), [d, c, b, a]);
        assert_eq!(listed(&fixture, json!({"userId": ben})), [d, c, a]);
        assert_eq!(listed(&fixture, json!({"resourceType": "registry"})), [d, b, a]);
        assert_eq!(listed(&fixture, json!({"resourceId": of_a})), [b, a]);
        let filter = json!({"resourceType": "registry", "resourceId": of_a});
        assert_eq!(listed(&fixture, filter), [b, a]);
        let filter = json!({"resourceType": "registry", "resourceId": of_a, "userId": ben});
        assert_eq!(listed(&fixture, filter), [a]);
        assert_eq!(listed(&fixture, json!({"resourceType": "environment", "userId": ben})), [c]);
        assert_eq!(listed(&fixture, json!({"userId": "nobody"})), []);
        fixture.assert_sound();
    }

    #[test]
    fn a_grant_is_created_once_until_it_is_revoked() {
        let fixture = Fixture::new();
        let grant = || new(&fixture.member, ResourceType::Fleet, A);
        let made = give(&fixture, grant()).unwrap();
        assert!(give(&fixture, grant()).is_none());
        let (again, by) = (grant(), user(&fixture.owner));
        let twice = fixture.store.write_blocking(fixture.org, move |tx| insert(tx, &again, by));
        let twice = twice.err().unwrap();
        assert_eq!((twice.kind(), twice.code()), (Kind::Conflict, "grant_exists"));
        fixture.write_as(&fixture.owner, delete, made.id, ()).unwrap();
        let gone = fixture.write_as(&fixture.owner, delete, made.id, ()).err().unwrap();
        assert_eq!(gone.kind(), Kind::NotFound);
        assert!(give(&fixture, grant()).is_some());
    }

    #[test]
    fn a_bulk_skips_existing_and_repeated_grants() {
        let fixture = Fixture::new();
        let make = |slug| make(&fixture, json!({"slug": slug, "name": slug})).unwrap();
        let [a, b] = [make("a"), make("b")].map(|environment| environment.id.to_string());
        let grant = |who, thing: &str| new(who, ResourceType::Environment, thing);
        let one = grant(&fixture.member, &a);
        let one = fixture.write_as(&fixture.owner, create, (), one).unwrap();

        let (ben, ada) = (&fixture.member, &fixture.owner);
        let grants = vec![grant(ben, &a), grant(ben, &b), grant(ada, &a), grant(ben, &b)];
        let grants = BoundedList::new(grants).unwrap();
        let made = fixture.write_as(ada, create_many, (), NewGrants { grants }).unwrap();
        let created: Vec<_> = made.created.iter().map(Record::key).collect();
        assert_eq!((created.len(), made.skipped), (2, 2));
        assert_eq!(listed(&fixture, json!({})), [created[1], created[0], one.id]);

        let grants = BoundedList::new(vec![grant(ada, &b), grant(ben, A)]).unwrap();
        let refused = fixture.write_as(ada, create_many, (), NewGrants { grants }).err().unwrap();
        assert!(refused.message().starts_with("grants[1].resourceId"), "{}", refused.message());
        assert_eq!(listed(&fixture, json!({})).len(), 3);
    }

    #[test]
    fn a_bulk_with_an_unknown_user_or_resource_reports_it_and_creates_nothing() {
        let fixture = Fixture::new();
        let (_, eve) = fixture.other_org("globex");
        let registry = registries::tests::make(&fixture, "a", json!({})).unwrap().id;
        give(&fixture, new(&fixture.member, ResourceType::Registry, &registry.to_string()));
        for (who, field) in [(&eve, "userId"), (&fixture.member, "resourceId")] {
            let grants = BoundedList::new(vec![new(who, ResourceType::Fleet, B)]).unwrap();
            let refused = fixture.write_as(&fixture.owner, create_many, (), NewGrants { grants });
            let refused = refused.err().unwrap();
            assert_eq!(refused.kind(), Kind::NotFound);
            let beginning = format!("grants[0].{field} is not ");
            assert!(refused.message().starts_with(&beginning), "{}", refused.message());
            let one = new(who, ResourceType::Fleet, B);
            let refused = fixture.write_as(&fixture.owner, create, (), one).err().unwrap();
            assert_eq!((refused.kind(), refused.path()), (Kind::NotFound, Some(field)));
        }
        assert_eq!(listed(&fixture, json!({})).len(), 1);
    }

    #[test]
    fn a_bulk_has_one_to_a_thousand_grants() {
        let one = json!({"userId": A, "resourceType": "fleet", "resourceId": A});
        for (count, good) in [(0, false), (1, true), (1000, true), (1001, false)] {
            let read = Fixture::input::<NewGrants>(json!({"grants": vec![one.clone(); count]}));
            assert_eq!(read.is_ok(), good, "{count}");
        }
    }
}
