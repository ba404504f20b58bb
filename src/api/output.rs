//! The answers of operations.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::base::{Error, Result};

/// An answer of an operation, sent as JSON.
pub trait Output: Serialize + JsonSchema + 'static {
    /// Whether answers of this type may contain a secret that is shown only once, and so must not
    /// be stored.
    const MAY_SHOW_SECRET: bool = false;

    /// The resource that this answer is about, for the audit log and for streams. Without one, the
    /// audit log records the last parameter of the path.
    fn resource(&self) -> Option<ResourceRef> {
        None
    }

    /// Whether this answer contains a secret. Called only if the type may contain one.
    fn shows_secret(&self) -> bool {
        Self::MAY_SHOW_SECRET
    }
}

/// The resource that an answer is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRef {
    /// Its kind; `None` for the noun of the route's name.
    pub kind: Option<&'static str>,
    /// Its id, or its name where it has no id.
    pub id: String,
}

impl ResourceRef {
    /// A resource of the kind in the route's name.
    pub fn id(id: impl ToString) -> Option<Self> {
        Some(ResourceRef { kind: None, id: id.to_string() })
    }

    /// A resource of another kind than the one in the route's name.
    pub fn of(kind: &'static str, id: impl ToString) -> Option<Self> {
        Some(ResourceRef { kind: Some(kind), id: id.to_string() })
    }
}

impl<T: Serialize + JsonSchema + 'static> Output for Vec<T> {}

/// The answer of an operation that succeeded.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The JSON, or the text.
    pub body: Vec<u8>,
    /// Whether it is plain text.
    pub is_text: bool,
    /// The resource it is about; only of a write.
    pub resource: Option<ResourceRef>,
    /// Whether it contains a secret that is shown only once.
    pub shows_secret: bool,
}

impl Answer {
    /// The answer to a read.
    pub(super) fn read<O: Output>(value: &O) -> Result<Self> {
        let shows_secret = O::MAY_SHOW_SECRET && value.shows_secret();
        Ok(Answer { body: json(value)?, is_text: false, resource: None, shows_secret })
    }

    /// The answer to a read whose client prefers text.
    pub(super) fn text(text: String) -> Self {
        Answer { body: text.into(), is_text: true, resource: None, shows_secret: false }
    }

    /// The answer to a write.
    pub(super) fn written<O: Output>(value: &O) -> Result<Self> {
        let answer = Answer { resource: value.resource(), ..Answer::read(value)? };
        debug_assert!(
            answer.resource.is_some() || !answer.body.starts_with(b"{\"id\":\""),
            "{} has an id: its Output::resource should say so",
            std::any::type_name::<O>()
        );
        Ok(answer)
    }

    /// A page of a list.
    pub(super) fn list(value: &impl Serialize) -> Result<Self> {
        Ok(Answer { body: json(value)?, is_text: false, resource: None, shows_secret: false })
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    // Most answers fit; a body that grows is copied each time.
    let mut body = Vec::with_capacity(1024);
    serde_json::to_writer(&mut body, value)
        .map_err(|e| Error::internal(format!("an answer cannot be written: {e}")))?;
    Ok(body)
}

/// The answer of DELETE (reference: conventions, "Answers").
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedResource")]
pub struct Deleted {
    /// The id of the deleted resource, or its name where it has no id.
    pub id: String,
    /// Always true.
    pub deleted: bool,
}

impl Deleted {
    /// The answer after deleting `id`.
    pub fn new(id: impl ToString) -> Self {
        Deleted { id: id.to_string(), deleted: true }
    }
}

impl Output for Deleted {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(&self.id)
    }
}

/// An empty object: `{}`.
#[derive(Clone, Debug, Serialize)]
pub struct Empty {}

impl Output for Empty {}

impl JsonSchema for Empty {
    fn schema_name() -> Cow<'static, str> {
        "EmptyObject".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "maxProperties": 0})
    }
}
