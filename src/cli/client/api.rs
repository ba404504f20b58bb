//! Requests to the API of a server, as any other client sends them.
//!
//! A request that the server could not take for the moment is repeated a few times; a POST has an
//! `Idempotency-Key`, so that it is still done once (reference: conventions, "Idempotency").

use std::cell::OnceCell;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;

use super::bounded;
use super::listed::Listed;
use super::refusal::Refusal;
pub use crate::base::segment;
use crate::cli::failure::Failure;
use crate::outside::{self, BodyLimit, Call, KeptConnections, Limits, Method, Outside, Response};
use crate::store::Clock;

/// Longer than the longest long poll, and than a request with a judge.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Longer than any answer: a page of 200 messages has at most 80 MB.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;

/// A page of a list.
const PAGE: &str = "200";

/// Most pages read of one list: 200,000 items, more than a person reads and a program wants at once.
const MAX_PAGES: usize = 1000;

/// How often a request is repeated that the server was too busy for.
const REPEATS: u32 = 4;

/// The longest pause before a repeated request. A server that asks for a longer one has a reason
/// that a person should know.
const MAX_PAUSE_SECS: u64 = 10;

/// Parameters of a query; those without a value are left out.
pub type Query<'a> = &'a [(&'a str, Option<&'a str>)];

/// A list to read: its path, and the parameters that it takes.
pub struct ListCall {
    pub path: String,
    pub query: Vec<(&'static str, String)>,
}

/// A request.
struct Sent<'a> {
    method: Method,
    path: &'a str,
    query: Query<'a>,
    body: Option<&'a Value>,
    /// The tag that the resource must still have.
    if_match: Option<&'a str>,
}

/// What was answered: JSON, and its tag if it has one.
pub type Tagged = (Value, Option<String>);

/// A client of one server, with one credential.
pub struct Api {
    runtime: Runtime,
    connections: KeptConnections,
    base: String,
    credential: String,
    /// The organization that requests are about, once it is known.
    org: OnceCell<String>,
    clock: Clock,
}

impl Api {
    /// Creates a client of the server at `base`, about this organization, else about that of the key.
    ///
    /// # Errors
    /// The process has no file descriptors left for it.
    pub fn new(
        outside: Outside,
        base: &str,
        credential: String,
        org: Option<String>,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::io("a runtime cannot be started"))?;
        let base = base.trim_end_matches('/').to_string();
        let org = org.map_or_else(OnceCell::new, OnceCell::from);
        let connections = KeptConnections::new(outside);
        Ok(Api { runtime, connections, base, credential, org, clock: Clock::system() })
    }

    /// The URL of the server.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The client for calls whose answers are read as they come.
    pub fn outside(&self) -> &Outside {
        self.connections.outside()
    }

    /// The header field with the credential, if there is one.
    pub fn authorization(&self) -> Option<(String, String)> {
        let is_given = !self.credential.is_empty();
        is_given.then(|| ("authorization".into(), format!("Bearer {}", self.credential)))
    }

    /// Runs a future to its end.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Who the credential is.
    pub fn whoami(&self) -> Result<Value, Refusal> {
        self.get("/whoami", &[])
    }

    /// The slug of the organization that requests are about: as given, else the only one of the
    /// credential.
    ///
    /// # Errors
    /// Usage, if the credential is of several organizations and none was given.
    pub fn org(&self) -> Result<&str, Failure> {
        if let Some(org) = self.org.get() {
            return Ok(org);
        }
        let who = self.whoami()?;
        let org = only_organization(&who)?.ok_or_else(|| Failure::Usage(name_one(&who)))?;
        Ok(self.org.get_or_init(|| org))
    }

    /// GET, with this query only.
    pub fn get(&self, path: &str, query: Query) -> Result<Value, Refusal> {
        self.block_on(self.request(Method::GET, path, query, None))
    }

    /// GET in the organization.
    pub fn get_in_org(&self, path: &str, query: Query) -> Result<Value, Failure> {
        Ok(self.in_org(Method::GET, path, query, None, None)??.0)
    }

    /// All items of a list in the organization.
    pub fn list_in_org(&self, path: &str, query: Query) -> Result<Vec<Value>, Failure> {
        Ok(self.first_in_org(path, query, usize::MAX)?.items)
    }

    /// The first items of a list in the organization, at most `limit`.
    pub fn first_in_org(&self, path: &str, query: Query, limit: usize) -> Result<Listed, Failure> {
        let org = self.org()?;
        Ok(self.list(path, &[query, &[("orgSlug", Some(org))]].concat(), limit)?)
    }

    /// All items of each of these lists in the organization, some lists at a time.
    pub fn lists_in_org(
        &self,
        lists: &[ListCall],
    ) -> Result<Vec<Result<Vec<Value>, Refusal>>, Failure> {
        let org = self.org()?;
        let read = async |list: &ListCall| {
            let named = list.query.iter().map(|(name, value)| (*name, Some(value.as_str())));
            let query: Vec<_> = named.chain([("orgSlug", Some(org))]).collect();
            Ok(self.pages(&list.path, &query, usize::MAX).await)
        };
        self.block_on(bounded::all(lists, read))
    }

    /// The first items of a list, at most `limit`, read page by page.
    pub fn list(&self, path: &str, query: Query, limit: usize) -> Result<Listed, Refusal> {
        let items = self.block_on(self.pages(path, query, limit.saturating_add(1)))?;
        Ok(Listed::first(items, limit))
    }

    async fn pages(
        &self,
        path: &str,
        query: Query<'_>,
        most: usize,
    ) -> Result<Vec<Value>, Refusal> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let paged = [("limit", Some(PAGE)), ("cursor", cursor.as_deref())];
            let query = [query, &paged[..]].concat();
            let mut page = self.request(Method::GET, path, &query, None).await?;
            match page["items"].take() {
                Value::Array(more) => items.extend(more),
                _ => return Err(Refusal::Unanswered("an unexpected answer: no list".into())),
            }
            cursor = page["nextCursor"].as_str().map(str::to_string);
            if cursor.is_none() || items.len() >= most {
                items.truncate(most);
                return Ok(items);
            }
        }
        // A part would look like the whole.
        Err(Refusal::Unanswered(format!("{path} has more items than this command reads")))
    }

    /// A resource in the organization, and its tag.
    ///
    /// # Errors
    /// The outer one is of the organization.
    pub fn tagged_in_org(&self, path: &str) -> Result<Result<Tagged, Refusal>, Failure> {
        self.in_org(Method::GET, path, &[], None, None)
    }

    /// The same with this query.
    ///
    /// # Errors
    /// The outer one is of the organization.
    pub fn tagged_of_org(
        &self,
        path: &str,
        query: Query,
    ) -> Result<Result<Tagged, Refusal>, Failure> {
        self.in_org(Method::GET, path, query, None, None)
    }

    /// PATCH in the organization, if the resource still has this tag.
    ///
    /// # Errors
    /// The outer one is of the organization.
    pub fn patch_if(
        &self,
        path: &str,
        body: Value,
        tag: &str,
    ) -> Result<Result<(), Refusal>, Failure> {
        Ok(self.in_org(Method::PATCH, path, &[], Some(body), Some(tag))?.map(drop))
    }

    /// DELETE in the organization, if the resource still has this tag. What is gone already is no
    /// failure.
    ///
    /// # Errors
    /// The outer one is of the organization.
    pub fn delete_if(&self, path: &str, tag: &str) -> Result<Result<(), Refusal>, Failure> {
        Ok(unless_gone(self.in_org(Method::DELETE, path, &[], None, Some(tag))?))
    }

    /// The same with this query.
    ///
    /// # Errors
    /// The outer one is of the organization.
    pub fn delete_of_if(
        &self,
        path: &str,
        query: Query,
        tag: &str,
    ) -> Result<Result<(), Refusal>, Failure> {
        Ok(unless_gone(self.in_org(Method::DELETE, path, query, None, Some(tag))?))
    }

    /// Sends a body, as it is.
    pub fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.block_on(self.request(method, path, &[], Some(body)))
    }

    /// POST in the organization.
    pub fn post_in_org(&self, path: &str, body: Value) -> Result<Value, Failure> {
        Ok(self.in_org(Method::POST, path, &[], Some(body), None)??.0)
    }

    /// PATCH in the organization.
    pub fn patch_in_org(&self, path: &str, body: Value) -> Result<Value, Failure> {
        Ok(self.in_org(Method::PATCH, path, &[], Some(body), None)??.0)
    }

    /// PUT in the organization.
    pub fn put_in_org(&self, path: &str, body: Value) -> Result<(), Failure> {
        self.in_org(Method::PUT, path, &[], Some(body), None)??;
        Ok(())
    }

    /// DELETE in the organization. Returns whether there was what it deletes: what is gone already is no
    /// failure.
    pub fn delete_in_org(&self, path: &str, query: Query) -> Result<bool, Failure> {
        let removed = self.in_org(Method::DELETE, path, query, None, None)?;
        let is_there = removed.is_ok();
        unless_gone(removed)?;
        Ok(is_there)
    }

    /// Sends a request in the organization, which its body names, or if it has none its query.
    ///
    /// # Errors
    /// The outer one is of the organization.
    fn in_org(
        &self,
        method: Method,
        path: &str,
        query: Query,
        mut body: Option<Value>,
        if_match: Option<&str>,
    ) -> Result<Result<Tagged, Refusal>, Failure> {
        let org = self.org()?;
        let mut query = query.to_vec();
        match &mut body {
            Some(body) => body["orgSlug"] = org.into(),
            None => query.push(("orgSlug", Some(org))),
        }
        let sent = Sent { method, path, query: &query, body: body.as_ref(), if_match };
        Ok(self.block_on(self.repeated(&sent)))
    }

    /// Sends a request, and again if the server was too busy for it; returns the body of a success.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        body: Option<&Value>,
    ) -> Result<Value, Refusal> {
        let sent = Sent { method, path, query, body, if_match: None };
        Ok(self.repeated(&sent).await?.0)
    }

    async fn repeated(&self, sent: &Sent<'_>) -> Result<Tagged, Refusal> {
        let idempotency_key =
            (sent.method == Method::POST).then(|| self.clock.new_id().hyphenated().to_string());
        let mut pause = 1;
        for repeat in 0.. {
            let refusal = match self.exchange(sent, idempotency_key.as_deref()).await {
                Ok(answered) => return Ok(answered),
                Err(refusal) => refusal,
            };
            let busy = refusal.problem().filter(|problem| matches!(problem.status, 429 | 503));
            let Some(problem) = busy.filter(|_| repeat < REPEATS) else { return Err(refusal) };
            let asked = problem.retry_after.unwrap_or(pause);
            if asked > MAX_PAUSE_SECS {
                return Err(refusal);
            }
            tokio::time::sleep(Duration::from_secs(asked.max(pause))).await;
            pause = (pause * 2).min(MAX_PAUSE_SECS);
        }
        unreachable!("the loop ends with a return")
    }

    /// Sends a request once; returns the body of a success.
    pub async fn once(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        body: Option<&Value>,
    ) -> Result<Value, Refusal> {
        let sent = Sent { method, path, query, body, if_match: None };
        Ok(self.exchange(&sent, None).await?.0)
    }

    async fn exchange(
        &self,
        sent: &Sent<'_>,
        idempotency_key: Option<&str>,
    ) -> Result<Tagged, Refusal> {
        let mut headers = vec![("accept".to_string(), "application/json".to_string())];
        headers.extend(self.authorization());
        if sent.body.is_some() {
            headers.push(("content-type".into(), "application/json".into()));
        }
        let more = [("idempotency-key", idempotency_key), ("if-match", sent.if_match)];
        for (name, value) in more {
            headers.extend(value.map(|value| (name.to_string(), value.to_string())));
        }
        let call = Call {
            method: sent.method.clone(),
            url: format!("{}/api{}{}", self.base, sent.path, query_text(sent.query)),
            headers,
            body: sent.body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            limits: Limits {
                total: TIMEOUT,
                answer: BodyLimit::UpTo(MAX_ANSWER_BYTES),
                https_only: false,
            },
        };
        let answer = self.connections.send(call).await;
        let answer = answer.map_err(|failure| unanswered(&failure, &self.base))?;
        if !answer.is_success() {
            let after = answer.header("retry-after").and_then(|secs| secs.parse().ok());
            return Err(Refusal::of_body(answer.status, &answer.body, after, sent.body));
        }
        Ok((json(&answer)?, answer.header("etag").map(str::to_string)))
    }
}

/// Why the server at `base` has not answered, and what to do about it.
fn unanswered(failure: &outside::Failure, base: &str) -> Refusal {
    let what_to_do = match failure {
        outside::Failure::Connect { .. } => format!(
            " ({base}); start the server there with roadstead serve, or name another with --url"
        ),
        outside::Failure::Tls { .. } => {
            "; give its authority, or a certificate that it made itself, with --ca-file".into()
        }
        _ => String::new(),
    };
    Refusal::Unanswered(format!("{failure}{what_to_do}"))
}

/// The result of a removal: what is gone already is no failure.
fn unless_gone<T>(removed: Result<T, Refusal>) -> Result<(), Refusal> {
    match removed {
        Err(refusal) if refusal.with_code("not_found").is_none() => Err(refusal),
        _ => Ok(()),
    }
}

fn json(answer: &Response) -> Result<Value, Refusal> {
    serde_json::from_slice(&answer.body)
        .map_err(|_| Refusal::of_body(answer.status, &[], None, None))
}

/// Returns the organizations of a credential (`GET /whoami`).
fn organizations_of(whoami: &Value) -> Vec<String> {
    let memberships = whoami["memberships"].as_array();
    let slugs = memberships.into_iter().flatten().filter_map(|of| of["orgSlug"].as_str());
    slugs.map(str::to_string).collect()
}

/// Returns the only organization of a credential; `None` if there are several.
///
/// # Errors
/// Who is a member of none has nothing to do here.
pub fn only_organization(whoami: &Value) -> Result<Option<String>, Failure> {
    match &organizations_of(whoami)[..] {
        [] => Err(Failure::Failed("you are a member of no organization".into())),
        [only] => Ok(Some(only.clone())),
        _ => Ok(None),
    }
}

/// Says that one of several organizations is to be named.
pub fn name_one(whoami: &Value) -> String {
    let several = organizations_of(whoami).join(", ");
    format!("you are a member of several organizations; name one with --org: {several}")
}

/// Returns a query with its question mark; nothing if no parameter has a value.
fn query_text(query: Query) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for (name, value) in query {
        if let Some(value) = value {
            text.append_pair(name, value);
        }
    }
    let text = text.finish();
    if text.is_empty() { text } else { format!("?{text}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_has_only_the_parameters_with_a_value() {
        assert_eq!(query_text(&[]), "");
        assert_eq!(query_text(&[("a", None)]), "");
        let query = [("a", Some("x y&z")), ("b", None), ("c", Some("é"))];
        assert_eq!(query_text(&query), "?a=x+y%26z&c=%C3%A9");
    }

    #[test]
    fn the_organization_must_be_named_where_there_are_several() {
        let of = |slugs: &[&str]| {
            let of: Vec<_> = slugs.iter().map(|slug| json!({"orgSlug": slug})).collect();
            json!({"memberships": of})
        };
        let only = only_organization(&of(&["acme"]));
        assert!(matches!(only, Ok(Some(slug)) if slug == "acme"));
        assert!(matches!(only_organization(&of(&[])), Err(Failure::Failed(_))));
        assert!(matches!(only_organization(&of(&["a", "b"])), Ok(None)));
        assert!(name_one(&of(&["a", "b"])).ends_with("--org: a, b"));
    }
}
