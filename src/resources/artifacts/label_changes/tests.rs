//! The operations on label changes, as the tests of artifacts call them.

use serde_json::{Value, json};

use super::super::label_change::{self, LabelChange, LabelChangeInfo};
use super::{deciding, lists, texts};
use crate::api::{Principal, Req};
use crate::base::{Id, Result};
use crate::outbox::RetentionSettings;
use crate::resources::testing::Fixture;
use crate::store::Tx;

pub type Decide =
    fn(&mut Tx, &Req<Id<LabelChange>, deciding::LabelChangeDecision>) -> Result<LabelChangeInfo>;

pub const APPROVE: Decide = deciding::approve;
pub const DENY: Decide = deciding::deny;

/// The id in a representation.
pub fn id(change: &Value) -> Id<LabelChange> {
    Id::parse(change["id"].as_str().unwrap())
}

pub fn get(fixture: &Fixture, who: &Principal, change: &Value) -> Result<Value> {
    fixture.read_as(who, lists::get, id(change), ()).map(|change| json!(change))
}

pub fn cancel(fixture: &Fixture, who: &Principal, change: &Value) -> Result<Value> {
    fixture.write_as(who, deciding::cancel, id(change), ()).map(|change| json!(change))
}

pub fn list(fixture: &Fixture, who: &Principal, filter: Value) -> Vec<Value> {
    let listed = fixture.read_as(who, lists::list, (), Fixture::input(filter).unwrap());
    listed.unwrap().items.into_iter().map(|change| json!(change)).collect()
}

pub fn approvals(fixture: &Fixture, change: &Value) -> Vec<Value> {
    let listed = fixture.read(lists::approvals, id(change), ()).unwrap().items;
    listed.into_iter().map(|approval| json!(approval)).collect()
}

pub fn diff(fixture: &Fixture, change: &Value) -> Vec<Value> {
    let listed = fixture.read(texts::list, id(change), ()).unwrap().items;
    listed.into_iter().map(|text| json!(text)).collect()
}

/// A step of the sweep that ends changes that have waited too long.
pub fn expire(fixture: &Fixture, settings: &RetentionSettings) {
    step(fixture, deciding::RESOURCE.sweeps[0].run, settings);
}

/// A step of the sweep that deletes those that have ended.
pub fn forget(fixture: &Fixture, settings: &RetentionSettings) {
    step(fixture, label_change::RESOURCE.sweeps[0].run, settings);
}

fn step<T: Send + 'static>(
    fixture: &Fixture,
    run: fn(&mut Tx, &RetentionSettings) -> Result<T>,
    settings: &RetentionSettings,
) {
    let settings = settings.clone();
    fixture.store.write_blocking(fixture.org, move |tx| run(tx, &settings).map(drop)).unwrap();
}
