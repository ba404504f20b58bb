//! Prompt providers: external systems from which prompts are listed and imported
//! (reference: registries-and-templates, "Prompt providers").
//!
//! A provider has a URL and optionally credentials, which are stored sealed and sent to that URL only;
//! a change of the URL without credentials removes them. No prompts are cached: they are fetched
//! whenever they are listed, and imported ones become versions of artifacts ([`import`]). The API of
//! each kind is in a file of its own.
//!
//! If a provider fails or its answer is malformed, the request gets a 502 with a sentence about the
//! cause, and nothing changes ([`client`]).

mod client;
mod credentials;
mod external;
mod fetch;
mod http;
mod import;
mod langfuse;
mod mlflow;
mod paging;
mod phoenix;
mod provider;
mod roadstead;
mod template;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Calls, Deleted, Input, Req, Resource, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName};
use crate::base::{HttpUrl, Id, Issue, Name, Nullable, Result, Sealed};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};

use client::TOTAL_SECS;
use credentials::Credentials;
use external::ExternalPrompt;
use paging::{Listed, Position};
use provider::{AUTHORIZATION, PromptProvider, PromptProviderKind};

/// Prompt providers.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<PromptProvider>()],
    children: &[&import::RESOURCE],
    ..Resource::EMPTY
};

// ── What callers send ────────────────────────────────────────────────────────

/// A provider to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Langfuse", "kind": "langfuse",
        "baseUrl": "https://cloud.langfuse.com", "credentials": {"publicKey": "pk-example",
        "secretKey": "sk-example"}}],
))]
pub struct NewPromptProvider {
    name: Name,
    /// The kind of system. It never changes.
    kind: PromptProviderKind,
    /// The URL: for `http` that of the list itself, for `roadstead` the one that ends in `/api`,
    /// optionally with `?orgSlug=…` or `?registryRef=…`, for the others that of their web interface.
    base_url: HttpUrl,
    /// The keys of its API; no answer contains them.
    credentials: Option<Credentials>,
}

impl Input for NewPromptProvider {
    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(credentials) = &self.credentials {
            issues.extend(credentials.problems(self.kind));
        }
    }
}

/// Changes to a provider. Absent fields stay as they are, except that a new `baseUrl` without
/// `credentials` removes the credentials.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Langfuse EU"}],
))]
pub struct PromptProviderPatch {
    name: Option<Name>,
    base_url: Option<HttpUrl>,
    #[serde(default)]
    credentials: Nullable<Credentials>,
}

impl Input for PromptProviderPatch {}

/// Which prompts of a provider to list.
#[derive(Deserialize, JsonSchema)]
struct PromptListQuery {
    /// Whether `nextCursor` leads to what `limit` cuts off; it is null otherwise, and `more` alone says
    /// that something is. The next page is asked for with it, too.
    #[schemars(extend("default" = false))]
    paged: Option<bool>,
}

impl Input for PromptListQuery {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<PromptProvider>> {
    view.page(ListSource::TABLE, &(), Order::Descending, &req.page, |_| true)
}

fn get(view: &View, req: &Req<Id<PromptProvider>>) -> Result<PromptProvider> {
    view.fetch(&req.params)
}

fn create(tx: &mut Tx, req: &Req<(), NewPromptProvider>) -> Result<PromptProvider> {
    let new = &req.input;
    let mut provider = PromptProvider {
        id: tx.new_id(),
        name: new.name.clone(),
        kind: new.kind,
        base_url: new.base_url.clone(),
        authorization: None,
        created_at: tx.now(),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    if let Some(credentials) = &new.credentials {
        provider.authorization = Some(seal(tx, &provider, credentials)?);
    }
    tx.insert(&provider)?;
    Ok(provider)
}

fn seal(tx: &Tx, provider: &PromptProvider, credentials: &Credentials) -> Result<Sealed> {
    let authorization = credentials.authorization(provider.kind)?;
    tx.seal(&AUTHORIZATION, &provider.id, &authorization)
}

/// Updates a provider. Credentials are sent only to the URL that they were given for: a caller who can
/// change the URL must not be able to send them elsewhere
/// (reference: registries-and-templates, "Prompt providers").
fn update(
    tx: &mut Tx,
    req: &Req<Id<PromptProvider>, PromptProviderPatch>,
) -> Result<PromptProvider> {
    let patch = &req.input;
    let old: PromptProvider = tx.fetch(&req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    new.base_url = patch.base_url.clone().unwrap_or(new.base_url);
    if new.base_url != old.base_url {
        new.authorization = None;
    }
    match &patch.credentials {
        Nullable::Absent => {}
        Nullable::Clear => new.authorization = None,
        Nullable::Set(credentials) => new.authorization = Some(seal(tx, &new, credentials)?),
    }
    if new != old {
        (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&old, &new)?;
    }
    Ok(new)
}

fn delete(tx: &mut Tx, req: &Req<Id<PromptProvider>>) -> Result<Deleted> {
    let provider: PromptProvider = tx.fetch(&req.params)?;
    tx.remove(&provider)?;
    Ok(Deleted::new(provider.id))
}

fn list_prompts(
    view: &View,
    req: &Req<Id<PromptProvider>, PromptListQuery>,
    calls: &mut Calls,
) -> Result<op::CutPage<ExternalPrompt>> {
    let provider: PromptProvider = view.fetch(&req.params)?;
    let from = Position::read(req.page.after.as_deref())?;
    let mut client = fetch::client(&provider, view, req.caller(), calls)?;
    let Listed { items, next } = fetch::list(&mut client, &from, req.page.limit)?;
    let items = items.into_iter().map(ExternalPrompt::from).collect();
    let more = next.is_some();
    // A client of the first contract takes a page without a cursor for one that it may show.
    let next = next.filter(|_| req.input.paged == Some(true));
    let page = Page { items, next: next.map(|next| next.to_bytes()) };
    Ok(op::CutPage { page, more })
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/prompt-providers", MEMBER, "prompt_provider.list", op::list(list))
            .needs(ScopeName::PromptProviderRead)
            .about("List prompt providers"),
        Route::post("/prompt-providers", ADMIN, "prompt_provider.create", op::write(create))
            .needs(ScopeName::PromptProviderWrite)
            .about("Create a prompt provider"),
        Route::get("/prompt-providers/{id}", MEMBER, "prompt_provider.get", op::read(get))
            .needs(ScopeName::PromptProviderRead)
            .about("Get a prompt provider"),
        Route::patch("/prompt-providers/{id}", ADMIN, "prompt_provider.update", op::write(update))
            .needs(ScopeName::PromptProviderWrite)
            .about("Update a prompt provider"),
        Route::delete("/prompt-providers/{id}", ADMIN, "prompt_provider.delete", op::write(delete))
            .needs(ScopeName::PromptProviderWrite)
            .about("Delete a prompt provider"),
        Route::get(
            "/prompt-providers/{id}/prompts",
            MEMBER,
            "prompt_provider.list_prompts",
            op::cut_list(op::calling(TOTAL_SECS, list_prompts)),
        )
        .needs(ScopeName::PromptProviderRead)
        .about("Fetch the current prompts of a provider"),
    ]
}

#[cfg(test)]
mod tests;
