//! The editor of a version: checked as often as one likes, kept as a draft, published.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Kind, Result};
use crate::console::against::{self, Difference};
use crate::console::api::segment;
use crate::console::check::{Checked, Text, Verdict, check};
use crate::console::conflict::{self, Conflict, Edited, digest};
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::names::Names;
use crate::console::page::Page;
use crate::console::place::{self, Artifact, GENERIC, Place};
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/edit")
        .get(|visit| Box::pin(edit(visit, Outcome::default())))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/edit")
        .get(|visit| Box::pin(edit(visit, Outcome::default())))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/prompts/{registry}/{name}/edit/check")
        .post(|visit| Box::pin(check_only(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/edit/check")
        .post(|visit| Box::pin(check_only(visit))),
];

/// The version that a new artifact begins with.
const FIRST: &str = "1.0.0";

#[derive(Template)]
#[template(path = "editor.html")]
struct Editor {
    frame: Frame,
    place: Place,
    /// The version that the text is from; empty for a new artifact.
    base: String,
    version: String,
    model: String,
    source: String,
    metadata: String,
    environment: Field,
    checked: Option<Checked>,
    /// What the text can be compared with; nothing before the first version.
    against: Vec<(String, String)>,
    chosen: String,
    difference: Option<Difference>,
    /// Names to complete.
    names: Names,
    wraps: bool,
}

impl Editor {
    /// Whether what is wrong with the form is that its text does not compile: that is no longer said
    /// once it does.
    fn is_mended_by_text(&self) -> bool {
        let has_problems = |checked: &Checked| !checked.problems.is_empty();
        self.frame.problems.any() && self.checked.as_ref().is_some_and(has_problems)
    }
}

/// The parts of the editor's page that a script replaces.
#[derive(Template)]
#[template(path = "checked_parts.html")]
struct CheckedParts {
    checked: Option<Checked>,
    difference: Option<Difference>,
}

#[derive(Deserialize)]
struct Content {
    version: String,
    model: String,
    source: String,
    metadata: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Draft {
    id: String,
    draft_version: String,
    body: String,
    metadata: Value,
}

impl Draft {
    /// What the form edits of it.
    fn edited(&self, visit: &Visit) -> Vec<Edited> {
        vec![
            Edited::text(visit, "source", "Text", &self.body),
            Edited::text(visit, "metadata", "Metadata", &pretty(&self.metadata)),
        ]
    }
}

#[derive(Deserialize)]
struct Published {
    version: String,
}

/// What came of a form, for the editor that is shown again.
#[derive(Default)]
struct Outcome {
    error: Option<Error>,
    checked: Option<Checked>,
    /// What somebody else has written, and the digest of that.
    conflict: Option<(Conflict, String)>,
    /// Whether lines are wrapped from now on, if that was chosen.
    wraps: Option<bool>,
}

/// What the editor is filled with at first.
struct Start {
    base: String,
    version: String,
    model: String,
    source: String,
    metadata: Value,
    /// The digest of the draft that it is from; that of none otherwise.
    was: String,
}

async fn edit(visit: &Visit, outcome: Outcome) -> Result<Reply> {
    visit.require(Method::Post, "/registries/artifacts")?;
    let Outcome { error, checked, conflict, wraps } = outcome;
    let place = Place::of(visit);
    let artifact = place.find(&visit.api).await?;
    let start = start(visit, &place, artifact.as_ref()).await?;
    let is_new = artifact.is_none();
    let title = if is_new { "New" } else { "New version of" };
    let refusal = checked.as_ref().and_then(|checked| checked.refusal.as_ref());
    let frame = visit.frame(&format!("{title} {}", place.name)).failed(error.as_ref().or(refusal));
    let mut frame = frame.rename("body", "source").rename("draftVersion", "version");
    frame = frame.label("source", "Text");
    frame.was = visit.form.sent("was").map_or(start.was, String::from);
    if let Some((conflict, was)) = conflict {
        frame.status = StatusCode::CONFLICT;
        (frame.conflict, frame.was) = (Some(conflict), was);
    }
    let frame = match &artifact {
        Some(_) => place.crumbs(visit, frame),
        None => place.above(visit, frame),
    };
    let chosen = artifact.as_ref().map(against::usual).unwrap_or_default();
    let chosen = frame.value("against", chosen).to_string();
    let source = frame.value("source", &start.source);
    let model = frame.value("model", &start.model);
    // What nobody has asked for is not compared: a script asks once it is opened.
    let compared = frame.form.sent("against").unwrap_or_default();
    let environment = place::environment(visit, "Fill it with values of").await?;
    let page = Editor {
        difference: against::difference(visit, &place, compared, model, source).await?,
        against: artifact
            .as_ref()
            .map(|artifact| against::choices(artifact, &chosen))
            .unwrap_or_default(),
        chosen,
        names: Names::read(visit, &place).await?,
        wraps: wraps.unwrap_or(visit.wraps),
        frame: frame
            .script("editor")
            .script("complete")
            .script("draft")
            .picking(visit, &[&environment])
            .await?,
        place,
        base: start.base,
        version: start.version,
        model: start.model,
        source: start.source,
        metadata: pretty(&start.metadata),
        environment,
        checked,
    };
    let mut reply = render(page.frame.status, &page)?;
    reply.wraps = wraps;
    // Of a prompt that does not exist the page says what it was asked for.
    Ok(if is_new { reply.showing_input() } else { reply })
}

/// Metadata as the form has it: nothing of an empty object.
fn pretty(metadata: &Value) -> String {
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        return String::new();
    }
    serde_json::to_string_pretty(metadata).unwrap_or_default()
}

async fn start(visit: &Visit, place: &Place, artifact: Option<&Artifact>) -> Result<Start> {
    let api = &visit.api;
    if let Some(draft) = visit.query.some("draft") {
        let path = format!("/prompts/{}/drafts/{}", segment(&place.name), segment(draft));
        let of = [("registryRef", place.registry.as_str()), ("artifactType", place.kind)];
        let draft: Draft = api.get(&path, &of).await?;
        return Ok(Start {
            base: String::new(),
            was: digest(&draft.edited(visit)),
            version: draft.draft_version,
            model: visit.query.some("model").unwrap_or(GENERIC).into(),
            source: draft.body,
            metadata: draft.metadata,
        });
    }
    let Some(artifact) = artifact else {
        let (base, source) = (String::new(), String::new());
        let (version, model) = (FIRST.into(), GENERIC.into());
        let was = digest(&[]);
        return Ok(Start { base, version, model, source, metadata: Value::Null, was });
    };
    let from = visit.query.some("from").unwrap_or(&artifact.latest_version);
    let mut query = vec![("version", from)];
    query.extend(visit.query.some("model").map(|model| ("model", model)));
    let path = "/registries/artifact-versions/content";
    let content: Content = api.get(path, &place.query(&query)).await?;
    Ok(Start {
        base: content.version,
        version: next_minor(&artifact.latest_version),
        model: content.model,
        source: content.source,
        metadata: content.metadata,
        was: digest(&[]),
    })
}

/// The next minor version.
fn next_minor(version: &str) -> String {
    let mut numbers = version.split('.').map(|number| number.parse::<u64>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    format!("{major}.{}.0", minor.saturating_add(1))
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let version = visit.form.some("publishAs").unwrap_or(visit.form.get("version").trim());
    let is_renumbered = visit.form.some("publishAs").is_some();
    let action = if is_renumbered { "publish" } else { visit.form.get("action") };
    // Publishing closes the draft of the same version.
    if matches!(action, "publish" | "draft")
        && let Some(conflict) = replaced(visit, &place, version, action).await?
    {
        return edit(visit, Outcome { conflict: Some(conflict), ..Outcome::default() }).await;
    }
    let done = match action {
        "publish" => publish(visit, &place, version).await,
        "draft" => save_draft(visit, &place).await,
        "wrap" | "nowrap" => {
            let wraps = Some(action == "wrap");
            // A script has changed its page already, and sends no text.
            if visit.form.sent("source").is_none() {
                visit.require(Method::Post, "/registries/artifacts")?;
                let mut reply = Reply::see_other(format!("{}/edit", place.path));
                reply.wraps = wraps;
                return Ok(reply);
            }
            return edit(visit, Outcome { wraps, ..Outcome::default() }).await;
        }
        _ => {
            let checked = Some(check(visit, &text(visit, &place, true)).await?);
            return edit(visit, Outcome { checked, ..Outcome::default() }).await;
        }
    };
    match done {
        Ok(reply) => Ok(reply),
        Err(error) => {
            let error = visit.failed(error)?;
            let kind = error.as_ref().map(Error::kind);
            let text = text(visit, &place, false);
            let is_about_text = kind == Some(Kind::Invalid);
            let checked = if is_about_text { Some(check(visit, &text).await?) } else { None };
            let conflict = match kind {
                Some(Kind::Conflict) => published(visit, &place, version).await?,
                _ => None,
            };
            edit(visit, Outcome { error, checked, conflict, wraps: None }).await
        }
    }
}

/// The draft of a version that somebody else has saved since the form was opened. `action` is what
/// would replace it.
async fn replaced(
    visit: &Visit,
    place: &Place,
    version: &str,
    action: &str,
) -> Result<Option<(Conflict, String)>> {
    let drafts = drafts(visit, place).await?;
    let Some(draft) = drafts.into_iter().find(|draft| draft.draft_version == version) else {
        return Ok(None);
    };
    let edited = draft.edited(visit);
    let (parts, is) = (conflict::parts(&edited), digest(&edited));
    if parts.is_empty() || visit.form.sent("was").is_none_or(|was| was == is) {
        return Ok(None);
    }
    let conflict = Conflict {
        title: format!("There is another draft of {version}"),
        text: conflict::SAVED,
        parts,
        form: "save".into(),
        button: match action {
            "draft" => ("action", "draft".into(), "Save mine over it".into()),
            _ => ("publishAs", version.into(), "Publish mine, without it".into()),
        },
        keep: format!("{}/edit?draft={}", place.path, segment(&draft.id)),
    };
    Ok(Some((conflict, is)))
}

/// The version that somebody else has published meanwhile, if that is why this one is refused.
async fn published(
    visit: &Visit,
    place: &Place,
    version: &str,
) -> Result<Option<(Conflict, String)>> {
    let model = visit.form.some("model").unwrap_or(GENERIC);
    let query = place.query(&[("version", version), ("model", model)]);
    let path = "/registries/artifact-versions/content";
    let theirs = match visit.api.get::<Content>(path, &query).await {
        Ok(content) if content.version == version => content,
        // It is refused for another reason.
        _ => return Ok(None),
    };
    let next = next_minor(&place.get(&visit.api).await?.latest_version);
    let conflict = Conflict {
        title: format!("{version} was published meanwhile"),
        text: "Versions never change: yours needs another number. It is in the form below, and was \
               not published.",
        parts: conflict::parts(&[Edited::text(visit, "source", "Text", &theirs.source)]),
        form: "save".into(),
        button: ("publishAs", next.clone(), format!("Publish mine as {next}")),
        keep: place.version(version),
    };
    Ok(Some((conflict, visit.form.get("was").into())))
}

/// The text that the form holds.
fn text<'a>(visit: &'a Visit, place: &'a Place, asks_policies: bool) -> Text<'a> {
    let (source, model) = (visit.form.get("source"), visit.form.some("model"));
    let environment = visit.form.get("environment");
    Text { place, source, model, asks_policies, environment }
}

/// The metadata of the form.
fn metadata(visit: &Visit) -> Result<Value> {
    let Some(text) = visit.form.some("metadata") else { return Ok(json!({})) };
    serde_json::from_str(text).map_err(|error| {
        let message = format!("must be a JSON object, but {error}");
        Error::invalid_at("metadata", message)
    })
}

async fn publish(visit: &Visit, place: &Place, version: &str) -> Result<Reply> {
    let body = json!({
        "registryRef": place.registry, "artifactType": place.kind, "name": place.name,
        "version": version, "source": visit.form.get("source"),
        "model": visit.form.some("model").unwrap_or(GENERIC), "metadata": metadata(visit)?,
        "message": visit.form.some("message"),
    });
    let made: Published = visit.api.post("/registries/artifacts", body).await?;
    close_draft(visit, place, &made.version).await?;
    Ok(visit.done(&place.version(&made.version), Flash::Published))
}

/// The outstanding drafts.
async fn drafts(visit: &Visit, place: &Place) -> Result<Vec<Draft>> {
    let path = format!("/prompts/{}/drafts", segment(&place.name));
    let of = [("registryRef", place.registry.as_str()), ("artifactType", place.kind)];
    visit.api.items(&path, &of).await
}

/// Deletes the draft of a version that is published now.
async fn close_draft(visit: &Visit, place: &Place, version: &str) -> Result<()> {
    let path = format!("/prompts/{}/drafts", segment(&place.name));
    let of = [("registryRef", place.registry.as_str()), ("artifactType", place.kind)];
    for draft in drafts(visit, place).await?.iter().filter(|draft| draft.draft_version == version) {
        visit.api.delete(&format!("{path}/{}", segment(&draft.id)), &of).await?;
    }
    Ok(())
}

async fn save_draft(visit: &Visit, place: &Place) -> Result<Reply> {
    let body = json!({
        "registryRef": place.registry, "artifactType": place.kind,
        "draftVersion": visit.form.get("version").trim(), "body": visit.form.get("source"),
        "metadata": metadata(visit)?,
    });
    let path = format!("/prompts/{}/drafts", segment(&place.name));
    let version = visit.form.get("version").trim();
    let old = drafts(visit, place).await?.into_iter().find(|draft| draft.draft_version == version);
    let Some(old) = old else {
        let saved = visit.api.post(&path, body).await?;
        return Ok(visit.done(&after_draft(visit, place, &saved), Flash::DraftSaved));
    };
    // It may be somebody else's: the form has shown it, or asked whether to save over it.
    let of = [("registryRef", place.registry.as_str()), ("artifactType", place.kind)];
    let one = format!("{path}/{}", segment(&old.id));
    let (_, tag) = visit.api.get_tagged::<Value>(&one, &of).await?;
    let saved = visit.api.change_if(Method::Post, &path, body, &tag).await?;
    Ok(visit.done(&after_draft(visit, place, &saved), Flash::DraftSaved))
}

/// Where one is after a draft is saved: by a key one goes on writing it, for the same model, and `saved`
/// is the digest of what was written, whoever saves another one before the page is read.
fn after_draft(visit: &Visit, place: &Place, saved: &Draft) -> String {
    if visit.form.get("then") != "stay" {
        return place.path.clone();
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("draft", &saved.id);
    if let Some(model) = visit.form.some("model").filter(|model| *model != GENERIC) {
        query.append_pair("model", model);
    }
    query.append_pair("saved", &digest(&saved.edited(visit)));
    format!("{}/edit?{}", place.path, query.finish())
}

async fn check_only(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let text = text(visit, &place, false);
    let (chosen, model) = (visit.form.get("against"), text.model.unwrap_or_default());
    let difference = against::difference(visit, &place, chosen, model, text.source).await?;
    let checked = Some(check(visit, &text).await?);
    render(StatusCode::OK, &CheckedParts { checked, difference })
}

#[cfg(test)]
mod tests {
    use super::next_minor;

    #[test]
    fn the_next_minor_version_is_suggested() {
        assert_eq!(next_minor("1.9.3"), "1.10.0");
        assert_eq!(next_minor("0.0.1"), "0.1.0");
    }
}
