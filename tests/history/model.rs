//! What was acknowledged, and so must be there: the items of lists, in a plain map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

/// Somebody who asks: an organization and a credential for it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// The organization's slug.
    pub org: String,
    /// An API key or the token of a session.
    pub bearer: String,
}

/// What the items of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Agents,
    AgentVersions,
    ApiKeys,
    Artifacts,
    Environments,
    Invitations,
    Members,
    Memories,
    Messages,
    Organizations,
    Registries,
    Tasks,
    TeamAgents,
    Teams,
    Variables,
    Versions,
    /// Pending wakes for direct mail.
    Wakes,
}

/// Which item of a list comes first.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    /// What was created last.
    Newest,
    Oldest,
    /// The field `updatedAt` never rises from one to the next.
    LastChanged,
}

impl Kind {
    /// What an item is known by in its list.
    pub fn key(self, item: &Value) -> String {
        let text = |field: &str| item[field].as_str().unwrap_or_default().to_string();
        match self {
            Kind::AgentVersions => format!("{:020}", item["version"].as_u64().unwrap_or(0)),
            Kind::Artifacts | Kind::Variables => text("name"),
            Kind::Members => text("userId"),
            Kind::Organizations => text("slug"),
            Kind::Versions => version_key(&text("name"), &text("version")),
            Kind::Wakes => text("messageId"),
            _ => text("id"),
        }
    }

    pub fn order(self) -> Order {
        match self {
            Kind::Artifacts => Order::LastChanged,
            Kind::Wakes => Order::Oldest,
            _ => Order::Newest,
        }
    }

    /// Whether keys do not rise with time, so that the order is that in which items were added.
    fn is_by_addition(self) -> bool {
        matches!(self, Kind::Organizations | Kind::Variables)
    }

    /// Fields that an answer may have otherwise, as the reference says: they tell of use or of other
    /// changes.
    fn is_volatile(self, field: &str) -> bool {
        match self {
            Kind::Agents | Kind::Artifacts | Kind::Environments => {
                ["updatedAt", "updatedBy"].contains(&field)
            }
            Kind::ApiKeys => field == "lastUsedAt" || field == "key",
            Kind::Invitations => ["token", "invitationUrl", "mailed"].contains(&field),
            Kind::TeamAgents => field == "wakeSecret",
            _ => false,
        }
    }

    /// Where an item is read alone, in relation to the path of its list.
    fn path_of_one(self, list: &str, item: &Value) -> Option<String> {
        let field = match self {
            Kind::Agents => "stableKey",
            Kind::AgentVersions => "version",
            Kind::Environments | Kind::Messages | Kind::Tasks => "id",
            Kind::TeamAgents | Kind::Teams => "id",
            Kind::Registries => "slug",
            Kind::Variables => "name",
            Kind::Versions => {
                let (registry, name) = (item["registryRef"].as_str()?, item["name"].as_str()?);
                let version = item["version"].as_str()?;
                let about = format!("registryRef={registry}&promptName={name}&version={version}");
                return Some(format!("/registries/artifact-versions/content?{about}"));
            }
            _ => return None,
        };
        let last = item[field].as_str().map_or_else(|| item[field].to_string(), str::to_string);
        Some(format!("{list}/{last}"))
    }
}

/// The key of a version: names rise, then versions.
pub fn version_key(name: &str, version: &str) -> String {
    let numbers: Vec<_> = version.split('.').map(|number| format!("{number:0>20}")).collect();
    format!("{name}\0{}", numbers.join("."))
}

/// A list of the API, as somebody sees it who sees all of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct List {
    pub kind: Kind,
    pub who: Arc<Who>,
    pub path: String,
}

impl List {
    pub fn new(kind: Kind, who: &Arc<Who>, path: impl Into<String>) -> Self {
        List { kind, who: who.clone(), path: path.into() }
    }

    /// For a message to people.
    pub fn name(&self) -> String {
        format!("{} of {}", self.path, self.who.org)
    }

    pub fn path_of_one(&self, item: &Value) -> Option<String> {
        self.kind.path_of_one(&self.path, item)
    }

    /// What of a found item is not as expected.
    pub fn difference(&self, expected: &Value, found: &Value) -> Option<String> {
        let fields = expected.as_object().expect("items are objects");
        let mut differing = fields.iter().filter(|(name, value)| match found.get(name.as_str()) {
            // The text of a version is not in lists, and its id not beside its text.
            None => self.kind != Kind::Versions,
            Some(found) => found != *value,
        });
        let (name, value) = differing.next()?;
        let shown = |value: &Value| value.to_string().chars().take(200).collect::<String>();
        Some(format!("{name} is {}, expected {}", shown(&found[name]), shown(value)))
    }
}

/// An item as it must be found.
#[derive(Clone)]
struct Item {
    /// Sorts items by when they were added.
    position: String,
    /// JSON.
    value: Arc<str>,
}

/// An API key that was made.
#[derive(Clone)]
pub struct ApiKey {
    pub id: String,
    pub name: String,
    pub is_valid: bool,
}

/// What was acknowledged.
#[derive(Clone, Default)]
pub struct Model {
    lists: BTreeMap<List, BTreeMap<String, Item>>,
    /// Lists of which the last answer was lost and cannot be asked for again.
    uncertain: BTreeSet<List>,
    /// What must be 404.
    gone: BTreeSet<(Arc<Who>, String)>,
    /// By their text.
    keys: BTreeMap<String, (Arc<Who>, ApiKey)>,
    additions: u64,
}

impl Model {
    /// Expects a list to be empty.
    pub fn open(&mut self, list: &List) {
        self.lists.entry(list.clone()).or_default();
    }

    /// Expects this item, or these fields of the one with this key.
    pub fn set(&mut self, list: &List, key: &str, fields: &Value) {
        let mut item = self.get(list, key).unwrap_or_else(|| Value::Object(Default::default()));
        for (name, value) in fields.as_object().expect("items are objects") {
            if !list.kind.is_volatile(name) {
                item[name] = value.clone();
            }
        }
        if let Some(text) = fields["key"].as_str().filter(|_| list.kind == Kind::ApiKeys) {
            let name = fields["name"].as_str().unwrap_or_default().to_string();
            let made = ApiKey { id: key.into(), name, is_valid: true };
            self.keys.insert(text.into(), (list.who.clone(), made));
        }
        if let Some(path) = list.path_of_one(&item) {
            self.gone.remove(&(list.who.clone(), path));
        }
        self.additions += 1;
        let value = item.to_string().into();
        let by_addition = format!("{:020}", self.additions);
        let items = self.lists.entry(list.clone()).or_default();
        match items.get_mut(key) {
            Some(item) => item.value = value,
            None => {
                let position = if list.kind.is_by_addition() { by_addition } else { key.into() };
                items.insert(key.into(), Item { position, value });
            }
        }
    }

    /// Expects that this item is not there.
    pub fn remove(&mut self, list: &List, key: &str) {
        let Some(item) = self.lists.entry(list.clone()).or_default().remove(key) else { return };
        let item: Value = serde_json::from_str(&item.value).expect("it was written as JSON");
        if let Some(path) = list.path_of_one(&item) {
            self.gone.insert((list.who.clone(), path));
        }
        if list.kind == Kind::ApiKeys {
            let revoked = self.keys.values_mut().filter(|(_, made)| made.id == key);
            revoked.for_each(|(_, made)| made.is_valid = false);
        }
    }

    /// Expects nothing of a list as a whole any more.
    pub fn forget(&mut self, list: &List) {
        self.uncertain.insert(list.clone());
    }

    pub fn is_certain(&self, list: &List) -> bool {
        !self.uncertain.contains(list)
    }

    /// Adds what another one expects, of other items.
    pub fn add(&mut self, other: &Model) {
        let other = other.clone();
        for (list, items) in other.lists {
            self.lists.entry(list).or_default().extend(items);
        }
        self.uncertain.extend(other.uncertain);
        self.gone.extend(other.gone);
        self.keys.extend(other.keys);
    }

    pub fn get(&self, list: &List, key: &str) -> Option<Value> {
        let item = self.lists.get(list)?.get(key)?;
        Some(serde_json::from_str(&item.value).expect("it was written as JSON"))
    }

    pub fn len(&self, list: &List) -> usize {
        self.lists.get(list).map_or(0, BTreeMap::len)
    }

    /// The key of the nth item of a list.
    pub fn nth(&self, list: &List, n: u64) -> Option<String> {
        let items = self.lists.get(list)?;
        items.keys().nth((n % items.len().max(1) as u64) as usize).cloned()
    }

    /// The keys of a list that begin so, ascending.
    pub fn beginning<'a>(
        &'a self,
        list: &List,
        begin: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a str> {
        let items = self.lists.get(list).into_iter();
        items.flat_map(move |items| {
            let from = items
                .range::<str, _>((std::ops::Bound::Included(begin), std::ops::Bound::Unbounded));
            from.map(|(key, _)| key.as_str())
                .take_while(move |key| key.starts_with(begin))
                .collect::<Vec<_>>()
        })
    }

    /// The lists of which everything is known.
    pub fn lists(&self) -> Vec<&List> {
        self.lists.keys().filter(|list| self.is_certain(list)).collect()
    }

    /// Keys and items of a list, in its order.
    pub fn items(&self, list: &List) -> Vec<(&str, Value)> {
        let Some(items) = self.lists.get(list) else { return Vec::new() };
        let mut items: Vec<_> = items.iter().collect();
        items.sort_by(|(_, one), (_, other)| one.position.cmp(&other.position));
        if list.kind.order() == Order::Newest {
            items.reverse();
        }
        let value = |text: &str| serde_json::from_str(text).expect("it was written as JSON");
        items.into_iter().map(|(key, item)| (key.as_str(), value(&item.value))).collect()
    }

    pub fn gone(&self) -> Vec<&(Arc<Who>, String)> {
        self.gone.iter().collect()
    }

    /// The text and name of the API key with this id.
    pub fn key(&self, id: &str) -> Option<(String, String)> {
        let (text, (_, made)) = self.keys.iter().find(|(_, (_, made))| made.id == id)?;
        Some((text.clone(), made.name.clone()))
    }

    /// The API keys that were made, by their text.
    pub fn keys(&self) -> Vec<(&str, &str, &ApiKey)> {
        self.keys
            .iter()
            .map(|(text, (who, made))| (text.as_str(), who.org.as_str(), made))
            .collect()
    }
}
