//! Declared forms: their fields, the route of the API that they are for, and what comes of them.
//!
//! One declaration is the form, filled; what is sent to the API; the problems at their fields; and
//! where it leads to. A form that changes something is made of what is stored ([`Form::change`]), and so
//! always has the digest of what it was made from: it is not saved over what somebody else has changed
//! ([`conflict`](super::conflict)).

use std::pin::Pin;

use askama::Template;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::segment;
use super::choice::Chooser;
use super::conflict::{self, Edited};
use super::field::{self, Field, Input};
use super::flash::Flash;
use super::frame::{Frame, render};
use super::problems::Problems;
use super::reply::Reply;
use super::visit::Visit;
use crate::api::Method;
use crate::base::{Error, Kind, Result};

/// Makes the page of a form, for showing it and for what was sent.
pub type Maker = for<'a> fn(&'a Visit) -> Making<'a>;
/// What a [`Maker`] returns.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<FormPage>> + Send + 'a>>;

/// A form.
pub struct Form {
    method: Method,
    /// The path of the API's route.
    path: String,
    pub fields: Vec<Field>,
    /// What it changes or deletes; `null` of one that creates something.
    stored: Value,
    /// Whether the page has read that itself.
    is_known: bool,
    /// The value of its button, on a page that has several forms and shows their problems itself.
    pub action: &'static str,
    pub button: String,
    /// The digest of what it was made from; empty of one that changes nothing.
    pub was: String,
    /// Where "Cancel" leads; without it there is none.
    pub back: String,
    refined: fn(&Visit, &Value, &mut Value),
    special: Special,
    done: Done,
}

/// What a form changes beside its fields: as it is stored, and as it was sent.
type Special = Box<dyn Fn(&Visit, &Value) -> Vec<Edited> + Send + Sync>;

/// What is shown when a form has done what it says.
enum Done {
    /// A path, in which `{name}` is that of the answer, with a text.
    Page(String, Flash),
    /// What only this answer has.
    Answer(fn(&Visit, &Value) -> Result<Reply>),
}

impl Form {
    fn new(method: Method, path: &str, fields: Vec<Field>, button: &str, stored: Value) -> Self {
        Form {
            method,
            path: path.into(),
            fields,
            stored,
            is_known: false,
            action: "",
            button: button.into(),
            was: String::new(),
            back: String::new(),
            refined: |_, _, _| {},
            special: Box::new(|_, _| Vec::new()),
            done: Done::Answer(|visit, _| Ok(Reply::see_other(visit.path.as_str()))),
        }
    }

    /// A form that posts to a route: it creates something or does something.
    pub fn create(path: &str, fields: Vec<Field>, button: &str) -> Self {
        Form::new(Method::Post, path, fields, button, Value::Null)
    }

    /// A form that changes what is at a path.
    ///
    /// # Errors
    /// Those of the route that reads it.
    pub async fn change(visit: &Visit, path: &str, fields: Vec<Field>) -> Result<Self> {
        Form::of_stored(visit, Method::Patch, path, fields).await
    }

    /// A form that replaces what is at a path as a whole.
    ///
    /// # Errors
    /// Those of the route that reads it.
    pub async fn replace(visit: &Visit, path: &str, fields: Vec<Field>) -> Result<Self> {
        Form::of_stored(visit, Method::Put, path, fields).await
    }

    /// A form that changes what the page knows already, since no route answers it alone.
    ///
    /// # Errors
    /// If it lacks a field, which is a mistake of the page.
    pub fn change_known(path: &str, stored: Value, mut fields: Vec<Field>) -> Result<Self> {
        fields.iter_mut().try_for_each(|field| field.fill(&stored))?;
        let form = Form::new(Method::Patch, path, fields, "Save", stored);
        Ok(Form { is_known: true, ..form })
    }

    async fn of_stored(
        visit: &Visit,
        method: Method,
        path: &str,
        mut fields: Vec<Field>,
    ) -> Result<Self> {
        let stored: Value = visit.api.get(path, &[]).await?;
        fields.iter_mut().try_for_each(|field| field.fill(&stored))?;
        Ok(Form::new(method, path, fields, "Save", stored))
    }

    /// Asks whether what is at a path is to be deleted. Sent twice, it may be gone already: then its
    /// route says what came of it.
    ///
    /// # Errors
    /// Those of the route that reads it.
    pub async fn delete(visit: &Visit, path: &str) -> Result<Self> {
        let stored = Form::unless_gone(visit, visit.api.get(path, &[]).await)?;
        let stored = stored.unwrap_or(Value::Null);
        Ok(Form::new(Method::Delete, path, Vec::new(), "", stored))
    }

    /// What was found of what a page deletes; `None` if it is gone, and a form was sent that deletes it.
    ///
    /// # Errors
    /// Others than that it is gone.
    pub fn unless_gone<T>(visit: &Visit, found: Result<T>) -> Result<Option<T>> {
        match found {
            Err(error) if error.kind() == Kind::NotFound && visit.form.sent("_key").is_some() => {
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// A form that was sent again to delete what is gone, and can no longer be named to its route: it does
    /// nothing, and leads to where it led.
    pub fn gone() -> Self {
        Form::new(Method::Delete, "", Vec::new(), "", Value::Null)
    }

    /// Sets the text of its button.
    pub fn button(mut self, text: impl Into<String>) -> Self {
        self.button = text.into();
        self
    }

    /// Makes it one of several forms of a page, by the value of its button.
    pub fn action(mut self, action: &'static str) -> Self {
        self.action = action;
        self
    }

    /// Sets where "Cancel" leads, if that is not the page above.
    pub fn back(mut self, path: impl Into<String>) -> Self {
        self.back = path.into();
        self
    }

    /// Adds what no field says to what is sent; it gets what is stored, too.
    pub fn refined(mut self, refined: fn(&Visit, &Value, &mut Value)) -> Self {
        self.refined = refined;
        self
    }

    /// Compares what is changed by hand, too.
    pub fn special(
        mut self,
        special: impl Fn(&Visit, &Value) -> Vec<Edited> + Send + Sync + 'static,
    ) -> Self {
        self.special = Box::new(special);
        self
    }

    /// Sets where it leads to, with a text. `{name}` in the path is what the answer has.
    pub fn done(mut self, path: impl Into<String>, flash: Flash) -> Self {
        self.done = Done::Page(path.into(), flash);
        self
    }

    /// Sets what answers it, instead of another page.
    pub fn answered(mut self, answer: fn(&Visit, &Value) -> Result<Reply>) -> Self {
        self.done = Done::Answer(answer);
        self
    }

    /// A value of what it changes or deletes, as text.
    pub fn known(&self, name: &str) -> String {
        field::text_of(&self.stored[name])
    }

    /// What it changes or deletes.
    ///
    /// # Errors
    /// If the API shows something else, which is a mistake of the page.
    pub fn stored<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.stored)
            .map_err(|error| Error::internal(format!("{}: {error}", self.path)))
    }

    /// A page that is this form alone. What is deleted is so by a button with the words of the title.
    pub fn page(mut self, frame: Frame) -> FormPage {
        if self.button.is_empty() {
            self.button = frame.title.strip_suffix('?').unwrap_or(&frame.title).into();
        }
        FormPage { frame, form: self, lead: String::new(), note: "" }
    }

    /// Its id.
    pub fn id(&self) -> &'static str {
        if self.action.is_empty() { "save" } else { self.action }
    }

    /// Whether its button is one to think about.
    pub fn is_destructive(&self) -> bool {
        self.method == Method::Delete
    }

    fn is_change(&self) -> bool {
        matches!(self.method, Method::Patch | Method::Put)
    }

    fn edited(&self, visit: &Visit, stored: &Value) -> Vec<Edited> {
        let fields = self.fields.iter().filter_map(|field| field.edited(visit, stored));
        fields.chain((self.special)(visit, stored)).collect()
    }

    /// Readies it for being shown in a frame, which says why a form failed, if one did.
    pub fn ready(&mut self, mut frame: Frame, visit: &Visit, error: Option<&Error>) -> Frame {
        let is_own = visit.form.get("action") == self.action;
        if is_own {
            frame.problems = labelled(frame.problems, &self.fields);
        }
        if self.choosers().next().is_some() {
            frame = frame.choosing();
        }
        if !self.is_change() {
            return frame;
        }
        let edited = self.edited(visit, &self.stored);
        self.was = conflict::was(visit, error, &edited, is_own);
        if is_own {
            frame = frame.against(error, &edited, self.id(), self.action);
        }
        let has_secret = self.fields.iter().any(|field| matches!(field.input, Input::Secret));
        if let Some(conflict) = frame.conflict.as_mut().filter(|_| is_own && has_secret) {
            // A secret is not shown again: with one press it would be lost.
            conflict.text = conflict::SECRET_IS_MISSING;
            conflict.button.2.clear();
        }
        frame
    }

    /// The fields in which something is chosen.
    pub fn choosers(&self) -> impl Iterator<Item = Chooser> {
        self.fields.iter().filter_map(Field::chooser)
    }

    /// Offers what fits at the fields that were refused; the frame is ready.
    ///
    /// # Errors
    /// See [`Frame::offering`].
    pub async fn offer(&self, frame: Frame, visit: &Visit) -> Result<Frame> {
        if visit.form.get("action") != self.action {
            return Ok(frame);
        }
        let choosers: Vec<_> = self.choosers().collect();
        frame.offering(visit, &choosers).await
    }

    /// What was sent, as its route takes it.
    pub fn body(&self, visit: &Visit) -> Value {
        let mut body = json!({});
        self.fields.iter().for_each(|field| field.put(visit, &mut body, !self.is_change()));
        (self.refined)(visit, &self.stored, &mut body);
        body
    }

    /// Does what it says.
    ///
    /// # Errors
    /// 412 if it changes what somebody else has changed since it was made; those of the route.
    pub async fn send(&self, visit: &Visit) -> Result<Reply> {
        let answer = match self.method {
            Method::Delete if self.path.is_empty() => Value::Null,
            Method::Delete => visit.api.delete(&self.path, &[]).await.map(|()| Value::Null)?,
            Method::Post => visit.api.post(&self.path, self.body(visit)).await?,
            Method::Patch if self.is_known => {
                if conflict::is_outdated(visit, &self.edited(visit, &self.stored)) {
                    return Err(conflict::changed());
                }
                visit.api.patch(&self.path, self.body(visit)).await?
            }
            method => {
                let edited = |stored: &Value| self.edited(visit, stored);
                visit.save_by(method, &self.path, self.body(visit), edited).await?
            }
        };
        match &self.done {
            Done::Page(path, flash) => Ok(visit.done(&filled(path, &answer), *flash)),
            Done::Answer(answered) => answered(visit, &answer),
        }
    }
}

/// Shows problems at these fields, and says them in their words.
pub fn labelled(problems: Problems, fields: &[Field]) -> Problems {
    fields.iter().fold(problems, |problems, field| {
        let renamed = field.paths().fold(problems, |all, path| all.rename(path, field.name));
        renamed.label(field.name, field.label)
    })
}

/// A path with what an answer has for each `{name}` in it.
fn filled(path: &str, answer: &Value) -> String {
    let mut parts = path.split(['{', '}']);
    let mut filled = parts.next().unwrap_or_default().to_string();
    while let Some(name) = parts.next() {
        filled.push_str(&segment(&field::text_of(&answer[name])));
        filled.push_str(parts.next().unwrap_or_default());
    }
    filled
}

/// A page that is a form.
#[derive(Template)]
#[template(path = "form.html")]
pub struct FormPage {
    frame: Frame,
    form: Form,
    /// What is said above it.
    lead: String,
    /// What is said below it.
    note: &'static str,
}

impl FormPage {
    /// Says something above the form: what it is about, what comes of it.
    pub fn lead(mut self, text: impl Into<String>) -> Self {
        self.lead = text.into();
        self
    }

    /// Says something below the form.
    pub fn note(mut self, text: &'static str) -> Self {
        self.note = text;
        self
    }

    async fn show(mut self, visit: &Visit, error: Option<&Error>) -> Result<Reply> {
        if visit.membership.is_some() {
            visit.require(self.form.method, &self.form.path)?;
        }
        if self.form.back.is_empty() {
            let above = self.frame.crumbs.last().map(|(_, path)| path.clone());
            let is_new = self.form.stored.is_null();
            self.form.back = if is_new { above.unwrap_or_default() } else { visit.above().into() };
        }
        let frame = self.form.ready(self.frame.failed(error), visit, error);
        self.frame = self.form.offer(frame, visit).await?;
        render(self.frame.status, &self)
    }
}

/// Shows the form of a page, or does what it says.
///
/// # Errors
/// Those of the routes, if they are about more than the form.
pub async fn answer(make: Maker, visit: &Visit, is_sent: bool) -> Result<Reply> {
    let page = make(visit).await?;
    if !is_sent {
        return page.show(visit, None).await;
    }
    match page.form.send(visit).await {
        Err(error) if error.kind() == Kind::NotFound && page.form.is_destructive() => Err(error),
        Err(error) => {
            let error = visit.failed(error)?;
            make(visit).await?.show(visit, error.as_ref()).await
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_filled_with_what_an_answer_has() {
        let answer = json!({"slug": "a/b {c}", "number": 7});
        assert_eq!(
            filled("/teams/{slug}/tasks/{number}", &answer),
            "/teams/a%2Fb%20%7Bc%7D/tasks/7"
        );
        assert_eq!(filled("/plain", &answer), "/plain");
    }
}
