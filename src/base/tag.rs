//! Tags of artifacts, agents and tools (reference: conventions, "Tags").

use serde_json::json;

use super::text::{NameRule, TextRule, Validated};

/// A tag: a name of at most 50 characters without commas.
pub type Tag = Validated<TagRule>;

/// The rule of [`Tag`]. Where several are entered, commas are between them.
pub struct TagRule;
impl TextRule for TagRule {
    fn check(text: String) -> Result<String, String> {
        let text = NameRule::check(text)?;
        if text.chars().count() > 50 {
            return Err("must be at most 50 characters".into());
        }
        if text.contains(',') {
            return Err("must not contain commas, which separate tags".into());
        }
        if text.trim() != text {
            return Err("must not begin or end with a blank".into());
        }
        Ok(text)
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 1, "maxLength": 50, "pattern": r"^[^\u0000-\u001f\u007f-\u009f,]*$"})
    }
}
