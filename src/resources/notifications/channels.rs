//! Channels: where an organization has its events delivered
//! (reference: notifications, "Channels").
//!
//! The built-in channel has no record, and can be neither changed nor deleted. What is secret of a
//! configuration is stored sealed and is in no answer, save a new signing secret, once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::config::{self, AgentWakeConfig, TeamTaskConfig, ValidConfig};
use super::recipients;
use super::workflow_key::WorkflowKey;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName, User};
use crate::base::{Email, Error, Id, Json, JsonMap, Name, Result, Time};
use crate::outbox::{
    CHANNEL_SECRET, Channel, MAX_CHANNELS, Sweep, SweepProgress, forget_old_secrets, in_app,
    in_app_since, set_channel_enabled,
};
use crate::outside::webhook;
use crate::resources::teams::notices;
use crate::store::{Key, ListSource, Page, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, sweeps: &[FORGET_OLD_SECRETS], ..Resource::EMPTY };

/// Removes replaced signing secrets a day after they were replaced.
const FORGET_OLD_SECRETS: Sweep = Sweep {
    name: "forget replaced secrets of channels",
    every_secs: 3600,
    run: |tx, _| forget_old_secrets(tx).map(|()| SweepProgress::Clean),
    installation: false,
};

// ── What callers send and see ────────────────────────────────────────────────

/// A channel to create. It is subscribed to nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "On call", "workflow": "webhook",
        "config": {"url": "https://hooks.example.com/roadstead"}}],
))]
pub struct NewChannel {
    name: Name,
    /// How it delivers. It never changes.
    workflow: WorkflowKey,
    /// The configuration of the workflow, by its schema; empty if absent. The `secret` of a webhook
    /// is generated if absent.
    config: Option<JsonMap>,
    /// Whether it delivers; true if absent.
    enabled: Option<bool>,
}
impl Input for NewChannel {}

/// Changes to a channel. Absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"enabled": false}],
))]
pub struct ChannelPatch {
    name: Option<Name>,
    /// The new configuration, as a whole. A webhook keeps its secret unless another one is given,
    /// which then replaces it as a rotation does, or the URL has another host, for which one is
    /// generated.
    config: Option<JsonMap>,
    /// Whether it delivers. What happens meanwhile is delivered when it is enabled.
    enabled: Option<bool>,
}
impl Input for ChannelPatch {}

/// A channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Channel")]
pub struct ChannelInfo {
    id: Id<Channel>,
    name: String,
    /// How it delivers.
    workflow: WorkflowKey,
    /// The configuration of the workflow, without secrets: of Slack, `url` is only the host.
    #[schemars(with = "JsonMap")]
    config: Json,
    /// Whether it delivers. A receiver that answers with status 410 disables its channel.
    enabled: bool,
    /// The recipients of mail who get nothing until they confirm by the link that was mailed to them.
    unconfirmed: Vec<Email>,
    /// Whether it is the channel that every organization has: its log.
    built_in: bool,
    created_at: Time,
    updated_at: Time,
    updated_by: Option<Id<User>>,
}

impl Output for ChannelInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// A channel with a new signing secret.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChannelCreated {
    #[serde(flatten)]
    channel: ChannelInfo,
    /// The signing secret of a webhook, if it was generated. It is shown only here.
    secret: Option<String>,
}

impl Output for ChannelCreated {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        self.channel.resource()
    }

    fn shows_secret(&self) -> bool {
        self.secret.is_some()
    }
}

impl ChannelInfo {
    fn of(view: &View, channel: Channel) -> Result<Self> {
        Ok(ChannelInfo {
            workflow: WorkflowKey::of(&channel)?,
            unconfirmed: recipients::unconfirmed(view, &channel)?,
            id: channel.id,
            name: channel.name,
            config: channel.config,
            enabled: channel.enabled,
            built_in: false,
            created_at: channel.created_at,
            updated_at: channel.updated_at,
            updated_by: channel.updated_by.map(Id::cast),
        })
    }

    /// The built-in channel, which is as old as its organization.
    fn built_in(view: &View) -> Self {
        let created_at = in_app_since(view.org());
        ChannelInfo {
            id: in_app(view.org()),
            name: "Log".into(),
            workflow: WorkflowKey::InApp,
            config: Json(json!({})),
            enabled: true,
            unconfirmed: Vec::new(),
            built_in: true,
            created_at,
            updated_at: created_at,
            updated_by: None,
        }
    }
}

// ── For the other files ──────────────────────────────────────────────────────

/// Returns a channel that can be changed, or 404.
///
/// # Errors
/// 409 for the built-in channel.
pub fn fetch_own(view: &View, id: Id<Channel>) -> Result<Channel> {
    if id == in_app(view.org()) {
        return Err(Error::conflict(
            "channel_built_in",
            "the built-in channel keeps every event; it cannot be changed, tested or subscribed",
        ));
    }
    view.fetch(&id)
}

// ── Operations ───────────────────────────────────────────────────────────────

/// The channels, newest first; the built-in one is the oldest. There are few, so that all are read.
fn list(view: &View, req: &Req) -> Result<Page<ChannelInfo>> {
    let mut all = vec![ChannelInfo::built_in(view)];
    for channel in view.all::<Channel>(ListSource::TABLE, &())? {
        all.push(ChannelInfo::of(view, channel)?);
    }
    all.sort_by_key(|channel| std::cmp::Reverse(channel.id));
    if let Some(after) = &req.page.after {
        all.retain(|channel| channel.id.to_bytes() < *after);
    }
    let has_more = all.len() > req.page.limit;
    all.truncate(req.page.limit);
    let next = all.last().filter(|_| has_more).map(|last| last.id.to_bytes());
    Ok(Page { items: all, next })
}

fn get(view: &View, req: &Req<Id<Channel>>) -> Result<ChannelInfo> {
    if req.params == in_app(view.org()) {
        return Ok(ChannelInfo::built_in(view));
    }
    ChannelInfo::of(view, view.fetch(&req.params)?)
}

fn create(tx: &mut Tx, req: &Req<(), NewChannel>) -> Result<ChannelCreated> {
    let new = &req.input;
    let ValidConfig { shown, secret } = config::read(new.workflow, new.config.as_ref())?;
    require_target(&tx.view(), new.workflow, &shown)?;
    if tx.count(ListSource::<Channel>::TABLE, &(), MAX_CHANNELS)? == MAX_CHANNELS {
        return Err(Error::conflict(
            "too_many_channels",
            format!("an organization has at most {MAX_CHANNELS} channels; delete one first"),
        ));
    }
    let generated = (new.workflow == WorkflowKey::Webhook && secret.is_none())
        .then(|| webhook::secret_text(&tx.random()));
    let secret = secret.as_ref().or(generated.as_ref()).map(String::as_str);
    let workflow = new.workflow.name();
    let channel = Channel::new(tx, &*new.name, workflow, shown.0, secret)?;
    let (enabled, updated_by) = (new.enabled.unwrap_or(true), Some(req.caller().user().cast()));
    let channel = Channel { enabled, updated_by, ..channel };
    tx.insert(&channel)?;
    ask_recipients(tx, &channel, req)?;
    Ok(ChannelCreated { channel: ChannelInfo::of(&tx.view(), channel)?, secret: generated })
}

/// Requires the team and the agent of a configuration.
fn require_target(view: &View, workflow: WorkflowKey, shown: &Json) -> Result<()> {
    let broken = |error: serde_json::Error| Error::internal(error);
    match workflow {
        WorkflowKey::TeamTask => {
            let TeamTaskConfig { team_id, assignee_agent_id } =
                serde_json::from_value(shown.0.clone()).map_err(broken)?;
            notices::require_target(view, team_id, assignee_agent_id)
        }
        WorkflowKey::AgentWake => {
            let AgentWakeConfig { team_id, agent_id } =
                serde_json::from_value(shown.0.clone()).map_err(broken)?;
            notices::require_target(view, team_id, Some(agent_id))
        }
        _ => Ok(()),
    }
}

fn update(tx: &mut Tx, req: &Req<Id<Channel>, ChannelPatch>) -> Result<ChannelCreated> {
    let (patch, by) = (&req.input, Some(req.caller().user().cast()));
    let old = fetch_own(&tx.view(), req.params)?;
    let (mut new, mut secret) = (old.clone(), None);
    if let Some(config) = &patch.config {
        (new, secret) = reconfigured(tx, &new, config)?;
    }
    if let Some(name) = &patch.name {
        new.name = name.to_string();
    }
    if (&new.name, &new.config, &new.secret) != (&old.name, &old.config, &old.secret) {
        (new.updated_at, new.updated_by) = (tx.now(), by);
        tx.replace(&old, &new)?;
    }
    if let Some(enabled) = patch.enabled.filter(|enabled| *enabled != new.enabled) {
        set_channel_enabled(tx, &new, enabled, by)?;
        new = tx.fetch(&new.id)?;
    }
    if new.config != old.config {
        ask_recipients(tx, &new, req)?;
    }
    Ok(ChannelCreated { channel: ChannelInfo::of(&tx.view(), new)?, secret })
}

/// Has the recipients of a channel asked who have not agreed to its mails.
fn ask_recipients<P, I>(tx: &mut Tx, channel: &Channel, req: &Req<P, I>) -> Result<()> {
    let link_base = recipients::link_base(req.server.sends_mail, &req.origin.link_base);
    recipients::ask(tx, channel, req.caller().identity.person(), link_base)
}

/// Returns a channel with another configuration, and the secret that was generated for its new host.
fn reconfigured(tx: &Tx, channel: &Channel, config: &JsonMap) -> Result<(Channel, Option<String>)> {
    let workflow = WorkflowKey::of(channel)?;
    let ValidConfig { shown, secret } = config::read(workflow, Some(config))?;
    require_target(&tx.view(), workflow, &shown)?;
    let mut new = Channel { config: shown, ..channel.clone() };
    if workflow == WorkflowKey::Webhook {
        let has_new_host = config::webhook_host(&new)? != config::webhook_host(channel)?;
        if has_new_host {
            // What the receiver before knows is not for this one, nor does it sign for it.
            let generated = secret.is_none().then(|| webhook::secret_text(&tx.random()));
            let secret = secret.as_ref().or(generated.as_ref());
            let seal = |secret: &String| tx.seal(&CHANNEL_SECRET, &channel.id, secret);
            new.secret = secret.map(seal).transpose()?;
            (new.previous_secret, new.previous_until) = (None, None);
            return Ok((new, generated));
        }
    }
    let Some(secret) = secret else { return Ok((new, None)) };
    if workflow == WorkflowKey::Webhook {
        let known = channel.valid_secrets(&tx.view())?;
        let is_same = known.first() == Some(&secret);
        return Ok((if is_same { new } else { new.with_secret(tx, &secret)? }, None));
    }
    new.secret = Some(tx.seal(&CHANNEL_SECRET, &channel.id, &secret)?);
    Ok((new, None))
}

fn delete(tx: &mut Tx, req: &Req<Id<Channel>>) -> Result<Deleted> {
    let channel = fetch_own(&tx.view(), req.params)?;
    tx.remove(&channel)?;
    Ok(Deleted::new(channel.id))
}

/// Replaces the signing secret of a webhook by a generated one.
fn rotate_secret(tx: &mut Tx, req: &Req<Id<Channel>>) -> Result<ChannelCreated> {
    let old = fetch_own(&tx.view(), req.params)?;
    if WorkflowKey::of(&old)? != WorkflowKey::Webhook {
        return Err(Error::conflict(
            "channel_without_secret",
            "only webhooks have a signing secret; update the channel's config instead",
        ));
    }
    let secret = webhook::secret_text(&tx.random());
    let (updated_at, updated_by) = (tx.now(), Some(req.caller().user().cast()));
    let new = Channel { updated_at, updated_by, ..old.with_secret(tx, &secret)? };
    tx.replace(&old, &new)?;
    Ok(ChannelCreated { channel: ChannelInfo::of(&tx.view(), new)?, secret: Some(secret) })
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/notifications/channels";
    const ONE: &str = "/notifications/channels/{channelId}";
    vec![
        Route::get(ALL, MEMBER, "channel.list", op::list(list))
            .needs(ScopeName::ChannelRead)
            .about("List channels, newest first"),
        Route::post(ALL, ADMIN, "channel.create", op::write(create))
            .needs(ScopeName::ChannelWrite)
            .about("Create a channel"),
        Route::get(ONE, MEMBER, "channel.get", op::read(get))
            .needs(ScopeName::ChannelRead)
            .about("Get a channel"),
        Route::patch(ONE, ADMIN, "channel.update", op::write(update))
            .needs(ScopeName::ChannelWrite)
            .about("Update a channel"),
        Route::delete(ONE, ADMIN, "channel.delete", op::write(delete))
            .needs(ScopeName::ChannelWrite)
            .about("Delete a channel"),
        Route::post(
            "/notifications/channels/{channelId}/rotate-secret",
            ADMIN,
            "channel.rotate_secret",
            op::write(rotate_secret),
        )
        .needs(ScopeName::ChannelWrite)
        .asks_again()
        .about("Replace the signing secret of a webhook"),
    ]
}

#[cfg(test)]
pub mod tests;
