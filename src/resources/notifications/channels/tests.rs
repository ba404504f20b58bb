//! Channels: secrets, updates, the built-in one.

use std::slice;

use serde_json::Value;

use super::*;
use crate::outbox::OLD_SECRET_SECS;
use crate::resources::notifications::testing::{channel, code, hook};
use crate::resources::testing::Fixture;
use crate::store::PageRequest;

/// Creates a channel as the owner.
pub fn create_channel(fixture: &Fixture, body: Value) -> Result<ChannelCreated> {
    fixture.write_as(&fixture.owner, create, (), Fixture::input(body)?)
}

fn patch(fixture: &Fixture, id: Id<Channel>, body: Value) -> Result<ChannelInfo> {
    fixture.write_as(&fixture.owner, update, id, Fixture::input(body)?).map(|done| done.channel)
}

fn secrets(fixture: &Fixture, id: Id<Channel>) -> Vec<String> {
    let read = |view: &View| view.fetch::<Channel>(&id)?.valid_secrets(view);
    fixture.store.read_now(fixture.org, read).unwrap()
}

#[test]
fn a_generated_secret_is_shown_once_and_a_given_one_never() {
    let fixture = Fixture::new();
    let created = create_channel(&fixture, hook()).unwrap();
    let secret = created.secret.clone().unwrap();
    assert!(created.shows_secret() && webhook::secret_key(&secret).unwrap().len() == 32);
    let id = created.channel.id;
    assert_eq!(secrets(&fixture, id), slice::from_ref(&secret));
    let shown = fixture.read(get, id, ()).unwrap();
    assert_eq!(shown.config.0, json!({"url": "https://a.test/hook"}));

    let given = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    let mut body = hook();
    body["config"]["secret"] = json!(given);
    let created = create_channel(&fixture, body).unwrap();
    assert_eq!(created.secret, None);
    assert_eq!(secrets(&fixture, created.channel.id), [given]);
    fixture.assert_sound();
}

#[test]
fn a_replaced_secret_is_valid_for_a_day_beside_the_new_one() {
    let fixture = Fixture::new();
    let id = channel(&fixture, hook());
    let [first] = secrets(&fixture, id).try_into().unwrap();
    let rotate =
        || fixture.write_as(&fixture.owner, rotate_secret, id, ()).unwrap().secret.unwrap();
    let second = rotate();
    assert_eq!(secrets(&fixture, id), [second.clone(), first]);
    fixture.pass_secs(OLD_SECRET_SECS - 1);
    assert_eq!(secrets(&fixture, id).len(), 2);
    let third = rotate();
    assert_eq!(secrets(&fixture, id), [third.clone(), second], "the first is dropped");
    fixture.pass_secs(OLD_SECRET_SECS);
    assert_eq!(secrets(&fixture, id), slice::from_ref(&third));

    let stored = |fixture: &Fixture| {
        let read = |view: &View| Ok(view.fetch::<Channel>(&id)?.previous_secret.is_some());
        fixture.store.read_now(fixture.org, read).unwrap()
    };
    assert!(stored(&fixture));
    fixture.store.write_blocking(fixture.org, forget_old_secrets).unwrap();
    assert!(!stored(&fixture));
    assert_eq!(secrets(&fixture, id), [third]);
    fixture.assert_sound();
}

#[test]
fn a_new_host_gets_a_new_secret_and_nothing_of_the_old_one() {
    let fixture = Fixture::new();
    let id = channel(&fixture, hook());
    fixture.write_as(&fixture.owner, rotate_secret, id, ()).unwrap();
    let old = secrets(&fixture, id);
    assert_eq!(old.len(), 2);
    let body = Fixture::input(json!({"config": {"url": "https://b.test/hook"}})).unwrap();
    let moved = fixture.write_as(&fixture.owner, update, id, body).unwrap();
    let new = moved.secret.expect("it is shown once");
    assert_eq!(secrets(&fixture, id), slice::from_ref(&new));
    assert!(!old.contains(&new));
    // One that is given is used, and not shown.
    let given = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3";
    let body = json!({"config": {"url": "https://c.test/hook", "secret": given}});
    let body = Fixture::input(body).unwrap();
    let moved = fixture.write_as(&fixture.owner, update, id, body).unwrap();
    assert_eq!((moved.secret, secrets(&fixture, id)), (None, vec![given.to_string()]));
    fixture.assert_sound();
}

#[test]
fn an_update_keeps_the_secret_unless_another_is_given() {
    const NEW: &str = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3";
    let fixture = Fixture::new();
    let id = channel(&fixture, hook());
    let [first] = secrets(&fixture, id).try_into().unwrap();
    let moved = patch(&fixture, id, json!({"config": {"url": "https://a.test:1/"}})).unwrap();
    assert_eq!(moved.config.0, json!({"url": "https://a.test:1/"}));
    assert_eq!(secrets(&fixture, id), slice::from_ref(&first));
    let config = json!({"config": {"url": "https://a.test/", "secret": NEW}});
    for _ in 0..2 {
        patch(&fixture, id, config.clone()).unwrap();
        assert_eq!(secrets(&fixture, id), [NEW.to_string(), first.clone()]);
    }
    fixture.assert_sound();
}

#[test]
fn a_patch_changes_what_it_names() {
    let fixture = Fixture::new();
    let id = channel(&fixture, hook());
    let at = patch(&fixture, id, json!({})).unwrap().updated_at;
    fixture.pass_secs(1);
    assert_eq!(
        patch(&fixture, id, json!({"name": "Hook", "enabled": true})).unwrap().updated_at,
        at
    );
    let off = patch(&fixture, id, json!({"name": "Other", "enabled": false})).unwrap();
    assert_eq!((off.name.as_str(), off.enabled), ("Other", false));
    assert!(off.updated_at > at);
    assert_eq!(code(patch(&fixture, id, json!({"config": {}}))), "invalid_request");
    let listed = fixture.read(list, (), ()).unwrap().items;
    assert_eq!(listed.len(), 2);
    assert_eq!(listed.iter().find(|one| one.id == off.id), Some(&off));
    fixture.assert_sound();
}

#[test]
fn the_url_of_slack_is_secret() {
    let fixture = Fixture::new();
    let url = "https://hooks.slack.test/services/geheim";
    let body = |url: &str| json!({"name": "S", "workflow": "slack", "config": {"url": url}});
    let created = create_channel(&fixture, body(url)).unwrap();
    let id = created.channel.id;
    assert!(!serde_json::to_string(&created).unwrap().contains("geheim"));
    assert_eq!(fixture.read(get, id, ()).unwrap().config.0, json!({"url": "hooks.slack.test"}));
    patch(&fixture, id, json!({"config": {"url": "https://other.test/x"}})).unwrap();
    assert_eq!(secrets(&fixture, id), ["https://other.test/x"], "the old one is not kept");
    let rotated = fixture.write_as(&fixture.owner, rotate_secret, id, ());
    assert_eq!(code(rotated), "channel_without_secret");
}

#[test]
fn the_built_in_channel_is_listed_last_and_cannot_be_changed() {
    let fixture = Fixture::new();
    fixture.pass_secs(1);
    let ids: Vec<_> = (0..3).map(|_| channel(&fixture, hook())).collect();
    let built_in = in_app(fixture.org);
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let mut parts = crate::resources::testing::args((), ());
        parts.page = PageRequest { limit: 2, after };
        let read = |view: &View| list(view, &Req::new(&parts, &fixture.member));
        let page = fixture.store.read_now(fixture.org, read).unwrap();
        seen.extend(page.items.iter().map(|channel| (channel.id, channel.built_in)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected = [(ids[2], false), (ids[1], false), (ids[0], false), (built_in, true)];
    assert_eq!(seen, expected);
    assert!(fixture.read(get, built_in, ()).unwrap().built_in);
    assert_eq!(code(patch(&fixture, built_in, json!({"name": "x"}))), "channel_built_in");
    let removed = fixture.write_as(&fixture.owner, delete, built_in, ());
    assert_eq!(code(removed), "channel_built_in");
    let (_, eve) = fixture.other_org("other");
    assert_eq!(code(fixture.read_as(&eve, get, ids[0], ())), "not_found");
    assert_eq!(code(fixture.read_as(&eve, get, built_in, ())), "not_found");
}

#[test]
fn an_organization_has_a_bounded_number_of_channels() {
    let fixture = Fixture::new();
    let body = json!({"name": "C", "workflow": "in_app"});
    for _ in 0..MAX_CHANNELS {
        create_channel(&fixture, body.clone()).unwrap();
    }
    assert_eq!(code(create_channel(&fixture, body)), "too_many_channels");
}

#[test]
fn teams_and_agents_of_a_configuration_exist() {
    let fixture = Fixture::new();
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (workflow, config) in
        [("team_task", json!({"teamId": id})), ("agent_wake", json!({"teamId": id, "agentId": id}))]
    {
        let body = json!({"name": "C", "workflow": workflow, "config": config});
        assert_eq!(code(create_channel(&fixture, body)), "not_found", "{workflow}");
    }
}
