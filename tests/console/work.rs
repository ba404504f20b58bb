//! What people do with agents and teams, in a real browser, with scripts on and off.

use serde_json::json;

use crate::client::eventually;
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::outside;
use crate::server::Running;

/// The key with an arrow to the right, in the words of WebDriver.
const ARROW_RIGHT: &str = "\u{E014}";

#[test]
fn a_person_answers_the_message_of_an_agent() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let (team, agent) = server.team("crew", "scribe");
        let browser = driver.browser(390, 844, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.shows("The first steps");
        let mail = json!({"fromAgentId": agent, "subject": "Which tone?", "body": "Calm or not?"});
        server.ada().post(&format!("/teams/{team}/inbox"), mail).ok();
        if !scripts {
            browser.open(&format!("http://{}/o/acme", server.address));
        }
        // With scripts the page shows it by itself.
        browser.shows("Unread mail");
        browser.click("#groups a[href*='/inbox/']");
        browser.shows("Calm or not?");
        browser.fill("#f-body", "A calm one.");
        browser.click("button[value=answer]");
        browser.shows("Your answer was sent.");
        browser.shows("You have read everything.");
        let wakes = server.ada().get(&format!("/teams/{team}/agents/{agent}/wakes")).items();
        assert_eq!(wakes[0]["reason"], "direct_message");
    });
}

#[test]
fn a_task_is_moved_by_a_list_by_dragging_and_by_keys() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let (team, _) = server.team("crew", "scribe");
        let api = server.ada();
        api.post(&format!("/teams/{team}/tasks"), json!({"title": "Notes"})).ok();
        let status = || {
            let task = api.get(&format!("/teams/{team}/tasks?number=1")).items().remove(0);
            task["status"].as_str().unwrap().to_string()
        };
        let browser = driver.browser(1280, 800, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}/o/acme/teams/crew/board", server.address));
        browser.click(".task summary");
        browser.click("[name=to-1] option[value=in_progress]");
        browser.click("button[name=task]");
        browser.shows("The task is in progress.");
        assert_eq!(status(), "in_progress");
        let in_column = |name: &str| format!("[data-status={name}] [data-grip='1']");
        if !scripts {
            let shown = "return getComputedStyle(document.querySelector('[data-grip]')).display";
            assert_eq!(browser.run(shown), "none");
            return;
        }
        browser.drag(&in_column("in_progress"), "[data-status=done] h2");
        browser.shows("The task is done.");
        assert_eq!(status(), "done");
        browser.press(&in_column("done"), ARROW_RIGHT);
        browser.shows("The task is cancelled.");
        assert_eq!(status(), "cancelled");
        // The handle that was used is the one that has the focus.
        let focused = "return document.activeElement.dataset.grip";
        eventually("the focus", || (browser.run(focused) == "1").then_some(()));
        // There is nothing beyond the last column.
        browser.press(&in_column("cancelled"), ARROW_RIGHT);
        browser.drag(&in_column("cancelled"), "[data-status=open] h2");
        browser.shows("The task is open.");
    });
}

#[test]
fn a_peer_is_refused_only_with_a_reason() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.team("crew", "scribe");
        let (handle, id) = outside::ask(&server, "crew", "May I?");
        let browser = driver.browser(1280, 800, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.click(&format!("a[href$='/peers/{id}']"));
        browser.shows("May I?");
        browser.click("button[value=refuse]");
        browser.shows("Check what you entered");
        browser.shows("Reason ");
        assert_eq!(browser.run("return document.getElementById('f-reason').ariaInvalid"), "true");
        browser.fill("#f-reason", "No surveys.");
        browser.click("button[value=refuse]");
        browser.shows("The outside agent was refused, and reads why.");
        browser.shows(&handle);
        browser.shows("No surveys.");
    });
}

#[test]
fn a_deployment_is_previewed_approved_by_another_and_rolled_back() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.add("ben", "member");
        let members = server.ada().get("/organizations/members").items();
        let ben = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
        let path = format!("/organizations/members/{}", ben["userId"].as_str().unwrap());
        server.ada().patch(&path, json!({"emailVerified": true})).ok();
        let approvals = json!({"approverIds": [ben["userId"]], "preventSelfApproval": true});
        server.deployable(&["scribe"], approvals);
        let (ada, other) = (driver.browser(1280, 900, scripts), driver.browser(390, 844, scripts));
        sign_in(&ada, &server, "ada@acme.test");
        sign_in(&other, &server, "ben@acme.test");
        let home = format!("http://{}/o/acme", server.address);
        let approve = |title: &str| {
            other.open(&home);
            other.shows("Waits for your approval");
            other.click("#groups a[href*='/deployments/jobs/']");
            other.shows(title);
            other.click("button[value=approve]");
            other.shows("Your approval is recorded.");
        };
        for version in ["1.0.0", "1.1.0"] {
            if version == "1.1.0" {
                server.publish("prompt", "notes", version, "Good morning.");
            }
            ada.open(&format!("{home}/agents/scribe"));
            ada.click(".head a.primary");
            ada.click("button[value=preview]");
            ada.shows("Needs approval");
            ada.shows("ben");
            ada.click("button[value=deploy]");
            ada.shows("The deployment was created.");
            ada.shows("Waits for approval");
            assert!(!ada.text().contains("This waits for your decision"));
            approve(&format!("Deploy notes {version}"));
            let is_live = |place: &serde_json::Value| place["live"]["version"] == version;
            eventually("it is live", || {
                let places = server.ada().get("/agents/scribe/environments").items();
                places.iter().any(is_live).then_some(())
            });
        }
        let job = ada.url();
        ada.open(&job);
        ada.shows("Complete");
        ada.click("button[value=rollback]");
        ada.shows("This job brings the targets back");
        approve("Deploy notes 1.0.0");
        eventually("it is rolled back", || {
            let places = server.ada().get("/agents/scribe/environments").items();
            (places[0]["live"]["version"] == "1.0.0").then_some(())
        });
        ada.open(&format!("{home}/agents/scribe"));
        ada.shows("notes 1.0.0");
    });
}
