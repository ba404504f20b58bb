//! Posting decisions and messages to a peer's `replyUrl` (reference: exchange, "Posted replies").

use bincode::{Decode, Encode};
use schemars::json_schema;
use serde_json::Value;

use super::outputs::{OutsideRequestState, OutsideThreadMessage};
use crate::api::{Resource, Webhook};
use crate::base::{Error, Id, Result, Time};
use crate::outbox::{Effect, EffectResult, Job, JobHandler, Prepared, Settled, enqueue, retry_at};
use crate::outside::webhook;
use crate::resources::teams::message::Message;
use crate::resources::teams::peer::Peer;
use crate::resources::teams::team::{Team, require_team};
use crate::store::{AnyReference, Export, Key, Record, Reference, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    tables: &[TableInfo::of::<PeerPost>()],
    jobs: &[POST_TO_PEER],
    webhooks: &[DECISION_WEBHOOK, MESSAGE_WEBHOOK],
    ..Resource::EMPTY
};

/// The `type` of a posted decision.
const DECISION: &str = "exchange.request_decided";
/// The `type` of a posted message.
const MESSAGE: &str = "exchange.message";

/// The status of a receiver that is permanently gone (RFC 9110).
const GONE: u16 = 410;

/// Posts a decision or a message; the target is the [`PeerPost`], the concurrency key the peer.
const POST_TO_PEER: JobHandler = JobHandler { kind: "peer.post", prepare, settle };

const DECISION_WEBHOOK: Webhook = Webhook {
    name: "exchangeRequestDecided",
    about: "Tell an outside agent of a decision",
    description: "Posted to the `replyUrl` of a request when members have decided on it. The \
                  signature's key is the id of the request, as text. A 2xx ends it. After any other \
                  answer, or none within 10 seconds, it is posted again with growing delays for 24 \
                  hours. A 410 removes the `replyUrl`.",
    kind: |_| json_schema!({"const": DECISION, "description": "What the message is."}),
    data: |generator| generator.subschema_for::<OutsideRequestState>(),
};

const MESSAGE_WEBHOOK: Webhook = Webhook {
    name: "exchangeMessage",
    about: "Send an outside agent a message",
    description: "Posted to the `replyUrl` of an accepted outside agent when the team writes to it, \
                  signed and repeated like a decision. It can also be read in the thread.",
    kind: |_| json_schema!({"const": MESSAGE, "description": "What the message is."}),
    data: |generator| generator.subschema_for::<OutsideThreadMessage>(),
};

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// What is to be posted to a peer, until it is received or given up.
#[derive(Clone, Debug, Encode, Decode)]
pub struct PeerPost {
    pub id: Id<PeerPost>,
    pub team: Id<Team>,
    pub peer: Id<Peer>,
    /// The message; none for the decision on the peer's request.
    pub message: Option<Id<Message>>,
    pub created_at: Time,
}
}

static PEER: Reference<PeerPost, Peer> = Reference::cascade(
    &["team", "peer"],
    |peer: &Peer| peer.id.to_bytes(),
    |post: &PeerPost, _| vec![(post.team, post.peer).to_bytes()],
)
.deferred();

impl Record for PeerPost {
    const TABLE: &'static str = "peers.posts";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&PEER];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("message", "a message is removed with its team alone, and this with it")];
    type Key = (Id<Peer>, Id<PeerPost>);
    fn key(&self) -> Self::Key {
        (self.peer, self.id)
    }
}

/// Tells a peer of the decision on its request, if it gave a `replyUrl`.
pub fn enqueue_decision(tx: &mut Tx, peer: &Peer) -> Result<()> {
    enqueue_post(tx, peer, None)
}

/// Tells a peer of a message to it, if it gave a `replyUrl`.
pub fn enqueue_message(tx: &mut Tx, peer: &Peer, message: Id<Message>) -> Result<()> {
    enqueue_post(tx, peer, Some(message))
}

fn enqueue_post(tx: &mut Tx, peer: &Peer, message: Option<Id<Message>>) -> Result<()> {
    if peer.reply_url.is_none() {
        return Ok(());
    }
    let (team, created_at) = (peer.team, tx.now());
    let post = PeerPost { id: tx.new_id(), team, peer: peer.id, message, created_at };
    tx.insert(&post)?;
    enqueue(tx, &POST_TO_PEER, post.id.cast(), Some(peer.id.cast()), created_at).map(|_| ())
}

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let view = tx.view();
    let Some(post) = view.get::<PeerPost>(&key_of(job)?)? else { return Ok(Prepared::Done) };
    let peer = view.get::<Peer>(&(post.team, post.peer))?;
    let data = match &peer {
        Some(peer) if peer.reply_url.is_some() => data(&view, &post, peer)?,
        _ => None,
    };
    let (Some(peer), Some((kind, data))) = (peer, data) else {
        tx.remove(&post)?;
        return Ok(Prepared::Done);
    };
    let message =
        webhook::Message { id: post.id.to_string(), kind: kind.into(), at: post.created_at, data };
    // Both sides know the id of the request, and nobody else outside does.
    let key = peer.id.to_string();
    let url = peer.reply_url.as_deref().unwrap_or_default();
    let call = webhook::post(url, key.as_bytes(), &message, tx.now());
    Ok(Prepared::Effect(Effect::Call(Box::new(call))))
}

/// Returns the type and the data of a post; none if what it is about is gone.
fn data(view: &View, post: &PeerPost, peer: &Peer) -> Result<Option<(&'static str, Value)>> {
    if require_team(view, post.team).is_err() {
        return Ok(None); // Deleted, but not all of it yet.
    }
    let (kind, data) = match post.message {
        None => (DECISION, serde_json::to_value(OutsideRequestState::from(peer.clone()))),
        Some(id) => match view.get::<Message>(&(post.team, id))? {
            Some(message) => (MESSAGE, serde_json::to_value(OutsideThreadMessage::from(message))),
            None => return Ok(None),
        },
    };
    let data = data.map_err(|e| Error::internal(format!("a post cannot be written: {e}")))?;
    Ok(Some((kind, data)))
}

fn settle(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    let Some(post) = tx.get::<PeerPost>(&key_of(job)?)? else { return Ok(Settled::Done) };
    let is_gone = matches!(result, EffectResult::Response(answer) if answer.status == GONE);
    if is_gone && let Some(peer) = tx.get::<Peer>(&(post.team, post.peer))? {
        tx.replace(&peer, &Peer { reply_url: None, ..peer.clone() })?;
    }
    let again = match result.failure("the replyUrl") {
        Some(_) if !is_gone => retry_at(tx.now(), post.created_at, job.attempts),
        _ => None,
    };
    if let Some(at) = again {
        return Ok(Settled::RetryAt(at));
    }
    tx.remove(&post)?;
    Ok(Settled::Done)
}

/// Returns the key of a job's post.
fn key_of(job: &Job) -> Result<(Id<Peer>, Id<PeerPost>)> {
    let peer = job.concurrency_key.ok_or_else(|| {
        Error::internal(format!(
            "the job {} of the kind {} has no concurrency key",
            job.id, job.kind
        ))
    })?;
    Ok((peer.cast(), job.target.cast()))
}
