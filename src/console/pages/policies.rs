//! `/o/{org}/governance`: policies for what is published: their rules, and to which registries they
//! are assigned.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::conflict::Edited;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::place::{self, llm_providers_or_default};
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/governance").get(|visit| {
        Box::pin(async { Ok(Reply::see_other(visit.in_org("/governance/policies"))) })
    }),
    Page::of_org("/o/{org}/governance/policies").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/governance/new-policy")
        .get(|visit| Box::pin(new(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/governance/policies/{policy}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/governance/policies/{policy}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/governance/policies/{policy}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

/// The pages of governance beside each other.
pub const TABS: [(&str, &str); 3] = [
    ("Policies", "/governance/policies"),
    ("Flags", "/governance/flags"),
    ("Dry run", "/governance/check"),
];

/// The types of rules.
const TYPES: [(&str, &str); 11] = [
    ("forbidPattern", "Must not match the pattern"),
    ("requirePattern", "Must match the pattern"),
    ("maxLength", "Has at most this many characters"),
    ("forbidInvisible", "Has at most this many invisible characters"),
    ("requireVariable", "Must use the variable"),
    ("forbidVariable", "Must not use the variable"),
    ("requireMetadata", "Must have the metadata"),
    ("forbidModel", "Must not be for the model"),
    ("judge", "A language model judges by this instruction"),
    ("protectLabel", "Moving the label takes approvals"),
    ("passesInputs", "So many percent of the prompt's inputs must pass"),
];

const SEVERITIES: [(&str, &str); 2] =
    [("error", "Refuse what violates it"), ("warning", "Publish it, with a flag")];

/// Rules that can be added at a time.
const BLANK_RULES: usize = 3;

#[derive(Template)]
#[template(path = "policies.html")]
struct Policies {
    frame: Frame,
    base: String,
    policies: Listed<Policy>,
    may_write: bool,
}

#[derive(Template)]
#[template(path = "policy.html")]
struct PolicyPage {
    frame: Frame,
    policy: Policy,
    assignments: Vec<Assignment>,
    /// The choice between registries to which it is not assigned.
    registry: Field,
    may_write: bool,
}

#[derive(Template)]
#[template(path = "edit_policy.html")]
struct EditPolicy {
    frame: Frame,
    form: Form,
    rows: Vec<Row>,
    types: &'static [(&'static str, &'static str)],
    providers: Vec<(String, String)>,
}

/// A rule in the form: the names of its fields, with their values.
struct Row {
    at: usize,
    kind: String,
    value: String,
    provider: String,
}

impl Row {
    fn field(&self, name: &str) -> String {
        format!("rules[{}].{name}", self.at)
    }
}

#[derive(Deserialize)]
struct Policy {
    id: String,
    name: String,
    description: Nullable<String>,
    severity: String,
    rules: Vec<Rule>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    r#type: String,
    value: Value,
    llm_provider_id: Nullable<String>,
}

impl Rule {
    fn value(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    fn label(&self) -> &str {
        let found = TYPES.iter().find(|(kind, _)| *kind == self.r#type);
        found.map_or(self.r#type.as_str(), |(_, label)| label)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assignment {
    id: String,
    registry_ref: String,
}

fn api_path(visit: &Visit) -> String {
    format!("/governance/policies/{}", segment(visit.param(1)))
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Policies", visit.in_org("/governance/policies"))
}

async fn list(visit: &Visit) -> Result<Reply> {
    let only = [("kind", "policy")];
    let page = Policies {
        frame: visit.frame("Policies").tabs(&TABS),
        base: visit.in_org("/governance"),
        policies: Listed::read(visit, &only, "/governance/policies", &[]).await?,
        may_write: visit.may(Method::Post, "/governance/policies"),
    };
    render(page.frame.status, &page)
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let policy: Policy = visit.api.get(&api_path(visit), &[]).await?;
    let path = format!("{}/assignments", api_path(visit));
    let assignments: Vec<Assignment> = visit.api.items(&path, &[]).await?;
    let is_new = |registry: &str| assignments.iter().all(|one| one.registry_ref != registry);
    let registry = place::registry(visit, "Registry").await?.retain(is_new);
    let frame = crumbs(visit, visit.frame(&policy.name)).failed(error.as_ref());
    let page = PolicyPage {
        frame: frame.picking(visit, &[&registry]).await?,
        may_write: visit.may(Method::Patch, "/governance/policies/id"),
        registry,
        policy,
        assignments,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let path = format!("{}/assignments", api_path(visit));
    let (outcome, flash) = match visit.form.get("action") {
        "assign" => {
            let body = json!({"registryRef": visit.form.get("registryRef")});
            (visit.api.post::<Value>(&path, body).await.map(drop), Flash::PolicyAssigned)
        }
        "remove" => {
            let path = format!("{path}/{}", segment(visit.form.get("assignment")));
            (visit.api.delete(&path, &[]).await, Flash::PolicyUnassigned)
        }
        _ => return show(visit, None).await,
    };
    match outcome {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

/// The rules that were entered, without rows that were left empty.
fn entered(visit: &Visit) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for at in 0.. {
        let of = |name: &str| visit.form.sent(&format!("rules[{at}].{name}")).map(String::from);
        let Some(kind) = of("type") else { break };
        let value = of("value").unwrap_or_default();
        if !value.trim().is_empty() {
            let provider = of("llmProviderId").unwrap_or_default();
            rows.push(Row { at: rows.len(), kind, value, provider });
        }
    }
    rows
}

/// The rules as the API takes them.
fn rules(visit: &Visit, _: &Value, body: &mut Value) {
    let rule = |row: Row| {
        // What is no number is for the API to refuse.
        let is_number =
            ["maxLength", "forbidInvisible", "passesInputs"].contains(&row.kind.as_str());
        let number = row.value.trim().parse::<i64>().ok().filter(|_| is_number);
        let value = number.map_or_else(|| json!(row.value), |number| json!(number));
        let mut rule = json!({"type": row.kind, "value": value});
        if ["judge", "passesInputs"].contains(&row.kind.as_str()) && !row.provider.is_empty() {
            rule["llmProviderId"] = json!(row.provider);
        }
        rule
    };
    body["rules"] = entered(visit).into_iter().map(rule).collect();
}

/// The rules of a stored policy, as rows of the form.
fn stored_rows(stored: &Value) -> Vec<Row> {
    let rules = Vec::<Rule>::deserialize(&stored["rules"]).unwrap_or_default();
    let row = |(at, rule): (usize, Rule)| Row {
        at,
        value: rule.value(),
        kind: rule.r#type,
        provider: rule.llm_provider_id.0.unwrap_or_default(),
    };
    rules.into_iter().enumerate().map(row).collect()
}

/// What is compared of the rules.
fn edited(visit: &Visit, stored: &Value) -> Vec<Edited> {
    let line = |row: Row| {
        let found = TYPES.iter().find(|(known, _)| *known == row.kind);
        let label = found.map_or(row.kind.as_str(), |(_, label)| label);
        let by = &row.provider;
        let by = if by.is_empty() { String::new() } else { format!(" ({by})") };
        format!("{label}: {}{by}\n", row.value)
    };
    let lines = |rows: Vec<Row>| rows.into_iter().map(line).collect::<String>();
    vec![Edited::new("Rules", lines(stored_rows(stored)), lines(entered(visit)))]
}

fn fields() -> Vec<Field> {
    vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        Field::select("severity", "Violations", SEVERITIES),
        Field::special(),
    ]
}

fn made(visit: &Visit) -> Form {
    let list = visit.in_org("/governance/policies");
    Form::create("/governance/policies", fields(), "Save")
        .refined(rules)
        .done(format!("{list}/{{id}}"), Flash::PolicyCreated)
        .back(list)
}

async fn changed(visit: &Visit) -> Result<Form> {
    let form = Form::change(visit, &api_path(visit), fields()).await?;
    let form = form.refined(rules).special(edited).back(visit.above());
    Ok(form.done(visit.above(), Flash::PolicySaved))
}

async fn show_form(visit: &Visit, frame: Frame, form: Form, mut rows: Vec<Row>) -> Result<Reply> {
    for _ in 0..BLANK_RULES {
        let blank = String::new;
        rows.push(Row { at: rows.len(), kind: blank(), value: blank(), provider: blank() });
    }
    let providers = llm_providers_or_default(&visit.api).await?;
    let page = EditPolicy { frame, form, rows, types: &TYPES, providers };
    render(page.frame.status, &page)
}

async fn new(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/governance/policies")?;
    let frame = crumbs(visit, visit.frame("New policy")).failed(error.as_ref());
    show_form(visit, frame, made(visit), entered(visit)).await
}

async fn create(visit: &Visit) -> Result<Reply> {
    match made(visit).send(visit).await {
        Err(error) => new(visit, visit.failed(error)?).await,
        done => done,
    }
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/governance/policies/id")?;
    let mut form = changed(visit).await?;
    let policy: Policy = form.stored()?;
    let frame = crumbs(visit, visit.frame(&format!("Change {}", policy.name)));
    let frame = frame.crumb(policy.name, visit.above()).failed(error.as_ref());
    let frame = form.ready(frame, visit, error.as_ref());
    let sent = entered(visit);
    let rows = if sent.is_empty() { stored_rows(&form.stored()?) } else { sent };
    show_form(visit, frame, form, rows).await
}

async fn save(visit: &Visit) -> Result<Reply> {
    match changed(visit).await?.send(visit).await {
        Err(error) => edit(visit, visit.failed(error)?).await,
        done => done,
    }
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let frame = visit.frame(&format!("Delete {}?", form.known("name")));
    let form = form.done(visit.in_org("/governance/policies"), Flash::PolicyDeleted);
    let lead = "What is published is not examined by it any more. Its flags stay.";
    Ok(form.page(crumbs(visit, frame)).lead(lead))
}
