//! Agents: drafts, versions, and what keeps an agent from being deleted.

use serde_json::{Value, json};

use super::super::tools::tests as tool;
use super::versions::{AgentDiff, AgentVersion};
use super::*;
use crate::api::Principal;
use crate::base::Kind;
use crate::resources::testing::Fixture;
use crate::store::ListSource;

fn change(tx: &mut Tx, req: &Req<String, AgentPatch>) -> Result<AgentInfo> {
    update(tx, req, |_, _, _, _| Ok(()))
}

/// Deletes an agent, wherever it is live.
pub fn remove(tx: &mut Tx, req: &Req<String>) -> Result<Deleted> {
    delete(tx, req, |_, _, _| Ok(()))
}

/// Makes an agent as a member.
pub fn make(fixture: &Fixture, body: Value) -> Result<AgentInfo> {
    fixture.write(create, (), Fixture::input(body)?)
}

/// Makes an agent as somebody.
pub fn make_as(fixture: &Fixture, who: &Principal, body: Value) -> Result<AgentInfo> {
    fixture.write_as(who, create, (), Fixture::input(body)?)
}

/// Changes an agent as somebody.
pub fn patch_as(
    fixture: &Fixture,
    who: &Principal,
    stable_key: &str,
    body: Value,
) -> Result<AgentInfo> {
    fixture.write_as(who, change, stable_key.to_string(), Fixture::input(body)?)
}

/// Returns an agent as somebody sees it.
pub fn shown(fixture: &Fixture, who: &Principal, stable_key: &str) -> Result<Value> {
    fixture.read_as(who, get, stable_key.to_string(), ()).map(|agent| json!(agent))
}

/// Returns the stable keys of the agents that somebody sees, newest first.
pub fn listed(fixture: &Fixture, who: &Principal, filter: Value) -> Vec<String> {
    let page = fixture.read_as(who, list, (), Fixture::input(filter).unwrap()).unwrap();
    page.items.into_iter().map(|agent| agent.stable_key.into_string()).collect()
}

/// Uses an agent in every way, as somebody.
pub fn every_use(fixture: &Fixture, who: &Principal, stable_key: &str) -> Vec<Result<()>> {
    let key = || stable_key.to_string();
    let query = Fixture::input(json!({"from": "1", "to": "1"})).unwrap();
    vec![
        shown(fixture, who, stable_key).map(|_| ()),
        patch_as(fixture, who, stable_key, json!({})).map(|_| ()),
        fixture.write_as(who, remove, key(), ()).map(|_| ()),
        fixture.write_as(who, versions::create, key(), Default::default()).map(|_| ()),
        fixture.write_as(who, versions::restore, (key(), 1), ()).map(|_| ()),
        fixture.read_as(who, versions::list, key(), ()).map(|_| ()),
        fixture.read_as(who, versions::get, (key(), 1), ()).map(|_| ()),
        fixture.read_as(who, versions::diff, key(), query).map(|_| ()),
    ]
}

/// Counts the agents with this status.
pub fn count_of(fixture: &Fixture, status: &str) -> usize {
    let filter = Fixture::input(json!({"status": status})).unwrap();
    fixture.read(list, (), filter).unwrap().items.len()
}

/// Returns the id of an agent as text.
pub fn id_of(fixture: &Fixture, stable_key: &str) -> String {
    fixture.read(get, stable_key.to_string(), ()).unwrap().id.to_string()
}

/// Updates an agent as a member.
pub fn update_agent(fixture: &Fixture, stable_key: &str, body: Value) -> Result<AgentInfo> {
    fixture.write(change, stable_key.to_string(), Fixture::input(body)?)
}

fn patch(fixture: &Fixture, body: Value) -> Result<AgentInfo> {
    update_agent(fixture, "a", body)
}

fn snapshot(fixture: &Fixture) -> AgentVersion {
    fixture.write(versions::create, "a".to_string(), Default::default()).unwrap()
}

fn diff(fixture: &Fixture, from: &str, to: &str) -> Result<AgentDiff> {
    let query = Fixture::input(json!({"from": from, "to": to})).unwrap();
    fixture.read(versions::diff, "a".to_string(), query)
}

fn world_with_agent() -> Fixture {
    let fixture = Fixture::new();
    make(&fixture, json!({"stableKey": "a", "name": "A"})).unwrap();
    fixture
}

#[test]
fn an_agent_shows_every_field_with_its_default() {
    let fixture = Fixture::new();
    let draft = json!({"model": "m", "variables": null});
    let made = make(&fixture, json!({"stableKey": "a", "name": "A", "draft": draft})).unwrap();
    let mut json = json!(made);
    assert_eq!(json["id"].take(), json!(made.id));
    assert_eq!(
        json,
        json!({
            "id": null, "stableKey": "a", "name": "A", "description": null, "fleetId": null,
            "draft": {
                "registryRef": null, "promptName": null, "promptVersion": null, "model": "m",
                "provider": null, "toolRefs": [], "variables": {}, "providerConfig": {},
            },
            "draftRevision": 1, "latestVersion": null, "status": "undeployed", "paused": null,
            "tags": [], "createdAt": "2026-01-15T12:00:00.000Z", "updatedAt": "2026-01-15T12:00:00.000Z",
            "updatedBy": made.updated_by,
        })
    );
}

#[test]
fn a_stable_key_is_unique_in_its_organization_alone() {
    let fixture = world_with_agent();
    let (other, eve) = fixture.other_org("other");
    let body = json!({"stableKey": "a", "name": "B"});
    assert_eq!(make(&fixture, body.clone()).unwrap_err().code(), "stable_key_taken");
    let theirs = fixture.write_as(&eve, create, (), Fixture::input(body).unwrap()).unwrap();
    let found = fixture.store.read_now(other, |view| agent::by_stable_key(view, "a")).unwrap();
    assert_eq!(found.map(|agent| agent.id()), Some(theirs.id));
    for unknown in ["b", "", "no key", "deployments"] {
        let error = fixture.read(get, unknown.to_string(), ()).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
    }
}

#[test]
fn the_revision_rises_when_the_draft_changes_and_only_then() {
    let fixture = world_with_agent();
    fixture.pass_secs(60);
    let draft = json!({"model": "m", "variables": {"A": "1"}, "providerConfig": {"x": null}});
    let first = patch(&fixture, json!({"draft": draft})).unwrap();
    assert_eq!(first.draft_revision, 2);
    fixture.pass_secs(60);
    for same in [json!({}), json!({"draft": null}), json!({"draft": {}}), json!({"draft": draft})] {
        assert_eq!(patch(&fixture, same).unwrap(), first);
    }
    let named = patch(&fixture, json!({"name": "B"})).unwrap();
    assert_eq!((named.draft_revision, named.stable_key.as_str()), (2, "a"));
    assert!(named.updated_at > first.updated_at);

    let draft = json!({"model": null, "toolRefs": null, "variables": {"B": "2"}});
    let second = patch(&fixture, json!({"draft": draft})).unwrap();
    assert_eq!(second.draft_revision, 3);
    let draft = json!(second.draft);
    assert_eq!((&draft["model"], &draft["variables"]), (&Value::Null, &json!({"B": "2"})));
    assert_eq!(draft["providerConfig"], json!({"x": null}));
}

#[test]
fn a_draft_names_tools_and_versions_that_are_there() {
    let fixture = world_with_agent();
    let known = tool::make(&fixture, json!({"name": "T", "type": "http"})).unwrap().id;
    tool::patch(&fixture, known, json!({"bumpVersion": "major"})).unwrap();
    let refs = |refs: Value| patch(&fixture, json!({"draft": {"toolRefs": refs}}));

    let good = json!([{"toolId": known}, {"toolId": known, "version": "1.0.0"}]);
    let draft = json!(refs(good).unwrap().draft);
    let expected =
        json!([{"toolId": known, "version": null}, {"toolId": known, "version": "1.0.0"}]);
    assert_eq!(draft["toolRefs"], expected);
    for unknown in [
        json!({"toolId": "none"}),
        json!({"toolId": Id::<()>::NIL}),
        json!({"toolId": known, "version": "3.0.0"}),
    ] {
        assert_eq!(refs(json!([unknown])).unwrap_err().kind(), Kind::NotFound);
    }
    let error = refs(json!(vec![json!({"toolId": known}); 101])).unwrap_err();
    assert_eq!(error.issues()[0].path, "draft.toolRefs");
    let error = patch(&fixture, json!({"draft": {"variables": {"1a": "x", "b": null}}}));
    let error = error.unwrap_err();
    let paths: Vec<_> = error.issues().iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["draft.variables.1a", "draft.variables.b"]);
}

#[test]
fn an_unknown_fleet_is_not_found() {
    let fixture = world_with_agent();
    let fleet = json!("01890a5d-ac96-774b-bcce-b302099a8057");
    let body = json!({"stableKey": "b", "name": "B", "fleetId": fleet});
    assert_eq!(make(&fixture, body).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(patch(&fixture, json!({"fleetId": fleet})).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(patch(&fixture, json!({"fleetId": null})).unwrap().fleet_id, None);
}

#[test]
fn filters_that_name_nothing_give_an_empty_list() {
    let fixture = world_with_agent();
    let listed = |filter: Value| {
        let filter: AgentFilter = Fixture::input(filter).unwrap();
        fixture.read(list, (), filter).unwrap().items.len()
    };
    assert_eq!(listed(json!({})), 1);
    assert_eq!(listed(json!({"status": "undeployed"})), 1);
    assert_eq!(listed(json!({"status": "error"})), 0);
    assert_eq!(listed(json!({"fleetId": "none"})), 0);
}

#[test]
fn a_version_keeps_the_draft_exactly_as_it_was() {
    let fixture = world_with_agent();
    let config = json!({"providerConfig": {"z": null, "a": {"n": 1.0, "l": [null]}}});
    patch(&fixture, json!({"draft": config})).unwrap();
    let first = snapshot(&fixture);
    patch(&fixture, json!({"draft": {"providerConfig": {}, "model": "m"}})).unwrap();
    let second = snapshot(&fixture);
    assert_eq!((first.version, second.version), (1, 2));
    assert_eq!(fixture.read(get, "a".into(), ()).unwrap().latest_version, Some(2));

    let kept = fixture.read(versions::get, ("a".to_string(), 1), ()).unwrap();
    assert_eq!(kept, first);
    let text = serde_json::to_string(&kept.config.provider_config).unwrap();
    assert_eq!(text, r#"{"z":null,"a":{"n":1.0,"l":[null]}}"#);
    let listed = fixture.read(versions::list, "a".to_string(), ()).unwrap().items;
    assert_eq!(listed, [second, first]);
    for unknown in [0, 3] {
        let error = fixture.read(versions::get, ("a".to_string(), unknown), ()).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
    }
}

#[test]
fn equal_configurations_have_equal_hashes_whatever_the_order_of_their_keys() {
    let fixture = world_with_agent();
    let hash_of = |config: &str| {
        let config: Value = serde_json::from_str(config).unwrap();
        patch(&fixture, json!({"draft": {"providerConfig": {}}})).unwrap();
        patch(&fixture, json!({"draft": {"providerConfig": config}})).unwrap();
        snapshot(&fixture).hash
    };
    let hash = hash_of(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#);
    assert_eq!(hash.len(), 64);
    assert_eq!(hash, hash_of(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#));
    assert_ne!(hash, hash_of(r#"{"b": {"d": 3, "c": 2}, "a": null}"#));
}

#[test]
fn versions_made_at_once_get_distinct_numbers_without_gaps() {
    let fixture = world_with_agent();
    let mut numbers = std::thread::scope(|threads| {
        let ten = || (0..10).map(|_| snapshot(&fixture).version).collect::<Vec<_>>();
        let threads: Vec<_> = (0..8).map(|_| threads.spawn(ten)).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=80).collect::<Vec<_>>());
}

#[test]
fn a_difference_is_reported_at_its_path() {
    let fixture = world_with_agent();
    let draft = json!({"model": "m", "variables": {"A": "1", "B": "2"}, "providerConfig": {"x": {"y": 1, "z": 2}}});
    patch(&fixture, json!({"draft": draft})).unwrap();
    snapshot(&fixture);
    let draft = json!({"model": null, "variables": {"A": "1", "C": "3"}, "providerConfig": {"x": {"y": [1], "z": 2}}});
    patch(&fixture, json!({"draft": draft})).unwrap();
    snapshot(&fixture);
    assert_eq!(
        json!(diff(&fixture, "1", "2").unwrap()),
        json!({"from": 1, "to": 2, "fromMessage": null, "toMessage": null, "changes": [
            {"path": "model", "from": "m", "to": null},
            {"path": "variables.B", "from": "2", "to": null},
            {"path": "variables.C", "from": null, "to": "3"},
            {"path": "providerConfig.x.y", "from": 1, "to": [1]},
        ]})
    );
    assert_eq!(json!(diff(&fixture, "2", "2").unwrap())["changes"], json!([]));
    for (from, to) in [("1", "3"), ("0", "1"), ("one", "1"), ("1", ""), ("01", "1")] {
        assert_eq!(diff(&fixture, from, to).unwrap_err().kind(), Kind::NotFound);
    }
}

#[test]
fn restoring_puts_a_version_into_the_draft() {
    let fixture = world_with_agent();
    patch(&fixture, json!({"draft": {"model": "m"}})).unwrap();
    let version = snapshot(&fixture);
    let restore = || fixture.write(versions::restore, ("a".to_string(), 1), ()).unwrap();
    assert_eq!(restore().draft_revision, 2);
    patch(&fixture, json!({"draft": {"model": "n", "variables": {"A": "1"}}})).unwrap();
    let restored = restore();
    assert_eq!((restored.draft, restored.draft_revision), (version.config, 4));
    assert_eq!(restored.latest_version, Some(1));
    let unknown = fixture.write(versions::restore, ("a".to_string(), 2), ()).unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound);
}

#[test]
fn an_agent_goes_with_its_versions() {
    let fixture = world_with_agent();
    snapshot(&fixture);
    let id = fixture.read(get, "a".to_string(), ()).unwrap().id;
    let delete = || fixture.write(remove, "a".to_string(), ());
    assert_eq!(delete().unwrap().id, id.to_string());
    assert_eq!(delete().unwrap_err().kind(), Kind::NotFound);
    let findings = fixture.store.check(&RESOURCE.tables()).unwrap();
    assert_eq!((findings.records, findings.entries, findings.wrong), (0, 0, 0));
}

#[test]
fn an_agent_created_again_has_none_of_the_versions_that_are_yet_to_be_removed() {
    let fixture = world_with_agent();
    let many = crate::store::MAX_DEFERRED_CHANGES as u32 + 10;
    (0..many).for_each(|_| drop(snapshot(&fixture)));
    fixture.write(remove, "a".to_string(), ()).unwrap();
    make(&fixture, json!({"stableKey": "a", "name": "A"})).unwrap();
    let left = |view: &View| view.count(ListSource::<AgentVersion>::TABLE, &(), usize::MAX);
    let left = || fixture.store.read_now(fixture.org, left).unwrap();
    assert_eq!(left(), 10, "an attempt removes no more");
    assert_eq!(fixture.read(versions::list, "a".to_string(), ()).unwrap().items, []);
    let unknown = fixture.read(versions::get, ("a".to_string(), 2001), ()).unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound);
    fixture.assert_sound();
    assert_eq!(snapshot(&fixture).version, 1);
    assert_eq!(fixture.complete_removals(), 1);
    assert_eq!(left(), 1, "that of the new agent stays");
    fixture.assert_sound();
}
