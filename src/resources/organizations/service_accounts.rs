//! Service accounts: members without a password, as which programs act through API keys
//! (reference: identity-and-rights, "Service accounts").
//!
//! One belongs to its organization and not to the admin who created it, so that it outlives that
//! admin's membership; each of its keys has a sponsor, an admin who answers for it. It is never an
//! owner, never signs in, and never counts as an approver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::managing::require_manager;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    AddressProof, Membership, Role, SERVICE_ACCOUNTS_BY_ORG, SESSION_ADMIN, User, remember_deleted,
};
use crate::base::{Email, Error, Id, Issue, Name, Result, Time};
use crate::store::{Key, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// An organization has at most 1,000 service accounts: one per program, with room.
const MAX_ACCOUNTS: usize = 1000;

/// The domain of their e-mail addresses, where nobody receives mail (RFC 2606).
const MAIL_DOMAIN: &str = "service-account.invalid";

// ── What callers send and see ────────────────────────────────────────────────

/// A service account to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Release pipeline", "role": "member"}],
))]
struct NewServiceAccount {
    name: Name,
    /// `member` or `admin`; `member` if absent.
    #[schemars(extend("not" = {"const": "owner"}))]
    role: Option<Role>,
}

impl Input for NewServiceAccount {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        issues.extend(role_issue(self.role));
    }
}

/// Changes to a service account; absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Nightly pipeline"}],
))]
struct ServiceAccountPatch {
    name: Option<Name>,
    /// `member` or `admin`.
    #[schemars(extend("not" = {"const": "owner"}))]
    role: Option<Role>,
}

impl Input for ServiceAccountPatch {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        issues.extend(role_issue(self.role));
    }
}

/// A member without a password, as which programs act through API keys.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ServiceAccount {
    /// Its id, which is that of a user: in members, grants and whatever it creates.
    id: Id<User>,
    name: Name,
    role: Role,
    created_at: Time,
}

impl Output for ServiceAccount {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn to_info(view: &View, user: User) -> Result<ServiceAccount> {
    let membership: Membership = view.fetch(&(user.id, view.org()))?;
    let (role, created_at) = (membership.role, user.created_at);
    Ok(ServiceAccount { id: user.id, name: user.name, role, created_at })
}

// ── For other modules ────────────────────────────────────────────────────────

/// Returns a service account of the view's organization.
///
/// # Errors
/// 404 if there is none with this id; a person is none.
pub(super) fn fetch(view: &View, id: Id<User>) -> Result<User> {
    let user = view.get::<User>(&id)?.filter(|user| user.service_of == Some(view.org()));
    user.ok_or_else(|| Error::no_such("service account").missing(id.to_bytes()))
}

/// Whether an address is one of service accounts, which nobody has.
pub(super) fn is_of_service(email: &Email) -> bool {
    email.rsplit_once('@').is_some_and(|(_, domain)| domain == MAIL_DOMAIN)
}

/// Returns the service account with this address, which has its id.
pub(super) fn with_address(view: &View, email: &Email) -> Result<Option<User>> {
    let Some((id, _)) = email.rsplit_once('@').filter(|_| is_of_service(email)) else {
        return Ok(None);
    };
    let Ok(id) = Uuid::parse_str(id) else { return Ok(None) };
    let user = view.get::<User>(&Id::new(id))?;
    Ok(user.filter(|user| user.service_of == Some(view.org()) && user.email == *email))
}

/// Checks a change of a service account's membership.
///
/// # Errors
/// 400 for a role or a verification that it cannot have.
pub(super) fn check_patch(role: Option<Role>, email_verified: Option<bool>) -> Result<()> {
    let mut issues: Vec<Issue> = role_issue(role).into_iter().collect();
    if email_verified == Some(true) {
        let message = "must not be set: a service account receives no mail and approves nothing";
        issues.push(Issue::new("emailVerified", message));
    }
    if issues.is_empty() { Ok(()) } else { Err(Error::invalid(issues)) }
}

fn role_issue(role: Option<Role>) -> Option<Issue> {
    let is_owner = role == Some(Role::Owner);
    is_owner.then(|| Issue::new("role", "must be viewer, member or admin: only people are owners"))
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<ServiceAccount>> {
    let order = Order::Descending;
    let page = view.page(&SERVICE_ACCOUNTS_BY_ORG, &view.org(), order, &req.page, |_| true)?;
    page.try_map(|user| to_info(view, user))
}

fn get(view: &View, req: &Req<Id<User>>) -> Result<ServiceAccount> {
    to_info(view, fetch(view, req.params)?)
}

fn create(tx: &mut Tx, req: &Req<(), NewServiceAccount>) -> Result<ServiceAccount> {
    let org = tx.org();
    if tx.view().count(&SERVICE_ACCOUNTS_BY_ORG, &org, MAX_ACCOUNTS)? == MAX_ACCOUNTS {
        return Err(Error::conflict(
            "service_accounts_full",
            "an organization has at most 1,000 service accounts; delete one that is not needed",
        ));
    }
    let role = req.input.role.unwrap_or(Role::Member);
    require_manager(req.caller(), &[role], tx.now())?;
    let id = tx.new_id();
    let user = User {
        id,
        email: Email::from_trusted(format!("{id}@{MAIL_DOMAIN}")),
        name: req.input.name.clone(),
        image: None,
        password: None,
        session_generation: 0,
        service_of: Some(org),
        created_at: tx.now(),
        proof: AddressProof::Unproved,
        keys_from: None,
    };
    tx.insert(&user)?;
    let joined_at = tx.now();
    tx.insert(&Membership { user: id, org, role, email_verified: false, joined_at })?;
    to_info(&tx.view(), user)
}

fn update(tx: &mut Tx, req: &Req<Id<User>, ServiceAccountPatch>) -> Result<ServiceAccount> {
    let user = fetch(&tx.view(), req.params)?;
    if let Some(name) = &req.input.name {
        tx.replace(&user, &User { name: name.clone(), ..user.clone() })?;
    }
    if let Some(role) = req.input.role {
        let old: Membership = tx.fetch(&(user.id, tx.org()))?;
        if role != old.role {
            require_manager(req.caller(), &[old.role, role], tx.now())?;
        }
        tx.replace(&old, &Membership { role, ..old.clone() })?;
    }
    let user = fetch(&tx.view(), req.params)?;
    to_info(&tx.view(), user)
}

/// Its membership, keys and grants go with it.
fn delete(tx: &mut Tx, req: &Req<Id<User>>) -> Result<Deleted> {
    let user = fetch(&tx.view(), req.params)?;
    let membership: Membership = tx.fetch(&(user.id, tx.org()))?;
    require_manager(req.caller(), &[membership.role], tx.now())?;
    remove(tx, &user)?;
    Ok(Deleted::new(user.id))
}

/// Removes a service account. What the log has about its keys stays with the admins.
pub(super) fn remove(tx: &mut Tx, user: &User) -> Result<()> {
    remember_deleted(tx, user.id)?;
    tx.remove(user)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/organizations/service-accounts";
    const ONE: &str = "/organizations/service-accounts/{serviceAccountId}";
    vec![
        Route::get(ALL, SESSION_ADMIN, "service_account.list", op::list(list))
            .about("List service accounts, newest first"),
        Route::post(ALL, SESSION_ADMIN, "service_account.create", op::write(create))
            .asks_again_to("make an admin")
            .about("Create a service account"),
        Route::get(ONE, SESSION_ADMIN, "service_account.get", op::read(get))
            .about("Get a service account"),
        Route::patch(ONE, SESSION_ADMIN, "service_account.update", op::write(update))
            .asks_again_to("make or demote an admin")
            .about("Update a service account"),
        Route::delete(ONE, SESSION_ADMIN, "service_account.delete", op::write(delete))
            .asks_again_to("remove an admin")
            .about("Delete a service account with its keys"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{ApiKey, KEYS_BY_ORG, Organization, find_person};
    use crate::base::Kind;
    use crate::resources::organizations::keys;
    use crate::resources::testing::Fixture;
    use serde_json::json;

    fn make(fixture: &Fixture) -> Result<ServiceAccount> {
        let body = Fixture::input(json!({"name": "Release"})).unwrap();
        fixture.write_as(&fixture.owner, create, (), body)
    }

    #[test]
    fn an_organization_has_at_most_a_thousand() {
        let fixture = Fixture::new();
        let first = make(&fixture).unwrap();
        let fill = move |tx: &mut Tx| {
            let first: User = tx.fetch(&first.id)?;
            (1..MAX_ACCOUNTS)
                .try_for_each(|_| tx.insert(&User { id: tx.new_id(), ..first.clone() }))
        };
        fixture.store.write_blocking(fixture.org, fill).unwrap();
        let refused = make(&fixture).err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "service_accounts_full"));
    }

    #[test]
    fn they_are_found_by_no_address_and_end_with_their_organization() {
        let fixture = Fixture::new();
        let id = make(&fixture).unwrap().id;
        let org = fixture.org;
        let end = move |tx: &mut Tx| {
            let user: User = tx.fetch(&id)?;
            assert!(find_person(&tx.view(), &user.email)?.is_none());
            let settings = keys::KeySettings::full(&user.name, false);
            keys::create_key(tx, org, id, id, settings)?;
            let organization: Organization = tx.fetch(&org)?;
            tx.remove(&organization)?;
            let keys: Vec<ApiKey> = tx.view().all(&KEYS_BY_ORG, &org)?;
            Ok((keys.len(), tx.get::<User>(&id)?.is_some()))
        };
        assert_eq!(fixture.store.write_blocking(org, end).unwrap(), (0, false));
    }
}
