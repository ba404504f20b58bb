//! What people do with agents and teams, in a real browser, with scripts on and off.

use serde_json::json;

use crate::client::{eventually, pick};
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::outside;
use crate::server::Running;
use crate::webdriver::Browser;

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
        let (team, _) = server.team("crew", "scribe");
        let (handle, id) = outside::ask(&server, "crew", "May I?");
        let peer = format!("/teams/{team}/exchange/peers/{id}");
        let stored = || pick(&server.ada().get(&peer).ok(), "handle state reason");
        let browser = driver.browser(1280, 800, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.click(&format!("a[href$='/peers/{id}']"));
        browser.shows("May I?");
        browser.click("button[value=refuse]");
        browser.shows("Check what you entered");
        browser.shows("Reason ");
        assert_eq!(browser.run("return document.getElementById('f-reason').ariaInvalid"), "true");
        assert_eq!(stored(), json!([handle, "pending", null]));
        browser.fill("#f-reason", "No surveys.");
        browser.click("button[value=refuse]");
        browser.shows("The outside agent was refused, and reads why.");
        browser.shows(&handle);
        browser.shows("No surveys.");
        assert_eq!(stored(), json!([handle, "refused", "No surveys."]));
    });
}

/// Ben, who is asked, cannot decide about the job that Ada looks at, and reads why; then Ada vouches for him.
fn vouched_for_before_he_decides(server: &Running, ada: &Browser, other: &Browser, ben: &str) {
    let home = format!("http://{}/o/acme", server.address);
    other.open(&home);
    other.shows("You are asked to approve, and cannot yet");
    other.click("#groups a[href*='/deployments/jobs/']");
    other.shows("You cannot decide yet");
    let buttons = "return document.querySelectorAll('button[value=approve]').length";
    assert_eq!(other.run(buttons), 0);
    let member = || server.ada().get(&format!("/organizations/members/{ben}")).ok();
    assert_eq!(member()["emailVerified"], false);
    ada.open(&format!("{home}/settings/members"));
    ada.click(&format!("main a[href$='/settings/members/{ben}']"));
    ada.shows("Nobody vouches for ben@acme.test here");
    ada.click("button[value=vouch]");
    ada.shows("This organization vouches for ben@acme.test.");
    assert_eq!(member()["emailVerified"], true);
}

#[test]
fn a_deployment_is_previewed_approved_by_another_and_rolled_back() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.add("ben", "member");
        let members = server.ada().get("/organizations/members").items();
        let ben = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
        let approvals = json!({"approverIds": [ben["userId"]], "preventSelfApproval": true});
        server.deployable(&["scribe"], approvals);
        let (ada, other) = (driver.browser(1280, 900, scripts), driver.browser(390, 844, scripts));
        sign_in(&ada, &server, "ada@acme.test");
        sign_in(&other, &server, "ben@acme.test");
        let home = format!("http://{}/o/acme", server.address);
        let approve = |title: &str, job: &str| {
            other.open(&home);
            other.shows("Waits for your approval");
            other.click("#groups a[href*='/deployments/jobs/']");
            other.shows(title);
            other.click("button[value=approve]");
            other.shows("Your approval is recorded.");
            let job = job.split('?').next().unwrap().rsplit('/').next().unwrap();
            let path = format!("/agents/deployments/{job}/approvals");
            let stored = server.ada().get(&path).items();
            let decided = [&stored[0]["user"]["id"], &stored[0]["decision"]];
            assert_eq!(decided, [&ben["userId"], &json!("approved")]);
        };
        for version in ["1.0.0", "1.1.0"] {
            let is_first = version == "1.0.0";
            if !is_first {
                server.publish("prompt", "notes", version, "Good morning.");
            }
            ada.open(&format!("{home}/agents/scribe"));
            ada.click(".head a.primary");
            ada.click("button[value=preview]");
            ada.shows("Needs approval");
            ada.shows("ben");
            let warning = "Nobody of them can approve now, and 1 must.";
            assert_eq!(ada.text().contains(warning), is_first, "{}", ada.text());
            ada.click("button[value=deploy]");
            ada.shows("The deployment was created.");
            ada.shows("Waits for approval");
            assert!(!ada.text().contains("This waits for your decision"));
            let job = ada.url();
            if is_first {
                let ben = ben["userId"].as_str().unwrap();
                vouched_for_before_he_decides(&server, &ada, &other, ben);
            }
            approve(&format!("Deploy notes {version}"), &job);
            let is_live = |place: &serde_json::Value| place["live"]["version"] == version;
            eventually("it is live", || {
                let places = server.ada().get("/agents/scribe/environments").items();
                places.iter().any(is_live).then_some(())
            });
            ada.open(&job);
        }
        ada.shows("Complete");
        ada.click("button[value=rollback]");
        ada.shows("This job brings the targets back");
        approve("Deploy notes 1.0.0", &ada.url());
        eventually("it is rolled back", || {
            let places = server.ada().get("/agents/scribe/environments").items();
            (places[0]["live"]["version"] == "1.0.0").then_some(())
        });
        ada.open(&format!("{home}/agents/scribe"));
        ada.shows("notes 1.0.0");
    });
}
