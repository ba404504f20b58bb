//! Prompt providers: other systems that prompts can be listed and imported from
//! (reference: registries-and-templates, "Prompt providers").
//!
//! A provider is an address and, perhaps, credentials, which are sealed and leave only towards that
//! address; a change of the address without them removes them. Nothing that a provider has is kept
//! here: its prompts are fetched each time they are listed, and imported ones become versions of
//! artifacts ([`import`]). Each kind has its own form on the wire, in a file of its own.
//!
//! What a provider does not answer as it should is 502 with a sentence that says what was wrong,
//! and nothing changes ([`server`]).

mod credentials;
mod external;
mod http;
mod import;
mod langfuse;
mod mlflow;
mod phoenix;
mod roadstead;
mod server;
mod template;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Calls, Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, Caller, MEMBER};
use crate::base::{Field, HttpUrl, Id, Issue, Name, Result, Sealed, Time};
use crate::store::{Order, Page, Record, Source, TableInfo, Tx, View};

use credentials::Credentials;
use external::{ExternalPrompt, Found, Lookup};
use server::{Server, TOTAL_SECS};

/// Prompt providers.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<PromptProvider>()],
    children: &[&import::RESOURCE],
    ..Resource::EMPTY
};

// ── Record ───────────────────────────────────────────────────────────────────

/// The systems whose API is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// Langfuse.
    Langfuse,
    /// Arize Phoenix.
    Phoenix,
    /// The prompt registry of MLflow.
    Mlflow,
    /// Another Roadstead.
    Roadstead,
    /// Anything that answers GET with a list in our own form.
    Http,
}
crate::store::stored_enum!(ProviderKind {
    Langfuse = 0,
    Phoenix = 1,
    Mlflow = 2,
    Roadstead = 3,
    Http = 4,
});

impl ProviderKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ProviderKind::Langfuse => "langfuse",
            ProviderKind::Phoenix => "phoenix",
            ProviderKind::Mlflow => "mlflow",
            ProviderKind::Roadstead => "roadstead",
            ProviderKind::Http => "http",
        }
    }
}

/// A system that prompts can be listed and imported from.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptProvider {
    /// Its id.
    pub id: Id<PromptProvider>,
    /// Its name.
    pub name: Name,
    /// What it is. It never changes.
    pub kind: ProviderKind,
    /// Its address.
    pub base_url: HttpUrl,
    /// What is sent as `Authorization`, sealed.
    #[serde(skip)]
    authorization: Option<Sealed>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

impl Output for PromptProvider {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// The field of a provider that is sealed.
const AUTHORIZATION: &str = "authorization";

impl Record for PromptProvider {
    const TABLE: &'static str = "prompt_providers";
    type Key = Id<PromptProvider>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// A provider to make.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewPromptProvider {
    name: Name,
    /// What it is. It never changes.
    kind: ProviderKind,
    /// Its address: for `http` that of the list itself, for `roadstead` the one that ends in `/api`,
    /// perhaps with `?orgSlug=…` or `?registryRef=…`, for the others that of their web page.
    base_url: HttpUrl,
    /// Its keys; never shown.
    credentials: Option<Credentials>,
}

impl Input for NewPromptProvider {
    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(credentials) = &self.credentials {
            issues.extend(credentials.problems(self.kind));
        }
    }
}

/// What to change of a provider. One whose `baseUrl` changes loses its credentials, unless they are
/// given anew.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptProviderPatch {
    name: Option<Name>,
    base_url: Option<HttpUrl>,
    #[serde(default)]
    credentials: Field<Credentials>,
}

impl Input for PromptProviderPatch {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<PromptProvider>> {
    view.page(Source::TABLE, &(), Order::Descending, &req.page, |_| true)
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
    };
    if let Some(credentials) = &new.credentials {
        provider.authorization = Some(sealed(tx, &provider, credentials)?);
    }
    tx.insert(&provider)?;
    Ok(provider)
}

fn sealed(tx: &Tx, provider: &PromptProvider, credentials: &Credentials) -> Result<Sealed> {
    let authorization = credentials.authorization(provider.kind)?;
    Ok(tx.seal::<PromptProvider>(&provider.id, AUTHORIZATION, &authorization))
}

/// Credentials are for the address they were given for and no other: whoever may change the address
/// must not be able to send them somewhere else
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
        Field::Absent => {}
        Field::Clear => new.authorization = None,
        Field::Set(credentials) => new.authorization = Some(sealed(tx, &new, credentials)?),
    }
    if new != old {
        new.updated_at = tx.now();
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
    req: &Req<Id<PromptProvider>>,
    calls: &mut Calls,
) -> Result<Page<ExternalPrompt>> {
    let provider: PromptProvider = view.fetch(&req.params)?;
    let mut server = provider.server(view, req.caller(), calls)?;
    let found = server.prompts(req.page.limit)?;
    Ok(Page::whole(found.into_iter().map(ExternalPrompt::from).collect()))
}

impl PromptProvider {
    /// The other side, as `caller` reaches it.
    fn server<'a>(
        &self,
        view: &View,
        caller: &'a Caller,
        calls: &'a mut Calls,
    ) -> Result<Server<'a>> {
        let authorization = match &self.authorization {
            None => None,
            Some(sealed) => Some(view.unseal::<Self>(&self.id, AUTHORIZATION, sealed)?),
        };
        Ok(Server::new(self.kind, &self.base_url, authorization, &caller.org_slug, calls))
    }
}

impl Server<'_> {
    /// At most `limit` of its prompts, each as it gives it to whoever names no version. While an
    /// answer is awaited, anything.
    fn prompts(&mut self, limit: usize) -> Result<Vec<Found>> {
        let mut found = match self.kind {
            ProviderKind::Langfuse => langfuse::list(self, limit),
            ProviderKind::Phoenix => phoenix::list(self, limit),
            ProviderKind::Mlflow => mlflow::list(self, limit),
            ProviderKind::Roadstead => roadstead::list(self, limit),
            ProviderKind::Http => http::list(self),
        }?;
        found.truncate(limit);
        Ok(found)
    }

    /// One prompt, in one version or as it is given to whoever names none.
    fn prompt(&mut self, name: &str, version: Option<&str>) -> Result<Lookup> {
        match self.kind {
            ProviderKind::Langfuse => langfuse::find(self, name, version),
            ProviderKind::Phoenix => phoenix::find(self, name, version),
            ProviderKind::Mlflow => mlflow::find(self, name, version),
            ProviderKind::Roadstead => roadstead::find(self, name, version),
            ProviderKind::Http => http::find(self, name, version),
        }
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/prompt-providers", MEMBER, "prompt_provider.list", op::list(list))
            .about("List the prompt providers"),
        Route::post("/prompt-providers", ADMIN, "prompt_provider.create", op::write(create))
            .about("Add a prompt provider"),
        Route::get("/prompt-providers/{id}", MEMBER, "prompt_provider.show", op::read(get))
            .about("Show a prompt provider"),
        Route::patch("/prompt-providers/{id}", ADMIN, "prompt_provider.update", op::write(update))
            .about("Change a prompt provider"),
        Route::delete("/prompt-providers/{id}", ADMIN, "prompt_provider.delete", op::write(delete))
            .about("Remove a prompt provider"),
        Route::get(
            "/prompt-providers/{id}/prompts",
            MEMBER,
            "prompt_provider.list_prompts",
            op::list_calling(TOTAL_SECS, list_prompts),
        )
        .about("Fetch the prompts of a prompt provider, as they are there now"),
    ]
}

#[cfg(test)]
mod tests;
