//! Handing a wake out: leasing, merging and dropping.

use super::reasons::{as_it_stands, count_dropped};
use super::wake::{LEASE_SECS, Wake, merge, pause_after, same_subject};
use crate::auth::Caller;
use crate::base::{Id, Result};
use crate::resources::teams::member::Member;
use crate::resources::teams::team::{Team, require_team};
use crate::resources::teams::usable::UsableMember;
use crate::store::{Tx, View};

/// Returns the agent whose wakes a path names.
pub fn fetch_agent(
    view: &View,
    caller: &Caller,
    (team, agent): (Id<Team>, Id<Member>),
) -> Result<UsableMember> {
    require_team(view, team)?;
    UsableMember::fetch(view, caller, (team, agent))
}

/// What a wake is looked at for.
#[derive(Clone, Copy)]
pub enum HandOut<'a> {
    /// To be shown, and left as it is.
    Peek,
    /// To be handed to this agent, which asks for it.
    Lease(&'a Member),
    /// To be posted.
    Post,
}

/// What became of a wake that was looked at.
pub enum Offered {
    /// It may be shown, or is leased.
    Wake(Wake),
    /// It is merged into a newer one, or is dropped since its reason no longer holds.
    Nothing,
    /// Its agent has fetched it as often as it is to: it is to be set aside, in place of these rows.
    Exhausted { rows: Vec<Wake>, merged: Wake },
}

/// Whether a wake was fetched as often as it is to be. While it is posted, the posts have their own end.
pub fn is_exhausted(wake: &Wake, member: &Member) -> bool {
    wake.posting_since.is_none() && wake.fetches >= member.max_attempts()
}

/// Returns a wake that is not leased, merged with the older ones of its subject, and leases it unless it is
/// only shown, under a new id if others were merged.
pub fn offer(tx: &mut Tx, wake: &Wake, how: HandOut<'_>) -> Result<Offered> {
    let now = tx.now();
    let mut rows = match wake.subject() {
        Some(_) => same_subject(&tx.view(), wake)?,
        None => vec![wake.clone()],
    };
    let all = rows.len();
    rows.retain(|row| !row.is_leased(now));
    let is_leased_beside = rows.len() < all;
    // One that is put off goes along with an older one that is not.
    let is_in_place = |newest: &Wake| {
        newest.id == wake.id || matches!(how, HandOut::Lease(_)) && newest.held_until(now).is_some()
    };
    let Some((newest, older)) = rows.split_last().filter(|(newest, _)| is_in_place(newest)) else {
        return Ok(Offered::Nothing);
    };
    let merged = older.iter().rev().fold(newest.clone(), |merged, older| merge(older, &merged));
    let Some(merged) = as_it_stands(&tx.view(), merged)? else {
        rows.iter().try_for_each(|row| tx.remove(row))?;
        count_dropped(tx)?;
        return Ok(Offered::Nothing);
    };
    match how {
        HandOut::Peek => return Ok(Offered::Wake(merged)),
        HandOut::Lease(member) if is_exhausted(&merged, member) => {
            // It joins the later cause that is out.
            if is_leased_beside {
                return Ok(Offered::Nothing);
            }
            return Ok(Offered::Exhausted { rows, merged });
        }
        HandOut::Lease(_) | HandOut::Post => {}
    }
    older.iter().try_for_each(|row| tx.remove(row))?;
    // Who holds the newest from a lease that has ended has not seen the others.
    let id = if older.is_empty() { merged.id } else { tx.new_id() };
    let attempts = merged.attempts + 1;
    let leased_until = Some(now.plus_secs(LEASE_SECS));
    let mut leased = Wake { id, attempts, leased_until, again_at: None, ..merged };
    if let HandOut::Lease(member) = how
        && leased.posting_since.is_none()
    {
        leased.fetches += 1;
        let pause = pause_after(leased.fetches);
        let is_put_off = pause > 0 && !is_exhausted(&leased, member);
        leased.again_at = is_put_off.then(|| now.plus_secs(LEASE_SECS + pause));
    }
    tx.replace(newest, &leased)?;
    Ok(Offered::Wake(leased))
}
