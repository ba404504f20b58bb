//! What the pages are said to offer (`offered.rs`) is called when all of their buttons are pressed and what
//! they ask for is entered, or by a test that is named here.

use std::collections::BTreeMap;
use std::path::Path;

use crate::crawl;
use crate::html::Form;
use crate::offered::OFFERED;
use crate::server::{PASSWORD, Running};
use crate::visitor::{Visitor, press};

/// The routes that are called in a state which buttons alone do not lead to, and the test that calls each.
const BY_OTHER_TESTS: &[(&str, &[&str])] = &[
    (
        "asking_again.rs",
        &[
            "POST /auth/session/confirm",
            "POST /auth/device-sign-ins/{userCode}/preview",
            "POST /auth/device-sign-ins/{userCode}/approve",
            "POST /auth/device-sign-ins/{userCode}/deny",
        ],
    ),
    (
        "deciding.rs",
        &[
            "POST /agents/deployments/{jobId}/approve",
            "POST /agents/deployments/{jobId}/cancel",
            "POST /agents/deployments/{jobId}/deny",
            "POST /api-keys/{keyId}/take-over",
            "POST /registries/artifacts/label-changes/{changeId}/cancel",
            "POST /registries/artifacts/label-changes/{changeId}/deny",
        ],
    ),
    (
        "provider_sign_in.rs",
        &[
            "POST /auth/providers/begin",
            "POST /auth/providers/finish",
            "POST /auth/links",
            "DELETE /auth/links/{linkId}",
        ],
    ),
    ("importing.rs", &["POST /prompt-providers/{id}/import"]),
    ("provider_sign_out.rs", &["POST /auth/providers/end", "POST /auth/providers/sign-out"]),
    ("prompts.rs", &["DELETE /registries/artifacts/labels"]),
    (
        "second_factor.rs",
        &[
            "POST /auth/second-factor/confirm",
            "POST /auth/second-factor/off",
            "POST /auth/sign-in/code",
            "DELETE /organizations/members/{userId}/second-factor",
        ],
    ),
    ("sessions.rs", &["POST /setup"]),
    (
        "teams.rs",
        &[
            "POST /agents/{stableKey}/resume",
            "POST /teams/{teamId}/pause",
            "POST /teams/{teamId}/resume",
            "POST /teams/{teamId}/schedules/{scheduleId}/pause",
            "POST /teams/{teamId}/schedules/{scheduleId}/resume",
            "GET /teams/{teamId}/agents/{agentId}/wakes/failed",
            "POST /teams/{teamId}/agents/{agentId}/pause",
            "POST /teams/{teamId}/agents/{agentId}/resume",
            "POST /teams/{teamId}/agents/{agentId}/wakes/ack",
            "POST /teams/{teamId}/agents/{agentId}/wakes/retry",
        ],
    ),
    (
        "uploads.rs",
        &[
            "POST /knowledge-bases/{id}/documents/upload",
            "PUT /knowledge-bases/{id}/documents/{documentId}/upload",
        ],
    ),
    ("work.rs", &["POST /teams/{teamId}/exchange/peers/{peerId}/refuse"]),
];

/// The page of what a list of the API has first, below a path of the organization.
fn first(server: &Running, list: &str, page: &str) -> String {
    let id = server.ada().get(list).items()[0]["id"].clone();
    format!("/o/acme{page}/{}", id.as_str().unwrap())
}

/// Does what takes more than the press of a button: what is entered, and what a query asks for.
fn enter(server: &Running, ada: &Visitor) {
    let me = server.ada().get("/auth/session").ok()["user"]["id"].clone();
    let me = me.as_str().unwrap();
    let base = first(server, "/knowledge-bases", "/knowledge");
    for path in [
        "/o/acme/search?q=notes",
        &format!("/o/acme/settings/access?who=user:{me}&action=deployment.create"),
        "/o/acme/prompts/main/notes/versions/1.1.0?environment=production",
        &format!("{base}?q=harbour"),
    ] {
        assert_eq!(ada.get(path).status, 200, "{path}");
    }
    let environment = first(server, "/environments", "/environments");
    for (action, fields) in [
        ("variable", [("variable", "MORE"), ("variableValue", "1")]),
        ("secret", [("secretName", "MORE"), ("secretValue", "1")]),
        ("credential", [("credential", "more"), ("apiKey", "1")]),
    ] {
        press(ada, &ada.get(&environment), ("action", action), &fields);
    }
    let set = ada.get(&format!("{environment}?variable=NAME"));
    press(ada, &set, ("action", "variable"), &[("variableValue", "2")]);
    let editor = ada.get("/o/acme/prompts/main/notes/edit");
    press(ada, &editor, ("action", "check"), &[("environment", "production")]);
    let rules = ada.get("/o/acme/teams/crew/peers/rules");
    press(ada, &rules, ("action", "set"), &[("domain", "blocked.test"), ("rule", "block")]);
    let mut form = ada.get("/o/acme/deployments/new?agent=scribe").form("/o/acme/deployments/new");
    form.fields.retain(|(name, value)| name != "agent" || value == "scribe");
    let fields = [
        ("action", "preview"),
        ("promptName", "notes"),
        ("version", "1.1.0"),
        ("environment", "production"),
        ("provider", "p"),
    ];
    let preview = ada.send_form(&form, &fields);
    let done = press(ada, &preview, ("action", "deploy"), &[]);
    assert_eq!(done.status, 200, "{}", done.words());
}

/// Does what somebody does who is not signed in, and signs out.
fn come_and_go(server: &Running, ada: &Visitor) {
    let token = server.invite("eve@acme.test", "member");
    let eve = server.visitor();
    for path in ["/setup", "/sign-in"] {
        assert_eq!(eve.get(path).status, 200, "{path}");
    }
    for (path, fields) in [
        ("/forgot-password", &[("email", "eve@acme.test")][..]),
        ("/reset-password", &[("link", "none"), ("newPassword", PASSWORD)]),
        ("/confirm-mail", &[("link", "none")]),
        ("/invitations", &[("link", &*token), ("action", "look")]),
        ("/invitations", &[("link", &*token), ("name", "Eve"), ("password", PASSWORD)]),
    ] {
        eve.send(&eve.get(path), path, fields);
    }
    server.signed_in("ada@acme.test");
    let end = "/account/sessions/end";
    let account = ada.get("/account");
    let has_one = |form: &Form| form.fields.iter().any(|(name, _)| name == "session");
    let forms = account.forms().into_iter().filter(|form| form.action == end);
    let (of_one, of_all): (Vec<_>, Vec<_>) = forms.partition(has_one);
    for form in [&of_one[0], &of_all[0]] {
        assert_eq!(ada.send_form(form, &[]).status, 303);
    }
    assert_eq!(ada.send(&ada.get("/account"), "/sign-out", &[]).status, 303);
}

#[test]
fn what_the_pages_are_said_to_offer_is_called_by_their_buttons_or_by_a_test_that_is_named() {
    let server = Running::new();
    server.add("ben", "member");
    crawl::fill(&server);
    crawl::fill_teams(&server);
    let ada = server.signed_in("ada@acme.test");
    let pages = crawl::crawl(&ada);
    enter(&server, &ada);
    // Twice: what is paused is resumed.
    for _ in 0..2 {
        let now = pages.keys().map(|path| (path.clone(), ada.get(path)));
        let now = now.filter(|(_, page)| page.status == 200).collect();
        crawl::press_all(&ada, &now);
    }
    crawl::press_ends(&ada, &pages);
    come_and_go(&server, &ada);
    let called = server.calls();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console");
    let mut elsewhere = BTreeMap::new();
    for (file, routes) in BY_OTHER_TESTS {
        assert!(folder.join(file).exists(), "there is no {file}");
        elsewhere.extend(routes.iter().map(|route| (*route, *file)));
    }
    let offered: Vec<_> = OFFERED.iter().flat_map(|(_, routes)| routes.iter().copied()).collect();
    let missing: Vec<_> = offered
        .iter()
        .filter(|route| !called.contains(**route) && !elsewhere.contains_key(**route))
        .collect();
    assert!(missing.is_empty(), "no page has called {missing:#?}");
    let stale: Vec<_> = elsewhere
        .keys()
        .filter(|route| called.contains(**route) || !offered.contains(*route))
        .collect();
    assert!(stale.is_empty(), "these are called here too, or are not offered: {stale:#?}");
}
