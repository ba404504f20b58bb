//! Reset links by mail (reference: identity-and-rights, "Getting back in").
//!
//! Anyone may ask for one, and must not learn whether an address has an account. So a request only
//! notes the address, the same for every one; a job looks for its user afterwards.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::password_reset::{Origin, VALID_SECS, has_personal, issue};
use super::sessions::attempt;
use crate::api::{Empty, HashPlan, Input, Req, Resource, Route, op};
use crate::auth::passwords::{HashRequest, HashResult};
use crate::auth::{ANYONE, User, find_person};
use crate::base::{Email, Error, Id, Result, Time};
use crate::outbox::{
    Effect, EffectResult, Job, JobHandler, Prepared, Settled, enqueue, no_effect, pending_job,
    settle_mail,
};
use crate::outside::mail::Mail;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, TableInfo, Tx, View,
    upgrade_shorter,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<ResetRequests>(), TableInfo::of::<ResetMails>()],
    jobs: &[FIND_USERS, SEND_MAIL],
    ..Resource::EMPTY
};

/// Requests that wait for the job at once, for the few milliseconds until it has run: they are in
/// one record, so that strangers cannot fill the store with addresses.
const MAX_WAITING: usize = 500;

/// Requests that the job handles in one transaction.
const HANDLED_AT_ONCE: usize = 50;

/// A user is sent at most three links an hour, whoever asks: enough for a mail that was lost, and too
/// few to bother anyone with.
const MAX_MAILS: usize = 3;
pub(super) const MAILS_SECS: i64 = 3600;

// ── Records ──────────────────────────────────────────────────────────────────

/// The addresses for which a link was asked and whose users have not been looked for.
#[derive(Clone, Debug, Default, Encode, Decode)]
struct ResetRequests {
    waiting: Vec<ResetRequest>,
    /// The job that handles them; unknown of those that an earlier version left.
    job: Option<Id<Job>>,
    /// When each was asked for; unknown of those.
    asked_at: Vec<Time>,
}

/// A request for a link.
#[derive(Clone, Debug, Encode, Decode)]
struct ResetRequest {
    email: Email,
    link_base: String,
}

impl Record for ResetRequests {
    const TABLE: &'static str = "password_reset_requests";
    const EXPORT: Export<Self> =
        Export::LeftOut("for milliseconds, of requests that were sent to this installation");
    const ORG_SCOPED: bool = false;
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("job", "ends together with it; one that is gone is enqueued again")];
    const VERSION: u8 = 2;
    type Key = ();
    fn key(&self) {}
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// The links that a user was sent within an hour.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct ResetMails {
    user: Id<User>,
    /// The base of the link in the last.
    link_base: String,
    /// When each was asked for, oldest first.
    asked_at: Vec<Time>,
}

/// Users by when the last link was asked for, for the retention.
pub(super) static BY_LAST: Index<ResetMails, Time> =
    Index::non_unique("password_reset_mails.by_last", |mails| mails.asked_at.last().copied());

static USER: Reference<ResetMails, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |mails: &ResetMails, _| vec![mails.user.to_bytes()],
);

impl Record for ResetMails {
    const TABLE: &'static str = "password_reset_mails";
    const EXPORT: Export<Self> = Export::LeftOut("for an hour, of mails of this installation");
    const ORG_SCOPED: bool = false;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&USER];
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_LAST];
    type Key = Id<User>;
    fn key(&self) -> Self::Key {
        self.user
    }
}

impl ResetMails {
    /// Whether everything in it is so old that it limits nothing.
    pub(super) fn is_past(&self, now: Time) -> bool {
        self.asked_at.last().is_none_or(|last| !limits(*last, now))
    }
}

/// Whether a mail of this time still counts. One of a time to come was sent while the clock was ahead.
fn limits(asked_at: Time, now: Time) -> bool {
    asked_at > now.minus_secs(MAILS_SECS) && !asked_at.is_beyond(now, 0)
}

// ── Asking ───────────────────────────────────────────────────────────────────

/// The address of a user who cannot sign in.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"email": "ada@acme.example"}]))]
struct ForgotPassword {
    email: Email,
}
impl Input for ForgotPassword {}

fn prepare(view: &View, req: &Req<(), ForgotPassword>) -> Result<HashPlan> {
    if !req.server.sends_mail || req.origin.link_base.is_empty() {
        return Err(Error::conflict(
            "mail_not_configured",
            "this server cannot mail links; ask an admin of your organization for one, or the \
             server's operator, who can start it with --smtp-url and --public-url",
        ));
    }
    let attempt = Some(attempt(view, req.input.email.clone(), req.origin.address)?);
    Ok(HashPlan { hashing: HashRequest::default(), attempt })
}

fn ask(
    tx: &mut Tx,
    req: &Req<(), ForgotPassword>,
    _: &HashResult,
) -> Result<(Empty, Option<Id<User>>)> {
    request_reset_mail(tx, &req.input.email, &req.origin.link_base)?;
    Ok((Empty {}, None))
}

/// Notes that a link was asked for, for an address that may have no account.
///
/// # Errors
/// 503 if too many wait.
pub fn request_reset_mail(tx: &mut Tx, email: &Email, link_base: &str) -> Result<()> {
    let mut requests = tx.get::<ResetRequests>(&())?.unwrap_or_default();
    let job = requests.job;
    if job.map_or(Ok(None), |job| pending_job(&tx.view(), &job))?.is_none() {
        // One that was given up or lost handles nothing.
        requests.job = Some(enqueue(tx, &FIND_USERS, Id::NIL, Some(Id::NIL), tx.now())?);
    } else if requests.waiting.iter().any(|waiting| waiting.email == *email) {
        return Ok(());
    }
    if requests.waiting.len() == MAX_WAITING {
        return Err(Error::busy("overloaded", "too many links were asked for; try again", 5));
    }
    if let Some(at) = requests.waiting.iter().position(|waiting| waiting.email == *email) {
        requests.waiting.remove(at);
        if at < requests.asked_at.len() {
            requests.asked_at.remove(at);
        }
    }
    // Those of an earlier version count as asked for now.
    requests.asked_at.resize(requests.waiting.len(), tx.now());
    requests.asked_at.push(tx.now());
    requests.waiting.push(ResetRequest { email: email.clone(), link_base: link_base.into() });
    tx.put(&requests)
}

// ── Jobs ─────────────────────────────────────────────────────────────────────

/// Looks for the users of the addresses that are noted.
const FIND_USERS: JobHandler =
    JobHandler { kind: "password_reset.find_users", prepare: find_users, settle: no_effect };

fn find_users(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let Some(requests) = tx.get::<ResetRequests>(&())? else { return Ok(Prepared::Done) };
    let handled = requests.waiting.len().min(HANDLED_AT_ONCE);
    for (at, request) in requests.waiting[..handled].iter().enumerate() {
        if !is_too_late(tx, requests.asked_at.get(at).copied().unwrap_or(job.created_at)) {
            note_mail(tx, request)?;
        }
    }
    let waiting = requests.waiting[handled..].to_vec();
    let asked_at = requests.asked_at.get(handled..).unwrap_or_default().to_vec();
    if waiting.is_empty() {
        tx.remove(&requests)?;
        return Ok(Prepared::Done);
    }
    tx.replace(&requests, &ResetRequests { waiting, asked_at, ..requests.clone() })?;
    Ok(Prepared::RetryAt(tx.now()))
}

/// Whether what was asked for then is not waited for any more: nobody waits longer than a link is valid.
fn is_too_late(tx: &Tx, asked_at: Time) -> bool {
    asked_at.plus_secs(VALID_SECS) < tx.now()
}

/// Has a link mailed if the address has a user, who was not sent enough of them already.
fn note_mail(tx: &mut Tx, request: &ResetRequest) -> Result<()> {
    let Some(user) = find_person(&tx.view(), &request.email)? else { return Ok(()) };
    let now = tx.now();
    let mut asked_at =
        tx.get::<ResetMails>(&user.id)?.map_or_else(Vec::new, |mails| mails.asked_at);
    asked_at.retain(|at| limits(*at, now));
    // Who was given a link in person keeps that: strangers must not replace it.
    if asked_at.len() >= MAX_MAILS || has_personal(&tx.view(), &user)? {
        return Ok(());
    }
    asked_at.push(now);
    tx.put(&ResetMails { user: user.id, link_base: request.link_base.clone(), asked_at })?;
    enqueue(tx, &SEND_MAIL, user.id.cast(), Some(user.id.cast()), now)?;
    Ok(())
}

/// Mails a link to a user. Each attempt makes a new one: its token is stored nowhere.
const SEND_MAIL: JobHandler =
    JobHandler { kind: "password_reset.mail", prepare: write_mail, settle: sent };

fn write_mail(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let id: Id<User> = job.target.cast();
    let (Some(user), Some(mails)) = (tx.get::<User>(&id)?, tx.get::<ResetMails>(&id)?) else {
        return Ok(Prepared::Done);
    };
    if has_personal(&tx.view(), &user)? || is_too_late(tx, job.created_at) {
        return Ok(Prepared::Done);
    }
    let url = issue(tx, &user, Origin::Mail)?.url(&mails.link_base);
    let text = format!(
        "Someone, perhaps you, asked for a new password for {} at {}.\n\nSet it within 30 minutes, \
         with this link, which works once:\n\n{url}\n\nAll sessions of the account end then. If you \
         did not ask for it, do nothing: your password stays as it is.\n",
        user.email, mails.link_base
    );
    Ok(Prepared::Effect(Effect::Mail(Mail {
        id: tx.new_id::<Mail>().to_string(),
        to: vec![user.email],
        subject: "Set a new password".into(),
        text,
        html: None,
        unsubscribe: None,
    })))
}

fn sent(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    // Nobody waits longer for it than a link is valid.
    let end = job.created_at.plus_secs(VALID_SECS);
    let failed = "a link for a new password could not be mailed";
    Ok(settle_mail(tx, job, result, Some(end), failed))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/auth/password/forgot", ANYONE, "password_reset.ask", op::hash(prepare, ask))
            .no_replay()
            .about("Have a reset link mailed"),
    ]
}

#[cfg(test)]
mod tests;
