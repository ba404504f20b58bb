//! Protected labels: who moves them, and changes of them that take approvals.

use super::super::label_changes::tests::{self as changes, Decide};
use super::*;
use crate::api::Principal;
use crate::auth::{Credential, Membership, Role, User};
use crate::base::{Kind, word};
use crate::outbox::{Event, RetentionSettings};
use crate::resources::governance::tests::govern;
use crate::resources::registries::protected_label_tests::{protect, unprotect};

/// An organization whose registry `acme/main` has the prompt `hello` 1.0.0 and 1.1.0, of which the label
/// `production` is on the first, with two more people.
struct World {
    fixture: Fixture,
    cyd: Principal,
    dan: Principal,
}

impl std::ops::Deref for World {
    type Target = Fixture;
    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl World {
    fn new() -> Self {
        let fixture = Fixture::new();
        registry(&fixture, "main");
        prompt(&fixture, "hello", "1.0.0", "Hello.\n");
        prompt(&fixture, "hello", "1.1.0", "Good morning.\n");
        label(&fixture, "hello", "production", "1.0.0").unwrap();
        let cyd = fixture.person("cyd", Role::Member);
        let dan = fixture.person("dan", Role::Member);
        World { fixture, cyd, dan }
    }

    /// One in which members move `production` with the approval of both others.
    fn approved_by_two() -> Self {
        let world = World::new();
        world.protect(json!({}));
        world
    }

    /// Has moves of `production` by members approved by the two others, with more in the policy.
    fn protect(&self, more: Value) {
        let mut approvals = json!({"approverIds": [user(&self.cyd), user(&self.dan)]});
        for (name, value) in more.as_object().unwrap() {
            approvals[name] = value.clone();
        }
        let body = json!({"minRole": "member", "approvals": approvals});
        protect(self, "production", body).unwrap();
    }

    fn move_to(&self, who: &Principal, version: Value) -> Result<Value> {
        let body = about("prompt", "hello", json!({"label": "production", "version": version}));
        let moved = self.write_as(who, labels::set, (), Fixture::input(body)?)?;
        Ok(json!(moved))
    }

    fn remove(&self, who: &Principal) -> Result<()> {
        let query = about("prompt", "hello", json!({"label": "production"}));
        self.write_as(who, labels::delete, (), Fixture::input(query)?).map(drop)
    }

    /// The change that the member asks for: to 1.1.0.
    fn asked(&self) -> Value {
        let moved = self.move_to(&self.member, json!("1.1.0")).unwrap();
        assert_eq!(moved["labels"]["production"], "1.0.0", "it waits");
        moved["pendingChange"].clone()
    }

    fn decide(&self, who: &Principal, change: &Value, body: Value, how: Decide) -> Result<Value> {
        let made = self.write_as(who, how, changes::id(change), Fixture::input(body)?)?;
        Ok(json!(made))
    }

    fn approve(&self, who: &Principal, change: &Value) -> Result<Value> {
        self.decide(who, change, json!({}), changes::APPROVE)
    }

    /// Has the organization consider somebody's address verified, or not.
    fn verify(&self, who: &Principal, email_verified: bool) {
        let key = (user(who), self.org);
        let verify = move |tx: &mut Tx| {
            let old: Membership = tx.fetch(&key)?;
            tx.put(&Membership { email_verified, ..old })
        };
        self.store.write_blocking(self.org, verify).unwrap();
    }

    fn change(&self, change: &Value) -> Value {
        changes::get(self, &self.owner, change).unwrap()
    }

    fn production(&self) -> Value {
        artifacts(self, None)[0]["labels"]["production"].clone()
    }

    fn events(&self) -> Vec<(String, Value)> {
        let all: Vec<Event> =
            self.store.read_now(self.org, |view| view.all(ListSource::TABLE, &())).unwrap();
        let all = all.into_iter().map(|event| (word(event.event_type), event.payload.0));
        all.filter(|(kind, _)| kind.starts_with("label_change.")).collect()
    }
}

/// A key of somebody, which may decide on behalf of approvers.
fn delegate(who: &Principal) -> Principal {
    let Principal::Caller(caller) = who else { unreachable!("a caller") };
    let mut caller = (**caller).clone();
    let (org, access) = (caller.org, Default::default());
    caller.identity.credential = Credential::Key {
        id: crate::base::Id::NIL,
        name: "ci".into(),
        org,
        approve_as: true,
        access,
    };
    Principal::Caller(std::sync::Arc::new(caller))
}

// ── Who moves ────────────────────────────────────────────────────────────────

#[test]
fn who_may_not_move_a_protected_label_is_told_who_may_and_changes_nothing() {
    let world = World::new();
    let body = json!({"minRole": "admin", "userIds": [user(&world.cyd)]});
    protect(&world, "production", body).unwrap();
    let tries = [
        world.move_to(&world.member, json!("1.1.0")).map(drop),
        world.move_to(&world.member, Value::Null).map(drop),
        world.remove(&world.member),
    ];
    for refused in tries {
        let refused = refused.unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "label_protected"));
        assert!(refused.message().contains("owners and admins, cyd"), "{}", refused.message());
    }
    assert_eq!(world.production(), "1.0.0");
    // What changes nothing is no move.
    world.move_to(&world.member, json!("1.0.0")).unwrap();
    let moved = world.move_to(&world.cyd, json!("1.1.0")).unwrap();
    assert_eq!(
        (&moved["labels"]["production"], &moved["pendingChange"]),
        (&json!("1.1.0"), &Value::Null)
    );
    world.remove(&world.owner).unwrap();
    assert_eq!(world.production(), Value::Null);
    // It is protected where it is not set, too; other labels are not.
    assert_eq!(world.move_to(&world.member, json!("1.0.0")).unwrap_err().code(), "label_protected");
    label(&world, "hello", "staging", "1.0.0").unwrap();
}

#[test]
fn a_version_under_a_protected_label_gets_no_text_for_another_model() {
    let world = World::new();
    let mut other = version("prompt", "hello", "1.0.0", "Hi.");
    other["model"] = json!("m");
    protect(&world, "production", json!({"minRole": "admin"})).unwrap();
    let refused = publish(&world, other.clone()).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "version_protected"));
    let mut next = other.clone();
    next["version"] = json!("1.1.0");
    publish(&world, next).unwrap();
    unprotect(&world, "production");
    publish(&world, other).unwrap();
}

// ── Approvals ────────────────────────────────────────────────────────────────

#[test]
fn the_last_approval_moves_the_label() {
    let world = World::approved_by_two();
    let change = world.asked();
    assert_eq!(change["state"], "pending");
    assert_eq!((&change["from"], &change["to"]), (&json!("1.0.0"), &json!("1.1.0")));
    let first = world.approve(&world.cyd, &change).unwrap();
    assert_eq!((&first["state"], world.production()), (&json!("pending"), json!("1.0.0")));
    let again = world.approve(&world.cyd, &change).unwrap_err();
    assert_eq!(again.code(), "label_change_decided");
    let body = json!({"comment": "Fine", "contentHash": change["contentHash"]});
    let last = world.decide(&world.dan, &change, body, changes::APPROVE).unwrap();
    assert_eq!((&last["state"], world.production()), (&json!("approved"), json!("1.1.0")));
    let kinds: Vec<_> = world.events().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["label_change.requested", "label_change.approved"]);
    let moved_by = json!(user(&world.member));
    let history = about("prompt", "hello", json!({"label": "production"}));
    let history =
        world.read(super::super::label_history::list, (), Fixture::input(history).unwrap());
    let history: Vec<_> = history.unwrap().items.iter().map(|one| json!(one)).collect();
    assert_eq!((&history[0]["to"], &history[0]["movedBy"]), (&json!("1.1.0"), &moved_by));
    let votes = changes::approvals(&world, &change);
    assert_eq!(votes.len(), 2);
    assert!(votes.iter().any(|vote| vote["comment"] == "Fine"));
    world.assert_sound();
}

#[test]
fn removing_a_label_takes_approvals_too() {
    let world = World::approved_by_two();
    assert_eq!(world.remove(&world.member).unwrap_err().code(), "approval_required");
    let asked = world.move_to(&world.member, Value::Null).unwrap()["pendingChange"].clone();
    assert_eq!((&asked["to"], &asked["contentHash"]), (&Value::Null, &Value::Null));
    world.approve(&world.cyd, &asked).unwrap();
    world.approve(&world.dan, &asked).unwrap();
    assert_eq!(world.production(), Value::Null);
}

#[test]
fn only_a_required_approver_decides_and_a_denial_ends_it() {
    let world = World::approved_by_two();
    let change = world.asked();
    for who in [&world.member, &world.owner] {
        assert_eq!(world.approve(who, &change).unwrap_err().code(), "approver_required");
    }
    let other = json!({"contentHash": "x"});
    let refused = world.decide(&world.cyd, &change, other, changes::APPROVE).unwrap_err();
    assert_eq!(refused.code(), "content_hash_differs");
    let body = json!({"comment": "Not yet"});
    let denied = world.decide(&world.dan, &change, body, changes::DENY).unwrap();
    assert_eq!(denied["state"], "denied");
    let late = world.approve(&world.cyd, &change).unwrap_err();
    assert_eq!(late.code(), "label_change_not_pending");
    assert_eq!(world.production(), "1.0.0");
    assert_eq!(world.events()[1].0, "label_change.denied");
    assert_eq!(world.events()[1].1["deniedBy"], json!(user(&world.dan)));
}

#[test]
fn a_key_decides_for_an_approver_whom_it_names() {
    let world = World::approved_by_two();
    let change = world.asked();
    let key = delegate(&world.owner);
    let unnamed = world.approve(&key, &change).unwrap_err();
    assert_eq!(unnamed.issues()[0].path, "actingUserEmail");
    let by = |email: &str| json!({"actingUserEmail": email});
    let named = world.decide(&world.cyd, &change, by("dan@acme.test"), changes::APPROVE);
    assert_eq!(named.unwrap_err().code(), "approve_as_required");
    for email in ["cyd@acme.test", "dan@acme.test"] {
        world.decide(&key, &change, by(email), changes::APPROVE).unwrap();
    }
    assert_eq!(world.production(), "1.1.0");
    assert!(changes::approvals(&world, &change).iter().all(|vote| vote["via"] == "ci"));
}

#[test]
fn who_asks_does_not_approve_where_that_is_prevented() {
    let world = World::new();
    world.protect(json!({"preventSelfApproval": true}));
    let asked = world.move_to(&world.cyd, json!("1.1.0")).unwrap()["pendingChange"].clone();
    assert_eq!(asked["approvals"]["approverIds"], json!([user(&world.dan)]));
    assert_eq!(world.approve(&world.cyd, &asked).unwrap_err().code(), "approver_required");
    world.approve(&world.dan, &asked).unwrap();
    assert_eq!(world.production(), "1.1.0");

    let alone = json!({"approverIds": [user(&world.cyd)], "preventSelfApproval": true});
    protect(&world, "production", json!({"minRole": "member", "approvals": alone})).unwrap();
    let nobody = world.move_to(&world.cyd, json!("1.0.0")).unwrap_err();
    assert_eq!(nobody.code(), "no_approver");
}

#[test]
fn an_approval_counts_only_of_a_verified_member() {
    let world = World::approved_by_two();
    let change = world.asked();
    world.approve(&world.cyd, &change).unwrap();
    world.verify(&world.cyd, false);
    world.approve(&world.dan, &change).unwrap();
    assert_eq!(
        (world.change(&change)["state"].clone(), world.production()),
        (json!("pending"), json!("1.0.0"))
    );
}

#[test]
fn who_asks_again_gets_a_change_that_can_be_approved() {
    let world = World::approved_by_two();
    let assert_asked_anew = |stuck: &Value| {
        let again = world.asked();
        assert_ne!(again["id"], stuck["id"]);
        assert_eq!(world.change(stuck)["state"], "superseded");
        assert_eq!((&again["state"], &again["obstacle"]), (&json!("pending"), &Value::Null));
        again
    };

    // All have voted, and one whose vote did not count is verified again.
    let stuck = world.asked();
    world.approve(&world.cyd, &stuck).unwrap();
    world.verify(&world.cyd, false);
    world.approve(&world.dan, &stuck).unwrap();
    world.verify(&world.cyd, true);
    let again = assert_asked_anew(&stuck);

    // The address of who asked was proved since: what was made before is of no use.
    let asker = user(&world.member);
    let prove = move |tx: &mut Tx| {
        let old: User = tx.fetch(&asker)?;
        tx.put(&User { keys_from: Some(tx.now()), ..old })
    };
    world.store.write_blocking(crate::base::Id::NIL, prove).unwrap();
    world.pass_secs(1);
    assert!(world.change(&again)["obstacle"].is_string());
    let last = assert_asked_anew(&again);
    world.approve(&world.cyd, &last).unwrap();
    world.approve(&world.dan, &last).unwrap();
    assert_eq!(world.production(), "1.1.0");
    world.assert_sound();
}

// ── What was asked for does not hold any more ────────────────────────────────

/// Asserts that a change cannot be approved any more, for a reason, and that nothing was moved.
fn assert_outdated(world: &World, change: &Value, why: &str) {
    assert!(world.change(change)["obstacle"].as_str().unwrap().contains(why), "{why}");
    let refused = world.approve(&world.cyd, change).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "label_change_outdated"));
    assert!(refused.message().contains(why), "{}", refused.message());
    assert_eq!(world.change(change)["state"], "pending");
    let denied = world.decide(&world.cyd, change, json!({}), changes::DENY).unwrap();
    assert_eq!((&denied["state"], &denied["obstacle"]), (&json!("denied"), &Value::Null));
}

#[test]
fn a_version_that_is_gone_or_says_something_else_is_not_approved() {
    let world = World::approved_by_two();
    let change = world.asked();
    delete(&world, "prompt", "hello", "1.1.0").unwrap();
    assert_outdated(&world, &change, "does not exist");

    prompt(&world, "hello", "1.1.0", "Good morning.\n");
    let change = world.asked();
    let mut more = version("prompt", "hello", "1.1.0", "Hi.");
    more["model"] = json!("m");
    publish(&world, more).unwrap();
    assert_outdated(&world, &change, "does not say what it did");

    let change = world.asked();
    delete(&world, "prompt", "hello", "1.1.0").unwrap();
    prompt(&world, "hello", "1.1.0", "Good morning.\n");
    assert_outdated(&world, &change, "does not say what it did");
}

#[test]
fn a_protection_that_takes_more_than_was_asked_for_keeps_the_label_where_it_is() {
    let world = World::new();
    world.protect(json!({"minApprovals": 1}));
    let change = world.asked();
    world.protect(json!({"minApprovals": 2}));
    assert_outdated(&world, &change, "takes other approvals");

    let change = world.asked();
    let others = json!({"approverIds": [user(&world.dan), user(&world.owner)]});
    protect(&world, "production", json!({"minRole": "member", "approvals": others})).unwrap();
    assert_outdated(&world, &change, "takes other approvals");

    world.protect(json!({}));
    let change = world.asked();
    let body = json!({"minRole": "admin", "approvals": {"approverIds": [user(&world.cyd)]}});
    protect(&world, "production", body).unwrap();
    assert_outdated(&world, &change, "who asked for it");
}

#[test]
fn a_new_label_for_which_there_is_no_room_is_not_asked_for_nor_approved() {
    let world = World::approved_by_two();
    unprotect(&world, "production");
    world.remove(&world.member).unwrap();
    world.protect(json!({}));
    // As many other labels as an artifact may have, or one fewer.
    let fill = |count: usize| {
        let fill = move |tx: &mut Tx| {
            let old: artifact::Artifact =
                tx.view().all(ListSource::TABLE, &()).map(|mut all| all.remove(0))?;
            let label = |n: usize| crate::base::Label::parse(format!("l{n}")).unwrap();
            let labels = (0..count).map(|n| (label(n), old.latest_version.clone())).collect();
            artifact::set_labels(tx, &old, labels, None).map(drop)
        };
        world.store.write_blocking(world.org, fill).unwrap();
    };
    fill(1000);
    let full = world.move_to(&world.member, json!("1.1.0")).unwrap_err();
    assert_eq!((full.kind(), full.code()), (Kind::Conflict, "labels_full"));
    assert!(changes::list(&world, &world.owner, json!({})).is_empty());
    fill(999);
    let moved = world.move_to(&world.member, json!("1.1.0")).unwrap();
    let change = moved["pendingChange"].clone();
    fill(1000);
    assert_outdated(&world, &change, "as many labels");
}

#[test]
fn a_protection_that_takes_less_lets_what_was_asked_for_be_approved_as_it_was() {
    let world = World::approved_by_two();
    let change = world.asked();
    world.protect(json!({"minApprovals": 1}));
    world.approve(&world.cyd, &change).unwrap();
    assert_eq!(world.production(), "1.0.0", "two were asked");
    unprotect(&world, "production");
    world.approve(&world.dan, &change).unwrap();
    assert_eq!(world.production(), "1.1.0");
}

#[test]
fn a_policy_demands_that_a_label_takes_approvals_before_it_is_moved() {
    let world = World::new();
    govern(&world, "main", json!([{"type": "protectLabel", "value": "production"}]));
    let refused = world.move_to(&world.owner, json!("1.1.0")).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "protection_required"));
    assert!(refused.message().contains("House rules"), "{refused}");
    assert_eq!(world.remove(&world.owner).unwrap_err().code(), "protection_required");
    protect(&world, "production", json!({"minRole": "admin"})).unwrap();
    let refused = world.move_to(&world.owner, json!("1.1.0")).unwrap_err();
    assert_eq!(refused.code(), "protection_required", "protected, but without approvals");
    assert_eq!(world.production(), "1.0.0");
    label(&world, "hello", "staging", "1.1.0").unwrap();
    world.protect(json!({}));
    let change = world.asked();
    world.approve(&world.cyd, &change).unwrap();
    world.approve(&world.dan, &change).unwrap();
    assert_eq!(world.production(), "1.1.0");
    // Its texts are not what it is about.
    prompt(&world, "hello", "1.2.0", "Good evening.");
    world.assert_sound();
}

#[test]
fn who_has_left_moves_nothing_by_what_they_asked_for() {
    let world = World::approved_by_two();
    let change = world.asked();
    world.leave(&world.member).unwrap();
    assert_outdated(&world, &change, "who asked for it");
}

#[test]
fn a_label_has_one_change_that_waits() {
    let world = World::approved_by_two();
    let first = world.asked();
    let again = world.asked();
    assert_eq!(first, again, "the same is asked for once");
    let through_a_key = world.move_to(&delegate(&world.member), json!("1.1.0")).unwrap();
    assert_eq!(through_a_key["pendingChange"]["id"], first["id"], "by whatever credential");
    prompt(&world, "hello", "1.2.0", "Good evening.");
    world.approve(&world.cyd, &first).unwrap();
    let other = world.move_to(&world.member, json!("1.2.0")).unwrap()["pendingChange"].clone();
    assert_eq!(world.change(&first)["state"], "superseded");
    assert_eq!(world.approve(&world.dan, &first).unwrap_err().code(), "label_change_not_pending");
    unprotect(&world, "production");
    world.move_to(&world.member, json!("1.1.0")).unwrap();
    assert_eq!(world.change(&other)["state"], "superseded");
    world.assert_sound();
}

#[test]
fn who_may_move_a_label_and_puts_it_where_it_is_ends_the_change_that_waits() {
    let world = World::approved_by_two();
    let change = world.asked();
    let approvals = json!({"approverIds": [user(&world.cyd), user(&world.dan)]});
    let by_admins = json!({"minRole": "admin", "approvals": approvals});
    protect(&world, "production", by_admins).unwrap();
    world.move_to(&world.dan, json!("1.0.0")).unwrap();
    assert_eq!(world.change(&change)["state"], "pending");
    let stays = world.move_to(&world.owner, json!("1.0.0")).unwrap();
    assert_eq!(stays["pendingChange"], Value::Null);
    assert_eq!(world.change(&change)["state"], "superseded");
    assert_eq!(world.production(), "1.0.0");
    world.assert_sound();
}

#[test]
fn a_change_is_cancelled_by_who_asked_or_an_admin_and_expires() {
    let world = World::approved_by_two();
    let change = world.asked();
    let refused = changes::cancel(&world, &world.cyd, &change).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "creator_required"));
    changes::cancel(&world, &world.member, &change).unwrap();
    let again = changes::cancel(&world, &world.owner, &change).unwrap_err();
    assert_eq!(again.code(), "label_change_finished");

    let change = world.asked();
    world.pass_secs(72 * 3600);
    assert_eq!(world.approve(&world.cyd, &change).unwrap_err().code(), "label_change_not_pending");
    changes::expire(&world, &RetentionSettings::default());
    assert_eq!(world.change(&change)["state"], "expired");
    assert_eq!(world.events().last().unwrap().0, "label_change.expired");
    // Ended ones go with the log.
    world.pass_secs(366 * 24 * 3600);
    changes::forget(&world, &RetentionSettings::default());
    let gone = changes::get(&world, &world.owner, &change).unwrap_err();
    assert_eq!(gone.kind(), Kind::NotFound);
    world.assert_sound();
}

#[test]
fn what_waits_for_somebody_is_listed_until_they_have_decided() {
    let world = World::approved_by_two();
    let change = world.asked();
    let mine = json!({"approver": "me"});
    let waiting = |who: &Principal| changes::list(&world, who, mine.clone()).len();
    assert_eq!([&world.cyd, &world.dan, &world.owner].map(waiting), [1, 1, 0]);
    world.approve(&world.cyd, &change).unwrap();
    assert_eq!([&world.cyd, &world.dan].map(waiting), [0, 1]);
    for (filter, found) in [
        (json!({}), 1),
        (json!({"state": "pending"}), 1),
        (json!({"state": "denied"}), 0),
        (json!({"registryRef": "acme/main", "promptName": "hello"}), 1),
        (
            json!({"registryRef": "acme/main", "promptName": "hello", "artifactType": "promptlet"}),
            0,
        ),
        (json!({"registryRef": "acme/main", "label": "staging"}), 0),
        (json!({"registryRef": "acme/main", "label": "production", "state": "pending"}), 1),
        (json!({"registryRef": "acme/none"}), 0),
    ] {
        assert_eq!(changes::list(&world, &world.owner, filter.clone()).len(), found, "{filter}");
    }
}

#[test]
fn a_change_shows_what_clients_will_read_for_each_model() {
    let world = World::approved_by_two();
    let mut own = version("prompt", "hello", "1.1.0", "Hi {{NAME}}.\n");
    own["model"] = json!("m");
    own["metadata"] = json!({"temperature": 1});
    publish(&world, own).unwrap();
    let change = world.asked();
    let shown = changes::diff(&world, &change);
    assert_eq!(shown.len(), 2);
    let (generic, own) = (&shown[0], &shown[1]);
    assert_eq!((&generic["model"], &own["model"]), (&json!("generic"), &json!("m")));
    assert!(generic["diff"].as_str().unwrap().contains("-Hello.\n+Good morning."), "{generic}");
    assert_eq!(generic["metadataDiff"], "");
    assert!(own["diff"].as_str().unwrap().contains("-Hello.\n+Hi {{NAME}}."), "{own}");
    assert!(own["metadataDiff"].as_str().unwrap().contains("temperature"), "{own}");
    assert_eq!(own["addedVariables"], json!(["NAME"]));
}

#[test]
fn a_registry_takes_its_changes_with_it() {
    let world = World::approved_by_two();
    let change = world.asked();
    world.write_as(&world.owner, crate::resources::registries::delete, "main".into(), ()).unwrap();
    assert_eq!(changes::get(&world, &world.owner, &change).unwrap_err().kind(), Kind::NotFound);
    assert!(changes::list(&world, &world.owner, json!({})).is_empty());
    world.complete_removals();
    world.assert_sound();
}
