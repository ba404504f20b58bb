//! Lists of any length are read to their end, by pages of any size.

use std::collections::BTreeMap;

use super::*;

const ALL: usize = 600;

fn name(number: usize) -> String {
    format!("p-{number:03}")
}

/// The numbers of a provider's page, and the beginning of the next one, if there is one.
fn page(from: usize, size: usize, all: usize) -> (Vec<Value>, Option<String>) {
    let end = (from + size).min(all);
    let items = (from..end).map(|number| json!({"name": name(number)})).collect();
    (items, (end < all).then(|| end.to_string()))
}

/// A provider of each kind that has 600 prompts.
fn with_600(kind: PromptProviderKind, path: &str) -> Result<Response, Failure> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let number = |name: &str| query.get(name).and_then(|value| value.parse::<usize>().ok());
    let body = match kind {
        PromptProviderKind::Langfuse if path.ends_with("/prompts") => {
            let (number, size) = (number("page").unwrap(), number("limit").unwrap());
            assert!(size <= 100, "it refuses larger pages");
            let (items, _) = page((number - 1) * size, size, ALL);
            json!({"data": items, "meta": {"totalPages": ALL.div_ceil(size)}})
        }
        PromptProviderKind::Langfuse => json!({"version": 1, "prompt": "t"}),
        PromptProviderKind::Phoenix if path.ends_with("/prompts") => {
            let (items, next) = page(number("cursor").unwrap_or(0), number("limit").unwrap(), ALL);
            json!({"data": items, "next_cursor": next})
        }
        PromptProviderKind::Phoenix if path.ends_with("/latest") => {
            let template = json!({"type": "string", "template": "t"});
            json!({"data": {"id": "v", "template": template, "template_format": "NONE"}})
        }
        PromptProviderKind::Mlflow if path.contains("registered-models") => {
            // It gives less than it is asked for.
            let size = number("max_results").unwrap().min(70);
            let (items, next) = page(number("page_token").unwrap_or(0), size, ALL);
            json!({"registered_models": items, "next_page_token": next})
        }
        PromptProviderKind::Mlflow => {
            let tags = json!([{"key": "mlflow.prompt.text", "value": "t"}]);
            json!({"model_versions": [{"version": "1", "tags": tags}]})
        }
        PromptProviderKind::Roadstead if path.ends_with("/registries") => {
            let ids = ["none", "some", "more"].map(|id| json!({"id": id}));
            json!({"items": ids, "nextCursor": null})
        }
        PromptProviderKind::Roadstead if path.ends_with("/artifacts") => {
            let (begin, all) = match &*query["registryRef"] {
                "none" => (0, 0),
                "some" => (0, 250),
                _ => (250, ALL),
            };
            let from = number("cursor").unwrap_or(begin);
            let (mut items, next) = page(from, number("limit").unwrap(), all);
            for item in &mut items {
                item["labels"] = json!({});
                item["updatedAt"] = json!("2026-05-01T10:00:00.000Z");
            }
            json!({"items": items, "nextCursor": next})
        }
        PromptProviderKind::Roadstead => json!({"version": "1.0.0", "compiled": "t"}),
        PromptProviderKind::Http => {
            let item = |number| json!({"name": name(number), "version": "1", "template": "t"});
            json!({"items": (0..ALL).map(item).collect::<Vec<_>>()})
        }
        PromptProviderKind::Phoenix => return answered(404, ""),
    };
    answered(200, body.to_string())
}

#[test]
fn all_prompts_of_each_kind_are_read_by_pages_of_any_size_once_and_in_order() {
    let expected: Vec<_> = (0..ALL).map(name).collect();
    for kind in KINDS {
        for limit in [1, 37, 50, 100, 150, 200] {
            // Pages of one would be 600 fetches of everything.
            let enough = if limit == 1 { 5 } else { ALL };
            let (mut names, mut from) = (Vec::new(), Position::default());
            while names.len() < enough {
                let answer = |path: &str| with_600(kind, path);
                let act = |client: &mut ProviderClient| fetch::list(client, &from, limit);
                let Listed { items, next } = ask(kind, LANGFUSE, answer, act).unwrap();
                assert!(items.len() <= limit, "{kind:?} {limit}");
                names.extend(items.into_iter().map(|found| found.name));
                let Some(next) = next else { break };
                // As a cursor holds it.
                from = Position::read(Some(&next.to_bytes())).unwrap();
                assert_eq!(from, next);
            }
            assert_eq!(names, expected[..names.len()], "{kind:?} {limit}");
            assert!(names.len() >= enough, "{kind:?} {limit}: {}", names.len());
        }
    }
}

#[test]
fn a_list_that_never_turns_its_page_ends_and_a_token_without_end_is_refused() {
    let listed = |next: &str| {
        let body = json!({"data": [{"name": "a"}], "next_cursor": next}).to_string();
        let answer = move |path: &str| match path.starts_with("/v1/prompts?") {
            true => answered(200, body.clone()),
            false => answered(404, ""),
        };
        let act = |client: &mut ProviderClient| fetch::list(client, &Position::default(), 50);
        ask(PromptProviderKind::Phoenix, LANGFUSE, answer, act)
    };
    assert_eq!(listed("same").unwrap().next, None);
    assert_eq!(listed("").unwrap().next, None);
    let refused = listed(&"x".repeat(5000)).unwrap_err();
    assert!(refused.message().contains("does not have the form"), "{refused}");
}

#[test]
fn a_cursor_that_no_page_ended_with_is_refused() {
    for cursor in ["", "x", "1", "-1 a", "a b"] {
        let refused = Position::read(Some(cursor.as_bytes())).unwrap_err();
        assert_eq!(refused.issues()[0].path, "cursor", "{cursor}");
    }
}
