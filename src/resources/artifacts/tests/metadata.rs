//! Metadata, which may be large, is read only where it is shown.

use super::super::metadata::VersionMetadata;
use super::super::versions;
use super::*;
use crate::base::Kind;
use crate::store::{ListSource, Tx, View};

/// Publishes `p` 1.0.0, which imports `tone`, for some models, with this much metadata each.
fn publish_for(fixture: &Fixture, models: &[String], bytes: usize) {
    for model in models {
        let mut new = version("prompt", "p", "1.0.0", "{{ import \"tone\" }}");
        new["model"] = json!(model);
        new["metadata"] = json!({"text": "x".repeat(bytes)});
        publish(fixture, new).unwrap();
    }
}

fn models(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("model-{n}")).collect()
}

#[test]
fn look_ups_do_not_read_metadata() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    let mut tone = version("promptlet", "tone", "1.0.0", "calm");
    tone["metadata"] = json!({"a": 1});
    publish(&fixture, tone).unwrap();
    publish_for(&fixture, &models(2), 10);
    // Reading it now fails.
    let lose = |tx: &mut Tx| {
        let all: Vec<VersionMetadata> = tx.all(ListSource::TABLE, &())?;
        all.iter().try_for_each(|metadata| tx.lose(metadata))
    };
    fixture.store.write_blocking(fixture.org, lose).unwrap();
    let query = about("prompt", "p", json!({"model": "model-0"}));
    assert_eq!(content(&fixture, query).unwrap_err().kind(), Kind::Internal);

    publish_for(&fixture, &["another".into()], 10);
    prompt(&fixture, "p", "2.0.0", "{{ import \"tone\" }}");
    label(&fixture, "p", "live", "1.0.0").unwrap();
    let expected = ["prompt p 2.0.0 * 1.0.0", "prompt p 1.0.0 * 1.0.0"];
    assert_eq!(dependents_of(&fixture, "tone", Some("1.0.0")).unwrap(), expected);
    assert_eq!(artifacts(&fixture, None).len(), 2);
    label(&fixture, "p", "live", "2.0.0").unwrap();
    delete(&fixture, "prompt", "p", "1.0.0").unwrap();
}

#[test]
fn a_list_of_versions_ends_early_when_their_metadata_is_large() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "calm");
    publish_for(&fixture, &models(10), 1_000_000);
    let query = about("prompt", "p", json!({}));
    let mut args = args((), Fixture::input(query).unwrap());
    let mut pages = Vec::new();
    loop {
        let list = |view: &View| versions::list(view, &Req::new(&args, &fixture.member));
        let page = fixture.store.read_now(fixture.org, list).unwrap();
        pages.push(page.items.len());
        assert!(page.items.iter().all(|row| json!(row)["metadata"]["text"].is_string()));
        let Some(next) = page.next else { break };
        args.page.after = Some(next);
    }
    assert_eq!(pages, [4, 4, 2]);
}

#[test]
fn metadata_is_removed_with_its_version_and_empty_metadata_is_not_stored() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "calm");
    publish_for(&fixture, &models(2), 10);
    let count = || {
        let count = |view: &View| view.count(ListSource::<VersionMetadata>::TABLE, &(), 100);
        fixture.store.read_now(fixture.org, count).unwrap()
    };
    assert_eq!(count(), 2);
    delete(&fixture, "prompt", "p", "1.0.0").unwrap();
    assert_eq!(count(), 0);
    fixture.assert_sound();
}

#[test]
fn a_large_version_is_deleted_at_once_and_what_it_holds_in_steps() {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "calm");
    // 12 MiB, which is more than one attempt removes.
    publish_for(&fixture, &models(12), 1024 * 1024);
    let count = || {
        let count = |view: &View| view.count(ListSource::<VersionMetadata>::TABLE, &(), 100);
        fixture.store.read_now(fixture.org, count).unwrap()
    };
    delete(&fixture, "prompt", "p", "1.0.0").unwrap();
    let left = count();
    assert!(0 < left && left < 12, "{left}");
    fixture.assert_sound();
    // The number may be used again meanwhile.
    publish_for(&fixture, &models(1), 10);
    assert!(fixture.complete_removals() > 0);
    assert_eq!(count(), 1);
    fixture.assert_sound();
}
