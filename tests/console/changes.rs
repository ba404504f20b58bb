//! What people change in listings, channels, rules for domains and the wakes of agents; what waits in
//! all teams.

use serde_json::json;

use crate::outside;
use crate::server::Running;
use crate::visitor::press;

const PUBKEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";

#[test]
fn a_listing_is_made_changed_published_hidden_and_deleted() {
    let server = Running::new();
    server.add("ben", "member");
    server.ada().post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    let ada = server.signed_in("ada@acme.test");
    let list = "/o/acme/directory/listings";
    ada.get(list).shows("None of your agents is listed yet.").shows("List an agent");
    let new = "/o/acme/directory/new-listing";
    let fields = [("displayName", "Scribe"), ("handle", "no handle"), ("pubkey", "x")];
    let refused = ada.send(&ada.get(new), new, &fields);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("handle") && refused.has_problem("pubkey"));
    assert_eq!(refused.field(new, "displayName"), "Scribe");
    let fields =
        [("handle", "scribe@agents.example"), ("pubkey", PUBKEY), ("skills", "writing, x")];
    let made = ada.submit(&refused, new, &fields);
    made.shows("The agent is listed.").shows("Not verified").shows("Your organization");
    let path = made.path.clone();
    press(&ada, &made, ("action", "public"), &[]).shows("Anyone can find the listing now.");
    let listing = || server.ada().get("/agent-index/listings?mine=true").items().remove(0);
    assert_eq!(
        (&listing()["visibility"], &listing()["skills"]),
        (&json!("public"), &json!(["writing", "x"]))
    );

    let edit = format!("{path}/edit");
    let page = ada.get(&edit);
    assert_eq!(page.field(&edit, "visibility"), "public");
    let fields = [
        ("description", "Writes notes."),
        ("contactPolicy", "allowlist"),
        ("cardState", "published"),
    ];
    let saved = ada.submit(&page, &edit, &fields);
    saved.shows("The listing was saved.").shows("Writes notes.");
    saved.shows("Domains that a rule of the team allows").shows("Served to whoever sees");
    let now = listing();
    assert_eq!(
        (&now["contactPolicy"], &now["cardState"]),
        (&json!("allowlist"), &json!("published"))
    );
    assert_eq!(listing()["skills"], json!(["writing", "x"]));
    ada.submit(&ada.get(&edit), &edit, &[("description", "")]).hides("Writes notes.");
    let ben = server.signed_in("ben@acme.test");
    ben.get(&path).shows("scribe@agents.example").hides("Make private").hides("Delete this");
    assert_eq!((ben.get(&edit).status, ben.get(new).status), (403, 403));
    press(&ada, &ada.get(&path), ("action", "private"), &[]).shows("Only your organization sees");
    let delete = format!("{path}/delete");
    let page = ada.get(&delete);
    page.shows("Nobody finds the agent as scribe@agents.example any more");
    assert_eq!(listing()["visibility"], "organization");
    ada.submit(&page, &delete, &[]).shows("The listing was deleted.");
    assert_eq!(ada.get(&path).status, 404);
    assert!(server.ada().get("/agent-index/listings?mine=true").items().is_empty());
}

#[test]
fn a_listing_of_another_organization_is_shown_without_what_its_owners_see() {
    let server = Running::new();
    server.add("ben", "member");
    crate::filled::directory(&server, "Harbour");
    let id = server.ada().get("/agent-index/listings?mine=true").items()[0]["id"].clone();
    let id = id.as_str().unwrap();
    let public = json!({"visibility": "public"});
    server.ada().patch(&format!("/agent-index/listings/{id}"), public).ok();
    let body = json!({"slug": "globex", "name": "Globex"});
    server.api("ben@acme.test").ask("POST", "/organizations").json(&body).send().ok();
    let ben = server.signed_in("ben@acme.test");
    let path = format!("/o/globex/directory/listings/{id}");
    ben.get(&path).shows("Harbour").hides("Takes requests of").hides("Change");
    assert_eq!(ben.get(&format!("{path}/edit")).status, 404);
    assert_eq!(ben.get(&format!("{path}/delete")).status, 404);
}

#[test]
fn a_channel_gets_another_address_and_keeps_its_secret() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let ada = server.signed_in("ada@acme.test");
    let make = |workflow: &str, config| {
        let body = json!({"name": workflow, "workflow": workflow, "config": config});
        let id = api.post("/notifications/channels", body).id();
        (format!("/notifications/channels/{id}"), format!("/o/acme/operations/channels/{id}/edit"))
    };
    let change = |edit: &str, fields: &[(&str, &str)]| {
        let page = ada.get(edit);
        ada.submit(&page, edit, fields).shows("The channel was saved.").clone()
    };
    let (path, edit) = make("webhook", json!({"url": "https://127.0.0.1:9/one"}));
    let page = ada.get(&edit);
    assert_eq!(page.field(&edit, "url"), "https://127.0.0.1:9/one");
    let refused = ada.send(&page, &edit, &[("name", "Hook"), ("url", "nowhere")]);
    assert_eq!((refused.status, refused.field(&edit, "url").as_str()), (400, "nowhere"));
    assert!(refused.has_problem("url"));
    change(&edit, &[("name", "Hook"), ("url", "https://127.0.0.1:9/two")]).shows("Hook");
    assert_eq!(api.get(&path).ok()["config"]["url"], "https://127.0.0.1:9/two");
    // Another host has another secret, which is shown once.
    let page = ada.get(&edit);
    let moved = ada.send(&page, &edit, &[("url", "https://localhost:9/two")]);
    assert!(moved.text.contains("whsec_"), "{}", moved.text);

    let (path, edit) = make("email", json!({"to": ["a@acme.test", "b@acme.test"]}));
    assert_eq!(ada.get(&edit).field(&edit, "to"), "a@acme.test\nb@acme.test");
    change(&edit, &[("to", "a@acme.test\nc@acme.test")]);
    assert_eq!(api.get(&path).ok()["config"]["to"], json!(["a@acme.test", "c@acme.test"]));

    let (path, edit) = make("slack", json!({"url": "https://hooks.test/services/secret"}));
    let page = ada.get(&edit);
    page.shows("At present one of hooks.test");
    assert!(!page.text.contains("services/secret"));
    change(&edit, &[("name", "Chat")]);
    assert_eq!(api.get(&path).ok()["config"]["url"], "hooks.test");
    change(&edit, &[("url", "https://other.test/x")]);
    assert_eq!(api.get(&path).ok()["config"]["url"], "other.test");

    let other = api.post("/teams", json!({"slug": "other", "name": "Other"})).id();
    let hired = json!({"stableKey": "scribe", "role": "member"});
    let second = api.post(&format!("/teams/{other}/agents"), hired).id();
    let (path, edit) = make("agent_wake", json!({"teamId": team, "agentId": agent}));
    assert_eq!(ada.get(&edit).field(&edit, "agent"), agent);
    let elsewhere = ada.get(&format!("{edit}?team={other}"));
    ada.submit(&elsewhere, &edit, &[]).shows("The channel was saved.");
    assert_eq!(api.get(&path).ok()["config"], json!({"teamId": other, "agentId": second}));
    server.add("ben", "member");
    assert_eq!(server.signed_in("ben@acme.test").get(&edit).status, 403);
}

#[test]
fn rules_for_domains_decide_about_outside_agents() {
    let server = Running::new();
    server.add("ben", "member");
    let (team, _) = server.team("crew", "scribe");
    let ben = server.signed_in("ben@acme.test");
    let rules = "/o/acme/teams/crew/peers/rules";
    ben.get("/o/acme/teams/crew/peers").shows("Rules for domains");
    let page = ben.get(rules);
    page.shows("There are no rules").hides("For all teams");
    let refused = press(&ben, &page, ("action", "set"), &[("domain", "no domain")]);
    assert_eq!((refused.status, refused.has_problem("domain")), (400, true));
    let fields = [("domain", "partner-1.test"), ("rule", "allow")];
    press(&ben, &refused, ("action", "set"), &fields).shows("The rule applies").shows("This team");
    let ada = server.signed_in("ada@acme.test");
    let fields = [("domain", "spam.test"), ("rule", "block"), ("orgWide", "yes")];
    let page = press(&ada, &ada.get(rules), ("action", "set"), &fields);
    page.shows("Turned away").shows("All teams");
    // Ben may remove the team's own alone.
    let buttons = ben
        .get(rules)
        .forms()
        .into_iter()
        .filter(|form| form.buttons.contains(&("action".into(), "remove".into())));
    assert_eq!(buttons.count(), 1);
    let listed = server.ada().get(&format!("/teams/{team}/exchange/domain-rules")).items();
    let of = |domain: &str| listed.iter().find(|rule| rule["domain"] == domain).unwrap();
    assert_eq!(
        (&of("spam.test")["orgWide"], &of("spam.test")["rule"]),
        (&json!(true), &json!("block"))
    );
    press(&ben, &ben.get(rules), ("action", "remove"), &[]).shows("The rule was deleted.");
    ben.get(rules).hides("partner-1.test").shows("spam.test");
}

#[test]
fn an_agents_wakes_are_posted_to_an_address_whose_secret_is_shown_once() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let ada = server.signed_in("ada@acme.test");
    let path = format!("/o/acme/teams/crew/agents/{agent}");
    let page = ada.get(&path);
    page.shows("when it asks").hides("Do not post");
    for (address, status) in [("", 400), ("nowhere", 400)] {
        let refused = press(&ada, &page, ("action", "wake"), &[("wakeUrl", address)]);
        assert_eq!((refused.status, refused.has_problem("wakeUrl")), (status, true), "{address}");
    }
    let set = [("wakeUrl", "https://scribe.test/wake")];
    let once = press(&ada, &page, ("action", "wake"), &set);
    once.shows("whsec_").shows("It is not shown again.");
    assert_eq!(once.reply.header("cache-control"), Some("no-store"));
    let page = ada.get(&path);
    page.shows("https://scribe.test/wake").hides("whsec_");
    let same_host = [("wakeUrl", "https://scribe.test/other")];
    let other = press(&ada, &page, ("action", "wake"), &same_host);
    other.shows("Its wakes are posted there").hides("whsec_");
    press(&ada, &other, ("action", "wake"), &[("wakeUrl", "https://other.test/")]).shows("whsec_");
    let stored =
        || server.ada().get(&format!("/teams/{team}/agents/{agent}")).ok()["wakeUrl"].clone();
    assert_eq!(stored(), "https://other.test/");
    press(&ada, &ada.get(&path), ("action", "quiet"), &[]).shows("are not posted any more");
    assert_eq!(stored(), json!(null));
}

#[test]
fn what_waits_in_all_teams_is_on_pages_that_today_leads_to() {
    let server = Running::new();
    let api = server.ada();
    for (slug, key) in [("one", "ann"), ("two", "bob")] {
        let (team, agent) = server.team(slug, key);
        for number in 0..4 {
            let text = format!("{key} {number}");
            let mail = json!({"fromAgentId": agent, "subject": text, "body": "b"});
            api.post(&format!("/teams/{team}/inbox"), mail).ok();
            let question = json!({"agentId": agent, "title": text});
            api.post(&format!("/teams/{team}/approvals"), question).ok();
        }
        for _ in 0..3 {
            outside::ask(&server, slug, "May I?");
        }
    }
    let ada = server.signed_in("ada@acme.test");
    let today = ada.get("/o/acme");
    for (path, title, texts) in [
        ("/o/acme/waiting/mail", "Unread mail", ["ann 0", "bob 3"]),
        ("/o/acme/waiting/approvals", "Agents ask for a decision", ["ann 0", "bob 3"]),
        ("/o/acme/waiting/peers", "Outside agents ask to write", ["one", "two"]),
    ] {
        assert!(today.links().contains(&path.to_string()), "{path}");
        let page = ada.get(path);
        page.shows(title);
        for text in texts {
            page.shows(text);
        }
        let first =
            page.links().into_iter().find(|link| link.starts_with("/o/acme/teams/")).unwrap();
        assert_eq!(ada.get(&first).status, 200);
    }
    let none = Running::new();
    none.signed_in("ada@acme.test").get("/o/acme/waiting/mail").shows("None wait, in any team.");
}
