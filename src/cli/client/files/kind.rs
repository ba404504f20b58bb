//! What a kind of resource is to plain files, to a plan, to the requests that carry it out, and to what is
//! read from a server. The kinds are in [`super::kinds`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::base::segment;
use crate::cli::failure::Failure;

/// Fields of a resource, as the API calls them; ids of others are replaced by their names.
pub type Fields = Map<String, Value>;

/// Kind and name of a resource. A child's name is that of its parent, a slash, and its own.
pub type ResourceName = (&'static Kind, String);

/// The fields that follow from a name.
type Named = fn(&Known, &str) -> Result<Value, Failure>;

/// A kind of resource. Kinds are equal if they have the same place in the order.
pub struct Kind {
    /// Its place in the order in which resources are created: none refers to a later one.
    pub order: u8,
    /// For people.
    pub name: &'static str,
    /// The folder of its files; empty for what is in the file of another.
    pub folder: &'static str,
    /// The field that names it.
    pub key: &'static str,
    /// Checks what the server would refuse as the name of any resource.
    pub check_name: fn(&str) -> Result<(), String>,
    /// Checks what it would refuse of a new one besides: earlier releases made others.
    pub check_new_name: fn(&str) -> Result<(), String>,
    /// Its other fields, and what it means if a file has none.
    pub fields: &'static [(&'static str, Absent)],
    /// Whose file it is in.
    pub parent: Option<Parent>,

    /// Adds what the server answers for what a file leaves out.
    pub plan: fn(&Known, &mut Fields),
    /// What it refers to and there is not.
    pub missing: fn(&Known, &Fields) -> Vec<String>,

    /// Where the API lists it, with `{}` for the id of its parent.
    pub path: &'static str,
    /// Whether the API finds one by its name, not by an id.
    pub by_name: bool,
    /// How one is read and changed.
    pub access: Access,
    /// The fields that name it in the request that creates it; without it, its key.
    pub named: Option<Named>,
    /// Fields as a request has them: names replaced by ids.
    pub apply: fn(&Known, &Fields) -> Result<Value, Failure>,

    /// Makes what the server answers what files have: ids replaced by names.
    pub remote: fn(&Known, &mut Value),
}

impl Kind {
    /// A kind that refers to no other, whose resources the API has by their ids.
    pub const PLAIN: Kind = Kind {
        order: 0,
        name: "",
        folder: "",
        key: "name",
        check_name: |_| Ok(()),
        check_new_name: |_| Ok(()),
        fields: &[],
        parent: None,
        plan: |_, _| {},
        missing: |_, _| Vec::new(),
        path: "",
        by_name: false,
        access: Access::Tagged,
        named: None,
        apply: |_, fields| Ok(Value::Object(fields.clone())),
        remote: |_, _| {},
    };
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The kind of which a resource is a part.
pub struct Parent {
    pub kind: &'static Kind,
    /// The field of its file that its children are in: `registries` of a policy. It is a table of names and
    /// values if they are values, else a list of names.
    pub field: &'static str,
}

/// What it means if a file has no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It has no value.
    Null,
    /// It stays as it is on the server.
    Kept,
    /// It never changes: a difference is no change.
    Fixed,
}

/// How a resource is read and changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By itself, on the condition that it has the tag of what was planned.
    Tagged,
    /// It has no content, and no route to read one.
    Bare,
    /// It is a value in its parent, and set without a condition.
    Value,
}

/// What is known of an organization on a server besides its state: what names stand for.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub org: String,
    /// Of every resource; empty if it has none.
    pub ids: BTreeMap<ResourceName, String>,
    /// Members by e-mail address.
    pub members: BTreeMap<String, String>,
    /// LLM providers by name.
    pub providers: BTreeMap<String, String>,
    /// Whether fleets could be read: they take a session.
    pub has_fleets: bool,
}

impl Known {
    /// The same with these resources as if they were there: ids of those that are to be created are not
    /// known yet.
    pub fn expecting<'a>(&self, names: impl Iterator<Item = &'a ResourceName>) -> Self {
        let unknown = || uuid::Uuid::nil().to_string();
        let mut ids: BTreeMap<_, _> = names.map(|name| (name.clone(), unknown())).collect();
        ids.extend(self.ids.clone());
        Known { ids, ..self.clone() }
    }

    /// Whether there is such a resource.
    pub fn has(&self, kind: &'static Kind, name: &str) -> bool {
        self.ids.contains_key(&(kind, name.to_string()))
    }

    /// The id of a resource.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn id(&self, kind: &'static Kind, name: &str) -> Result<String, Failure> {
        let known = self.ids.get(&(kind, name.to_string())).cloned();
        known.ok_or_else(|| Failure::Failed(format!("there is no {} {name:?}", kind.name)))
    }

    /// The name of the resource with this id, null if there is none.
    pub fn name_of(&self, kind: &'static Kind, id: &Value) -> Value {
        let all = self.ids.range((kind, String::new())..).take_while(|((of, _), _)| *of == kind);
        let found = all.filter(|(_, known)| **known == *id).map(|((_, name), _)| name.clone());
        found.map(Value::from).next().unwrap_or_default()
    }

    /// The `registryRef` of a registry.
    pub fn registry_ref(&self, slug: &str) -> String {
        if slug.contains('/') { slug.to_string() } else { format!("{}/{slug}", self.org) }
    }

    /// The path of the list that a resource is in.
    ///
    /// # Errors
    /// There is no such parent.
    pub fn list_path(&self, (kind, name): &ResourceName) -> Result<String, Failure> {
        match &kind.parent {
            Some(parent) if kind.path.contains("{}") => {
                let id = self.id(parent.kind, parent_and_own(name).0)?;
                Ok(kind.path.replace("{}", &segment(&id)))
            }
            _ => Ok(kind.path.to_string()),
        }
    }

    /// The path of a resource that exists.
    ///
    /// # Errors
    /// It does not.
    pub fn path(&self, resource: &ResourceName) -> Result<String, Failure> {
        let (kind, name) = resource;
        let own = if kind.by_name { parent_and_own(name).1.into() } else { self.id(kind, name)? };
        Ok(format!("{}/{}", self.list_path(resource)?, segment(&own)))
    }

    /// The body that creates a resource.
    ///
    /// # Errors
    /// It refers to what there is not.
    pub fn created(&self, resource: &ResourceName, fields: &Fields) -> Result<Value, Failure> {
        let (kind, name) = resource;
        let mut body = (kind.apply)(self, fields)?;
        let named = match kind.named {
            Some(named) => named(self, name)?,
            None => json!({ kind.key: name }),
        };
        for (field, value) in named.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        Ok(body)
    }
}

/// The name of a child.
pub fn child_name(parent: &str, own: &str) -> String {
    format!("{parent}/{own}")
}

/// The names of a child's parent and of itself, which has no slash. What is no child has no parent.
pub fn parent_and_own(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}
