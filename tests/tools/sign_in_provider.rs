//! People sign in with a provider that others wrote (`oidc-provider` of npm), over TLS with an authority of its
//! own, get what rules say, and are signed out where they sign out there.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::node::{self, Modules, Node};
use crate::optional::{Installed, installed};
use crate::program::{Program, fixture};
use crate::server::Acme;

static NODE: LazyLock<Installed<Node>> = LazyLock::new(|| {
    node::modules(&Modules {
        folder: "oidc-provider-1",
        what: "oidc-provider of npm for tests (once, 4 MB)",
        wanted: &["oidc-provider@9.13.3"],
        day: "2026-11-22",
    })
});

/// A secret of the client that is not the same in a form or a header.
const SECRET: &str = "a secret: with + and %";

/// Starts a provider, with a person who has a browser there.
fn start(node: &Node) -> Program {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/oidc_provider.mjs");
    let mut command = Command::new(&node.program);
    command
        .arg(script)
        .arg(&node.place)
        .args([fixture("server.pem"), fixture("server.key"), SECRET.into()])
        // The person's browser trusts it, too.
        .env("NODE_EXTRA_CA_CERTS", fixture("ca.pem"));
    Program::start(&mut command)
}

/// Signs somebody in there who was led to it, and then here. Returns their session.
fn sign_in(provider: &mut Program, anonymous: &Caller, name: &str) -> Caller {
    let post = |path, body: &Value| anonymous.ask("POST", path).json(body).send().ok();
    let begun = post("/auth/providers/begin", &json!({"provider": "real"}));
    provider.tell(&json!({"signIn": begun["url"], "as": name}));
    let back = provider.hear();
    let location = back["location"].as_str().unwrap_or_else(|| panic!("{back}"));
    let (path, query) = location.split_once('?').unwrap();
    assert!(path.ends_with("/sign-in/oidc/real/callback"), "{location}");
    let mut answer = json!({"provider": "real", "attempt": begun["attempt"]});
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        answer[&*name] = json!(value);
    }
    let done = post("/auth/providers/finish", &answer);
    anonymous.with_bearer(done["session"]["token"].as_str().unwrap())
}

#[test]
fn people_sign_in_with_a_provider_that_others_wrote_and_out_where_they_sign_out_there() {
    let Some(node) = installed("OIDC", "a provider of sign-ins", &NODE) else { return };
    let mut provider = start(node);
    let issuer = provider.hear()["issuer"].as_str().unwrap().to_string();
    let place = tempfile::tempdir().unwrap();
    let secret = secret_file(place.path());
    let ca = fixture("ca.pem");
    let own =
        format!("name=real,issuer={issuer},client-id=roadstead,secret-file={secret},sign-out=yes");
    let flags = ["--oidc", &own, "--ca-file", &ca, "--allow-private-network", "127.0.0.1"];
    let acme = Acme::start(&flags);
    // Links have the host that requests name.
    let client = format!("http://{}", acme.serving.address);
    provider.tell(&json!({"client": client, "links": "http://localhost"}));
    let anonymous = Caller::anonymous(acme.serving.address, "acme").with_fields(&[]);
    let rule = json!({"provider": "real", "value": "ops", "role": "admin"});
    let joining = json!({"domain": "acme.test", "provider": "real", "role": "member"});
    let settings = json!({"domains": [joining], "rules": [rule]});
    acme.owner.put("/organizations/sign-in", settings).ok();

    let grace = sign_in(&mut provider, &anonymous, "grace");
    let session = grace.get("/auth/session").ok();
    assert_eq!(session["user"]["email"], "grace@acme.test");
    assert_eq!(session["memberships"][0]["role"], "admin");
    provider.tell(&json!({"signOut": ""}));
    assert_eq!(provider.hear()["status"], 200);
    eventually("the session's end", || {
        Some(()).filter(|()| grace.get("/auth/session").status == 401)
    });
    let entries = acme.owner.get("/audit-logs?action=provider_session.end").items();
    assert_eq!(entries[0]["actor"]["name"], "grace", "{entries:?}");

    let henry = sign_in(&mut provider, &anonymous, "henry");
    let session = henry.get("/auth/session").ok();
    assert_eq!(session["memberships"][0]["role"], "member");
    // From here: he is led there and back, and is not signed in there any more.
    assert_eq!(session["signOutProvider"], "real");
    henry.post("/auth/sign-out", json!({})).ok();
    let body = json!({"provider": "real"});
    let out = anonymous.ask("POST", "/auth/providers/sign-out").json(&body).send().ok();
    provider.tell(&json!({"signOut": out["url"]}));
    let back = provider.hear();
    let expected = format!("http://localhost/sign-in?state={}", out["state"].as_str().unwrap());
    assert_eq!(back["location"], expected, "{back}");
    let grace = sign_in(&mut provider, &anonymous, "grace");
    assert_eq!(grace.get("/auth/session").ok()["user"]["email"], "grace@acme.test");
}

/// A file with the secret that nobody else may read.
fn secret_file(place: &Path) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let file = place.join("secret");
    std::fs::write(&file, SECRET).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().into()
}
