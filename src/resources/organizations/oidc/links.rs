//! The accounts of providers with which a person signs in: seeing, adding and removing them.
//!
//! A link is another way in, which outlasts the session that makes it and the password. So a session alone
//! makes none: it takes what signing in takes.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::accepted::{require_to_link, require_to_unlink};
use super::records::UsedAttempt;
use super::rules::{self, Said};
use crate::api::{
    Deleted, HashPlan, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::oidc::{Confirmation, Oidc};
use crate::auth::passwords::HashResult;
use crate::auth::{
    CodeRefusal, ProviderSession, SESSION, SESSIONS_BY_USER, Session, User, is_of_provider,
    second_factor_of,
};
use crate::base::{Email, Error, Id, Result, Text, Time};
use crate::outbox::{
    Effect, EffectResult, Job, JobHandler, Prepared, Settled, enqueue, settle_mail,
};
use crate::outside::mail::{Mail, inert};
use crate::resources::organizations::device_request::remove_of_provider;
use crate::resources::organizations::second_factor::{self, require_password};
use crate::resources::organizations::sessions::require_session;
use crate::resources::organizations::sign_in_link::{AccountsAt, SignInLink, link, subject_detail};
use crate::store::{ListSource, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, jobs: &[NOTICE], ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// An account of a provider with which one signs in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInLink")]
pub(super) struct LinkInfo {
    pub id: Id<SignInLink>,
    /// The name of the provider.
    provider: String,
    /// The issuer identifier of the provider.
    issuer: String,
    /// The address that the provider had when it was linked.
    email: Option<Email>,
    /// When it was linked.
    linked_at: Time,
    /// Identifies the person there; only for the audit log.
    #[serde(skip)]
    subject: String,
}

impl LinkInfo {
    fn of(link: SignInLink) -> Self {
        let SignInLink { id, provider, issuer, subject, email, linked_at, .. } = link;
        LinkInfo { id, provider, issuer, email, linked_at, subject }
    }
}

impl Output for LinkInfo {
    fn resource(&self) -> Option<ResourceRef> {
        let detail = subject_detail(&self.provider, &self.subject);
        ResourceRef::id(self.id).map(|about| about.with_detail(detail))
    }
}

/// An account of a provider to link.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"confirmation": "the-confirmation", "password": "seven green bottles"}]))]
#[schemars(rename = "NewSignInLink")]
pub(super) struct NewLink {
    /// What the end of the sign-in with the provider has returned.
    pub confirmation: Text<1, 4000>,
    /// The person's password. Who has none needs a session that was begun with a provider.
    pub password: Option<String>,
    /// A code of the second factor, or a recovery code, if the person has one.
    pub code: Option<String>,
}
impl Input for NewLink {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<LinkInfo>> {
    let user = req.identity().user;
    let page = view.page(ListSource::TABLE, &user, Order::Descending, &req.page, |_| true)?;
    Ok(page.map(LinkInfo::of))
}

/// What is over, or brings nothing that could be guessed, is no attempt to sign in: a page that is sent again
/// must not lock its sender out.
pub(super) fn prepare(view: &View, req: &Req<(), NewLink>) -> Result<HashPlan> {
    confirmed(view, &req.input)?;
    let plan = second_factor::plan(view, req, req.input.password.as_ref())?;
    let guesses = req.input.password.is_some() || req.input.code.is_some();
    Ok(HashPlan { attempt: plan.attempt.filter(|_| guesses), ..plan })
}

/// Returns the confirmation, if it lasts still and was not used.
///
/// # Errors
/// 409 otherwise.
fn confirmed(view: &View, input: &NewLink) -> Result<Confirmation> {
    let read = Confirmation::read(&input.confirmation, view.keys(), view.now());
    let is_used = |read: &Confirmation| view.has::<UsedAttempt>(&read.hash());
    match read {
        Some(read) if !is_used(&read)? => Ok(read),
        _ => Err(Error::conflict(
            "sign_in_expired",
            "ten minutes are over, or it was confirmed before; sign in with the provider again",
        )),
    }
}

/// Makes a link; the confirmation is used up.
pub(super) fn create(
    tx: &mut Tx,
    req: &Req<(), NewLink>,
    hashed: &HashResult,
) -> Result<Outcome<(LinkInfo, Id<User>)>> {
    let confirmed = confirmed(&tx.view(), &req.input)?;
    let used = UsedAttempt { attempt: confirmed.hash(), used_at: tx.now() };
    let user: User = tx.fetch(&req.identity().user)?;
    let session = require_session(req.identity());
    require_to_link(&tx.view(), &req.server.oidc, (&user, session), &confirmed.issuer)?;
    if let Some(refusal) = require_proof(tx, req, &user, hashed)? {
        return Ok(Outcome::Refused(refusal));
    }
    tx.insert(&used)?;
    let made = link(tx, user.id, &confirmed)?;
    if req.server.sends_mail {
        enqueue(tx, &NOTICE, made.id.cast(), Some(user.id.cast()), tx.now())?;
    }
    Ok(Outcome::Done((LinkInfo::of(made), user.id)))
}

/// Requires what signing in takes. Returns a refusal that is to be committed: it counts.
fn require_proof(
    tx: &mut Tx,
    req: &Req<(), NewLink>,
    user: &User,
    hashed: &HashResult,
) -> Result<Option<Error>> {
    if user.password.is_some() {
        if req.input.password.is_none() {
            return Err(Error::invalid_at("password", "is required: the account has a password"));
        }
        require_password(user, hashed)?;
    } else if !is_of_provider(&tx.view(), require_session(req.identity()))? {
        return Err(Error::forbidden(
            "provider_session_required",
            "the account has no password; sign in with an account of a provider that is linked, and \
             link another one then",
        ));
    } else {
        // With the other account somebody signs in, which proves it anew.
        req.identity().require_recent_proof(tx.now())?;
    }
    let Some(factor) = second_factor_of(&tx.view(), user.id)? else { return Ok(None) };
    let Some(code) = &req.input.code else {
        return Err(Error::invalid_at("code", "is required: the account has a second factor"));
    };
    Ok(factor.use_code(tx, code)?.map(CodeRefusal::error))
}

/// Tells a person by mail that an account of a provider was linked to theirs.
pub(super) const NOTICE: JobHandler =
    JobHandler { kind: "sign_in_link.notice", prepare: write_notice, settle: sent };

pub(super) fn write_notice(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let Some(user) = job.concurrency_key.map(Id::cast::<User>) else { return Ok(Prepared::Done) };
    let link: Option<SignInLink> = tx.get(&(user, job.target.cast()))?;
    let (Some(user), Some(link)) = (tx.get::<User>(&user)?, link) else {
        return Ok(Prepared::Done);
    };
    let there = link.email.map_or_else(|| link.subject.clone(), Email::into_string);
    let text = format!(
        "The account {} of the provider {} was linked to your account {}. Who signs in with it there is \
         signed in as you from now on, without your password.\n\nIf that was not you, have a link for a \
         new password mailed (Forgotten your password? on the page to sign in): it unlinks everything.\n",
        inert(&there),
        inert(&link.provider),
        user.email
    );
    Ok(Prepared::Effect(Effect::Mail(Mail {
        id: job.id.to_string(),
        to: vec![user.email],
        subject: "An account was linked to yours".into(),
        text,
        html: None,
        unsubscribe: None,
    })))
}

fn sent(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    let failed = "the notice of an account of a provider that was linked could not be mailed";
    Ok(settle_mail(tx, job, result, None, failed))
}

/// Removes a link, and ends the other sessions that were begun with its provider.
pub(super) fn delete(tx: &mut Tx, req: &Req<Id<SignInLink>>) -> Result<Deleted> {
    let user: User = tx.fetch(&req.identity().user)?;
    let link: SignInLink = tx.fetch(&(user.id, req.params))?;
    let session = require_session(req.identity());
    require_to_unlink(&tx.view(), &req.server.oidc, (&user, session), &link)?;
    if user.password.is_none() && !has_another(&tx.view(), &req.server.oidc, &link)? {
        return Err(Error::conflict(
            "only_way_to_sign_in",
            "you have no password, and nothing else to sign in with; choose a password first, by a \
             link from an admin or by mail",
        ));
    }
    let accounts = AccountsAt::of(&tx.view(), &req.server.oidc, &link)?;
    tx.remove(&link)?;
    end_sessions(tx, (&user, session), &accounts)?;
    withdraw(tx, req, &link)?;
    let about = LinkInfo::of(link).resource();
    let deleted = Deleted::new(req.params);
    Ok(match about {
        Some(about) => deleted.about(about),
        None => deleted,
    })
}

/// Whether the person of a link has linked another account with which they can sign in: nobody does with one
/// of a provider that this server does not have any more.
fn has_another(view: &View, oidc: &Oidc, gone: &SignInLink) -> Result<bool> {
    let links: Vec<SignInLink> = view.all(ListSource::TABLE, &gone.user)?;
    let mut others = links.iter().filter(|link| link.id != gone.id);
    Ok(others.any(|link| oidc.of_issuer(&link.issuer).next().is_some()))
}

/// Withdraws what rules have given by the provider of a link. If the person has linked another account there,
/// the next sign-in with that one gives what is theirs again.
fn withdraw(tx: &mut Tx, req: &Req<Id<SignInLink>>, gone: &SignInLink) -> Result<()> {
    let oidc = &*req.server.oidc;
    // Rules have the name that the provider has now, or had when they were set: also where another provider
    // has that name now, since nobody tells which of them a rule has believed.
    let names_now = oidc.of_issuer(&gone.issuer).map(|provider| &*provider.name);
    let names: BTreeSet<&str> = names_now.chain([&*gone.provider]).collect();
    let (claims, request_id) = (&Map::new(), &*req.origin.request_id);
    for provider in names {
        rules::apply(tx, gone.user, &Said { oidc, provider, claims, request_id })?;
    }
    Ok(())
}

/// Ends the sessions of a person that were begun with a provider, but this one, whichever account there it
/// was. Command lines that they have let in go with them.
fn end_sessions(
    tx: &mut Tx,
    (user, current): (&User, Id<Session>),
    accounts: &AccountsAt,
) -> Result<()> {
    let sessions: Vec<Session> =
        tx.view().all(&SESSIONS_BY_USER, &(user.id, user.session_generation))?;
    for session in sessions.iter().filter(|session| session.id != current) {
        let begun = tx.get::<ProviderSession>(&session.id)?;
        if begun.is_some_and(|begun| accounts.has(&begun.provider, begun.subject)) {
            tx.remove(session)?;
        }
    }
    remove_of_provider(tx, user.id, |name, subject| accounts.has(name, subject))
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/auth/links", SESSION, "sign_in_link.list", op::list(list))
            .about("List your accounts at providers"),
        Route::post(
            "/auth/links",
            SESSION,
            "sign_in_link.create",
            op::hash_counting(prepare, create),
        )
        .no_replay()
        .asks_again_to("link an account without a password")
        .about("Link an account at a provider"),
        Route::delete("/auth/links/{linkId}", SESSION, "sign_in_link.delete", op::write(delete))
            .about("Unlink an account at a provider"),
    ]
}
