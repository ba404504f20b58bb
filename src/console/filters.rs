//! Filters of the templates.

use askama::{Result, Values};

use super::texts;
use crate::base::Time;

/// The text of a key: `{{ "private"|text("visibility") }}`.
#[askama::filter_fn]
pub fn text(value: impl std::fmt::Display, _: &dyn Values, group: &str) -> Result<String> {
    Ok(texts::text(&format!("{group}.{value}")).to_string())
}

/// The first digits of a hash.
#[askama::filter_fn]
pub fn short(value: impl std::fmt::Display, _: &dyn Values) -> Result<String> {
    Ok(value.to_string().chars().take(12).collect())
}

/// A time in UTC, to the minute, until a script shows it in the reader's zone.
#[askama::filter_fn]
pub fn minute(value: &Time, _: &dyn Values) -> Result<String> {
    // `2026-11-21T18:23:03.120Z`
    let text = value.to_string();
    Ok(format!("{} {}", &text[..10], &text[11..16]))
}

/// Bytes encoded as a segment of a path.
#[askama::filter_fn]
pub fn segment(value: impl std::fmt::Display, _: &dyn Values) -> Result<String> {
    Ok(super::api::segment(&value.to_string()))
}
