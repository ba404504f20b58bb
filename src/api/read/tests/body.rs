//! What bodies get wrong, and what they may leave out.

use std::cell::Cell;

use super::*;

fn sample(changes: Value) -> Value {
    let mut value = json!({"name": "N", "grants": [], "flag": true});
    for (key, change) in changes.as_object().unwrap() {
        value[key] = change.clone();
    }
    value
}

fn of_body(changes: Value) -> Vec<String> {
    problems::<Sample>(&sample(changes), SourceFormat::Body)
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
    let mut found = problems::<Sample>(&value, SourceFormat::Body);
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
            "grants[3].unknown is not a known field",
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
        (json!({"small": 1.5}), "small must be a whole number"),
        (json!({"small": 1e300}), "small must be a whole number from -128 to 127"),
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
    let absent: Sample = read(&sample(json!({})), SourceFormat::Body).unwrap();
    assert_eq!((absent.small, absent.cleared), (None, Nullable::Absent));

    let nulls = json!({"small": null, "cleared": null, "range": null, "texts": null});
    let nulls: Sample = read(&sample(nulls), SourceFormat::Body).unwrap();
    assert_eq!(nulls.cleared, Nullable::Clear);
    assert_eq!((nulls.small, nulls.range, nulls.texts), (None, None, None));

    let set: Sample =
        read(&sample(json!({"cleared": 2.5, "small": -3})), SourceFormat::Body).unwrap();
    assert_eq!((set.cleared.value().map(|usd| usd.get()), set.small), (Some(2.5), Some(-3)));
}

#[test]
fn json_of_any_shape_is_kept_with_its_nulls_and_order() {
    let free = json!({"z": null, "a": [null, 1, -1, 1.5, u64::MAX, {"": true}], "b": {"c": null}});
    let read: Sample = read(
        &sample(json!({"anything": free.clone(), "object": free.clone()})),
        SourceFormat::Body,
    )
    .unwrap();
    assert_eq!(read.anything.unwrap().0.to_string(), free.to_string());
    let object = read.object.unwrap();
    assert_eq!(Value::Object(object.to_map()).to_string(), free.to_string());
    assert_eq!(serde_json::to_string(&object).unwrap(), free.to_string());
}

#[test]
fn the_deepest_json_there_may_be_is_read() {
    let text = format!("{}0{}", "{\"a\":".repeat(64), "}".repeat(64));
    let value = parse_body(text.as_bytes()).unwrap();
    assert_eq!(read::<Json>(&value, SourceFormat::Body).unwrap().0, value);
}

#[test]
fn a_problem_never_repeats_what_was_sent() {
    let value = json!({
        "name": {"secret": "hunter2"}, "flag": "hunter2", "small": "hunter2", "grants": "hunter2",
        "cleared": "hunter2", "range": {"start": "hunter2"}, "byType": {"a": "hunter2"},
    });
    let found = problems::<Sample>(&value, SourceFormat::Body);
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
    let of = |value: Value| problems::<Vec<Whole>>(&value, SourceFormat::Body);
    assert_eq!(of(json!([{}])), ["[0] is wrong as a whole"]);
    assert_eq!(
        of(json!([{"end": 1, "start": 2}])),
        ["[0].start must be a string", "[0].end must be a string"]
    );
}

#[test]
fn a_type_that_refuses_every_placeholder_ends_the_search() {
    thread_local!(static READ: Cell<usize> = const { Cell::new(0) });
    #[derive(Debug)]
    struct Picky;
    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            READ.set(READ.get() + 1);
            String::deserialize(deserializer)?;
            Err(serde::de::Error::custom("is never right"))
        }
    }
    assert_eq!(problems::<Picky>(&json!("x"), SourceFormat::Body), [" is never right"]);
    assert_eq!(READ.get(), 2);

    let value = json!([1, "x", "x"]);
    assert_eq!(problems::<Vec<Picky>>(&value, SourceFormat::Body), ["[0] must be a string"]);
    type Holding = std::result::Result<u8, u8>; // An enum whose variants hold something.
    assert_eq!(
        problems::<Holding>(&json!({"Ok": 1}), SourceFormat::Body),
        [" must be one of Ok, Err"]
    );
    assert_eq!(problems::<(u8, u8)>(&json!([1, "x"]), SourceFormat::Body).len(), 1);
}

#[test]
fn the_search_ends_after_100_problems_or_much_work() {
    let value = json!(vec!["x"; 300]);
    assert_eq!(problems::<Vec<i64>>(&value, SourceFormat::Body).len(), MAX_ISSUES);

    let mut items = vec![json!(0); 400_000];
    items.extend(vec![json!("x"); MAX_ISSUES]);
    let found = problems::<Vec<i64>>(&Value::Array(items), SourceFormat::Body);
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
    let read = |value: Value| match read_input::<Range>(&value, SourceFormat::Body) {
        Ok(_) => String::new(),
        Err(error) => error.message().to_owned(),
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    assert_eq!(read(json!({"start": early, "end": late})), "");
    assert_eq!(read(json!({"start": late, "end": early})), "end must be after start");
    assert_eq!(read(json!({"start": late, "end": 1})), "end must be a string");
}

#[derive(Debug, Deserialize)]
struct Shelf {
    name: Name,
    books: Vec<Range>,
}

impl Input for Shelf {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        if self.name.starts_with('x') {
            issues.push(Issue::new("name", "must not begin with x"));
        }
        for (n, book) in self.books.iter().enumerate() {
            let mut found = Vec::new();
            book.check(&mut found);
            issues.extend(
                found.into_iter().map(|Issue { path, message }| {
                    Issue::new(format!("books[{n}].{path}"), message)
                }),
            );
        }
    }
}

#[test]
fn local_rules_are_checked_beside_what_could_not_be_read() {
    let paths = |value: Value| {
        let error = read_input::<Shelf>(&value, SourceFormat::Body).unwrap_err();
        error.issues().iter().map(|issue| issue.path.clone()).collect::<Vec<_>>()
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let reversed = json!({"start": late, "end": early});
    let broken = json!({"start": late, "end": 1});
    let books = json!([broken, reversed]);
    assert_eq!(
        paths(json!({"name": "x", "books": books})),
        ["books[0].end", "name", "books[1].end"]
    );
    // What could not be read is not blamed for the placeholder in its stead.
    assert_eq!(paths(json!({"name": "", "books": [reversed]})), ["name", "books[0].end"]);
    assert_eq!(paths(json!({"name": "x", "books": [broken]})), ["books[0].end", "name"]);
    assert_eq!(paths(json!({"name": "x", "books": 1})), ["books", "name"]);
    assert_eq!(paths(json!({"name": "x", "books": [reversed], "bok": 1})).len(), 3);
}

#[test]
fn what_takes_nothing_refuses_everything() {
    for mode in [SourceFormat::Body, SourceFormat::Query] {
        assert!(read_input::<()>(&json!({}), mode).is_ok());
        let error = read_input::<()>(&json!({"a": 1, "b": null}), mode).unwrap_err();
        assert_eq!(error.issues().len(), 2);
    }
}

#[test]
fn a_number_without_a_fractional_part_is_an_integer_however_it_is_written() {
    for text in ["2", "2.0", "2e0", "20e-1", "0.2e1"] {
        let body = format!(r#"{{"name": "N", "grants": [], "flag": true, "small": {text}}}"#);
        let value = parse_body(body.as_bytes()).unwrap();
        let sample: Sample = read(&value, SourceFormat::Body).unwrap();
        assert_eq!(sample.small, Some(2), "{text}");
    }
}

#[test]
fn unknown_fields_are_refused_at_their_paths_beside_all_other_problems() {
    let value = json!({
        "name": "", "grants": [{"userID": "u", "resourceType": "fleet", "count": 1}],
        "falg": true, "texts": {"any": "key"}, "object": {"any": 1}, "range": {"begin": null},
    });
    let mut found = problems::<Sample>(&value, SourceFormat::Body);
    found.sort();
    assert_eq!(
        found,
        [
            "falg is not a known field; did you mean flag?",
            "flag is required",
            "grants[0].userID is not a known field; did you mean userId?",
            "grants[0].userId is required",
            "name must not be empty",
            "range.begin is not a known field",
        ]
    );
}

#[test]
fn names_that_something_else_reads_are_known_and_fixed_ones_named() {
    let fixed = ["id", "orgSulg.x", "range.spent", "grants.id", "agentId"];
    let others = OtherNames {
        read_elsewhere: vec!["orgSlug".into()],
        required: vec!["name".into(), "toolRef".into()],
        fixed: fixed.map(String::from).into(),
        ..OtherNames::default()
    };
    let unknown = UnknownFields::Refused(Arc::new(others));
    let grants = json!([{"userId": Id::<()>::NIL, "resourceType": "fleet", "count": 1, "id": 1}]);
    let value = sample(json!({
        "orgSlug": "acme", "id": 1, "orgSulg": 1, "range": {"orgSlug": 1, "spent": 1, "id": 1},
        "grants": grants, "ref": 1,
    }));
    let error = super::super::read::<Sample>(&value, SourceFormat::Body, unknown).unwrap_err();
    let found: Vec<_> =
        error.issues().iter().map(|i| format!("{} {}", i.path, i.message)).collect();
    assert_eq!(
        found,
        [
            "grants[0].id cannot be changed",
            "range.orgSlug is not a known field",
            "range.spent cannot be changed",
            "range.id is not a known field",
            "id cannot be changed",
            "orgSulg is not a known field; did you mean orgSlug?",
            "ref is not a known field; did you mean toolRef?",
        ]
    );
}

#[test]
fn a_field_that_belongs_into_an_object_is_told_with_its_place() {
    let members = vec![("model".to_string(), "config".to_string())];
    let others = Arc::new(OtherNames { members, ..OtherNames::default() });
    for (format, place) in [
        (SourceFormat::Body, "field; did you mean config.model?"),
        (SourceFormat::Query, "parameter; did you mean model?"),
    ] {
        for key in ["model", "modle"] {
            let value = sample(json!({key: 1}));
            let unknown = UnknownFields::Refused(others.clone());
            let error = super::super::read::<Sample>(&value, format, unknown).unwrap_err();
            let found: Vec<_> = error.issues().iter().map(|one| one.message.to_string()).collect();
            let expected = format!("is not a known {place}");
            assert!(found.contains(&expected), "{found:?}");
        }
    }
}

#[test]
fn unknown_fields_cannot_fill_an_answer_nor_the_time() {
    let many: Map<String, Value> =
        (0..50_000).map(|n| (format!("field{n}{}", "x".repeat(50)), json!(0))).collect();
    let found = problems::<Sample>(&Value::Object(many), SourceFormat::Body);
    assert_eq!(found.len(), MAX_ISSUES);
    let long = problems::<Range>(&json!({"x".repeat(100_000): 1}), SourceFormat::Body);
    assert!(long[0].len() < 500);
}

#[test]
fn a_bounded_list_reports_problems_of_items_at_their_paths() {
    #[derive(Debug, Deserialize)]
    struct Bounded {
        #[expect(dead_code, reason = "only what is wrong with it is looked at")]
        grants: BoundedList<Grant, 1, 3>,
        #[expect(dead_code, reason = "only what is wrong with it is looked at")]
        tags: Option<BoundedList<Name, 0, 2>>,
    }
    let of = |value| problems::<Bounded>(&value, SourceFormat::Body);
    let good = json!({"userId": Id::<()>::NIL, "resourceType": "fleet", "count": 1});
    let wrong = json!([good, {"resourceType": "ship", "count": 1}, 7]);
    let mut found = of(json!({"grants": wrong, "tags": ["a", "", "c"]}));
    found.sort();
    assert_eq!(
        found,
        [
            "grants[1].resourceType must be one of fleet, registry",
            "grants[1].userId is required",
            "grants[2] must be an object",
            "tags[1] must not be empty",
        ]
    );
    assert_eq!(
        of(json!({"grants": [], "tags": ["a", "b", "c"]})),
        ["grants must have 1 to 3 items", "tags must have at most 2 items"]
    );
    assert_eq!(of(json!({"grants": [good, good, good, good]})), ["grants must have 1 to 3 items"]);
    assert_eq!(of(json!({"grants": "all"})), ["grants must be a list"]);
}
