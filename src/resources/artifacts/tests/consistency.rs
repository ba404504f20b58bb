//! The consistency check between records.

use super::super::artifact::Artifact;
use super::super::consistency::check;
use super::super::metadata::VersionMetadata;
use super::*;
use crate::store::check::Findings;
use crate::store::{Order, Record};

fn findings(fixture: &Fixture) -> Vec<String> {
    let mut findings = Findings::default();
    fixture.store.read_now(fixture.org, |view| check(view, &mut findings)).unwrap();
    findings.messages
}

/// An organization with an import, a variable and a label.
fn filled() -> Fixture {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    promptlet(&fixture, "tone", "1.0.0", "{{mood}}");
    prompt(&fixture, "p", "1.0.0", "{{ import \"tone\" }}");
    prompt(&fixture, "p", "1.1.0", "x");
    label(&fixture, "p", "live", "1.0.0").unwrap();
    fixture
}

/// Removes the first record of this type, without what depends on it.
fn lose<R: Record>(fixture: &Fixture) {
    let lose = |tx: &mut Tx| {
        let first: Option<R> = tx.view().first(ListSource::TABLE, &(), Order::Ascending)?;
        tx.lose(&first.unwrap())
    };
    fixture.store.write_blocking(fixture.org, lose).unwrap();
}

#[test]
fn publishing_labelling_and_deleting_keep_the_records_consistent() {
    let fixture = filled();
    assert_eq!(findings(&fixture), [] as [&str; 0]);
    delete(&fixture, "prompt", "p", "1.1.0").unwrap();
    assert_eq!(findings(&fixture), [] as [&str; 0]);
}

#[test]
fn missing_records_are_found() {
    for (lose, expected) in [
        (
            lose::<VersionText> as fn(&Fixture),
            vec!["promptlet tone", "1.0.0 for generic has no text"],
        ),
        (lose::<Artifact>, vec!["prompt p", "1.0.0 has no artifact"]),
        (
            lose::<VariableReference>,
            vec!["prompt p", "1.0.0 has no reference to the variable mood"],
        ),
        (lose::<VersionRecord>, vec!["the label live points to 1.0.0", "1.0.0 does not use mood"]),
    ] {
        let fixture = filled();
        lose(&fixture);
        let found = findings(&fixture).join("\n");
        assert!(expected.iter().all(|text| found.contains(text)), "{expected:?}: {found}");
    }
    // Metadata.
    let fixture = filled();
    let mut new = version("prompt", "q", "1.0.0", "x");
    new["metadata"] = json!({"a": 1});
    publish(&fixture, new).unwrap();
    assert_eq!(findings(&fixture), [] as [&str; 0]);
    lose::<VersionMetadata>(&fixture);
    let found = findings(&fixture).join("\n");
    assert!(found.contains("prompt q") && found.contains("has no metadata"), "{found}");
    // An imported promptlet.
    let fixture = filled();
    let lose = |tx: &mut Tx| {
        let rows: Vec<VersionRecord> = tx.all(ListSource::TABLE, &())?;
        tx.lose(rows.iter().find(|row| row.of.name.as_str() == "tone").unwrap())
    };
    fixture.store.write_blocking(fixture.org, lose).unwrap();
    let found = findings(&fixture).join("\n");
    assert!(found.contains("imports tone 1.0.0, which does not exist"), "{found}");
    assert!(found.contains("promptlet tone") && found.contains("not its highest"), "{found}");
}
