//! The organizations of a user (reference: identity-and-rights, "Organizations").
//!
//! Every user may create organizations, and owns them. The slug of an organization never changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::api::{Input, OrganizationCreators, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    BY_ORG, BY_SLUG, Caller, Credential, Membership, Organization, Role, SESSION, SESSION_ADMIN,
    SecondFactorRule, User, has_second_factor, is_installation_admin, is_of_accepted_provider,
    requires_second_factor,
};
use crate::base::{Error, Id, Name, Result, Slug, Time};
use crate::store::{Key as _, ListSource, Order, Org, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A user owns at most 100 organizations: every sweep visits all organizations, and one user could
/// otherwise create any number of them.
const MAX_OWNED: usize = 100;

// ── What callers send and see ────────────────────────────────────────────────

/// An organization with the caller's role in it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OwnOrganization {
    id: Id<Org>,
    slug: Slug,
    name: Name,
    created_at: Time,
    updated_at: Time,
    /// The user who last changed it; null if an earlier release did.
    updated_by: Option<Id<User>>,
    role: Role,
    /// Whether members need a second factor, in sessions.
    second_factor_required: bool,
}

impl Output for OwnOrganization {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl OwnOrganization {
    fn of(view: &View, organization: Organization, role: Role) -> Result<Self> {
        let second_factor_required = requires_second_factor(view, organization.id)?;
        let Organization { id, slug, name, created_at, updated_at, updated_by } = organization;
        Ok(OwnOrganization {
            id,
            slug,
            name,
            created_at,
            updated_at,
            updated_by,
            role,
            second_factor_required,
        })
    }
}

/// An organization to create.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"slug": "acme", "name": "Acme"}],
))]
pub(super) struct NewOrganization {
    pub slug: Slug,
    pub name: Name,
}
impl Input for NewOrganization {}

/// Changes to an organization; absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Acme Ltd"}],
))]
struct OrganizationPatch {
    name: Option<Name>,
    /// Whether members need a second factor, in sessions; API keys need none. Only an owner changes it,
    /// and requires it only with one of their own.
    second_factor_required: Option<bool>,
}
impl Input for OrganizationPatch {}

// ── Operations ───────────────────────────────────────────────────────────────

/// Creates an organization with `owner` as its owner, whose e-mail address counts as verified.
///
/// # Errors
/// 409 if the slug is taken.
pub(super) fn create_owned(
    tx: &mut Tx,
    slug: &Slug,
    name: &Name,
    owner: Id<User>,
) -> Result<Organization> {
    let now = tx.now();
    let organization = Organization {
        id: tx.new_id(),
        slug: slug.clone(),
        name: name.clone(),
        created_at: now,
        updated_at: now,
        updated_by: Some(owner),
    };
    tx.insert(&organization)?;
    tx.insert(&Membership {
        user: owner,
        org: organization.id,
        role: Role::Owner,
        email_verified: true,
        joined_at: now,
    })?;
    Ok(organization)
}

/// Returns the ids of all organizations.
pub fn all(view: &View) -> Result<Vec<Id<Org>>> {
    let mut ids = Vec::new();
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |organization: Organization| {
        ids.push(organization.id);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(ids)
}

/// How many organizations one call of [`recreate`] makes again.
const RECREATED_AT_ONCE: usize = 500;

/// Makes organizations again that have members, and whose rows are gone or were left out: under the slugs
/// of `slugs`, which are by the keys of their rows, or under new ones. Returns why, or `None` if there are
/// none.
///
/// # Errors
/// If a record cannot be read.
pub fn recreate(tx: &mut Tx, slugs: &BTreeMap<Vec<u8>, Slug>) -> Result<Option<String>> {
    let (mut lost, view) = (BTreeSet::new(), tx.view());
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |membership: Membership| {
        let Membership { user, org, .. } = membership;
        // Without its account it is removed, too.
        if view.get::<Organization>(&org)?.is_none() && view.get::<User>(&user)?.is_some() {
            lost.insert(org);
        }
        let is_full = lost.len() == RECREATED_AT_ONCE;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for id in &lost {
        let first: Option<Membership> = tx.view().first(&BY_ORG, id, Order::Ascending)?;
        let updated_at = tx.now();
        let created_at = first.map_or(updated_at, |membership| membership.joined_at);
        let slug = slug_again(tx, *id, slugs)?;
        let name = Name::parse(format!("Recovered: {slug}")).map_err(Error::internal)?;
        tx.insert(&Organization { id: *id, slug, name, created_at, updated_at, updated_by: None })?;
    }
    let why = "the row of the organization is gone or was left out, and its members are there";
    Ok((!lost.is_empty()).then(|| why.to_string()))
}

/// Returns a free slug for an organization that is made again. That of an index entry, which may be
/// damaged, must be one.
fn slug_again(tx: &Tx, id: Id<Org>, slugs: &BTreeMap<Vec<u8>, Slug>) -> Result<Slug> {
    // The end of an id is random.
    let new = format!("recovered-{}", &id.to_string()[24..]);
    let own = slugs.get(&id.to_bytes()).and_then(|slug| Slug::parse(slug.as_str()).ok());
    let new = (1_u32..).filter_map(|nth| {
        let text = if nth == 1 { new.clone() } else { format!("{new}-{nth}") };
        Slug::parse(&text).ok()
    });
    for slug in own.into_iter().chain(new) {
        if tx.find(&BY_SLUG, &slug)?.is_none() {
            return Ok(slug);
        }
    }
    Err(Error::internal("there is no free slug"))
}

fn list(view: &View, req: &Req) -> Result<Page<OwnOrganization>> {
    let user = req.identity().user;
    let page = view.page(ListSource::TABLE, &user, Order::Descending, &req.page, |_| true)?;
    page.try_map(|membership: Membership| {
        OwnOrganization::of(view, view.fetch(&membership.org)?, membership.role)
    })
}

fn create(tx: &mut Tx, req: &Req<(), NewOrganization>) -> Result<OwnOrganization> {
    let NewOrganization { slug, name } = &req.input;
    let user = req.identity().user;
    if req.server.system.organization_creators == OrganizationCreators::InstallationAdmins
        && !is_installation_admin(&tx.view(), user)?
    {
        return Err(Error::forbidden(
            "installation_admin_required",
            "on this server only those who administer it create organizations; ask its operator",
        ));
    }
    check_count_limit(&tx.view(), user)?;
    let organization = create_owned(tx, slug, name, user)?;
    OwnOrganization::of(&tx.view(), organization, Role::Owner)
}

fn check_count_limit(view: &View, user: Id<User>) -> Result<()> {
    let mut owned = 0;
    view.for_each(ListSource::TABLE, &user, Order::Ascending, |membership: Membership| {
        owned += usize::from(membership.role == Role::Owner);
        Ok(if owned == MAX_OWNED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if owned < MAX_OWNED {
        return Ok(());
    }
    Err(Error::conflict(
        "too_many_organizations",
        format!("you own {MAX_OWNED} organizations; transfer one to another owner first"),
    ))
}

fn update(tx: &mut Tx, req: &Req<(), OrganizationPatch>) -> Result<OwnOrganization> {
    let old: Organization = tx.fetch(&tx.org())?;
    let mut new = old.clone();
    let mut is_changed = req.input.name.is_some();
    if let Some(name) = &req.input.name {
        new.name = name.clone();
    }
    if let Some(required) = req.input.second_factor_required {
        is_changed |= require_second_factor(tx, req.caller(), required)?;
    }
    if is_changed {
        (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&old, &new)?;
    }
    OwnOrganization::of(&tx.view(), new, req.caller().role)
}

/// Requires a second factor of all members from now on, or not any more. Returns whether that is a change.
fn require_second_factor(tx: &mut Tx, caller: &Caller, required: bool) -> Result<bool> {
    let (org, since) = (tx.org(), tx.now());
    let rule = tx.get::<SecondFactorRule>(&org)?;
    if rule.is_some() == required {
        return Ok(false);
    }
    if caller.role < Role::Owner {
        return Err(Error::forbidden(
            "owner_required",
            "only an owner decides whether members need a second factor",
        ));
    }
    if let Some(rule) = rule {
        caller.identity.require_recent_proof(since)?;
        tx.remove(&rule)?;
        return Ok(true);
    }
    let view = tx.view();
    let is_let_in = match caller.identity.credential {
        Credential::Session(session) => is_of_accepted_provider(&view, org, session)?,
        Credential::Key { .. } => false,
    };
    if !is_let_in && !has_second_factor(&view, caller.user())? {
        return Err(Error::conflict(
            "no_second_factor",
            "turn your own second factor on first: you would shut yourself out",
        ));
    }
    tx.insert(&SecondFactorRule { org, since })?;
    Ok(true)
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/organizations", SESSION, "organization.list", op::list(list))
            .about("List the caller's organizations"),
        Route::post("/organizations", SESSION, "organization.create", op::write(create))
            .about("Create an organization"),
        Route::patch("/organizations", SESSION_ADMIN, "organization.update", op::write(update))
            .asks_again_to("require no second factor any more")
            .about("Update an organization"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::second_factor::tests::guarded;
    use super::super::sessions::require_session;
    use super::super::tests::{session, with_password};
    use super::*;
    use crate::api::Principal;
    use crate::auth::{
        Authenticator, Identity, NEVER, PROOF_REQUIRED, ProviderSession, RawCredential, Tokens,
    };
    use crate::base::Kind;
    use crate::resources::testing::{Fixture, user};
    use serde_json::json;

    #[test]
    fn the_creator_owns_the_organization_and_its_slug_is_taken() {
        let fixture = Fixture::new();
        let body = || Fixture::input(json!({"slug": "globex", "name": "Globex"})).unwrap();
        let made = fixture.write(create, (), body()).unwrap();
        let taken = fixture.write_as(&fixture.owner, create, (), body()).err().unwrap();
        assert_eq!((taken.kind(), taken.code()), (Kind::Conflict, "organization_slug_taken"));

        let mine = fixture.read(list, (), ()).unwrap().items;
        let mine: Vec<_> = mine.iter().map(|o| (o.slug.as_str(), o.role)).collect();
        assert_eq!(mine, [("globex", Role::Owner), ("acme", Role::Member)]);
        let members: Vec<Membership> =
            fixture.store.read_now(Id::NIL, |view| view.all(&BY_ORG, &made.id)).unwrap();
        assert!(members.len() == 1 && members[0].email_verified);
        fixture.assert_sound();
    }

    #[test]
    fn a_user_owns_at_most_a_hundred_organizations() {
        let fixture = Fixture::new();
        let make = |who: &Principal, slug: String| {
            let body = Fixture::input(json!({"slug": slug, "name": "Globex"})).unwrap();
            fixture.write_as(who, create, (), body)
        };
        // Organizations of which the user is only a member do not count.
        for n in 0..MAX_OWNED {
            make(&fixture.member, format!("globex-{n}")).unwrap();
        }
        let refused = make(&fixture.member, "one-more".into()).err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "too_many_organizations"));
        assert!(make(&fixture.owner, "one-more".into()).is_ok());
    }

    #[test]
    fn an_update_keeps_the_slug_and_an_empty_one_changes_nothing() {
        let fixture = Fixture::new();
        fixture.pass_secs(5);
        let patch = |body| {
            let input = Fixture::input::<OrganizationPatch>(body).unwrap();
            fixture.write_as(&fixture.owner, update, (), input).unwrap()
        };
        let same = patch(json!({}));
        assert_eq!((same.name.as_str(), same.updated_at), ("acme", same.created_at));
        let renamed = patch(json!({"name": "Acme Ltd"}));
        assert_eq!((renamed.name.as_str(), renamed.slug.as_str()), ("Acme Ltd", "acme"));
        assert!(renamed.updated_at > renamed.created_at);
    }

    #[test]
    fn who_changed_an_organization_last_is_said() {
        let fixture = Fixture::new();
        let (ada, ben) = (&fixture.owner, &fixture.member);
        let patch = |who: &Principal, body| {
            let input = Fixture::input::<OrganizationPatch>(body).unwrap();
            fixture.write_as(who, update, (), input).unwrap()
        };
        let body = Fixture::input(json!({"slug": "globex", "name": "Globex"})).unwrap();
        let made = fixture.write_as(ada, create, (), body).unwrap();
        assert_eq!(made.updated_by, Some(user(ada)));
        assert_eq!(patch(ben, json!({"name": "Acme Ltd"})).updated_by, Some(user(ben)));
        // What changes nothing, and a second factor that is not required anyway, is of nobody.
        for same in [json!({}), json!({"secondFactorRequired": false})] {
            assert_eq!(patch(ada, same).updated_by, Some(user(ben)));
        }
        guarded(&fixture, ada);
        fixture.pass_secs(5);
        let required = patch(ada, json!({"secondFactorRequired": true}));
        assert_eq!(required.updated_by, Some(user(ada)));
        assert!(required.updated_at > required.created_at);
        fixture.assert_sound();
    }

    #[test]
    fn an_owner_with_a_second_factor_requires_one_of_sessions() {
        let fixture = Fixture::new();
        let require = |who: &Principal, required: bool| {
            let input = Fixture::input(json!({"secondFactorRequired": required})).unwrap();
            let refused = fixture.write_as(who, update, (), input).err();
            refused.map(|error| (error.kind(), error.code()))
        };
        let none = require(&fixture.owner, true);
        assert_eq!(none, Some((Kind::Conflict, "no_second_factor")));
        // A session that was begun with a provider needs none.
        let store = &fixture.store;
        let token = session(store, &with_password(&fixture, &fixture.owner));
        let credential = RawCredential::Token(token);
        let enter = |view: &View| {
            let authenticator = Authenticator::new(Tokens::new(store.keys()));
            authenticator.authorize_in(view, &credential, fixture.org)
        };
        let caller = store.read_now(Id::NIL, enter).unwrap();
        let session_id = require_session(&caller.identity);
        let begin = move |tx: &mut Tx| {
            let (provider, subject, sid) = ("kc".into(), None, None);
            tx.put(&ProviderSession { session: session_id, provider, subject, sid })
        };
        store.write_blocking(Id::NIL, begin).unwrap();
        assert_eq!(require(&Principal::Caller(caller.clone()), true), None);
        // In a session that is not proved any more nobody takes it away.
        let stale = Identity { proved_at: Some(NEVER), ..caller.identity.clone() };
        let stale = Caller { identity: stale, ..(*caller).clone() };
        let asked = Some((Kind::Unauthenticated, PROOF_REQUIRED));
        assert_eq!(require(&Principal::Caller(stale.into()), false), asked);
        assert_eq!(require(&fixture.owner, false), None);
        let ada = guarded(&fixture, &fixture.owner);
        assert_eq!(require(&fixture.member, true), Some((Kind::Forbidden, "owner_required")));
        assert_eq!(require(&fixture.member, false), None, "it is so");
        let bens = session(&fixture.store, &with_password(&fixture, &fixture.member));
        let lacks = |token: &str| {
            let authenticator = Authenticator::new(Tokens::new(fixture.store.keys()));
            let credential = RawCredential::Token(token.into());
            let enter = |view: &View| authenticator.authorize_in(view, &credential, fixture.org);
            let caller = fixture.store.read_now(Id::NIL, enter).unwrap();
            caller.require_second_factor().err().map(|error| error.code())
        };
        assert_eq!([lacks(&ada.token), lacks(&bens)], [None, None]);
        assert_eq!(require(&fixture.owner, true), None);
        let refused = Some("second_factor_required");
        assert_eq!([lacks(&ada.token), lacks(&bens)], [None, refused]);
        assert_eq!(require(&fixture.owner, false), None);
        assert_eq!(lacks(&bens), None);
        fixture.assert_sound();
    }
}
