//! Approvals: who may decide, on whose behalf, and when a job starts.

use std::sync::Arc;

use super::super::approvals;
use super::*;
use crate::auth::{AddressProof, Caller, Credential, Identity, Membership, Role, Sponsor};
use crate::base::{Email, Kind, Name};
use crate::outbox::RetentionSettings;

type Decide =
    fn(&mut Tx, &Req<Id<DeploymentJob>, approvals::DeploymentDecision>) -> Result<JobInfo>;

fn decide(
    world: &World,
    who: &Principal,
    job: &Value,
    body: Value,
    operation: Decide,
) -> Result<Value> {
    let made = world.write_as(who, operation, id(job), Fixture::input(body)?)?;
    Ok(json!(made))
}

pub fn approve(world: &World, who: &Principal, job: &Value, body: Value) -> Result<Value> {
    decide(world, who, job, body, approvals::approve)
}

pub fn deny(world: &World, who: &Principal, job: &Value, body: Value) -> Result<Value> {
    decide(world, who, job, body, approvals::deny)
}

/// Another member of the organization.
pub fn person(world: &World, name: &'static str) -> Principal {
    let org = world.org;
    let id = world.store.write_blocking(Id::NIL, move |tx| {
        let user = User {
            id: tx.new_id(),
            email: email(name),
            name: Name::parse(name).unwrap(),
            image: None,
            password: None,
            session_generation: 0,
            service_of: None,
            created_at: tx.now(),
            proof: AddressProof::Proved,
            keys_from: None,
        };
        tx.insert(&user)?;
        let joined_at = tx.now();
        let (role, email_verified) = (Role::Member, true);
        tx.insert(&Membership { user: user.id, org, role, email_verified, joined_at })?;
        Ok(user.id)
    });
    caller(world, id.unwrap(), Role::Member, Credential::Session(Id::NIL))
}

fn email(name: &str) -> Email {
    Email::parse(format!("{name}@acme.test")).unwrap()
}

fn caller(world: &World, user: Id<User>, role: Role, credential: Credential) -> Principal {
    let Principal::Caller(owner) = &world.owner else { unreachable!("a caller") };
    let (name, sponsor, expires_at, proved_at) = ("n".into(), None, None, None);
    let identity = Identity { user, name, credential, sponsor, expires_at, proved_at };
    let (org, org_slug) = (owner.org, owner.org_slug.clone());
    Principal::Caller(Arc::new(Caller {
        identity,
        org,
        org_slug,
        role,
        lacks_second_factor: false,
    }))
}

/// A key of somebody, whose role is `role` now.
fn key_of(world: &World, who: &Principal, role: Role, approve_as: bool) -> Principal {
    let (id, name, org) = (Id::NIL, "ci".into(), world.org);
    caller(
        world,
        user(who),
        role,
        Credential::Key { id, name, org, approve_as, access: Default::default() },
    )
}

fn set_membership(world: &World, who: &Principal, change: fn(Membership) -> Membership) {
    let key = (user(who), world.org);
    let set = move |tx: &mut Tx| {
        let old: Membership = tx.fetch(&key)?;
        tx.put(&change(old))
    };
    world.store.write_blocking(world.org, set).unwrap();
}

pub fn leave(world: &World, who: &Principal) {
    let key = (user(who), world.org);
    let set = move |tx: &mut Tx| {
        let old: Membership = tx.fetch(&key)?;
        tx.remove(&old)
    };
    world.store.write_blocking(world.org, set).unwrap();
}

pub fn approvals(world: &World, job: &Value) -> Vec<Value> {
    let all = world.read_as(&world.owner, approvals::list, id(job), ()).unwrap().items;
    all.into_iter().map(|one| json!(one)).collect()
}

/// The six rules of delegated approval: the credential, whether it has the permission, the role of its
/// user, the `actingUserEmail`, the state of the approver that counts, and the outcome.
#[test]
fn who_decides_and_on_whose_behalf() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum With {
        Session,
        Key,
        Delegate,
        /// A key with the permission whose user is no longer an admin.
        Demoted,
    }
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Named {
        None,
        /// That of the required approver.
        Approver,
        /// That of a member who is no approver.
        Other,
        Nobody,
        Malformed,
    }
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum State {
        Verified,
        Unverified,
        Left,
    }
    use {Named::*, State::*, With::*};
    let ok = "";
    // The caller's user is the approver where `own` is true, otherwise another member.
    let table: &[(With, bool, Named, State, &str)] = &[
        // 6. A person and an ordinary key decide as themselves.
        (Session, true, None, Verified, ok),
        (Key, true, None, Verified, ok),
        (Session, true, None, Unverified, "approver_required"),
        (Key, true, None, Unverified, "approver_required"),
        (Session, false, None, Verified, "approver_required"),
        (Key, false, None, Verified, "approver_required"),
        // Only a key with the permission names somebody else, or even itself.
        (Session, false, Approver, Verified, "approve_as_required"),
        (Session, true, Approver, Verified, "approve_as_required"),
        (Key, false, Approver, Verified, "approve_as_required"),
        (Key, true, Approver, Verified, "approve_as_required"),
        (Key, false, Nobody, Verified, "approve_as_required"),
        // 3. A key with the permission must name an approver, also if its user is one.
        (Delegate, false, None, Verified, "invalid_request"),
        (Delegate, true, None, Verified, "invalid_request"),
        (Delegate, false, Malformed, Verified, "invalid_request"),
        (Session, true, Malformed, Verified, "invalid_request"),
        // 1. and 3. It decides as a required approver, who is verified.
        (Delegate, false, Approver, Verified, ok),
        (Delegate, true, Approver, Verified, ok),
        (Delegate, false, Approver, Unverified, "approver_required"),
        (Delegate, false, Approver, Left, "approver_required"),
        (Delegate, false, Other, Verified, "approver_required"),
        (Delegate, false, Nobody, Verified, "approver_required"),
        (Delegate, true, Other, Verified, "approver_required"),
        // 2. The permission is an admin's: after a demotion the key is an ordinary one.
        (Demoted, true, None, Verified, ok),
        (Demoted, false, None, Verified, "approver_required"),
        (Demoted, false, Approver, Verified, "approve_as_required"),
        (Demoted, true, Approver, Verified, "approve_as_required"),
    ];
    for (n, (with, own, email, state, expected)) in table.iter().enumerate() {
        for (operation, decision) in
            [(approvals::approve as Decide, "approved"), (approvals::deny as Decide, "denied")]
        {
            let world = World::new();
            let (cara, dan) = (person(&world, "cara"), person(&world, "dan"));
            let approvers = json!({"approverIds": [user(&cara)]});
            world.set_approvals(approvers);
            let job = world.deploy(&["ann"], json!({})).unwrap();
            match state {
                Verified => {}
                Unverified => {
                    set_membership(&world, &cara, |old| Membership {
                        email_verified: false,
                        ..old
                    });
                }
                Left => {
                    world.set_approvals(json!({"approverIds": [user(&dan)]}));
                    leave(&world, &cara);
                }
            }
            let own = if *own { &cara } else { &dan };
            let who = match with {
                Session => own.clone(),
                Key => key_of(&world, own, Role::Admin, false),
                Delegate => key_of(&world, own, Role::Admin, true),
                Demoted => key_of(&world, own, Role::Member, true),
            };
            let acting = match email {
                None => Value::Null,
                Approver => json!("Cara@ACME.test"),
                Other => json!("dan@acme.test"),
                Nobody => json!("nobody@acme.test"),
                Malformed => json!("cara"),
            };
            let body = json!({"actingUserEmail": acting, "comment": "c"});
            let decided = decide(&world, &who, &job, body, operation);
            let context = format!("row {n}: {:?}", table[n]);
            let [approval] = <[Value; 1]>::try_from(approvals(&world, &job)).unwrap();
            let Ok(after) = &decided else {
                assert_eq!(decided.unwrap_err().code(), *expected, "{context}");
                assert_eq!(approval["decision"], "pending", "{context}");
                assert_eq!(world.job(&job), job, "{context}");
                continue;
            };
            assert_eq!(*expected, ok, "{context}");
            assert_eq!(after["state"], decision, "{context}");
            assert_eq!(approval["decision"], decision, "{context}");
            let via = (*with == Delegate).then_some("ci");
            assert_eq!((&approval["via"], &approval["comment"]), (&json!(via), &json!("c")));
            let event = world.events().pop().unwrap();
            if decision == "approved" {
                assert_eq!(event.0, "deployment.approved", "{context}");
                let by = json!([{"userId": user(&cara), "via": via}]);
                assert_eq!(
                    (&event.1["approvals"], &event.1["via"]),
                    (&by, &json!(via)),
                    "{context}"
                );
            }
            world.assert_sound();
        }
    }
}

#[test]
fn one_key_decides_for_every_approver_of_a_job() {
    let world = World::new();
    let (cara, dan) = (person(&world, "cara"), person(&world, "dan"));
    world.set_approvals(json!({"approverIds": [user(&cara), user(&dan)]}));
    let job = world.deploy(&["ann"], json!({})).unwrap();
    assert_eq!(job["state"], "pending_approval");
    assert_eq!(world.event_types(), ["deployment.pending_approval"]);
    let key = key_of(&world, &world.owner, Role::Owner, true);
    let as_email = |email| json!({"actingUserEmail": email});
    let first = approve(&world, &key, &job, as_email("cara@acme.test")).unwrap();
    assert_eq!(first["state"], "pending_approval");
    assert!(world.tasks().is_empty());
    let twice = approve(&world, &key, &job, as_email("cara@acme.test")).unwrap_err();
    assert_eq!(twice.code(), "deployment_decided");
    let second = approve(&world, &key, &job, as_email("dan@acme.test")).unwrap();
    assert_eq!(second["state"], "approved");
    assert_eq!(world.event_types()[1..], ["deployment.approved"]);
    let late = approve(&world, &key, &job, as_email("dan@acme.test")).unwrap_err();
    assert_eq!(late.code(), "deployment_decided");
    world.run();
    assert_eq!(world.job(&job)["state"], "complete");
}

#[test]
fn the_first_denial_ends_a_job() {
    let world = World::new();
    let (cara, dan) = (person(&world, "cara"), person(&world, "dan"));
    world.set_approvals(json!({"approverIds": [user(&cara), user(&dan)], "minApprovals": 1}));
    let job = world.deploy(&["ann"], json!({})).unwrap();
    let denied = deny(&world, &cara, &job, json!({})).unwrap();
    assert_eq!((&denied["state"], states(&denied)), (&json!("denied"), vec!["skipped"]));
    let late = approve(&world, &dan, &job, json!({})).unwrap_err();
    assert_eq!(late.code(), "deployment_not_pending");
    assert!(world.tasks().is_empty());
    world.assert_sound();
}

#[test]
fn fewer_approvals_than_approvers_may_be_enough() {
    let world = World::new();
    let (cara, dan) = (person(&world, "cara"), person(&world, "dan"));
    world.set_approvals(json!({"approverIds": [user(&cara), user(&dan)], "minApprovals": 1}));
    let job = world.deploy(&["ann"], json!({})).unwrap();
    let waiting = |who: &Principal| {
        let query = json!({"approver": "me"});
        read(&world, who, super::super::jobs::list, (), query).unwrap().items.len()
    };
    assert_eq!([&cara, &dan, &world.owner].map(waiting), [1, 1, 0]);
    assert_eq!(approve(&world, &dan, &job, json!({})).unwrap()["state"], "approved");
    assert_eq!([&cara, &dan].map(waiting), [0, 0]);
    let late = approve(&world, &cara, &job, json!({})).unwrap_err();
    assert_eq!(late.code(), "deployment_not_pending");
}

#[test]
fn the_creator_is_no_approver_where_self_approval_is_prevented() {
    let world = World::new();
    let cara = person(&world, "cara");
    let both = [user(&world.owner), user(&cara)];
    world.set_approvals(json!({"approverIds": both, "preventSelfApproval": true}));
    let job = world.deploy_as(&cara, &["ann"], json!({})).unwrap();
    let left = json!({
        "approverIds": [both[0]], "minApprovals": 1, "preventSelfApproval": true,
    });
    assert_eq!(job["plan"]["approvals"], left);
    let own = approve(&world, &cara, &job, json!({})).unwrap_err();
    assert_eq!(own.code(), "approver_required");
    assert_eq!(approve(&world, &world.owner, &job, json!({})).unwrap()["state"], "approved");
    world.set_approvals(json!({"approverIds": [both[1]], "preventSelfApproval": true}));
    let anonymous = world.deploy_as(&cara, &["ann"], json!({})).unwrap_err();
    assert_eq!(anonymous.code(), "no_approver");
    // Others still deploy.
    world.deploy(&["ann"], json!({})).unwrap();
}

/// The key of a service account for which an owner answers.
fn key_of_service(world: &World, service: &Principal, sponsor: &Principal) -> Principal {
    let credential = Credential::Key {
        id: Id::NIL,
        name: "pipeline".into(),
        org: world.org,
        approve_as: false,
        access: Default::default(),
    };
    let Principal::Caller(pipeline) = caller(world, user(service), Role::Member, credential) else {
        unreachable!("a caller")
    };
    let mut pipeline = Caller::clone(&pipeline);
    let (by, name) = (user(sponsor), "ada".into());
    pipeline.identity.sponsor = Some(Sponsor { user: by, name, role: Role::Owner });
    Principal::Caller(Arc::new(pipeline))
}

#[test]
fn what_a_key_deploys_is_not_applied_once_who_answered_for_it_has_left() {
    let world = World::new();
    let [service, cara, dan] = ["service", "cara", "dan"].map(|name| person(&world, name));
    let pipeline = key_of_service(&world, &service, &cara);
    world.set_approvals(json!({"approverIds": [user(&dan)]}));
    let [waits, runs] = [(), ()].map(|()| world.deploy_as(&pipeline, &["ann"], json!({})).unwrap());
    approve(&world, &dan, &runs, json!({})).unwrap();
    assert_eq!(world.job(&waits)["obstacle"], Value::Null);
    leave(&world, &cara);
    let refused = approve(&world, &dan, &waits, json!({})).unwrap_err();
    assert_eq!(refused.code(), "deployment_outdated");
    world.run();
    assert_eq!(states(&world.job(&runs)), ["failed"]);
    assert!(world.live("ann").is_none());
    // He may deny it all the same.
    deny(&world, &dan, &waits, json!({})).unwrap();
    world.assert_sound();
}

#[test]
fn what_a_key_deploys_is_not_applied_once_who_answers_for_it_may_not_deploy_it() {
    let world = World::new();
    let (service, cara) = (person(&world, "service"), person(&world, "cara"));
    for who in [&service, &cara] {
        set_membership(&world, who, |old| Membership { role: Role::Admin, ..old });
    }
    let pipeline = key_of_service(&world, &service, &cara);
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let job = world.deploy_as(&pipeline, &["ann"], json!({})).unwrap();
    environments::tests::patch(&world, world.dev, json!({"access": "restricted"}));
    assert_eq!(world.job(&job)["obstacle"], Value::Null, "both are admins");
    set_membership(&world, &cara, |old| Membership { role: Role::Member, ..old });
    let refused = approve(&world, &world.owner, &job, json!({})).unwrap_err();
    assert_eq!(refused.code(), "deployment_outdated");
    world.assert_sound();
}

#[test]
fn who_answers_for_the_key_of_a_service_account_is_no_approver_of_what_it_deploys() {
    let world = World::new();
    let (service, cara) = (person(&world, "service"), person(&world, "cara"));
    let pipeline = key_of_service(&world, &service, &world.owner);
    let both = [user(&world.owner), user(&cara)];
    world.set_approvals(json!({"approverIds": both, "preventSelfApproval": true}));
    let job = world.deploy_as(&pipeline, &["ann"], json!({})).unwrap();
    assert_eq!(job["createdBy"], json!(user(&service)));
    assert_eq!(job["plan"]["approvals"]["approverIds"], json!([user(&cara)]));
    let own = approve(&world, &world.owner, &job, json!({})).unwrap_err();
    assert_eq!(own.code(), "approver_required");
    assert_eq!(approve(&world, &cara, &job, json!({})).unwrap()["state"], "approved");
}

#[test]
fn approvers_are_frozen_and_those_who_left_cannot_decide() {
    let world = World::new();
    let (cara, dan) = (person(&world, "cara"), person(&world, "dan"));
    world.set_approvals(json!({"approverIds": [user(&cara), user(&dan)], "minApprovals": 1}));
    let job = world.deploy(&["ann"], json!({})).unwrap();
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    assert_eq!(world.job(&job), job);
    let owner = approve(&world, &world.owner, &job, json!({})).unwrap_err();
    assert_eq!(owner.code(), "approver_required");
    leave(&world, &cara);
    let shown = approvals(&world, &job);
    // Dan is the newer one.
    let verified: Vec<_> = shown.iter().map(|one| &one["user"]["emailVerified"]).collect();
    assert_eq!(verified, [&json!(true), &json!(false)]);
    // A role does not matter.
    set_membership(&world, &dan, |old| Membership { role: Role::Member, ..old });
    approve(&world, &dan, &job, json!({})).unwrap();
}

#[test]
fn what_changes_in_the_environment_does_not_change_who_approves_a_waiting_job() {
    let world = World::new();
    let (cara, dan) = (person(&world, "cara"), person(&world, "dan"));
    world.set_approvals(json!({"approverIds": [user(&cara), user(&dan)]}));
    let wait = || world.deploy(&["ann"], json!({})).unwrap();
    let (kept, freed, left) = (wait(), wait(), wait());
    // Fewer approvals are required of later jobs, or none.
    world.set_approvals(json!({"approverIds": [user(&cara), user(&dan)], "minApprovals": 1}));
    assert_eq!(approve(&world, &cara, &kept, json!({})).unwrap()["state"], "pending_approval");
    world.set_approvals(Value::Null);
    assert_eq!(world.deploy(&["bob"], json!({})).unwrap()["state"], "approved");
    assert_eq!(approve(&world, &cara, &freed, json!({})).unwrap()["state"], "pending_approval");
    assert_eq!(approve(&world, &dan, &freed, json!({})).unwrap()["state"], "approved");
    let deleted = environments::tests::remove(&world, world.dev).unwrap_err();
    assert_eq!(deleted.code(), "deployment_pending");
    // Nobody takes the place of who has left: the job is denied, cancelled or times out.
    leave(&world, &dan);
    assert_eq!(approve(&world, &cara, &left, json!({})).unwrap()["state"], "pending_approval");
    assert_eq!(world.job(&left)["plan"]["approvals"]["minApprovals"], 2);
    assert_eq!(deny(&world, &cara, &left, json!({})).unwrap_err().code(), "deployment_decided");
    world.write(jobs::cancel, id(&left), ()).unwrap();
    world.assert_sound();
}

#[test]
fn a_job_is_cancelled_while_it_is_pending_approved_or_running_and_never_after() {
    let world = World::new();
    let cancel = |job: &Value| world.write(jobs::cancel, id(job), ()).map(|job| json!(job));
    let approvals = |approvals: Value| world.set_approvals(approvals);
    let owner = json!({"approverIds": [user(&world.owner)]});
    approvals(owner.clone());
    let pending = world.deploy(&["ann"], json!({})).unwrap();
    let denied = world.deploy(&["ann"], json!({})).unwrap();
    deny(&world, &world.owner, &denied, json!({})).unwrap();
    approvals(Value::Null);
    let approved = world.deploy(&["ann"], json!({})).unwrap();
    let running = world.deploy(&["bob", "ann"], json!({})).unwrap();
    let [_, second] = <[Job; 2]>::try_from(world.tasks()).unwrap();
    world.prepare(&second);
    let all = [&pending, &denied, &approved, &running];
    assert_eq!(
        all.map(|job| world.job(job)["state"].clone()),
        ["pending_approval", "denied", "approved", "running"]
    );
    for (job, states_after) in [
        (&pending, vec!["skipped"]),
        (&approved, vec!["skipped"]),
        (&running, vec!["applied", "skipped"]),
    ] {
        let cancelled = cancel(job).unwrap();
        assert_eq!((&cancelled["state"], states(&cancelled)), (&json!("cancelled"), states_after));
        assert!(cancelled["finishedAt"].is_string());
        assert_eq!(cancel(job).unwrap_err().code(), "deployment_finished");
    }
    let complete = world.deployed(&["bob"], json!({}));
    for job in [&denied, &complete] {
        assert_eq!(cancel(job).unwrap_err().code(), "deployment_finished");
    }
    assert!(world.tasks().is_empty());
    world.assert_sound();
}

#[test]
fn a_decision_about_another_plan_is_refused() {
    let world = World::new();
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let job = world.deploy(&["ann"], json!({})).unwrap();
    for operation in [approvals::approve as Decide, approvals::deny] {
        let body = json!({"planHash": "other"});
        let refused = decide(&world, &world.owner, &job, body, operation).unwrap_err();
        assert_eq!(refused.code(), "plan_hash_differs");
    }
    let body = json!({"planHash": job["planHash"]});
    approve(&world, &world.owner, &job, body).unwrap();
}

#[test]
fn a_job_that_is_not_approved_in_time_ends() {
    let world = World::new();
    world.set_approvals(json!({"approverIds": [user(&world.owner)]}));
    let old = world.deploy(&["ann"], json!({})).unwrap();
    world.fixture.pass_secs(3600);
    let new = world.deploy(&["bob"], json!({})).unwrap();
    let sweep = || {
        let settings = RetentionSettings::default();
        let run = approvals::RESOURCE.sweeps[0].run;
        world.store.write_blocking(world.org, move |tx| run(tx, &settings)).unwrap();
    };
    world.fixture.pass_secs(71 * 3600 - 1);
    sweep();
    assert_eq!(world.job(&old), old);
    world.fixture.pass_secs(1);
    // Also before the sweep.
    for operation in [approvals::approve as Decide, approvals::deny] {
        let late = decide(&world, &world.owner, &old, json!({}), operation).unwrap_err();
        assert_eq!(late.code(), "deployment_not_pending");
    }
    sweep();
    sweep();
    let ended = world.job(&old);
    assert_eq!((&ended["state"], states(&ended)), (&json!("timeout"), vec!["skipped"]));
    assert_eq!(world.job(&new), new);
    let timeouts = world.event_types().iter().filter(|kind| *kind == "deployment.timeout").count();
    assert_eq!(timeouts, 1);
    world.assert_sound();
}

#[test]
fn an_approver_without_the_environments_grant_is_refused() {
    let world = World::new();
    let cara = person(&world, "cara");
    world.set_approvals(json!({"approverIds": [user(&cara)]}));
    environments::tests::patch(&world, world.dev, json!({"access": "restricted"}));
    let job = world.deploy_as(&world.owner, &["ann"], json!({})).unwrap();
    let refused = approve(&world, &cara, &job, json!({})).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "grant_required"));
    environments::tests::grant(&world, &cara, world.dev);
    approve(&world, &cara, &job, json!({})).unwrap();
}
