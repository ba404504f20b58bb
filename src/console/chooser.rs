//! Choosing a thing by its name. What is typed is looked for among what the visitor may see: by a script
//! while they type (`pages/choose.rs`), without scripts once the form was sent and its field refused.
//! Of few things all are listed instead ([`pick`]).

use serde_json::Value;

use super::choice::{Choice, Chooser, Kind, MAX_TEXT, OFFERED, Offer, Wanted};
use super::field::{self, Field};
use super::fields::Fields;
use super::frame::Frame;
use super::hits;
use super::people;
use super::runtimes;
use super::strict::List;
use super::visit::Visit;
use crate::auth::{Role, ScopeName};
use crate::base::Result;

/// So many are listed where all are: of more, one is looked for.
const MAX_LISTED: usize = 50;
/// The same, as the API takes it.
pub const LISTED: &str = "50";
/// What a grant may be for, and so many of each are offered.
const GRANTED: [Kind; 3] = [Kind::Registry, Kind::Environment, Kind::Fleet];
const OF_EACH: &str = "6";
/// So many of the newest keys are looked through.
const KEYS: &str = "100";
/// Versions are looked through so far.
const VERSIONS: &str = "100";

/// A choice between the things of a kind; `none` is what it says where none is chosen.
///
/// # Errors
/// Those of the route that lists them.
pub async fn pick(
    visit: &Visit,
    label: &'static str,
    chooser: Chooser,
    none: Option<&str>,
) -> Result<Field> {
    let (path, value, name) = chooser.kind.list();
    let list: List<Value> = visit.api.get(path, &[("limit", LISTED)]).await?;
    if list.next_cursor.is_some() {
        return Ok(looked_for(label, chooser, none));
    }
    let all = list.items.iter().map(|item| {
        let [value, name] = [value, name].map(|field| field::text_of(&item[field]));
        let Choice { value, label } = choice(visit, chooser.kind, &value, &name);
        (value, label)
    });
    Ok(between(label, chooser, none, all.collect()))
}

/// The same between what was read.
pub fn between(
    label: &'static str,
    chooser: Chooser,
    none: Option<&str>,
    all: Vec<(String, String)>,
) -> Field {
    if all.len() > MAX_LISTED {
        return looked_for(label, chooser, none);
    }
    let none = none.map(|none| (String::new(), none.to_string()));
    Field::select(chooser.name, label, none.into_iter().chain(all))
}

/// A line in which one is looked for.
pub fn looked_for(label: &'static str, chooser: Chooser, none: Option<&str>) -> Field {
    let field = Field::choose(label, chooser);
    if none.is_some() { field.optional() } else { field }
}

/// The fields in which something was typed: those of the form that was sent, or of the address.
fn entered(visit: &Visit) -> &Fields {
    if visit.form.is_empty() { &visit.query } else { &visit.form }
}

impl Chooser {
    /// What was typed in a form that was sent: what is before the last word, and that.
    fn typed<'a>(&self, visit: &'a Visit) -> (&'a str, &'a str) {
        let text = entered(visit).get(self.name);
        let at = if self.is_many { text.rfind(',').map_or(0, |comma| comma + 1) } else { 0 };
        (&text[..at], text[at..].trim())
    }

    /// What fits; `artifact` is what the page is about.
    async fn offer(&self, visit: &Visit, artifact: &[String; 3]) -> Result<Offer> {
        let (before, text) = self.typed(visit);
        let from = |name: &str| if name.is_empty() { "" } else { entered(visit).get(name).trim() };
        let [registry, prompt, artifact_type] = if self.is_of_page() {
            artifact.each_ref().map(String::as_str)
        } else {
            let [registry, prompt] = self.from.map(from);
            [registry, prompt, ""]
        };
        let (kind, team) = (self.kind, self.team);
        let mut wanted = Wanted { kind, text, registry, prompt, artifact_type, team };
        let mut found = matches(visit, &wanted).await?;
        if found.is_empty() && !text.is_empty() {
            wanted.text = "";
            found = matches(visit, &wanted).await?;
        }
        let before = if before.is_empty() { String::new() } else { format!("{before} ") };
        let choice = |Choice { value, label }: Choice| {
            let read = if label.is_empty() { value.clone() } else { format!("{label} ({value})") };
            (format!("{before}{value}"), read)
        };
        Ok(Offer { name: self.name, choices: found.into_iter().map(choice).collect() })
    }
}

impl Frame {
    /// Lets things be chosen on the page by a script.
    pub fn choosing(self) -> Frame {
        self.script("choose")
    }

    /// Offers what fits at each of these fields that the API has refused.
    ///
    /// # Errors
    /// Those of the routes that are not about what was typed.
    pub async fn offering(mut self, visit: &Visit, choosers: &[Chooser]) -> Result<Frame> {
        if !self.problems.any() {
            return Ok(self);
        }
        // What is not found has no field, in some answers of the API.
        let is_missing = self.status == hyper::StatusCode::NOT_FOUND;
        for chooser in choosers {
            let is_whole = is_missing && self.problems.issues.is_empty();
            if is_whole || !self.problems.at(chooser.name).is_empty() {
                let offer = chooser.offer(visit, &self.artifact).await?;
                self.offers.extend((!offer.choices.is_empty()).then_some(offer));
            }
        }
        Ok(self)
    }

    /// Shows fields of forms by hand in which something may be chosen, with what fits where one was refused.
    ///
    /// # Errors
    /// See [`Frame::offering`].
    pub async fn picking(self, visit: &Visit, fields: &[&Field]) -> Result<Frame> {
        let choosers: Vec<_> = fields.iter().filter_map(|field| field.chooser()).collect();
        if choosers.is_empty() {
            return Ok(self);
        }
        self.choosing().offering(visit, &choosers).await
    }

    /// What is offered at a field.
    pub fn offered(&self, name: &str) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.name == name)
    }

    /// The address that a script asks for choices.
    pub fn choose_path(&self, chooser: &Chooser) -> String {
        let slug = self.member.as_ref().map_or("", |member| &member.org_slug);
        let path = format!("/o/{slug}/choose?kind={}", chooser.kind.name());
        if chooser.is_of_page() {
            let of = ["registry", "prompt", "type"].into_iter().zip(&self.artifact);
            let of = form_urlencoded::Serializer::new(String::new()).extend_pairs(of).finish();
            return format!("{path}&{of}");
        }
        if chooser.team.is_nil() { path } else { format!("{path}&team={}", chooser.team) }
    }
}

/// Returns what fits, at most [`OFFERED`]; nothing for a text that the API refuses.
///
/// # Errors
/// Those of the routes that are not about what was typed.
pub async fn matches(visit: &Visit, wanted: &Wanted<'_>) -> Result<Vec<Choice>> {
    let found = match wanted.kind {
        Kind::Agent if !wanted.team.is_nil() => of_team(visit, wanted).await,
        Kind::ExactVersion | Kind::Version => versions(visit, wanted).await,
        Kind::Account => people::choices(visit, wanted.text, Some("service")).await,
        Kind::Member => people::choices(visit, wanted.text, None).await,
        Kind::Person => people::choices(visit, wanted.text, Some("person")).await,
        Kind::Provider => runtimes::providers(visit, wanted.text).await,
        Kind::Scope => Ok(scopes(visit, wanted.text)),
        Kind::Subject => subjects(visit, wanted.text).await,
        Kind::Thing => granted(visit, wanted.text).await,
        _ if is_foreign(visit, wanted) => Ok(Vec::new()),
        _ if wanted.text.is_empty() => newest(visit, wanted).await,
        _ => named(visit, wanted).await,
    };
    match found {
        Ok(mut found) => {
            found.truncate(OFFERED);
            Ok(found)
        }
        Err(error) => {
            visit.failed(error)?;
            Ok(Vec::new())
        }
    }
}

/// The scopes that have this text, of those that a key of the visitor may have.
fn scopes(visit: &Visit, text: &str) -> Vec<Choice> {
    let may_write = visit.member().role >= Role::Member;
    let of_key = ScopeName::all().filter(|name| may_write || name.is_read());
    let fit = of_key.filter(|name| name.text().contains(text));
    let choice = |name: ScopeName| {
        let target = name.target().placeholder();
        let label = if target.is_empty() { String::new() } else { format!("or @{target}") };
        Choice { value: name.text().to_string(), label }
    };
    fit.map(choice).collect()
}

/// The agents of a team whose key or name has this text.
async fn of_team(visit: &Visit, wanted: &Wanted<'_>) -> Result<Vec<Choice>> {
    let path = format!("/teams/{}/agents", wanted.team);
    let all: Vec<Value> = visit.api.items(&path, &[]).await?;
    let text = wanted.text.to_lowercase();
    let fits = |choice: &Choice| {
        [&choice.value, &choice.label].iter().any(|own| own.to_lowercase().contains(&text))
    };
    let all =
        all.iter().map(|agent| ["stableKey", "name"].map(|name| field::text_of(&agent[name])));
    Ok(all.map(|[value, label]| Choice { value, label }).filter(fits).collect())
}

/// The people who are called so, and the keys among the newest.
async fn subjects(visit: &Visit, text: &str) -> Result<Vec<Choice>> {
    let mut all = people::by_id(visit, text).await?;
    let keys: List<Value> = visit.api.get("/api-keys", &[("limit", KEYS)]).await?;
    let wanted = text.to_lowercase();
    let keys = keys.items.iter().map(|key| ["id", "name"].map(|name| field::text_of(&key[name])));
    let fit = keys.filter(|[_, name]| name.to_lowercase().contains(&wanted));
    let key = |[id, name]: [String; 2]| Choice {
        value: format!("key:{id}"),
        label: format!("{name} (key)"),
    };
    // Neither hides the other.
    all.truncate(OFFERED / 2);
    all.extend(fit.take(OFFERED / 2).map(key));
    Ok(all)
}

/// What a grant may be for that is called so.
async fn granted(visit: &Visit, text: &str) -> Result<Vec<Choice>> {
    let text: String = text.chars().take(MAX_TEXT).collect();
    let mut all = Vec::new();
    for kind in GRANTED {
        let found: Vec<[String; 2]> = if text.is_empty() {
            let list: List<Value> = visit.api.get(kind.list().0, &[("limit", OF_EACH)]).await?;
            let of = |item: &Value| ["id", "name"].map(|name| field::text_of(&item[name]));
            list.items.iter().map(of).collect()
        } else {
            let query = [("q", &*text), ("kind", kind.name()), ("count", OF_EACH), hits::BY_NAME];
            let found = hits::find(visit, &query).await?.items.into_iter();
            found.map(|item| [item.id, item.name]).collect()
        };
        all.extend(found.into_iter().map(|[id, name]| Choice {
            value: format!("{}:{id}", kind.name()),
            label: format!("{name} ({})", kind.name()),
        }));
    }
    Ok(all)
}

/// The organization that a registry is named with, and its slug.
fn parts(registry: &str) -> (Option<&str>, &str) {
    match registry.split_once('/') {
        Some((organization, slug)) => (Some(organization), slug),
        None => (None, registry),
    }
}

/// Whether the registry is of another organization, of which the console shows nothing.
fn is_foreign(visit: &Visit, wanted: &Wanted<'_>) -> bool {
    let own = &visit.member().org_slug;
    parts(wanted.registry).0.is_some_and(|organization| organization != own)
}

/// What a script or a field takes for something of this kind.
fn choice(visit: &Visit, kind: Kind, value: &str, label: &str) -> Choice {
    let value = match kind {
        Kind::Registry => format!("{}/{value}", visit.member().org_slug),
        _ => value.into(),
    };
    Choice { value, label: label.into() }
}

/// What is called so.
async fn named(visit: &Visit, wanted: &Wanted<'_>) -> Result<Vec<Choice>> {
    let Wanted { kind, text, registry, .. } = *wanted;
    let text = if kind == Kind::Registry { parts(text).1 } else { text };
    let text: String = text.chars().take(MAX_TEXT).collect();
    if text.is_empty() {
        return newest(visit, wanted).await;
    }
    let count = OFFERED.to_string();
    let mut query = vec![("q", text.as_str()), ("kind", kind.name()), ("count", count.as_str())];
    query.push(hits::BY_NAME);
    let within = parts(registry).1;
    query.extend((kind.is_artifact() && !within.is_empty()).then_some(("within", within)));
    let found = hits::find(visit, &query).await?.items.into_iter();
    let choice = |item: hits::Item| match kind {
        Kind::Fleet | Kind::Team | Kind::Tool => choice(visit, kind, &item.id, &item.name),
        Kind::Prompt | Kind::Promptlet => {
            let within = item.within.as_deref().filter(|_| registry.is_empty());
            choice(visit, kind, &item.name, within.unwrap_or_default())
        }
        _ => choice(visit, kind, item.key.as_deref().unwrap_or(&item.id), &item.name),
    };
    Ok(found.map(choice).collect())
}

/// The first of the list, where nothing was typed.
async fn newest(visit: &Visit, wanted: &Wanted<'_>) -> Result<Vec<Choice>> {
    let Wanted { kind, registry, text, .. } = *wanted;
    let (path, value, label) = kind.list();
    let limit = OFFERED.to_string();
    let mut query = vec![("limit", limit.as_str())];
    if kind.is_artifact() {
        if registry.is_empty() {
            return Ok(Vec::new());
        }
        query.extend([("registryRef", registry), ("artifactType", kind.name())]);
    }
    let list: List<Value> = visit.api.get(path, &query).await?;
    let of = |item: &Value, name: &str| field::text_of(&item[name]);
    let all = list.items.iter().map(|item| choice(visit, kind, &of(item, value), &of(item, label)));
    Ok(all.filter(|one| one.value.starts_with(text)).collect())
}

/// The versions of a prompt or promptlet that begin so, after its labels unless a number is wanted.
async fn versions(visit: &Visit, wanted: &Wanted<'_>) -> Result<Vec<Choice>> {
    let Wanted { kind, registry, prompt, artifact_type, text, .. } = *wanted;
    if registry.is_empty() || prompt.is_empty() {
        return Ok(Vec::new());
    }
    let artifact_type = if artifact_type.is_empty() { "prompt" } else { artifact_type };
    let of = [("registryRef", registry), ("promptName", prompt), ("artifactType", artifact_type)];
    let mut choices = Vec::new();
    if kind == Kind::Version {
        let found: List<Value> = visit.api.get("/registries/artifacts", &of).await?;
        let labels = found.items.first().and_then(|artifact| artifact["labels"].as_object());
        let labels = labels.into_iter().flatten();
        let choice = |(label, version): (&String, &Value)| Choice {
            value: label.clone(),
            label: field::text_of(version),
        };
        choices.extend(labels.map(choice));
    }
    let query = [&of[..], &[("limit", VERSIONS)]].concat();
    let rows: List<Value> = visit.api.get(Kind::Version.list().0, &query).await?;
    for row in &rows.items {
        let value = field::text_of(&row["version"]);
        // Each model may have its own text of a version.
        if choices.last().is_none_or(|last| last.value != value) {
            choices.push(Choice { value, label: String::new() });
        }
    }
    choices.retain(|choice| choice.value.starts_with(text));
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_named_with_or_without_its_organization() {
        assert_eq!(parts("acme/main"), (Some("acme"), "main"));
        assert_eq!(parts("main"), (None, "main"));
        assert_eq!(parts(""), (None, ""));
    }
}
