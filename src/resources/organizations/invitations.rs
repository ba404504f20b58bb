//! Invitations of users into an organization (reference: identity-and-rights, "Invitations").
//!
//! An invitation's token is returned once, to the inviting caller, who passes it on, and is mailed to
//! the invited address where the server can send mail. It is valid
//! for seven days and once, and only the newest of an e-mail address is valid. It never gives more
//! than its inviter may give at the time: a change of the inviter's role changes it too
//! ([`invitation`](super::invitation)). A used, expired, deleted or unknown token is 404 in all
//! cases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::invitation::{BY_ADDRESS, BY_TOKEN, Invitation, invitation_token, require_room};
use super::invitation_mails;
use super::invited_accounts::{self, InvitedAccount};
use super::members::require_manager;
use super::sessions::{self, SessionInfo};
use super::tokens::hash_of;
use crate::api::{
    Attempt, Deleted, HashPlan, Input, Output, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::passwords::{HashRequest, HashResult, Password};
use crate::auth::{
    ANYONE, BY_EMAIL, Credential, Identity, Membership, Role, SESSION_ADMIN, Session, User,
};
use crate::base::{Email, Error, Id, Issue, Name, Result, Time};
use crate::store::{ListSource, Order, Page, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, tables: TABLES, ..Resource::EMPTY };

const TABLES: &[TableInfo] = &[TableInfo::of::<Invitation>(), TableInfo::of::<InvitedAccount>()];

/// An invitation is valid for a week: long enough for an absent recipient.
const VALID_SECS: i64 = 7 * 24 * 3600;

// ── What callers send and see ────────────────────────────────────────────────

/// An open invitation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Invitation")]
struct InvitationInfo {
    id: Id<Invitation>,
    email: Email,
    role: Role,
    expires_at: Time,
}

impl Output for InvitationInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// An invitation with its token, which cannot be retrieved again.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InvitationCreated {
    id: Id<Invitation>,
    email: Email,
    role: Role,
    /// The token with which it is accepted. It is shown only here.
    token: String,
    /// URL of the page to accept it. The token is in the fragment, which no server logs.
    invitation_url: String,
    expires_at: Time,
}

impl Output for InvitationCreated {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// A user to invite.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"email": "grace@acme.example", "role": "member"}],
))]
#[schemars(rename = "NewInvitation")]
struct NewMember {
    email: Email,
    role: Role,
}
impl Input for NewMember {}

/// An invitation to accept.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"token": "the-token-of-the-invitation", "name": "Grace",
        "password": "seven green bottles"}],
))]
struct AcceptInvitation {
    /// The token of the invitation.
    token: String,
    /// Required if the invited address has no account.
    name: Option<Name>,
    /// Required if the invited address has no account.
    password: Option<Password>,
}
impl Input for AcceptInvitation {}

// ── Inviting ─────────────────────────────────────────────────────────────────

fn invite(tx: &mut Tx, req: &Req<(), NewMember>) -> Result<InvitationCreated> {
    let NewMember { email, role } = &req.input;
    require_manager(req.caller(), &[*role])?;
    let user = tx.find(&BY_EMAIL, email)?;
    if let Some(user) = user
        && tx.get::<Membership>(&(user.id, tx.org()))?.is_some()
    {
        return Err(Error::conflict("already_member", "this user is already a member"));
    }
    if let Some(older) = tx.find(&BY_ADDRESS, &(tx.org(), email.clone()))? {
        tx.remove(&older)?;
    }
    require_room(&tx.view(), req.caller().user())?;
    let id = tx.new_id();
    let token = invitation_token(tx.keys(), id);
    // A link that is only a path is of no use in a mail.
    let mail_base = (req.sends_mail && !req.link_base.is_empty()).then(|| req.link_base.clone());
    let invitation = Invitation {
        id,
        org: tx.org(),
        email: email.clone(),
        role: *role,
        inviter: req.caller().user(),
        token: hash_of(&token),
        expires_at: tx.now().plus_secs(VALID_SECS),
        mail_base,
    };
    tx.insert(&invitation)?;
    invitation_mails::send(tx, &invitation)?;
    let Invitation { id, email, role, expires_at, .. } = invitation;
    let invitation_url = format!("{}/invitations#{token}", req.link_base);
    Ok(InvitationCreated { id, email, role, token, invitation_url, expires_at })
}

fn list(view: &View, req: &Req) -> Result<Page<InvitationInfo>> {
    let open = |invitation: &Invitation| invitation.expires_at > view.now();
    let page = view.page(ListSource::TABLE, &view.org(), Order::Descending, &req.page, open)?;
    Ok(page.map(|invitation| InvitationInfo {
        id: invitation.id,
        email: invitation.email,
        role: invitation.role,
        expires_at: invitation.expires_at,
    }))
}

fn revoke(tx: &mut Tx, req: &Req<Id<Invitation>>) -> Result<Deleted> {
    let invitation: Invitation = tx.fetch(&(tx.org(), req.params))?;
    if invitation.expires_at <= tx.now() {
        return Err(Invitation::missing(&(tx.org(), req.params)));
    }
    tx.remove(&invitation)?;
    Ok(Deleted::new(req.params))
}

// ── Accepting ────────────────────────────────────────────────────────────────

/// Returns the invitation with this token.
fn open(view: &View, token: &str) -> Result<Invitation> {
    view.find(&BY_TOKEN, &hash_of(token))?
        .filter(|invitation: &Invitation| invitation.expires_at > view.now())
        .ok_or_else(|| Error::no_such("invitation").at("token"))
}

/// Returns the caller's session of `user`, required if the invited address has an account: a lost
/// token must not let others join in its name.
fn require_session(identity: Option<&Identity>, user: Id<User>) -> Result<Id<Session>> {
    match identity {
        Some(Identity { user: own, credential: Credential::Session(id), .. }) if *own == user => {
            Ok(*id)
        }
        _ => Err(Error::unauthenticated(
            "the invited address has an account; sign in with it and accept again",
        )),
    }
}

/// Returns name and password, required if the invited address has no account.
fn new_account(input: &AcceptInvitation) -> Result<(&Name, &Password)> {
    if let (Some(name), Some(password)) = (&input.name, &input.password) {
        return Ok((name, password));
    }
    let absent = [("name", input.name.is_none()), ("password", input.password.is_none())];
    let absent = absent.into_iter().filter(|(_, absent)| *absent);
    let issue =
        |(path, _)| Issue::new(path, "is required because the invited address has no account");
    Err(Error::invalid(absent.map(issue).collect()))
}

fn prepare(view: &View, req: &Req<(), AcceptInvitation>) -> Result<HashPlan> {
    let invitation = open(view, &req.input.token)?;
    let make = match view.find(&BY_EMAIL, &invitation.email)? {
        Some(user) => {
            require_session(req.identity_if_any(), user.id)?;
            None
        }
        None => {
            let password = new_account(&req.input)?.1.to_string();
            invited_accounts::require_room(view, invitation.inviter)?;
            Some(password)
        }
    };
    let attempt = Some(Attempt::Invited(invitation.inviter, invitation.org));
    Ok(HashPlan { hashing: HashRequest { verify: None, make }, attempt })
}

fn accept(
    tx: &mut Tx,
    req: &Req<(), AcceptInvitation>,
    hashed: &HashResult,
) -> Result<(SessionInfo, Id<User>)> {
    let invitation = open(&tx.view(), &req.input.token)?;
    let (session, user) = match tx.find(&BY_EMAIL, &invitation.email)? {
        Some(user) => {
            let session: Session = tx.fetch(&require_session(req.identity_if_any(), user.id)?)?;
            (sessions::to_info(&tx.view(), &session, &user)?, user.id)
        }
        None => {
            let user = User {
                id: tx.new_id(),
                email: invitation.email.clone(),
                name: new_account(&req.input)?.0.clone(),
                image: None,
                password: hashed.made.clone(),
                session_generation: 0,
                service_of: None,
                created_at: tx.now(),
            };
            tx.insert(&user)?;
            invited_accounts::note(tx, user.id, invitation.inviter)?;
            (sessions::create_session(tx, &user, req.address)?, user.id)
        }
    };
    tx.insert(&Membership {
        user,
        org: invitation.org,
        role: invitation.role,
        email_verified: false,
        joined_at: tx.now(),
    })?;
    tx.remove(&invitation)?;
    Ok((session, user))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/organizations/members",
            SESSION_ADMIN,
            "invitation.create",
            op::write(invite),
        )
        .about("Invite a user, replacing an older invitation"),
        Route::get("/organizations/invitations", SESSION_ADMIN, "invitation.list", op::list(list))
            .about("List open invitations, newest first"),
        Route::delete(
            "/organizations/invitations/{invitationId}",
            SESSION_ADMIN,
            "invitation.delete",
            op::write(revoke),
        )
        .about("Revoke an invitation"),
        Route::post(
            "/auth/invitations/accept",
            ANYONE,
            "invitation.accept",
            op::hash(prepare, accept),
        )
        .no_replay()
        .about("Accept an invitation"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::delete_expired;
    use super::super::invitation::MAX_INVITATIONS;
    use super::super::tests::{hashing, identity_of, session, signed_in, with_password};
    use super::*;
    use crate::api::Principal;
    use crate::auth::Caller;
    use crate::base::Kind;
    use crate::resources::testing::{Fixture, args, user};
    use crate::store::Org;
    use serde_json::json;

    fn invite_as(
        fixture: &Fixture,
        who: &Principal,
        email: &str,
        role: Role,
    ) -> Result<InvitationCreated> {
        fixture.write_as(who, invite, (), NewMember { email: Email::parse(email).unwrap(), role })
    }

    fn invited(fixture: &Fixture, email: &str) -> InvitationCreated {
        invite_as(fixture, &fixture.owner, email, Role::Member).unwrap()
    }

    fn accept_as(fixture: &Fixture, who: &Principal, token: &str) -> Result<SessionInfo> {
        let body = json!({"token": token, "name": "Cy", "password": "battery staple"});
        hashing(&fixture.store, who, prepare, accept, Fixture::input(body).unwrap())
    }

    fn membership(fixture: &Fixture, user: Id<User>, org: Id<Org>) -> Option<Membership> {
        fixture.store.read_now(Id::NIL, |view| view.get(&(user, org))).unwrap()
    }

    #[test]
    fn a_new_user_joins_once_with_a_name_and_a_password() {
        let fixture = Fixture::new();
        let made = invited(&fixture, "cy@acme.test");
        let url = format!("http://127.0.0.1:7420/invitations#{}", made.token);
        assert_eq!(made.invitation_url, url);

        let body = json!({"token": made.token, "name": "Cy", "password": "battery staple"});
        let body = args((), Fixture::input(body).unwrap());
        let req = Req::new(&body, &Principal::Anonymous);
        let plan = fixture.store.read_now(Id::NIL, |view| prepare(view, &req)).unwrap();
        let attempt = Attempt::Invited(user(&fixture.owner), fixture.org);
        assert_eq!(plan.attempt, Some(attempt));

        let bare = Fixture::input(json!({ "token": made.token })).unwrap();
        let refused =
            hashing(&fixture.store, &Principal::Anonymous, prepare, accept, bare).err().unwrap();
        let paths: Vec<_> = refused.issues().iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["name", "password"]);

        let session = accept_as(&fixture, &Principal::Anonymous, &made.token).unwrap();
        let user = identity_of(&fixture.store, &session.token).unwrap().user;
        let membership = membership(&fixture, user, fixture.org).unwrap();
        assert_eq!((membership.role, membership.email_verified), (Role::Member, false));
        let again = accept_as(&fixture, &Principal::Anonymous, &made.token).err().unwrap();
        assert_eq!(again.kind(), Kind::NotFound);
        fixture.assert_sound();
        fixture.assert_sound();
    }

    #[test]
    fn an_existing_user_joins_only_in_their_own_session() {
        let fixture = Fixture::new();
        let (other, eve) = fixture.other_org("globex");
        let ben = with_password(&fixture, &fixture.member);
        let made = invite_as(&fixture, &eve, &ben.email, Role::Admin).unwrap();
        let ada = session(&fixture.store, &with_password(&fixture, &fixture.owner));
        for outsider in [Principal::Anonymous, signed_in(&fixture.store, &ada)] {
            let refused = accept_as(&fixture, &outsider, &made.token).err().unwrap();
            assert_eq!(refused.kind(), Kind::Unauthenticated);
        }
        let token = session(&fixture.store, &ben);
        let who = signed_in(&fixture.store, &token);
        let joined = accept_as(&fixture, &who, &made.token).unwrap();
        assert_eq!((joined.user.id, joined.token), (ben.id, token));
        assert_eq!(membership(&fixture, ben.id, other).unwrap().role, Role::Admin);
    }

    #[test]
    fn an_api_key_of_the_invited_user_is_no_session() {
        let fixture = Fixture::new();
        let (_, eve) = fixture.other_org("globex");
        let made = invite_as(&fixture, &eve, "ben@acme.test", Role::Member).unwrap();
        let Principal::Caller(ben) = &fixture.member else {
            panic!("no caller of an organization")
        };
        let credential = Credential::Key {
            id: Id::NIL,
            name: "k".into(),
            org: fixture.org,
            created_by: ben.user(),
            approve_as: false,
            access: Default::default(),
        };
        let key = Principal::Identity(Identity { credential, ..ben.identity.clone() }.into());
        let refused = accept_as(&fixture, &key, &made.token).err().unwrap();
        assert_eq!(refused.kind(), Kind::Unauthenticated);
    }

    #[test]
    fn only_the_newest_invitation_of_an_address_is_valid() {
        let fixture = Fixture::new();
        let old = invited(&fixture, "cy@acme.test");
        let new = invited(&fixture, "CY@acme.test");
        let open = fixture.read_as(&fixture.owner, list, (), ()).unwrap().items;
        assert_eq!(open.iter().map(|i| i.id).collect::<Vec<_>>(), [new.id]);
        let refused = accept_as(&fixture, &Principal::Anonymous, &old.token).err().unwrap();
        assert_eq!(refused.kind(), Kind::NotFound);
        assert!(accept_as(&fixture, &Principal::Anonymous, &new.token).is_ok());
        let member =
            invite_as(&fixture, &fixture.owner, "cy@acme.test", Role::Member).err().unwrap();
        assert_eq!((member.kind(), member.code()), (Kind::Conflict, "already_member"));
        fixture.assert_sound();
    }

    #[test]
    fn an_invitation_expires_after_seven_days_and_can_be_revoked_before() {
        let fixture = Fixture::new();
        let first = invited(&fixture, "cy@acme.test");
        fixture.pass_secs(VALID_SECS);
        let second = invited(&fixture, "di@acme.test");
        let open = fixture.read_as(&fixture.owner, list, (), ()).unwrap().items;
        assert_eq!(open.iter().map(|i| i.id).collect::<Vec<_>>(), [second.id]);

        let late = accept_as(&fixture, &Principal::Anonymous, &first.token).err().unwrap();
        assert_eq!(late.kind(), Kind::NotFound);
        let gone = fixture.write_as(&fixture.owner, revoke, first.id, ()).err().unwrap();
        assert_eq!(gone.kind(), Kind::NotFound);
        let settings = crate::outbox::RetentionSettings::default();
        let sweep = move |tx: &mut Tx| delete_expired(tx, &settings);
        fixture.store.write_blocking(Id::NIL, sweep).unwrap();
        let left = |view: &View| view.count::<Invitation>(ListSource::TABLE, &(), 9);
        assert_eq!(fixture.store.read_now(Id::NIL, left).unwrap(), 1);

        let (_, eve) = fixture.other_org("globex");
        let foreign = fixture.write_as(&eve, revoke, second.id, ()).err().unwrap();
        assert_eq!(foreign.kind(), Kind::NotFound);
        fixture.write_as(&fixture.owner, revoke, second.id, ()).unwrap();
        assert!(accept_as(&fixture, &Principal::Anonymous, &second.token).is_err());
    }

    #[test]
    fn the_open_invitations_of_an_inviter_are_limited() {
        let fixture = Fixture::new();
        let Principal::Caller(ada) = &fixture.owner else { panic!("no caller of an organization") };
        let inviter = ada.user();
        let fill = move |tx: &mut Tx| {
            (1..MAX_INVITATIONS).try_for_each(|n| {
                tx.insert(&Invitation {
                    id: tx.new_id(),
                    org: tx.org(),
                    email: Email::parse(format!("{n}@acme.test")).unwrap(),
                    role: Role::Member,
                    inviter,
                    token: hash_of(&invitation_token(tx.keys(), tx.new_id())),
                    expires_at: tx.now().plus_secs(VALID_SECS),
                    mail_base: None,
                })
            })
        };
        fixture.store.write_blocking(fixture.org, fill).unwrap();
        let last = invited(&fixture, "cy@acme.test");
        let invite = |email| invite_as(&fixture, &fixture.owner, email, Role::Member);
        let refused = invite("di@acme.test").err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "too_many_invitations"));
        assert!(invite("cy@acme.test").is_ok(), "it replaces {}", last.id);
        fixture.assert_sound();
    }

    #[test]
    fn only_an_owner_invites_an_owner() {
        let fixture = Fixture::new();
        let Principal::Caller(ben) = &fixture.member else {
            panic!("no caller of an organization")
        };
        let admin = Principal::Caller(Caller { role: Role::Admin, ..(**ben).clone() }.into());
        let refused = invite_as(&fixture, &admin, "cy@acme.test", Role::Owner).err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "owner_required"));
        assert!(invite_as(&fixture, &admin, "cy@acme.test", Role::Admin).is_ok());
        assert!(invite_as(&fixture, &fixture.owner, "cy@acme.test", Role::Owner).is_ok());
    }
}
