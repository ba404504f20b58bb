//! Whatever is sent is read or refused.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// JSON that often comes close to a `Sample`.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z]{0,3}",
        Just("fleet".into()),
        Just("2026-01-31T12:00:00Z".into()),
        Just("{\"start\":0}".into()),
        ".{0,4}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..12).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // A whole one is an integer here, which it is not for the usual reader.
        any::<f64>().prop_filter("whole", |n| n.fract() != 0.0).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let key = prop_oneof![
        5 => select(&[
            "name", "grants", "flag", "small", "cleared", "range", "texts", "byName", "byType",
            "anything", "object", "userId", "resourceType", "count", "start", "end",
        ][..]).prop_map(String::from),
        1 => ".{0,3}",
    ];
    leaf.prop_recursive(5, 60, 16, move |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => vec((key.clone(), inner), 0..16)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// JSON that is a `Sample`.
fn good_sample() -> impl Strategy<Value = Value> {
    let grant = (any::<String>(), prop_oneof!["fleet", "registry"], 1..=9)
        .prop_map(|(user, of, count)| json!({"userId": user, "resourceType": of, "count": count}));
    let grants = vec(grant.clone(), 0..3);
    let cleared = prop_oneof![
        Just(json!({})),
        Just(json!({"cleared": null})),
        (0.0..1e9).prop_map(|usd| json!({"cleared": usd})),
    ];
    let range = option::of(Just(json!({"start": "2026-01-31T12:00:00+01:00"})));
    let texts = option::of(btree_map(".{0,3}", ".{0,3}", 0..3));
    let by_name = option::of(btree_map("[a-z_]{1,3}", grant, 0..3));
    let rest = (option::of(any::<i8>()), range, texts, by_name, any_json());
    (("[a-z]{1,9}", grants, any::<bool>(), cleared), rest).prop_map(
        |((name, grants, flag, cleared), (small, range, texts, by_name, anything))| {
            let mut value = json!({
                "name": name, "grants": grants, "flag": flag, "small": small, "range": range,
                "texts": texts, "byName": by_name, "object": {"x": anything.clone()},
                "anything": anything,
            });
            value.as_object_mut().unwrap().extend(cleared.as_object().unwrap().clone());
            value
        },
    )
}

proptest! {
    #[test]
    fn any_json_is_read_or_refused_with_distinct_problems(value in any_json()) {
        for mode in [SourceFormat::Body, SourceFormat::Query] {
            match read::<Sample>(&value, mode) {
                Ok(_) => {}
                Err(error) => {
                    let mut paths: Vec<_> = error.issues().iter().map(|i| &i.path).collect();
                    prop_assert!((1..=MAX_ISSUES).contains(&paths.len()));
                    paths.sort();
                    paths.dedup();
                    prop_assert_eq!(paths.len(), error.issues().len());
                }
            }
        }
        if let Ok(sample) = read::<Sample>(&value, SourceFormat::Body) {
            prop_assert_eq!(sample, serde_json::from_value(value).unwrap());
        }
    }

    #[test]
    fn a_good_value_reads_as_any_reader_of_json_would(value in good_sample()) {
        let text = value.to_string();
        let parsed = parse_body(text.as_bytes()).unwrap();
        let expected: Sample = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read::<Sample>(&parsed, SourceFormat::Body).unwrap(), expected);
    }

    #[test]
    fn any_query_is_read_or_refused(query in "([a-z.=&+{}\"\\[\\]]|%[0-9a-f]{2}|limit|tags|dateRange|start|.){0,40}") {
        let _ = read::<Search>(&parse_query(&query), SourceFormat::Query);
    }

    #[test]
    fn any_bytes_are_parsed_as_the_usual_parser_does_or_refused(text in "[\\[\\]{}:,\"a0-9.eE+\\\\u -]{0,30}") {
        if let Ok(value) = parse_body(text.as_bytes()) && !text.is_empty() {
            prop_assert_eq!(value, serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
