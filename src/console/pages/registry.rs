//! `/o/{org}/prompts/{registry}`: the prompts and promptlets of a registry, and its protected labels.

use askama::Template;

use super::protected_label::{self, ProtectedLabel};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::place::{Artifact, Registry};
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::tags::TagFilter;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/prompts/{registry}")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(protect(visit)))];

#[derive(Template)]
#[template(path = "registry.html")]
struct RegistryPage {
    frame: Frame,
    base: String,
    registry: Registry,
    artifacts: Listed<Artifact>,
    /// The type that is shown alone; empty for all.
    only: String,
    tags: TagFilter,
    may_change: bool,
    protected: Vec<ProtectedLabel>,
    members: Vec<Member>,
    may_protect: bool,
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let slug = visit.param(1);
    let registry: Registry = visit.api.get(&format!("/registries/{}", segment(slug)), &[]).await?;
    let only = match visit.query.get("type") {
        kind @ ("prompt" | "promptlet") => kind,
        _ => "",
    };
    let mut query = vec![("registryRef", slug)];
    query.extend((!only.is_empty()).then_some(("artifactType", only)));
    let mut only_here = vec![("within", slug)];
    only_here.extend((!only.is_empty()).then_some(("kind", only)));
    let tags = TagFilter::of(visit);
    let page = RegistryPage {
        frame: visit
            .frame(&registry.name)
            .crumb("Prompts", visit.in_org("/prompts"))
            .failed(error.as_ref())
            .live(),
        protected: protected_label::of_registry(&visit.api, slug).await?,
        members: roster::members(&visit.api).await?,
        may_protect: protected_label::may_protect(visit),
        base: visit.in_org(""),
        registry,
        artifacts: tags.listed(visit, &only_here, "/registries/artifacts", &query).await?,
        only: only.into(),
        tags,
        may_change: visit.may(Method::Patch, "/registries/slug"),
    };
    render(page.frame.status, &page)
}

async fn protect(visit: &Visit) -> Result<Reply> {
    match protected_label::protect(visit, visit.param(1)).await {
        Err(error) => show(visit, visit.failed(error)?).await,
        done => done,
    }
}
