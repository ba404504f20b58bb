//! What the check finds between records.

use super::super::artifact::Artifact;
use super::super::soundness::check;
use super::super::variables::VariableReference;
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

/// Takes away the first record of this type, with nothing that belongs to it.
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
    for (lose, told) in [
        (lose::<VersionText> as fn(&World), vec!["prompt p", "1.0.0 for generic has no text"]),
        (lose::<Artifact>, vec!["prompt p", "1.0.0 is a version of nothing"]),
        (lose::<VariableReference>, vec!["prompt p", "1.0.0 is not known to mention mood"]),
        (
            lose::<VersionRecord>,
            vec!["the label live stands on 1.0.0", "1.0.0 does not mention mood"],
        ),
    ] {
        let world = filled();
        lose(&world);
        let found = findings(&world).join("\n");
        assert!(told.iter().all(|told| found.contains(told)), "{told:?}: {found}");
    }
    // A promptlet that something imports.
    let world = filled();
    let gone = |tx: &mut Tx| {
        let rows: Vec<VersionRecord> = tx.all(Source::TABLE, &())?;
        tx.lose(rows.iter().find(|row| row.of.name.as_str() == "tone").unwrap())
    };
    world.store.write_now(world.org, gone).unwrap();
    let found = findings(&world).join("\n");
    assert!(found.contains("imports tone 1.0.0, which is not there"), "{found}");
    assert!(found.contains("promptlet tone") && found.contains("not its highest"), "{found}");
}
