//! Descriptions that many schemas have in common: a property without one of its own takes that of
//! the same property in a related type, then a common one. So nothing is said twice.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What names mean wherever they are used.
const COMMON: &[(&str, &str)] = &[
    ("id", "Opaque identifier; ids increase over time."),
    ("name", "The name shown to people; it need not be unique."),
    ("description", "Free text for people."),
    ("slug", "Names it in URLs and references. Unique; never changes."),
    ("stableKey", "Names it for programs. Unique in the organization; never changes."),
    ("orgSlug", "The slug of the organization."),
    ("createdAt", "When it was created."),
    ("updatedAt", "When it was last changed."),
    ("expiresAt", "When it ceases to be valid."),
    ("items", "The items of this page, in the order of the list."),
    ("email", "An e-mail address, in lower case."),
    ("role", "What its holder may do."),
    ("access", "Who may use it."),
    ("subject", "A line that says what it is about."),
    ("body", "The text."),
    ("tags", "Words by which lists are filtered; each once, in whatever case."),
    ("createdBy", "The user who created it."),
    (
        "updatedBy",
        "The user who last changed it, also through a key; null if the change followed from another one, as \
         when a fleet of its is deleted, was made by the server itself, or by an earlier release.",
    ),
];

/// Completes the descriptions of the properties of all schemas.
pub fn complete(schemas: &mut Map<String, Value>) {
    let own: BTreeMap<String, Map<String, Value>> = schemas
        .iter()
        .filter_map(|(name, schema)| {
            Some((name.clone(), schema["properties"].as_object()?.clone()))
        })
        .collect();
    for (name, schema) in schemas.iter_mut() {
        let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
            continue;
        };
        let relatives = relatives(name);
        for (property, schema) in properties {
            if schema.get("description").is_some() {
                continue;
            }
            let related = relatives
                .iter()
                .find_map(|relative| own.get(relative)?.get(property)?.get("description").cloned());
            if let (Some(description), Some(schema)) =
                (related.or_else(|| common(property).map(Value::from)), schema.as_object_mut())
            {
                schema.insert("description".into(), description);
            }
        }
    }
}

/// The names of types about the same thing: `CreateTask` and `TaskPatch` are about a `Task`.
fn relatives(name: &str) -> Vec<String> {
    let mut noun = name.strip_prefix("Create").unwrap_or(name);
    for end in ["Input", "Patch", "Created"] {
        noun = noun.strip_suffix(end).unwrap_or(noun);
    }
    [noun.to_string(), format!("Create{noun}"), format!("{noun}Patch"), format!("{noun}Created")]
        .into()
}

/// The common description of a property or parameter: of an id, the noun in its name says it all.
pub fn common(name: &str) -> Option<String> {
    if let Some((_, description)) = COMMON.iter().find(|(common, _)| *common == name) {
        return Some((*description).into());
    }
    let noun = name.strip_suffix("Id").filter(|noun| !noun.is_empty())?;
    Some(format!("The id of the {}.", words(noun)))
}

/// The description of a path parameter of a route about this noun.
pub fn of_path(name: &str, noun: &str) -> String {
    if name == "id" {
        return format!("The id of the {noun}.");
    }
    let words = words(name);
    match words.rsplit_once(' ') {
        Some((of, what)) if what != "key" => format!("The {what} of the {of}."),
        Some(_) => format!("The {words}."),
        None => format!("The {words} of the {noun}."),
    }
}

/// `toAgent` as `to agent`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}
