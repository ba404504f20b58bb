//! Tools: versions, and the environments that use them.

use serde_json::{Value, json};

use super::super::environments::tests as environment;
use super::*;
use crate::api::Principal;
use crate::base::Kind;
use crate::resources::testing::Fixture;

/// Makes a tool as a member.
pub fn make(fixture: &Fixture, body: Value) -> Result<Tool> {
    fixture.write(create, (), Fixture::input(body)?)
}

/// Changes a tool as a member, as if nothing was ever deployed.
pub fn patch(fixture: &Fixture, id: Id<Tool>, body: Value) -> Result<Tool> {
    fixture.write(|tx, req| update(tx, req, |_, _, _| Ok(false)), id, Fixture::input(body)?)
}

/// Returns a tool.
pub fn shown(view: &View, req: &Req<Id<Tool>>) -> Result<Tool> {
    get(view, req)
}

/// Returns the versions of a tool, the highest first.
pub fn versions(view: &View, req: &Req<Id<Tool>>) -> Result<Page<ToolVersion>> {
    versions::list(view, req)
}

/// Deletes a tool for which nothing waits.
fn remove(tx: &mut Tx, req: &Req<Id<Tool>>) -> Result<Deleted> {
    super::delete(tx, req, |_, _| Ok(false))
}

/// Deletes a tool as a member.
pub fn delete(fixture: &Fixture, id: Id<Tool>) {
    fixture.write(remove, id, ()).unwrap();
}

fn versions_of(fixture: &Fixture, id: Id<Tool>) -> Vec<(String, String)> {
    let page = fixture.read(versions::list, id, ()).unwrap();
    let pair = |v: ToolVersion| (v.version.into_string(), v.name.into_string());
    page.items.into_iter().map(pair).collect()
}

fn used_in(fixture: &Fixture, id: Id<Environment>) -> Value {
    json!(environment::shown(fixture, id))["toolVersions"].clone()
}

fn pair(version: &str, name: &str) -> (String, String) {
    (version.into(), name.into())
}

#[test]
fn a_tool_shows_every_field_with_its_default_and_keeps_its_configuration_as_it_came() {
    let fixture = Fixture::new();
    let config = json!({"z": null, "a": {"b": [1.0, null, 0.1]}});
    let body = json!({"name": "T", "type": "any word", "providerConfig": config});
    let made = make(&fixture, body).unwrap();
    let shown = fixture.read(get, made.id, ()).unwrap();
    assert_eq!(shown, made);
    let text = serde_json::to_string(&shown).unwrap();
    assert!(text.contains(r#""providerConfig":{"z":null,"a":{"b":[1.0,null,0.1]}}"#), "{text}");
    let json = json!(make(&fixture, json!({"name": "T", "type": "http"})).unwrap());
    assert_eq!(json["version"], "1.0.0");
    assert_eq!(json["providerConfig"], json!({}));
    assert_eq!((&json["description"], &json["prompt"]), (&Value::Null, &Value::Null));
    assert_eq!(json["type"], "http");
}

#[test]
fn a_prompt_is_measured_in_bytes() {
    let prompt = |prompt: String| {
        let body = json!({"name": "T", "type": "http", "prompt": prompt});
        Fixture::input::<NewTool>(body).is_ok()
    };
    assert!(prompt("ä".repeat(307_200 / 2)));
    assert!(!prompt("ä".repeat(307_200 / 2) + "a"));
}

#[test]
fn an_empty_change_leaves_the_tool_as_it_is() {
    let fixture = Fixture::new();
    let made = make(&fixture, json!({"name": "T", "type": "http", "prompt": "p"})).unwrap();
    fixture.pass_secs(60);
    let nothing = json!({"name": null, "version": null, "updateEnvironmentVersions": []});
    for body in [json!({}), nothing, json!({"version": "1.0.0", "name": "T"})] {
        assert_eq!(patch(&fixture, made.id, body).unwrap(), made);
    }
    assert_eq!(patch(&fixture, made.id, json!({"prompt": null})).unwrap().prompt, None);
}

#[test]
fn a_version_and_a_bump_together_are_refused() {
    let body = json!({"version": "2.0.0", "bumpVersion": "major"});
    let error = Fixture::input::<ToolPatch>(body).err().unwrap();
    assert_eq!((error.kind(), error.issues()[0].path.as_str()), (Kind::Invalid, "bumpVersion"));
    assert!(Fixture::input::<ToolPatch>(json!({"version": null, "bumpVersion": "major"})).is_ok());
}

#[test]
fn a_version_row_holds_what_the_tool_last_was_under_that_number() {
    let fixture = Fixture::new();
    let id = make(&fixture, json!({"name": "a", "type": "http"})).unwrap().id;
    patch(&fixture, id, json!({"name": "b"})).unwrap();
    patch(&fixture, id, json!({"name": "c", "bumpVersion": "minor"})).unwrap();
    patch(&fixture, id, json!({"name": "d"})).unwrap();
    patch(&fixture, id, json!({"version": "1.10.0"})).unwrap();
    patch(&fixture, id, json!({"name": "e", "version": "1.10.0"})).unwrap();
    let expected = [pair("1.10.0", "e"), pair("1.1.0", "d"), pair("1.0.0", "b")];
    assert_eq!(versions_of(&fixture, id), expected);

    // Another spelling of its number is no other version.
    let spelled = patch(&fixture, id, json!({"version": "01.010.0"})).unwrap();
    assert_eq!(spelled.version.as_str(), "1.10.0");
    assert_eq!(versions_of(&fixture, id), expected);

    for earlier in ["1.9.99", "0.99.99"] {
        let error = patch(&fixture, id, json!({"name": "f", "version": earlier})).unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Conflict, "tool_version_earlier"));
    }
    assert_eq!(versions_of(&fixture, id), expected);
    assert_eq!(fixture.read(get, id, ()).unwrap().name.as_str(), "e");
    fixture.assert_sound();
}

#[test]
fn a_bump_raises_one_number_and_clears_those_after_it() {
    let fixture = Fixture::new();
    let body = json!({"name": "T", "type": "http", "version": "1.2.3"});
    let id = make(&fixture, body).unwrap().id;
    for (bump, version) in [("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0")] {
        let bumped = patch(&fixture, id, json!({"bumpVersion": bump})).unwrap();
        assert_eq!(bumped.version.as_str(), version);
    }
    patch(&fixture, id, json!({"version": format!("2.0.{}", u64::MAX)})).unwrap();
    let error = patch(&fixture, id, json!({"bumpVersion": "patch"})).unwrap_err();
    assert_eq!(error.code(), "tool_version_full");
}

#[test]
fn named_environments_use_the_resulting_version() {
    let fixture = Fixture::new();
    let id = make(&fixture, json!({"name": "T", "type": "http"})).unwrap().id;
    let one = environment::make(&fixture, json!({"slug": "one", "name": "1"})).unwrap().id;
    let two = environment::make(&fixture, json!({"slug": "two", "name": "2"})).unwrap().id;

    let named = json!(["one", one, "two"]);
    let body = json!({"bumpVersion": "major", "updateEnvironmentVersions": named});
    patch(&fixture, id, body).unwrap();
    assert_eq!(used_in(&fixture, one), json!({id.to_string(): "2.0.0"}));
    patch(&fixture, id, json!({"bumpVersion": "patch"})).unwrap();
    let unchanged = fixture.read(get, id, ()).unwrap();
    fixture.pass_secs(60);
    let moved = patch(&fixture, id, json!({"updateEnvironmentVersions": [one]})).unwrap();
    assert_eq!(moved, unchanged);
    let [one_at, two_at] =
        [one, two].map(|id| json!(environment::shown(&fixture, id))["updatedAt"].clone());
    assert_eq!((one_at, two_at), (json!(moved.updated_at.plus_secs(60)), json!(moved.updated_at)));
    assert_eq!(used_in(&fixture, one), json!({id.to_string(): "2.0.1"}));
    assert_eq!(used_in(&fixture, two), json!({id.to_string(): "2.0.0"}));

    fixture.write(remove, id, ()).unwrap();
    assert_eq!((used_in(&fixture, one), used_in(&fixture, two)), (json!({}), json!({})));
    fixture.assert_sound();
}

#[test]
fn nothing_changes_when_one_of_the_environments_refuses() {
    let fixture = Fixture::new();
    let made = make(&fixture, json!({"name": "T", "type": "http"})).unwrap();
    let id = made.id;
    let open = environment::make(&fixture, json!({"slug": "open", "name": "O"})).unwrap().id;
    let closed = json!({"slug": "closed", "name": "C", "access": "restricted"});
    let closed = environment::make(&fixture, closed).unwrap().id;
    let Principal::Caller(ada) = &fixture.owner else { panic!() };
    let approved = json!({"approverIds": [ada.user()]});
    let approved = json!({"slug": "approved", "name": "A", "approvals": approved});
    environment::make(&fixture, approved).unwrap();

    let refused = |named: Value, version: &str| {
        let body = json!({"version": version, "updateEnvironmentVersions": named});
        patch(&fixture, id, body).unwrap_err()
    };
    // Missing ones are reported first, then inaccessible ones, then conflicts of state.
    let all = json!(["open", "approved", "closed", "nowhere"]);
    assert_eq!(refused(all, "0.0.1").kind(), Kind::NotFound);
    let three = json!(["open", "approved", "closed"]);
    assert_eq!(refused(three.clone(), "0.0.1").kind(), Kind::Forbidden);
    environment::grant(&fixture, &fixture.member, closed);
    assert_eq!(refused(three.clone(), "0.0.1").code(), "tool_version_earlier");
    assert_eq!(refused(three, "2.0.0").code(), "approval_required");

    assert_eq!(fixture.read(get, id, ()).unwrap(), made);
    assert_eq!(used_in(&fixture, open), json!({}));
    assert_eq!(versions_of(&fixture, id), [pair("1.0.0", "T")]);

    patch(&fixture, id, json!({"updateEnvironmentVersions": ["closed"]})).unwrap();
    assert_eq!(used_in(&fixture, closed), json!({id.to_string(): "1.0.0"}));
}

#[test]
fn a_tool_is_found_in_its_own_organization_only() {
    let fixture = Fixture::new();
    let (other, eve) = fixture.other_org("other");
    let made = make(&fixture, json!({"name": "T", "type": "http"})).unwrap();
    let here = |org, id: String| {
        fixture.store.read_now(org, |view| is_in_organization(view, &[id])).unwrap()
    };
    assert!(here(fixture.org, made.id.to_string()));
    assert!(!here(other, made.id.to_string()));
    assert!(!here(fixture.org, "no id".into()));
    let error = fixture.read_as(&eve, get, made.id, ()).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

#[test]
fn a_type_filters_exactly() {
    let fixture = Fixture::new();
    for (name, kind) in [("a", "http"), ("b", "mcp"), ("c", "http"), ("d", "http2")] {
        make(&fixture, json!({"name": name, "type": kind})).unwrap();
    }
    let names = |kind: Option<&str>| {
        let page =
            fixture.read(list, (), ToolFilter { kind: kind.map(String::from), tag: None }).unwrap();
        page.items.into_iter().map(|tool| tool.name.into_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(Some("http")), ["c", "a"]);
    assert_eq!(names(Some("nothing")), [""; 0]);
    assert_eq!(names(None), ["d", "c", "b", "a"]);
}

#[test]
fn a_message_is_about_a_new_version_and_stays_with_it() {
    let fixture = Fixture::new();
    let body = json!({"name": "T", "type": "http", "message": "To search."});
    let id = make(&fixture, body).unwrap().id;
    let messages = || {
        let page = fixture.read(versions::list, id, ()).unwrap();
        page.items.into_iter().map(|version| json!(version.message)).collect::<Vec<_>>()
    };
    patch(&fixture, id, json!({"description": "d"})).unwrap();
    patch(&fixture, id, json!({"bumpVersion": "minor"})).unwrap();
    let new = json!({"version": "2.0.0", "prompt": "p", "message": "It asks first."});
    patch(&fixture, id, new.clone()).unwrap();
    let expected = [json!("It asks first."), Value::Null, json!("To search.")];
    assert_eq!(messages(), expected);
    // The same request again, and not another message.
    patch(&fixture, id, new).unwrap();
    let error = patch(&fixture, id, json!({"prompt": "q", "message": "Other."})).unwrap_err();
    assert_eq!((error.kind(), error.issues()[0].path.as_str()), (Kind::Invalid, "message"));
    assert_eq!(messages(), expected);
}

#[test]
fn deleting_a_tool_deletes_its_versions_however_many() {
    let fixture = Fixture::new();
    let id = make(&fixture, json!({"name": "T", "type": "http"})).unwrap().id;
    let other = make(&fixture, json!({"name": "O", "type": "http"})).unwrap().id;
    let many = move |tx: &mut Tx| {
        let tool: Tool = tx.fetch(&id)?;
        for n in 0..350 {
            let version = Version::from_trusted(format!("2.0.{n}"));
            let tool = Tool { version, ..tool.clone() };
            versions::store(tx, &tool, (tool.created_by, None), |_, _, _| Ok(false))?;
        }
        Ok(())
    };
    fixture.store.write_blocking(fixture.org, many).unwrap();
    fixture.write(remove, id, ()).unwrap();
    let left = |view: &View| view.all(ListSource::<ToolVersion>::TABLE, &());
    assert_eq!(fixture.store.read_now(fixture.org, left).unwrap().len(), 1);
    assert_eq!(versions_of(&fixture, other).len(), 1);
    assert_eq!(fixture.write(remove, id, ()).unwrap_err().kind(), Kind::NotFound);
    fixture.assert_sound();
}
