//! Every route by hand: what each kind of caller is answered, exactly.
//! The statuses are read from the interface, the contract and the reference (identity-and-rights), never
//! from the route: who writes a wrong policy writes another status here. Every 200 is one: each request
//! names something that was made for it.

mod environments;
mod people;
mod reads;
mod teams;
mod texts;
mod writes;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::second_factor::App;
use crate::client::{Caller, Reply, eventually};
use crate::fixture::{Fixture, Running, config, key_of};
use crate::providers::{There, prompt, provider};
use crate::receiver::Receiver;
use crate::routes::all_routes;

// ── Who asks ─────────────────────────────────────────────────────────────────

/// The callers, in the order of the columns.
const CALLERS: [&str; 13] = [
    "nobody",
    "the owner's key that may read",
    "the owner's key with another scope",
    "a member without a grant",
    "a member with grants",
    "the key of a member with grants",
    "an admin",
    "the owner",
    "the owner's key",
    "the owner of another organization",
    "the key of another organization",
    "a viewer with grants",
    "the key of a viewer with grants",
];

/// The status for each of [`CALLERS`].
type Row = [u16; CALLERS.len()];

/// Columns: nobody; two keys with scopes; member without and with grants, and the key of the latter;
/// admin; owner, and a key; another organization, and a key of it; a viewer with grants, and the key that
/// they had as a member.
const PUBLIC: Row = [200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200];
const READ: Row = [401, 200, 403, 200, 200, 200, 200, 200, 200, 404, 404, 200, 200];
const WRITE: Row = [401, 403, 403, 200, 200, 200, 200, 200, 200, 404, 404, 403, 403];
const RESTRICTED_READ: Row = [401, 200, 403, 403, 200, 200, 200, 200, 200, 404, 404, 200, 200];
const RESTRICTED_WRITE: Row = [401, 403, 403, 403, 200, 200, 200, 200, 200, 404, 404, 403, 403];
const ADMIN_READ: Row = [401, 200, 403, 403, 403, 403, 200, 200, 200, 404, 404, 403, 403];
const ADMIN_WRITE: Row = [401, 403, 403, 403, 403, 403, 200, 200, 200, 404, 404, 403, 403];
const INSTALLATION_READ: Row = [401, 200, 403, 403, 403, 403, 403, 200, 200, 404, 404, 403, 403];
const APPROVER: Row = [401, 403, 403, 403, 200, 200, 403, 403, 403, 404, 404, 403, 403];
/// What is one's own, in a session of any organization.
const OWN: Row = [401, 401, 401, 200, 200, 401, 200, 200, 401, 200, 401, 200, 401];
const SESSION: Row = [401, 401, 401, 200, 200, 401, 200, 200, 401, 404, 401, 200, 401];
/// What members do in a session, and viewers do not.
const SESSION_WRITE: Row = [401, 401, 401, 200, 200, 401, 200, 200, 401, 404, 401, 403, 401];
const SESSION_RESTRICTED: Row = [401, 401, 401, 403, 200, 401, 200, 200, 401, 404, 401, 200, 401];
const SESSION_RESTRICTED_WRITE: Row =
    [401, 401, 401, 403, 200, 401, 200, 200, 401, 404, 401, 403, 401];
const SESSION_ADMIN: Row = [401, 401, 401, 403, 403, 401, 200, 200, 401, 404, 401, 403, 401];
const SESSION_OWNER: Row = [401, 401, 401, 403, 403, 401, 403, 200, 401, 404, 401, 403, 401];
/// What is somebody else's, and unknown to all but admins.
const SESSION_OTHERS: Row = [401, 401, 401, 404, 404, 401, 200, 200, 401, 404, 401, 404, 401];
/// What is the owner's, which admins see, and nobody else.
const SESSION_SELF: Row = [401, 401, 401, 404, 404, 401, 403, 200, 401, 404, 401, 404, 401];

// ── What there is ────────────────────────────────────────────────────────────

/// An organization with something restricted of each kind.
struct World {
    running: Running,
    acme: Fixture,
    callers: Vec<Caller>,
    /// The member with the grants, who is the approver of the environment `gated`.
    granted: Caller,
    /// The environment `sealed`, restricted.
    environment: String,
    /// Restricted.
    fleet: String,
    /// The registry `vault`, restricted.
    registry: String,
    team: String,
    /// The entry in the team of an agent of the restricted fleet.
    quiet: String,
    /// The entry of another agent.
    open: String,
    /// The path of a prompt provider that answers.
    provider: String,
    _there: There,
    /// An LLM provider that answers.
    model: String,
    _says: Receiver,
    next: AtomicU32,
}

/// A request: its path, with a query, and its body.
type Sample = (String, Value);

/// A route as `METHOD /path`, what is answered, and what makes a request to it that can succeed once.
type Listed = (&'static str, Row, fn(&World) -> Sample);

impl World {
    fn new() -> Self {
        // A server of its own: the owner administers it.
        let running = Running::start(config());
        let acme = running.fixture();
        let owner = &acme.owner;
        let restricted =
            |slug: &str| json!({"slug": slug, "name": "Restricted", "access": "restricted"});
        let environment = owner.post("/environments", restricted("sealed")).id();
        let registry = owner.post("/registries", restricted("vault")).id();
        let fleet = json!({"name": "Restricted", "access": "restricted"});
        let fleet = owner.post("/fleets", fleet).id();
        let (granted, granted_id) = running.person(&acme, "gil", Role::Member);
        let (viewer, viewer_id) = running.person(&acme, "vera", Role::Member);
        for (kind, id) in
            [("environment", &environment), ("registry", &registry), ("fleet", &fleet)]
        {
            for user in [&granted_id, &viewer_id] {
                let grant = json!({"userId": user, "resourceType": kind, "resourceId": id});
                owner.post("/access-grants", grant).ok();
            }
        }
        let viewer = [viewer.clone(), key_of(&viewer)];
        let member = format!("/organizations/members/{viewer_id}");
        owner.patch(&member, json!({"role": "viewer"})).ok();
        let gated = json!({"slug": "gated", "name": "Gated",
            "approvals": {"approverIds": [granted_id]}});
        owner.post("/environments", gated).ok();
        owner.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
        publish_texts(&acme);
        let (team, quiet, open) = hire(&acme, &fleet);
        let callers = callers(&running, &acme, &granted, viewer);
        let there = There::saying(&json!({"items": [prompt("served", "1", "Hello.")]}));
        let provider = provider(&acme, &there.url);
        let says = crate::llm_providers::saying("ok");
        let model = crate::llm_providers::connected(&acme, &says);
        let next = AtomicU32::new(1);
        let world = World {
            running,
            acme,
            callers,
            granted,
            environment,
            fleet,
            registry,
            team,
            quiet,
            open,
            provider,
            _there: there,
            model,
            _says: says,
            next,
        };
        world.deploy("quiet", "dev");
        world
    }

    fn owner(&self) -> &Caller {
        &self.acme.owner
    }

    fn served(&self) -> &str {
        &self.provider
    }

    /// A name that nothing has yet.
    fn fresh(&self, word: &str) -> String {
        format!("{word}-{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A reference to a registry.
    fn named(&self, slug: &str) -> String {
        format!("{}/{slug}", self.acme.slug)
    }

    /// A new member; their id.
    fn person(&self) -> String {
        self.running.person(&self.acme, &self.fresh("member"), Role::Member).1
    }

    fn in_team(&self, path: &str) -> String {
        format!("/teams/{}{path}", self.team)
    }

    /// What is the restricted agent's own.
    fn of_quiet(&self, path: &str) -> String {
        format!("/teams/{}/agents/{}{path}", self.team, self.quiet)
    }

    fn deployment(&self, agent: &str, environment: &str) -> Value {
        json!({"agentIds": [agent], "environment": environment, "promptName": "plain",
            "version": "*", "provider": "p", "registryRef": self.named("open")})
    }

    /// Deploys to an agent, and waits until that is done; the job.
    fn deploy(&self, agent: &str, environment: &str) -> String {
        let new = self.deployment(agent, environment);
        let job = self.owner().post("/agents/deployments", new).id();
        let path = format!("/agents/deployments/{job}");
        eventually("the deployment is complete", || {
            (self.owner().get(&path).ok()["state"] == "complete").then_some(())
        });
        job
    }
}

/// An open, a public and the restricted registry with a text each.
fn publish_texts(acme: &Fixture) {
    for (slug, visibility) in [("open", "private"), ("public", "public")] {
        let registry = json!({"slug": slug, "name": slug, "visibility": visibility});
        acme.owner.post("/registries", registry).ok();
    }
    for slug in ["open", "public", "vault"] {
        crate::registries::publish(acme, [slug, "prompt", "plain", "1.0.0"], "Hello.");
    }
    crate::registries::publish(acme, ["vault", "promptlet", "tone", "1.0.0"], "Hello.");
}

/// A team with an agent of a restricted fleet and another one; the ids of the three.
fn hire(acme: &Fixture, fleet: &str) -> (String, String, String) {
    let owner = &acme.owner;
    let team = owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let hire = |key: &str, fleet: Value| {
        owner.post("/agents", json!({"stableKey": key, "name": key, "fleetId": fleet})).ok();
        owner.post(&format!("/agents/{key}/versions"), json!({})).ok();
        let hired = json!({"stableKey": key, "role": "member"});
        owner.post(&format!("/teams/{team}/agents"), hired).id()
    };
    let (quiet, open) = (hire("quiet", json!(fleet)), hire("open", Value::Null));
    (team, quiet, open)
}

fn callers(
    running: &Running,
    acme: &Fixture,
    granted: &Caller,
    [viewer, viewer_key]: [Caller; 2],
) -> Vec<Caller> {
    let with = |access: Value| {
        let made = acme.owner.post("/api-keys", json!({"name": "k", "access": access})).ok();
        acme.owner.with_key(made["key"].as_str().unwrap())
    };
    let other = running.fixture();
    vec![
        acme.anonymous.clone(),
        with(json!("read")),
        // Of no route that is listed.
        with(json!(["flag:read"])),
        acme.member.clone(),
        granted.clone(),
        key_of(granted),
        acme.admin.clone(),
        acme.owner.clone(),
        key_of(&acme.owner),
        other.owner.about(&acme.slug),
        key_of(&other.owner).about(&acme.slug),
        viewer,
        viewer_key,
    ]
}

// ── The walk ─────────────────────────────────────────────────────────────────

fn send(caller: &Caller, method: &str, (path, body): Sample) -> Reply {
    match method {
        "GET" => caller.get(&path),
        "DELETE" => caller.delete(&path),
        "POST" => caller.post(&path, body),
        "PATCH" => caller.patch(&path, body),
        "PUT" => caller.put(&path, body),
        other => panic!("no method {other}"),
    }
}

/// Whether a path is one of this template.
fn fits(template: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap();
    let (parts, sent): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    parts.len() == sent.len()
        && parts.iter().zip(&sent).all(|(part, sent)| part.starts_with('{') || part == sent)
}

/// What a refusal is for, where callers differ in one thing alone.
fn reason(who: &str, status: u16) -> Option<&'static str> {
    match (who, status) {
        ("nobody", 401) => Some("unauthenticated"),
        (_, 401) => Some("session_required"),
        ("the owner's key that may read" | "the owner's key with another scope", 403) => {
            Some("scope_missing")
        }
        (who, 404) if who.contains("of another organization") => Some("organization_not_found"),
        _ => None,
    }
}

fn everything() -> Vec<Listed> {
    [
        people::LISTED,
        environments::LISTED,
        texts::LISTED,
        teams::LISTED,
        reads::LISTED,
        writes::LISTED,
    ]
    .concat()
}

/// Fails unless each caller is answered by each of these routes as it is written.
#[track_caller]
fn answer_as_written(listed: &[Listed]) {
    let world = World::new();
    let (mut wrong, mut let_in) = (Vec::new(), 0);
    for (route, row, sample) in listed {
        let (method, template) = route.split_once(' ').unwrap();
        for ((who, caller), expected) in CALLERS.iter().zip(&world.callers).zip(*row) {
            let sample = sample(&world);
            assert!(fits(template, &sample.0), "{route}: {}", sample.0);
            let reply = send(caller, method, sample);
            let code = reply.json()["code"].as_str().map(String::from);
            // What a member with the same grants may.
            let is_refused_viewer = who.contains("viewer") && expected == 403 && row[4] == 200;
            let reason = is_refused_viewer.then_some("member_required");
            let reason = reason.or_else(|| self::reason(who, expected));
            let is_for = reason.is_none_or(|word| code.as_deref() == Some(word));
            if reply.status != expected || !is_for {
                let text = reply.text();
                wrong.push(format!("{route} as {who}: {expected}: {} {text}", reply.status));
            }
            let_in += usize::from(reply.status == 200);
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let written = listed.iter().flat_map(|(_, row, _)| row).filter(|status| **status == 200);
    assert_eq!(let_in, written.count());
}

#[test]
fn people_keys_and_the_audit_log_answer_each_caller_as_written() {
    answer_as_written(people::LISTED);
}

#[test]
fn environments_deployments_and_agents_answer_each_caller_as_written() {
    answer_as_written(environments::LISTED);
}

#[test]
fn registries_and_policies_answer_each_caller_as_written() {
    answer_as_written(texts::LISTED);
}

#[test]
fn teams_and_the_exchange_answer_each_caller_as_written() {
    answer_as_written(teams::LISTED);
}

#[test]
fn reads_answer_each_caller_as_written() {
    answer_as_written(reads::LISTED);
}

#[test]
fn other_writes_answer_each_caller_as_written() {
    answer_as_written(writes::LISTED);
}

/// Routes that none of the columns is about. They are called below, except for those of mails and providers.
const OTHERS: [&str; 33] = [
    "GET /setup",
    "POST /setup",
    "POST /auth/sign-in",
    "POST /auth/sign-in/code",
    "POST /auth/second-factor",
    "POST /auth/second-factor/confirm",
    "POST /auth/second-factor/off",
    "POST /auth/sign-out",
    "POST /auth/session/confirm",
    "POST /auth/device-sign-ins",
    "POST /auth/device-sign-ins/finish",
    "POST /auth/device-sign-ins/{userCode}/preview",
    "POST /auth/device-sign-ins/{userCode}/approve",
    "POST /auth/device-sign-ins/{userCode}/deny",
    "DELETE /auth/sessions/{sessionId}",
    "POST /auth/password",
    "POST /auth/password/reset",
    "POST /auth/invitations/preview",
    "POST /auth/invitations/accept",
    // With a provider: tests/console/provider_sign_in.rs.
    "POST /auth/providers/begin",
    "POST /auth/providers/finish",
    "POST /auth/providers/end",
    "POST /auth/providers/sign-out",
    "POST /auth/links",
    "DELETE /auth/links/{linkId}",
    // Mails: tests/api/password_resets.rs and tests/tools/mail.rs.
    "POST /auth/password/forgot",
    "POST /notifications/recipients/confirm",
    "POST /exchange/{orgSlug}/{teamSlug}/requests",
    "GET /exchange/{orgSlug}/{teamSlug}/requests/{requestId}",
    "GET /exchange/{orgSlug}/{teamSlug}/messages",
    "POST /exchange/{orgSlug}/{teamSlug}/messages",
    // The body is a file.
    "POST /knowledge-bases/{id}/documents/upload",
    "PUT /knowledge-bases/{id}/documents/{documentId}/upload",
];

#[test]
fn every_route_is_listed() {
    let routes = all_routes();
    let routes: BTreeSet<_> =
        routes.iter().map(|route| format!("{} {}", route.method.as_str(), route.path)).collect();
    let listed = everything();
    let listed = listed.iter().map(|(route, ..)| route.to_string());
    let listed: BTreeSet<_> = listed.chain(OTHERS.map(String::from)).collect();
    let unlisted: Vec<_> = routes.difference(&listed).collect();
    assert!(unlisted.is_empty(), "say what each caller is answered by {unlisted:?}");
    let gone: Vec<_> = listed.difference(&routes).collect();
    assert!(gone.is_empty(), "there are no such routes: {gone:?}");
}

/// Fails unless a request succeeds.
#[track_caller]
fn works(caller: &Caller, path: &str, body: Value) -> Value {
    caller.ask("POST", path).json(&body).send().ok()
}

/// A command line that waits: its path, and what it asks with.
fn device(anybody: &Caller) -> (String, Value) {
    let begun = works(anybody, "/auth/device-sign-ins", json!({"client": "roadstead"}));
    let code = begun["userCode"].as_str().unwrap();
    (format!("/auth/device-sign-ins/{code}"), begun["deviceCode"].clone())
}

#[test]
fn each_route_of_oneself_and_of_agents_outside_can_succeed() {
    let acme = Fixture::new();
    let (first, second) = ("correct horse battery", "another horse battery");
    let email = format!("dan@{}.test", acme.slug);
    let address = ("X-Forwarded-For", &*crate::client::nostr::fresh_address());
    let anybody = acme.anonymous.with_fields(&[address]);
    let invited = json!({"email": email, "role": "member"});
    let token = acme.owner.post("/organizations/members", invited).ok()["token"].clone();
    let accept = json!({"token": token, "name": "Dan", "password": first});
    assert_eq!(anybody.get("/setup").ok()["isSetUp"], true);
    let preview = works(&anybody, "/auth/invitations/preview", json!({"token": token}));
    assert_eq!((&preview["email"], &preview["role"]), (&json!(email), &json!("member")));
    works(&anybody, "/auth/invitations/accept", accept);
    let sign_in = |password: &str| {
        let body = json!({"email": email, "password": password});
        let session = works(&anybody, "/auth/sign-in", body);
        let user = session["user"]["id"].as_str().unwrap().to_string();
        (acme.anonymous.with_bearer(session["token"].as_str().unwrap()), user)
    };
    let (dan, user) = sign_in(first);
    let sessions = dan.get("/auth/sessions").items();
    let other = sessions.iter().find(|one| one["current"] == false).unwrap();
    dan.delete(&format!("/auth/sessions/{}", other["id"].as_str().unwrap())).ok();
    works(&dan, "/auth/password", json!({"currentPassword": first, "newPassword": second}));
    let reset = format!("/organizations/members/{user}/password-reset");
    let token = acme.owner.post(&reset, json!({})).ok()["token"].clone();
    works(&anybody, "/auth/password/reset", json!({"token": token, "newPassword": first}));
    let (dan, _) = sign_in(first);
    works(&dan, "/auth/session/confirm", json!({"password": first}));
    let (line, refused) = (device(&anybody), device(&anybody));
    let member = acme.member.with_more_fields(&[address]);
    works(&member, &format!("{}/preview", line.0), json!({}));
    works(&member, &format!("{}/approve", line.0), json!({}));
    works(&member, &format!("{}/deny", refused.0), json!({}));
    works(&anybody, "/auth/device-sign-ins/finish", json!({"deviceCode": line.1}));
    let app = App::turned_on(&dan, first);
    let asked = anybody.post("/auth/sign-in", json!({"email": email, "password": first}));
    let challenge = asked.refused(401, "code_required")["challenge"].clone();
    works(&anybody, "/auth/sign-in/code", json!({"challenge": challenge, "code": app.code(1)}));
    let off = json!({"password": first, "code": app.recovery_codes[0]});
    works(&dan, "/auth/second-factor/off", off);
    works(&dan, "/auth/sign-out", json!({}));
    dan.get("/auth/session").refused(401, "unauthenticated");

    let (team, path) = crate::exchange::crew(&acme);
    let outside = crate::exchange::Outside::new(&acme.anonymous);
    let handle = crate::https::Site::new().name("scout", &outside.key.pubkey());
    let asked = json!({"handle": handle, "message": "Hello"});
    let id = outside.post(&format!("{path}/requests"), asked).id();
    outside.get(&format!("{path}/requests/{id}")).ok();
    acme.owner.post(&format!("/teams/{team}/exchange/peers/{id}/accept"), json!({})).ok();
    outside.post(&format!("{path}/messages"), json!({"body": "News"})).ok();
    assert_eq!(outside.get(&format!("{path}/messages")).items().len(), 1);
}
