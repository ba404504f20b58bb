//! The answers of operations.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::auth::User;
use crate::base::{Error, Id, Result};
use crate::store::Total;

/// An answer of an operation, sent as JSON.
pub trait Output: Serialize + JsonSchema + 'static {
    /// Whether answers of this type may contain a secret that is shown only once, and so must not
    /// be stored.
    const MAY_SHOW_SECRET: bool = false;

    /// The resource that this answer is about, for the audit log and for streams. Without one, the
    /// audit log records the last parameter of the path.
    fn resource(&self) -> Option<ResourceRef>;

    /// Another resource that the request has changed, for an entry of its own in the audit log.
    fn also(&self) -> Option<ResourceRef> {
        None
    }

    /// The outside agent that acted, for the audit log. Only of routes for outside agents.
    fn peer(&self) -> Option<PeerRef> {
        None
    }

    /// The user who acted, for the audit log, where the request had no credential.
    fn actor(&self) -> Option<Id<User>> {
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
    /// What else it is named by, for the audit log: for example a version.
    pub detail: Option<String>,
}

impl ResourceRef {
    /// A resource of the kind in the route's name.
    pub fn id(id: impl ToString) -> Option<Self> {
        Some(ResourceRef { kind: None, id: id.to_string(), detail: None })
    }

    /// A resource of another kind than the one in the route's name.
    pub fn of(kind: &'static str, id: impl ToString) -> Option<Self> {
        Some(ResourceRef { kind: Some(kind), id: id.to_string(), detail: None })
    }

    /// The same resource with what else it is named by.
    pub fn with_detail(self, detail: impl ToString) -> Self {
        ResourceRef { detail: Some(detail.to_string()), ..self }
    }
}

/// An outside agent as the audit log names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRef {
    pub id: Id<()>,
    /// Its handle.
    pub name: String,
}

/// A list is about no resource, and shows the secrets of its items.
impl<T: Output> Output for Vec<T> {
    const MAY_SHOW_SECRET: bool = T::MAY_SHOW_SECRET;

    fn resource(&self) -> Option<ResourceRef> {
        None
    }

    fn shows_secret(&self) -> bool {
        self.iter().any(T::shows_secret)
    }
}

/// The answer of an operation that succeeded.
#[derive(Clone, Debug)]
pub struct EncodedOutput {
    /// The JSON, or the text.
    pub body: Vec<u8>,
    /// Whether it is plain text.
    pub is_text: bool,
    /// The resource it is about; only of a write.
    pub resource: Option<ResourceRef>,
    /// Another resource that was changed; only of a write.
    pub also: Option<ResourceRef>,
    /// The outside agent that acted; only of a write.
    pub peer: Option<PeerRef>,
    /// The user who acted, where the request had no credential; only of a write.
    pub actor: Option<Id<User>>,
    /// Whether it contains a secret that is shown only once.
    pub shows_secret: bool,
}

impl EncodedOutput {
    /// The answer to a read.
    pub(super) fn read<O: Output>(value: &O) -> Result<Self> {
        let shows_secret = O::MAY_SHOW_SECRET && value.shows_secret();
        Ok(EncodedOutput {
            body: json(value)?,
            is_text: false,
            resource: None,
            also: None,
            peer: None,
            actor: None,
            shows_secret,
        })
    }

    /// The answer to a read whose client prefers text.
    pub(super) fn text(text: String) -> Self {
        EncodedOutput {
            body: text.into(),
            is_text: true,
            resource: None,
            also: None,
            peer: None,
            actor: None,
            shows_secret: false,
        }
    }

    /// The answer to a write.
    pub(super) fn written<O: Output>(value: &O) -> Result<Self> {
        Ok(EncodedOutput {
            resource: value.resource(),
            also: value.also(),
            peer: value.peer(),
            actor: value.actor(),
            ..EncodedOutput::read(value)?
        })
    }

    /// A page of a list, whose next one begins at `next_cursor`; `more` is said of one that may be cut
    /// without a next one.
    pub(super) fn list<O: Output>(
        items: &Vec<O>,
        next_cursor: Option<String>,
        more: Option<bool>,
    ) -> Result<Self> {
        let (total, total_exact) = (None, None);
        EncodedOutput::page(items, PageBody { items, next_cursor, more, total, total_exact })
    }

    /// A page of a list, with how many items the whole list has, if that was asked.
    pub(super) fn counted_list<O: Output>(
        items: &Vec<O>,
        next_cursor: Option<String>,
        total: Option<Total>,
    ) -> Result<Self> {
        let total_exact = total.map(|total| total.is_exact);
        let total = total.map(|total| total.count);
        EncodedOutput::page(items, PageBody { items, next_cursor, more: None, total, total_exact })
    }

    fn page<O: Output>(items: &Vec<O>, body: PageBody<O>) -> Result<Self> {
        let shows_secret = O::MAY_SHOW_SECRET && items.shows_secret();
        let body = json(&body)?;
        let (resource, also, peer, actor) = (None, None, None, None);
        Ok(EncodedOutput { body, is_text: false, resource, also, peer, actor, shows_secret })
    }
}

/// The body of a page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageBody<'a, T> {
    items: &'a [T],
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_exact: Option<bool>,
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
    /// What it is called in the audit log, if not by its id.
    #[serde(skip)]
    about: Option<ResourceRef>,
}

impl Deleted {
    /// The answer after deleting `id`.
    pub fn new(id: impl ToString) -> Self {
        Deleted { id: id.to_string(), deleted: true, about: None }
    }

    /// The same answer about a resource that the audit log calls otherwise.
    pub fn about(self, resource: ResourceRef) -> Self {
        Deleted { about: Some(resource), ..self }
    }
}

impl Output for Deleted {
    fn resource(&self) -> Option<ResourceRef> {
        self.about.clone().or_else(|| ResourceRef::id(&self.id))
    }
}

/// An empty object: `{}`.
#[derive(Clone, Debug, Serialize)]
pub struct Empty {}

impl Output for Empty {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

impl JsonSchema for Empty {
    fn schema_name() -> Cow<'static, str> {
        "EmptyObject".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "maxProperties": 0})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Ticket {
        id: u32,
        secret: Option<String>,
    }

    impl Output for Ticket {
        const MAY_SHOW_SECRET: bool = true;

        fn resource(&self) -> Option<ResourceRef> {
            ResourceRef::id(self.id)
        }

        fn shows_secret(&self) -> bool {
            self.secret.is_some()
        }
    }

    #[test]
    fn a_list_shows_a_secret_if_one_of_its_items_does() {
        let ticket = |secret: Option<&str>| Ticket { id: 1, secret: secret.map(String::from) };
        const { assert!(<Vec<Ticket>>::MAY_SHOW_SECRET && !<Vec<Deleted>>::MAY_SHOW_SECRET) };
        for (items, shows_secret) in [
            (vec![], false),
            (vec![ticket(None)], false),
            (vec![ticket(None), ticket(Some("x"))], true),
        ] {
            let page = EncodedOutput::list(&items, None, None).unwrap();
            let whole = EncodedOutput::written(&items).unwrap();
            assert_eq!((page.shows_secret, whole.shows_secret), (shows_secret, shows_secret));
            assert_eq!((page.resource, whole.resource), (None, None));
        }
        assert_eq!(EncodedOutput::written(&ticket(None)).unwrap().resource, ResourceRef::id(1));
    }
}
