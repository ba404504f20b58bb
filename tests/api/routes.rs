//! Every route with every kind of caller, by walking the route table, so new routes are covered
//! automatically. The expected result follows from the route's rule and scope.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use roadstead::api::{Method, OrgSource, Route};
use roadstead::auth::{Role, Tokens, key_text};
use roadstead::base::{Id, Keys};
use roadstead::resources;
use serde_json::{Value, json};

use crate::client::{Caller, Reply};
use crate::exchange::Outside;
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};
use crate::schema;

// ── Requests ─────────────────────────────────────────────────────────────────

/// Fields that a body needs in addition to those its schema requires.
fn more(route: &Route) -> Value {
    match (route.method, route.path) {
        (Method::Post, "/teams/{teamId}/messages") => json!({"taskId": unknown_id()}),
        (Method::Post, "/teams/{teamId}/schedules") => {
            json!({"cron": "0 9 * * mon", "task": {"title": "t"}})
        }
        (Method::Get, "/registries/artifact-versions") => json!({"promptName": "p"}),
        (Method::Post, "/governance/check") => json!({"policyIds": [unknown_id()]}),
        (Method::Post, "/governance/policies/{policyId}/assignments") => {
            json!({"registryId": unknown_id()})
        }
        (Method::Post, "/agents/deployments" | "/agents/deployments/preview") => {
            json!({"promptName": "p", "version": "*", "provider": "p",
                "registryRef": unknown_id()})
        }
        (Method::Post, "/agent-index/listings") => json!({
            "handle": "a@example.com",
            "pubkey": "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
        }),
        (Method::Get, "/access/explain") => {
            json!({"action": "tool.create", "userId": unknown_id()})
        }
        _ => json!({}),
    }
}

/// What a parameter of a path is called among `ids`: `id` of two kinds of resources.
pub fn id_name<'a>(route: &Route, name: &'a str) -> &'a str {
    let is_base = name == "id" && route.path.starts_with("/knowledge-bases");
    if is_base { "knowledgeBaseId" } else { name }
}

/// The path of a route with the parameters of `ids`, or ids that do not exist.
pub fn path_with(route: &Route, ids: &BTreeMap<&str, String>) -> String {
    let part = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        None => part.to_string(),
        Some(name) => ids.get(id_name(route, name)).cloned().unwrap_or_else(|| match name {
            "version" => "1".into(),
            "name" => "NAME".into(),
            "stableKey" | "label" => "never-was".into(),
            _ => unknown_id(),
        }),
    };
    route.path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Marks a caller that signs its requests with a Nostr key.
const SIGNS: &str = "X-Signs";

/// An outside agent.
pub fn outside_agent(anonymous: &Caller) -> Caller {
    anonymous.with_fields(&[(SIGNS, "yes")])
}

/// The caller for which a route of outside agents is not closed anyway.
fn fitting(caller: &Caller, route: &Route) -> Caller {
    if route.policy.is_signed() { outside_agent(caller) } else { caller.clone() }
}

/// Sends the smallest valid request to a route, in the caller's organization.
pub fn ask(caller: &Caller, route: &Route, path: &str, fields: &Value) -> Reply {
    let method = route.method.as_str();
    if caller.fields.iter().any(|(name, _)| name == SIGNS) {
        let body = route.method.has_body().then_some(fields);
        return Outside::new(caller).send(method, path, body);
    }
    if schema::has_json_body(route) {
        let mut body = fields.clone();
        body["orgSlug"] = json!(caller.org);
        return caller.ask(method, path).json(&body).send();
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("orgSlug", &caller.org);
    for (name, value) in fields.as_object().unwrap() {
        if name != "orgSlug" {
            let text = value.as_str().map_or_else(|| value.to_string(), String::from);
            query.append_pair(name, &text);
        }
    }
    let request = caller.ask(method, &format!("{path}?{}", query.finish()));
    if route.operation.upload.is_some() {
        return request.with("Content-Type", "text/plain").bytes("a text").send();
    }
    request.send()
}

pub fn sample(route: &Route) -> Value {
    let mut fields = schema::sample(route);
    for (name, value) in more(route).as_object().unwrap() {
        fields[name] = value.clone();
    }
    fields
}

pub fn ask_sample(caller: &Caller, route: &Route) -> Reply {
    ask(caller, route, &path_with(route, &BTreeMap::new()), &sample(route))
}

// ── Callers ──────────────────────────────────────────────────────────────────

/// Kinds of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anonymous,
    /// With an invalid credential.
    Refused {
        key: bool,
    },
    /// Valid, but of another organization.
    Outsider {
        key: bool,
    },
    Viewer {
        key: bool,
    },
    Member {
        key: bool,
    },
    Admin {
        key: bool,
        /// Whether it is the first owner of the installation, who administers that.
        first_owner: bool,
    },
    /// An outside agent that signs its requests.
    Signer,
}
use Kind::*;

/// The expected response to a kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Refused(u16, &'static str),
    /// The result of the operation, whatever it is named: what it is for something that exists is in
    /// `listed`, where each is 200.
    LetIn,
    /// Any result: the route needs no credential.
    Anything,
}

fn expected(route: &Route, kind: Kind) -> Expected {
    let policy = route.policy;
    let is_key = matches!(
        kind,
        Refused { key: true }
            | Outsider { key: true }
            | Viewer { key: true }
            | Member { key: true }
            | Admin { key: true, .. }
    );
    let of_an_organization = !matches!(route.org_source, OrgSource::Installation);
    match kind {
        Signer if policy.is_signed() => Expected::LetIn,
        _ if policy.is_signed() => Expected::Refused(401, "unauthenticated"),
        Signer => Expected::Refused(401, "unauthenticated"),
        Anonymous if !policy.needs_credential() => Expected::Anything,
        _ if is_key && policy.is_session_only() => Expected::Refused(401, "session_required"),
        Anonymous | Refused { .. } => Expected::Refused(401, "unauthenticated"),
        _ if !policy.needs_credential() => Expected::Anything,
        Outsider { .. } if of_an_organization => Expected::Refused(404, "organization_not_found"),
        Member { .. } | Viewer { .. } if policy.needs_admin() => {
            Expected::Refused(403, "admin_required")
        }
        // Its sample is of a key with full access.
        Viewer { .. } if route.name == "api_key.create" => {
            Expected::Refused(403, "member_required")
        }
        Viewer { .. } if of_an_organization && !route.is_for_viewers() => {
            Expected::Refused(403, "member_required")
        }
        Admin { first_owner: false, .. } if policy.installation => {
            Expected::Refused(403, "installation_admin_required")
        }
        _ => Expected::LetIn,
    }
}

/// Routes whose operation refuses callers that the rule permits: only admins remove other users,
/// and a wrong password is 403.
const REFUSES_ITSELF: [&str; 5] = [
    "/organizations/members/{userId}",
    "/auth/password",
    "/auth/second-factor",
    "/auth/second-factor/off",
    // An owner's.
    "/organizations/sign-in",
];

#[track_caller]
fn assert_answered(route: &Route, who: &str, expected: Expected, reply: &Reply) {
    let context = format!("{} as {who}: {} {}", route.name, reply.status, reply.text());
    assert!(reply.status < 500, "{context}");
    if reply.status >= 400 {
        reply.problem();
    }
    let code = || reply.json()["code"].as_str().unwrap_or_default().to_string();
    match expected {
        Expected::Refused(status, word) => {
            assert_eq!((reply.status, code().as_str()), (status, word), "{context}");
        }
        Expected::LetIn => {
            // The first key decides on behalf of approvers, whom it must name.
            let lacks_approver = reply.text().contains("actingUserEmail");
            assert!(reply.status != 400 || lacks_approver, "{context}");
            assert_ne!(reply.status, 401, "{context}");
            assert!(reply.status != 403 || REFUSES_ITSELF.contains(&route.path), "{context}");
            assert_ne!(code(), "organization_not_found", "{context}");
        }
        Expected::Anything => {}
    }
}

/// All kinds of callers of `acme`.
fn callers(running: &Running, acme: &Fixture) -> Vec<(&'static str, Kind, Caller)> {
    let anonymous = &acme.anonymous;
    let other = running.fixture();
    let mut all = vec![
        ("nobody", Anonymous, anonymous.clone()),
        ("an agent outside", Signer, outside_agent(anonymous)),
        ("a member's session", Member { key: false }, acme.member.clone()),
        ("a member's key", Member { key: true }, key_of(&acme.member)),
        ("an admin's session", Admin { key: false, first_owner: false }, acme.admin.clone()),
        ("an admin's key", Admin { key: true, first_owner: false }, key_of(&acme.admin)),
        ("the owner's session", Admin { key: false, first_owner: true }, acme.owner.clone()),
        ("the owner's key", Admin { key: true, first_owner: true }, acme.key.clone()),
        ("the owner's key as a bearer", Admin { key: true, first_owner: true }, {
            anonymous.with_bearer(acme.key.credential())
        }),
        ("a stranger's session", Outsider { key: false }, other.owner.about(&acme.slug)),
        ("a stranger's key", Outsider { key: true }, other.key.about(&acme.slug)),
    ];

    // A user of both organizations, with a key of the other.
    other.admit(Id::parse(&acme.owner_id));
    let theirs = key_of(&acme.owner.about(&other.slug));
    all.push(("the owner's key for elsewhere", Outsider { key: true }, theirs.about(&acme.slug)));

    let (gone, gone_id) = running.person(acme, "gone", Role::Admin);
    let gone_key = key_of(&gone);
    let (low, low_id) = running.person(acme, "low", Role::Admin);
    let low_key = key_of(&low);
    acme.owner.delete(&format!("/organizations/members/{gone_id}")).ok();
    acme.owner.patch(&format!("/organizations/members/{low_id}"), json!({"role": "member"})).ok();
    all.push(("the session of somebody removed", Outsider { key: false }, gone));
    all.push(("the key of somebody removed", Refused { key: true }, gone_key));
    all.push(("the session of a demoted admin", Member { key: false }, low));
    all.push(("the key of a demoted admin", Member { key: true }, low_key));
    let (viewer, viewer_id) = running.person(acme, "viewer", Role::Admin);
    let viewer_key = key_of(&viewer);
    acme.owner
        .patch(&format!("/organizations/members/{viewer_id}"), json!({"role": "viewer"}))
        .ok();
    all.push(("a viewer's session", Viewer { key: false }, viewer));
    all.push(("a viewer's key", Viewer { key: true }, viewer_key));

    let revoked = acme.owner.post("/api-keys", json!({"name": "revoked"})).ok();
    acme.owner.delete(&format!("/api-keys/{}", revoked["id"].as_str().unwrap())).ok();
    let revoked = anonymous.with_key(revoked["key"].as_str().unwrap());
    all.push(("a revoked key", Refused { key: true }, revoked));
    all.push((
        "a key that never was",
        Refused { key: true },
        anonymous.with_key(&key_text([9; 32])),
    ));
    let turned = acme.key.credential().to_uppercase();
    all.push(("a key in capitals", Refused { key: true }, anonymous.with_key(&turned)));
    all.push(("no key at all", Refused { key: true }, anonymous.with_key("")));
    let basic = anonymous.with_fields(&[("Authorization", "Basic YTpi")]);
    all.push(("another scheme", Refused { key: true }, basic));

    let ada = Id::parse(&acme.owner_id);
    let ended = anonymous.with_bearer(&running.session(ada));
    ended.post("/auth/sign-out", json!({})).ok();
    all.push(("an ended session", Refused { key: false }, ended));
    let past = anonymous.with_bearer(&running.session_for(ada, -1));
    all.push(("a session that ran out", Refused { key: false }, past));
    for (name, token) in forged(acme, &running.session(ada)) {
        all.push((name, Refused { key: false }, anonymous.with_bearer(&token)));
    }

    let (good, bad) = (acme.owner.credential(), key_text([9; 32]));
    let mixed = |key: &str, bearer: &str| {
        let bearer = format!("Bearer {bearer}");
        anonymous.with_fields(&[("Authorization", &bearer), ("X-API-Key", key)])
    };
    all.push(("a bad key before a good session", Refused { key: true }, mixed(&bad, good)));
    let good = acme.key.credential();
    all.push((
        "a good key before a bad bearer",
        Admin { key: true, first_owner: true },
        mixed(good, "nonsense"),
    ));
    all
}

/// Forged or modified tokens of a valid session.
fn forged(acme: &Fixture, token: &str) -> Vec<(&'static str, String)> {
    let parts: Vec<_> = token.split('.').collect();
    let [head, claims, signature] = parts[..] else { panic!("a token has three parts") };
    let header = |text: &str| BASE64.encode(text);
    let decoded = BASE64.decode(claims).unwrap();
    let mut other: Value = serde_json::from_slice(&decoded).unwrap();
    other["sub"] = json!(acme.member_id);
    let other = BASE64.encode(other.to_string());
    let none = header(r#"{"alg":"none","typ":"JWT"}"#);
    let hs = header(r#"{"alg":"HS256","typ":"JWT"}"#);
    let elsewhere = Tokens::new(&Keys::new([1; 32]));
    let now = acme.store.clock().now();
    let session = roadstead::auth::Session {
        id: Id::parse(&unknown_id()),
        user: Id::parse(&acme.owner_id),
        generation: 0,
        created_at: now,
        expires_at: now.plus_secs(60),
    };
    vec![
        ("nonsense", "nonsense".into()),
        ("a token without a signature", format!("{none}.{claims}.")),
        ("a token that says it is not signed", format!("{none}.{claims}.{signature}")),
        ("a token that names another algorithm", format!("{hs}.{claims}.{signature}")),
        ("a token for somebody else", format!("{head}.{other}.{signature}")),
        ("a token cut short", token[..token.len() - 4].into()),
        ("a token of another installation", elsewhere.issue(&session).unwrap()),
        ("a token of ours for no session", {
            Tokens::new(acme.store.keys()).issue(&session).unwrap()
        }),
    ]
}

// ── Tests ────────────────────────────────────────────────────────────────────

/// All routes; the one that ends its session comes last.
pub fn all_routes() -> Vec<Route> {
    let mut routes = resources::routes();
    routes.sort_by_key(|route| route.path == "/auth/sign-out");
    routes
}

/// The number of records, without those of the use of keys and sessions, and of the ends and postings of audit
/// logs.
fn records(running: &Running) -> u64 {
    let mut tables = resources::tables();
    let uncounted = ["api_keys.used", "audit_log.heads", "audit_log.postings", "sessions.use"];
    tables.retain(|table| !uncounted.contains(&table.name));
    running.store.check(&tables).unwrap().records
}

#[test]
fn every_route_answers_every_caller_by_its_rule() {
    // A separate server, since its records are counted.
    let running = Running::start(config());
    let acme = running.fixture();
    let (callers, routes) = (callers(&running, &acme), all_routes());
    let walk = |wanted: &dyn Fn(Expected) -> bool| {
        let mut cells = 0;
        for route in &routes {
            for (who, kind, caller) in &callers {
                let expected = expected(route, *kind);
                if wanted(expected) {
                    assert_answered(route, who, expected, &ask_sample(caller, route));
                    cells += 1;
                }
            }
        }
        cells
    };

    // A refused request writes nothing.
    let before = records(&running);
    let refused = walk(&|e| matches!(e, Expected::Refused(401 | 404, _)));
    assert_eq!(records(&running), before);
    // A denied permission writes only an audit entry.
    let forbidden = walk(&|e| matches!(e, Expected::Refused(403, _)));
    assert_eq!(records(&running), before + forbidden);
    let rest = walk(&|e| matches!(e, Expected::LetIn | Expected::Anything));
    assert_eq!(refused + forbidden + rest, (routes.len() * callers.len()) as u64);
    assert!(refused > rest && forbidden > 0, "{refused} {forbidden} {rest}");
}

#[test]
fn the_smallest_body_of_every_schema_is_accepted() {
    let acme = Fixture::new();
    for route in all_routes() {
        let reply = ask_sample(&fitting(&acme.owner, &route), &route);
        let context = format!("{}: {} {}", route.name, sample(&route), reply.text());
        // A code that nobody was given is no malformed body; RFC 8628 has 400 for it all the same.
        let is_unknown_code = reply.status == 400 && reply.json()["code"] == "expired_token";
        assert!(reply.status != 400 || is_unknown_code, "{context}");
    }
}

#[test]
fn session_only_routes_do_not_reveal_whether_a_key_is_valid() {
    let acme = Fixture::new();
    let keys = [acme.key.clone(), acme.anonymous.with_key("nonsense"), key_of(&acme.member)];
    let mut answers = BTreeSet::new();
    for route in all_routes().iter().filter(|route| route.policy.is_session_only()) {
        answers.extend(keys.iter().map(|key| ask_sample(key, route).likeness()));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[test]
fn no_route_fails_internally_on_random_input() {
    let acme = Fixture::new();
    let long = "x".repeat(1000);
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}"),
        json!("{\"a\":1}"),
        json!(long),
        json!([]),
        json!([null]),
        json!([[{}]]),
        json!({}),
        json!({"": {"a": [1]}}),
    ];
    let parts = ["%00", "%FF%FE", "%2E%2E", "a%2Fb", "%F0%9F%98%80", &long, "0", "-1", "1e9"];
    for route in all_routes() {
        let caller = fitting(&acme.admin, &route);
        // Only the form of the id is invalid.
        for part in parts {
            let ids =
                ["teamId", "agentId", "stableKey", "version", "name", "id", "knowledgeBaseId"];
            let ids = ids.iter().map(|id| (*id, part.to_string())).collect();
            let reply = ask(&caller, &route, &path_with(&route, &ids), &sample(&route));
            assert!(reply.status < 500, "{} {part}: {}", route.name, reply.text());
        }
        for (name, _) in schema::inputs(&route) {
            for value in values.iter().filter(|_| name != "orgSlug") {
                let mut fields = sample(&route);
                fields[&name] = value.clone();
                let path = path_with(&route, &BTreeMap::new());
                let reply = ask(&caller, &route, &path, &fields);
                // What a model fails at is no fault of the server.
                let is_outside = route.name == "prompt.try" && reply.status == 502;
                assert!(
                    reply.status < 500 || is_outside,
                    "{} {name} {value}: {}",
                    route.name,
                    reply.text()
                );
                if reply.status >= 400 {
                    reply.problem();
                }
            }
        }
    }
}

#[test]
fn no_route_fails_internally_on_a_junk_body() {
    let acme = Fixture::new();
    for route in all_routes().iter().filter(|route| route.method.has_body()) {
        let path = path_with(route, &BTreeMap::new());
        for junk in ["[]", "null", "\"x\"", "{", "\u{0}", "{\"orgSlug\":{}}", "{\"orgSlug\":null}"]
        {
            let reply = acme.admin.ask(route.method.as_str(), &path).bytes(junk).send();
            assert!(reply.status < 500, "{} {junk}: {}", route.name, reply.text());
        }
    }
}
