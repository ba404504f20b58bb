//! Two people who change the same thing at once: nothing is lost, and both see what differs.

use serde_json::{Value, json};

use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::Running;
use crate::visitor::{Page, Visitor, press};

const TASK: &str = "/o/acme/teams/crew/tasks/1";
const EDITOR: &str = "/o/acme/prompts/main/notes/edit";

/// The form of a page that has a field.
#[track_caller]
pub fn form_with(page: &Page, field: &str) -> crate::html::Form {
    let has = |form: &crate::html::Form| form.fields.iter().any(|(name, _)| name == field);
    page.forms().into_iter().filter(|form| form.is_post).find(has).unwrap()
}

/// Changes a thing through the API while its form is open, sends the form, and saves it nevertheless.
/// `theirs` and `mine` are what both see.
#[track_caller]
fn conflicting(
    ada: &Visitor,
    path: &str,
    (field, mine): (&str, &str),
    action: &str,
    change: impl Fn() -> Value,
    theirs: &str,
) {
    let page = ada.get(path);
    let form = form_with(&page, field);
    let unchanged = ada.send_form(&form, &[("action", action)]);
    assert_eq!(unchanged.status, 303, "{path}: {}", unchanged.words());
    change();
    let fields = [(field, mine), ("action", action)];
    let refused = ada.send_form(&form, &fields);
    assert_eq!(refused.status, 412, "{path}: {}", refused.words());
    refused.shows("It has changed since you opened it").shows("Keep theirs").shows(theirs);
    refused.shows("As it is now").shows("As you have it");
    assert!(refused.text.contains("<title>Error: "));
    let shown = form_with(&refused, field);
    let kept = shown.fields.iter().find(|(name, _)| name == field).unwrap();
    assert_eq!(kept.1, mine, "{path}: what was entered stays");
    let saved = ada.send_form(&shown, &[("action", action)]);
    assert_eq!(saved.status, 303, "{path}: {}", saved.words());
    let stored = ada.open(saved.location());
    stored.shows(mine);
}

#[test]
fn a_policy_a_tool_an_environment_and_a_listing_are_not_saved_over_a_change() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let api = server.ada();
    let rules = |pattern: &str| json!([{"type": "forbidPattern", "value": pattern}]);
    let policy = json!({"name": "House rules", "severity": "warning", "rules": rules("TODO")});
    let policy = api.post("/governance/policies", policy).id();
    conflicting(
        &ada,
        &format!("/o/acme/governance/policies/{policy}/edit"),
        ("name", "My rules"),
        "",
        || {
            api.patch(&format!("/governance/policies/{policy}"), json!({"rules": rules("FIXME")}))
                .ok()
        },
        "Must not match the pattern: FIXME",
    );
    let tool =
        json!({"name": "Search", "type": "http", "providerConfig": {"url": "https://a.test"}});
    let tool = api.post("/tools", tool).id();
    conflicting(
        &ada,
        &format!("/o/acme/tools/{tool}/edit"),
        ("name", "Find"),
        "",
        || {
            api.patch(
                &format!("/tools/{tool}"),
                json!({"providerConfig": {"url": "https://b.test"}}),
            )
            .ok()
        },
        "https://b.test",
    );
    let environment = api.post("/environments", json!({"slug": "a", "name": "Production"})).id();
    conflicting(
        &ada,
        &format!("/o/acme/environments/{environment}/edit"),
        ("name", "Live"),
        "",
        || api.patch(&format!("/environments/{environment}"), json!({"access": "restricted"})).ok(),
        "Restricted: admins, and members with a grant",
    );
    crate::filled::directory(&server, "Harbour");
    let listing = api.get("/agent-index/listings?mine=true").items()[0]["id"].clone();
    let listing = listing.as_str().unwrap();
    conflicting(
        &ada,
        &format!("/o/acme/directory/listings/{listing}/edit"),
        ("displayName", "Herald"),
        "",
        || {
            api.patch(
                &format!("/agent-index/listings/{listing}"),
                json!({"contactPolicy": "closed"}),
            )
            .ok()
        },
        "Nobody",
    );
}

#[test]
fn a_team_its_agents_an_agents_draft_and_a_channel_are_not_saved_over_a_change() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let ada = server.signed_in("ada@acme.test");
    let api = server.ada();
    conflicting(
        &ada,
        "/o/acme/teams/crew/settings",
        ("name", "The crew"),
        "",
        || api.patch(&format!("/teams/{team}"), json!({"description": "All who write."})).ok(),
        "All who write.",
    );
    let member = format!("/teams/{team}/agents/{agent}");
    let page = format!("/o/acme/teams/crew/agents/{agent}");
    conflicting(
        &ada,
        &page,
        ("skills", "writing"),
        "save",
        || api.patch(&member, json!({"role": "member"})).ok(),
        "Scrum Master",
    );
    // On one host, where no new secret is shown in between.
    api.patch(&member, json!({"wakeUrl": "https://one.test/"})).ok();
    conflicting(
        &ada,
        &page,
        ("wakeUrl", "https://one.test/mine"),
        "wake",
        || api.patch(&member, json!({"wakeUrl": "https://one.test/two"})).ok(),
        "https://one.test/two",
    );
    conflicting(
        &ada,
        "/o/acme/agents/scribe/edit",
        ("draft.model", "mine"),
        "",
        || api.patch("/agents/scribe", json!({"draft": {"variables": {"TONE": "dry"}}})).ok(),
        "\"TONE\": \"dry\"",
    );
    let channel = json!({"name": "Hook", "workflow": "webhook",
        "config": {"url": "https://127.0.0.1:9/one"}});
    let channel = api.post("/notifications/channels", channel).id();
    conflicting(
        &ada,
        &format!("/o/acme/operations/channels/{channel}/edit"),
        ("name", "My hook"),
        "",
        || {
            let config = json!({"config": {"url": "https://127.0.0.1:9/two"}});
            api.patch(&format!("/notifications/channels/{channel}"), config).ok()
        },
        "https://127.0.0.1:9/two",
    );
}

#[test]
fn a_fleet_a_provider_and_a_service_account_are_not_saved_over_a_change() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let api = server.ada();
    let fleet = api.post("/fleets", json!({"name": "Writers"})).id();
    conflicting(
        &ada,
        &format!("/o/acme/fleets/{fleet}"),
        ("description", "All that write."),
        "",
        || api.patch(&format!("/fleets/{fleet}"), json!({"access": "restricted"})).ok(),
        "Restricted: admins, and members with a grant",
    );
    let provider = json!({"name": "Models", "provider": "openai", "apiKey": "sk-1"});
    let provider = api.post("/llm-providers", provider).id();
    conflicting(
        &ada,
        &format!("/o/acme/settings/llm-providers/{provider}"),
        ("name", "Ours"),
        "save",
        || {
            let config = json!({"config": {"model": "one-of-another"}});
            api.patch(&format!("/llm-providers/{provider}"), config).ok()
        },
        "one-of-another",
    );
    let account = api.post("/organizations/service-accounts", json!({"name": "Release"})).id();
    conflicting(
        &ada,
        &format!("/o/acme/settings/members/{account}"),
        ("name", "Releases"),
        "account",
        || {
            let path = format!("/organizations/service-accounts/{account}");
            api.patch(&path, json!({"role": "admin"})).ok()
        },
        "Admin: also manages members",
    );
}

#[test]
fn ones_own_name_is_not_saved_over_a_change() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let change = || api.patch("/auth/user", json!({"name": "Ada Lovelace"})).ok();
    conflicting(&ada, "/account", ("name", "Countess"), "", change, "Ada Lovelace");
    assert_eq!(api.get("/auth/user").ok()["name"], "Countess");
}

#[test]
fn a_role_that_was_changed_meanwhile_is_not_changed_back() {
    let server = Running::new();
    server.add("ben", "member");
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let members = api.get("/organizations/members").items();
    let ben = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
    let ben = ben["userId"].as_str().unwrap();
    let path = format!("/organizations/members/{ben}");
    let page = ada.get(&format!("/o/acme/settings/members/{ben}"));
    let form = form_with(&page, "role");
    api.patch(&path, json!({"role": "admin"})).ok();
    let refused = ada.send_form(&form, &[("action", "role")]);
    assert_eq!(refused.status, 412, "{}", refused.words());
    refused.shows("Save mine over it").shows("Admin: also manages members");
    assert_eq!(api.get(&path).ok()["role"], "admin");
}

#[test]
fn an_invited_approver_is_vouched_for_and_approves() {
    let server = Running::new();
    server.add("ben", "member");
    let (ada, ben, api) =
        (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"), server.ada());
    let members = api.get("/organizations/members").items();
    let id = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
    let id = id["userId"].as_str().unwrap();
    server.deployable(&["scribe"], json!({"approverIds": [id]}));
    let environment = api.get("/environments").items()[0]["id"].clone();
    let environment = format!("/o/acme/environments/{}", environment.as_str().unwrap());
    ada.get(&environment).shows("cannot approve yet").shows("Nobody of them can approve now");
    ada.get(&format!("{environment}/edit")).shows("Nobody of them can approve now");
    let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    let job = api.post("/agents/deployments", job).id();
    let page = format!("/o/acme/deployments/jobs/{job}");
    ben.get(&page).shows("You cannot decide yet").hides("This waits for your decision");
    ada.get(&page).shows("You are not asked").shows("Nobody of them can approve now");
    // What they cannot do does not wait for them.
    let today = ben.get("/o/acme");
    today.shows("You are asked to approve, and cannot yet").hides("Waits for your approval");
    assert!(today.text.contains("<title>Today") && !today.text.contains("for you</span>"));
    let member = format!("/o/acme/settings/members/{id}");
    ben.get(&member).hides("Vouch for this address");
    let press = |button: &str| {
        let is_it =
            |form: &crate::html::Form| form.buttons.iter().any(|(_, value)| value == button);
        let form = ada.get(&member).forms().into_iter().find(is_it).unwrap();
        let done = ada.send_form(&form, &[("action", button)]);
        assert_eq!(done.status, 303, "{button}: {}", done.words());
    };
    ada.get(&member).shows("Vouch for this address");
    press("vouch");
    ada.get(&member).shows("This organization vouches for ben@acme.test");
    ada.get(&environment).hides("cannot approve yet").hides("can approve now");
    press("withdraw");
    ben.get(&page).shows("You cannot decide yet");
    press("vouch");
    ben.get(&page).shows("This waits for your decision").hides("You cannot decide yet");
    ben.get("/o/acme").shows("Waits for your approval");
    let counted = "<span class=\"count\">1<span class=\"hidden\"> for you</span>";
    let prompts = ben.get("/o/acme/prompts");
    assert!(prompts.text.contains("<title>(1) Prompts") && prompts.text.contains(counted));
    let approval = form_with(&ben.get(&page), "planHash");
    assert_eq!(ben.send_form(&approval, &[("action", "approve")]).status, 303);
    assert!(ben.get("/o/acme/prompts").text.contains("<title>Prompts"));
    ben.get(&page).hides("This waits for your decision");
    let decided = api.get(&format!("/agents/deployments/{job}/approvals")).items();
    assert_eq!(decided[0]["decision"], "approved");
}

#[test]
fn a_document_is_not_replaced_over_a_change() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let api = server.ada();
    let base = api.post("/knowledge-bases", json!({"name": "Handbook"})).id();
    let documents = format!("/knowledge-bases/{base}/documents");
    let text = |content: &str| json!({"name": "Tides", "content": content});
    let document = api.post(&documents, text("High at noon.")).id();
    conflicting(
        &ada,
        &format!("/o/acme/knowledge/{base}/documents/{document}/edit"),
        ("content", "High at one."),
        "",
        || api.put(&format!("{documents}/{document}"), text("High at two.")).ok(),
        "High at two.",
    );
}

#[test]
fn a_variable_is_not_set_over_a_change() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let api = server.ada();
    let environment = api.post("/environments", json!({"slug": "a", "name": "Production"})).id();
    let variable = format!("/environments/{environment}/variables/PORT");
    let path = format!("/o/acme/environments/{environment}");
    let set = |value: &str| api.put(&variable, json!({"value": value})).ok();
    set("Calais");
    conflicting(
        &ada,
        &format!("{path}?variable=PORT"),
        ("variableValue", "Dover"),
        "variable",
        || set("Ostend"),
        "removed: Ostend",
    );
    assert_eq!(api.get(&variable).ok()["value"], "Dover");
    // The same goes for a form that was opened for a new one, whatever name it is given.
    let page = ada.get(&path);
    let form = form_with(&page, "variableValue");
    let fields = [("variable", "PORT"), ("variableValue", "Brest"), ("action", "variable")];
    let refused = ada.send_form(&form, &fields);
    assert_eq!(refused.status, 412);
    refused.shows("removed: Dover").shows("added: Brest");
    let fields = [("variable", "QUAY"), ("variableValue", "1"), ("action", "variable")];
    assert_eq!(ada.send_form(&form, &fields).status, 303);
    assert_eq!(api.get(&variable).ok()["value"], "Dover");
    // One that was removed meanwhile is set anew.
    let page = ada.get(&format!("{path}?variable=PORT"));
    api.delete(&variable).ok();
    let form = form_with(&page, "variableValue");
    assert_eq!(ada.send_form(&form, &[("action", "variable")]).status, 303);
    assert_eq!(api.get(&variable).ok()["value"], "Dover");
}

#[test]
fn a_change_of_what_a_form_does_not_edit_is_no_conflict() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let task = json!({"title": "one", "description": "Text."});
    let task = api.post(&format!("/teams/{team}/tasks"), task).id();
    let path = format!("/teams/{team}/tasks/{task}");
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(TASK);
    // Meanwhile its agent works on it.
    api.patch(&path, json!({"status": "in_progress", "assigneeAgentId": agent})).ok();
    press(&ada, &page, ("action", "edit"), &[("title", "two")]).shows("The task was saved.");
    assert_eq!(api.get(&path).ok()["title"], "two");
    // What was changed to the same is none either.
    let page = ada.get(TASK);
    api.patch(&path, json!({"title": "three"})).ok();
    press(&ada, &page, ("action", "edit"), &[("title", "three")]).shows("The task was saved.");
    // The work is another form.
    let page = ada.get(TASK);
    api.patch(&path, json!({"status": "blocked", "title": "four"})).ok();
    let refused = press(&ada, &page, ("action", "save"), &[("status", "done")]);
    assert_eq!(refused.status, 412);
    refused.shows("removed: Blocked").shows("added: Done");
    assert_eq!(api.get(&path).ok()["status"], "blocked");
    ada.get(TASK).shows("four").hides("It has changed");
    press(&ada, &refused, ("action", "save"), &[]).shows("The task was saved.");
    assert_eq!(api.get(&path).ok()["status"], "done");
}

#[test]
fn a_form_sent_after_its_session_ended_still_knows_what_it_was_opened_with() {
    let server = Running::new();
    server.team("crew", "scribe");
    let ada = server.signed_in("ada@acme.test");
    let settings = "/o/acme/teams/crew/settings";
    let page = ada.get(settings);
    server.api("ada@acme.test").delete("/auth/sessions").ok();
    let over = ada.send(&page, settings, &[("name", "Mine")]);
    let api = server.api("ada@acme.test");
    let team = api.get("/teams?slug=crew").items()[0]["id"].clone();
    api.patch(&format!("/teams/{}", team.as_str().unwrap()), json!({"name": "Theirs"})).ok();
    let signed = [("email", "ada@acme.test"), ("password", crate::server::PASSWORD)];
    let shown = ada.send(&over, "/sign-in", &signed);
    let refused = ada.send(&shown, settings, &[]);
    assert_eq!(refused.status, 412, "{}", refused.words());
    refused.shows("Theirs").shows("Mine");
}

#[test]
fn a_version_published_meanwhile_is_shown_and_ones_own_gets_the_next_number() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "One.");
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(EDITOR);
    server.publish("prompt", "notes", "1.1.0", "One.\nTheirs.");
    let fields = [("source", "One.\nMine."), ("action", "publish")];
    let refused = ada.send(&page, EDITOR, &fields);
    assert_eq!(refused.status, 409);
    refused.shows("1.1.0 was published meanwhile").shows("Theirs").shows("Publish mine as 1.2.0");
    assert_eq!(refused.field(EDITOR, "source"), "One.\nMine.");
    let again = [("publishAs", "1.2.0")];
    ada.submit(&refused, EDITOR, &again).shows("The version was published.").shows("Mine.");
    let path =
        "/registries/artifact-versions/content?registryRef=main&promptName=notes&version=1.1.0";
    assert_eq!(server.ada().get(path).ok()["source"], "One.\nTheirs.");
}

#[test]
fn a_draft_that_somebody_else_has_saved_is_not_replaced_unseen() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "One.");
    let ada = server.signed_in("ada@acme.test");
    let save =
        |page: &Page, text: &str| ada.send(page, EDITOR, &[("source", text), ("action", "draft")]);
    let page = ada.get(EDITOR);
    let other = ada.get(EDITOR);
    assert_eq!(save(&page, "Theirs.").status, 303);
    let refused = save(&other, "Mine.");
    assert_eq!(refused.status, 409);
    refused.shows("There is another draft of 1.1.0").shows("Theirs").shows("Mine");
    let keep = refused.links().into_iter().find(|link| link.contains("?draft=")).unwrap();
    assert_eq!(ada.get(&keep).field(EDITOR, "source"), "Theirs.");
    assert_eq!(save(&refused, "Mine.").status, 303);
    let drafts = "/prompts/notes/drafts?registryRef=main&artifactType=prompt";
    assert_eq!(server.ada().get(drafts).items()[0]["body"], "Mine.");
    // Whoever opens that draft goes on with it.
    let draft = server.ada().get(drafts).items()[0]["id"].clone();
    let opened = ada.get(&format!("{EDITOR}?draft={}", draft.as_str().unwrap()));
    assert_eq!(save(&opened, "Mine, longer.").status, 303);
}

#[test]
fn publishing_does_not_discard_what_somebody_else_has_drafted_meanwhile() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "One.");
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(EDITOR);
    let drafts = "/prompts/notes/drafts?registryRef=main&artifactType=prompt";
    let theirs = json!({"registryRef": "acme/main", "artifactType": "prompt",
        "draftVersion": "1.1.0", "body": "Theirs."});
    server.ada().post("/prompts/notes/drafts", theirs).ok();
    let refused = ada.send(&page, EDITOR, &[("source", "Mine."), ("action", "publish")]);
    assert_eq!(refused.status, 409);
    refused.shows("There is another draft of 1.1.0").shows("Theirs").shows("Mine");
    assert_eq!(refused.field(EDITOR, "source"), "Mine.");
    assert_eq!(server.ada().get(drafts).items()[0]["body"], "Theirs.");
    let published = ada.submit(&refused, EDITOR, &[("publishAs", "1.1.0")]);
    published.shows("The version was published.").shows("Mine.");
    assert!(server.ada().get(drafts).items().is_empty());
}

#[test]
fn two_people_change_a_task_at_once() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let (team, _) = server.team("crew", "scribe");
        let task = json!({"title": "Notes", "description": "Lead with what changes."});
        server.ada().post(&format!("/teams/{team}/tasks"), task).ok();
        server.add("ben", "member");
        let url = format!("http://{}{TASK}", server.address);
        let edit = |browser: &crate::webdriver::Browser, text: &str| {
            browser.fill("#f-description", text);
            browser.click("button[value=edit]");
        };
        let open = |email: &str| {
            let browser = driver.browser(1280, 900, scripts);
            sign_in(&browser, &server, email);
            browser.open(&url);
            browser.click("#s-text ~ details summary");
            browser
        };
        let (ada, ben) = (open("ada@acme.test"), open("ben@acme.test"));
        edit(&ada, "Lead with what breaks.");
        ada.shows("The task was saved.");
        edit(&ben, "Lead with what is new.");
        ben.shows("It has changed since you opened it");
        ben.shows("Lead with what breaks.");
        assert_eq!(ben.value("#f-description"), "Lead with what is new.");
        let stored = || {
            let tasks = server.ada().get(&format!("/teams/{team}/tasks?number=1")).items();
            tasks[0]["description"].clone()
        };
        assert_eq!(stored(), "Lead with what breaks.");
        ben.click(".conflict button.primary");
        ben.shows("The task was saved.");
        ben.shows("Lead with what is new.");
        assert_eq!(stored(), "Lead with what is new.");
    });
}
