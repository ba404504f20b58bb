//! Cloning: a version, with the texts for all its models, is published again under another name,
//! version or registry, and compiled with the promptlets of that registry.
//!
//! A version may have hundreds of MiB of texts. One that is too large for a transaction is cloned in
//! parts: all texts are examined first, then published, the generic one last. So no model falls back
//! to the generic text of the clone while its own is missing; until then it has the version before.

use schemars::JsonSchema;
use serde::Deserialize;

use super::artifact::{self, Artifact};
use super::id::{ArtifactId, GENERIC, Model, generic};
use super::publishing::{ArtifactVersion, Publication, examine_all, publish_all};
use super::version::VersionRecord;
use super::{metadata, versions};
use crate::api::{
    Calls, Input, OrgSource, Outcome, Position, Req, Resource, ResourceRef, Route, TargetFinder, op,
};
use crate::auth::{MEMBER, ScopeName, ScopeTarget};
use crate::base::{ArtifactName, Error, Result, Version, VersionMessage};
use crate::resources::governance::EVALUATION_SECS;
use crate::resources::registries::{self, ArtifactType};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A part has at most 4 MiB of texts and metadata, plus the one that exceeds that: half of what a
/// transaction may write.
const MAX_PART_BYTES: usize = 4 * 1024 * 1024;

/// A part has at most 50 models: for each the records of all models of the clone are read.
const MAX_PART_MODELS: usize = 50;

/// A version to clone.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "promptName": "release-notes", "version": "1.0.0",
        "to": {"promptName": "weekly-notes"}}],
))]
pub struct CloneRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The exact version.
    version: String,
    /// Where the clone is published.
    to: CloneTarget,
    /// What changed and why; for each model, the message of the original if absent.
    message: Option<VersionMessage>,
}

impl Input for CloneRequest {}

/// Where a clone is published. Absent fields are taken from the original.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneTarget {
    /// A registry of the same organization, named as in `registryRef` above.
    registry_ref: Option<String>,
    /// The name of the clone.
    prompt_name: Option<ArtifactName>,
    /// The version of the clone.
    version: Option<Version>,
}

pub(super) fn clone(
    tx: &mut Tx,
    req: &Req<(), CloneRequest>,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    let CloneRequest { registry_ref, prompt_name, artifact_type, version, .. } = &req.input;
    let to = &req.input.to;
    let from = registries::require_usable(&tx.view(), req.caller(), registry_ref)?;
    let target = match &to.registry_ref {
        Some(reference) => registries::require_usable(&tx.view(), req.caller(), reference)?,
        None => from.clone(),
    };
    if from.id != target.id {
        // It reads one registry for the other.
        let from = ScopeTarget::named(&from.slug);
        req.caller().require_scope(ScopeName::ArtifactRead, Some(&from))?;
    }
    let id = ArtifactId::parse(&from, *artifact_type, prompt_name)?;
    let rows = versions::find(&tx.view(), &id, version)?;
    let progress = match calls.position() {
        Some(position) => Progress::parse(position)?,
        None => Progress::begin(&rows),
    };
    let (clones, is_last) = part(&tx.view(), progress.ahead(rows), &req.input)?;
    let by = req.caller().user();
    let Some(end) = clones.last().map(|clone| clone.model.clone()) else {
        return Err(Error::internal("a version without any text"));
    };
    if progress.examining && !(is_last && progress.after.is_none()) {
        let next = if is_last { progress.publish() } else { progress.after(end) };
        return Ok(match examine_all(tx, by, &target, clones, calls)? {
            Outcome::Refused(refusal) => Outcome::Refused(refusal),
            _ => Outcome::Partial(Position { next: next.to_text(), resource: None }),
        });
    }
    let name = to.prompt_name.clone().unwrap_or_else(|| id.name.clone());
    let made = ArtifactId { registry: target.id, kind: id.kind, name };
    let is_new = !tx.view().has::<Artifact>(&made)?;
    let published = publish_all(tx, by, &target, clones, calls)?.try_map(|published| {
        let last = published.into_iter().next_back();
        last.ok_or_else(|| Error::internal("a version without any text"))
    })?;
    if let (Outcome::Done(_), true) = (&published, is_new) {
        let original: Artifact = tx.fetch(&id)?;
        artifact::set_tags(tx, &made, original.tags, Some(by))?;
    }
    Ok(match published {
        Outcome::Done(last) if !is_last => {
            let resource = ResourceRef::id(last.row.id);
            Outcome::Partial(Position { next: progress.after(end).to_text(), resource })
        }
        published => published,
    })
}

/// Reads the texts of the first rows, as many as one transaction may publish, and returns whether
/// they are all.
fn part(
    view: &View,
    rows: Vec<VersionRecord>,
    CloneRequest { to, message, .. }: &CloneRequest,
) -> Result<(Vec<Publication>, bool)> {
    let mut clones = Vec::new();
    let mut bytes = 0;
    for row in rows {
        if clones.len() == MAX_PART_MODELS || bytes >= MAX_PART_BYTES {
            return Ok((clones, false));
        }
        let texts = versions::text(view, &row)?;
        let (metadata_bytes, metadata) = metadata::get_sized(view, &row)?;
        bytes += texts.bytes() + metadata_bytes;
        clones.push(Publication {
            kind: row.of.kind,
            name: to.prompt_name.clone().unwrap_or(row.of.name),
            version: to.version.clone().unwrap_or(row.version),
            model: row.model,
            source: texts.source,
            metadata,
            message: message.clone().or(row.message),
            path: "source",
        });
    }
    Ok((clones, true))
}

/// How far a version is cloned.
struct Progress {
    /// Whether the texts are still being examined; then all are published.
    examining: bool,
    /// The model whose text is published last and shown by the answer: the generic one, if there is
    /// one. The others are in order.
    last: Model,
    /// The model up to which it is done.
    after: Option<Model>,
}

impl Progress {
    /// The beginning, with the models of these rows.
    fn begin(rows: &[VersionRecord]) -> Self {
        let has_generic = rows.iter().any(|row| row.model.as_str() == GENERIC);
        let first = rows.iter().map(|row| &row.model).min().filter(|_| !has_generic);
        let last = first.cloned().unwrap_or_else(generic);
        Progress { examining: true, last, after: None }
    }

    /// The beginning of publishing.
    fn publish(&self) -> Self {
        Progress { examining: false, last: self.last.clone(), after: None }
    }

    /// The progress when `model` is done.
    fn after(&self, model: Model) -> Self {
        Progress { examining: self.examining, last: self.last.clone(), after: Some(model) }
    }

    /// The rows that are not done, in their order.
    fn ahead(&self, mut rows: Vec<VersionRecord>) -> Vec<VersionRecord> {
        let place = |model: &Model| (*model == self.last, model.clone());
        rows.sort_by_key(|row| place(&row.model));
        rows.retain(|row| self.after.as_ref().is_none_or(|done| place(&row.model) > place(done)));
        rows
    }

    // Models have no control characters.
    fn to_text(&self) -> String {
        let phase = if self.examining { "examine" } else { "publish" };
        let after = self.after.as_ref().map_or("", |model| model.as_str());
        [phase, self.last.as_str(), after].join("\n")
    }

    fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split('\n');
        let (Some(phase), Some(last), Some(after)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Error::internal("a clone has lost its position"));
        };
        let model = |name: &str| Model::from_trusted(name.into());
        let after = Some(after).filter(|after| !after.is_empty()).map(model);
        Ok(Progress { examining: phase == "examine", last: model(last), after })
    }
}

/// The registry that a version is cloned into.
static CLONE_TARGET: TargetFinder = TargetFinder {
    arguments: &["to.registryRef", "registryRef"],
    find: |view, hint| {
        let to = hint.target("to.registryRef").or_else(|| hint.target("registryRef"));
        registries::registry_target(view, to)
    },
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/registries/artifact-versions/clone",
            MEMBER,
            "artifact_version.clone",
            op::write(op::calling(EVALUATION_SECS, clone)),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactPublish, &CLONE_TARGET)
        .about("Clone a version"),
    ]
}
