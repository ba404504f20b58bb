//! People as pages name them: by their names where they are shown, by their addresses where they are chosen.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::api::segment;
use super::choice::{Choice, Chooser, MAX_TEXT, OFFERED};
use super::field::{Field, words};
use super::strict::List;
use super::visit::Visit;
use crate::base::{Email, Kind, Result};

/// So many words of a form are looked up, each by its address: more are too many for the API.
const MAX_TYPED: usize = 60;
/// So many are read one by one; more are looked for among the newest members first.
const MAX_ALONE: usize = 3;

/// Some members of the organization: those that a page is about.
#[derive(Default)]
pub struct People {
    known: Vec<Person>,
    /// Ids of members, by what was typed for them.
    typed: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Person {
    user_id: String,
    email: String,
    name: String,
}

impl People {
    /// Those with these ids.
    ///
    /// # Errors
    /// Those of the route; who is no member any more is none.
    pub async fn of(visit: &Visit, ids: BTreeSet<String>) -> Result<Self> {
        let mut people = People::default();
        if ids.len() > MAX_ALONE {
            people.known = find(visit, &[("limit", "100")]).await?;
            people.known.retain(|person| ids.contains(&person.user_id));
        }
        for id in ids {
            if people.find(&id).is_some() {
                continue;
            }
            let path = format!("/organizations/members/{}", segment(&id));
            match visit.api.get(&path, &[]).await {
                Err(error) if error.kind() == Kind::NotFound => {}
                found => people.known.push(found?),
            }
        }
        Ok(people)
    }

    /// Adds those whose addresses were typed in this field, if a form was sent.
    ///
    /// # Errors
    /// Those of the route that are not about what was typed.
    pub async fn typed(mut self, visit: &Visit, chooser: Chooser) -> Result<Self> {
        let text = visit.form.get(chooser.name);
        let typed = if chooser.is_many { words(text) } else { vec![text.trim()] };
        for word in typed.into_iter().take(MAX_TYPED) {
            // Another word is for the API to refuse.
            if Email::parse(word).is_err() {
                continue;
            }
            let found = find(visit, &[("email", word)]).await?.into_iter().next();
            self.typed.extend(found.map(|one| (one.user_id, word.to_string())));
        }
        Ok(self)
    }

    fn find(&self, id: &str) -> Option<&Person> {
        self.known.iter().find(|person| person.user_id == id)
    }

    /// The name of one.
    pub fn name(&self, id: &str) -> &str {
        self.find(id).map_or("a former member", |person| person.name.as_str())
    }

    /// Ids, and the addresses that stand for them in a field.
    pub fn named(&self) -> Vec<(String, String)> {
        let known = self.known.iter().map(|one| (one.user_id.clone(), one.email.clone()));
        known.chain(self.typed.iter().cloned()).collect()
    }
}

/// The field in which several are chosen, with those that are stored by these ids and who was typed.
///
/// # Errors
/// Those of the routes that are not about what was typed.
pub async fn several(
    visit: &Visit,
    label: &'static str,
    chooser: Chooser,
    stored: &Value,
) -> Result<Field> {
    let ids = BTreeSet::deserialize(stored).unwrap_or_default();
    let people = People::of(visit, ids).await?.typed(visit, chooser).await?;
    Ok(Field::choose(label, chooser).words().optional().named(people.named()))
}

/// What can be chosen of the members whose name or address has this text; the newest for none.
pub async fn choices(visit: &Visit, text: &str, kind: Option<&str>) -> Result<Vec<Choice>> {
    let found = called(visit, text, kind).await?.into_iter();
    Ok(found.map(|one| Choice { value: one.email, label: one.name }).collect())
}

/// The same of people, by their ids: `user:…`.
pub async fn by_id(visit: &Visit, text: &str) -> Result<Vec<Choice>> {
    let found = called(visit, text, Some("person")).await?.into_iter();
    let choice = |one: Person| Choice {
        value: format!("user:{}", one.user_id),
        label: format!("{} <{}>", one.name, one.email),
    };
    Ok(found.map(choice).collect())
}

async fn called(visit: &Visit, text: &str, kind: Option<&str>) -> Result<Vec<Person>> {
    let text: String = text.chars().take(MAX_TEXT).collect();
    let limit = OFFERED.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend((!text.is_empty()).then_some(("q", text.as_str())));
    query.extend(kind.map(|kind| ("kind", kind)));
    find(visit, &query).await
}

async fn find(visit: &Visit, query: &[(&str, &str)]) -> Result<Vec<Person>> {
    match visit.api.get::<List<Person>>("/organizations/members", query).await {
        Ok(found) => Ok(found.items),
        Err(error) => {
            visit.failed(error)?;
            Ok(Vec::new())
        }
    }
}
