//! A request that changes something, and what follows from its acknowledgement.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::{List, Who};

/// What must be so once a request was acknowledged.
pub enum Effect {
    /// The answer is an item of this list, or what changed of it.
    Answer(List),
    /// The item of this key has these fields.
    Fields(List, String, Value),
    /// The item of this key is not there.
    Removal(List, String),
    /// The answer is direct mail, for which there is a wake in this list.
    Wake(List),
}

/// A request and its effects.
pub struct Change {
    pub who: Arc<Who>,
    pub method: &'static str,
    pub path: String,
    pub body: Value,
    pub effects: Vec<Effect>,
    /// If its answer is lost it cannot be repeated, and nothing is known any more of these lists.
    pub loses: Vec<List>,
    /// What the answer must be.
    pub answer: Option<Value>,
    /// The status and code of the refusal that is expected.
    pub refusal: Option<(u16, &'static str)>,
    /// Its `Idempotency-Key`.
    pub key: String,
}

impl Change {
    fn new(who: &Arc<Who>, method: &'static str, path: impl Into<String>, body: Value) -> Self {
        let (path, key) = (path.into(), String::new());
        let (effects, loses) = (Vec::new(), Vec::new());
        let (answer, refusal) = (None, None);
        Change { who: who.clone(), method, path, body, effects, loses, answer, refusal, key }
    }

    pub fn post(who: &Arc<Who>, path: impl Into<String>, body: Value) -> Self {
        Self::new(who, "POST", path, body)
    }

    pub fn put(who: &Arc<Who>, path: impl Into<String>, body: Value) -> Self {
        Self::new(who, "PUT", path, body)
    }

    pub fn patch(who: &Arc<Who>, path: impl Into<String>, body: Value) -> Self {
        Self::new(who, "PATCH", path, body)
    }

    pub fn delete(who: &Arc<Who>, path: impl Into<String>) -> Self {
        Self::new(who, "DELETE", path, json!({}))
    }

    /// The answer is an item of this list.
    pub fn adds_to(mut self, list: &List) -> Self {
        self.effects.push(Effect::Answer(list.clone()));
        self
    }

    /// An item of this list has these fields.
    pub fn sets(mut self, list: &List, key: &str, fields: Value) -> Self {
        self.effects.push(Effect::Fields(list.clone(), key.into(), fields));
        self
    }

    /// An item of this list is not there.
    pub fn removes_from(mut self, list: &List, key: &str) -> Self {
        self.effects.push(Effect::Removal(list.clone(), key.into()));
        self
    }

    /// It is direct mail, which wakes its recipient.
    pub fn wakes(mut self, list: &List) -> Self {
        self.effects.push(Effect::Wake(list.clone()));
        self
    }

    /// If its answer is lost, it cannot be had again; it is about these lists.
    pub fn loses(mut self, lists: &[&List]) -> Self {
        self.loses.extend(lists.iter().copied().cloned());
        self
    }

    /// It is answered so.
    pub fn answered(mut self, answer: Value) -> Self {
        self.answer = Some(answer);
        self
    }

    /// It is refused.
    pub fn refused(mut self, status: u16, code: &'static str) -> Self {
        self.refusal = Some((status, code));
        self
    }
}
