//! What queries get wrong, and the ways in which they may write one thing.

use super::*;

fn search(query: &str) -> Search {
    read(&parse_query(query), SourceFormat::Query)
        .unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn of_query<T: DeserializeOwned + Debug>(query: &str) -> Vec<String> {
    problems::<T>(&parse_query(query), SourceFormat::Query)
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
        "pagination={\"limit\":7,\"offset\":70}",
        "pagination={\"limit\":7}&pagination[offset]=70",
        "pagination.limit=7&pagination={\"offset\":70}",
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
fn problems_of_a_query_are_reported_by_dotted_path() {
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
        ("pagination={\"limit\":1}&pagination[limit]=1", "pagination.limit must be given once"),
        (
            "pagination={\"limit\":1}&pagination[offset]=1&pagination.offset=1",
            "pagination.offset must be given once, not as a list",
        ),
        (
            "pagination={\"limit\":\"1\"}&pagination[offset]=1",
            "pagination.limit must be a whole number",
        ),
        (
            "pagination={\"limit\":1}&pagination[offset]=%ff",
            "pagination.offset must be percent-encoded UTF-8",
        ),
        (
            "pagination={\"limit\":1}&pagination[offset]=1&pagination=1",
            "pagination must be given once, not as a list",
        ),
        (
            "pagination={\"limt\":1}&pagination[limit]=1",
            "pagination.limt is not a known field; did you mean limit?",
        ),
        (
            "pagination={\"limit\":1}&pagination[ofset]=1",
            "pagination.ofset is not a known parameter; did you mean offset?",
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
fn unknown_parameters_are_refused_or_ignored_as_the_client_wishes() {
    let nothing = search("");
    let known = "is not a known parameter";
    for (query, expected) in [
        ("x=%ff&y=1&y[z]=2", vec![format!("x {known}"), format!("y {known}")]),
        ("x={\"a\":", vec![format!("x {known}")]),
        ("%ff=1&%=2", vec![format!("%ff {known}"), format!("% {known}")]),
        ("limit[=1", vec![format!("limit[ {known}; did you mean limit?")]),
        (
            "limi=1&Tags=2",
            vec![
                format!("limi {known}; did you mean limit?"),
                format!("Tags {known}; did you mean tags?"),
            ],
        ),
        ("date_range[start]=1", vec![format!("date_range {known}; did you mean dateRange?")]),
        ("dateRange[strat]=1", vec![format!("dateRange.strat {known}; did you mean start?")]),
        (
            "dateRange={\"strat\":1}",
            vec!["dateRange.strat is not a known field; did you mean start?".into()],
        ),
        ("=1", vec![" must not have a field without a name".into()]),
    ] {
        assert_eq!(of_query::<Search>(query), expected, "{query}");
        let lenient = super::super::read::<Search>(
            &parse_query(query),
            SourceFormat::Query,
            UnknownFields::Ignored,
        );
        let ranged = Search { date_range: Some(Range { start: None, end: None }), ..search("") };
        let expected = if query.starts_with("dateRange") { &ranged } else { &nothing };
        assert_eq!(lenient.unwrap(), *expected, "{query}");
    }
}
