//! `/o/{org}/prompts/{registry}/{name}/try`: a version, a draft or a text that is not saved, on a model.
//! Nothing of it is kept. A script shows the answer as it comes.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::inputs::keep;
use crate::api::Method;
use crate::base::{Error, Kind, Result};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::fields::Fields;
use crate::console::form::labelled;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{self, Place, llm_providers};
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its path, and what answers it.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/prompts/{registry}/{name}/try")
    .get(|visit| Box::pin(show(visit, None, None)))
    .post(|visit| Box::pin(ask(visit)))];

/// The field for the provider that is asked.
const PROVIDER: &str = "llmProviderId";

#[derive(Template)]
#[template(path = "try_prompt.html")]
struct TryPage {
    frame: Frame,
    place: Place,
    /// The draft that is tried; empty for none.
    draft: String,
    fields: Vec<Field>,
    /// The variables of what is tried, with what was entered for them.
    values: BTreeMap<String, String>,
    has_provider: bool,
    answer: Option<Answer>,
    /// The page on which what was tried is kept as an input, if the visitor may and it is short.
    keep: Option<String>,
    may_keep: bool,
}

/// What a model answered.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    text: String,
    missing: Vec<String>,
    model: Nullable<String>,
    stop_reason: Nullable<String>,
    input_tokens: Nullable<u64>,
    output_tokens: Nullable<u64>,
    took_ms: u64,
    cost_usd: Nullable<f64>,
    cost_note: Nullable<String>,
}

impl Answer {
    fn took(&self) -> String {
        format!("{:.1} s", self.took_ms as f64 / 1000.0)
    }

    fn tokens(count: &Nullable<u64>) -> String {
        count.0.map_or("not counted".into(), |count| count.to_string())
    }

    fn cost(&self) -> String {
        match (self.cost_usd.0, &self.cost_note.0) {
            (Some(usd), _) => format!("${usd}"),
            (None, Some(note)) => sentence(note),
            (None, None) => "Unknown.".into(),
        }
    }
}

#[derive(Deserialize)]
struct Draft {
    body: String,
}

#[derive(Deserialize)]
struct Content {
    source: String,
}

#[derive(Deserialize)]
struct Compiled {
    variables: Vec<String>,
}

/// What is entered or, on a page that was just opened, what its link says.
fn given<'a>(visit: &'a Visit, name: &str) -> &'a str {
    let entered = visit.form.sent(name).filter(|_| !is_brought(visit));
    entered.unwrap_or_else(|| visit.query.get(name)).trim()
}

/// Whether the editor brings its text, of whose form the text alone is meant for here.
fn is_brought(visit: &Visit) -> bool {
    visit.form.get("action") == "try"
}

/// What is entered, as [`given`]; nothing of what the editor brings.
fn asked<'a>(visit: &'a Visit, name: &str) -> &'a str {
    if is_brought(visit) { "" } else { given(visit, name) }
}

async fn show(visit: &Visit, error: Option<Error>, answer: Option<Answer>) -> Result<Reply> {
    visit.require(Method::Post, "/prompts/name/try")?;
    let place = Place::of(visit);
    let fields = fields(visit).await?;
    let entered = visit.form.variables();
    let variables = variables(visit, &place).await?;
    let mut frame = place.crumbs(visit, visit.frame("Try")).script("try").failed(error.as_ref());
    frame.problems = labelled(frame.problems, &fields);
    if is_brought(visit) {
        frame.form = Fields::default();
    }
    let frame = frame.picking(visit, &fields.iter().collect::<Vec<_>>()).await?;
    let may_keep = place.kind == "prompt" && visit.may(Method::Post, "/prompts/name/inputs");
    let tried = || keep(&place, &visit.form.filled_variables(), visit.form.get("message").trim());
    let page = TryPage {
        frame,
        keep: if may_keep && answer.is_some() { tried() } else { None },
        may_keep,
        draft: asked(visit, "draft").into(),
        has_provider: fields.iter().any(|one| one.name == PROVIDER && one.has_choice()),
        fields,
        values: variables
            .into_iter()
            .map(|name| (name.clone(), entered.get(&name).to_string()))
            .collect(),
        answer,
        place,
    };
    // The prompt need not exist: a draft is of a name.
    Ok(render(page.frame.status, &page)?.showing_input())
}

/// The fields of the form. A draft has no version.
async fn fields(visit: &Visit) -> Result<Vec<Field>> {
    let version = place::version("version", "Version, range or label")
        .optional()
        .hint("The newest version if it is empty.")
        .preset(asked(visit, "version"));
    let version = asked(visit, "draft").is_empty().then_some(version);
    let others = [
        Field::area("source", "A text that is not saved", 4)
            .optional()
            .hint("It is tried instead.")
            .preset(visit.form.get("source")),
        place::environment(visit, "Values from").await?,
        Field::select(PROVIDER, "LLM provider", llm_providers(&visit.api).await?),
        Field::text("model", "Model").optional().hint("That of the provider if it is empty."),
        Field::area("message", "First message", 3).optional().hint(
            "The prompt comes before it as instructions. Without one the prompt is the message.",
        ),
    ];
    Ok(version.into_iter().chain(others).collect())
}

/// The variables of what is tried; none if it is not there, or does not compile.
async fn variables(visit: &Visit, place: &Place) -> Result<Vec<String>> {
    let path = format!("/prompts/{}", segment(&place.name));
    let of_artifact = [("registryRef", place.registry.as_str()), ("artifactType", place.kind)];
    let source = if !visit.form.get("source").trim().is_empty() {
        Ok(visit.form.get("source").to_string())
    } else if !given(visit, "draft").is_empty() {
        let draft = format!("{path}/drafts/{}", segment(given(visit, "draft")));
        visit.api.get(&draft, &of_artifact).await.map(|draft: Draft| draft.body)
    } else {
        let version = given(visit, "version");
        let selected = (!version.is_empty()).then_some(("version", version));
        let query = place.query(selected.as_slice());
        let content = visit.api.get("/registries/artifact-versions/content", &query).await;
        content.map(|content: Content| content.source)
    };
    let source = match source {
        Ok(source) => source,
        Err(error) => return visit.failed(error).map(|_| Vec::new()),
    };
    let body = json!({"registryRef": place.registry, "artifactType": place.kind, "source": source});
    match visit.api.post(&format!("{path}/compile"), body).await {
        Ok(Compiled { variables }) => Ok(variables),
        // A text that is brought has no page where its registry has none for the visitor.
        Err(error) if is_brought(visit) && error.kind() != Kind::Invalid => Err(error),
        Err(error) => visit.failed(error).map(|_| Vec::new()),
    }
}

/// The request that the form makes.
fn request(visit: &Visit, place: &Place) -> Value {
    let mut body = json!({
        "registryRef": place.registry, "artifactType": place.kind,
        "variables": visit.form.filled_variables(),
    });
    for name in ["environment", PROVIDER, "model", "message"] {
        if let Some(value) = visit.form.some(name) {
            body[name] = json!(value);
        }
    }
    // Of what is entered, the nearest to the text counts.
    if let Some(source) = visit.form.some("source") {
        body["source"] = json!(source);
    } else if let Some(draft) = visit.form.some("draft") {
        body["draftId"] = json!(draft);
    } else if let Some(version) = visit.form.some("version") {
        body["version"] = json!(version);
    }
    body
}

async fn ask(visit: &Visit) -> Result<Reply> {
    if is_brought(visit) {
        return show(visit, None, None).await;
    }
    let place = Place::of(visit);
    let path = format!("/prompts/{}/try", segment(&place.name));
    let body = request(visit, &place);
    // Who goes away needs no answer, which costs money.
    visit.begin_waiting();
    // The script asks so.
    if visit.form.sent("stream").is_some() {
        return place::passed_on(visit, &path, body, fields(visit)).await;
    }
    match visit.api.post(&path, body).await {
        Ok(answer) => show(visit, None, Some(answer)).await,
        Err(error) => show(visit, visit.failed(error)?, None).await,
    }
}
