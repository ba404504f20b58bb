//! Invitations by mail, where the server can send mail
//! (reference: identity-and-rights, "Invitations").

use super::invitation::{Invitation, invitation_token, mailed_token};
use crate::api::Resource;
use crate::auth::{Organization, User};
use crate::base::Result;
use crate::outbox::{
    Effect, EffectResult, Job, JobHandler, Prepared, Settled, enqueue, settle_mail,
};
use crate::outside::mail::{Mail, inert};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { jobs: &[SEND], ..Resource::EMPTY };

/// Mails its link to the invited address.
const SEND: JobHandler = JobHandler { kind: "invitation.mail", prepare, settle };

/// Has a new invitation mailed, if it says from where.
pub(super) fn send(tx: &mut Tx, invitation: &Invitation) -> Result<()> {
    if invitation.mail_base.is_some() {
        let inviter = invitation.inviter.cast();
        enqueue(tx, &SEND, invitation.id.cast(), Some(inviter), tx.now())?;
    }
    Ok(())
}

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let invitation: Option<Invitation> = tx.get(&(tx.org(), job.target.cast()))?;
    let valid = invitation.filter(|invitation| invitation.expires_at > tx.now());
    let Some((invitation, base)) = valid.and_then(|invitation| {
        let base = invitation.mail_base.clone()?;
        Some((invitation, base))
    }) else {
        return Ok(Prepared::Done);
    };
    let organization: Organization = tx.fetch(&tx.org())?;
    let inviter: User = tx.fetch(&invitation.inviter)?;
    let token = match invitation.mailed {
        Some(_) => mailed_token(tx.keys(), invitation.id),
        // Of before there was another one.
        None => invitation_token(tx.keys(), invitation.id),
    };
    let text = format!(
        "{} invites you to the organization {} at {base}.\n\nAccept within 7 days, with this link, \
         which works once:\n\n{base}/invitations#{token}\n\nIf you do not want to, do nothing.\n",
        inert(&inviter.name),
        inert(&organization.name)
    );
    Ok(Prepared::Effect(Effect::Mail(Mail {
        id: invitation.id.to_string(),
        to: vec![invitation.email],
        subject: format!("Invitation to {}", inert(&organization.name)),
        text,
        html: None,
        unsubscribe: None,
    })))
}

fn settle(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    Ok(settle_mail(tx, job, result, None, "an invitation could not be mailed"))
}
