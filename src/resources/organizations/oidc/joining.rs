//! New people: those who were invited, and those of the domains that organizations list.
//!
//! Anybody who administers an organization can invite any address. So who signs in for the first time joins
//! by one invitation at most, and by none where an organization lists their domain: they accept the others
//! themselves. Who has an account already joins by no invitation, and by a rule only if it takes the account
//! over.

use std::ops::ControlFlow;

use super::records::{BY_DOMAIN, JoiningDomain};
use super::rules::grant_joined;
use crate::auth::oidc::{IdClaims, OidcProvider};
use crate::auth::{AddressProof, Membership, Role, User};
use crate::base::{Domain, Email, Error, Id, Kind, Name, Result};
use crate::resources::organizations::invitation::{BY_EMAIL, Invitation};
use crate::resources::organizations::sign_in_link::has_any;
use crate::resources::organizations::{accounts, break_glass, invited_accounts};
use crate::store::{Order, Org, Tx, View};

/// Rules that one new account joins by, and invitations that are looked at.
const MAX_JOINED: usize = 20;

/// What a person who has no account joins by.
pub(super) struct Place {
    rules: Vec<JoiningDomain>,
    /// Where no rule is of their domain.
    invitation: Option<Invitation>,
}

/// Finds what a person who has no account joins by, or why they do not: 403 if nobody has invited them, and
/// no organization lists their domain for this provider; 429 if those who have invited them have caused too
/// many accounts.
pub(super) fn find_place(
    view: &View,
    provider: &OidcProvider,
    email: &Email,
) -> Result<Result<Place>> {
    let rules = rules(view, provider, email)?;
    if !rules.is_empty() {
        return Ok(Ok(Place { rules, invitation: None }));
    }
    let invited = counted(view, email)?;
    Ok(invited.map(|invitation| Place { rules, invitation: Some(invitation) }))
}

/// Makes the account of a person who has none, and their memberships.
pub(super) fn join(
    tx: &mut Tx,
    place: Place,
    claims: &IdClaims,
    email: &Email,
    request_id: &str,
) -> Result<User> {
    let Place { rules, invitation } = place;
    let user = accounts::create(tx, email, &name(claims, email), None, AddressProof::Proved)?;
    if let Some(invitation) = &invitation {
        invited_accounts::note(tx, user.id, invitation.inviter)?;
    }
    become_members(tx, user.id, &rules, request_id)?;
    if let Some(invitation) = invitation {
        become_member(tx, user.id, invitation.org, invitation.role)?;
        tx.remove(&invitation)?;
    }
    Ok(user)
}

/// Whether somebody can sign in to an account.
pub(super) fn is_somebodys(view: &View, user: &User) -> Result<bool> {
    Ok(user.password.is_some() || has_any(view, user.id)?)
}

/// Returns the rules by which a provider takes over an account whose address nobody has proved, or `None`:
/// whoever administers any other provider could otherwise enter every such account, with its role. A member
/// of an organization that lists the domain is no squatter, and knows a password or has a link.
pub(super) fn taking_over(
    view: &View,
    provider: &OidcProvider,
    user: &User,
) -> Result<Option<Vec<JoiningDomain>>> {
    let rules = rules(view, provider, &user.email)?;
    if rules.is_empty() || !break_glass::of(view, user.id)?.is_empty() {
        return Ok(None);
    }
    if is_somebodys(view, user)? {
        for rule in &rules {
            if view.has::<Membership>(&(user.id, rule.org))? {
                return Ok(None);
            }
        }
    }
    Ok(Some(rules))
}

/// Returns the oldest open invitation of an address whose inviter may cause another account, or why there is
/// none.
fn counted(view: &View, email: &Email) -> Result<Result<Invitation>> {
    let mut refused = Error::forbidden(
        "not_invited",
        format!(
            "{email} has no account here and no open invitation, and no organization lets its domain \
             in; ask an admin of your organization for an invitation"
        ),
    );
    for invitation in open_invitations(view, email)? {
        match invited_accounts::require_room(view, invitation.inviter) {
            Ok(()) => return Ok(Ok(invitation)),
            Err(full) if full.kind() == Kind::Limited => refused = full,
            Err(error) => return Err(error),
        }
    }
    Ok(Err(refused))
}

/// Makes the memberships of rules, with their grants.
pub(super) fn become_members(
    tx: &mut Tx,
    user: Id<User>,
    rules: &[JoiningDomain],
    request_id: &str,
) -> Result<()> {
    for rule in rules {
        if become_member(tx, user, rule.org, rule.role)? {
            grant_joined(tx, user, rule, request_id)?;
        }
    }
    Ok(())
}

fn open_invitations(view: &View, email: &Email) -> Result<Vec<Invitation>> {
    let mut open = Vec::new();
    view.for_each(&BY_EMAIL, email, Order::Ascending, |invitation: Invitation| {
        if invitation.is_open(view)? {
            open.push(invitation);
        }
        let is_full = open.len() == MAX_JOINED;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(open)
}

fn rules(view: &View, provider: &OidcProvider, email: &Email) -> Result<Vec<JoiningDomain>> {
    let domain = email.as_str().rsplit_once('@').and_then(|(_, domain)| Domain::parse(domain).ok());
    let (Some(domain), mut rules) = (domain, Vec::new()) else { return Ok(Vec::new()) };
    view.for_each(&BY_DOMAIN, &domain, Order::Ascending, |rule: JoiningDomain| {
        if rule.provider == provider.name {
            rules.push(rule);
        }
        let is_full = rules.len() == MAX_JOINED;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(rules)
}

/// The name that the provider has of a person, else the first part of the address.
fn name(claims: &IdClaims, email: &Email) -> Name {
    let own = claims.name.as_deref().and_then(|name| Name::parse(name.trim()).ok());
    own.unwrap_or_else(|| {
        let first = email.as_str().split('@').next().unwrap_or_default();
        Name::parse(first).unwrap_or_else(|_| Name::from_trusted("New member".into()))
    })
}

/// Makes a membership, and returns whether there was none.
fn become_member(tx: &mut Tx, user: Id<User>, org: Id<Org>, role: Role) -> Result<bool> {
    if tx.get::<Membership>(&(user, org))?.is_some() {
        return Ok(false);
    }
    let joined_at = tx.now();
    tx.insert(&Membership { user, org, role, email_verified: true, joined_at })?;
    Ok(true)
}
