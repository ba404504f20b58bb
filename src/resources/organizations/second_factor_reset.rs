//! Resetting the second factor of a member who has lost it
//! (reference: identity-and-rights, "Second factor").
//!
//! Who may do so is who may make a link for a new password. Both together let an admin in; each is in
//! the audit log, and of this the person is told.

use super::break_glass;
use super::password_resets::require_may_let_in;
use crate::api::{Deleted, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Membership, Organization, SESSION_ADMIN, User, reset_second_factor};
use crate::base::{Error, Id, Result};
use crate::outbox::{
    Effect, EffectResult, Job, JobHandler, Prepared, Settled, enqueue, settle_mail,
};
use crate::outside::mail::{Mail, inert};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, jobs: &[NOTICE], ..Resource::EMPTY };

fn reset(tx: &mut Tx, req: &Req<Id<User>>) -> Result<Deleted> {
    let (caller, user) = (req.caller(), req.params);
    let membership = tx.fetch::<Membership>(&(user, tx.org()))?;
    if user == caller.user() {
        return Err(Error::forbidden(
            "own_second_factor",
            "one's own second factor is turned off with POST /auth/second-factor/off, by password \
             and code; or ask another admin to reset it",
        ));
    }
    let target: User = tx.fetch(&user)?;
    require_may_let_in(&tx.view(), caller, &membership, &target)?;
    break_glass::require_none(&tx.view(), user)?;
    if !reset_second_factor(tx, user)? {
        return Err(Error::no_such("second factor").at("userId"));
    }
    // Whatever mails were sent: who resets it must not be able to keep it from the person. There is one for
    // each time that they turn it on.
    if req.server.sends_mail {
        enqueue(tx, &NOTICE, user.cast(), Some(caller.user().cast()), tx.now())?;
    }
    let done = Deleted::new(user);
    Ok(match ResourceRef::of("member", user) {
        Some(member) => done.about(member),
        None => done,
    })
}

/// Tells a person by mail.
const NOTICE: JobHandler =
    JobHandler { kind: "second_factor.reset", prepare: write_notice, settle: sent };

fn write_notice(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let Some(user) = tx.get::<User>(&job.target.cast())? else { return Ok(Prepared::Done) };
    let Some(organization) = tx.get::<Organization>(&tx.org())? else { return Ok(Prepared::Done) };
    let text = format!(
        "An admin of {} has turned the second factor of your account {} off, as for somebody who \
         has lost the app. Signing in takes your password alone until you turn it on again, on the \
         page of your account.\n\nIf you did not ask for that, ask an owner of the organization, \
         and choose another password.\n",
        inert(&organization.name),
        user.email
    );
    Ok(Prepared::Effect(Effect::Mail(Mail {
        id: job.id.to_string(),
        to: vec![user.email],
        subject: "Your second factor was reset".into(),
        text,
        html: None,
        unsubscribe: None,
    })))
}

fn sent(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    let failed = "the notice of a second factor that was reset could not be mailed";
    Ok(settle_mail(tx, job, result, None, failed))
}

fn routes() -> Vec<Route> {
    vec![
        Route::delete(
            "/organizations/members/{userId}/second-factor",
            SESSION_ADMIN,
            "second_factor.reset",
            op::write(reset),
        )
        .asks_again_to("let an owner or admin in")
        .about("Reset the second factor of a member"),
    ]
}

#[cfg(test)]
mod tests;
