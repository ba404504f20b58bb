//! Binds the parsed arguments of a request to the input of its operation and collects every
//! problem.

use std::sync::Arc;

use serde_json::Value;

use super::Shape;
use super::names::InputNames;
use crate::api::common_params::{
    CursorQuery, DEFAULT_LIMIT, LimitQuery, MAX_WAIT_SECS, OrgOptional, OrgRequired, ReversedQuery,
    TotalQuery, WaitQuery, read_cursor,
};
use crate::api::org_source::{OrgHint, OrgSlugMode};
use crate::api::read::{
    Input, MAX_ISSUES, OtherNames, SourceFormat, UnknownFields, parse_query, read_input, shortened,
};
use crate::api::request::{Args, PathParams, RawArgs, path_names};
use crate::base::{Error, Int, Issue, Result, canonical};
use crate::store::PageRequest;

/// Parameters that some shapes of operations take besides their input.
pub struct CommonParams {
    /// The page of a list.
    pub page: PageRequest,
    /// Whether the list is read in the opposite order.
    pub is_reversed: bool,
    /// Whether the list is counted.
    pub is_counted: bool,
    /// The key that signs the cursors of this list: a cursor is valid for one list only.
    pub list: [u8; 32],
    /// The time to wait, in seconds.
    pub wait_secs: u64,
    /// Whether the client prefers text.
    pub wants_text: bool,
}

/// The names by which the requests of a route are read.
pub struct RouteNames<'a> {
    /// The shape of its operation.
    pub shape: Shape,
    pub path: &'static str,
    /// The names of its input.
    pub names: &'a InputNames,
    /// The names besides.
    pub others: Arc<OtherNames>,
}

/// Binds a request: the hint to its organization, the operation's input, and the common parameters
/// of its shape.
///
/// # Errors
/// 400 with every problem found.
pub fn bind<P: PathParams, I: Input>(
    route: &RouteNames,
    raw: RawArgs,
) -> Result<(OrgHint, Args<P, I>, CommonParams)> {
    let is_query = raw.mode == SourceFormat::Query;
    let gathered = is_query.then(|| route.names.objects.gather(raw.arguments)).flatten();
    let raw = RawArgs { arguments: gathered.as_ref().unwrap_or(raw.arguments), ..raw };
    let mut issues = Vec::new();
    P::problems(raw.params, &mut |index, problem| {
        issues.push(Issue::new(path_names(route.path).nth(index).unwrap_or_default(), problem));
    });
    let (org_slug, common, unknown) = read_common(route, &raw, &mut issues);
    let input = read_input::<I>(raw.arguments, raw.mode, unknown)
        .map_err(|error| issues.extend_from_slice(error.issues()));
    let (Ok(input), true) = (input, issues.is_empty()) else {
        return Err(Error::invalid(issues));
    };
    let args = Args {
        params: P::bind(raw.params),
        input,
        page: common.page.clone(),
        upload: raw.upload,
        is_conditional: raw.is_conditional,
        origin: raw.origin.clone(),
        server: raw.server.clone(),
    };
    let by = (org_slug, raw.reference);
    let hint = org_hint(raw.arguments, by, raw.params, &raw.targets);
    Ok((hint, args, common))
}

/// Reads what does not depend on the operation's types, and decides about what it does not know.
fn read_common(
    route: &RouteNames,
    raw: &RawArgs,
    issues: &mut Vec<Issue>,
) -> (Option<String>, CommonParams, UnknownFields) {
    let org_slug = read_org_slug(raw, issues);
    if let (Some(org_slug), false) = (&org_slug, raw.unread_query.is_empty()) {
        refuse_other_org(raw.unread_query, org_slug, issues);
    }
    let common = CommonParams::read(route, raw, issues);
    let unknown = if raw.is_lenient {
        UnknownFields::Ignored
    } else {
        refuse_unread(raw.unread_query, issues);
        UnknownFields::Refused(route.others.clone())
    };
    (org_slug, common, unknown)
}

fn org_hint(
    arguments: &Value,
    (org_slug, reference): (Option<String>, Option<&'static str>),
    params: &Arc<[String]>,
    targets: &[&'static str],
) -> OrgHint {
    // Whether it is required and valid is decided by the operation's own input.
    let text = |name| arguments.get(name).and_then(Value::as_str).map(String::from);
    let reference = reference.and_then(text);
    let named = |&name| Some((name, field(arguments, name)?.as_str()?.to_string()));
    let targets = targets.iter().filter_map(named).collect();
    OrgHint { org_slug, reference, params: params.clone(), targets }
}

/// The value at a path of field names, joined by dots.
fn field<'a>(arguments: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(arguments, |value, name| value.get(name))
}

/// Refuses parameters in the query of a request whose arguments are in its body: they would have no
/// effect. `orgSlug` may be there, as it may be everywhere.
fn refuse_unread(query: &str, issues: &mut Vec<Issue>) {
    let sent = parse_query(query);
    let names = sent.as_object().into_iter().flat_map(|sent| sent.keys());
    let unread = names.filter(|name| *name != "orgSlug").take(MAX_ISSUES);
    issues.extend(unread.map(|name| {
        Issue::new(shortened(name), "is not read from the query; send it in the body")
    }));
}

/// Refuses an organization in the query that is not the one in the body.
fn refuse_other_org(query: &str, org_slug: &str, issues: &mut Vec<Issue>) {
    let sent = parse_query(query);
    if sent.get("orgSlug").is_some_and(|sent| sent.as_str() != Some(org_slug)) {
        issues.push(Issue::new("orgSlug", "must be the same in the query as in the body"));
    }
}

/// Reads one of the common parameters; `None` if it has problems, which are added to `issues`.
fn read_noting<I: Input>(raw: &RawArgs, issues: &mut Vec<Issue>) -> Option<I> {
    read_input(raw.arguments, raw.mode, UnknownFields::Ignored)
        .map_err(|error| issues.extend_from_slice(error.issues()))
        .ok()
}

fn read_org_slug(raw: &RawArgs, issues: &mut Vec<Issue>) -> Option<String> {
    match raw.org {
        OrgSlugMode::Ignored => None,
        OrgSlugMode::Optional => read_noting::<OrgOptional>(raw, issues)?.org_slug,
        OrgSlugMode::Required => Some(read_noting::<OrgRequired>(raw, issues)?.org_slug),
    }
}

impl CommonParams {
    fn read(route: &RouteNames, raw: &RawArgs, issues: &mut Vec<Issue>) -> Self {
        let mut common = CommonParams {
            page: PageRequest { limit: DEFAULT_LIMIT as usize, after: None },
            is_reversed: false,
            is_counted: false,
            list: [0; 32],
            wait_secs: 0,
            wants_text: raw.wants_text,
        };
        if route.shape.walks() {
            let ReversedQuery { reversed } = read_noting(raw, issues).unwrap_or_default();
            let TotalQuery { total } = read_noting(raw, issues).unwrap_or_default();
            common.is_reversed = reversed.unwrap_or_default();
            common.is_counted = total.unwrap_or_default();
        }
        if route.shape.is_list() {
            common.list = list_key(raw, route.path, &route.names.fields, common.is_reversed);
            if let Some(LimitQuery { limit: Some(limit) }) = read_noting(raw, issues) {
                common.page.limit = limit.get() as usize;
            }
            if let Some(CursorQuery { cursor: Some(cursor) }) = read_noting(raw, issues)
                && !cursor.is_empty()
            {
                common.page.after = read_cursor(&common.list, &cursor);
                if common.page.after.is_none() {
                    issues.push(Issue::new("cursor", "is not a cursor of this list"));
                }
            }
        }
        if route.shape.waits()
            && let Some(WaitQuery { wait }) = read_noting(raw, issues)
        {
            common.wait_secs = (wait.map_or(0, Int::get) as u64).min(MAX_WAIT_SECS);
        }
        common
    }
}

/// Returns the key that signs the cursors of a list. The path, the filters and the order identify the list;
/// the page size, the time to wait, whether it is counted and parameters that the route does not take do not.
fn list_key(raw: &RawArgs, path: &'static str, filters: &[String], is_reversed: bool) -> [u8; 32] {
    let mut list = path.as_bytes().to_vec();
    let mut add = |name: &str, value: &str| {
        list.extend_from_slice(&[&[0], name.as_bytes(), &[0], value.as_bytes()].concat());
    };
    for param in &**raw.params {
        add("", param);
    }
    let filters = filters.iter().map(String::as_str);
    for name in std::iter::once("orgSlug").chain(filters.filter(|name| *name != "orgSlug")) {
        match raw.arguments.get(name) {
            None => {}
            // The order of the values does not matter.
            Some(Value::Array(values)) => {
                let mut values: Vec<String> = values.iter().map(canonical).collect();
                values.sort();
                values.iter().for_each(|value| add(name, value));
            }
            Some(value) => add(name, &canonical(value)),
        }
    }
    if is_reversed {
        add("reversed", "true");
    }
    raw.server.keys.hash("roadstead 2026 cursors", &list)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::request::ServerInfo;
    use crate::base::Keys;

    #[test]
    fn no_wait_is_longer_than_55_seconds() {
        let (params, origin) = (Arc::default(), Arc::default());
        let server = Arc::new(ServerInfo::bare(Keys::new([7; 32])));
        let schema: super::super::SchemaOf = |generator| generator.subschema_for::<()>();
        let names = InputNames::of(Shape::Watch, schema, schema);
        let route = RouteNames {
            shape: Shape::Watch,
            path: "/watched",
            names: &names,
            others: names.others(false),
        };
        for (asked, waits) in [("0", 0), ("54", 54), ("55", 55), ("56", 55), ("60", 55)] {
            let query = json!({"wait": asked});
            let raw = RawArgs {
                mode: SourceFormat::Query,
                ..RawArgs::body(&params, &query, (&origin, &server))
            };
            let (.., common) = bind::<(), ()>(&route, raw).unwrap();
            assert_eq!(common.wait_secs, waits);
        }
    }
}
