//! Drafts: saving, publishing and deleting them.

use super::super::drafts::{DraftInfo, delete, get, list, publish_draft, save};
use super::super::label_history::LabelMove;
use super::*;
use crate::base::{ArtifactName, Id, Kind};
use crate::outbox::RetentionSettings;
use crate::resources::registries;

fn draft(
    fixture: &Fixture,
    name: &str,
    number: &str,
    body: &str,
    more: Value,
) -> Result<DraftInfo> {
    let mut new = json!({
        "registryRef": "acme/main", "artifactType": "prompt", "draftVersion": number, "body": body,
    });
    for (name, value) in more.as_object().unwrap() {
        new[name] = value.clone();
    }
    fixture.write(save, ArtifactName::parse(name).unwrap(), Fixture::input(new)?)
}

fn outstanding(fixture: &Fixture, name: &str) -> Vec<String> {
    let query = json!({"registryRef": "acme/main", "artifactType": "prompt"});
    let page = fixture.read(list, name.to_string(), Fixture::input(query).unwrap()).unwrap();
    let text = |draft: DraftInfo| json!(draft)["draftVersion"].as_str().unwrap().to_string();
    page.items.into_iter().map(text).collect()
}

fn publish_it(
    fixture: &Fixture,
    id: Id<super::super::drafts::Draft>,
    more: Value,
) -> Result<Value> {
    let mut how = json!({"registryRef": "acme/main"});
    for (name, value) in more.as_object().unwrap() {
        how[name] = value.clone();
    }
    call(fixture, publish_draft, ("p".to_string(), id), how).map(|made| json!(made))
}

#[test]
fn saving_a_draft_again_replaces_it() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let made = draft(&fixture, "p", "1.0.0", "{{ broken", json!({"metadata": {"a": 1}})).unwrap();
    let expected = json!({
        "id": made.id, "registryRef": "acme/main", "artifactType": "prompt", "promptName": "p",
        "draftVersion": "1.0.0", "body": "{{ broken", "metadata": {"a": 1},
        "createdBy": user(&fixture.member), "createdAt": "2026-01-15T12:00:00.000Z",
        "updatedBy": user(&fixture.member), "updatedAt": "2026-01-15T12:00:00.000Z",
    });
    assert_eq!(json!(made), expected);
    fixture.pass_secs(60);
    let saved = json!(draft(&fixture, "p", "01.0.0", "mended", json!({})).unwrap());
    assert_eq!((&saved["id"], &saved["body"]), (&expected["id"], &json!("mended")));
    assert_eq!(saved["metadata"], json!({"a": 1}));
    assert_eq!(saved["createdAt"], expected["createdAt"]);
    assert_eq!(saved["updatedAt"], "2026-01-15T12:01:00.000Z");
    draft(&fixture, "p", "0.9.0", "x", json!({})).unwrap();
    draft(&fixture, "q", "1.0.0", "x", json!({})).unwrap();
    draft(&fixture, "p", "1.0.0", "x", json!({"artifactType": "promptlet"})).unwrap();
    assert_eq!(outstanding(&fixture, "p"), ["0.9.0", "1.0.0"], "newest first");
    assert_eq!(outstanding(&fixture, "never"), [""; 0]);
    assert_eq!(outstanding(&fixture, "no name"), [""; 0]);
    fixture.assert_sound();
}

#[test]
fn publishing_a_draft_closes_it_once() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let made = draft(&fixture, "p", "1.0.0", "{{ x }", json!({"metadata": {"a": 1}})).unwrap();
    let error = publish_it(&fixture, made.id, json!({})).unwrap_err();
    assert_eq!((error.kind(), error.issues()[0].path.as_str()), (Kind::Invalid, "body"));
    assert!(error.issues()[0].message.ends_with("(line 1, column 1)"), "{:?}", error.issues());
    assert_eq!(outstanding(&fixture, "p"), ["1.0.0"]);
    draft(&fixture, "p", "1.0.0", "{{ x }}", json!({})).unwrap();
    let published = publish_it(&fixture, made.id, json!({"model": "a"})).unwrap();
    assert_eq!((&published["version"], &published["model"]), (&json!("1.0.0"), &json!("a")));
    assert_eq!(
        (&published["source"], &published["metadata"]),
        (&json!("{{ x }}"), &json!({"a": 1}))
    );
    assert_eq!(outstanding(&fixture, "p"), [""; 0]);
    assert_eq!(publish_it(&fixture, made.id, json!({})).unwrap_err().kind(), Kind::NotFound);
    let error = draft(&fixture, "p", "01.0.0", "x", json!({})).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "version_published"));
    fixture.assert_sound();
}

#[test]
fn a_version_that_was_published_meanwhile_is_a_conflict_and_the_draft_stays() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let made = draft(&fixture, "p", "1.0.0", "mine", json!({})).unwrap();
    prompt(&fixture, "p", "1.0.0", "theirs");
    assert_eq!(publish_it(&fixture, made.id, json!({})).unwrap_err().code(), "version_exists");
    assert_eq!(outstanding(&fixture, "p"), ["1.0.0"]);
}

#[test]
fn a_draft_is_found_by_its_name_type_and_registry_until_it_is_deleted() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    registry(&fixture, "other");
    let made = draft(&fixture, "p", "1.0.0", "x", json!({})).unwrap();
    let query = |reference: &str, kind: Option<&str>| {
        Fixture::input(json!({"registryRef": reference, "artifactType": kind})).unwrap()
    };
    let shown = |name: &str, reference: &str, kind: Option<&str>| {
        fixture.read(get, (name.to_string(), made.id), query(reference, kind))
    };
    assert_eq!(shown("p", "acme/main", None).unwrap(), made);
    for (name, reference, kind) in [
        ("q", "acme/main", None),
        ("p", "acme/other", None),
        ("p", "acme/main", Some("promptlet")),
        ("no name", "acme/main", None),
    ] {
        assert_eq!(shown(name, reference, kind).unwrap_err().kind(), Kind::NotFound);
    }
    let delete = || fixture.write(delete, ("p".to_string(), made.id), query("acme/main", None));
    assert_eq!(delete().unwrap().id, made.id.to_string());
    assert_eq!(delete().unwrap_err().kind(), Kind::NotFound);
    assert_eq!(shown("p", "acme/main", None).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(publish_it(&fixture, made.id, json!({})).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(outstanding(&fixture, "p"), [""; 0]);
    // Its version is free again; the record of the deleted draft stays.
    assert!(draft(&fixture, "p", "1.0.0", "y", json!({})).unwrap().id != made.id);
    assert_eq!(rows(&fixture)[5], 2);
    fixture.assert_sound();
}

#[test]
fn closed_drafts_are_deleted_after_the_retention_and_outstanding_ones_never() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    for number in ["1.0.0", "1.1.0", "1.2.0"] {
        draft(&fixture, "p", number, "Hello.", json!({})).unwrap();
    }
    let ids: Vec<_> = {
        let all = |view: &View| view.all::<super::super::drafts::Draft>(ListSource::TABLE, &());
        fixture.store.read_now(fixture.org, all).unwrap().into_iter().map(|one| one.id).collect()
    };
    publish_it(&fixture, ids[0], json!({})).unwrap();
    fixture.pass_secs(60);
    publish_it(&fixture, ids[1], json!({})).unwrap();
    fixture.pass_secs(60);
    let settings = RetentionSettings { log_retention_secs: 100, ..RetentionSettings::default() };
    let sweep = move |tx: &mut Tx| (super::super::drafts::DELETE_CLOSED.run)(tx, &settings);
    fixture.store.write_blocking(fixture.org, sweep).unwrap();
    let all = |view: &View| view.all::<super::super::drafts::Draft>(ListSource::TABLE, &());
    let left = fixture.store.read_now(fixture.org, all).unwrap();
    assert_eq!(left.iter().map(|one| one.id).collect::<Vec<_>>(), ids[1..]);
    assert_eq!(outstanding(&fixture, "p"), ["1.2.0"]);
    fixture.assert_sound();
}

#[test]
fn moves_of_labels_are_kept_for_the_retention_and_removed_with_their_registry() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    prompt(&fixture, "p", "1.0.0", "Hello.");
    prompt(&fixture, "p", "1.1.0", "Hello!");
    let moves = || {
        let all = |view: &View| view.all::<LabelMove>(ListSource::TABLE, &());
        let moves = fixture.store.read_now(fixture.org, all).unwrap();
        moves.into_iter().filter_map(|one| one.to).map(|to| to.to_string()).collect::<Vec<_>>()
    };
    label(&fixture, "p", "live", "1.0.0").unwrap();
    label(&fixture, "p", "live", "1.0.0").unwrap();
    fixture.pass_secs(60);
    label(&fixture, "p", "live", "1.1.0").unwrap();
    assert_eq!(moves(), ["1.0.0", "1.1.0"], "one for each change");
    fixture.pass_secs(60);
    let settings = RetentionSettings { log_retention_secs: 100, ..RetentionSettings::default() };
    let sweep = move |tx: &mut Tx| (super::super::label_history::DELETE_EXPIRED.run)(tx, &settings);
    fixture.store.write_blocking(fixture.org, sweep).unwrap();
    assert_eq!(moves(), ["1.1.0"]);
    let main = fixture.store.read_now(fixture.org, |view| registries::find(view, "acme/main"));
    let main = main.unwrap().unwrap();
    fixture.store.write_blocking(fixture.org, move |tx| tx.remove(&main)).unwrap();
    fixture.complete_removals();
    assert_eq!(moves(), Vec::<String>::new());
    fixture.assert_sound();
}
