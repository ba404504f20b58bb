//! The write box, once for all routes: who calls, may they, was it answered before, is it still as
//! they saw it, the operation, the audit entry, the kept answer: one transaction.

use hyper::Response;
use hyper::header::HeaderValue;

use super::gate::{Passing, admit, etag, names, org_with};
use super::{Reply, json_bytes};
use crate::api::ledger::{self, KEPT_SECS, Kept};
use crate::api::{Answer, HashAction, Named, Outcome, Reading, Scope, Shape, Who, Writing};
use crate::auth::{self, Identity, Presented};
use crate::base::{Error, Id, Kind, Result};
use crate::store::Tx;

/// What is done in the write box. It may be run again.
pub(super) type Operation = Box<dyn FnMut(&mut Tx, &Who) -> Result<Outcome<Answer>> + Send>;

/// A writing operation that leaves nothing when it is refused, as all do that call nobody.
pub(super) fn done(mut operation: Writing) -> Operation {
    Box::new(move |tx, who| operation(tx, who).map(Outcome::Done))
}

/// What `If-Match` expects.
pub(super) struct Expected {
    pub tags: Vec<Vec<u8>>,
    /// How the thing is read; `None` if it cannot be.
    pub reading: Option<Reading>,
}

/// Answers of up to so many bytes are kept: with what stands beside it, one must fit into a record
/// (2 MiB). A text that was compiled may be larger as JSON.
const MAX_KEPT_BYTES: usize = 2 * 1024 * 1024 - 1024;

/// What makes a request the same as one before.
#[derive(Clone, Copy)]
pub(super) struct Repeatable {
    pub request: [u8; 32],
    pub body: [u8; 32],
}

enum Done {
    Now(Answer),
    Before(Vec<u8>),
    Refused(Error),
}

/// Runs a writing route.
pub(super) async fn write(
    passing: &Passing<'_>,
    mut operation: Operation,
    named: &Named,
    repeatable: Option<Repeatable>,
    expected: Option<Expected>,
) -> Result<Response<Reply>> {
    let (context, route) = (passing.context.clone(), passing.route.clone());
    let (presented, named) = (passing.presented.clone(), named.clone());
    let request_id = passing.request_id.to_string();
    let written = passing.context.store.write(Id::NOTHING, move |tx| {
        let (who, org) = {
            let view = tx.view();
            let (who, view) = admit(&context, &route, &presented, &view, &named)?;
            (who, view.org())
        };
        tx.enter(org);
        if let Some(repeatable) = &repeatable
            && let Some(kept) = replay(tx, repeatable)?
        {
            return Ok(Done::Before(kept));
        }
        if let Some(expected) = &expected {
            expected.must_hold(tx, &who)?;
        }
        let answer = match operation(tx, &who)? {
            Outcome::Done(answer) => answer,
            Outcome::Refused(error) => return Ok(Done::Refused(error)),
        };
        // Not before the operation: that there is no such thing (404) is said first.
        if expected.as_ref().is_some_and(Expected::cannot_hold) {
            return Err(changed_meanwhile());
        }
        if route.shape == Shape::Change {
            let subject = subject(&answer.body).or_else(|| named.params.last().cloned());
            audit_everywhere(tx, &who, route.name, subject, &request_id)?;
        }
        if let Some(repeatable) = &repeatable {
            let shows_secret = route.secret.is_some_and(|field| has(&answer.body, field));
            let is_kept = !shows_secret && answer.body.len() <= MAX_KEPT_BYTES;
            // What changed nothing may as well be asked again.
            if is_kept || route.shape == Shape::Change {
                keep(tx, repeatable, is_kept.then_some(&answer.body))?;
            }
        }
        Ok(Done::Now(answer))
    });
    match written.await? {
        Done::Now(answer) => Ok(json_bytes(answer.body)),
        Done::Before(body) => {
            let mut response = json_bytes(body);
            response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
            Ok(response)
        }
        Done::Refused(error) => Err(error),
    }
}

/// Runs a route with a password: look, hash, write.
pub(super) async fn hash(
    passing: &Passing<'_>,
    mut operation: Box<dyn HashAction>,
) -> Result<Response<Reply>> {
    let context = passing.context;
    let who = match &passing.identity {
        Some(identity) => Who::Identity(identity.clone()),
        None => Who::Anyone,
    };
    let work = context.store.read(Id::NOTHING, |view| operation.look(view, &who))?;
    if let Some((email, known)) = &work.attempt {
        context.limits.sign_in(email, *known, passing.address)?;
    }
    let hashed = context.passwords.work(work.hashing).await?;
    let gate = context.clone();
    let presented = passing.presented.clone();
    let name = passing.route.name;
    let request_id = passing.request_id.to_string();
    let written = context.store.write(Id::NOTHING, move |tx| {
        // Whoever signed out meanwhile may no longer do this.
        let who = match presented {
            Presented::Nothing => Who::Anyone,
            _ => Who::Identity(gate.gatekeeper.identify(&tx.view(), &presented)?),
        };
        let (answer, user) = operation.settle(tx, &who, &hashed)?;
        let identity = auth::in_session(tx, user)?;
        audit_everywhere(tx, &Who::Identity(identity), name, None, &request_id)?;
        Ok(answer)
    });
    Ok(json_bytes(written.await?.body))
}

impl Expected {
    /// 412 unless the thing is as one of the tags says, if it can be read.
    fn must_hold(&self, tx: &Tx, who: &Who) -> Result<()> {
        let Some(reading) = &self.reading else { return Ok(()) };
        let tag = etag(&reading(&tx.view(), who)?.body);
        match self.tags.iter().any(|tags| names(tags, &tag, false)) {
            true => Ok(()),
            false => Err(changed_meanwhile()),
        }
    }

    /// What cannot be read has no tag that could be named.
    fn cannot_hold(&self) -> bool {
        self.reading.is_none() && !self.tags.iter().any(|tags| tags == b"*")
    }
}

fn changed_meanwhile() -> Error {
    Error::new(
        Kind::Precondition,
        "changed_meanwhile",
        "it is not as If-Match expects; read it again and decide anew",
    )
}

fn replay(tx: &Tx, repeatable: &Repeatable) -> Result<Option<Vec<u8>>> {
    let Some(kept) = tx.get::<Kept>(&repeatable.request)? else { return Ok(None) };
    if kept.at < tx.now().minus_secs(KEPT_SECS) {
        return Ok(None);
    }
    if kept.body != repeatable.body {
        return Err(Error::conflict(
            "idempotency_key_reused",
            "this Idempotency-Key came with another body before; use a new one",
        ));
    }
    kept.answer.map(Some).ok_or_else(|| {
        Error::conflict(
            "answer_not_kept",
            "this was done before, and its answer is not kept: it held a secret that is shown only \
             once, or had more than 2 MiB",
        )
    })
}

fn keep(tx: &mut Tx, repeatable: &Repeatable, answer: Option<&Vec<u8>>) -> Result<()> {
    tx.put(&Kept {
        request: repeatable.request,
        body: repeatable.body,
        answer: answer.cloned(),
        at: tx.now(),
    })
}

/// Whether an answer has something in this field.
fn has(body: &[u8], field: &str) -> bool {
    let answer: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    answer.is_none_or(|answer| !answer[field].is_null())
}

/// The id of what an answer is about. Every resource has it as its first field (shapes).
fn subject(body: &[u8]) -> Option<String> {
    let rest = body.strip_prefix(b"{\"id\":\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

/// Writes the audit entry: in the organization the request is about, or, for what somebody does
/// outside of any, in each they are in.
fn audit_everywhere(
    tx: &mut Tx,
    who: &Who,
    action: &'static str,
    subject: Option<String>,
    request_id: &str,
) -> Result<()> {
    let identity: Option<&Identity> = match who {
        Who::Anyone => None,
        Who::Identity(identity) => Some(identity),
        Who::Caller(caller) => {
            let identity = Some(&caller.identity);
            return ledger::audit(
                tx,
                identity,
                action,
                subject,
                request_id,
                ledger::Outcome::Success,
            );
        }
    };
    let Some(identity) = identity else { return Ok(()) };
    for org in auth::organizations_of(&tx.view(), identity.user)? {
        tx.enter(org);
        let subject = subject.clone();
        ledger::audit(tx, Some(identity), action, subject, request_id, ledger::Outcome::Success)?;
    }
    Ok(())
}

/// Writes down that somebody was not allowed to do something: in a transaction of its own, since
/// theirs left nothing.
pub(super) async fn refused(passing: &Passing<'_>, named: Named) {
    let Some(identity) = passing.identity.clone() else { return };
    let context = passing.context.clone();
    let presented = passing.presented.clone();
    let (name, scope) = (passing.route.name, passing.route.scope);
    let request_id = passing.request_id.to_string();
    let written = passing.context.store.write(Id::NOTHING, move |tx| {
        let view = tx.view();
        let organizations = match (&named.org_slug, scope, auth::org_of_key(&identity)) {
            (_, Scope::Named(locate), key) => {
                let org = (locate.place)(&view, &named, key)?.org;
                vec![context.gatekeeper.admit_to(&view, &presented, org)?.org]
            }
            (Some(slug), ..) => vec![context.gatekeeper.admit(&view, &presented, slug)?.org],
            (None, Scope::Wherever(is_there), _) => {
                org_with(&view, &identity, is_there, &named.params)?.into_iter().collect()
            }
            (None, _, Some(org)) => vec![org],
            (None, _, None) => auth::organizations_of(&view, identity.user)?,
        };
        for org in organizations {
            tx.enter(org);
            ledger::audit(tx, Some(&identity), name, None, &request_id, ledger::Outcome::Refused)?;
        }
        Ok(())
    });
    if let Err(error) = written.await {
        tracing::warn!(%error, "a refusal could not be written to the audit log");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_its_secret_may_be_kept() {
        assert!(has(br#"{"id":"x","wakeSecret":"whsec_"}"#, "wakeSecret"));
        assert!(!has(br#"{"id":"x","wakeSecret":null}"#, "wakeSecret"));
    }
}
