//! Reading as operations use it: a body or a query into a typed input.

mod body;
mod query;
mod random;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, json};

use super::*;
use crate::base::{
    BoundedList, Id, Int, Json, JsonMap, Kind, Name, Nullable, StringMap, Time, Usd, VariableName,
};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Type {
    Fleet,
    Registry,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Grant {
    user_id: Id<()>,
    resource_type: Type,
    count: Int<1, 9>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Range {
    start: Option<Time>,
    end: Option<Time>,
}

/// Something of every form that inputs have.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    name: Name,
    grants: Vec<Grant>,
    flag: bool,
    small: Option<i8>,
    #[serde(default)]
    cleared: Nullable<Usd>,
    range: Option<Range>,
    texts: Option<StringMap>,
    by_name: Option<BTreeMap<VariableName, Grant>>,
    by_type: Option<BTreeMap<String, Type>>,
    anything: Option<Json>,
    object: Option<JsonMap>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Search {
    limit: Option<Int<1, 200>>,
    flag: Option<bool>,
    score: Option<f64>,
    status: Option<Type>,
    cursor: Option<String>,
    tags: Option<Vec<Name>>,
    date_range: Option<Range>,
    pagination: Option<Page>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Page {
    limit: Int<1, 200>,
    offset: Option<u32>,
}

/// Reads as a route does that knows no other names.
fn read<T: DeserializeOwned>(value: &Value, mode: SourceFormat) -> crate::base::Result<T> {
    super::read(value, mode, UnknownFields::Refused(Arc::default()))
}

fn read_input<T: Input>(value: &Value, mode: SourceFormat) -> crate::base::Result<T> {
    super::read_input(value, mode, UnknownFields::Refused(Arc::default()))
}

/// The problems of a reading that must fail, as `path message`.
fn problems<T: DeserializeOwned + Debug>(value: &Value, mode: SourceFormat) -> Vec<String> {
    let error = read::<T>(value, mode).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    error.issues().iter().map(|issue| format!("{} {}", issue.path, issue.message)).collect()
}
