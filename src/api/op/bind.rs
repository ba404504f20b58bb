//! Binds the parsed arguments of a request to the input of its operation and collects every
//! problem.

use serde_json::Value;

use super::Shape;
use crate::api::common_params::{
    CursorQuery, DEFAULT_LIMIT, LimitQuery, OrgOptional, OrgRequired, WaitQuery, read_cursor,
};
use crate::api::read::{Input, read_input};
use crate::api::request::{Args, PathParams, RawArgs, path_names};
use crate::api::scope::{OrgHint, OrgSlugMode};
use crate::base::{Error, Int, Issue, Keys, Result, canonical};
use crate::store::PageRequest;

/// Parameters that some shapes of operations take besides their input.
pub struct CommonParams {
    /// The page of a list.
    pub page: PageRequest,
    /// The key that signs the cursors of this list: a cursor is valid for one list only.
    pub list: [u8; 32],
    /// The time to wait, in seconds.
    pub wait_secs: u64,
}

/// Binds a request: the hint to its organization, the operation's input, and the common parameters
/// of this shape.
///
/// # Errors
/// 400 with every problem found.
pub fn bind<P: PathParams, I: Input>(
    shape: Shape,
    path: &'static str,
    filters: &[String],
    raw: RawArgs,
) -> Result<(OrgHint, Args<P, I>, CommonParams)> {
    let mut issues = Vec::new();
    P::problems(&raw.params, &mut |index, problem| {
        issues.push(Issue::new(path_names(path).nth(index).unwrap_or_default(), problem));
    });
    let org_slug = read_org_slug(&raw, &mut issues);
    let common = CommonParams::read(shape, path, filters, &raw, &mut issues);
    let input = read_input::<I>(raw.arguments, raw.mode)
        .map_err(|error| issues.extend_from_slice(error.issues()));
    let (Ok(input), true) = (input, issues.is_empty()) else {
        return Err(Error::invalid(issues));
    };
    let args = Args {
        params: P::bind(&raw.params),
        input,
        page: common.page.clone(),
        content: raw.content,
        address: raw.address,
        link_base: raw.link_base.into(),
    };
    // Whether it is required and valid is decided by the operation's own input.
    let text = |name| raw.arguments.get(name).and_then(Value::as_str).map(String::from);
    let reference = raw.reference.and_then(text);
    Ok((OrgHint { org_slug, reference, params: raw.params }, args, common))
}

/// Reads an input; `None` if it has problems, which are added to `issues`.
fn read_noting<I: Input>(raw: &RawArgs, issues: &mut Vec<Issue>) -> Option<I> {
    read_input(raw.arguments, raw.mode)
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
    fn read(
        shape: Shape,
        path: &'static str,
        filters: &[String],
        raw: &RawArgs,
        issues: &mut Vec<Issue>,
    ) -> Self {
        let mut common = CommonParams {
            page: PageRequest { limit: DEFAULT_LIMIT as usize, after: None },
            list: [0; 32],
            wait_secs: 0,
        };
        if shape.is_list() {
            common.list = list_key(raw.keys, path, raw, filters);
            if let Some(LimitQuery { limit: Some(limit) }) = read_noting(raw, issues) {
                common.page.limit = limit.get() as usize;
            }
            if let Some(CursorQuery { cursor: Some(cursor) }) = read_noting(raw, issues) {
                common.page.after = read_cursor(&common.list, &cursor);
                if common.page.after.is_none() {
                    issues.push(Issue::new("cursor", "is not a cursor of this list"));
                }
            }
        }
        if shape.waits()
            && let Some(WaitQuery { wait }) = read_noting(raw, issues)
        {
            common.wait_secs = wait.map_or(0, Int::get) as u64;
        }
        common
    }
}

/// Returns the key that signs the cursors of a list. The path and the filters identify the list;
/// the page size, the time to wait and parameters that the route does not take do not.
fn list_key(keys: &Keys, path: &'static str, raw: &RawArgs, filters: &[String]) -> [u8; 32] {
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
            // The order of the values does not matter.
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
