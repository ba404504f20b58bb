//! From the parsed arguments of a request to what its operation takes, noting every problem and not
//! just the first.

use bytes::Bytes;
use serde_json::Value;

use super::Shape;
use crate::api::extra::{
    CursorQuery, DEFAULT_LIMIT, LimitQuery, OrgOptional, OrgRequired, WaitQuery, read_cursor,
};
use crate::api::read::{Input, read_input};
use crate::api::request::{Args, PathParams, Raw, path_names};
use crate::api::scope::{OrgHint, OrgSlugMode};
use crate::base::{Error, Int, Issue, Keys, Result, canonical};
use crate::store::PageRequest;

/// What some kinds of operations read beside their input.
pub struct CommonParams {
    /// The part of a list.
    pub page: PageRequest,
    /// The key that the cursors of this list are signed with: one is good for one list only.
    pub list: [u8; 32],
    /// How long to wait, in seconds.
    pub wait_secs: u64,
    /// The bytes that were sent.
    pub content: Bytes,
}

/// Reads what a request says about its organization, the operation's own input, and what
/// operations of this shape take beside it.
///
/// # Errors
/// 400 with every problem found.
pub fn bind<P: PathParams, I: Input>(
    shape: Shape,
    path: &'static str,
    filters: &[String],
    mut raw: Raw,
) -> Result<(OrgHint, Args<P, I>, CommonParams)> {
    let mut issues = Vec::new();
    P::problems(&raw.params, &mut |index, problem| {
        issues.push(Issue::new(path_names(path).nth(index).unwrap_or_default(), problem));
    });
    let org_slug = read_org_slug(&raw, &mut issues);
    let common = CommonParams::read(shape, path, filters, &mut raw, &mut issues);
    let input = read_input::<I>(raw.arguments, raw.mode)
        .map_err(|error| issues.extend_from_slice(error.issues()));
    let (Ok(input), true) = (input, issues.is_empty()) else {
        return Err(Error::invalid(issues));
    };
    let args = Args {
        params: P::bind(&raw.params),
        input,
        page: common.page.clone(),
        address: raw.address,
        link_base: raw.link_base.into(),
    };
    // Whether it must be there, and what is wrong with it, the operation's own input says.
    let text = |name| raw.arguments.get(name).and_then(Value::as_str).map(String::from);
    let reference = raw.reference.and_then(text);
    Ok((OrgHint { org_slug, reference, params: raw.params }, args, common))
}

/// Reads an input; what is wrong is noted, and there is none then.
fn noted<I: Input>(raw: &Raw, issues: &mut Vec<Issue>) -> Option<I> {
    read_input(raw.arguments, raw.mode)
        .map_err(|error| issues.extend_from_slice(error.issues()))
        .ok()
}

fn read_org_slug(raw: &Raw, issues: &mut Vec<Issue>) -> Option<String> {
    match raw.org {
        OrgSlugMode::Ignored => None,
        OrgSlugMode::Optional => noted::<OrgOptional>(raw, issues)?.org_slug,
        OrgSlugMode::Required => Some(noted::<OrgRequired>(raw, issues)?.org_slug),
    }
}

impl CommonParams {
    fn read(
        shape: Shape,
        path: &'static str,
        filters: &[String],
        raw: &mut Raw,
        issues: &mut Vec<Issue>,
    ) -> Self {
        let mut common = CommonParams {
            page: PageRequest { limit: DEFAULT_LIMIT as usize, after: None },
            list: [0; 32],
            wait_secs: 0,
            content: std::mem::take(&mut raw.content),
        };
        if shape.is_list() {
            common.list = list_key(raw.keys, path, raw, filters);
            if let Some(LimitQuery { limit: Some(limit) }) = noted(raw, issues) {
                common.page.limit = limit.get() as usize;
            }
            if let Some(CursorQuery { cursor: Some(cursor) }) = noted(raw, issues) {
                common.page.after = read_cursor(&common.list, &cursor);
                if common.page.after.is_none() {
                    issues.push(Issue::new("cursor", "is not a cursor of this list"));
                }
            }
        }
        if shape.waits()
            && let Some(WaitQuery { wait }) = noted(raw, issues)
        {
            common.wait_secs = wait.map_or(0, Int::get) as u64;
        }
        common
    }
}

/// The key that cursors of a list are signed with: path and filters make the list; how much of it
/// is wanted, how long to wait for it, and parameters that the route does not take, do not.
fn list_key(keys: &Keys, path: &'static str, raw: &Raw, filters: &[String]) -> [u8; 32] {
    let mut list = path.as_bytes().to_vec();
    let mut add = |name: &str, value: &str| {
        list.extend_from_slice(&[&[0], name.as_bytes(), &[0], value.as_bytes()].concat());
    };
    for param in &raw.params {
        add("", param);
    }
    let filters = filters.iter().map(String::as_str);
    for name in std::iter::once("orgSlug").chain(filters.filter(|name| *name != "orgSlug")) {
        match raw.arguments.get(name) {
            None => {}
            // In whatever order they were given, the same values make the same list.
            Some(Value::Array(values)) => {
                let mut values: Vec<String> = values.iter().map(canonical).collect();
                values.sort();
                values.iter().for_each(|value| add(name, value));
            }
            Some(value) => add(name, &canonical(value)),
        }
    }
    keys.hash("roadstead 2026 cursors", &list)
}
