//! Which records move, and in which order.

use super::*;

#[test]
fn every_record_is_exported_or_has_a_reason_why_not() {
    let mut wrong = Vec::new();
    for table in tables() {
        match (table.export)() {
            TableExport::Undeclared => {
                wrong.push(format!("{}: declare EXPORT in its record", table.name));
            }
            TableExport::LeftOut(reason) if reason.len() < 20 => {
                wrong.push(format!("{}: says no reason", table.name));
            }
            TableExport::LeftOut(_) | TableExport::Exported(_) => {}
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_table_comes_after_those_that_it_refers_to() {
    let ordered: Vec<_> = exported().iter().map(|(table, _)| table.name).collect();
    let before = |one: &str, other: &str| {
        let place = |name| ordered.iter().position(|table| *table == name).expect(name);
        assert!(place(one) < place(other), "{one} before {other} in {ordered:?}");
    };
    before("teams", "tasks");
    before("fleets", "agents");
    before("agents", "agent_versions");
    before("registries", "artifact_versions");
    before("environments", "deployment_jobs");
    before("tasks", "jobs");
    before("listings", "public_listings");
}

#[test]
fn what_works_or_is_seen_beyond_the_organization_comes_last() {
    let names = |of: bool| {
        let tables = exported().into_iter().filter(move |(_, rows)| rows.of_installation == of);
        tables.map(|(table, _)| table.name).collect::<Vec<_>>()
    };
    assert_eq!(names(true), ["jobs", "registries.places", "public_listings"]);
    let all: Vec<_> = exported().iter().map(|(table, _)| table.name).collect();
    assert_eq!(all, [names(false), names(true)].concat());
}
