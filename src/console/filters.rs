//! Filters of the templates.

use askama::filters::Safe;
use askama::{Result, Values};

use super::markdown::{html, html_to_decide};
use super::{ago, texts};
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
    Ok(ago::minute(*value))
}

/// A text with what Markdown makes of it.
#[askama::filter_fn]
pub fn markdown(value: impl std::fmt::Display, _: &dyn Values) -> Result<Safe<String>> {
    Ok(Safe(format!("<div class=\"md\">{}</div>", html(&value.to_string()))))
}

/// The same for a text by which somebody decides.
#[askama::filter_fn]
pub fn markdown_to_decide(value: impl std::fmt::Display, _: &dyn Values) -> Result<Safe<String>> {
    Ok(Safe(format!("<div class=\"md\">{}</div>", html_to_decide(&value.to_string()))))
}

/// Bytes encoded as a segment of a path.
#[askama::filter_fn]
pub fn segment(value: impl std::fmt::Display, _: &dyn Values) -> Result<String> {
    Ok(super::api::segment(&value.to_string()))
}
