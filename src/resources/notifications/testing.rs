//! What the tests of channels have in common.

use serde_json::{Value, json};

use super::channels;
use crate::base::{Id, Result};
use crate::outbox::Channel;
use crate::resources::testing::Fixture;

/// A webhook.
pub fn hook() -> Value {
    json!({"name": "Hook", "workflow": "webhook", "config": {"url": "https://a.test/hook"}})
}

/// Creates a channel as the owner; returns its id.
pub fn channel(fixture: &Fixture, body: Value) -> Id<Channel> {
    let created = channels::tests::create_channel(fixture, body).unwrap();
    Id::parse(serde_json::to_value(created).unwrap()["id"].as_str().unwrap())
}

/// The code of a refusal.
pub fn code<T>(result: Result<T>) -> String {
    result.err().expect("it should have been refused").code().into()
}
