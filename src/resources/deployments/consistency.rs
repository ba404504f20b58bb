//! A deployment that waits for no other has a row of the outbox that runs it: without that it would wait for
//! ever, and those behind it with it.

use std::ops::ControlFlow;

use super::job::DeploymentJob;
use super::running::{may_go_on, resume};
use super::state::JobState;
use crate::base::Result;
use crate::outbox::Job;
use crate::store::check::Findings;
use crate::store::{ListSource, Order, Tx, View};

/// Verifies it for all deployments.
///
/// # Errors
/// If a record cannot be read or the store fails.
pub fn check(view: &View, findings: &mut Findings) -> Result<()> {
    for job in stuck(view)? {
        findings.report(format!("deployment {}: nothing runs it any more", job.id));
    }
    Ok(())
}

/// Has those run again that nothing runs any more. Returns what was wrong, if anything was.
///
/// # Errors
/// If a record cannot be read or the store fails.
pub fn mend(tx: &mut Tx) -> Result<Option<String>> {
    let stuck = stuck(&tx.view())?;
    for job in &stuck {
        resume(tx, job)?;
    }
    Ok(stuck.first().map(|_| "nothing runs it any more".into()))
}

/// Returns deployments that nothing runs though they wait for nothing, at most a hundred.
fn stuck(view: &View) -> Result<Vec<DeploymentJob>> {
    let mut stuck = Vec::new();
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |job: DeploymentJob| {
        let is_stuck = match job.task {
            Some(task) => !view.has::<Job>(&task)?,
            None if matches!(job.state, JobState::Approved | JobState::Running) => {
                may_go_on(view, &job)?
            }
            None => false,
        };
        if is_stuck {
            stuck.push(job);
        }
        let is_full = stuck.len() == 100;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(stuck)
}
