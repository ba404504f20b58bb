//! The declaration of a page: its path, who may see it, and what answers it.

use std::pin::Pin;

use super::form::Maker;
use super::reply::Reply;
use super::visit::Visit;
use crate::base::Result;
use crate::http::{MAX_FORM_BYTES, MAX_OPEN_BODY_BYTES};

/// What answers a visit. An error becomes a page that says it.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Reply>> + Send + 'a>>;
/// A function that answers visits.
pub type Handler = for<'a> fn(&'a Visit) -> Answer<'a>;

/// Who may open a page. What they may see and do there is for the API to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Anyone,
    /// Whoever is signed in.
    SignedIn,
    /// Members of the organization that the first parameter of the path names.
    Members,
    /// The same, and nobody else is asked to sign in for it.
    MembersOnly,
}

impl Audience {
    /// Whether it is members of an organization.
    pub fn is_of_org(self) -> bool {
        matches!(self, Audience::Members | Audience::MembersOnly)
    }

    /// Whether whoever is not signed in is asked to.
    pub fn signs_in(self) -> bool {
        matches!(self, Audience::SignedIn | Audience::Members)
    }
}

/// A page, or a form that is sent to its path, or both.
pub struct Page {
    /// Its path, in matchit's form.
    pub path: &'static str,
    pub audience: Audience,
    pub get: Option<Handler>,
    pub post: Option<Handler>,
    /// What makes its form, of a page that is one alone: it answers both.
    pub form: Option<Maker>,
    pub open_before_setup: bool,
    /// The path of the API's route that takes the file of its form, if that may have one.
    pub upload: Option<&'static str>,
    /// Whether its form comes from another server, and not from a page in a browser: neither cookies nor the
    /// token of a form count, and what it says proves itself.
    pub is_of_servers: bool,
    /// Whether its form brings along that of another page, whose session has ended.
    pub carries_forms: bool,
}

impl Page {
    /// A page for anyone.
    pub const fn open(path: &'static str) -> Self {
        Page::new(path, Audience::Anyone)
    }

    /// A page for whoever is signed in.
    pub const fn signed_in(path: &'static str) -> Self {
        Page::new(path, Audience::SignedIn)
    }

    /// A page of an organization; its path begins with `/o/{org}`.
    pub const fn of_org(path: &'static str) -> Self {
        Page::new(path, Audience::Members)
    }

    /// What is at a path of an organization where no page is.
    pub const fn missing(path: &'static str, handler: Handler) -> Self {
        Page::new(path, Audience::MembersOnly).get(handler).post(handler)
    }

    const fn new(path: &'static str, audience: Audience) -> Self {
        Page {
            path,
            audience,
            get: None,
            post: None,
            form: None,
            open_before_setup: false,
            upload: None,
            is_of_servers: false,
            carries_forms: false,
        }
    }

    /// The limit of its form, without a file. A page for those who are signed in takes as much of
    /// whoever is not: what they filled in a session that has ended since is not lost.
    pub fn max_form_bytes(&self) -> usize {
        let is_open = self.audience == Audience::Anyone && !self.carries_forms;
        if is_open { MAX_OPEN_BODY_BYTES } else { MAX_FORM_BYTES }
    }

    /// Lets its form bring along that of another page.
    pub const fn carries_forms(mut self) -> Self {
        self.carries_forms = true;
        self
    }

    /// Sets what shows it.
    pub const fn get(mut self, handler: Handler) -> Self {
        self.get = Some(handler);
        self
    }

    /// Sets what does what its form says.
    pub const fn post(mut self, handler: Handler) -> Self {
        self.post = Some(handler);
        self
    }

    /// Sets what makes the form that it is.
    pub const fn form(mut self, maker: Maker) -> Self {
        self.form = Some(maker);
        self
    }

    /// Takes a form with a file, which the route at this path of the API limits.
    pub const fn upload(mut self, path: &'static str) -> Self {
        self.upload = Some(path);
        self
    }

    /// Takes forms that another server sends, which proves itself by what it says.
    pub const fn of_servers(mut self) -> Self {
        self.is_of_servers = true;
        self
    }

    /// Serves it before the server is set up.
    pub const fn open_before_setup(mut self) -> Self {
        self.open_before_setup = true;
        self
    }
}
