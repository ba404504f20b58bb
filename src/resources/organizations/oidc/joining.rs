//! New people: those who were invited, and those of the domains that organizations list.
//!
//! Anybody who administers an organization can invite any address. So who signs in for the first time joins
//! by one invitation at most, and by none where an organization lists their domain: they accept the others
//! themselves.

use std::ops::ControlFlow;

use super::records::{BY_DOMAIN, JoiningDomain};
use crate::auth::oidc::{IdClaims, OidcProvider};
use crate::auth::{AddressProof, Membership, Role, User};
use crate::base::{Domain, Email, Error, Id, Name, Result};
use crate::resources::organizations::accounts;
use crate::resources::organizations::invitation::{BY_EMAIL, Invitation};
use crate::resources::organizations::invited_accounts;
use crate::store::{Order, Org, Tx, View};

/// Rules that one new account joins by, and invitations that are looked at.
const MAX_JOINED: usize = 20;

/// Makes the account of a person who has none, and their memberships.
///
/// # Errors
/// 403 if nobody has invited them, and no organization lists their domain for this provider; 429 if those
/// who have invited them have caused too many accounts.
pub(super) fn join(
    tx: &mut Tx,
    provider: &OidcProvider,
    claims: &IdClaims,
    email: &Email,
) -> Result<User> {
    let rules = rules(&tx.view(), provider, email)?;
    let invitation = if rules.is_empty() { Some(counted(&tx.view(), email)?) } else { None };
    let user = accounts::create(tx, email, &name(claims, email), None, AddressProof::Proved)?;
    if let Some(invitation) = &invitation {
        invited_accounts::note(tx, user.id, invitation.inviter)?;
    }
    become_members(tx, user.id, &rules, invitation)?;
    Ok(user)
}

/// Makes the memberships of a person whose account somebody else made.
pub(super) fn join_as(tx: &mut Tx, provider: &OidcProvider, user: &User) -> Result<()> {
    let rules = rules(&tx.view(), provider, &user.email)?;
    let invitations = open_invitations(&tx.view(), &user.email)?;
    let oldest = invitations.into_iter().next().filter(|_| rules.is_empty());
    become_members(tx, user.id, &rules, oldest)
}

/// Returns the oldest open invitation of an address whose inviter may cause another account.
fn counted(view: &View, email: &Email) -> Result<Invitation> {
    let mut refused = Error::forbidden(
        "not_invited",
        format!(
            "{email} has no account here and no open invitation, and no organization lets its domain \
             in; ask an admin of your organization for an invitation"
        ),
    );
    for invitation in open_invitations(view, email)? {
        match invited_accounts::require_room(view, invitation.inviter) {
            Ok(()) => return Ok(invitation),
            Err(full) => refused = full,
        }
    }
    Err(refused)
}

fn become_members(
    tx: &mut Tx,
    user: Id<User>,
    rules: &[JoiningDomain],
    invitation: Option<Invitation>,
) -> Result<()> {
    for rule in rules {
        become_member(tx, user, rule.org, rule.role)?;
    }
    if let Some(invitation) = invitation {
        become_member(tx, user, invitation.org, invitation.role)?;
        tx.remove(&invitation)?;
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

fn become_member(tx: &mut Tx, user: Id<User>, org: Id<Org>, role: Role) -> Result<()> {
    if tx.get::<Membership>(&(user, org))?.is_some() {
        return Ok(());
    }
    let joined_at = tx.now();
    tx.insert(&Membership { user, org, role, email_verified: true, joined_at })
}
