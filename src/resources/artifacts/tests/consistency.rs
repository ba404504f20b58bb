//! The consistency check between records.

use super::super::artifact::Artifact;
use super::super::consistency::check;
use super::*;
use crate::store::check::Findings;
use crate::store::{Order, Record};

fn findings(world: &World) -> Vec<String> {
    let mut findings = Findings::default();
    world.store.read_now(world.org, |view| check(view, &mut findings)).unwrap();
    findings.messages
}

/// An organization with an import, a variable and a label.
fn filled() -> World {
    let world = World::new();
    registry(&world, "main");
    promptlet(&world, "tone", "1.0.0", "{{mood}}");
    prompt(&world, "p", "1.0.0", "{{ import \"tone\" }}");
    prompt(&world, "p", "1.1.0", "x");
    label(&world, "p", "live", "1.0.0").unwrap();
    world
}

/// Removes the first record of this type, without what depends on it.
fn lose<R: Record>(world: &World) {
    let lose = |tx: &mut Tx| {
        let first: Option<R> = tx.view().first(Source::TABLE, &(), Order::Ascending)?;
        tx.lose(&first.unwrap())
    };
    world.store.write_now(world.org, lose).unwrap();
}

#[test]
fn publishing_labelling_and_deleting_keep_the_records_consistent() {
    let world = filled();
    assert_eq!(findings(&world), [] as [&str; 0]);
    delete(&world, "prompt", "p", "1.1.0").unwrap();
    assert_eq!(findings(&world), [] as [&str; 0]);
}

#[test]
fn missing_records_are_found() {
    for (lose, expected) in [
        (lose::<VersionText> as fn(&World), vec!["prompt p", "1.0.0 for generic has no text"]),
        (lose::<Artifact>, vec!["prompt p", "1.0.0 has no artifact"]),
        (
            lose::<VariableReference>,
            vec!["prompt p", "1.0.0 has no reference to the variable mood"],
        ),
        (lose::<VersionRecord>, vec!["the label live points to 1.0.0", "1.0.0 does not use mood"]),
    ] {
        let world = filled();
        lose(&world);
        let found = findings(&world).join("\n");
        assert!(expected.iter().all(|text| found.contains(text)), "{expected:?}: {found}");
    }
    // An imported promptlet.
    let world = filled();
    let lose = |tx: &mut Tx| {
        let rows: Vec<VersionRecord> = tx.all(Source::TABLE, &())?;
        tx.lose(rows.iter().find(|row| row.of.name.as_str() == "tone").unwrap())
    };
    world.store.write_now(world.org, lose).unwrap();
    let found = findings(&world).join("\n");
    assert!(found.contains("imports tone 1.0.0, which does not exist"), "{found}");
    assert!(found.contains("promptlet tone") && found.contains("not its highest"), "{found}");
}
