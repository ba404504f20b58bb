//! References between versions, diffs, rendering, previews and clones.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::super::diff;
use super::*;
use crate::base::Kind;
use crate::resources::environments;

#[test]
fn dependents_are_known_per_version() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "old");
    prompt(&fixture, "a", "1.0.0", "{{ import \"tone\" }}{{ import \"tone@1.0.0\" }}");
    promptlet(&fixture, "tone", "1.1.0", "new");
    promptlet(&fixture, "b", "1.0.0", "{{ import \"tone@^1.0\" }}{{ import \"tone@1.0.0\" }}");
    prompt(&fixture, "c", "1.0.0", "{{ import \"b\" }}");
    let all = dependents_of(&fixture, "tone", None).unwrap();
    let expected =
        ["promptlet b 1.0.0 ^1.0 1.1.0", "promptlet b 1.0.0 1.0.0 1.0.0", "prompt a 1.0.0 * 1.0.0"];
    assert_eq!(all, expected, "direct imports, newest first");
    for version in ["1.1.0", "~1.1", "01.1.0"] {
        assert_eq!(dependents_of(&fixture, "tone", Some(version)).unwrap(), expected[..1]);
    }
    assert_eq!(dependents_of(&fixture, "tone", Some("^1")).unwrap(), expected);
    assert_eq!(dependents_of(&fixture, "tone", Some("^2")).unwrap(), [""; 0]);
    for nothing in ["2.0.0", "nolabel", "-"] {
        let error = dependents_of(&fixture, "tone", Some(nothing)).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{nothing}");
    }
    assert_eq!(dependents_of(&fixture, "nothing", None).unwrap_err().kind(), Kind::NotFound);
    fixture.assert_sound();
}

#[test]
fn a_version_is_one_dependent_for_all_its_models() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "x");
    for model in ["generic", "a", "b"] {
        let mut new = version("prompt", "p", "1.0.0", "{{ import \"tone\" }}");
        new["model"] = json!(model);
        publish(&fixture, new).unwrap();
    }
    assert_eq!(dependents_of(&fixture, "tone", None).unwrap(), ["prompt p 1.0.0 * 1.0.0"]);
    delete(&fixture, "prompt", "p", "1.0.0").unwrap();
    assert_eq!(dependents_of(&fixture, "tone", None).unwrap(), [""; 0]);
    delete(&fixture, "promptlet", "tone", "1.0.0").unwrap();
    assert_eq!(rows(&fixture), [0; 6]);
}

/// Lists the versions that use a variable, and whether each is the latest.
fn uses(fixture: &Fixture, variable: &str) -> Vec<String> {
    let variable = crate::base::VariableName::parse(variable).unwrap();
    let mut uses = Vec::new();
    let read = |view: &View| {
        variables::scan_versions_using(view, &variable, |used| {
            let latest = if variables::is_latest(view, &used)? { " latest" } else { "" };
            uses.push(format!("{} {}{latest}", used.of.name, used.version));
            Ok(ControlFlow::Continue(()))
        })
    };
    fixture.store.read_now(fixture.org, read).unwrap();
    uses
}

#[test]
fn variables_of_a_promptlet_count_for_its_dependents_too() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "{{A}}");
    prompt(&fixture, "p", "1.0.0", "{{ import \"tone\" }}");
    prompt(&fixture, "p", "1.1.0", "{{B}} \\{{A}}");
    prompt(&fixture, "p", "1.2.0", "{{A}}");
    assert_eq!(uses(&fixture, "A"), ["tone 1.0.0 latest", "p 1.2.0 latest", "p 1.0.0"]);
    assert_eq!(uses(&fixture, "B"), ["p 1.1.0"]);
    delete(&fixture, "prompt", "p", "1.2.0").unwrap();
    assert_eq!(uses(&fixture, "A"), ["tone 1.0.0 latest", "p 1.0.0"]);
    assert_eq!(uses(&fixture, "B"), ["p 1.1.0 latest"]);
    delete(&fixture, "prompt", "p", "1.1.0").unwrap();
    assert_eq!(uses(&fixture, "B"), [""; 0]);
    fixture.assert_sound();
}

#[test]
fn versions_are_compared_by_their_sources_and_variables() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "{{mood}}");
    prompt(&fixture, "p", "1.0.0", "one\n{{a}}\n");
    prompt(&fixture, "p", "1.1.0", "one\n{{b}}\n{{ import \"tone\" }}\n");
    label(&fixture, "p", "live", "1.0.0").unwrap();
    let diff = |from: &str, to: &str| {
        let query = about("prompt", "p", json!({"from": from, "to": to}));
        fixture.read(diff::get, (), Fixture::input(query).unwrap()).map(|diff| json!(diff))
    };
    let expected = json!({
        "from": "1.0.0", "to": "1.1.0", "fromMessage": null, "toMessage": null,
        "diff": "--- 1.0.0\n+++ 1.1.0\n@@ -1,2 +1,3 @@\n one\n-{{a}}\n+{{b}}\n\
                 +{{ import \"tone\" }}\n",
        "variables": {"added": ["b", "mood"], "removed": ["a"]},
    });
    assert_eq!(diff("1.0.0", "1.1.0").unwrap(), expected);
    assert_eq!(diff("live", "^1").unwrap(), expected);
    assert_eq!(diff("1.0.0", "1.0.0").unwrap()["diff"], "");
    for (from, to) in [("1.0.0", "3"), ("nolabel", "1.0.0"), ("", "1.0.0")] {
        assert_eq!(diff(from, to).unwrap_err().kind(), Kind::NotFound);
    }
}

fn render(fixture: &Fixture, more: Value) -> Result<Value> {
    let mut body = about("prompt", "p", more);
    body.as_object_mut().unwrap().remove("promptName");
    let input = Fixture::input(body)?;
    fixture.read(prompts::render, "p".to_string(), input).map(|rendered| json!(rendered))
}

#[test]
fn values_of_the_request_take_precedence_over_the_environment() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    prompt(&fixture, "p", "1.0.0", "{{A}} {{ B }} {{C}} {{C}} \\{{A}}");
    let of_nothing = render(&fixture, json!({})).unwrap();
    let expected = json!({
        "text": "{{A}} {{ B }} {{C}} {{C}} {{A}}", "missing": ["A", "B", "C"],
        "version": "1.0.0", "model": "generic",
    });
    assert_eq!(of_nothing, expected);
    let environment = environments::tests::make(&fixture, json!({"slug": "test", "name": "T"}));
    let environment = environment.unwrap().id;
    for (name, value) in [("A", "no"), ("B", "{{A}}")] {
        environments::variable_tests::put(&fixture, environment, name, value).unwrap();
    }
    for reference in ["test".to_string(), environment.to_string()] {
        let filled =
            render(&fixture, json!({"environment": reference, "variables": {"A": "a", "D": "d"}}));
        let filled = filled.unwrap();
        assert_eq!(filled["text"], "a {{A}} {{C}} {{C}} {{A}}");
        assert_eq!(filled["missing"], json!(["C"]));
    }
    let unknown = render(&fixture, json!({"environment": "nowhere"})).unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound);
    let hidden = json!({"slug": "hidden", "name": "H", "access": "restricted"});
    environments::tests::make(&fixture, hidden).unwrap();
    let error = render(&fixture, json!({"environment": "hidden"})).unwrap_err();
    assert_eq!(error.code(), "grant_required");
    assert_eq!(render(&fixture, json!({"version": "2"})).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_source_is_compiled_without_publishing() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "calm\u{e0069} {{mood}}\u{200b}");
    let compile = |kind: &str, name: &str, source: &str| {
        let body = json!({"registryRef": "acme/main", "artifactType": kind, "source": source});
        let name = crate::base::ArtifactName::parse(name).unwrap();
        json!(fixture.read(prompts::preview, name, Fixture::input(body).unwrap()).unwrap())
    };
    let compiled = compile("prompt", "not-there-yet", "{{a}}{{ import \"tone@1\" }}");
    let expected = json!({
        "compiled": "{{a}}calm\u{e0069} {{mood}}\u{200b}", "imports": {"tone": "1.0.0"},
        "variables": ["a", "mood"], "problems": [], "warnings": [],
        "invisibleCharacters": 2,
    });
    assert_eq!(compiled, expected);
    let compiled = compile("prompt", "path", "C:\\{{USER}} {{ '{' }}{{a}}");
    assert_eq!((&compiled["variables"], &compiled["problems"]), (&json!(["a"]), &json!([])));
    let warning = &compiled["warnings"][0];
    assert_eq!((&warning["line"], &warning["column"]), (&json!(1), &json!(3)), "{compiled}");
    let compiled = compile("promptlet", "tone", "{{\n {{ import \"tone\" }}");
    let places: Vec<_> = compiled["problems"].as_array().unwrap().iter().collect();
    assert_eq!((&places[0]["line"], &places[0]["column"]), (&json!(1), &json!(1)), "{places:?}");
    assert_eq!((&places[1]["line"], &places[1]["column"]), (&json!(2), &json!(2)), "{places:?}");
    assert_eq!(rows(&fixture), [1, 1, 1, 0, 1, 0]);
}

#[test]
fn a_source_is_compiled_as_if_promptlets_were_published_that_come_along() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "calm");
    let compile = |source: &str, promptlets: serde_json::Value| {
        let body = json!({"registryRef": "acme/main", "source": source, "promptlets": promptlets});
        let name = crate::base::ArtifactName::parse("p").unwrap();
        json!(fixture.read(prompts::preview, name, Fixture::input(body).unwrap()).unwrap())
    };
    let new = |name: &str, version: &str, source: &str| json!({"name": name, "version": version, "source": source});
    let source = "{{ import \"tone@^1\" }}, {{ import \"voice\" }}";
    let both = json!([
        new("tone", "1.1.0", "calmer {{mood}}"),
        new("voice", "1.0.0", "<{{ import \"tone\" }}>"),
    ]);
    let expected = json!({
        "compiled": "calmer {{mood}}, <calmer {{mood}}>",
        "imports": {"tone": "1.1.0", "voice": "1.0.0"}, "variables": ["mood"], "problems": [],
        "warnings": [], "invisibleCharacters": 0,
    });
    assert_eq!(compile(source, both), expected);
    // One that is beyond the range, or older, or for another model, is not what is meant.
    for (version, model) in [("2.0.0", "generic"), ("0.9.0", "generic"), ("1.5.0", "other")] {
        let mut tone = new("tone", version, "other");
        tone["model"] = json!(model);
        let compiled =
            compile("{{ import \"tone@>=0.1\" }}{{ import \"tone@^1\" }}", json!([tone]));
        let highest = if version == "2.0.0" { "othercalm" } else { "calmcalm" };
        assert_eq!(compiled["compiled"], highest, "{version} {model}");
    }
    // Each comes after those that it imports, and none imports what imports it.
    let problem = |promptlets| {
        let compiled = compile("{{ import \"a\" }}", promptlets);
        compiled["problems"][0]["message"].as_str().unwrap().to_string()
    };
    let (a, b) = (new("a", "1.0.0", "{{ import \"b\" }}"), new("b", "1.0.0", "{{ import \"a\" }}"));
    let message = "the promptlet \"a\", which is to be published before, cannot be compiled";
    assert_eq!(problem(json!([a, b])), message);
    assert_eq!(problem(json!([b, a])), message);
    assert_eq!(problem(json!([new("a", "1.0.0", "{{ import \"nowhere\" }}")])), message);
    // Nothing of it is there afterwards.
    assert!(compile(source, json!([]))["problems"].as_array().unwrap().len() == 1);
    assert_eq!(rows(&fixture), [1, 1, 1, 0, 0, 0]);
}

#[test]
fn promptlets_that_come_along_are_bounded_together() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let large = "x".repeat(300_000);
    promptlet(&fixture, "large", "1.0.0", &large);
    // Three times that text in each: 30 of them would be 27 MB.
    let source = "{{ import \"large\" }}".repeat(3);
    let promptlets: Vec<_> = (0..30)
        .map(|n| json!({"name": format!("p{n}"), "version": "1.0.0", "source": source}))
        .collect();
    let body = json!({"registryRef": "acme/main", "source": "{{ import \"p29\" }}",
        "promptlets": promptlets});
    let name = crate::base::ArtifactName::parse("p").unwrap();
    let done = fixture.read(prompts::preview, name, Fixture::input(body).unwrap()).unwrap();
    let done = json!(done);
    assert_eq!(done["problems"].as_array().unwrap().len(), 1, "{done}");
}

#[test]
fn a_source_is_filled_without_publishing() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "calm {{MOOD}}");
    let environment = environments::tests::make(&fixture, json!({"slug": "test", "name": "T"}));
    let environment = environment.unwrap().id;
    for (name, value) in [("A", "no"), ("MOOD", "{{A}}\u{202e}")] {
        environments::variable_tests::put(&fixture, environment, name, value).unwrap();
    }
    let fill = |source: &str, more: serde_json::Value| {
        let mut body = json!({"registryRef": "acme/main", "source": source});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let name = crate::base::ArtifactName::parse("p").unwrap();
        let input = Fixture::input(body).unwrap();
        fixture.read(prompts::preview_filled, name, input).map(|done| json!(done))
    };
    let source = "{{A}} {{B}} {{ import \"tone\" }} \\{{A}}";
    let filled = fill(source, json!({"environment": "test", "variables": {"A": "a"}})).unwrap();
    let expected = json!({"text": "a {{B}} calm {{A}}\u{202e} {{A}}", "missing": ["B"],
        "problems": [], "invisibleCharacters": 1});
    assert_eq!(filled, expected);
    assert_eq!(fill(source, json!({})).unwrap()["missing"], json!(["A", "B", "MOOD"]));
    let broken = fill("{{ import \"nowhere\" }}", json!({"environment": "test"})).unwrap();
    assert_eq!((&broken["text"], &broken["problems"][0]["line"]), (&json!(""), &json!(1)));
    let unknown = fill(source, json!({"environment": "nowhere"})).unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound);
    assert_eq!(rows(&fixture), [1, 1, 1, 0, 1, 0]);
}

#[test]
fn a_clone_has_all_models_and_is_compiled_in_its_target() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    registry(&fixture, "other");
    promptlet(&fixture, "tone", "1.0.0", "here");
    let mut there = version("promptlet", "tone", "1.0.0", "there");
    there["registryRef"] = json!("acme/other");
    publish(&fixture, there).unwrap();
    for model in ["a", "generic", "z"] {
        let mut new = version("prompt", "p", "1.0.0", &format!("{model} {{{{import \"tone\"}}}}"));
        new["model"] = json!(model);
        publish(&fixture, new).unwrap();
    }
    let clone = |version: &str, to: Value| {
        let body = about("prompt", "p", json!({"version": version, "to": to}));
        call(&fixture, cloning::clone, (), body)
    };
    let made = clone("1.0.0", json!({"registryRef": "acme/other", "promptName": "q"})).unwrap();
    assert_eq!(made.row.registry_ref, "acme/other");
    assert_eq!((made.row.model.as_str(), made.compiled.as_str()), ("generic", "generic there"));
    assert_eq!(rows(&fixture)[1], 8);
    let again = clone("1.0.0", json!({"version": "1.1.0"})).unwrap();
    assert_eq!(again.compiled, "generic here");
    // Onto itself, or again: the version as it is.
    let before = rows(&fixture);
    assert_eq!(clone("1.0.0", json!({"version": "1.1.0"})).unwrap(), again);
    for to in [json!({}), json!({"promptName": "p"}), json!({"version": "01.0.0"})] {
        assert_eq!(clone("1.0.0", to).unwrap().compiled, "generic here");
    }
    assert_eq!(rows(&fixture), before);
    prompt(&fixture, "taken", "1.0.0", "other");
    let error = clone("1.0.0", json!({"promptName": "taken"})).unwrap_err();
    assert_eq!(error.code(), "version_exists");
    delete(&fixture, "prompt", "taken", "1.0.0").unwrap();
    for (version, to) in [
        ("9.0.0", json!({"version": "9.1.0"})),
        ("^1", json!({"version": "9.1.0"})),
        ("1.0.0", json!({"registryRef": "acme/nowhere"})),
    ] {
        assert_eq!(clone(version, to).unwrap_err().kind(), Kind::NotFound);
    }
    // If one text cannot be compiled there, none of them is published.
    delete(&fixture, "prompt", "p", "1.1.0").unwrap();
    let before = rows(&fixture);
    registry(&fixture, "empty");
    let error = clone("1.0.0", json!({"registryRef": "acme/empty"})).unwrap_err();
    assert_eq!((error.kind(), error.issues()[0].path.as_str()), (Kind::Invalid, "source"));
    assert_eq!(rows(&fixture), before);
    fixture.assert_sound();
}

/// Returns every reference, as stored and as derived from all versions.
fn stored_and_derived(fixture: &Fixture) -> [Vec<String>; 2] {
    let read = |view: &View| {
        let rows = view.all(ListSource::<VersionRecord>::TABLE, &())?;
        let imports = view.all(ListSource::<ImportReference>::TABLE, &())?;
        let variables = view.all(ListSource::<VariableReference>::TABLE, &())?;
        let mut stored: Vec<String> = imports.iter().map(|import| import.to_text()).collect();
        stored.extend(
            variables.iter().map(|one| format!("{} in {:?} {}", one.variable, one.of, one.version)),
        );
        let mut derived = BTreeSet::new();
        for row in &rows {
            for import in &row.imports {
                let text =
                    format!("{:?} {} has {} {}", row.of, row.version, import.name, import.version);
                derived.insert(text);
            }
            for variable in &row.variables {
                derived.insert(format!("{variable} in {:?} {}", row.of, row.version));
            }
        }
        stored.sort();
        Ok([stored, derived.into_iter().collect()])
    };
    fixture.store.read_now(fixture.org, read).unwrap()
}

#[test]
fn stored_references_equal_those_of_a_full_scan() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    // Any pseudo-random sequence; this one is deterministic.
    let mut seed = 7_u32;
    let mut any = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    let (mut published, mut deleted) = (0, 0);
    for _ in 0..400 {
        let kind = ["prompt", "promptlet"][any(2) as usize];
        let name = format!("n{}", any(4));
        let number = format!("1.{}.0", any(3));
        if any(3) == 0 {
            deleted += i32::from(delete(&fixture, kind, &name, &number).is_ok());
        } else {
            let (a, b, v) = (any(4), any(4), any(5));
            let source =
                format!("{{{{ import \"n{a}\" }}}}{{{{ import \"n{b}@~1.1\" }}}}{{{{v{v}}}}}");
            let source = [&source, &source[source.len() - 6..]][(any(3) == 0) as usize];
            let mut new = version(kind, &name, &number, source);
            new["model"] = json!(["generic", "m"][any(2) as usize]);
            published += i32::from(publish(&fixture, new).is_ok());
        }
        let [stored, derived] = stored_and_derived(&fixture);
        assert_eq!(stored, derived);
    }
    assert!(published > 50 && deleted > 20, "{published} {deleted}");
    fixture.assert_sound();
}
