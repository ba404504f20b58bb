//! Who it is that a provider has let in: somebody who is linked, whose address has an account, or who is new.

use schemars::JsonSchema;
use serde::Serialize;

use super::joining;
use super::rules::{self, Said};
use crate::api::{Origin, Outcome, Output, ResourceRef};
use crate::auth::oidc::{Confirmation, IdClaims, Oidc, OidcProvider, SignInAttempt};
use crate::auth::{AddressProof, ProviderSession, User, find_person, note_proof};
use crate::base::{Email, Error, Id, Result};
use crate::resources::organizations::accounts;
use crate::resources::organizations::sessions::{SessionInfo, begin_session_of, to_info};
use crate::resources::organizations::sign_in_link::{
    BY_SUBJECT, link, subject_detail, subject_hash,
};
use crate::store::Tx;

/// How a sign-in with a provider ended: with a session, or with a link to be confirmed.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FinishedProviderSignIn")]
pub(super) struct Finished {
    /// The session, if the person has an account that is linked now.
    pub session: Option<SessionInfo>,
    /// Otherwise what links the account of the provider, in a session of the person's own
    /// (`POST /auth/links`), within ten minutes.
    pub confirmation: Option<String>,
    /// The address that the provider has of the person.
    pub email: Option<Email>,
    /// The path that was to be returned.
    pub return_to: String,
    #[serde(skip)]
    about: Option<ResourceRef>,
    #[serde(skip)]
    actor: Option<Id<User>>,
}

impl Output for Finished {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        self.about.clone()
    }

    fn actor(&self) -> Option<Id<User>> {
        self.actor
    }
}

/// Ends an attempt for the person of whom the provider says this. A refusal is to be committed, so that the
/// attempt is over; nothing was written before it.
pub(super) fn finish_as(
    tx: &mut Tx,
    (oidc, provider, attempt): (&Oidc, &OidcProvider, &SignInAttempt),
    claims: IdClaims,
    origin: &Origin,
) -> Result<Outcome<Finished>> {
    let request_id = &*origin.request_id;
    if attempt.link {
        return Ok(Outcome::Done(to_confirm(tx, (provider, attempt), claims)));
    }
    let hash = subject_hash(&provider.issuer, &claims.subject);
    if let Some(link) = tx.find(&BY_SUBJECT, &hash)? {
        let user: User = tx.fetch(&link.user)?;
        let found = (&user, "linked before");
        return signed_in(tx, (oidc, provider, attempt), claims, found, origin).map(Outcome::Done);
    }
    let email = match verified_address(provider, &claims) {
        Ok(email) => email.clone(),
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let (user, how) = match find_person(&tx.view(), &email)? {
        None => match joining::find_place(&tx.view(), provider, &email)? {
            Ok(place) => {
                let user = joining::join(tx, place, &claims, &email, request_id)?;
                (user, "joined and linked with it")
            }
            Err(refusal) => return Ok(Outcome::Refused(refusal)),
        },
        Some(user) if user.proof == AddressProof::Unproved => {
            let Some(rules) = joining::taking_over(&tx.view(), provider, &user)? else {
                return Ok(Outcome::Done(to_confirm(tx, (provider, attempt), claims)));
            };
            let user = accounts::set_password(tx, &user, None, true)?;
            joining::become_members(tx, user.id, &rules, request_id)?;
            (user, "taken over and linked with it")
        }
        Some(user) if joining::is_somebodys(&tx.view(), &user)? => {
            return Ok(Outcome::Done(to_confirm(tx, (provider, attempt), claims)));
        }
        Some(user) => {
            accounts::note_proof(tx, &user)?;
            (tx.fetch(&user.id)?, "linked with it")
        }
    };
    let confirmed = confirmation(tx, provider, &claims);
    link(tx, user.id, &confirmed)?;
    signed_in(tx, (oidc, provider, attempt), claims, (&user, how), origin).map(Outcome::Done)
}

/// The address of a person who is not linked yet.
fn verified_address<'a>(provider: &OidcProvider, claims: &'a IdClaims) -> Result<&'a Email> {
    let is_verified = claims.email_verified || provider.trusts_addresses;
    claims.email.as_ref().filter(|_| is_verified).ok_or_else(|| {
        Error::forbidden(
            "address_not_verified",
            format!(
                "{} does not say that it has verified your e-mail address, so it cannot tell which \
                 account is yours; sign in with your password and link it on the page of your \
                 account, or verify the address there",
                provider.label
            ),
        )
    })
}

fn confirmation(tx: &Tx, provider: &OidcProvider, claims: &IdClaims) -> Confirmation {
    let (name, issuer) = (provider.name.clone(), provider.issuer.clone());
    let mut confirmation = Confirmation::new(tx.random(), name, issuer, tx.now());
    confirmation.subject.clone_from(&claims.subject);
    confirmation.email.clone_from(&claims.email);
    confirmation
}

fn to_confirm(
    tx: &Tx,
    (provider, attempt): (&OidcProvider, &SignInAttempt),
    claims: IdClaims,
) -> Finished {
    Finished {
        session: None,
        confirmation: Some(confirmation(tx, provider, &claims).sign(tx.keys())),
        email: claims.email,
        return_to: attempt.return_to.clone(),
        about: None,
        actor: None,
    }
}

fn signed_in(
    tx: &mut Tx,
    (oidc, provider, attempt): (&Oidc, &OidcProvider, &SignInAttempt),
    claims: IdClaims,
    (user, how): (&User, &str),
    origin: &Origin,
) -> Result<Finished> {
    let (name, request_id) = (&*provider.name, &*origin.request_id);
    let said = Said { oidc, provider: name, claims: &claims.said, request_id };
    rules::apply(tx, user.id, &said)?;
    let session = begin_session_of(tx, user, origin.address, provider.session_secs)?;
    let id = session.id;
    let of_issuer = |text: &str| subject_hash(&provider.issuer, text);
    tx.insert(&ProviderSession {
        session: id,
        provider: provider.name.clone(),
        subject: Some(of_issuer(&claims.subject)),
        sid: claims.sid.as_deref().map(of_issuer),
    })?;
    // Who is let through, since they signed in there before, proves nothing anew.
    if let Some(auth_time) = claims.auth_time {
        note_proof(tx, id, auth_time)?;
    }
    // Such as the groups of Entra, if they are many: where they are is another service.
    let is_cut = claims.said.contains_key("_claim_names");
    let cut = if is_cut { ", which has left claims out (_claim_names)" } else { "" };
    let detail = format!("{}, {how}{cut}", subject_detail(&provider.name, &claims.subject));
    Ok(Finished {
        session: Some(to_info(&tx.view(), &session, user)?),
        confirmation: None,
        email: claims.email,
        return_to: attempt.return_to.clone(),
        about: ResourceRef::of("session", id).map(|about| about.with_detail(detail)),
        actor: Some(user.id),
    })
}
