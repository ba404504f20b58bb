//! Names: slugs, keys, artifacts, labels, versions, variables. Each form is defined once and reaches
//! the OpenAPI document from here
//! (reference: conventions, "Texts and names"). ASCII only: names appear in URLs, templates and
//! command lines, where look-alike characters would mislead.

use serde_json::json;

use super::text::{TextRule, Validated};

/// A slug: `^[a-z0-9]+(?:-[a-z0-9]+)*$`, up to 64, not of the form of a UUID.
pub type Slug = Validated<SlugRule>;
/// An agent's stable key: `^[a-z0-9][a-z0-9._-]{0,63}$`, not of the form of a UUID, nor a reserved
/// word (one that is part of a route).
pub type StableKey = Validated<StableKeyRule>;
/// A version of three numbers: `^\d+\.\d+\.\d+$`, kept without leading zeros.
pub type Version = Validated<VersionRule>;
/// The name of a variable or secret: `^[A-Za-z_][A-Za-z0-9_]{0,127}$`.
pub type VariableName = Validated<VariableNameRule>;
/// An artifact's name: `^[a-zA-Z0-9._-]+$`, up to 128, neither `.` nor `..`.
pub type ArtifactName = Validated<ArtifactNameRule>;
/// A label of an artifact's version: `^[A-Za-z][A-Za-z0-9._-]{0,63}$`.
pub type Label = Validated<LabelRule>;

/// Whether a text has the form of an id, which slugs and stable keys never have.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

const LOOKS_LIKE_AN_ID: &str = "must not have the form of an id";

/// The rule of [`Slug`].
pub struct SlugRule;
impl TextRule for SlugRule {
    fn check(text: String) -> Result<String, String> {
        let word = |w: &str| {
            !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        match () {
            _ if !text.split('-').all(word) || text.len() > 64 => {
                Err("must be 1 to 64 of a-z and 0-9, in words joined by single hyphens".into())
            }
            _ if is_uuid(&text) => Err(LOOKS_LIKE_AN_ID.into()),
            _ => Ok(text),
        }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$"})
    }
}

/// The rule of [`StableKey`].
pub struct StableKeyRule;
impl StableKeyRule {
    /// `/agents/deployments` and `/agents/tool-deployments` are routes of their own.
    const RESERVED: [&str; 2] = ["deployments", "tool-deployments"];
}
impl TextRule for StableKeyRule {
    fn check(text: String) -> Result<String, String> {
        let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let form = text.len() <= 64
            && text.bytes().next().is_some_and(lower)
            && text.bytes().all(|b| lower(b) || matches!(b, b'.' | b'_' | b'-'));
        match () {
            _ if !form => Err(
                "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
                    .into(),
            ),
            _ if is_uuid(&text) => Err(LOOKS_LIKE_AN_ID.into()),
            _ if Self::RESERVED.contains(&text.as_str()) => {
                Err("is a reserved word; choose another".into())
            }
            _ => Ok(text),
        }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"})
    }
}

/// The rule of [`Version`].
pub struct VersionRule;
impl TextRule for VersionRule {
    fn check(text: String) -> Result<String, String> {
        // 64 bytes: three 64-bit numbers fit, and index keys stay short.
        match exact_numbers(&text) {
            Some([major, minor, patch]) if text.len() <= 64 => {
                Ok(format!("{major}.{minor}.{patch}"))
            }
            _ => Err("must be a version of three numbers, such as 1.0.0".into()),
        }
    }
    fn check_earlier(text: String) -> Result<String, String> {
        // Versions were kept as they were sent.
        Self::check(text.clone()).map(|_| text)
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "maxLength": 64, "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"})
    }
}
/// Returns the numbers of a complete version; `None` of any other text.
pub(super) fn exact_numbers(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split('.');
    let mut next = || {
        let part = parts.next()?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let numbers = [next()?, next()?, next()?];
    parts.next().is_none().then_some(numbers)
}

impl Version {
    /// Returns its three numbers, which compare as versions do (the texts would not).
    pub fn numbers(&self) -> [u64; 3] {
        let mut numbers = self.as_str().split('.').map(|n| n.parse().unwrap_or(0));
        std::array::from_fn(|_| numbers.next().unwrap_or(0))
    }
}

/// The rule of [`VariableName`].
pub struct VariableNameRule;
impl TextRule for VariableNameRule {
    fn check(text: String) -> Result<String, String> {
        let form = text.len() <= 128
            && text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if form {
            Ok(text)
        } else {
            Err("must be 1 to 128 letters, digits and '_', not beginning with a digit".into())
        }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"})
    }
}

fn in_artifact_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')
}

/// The rule of [`ArtifactName`].
pub struct ArtifactNameRule;
impl TextRule for ArtifactNameRule {
    fn check(text: String) -> Result<String, String> {
        let form = (1..=128).contains(&text.len()) && text.bytes().all(in_artifact_name);
        match () {
            _ if !form => Err("must be 1 to 128 of letters, digits, '.', '_' and '-'".into()),
            // In a URL they would be path segments with a meaning of their own.
            _ if text == "." || text == ".." => Err("must not be '.' or '..'".into()),
            _ => Ok(text),
        }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[a-zA-Z0-9._-]+$"})
    }
}

/// The rule of [`Label`].
pub struct LabelRule;
impl TextRule for LabelRule {
    fn check(text: String) -> Result<String, String> {
        let form = text.len() <= 64
            && text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
            && text.bytes().all(in_artifact_name);
        if form {
            return Ok(text);
        }
        Err("must be 1 to 64 of letters, digits, '.', '_' and '-', beginning with a letter".into())
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9._-]{0,63}$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::text::tests::{assert_invalid, assert_valid};

    #[test]
    fn slugs_and_stable_keys_keep_their_form_and_are_no_ids() {
        let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_valid::<SlugRule>(&["a", "a-b", "9-lives", &"a".repeat(64)]);
        assert_invalid::<SlugRule>(&[
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "a_b",
            "ä",
            uuid,
            &"a".repeat(65),
        ]);
        assert_valid::<StableKeyRule>(&["a", "a.b_c-d", "0", "a-"]);
        assert_invalid::<StableKeyRule>(&["", ".a", "A", "deployments", "tool-deployments", uuid]);
    }

    #[test]
    fn versions_are_three_numbers() {
        assert_valid::<VersionRule>(&["0.0.0", "1.20.300"]);
        assert_invalid::<VersionRule>(&[
            "1", "1.2", "1.2.3.4", "1.2.x", "+1.2.3", "", "1..2", "v1.2.3",
        ]);
        for (sent, kept) in [("01.002.0", "1.2.0"), ("1.2.3", "1.2.3"), ("00.0.000", "0.0.0")] {
            assert_eq!(Version::parse(sent).unwrap().as_str(), kept);
        }
        // As earlier versions kept it.
        assert_eq!(Version::parse_earlier("01.2.0").unwrap().as_str(), "01.2.0");
        assert_invalid::<VersionRule>(&["1.0.18446744073709551616", &format!("{:064}.0.0", 1)]);
        assert!(
            Version::parse("1.10.0").unwrap().numbers()
                > Version::parse("1.9.9").unwrap().numbers()
        );
    }

    #[test]
    fn artifact_names_and_labels_keep_their_form() {
        assert_valid::<ArtifactNameRule>(&[
            "a",
            "9",
            "tone-of-voice",
            "A_b.c",
            "...",
            ".a",
            &"a".repeat(128),
        ]);
        assert_invalid::<ArtifactNameRule>(&[
            "",
            ".",
            "..",
            "a b",
            "a/b",
            "a@1",
            "ä",
            "a\n",
            &"a".repeat(129),
        ]);
        assert_valid::<LabelRule>(&["a", "production", "A.b_c-9", &"a".repeat(64)]);
        assert_invalid::<LabelRule>(&[
            "",
            "1.0",
            "-a",
            ".a",
            "_a",
            "a b",
            "a@b",
            "ä",
            &"a".repeat(65),
        ]);
    }
}
