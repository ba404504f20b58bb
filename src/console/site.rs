//! The console as a [`Site`]: from a request to a visit, and from the reply of its page to a response.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::Full;
use hyper::header::{
    CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, SET_COOKIE,
    WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use super::api::Api;
use super::cookies::{Cookie, Jar, is_forwarded_tls};
use super::dispatch::Dispatch;
use super::fields::Fields;
use super::first_visit::FirstVisit;
use super::flash::Flash;
use super::guard::{local, require_same_origin};
use super::multipart::SentFile;
use super::page::{Audience, Page};
use super::paths::{MISSING, Paths};
use super::reply::{Content, Reply, SessionChange};
use super::visit::Visit;
use super::{assets, compress, errors, headers, multipart, pages};
use crate::api::Origin;
use crate::auth::oidc::ATTEMPT_SECS;
use crate::auth::{Identity, SESSION_SECS};
use crate::base::{Error, Kind, Result};
use crate::http::{
    Asker, ResponseBody, Site, SiteBody, SiteFuture, SitePath, SiteReply, SiteRequest,
    is_at_other_port, user_agent,
};

/// How long a visitor's cookie, the theme and the choice of lines last.
const YEAR_SECS: i64 = 365 * 24 * 3600;
/// The text of a form is shown within a minute, or never.
const FLASH_SECS: i64 = 60;

/// Removes drafts of forms from a browser whose visitor signs out, and pages that it would show again
/// when going back.
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
const ALL_DATA: HeaderValue = HeaderValue::from_static("\"cache\", \"storage\"");
const CACHED_DATA: HeaderValue = HeaderValue::from_static("\"cache\"");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"roadstead\"");

/// The web console.
pub struct Console {
    paths: Paths,
    first_visit: Option<Arc<FirstVisit>>,
}

impl Console {
    /// Creates the console, with the link that signs in once, if there is one.
    ///
    /// # Errors
    /// If the paths of two pages are ambiguous.
    pub fn new(first_visit: Option<Arc<FirstVisit>>) -> Result<Self> {
        Ok(Console { paths: Paths::new()?, first_visit })
    }
}

impl Site for Console {
    fn patterns(&self) -> Vec<&'static str> {
        let others = [assets::PATTERN, MISSING.path];
        pages::all().map(|page| page.path).chain(others).collect()
    }

    fn find(&self, path: &str) -> Option<SitePath> {
        let asset = SitePath {
            pattern: assets::PATTERN,
            is_read: true,
            is_posted: false,
            open_before_setup: true,
        };
        if assets::exists(path) {
            return Some(asset);
        }
        self.paths.find(path).map(|(page, _)| SitePath {
            pattern: page.path,
            is_read: page.get.is_some() || page.form.is_some(),
            is_posted: page.post.is_some() || page.form.is_some(),
            open_before_setup: page.open_before_setup,
        })
    }

    fn answer<'a>(&'a self, request: SiteRequest<'a>) -> SiteFuture<'a> {
        Box::pin(answer(self, request))
    }

    fn error_page(&self, error: &Error, request_id: &str) -> Response<ResponseBody> {
        let mut response = response_of(errors::bare(error, request_id));
        headers::secure(&mut response, false);
        response
    }
}

async fn answer(console: &Console, request: SiteRequest<'_>) -> SiteReply {
    let sent = &request.head.headers;
    if let Some(response) = assets::response(request.path, sent) {
        return SiteReply { response, caller: None };
    }
    let jar = Jar::new(sent, request.is_tls, request.executor.authenticator.installation());
    let is_behind_tls = jar.is_secure() && is_behind_tls(&request);
    let (mut cookies, head) = (Vec::new(), request.head);
    let (reply, caller) = if is_cut_off(console, &request, &jar) {
        (errors::refresh(&target(request.head)), None)
    } else {
        reply(console, request, &jar, &mut cookies).await
    };
    cookies.extend(cookies_of(&reply, &jar));
    let encoding = compress::encode(&reply, head);
    let mut response = response_of(reply);
    encoding.put(&mut response);
    headers::secure(&mut response, is_behind_tls);
    for cookie in &cookies {
        if let Ok(cookie) = HeaderValue::from_str(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    SiteReply { response, caller }
}

/// Whether a proxy in front has TLS, for which browsers trust it: `--public-url` says so, or the proxy does.
/// Not at another port than that of https, since what browsers are told is of all ports of a host. For the
/// server's own TLS the server answers itself (`http`).
fn is_behind_tls(request: &SiteRequest<'_>) -> bool {
    let headers = &request.head.headers;
    let is_strict = match request.link_base.strip_prefix("https://") {
        Some(host) => {
            let host = host.strip_suffix(":443").unwrap_or(host);
            host.ends_with(']') || !host.contains(':')
        }
        None => is_forwarded_tls(headers) && !is_at_other_port(headers),
    };
    !request.is_tls && is_strict
}

/// Path and query of a request.
fn target(head: &Parts) -> String {
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    local(target)
}

/// Whether the browser keeps the session's cookie back because a link of another site led here. It
/// sends it with the next request, which the page's own refresh makes.
fn is_cut_off(console: &Console, request: &SiteRequest, jar: &Jar) -> bool {
    let sent = &request.head.headers;
    let is_foreign = sent.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    let needs_session =
        console.paths.find(request.path).is_some_and(|(page, _)| page.audience != Audience::Anyone);
    is_foreign
        && needs_session
        && request.head.method != Method::POST
        && jar.get(sent, Cookie::Session).is_none()
}

/// Makes a visit of a request, and has it answered.
async fn reply(
    console: &Console,
    request: SiteRequest<'_>,
    jar: &Jar,
    cookies: &mut Vec<String>,
) -> (Reply, Option<Arc<Identity>>) {
    let is_post = request.head.method == Method::POST;
    let Some((page, params)) = console.paths.find(request.path) else {
        return (errors::bare(&errors::no_such_page(), request.request_id), None);
    };
    let SiteRequest { head, path, body, address, request_id, trace, is_tls, link_base, .. } =
        request;
    let SiteRequest { executor, router, .. } = request;
    let user_agent = user_agent(&head.headers);
    let origin = Origin { address, link_base, request_id: request_id.into(), trace, user_agent };
    let api = Api::new(executor.clone(), router.clone(), origin);
    let target = target(head);
    let query = Fields::parse(head.uri.query().unwrap_or_default().as_bytes()).picked();
    let mut visit = Visit::new(api, jar.clone(), path.into(), target, params, query);
    visit.first_visit = console.first_visit.clone();
    visit.asker = Asker::of(head).cloned();
    let form = is_post.then_some(Form { body, is_tls });
    let entered = enter(&mut visit, page, &head.headers, form, cookies).await;
    if let Err(error) = entered {
        let caller = visit.api.calls.identity();
        return (errors::page(&visit, &error), caller);
    }
    let dispatch = Dispatch { paths: &console.paths, page };
    let reply =
        if is_post { dispatch.post(&mut visit).await } else { dispatch.get(&mut visit).await };
    // A page on the way to another leaves the text to that.
    if visit.flash.is_some() && matches!(reply.content, Content::Html(_)) {
        cookies.push(jar.remove(Cookie::Flash));
    }
    (reply, visit.api.calls.identity())
}

/// A form that was sent, not read yet.
struct Form<'a> {
    body: SiteBody<'a>,
    /// Whether it was sent over the server's own TLS.
    is_tls: bool,
}

/// Completes a visit: who it is, what its cookies say, and the form that was sent.
async fn enter(
    visit: &mut Visit,
    page: &Page,
    sent: &HeaderMap,
    form: Option<Form<'_>>,
    cookies: &mut Vec<String>,
) -> Result<()> {
    if page.is_of_servers {
        return match form {
            Some(form) => read_form(visit, page, sent, form.body).await,
            None => Ok(()),
        };
    }
    if let Some(form) = &form {
        require_same_origin(sent, form.is_tls)?;
    }
    let jar = visit.jar.clone();
    visit.theme = match jar.get(sent, Cookie::Theme) {
        Some("dark") => Some("dark"),
        Some("light") => Some("light"),
        _ => None,
    };
    visit.wraps = jar.get(sent, Cookie::Lines) != Some("whole");
    let text = |cookie| jar.get(sent, cookie).map(String::from).unwrap_or_default();
    visit.attempt = text(Cookie::Attempt);
    visit.confirmation = text(Cookie::Confirmation);
    visit.is_private = jar.is_private() || sent.contains_key("sec-fetch-site");
    if let Some(token) = jar.get(sent, Cookie::Session) {
        visit.sign_in(token).await?;
    }
    if visit.session.is_none() {
        visit.bound_to = match jar.get(sent, Cookie::Visitor) {
            Some(visitor) => visitor.into(),
            None => {
                let visitor =
                    URL_SAFE_NO_PAD.encode(visit.api.calls.executor.store.clock().random::<16>());
                cookies.push(jar.set(Cookie::Visitor, &visitor, YEAR_SECS));
                visitor
            }
        };
    }
    if let Some(form) = form {
        read_form(visit, page, sent, form.body).await?;
    } else if let Some(flash) = jar.get(sent, Cookie::Flash) {
        visit.flash = Flash::text(flash);
    }
    Ok(())
}

/// Reads the form of a visit, with its files if the page takes some. Files too large for that are no
/// error: the page says so at their field.
async fn read_form(
    visit: &mut Visit,
    page: &Page,
    sent: &HeaderMap,
    body: SiteBody<'_>,
) -> Result<()> {
    let calls = &visit.api.calls;
    let credential = calls.identity().map(|_| calls.credential.fingerprint());
    let max_file_bytes = match page.upload {
        // Whoever is not signed in sends the other fields at most.
        Some(path) if credential.is_some() => Some(visit.api.max_upload_bytes(path)?),
        Some(_) => Some(0),
        None => None,
    };
    let (address, max_bytes) = (calls.origin.address, page.max_form_bytes());
    let form = match body.read(credential, address, max_bytes, max_file_bytes).await {
        Err(error) if error.kind() == Kind::TooLarge && page.upload.is_some() => {
            visit.is_too_large = true;
            return Ok(());
        }
        form => form?,
    };
    match multipart::boundary(sent)? {
        None => visit.form = Fields::parse(&form.bytes),
        Some(boundary) => {
            let parts = multipart::parse(&form.bytes, boundary)?;
            visit.form = parts.fields;
            // Without a session files are left out, and the fields come along to a new one.
            visit.files = parts.files;
            if credential.is_none() {
                visit.files.clear();
            }
            let bytes: usize = visit.files.iter().map(SentFile::size).sum();
            visit.is_too_large = max_file_bytes.is_some_and(|most| bytes > most);
        }
    }
    visit.body = Some(form);
    Ok(())
}

/// The cookies that a reply sets.
fn cookies_of(reply: &Reply, jar: &Jar) -> Vec<String> {
    let mut cookies = Vec::new();
    for (cookie, value) in &reply.kept {
        let lasts = if value.is_empty() { 0 } else { ATTEMPT_SECS };
        cookies.push(jar.set(*cookie, value, lasts));
    }
    match &reply.session {
        SessionChange::None | SessionChange::Forgotten => {}
        SessionChange::Begun(token) => cookies.push(jar.set(Cookie::Session, token, SESSION_SECS)),
        SessionChange::Ended => cookies.push(jar.remove(Cookie::Session)),
    }
    if let Some(flash) = reply.flash {
        cookies.push(jar.set(Cookie::Flash, flash.name(), FLASH_SECS));
    }
    match reply.theme {
        None => {}
        Some(Some(theme)) => cookies.push(jar.set(Cookie::Theme, theme, YEAR_SECS)),
        Some(None) => cookies.push(jar.remove(Cookie::Theme)),
    }
    match reply.wraps {
        None => {}
        Some(true) => cookies.push(jar.remove(Cookie::Lines)),
        Some(false) => cookies.push(jar.set(Cookie::Lines, "whole", YEAR_SECS)),
    }
    cookies
}

fn response_of(reply: Reply) -> Response<ResponseBody> {
    let whole = |text: String| ResponseBody::Whole(Full::from(text));
    let (body, location, media_type) = match reply.content {
        Content::Html(html) => (whole(html), None, "text/html; charset=utf-8"),
        Content::Picture(svg) => (whole(svg.into()), None, "image/svg+xml"),
        Content::SeeOther(path) => (whole(String::new()), Some(path), "text/html; charset=utf-8"),
        Content::Events(events) => (ResponseBody::Stream(events), None, "text/event-stream"),
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(location) = location.and_then(|path| HeaderValue::from_str(&path).ok()) {
        headers.insert(LOCATION, location);
    }
    if let Some(secs) = reply.retry_after_secs {
        headers.insert(RETRY_AFTER, HeaderValue::from(secs));
    }
    if reply.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, CHALLENGE);
    }
    let cleared = match reply.session {
        SessionChange::Ended => Some(ALL_DATA),
        SessionChange::Forgotten => Some(CACHED_DATA),
        SessionChange::None | SessionChange::Begun(_) => None,
    };
    if let Some(cleared) = cleared {
        headers.insert(CLEAR_SITE_DATA, cleared);
    }
    response
}
