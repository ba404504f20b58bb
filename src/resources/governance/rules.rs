//! Rules: what a policy asks of a text, and whether a text keeps it
//! (reference: registries-and-templates, "Rules").
//!
//! Patterns are those of the `regex` crate: they take time in proportion to the text, whatever is
//! in it. How much for each character is bounded by the size of the compiled pattern, and still may
//! be much: so they are looked for outside of transactions (see [`Calls::search_result`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use bincode::{Decode, Encode};
use regex::{RegexBuilder, RegexSetBuilder, bytes};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::llm_providers::LlmProvider;
use crate::api::{Calls, Search};
use crate::base::{Error, Id, Issue, Json, JsonMap, List, Result, Text, VariableName};

/// A pattern has at most so many bytes when compiled: enough for `BEGIN.{0,500}END`.
const MAX_PATTERN_BYTES: usize = 512 * 1024;

/// It has at most so many when `\w` and the like stand for ASCII alone. That is what grows with the
/// number of places in the pattern where a match may be under way at once, hence with the time for
/// each character; its whole size tells more of how large Unicode is. The worst pattern, made on
/// purpose, takes 10 s for the longest text (1 MiB); usual ones take less than a millisecond.
const MAX_ASCII_PATTERN_BYTES: usize = 64 * 1024;

/// A pattern that cannot do without Unicode (`\p{L}`, `[äöü]`) has at most so many.
const MAX_UNICODE_PATTERN_BYTES: usize = 128 * 1024;

/// All patterns of a policy together have at most so many: they are compiled, in a few
/// milliseconds, whenever something is published.
const MAX_PATTERNS_BYTES: usize = 1024 * 1024;

/// A policy has at most 5 judges: all judges of a registry are asked at once, each with the whole
/// text.
const MAX_JUDGES: usize = 5;

// ── Record ───────────────────────────────────────────────────────────────────

/// What a rule asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RuleType {
    /// That a pattern occurs nowhere.
    ForbidPattern,
    /// That a pattern occurs somewhere.
    RequirePattern,
    /// That the text is not longer than so many characters.
    MaxLength,
    /// That a variable is used.
    RequireVariable,
    /// That a variable is not used.
    ForbidVariable,
    /// That the metadata has a key.
    RequireMetadata,
    /// That it is not for a model.
    ForbidModel,
    /// That a model answers a question about the text with yes.
    Judge,
}
crate::store::stored_enum!(RuleType {
    ForbidPattern = 0,
    RequirePattern = 1,
    MaxLength = 2,
    RequireVariable = 3,
    ForbidVariable = 4,
    RequireMetadata = 5,
    ForbidModel = 6,
    Judge = 7,
});

/// One rule of a policy.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Rule")]
pub struct PolicyRule {
    /// What it asks.
    #[serde(rename = "type")]
    pub kind: RuleType,
    /// The pattern, the number of characters, the name of a variable, metadata key or model, or the
    /// judge's question.
    pub value: RuleValue,
    /// Which provider a judge asks; null for the default one.
    pub llm_provider_id: Option<Id<LlmProvider>>,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RuleValue {
    /// Of `maxLength`.
    Number(u64),
    /// Of all others.
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
    /// The value of a rule that has a text.
    fn text(&self) -> &str {
        match &self.value {
            RuleValue::Text(text) => text,
            RuleValue::Number(_) => "",
        }
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// The rules of a policy.
pub type NewRules = List<NewRule, 1, 50>;

/// A rule to make.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewRule {
    /// What it asks.
    #[serde(rename = "type")]
    kind: RuleType,
    /// A regular expression (`forbidPattern`, `requirePattern`), a number of characters
    /// (`maxLength`), the name of a variable, metadata key or model, or a judge's question: one
    /// that is answered with yes where the text is good.
    #[schemars(with = "RuleValue")]
    value: Json,
    /// Which provider a judge asks; the default one where it is absent.
    llm_provider_id: Option<Id<LlmProvider>>,
}

impl NewRule {
    /// The rule, or what is wrong with which field.
    fn read(&self) -> Result<PolicyRule, Issue> {
        let value = self.read_value().map_err(|message| Issue::new("value", message))?;
        if self.llm_provider_id.is_some() && self.kind != RuleType::Judge {
            return Err(Issue::new("llmProviderId", "is for a judge alone"));
        }
        Ok(PolicyRule { kind: self.kind, value, llm_provider_id: self.llm_provider_id })
    }

    fn read_value(&self) -> Result<RuleValue, String> {
        if self.kind == RuleType::MaxLength {
            let number = self.value.0.as_u64().map(RuleValue::Number);
            return number.ok_or_else(|| "must be a whole number, at least 0".into());
        }
        let Value::String(text) = &self.value.0 else { return Err("must be a string".into()) };
        match self.kind {
            RuleType::ForbidPattern | RuleType::RequirePattern => {
                Text::<1, 2_000>::parse(text.as_str())?;
                check_pattern(text)?;
            }
            RuleType::RequireVariable | RuleType::ForbidVariable => {
                VariableName::parse(text.as_str())?;
            }
            RuleType::RequireMetadata | RuleType::ForbidModel => {
                Text::<1, 200>::parse(text.as_str())?;
            }
            RuleType::Judge => {
                Text::<1, 10_000>::parse(text.as_str())?;
            }
            RuleType::MaxLength => {}
        }
        Ok(RuleValue::Text(text.clone()))
    }
}

/// Adds what is wrong with these rules.
pub fn check(rules: &NewRules, issues: &mut Vec<Issue>) {
    let before = issues.len();
    let mut patterns = Vec::new();
    if rules.iter().filter(|rule| rule.kind == RuleType::Judge).count() > MAX_JUDGES {
        issues.push(Issue::new("rules", format!("must have at most {MAX_JUDGES} judges")));
    }
    for (n, rule) in rules.iter().enumerate() {
        match rule.read() {
            Ok(rule) => patterns.extend(pattern_of(&rule).map(String::from)),
            Err(Issue { path, message }) => {
                issues.push(Issue::new(format!("rules[{n}].{path}"), message));
            }
        }
    }
    // As one set they have one limit.
    let set = RegexSetBuilder::new(patterns).size_limit(MAX_PATTERNS_BYTES).build();
    if issues.len() == before && set.is_err() {
        issues.push(Issue::new("rules", "have patterns that are too large together"));
    }
}

/// The rules, once they were checked.
pub fn read(rules: &NewRules) -> Vec<PolicyRule> {
    rules.iter().filter_map(|rule| rule.read().ok()).collect()
}

fn pattern_of(rule: &PolicyRule) -> Option<&str> {
    matches!(rule.kind, RuleType::ForbidPattern | RuleType::RequirePattern).then(|| rule.text())
}

/// Refuses what is no pattern, or one that is too large; the error is a phrase.
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
            "is too large a regular expression; repeat less, or use (?-u) where ASCII does".into()
        }
        other => {
            // It draws the place on several lines; the last says what is wrong.
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("must be a regular expression: {reason}")
        }
    })
}

// ── Whether a text keeps them ────────────────────────────────────────────────

/// What rules look at: a text after compiling and before its variables are filled, and what stands
/// beside it.
pub struct Content<'a> {
    /// The text.
    pub text: &'a str,
    /// The variables that it uses.
    pub variables: &'a [String],
    /// Its metadata.
    pub metadata: &'a JsonMap,
    /// The model that it is for.
    pub model: &'a str,
}

/// The patterns of these rules that occur in a text. `None` as long as it was not searched for all
/// of them: this run does not count then.
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

/// What is wrong with a content by a rule, as a phrase ("must …"), where these patterns occur in it.
/// Nothing for a judge, who is asked elsewhere.
pub fn fault(rule: &PolicyRule, content: &Content, occurring: &BTreeSet<&str>) -> Option<String> {
    let value = rule.text();
    let uses = || content.variables.iter().any(|variable| variable == value);
    let (is_broken, message) = match rule.kind {
        RuleType::ForbidPattern => {
            (occurring.contains(value), format!("must not match {}", quoted(value)))
        }
        RuleType::RequirePattern => {
            (!occurring.contains(value), format!("must match {}", quoted(value)))
        }
        RuleType::MaxLength => {
            let RuleValue::Number(most) = rule.value else { return None };
            let length = content.text.chars().count() as u64;
            (length > most, format!("must have at most {most} characters; it has {length}"))
        }
        RuleType::RequireVariable => (!uses(), format!("must use the variable {value}")),
        RuleType::ForbidVariable => (uses(), format!("must not use the variable {value}")),
        RuleType::RequireMetadata => {
            let is_there = content.metadata.0.contains_key(value);
            (!is_there, format!("must come with {} in its metadata", quoted(value)))
        }
        RuleType::ForbidModel => {
            (content.model == value, format!("must not be for the model {}", quoted(value)))
        }
        RuleType::Judge => (false, String::new()),
    };
    is_broken.then_some(message)
}

/// A rule's value as a message repeats it.
pub fn quoted(value: &str) -> String {
    /// Characters; some values are long, and messages shall not be.
    const MOST: usize = 200;
    match value.char_indices().nth(MOST) {
        None => format!("\"{value}\""),
        Some((end, _)) => format!("\"{}…\"", &value[..end]),
    }
}

fn occurs(pattern: &str, text: &str) -> Result<bool> {
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
    let compiled = compiled
        .map_err(|e| Error::internal(format!("the stored pattern {pattern:?} is none: {e}")))?;
    Ok(compiled.is_match(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(kind: &str, value: Value) -> PolicyRule {
        let new: NewRule = serde_json::from_value(json!({"type": kind, "value": value})).unwrap();
        new.read().unwrap()
    }

    fn issues(rules: Value) -> Vec<(String, String)> {
        let rules: NewRules = serde_json::from_value(rules).unwrap();
        let mut issues = Vec::new();
        check(&rules, &mut issues);
        issues.into_iter().map(|issue| (issue.path, issue.message)).collect()
    }

    #[test]
    fn each_rule_is_broken_by_what_it_says_and_by_nothing_else() {
        let variables = ["NAME".to_string(), "tone".to_string()];
        let metadata = JsonMap(json!({"owner": null}).as_object().unwrap().clone());
        let text = "Grüße, {{NAME}}!\nSECRET={{tone}}";
        let content = Content { text, variables: &variables, metadata: &metadata, model: "gpt-5" };
        let length = text.chars().count();
        for (kind, value, is_kept) in [
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
            ("requireVariable", json!("NAME"), true),
            ("requireVariable", json!("name"), false),
            ("forbidVariable", json!("tone"), false),
            ("forbidVariable", json!("SECRET"), true),
            ("requireMetadata", json!("owner"), true),
            ("requireMetadata", json!("Owner"), false),
            ("forbidModel", json!("gpt-5"), false),
            ("forbidModel", json!("gpt"), true),
            ("judge", json!("Is it kind?"), true),
        ] {
            let rule = rule(kind, value.clone());
            let mut calls = Calls::default();
            let occurring = loop {
                match occurring([&rule].into_iter(), text, &mut calls) {
                    Some(occurring) => break occurring,
                    None => assert!(calls.search()),
                }
            };
            let fault = fault(&rule, &content, &occurring);
            assert_eq!(fault.is_none(), is_kept, "{kind} {value}: {fault:?}");
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
            {"type": "maxLength", "value": 0,
                "llmProviderId": "01890a5d-ac96-774b-bcce-b302099a8057"},
        ]));
        let paths: Vec<_> = wrong.iter().map(|(path, _)| path.as_str()).collect();
        let mut expected: Vec<_> = (1..12).map(|n| format!("rules[{n}].value")).collect();
        expected.push("rules[12].llmProviderId".into());
        assert_eq!(paths, expected);
        assert_eq!(wrong[2].1, "must be a regular expression: unclosed group");
    }

    #[test]
    fn patterns_are_bounded_one_by_one_and_together() {
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
    fn a_pattern_waits_in_few_places_at_once() {
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
    fn a_policy_has_five_judges_at_most() {
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
