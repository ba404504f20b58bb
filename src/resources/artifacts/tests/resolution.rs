//! Resolution: the version that a selector resolves to, labels and lists.

use super::super::versions::resolve;
use super::*;
use crate::base::{Kind, Label, Range, Selector};

fn for_model(number: &str, model: &str) -> Value {
    let mut new = version("prompt", "p", number, &format!("{number} for {model}"));
    new["model"] = json!(model);
    new
}

fn found(fixture: &Fixture, version: Option<&str>, model: Option<&str>) -> Option<String> {
    let query = about("prompt", "p", json!({"version": version, "model": model}));
    match content(fixture, query) {
        Ok(content) => Some(content["source"].as_str().unwrap().to_string()),
        Err(error) => {
            assert_eq!(error.kind(), Kind::NotFound);
            None
        }
    }
}

#[test]
fn the_newest_version_is_the_highest_and_not_the_last_published() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    for number in ["1.9.0", "1.10.0", "0.99.99"] {
        prompt(&fixture, "p", number, number);
    }
    assert_eq!(found(&fixture, None, None).as_deref(), Some("1.10.0"));
    assert_eq!(artifacts(&fixture, None)[0]["latestVersion"], "1.10.0");
}

#[test]
fn a_version_resolves_to_the_text_for_the_model_or_the_generic_one() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    for (number, model) in
        [("1.0.0", "generic"), ("1.0.0", "a"), ("1.1.0", "generic"), ("1.2.0", "b"), ("2.0.0", "a")]
    {
        publish(&fixture, for_model(number, model)).unwrap();
    }
    for (version, model, expected) in [
        (None, None, Some("1.1.0 for generic")),
        (None, Some("generic"), Some("1.1.0 for generic")),
        (None, Some("unheard-of"), Some("1.1.0 for generic")),
        (None, Some(""), Some("1.1.0 for generic")),
        (None, Some("a"), Some("2.0.0 for a")),
        (None, Some("b"), Some("1.2.0 for b")),
        // Of equal versions the text for the model.
        (Some("1.0.0"), Some("a"), Some("1.0.0 for a")),
        (Some("1.0.0"), Some("b"), Some("1.0.0 for generic")),
        // A higher version wins over a text for the model.
        (Some("^1"), Some("a"), Some("1.1.0 for generic")),
        (Some("~1.0"), Some("a"), Some("1.0.0 for a")),
        (Some("1"), Some("b"), Some("1.2.0 for b")),
        (Some("1.2"), Some("b"), Some("1.2.0 for b")),
        (Some(">=1.2.0"), Some("a"), Some("2.0.0 for a")),
        (Some("*"), None, Some("1.1.0 for generic")),
        // Only versions with a text for the model or a generic text count.
        (Some("1.2.0"), None, None),
        (Some("2.0.0"), Some("b"), None),
        (Some("^2"), None, None),
        (Some("3.0.0"), None, None),
        (Some("01.01.0"), None, Some("1.1.0 for generic")),
        (Some("no label"), None, None),
        (Some("nolabel"), None, None),
        (Some(""), None, None),
    ] {
        assert_eq!(found(&fixture, version, model).as_deref(), expected, "{version:?} {model:?}");
    }
}

#[test]
fn the_index_resolves_like_a_full_scan() {
    let fixture = Fixture::new();
    let registry = registry(&fixture, "main");
    let max = u64::MAX.to_string();
    let parts = ["0", "1", "2", &max];
    let models = ["generic", "a", "b"];
    let mut all = Vec::new();
    for n in 0..64 {
        let number = [n / 16, n / 4, n].map(|part| parts[part % 4]).join(".");
        let model = models[n * 7 % 3];
        publish(&fixture, for_model(&number, model)).unwrap();
        all.push((crate::base::Version::parse(number).unwrap().numbers(), model));
    }
    let id = ArtifactId::parse(&registry, None, "p").unwrap();
    for range in ["*", "0", "1.2", "^1", "~2.1", ">=2", "^0.1", "1.1.1", "^0.0.0", &max] {
        let selector = Selector::Range(Range::parse(range).unwrap());
        let Selector::Range(interval) = selector else { unreachable!() };
        for model in [None, Some("a"), Some("b"), Some("c")] {
            let counts = |text: &&([u64; 3], &str)| {
                interval.contains(text.0) && (text.1 == "generic" || Some(text.1) == model)
            };
            let expected = all.iter().filter(counts).max().map(|(numbers, _)| *numbers);
            let found =
                fixture.store.read_now(fixture.org, |view| resolve(view, &id, &selector, model));
            let found = found.unwrap().map(|row| row.version.numbers());
            assert_eq!(found, expected, "{range} {model:?}");
        }
    }
    fixture.assert_sound();
}

#[test]
fn versions_are_listed_highest_first_without_their_texts() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    for (number, model) in [("1.2.0", "generic"), ("1.10.0", "a"), ("1.10.0", "generic")] {
        publish(&fixture, for_model(number, model)).unwrap();
    }
    let query = || Fixture::input(about("prompt", "p", json!({}))).unwrap();
    let rows = fixture.read(super::super::versions::list, (), query()).unwrap().items;
    let rows: Vec<Value> = rows.into_iter().map(|row| json!(row)).collect();
    let order: Vec<_> = rows.iter().map(|row| (&row["version"], &row["model"])).collect();
    let expected = json!([["1.10.0", "generic"], ["1.10.0", "a"], ["1.2.0", "generic"]]);
    assert_eq!(json!(order), expected);
    assert!(rows.iter().all(|row| row.get("source").is_none() && row.get("compiled").is_none()));
    let unknown = Fixture::input(about("promptlet", "p", json!({}))).unwrap();
    let error = fixture.read(super::super::versions::list, (), unknown).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

#[test]
fn a_label_points_to_one_version_until_moved_or_removed() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    for number in ["1.0.0", "1.1.0", "01.2.0"] {
        prompt(&fixture, "p", number, number);
    }
    assert_eq!(found(&fixture, Some("production"), None), None);
    let labelled = label(&fixture, "p", "production", "1.0.0").unwrap();
    assert_eq!(labelled["labels"], json!({"production": "1.0.0"}));
    assert_eq!(found(&fixture, Some("production"), None).as_deref(), Some("1.0.0"));
    fixture.pass_secs(60);
    let moved = label(&fixture, "p", "production", "1.2.0").unwrap();
    // Answers show a version without leading zeros, however it was published.
    assert_eq!(moved["labels"], json!({"production": "1.2.0"}));
    assert_eq!(moved["updatedAt"], "2026-01-15T12:01:00.000Z");
    assert_eq!(found(&fixture, Some("production"), None).as_deref(), Some("01.2.0"));
    fixture.pass_secs(60);
    assert_eq!(label(&fixture, "p", "production", "01.02.00").unwrap(), moved, "nothing changed");

    for (name, label_name, number) in
        [("p", "x", "9.9.9"), ("p", "x", "^1"), ("p", "x", "production"), ("q", "x", "1.0.0")]
    {
        let error = label(&fixture, name, label_name, number).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{name} {number}");
    }
    let error = label(&fixture, "p", "1.0", "1.0.0").unwrap_err();
    assert_eq!((error.kind(), error.issues()[0].path.as_str()), (Kind::Invalid, "label"));

    let take_off = |label: &str| {
        let query = about("prompt", "p", json!({"label": label}));
        fixture.write(labels::delete, (), Fixture::input(query).unwrap())
    };
    assert_eq!(take_off("production").unwrap().id, "production");
    for gone in ["production", "never", "1.0", ""] {
        assert_eq!(take_off(gone).unwrap_err().kind(), Kind::NotFound);
    }
    assert_eq!(found(&fixture, Some("production"), None), None);
    assert_eq!(artifacts(&fixture, None)[0]["labels"], json!({}));
    fixture.assert_sound();
}

#[test]
fn an_artifact_has_at_most_1000_labels() {
    let fixture = Fixture::new();
    let registry = registry(&fixture, "main");
    prompt(&fixture, "p", "1.0.0", "x");
    let id = ArtifactId::parse(&registry, None, "p").unwrap();
    let fill = move |tx: &mut Tx| {
        let old: artifact::Artifact = tx.fetch(&id)?;
        let label = |n| (Label::parse(format!("l{n}")).unwrap(), old.latest_version.clone());
        artifact::set_labels(tx, &old, (0..1000).map(label).collect(), None).map(drop)
    };
    fixture.store.write_blocking(fixture.org, fill).unwrap();
    assert_eq!(label(&fixture, "p", "more", "1.0.0").unwrap_err().code(), "labels_full");
    label(&fixture, "p", "l7", "1.0.0").unwrap();
}

#[test]
fn artifacts_are_listed_by_last_change() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    prompt(&fixture, "a", "1.0.0", "x");
    promptlet(&fixture, "b", "1.0.0", "x");
    prompt(&fixture, "c", "1.0.0", "x");
    let names = |kind: Option<&str>| -> Vec<Value> {
        artifacts(&fixture, kind).into_iter().map(|artifact| artifact["name"].clone()).collect()
    };
    assert_eq!(names(None), ["c", "b", "a"]);
    label(&fixture, "a", "x", "1.0.0").unwrap();
    assert_eq!(names(None), ["a", "c", "b"]);
    promptlet(&fixture, "b", "0.9.0", "x");
    assert_eq!(names(None), ["b", "a", "c"]);
    assert_eq!(names(Some("prompt")), ["a", "c"]);
    assert_eq!(names(Some("promptlet")), ["b"]);
    let listed = artifacts(&fixture, Some("promptlet"));
    let expected = json!([{
        "artifactType": "promptlet", "name": "b", "latestVersion": "1.0.0", "labels": {}, "tags": [],
        "updatedAt": "2026-01-15T12:00:00.000Z",
        "updatedBy": listed[0]["updatedBy"],
    }]);
    assert_eq!(json!(listed), expected);
}
