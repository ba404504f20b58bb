//! Rules: what a policy requires of a text, and how a text violates it
//! (reference: registries-and-templates, "Rules").
//!
//! Patterns are those of the `regex` crate: searching takes time linear in the length of the text,
//! whatever it contains. The time per character is bounded by the size of the compiled pattern and can
//! still be long, so searches run outside of transactions (see [`Calls::search_result`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use bincode::{Decode, Encode};
use regex::{RegexBuilder, RegexSetBuilder, bytes};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::llm_providers::LlmProvider;
use super::wide_classes::{self, MAX_CLASSES};
use crate::api::{Calls, Search};
use crate::base::{
    BoundedList, Error, Id, Issue, Json, Label, Result, Text, VariableName, visible, whole_number,
};

/// The size limit of a compiled pattern, in bytes: enough for `BEGIN.{0,500}END`.
const MAX_PATTERN_BYTES: usize = 512 * 1024;

/// The size limit of a pattern compiled for ASCII alone (`\w` and the like), in bytes. That size grows
/// with the number of positions in the pattern that a match can be in at once, and so with the time per
/// character; the size with Unicode depends more on the tables of Unicode. The worst pattern found
/// takes 10 s for the longest text (1 MiB); usual ones take less than a millisecond.
const MAX_ASCII_PATTERN_BYTES: usize = 64 * 1024;

/// The size limit of a compiled pattern that requires Unicode (`\p{L}`, `[äöü]`), in bytes.
const MAX_UNICODE_PATTERN_BYTES: usize = 128 * 1024;

/// The size limit of all compiled patterns of a policy together, in bytes: they are compiled for every
/// publication, which takes a few milliseconds.
const MAX_PATTERNS_BYTES: usize = 1024 * 1024;

/// A policy has at most 5 judges: all judges of a registry are queried concurrently, each with the
/// whole text.
const MAX_JUDGES: usize = 5;

// ── Record ───────────────────────────────────────────────────────────────────

/// What a rule requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyRuleType {
    /// The text does not match a pattern.
    ForbidPattern,
    /// The text matches a pattern.
    RequirePattern,
    /// The text has at most this many characters.
    MaxLength,
    /// The text uses a variable.
    RequireVariable,
    /// The text does not use a variable.
    ForbidVariable,
    /// The metadata has a key.
    RequireMetadata,
    /// The text is not for a model.
    ForbidModel,
    /// An LLM answers a question about the text with yes.
    Judge,
    /// The text has at most this many characters that a reader does not see.
    ForbidInvisible,
    /// A label is moved only where its registry protects it by approvals. It says nothing of a text.
    ProtectLabel,
    /// So many percent of the prompt's inputs are answered as they expect.
    PassesInputs,
}
crate::store::stored_enum!(PolicyRuleType {
    ForbidPattern = 0,
    RequirePattern = 1,
    MaxLength = 2,
    RequireVariable = 3,
    ForbidVariable = 4,
    RequireMetadata = 5,
    ForbidModel = 6,
    Judge = 7,
    ForbidInvisible = 8,
    PassesInputs = 9,
    ProtectLabel = 10,
});

crate::base::portable! {
/// One rule of a policy.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// What the rule requires.
    #[serde(rename = "type")]
    pub kind: PolicyRuleType,
    /// The pattern, the number of characters, the name of a variable, metadata key, model or label, the
    /// judge's question, or how many percent of the inputs.
    pub value: RuleValue,
    /// The LLM provider of a judge or of inputs; null for the default one.
    pub llm_provider_id: Option<Id<LlmProvider>>,
}
}

/// The value of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RuleValue {
    /// The number of characters of `maxLength` and `forbidInvisible`, the percentage of `passesInputs`.
    Number(u64),
    /// The text of all other rules.
    Text(String),
}
crate::store::stored_enum!(RuleValue { Number(number: u64) = 0, Text(text: String) = 1 });

impl JsonSchema for RuleValue {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RuleValue".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]})
    }
}

impl PolicyRule {
    /// The value of a rule that has a text; empty for a number.
    pub fn text(&self) -> &str {
        match &self.value {
            RuleValue::Text(text) => text,
            RuleValue::Number(_) => "",
        }
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// The rules of a policy.
pub type NewPolicyRules = BoundedList<NewPolicyRule, 1, 50>;

/// A rule of a policy to create or update.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "if" = {"required": ["type"],
        "properties": {"type": {"enum": ["maxLength", "forbidInvisible"]}}},
    "then" = {"properties": {"value": {"type": "integer"}, "llmProviderId": {"type": "null"}}},
    "else" = {
        "if": {"required": ["type"], "properties": {"type": {"const": "passesInputs"}}},
        "then": {"properties": {"value": {"type": "integer", "minimum": 1, "maximum": 100}}},
        "else": {"properties": {"value": {"type": "string"}}, "if": {"required": ["type"],
            "properties": {"type": {"const": "judge"}}},
            "else": {"properties": {"llmProviderId": {"type": "null"}}}}},
))]
pub struct NewPolicyRule {
    /// What the rule requires.
    #[serde(rename = "type")]
    kind: PolicyRuleType,
    /// A regular expression (`forbidPattern`, `requirePattern`), a number of characters
    /// (`maxLength`, `forbidInvisible`), the name of a variable, metadata key, model or label, a
    /// judge's question, which must have the answer yes for an acceptable text, or how many percent of
    /// the prompt's inputs must pass, from 1 to 100 (`passesInputs`).
    #[schemars(with = "RuleValue")]
    value: Json,
    /// The LLM provider of a judge or of inputs; the default one if absent.
    llm_provider_id: Option<Id<LlmProvider>>,
}

impl NewPolicyRule {
    /// Returns the rule.
    ///
    /// # Errors
    /// The invalid field, and what is wrong with it.
    fn read(&self) -> Result<PolicyRule, Issue> {
        let value = self.read_value().map_err(|message| Issue::new("value", message))?;
        if self.llm_provider_id.is_some() && !queries(self.kind) {
            return Err(Issue::new("llmProviderId", "is only allowed for a judge or passesInputs"));
        }
        Ok(PolicyRule { kind: self.kind, value, llm_provider_id: self.llm_provider_id })
    }

    fn read_value(&self) -> Result<RuleValue, String> {
        if matches!(self.kind, PolicyRuleType::MaxLength | PolicyRuleType::ForbidInvisible) {
            let number = self.value.0.as_number().and_then(whole_number);
            let number = number.and_then(|number| u64::try_from(number).ok());
            return number
                .map(RuleValue::Number)
                .ok_or_else(|| "must be a whole number, at least 0".into());
        }
        if self.kind == PolicyRuleType::PassesInputs {
            let number = self.value.0.as_number().and_then(whole_number);
            let number = number.and_then(|number| u64::try_from(number).ok());
            return number
                .filter(|percent| (1..=100).contains(percent))
                .map(RuleValue::Number)
                .ok_or_else(|| "must be a whole number of percent, from 1 to 100".into());
        }
        let Value::String(text) = &self.value.0 else { return Err("must be a string".into()) };
        match self.kind {
            PolicyRuleType::ForbidPattern | PolicyRuleType::RequirePattern => {
                Text::<1, 2_000>::parse(text.as_str())?;
                check_pattern(text)?;
            }
            PolicyRuleType::RequireVariable | PolicyRuleType::ForbidVariable => {
                VariableName::parse(text.as_str())?;
            }
            PolicyRuleType::RequireMetadata | PolicyRuleType::ForbidModel => {
                Text::<1, 200>::parse(text.as_str())?;
            }
            PolicyRuleType::Judge => {
                Text::<1, 10_000>::parse(text.as_str())?;
            }
            PolicyRuleType::ProtectLabel => {
                Label::parse(text.as_str())?;
            }
            PolicyRuleType::MaxLength
            | PolicyRuleType::ForbidInvisible
            | PolicyRuleType::PassesInputs => {}
        }
        Ok(RuleValue::Text(text.clone()))
    }
}

/// Adds the issues of these rules.
pub fn check(rules: &NewPolicyRules, issues: &mut Vec<Issue>) {
    let before = issues.len();
    let mut patterns = Vec::new();
    if rules.iter().filter(|rule| rule.kind == PolicyRuleType::Judge).count() > MAX_JUDGES {
        issues.push(Issue::new("rules", format!("must have at most {MAX_JUDGES} judges")));
    }
    if rules.iter().filter(|rule| rule.kind == PolicyRuleType::PassesInputs).count() > 1 {
        issues.push(Issue::new("rules", "must have at most one passesInputs"));
    }
    let texts = rules.iter().filter(|rule| is_pattern(rule.kind)).map(|rule| rule.value.0.as_str());
    if texts.flatten().map(wide_classes::count).sum::<usize>() > MAX_CLASSES {
        let message = format!(
            "have more than {MAX_CLASSES} classes of many characters, such as \\w, \\S, \\p{{L}} or a \
             class in a class, where case does not matter: use fewer, or no (?i)"
        );
        // None of them is compiled.
        return issues.push(Issue::new("rules", message));
    }
    for (n, rule) in rules.iter().enumerate() {
        match rule.read() {
            Ok(rule) => patterns.extend(pattern_of(&rule).map(String::from)),
            Err(Issue { path, message }) => {
                issues.push(Issue::new(format!("rules[{n}].{path}"), message));
            }
        }
    }
    // A set has one limit for all of its patterns.
    let set = RegexSetBuilder::new(patterns).size_limit(MAX_PATTERNS_BYTES).build();
    if issues.len() == before && set.is_err() {
        issues.push(Issue::new("rules", "have patterns that are too large together"));
    }
}

/// Returns the rules, which [`check`] has accepted.
pub fn read(rules: &NewPolicyRules) -> Vec<PolicyRule> {
    rules.iter().filter_map(|rule| rule.read().ok()).collect()
}

/// Whether rules of this type query an LLM provider.
pub fn queries(kind: PolicyRuleType) -> bool {
    matches!(kind, PolicyRuleType::Judge | PolicyRuleType::PassesInputs)
}

fn pattern_of(rule: &PolicyRule) -> Option<&str> {
    is_pattern(rule.kind).then(|| rule.text())
}

fn is_pattern(kind: PolicyRuleType) -> bool {
    matches!(kind, PolicyRuleType::ForbidPattern | PolicyRuleType::RequirePattern)
}

/// Checks that a pattern is valid and not too large.
///
/// # Errors
/// What is wrong with it, as a phrase.
fn check_pattern(pattern: &str) -> Result<(), String> {
    let in_ascii = bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(MAX_ASCII_PATTERN_BYTES)
        .build();
    let most = match in_ascii {
        Ok(_) => MAX_PATTERN_BYTES,
        Err(regex::Error::CompiledTooBig(_)) => 0,
        Err(_) => MAX_UNICODE_PATTERN_BYTES,
    };
    RegexBuilder::new(pattern).size_limit(most).build().map(drop).map_err(|e| match e {
        regex::Error::CompiledTooBig(_) => {
            "is too large a regular expression; repeat less, or use (?-u) where ASCII suffices"
                .into()
        }
        other => {
            // It shows the position on several lines; the last one states the problem.
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("must be a regular expression: {reason}")
        }
    })
}

// ── Evaluation ───────────────────────────────────────────────────────────────

/// The input of rules: a compiled text with its variables in place, and what is published with it.
pub struct PolicyInput<'a> {
    pub text: &'a str,
    /// The variables of the text.
    pub variables: &'a [String],
    /// The fields of the metadata, read once for all rules.
    pub metadata: &'a Map<String, Value>,
    /// The model that the text is for.
    pub model: &'a str,
}

/// Returns the patterns of these rules that match a text. `None` while the result of a search is
/// pending; the run is discarded then.
pub fn occurring<'a>(
    rules: impl Iterator<Item = &'a PolicyRule>,
    text: &str,
    calls: &mut Calls,
) -> Option<BTreeSet<&'a str>> {
    let patterns: BTreeSet<&str> = rules.filter_map(pattern_of).collect();
    if patterns.is_empty() {
        return Some(patterns);
    }
    let hash = blake3::hash(text.as_bytes());
    let mut shared: Option<Arc<str>> = None;
    let mut all_known = true;
    let mut occurring = BTreeSet::new();
    for pattern in patterns {
        let tag =
            blake3::Hasher::new().update(hash.as_bytes()).update(pattern.as_bytes()).finalize();
        let search = || -> Search {
            let text = shared.get_or_insert_with(|| text.into()).clone();
            let pattern = pattern.to_string();
            Box::new(move || occurs(&pattern, &text))
        };
        match calls.search_result(*tag.as_bytes(), search) {
            None => all_known = false,
            Some(true) => {
                occurring.insert(pattern);
            }
            Some(false) => {}
        }
    }
    all_known.then_some(occurring)
}

/// Returns how an input violates a rule, as a phrase ("must …"), given the patterns that match it.
/// `None` for a judge, which is evaluated in [`judge`](super::judge), for inputs
/// ([`passing`](super::passing)), and for what is about labels ([`protection`](super::protection)).
pub fn violation(
    rule: &PolicyRule,
    input: &PolicyInput,
    occurring: &BTreeSet<&str>,
) -> Option<String> {
    let value = rule.text();
    let uses = || input.variables.iter().any(|variable| variable == value);
    let (is_violated, message) = match rule.kind {
        PolicyRuleType::ForbidPattern => {
            (occurring.contains(value), format!("must not match {}", quoted(value)))
        }
        PolicyRuleType::RequirePattern => {
            (!occurring.contains(value), format!("must match {}", quoted(value)))
        }
        PolicyRuleType::MaxLength => {
            let RuleValue::Number(most) = rule.value else { return None };
            let length = input.text.chars().count() as u64;
            (length > most, format!("must have at most {most} characters; it has {length}"))
        }
        PolicyRuleType::ForbidInvisible => {
            let RuleValue::Number(most) = rule.value else { return None };
            let count = visible::count(input.text) as u64;
            let first = visible::first(input.text).unwrap_or_default();
            let message = match most {
                0 => format!("must have no invisible characters; it has {count}, first {first}"),
                most => format!(
                    "must have at most {most} invisible characters; it has {count}, first {first}"
                ),
            };
            (count > most, message)
        }
        PolicyRuleType::RequireVariable => (!uses(), format!("must use the variable {value}")),
        PolicyRuleType::ForbidVariable => (uses(), format!("must not use the variable {value}")),
        PolicyRuleType::RequireMetadata => {
            let is_there = input.metadata.contains_key(value);
            (!is_there, format!("must have {} in its metadata", quoted(value)))
        }
        PolicyRuleType::ForbidModel => {
            (input.model == value, format!("must not be for the model {}", quoted(value)))
        }
        PolicyRuleType::Judge | PolicyRuleType::PassesInputs | PolicyRuleType::ProtectLabel => {
            return None;
        }
    };
    is_violated.then_some(message)
}

/// Returns a rule's value for a message, in quotation marks and cut to 200 characters.
pub fn quoted(value: &str) -> String {
    const MAX_CHARS: usize = 200;
    match value.char_indices().nth(MAX_CHARS) {
        None => format!("\"{value}\""),
        Some((end, _)) => format!("\"{}…\"", &value[..end]),
    }
}

fn occurs(pattern: &str, text: &str) -> Result<bool> {
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
    let compiled = compiled
        .map_err(|e| Error::internal(format!("the stored pattern {pattern:?} is invalid: {e}")))?;
    Ok(compiled.is_match(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(kind: &str, value: Value) -> PolicyRule {
        let new: NewPolicyRule =
            serde_json::from_value(json!({"type": kind, "value": value})).unwrap();
        new.read().unwrap()
    }

    fn issues(rules: Value) -> Vec<(String, String)> {
        let rules: NewPolicyRules = serde_json::from_value(rules).unwrap();
        let mut issues = Vec::new();
        check(&rules, &mut issues);
        issues.into_iter().map(|issue| (issue.path, issue.message)).collect()
    }

    #[test]
    fn each_rule_is_violated_by_exactly_what_it_forbids() {
        let variables = ["NAME".to_string(), "tone".to_string()];
        let metadata = json!({"owner": null}).as_object().unwrap().clone();
        let text = "Grüße, {{NAME}}! ❤️\nSECRET={{tone}}\u{e0069}\u{200b}";
        let input =
            PolicyInput { text, variables: &variables, metadata: &metadata, model: "gpt-5" };
        let length = text.chars().count();
        for (kind, value, is_satisfied) in [
            ("forbidPattern", json!("SECRET"), false),
            ("forbidPattern", json!("secret"), true),
            ("forbidPattern", json!("(?i)secret"), false),
            ("forbidPattern", json!("^SECRET"), true),
            ("forbidPattern", json!("(?m)^SECRET"), false),
            ("forbidPattern", json!("^Gr..e"), false),
            ("requirePattern", json!("SECRET"), true),
            ("requirePattern", json!("PUBLIC"), false),
            ("maxLength", json!(length), true),
            ("maxLength", json!(length - 1), false),
            ("maxLength", json!(0), false),
            ("forbidInvisible", json!(2), true),
            ("forbidInvisible", json!(1), false),
            ("forbidInvisible", json!(0), false),
            ("requireVariable", json!("NAME"), true),
            ("requireVariable", json!("name"), false),
            ("forbidVariable", json!("tone"), false),
            ("forbidVariable", json!("SECRET"), true),
            ("requireMetadata", json!("owner"), true),
            ("requireMetadata", json!("Owner"), false),
            ("forbidModel", json!("gpt-5"), false),
            ("forbidModel", json!("gpt"), true),
            ("judge", json!("Is it kind?"), true),
            ("passesInputs", json!(100), true),
        ] {
            let rule = rule(kind, value.clone());
            let mut calls = Calls::default();
            let occurring = loop {
                match occurring([&rule].into_iter(), text, &mut calls) {
                    Some(occurring) => break occurring,
                    None => assert!(calls.search()),
                }
            };
            let violation = violation(&rule, &input, &occurring);
            assert_eq!(violation.is_none(), is_satisfied, "{kind} {value}: {violation:?}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_at_its_path() {
        let wrong = issues(json!([
            {"type": "forbidPattern", "value": "ok"},
            {"type": "forbidPattern", "value": 7},
            {"type": "requirePattern", "value": ""},
            {"type": "requirePattern", "value": "a(b"},
            {"type": "maxLength", "value": -1},
            {"type": "maxLength", "value": 1.5},
            {"type": "maxLength", "value": "7"},
            {"type": "requireVariable", "value": "a-b"},
            {"type": "forbidVariable", "value": null},
            {"type": "requireMetadata", "value": ""},
            {"type": "forbidModel", "value": ["a"]},
            {"type": "judge", "value": "x".repeat(10_001)},
            {"type": "forbidInvisible", "value": "0"},
            {"type": "passesInputs", "value": "all"},
            {"type": "passesInputs", "value": 101},
            {"type": "maxLength", "value": 0,
                "llmProviderId": "01890a5d-ac96-774b-bcce-b302099a8057"},
        ]));
        let paths: Vec<_> = wrong.iter().map(|(path, _)| path.as_str()).collect();
        let mut expected = vec!["rules".to_string()];
        expected.extend((1..15).map(|n| format!("rules[{n}].value")));
        expected.push("rules[15].llmProviderId".into());
        assert_eq!(paths, expected);
        assert_eq!(wrong[3].1, "must be a regular expression: unclosed group");
    }

    #[test]
    fn patterns_are_limited_each_and_in_total() {
        let one = |pattern: &str| json!({"type": "forbidPattern", "value": pattern});
        let large = issues(json!([one("x{1000000}"), one(r"(\w{100}){100}")]));
        assert_eq!(large.len(), 2);
        assert!(large[0].1.contains("too large"), "{large:?}");
        let half = r"(?s)BEGIN.{0,500}END";
        assert_eq!(issues(json!([one(half)])), []);
        let together = issues(json!(vec![one(half); 10]));
        assert_eq!(together.len(), 1);
        assert_eq!(together[0].0, "rules");
    }

    #[test]
    fn the_size_for_ascii_limits_concurrent_states() {
        let refused = |pattern: &str| {
            !issues(json!([{"type": "forbidPattern", "value": pattern}])).is_empty()
        };
        for good in [r"a[ab]{900}c", r"[\w.+-]+@[\w-]+\.[\w.]+", r"\p{L}+ü", r"[äöü]{20}"] {
            assert!(!refused(good), "{good}");
        }
        for bad in [r"a[ab]{1000}c", r"\p{L}a[ab]{2000}c", r"(?u)a[ab]{1000}c"] {
            assert!(refused(bad), "{bad}");
        }
    }

    #[test]
    fn a_policy_has_at_most_5_judges() {
        let judges = |count| issues(json!(vec![json!({"type": "judge", "value": "q"}); count]));
        assert_eq!(judges(5), []);
        assert_eq!(judges(6)[0].0, "rules");
    }

    /// A pattern that takes other engines longer than the universe has been there.
    #[test]
    fn no_text_makes_a_pattern_slow() {
        let text = "a".repeat(300_000);
        for pattern in ["(a+)+$b", "(a|aa)+$b", "(.*)*x$", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
            assert!(!occurs(pattern, &text).unwrap(), "{pattern}");
        }
    }
}
