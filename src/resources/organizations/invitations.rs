//! Invitations of users into an organization (reference: identity-and-rights, "Invitations").
//!
//! An invitation's token is returned once, to the inviting caller, who passes it on. Where the server can
//! send mail, another token is mailed to the invited address, which proves who reads its mail
//! ([`accounts`](super::accounts)). Both are valid
//! for seven days and once, and only the newest of an e-mail address is valid. It never gives more
//! than its inviter may give at the time: a change of the inviter's role changes it too
//! ([`invitation`](super::invitation)). A used, expired, deleted or unknown token is 404 in all
//! cases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accounts;
use super::invitation::{
    BY_ADDRESS, BY_MAILED_TOKEN, BY_TOKEN, Invitation, VALID_SECS, invitation_token, mailed_token,
    require_room,
};
use super::invitation_mails;
use super::invited_accounts::{self, InvitedAccount};
use super::managing::require_manager;
use super::service_accounts::is_of_service;
use super::sessions::{self, SessionInfo};
use super::tokens::hash_of;
use crate::api::{
    Attempt, Deleted, HashPlan, Input, Output, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::passwords::{HashRequest, HashResult, Password};
use crate::auth::{
    ANYONE, AddressProof, Credential, Membership, Organization, Role, SESSION_ADMIN, Session, User,
    find_person, has_second_factor,
};
use crate::base::{Email, Error, Id, Issue, Name, Result, Time};
use crate::resources::mail_budget::{self, CountedFor};
use crate::store::{ListSource, Order, Page, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, tables: TABLES, ..Resource::EMPTY };

const TABLES: &[TableInfo] = &[TableInfo::of::<Invitation>(), TableInfo::of::<InvitedAccount>()];

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
    /// Whether a link is mailed to the address: it has room in the budget of mails.
    mailed: bool,
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
    /// Required, with `password`, outside of a session of the invited address.
    name: Option<Name>,
    /// Of the new account.
    password: Option<Password>,
}
impl Input for AcceptInvitation {}

/// The token of an invitation.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"token": "the-token-of-the-invitation"}]))]
struct InvitationToken {
    /// The token of the invitation.
    token: String,
}
impl Input for InvitationToken {}

/// What an invitation says to whoever has its token.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InvitationPreview {
    /// The name of the organization.
    org_name: Name,
    /// The name of who invited: their invitations end when they leave.
    inviter_name: Name,
    /// The invited address.
    email: Email,
    role: Role,
    expires_at: Time,
}

impl Output for InvitationPreview {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Inviting ─────────────────────────────────────────────────────────────────

fn invite(tx: &mut Tx, req: &Req<(), NewMember>) -> Result<InvitationCreated> {
    let NewMember { email, role } = &req.input;
    require_manager(req.caller(), &[*role], tx.now())?;
    if is_of_service(email) {
        let message = "must not be that of a service account, which is never invited";
        return Err(Error::invalid_at("email", message));
    }
    let user = find_person(&tx.view(), email)?;
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
    let mailed = req.server.sends_mail && !req.origin.link_base.is_empty() && {
        let person = CountedFor::Person(req.caller().user());
        let org = CountedFor::Organization(tx.org());
        mail_budget::take(tx, &[CountedFor::Stranger(email), person, org])?
    };
    let invitation = Invitation {
        id,
        org: tx.org(),
        email: email.clone(),
        role: *role,
        inviter: req.caller().user(),
        token: hash_of(&token),
        expires_at: tx.now().plus_secs(VALID_SECS),
        mail_base: mailed.then(|| req.origin.link_base.clone()),
        mailed: mailed.then(|| hash_of(&mailed_token(tx.keys(), id))),
    };
    tx.insert(&invitation)?;
    invitation_mails::send(tx, &invitation)?;
    let Invitation { id, email, role, expires_at, .. } = invitation;
    let invitation_url = format!("{}/invitations#{token}", req.origin.link_base);
    Ok(InvitationCreated { id, email, role, token, invitation_url, expires_at, mailed })
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

/// What there is not, and what to do then.
const INVITATION: &str = "invitation: it was used, replaced or withdrawn, or is older than a week; \
                          sign in if you have joined already, or ask for a new one";

/// Returns the invitation with this token, and whether the token was mailed, so that who has it has
/// proved to read the mail of the invited address.
fn open(view: &View, token: &str) -> Result<(Invitation, bool)> {
    let hash = hash_of(token);
    let (invitation, proves) = match view.find(&BY_TOKEN, &hash)? {
        Some(shown) => (Some(shown), false),
        None => (view.find(&BY_MAILED_TOKEN, &hash)?, true),
    };
    match invitation {
        Some(invitation) if invitation.is_open(view)? => Ok((invitation, proves)),
        _ => Err(Error::no_such(INVITATION).at("token")),
    }
}

fn preview(view: &View, req: &Req<(), InvitationToken>) -> Result<InvitationPreview> {
    let (invitation, _) = open(view, &req.input.token)?;
    let org: Organization = view.fetch(&invitation.org)?;
    let inviter: User = view.fetch(&invitation.inviter)?;
    Ok(InvitationPreview {
        org_name: org.name,
        inviter_name: inviter.name,
        email: invitation.email,
        role: invitation.role,
        expires_at: invitation.expires_at,
    })
}

/// Who accepts an invitation.
enum Acceptor {
    /// The person with the invited address, in this session.
    SignedIn(User, Id<Session>),
    /// Somebody who makes an account for the address, which has none.
    New,
    /// Somebody who has proved the address of this account, which nobody had before.
    Proving(User),
    /// Somebody who is not signed in to the account of the address.
    SignedOut,
}

/// Requires name and password.
fn require_complete(input: &AcceptInvitation) -> Result<()> {
    let given = [("name", input.name.is_some()), ("password", input.password.is_some())];
    let absent = given.into_iter().filter(|(_, given)| !given);
    let issue = |(path, _)| {
        Issue::new(path, "is required, unless you accept in a session of the invited address")
    };
    let issues: Vec<Issue> = absent.map(issue).collect();
    if issues.is_empty() { Ok(()) } else { Err(Error::invalid(issues)) }
}

/// Finds out who accepts an invitation.
///
/// # Errors
/// 400, the same whether or not the address has an account, for a caller who is neither signed in to it nor
/// sends what a new one takes.
fn acceptor(
    view: &View,
    req: &Req<(), AcceptInvitation>,
    (invitation, proves): &(Invitation, bool),
) -> Result<Acceptor> {
    let user = find_person(view, &invitation.email)?;
    if let (Some(user), Some(identity)) = (&user, req.identity_if_any())
        && let Credential::Session(session) = identity.credential
        && identity.user == user.id
    {
        return Ok(Acceptor::SignedIn(user.clone(), session));
    }
    require_complete(&req.input)?;
    match user {
        None => Ok(Acceptor::New),
        Some(user) if *proves && is_taken_over(view, &user)? => Ok(Acceptor::Proving(user)),
        Some(_) => Ok(Acceptor::SignedOut),
    }
}

/// Whether who proves the address of an account is let in with that alone. Not past a second factor, which
/// who made the account before proofs were asked for may have.
fn is_taken_over(view: &View, user: &User) -> Result<bool> {
    let is_guarded = user.proof == AddressProof::Unknown && has_second_factor(view, user.id)?;
    Ok(!is_guarded && !user.is_proved(view)?)
}

fn prepare(view: &View, req: &Req<(), AcceptInvitation>) -> Result<HashPlan> {
    let opened = open(view, &req.input.token)?;
    let acceptor = acceptor(view, req, &opened)?;
    let (invitation, _) = opened;
    // An inviter can ask with the token that they were shown whether the address has an account: that
    // takes the room for one, and as long as making one.
    if matches!(acceptor, Acceptor::New | Acceptor::SignedOut) {
        invited_accounts::require_room(view, invitation.inviter)?;
    }
    let make = match acceptor {
        Acceptor::SignedIn(..) => None,
        Acceptor::New | Acceptor::Proving(_) | Acceptor::SignedOut => {
            req.input.password.as_ref().map(ToString::to_string)
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
    let opened = open(&tx.view(), &req.input.token)?;
    let acceptor = acceptor(&tx.view(), req, &opened)?;
    let (invitation, proves) = opened;
    let (session, user) = match acceptor {
        Acceptor::SignedIn(user, session) => {
            if proves {
                accounts::note_proof(tx, &user)?;
            }
            let session: Session = tx.fetch(&session)?;
            (sessions::to_info(&tx.view(), &session, &user)?, user.id)
        }
        Acceptor::New => {
            let proof = if proves { AddressProof::Proved } else { AddressProof::Unproved };
            let name = req.input.name.as_ref().ok_or_else(made_meanwhile)?;
            let password = Some(hashed.made.clone().ok_or_else(made_meanwhile)?);
            let user = accounts::create(tx, &invitation.email, name, password, proof)?;
            invited_accounts::note(tx, user.id, invitation.inviter)?;
            (sessions::create_session(tx, &user, req.origin.address)?, user.id)
        }
        Acceptor::Proving(old) => {
            let password = Some(hashed.made.clone().ok_or_else(made_meanwhile)?);
            let taken = accounts::set_password(tx, &old, password, true)?;
            let name = req.input.name.clone().ok_or_else(made_meanwhile)?;
            let user = User { name, ..taken.clone() };
            tx.replace(&taken, &user)?;
            (sessions::create_session(tx, &user, req.origin.address)?, user.id)
        }
        // A lost token must not let others join in the name of the account.
        Acceptor::SignedOut => {
            return Err(Error::unauthenticated(
                "the invited address has an account; sign in with it and accept again",
            ));
        }
    };
    if tx.get::<Membership>(&(user, invitation.org))?.is_some() {
        return Err(Error::conflict("already_member", "this user is already a member"));
    }
    tx.insert(&Membership {
        user,
        org: invitation.org,
        role: invitation.role,
        // An admin has invited the address, and who accepts has shown that they read its mail.
        email_verified: proves,
        joined_at: tx.now(),
    })?;
    tx.remove(&invitation)?;
    Ok((session, user))
}

/// The error if the account has appeared or gone between the hashing of the password and now.
fn made_meanwhile() -> Error {
    Error::busy("overloaded", "the account of the invited address has just changed; try again", 1)
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/organizations/members",
            SESSION_ADMIN,
            "invitation.create",
            op::write(invite),
        )
        .asks_again_to("invite an owner or admin")
        .about("Invite a user, replacing an older invitation"),
        Route::get("/organizations/invitations", SESSION_ADMIN, "invitation.list", op::walk(list))
            .about("List open invitations, newest first"),
        Route::delete(
            "/organizations/invitations/{invitationId}",
            SESSION_ADMIN,
            "invitation.delete",
            op::write(revoke),
        )
        .about("Revoke an invitation"),
        Route::post("/auth/invitations/preview", ANYONE, "invitation.preview", op::read(preview))
            .about("Get what an invitation is to"),
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
mod tests;
