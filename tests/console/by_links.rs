//! What only the API did once, done by following links in a real browser, and found in what is stored.

use serde_json::json;

use crate::client::{Caller, eventually, pick};
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::Running;
use crate::webdriver::{Browser, Driver};

/// Somebody who begins at a section of the organization and follows links.
struct Follower<'a> {
    browser: Browser<'a>,
    home: String,
    api: Caller,
}

impl<'a> Follower<'a> {
    fn new(driver: &'a Driver, server: &Running, scripts: bool) -> Self {
        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, server, "ada@acme.test");
        let home = format!("http://{}/o/acme", server.address);
        Follower { browser, home, api: server.ada() }
    }

    /// Begins at a section, and follows links by the ends of their paths.
    #[track_caller]
    fn follow(&self, section: &str, ends: &[&str]) {
        self.browser.open(&format!("{}{section}", self.home));
        for end in ends {
            self.browser.click(&format!("main a[href$='{end}']"));
            self.is_at(end);
        }
    }

    #[track_caller]
    fn is_at(&self, end: &str) {
        eventually(end, || self.browser.url().ends_with(end).then_some(()));
    }

    /// Sends the form of the page with another name; the next page says this.
    #[track_caller]
    fn name(&self, name: &str, said: &str) {
        self.browser.fill("#f-name", name);
        self.send(said);
    }

    #[track_caller]
    fn send(&self, said: &str) {
        self.browser.click("main button.primary");
        self.browser.shows(said);
    }
}

#[test]
fn a_registry_an_organization_a_knowledge_base_and_a_provider_of_prompts_are_changed() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.registry();
        let base = server.ada().post("/knowledge-bases", json!({"name": "Handbook"})).id();
        let provider = json!({"name": "Old", "kind": "http", "baseUrl": "https://127.0.0.1:9/",
            "credentials": {"apiKey": "key"}});
        let provider = server.ada().post("/prompt-providers", provider).id();
        let ada = Follower::new(driver, &server, scripts);

        ada.follow("/prompts", &["/prompts/main", "/registries/main/edit"]);
        ada.browser.click("#f-visibility option[value=public]");
        ada.browser.click("#f-access option[value=restricted]");
        ada.name("Harbour", "The registry was saved.");
        let stored = ada.api.get("/registries/main").ok();
        let expected = json!(["Harbour", "public", "restricted"]);
        assert_eq!(pick(&stored, "name visibility access"), expected);

        ada.follow("/knowledge", &[&format!("/knowledge/{base}"), "/edit"]);
        ada.name("Tides", "The knowledge base was saved.");
        let stored = ada.api.get(&format!("/knowledge-bases/{base}")).ok();
        assert_eq!(stored["name"], "Tides");

        ada.follow("/settings/members", &["/settings/organization"]);
        ada.name("Acme & Co", "The organization was saved.");
        assert_eq!(ada.api.get("/organizations").items()[0]["name"], "Acme & Co");

        ada.follow("/settings/providers", &[&format!("/prompt-providers/{provider}"), "/edit"]);
        ada.name("New", "The provider was saved.");
        let stored = ada.api.get(&format!("/prompt-providers/{provider}")).ok();
        let expected = json!(["New", "http", "https://127.0.0.1:9/"]);
        assert_eq!(pick(&stored, "name kind baseUrl"), expected);
    });
}

#[test]
fn a_version_is_cloned_a_tool_deployed_and_what_uses_a_variable_found() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.registry();
        server.publish("prompt", "notes", "1.0.0", "Hello {{TOKEN}}.");
        let api = server.ada();
        let tool = json!({"name": "search", "type": "http", "providerConfig": {"key": "${TOKEN}"}});
        let tool = api.post("/tools", tool).id();
        let environment = json!({"slug": "production", "name": "Production"});
        let environment = api.post("/environments", environment).id();
        let variable = format!("/environments/{environment}/variables/TOKEN");
        api.put(&variable, json!({"value": "t"})).ok();
        let ada = Follower::new(driver, &server, scripts);

        let of_version = ["/prompts/main", "/prompts/main/notes", "/versions/1.0.0", "/clone"];
        ada.follow("/prompts", &of_version);
        ada.name("letters", "The version was published.");
        ada.is_at("/prompts/main/letters/versions/1.0.0");
        let content = "/registries/artifact-versions/content?registryRef=main&promptName=letters";
        let stored = api.get(content).ok();
        assert_eq!(pick(&stored, "source version"), json!(["Hello {{TOKEN}}.", "1.0.0"]));

        ada.follow("/tools", &[&format!("/tools/{tool}"), "/deploy"]);
        assert!(api.get("/agents/deployments").items().is_empty());
        ada.send("The deployment was created.");
        let jobs = api.get("/agents/deployments").items();
        let job = [&jobs[0]["kind"], &jobs[0]["targets"][0]["toolId"]];
        assert_eq!((jobs.len(), job), (1, [&json!("tools"), &json!(tool)]));
        let id = jobs[0]["id"].as_str().unwrap();
        ada.is_at(&format!("/deployments/jobs/{id}"));

        let environment = format!("/environments/{environment}");
        ada.follow("/environments", &[&environment, "/variables/TOKEN"]);
        let usage = api.get("/environments/variables/TOKEN/usage").ok();
        let prompts = usage["prompts"].as_array().unwrap();
        assert_eq!((prompts.len(), usage["tools"][0]["id"].as_str()), (2, Some(&*tool)));
        for prompt in prompts {
            let name = prompt["name"].as_str().unwrap();
            let link = format!("a[href$='/prompts/main/{name}/versions/1.0.0']");
            let found = format!("return document.querySelector(\"main {link}\") !== null");
            assert_eq!(ada.browser.run(&found), true, "{name}");
        }
        ada.browser.click(&format!("main a[href$='/tools/{tool}']"));
        ada.browser.shows("Configuration by provider");
    });
}
