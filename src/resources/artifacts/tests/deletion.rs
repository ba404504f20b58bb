//! What deleting takes away, and what it refuses to.

use super::*;
use crate::base::Kind;
use crate::resources::registries;

#[test]
fn an_imported_or_labelled_version_is_not_deleted() {
    let world = World::new();
    registry(&world, "main");
    promptlet(&world, "tone", "1.0.0", "x");
    prompt(&world, "p", "1.0.0", "{{ import \"tone@1\" }}");
    label(&world, "p", "live", "1.0.0").unwrap();
    assert_eq!(
        delete(&world, "promptlet", "tone", "1.0.0").unwrap_err().code(),
        "version_imported"
    );
    assert_eq!(delete(&world, "prompt", "p", "01.0.0").unwrap_err().code(), "version_labelled");
    prompt(&world, "p", "1.1.0", "x");
    label(&world, "p", "live", "1.1.0").unwrap();
    delete(&world, "prompt", "p", "1.0.0").unwrap();
    delete(&world, "promptlet", "tone", "1.0.0").unwrap();
    for (kind, name, number) in
        [("prompt", "p", "1.0.0"), ("prompt", "p", "^1"), ("promptlet", "p", "1.1.0")]
    {
        let error = delete(&world, kind, name, number).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
    }
}

#[test]
fn the_highest_remaining_version_is_the_latest_and_the_last_one_removes_the_artifact() {
    let world = World::new();
    registry(&world, "main");
    for number in ["1.0.0", "2.0.0", "1.5.0"] {
        prompt(&world, "p", number, "{{a}}");
    }
    let mut only_for_a = version("prompt", "p", "3.0.0", "x");
    only_for_a["model"] = json!("a");
    publish(&world, only_for_a).unwrap();
    let latest =
        || artifacts(&world, None).first().map(|artifact| artifact["latestVersion"].clone());
    for (number, left) in [
        ("1.0.0", Some("3.0.0")),
        ("3.0.0", Some("2.0.0")),
        ("2.0.0", Some("1.5.0")),
        ("1.5.0", None),
    ] {
        delete(&world, "prompt", "p", number).unwrap();
        assert_eq!(latest(), left.map(|left| json!(left)));
    }
    assert_eq!(rows(&world), [0; 6]);
    world.assert_sound();
    prompt(&world, "p", "1.0.0", "again");
}

fn remove(world: &World, slug: &str) -> Result<crate::api::Deleted> {
    world.write_as(&world.owner, registries::delete, slug.to_string(), ())
}

#[test]
fn deleting_a_registry_deletes_its_contents_only() {
    let world = World::new();
    let main = registry(&world, "main");
    registry(&world, "other");
    let fill = |reference: &str| {
        let mut tone = version("promptlet", "tone", "1.0.0", "{{mood}}");
        let mut p = version("prompt", "p", "1.0.0", "{{ import \"tone\" }}");
        let mut draft = json!({"artifactType": "prompt", "draftVersion": "1.1.0", "body": "x"});
        for body in [&mut tone, &mut p, &mut draft] {
            body["registryRef"] = json!(reference);
        }
        publish(&world, tone).unwrap();
        publish(&world, p).unwrap();
        let name = crate::base::ArtifactName::parse("p").unwrap();
        world.write(super::super::drafts::save, name, World::input(draft).unwrap()).unwrap();
    };
    fill("acme/main");
    fill("acme/other");
    assert_eq!(rows(&world), [4, 4, 4, 2, 4, 2]);
    assert_eq!(remove(&world, "main").unwrap().id, main.id.to_string());
    assert_eq!(rows(&world), [2, 2, 2, 1, 2, 1]);
    assert_eq!(world.complete_removals(), 0, "it was little");
    assert_eq!(remove(&world, "main").unwrap_err().kind(), Kind::NotFound);
    world.assert_sound();
}

#[test]
fn a_large_registry_is_deleted_at_once_and_its_rows_in_steps() {
    let world = World::new();
    registry(&world, "main");
    let variables =
        |from: usize| -> String { (from..from + 900).map(|n| format!("{{{{v{n}}}}}")).collect() };
    for n in 0..12 {
        prompt(&world, "p", &format!("1.{n}.0"), &variables(n * 100));
    }
    remove(&world, "main").unwrap();
    world.assert_sound();
    assert!(content(&world, about("prompt", "p", json!({}))).is_err());
    assert!(world.complete_removals() > 2);
    assert_eq!(rows(&world), [0; 6]);
    world.assert_sound();
}

#[test]
fn long_texts_count_for_several_rows_of_a_step() {
    let world = World::new();
    registry(&world, "main");
    let long = "x".repeat(300_000);
    for n in 0..60 {
        prompt(&world, "p", &format!("1.{n}.0"), &long);
    }
    remove(&world, "main").unwrap();
    assert!(world.complete_removals() > 1);
    assert_eq!(rows(&world), [0; 6]);
    world.assert_sound();
}
