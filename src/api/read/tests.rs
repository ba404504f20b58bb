//! Reading as operations use it: a body or a query into a typed input.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::base::{Field, Id, Int, Json, JsonMap, Kind, Name, StringMap, Time, Usd, VariableName};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Type {
    Fleet,
    Registry,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Grant {
    user_id: Id<()>,
    resource_type: Type,
    count: Int<1, 9>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Range {
    start: Option<Time>,
    end: Option<Time>,
}

/// Something of every form that inputs have.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    name: Name,
    grants: Vec<Grant>,
    flag: bool,
    small: Option<i8>,
    #[serde(default)]
    cleared: Field<Usd>,
    range: Option<Range>,
    texts: Option<StringMap>,
    by_name: Option<BTreeMap<VariableName, Grant>>,
    by_type: Option<BTreeMap<String, Type>>,
    anything: Option<Json>,
    object: Option<JsonMap>,
}

fn sample(changes: Value) -> Value {
    let mut value = json!({"name": "N", "grants": [], "flag": true});
    for (key, change) in changes.as_object().unwrap() {
        value[key] = change.clone();
    }
    value
}

/// The problems of a reading that must fail, as `path message`.
fn problems<T: DeserializeOwned + Debug>(value: &Value, mode: Mode) -> Vec<String> {
    let error = read::<T>(value, mode).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    error.issues().iter().map(|issue| format!("{} {}", issue.path, issue.message)).collect()
}

fn of_body(changes: Value) -> Vec<String> {
    problems::<Sample>(&sample(changes), Mode::Body)
}

fn of_query<T: DeserializeOwned + Debug>(query: &str) -> Vec<String> {
    problems::<T>(&parse_query(query), Mode::Query)
}

#[test]
fn every_problem_is_listed_where_it_is() {
    let value = json!({
        "grants": [
            {"userId": "u", "resourceType": "fleet", "count": 1},
            {"resourceType": "ship", "count": 10},
            "grant",
            {"userId": 7, "resourceType": null, "unknown": 1},
        ],
        "flag": "true",
        "small": 128,
        "cleared": -1,
        "range": {"start": "yesterday", "end": false},
        "texts": {"a": null, "b": "b", "c.d": 1},
        "byName": {"1a": 0, "a": {"userId": "u", "resourceType": "fleet"}, "b": []},
        "byType": {"a": "ship", "b": "fleet"},
        "object": [],
    });
    let mut found = problems::<Sample>(&value, Mode::Body);
    found.sort();
    assert_eq!(
        found,
        [
            "byName.1a must be 1 to 128 letters, digits and '_', not beginning with a digit",
            "byName.a.count is required",
            "byName.b must be an object",
            "byType.a must be one of fleet, registry",
            "cleared must be an amount from 0 to 1000000000",
            "flag must be true or false",
            "grants[1].count must be a whole number from 1 to 9",
            "grants[1].resourceType must be one of fleet, registry",
            "grants[1].userId is required",
            "grants[2] must be an object",
            "grants[3].count is required",
            "grants[3].resourceType is required",
            "grants[3].userId must be a string",
            "name is required",
            "object must be an object",
            "range.end must be a string",
            "range.start must be an RFC 3339 date-time, such as 2026-01-31T12:00:00Z",
            "small must be a whole number from -128 to 127",
            "texts.a must be a string",
            "texts.c.d must be a string",
        ]
    );
}

#[test]
fn each_type_says_what_it_must_be() {
    let table = [
        (json!({"name": 1}), "name must be a string"),
        (json!({"name": null}), "name is required"),
        (json!({"name": {}}), "name must be a string"),
        (json!({"flag": 1}), "flag must be true or false"),
        (json!({"flag": null}), "flag is required"),
        (json!({"small": 1.0}), "small must be a whole number"),
        (json!({"small": 1e300}), "small must be a whole number"),
        (json!({"small": u64::MAX}), "small must be a whole number from -128 to 127"),
        (json!({"small": "1"}), "small must be a whole number"),
        (json!({"cleared": "1"}), "cleared must be a number"),
        (json!({"grants": null}), "grants is required"),
        (json!({"grants": {}}), "grants must be a list"),
        (json!({"grants": [null]}), "grants[0] must be an object"),
        (json!({"range": "x"}), "range must be an object"),
        (json!({"range": []}), "range must be an object"),
        (json!({"texts": []}), "texts must be an object"),
        (json!({"byType": {"a": {"fleet": null}}}), "byType.a must be one of fleet, registry"),
        (json!({"byType": {"a": null}}), "byType.a must be one of fleet, registry"),
    ];
    for (changes, expected) in table {
        assert_eq!(of_body(changes), [expected]);
    }
}

#[test]
fn null_is_absent_save_where_it_clears() {
    let absent: Sample = read(&sample(json!({})), Mode::Body).unwrap();
    assert_eq!((absent.small, absent.cleared), (None, Field::Absent));

    let nulls = json!({"small": null, "cleared": null, "range": null, "texts": null});
    let nulls: Sample = read(&sample(nulls), Mode::Body).unwrap();
    assert_eq!(nulls.cleared, Field::Clear);
    assert_eq!((nulls.small, nulls.range, nulls.texts), (None, None, None));

    let set: Sample = read(&sample(json!({"cleared": 2.5, "small": -3})), Mode::Body).unwrap();
    assert_eq!((set.cleared.value().map(|usd| usd.get()), set.small), (Some(2.5), Some(-3)));
}

#[test]
fn json_of_any_shape_is_kept_with_its_nulls_and_order() {
    let free = json!({"z": null, "a": [null, 1, -1, 1.5, u64::MAX, {"": true}], "b": {"c": null}});
    let read: Sample =
        read(&sample(json!({"anything": free.clone(), "object": free.clone()})), Mode::Body)
            .unwrap();
    let (Json(anything), JsonMap(object)) = (read.anything.unwrap(), read.object.unwrap());
    assert_eq!(anything.to_string(), free.to_string());
    assert_eq!(Value::Object(object).to_string(), free.to_string());
}

#[test]
fn a_problem_never_repeats_what_was_sent() {
    let value = json!({
        "name": {"secret": "hunter2"}, "flag": "hunter2", "small": "hunter2", "grants": "hunter2",
        "cleared": "hunter2", "range": {"start": "hunter2"}, "byType": {"a": "hunter2"},
    });
    let found = problems::<Sample>(&value, Mode::Body);
    assert_eq!(found.len(), 7);
    assert!(!found.join("\n").contains("hunter2"), "{found:?}");
}

#[test]
fn a_whole_is_not_blamed_for_its_parts() {
    /// Complains whatever is in it.
    #[derive(Debug)]
    struct Whole;
    impl<'de> Deserialize<'de> for Whole {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let check = |_: Range| Err("is wrong as a whole".into());
            crate::base::checked(deserializer, check, || Whole)
        }
    }
    let of = |value: Value| problems::<Vec<Whole>>(&value, Mode::Body);
    assert_eq!(of(json!([{}])), ["[0] is wrong as a whole"]);
    assert_eq!(
        of(json!([{"end": 1, "start": 2}])),
        ["[0].start must be a string", "[0].end must be a string"]
    );
}

#[test]
fn a_type_that_refuses_every_placeholder_ends_the_search() {
    #[derive(Debug)]
    struct Picky;
    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            String::deserialize(deserializer)?;
            Err(serde::de::Error::custom("is never right"))
        }
    }
    assert_eq!(problems::<Picky>(&json!("x"), Mode::Body), [" is never right"]);
    let value = json!([1, "x", "x"]);
    assert_eq!(problems::<Vec<Picky>>(&value, Mode::Body), ["[0] must be a string"]);
    type Holding = std::result::Result<u8, u8>; // An enum whose variants hold something.
    assert_eq!(problems::<Holding>(&json!({"Ok": 1}), Mode::Body), [" must be one of Ok, Err"]);
    assert_eq!(problems::<(u8, u8)>(&json!([1, "x"]), Mode::Body).len(), 1);
}

#[test]
fn the_search_ends_after_100_problems_or_much_work() {
    let value = json!(vec!["x"; 300]);
    assert_eq!(problems::<Vec<i64>>(&value, Mode::Body).len(), MAX_ISSUES);

    let mut items = vec![json!(0); 400_000];
    items.extend(vec![json!("x"); MAX_ISSUES]);
    let found = problems::<Vec<i64>>(&Value::Array(items), Mode::Body);
    assert!((1..10).contains(&found.len()), "{}", found.len());
}

impl Input for Range {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.start >= self.end {
            issues.push(Issue::new("end", "must be after start"));
        }
    }
}

#[test]
fn rules_between_fields_are_checked_on_what_could_be_read() {
    let read = |value: Value| match read_input::<Range>(&value, Mode::Body) {
        Ok(_) => String::new(),
        Err(error) => error.message().to_owned(),
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    assert_eq!(read(json!({"start": early, "end": late})), "");
    assert_eq!(read(json!({"start": late, "end": early})), "end must be after start");
    assert_eq!(read(json!({"start": late, "end": 1})), "end must be a string");
    assert!(read_input::<()>(&json!({"a": 1}), Mode::Body).is_ok());
    assert!(read_input::<()>(&json!({"a": null}), Mode::Query).is_ok());
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Search {
    limit: Option<Int<1, 200>>,
    flag: Option<bool>,
    score: Option<f64>,
    status: Option<Type>,
    cursor: Option<String>,
    tags: Option<Vec<Name>>,
    date_range: Option<Range>,
    pagination: Option<Page>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Page {
    limit: Int<1, 200>,
    offset: Option<u32>,
}

fn search(query: &str) -> Search {
    read(&parse_query(query), Mode::Query).unwrap_or_else(|error| panic!("{query}: {error}"))
}

#[test]
fn an_object_reads_the_same_in_every_encoding() {
    let expected = Some(Range { start: Time::parse("2026-01-31T12:00:00Z"), end: None });
    for query in [
        "dateRange[start]=2026-01-31T12:00:00Z",
        "dateRange%5Bstart%5D=2026-01-31T12%3A00%3A00Z",
        "dateRange.start=2026-01-31T12:00:00Z",
        "dateRange={\"start\":\"2026-01-31T12:00:00Z\"}",
        "dateRange=%20%7B%22start%22%3A%222026-01-31T12%3A00%3A00Z%22,%22end%22:null%7D+",
    ] {
        assert_eq!(search(query).date_range, expected, "{query}");
    }
    for query in [
        "pagination[limit]=7&pagination.offset=70",
        "pagination={\"limit\":7,\"offset\":70,\"x\":[null]}",
    ] {
        let page = search(query).pagination.unwrap();
        assert_eq!((page.limit.get(), page.offset), (7, Some(70)));
    }
}

#[test]
fn scalars_and_lists_are_read_from_text() {
    let read = search("limit=007&flag=false&score=-1.5e1&status=fleet&cursor=&tags=a");
    assert_eq!(read.limit.unwrap().get(), 7);
    assert_eq!((read.flag, read.score, read.status), (Some(false), Some(-15.0), Some(Type::Fleet)));
    assert_eq!(read.cursor.as_deref(), Some(""));
    for (query, count) in [("tags=a", 1), ("tags[]=a", 1), ("tags=a&tags=b&tags[]=c", 3)] {
        assert_eq!(search(query).tags.unwrap().len(), count, "{query}");
    }
}

#[test]
fn what_a_query_gets_wrong_is_told_by_the_dotted_path() {
    let table = [
        ("limit=", "limit must be a whole number"),
        ("limit", "limit must be a whole number"),
        ("limit=+5", "limit must be a whole number"),
        ("limit=%2B5", "limit must be a whole number"),
        ("limit=5.0", "limit must be a whole number"),
        ("limit=0x5", "limit must be a whole number"),
        ("limit=-", "limit must be a whole number"),
        ("limit=--5", "limit must be a whole number"),
        ("limit=%D9%A5", "limit must be a whole number"), // An Arabic five.
        ("limit=-5", "limit must be a whole number from 1 to 200"),
        ("limit=99999999999999999999999999999999999999999999", "limit must be a whole number"),
        ("limit=5&limit=5", "limit must be given once, not as a list"),
        ("limit[]=5", "limit must be given once, not as a list"),
        ("limit[x]=5", "limit must be a whole number"),
        ("limit=%ff", "limit must be percent-encoded UTF-8"),
        ("flag=True", "flag must be true or false"),
        ("flag=1", "flag must be true or false"),
        ("flag=", "flag must be true or false"),
        ("score=NaN", "score must be a number"),
        ("score=1e999", "score must be a number"),
        ("score=+1", "score must be a number"),
        ("status=ship", "status must be one of fleet, registry"),
        ("status=fleet&status=fleet", "status must be given once, not as a list"),
        ("cursor=%zz", "cursor must be percent-encoded UTF-8"),
        ("tags=%ff", "tags must be percent-encoded UTF-8"),
        ("tags=a&tags=%ff", "tags[1] must be percent-encoded UTF-8"),
        ("tags[x]=a", "tags must be a list"),
        ("tags=a&tags[x]=a", "tags[1] must be a string"),
        ("pagination.limit=x", "pagination.limit must be a whole number"),
        ("pagination[limit]=201", "pagination.limit must be a whole number from 1 to 200"),
        (
            "pagination[limit]=1&pagination.limit=1",
            "pagination.limit must be given once, not as a list",
        ),
        ("pagination[offset]=1", "pagination.limit is required"),
        (
            "pagination[limit]=1&pagination[offset]=4294967296",
            "pagination.offset must be a whole number from 0 to 4294967295",
        ),
        ("pagination={\"limit\":\"1\"}", "pagination.limit must be a whole number"),
        ("pagination={\"limit\":null}", "pagination.limit is required"),
        ("pagination={\"limit\":1,\"limit\":1}", "pagination.limit must be given once"),
        (
            "pagination={\"limit\":1}&pagination={\"limit\":1}",
            "pagination must be given once, not as a list",
        ),
        (
            "pagination={\"limit\":1}&pagination[offset]=1",
            "pagination must be given once, not as a list",
        ),
        (
            "pagination={\"limit\":1",
            "pagination must be valid JSON: EOF while parsing an object at line 1 column 10",
        ),
        ("pagination=%ff", "pagination must be percent-encoded UTF-8"),
        ("pagination=", "pagination must be an object: name[field]=…, name.field=… or name={…}"),
        ("pagination=[]", "pagination must be an object: name[field]=…, name.field=… or name={…}"),
        (
            "dateRange.start=2026",
            "dateRange.start must be an RFC 3339 date-time, such as 2026-01-31T12:00:00Z",
        ),
    ];
    for (query, expected) in table {
        assert_eq!(of_query::<Search>(query), [expected], "{query}");
    }
    assert_eq!(
        of_query::<Search>(
            "limit=0&pagination={\"limit\":0,\"offset\":1,\"offset\":2,\"limit\":1}&flag=&dateRange={\"end\":0}"
        ),
        [
            "limit must be a whole number from 1 to 200",
            "flag must be true or false",
            "dateRange.end must be a string",
            "pagination.offset must be given once",
            "pagination.limit must be given once",
        ]
    );
}

#[test]
fn parameters_that_nobody_reads_do_no_harm() {
    let nothing = search("");
    for query in ["x=%ff&y=1&y[z]=2", "x={\"a\":", "%ff=1&%=2", "limit[=1", "limi[t]=1&[limit]=2"] {
        assert_eq!(search(query), nothing, "{query}");
    }
}

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
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let key = prop_oneof![
        5 => proptest::sample::select(&[
            "name", "grants", "flag", "small", "cleared", "range", "texts", "byName", "byType",
            "anything", "object", "userId", "resourceType", "count", "start", "end",
        ][..]).prop_map(String::from),
        1 => ".{0,3}",
    ];
    leaf.prop_recursive(5, 60, 16, move |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => proptest::collection::vec((key.clone(), inner), 0..16)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// JSON that is a `Sample`.
fn good_sample() -> impl Strategy<Value = Value> {
    let grant = (any::<String>(), prop_oneof!["fleet", "registry"], 1..=9)
        .prop_map(|(user, of, count)| json!({"userId": user, "resourceType": of, "count": count}));
    let grants = proptest::collection::vec(grant.clone(), 0..3);
    let cleared = prop_oneof![
        Just(json!({})),
        Just(json!({"cleared": null})),
        (0.0..1e9).prop_map(|usd| json!({"cleared": usd})),
    ];
    let range = proptest::option::of(Just(json!({"start": "2026-01-31T12:00:00+01:00"})));
    let texts = proptest::option::of(proptest::collection::btree_map(".{0,3}", ".{0,3}", 0..3));
    let by_name = proptest::option::of(proptest::collection::btree_map("[a-z_]{1,3}", grant, 0..3));
    let rest = (proptest::option::of(any::<i8>()), range, texts, by_name, any_json());
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
        for mode in [Mode::Body, Mode::Query] {
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
        if let Ok(sample) = read::<Sample>(&value, Mode::Body) {
            prop_assert_eq!(sample, serde_json::from_value(value).unwrap());
        }
    }

    #[test]
    fn a_good_value_reads_as_any_reader_of_json_would(value in good_sample()) {
        let text = value.to_string();
        let parsed = parse_body(text.as_bytes()).unwrap();
        let expected: Sample = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read::<Sample>(&parsed, Mode::Body).unwrap(), expected);
    }

    #[test]
    fn any_query_is_read_or_refused(query in "([a-z.=&+{}\"\\[\\]]|%[0-9a-f]{2}|limit|tags|dateRange|start|.){0,40}") {
        let _ = read::<Search>(&parse_query(&query), Mode::Query);
    }

    #[test]
    fn any_bytes_are_parsed_as_the_usual_parser_does_or_refused(text in "[\\[\\]{}:,\"a0-9.eE+\\\\u -]{0,30}") {
        if let Ok(value) = parse_body(text.as_bytes()) && !text.is_empty() {
            prop_assert_eq!(value, serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
