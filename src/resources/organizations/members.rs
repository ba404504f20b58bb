//! Members of an organization and their roles (reference: identity-and-rights, "Roles", "Members").
//!
//! There is always an owner: the last one can be neither demoted nor removed. Members join by
//! invitation only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::break_glass::is_break_glass_owner;
use super::invitation::lower_to_role;
use super::key_sponsors::sponsored_by;
use super::keys::ApiKeyInfo;
use super::managing::require_manager;
use super::password_reset::void_of_member;
use super::rule_rights::{forget_role, has_role_by_rule};
use super::service_accounts;
use super::sign_in_link::{asked_providers, provider_names};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    BY_ORG, MEMBER, Membership, RequiredProvider, Role, SESSION_ADMIN, SESSION_MEMBER, ScopeName,
    User, UserKind, find_person, has_second_factor, is_installation_admin,
};
use crate::base::{Email, Error, Id, Name, Result, Text, Time, fold, without_accents};
use crate::store::{Order, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// A member of an organization.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OrganizationMember")]
pub(super) struct OrganizationMember {
    user_id: Id<User>,
    /// A person, or a service account.
    kind: UserKind,
    /// That of a service account receives no mail.
    email: Email,
    name: Name,
    /// The URL of a picture.
    image: Option<String>,
    /// Whether the organization considers the e-mail address verified.
    email_verified: bool,
    /// Whether who has the account has proved to read the mail of the address.
    address_proved: bool,
    role: Role,
    /// Whether the person has a second factor; null for a service account, and for who is no admin.
    second_factor: Option<bool>,
    /// The names of the providers with which the person signs in, of those that the organization requires
    /// or has a domain or rule with; of all of this server for who administers it. Null as `secondFactor` is.
    sign_in_providers: Option<Vec<String>>,
    /// When the membership began.
    joined_at: Time,
}

impl Output for OrganizationMember {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A member as they are now, with what was taken from others.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OrganizationMemberUpdated")]
struct UpdatedMember {
    #[serde(flatten)]
    member: OrganizationMember,
    /// The keys of service accounts that the member answers for and that have lost rights
    /// by this; another admin can take them over.
    service_account_keys: Vec<ApiKeyInfo>,
}

impl Output for UpdatedMember {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The answer of removing a member.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OrganizationMemberRemoved")]
struct RemovedMember {
    /// The id of the user.
    id: Id<User>,
    /// Always true.
    deleted: bool,
    /// The keys of service accounts that the member answered for. They are refused from now on, until
    /// an admin takes them over.
    service_account_keys: Vec<ApiKeyInfo>,
}

impl Output for RemovedMember {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Changes to a member; absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"role": "admin"}],
))]
#[schemars(rename = "OrganizationMemberPatch")]
struct MemberPatch {
    role: Option<Role>,
    email_verified: Option<bool>,
}
impl Input for MemberPatch {}

/// Which members are listed.
#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct MemberFilter {
    /// Only people, or only service accounts.
    kind: Option<UserKind>,
    /// Only the member with this e-mail address.
    email: Option<Email>,
    /// Only members whose name or e-mail address has this text, at most 100 characters. Case does not matter,
    /// and an accent only where it is given.
    q: Option<Text<1, 100>>,
}
impl Input for MemberFilter {}

impl MemberFilter {
    /// Whether a user is one that it selects, but for the address, which is looked up.
    fn selects(&self, user: &User) -> bool {
        let has = |wanted: &str, text: &str| {
            let text = fold(text);
            text.contains(wanted) || without_accents(&text).contains(wanted)
        };
        self.kind.is_none_or(|kind| user.kind() == kind)
            && self.q.as_ref().is_none_or(|q| {
                let wanted = fold(q.trim());
                has(&wanted, &user.name) || has(&wanted, &user.email)
            })
    }
}

fn to_info<P, I>(
    view: &View,
    req: &Req<P, I>,
    membership: Membership,
    shown: &[String],
) -> Result<OrganizationMember> {
    let user: User = view.fetch(&membership.user)?;
    let is_shown = req.caller().is_admin() && !user.is_service();
    let second_factor = if is_shown { Some(has_second_factor(view, user.id)?) } else { None };
    let linked = || provider_names(view, user.id, &req.server.oidc);
    let mut providers = is_shown.then(linked).transpose()?;
    if let Some(names) = &mut providers {
        names.retain(|name| shown.contains(name));
    }
    Ok(OrganizationMember {
        address_proved: user.is_proved(view)?,
        user_id: user.id,
        kind: user.kind(),
        email: user.email,
        name: user.name,
        image: user.image,
        email_verified: membership.email_verified,
        role: membership.role,
        second_factor,
        sign_in_providers: providers,
        joined_at: membership.joined_at,
    })
}

/// The providers that a caller is shown of members: with which they sign in elsewhere is not for each
/// organization to know.
fn shown_providers<P, I>(view: &View, req: &Req<P, I>) -> Result<Vec<String>> {
    if !is_installation_admin(view, req.identity().person())? {
        return asked_providers(view);
    }
    Ok(req.server.oidc.providers().iter().map(|provider| provider.name.clone()).collect())
}

/// What asks again of the routes of members.
const TO_CHANGE_OWNERS: &str = "make, demote or remove an owner or admin";

// ── Rules ────────────────────────────────────────────────────────────────────

/// Refuses to demote or remove `leaving` if it is the last owner.
fn require_remaining_owner(view: &View, leaving: &Membership) -> Result<()> {
    if leaving.role != Role::Owner {
        return Ok(());
    }
    let mut another = false;
    view.for_each(&BY_ORG, &leaving.org, Order::Ascending, |membership: Membership| {
        another = membership.role == Role::Owner && membership.user != leaving.user;
        Ok(if another { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if another {
        return Ok(());
    }
    Err(Error::conflict(
        "last_owner",
        "this is the organization's last owner; make another member an owner first",
    ))
}

/// Refuses to demote the owner who is let in when the provider of sign-ins does not answer.
fn require_not_break_glass(view: &View, demoted: &Membership) -> Result<()> {
    let required = view.get::<RequiredProvider>(&demoted.org)?;
    if required.is_none_or(|required| required.break_glass != demoted.user) {
        return Ok(());
    }
    Err(is_break_glass_owner())
}

/// Gives a member another role, with what follows from it for what they have made.
///
/// # Errors
/// 409 for the last owner, and the one who is let in without the provider of sign-ins.
pub(super) fn set_role(tx: &mut Tx, old: &Membership, role: Role) -> Result<Membership> {
    require_remaining_owner(&tx.view(), old)?;
    require_not_break_glass(&tx.view(), old)?;
    let new = Membership { role, ..old.clone() };
    lower_to_role(tx, old.user, role)?;
    void_of_member(tx, old.user)?;
    tx.replace(old, &new)?;
    Ok(new)
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Returns the membership of the user with this address, without looking through all.
fn with_address(view: &View, email: &Email) -> Result<Option<(Membership, User)>> {
    let found = match find_person(view, email)? {
        None => service_accounts::with_address(view, email)?,
        person => person,
    };
    let Some(user) = found else { return Ok(None) };
    let membership = view.get(&(user.id, view.org()))?;
    Ok(membership.map(|membership| (membership, user)))
}

pub(super) fn list(view: &View, req: &Req<(), MemberFilter>) -> Result<Page<OrganizationMember>> {
    let shown = shown_providers(view, req)?;
    if let Some(email) = &req.input.email {
        let found = with_address(view, email)?.filter(|(_, user)| req.input.selects(user));
        let one = found.map(|(membership, _)| to_info(view, req, membership, &shown));
        return Ok(Page::single(one.transpose()?.into_iter().collect()));
    }
    let is_all = req.input.kind.is_none() && req.input.q.is_none();
    // One whose account cannot be read is listed, which says so.
    let keep = |member: &Membership| {
        let user = || view.get::<User>(&member.user).ok().flatten();
        is_all || user().is_none_or(|user| req.input.selects(&user))
    };
    let page = view.page(&BY_ORG, &view.org(), Order::Descending, &req.page, keep)?;
    page.try_map(|membership| to_info(view, req, membership, &shown))
}

fn get(view: &View, req: &Req<Id<User>>) -> Result<OrganizationMember> {
    let membership = view.fetch(&(req.params, view.org()))?;
    to_info(view, req, membership, &shown_providers(view, req)?)
}

fn update(tx: &mut Tx, req: &Req<Id<User>, MemberPatch>) -> Result<UpdatedMember> {
    let old: Membership = tx.fetch(&(req.params, tx.org()))?;
    if tx.fetch::<User>(&old.user)?.is_service() {
        service_accounts::check_patch(req.input.role, req.input.email_verified)?;
    }
    let mut new = old.clone();
    if let Some(role) = req.input.role {
        let is_by_rule = has_role_by_rule(tx, old.user)?;
        if role != old.role || is_by_rule {
            require_manager(req.caller(), &[old.role, role], tx.now())?;
        }
        if role != old.role {
            new = set_role(tx, &old, role)?;
        }
        // Also one that they have by a rule: it is theirs from now on.
        if is_by_rule {
            forget_role(tx, old.user)?;
        }
    }
    if let Some(verified) = req.input.email_verified {
        let verified = Membership { email_verified: verified, ..new.clone() };
        tx.replace(&new, &verified)?;
        new = verified;
    }
    let lost_power = new.role < old.role && new.role < Role::Admin;
    let view = tx.view();
    let service_account_keys = if lost_power { sponsored_by(&view, new.user)? } else { Vec::new() };
    let member = to_info(&view, req, new, &shown_providers(&view, req)?)?;
    Ok(UpdatedMember { member, service_account_keys })
}

/// Every member may leave; only admins remove others. The member's keys, grants and open invitations
/// in the organization are deleted, and not restored if the user joins again; keys of service accounts
/// that they answer for are refused until an admin takes them over. A service account is deleted.
fn delete(tx: &mut Tx, req: &Req<Id<User>>) -> Result<RemovedMember> {
    let caller = req.caller();
    let leaves = req.params == caller.user();
    if !leaves && !caller.is_admin() {
        return Err(Error::forbidden(
            "admin_required",
            "only an owner or admin of the organization may remove another member",
        ));
    }
    let membership: Membership = tx.fetch(&(req.params, tx.org()))?;
    require_manager(caller, &[membership.role], tx.now())?;
    require_remaining_owner(&tx.view(), &membership)?;
    let user: User = tx.fetch(&membership.user)?;
    if user.is_service() {
        service_accounts::remove(tx, &user)?;
    } else {
        tx.remove(&membership)?;
    }
    let service_account_keys = sponsored_by(&tx.view(), user.id)?;
    Ok(RemovedMember { id: user.id, deleted: true, service_account_keys })
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/organizations/members", MEMBER, "member.list", op::walk(list))
            .needs(ScopeName::MemberRead)
            .about("List members, newest first"),
        Route::get("/organizations/members/{userId}", MEMBER, "member.get", op::read(get))
            .needs(ScopeName::MemberRead)
            .about("Get a member"),
        Route::patch(
            "/organizations/members/{userId}",
            SESSION_ADMIN,
            "member.update",
            op::write(update),
        )
        .asks_again_to(TO_CHANGE_OWNERS)
        .about("Update a member's role or e-mail verification"),
        Route::delete(
            "/organizations/members/{userId}",
            SESSION_MEMBER,
            "member.delete",
            op::write(delete),
        )
        // Only admins remove others.
        .of_own_account()
        .asks_again_to(TO_CHANGE_OWNERS)
        .about("Remove a member or leave the organization"),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::keys;
    use super::*;
    use crate::api::Principal;
    use crate::auth::{AddressProof, ApiKey, Caller, Grant, KEYS_BY_ORG, ResourceType};
    use crate::base::Kind;
    use crate::resources::environments;
    use crate::resources::testing::{Fixture, user};
    use crate::store::{ListSource, Org};
    use serde_json::json;

    /// Returns `who` with their current role, as the pipeline resolves it.
    fn now(fixture: &Fixture, who: &Principal) -> Principal {
        let Principal::Caller(caller) = who else { panic!("no caller of an organization") };
        let key = (caller.user(), caller.org);
        let role =
            fixture.store.read_now(caller.org, |view| view.fetch::<Membership>(&key)).unwrap().role;
        Principal::Caller(Caller { role, ..(**caller).clone() }.into())
    }

    /// Gives a member a role by hand.
    pub fn make(fixture: &Fixture, by: &Principal, whom: &Principal, role: Role) -> Result<Role> {
        let patch = MemberPatch { role: Some(role), email_verified: None };
        fixture.write_as(by, update, user(whom), patch).map(|done| done.member.role)
    }

    fn refusal<T>(done: Result<T>) -> (Kind, &'static str) {
        let error = done.err().expect("it is refused");
        (error.kind(), error.code())
    }

    const LAST: (Kind, &str) = (Kind::Conflict, "last_owner");
    const NO_OWNER: (Kind, &str) = (Kind::Forbidden, "owner_required");

    #[test]
    fn the_last_owner_stays() {
        let fixture = Fixture::new();
        let (ada, ben) = (&fixture.owner, &fixture.member);
        assert_eq!(refusal(make(&fixture, ada, ada, Role::Admin)), LAST);
        assert_eq!(refusal(fixture.write_as(ada, delete, user(ada), ())), LAST);
        assert_eq!(make(&fixture, ada, ada, Role::Owner).unwrap(), Role::Owner);

        assert_eq!(make(&fixture, ada, ben, Role::Owner).unwrap(), Role::Owner);
        assert_eq!(make(&fixture, ada, ada, Role::Member).unwrap(), Role::Member);
        let ben = &now(&fixture, ben);
        assert_eq!(refusal(make(&fixture, ben, ben, Role::Member)), LAST);
        fixture.assert_sound();
    }

    #[test]
    fn the_owner_who_is_let_in_without_the_provider_stays_one() {
        let fixture = Fixture::new();
        let (ada, ben) = (&fixture.owner, &fixture.member);
        make(&fixture, ada, ben, Role::Owner).unwrap();
        let ben = &now(&fixture, ben);
        let (org, break_glass) = (fixture.org, user(ada));
        let require = move |tx: &mut Tx| {
            let (providers, required_at) = (vec!["kc".into()], tx.now());
            tx.insert(&RequiredProvider { org, break_glass, providers, required_at })
        };
        fixture.store.write_blocking(org, require).unwrap();
        for role in [Role::Admin, Role::Member] {
            let refused = make(&fixture, ben, ada, role).err().unwrap();
            assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "is_break_glass_owner"));
        }
        make(&fixture, ada, ben, Role::Admin).unwrap();
    }

    #[test]
    fn only_an_owner_appoints_demotes_or_removes_an_owner() {
        let fixture = Fixture::new();
        let (ada, ben) = (&fixture.owner, &fixture.member);
        make(&fixture, ada, ben, Role::Admin).unwrap();
        let ben = &now(&fixture, ben);
        assert_eq!(refusal(make(&fixture, ben, ben, Role::Owner)), NO_OWNER);
        assert_eq!(refusal(make(&fixture, ben, ada, Role::Member)), NO_OWNER);
        assert_eq!(refusal(fixture.write_as(ben, delete, user(ada), ())), NO_OWNER);
        // The verification of the address is not a role.
        let patch = MemberPatch { role: None, email_verified: Some(false) };
        assert!(!fixture.write_as(ben, update, user(ada), patch).unwrap().member.email_verified);
    }

    #[test]
    fn a_member_may_leave_but_not_remove_others() {
        let fixture = Fixture::new();
        let (ada, ben) = (&fixture.owner, &fixture.member);
        for other in [user(ada), Id::NIL] {
            let refused = refusal(fixture.write_as(ben, delete, other, ()));
            assert_eq!(refused, (Kind::Forbidden, "admin_required"));
        }
        assert_eq!(fixture.write_as(ben, delete, user(ben), ()).unwrap().id, user(ben));
        let again = refusal(fixture.write_as(ada, delete, user(ben), ()));
        assert_eq!(again.0, Kind::NotFound);
    }

    #[test]
    fn a_member_of_another_organization_is_not_found() {
        let fixture = Fixture::new();
        let (_, eve) = fixture.other_org("globex");
        assert_eq!(refusal(make(&fixture, &fixture.owner, &eve, Role::Admin)).0, Kind::NotFound);
        let removed = fixture.write_as(&fixture.owner, delete, user(&eve), ());
        assert_eq!(refusal(removed).0, Kind::NotFound);
    }

    fn make_member(fixture: &Fixture, org: Id<Org>, user: Id<User>) {
        let join = move |tx: &mut Tx| {
            let (role, joined_at) = (Role::Member, tx.now());
            tx.insert(&Membership { user, org, role, email_verified: true, joined_at })
        };
        fixture.store.write_blocking(Id::NIL, join).unwrap();
    }

    #[test]
    fn removing_a_member_deletes_their_keys_and_grants_only() {
        let fixture = Fixture::new();
        let (other, eve) = fixture.other_org("globex");
        let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
        let body = json!({"slug": "live", "name": "Live"});
        let here = environments::tests::make(&fixture, body.clone()).unwrap().id;
        let there = Fixture { owner: eve, org: other, ..fixture.clone() };
        let there = environments::tests::make(&there, body).unwrap().id;
        make_member(&fixture, other, ben);
        let give = move |tx: &mut Tx, who: Id<User>| {
            let environment = if tx.org() == other { there } else { here };
            let name = Name::parse("key").unwrap();
            keys::create_key(tx, tx.org(), who, who, keys::KeySettings::full(&name, false))?;
            tx.insert(&Grant {
                id: tx.new_id(),
                user_id: who,
                resource_type: ResourceType::Environment,
                resource_id: environment.cast(),
                created_by: ada,
                created_at: tx.now(),
            })
        };
        let both = move |tx: &mut Tx| give(tx, ada).and_then(|()| give(tx, ben));
        fixture.store.write_blocking(fixture.org, both).unwrap();
        fixture.store.write_blocking(other, move |tx| give(tx, ben)).unwrap();

        fixture.write_as(&fixture.owner, delete, ben, ()).unwrap();
        let left = |org| {
            fixture
                .store
                .read_now(org, |view| {
                    let keys: Vec<ApiKey> = view.all(&KEYS_BY_ORG, &org)?;
                    let grants: Vec<Grant> = view.all(ListSource::TABLE, &())?;
                    assert_eq!(keys.len(), grants.len());
                    Ok(keys.into_iter().map(|key| key.user).collect::<Vec<_>>())
                })
                .unwrap()
        };
        assert_eq!(left(fixture.org), [ada]);
        assert_eq!(left(other), [ben]);
        fixture.assert_sound();
    }

    #[test]
    fn members_are_found_by_a_part_of_their_name_or_address() {
        let fixture = Fixture::new();
        fixture.person("zoe", Role::Viewer);
        let found = |query: serde_json::Value| {
            let page = fixture.read(list, (), Fixture::input(query).unwrap()).unwrap();
            page.items.iter().map(|member| member.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found(json!({"q": "AD"})), ["ada"]);
        assert_eq!(found(json!({"q": "ben@acme"})), ["ben"]);
        assert_eq!(found(json!({"q": "zoe"})), ["zoe"]);
        assert_eq!(found(json!({"q": "zoé"})), [""; 0]);
        assert_eq!(found(json!({"q": "acme.test", "kind": "person"})).len(), 3);
        assert_eq!(found(json!({"kind": "service"})), [""; 0]);
        assert_eq!(found(json!({"q": "nobody"})), [""; 0]);
    }

    #[test]
    fn a_member_is_found_by_their_address_and_nobody_by_a_part_of_it() {
        let fixture = Fixture::new();
        fixture.other_org("other");
        let found = |query: serde_json::Value| {
            let page = fixture.read(list, (), Fixture::input(query).unwrap()).unwrap();
            page.items.iter().map(|member| member.name.to_string()).collect::<Vec<_>>()
        };
        let address = |user: Id<User>| {
            let read = |view: &View| view.fetch::<User>(&user);
            fixture.store.read_now(fixture.org, read).unwrap().email.to_string()
        };
        let ben = address(user(&fixture.member));
        assert_eq!(found(json!({"email": ben})), ["ben"]);
        assert_eq!(found(json!({"email": ben, "kind": "person"})), ["ben"]);
        for query in [
            json!({"email": ben, "kind": "service"}),
            json!({"email": ben, "q": "ada"}),
            json!({"email": format!("x{ben}")}),
            // Of another organization.
            json!({"email": "eve@other.test"}),
        ] {
            assert_eq!(found(query), [""; 0]);
        }
    }

    #[test]
    fn the_only_approver_of_an_environment_is_not_removed() {
        let fixture = Fixture::new();
        let ben = user(&fixture.member);
        let approvals = json!({"approverIds": [ben]});
        let body = json!({"slug": "live", "name": "Live", "approvals": approvals});
        let environment = environments::tests::make(&fixture, body).unwrap();
        environments::tests::grant(&fixture, &fixture.member, environment.id);
        let refused = fixture.write_as(&fixture.owner, delete, ben, ()).err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "last_approver"));
        assert!(refused.message().contains("Live"), "{}", refused.message());
        assert_eq!(fixture.read(list, (), MemberFilter::default()).unwrap().items.len(), 2);
        let grants = fixture
            .store
            .read_now(fixture.org, |view| view.count::<Grant>(ListSource::TABLE, &(), 9));
        assert_eq!(grants.unwrap(), 1);
    }

    #[test]
    fn members_are_listed_newest_first() {
        let fixture = Fixture::new();
        fixture.pass_secs(1);
        let org = fixture.org;
        let join = move |tx: &mut Tx| {
            let user = User {
                id: tx.new_id(),
                email: Email::parse("cy@acme.test").unwrap(),
                name: Name::parse("cy").unwrap(),
                image: None,
                password: None,
                session_generation: 0,
                service_of: None,
                created_at: tx.now(),
                proof: AddressProof::Unproved,
                keys_from: None,
            };
            tx.insert(&user)?;
            let (role, joined_at) = (Role::Member, tx.now());
            tx.insert(&Membership { user: user.id, org, role, email_verified: false, joined_at })
        };
        fixture.store.write_blocking(org, join).unwrap();
        fixture.other_org("globex");
        let members = fixture.read(list, (), MemberFilter::default()).unwrap().items;
        let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["cy", "ben", "ada"]);
    }
}
