//! From a visit to the reply of its page: who may open it, whether a form is from there, and what
//! becomes of a form whose session is over.

use super::errors;
use super::fields::Fields;
use super::form;
use super::guard::{FormTokens, local};
use super::page::Page;
use super::pages::{confirm_identity, sign_in};
use super::paths::Paths;
use super::reply::{Reply, SessionChange};
use super::visit::Visit;
use crate::auth::PROOF_REQUIRED;
use crate::base::{Kind, Result};
use crate::http::log_failure;

const OF_ANOTHER_SESSION: &str = "Nothing was done, because you have signed in since this form was \
                                  opened. Check it and send it again.";
const RESUMED: &str =
    "You are signed in again. What you had entered is below, and was not sent yet.";

const CONFIRMED: &str =
    "You have confirmed that it is you. What you had entered is below, and was not sent yet.";

/// A page to be answered.
pub struct Dispatch<'a> {
    pub paths: &'a Paths,
    pub page: &'static Page,
}

impl Dispatch<'_> {
    /// Answers a GET.
    pub async fn get(&self, visit: &mut Visit) -> Reply {
        if self.needs_session(visit) {
            return sign_in::redirect(&visit.target);
        }
        let reply = match visit.api.calls.read_at_once().await {
            Ok(()) => run(self.page, false, visit).await,
            Err(error) => Err(error),
        };
        reply.unwrap_or_else(|error| match error.kind() {
            Kind::Unauthenticated if self.page.audience.signs_in() => {
                sign_in::redirect(&visit.target)
            }
            _ => failed(visit, &error),
        })
    }

    /// Answers a POST.
    pub async fn post(&self, visit: &mut Visit) -> Reply {
        if visit.is_too_large {
            // Its token was not read either: nothing is done, and the page says why.
            return self.get(visit).await;
        }
        // Before the form is carried through a sign-in: what was picked in it is what it says.
        visit.form = std::mem::take(&mut visit.form).picked();
        if self.needs_session(visit) {
            return sign_in::carrying(visit).unwrap_or_else(|error| failed(visit, &error));
        }
        if self.page.is_of_servers {
            return run(self.page, true, visit).await.unwrap_or_else(|error| failed(visit, &error));
        }
        let keys = visit.api.calls.executor.store.keys();
        let tokens = FormTokens { keys, bound_to: &visit.bound_to };
        if !tokens.is_valid(visit.form.get("_token")) {
            visit.flash = Some(OF_ANOTHER_SESSION);
            let page = visit.form.get("_return").to_string();
            return self.show(visit, &page).await;
        }
        visit.api.idempotency_key = visit.form.some("_key").map(String::from);
        match run(self.page, true, visit).await {
            Ok(mut reply) => match reply.resumes.take() {
                Some(page) => self.resume(visit, &page, reply).await,
                None => reply,
            },
            Err(error) if error.code() == PROOF_REQUIRED => {
                let asked = confirm_identity::carrying(visit, &error).await;
                asked.unwrap_or_else(|error| failed(visit, &error))
            }
            Err(error) if error.kind() == Kind::Unauthenticated => {
                sign_in::carrying(visit).unwrap_or_else(|error| failed(visit, &error))
            }
            Err(error) => failed(visit, &error),
        }
    }

    fn needs_session(&self, visit: &Visit) -> bool {
        self.page.audience.signs_in() && visit.session.is_none()
    }

    /// Shows the form that was sent when its session was over, or its proof too old, filled as it was: in
    /// the new session, or in the one that was confirmed.
    async fn resume(&self, visit: &mut Visit, page: &str, reply: Reply) -> Reply {
        visit.form = visit.form.below(sign_in::CARRIED);
        visit.api.idempotency_key = None;
        visit.flash = Some(CONFIRMED);
        if let SessionChange::Begun(token) = &reply.session {
            if let Err(error) = visit.sign_in(token).await {
                return failed(visit, &error);
            }
            visit.flash = Some(RESUMED);
        }
        self.show(visit, page).await.session(reply.session)
    }

    /// Shows another page than the visit was to.
    async fn show(&self, visit: &mut Visit, target: &str) -> Reply {
        let target = local(target);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let Some((page, params)) = self.paths.find(path) else { return Reply::see_other("/") };
        visit.is_elsewhere = target != visit.target;
        visit.path = path.into();
        visit.query = Fields::parse(query.as_bytes()).picked();
        visit.params = params;
        visit.membership = None;
        visit.target.clone_from(&target);
        let shown = Dispatch { paths: self.paths, page };
        if shown.needs_session(visit) {
            return sign_in::redirect(&target);
        }
        run(page, false, visit).await.unwrap_or_else(|error| failed(visit, &error))
    }
}

/// Has a page answer, once the visitor is found to be among its audience.
async fn run(page: &Page, is_post: bool, visit: &mut Visit) -> Result<Reply> {
    if page.audience.is_of_org() {
        let slug = visit.param(0).to_string();
        let memberships = visit.session.iter().flat_map(|session| &session.memberships);
        let found = memberships.into_iter().find(|member| member.org_slug == slug).cloned();
        visit.membership = Some(found.ok_or_else(errors::no_such_page)?);
        visit.api.org_slug = Some(slug);
        // What a form does is not held up by a figure.
        if !is_post {
            visit.count().await;
        }
    }
    if let Some(maker) = page.form {
        return form::answer(maker, visit, is_post).await;
    }
    let handler = if is_post { page.post } else { page.get };
    let handler = handler.ok_or_else(errors::no_such_page)?;
    handler(visit).await
}

fn failed(visit: &Visit, error: &crate::base::Error) -> Reply {
    let origin = &visit.api.calls.origin;
    log_failure(error, &origin.request_id, origin.trace);
    errors::page(visit, error)
}
