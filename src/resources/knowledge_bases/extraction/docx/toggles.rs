//! Properties that are on or off.

use super::super::archive::Xml;

/// Whether a property without a value, or with this one, is on.
pub fn is_on(xml: &Xml) -> bool {
    xml.attribute("val").is_none_or(|value| is_true(&value))
}

/// Whether a value means on.
pub fn is_true(value: &str) -> bool {
    matches!(value, "1" | "true" | "on")
}
