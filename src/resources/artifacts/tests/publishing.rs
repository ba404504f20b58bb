//! What publishing keeps and what it refuses.

use std::sync::Arc;
use std::time::Duration;

use super::super::compiling::compile;
use super::super::{drafts, publishing};
use super::*;
use crate::api::{Action, RawArgs, ServerInfo};
use crate::base::{Id, Kind, canonical};
use crate::outbox::{EVENTS_BY_TYPE, Event, EventType};
use crate::store::Order;

/// The messages about the source of a 400.
fn problems(error: crate::base::Error, path: &str) -> Vec<String> {
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.issues().iter().all(|issue| issue.path == path), "{:?}", error.issues());
    error.issues().iter().map(|issue| issue.message.clone()).collect()
}

fn refused(fixture: &Fixture, body: Value) -> Vec<String> {
    problems(publish(fixture, body).unwrap_err(), "source")
}

#[test]
fn a_version_shows_what_was_published_and_its_hash() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let mut new = version("prompt", "greeting", "1.0.0", "Hello {{name}}{{ name }}, {{b}}");
    new["metadata"] = json!({"z": 1.0, "a": null});
    new["message"] = json!("Shorter.");
    let made = publish(&fixture, new).unwrap();
    let hashed = json!({
        "type": "prompt", "name": "greeting", "version": "1.0.0", "model": "generic",
        "source": "Hello {{name}}{{ name }}, {{b}}", "metadata": {"a": null, "z": 1},
    });
    let hash = blake3::hash(canonical(&hashed).as_bytes()).to_string();
    let expected = json!({
        "id": made.row.id, "registryRef": "acme/main", "artifactType": "prompt",
        "name": "greeting", "version": "1.0.0", "model": "generic",
        "metadata": {"z": 1.0, "a": null}, "hash": hash, "imports": {},
        "variables": ["name", "b"], "publishedBy": user(&fixture.member),
        "publishedAt": "2026-01-15T12:00:00.000Z", "message": "Shorter.",
        "source": "Hello {{name}}{{ name }}, {{b}}",
        "compiled": "Hello {{name}}{{ name }}, {{b}}", "warnings": [],
    });
    assert_eq!(json!(made), expected);
    let content = content(&fixture, about("prompt", "greeting", json!({}))).unwrap();
    for (field, value) in content.as_object().unwrap() {
        assert_eq!(*value, expected[field], "{field}");
    }
    assert_eq!(content.as_object().unwrap().len(), 10);
    // Whatever is hashed changes the hash.
    let others = ["2.0.0", "1.0.0"].map(|number| version("promptlet", "greeting", number, "x"));
    let hashes = others.map(|new| publish(&fixture, new).unwrap().row.hash);
    assert!(hashes[0] != hashes[1] && hashes[0] != hash);
}

#[test]
fn a_version_is_published_once_for_each_model() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    prompt(&fixture, "p", "1.0.0", "x");
    for number in ["1.0.0", "01.0.00"] {
        let error = publish(&fixture, version("prompt", "p", number, "y")).unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Conflict, "version_exists"));
    }
    let mut new = version("prompt", "p", "1.0.0", "y");
    new["model"] = json!("a");
    publish(&fixture, new.clone()).unwrap();
    new["source"] = json!("z");
    assert_eq!(publish(&fixture, new).unwrap_err().code(), "version_exists");
    promptlet(&fixture, "p", "1.0.0", "x");
    assert_eq!(rows(&fixture), [2, 3, 3, 0, 0, 0]);
    fixture.assert_sound();
}

#[test]
fn publishing_the_same_content_again_answers_the_version_and_writes_nothing() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let mut new = version("prompt", "p", "1.0.0", "x");
    new["metadata"] = json!({"b": 1, "a": [2.0]});
    let made = publish(&fixture, new.clone()).unwrap();
    let before = rows(&fixture);
    fixture.pass_secs(60);
    // The same by another order of keys and another form of the version.
    new["metadata"] = json!({"a": [2.0], "b": 1});
    new["version"] = json!("01.0.0");
    assert_eq!(publish(&fixture, new.clone()).unwrap(), made);
    assert_eq!(rows(&fixture), before);
    for (field, other) in [("source", json!("y")), ("metadata", json!({"b": 1}))] {
        let mut other_content = new.clone();
        other_content[field] = other;
        let error = publish(&fixture, other_content).unwrap_err();
        assert_eq!(error.code(), "version_exists", "{field}");
    }
    assert_eq!(rows(&fixture), before);
}

#[test]
fn an_import_is_the_highest_match_for_the_importing_text_and_frozen_with_it() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "old");
    promptlet(&fixture, "tone", "1.2.0", "calm {{mood}}");
    promptlet(&fixture, "tone", "2.0.0", "new");
    let mut own = version("promptlet", "tone", "1.3.0", "own");
    own["model"] = json!("a");
    publish(&fixture, own).unwrap();
    promptlet(&fixture, "style", "1.0.0", "[{{ import \"tone@1\" }} {{x}}]");

    let source = "{{first}}{{ import \"style\" }}{{ import \"tone\" }}{{import \"tone@^1.0\"}}";
    let made = prompt(&fixture, "p", "1.0.0", source);
    assert_eq!(made.compiled, "{{first}}[calm {{mood}} {{x}}]newcalm {{mood}}");
    assert_eq!(made.row.variables, ["first", "mood", "x"]);
    // Of a promptlet in two versions the higher one is shown.
    assert_eq!(json!(made.row.imports), json!({"style": "1.0.0", "tone": "2.0.0"}));
    let mut for_a = version("prompt", "p", "1.0.0", "{{ import \"tone@^1.0\" }}");
    for_a["model"] = json!("a");
    assert_eq!(publish(&fixture, for_a).unwrap().compiled, "own");

    // What is published later changes nothing of it.
    promptlet(&fixture, "tone", "1.9.0", "newer");
    assert_eq!(
        content(&fixture, about("prompt", "p", json!({}))).unwrap()["compiled"],
        made.compiled
    );
    assert_eq!(
        prompt(&fixture, "q", "1.0.0", "{{import \"style\"}}").compiled,
        "[calm {{mood}} {{x}}]"
    );
}

#[test]
fn every_problem_is_reported_with_its_position() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    with_access(&fixture, "other", Access::Organization);
    prompt(&fixture, "only-a-prompt", "1.0.0", "x");
    promptlet(&fixture, "tone", "1.0.0", "x");
    let source = "é {{ 1 }}\n{{ import \"nowhere\" }} {{ import \"tone@^2\" }}\n  {{ import \
                  \"only-a-prompt\" }}{{";
    let issues = refused(&fixture, version("prompt", "p", "1.0.0", source));
    let places: Vec<_> = issues.iter().map(|issue| &issue[issue.rfind('(').unwrap()..]).collect();
    let expected =
        ["(line 1, column 3)", "(line 2, column 1)", "(line 2, column 24)", "(line 3, column 3)"];
    assert_eq!(places[..4], expected, "{issues:?}");
    assert_eq!(places.len(), 5, "{issues:?}");
    assert_eq!(rows(&fixture)[1], 2, "nothing was published");
    // A promptlet of another registry is none.
    let mut elsewhere = version("prompt", "p", "1.0.0", "{{ import \"tone\" }}");
    elsewhere["registryRef"] = json!("acme/other");
    assert_eq!(refused(&fixture, elsewhere).len(), 1);
}

#[test]
fn a_promptlet_never_imports_itself_not_even_through_others() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "a", "1.0.0", "x");
    promptlet(&fixture, "b", "1.0.0", "{{ import \"a\" }}");
    promptlet(&fixture, "c", "1.0.0", "{{ import \"b\" }}");
    for source in ["{{ import \"a\" }}", "{{ import \"b\" }}", "{{import \"c@1.0.0\"}}"] {
        let issues = refused(&fixture, version("promptlet", "a", "2.0.0", source));
        assert!(issues[0].contains("itself"), "{issues:?}");
    }
    // A prompt of the same name is another thing.
    prompt(&fixture, "a", "1.0.0", "{{ import \"c\" }}");
    promptlet(&fixture, "d", "1.0.0", "{{ import \"a\" }}{{ import \"c\" }}");
}

#[test]
fn a_chain_of_16_imports_is_the_longest() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "p0", "1.0.0", "deep");
    for n in 1..=16 {
        promptlet(&fixture, &format!("p{n}"), "1.0.0", &format!("{{{{ import \"p{}\" }}}}", n - 1));
    }
    let longest = prompt(&fixture, "p", "1.0.0", "{{ import \"p15\" }}");
    assert_eq!(longest.compiled, "deep");
    for kind in ["prompt", "promptlet"] {
        let issues = refused(&fixture, version(kind, "q", "1.0.0", "{{ import \"p16\" }}"));
        assert!(issues[0].contains("16"), "{issues:?}");
    }
}

#[test]
fn a_message_stays_with_its_version_whatever_is_published_again() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let with = |message: Value| {
        let mut new = version("prompt", "p", "1.0.0", "x");
        new["message"] = message;
        publish(&fixture, new)
    };
    let first = with(json!("First.")).unwrap();
    for message in [json!("First."), json!("Another."), Value::Null] {
        assert_eq!(with(message).unwrap(), first, "the content is the same");
    }
    for wrong in [json!(""), json!("x".repeat(501)), json!(1)] {
        let error = with(wrong).unwrap_err();
        assert_eq!((error.kind(), error.issues()[0].path.as_str()), (Kind::Invalid, "message"));
    }
    let second = publish(&fixture, version("prompt", "p", "1.1.0", "y")).unwrap();
    assert_eq!(second.row.message, None);
    let query = about("prompt", "p", json!({"from": "1.0.0", "to": "1.1.0"}));
    let query = Fixture::input(query).unwrap();
    let diff = json!(fixture.read(super::super::diff::get, (), query).unwrap());
    assert_eq!((&diff["fromMessage"], &diff["toMessage"]), (&json!("First."), &Value::Null));
}

#[test]
fn a_publication_is_an_event() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let mut new = version("prompt", "p", "1.0.0", "x");
    new["message"] = json!("Shorter.");
    publish(&fixture, new).unwrap();
    let payload_of = |event_type: EventType| {
        let first = |view: &View| view.first(&EVENTS_BY_TYPE, &event_type, Order::Descending);
        let event: Event = fixture.store.read_now(fixture.org, first).unwrap().unwrap();
        assert_eq!(event.about.resource.kind, "artifact_version");
        assert_eq!(event.about.guarded_by[0].kind, "registry");
        event.payload.0
    };
    let payload = payload_of(EventType::RegistryArtifactPublished);
    assert_eq!((&payload["name"], &payload["version"]), (&json!("p"), &json!("1.0.0")));
    assert_eq!(payload["message"], "Shorter.");
    assert_eq!(
        (&payload["artifactType"], &payload["model"]),
        (&json!("prompt"), &json!("generic"))
    );
    delete(&fixture, "prompt", "p", "1.0.0").unwrap();
    let payload = payload_of(EventType::RegistryArtifactDeleted);
    assert_eq!((&payload["name"], &payload["version"]), (&json!("p"), &json!("1.0.0")));
}

#[test]
fn a_version_has_no_more_than_can_be_deleted_in_one_transaction() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let many =
        |letter: char| -> String { (0..1000).map(|n| format!("{{{{{letter}{n}}}}}")).collect() };
    let for_model = |number: usize, letter: char| {
        let mut new = version("prompt", "p", "1.0.0", &many(letter));
        new["model"] = json!(format!("m{number}"));
        publish(&fixture, new)
    };
    for (number, letter) in ('a'..='e').enumerate() {
        for_model(number, letter).unwrap();
    }
    assert_eq!(for_model(9, 'f').unwrap_err().code(), "version_full");
    assert_eq!(rows(&fixture), [1, 5, 5, 0, 5000, 0]);
    delete(&fixture, "prompt", "p", "1.0.0").unwrap();
    assert_eq!(rows(&fixture), [0; 6]);
    fixture.assert_sound();
}

#[test]
fn a_member_without_a_grant_publishes_nothing_into_a_restricted_registry() {
    let fixture = Fixture::new();
    with_access(&fixture, "main", Access::Restricted);
    let error = publish(&fixture, version("prompt", "p", "1.0.0", "x")).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Forbidden, "grant_required"));
    let mut nowhere = version("prompt", "p", "1.0.0", "x");
    nowhere["registryRef"] = json!("acme/nowhere");
    assert_eq!(publish(&fixture, nowhere).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_compiled_text_compiles_to_itself() {
    let fixture = Fixture::new();
    let registry = registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "\\{{ {{a}} }}");
    let made = prompt(&fixture, "p", "1.0.0", "\\{{ import \"tone\" }} {{ import \"tone\" }}");
    let id = ArtifactId::parse(&registry, None, "p").unwrap();
    let again =
        fixture.store.read_now(fixture.org, |view| compile(view, &id, &generic(), &made.compiled));
    let again = again.unwrap().compilation;
    assert_eq!((again.text, again.imports.len()), (made.compiled, 0));
}

#[test]
fn a_compilation_that_reads_too_much_is_refused() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "x", "1.0.0", "x");
    // Of 288,000 bytes each, which become 18,000.
    let long = "{{ import \"x\" }}".repeat(18_000);
    let source = |count: usize| -> String {
        (0..count).map(|n| format!("{{{{ import \"long@1.0.{n}\" }}}}")).collect()
    };
    for n in 0..29 {
        promptlet(&fixture, "long", &format!("1.0.{n}"), &long);
    }
    prompt(&fixture, "p", "1.0.0", &source(27));
    let issues = refused(&fixture, version("prompt", "p", "1.1.0", &source(29)));
    assert_eq!(issues.len(), 1, "{issues:?}");
    assert!(issues[0].contains("the imports before this one are too large together"), "{issues:?}");
}

/// Requests that publish, with the names of their routes: path parameters and body.
fn publications() -> [(&'static str, Vec<String>, Value); 3] {
    let of = json!({"registryRef": "acme/main", "promptName": "p", "version": "1.0.0",
        "to": {"version": "1.0.1"}});
    let draft = vec!["p".to_string(), Id::<()>::NIL.to_string()];
    [
        ("artifact_version.publish", vec![], version("prompt", "p", "1.0.0", "Hello.")),
        ("draft.publish", draft, json!({"registryRef": "acme/main"})),
        ("artifact_version.clone", vec![], of),
    ]
}

#[test]
fn each_route_that_publishes_gives_models_60_seconds() {
    let fixture = Fixture::new();
    let server = Arc::new(ServerInfo::bare(fixture.store.keys().clone()));
    let routes = || [publishing::routes(), drafts::routes(), cloning::routes()].into_iter();
    for (name, params, body) in publications() {
        let route = routes().flatten().find(|route| route.name == name).unwrap();
        let (params, origin): (Arc<[String]>, _) = (params.into(), Arc::default());
        let bound = route.bind(RawArgs::body(&params, &body, (&origin, &server))).unwrap();
        let Action::Write(_, total) = bound.action else { panic!("{name} writes") };
        assert_eq!(total, Some(Duration::from_secs(60)), "{name}");
    }
}
