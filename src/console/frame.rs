//! The frame around every page: title, navigation, breadcrumbs, and what its forms need.

use hyper::StatusCode;

use super::ago;
use super::assets;
use super::choice::Offer;
use super::conflict::{self, Conflict, Edited};
use super::fields::Fields;
use super::flash::Flash;
use super::guard::FormTokens;
use super::problems::Problems;
use super::reply::Reply;
use super::sections::{self, Section};
use super::visit::{Membership, REVERSED, TOTAL, User, Visit};
use crate::auth::Role;
use crate::base::{Error, Result, Time};

/// What every template has as `frame`.
pub struct Frame {
    pub title: String,
    /// The path with the query, to which forms return.
    pub here: String,
    pub path: String,
    /// The sections of the organization.
    pub sections: Vec<Section>,
    /// The pages beside this one: label, path, and whether it is this.
    pub tabs: Vec<(&'static str, String, bool)>,
    /// The pages above this one.
    pub crumbs: Vec<(String, String)>,
    pub theme: Option<&'static str>,
    pub user: Option<User>,
    pub member: Option<Membership>,
    /// Whether the visitor may change what is the organization's, where every member may: controls for
    /// that are absent for a viewer.
    pub may_write: bool,
    /// How much waits for the visitor; empty if nothing does.
    pub waits: String,
    /// The visitor's other organizations.
    pub others: Vec<Membership>,
    /// The text that an earlier form left.
    pub flash: Option<&'static str>,
    /// Whether that form's text is on the server: the browser need not keep it any longer.
    pub is_draft_accepted: bool,
    /// The token of each form.
    pub token: String,
    /// The idempotency key of each form.
    pub key: String,
    /// What is wrong with the form that was sent.
    pub problems: Problems,
    /// What somebody else has saved meanwhile, if that is what is wrong with it.
    pub conflict: Option<Conflict>,
    /// What a page of an artifact is about: its registry, its name and its type. Empty on other pages.
    pub artifact: [String; 3],
    /// What fits in fields that were refused.
    pub offers: Vec<Offer>,
    /// The digest of what the form edits; empty of one that creates something.
    pub was: String,
    /// The values that the form is filled with.
    pub form: Fields,
    /// What the query of the page says.
    pub query: Fields,
    pub styles: &'static str,
    pub icon: &'static str,
    /// Paths of the page's scripts.
    pub scripts: Vec<&'static str>,
    pub status: StatusCode,
    /// When it is shown.
    pub now: Time,
    /// Whether the page changes by itself while it is open.
    pub is_live: bool,
    /// Whether the browser has asked for another address than that of the page.
    pub is_elsewhere: bool,
}

/// The scripts of every page; `submit` says first where it is.
const SCRIPTS: [&str; 4] = ["submit", "time", "keys", "copy"];
/// That of every page of an organization, which is told there of changes.
const LIVE: &str = "live";

impl Visit {
    /// The frame of a page with this title.
    pub fn frame(&self, title: &str) -> Frame {
        Frame::new(self, title)
    }
}

impl Frame {
    fn new(visit: &Visit, title: &str) -> Self {
        let clock = visit.api.calls.executor.store.clock();
        let tokens =
            FormTokens { keys: visit.api.calls.executor.store.keys(), bound_to: &visit.bound_to };
        let member = visit.membership.clone();
        let slug = member.as_ref().map(|member| member.org_slug.clone());
        let all = visit.session.iter().flat_map(|session| &session.memberships);
        let others = all.filter(|other| Some(&other.org_slug) != slug.as_ref()).cloned().collect();
        Frame {
            title: title.into(),
            here: visit.target.clone(),
            path: visit.path.clone(),
            sections: slug.map(|slug| sections::of(&slug, &visit.path)).unwrap_or_default(),
            tabs: Vec::new(),
            crumbs: Vec::new(),
            theme: visit.theme,
            user: visit.session.as_ref().map(|session| session.user.clone()),
            may_write: member.as_ref().is_none_or(|member| member.role >= Role::Member),
            scripts: SCRIPTS
                .into_iter()
                .chain(member.as_ref().map(|_| LIVE))
                .map(assets::path)
                .collect(),
            member,
            waits: visit.waits.clone(),
            others,
            flash: visit.flash,
            is_draft_accepted: visit.flash.is_some_and(Flash::accepts_draft),
            token: tokens.make(clock.random()),
            key: clock.new_id().to_string(),
            problems: Problems::default(),
            conflict: None,
            artifact: Default::default(),
            offers: Vec::new(),
            was: String::new(),
            form: visit.form.clone(),
            query: visit.query.clone(),
            styles: assets::path("console"),
            icon: assets::path("icon"),
            status: StatusCode::OK,
            now: clock.now(),
            is_live: false,
            is_elsewhere: visit.is_elsewhere,
        }
    }

    /// Adds a page above this one.
    pub fn crumb(mut self, label: impl Into<String>, path: impl Into<String>) -> Self {
        self.crumbs.push((label.into(), path.into()));
        self
    }

    /// Shows links to the pages beside this one; paths are below the organization's.
    pub fn tabs(mut self, tabs: &[(&'static str, &str)]) -> Self {
        let slug = self.member.as_ref().map_or("", |member| &member.org_slug);
        let tab = |(label, path): &(&'static str, &str)| {
            let path = format!("/o/{slug}{path}");
            let is_current = self.path.starts_with(&path);
            (*label, path, is_current)
        };
        self.tabs = tabs.iter().map(tab).collect();
        self
    }

    /// Adds a script.
    pub fn script(mut self, name: &str) -> Self {
        self.scripts.push(assets::path(name));
        self
    }

    /// Shows what changes while the page is open: its elements with `data-live` and an id are
    /// replaced.
    pub fn live(self) -> Self {
        Frame { is_live: true, ..self }
    }

    /// Shows why the form failed, if it did.
    pub fn failed(mut self, error: Option<&Error>) -> Self {
        if let Some(error) = error {
            self.status = crate::http::status(error.kind());
            self.problems = Problems::of(error);
        }
        self
    }

    /// Guards the page's form, whose id is `save`, against changes of somebody else to these values;
    /// shows them if the form failed because of one.
    pub fn edits(mut self, visit: &Visit, error: Option<&Error>, edited: &[Edited]) -> Self {
        self.was = conflict::was(visit, error, edited, true);
        self.against(error, edited, "save", "")
    }

    /// Shows what somebody else has changed, if the form with this id failed because of that. `action`
    /// is the value of its button.
    pub fn against(
        mut self,
        error: Option<&Error>,
        edited: &[Edited],
        form: &str,
        action: &str,
    ) -> Self {
        if conflict::is_conflict(error) {
            self.problems = Problems::default();
            self.conflict = Some(Conflict {
                title: "It has changed since you opened it".into(),
                text: conflict::SAVED,
                parts: conflict::parts(edited),
                form: form.into(),
                button: ("action", action.into(), "Save mine over it".into()),
                keep: self.here.clone(),
            });
        }
        self
    }

    /// Shows the problems of the API's field `path` at the form's field `name`.
    pub fn rename(mut self, path: &'static str, name: &'static str) -> Self {
        self.problems = std::mem::take(&mut self.problems).rename(path, name);
        self
    }

    /// Calls the form's field `name` by its label in what is said of its problems.
    pub fn label(mut self, name: impl Into<String>, label: impl Into<String>) -> Self {
        self.problems = std::mem::take(&mut self.problems).label(name, label);
        self
    }

    /// The value of a form's field: what was sent or, before that, its default.
    pub fn value<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.form.sent(name).unwrap_or(default)
    }

    /// Whether one of several values of a form's field is chosen.
    pub fn is_chosen(&self, name: &str, value: &str, default: &str) -> bool {
        self.value(name, default) == value
    }

    /// Whether a box of a form is checked.
    pub fn is_checked(&self, name: &str, default: bool) -> bool {
        match self.form.sent(&format!("has.{name}")) {
            Some(_) => self.form.sent(name).is_some(),
            None => default,
        }
    }

    /// The path of the next page of a list: this one with its filters, from a cursor on.
    pub fn next_page(&self, cursor: &str) -> String {
        self.with_parameter("cursor", cursor)
    }

    /// Whether the list of the page is in the opposite order.
    pub fn is_reversed(&self) -> bool {
        self.query.get(REVERSED.0) == REVERSED.1
    }

    /// The path of this page with its filters and its list in the other order, from the beginning on.
    pub fn turned(&self) -> String {
        let is_filter = |(name, value): &(&str, &str)| {
            !["cursor", REVERSED.0, TOTAL.0].contains(name) && !value.is_empty()
        };
        let order = Some(REVERSED).filter(|_| !self.is_reversed());
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(self.query.pairs().filter(is_filter))
            .extend_pairs(order)
            .finish();
        if query.is_empty() { self.path.clone() } else { format!("{}?{query}", self.path) }
    }

    /// This page with its filters, from an offset on.
    pub fn page_at(&self, offset: impl std::fmt::Display) -> String {
        self.with_parameter("offset", &offset.to_string())
    }

    /// Whether the list of the page is shown from its beginning on.
    pub fn is_first(&self) -> bool {
        self.query.some("cursor").is_none()
    }

    /// This page with its list counted.
    pub fn counted(&self) -> String {
        self.with_parameter(TOTAL.0, TOTAL.1)
    }

    /// This page with its filters, and this parameter. Another page of a list is not counted for that.
    fn with_parameter(&self, parameter: &str, value: &str) -> String {
        let is_filter = |(name, value): &(&str, &str)| {
            ![parameter, TOTAL.0].contains(name) && !value.is_empty()
        };
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(self.query.pairs().filter(is_filter))
            .append_pair(parameter, value)
            .finish();
        format!("{}?{query}", self.path)
    }

    /// The name of the section that the page is in.
    pub fn section(&self) -> &'static str {
        self.sections.iter().find(|section| section.is_current).map_or("", |section| section.label)
    }

    /// How long ago a time is.
    pub fn ago(&self, at: &Time) -> String {
        ago::ago(*at, self.now)
    }

    /// The visitor's initials.
    pub fn initials(&self) -> String {
        let name = self.user.as_ref().map_or("", |user| user.name.as_str());
        let letters = name.split_whitespace().filter_map(|word| word.chars().next());
        letters.take(2).flat_map(char::to_uppercase).collect()
    }

    /// The version of the server.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// Renders a page.
///
/// # Errors
/// If a template fails, which is a mistake of the page.
pub fn render(frame_status: StatusCode, template: &impl askama::Template) -> Result<Reply> {
    let html = template.render();
    let html = html.map_err(|error| Error::internal(format!("a page cannot be shown: {error}")))?;
    Ok(Reply::html(frame_status, html))
}
