//! A visit: a request to a page, with who makes it.

use std::sync::Arc;

use serde::Deserialize;

use super::api::{Api, SESSION};
use super::cookies::Jar;
use super::fields::Fields;
use super::first_visit::FirstVisit;
use super::flash::Flash;
use super::multipart::SentFile;
use super::problems::is_about_the_form;
use super::reply::Reply;
use super::strict::Nullable;
use crate::api::Method;
use crate::auth::Role;
use crate::base::{Error, Kind, Result, Time};
use crate::http::{Asker, SentBytes};

/// A request to a page.
pub struct Visit {
    /// The path of the page.
    pub path: String,
    /// The path with the query, as it was asked for.
    pub target: String,
    /// The parameters of the path, decoded.
    pub params: Vec<String>,
    pub query: Fields,
    /// The fields that were sent or, on a page that is shown again, that it is filled with.
    pub form: Fields,
    /// The files that were sent with them.
    pub files: Vec<SentFile>,
    /// Whether the form has files that are too large, so that nothing of it was read.
    pub is_too_large: bool,
    /// The form as it was sent, with the memory that it takes.
    pub(super) body: Option<SentBytes>,
    /// The API, called for the visitor.
    pub api: Api,
    /// Who visits, if they are signed in.
    pub session: Option<CurrentSession>,
    /// The visitor's membership in the organization of the page.
    pub membership: Option<Membership>,
    /// How much waits for them there, for people: empty if nothing does.
    pub waits: String,
    /// The text that an earlier form left.
    pub flash: Option<&'static str>,
    /// The attempt to sign in with a provider that the browser keeps; empty without one.
    pub attempt: String,
    /// What the browser keeps to link an account of a provider; empty without.
    pub confirmation: String,
    /// The theme that the visitor chose.
    pub theme: Option<&'static str>,
    /// The link that signs in once, where the program has made one.
    pub first_visit: Option<Arc<FirstVisit>>,
    /// Whether the page is shown in answer to a request for another.
    pub is_elsewhere: bool,
    /// Whether the editor wraps lines.
    pub wraps: bool,
    /// Who awaits the answer, if that can be told.
    pub(super) asker: Option<Asker>,
    pub(super) jar: Jar,
    /// What tokens of forms are bound to.
    pub(super) bound_to: String,
    /// Whether the browser calls the connection safe, or is too old to say.
    pub is_private: bool,
}

/// The session of a visitor, as the API describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentSession {
    pub user: User,
    pub memberships: Vec<Membership>,
    /// Whether they administer the installation.
    pub installation_admin: bool,
    pub expires_at: Time,
    /// When they last proved who they are.
    pub proved_at: Time,
    pub has_password: bool,
    /// The provider at which signing out here signs out, too.
    pub sign_out_provider: Nullable<String>,
}

/// The visitor.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    pub id: String,
    pub email: String,
    pub name: String,
}

/// A membership of the visitor.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    pub org_slug: String,
    pub org_name: String,
    pub role: Role,
    /// Whether the organization requires a second factor.
    pub second_factor_required: bool,
}

/// The parameter of a list in the opposite order.
pub const REVERSED: (&str, &str) = ("reversed", "true");

/// The parameter of a list that is counted.
pub const TOTAL: (&str, &str) = ("total", "true");

/// How much waits, as the API counts it: of each kind to a bound.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    deployments: usize,
    label_changes: usize,
    approvals: usize,
    messages: usize,
    peers: usize,
    tasks: usize,
}

impl Counts {
    /// The API counts no further.
    const BOUND: usize = 10;

    fn figure(self) -> String {
        let Counts { deployments, label_changes, approvals, messages, peers, tasks } = self;
        let all = [deployments, label_changes, approvals, messages, peers, tasks];
        match all.iter().sum::<usize>() {
            0 => String::new(),
            sum if all.contains(&Counts::BOUND) => format!("{sum}+"),
            sum => sum.to_string(),
        }
    }
}

impl Visit {
    /// A visit of someone who is not signed in.
    pub(super) fn new(
        api: Api,
        jar: Jar,
        path: String,
        target: String,
        params: Vec<String>,
        query: Fields,
    ) -> Self {
        Visit {
            path,
            target,
            params,
            query,
            form: Fields::default(),
            files: Vec::new(),
            is_too_large: false,
            body: None,
            api,
            session: None,
            membership: None,
            waits: String::new(),
            flash: None,
            attempt: String::new(),
            confirmation: String::new(),
            theme: None,
            first_visit: None,
            is_elsewhere: false,
            wraps: true,
            asker: None,
            jar,
            bound_to: String::new(),
            is_private: false,
        }
    }

    /// Reads how much waits for the visitor in the organization of the page.
    pub(super) async fn count(&mut self) {
        // A page neither waits nor is refused because a figure beside it cannot be counted.
        let counts: Option<Counts> = self.api.get_light("/waiting").await.ok();
        self.waits = counts.map(|counts| counts.figure()).unwrap_or_default();
    }

    /// Takes a session's token for the visitor's, if its session is valid.
    ///
    /// # Errors
    /// 429, and if the store fails.
    pub(super) async fn sign_in(&mut self, token: &str) -> Result<()> {
        match self.api.authenticate(token).await {
            Ok(()) => {}
            Err(error) if error.kind() == Kind::Unauthenticated => return Ok(()),
            Err(error) => return Err(error),
        }
        self.session = Some(self.api.get(SESSION, &[]).await?);
        self.bound_to = token.into();
        Ok(())
    }

    /// Says that the visit begins to wait: it ends if the browser goes away.
    pub fn begin_waiting(&self) {
        if let Some(asker) = &self.asker {
            asker.wait();
        }
    }

    /// A parameter of the path.
    pub fn param(&self, index: usize) -> &str {
        self.params.get(index).map_or("", String::as_str)
    }

    /// The membership in the organization of the page.
    pub fn member(&self) -> &Membership {
        self.membership.as_ref().expect("pages of an organization are for its members")
    }

    /// The visitor's session, on pages for whoever is signed in.
    pub fn signed_in(&self) -> &CurrentSession {
        self.session.as_ref().expect("the page is for whoever is signed in")
    }

    /// A path below that of the organization.
    pub fn in_org(&self, path: &str) -> String {
        format!("/o/{}{path}", self.member().org_slug)
    }

    /// Where the page of a list begins, as the API takes it.
    pub fn cursor(&self) -> Option<(&str, &str)> {
        self.query.some("cursor").map(|cursor| ("cursor", cursor))
    }

    /// Where the page of a list begins, in which order, and whether it is to be counted, which takes the
    /// server longer than the page: for routes that take that.
    pub fn walk(&self) -> Vec<(&str, &str)> {
        let is_reversed = self.query.get(REVERSED.0) == REVERSED.1;
        let order = Some(REVERSED).filter(|_| is_reversed);
        let total = Some(TOTAL).filter(|_| self.query.get(TOTAL.0) == TOTAL.1);
        self.cursor().into_iter().chain(order).chain(total).collect()
    }

    /// The path without its last segment: the page of what this one changes or deletes.
    pub fn above(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(above, _)| above)
    }

    /// Whether the visitor's role lets them call a route.
    pub fn may(&self, method: Method, path: &str) -> bool {
        let of_installation =
            self.session.as_ref().is_some_and(|session| session.installation_admin);
        self.membership
            .as_ref()
            .is_some_and(|member| self.api.may(method, path, member.role, of_installation))
    }

    /// Requires what [`Visit::may`] says, for a page that is a form alone.
    ///
    /// # Errors
    /// 403 otherwise, as the route would.
    pub fn require(&self, method: Method, path: &str) -> Result<()> {
        if self.may(method, path) {
            return Ok(());
        }
        self.api.require_role(method, path, self.member().role)?;
        Err(Error::forbidden(
            "admin_required",
            "only an owner or admin of the organization may do this",
        ))
    }

    /// An error that a form is shown again with.
    ///
    /// # Errors
    /// The error itself, if it has a page of its own.
    pub fn failed(&self, error: Error) -> Result<Option<Error>> {
        if is_about_the_form(&error) { Ok(Some(error)) } else { Err(error) }
    }

    /// Goes to a page after a form has done what it says.
    pub fn done(&self, path: &str, flash: Flash) -> Reply {
        Reply::see_other(path).flash(flash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_to_a_bound_is_at_least_that() {
        let (deployments, label_changes, approvals, messages, peers, tasks) = (0, 0, 0, 0, 0, 0);
        let none = Counts { deployments, label_changes, approvals, messages, peers, tasks };
        let figure =
            |messages| Counts { deployments: 1, messages, peers: 1, tasks: 1, ..none }.figure();
        assert_eq!([figure(0), figure(9), figure(10)], ["3", "12", "13+"]);
        assert_eq!(none.figure(), "");
    }
}
