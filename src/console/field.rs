//! A field of a declared form: what people see, and how its text becomes a value of the API and back.

use serde_json::{Value, json};

use super::choice::Chooser;
use super::conflict::Edited;
use super::visit::Visit;
use crate::base::{Error, Result};

/// A field of a form.
pub struct Field {
    /// Its name in the form.
    pub name: &'static str,
    /// Its path in the body of the API, which is its name unless that says too little.
    path: &'static str,
    /// Other paths whose problems are shown at it.
    also: Vec<&'static str>,
    pub label: &'static str,
    pub hint: &'static str,
    pub is_required: bool,
    pub input: Input,
    pub complete: &'static str,
    /// What a choice offers, or a text suggests: values and labels.
    options: Vec<(String, String)>,
    /// What it is filled with before anything was sent.
    pub value: String,
    /// What a choice is where nothing is stored.
    unset: &'static str,
    content: Content,
    /// Values of the API, each with the word that people have for it in the text.
    names: Vec<(String, String)>,
    /// Whether it has a value that is stored and shown.
    is_stored: bool,
}

/// How a field is entered.
pub enum Input {
    /// A line of this type of input.
    Text(&'static str),
    /// A line that one of the options may be chosen for.
    Suggested,
    /// A line for the name of something, which is looked for as it is typed.
    Chosen(Chooser),
    /// So many lines.
    Area(u8),
    Select,
    Check,
    /// A secret: it is never shown, and stays as it is if nothing is entered.
    Secret,
    /// What the page has there by hand.
    Special,
}

/// What a text stands for.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Text,
    Number,
    Words,
    Lines,
    Object,
    Flag,
    Moment,
}

impl Field {
    fn new(name: &'static str, label: &'static str, input: Input) -> Self {
        Field {
            name,
            path: name,
            also: Vec::new(),
            label,
            hint: "",
            is_required: true,
            input,
            complete: "off",
            options: Vec::new(),
            value: String::new(),
            unset: "",
            content: Content::Text,
            names: Vec::new(),
            is_stored: true,
        }
    }

    /// A line of text.
    pub fn text(name: &'static str, label: &'static str) -> Self {
        Field::new(name, label, Input::Text("text"))
    }

    /// A text of several lines.
    pub fn area(name: &'static str, label: &'static str, rows: u8) -> Self {
        Field::new(name, label, Input::Area(rows))
    }

    /// A choice between values, shown by their labels; the first one unless another is set.
    pub fn select<V: Into<String>, L: Into<String>>(
        name: &'static str,
        label: &'static str,
        options: impl IntoIterator<Item = (V, L)>,
    ) -> Self {
        let field = Field::new(name, label, Input::Select).options(options);
        let first = field.options.first().map(|(value, _)| value.clone());
        field.preset(first.unwrap_or_default())
    }

    /// A choice between yes and no.
    pub fn check(name: &'static str, label: &'static str) -> Self {
        Field { content: Content::Flag, ..Field::new(name, label, Input::Check) }
    }

    /// A secret, which need not be entered.
    pub fn secret(name: &'static str, label: &'static str) -> Self {
        Field::new(name, label, Input::Secret).optional().unstored()
    }

    /// A line of text for which these are suggested.
    pub fn suggest<V: Into<String>, L: Into<String>>(
        name: &'static str,
        label: &'static str,
        options: impl IntoIterator<Item = (V, L)>,
    ) -> Self {
        Field::new(name, label, Input::Suggested).options(options)
    }

    /// A line for the name of something that there is.
    pub fn choose(label: &'static str, chooser: Chooser) -> Self {
        Field::new(chooser.name, label, Input::Chosen(chooser))
    }

    /// The place of what the page has in the form by hand.
    pub fn special() -> Self {
        Field::new("", "", Input::Special).optional().unstored()
    }

    fn options<V: Into<String>, L: Into<String>>(
        mut self,
        options: impl IntoIterator<Item = (V, L)>,
    ) -> Self {
        let pairs = options.into_iter().map(|(value, label)| (value.into(), label.into()));
        self.options = pairs.collect();
        self
    }

    /// It may be empty: then it is absent of what is created, and cleared of what is changed.
    pub fn optional(mut self) -> Self {
        self.is_required = false;
        self
    }

    /// Says more below its label.
    pub fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    /// It has another path in the API than its name.
    pub fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    /// It shows the problems with another path of the API, too.
    pub fn also(mut self, path: &'static str) -> Self {
        self.also.push(path);
        self
    }

    /// What it is where nothing is stored.
    pub fn unset(mut self, value: &'static str) -> Self {
        self.unset = value;
        self
    }

    /// What it is filled with at first.
    pub fn preset(mut self, value: impl Into<String>) -> Self {
        self.value = value.into();
        self
    }

    /// What it is filled with at first, as the API has it.
    pub fn holding(mut self, value: &str) -> Self {
        self.value = self.shown(&Value::from(value));
        self
    }

    /// The type of its input.
    pub fn kind(mut self, kind: &'static str) -> Self {
        self.input = Input::Text(kind);
        self
    }

    /// It is a number. What is none is for the API to refuse.
    pub fn number(mut self) -> Self {
        self.content = Content::Number;
        self
    }

    /// It is a point in time, which is entered in UTC.
    pub fn moment(mut self) -> Self {
        self.content = Content::Moment;
        self.kind("datetime-local")
    }

    /// It is a list of words with commas between them.
    pub fn words(mut self) -> Self {
        self.content = Content::Words;
        self
    }

    /// It is a list of texts, one on each line.
    pub fn lines(mut self) -> Self {
        self.content = Content::Lines;
        self
    }

    /// Its words stand for values of the API, which are given first. Another word is for the API to refuse.
    pub fn named(mut self, names: Vec<(String, String)>) -> Self {
        self.names = names;
        self
    }

    /// Returns what people read for a value of the API.
    fn shown(&self, value: &Value) -> String {
        let name = |value: &Value| {
            let named = self.names.iter().find(|(known, _)| value.as_str() == Some(known));
            named.map_or_else(|| text_of(value), |(_, name)| name.clone())
        };
        match value {
            Value::Array(values) if self.content == Content::Lines => {
                values.iter().map(name).collect::<Vec<_>>().join("\n")
            }
            Value::Array(values) => values.iter().map(name).collect::<Vec<_>>().join(", "),
            Value::Null => self.unset.into(),
            Value::String(time) if self.content == Content::Moment => as_entered(time).into(),
            value => name(value),
        }
    }

    /// Returns the value of the API that a word stands for.
    fn meant<'a>(&'a self, word: &'a str) -> &'a str {
        let named = self.names.iter().find(|(_, name)| name == word);
        named.map_or(word, |(value, _)| value)
    }

    /// It is a JSON object. What is none is for the API to refuse.
    pub fn object(mut self) -> Self {
        self.content = Content::Object;
        self
    }

    /// It is sent, but what was sent is not shown again: nothing of it is compared.
    pub fn unstored(mut self) -> Self {
        self.is_stored = false;
        self
    }

    /// What browsers fill in.
    pub fn complete(mut self, complete: &'static str) -> Self {
        self.complete = complete;
        self
    }

    /// What it offers.
    pub fn choices(&self) -> &[(String, String)] {
        &self.options
    }

    /// Offers no more than what is to be kept.
    pub fn retain(mut self, is_kept: impl Fn(&str) -> bool) -> Self {
        self.options.retain(|(value, _)| is_kept(value));
        self
    }

    /// Whether there is something to choose.
    pub fn has_choice(&self) -> bool {
        self.chooser().is_some() || self.options.iter().any(|(value, _)| !value.is_empty())
    }

    /// Whether there is more to choose than one.
    pub fn is_of_several(&self) -> bool {
        self.chooser().is_some() || self.options.len() > 1
    }

    /// How something is chosen in it.
    pub fn chooser(&self) -> Option<Chooser> {
        match self.input {
            Input::Chosen(chooser) => Some(chooser),
            _ => None,
        }
    }

    /// Whether the page has it by hand.
    pub fn is_special(&self) -> bool {
        matches!(self.input, Input::Special)
    }

    /// Whether a box is checked at first.
    pub fn is_on(&self) -> bool {
        self.value == YES
    }

    /// The paths in the API whose problems, and those of what is in them, are shown at the field.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        let own = Some(self.path).filter(|_| !self.is_special());
        own.into_iter().chain(self.also.iter().copied())
    }

    /// Fills it with what is stored. A choice offers that in any case: a browser would send the first
    /// value for one that it does not have.
    ///
    /// # Errors
    /// If the API does not show it, which is a mistake of the page.
    pub fn fill(&mut self, stored: &Value) -> Result<()> {
        if !self.is_stored {
            return Ok(());
        }
        let value = at(stored, self.path)
            .ok_or_else(|| Error::internal(format!("the API shows no {}", self.path)))?;
        self.value = self.shown(value);
        let is_offered = self.options.iter().any(|(option, _)| *option == self.value);
        if matches!(self.input, Input::Select) && !is_offered {
            let label = if self.value.is_empty() { NONE } else { &self.value };
            self.options.push((self.value.clone(), label.into()));
        }
        Ok(())
    }

    /// The value that it is compared by: what is stored, beside what was sent. `None` of one that is
    /// not stored.
    pub fn edited(&self, visit: &Visit, stored: &Value) -> Option<Edited> {
        if !self.is_stored {
            return None;
        }
        let theirs = at(stored, self.path).map(|value| self.shown(value)).unwrap_or_default();
        let word = |is_on| if is_on { "Yes" } else { "No" };
        Some(match (&self.input, self.content) {
            (Input::Select, _) => {
                Edited::choice(visit, self.name, self.label, &theirs, &self.options)
            }
            (_, Content::Flag) => {
                let sent = visit.form.sent(self.name).is_some();
                Edited::new(self.label, word(theirs == YES), word(sent))
            }
            (_, Content::Words) => {
                Edited::new(self.label, theirs, words(visit.form.get(self.name)).join(", "))
            }
            (_, Content::Lines) => {
                Edited::new(self.label, theirs, lines(visit.form.get(self.name)).join("\n"))
            }
            _ => Edited::text(visit, self.name, self.label, &theirs),
        })
    }

    /// Puts what was sent into the body of a request.
    pub fn put(&self, visit: &Visit, body: &mut Value, is_new: bool) {
        let Some(value) = self.sent(visit, is_new).filter(|_| !self.is_special()) else { return };
        *self.path.split('.').fold(body, |inner, name| &mut inner[name]) = value;
    }

    /// What was sent, as the API takes it; `None` if it is to be absent.
    fn sent(&self, visit: &Visit, is_new: bool) -> Option<Value> {
        let sent = visit.form.get(self.name);
        let is_empty = sent.trim().is_empty();
        // The API keeps texts as they are: one that somebody else has sent is not to change by being saved.
        let is_as_sent = match self.input {
            Input::Area(_) => true,
            Input::Secret => self.is_required,
            _ => false,
        };
        let text = if is_as_sent { sent } else { sent.trim() };
        let may_be_empty = !self.is_required || matches!(self.input, Input::Select);
        match self.content {
            Content::Flag => Some(json!(visit.form.sent(self.name).is_some())),
            Content::Words => {
                let meant = words(sent).into_iter().map(|word| self.meant(word));
                Some(json!(meant.collect::<Vec<_>>()))
            }
            Content::Lines => Some(json!(lines(sent))),
            Content::Object if is_empty => Some(json!({})),
            _ if is_empty && may_be_empty => (self.is_stored && !is_new).then_some(Value::Null),
            Content::Object => {
                // Null would leave what there is.
                let object = serde_json::from_str::<Value>(text).ok();
                Some(object.filter(|object| !object.is_null()).unwrap_or(json!(text)))
            }
            Content::Number => Some(number(text)),
            Content::Moment => Some(json!(in_utc(text))),
            Content::Text => Some(json!(self.meant(text))),
        }
    }
}

/// What a choice calls a value that is not set.
const NONE: &str = "—";

/// What a checked box is filled with.
const YES: &str = "yes";

/// A value of the API as text, for people.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => YES.into(),
        Value::Null | Value::Bool(false) => String::new(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => number.as_f64().unwrap_or_default().to_string(),
        },
        Value::Array(words) => {
            words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        Value::Object(object) if object.is_empty() => String::new(),
        Value::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// A point in time as browsers have it in a field: without its zone, and without a rest of zeros.
fn as_entered(time: &str) -> &str {
    let time = time.trim_end_matches('Z');
    let time = time.strip_suffix(".000").unwrap_or(time);
    time.strip_suffix(":00").filter(|rest| rest.matches(':').count() == 1).unwrap_or(time)
}

/// The point in time in UTC that a field has; what has a zone or is none is for the API to read or refuse.
pub fn in_utc(text: &str) -> String {
    match text.split_once('T') {
        Some((_, time)) if time.contains(['Z', 'z', '+', '-']) => text.into(),
        Some((_, time)) if time.matches(':').count() == 1 => format!("{text}:00Z"),
        Some(_) => format!("{text}Z"),
        None => text.into(),
    }
}

/// What is at a path. Nothing is in an object that is `null`.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |inner, name| match inner {
        Value::Null => Some(inner),
        _ => inner.get(name),
    })
}

/// The parts of a text with commas.
pub fn words(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// The lines of a text that have something.
pub fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.trim().is_empty()).collect()
}

/// A number as JSON; a text that is none stays one, so that the API says what is wrong with it.
pub fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return json!(whole);
    }
    // JSON has no others: they would be null.
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map_or_else(|| json!(text), |number| json!(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_shown_as_it_is_entered() {
        let shown = |value: Value| {
            let mut field = Field::text("name", "Name").at("outer.name");
            field.fill(&json!({"outer": {"name": value}})).map(|()| field.value).unwrap()
        };
        assert_eq!(shown(json!("a")), "a");
        assert_eq!(shown(json!(null)), "");
        assert_eq!(
            (shown(json!(50.0)), shown(json!(0.5)), shown(json!(7))),
            ("50".into(), "0.5".into(), "7".into())
        );
        assert_eq!(shown(json!(["a", "b"])), "a, b");
        assert_eq!(
            (shown(json!({})), shown(json!({"a": 1}))),
            ("".into(), "{\n  \"a\": 1\n}".into())
        );
        let mut several = Field::area("name", "Name", 3).lines();
        several.fill(&json!({"name": ["a, b", " c"]})).unwrap();
        assert_eq!(
            (several.value.as_str(), lines("a, b\r\n\n c")),
            ("a, b\n c", vec!["a, b", " c"])
        );
        let mut field = Field::text("name", "Name").at("outer.name");
        assert!(field.fill(&json!({"outer": null})).is_ok());
        assert!(field.fill(&json!({"outer": {}})).is_err() && field.fill(&json!({})).is_err());
        assert!(Field::secret("name", "Name").fill(&json!({})).is_ok());
    }

    #[test]
    fn a_point_in_time_is_entered_to_the_minute_and_kept_as_it_is() {
        for (stored, entered) in [
            ("2031-01-01T09:00:00.000Z", "2031-01-01T09:00"),
            ("2031-01-01T09:00:30.000Z", "2031-01-01T09:00:30"),
            ("2031-01-01T09:00:00.500Z", "2031-01-01T09:00:00.500"),
        ] {
            let mut field = Field::text("at", "At").moment();
            field.fill(&json!({"at": stored})).unwrap();
            assert_eq!(field.value, entered);
            assert_eq!(as_entered(&in_utc(entered)), entered);
        }
        assert_eq!(in_utc("2031-01-01T09:00"), "2031-01-01T09:00:00Z");
        for other in ["2031-01-01T09:00:00Z", "2031-01-01T09:00:00+02:00", "soon", "2031-01-01"] {
            assert_eq!(in_utc(other), other);
        }
    }

    #[test]
    fn a_choice_offers_what_is_stored_in_any_case() {
        let offered = |stored: Value| {
            let mut field = Field::select("role", "Role", [("member", "Member")]);
            field.fill(&json!({"role": stored})).unwrap();
            let all: Vec<_> = field.choices().iter().map(|(value, _)| value.clone()).collect();
            (field.value, all)
        };
        assert_eq!(offered(json!("member")), ("member".into(), vec!["member".to_string()]));
        let both = vec!["member".to_string(), "pilot".into()];
        assert_eq!(offered(json!("pilot")), ("pilot".into(), both));
        assert_eq!(offered(json!(null)), (String::new(), vec!["member".into(), String::new()]));
        let mut field = Field::select("role", "Role", [("member", "Member"), ("pilot", "Pilot")]);
        field = field.at("of.role").unset("pilot");
        field.fill(&json!({"of": null})).unwrap();
        assert_eq!((field.value.as_str(), field.choices().len()), ("pilot", 2));
    }

    #[test]
    fn a_text_that_is_no_number_stays_for_the_api_to_refuse() {
        assert_eq!((number("50"), number("0.5")), (json!(50), json!(0.5)));
        assert_eq!((number("much"), number("")), (json!("much"), json!("")));
        for none in ["inf", "NaN", "1e999"] {
            assert_eq!(number(none), json!(none));
        }
        assert_eq!(words(" a, ,b "), ["a", "b"]);
    }
}
