//! Who decides about a deployment, and on whose behalf: the rules of delegated approval, over HTTP
//! (reference: deployments, "Approvals").

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Caller, pick};
use crate::deployments::{acme, body, events, path};
use crate::fixture::{Fixture, key_of, unknown_id};

/// The credential of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
enum With {
    Nothing,
    InvalidKey,
    /// A key of another organization.
    ForeignKey,
    /// The session of the required approver, or an ordinary key.
    Session,
    Key,
    /// Of a member who is no approver.
    OtherSession,
    OtherKey,
    /// A key with `deployment:approve-as` of an admin who is no approver.
    Delegate,
    /// The same as a bearer.
    DelegateBearer,
    /// Such a key of the approver.
    OwnDelegate,
    /// A key with the permission whose user is no admin any more: of another member, and of the
    /// approver.
    Demoted,
    OwnDemoted,
}

/// `actingUserEmail`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum As {
    Absent,
    Approver,
    /// A member who is no approver.
    Other,
    Outsider,
    Malformed,
}

/// The required approver at the time of the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Verified,
    Unverified,
    Left,
    /// An admin when the job was created, a member now.
    Demoted,
    /// No approver of the environment any more.
    Replaced,
}

/// Credential, `actingUserEmail`, state of the approver, and the status.
const TABLE: &[(With, As, State, u16)] = &[
    (With::Nothing, As::Absent, State::Verified, 401),
    (With::InvalidKey, As::Approver, State::Verified, 401),
    (With::ForeignKey, As::Approver, State::Verified, 404),
    // An ordinary credential decides as its user.
    (With::Session, As::Absent, State::Verified, 200),
    (With::Key, As::Absent, State::Verified, 200),
    (With::Session, As::Absent, State::Demoted, 200),
    (With::Key, As::Absent, State::Demoted, 200),
    (With::Session, As::Absent, State::Replaced, 200),
    (With::Session, As::Absent, State::Unverified, 403),
    (With::Key, As::Absent, State::Unverified, 403),
    (With::Session, As::Absent, State::Left, 404),
    (With::Key, As::Absent, State::Left, 401),
    (With::OtherSession, As::Absent, State::Verified, 403),
    (With::OtherKey, As::Absent, State::Verified, 403),
    // It names nobody, not even its own user.
    (With::Session, As::Approver, State::Verified, 403),
    (With::Key, As::Approver, State::Verified, 403),
    (With::Key, As::Outsider, State::Verified, 403),
    (With::OtherSession, As::Approver, State::Verified, 403),
    (With::OtherKey, As::Approver, State::Verified, 403),
    // A key with the permission must name an approver, who is verified.
    (With::Delegate, As::Absent, State::Verified, 400),
    (With::OwnDelegate, As::Absent, State::Verified, 400),
    (With::Delegate, As::Malformed, State::Verified, 400),
    (With::Session, As::Malformed, State::Verified, 400),
    (With::Delegate, As::Approver, State::Verified, 200),
    (With::DelegateBearer, As::Approver, State::Verified, 200),
    (With::OwnDelegate, As::Approver, State::Verified, 200),
    (With::Delegate, As::Approver, State::Demoted, 200),
    (With::Delegate, As::Approver, State::Replaced, 200),
    (With::Delegate, As::Approver, State::Unverified, 403),
    (With::OwnDelegate, As::Approver, State::Unverified, 403),
    (With::Delegate, As::Approver, State::Left, 403),
    (With::Delegate, As::Other, State::Verified, 403),
    (With::OwnDelegate, As::Other, State::Verified, 403),
    (With::Delegate, As::Outsider, State::Verified, 403),
    // The permission is an admin's.
    (With::Demoted, As::Approver, State::Verified, 403),
    (With::Demoted, As::Absent, State::Verified, 403),
    (With::OwnDemoted, As::Approver, State::Verified, 403),
    (With::OwnDemoted, As::Absent, State::Verified, 200),
];

fn delegate(session: &Caller) -> Caller {
    let new = json!({"name": "the pipeline", "allowApproveAs": true});
    session.with_key(session.post("/api-keys", new).ok()["key"].as_str().unwrap())
}

/// An organization with a job that waits for Cara alone.
struct Case {
    acme: Fixture,
    cara: Caller,
    cara_id: String,
    job: Value,
}

impl Case {
    fn new(with: With, state: State) -> Self {
        let acme = acme(&["ann"]);
        let needs_admin = [With::OwnDelegate, With::OwnDemoted].contains(&with);
        let is_admin = needs_admin || state == State::Demoted;
        let role = if is_admin { Role::Admin } else { Role::Member };
        let (cara, cara_id) = acme.person("cara", role);
        let mut case = Case { acme, cara, cara_id, job: Value::Null };
        case.require(&case.cara_id);
        case.job = case.acme.member.post("/agents/deployments", body(&["ann"], json!({}))).ok();
        case
    }

    /// Makes a member the only approver of later jobs.
    fn require(&self, approver: &str) {
        let dev = self.acme.admin.get("/environments").items().remove(0)["id"].clone();
        let dev = format!("/environments/{}", dev.as_str().unwrap());
        self.acme.admin.patch(&dev, json!({"approvals": {"approverIds": [approver]}})).ok();
    }

    fn credential(&self, with: With) -> Caller {
        let Case { acme, cara, .. } = self;
        match with {
            With::Nothing => acme.anonymous.clone(),
            With::InvalidKey => acme.anonymous.with_key(&roadstead::auth::key_text([9; 32])),
            With::ForeignKey => delegate(&Fixture::new().owner).about(&acme.slug),
            With::Session => cara.clone(),
            With::Key => key_of(cara),
            With::OtherSession => acme.member.clone(),
            With::OtherKey => key_of(&acme.member),
            With::Delegate => delegate(&acme.owner),
            With::DelegateBearer => acme.anonymous.with_bearer(delegate(&acme.owner).credential()),
            With::OwnDelegate => delegate(cara),
            With::Demoted => {
                let (low, id) = acme.person("low", Role::Admin);
                let key = delegate(&low);
                self.set(&id, json!({"role": "member"}));
                key
            }
            With::OwnDemoted => {
                let key = delegate(cara);
                self.set(&self.cara_id, json!({"role": "member"}));
                key
            }
        }
    }

    fn set(&self, member: &str, change: Value) {
        self.acme.owner.patch(&format!("/organizations/members/{member}"), change).ok();
    }

    fn bring_about(&self, state: State) {
        match state {
            State::Verified => {}
            State::Unverified => self.set(&self.cara_id, json!({"emailVerified": false})),
            State::Demoted => self.set(&self.cara_id, json!({"role": "member"})),
            State::Replaced => self.require(&self.acme.owner_id),
            State::Left => {
                self.require(&self.acme.owner_id);
                let member = format!("/organizations/members/{}", self.cara_id);
                self.acme.owner.delete(&member).ok();
            }
        }
    }

    fn email(&self, of: As) -> Value {
        match of {
            As::Absent => Value::Null,
            As::Approver => json!(format!("Cara@{}.test", self.acme.slug)),
            As::Other => json!(format!("ben@{}.test", self.acme.slug)),
            As::Outsider => json!("nobody@elsewhere.test"),
            As::Malformed => json!("cara"),
        }
    }
}

#[test]
fn a_decision_is_that_of_a_required_and_verified_approver() {
    for (n, (with, acting, state, status)) in TABLE.iter().enumerate() {
        // Both are decided in the same way.
        let (verb, decision) = [("approve", "approved"), ("deny", "denied")][n % 2];
        let case = Case::new(*with, *state);
        let who = case.credential(*with);
        case.bring_about(*state);
        let body = json!({"actingUserEmail": case.email(*acting), "comment": "c"});
        let reply = who.post(&path(&case.job, &format!("/{verb}")), body);
        let context = format!("{verb}: {:?}: {}", TABLE[n], reply.text());
        assert_eq!(reply.status, *status, "{context}");
        let approvals = case.acme.owner.get(&path(&case.job, "/approvals")).items();
        assert_eq!(approvals.len(), 1, "{context}");
        if *status != 200 {
            let shown = pick(&approvals[0], "decision decidedAt comment via");
            assert_eq!(shown, json!(["pending", null, null, null]), "{context}");
            continue;
        }
        let is_delegated = *acting == As::Approver;
        let via = is_delegated.then_some("the pipeline");
        let shown = pick(&approvals[0], "decision comment via");
        assert_eq!(shown, json!([decision, "c", via]), "{context}");
        assert_eq!(approvals[0]["user"]["id"], case.cara_id, "{context}");
        let audited = case.acme.audited();
        let entry = audited.iter().rfind(|entry| entry.action == format!("deployment.{verb}"));
        let entry = entry.unwrap_or_else(|| panic!("it is audited: {context}"));
        let approver = format!("for cara@{}.test", case.acme.slug);
        assert_eq!(entry.detail, is_delegated.then_some(approver), "{context}");
        if is_delegated {
            assert_eq!(entry.via.as_deref(), Some("the pipeline"), "{context}");
        }
        if decision == "approved" {
            let event = events(&case.acme, "deployment.approved").remove(0);
            let by = json!([{"userId": case.cara_id, "via": via}]);
            assert_eq!(pick(&event["payload"], "approvals via"), json!([by, via]), "{context}");
        } else {
            assert_eq!(reply.json()["state"], "denied", "{context}");
        }
    }
}

#[test]
fn the_checks_of_a_decision_have_their_order() {
    let case = Case::new(With::Delegate, State::Verified);
    let acme = &case.acme;
    let pipeline = case.credential(With::Delegate);
    let cara = case.email(As::Approver);
    let unknown = format!("/agents/deployments/{}/approve", unknown_id());
    let approve = path(&case.job, "/approve");
    // The form of the body, then the job, then who decides, then the state.
    pipeline.post(&unknown, json!({})).invalid(&["actingUserEmail"]);
    pipeline.post(&unknown, json!({"actingUserEmail": cara})).refused(404, "not_found");
    acme.member.post(&unknown, json!({"actingUserEmail": cara})).refused(404, "not_found");
    let other = json!({"planHash": "other"});
    acme.member.post(&approve, other.clone()).refused(403, "approver_required");
    case.cara.post(&approve, other).refused(409, "plan_hash_differs");
    case.cara.post(&approve, json!({"planHash": case.job["planHash"]})).ok();
    case.cara.post(&approve, json!({})).refused(409, "deployment_decided");
    let deny = path(&case.job, "/deny");
    pipeline.post(&deny, json!({"actingUserEmail": cara})).refused(409, "deployment_decided");
    acme.member.post(&deny, json!({})).refused(403, "approver_required");
}

#[test]
fn only_admins_make_keys_with_the_permission_and_no_key_gets_it_later() {
    let acme = acme(&[]);
    let new = json!({"name": "k", "allowApproveAs": true});
    acme.member.post("/api-keys", new.clone()).refused(403, "admin_required");
    for admin in [&acme.admin, &acme.owner] {
        let made = admin.post("/api-keys", new.clone()).ok();
        assert_eq!(made["permissions"], json!(["deployment:approve-as"]));
    }
    let made = acme.owner.post("/api-keys", json!({"name": "plain"})).ok();
    assert_eq!(made["permissions"], json!([]));
    let one = format!("/api-keys/{}", made["id"].as_str().unwrap());
    assert_eq!(acme.owner.patch(&one, json!({"allowApproveAs": true})).status, 405);
}
