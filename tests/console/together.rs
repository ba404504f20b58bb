//! Two people in two browsers: what one of them does, and what the other one sees and may do then.

use serde_json::json;

use crate::client::pick;
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::mail_server::MailServer;
use crate::server::{PASSWORD, Running};
use crate::webdriver::driver;

#[test]
fn an_invitation_that_was_mailed_vouches_for_who_accepts_it() {
    let Some(driver) = driver() else { return };
    let mail = MailServer::start();
    let server = Running::with(mail.config());
    let api = server.ada();
    let home = format!("http://{}/o/acme", server.address);
    let ada = driver.browser(1280, 900, true);
    sign_in(&ada, &server, "ada@acme.test");
    ada.open(&format!("{home}/settings/members"));
    ada.click(".head a.primary");
    ada.fill("#f-email", "ben@acme.test");
    ada.click("main button.primary");
    ada.shows("Another link is mailed to the address, and proves it.");
    let ben = driver.browser(1280, 900, true);
    ben.open(&mail.link_to("/invitations"));
    ben.shows("Ada invites ben@acme.test to Acme, as a member.");
    ben.fill("#f-name", "Ben");
    ben.fill("#f-password", PASSWORD);
    ben.click("main button.primary");
    ben.shows("You are a member now.");
    let members = api.get("/organizations/members").items();
    let stored = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
    assert_eq!([&stored["emailVerified"], &stored["addressProved"]], [true, true]);

    server.deployable(&["scribe"], json!({"approverIds": [stored["userId"]]}));
    ada.open(&format!("{home}/agents/scribe"));
    ada.click(".head a.primary");
    ada.click("button[value=preview]");
    ada.shows("Needs approval");
    assert!(!ada.text().contains("can approve now"), "{}", ada.text());
    ada.click("button[value=deploy]");
    ada.shows("Waits for approval");
    ben.open(&home);
    ben.shows("Waits for your approval");
    ben.click("#groups a[href*='/deployments/jobs/']");
    ben.shows("This waits for your decision");
    ben.click("button[value=approve]");
    ben.shows("Your approval is recorded.");
    let job = api.get("/agents/deployments").items()[0]["id"].clone();
    let path = format!("/agents/deployments/{}/approvals", job.as_str().unwrap());
    let decided = api.get(&path).items();
    assert_eq!([&decided[0]["user"]["name"], &decided[0]["decision"]], ["Ben", "approved"]);
}

#[test]
fn two_people_change_a_fleet_at_once_and_it_stays_restricted() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.add("grace", "admin");
        let fleet = server.ada().post("/fleets", json!({"name": "Writers"})).id();
        let stored = || {
            let fleet = server.ada().get(&format!("/fleets/{fleet}")).ok();
            pick(&fleet, "name access description")
        };
        let url = format!("http://{}/o/acme/fleets/{fleet}", server.address);
        let open = |email: &str| {
            let browser = driver.browser(1280, 900, scripts);
            sign_in(&browser, &server, email);
            browser.open(&url);
            browser.shows("Who uses its agents");
            browser
        };
        let (ada, grace) = (open("ada@acme.test"), open("grace@acme.test"));
        ada.click("#f-access option[value=restricted]");
        ada.click("main button.primary");
        ada.shows("The fleet was saved.");
        grace.fill("#f-description", "All that write.");
        grace.click("main button.primary");
        grace.shows("It has changed since you opened it");
        assert_eq!(stored(), json!(["Writers", "restricted", null]));
        grace.click(".conflict a.button");
        grace.shows("Restricted");
        assert_eq!(grace.value("#f-access"), "restricted");
        assert_eq!(grace.value("#f-description"), "");
        grace.fill("#f-description", "All that write.");
        grace.click("main button.primary");
        grace.shows("The fleet was saved.");
        assert_eq!(stored(), json!(["Writers", "restricted", "All that write."]));
    });
}
