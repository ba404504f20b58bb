//! Secrets do not leak: no secret that the product receives or shows once is later in a file of the
//! data directory, a log line or a response, in clear text, hex or base64.
//!
//! A new kind of secret is one line of [`STEPS`]. A route with a secret that is missing there
//! fails [`every_secret_of_the_api_is_covered`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roadstead::api::{Method, Route};
use roadstead::resources;
use serde_json::{Value, json};

use crate::client::second_factor::App;
use crate::client::{Caller, Connection, Reply, eventually};
use crate::process::{Place, Serving};
use crate::receiver;
use crate::search::{Search, Secret};

// ── What is tried ────────────────────────────────────────────────────────────

/// How a step involves secrets.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Not at all: other steps need it.
    Plain,
    /// The request contains one, at `SECRET` in the body.
    Takes,
    /// The same, and this request makes the server send it to `ECHO`, its intended receiver.
    Sends(&'static str),
    /// The response shows a new one, once, in this field.
    Shows(&'static str),
}
use Step::{Plain, Sends, Shows, Takes};

/// Method, path and body of requests by the owner of an organization, in their order. `{…}` in a
/// path is what was last made, or is first listed, at the path before it, as is `<path>` in a body;
/// `ECHO` is the URL of a server that refuses what it is sent and repeats it.
const STEPS: &[(Step, &str, &str, &str)] = &[
    (Plain, "POST", "/teams", r#"{"slug": "t", "name": "T"}"#),
    (Plain, "POST", "/agents", r#"{"stableKey": "a", "name": "A"}"#),
    (
        Shows("wakeSecret"),
        "POST",
        "/teams/{teamId}/agents",
        r#"{"stableKey": "a", "role": "member", "wakeUrl": "ECHO"}"#,
    ),
    (Plain, "POST", "/agents", r#"{"stableKey": "b", "name": "B"}"#),
    (Plain, "POST", "/teams/{teamId}/agents", r#"{"stableKey": "b", "role": "member"}"#),
    (Shows("wakeSecret"), "PATCH", "/teams/{teamId}/agents/{agentId}", r#"{"wakeUrl": "ECHO"}"#),
    (
        Plain,
        "POST",
        "/teams/{teamId}/tasks",
        r#"{"title": "Wake up", "assigneeAgentId": "</teams/{teamId}/agents>"}"#,
    ),
    (Shows("key"), "POST", "/api-keys", r#"{"name": "k"}"#),
    (Shows("key"), "POST", "/api-keys/{keyId}/rotate", "{}"),
    (
        Shows("token"),
        "POST",
        "/organizations/members",
        r#"{"email": "b@b.test", "role": "member"}"#,
    ),
    (
        Takes,
        "POST",
        "/auth/password",
        r#"{"currentPassword": "correct horse battery", "newPassword": "SECRET"}"#,
    ),
    (Plain, "POST", "/environments", r#"{"slug": "e", "name": "E"}"#),
    (Takes, "PUT", "/environments/{environmentId}/secrets/{name}", r#"{"value": "SECRET"}"#),
    (
        Takes,
        "PUT",
        "/environments/{environmentId}/provider-credentials/{name}",
        r#"{"apiKey": "SECRET", "endpoint": "ECHO"}"#,
    ),
    (Plain, "POST", "/registries", r#"{"slug": "r", "name": "R"}"#),
    (
        Plain,
        "POST",
        "/registries/artifacts",
        r#"{"registryRef": "acme/r", "artifactType": "prompt", "name": "p", "version": "1.0.0",
            "source": "Hello."}"#,
    ),
    (
        Plain,
        "POST",
        "/tools",
        r#"{"name": "t", "type": "http", "providerConfig": {"p": "Bearer ${NAME}"}}"#,
    ),
    (
        Plain,
        "POST",
        "/agents/deployments",
        r#"{"agentIds": ["a"], "promptName": "p", "version": "*", "environment": "e",
            "provider": "NAME", "registryRef": "acme/r", "toolRefs": [{"toolId": "</tools>"}]}"#,
    ),
    (
        Sends("POST /llm-providers/{id}/test"),
        "POST",
        "/llm-providers",
        r#"{"name": "O", "provider": "openai", "baseUrl": "ECHO", "apiKey": "SECRET"}"#,
    ),
    (
        Sends("POST /llm-providers/{id}/test"),
        "POST",
        "/llm-providers",
        r#"{"name": "G", "provider": "google", "baseUrl": "ECHO", "apiKey": "SECRET"}"#,
    ),
    (
        Sends("POST /llm-providers/{id}/test"),
        "POST",
        "/llm-providers",
        r#"{"name": "A", "provider": "anthropic", "baseUrl": "ECHO", "apiKey": "SECRET"}"#,
    ),
    (
        Sends("POST /llm-providers/{id}/test"),
        "PATCH",
        "/llm-providers/{id}",
        r#"{"apiKey": "SECRET"}"#,
    ),
    (
        Sends("GET /prompt-providers/{id}/prompts"),
        "POST",
        "/prompt-providers",
        r#"{"name": "P", "kind": "phoenix", "baseUrl": "ECHO", "credentials": {"apiKey": "SECRET"}}"#,
    ),
    (
        Sends("GET /prompt-providers/{id}/prompts"),
        "POST",
        "/prompt-providers",
        r#"{"name": "L", "kind": "langfuse", "baseUrl": "ECHO",
            "credentials": {"publicKey": "pk", "secretKey": "SECRET"}}"#,
    ),
    (
        Sends("GET /prompt-providers/{id}/prompts"),
        "POST",
        "/prompt-providers",
        r#"{"name": "H", "kind": "http", "baseUrl": "ECHO", "credentials": {"apiKey": "SECRET"}}"#,
    ),
    (
        Sends("GET /prompt-providers/{id}/prompts"),
        "PATCH",
        "/prompt-providers/{id}",
        r#"{"credentials": {"apiKey": "SECRET"}}"#,
    ),
    (
        Shows("secret"),
        "POST",
        "/notifications/channels",
        r#"{"name": "W", "workflow": "webhook", "config": {"url": "ECHO"}}"#,
    ),
    (Shows("secret"), "POST", "/notifications/channels/{channelId}/rotate-secret", "{}"),
    (
        Plain,
        "POST",
        "/notifications/subscriptions",
        r#"{"channelId": "</notifications/channels>", "eventType": "team.timeline_summary"}"#,
    ),
    (Plain, "POST", "/teams/{teamId}/timeline", r#"{"kind": "summary", "title": "S"}"#),
    (
        Takes,
        "PATCH",
        "/notifications/channels/{channelId}",
        r#"{"config": {"url": "ECHO", "secret": "whsec_SECRET"}}"#,
    ),
    (
        Takes,
        "POST",
        "/notifications/channels",
        r#"{"name": "W", "workflow": "webhook",
            "config": {"url": "ECHO", "secret": "whsec_SECRET"}}"#,
    ),
    (
        Sends("POST /notifications/channels/{channelId}/test"),
        "POST",
        "/notifications/channels",
        r#"{"name": "S", "workflow": "slack", "config": {"url": "ECHO/services/SECRET"}}"#,
    ),
    (
        Plain,
        "POST",
        "/notifications/channels",
        r#"{"name": "M", "workflow": "email", "config": {"to": ["ada@acme.test"]}}"#,
    ),
    // The mail server cannot be reached, which says so without its password.
    (Plain, "POST", "/notifications/channels/{channelId}/test", "{}"),
];

/// Routes with secrets that run before the [`STEPS`], in [`Tried::begin`].
const BEFORE: [&str; 13] = [
    "POST /setup",
    "POST /auth/sign-in",
    "POST /auth/invitations/preview",
    "POST /auth/invitations/accept",
    "POST /organizations/members/{userId}/password-reset",
    "POST /auth/password/reset",
    "POST /auth/second-factor",
    "POST /auth/second-factor/confirm",
    "POST /auth/sign-in/code",
    "POST /auth/second-factor/off",
    "POST /auth/session/confirm",
    "POST /auth/device-sign-ins",
    "POST /auth/device-sign-ins/finish",
];

/// A route whose secret is stored nowhere: it is derived from a key of the installation.
const DERIVED: &str = "POST /notifications/recipients/confirm";

/// Routes whose secrets come from a provider of sign-ins: tests/console/provider_sign_in.rs has one. The session
/// is kept as any other, and what a browser keeps meanwhile is not kept here.
const OF_PROVIDER: [&str; 4] = [
    "POST /auth/providers/begin",
    "POST /auth/providers/finish",
    "POST /auth/providers/end",
    "POST /auth/links",
];

/// A field that sounds like a secret and is a number.
const COUNTED: &str = "maxtokens";

/// Parts of the names of fields that hold secrets.
const SECRETIVE: [&str; 5] = ["secret", "password", "apikey", "credentials", "token"];

const PASSWORD: &str = "correct horse battery";

#[test]
fn no_secret_is_stored_or_sent_in_clear_text() {
    let mut tried = Tried::begin();
    for (step, method, path, body) in STEPS {
        tried.step(*step, method, path, body);
    }
    tried.receive(1, "wake");
    tried.check_manifests();
    tried.deploy("pushed", Some(&receiver::Receiver::answering(&[204])));
    tried.deploy("pulled", None);
    tried.use_all_as_credentials();
    tried.get_everything();
    tried.end();
}

#[test]
fn every_secret_of_the_api_is_covered() {
    let tried: BTreeSet<String> = STEPS
        .iter()
        .filter(|(step, ..)| *step != Plain)
        .map(|(_, method, path, _)| format!("{method} {path}"))
        .chain(BEFORE.map(String::from))
        .chain([DERIVED.into()])
        .chain(OF_PROVIDER.map(String::from))
        .collect();
    let routes = resources::routes();
    let document = resources::document("");
    let has_to_do = |route: &&Route| {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        let mut names = Vec::new();
        fields(&operation["requestBody"], &document, &mut names);
        (route.path.contains("/secrets/") && route.method == Method::Put)
            || route.operation.may_show_secret
            || names.iter().any(|name| {
                let name = name.to_lowercase();
                name != COUNTED && SECRETIVE.iter().any(|part| name.contains(part))
            })
    };
    let all: BTreeSet<String> = routes
        .iter()
        .filter(has_to_do)
        .map(|route| format!("{} {}", route.method.as_str(), route.path))
        .collect();
    let missing: Vec<_> = all.difference(&tried).collect();
    assert!(missing.is_empty(), "add a line to STEPS: {missing:?}");
}

/// The names of all fields below a schema.
fn fields(schema: &Value, document: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Array(parts) => parts.iter().for_each(|part| fields(part, document, names)),
        Value::Object(parts) => {
            if let Some(reference) = schema["$ref"].as_str() {
                fields(document.pointer(&reference[1..]).unwrap(), document, names);
            }
            if let Some(properties) = schema["properties"].as_object() {
                names.extend(properties.keys().cloned());
            }
            parts.values().for_each(|part| fields(part, document, names));
        }
        _ => {}
    }
}

// ── Trying it ────────────────────────────────────────────────────────────────

struct Tried {
    place: Place,
    serving: Serving,
    ada: Caller,
    echo: Echo,
    /// What it has received.
    received: Vec<Vec<u8>>,
    /// The last created or first listed item of a path.
    ids: BTreeMap<String, String>,
    secrets: Vec<Secret>,
    /// Requests and responses, without the responses that show a secret once.
    answers: Vec<(String, Vec<u8>)>,
}

/// The secrets of a second factor.
struct GuardedBy {
    secret: String,
    recovery_code: String,
    challenge: String,
    session: String,
}

/// Turns a second factor on, signs in with it, and turns it off.
fn guard(anonymous: &Caller, email: &str, password: &str) -> GuardedBy {
    let body = json!({"email": email, "password": password});
    let sign_in = || anonymous.post("/auth/sign-in", body.clone());
    let session = anonymous.with_bearer(sign_in().ok()["token"].as_str().unwrap());
    let app = App::turned_on(&session, password);
    let challenge = sign_in().json()["challenge"].as_str().unwrap().to_string();
    let code = json!({"challenge": challenge, "code": app.code(1)});
    let begun = anonymous.post("/auth/sign-in/code", code).ok();
    let off = json!({"password": password, "code": app.recovery_codes[1]});
    session.post("/auth/second-factor/off", off).ok();
    // One that stays.
    let app = App::turned_on(&session, password);
    GuardedBy {
        secret: app.secret,
        recovery_code: app.recovery_codes[0].clone(),
        challenge,
        session: begun["token"].as_str().unwrap().into(),
    }
}

/// Lets a command line in; its code and its session.
fn let_in(anonymous: &Caller, who: &Caller, password: &str) -> [String; 2] {
    let text = |reply: &Value, field: &str| reply[field].as_str().unwrap().to_string();
    let asked = json!({"client": "roadstead on a laptop"});
    let asked = anonymous.post("/auth/device-sign-ins", asked).ok();
    let code = text(&asked, "deviceCode");
    who.post("/auth/session/confirm", json!({"password": password})).ok();
    let path = format!("/auth/device-sign-ins/{}/approve", text(&asked, "userCode"));
    who.post(&path, json!({})).ok();
    let finished = anonymous.post("/auth/device-sign-ins/finish", json!({"deviceCode": code}));
    let session = text(&finished.ok(), "token");
    [code, session]
}

impl Tried {
    /// Sets a server up, with a session of the owner and an invited user who accepts.
    fn begin() -> Self {
        let place = Place::new();
        let flags = ["--log-level", "trace", "--log-format", "json", "--rate-limit", "0"];
        let network = ["--allow-private-network", "127.0.0.1"];
        let mail_password = "mail0Zq8wKd3vN5xT7bR1mP9c";
        let smtp = format!("smtp://mailer:{mail_password}@127.0.0.1:1?tls=none");
        let mail = ["--smtp-url", &smtp, "--mail-from", "roadstead@acme.test"];
        let mut serving = Serving::start(&place, &[&flags[..], &network, &mail].concat());
        // The receiver of secrets refuses them.
        serving.expect_errors(&["_provider_failed"]);
        let anonymous = Caller::anonymous(serving.address, "acme").with_fields(&[]);
        let shown = |reply: &Value, field: &str| reply[field].as_str().unwrap().to_string();

        let link = serving.announced["setupLink"].as_str().unwrap();
        let setup_token = link.split_once('#').unwrap().1.to_string();
        let person = json!({"name": "Ada", "email": "ada@acme.test", "password": PASSWORD});
        let organization = json!({"slug": "acme", "name": "Acme"});
        let body = json!({"token": setup_token, "organization": organization, "user": person});
        let session = shown(&anonymous.post("/setup", body).ok(), "token");
        let ada = anonymous.with_bearer(&session);

        let body = json!({"email": "ada@acme.test", "password": PASSWORD});
        let second_session = shown(&anonymous.post("/auth/sign-in", body).ok(), "token");
        let body = json!({"email": "cy@acme.test", "role": "member"});
        let invitation = shown(&ada.post("/organizations/members", body).ok(), "token");
        anonymous.post("/auth/invitations/preview", json!({"token": invitation})).ok();
        let their_password = "a horse of another colour";
        let body = json!({"token": invitation, "name": "Cy", "password": their_password});
        let their_session = anonymous.post("/auth/invitations/accept", body).ok();
        let cy = their_session["user"]["id"].as_str().unwrap().to_string();
        let their_session = shown(&their_session, "token");
        let reset = ada.post(&format!("/organizations/members/{cy}/password-reset"), json!({}));
        let reset = shown(&reset.ok(), "token");
        let their_new_password = "a horse of no colour at all";
        let body = json!({"token": reset, "newPassword": their_new_password});
        anonymous.post("/auth/password/reset", body).ok();
        let [line, line_session] = let_in(&anonymous, &ada, PASSWORD);
        let guarded = guard(&anonymous, "cy@acme.test", their_new_password);
        let open_reset =
            ada.post(&format!("/organizations/members/{cy}/password-reset"), json!({}));
        let open_reset = shown(&open_reset.ok(), "token");
        let by_command = place.run(&["reset-password", "--email", "ada@acme.test", "--json"]);
        let by_command = shown(&by_command.succeeds(), "resetUrl");
        let by_command = by_command.split_once('#').unwrap().1.to_string();

        let key = fs::read_to_string(place.file("secret.key")).unwrap();
        let key: Vec<u8> =
            (0..32).map(|n| u8::from_str_radix(&key[2 * n..2 * n + 2], 16).unwrap()).collect();
        let secrets = vec![
            Secret { what: "the installation's key".into(), bytes: key },
            Secret::text("the password of the mail server", mail_password),
            Secret::text("the setup token", &setup_token),
            Secret::text("the first password", PASSWORD),
            Secret::text("the first session", &session),
            Secret::text("the second session", &second_session),
            Secret::text("an invitation", &invitation),
            Secret::text("the password of who accepted", their_password),
            Secret::text("the session of who accepted", &their_session),
            Secret::text("the code of a command line", &line),
            Secret::text("the session of a command line", &line_session),
            Secret::text("the secret of a second factor", &guarded.secret),
            Secret::text("a recovery code", &guarded.recovery_code),
            Secret::text("the challenge of a sign-in", &guarded.challenge),
            Secret::text("the session of a sign-in with a code", &guarded.session),
            Secret::text("a used reset link", &reset),
            Secret::text("a reset link", &open_reset),
            Secret::text("a reset link of the command line", &by_command),
            Secret::text("the new password of who accepted", their_new_password),
        ];
        let (ids, answers) = (BTreeMap::new(), Vec::new());
        let (echo, received) = (Echo::start(), Vec::new());
        Tried { place, serving, ada, echo, received, ids, secrets, answers }
    }

    fn step(&mut self, step: Step, method: &str, path: &str, body: &str) {
        let what = format!("{method} {path}");
        let secret = format!("sesame{:02}Zq8wKd3vN5xT7bR1mP9cLs4h", self.secrets.len());
        let target = self.filled(path).unwrap_or_else(|| panic!("{what}: what is meant?"));
        let mut body = body.replace("SECRET", &secret).replace("ECHO", &self.echo.url);
        for (path, id) in &self.ids {
            body = body.replace(&format!("<{path}>"), id);
        }
        let fields = serde_json::from_str(&body).unwrap();
        let reply = self.ada.ask(method, &target).org_json(fields).send();
        let made = reply.ok();
        if method == "POST"
            && let Some(id) = name_of(&made, "")
        {
            self.ids.insert(path.into(), id);
        }
        match step {
            Plain => self.note(&what, &reply),
            Takes | Sends(_) => {
                self.secrets.push(Secret::text(&format!("what {what} takes"), &secret));
                self.note(&what, &reply);
                if let Sends(asked) = step {
                    self.have_it_sent(asked, &secret);
                }
                self.provoke(method, &target, &body, &secret);
            }
            Shows(field) => {
                let secret = made[field].as_str().unwrap_or_else(|| panic!("{what}: {made}"));
                self.secrets.push(Secret::text(&format!("what {what} shows"), secret));
                if let Some(key) = secret.strip_prefix("whsec_") {
                    let bytes = STANDARD.decode(key).unwrap();
                    self.secrets.push(Secret { what: format!("{what}, decoded"), bytes });
                }
            }
        }
    }

    /// Makes the server send a secret to its receiver, which refuses it.
    fn have_it_sent(&mut self, asked: &str, secret: &str) {
        let (method, path) = asked.split_once(' ').unwrap();
        let target = self.filled(path).unwrap();
        let reply = match method {
            "GET" => self.ada.get(&target),
            _ => self.ada.post(&target, json!({})),
        };
        assert!(matches!(reply.status, 200 | 502), "{asked}: {}", reply.text());
        self.note(asked, &reply);
        let search = Search::new(&[Secret::text("it", secret)]);
        let requests: Vec<_> = self.echo.requests.try_iter().collect();
        let sent = requests.iter().any(|request| !search.found(request).is_empty());
        self.received.extend(requests);
        assert!(sent, "{asked} does not send the secret, so that this proves nothing");
    }

    /// Waits for as many messages of a type; returns their heads and bodies.
    fn receive(&mut self, number: usize, kind: &str) -> Vec<(String, String)> {
        let kind = format!("{{\"type\":\"{kind}\"");
        loop {
            let texts = self.received.iter().map(|request| String::from_utf8_lossy(request));
            let parts = texts.map(|text| {
                let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
                (head.to_string(), body.to_string())
            });
            let messages: Vec<_> = parts.filter(|(_, body)| body.contains(&kind)).collect();
            if messages.len() >= number {
                return messages;
            }
            let next = self.echo.requests.recv_timeout(Duration::from_secs(30));
            self.received.push(next.unwrap_or_else(|_| panic!("{kind} is received")));
        }
    }

    /// The manifest of the deployment, which the runner posts, has the secret in its body and nowhere
    /// else; the key that signs it is not in it.
    fn check_manifests(&mut self) {
        let found = |what: &str| {
            let secret = self.secrets.iter().find(|secret| secret.what.contains(what));
            Search::new(&[Secret::text(what, &secret.unwrap().as_text().unwrap())])
        };
        let (value, key) = (found("/secrets/{name}"), found("/provider-credentials/{name}"));
        for (head, body) in self.receive(3, "deployment") {
            assert!(!value.found(body.as_bytes()).is_empty(), "{body}");
            assert!(value.found(head.as_bytes()).is_empty(), "{head}");
            assert!(key.found(body.as_bytes()).is_empty() && key.found(head.as_bytes()).is_empty());
        }
        let job = format!("/agents/deployments/{}", self.ids["/agents/deployments"]);
        let ended = eventually("the deployment has failed", || {
            Some(self.ada.get(&job)).filter(|job| job.json()["state"] == "error")
        });
        self.note("the deployment", &ended);
        for event in ["agent.error", "deployment.error"] {
            let log = self.ada.get(&format!("/notifications/logs?eventType={event}"));
            assert_eq!(log.items().len(), 1, "{event}");
            self.note(event, &log);
        }
    }

    /// Deploys a tool with a secret into a new environment, to an endpoint that accepts it or to be
    /// asked for; then previews, deploys again, redeploys and rolls back. Notes all responses.
    fn deploy(&mut self, environment: &str, endpoint: Option<&receiver::Receiver>) {
        let made = self.ada.post("/environments", json!({"slug": environment, "name": "E"}));
        let path = format!("/environments/{}", made.id());
        let value = self.new_secret(&format!("the secret of {environment}"));
        self.tell("PUT", &format!("{path}/secrets/NAME"), json!({"value": value}));
        if let Some(endpoint) = endpoint {
            let key = self.new_secret(&format!("the key of {environment}"));
            let credential = json!({"apiKey": key, "endpoint": endpoint.url});
            self.tell("PUT", &format!("{path}/provider-credentials/NAME"), credential);
        }
        let wanted = json!({
            "agentIds": ["a"], "promptName": "p", "version": "*", "environment": environment,
            "provider": "NAME", "registryRef": "acme/r",
            "toolRefs": [{"toolId": self.ids["/tools"]}],
        });
        let first = self.tell("POST", "/agents/deployments", wanted.clone());
        let job = self.completed(&first);
        self.tell("POST", "/agents/deployments/preview", wanted.clone());
        let second = self.tell("POST", "/agents/deployments", wanted);
        self.completed(&second);
        let history = format!("/agents/a/deployment-history?environment={environment}");
        let deployments = self.ada.get(&history);
        self.note(&history, &deployments);
        let id = job["targets"][0]["deploymentId"].as_str().unwrap();
        let redeploy = format!("/agents/a/deployment-history/{id}/redeploy");
        let redeployed = self.tell("POST", &redeploy, json!({}));
        let last = self.completed(&redeployed);
        let last = last["id"].as_str().unwrap();
        let rollback = format!("/agents/deployments/{last}/rollback");
        let rolled_back = self.tell("POST", &rollback, json!({}));
        self.completed(&rolled_back);
        for target in [
            format!("/agents/a/deployed?environment={environment}"),
            format!("/deployments/{id}"),
            format!("/deployments?environment={environment}"),
        ] {
            let reply = self.ada.get(&target);
            reply.ok();
            self.note(&target, &reply);
        }
        if let Some(endpoint) = endpoint {
            let messages = endpoint.arrived();
            assert_eq!(messages.len(), 4);
            let is_filled = |sent: &receiver::Sent| sent.json().to_string().contains(&value);
            assert!(messages.iter().all(is_filled), "else this proves nothing");
        }
    }

    /// A new secret, which must not be found later.
    fn new_secret(&mut self, what: &str) -> String {
        let secret = format!("sesame{:02}Zq8wKd3vN5xT7bR1mP9cLs4h", self.secrets.len());
        self.secrets.push(Secret::text(what, &secret));
        secret
    }

    /// Sends a request that must succeed, and notes its response, which it returns.
    fn tell(&mut self, method: &str, path: &str, body: Value) -> Value {
        let reply = self.ada.ask(method, path).org_json(body).send();
        self.note(&format!("{method} {path}"), &reply);
        reply.ok()
    }

    /// Waits until a job is complete; notes and returns it.
    fn completed(&mut self, job: &Value) -> Value {
        let path = format!("/agents/deployments/{}", job["id"].as_str().unwrap());
        let reply = eventually("the job is complete", || {
            Some(self.ada.get(&path)).filter(|reply| reply.json()["state"] == "complete")
        });
        self.note(&path, &reply);
        reply.json()
    }

    /// Sends a body with a secret in every way that may be refused.
    fn provoke(&mut self, method: &str, target: &str, body: &str, secret: &str) {
        let quoted = format!("\"{secret}\"");
        let inside = |more: &str| body.replacen('{', &format!("{{{more}, "), 1);
        let with = |instead: String| inside(r#""orgSlug": "acme""#).replace(&quoted, &instead);
        let anonymous = self.ada.with_fields(&[]);
        for (who, sent) in [
            (&self.ada, body[..body.len() - 1].to_string()),
            (&self.ada, inside(r#""orgSlug": "acme", "orgSlug": "acme""#)),
            (&self.ada, inside(r#""orgSlug": 7"#)),
            (&self.ada, inside(r#""orgSlug": "elsewhere""#)),
            (&self.ada, with(format!("[{quoted}]"))),
            (&self.ada, with(format!("{{{quoted}: {quoted}}}"))),
            (&self.ada, with(format!("\"{secret}{}\"", "x".repeat(200_000)))),
            (&self.ada, with(format!("\"{secret}\\n\\u0000\""))),
            (&self.ada, quoted.to_string()),
            (&anonymous, inside(r#""orgSlug": "acme""#)),
        ] {
            let reply = who.ask(method, target).bytes(sent.clone()).send();
            self.answers.push((format!("{method} {target} {sent:.200}"), all_of(&reply)));
        }
        let plain = self.ada.ask(method, target).with("Content-Type", "text/plain");
        let reply = plain.bytes(body).send();
        self.note(&format!("{method} {target} as text"), &reply);
    }

    /// A path with its parameters filled in, if it is known what with.
    fn filled(&mut self, path: &str) -> Option<String> {
        let mut template = String::new();
        let mut filled = String::new();
        for part in path.split('/').skip(1) {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            let value = match name {
                None => part.to_string(),
                Some(name) => match self.ids.get(&template) {
                    Some(id) => id.clone(),
                    None => match self.ada.get(&filled).json()["items"].get(0) {
                        Some(first) => name_of(first, name)?,
                        // A PUT names what it makes.
                        None if name == "name" => "NAME".into(),
                        None => return None,
                    },
                },
            };
            template.push_str(&format!("/{part}"));
            filled.push_str(&format!("/{value}"));
        }
        Some(filled)
    }

    fn note(&mut self, what: &str, reply: &Reply) {
        self.answers.push((what.into(), all_of(reply)));
    }

    fn use_all_as_credentials(&mut self) {
        let texts: Vec<_> = self.secrets.iter().filter_map(|s| s.as_text()).collect();
        for text in texts {
            let key = self.ada.with_key(&text).get("/tools");
            self.note("a secret as a key", &key);
            let bearer = self.ada.with_bearer(&text).get("/tools");
            self.note("a secret as a bearer's", &bearer);
            let body = json!({"email": "ada@acme.test", "password": text, "token": text});
            let sign_in = self.ada.with_fields(&[]).post("/auth/sign-in", body);
            if sign_in.status != 200 {
                self.note("a secret as a password", &sign_in);
            }
        }
    }

    fn get_everything(&mut self) {
        let gets = resources::routes().into_iter().filter(|route| route.method == Method::Get);
        for route in gets {
            let Some(path) = self.filled(route.path) else { continue };
            let reply = self.ada.get(&path);
            self.note(&format!("GET {}", route.path), &reply);
        }
        for target in ["/", "/metrics", "/readyz", "/api/openapi.json"] {
            let mut connection = Connection::open(self.serving.address).unwrap();
            let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            connection.write(request.as_bytes()).unwrap();
            self.note(target, &connection.reply(false).unwrap());
        }
    }

    /// Stops the server and searches its files, log and responses.
    fn end(mut self) {
        let gone = || Some(()).filter(|()| !self.place.file("setup-link").exists());
        eventually("removing the link that was used", gone);
        self.serving.signal("TERM");
        let (code, out, log) = self.serving.ends();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.lines().count() > self.answers.len(), "each request has its line: {log}");
        self.answers.push(("what is printed".into(), out.into_bytes()));
        self.answers.push(("the log".into(), log.into_bytes()));
        for entry in fs::read_dir(self.place.data()).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with("secret.key") {
                self.answers.push((path.display().to_string(), fs::read(path).unwrap()));
            }
        }
        let search = Search::new(&self.secrets);
        let found: Vec<_> = self
            .answers
            .iter()
            .map(|(what, bytes)| (what, search.found(bytes)))
            .filter(|(_, found)| !found.is_empty())
            .collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// What a path names a thing by: of this name, or the first that it has of the usual ones.
fn name_of(thing: &Value, parameter: &str) -> Option<String> {
    let is_slug = parameter.ends_with("Slug");
    let names = [parameter, if is_slug { "slug" } else { "id" }, "stableKey", "name"];
    names.iter().find_map(|name| thing[*name].as_str()).map(String::from)
}

fn all_of(reply: &Reply) -> Vec<u8> {
    let heads = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    [heads.collect::<String>().into_bytes(), reply.body.clone()].concat()
}

/// An external server that refuses every request and echoes it.
struct Echo {
    url: String,
    requests: Receiver<Vec<u8>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (note, requests) = channel();
        // The thread ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = repeat(stream, &note);
            }
        });
        Echo { url, requests }
    }
}

/// Notes a request, then answers it: who has the answer finds the request noted.
fn repeat(mut stream: TcpStream, note: &Sender<Vec<u8>>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = Vec::new();
    let mut bytes = [0; 4096];
    let is_whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        body.len() >= length.map_or(0, |length| length.parse().unwrap())
    };
    while !is_whole(&request) {
        match stream.read(&mut bytes)? {
            0 => break,
            read => request.extend_from_slice(&bytes[..read]),
        }
    }
    // Like an LLM provider's response to an invalid key.
    let message = format!("this is wrong: {}", String::from_utf8_lossy(&request));
    let body = json!({"error": {"message": message}, "message": message}).to_string();
    let length = body.len();
    let head = format!("HTTP/1.1 401 Wrong\r\ncontent-length: {length}\r\n\r\n");
    let _ = note.send(request);
    stream.write_all((head + &body).as_bytes())
}
