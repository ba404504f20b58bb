//! What deleting takes away, and what it refuses to.

use super::*;
use crate::base::Kind;
use crate::resources::registries;

#[test]
fn an_imported_or_labelled_version_is_not_deleted() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "x");
    prompt(&fixture, "p", "1.0.0", "{{ import \"tone@1\" }}");
    label(&fixture, "p", "live", "1.0.0").unwrap();
    assert_eq!(
        delete(&fixture, "promptlet", "tone", "1.0.0").unwrap_err().code(),
        "version_imported"
    );
    assert_eq!(delete(&fixture, "prompt", "p", "01.0.0").unwrap_err().code(), "version_labelled");
    prompt(&fixture, "p", "1.1.0", "x");
    label(&fixture, "p", "live", "1.1.0").unwrap();
    delete(&fixture, "prompt", "p", "1.0.0").unwrap();
    delete(&fixture, "promptlet", "tone", "1.0.0").unwrap();
    for (kind, name, number) in
        [("prompt", "p", "1.0.0"), ("prompt", "p", "^1"), ("promptlet", "p", "1.1.0")]
    {
        let error = delete(&fixture, kind, name, number).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
    }
}

#[test]
fn the_highest_remaining_version_is_the_latest_and_the_last_one_removes_the_artifact() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    for number in ["1.0.0", "2.0.0", "1.5.0"] {
        prompt(&fixture, "p", number, "{{a}}");
    }
    let mut only_for_a = version("prompt", "p", "3.0.0", "x");
    only_for_a["model"] = json!("a");
    publish(&fixture, only_for_a).unwrap();
    let latest =
        || artifacts(&fixture, None).first().map(|artifact| artifact["latestVersion"].clone());
    for (number, left) in [
        ("1.0.0", Some("3.0.0")),
        ("3.0.0", Some("2.0.0")),
        ("2.0.0", Some("1.5.0")),
        ("1.5.0", None),
    ] {
        delete(&fixture, "prompt", "p", number).unwrap();
        assert_eq!(latest(), left.map(|left| json!(left)));
    }
    assert_eq!(rows(&fixture), [0; 6]);
    fixture.assert_sound();
    prompt(&fixture, "p", "1.0.0", "again");
}

fn remove(fixture: &Fixture, slug: &str) -> Result<crate::api::Deleted> {
    fixture.write_as(&fixture.owner, registries::delete, slug.to_string(), ())
}

#[test]
fn deleting_a_registry_deletes_its_contents_only() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    registry(&fixture, "other");
    let fill = |reference: &str| {
        let mut tone = version("promptlet", "tone", "1.0.0", "{{mood}}");
        let mut p = version("prompt", "p", "1.0.0", "{{ import \"tone\" }}");
        let mut draft = json!({"artifactType": "prompt", "draftVersion": "1.1.0", "body": "x"});
        for body in [&mut tone, &mut p, &mut draft] {
            body["registryRef"] = json!(reference);
        }
        publish(&fixture, tone).unwrap();
        publish(&fixture, p).unwrap();
        let name = crate::base::ArtifactName::parse("p").unwrap();
        fixture.write(super::super::drafts::save, name, Fixture::input(draft).unwrap()).unwrap();
    };
    fill("acme/main");
    fill("acme/other");
    assert_eq!(rows(&fixture), [4, 4, 4, 2, 4, 2]);
    assert_eq!(remove(&fixture, "main").unwrap().id, main.id.to_string());
    assert_eq!(rows(&fixture), [2, 2, 2, 1, 2, 1]);
    assert_eq!(fixture.complete_removals(), 0, "it was little");
    assert_eq!(remove(&fixture, "main").unwrap_err().kind(), Kind::NotFound);
    fixture.assert_sound();
}

#[test]
fn a_large_registry_is_deleted_at_once_and_its_rows_in_steps() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let variables =
        |from: usize| -> String { (from..from + 900).map(|n| format!("{{{{v{n}}}}}")).collect() };
    for n in 0..12 {
        prompt(&fixture, "p", &format!("1.{n}.0"), &variables(n * 100));
    }
    remove(&fixture, "main").unwrap();
    fixture.assert_sound();
    assert!(content(&fixture, about("prompt", "p", json!({}))).is_err());
    assert!(fixture.complete_removals() > 2);
    assert_eq!(rows(&fixture), [0; 6]);
    fixture.assert_sound();
}

#[test]
fn long_texts_count_for_several_rows_of_a_step() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let long = "x".repeat(300_000);
    for n in 0..60 {
        prompt(&fixture, "p", &format!("1.{n}.0"), &long);
    }
    remove(&fixture, "main").unwrap();
    assert!(fixture.complete_removals() > 1);
    assert_eq!(rows(&fixture), [0; 6]);
    fixture.assert_sound();
}
