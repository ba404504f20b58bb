//! Journeys that a new user once could not finish, in a real browser: what came of each is looked for in what
//! is stored.

use serde_json::{Value, json};

use crate::client::{eventually, pick};
use crate::journeys::{set_up, sign_in, with_and_without_scripts};
use crate::server::Running;
use crate::webdriver::{Browser, driver};

/// The id of the member with this address.
fn member(server: &Running, email: &str) -> String {
    let members = server.ada().get("/organizations/members").items();
    let found = members.iter().find(|member| member["email"] == email).unwrap();
    found["userId"].as_str().unwrap().into()
}

/// Begins to deploy `notes` to the agent `scribe`; returns the id of the job.
fn deploy(server: &Running) -> String {
    let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    server.ada().post("/agents/deployments", job).id()
}

/// Waits until this version is live for an agent, in one environment; returns what is live there.
#[track_caller]
fn is_live(server: &Running, agent: &str, version: &str) -> Value {
    eventually("it is live", || {
        let mut places = server.ada().get(&format!("/agents/{agent}/environments")).items();
        assert!(places.len() <= 1, "{places:?}");
        places.pop().filter(|place| place["live"]["version"] == version)
    })
}

/// Waits until the browser is at this address.
#[track_caller]
fn is_at(browser: &Browser, url: &str) {
    eventually(url, || (browser.url() == url).then_some(()));
}

#[test]
fn what_another_admin_has_saved_of_a_provider_and_of_a_role_stays() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.add("ben", "member");
    server.add("grace", "admin");
    let api = server.ada();
    let provider = json!({"name": "Models", "provider": "openai", "apiKey": "sk-1"});
    let provider = api.post("/llm-providers", provider).id();
    let home = format!("http://{}/o/acme/settings", server.address);
    let open = |email: &str| {
        let browser = driver.browser(1280, 900, true);
        sign_in(&browser, &server, email);
        browser
    };
    let (ada, grace) = (open("ada@acme.test"), open("grace@acme.test"));

    let page = format!("{home}/llm-providers/{provider}");
    let stored =
        || pick(&api.get(&format!("/llm-providers/{provider}")).ok(), "name config provider");
    ada.open(&page);
    grace.open(&page);
    ada.fill("#f-config", "{\"model\": \"small\"}");
    ada.click("#save button.primary");
    ada.shows("The provider was saved.");
    grace.fill("#f-name", "Ours");
    grace.click("#save button.primary");
    grace.shows("It has changed since you opened it");
    assert_eq!(stored(), json!(["Models", {"model": "small"}, "openai"]));
    grace.click(".conflict a.button");
    let is_left = || !grace.text().contains("It has changed since you opened it");
    eventually("the form as it is stored", || is_left().then_some(()));
    grace.fill("#f-name", "Ours");
    grace.click("#save button.primary");
    grace.shows("The provider was saved.");
    assert_eq!(stored(), json!(["Ours", {"model": "small"}, "openai"]));

    let ben = member(&server, "ben@acme.test");
    let role = || api.get(&format!("/organizations/members/{ben}")).ok()["role"].clone();
    let page = format!("{home}/members/{ben}");
    ada.open(&page);
    grace.open(&page);
    ada.click("#f-role option[value=admin]");
    ada.click("#role button.primary");
    ada.shows("The member was saved.");
    // Nothing is touched in the form that shows him as a member still.
    grace.click("#role button.primary");
    grace.shows("It has changed since you opened it");
    assert_eq!(role(), "admin");
}

#[test]
fn an_agent_that_is_found_among_many_is_deployed_with_the_prompt_that_was_picked() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.deployable(&["bot-1"], json!(null));
        let api = server.ada();
        for n in 2..107 {
            let key = format!("bot-{n}");
            api.post("/agents", json!({"stableKey": key, "name": format!("Bot {n}")})).ok();
        }
        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}/o/acme/search", server.address));
        browser.fill("#f-q", "bot-1");
        browser.click("main form[role=search] button.primary");
        browser.click("section[aria-labelledby=g-agent] .hits a");
        is_at(&browser, &format!("http://{}/o/acme/agents/bot-1", server.address));
        browser.click(".head a.primary");
        browser.shows("Next you see what would change");
        let ticked =
            "return [...document.querySelectorAll('.ticks input:checked')].map((one) => one.value)";
        assert_eq!(browser.run(ticked), json!(["bot-1"]));
        browser.fill("#f-promptName", "note");
        browser.click("button[value=preview]");
        browser.shows("What fits");
        assert_eq!(browser.run(ticked), json!(["bot-1"]));
        assert!(api.get("/agents/deployments").items().is_empty());
        browser.click("[name='pick.promptName'] option[value=notes]");
        browser.click("button[value=preview]");
        browser.shows("Deploy exactly this");
        browser.click("button[value=deploy]");
        browser.shows("The deployment was created.");
        let jobs = api.get("/agents/deployments").items();
        let targets = jobs[0]["targets"].as_array().unwrap();
        let only = (jobs.len(), targets.len(), &targets[0]["stableKey"]);
        assert_eq!(only, (1, 1, &json!("bot-1")));
        assert_eq!(is_live(&server, "bot-1", "1.0.0")["live"]["promptName"], "notes");
    });
}

#[test]
fn a_deployment_goes_nowhere_until_one_of_several_environments_is_chosen() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    let api = server.ada();
    let staging = api.post("/environments", json!({"slug": "staging", "name": "Staging"})).id();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}/o/acme/agents/scribe", server.address));
    browser.click(".head a.primary");
    assert_eq!(browser.value("#f-environment"), "");
    browser.click("button[value=preview]");
    browser.shows("Check what you entered");
    let said = "return document.querySelector('.problems a[href=\"#f-environment\"]').textContent";
    let said = browser.run(said);
    assert!(said.as_str().unwrap().starts_with("Environment "), "as its field is called: {said}");
    assert!(api.get("/agents/deployments").items().is_empty());
    browser.click("#f-environment option[value=staging]");
    browser.click("button[value=preview]");
    browser.shows("Deploy exactly this");
    browser.click("button[value=deploy]");
    browser.shows("The deployment was created.");
    assert_eq!(is_live(&server, "scribe", "1.0.0")["environmentId"], staging);
}

#[test]
fn who_approves_reads_what_changes_against_what_is_live() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.add("ben", "member");
    let (api, ben) = (server.ada(), member(&server, "ben@acme.test"));
    api.patch(&format!("/organizations/members/{ben}"), json!({"emailVerified": true})).ok();
    server.deployable(&["scribe"], json!({"approverIds": [ben]}));
    let first = deploy(&server);
    let approve = format!("/agents/deployments/{first}/approve");
    server.api("ben@acme.test").post(&approve, json!({})).ok();
    is_live(&server, "scribe", "1.0.0");
    server.publish("prompt", "notes", "1.1.0", "Good morning.");
    let draft = json!({"providerConfig": {"stop": ["a", "b"]}});
    api.patch("/agents/scribe", json!({"draft": draft})).ok();
    let job = deploy(&server);

    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ben@acme.test");
    browser.shows("Waits for your approval");
    browser.click("#groups a[href*='/deployments/jobs/']");
    browser.shows("This waits for your decision");
    let lines = "return [...document.querySelectorAll('td.c.old, td.c.new')]\
                 .map((one) => one.textContent)";
    assert_eq!(browser.run(lines), json!(["− removed: Hello.", "+ added: Good morning."]));
    browser.shows("providerConfig.stop[0]");
    assert!(!browser.text().contains("\"stop\""), "no JSON: {}", browser.text());
    // What he has read is the plan that he approves.
    let stored = api.get(&format!("/agents/deployments/{job}")).ok();
    assert_eq!(stored["plan"]["targets"][0]["compiled"], "Good morning.");
    assert_eq!(stored["planHash"], browser.value("input[name=planHash]"));
    browser.click("button[value=approve]");
    browser.shows("Your approval is recorded.");
    let decided = api.get(&format!("/agents/deployments/{job}/approvals")).items();
    let who = [&decided[0]["user"]["id"], &decided[0]["decision"]];
    assert_eq!(who, [&json!(ben), &json!("approved")]);
    is_live(&server, "scribe", "1.1.0");
}

#[test]
fn the_audit_log_shows_what_its_filters_say_and_no_more() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.add("ben", "member");
    let (api, ben) = (server.ada(), member(&server, "ben@acme.test"));
    let agent = |key: &str| json!({"stableKey": key, "name": key});
    api.post("/agents", agent("herald")).ok();
    server.api("ben@acme.test").post("/agents", agent("scribe")).ok();
    let numbers = |query: &str| -> Vec<Value> {
        let entries = api.get(&format!("/audit-logs?{query}")).items();
        entries.iter().map(|entry| entry["sequence"].clone()).collect()
    };
    let made = eventually("the entries", || {
        Some(numbers("action=agent.create")).filter(|made| made.len() == 2)
    });
    let own = numbers(&format!("action=agent.create&actor={ben}"));
    assert_eq!(own.len(), 1);

    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}/o/acme/operations/audit", server.address));
    let are_shown = |numbers: &[Value]| {
        let rows = "return [...document.querySelectorAll('tbody tr')]\
                    .map((one) => Number(one.lastElementChild.textContent))";
        eventually("the entries", || (browser.run(rows) == json!(numbers)).then_some(()));
    };
    browser.click("#f-action option[value='agent.create']");
    browser.click("main form.inline-form button");
    are_shown(&made);
    browser.click(&format!("#f-actor option[value='{ben}']"));
    browser.click("main form.inline-form button");
    are_shown(&own);
    browser.click("tbody a[href$='/agents/scribe']");
    is_at(&browser, &format!("http://{}/o/acme/agents/scribe", server.address));
}

#[test]
fn a_registry_is_deleted_once_that_is_confirmed_and_what_is_not_there_leads_back() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Hello.");
    let api = server.ada();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let home = format!("http://{}/o/acme", server.address);
    browser.open(&format!("{home}/prompts/main"));
    browser.click("main a.danger");
    browser.shows("Delete Main?");
    browser.click("main form a.button");
    browser.shows("Delete this registry");
    assert_eq!(api.get("/registries").items().len(), 1, "it was cancelled");
    browser.click("main a.danger");
    browser.click("main button.danger");
    browser.shows("The registry was deleted.");
    assert!(api.get("/registries").items().is_empty());
    let text = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
    assert_eq!(api.get(text).status, 404);
    for path in ["/prompts/main", "/nowhere/at/all"] {
        browser.open(&format!("{home}{path}"));
        browser.shows("Not found");
        assert!(!browser.text().contains("openapi"), "{}", browser.text());
        browser.click(".side a[href='/o/acme/agents']");
        is_at(&browser, &format!("{home}/agents"));
    }
}

#[test]
fn the_tasks_that_are_ticked_are_moved_and_closed_and_no_others() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let (team, _) = server.team("crew", "scribe");
        let api = server.ada();
        let tasks = format!("/teams/{team}/tasks");
        let made =
            ["One", "Two", "Three"].map(|title| api.post(&tasks, json!({"title": title})).id());
        let stored =
            || made.each_ref().map(|id| api.get(&format!("{tasks}/{id}")).ok()["status"].clone());
        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        let move_to = |ticked: &[String], status: &str| {
            let before = stored();
            browser.open(&format!("http://{}/o/acme/teams/crew/tasks", server.address));
            for id in ticked {
                browser.click(&format!("input[name=each][value='{id}']"));
            }
            browser.click("#many button");
            browser.shows("Each is moved as if by its own page");
            assert_eq!(stored(), before, "nothing is done yet");
            browser.click(&format!("#f-status option[value={status}]"));
            browser.click("main button.primary");
            browser.shows("The tasks were moved.");
        };
        move_to(&made[..2], "in_progress");
        assert_eq!(stored(), ["in_progress", "in_progress", "open"]);
        move_to(&made[1..], "done");
        assert_eq!(stored(), ["in_progress", "done", "done"]);
    });
}

#[test]
fn a_server_that_is_not_set_up_says_how_and_then_is() {
    let Some(driver) = driver() else { return };
    // It can be reached from elsewhere: until then it answers nothing else.
    let server = Running::bare_at("0.0.0.0:0");
    let home = format!("http://127.0.0.1:{}", server.address.port());
    let browser = driver.browser(1280, 900, true);
    browser.open(&format!("{home}/o/acme"));
    browser.shows("Not set up yet");
    browser.shows("roadstead setup-link");
    browser.click("main a[href='/setup']");
    let token = server.setup_token();
    browser.fill("#f-link", &token);
    set_up(&browser);
    is_at(&browser, &format!("{home}/o/acme"));
    let members = server.api("ada@acme.test").get("/organizations/members").items();
    assert_eq!(members.len(), 1);
    assert_eq!(pick(&members[0], "name email role"), json!(["Ada", "ada@acme.test", "owner"]));
}
