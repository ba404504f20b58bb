//! Bodies and queries of any bytes, read into an input with something of every form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{
    Input, MAX_ISSUES, OtherNames, SourceFormat, UnknownFields, parse_body, parse_query, read_input,
};
use crate::base::{
    Error, Id, Int, Issue, Json, JsonMap, Kind, Name, Nullable, StringMap, Time, Usd, VariableName,
};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Form {
    Fleet,
    Registry,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Grant {
    user_id: Id<()>,
    form: Form,
    count: Int<1, 9>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Range {
    start: Option<Time>,
    end: Option<Time>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    name: Name,
    flag: bool,
    grants: Option<Vec<Grant>>,
    small: Option<i8>,
    score: Option<f64>,
    #[serde(default)]
    cleared: Nullable<Usd>,
    range: Option<Range>,
    texts: Option<StringMap>,
    by_name: Option<BTreeMap<VariableName, Grant>>,
    anything: Option<Json>,
    object: Option<JsonMap>,
    tags: Option<Vec<Name>>,
}

impl Input for Sample {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.flag && self.small.is_some() {
            issues.push(Issue::new("small", "goes without flag"));
        }
    }
}

/// The first byte says whether the others are a query, or a body: they are read, or refused with a few
/// problems.
///
/// # Panics
/// If that is not so.
pub fn input(input: &[u8]) {
    let Some((form, bytes)) = input.split_first() else { return };
    if form.is_multiple_of(2) {
        match parse_body(bytes) {
            Ok(value) => {
                let usual: Option<Value> = serde_json::from_slice(bytes).ok();
                assert!(bytes.is_empty() || usual.as_ref() == Some(&value), "other readers differ");
                assert!(entries(&value) == colons(bytes), "a key is there twice");
                read_both(&value, SourceFormat::Body);
            }
            Err(error) => assert_refused(&error),
        }
    } else if let Ok(query) = std::str::from_utf8(bytes) {
        read_both(&parse_query(query), SourceFormat::Query);
    }
}

/// The entries of all objects.
fn entries(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len() + fields.values().map(entries).sum::<usize>(),
        Value::Array(items) => items.iter().map(entries).sum(),
        _ => 0,
    }
}

/// The colons of a JSON text that are in no string: as many as its objects have keys.
fn colons(json: &[u8]) -> usize {
    let (mut is_text, mut is_escaped, mut colons) = (false, false, 0);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b':' if !is_text => colons += 1,
            _ => {}
        }
    }
    colons
}

/// What is read without unknown fields is the same when they are ignored.
fn read_both(value: &Value, format: SourceFormat) {
    let refused = UnknownFields::Refused(Arc::new(OtherNames::default()));
    let strict = read_input::<Sample>(value, format, refused);
    let lenient = read_input::<Sample>(value, format, UnknownFields::Ignored);
    for refused in strict.as_ref().err().into_iter().chain(lenient.as_ref().err()) {
        assert_refused(refused);
    }
    if let Ok(strict) = strict {
        // Compared as texts: a number may be one that equals nothing.
        assert_eq!(lenient.ok().map(|input| format!("{input:?}")), Some(format!("{strict:?}")));
    }
}

fn assert_refused(error: &Error) {
    assert_eq!(error.kind(), Kind::Invalid);
    let issues = error.issues();
    assert!((1..=MAX_ISSUES).contains(&issues.len()), "{} issues", issues.len());
    let bytes: usize = issues.iter().map(|issue| issue.path.len() + issue.message.len()).sum();
    assert!(bytes <= MAX_ISSUES * 1000, "{bytes} bytes of issues");
    let distinct: BTreeSet<_> = issues.iter().map(|one| (&one.path, &one.message)).collect();
    assert!(
        distinct.len() == issues.len() || issues.iter().any(|one| one.message.contains("once"))
    );
}
