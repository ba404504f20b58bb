//! Translation of other template languages into our own
//! (reference: registries-and-templates, "Importing prompts").
//!
//! Variables, which all of them have, stay variables. What ours cannot express (sections, paths,
//! conditions) is refused, so that an imported prompt never changes its meaning. Texts that are not
//! templates stay the same: their `{{` is escaped.

use serde_json::Value;

use crate::base::VariableName;
use crate::templates;

/// A template language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `{{name}}`; sections and the like are refused.
    Mustache,
    /// `{{ name }}`; paths, statements and the like are refused.
    Jinja,
    /// Python's `{name}`, with `{{` and `}}` for braces.
    FString,
    /// None: a literal text.
    Plain,
    /// An unknown language; templates in it are refused.
    Unknown,
}

/// Translates a text into our language.
///
/// # Errors
/// What our language cannot express, as a sentence.
pub fn translate(text: &str, syntax: Syntax) -> Result<String, String> {
    let mut out = String::new();
    append(&mut out, text, syntax, Form::Text)?;
    Ok(out)
}

/// Translates the messages of a chat into JSON whose texts are in our language. Values of variables are
/// inserted between the quotes, unescaped.
///
/// # Errors
/// As [`translate`].
pub fn translate_chat(messages: &[Value], syntax: Syntax) -> Result<String, String> {
    let mut out = String::new();
    append_list(&mut out, messages, syntax)?;
    Ok(out)
}

fn append_list(out: &mut String, items: &[Value], syntax: Syntax) -> Result<(), String> {
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        append_json(out, item, syntax, Syntax::Plain)?;
    }
    out.push(']');
    Ok(())
}

/// Appends a JSON value. `own` is the language of the value itself, if it is a string, `syntax` that of
/// the texts in it.
fn append_json(out: &mut String, value: &Value, syntax: Syntax, own: Syntax) -> Result<(), String> {
    match value {
        Value::Array(items) => append_list(out, items, syntax),
        Value::Object(fields) => {
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                append_json(out, &Value::String(key.clone()), syntax, Syntax::Plain)?;
                out.push(':');
                // The text of a message and the texts of its parts. Everything else is data.
                let is_text = matches!(key.as_str(), "content" | "text");
                append_json(out, value, syntax, if is_text { syntax } else { Syntax::Plain })?;
            }
            out.push('}');
            Ok(())
        }
        Value::String(text) => {
            out.push('"');
            append(out, text, own, Form::Json)?;
            out.push('"');
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            out.push_str(&value.to_string());
            Ok(())
        }
    }
}

/// What a text becomes part of.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Text,
    /// A string of JSON, which is one before it is filled, too.
    Json,
}

impl Form {
    fn written(self, text: &str) -> String {
        match self {
            Form::Text => text.to_owned(),
            Form::Json => {
                let quoted = Value::from(text).to_string();
                quoted[1..quoted.len() - 1].to_string()
            }
        }
    }
}

/// A segment of a template.
enum Segment<'a> {
    Text(String),
    Variable(&'a str),
}

fn append(out: &mut String, text: &str, syntax: Syntax, form: Form) -> Result<(), String> {
    let segments = match syntax {
        Syntax::Mustache | Syntax::Jinja => in_double_braces(text, syntax)?,
        Syntax::FString => in_single_braces(text)?,
        Syntax::Plain => vec![Segment::Text(text.into())],
        Syntax::Unknown => return Err("its template language is not supported".into()),
    };
    let mut segments = segments.into_iter().peekable();
    while let Some(segment) = segments.next() {
        match segment {
            Segment::Text(text) => {
                let is_before_variable = matches!(segments.peek(), Some(Segment::Variable(_)));
                append_literal(out, &text, form, is_before_variable);
            }
            Segment::Variable(name) => {
                out.push_str("{{");
                out.push_str(name);
                out.push_str("}}");
            }
        }
    }
    Ok(())
}

/// Appends a text that stands for itself: quoted are its braces and backslashes where they would mean
/// something else.
fn append_literal(out: &mut String, text: &str, form: Form, is_before_variable: bool) {
    let is_special = |c| matches!(c, '{' | '\\');
    let mut rest = text;
    while let Some(at) = rest.find(is_special) {
        out.push_str(&form.written(&rest[..at]));
        let end = rest[at..].find(|c| !is_special(c)).map_or(rest.len(), |len| at + len);
        let run = &rest[at..end];
        rest = &rest[end..];
        let is_before_variable = is_before_variable && rest.is_empty();
        if is_before_variable || form == Form::Json && run.contains("{{") {
            out.push_str(&templates::quoted(&form.written(run)));
        } else {
            out.push_str(&form.written(run).replace("{{", r"\{{"));
        }
    }
    out.push_str(&form.written(rest));
}

fn in_double_braces(text: &str, syntax: Syntax) -> Result<Vec<Segment<'_>>, String> {
    let statement = [("{%", "%}"), ("{#", "#}")];
    let has = |(open, close): &(&str, &str)| text.contains(open) && text.contains(close);
    if let Some((open, close)) = statement.iter().find(|mark| syntax == Syntax::Jinja && has(mark))
    {
        return Err(format!("it has {open} … {close}, which our templates cannot express"));
    }
    let mut segments = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, after)) = after.split_once("}}") else {
            return Err("it has {{ without }}".into());
        };
        segments.push(Segment::Text(before.into()));
        segments.push(variable(inside, &format!("{{{{{inside}}}}}"))?);
        rest = after;
    }
    segments.push(Segment::Text(rest.into()));
    Ok(segments)
}

fn in_single_braces(text: &str) -> Result<Vec<Segment<'_>>, String> {
    let mut segments = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            literal.push_str(brace);
            rest = after;
            continue;
        }
        let Some((inside, after)) = after.split_once('}').filter(|_| brace == "{") else {
            return Err(format!("it has a single {brace}"));
        };
        segments.push(Segment::Text(std::mem::take(&mut literal)));
        segments.push(variable(inside, &format!("{{{inside}}}"))?);
        rest = after;
    }
    literal.push_str(rest);
    segments.push(Segment::Text(literal));
    Ok(segments)
}

fn variable<'a>(inside: &'a str, written: &str) -> Result<Segment<'a>, String> {
    let name = inside.trim_matches([' ', '\t', '\r', '\n']);
    match VariableName::parse(name) {
        Ok(_) => Ok(Segment::Variable(name)),
        Err(_) => {
            let some: String = written.chars().take(50).collect();
            Err(format!("it has {some}, which is no variable in our templates"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Compiles and renders a text in our language.
    fn rendered(text: &str, values: &BTreeMap<&str, &str>) -> String {
        let none = |_: &_, _: &_| Ok::<_, Infallible>(Err("there is none".into()));
        let compiled = templates::compile(text, none).unwrap();
        assert!(compiled.problems.is_empty(), "{text}: {:?}", compiled.problems);
        let value = |name: &str| values.get(name).map(|value| value.to_string());
        templates::render(&compiled.text, value).unwrap().text
    }

    #[test]
    fn variables_stay_variables() {
        let cases = [
            (Syntax::Mustache, "Hi {{name}}, {{ tone_2 }}!", "Hi {{name}}, {{tone_2}}!"),
            (Syntax::Jinja, "{{\n name\t}}", "{{name}}"),
            (Syntax::FString, "Hi {name}", "Hi {{name}}"),
            (Syntax::FString, r#"{{"name": {name}}}"#, r#"{"name": {{name}}}"#),
            (Syntax::Mustache, r"C:\{{name}}", r"C:{{ '\' }}{{name}}"),
            (Syntax::FString, "{{{name}}}", "{{ '{' }}{{name}}}"),
            (Syntax::FString, r"{{{{\{a}{{{b}", r"{{ '{{\' }}{{a}}{{ '{' }}{{b}}"),
            (Syntax::Plain, "Hi {name} {{name}}", r"Hi {name} \{{name}}"),
        ];
        for (syntax, theirs, ours) in cases {
            assert_eq!(translate(theirs, syntax).as_deref(), Ok(ours), "{syntax:?} {theirs}");
        }
    }

    #[test]
    fn untranslatable_templates_are_refused_with_the_position() {
        let cases = [
            (Syntax::Mustache, "{{#users}}x{{/users}}", "{{#users}}"),
            (Syntax::Mustache, "{{{raw}}}", "{{{raw}}"),
            (Syntax::Mustache, "{{user.name}}", "{{user.name}}"),
            (Syntax::Mustache, "{{ import \"x\" }}", "import"),
            (Syntax::Mustache, "a {{ b", "{{ without }}"),
            (Syntax::Mustache, "{ {{a}}{{{b}} ", "{{{b}}"),
            (Syntax::Jinja, "{% if x %}a{% endif %}", "{% … %}"),
            (Syntax::Jinja, "{{ x | upper }}", "{{ x | upper }}"),
            (Syntax::FString, "{}", "{}"),
            (Syntax::FString, "{user.name} {x:>10}", "{user.name}"),
            (Syntax::FString, "{x!r}", "{x!r}"),
            (Syntax::FString, "a } b", "single }"),
            (Syntax::FString, "a { b", "single {"),
            (Syntax::Unknown, "plain", "not supported"),
        ];
        for (syntax, theirs, expected) in cases {
            let error = translate(theirs, syntax).unwrap_err();
            assert!(error.contains(expected), "{syntax:?} {theirs}: {error}");
        }
        let long = format!("{{{{{}}}}}", "x".repeat(100_000));
        assert!(translate(&long, Syntax::Mustache).unwrap_err().len() < 200);
    }

    #[test]
    fn only_the_texts_of_a_chat_are_templates() {
        let messages = [
            json!({"role": "user", "content": "Say \"{greeting}\"\n"}),
            json!({"role": "ai", "content": [
                {"type": "text", "text": "{x}"},
                {"type": "tool_call", "tool_call": {"arguments": "{\"a\": {\"b\": 1}}", "n": null}},
            ]}),
        ];
        let ours = translate_chat(&messages, Syntax::FString).unwrap();
        let values = BTreeMap::from([("greeting", "hi"), ("x", "y")]);
        let expected = json!([
            {"role": "user", "content": "Say \"hi\"\n"},
            {"role": "ai", "content": [
                {"type": "text", "text": "y"},
                {"type": "tool_call", "tool_call": {"arguments": "{\"a\": {\"b\": 1}}", "n": null}},
            ]},
        ]);
        let filled: Value = serde_json::from_str(&rendered(&ours, &values)).unwrap();
        assert_eq!(filled, expected);
    }

    #[test]
    fn literal_braces_stay_literal_when_rendered() {
        let text = r#"{{x}} \{{ {{{ }}"#;
        assert_eq!(rendered(&translate(text, Syntax::Plain).unwrap(), &BTreeMap::new()), text);
        let messages = [json!({"role": text, "{{k": text, "content": "{{{{x}}}}"})];
        let ours = translate_chat(&messages, Syntax::FString).unwrap();
        let filled: Value = serde_json::from_str(&rendered(&ours, &BTreeMap::new())).unwrap();
        assert_eq!(filled, json!([{"role": text, "{{k": text, "content": "{{x}}"}]));
        // It is JSON before it is filled, too.
        let parsed: Value = serde_json::from_str(&ours).unwrap();
        assert_eq!(rendered(parsed[0]["role"].as_str().unwrap(), &BTreeMap::new()), text);
    }

    proptest! {
        #[test]
        fn a_plain_text_renders_to_itself(text in r#"([{}\\" a]|\\PC){0,40}"#) {
            let ours = translate(&text, Syntax::Plain).unwrap();
            prop_assert_eq!(rendered(&ours, &BTreeMap::new()), text.clone());
            let ours = translate_chat(&[json!(text)], Syntax::Mustache).unwrap();
            let filled: Value = serde_json::from_str(&rendered(&ours, &BTreeMap::new())).unwrap();
            prop_assert_eq!(filled, json!([text]));
        }

        #[test]
        fn a_translated_template_renders_like_the_original(
            segments in prop::collection::vec(prop_oneof!["[a{}\\\\ ]{0,3}", Just("\u{0}".into())], 0..8)
        ) {
            // A zero byte stands for the variable x.
            let theirs: String = segments.iter().map(|segment| match segment.as_str() {
                "\u{0}" => "{x}".into(),
                text => text.replace('{', "{{").replace('}', "}}"),
            }).collect();
            let expected = segments.concat().replace('\u{0}', "value");
            let values = BTreeMap::from([("x", "value")]);
            let ours = translate(&theirs, Syntax::FString).unwrap();
            prop_assert_eq!(rendered(&ours, &values), expected.clone());
            let chat = [json!({"content": theirs})];
            let ours = translate_chat(&chat, Syntax::FString).unwrap();
            let filled: Value = serde_json::from_str(&rendered(&ours, &values)).unwrap();
            prop_assert_eq!(&filled[0]["content"], &expected);
            let parsed: Value = serde_json::from_str(&ours).unwrap();
            prop_assert_eq!(rendered(parsed[0]["content"].as_str().unwrap(), &values), expected);
        }
    }
}
