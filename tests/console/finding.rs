//! Choosing and finding: fields in which something is chosen, the search and its actions, filters of lists.

use serde_json::{Value, json};

use crate::client::eventually;
use crate::journeys::sign_in;
use crate::server::{PASSWORD, Running};
use crate::visitor::{Page, Visitor};
use crate::webdriver::driver;

const DEPLOY: &str = "/o/acme/deployments/new";
const EDIT: &str = "/o/acme/agents/scribe/edit";
const ADD: &str = "/o/acme/teams/crew/agents/add";

/// What a field is offered, by the query of the script.
fn choices(visitor: &Visitor, query: &str) -> Vec<String> {
    let page = visitor.get(&format!("/o/acme/choose?{query}"));
    assert_eq!(page.status, 200, "{query}: {}", page.words());
    let tags = crate::html::tags(&page.text);
    let values = tags.iter().filter_map(|tag| tag.get("data-value"));
    values.map(String::from).collect()
}

/// What can be picked for a field of a form without scripts.
fn picks(page: &Page, action: &str, name: &str) -> Vec<String> {
    let (form, name) = (page.form(action), format!("pick.{name}"));
    let found = form.choices.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no {name} on {}", page.words())).1
}

fn agent(server: &Running, key: &str, name: &str) {
    server.ada().post("/agents", json!({"stableKey": key, "name": name})).ok();
}

#[test]
fn a_field_is_offered_what_fits_and_never_more_than_twenty() {
    let server = Running::new();
    server.registry();
    for name in ["notes", "release-notes", "other"] {
        server.publish("prompt", name, "1.0.0", "Text.");
    }
    server.publish("prompt", "notes", "1.1.0", "Text.");
    server.publish("promptlet", "notes-part", "1.0.0", "Text.");
    let label = json!({"registryRef": "main", "promptName": "notes", "label": "production",
        "version": "1.0.0"});
    server.ada().patch("/registries/artifacts/labels", label).ok();
    for n in 0..30 {
        agent(&server, &format!("bot-{n}"), &format!("Bot {n}"));
    }
    let ada = server.signed_in("ada@acme.test");
    assert_eq!(choices(&ada, "kind=agent&q=bot").len(), 20);
    assert_eq!(choices(&ada, "kind=agent&q=").len(), 20);
    assert_eq!(choices(&ada, "kind=agent&q=bot-1")[0], "bot-1");
    assert_eq!(choices(&ada, "kind=agent&q=Bot+2")[0], "bot-2");
    assert_eq!(choices(&ada, "kind=prompt&q=notes"), ["notes", "release-notes"]);
    assert_eq!(choices(&ada, "kind=prompt&q=oth&registry=acme%2Fmain"), ["other"]);
    assert_eq!(choices(&ada, "kind=prompt&q=&registry=main").len(), 3);
    assert_eq!(choices(&ada, "kind=registry&q=acme%2Fma"), ["acme/main"]);
    let versions = "kind=version&registry=acme%2Fmain&prompt=notes&q=";
    assert_eq!(choices(&ada, versions), ["production", "1.1.0", "1.0.0"]);
    assert_eq!(choices(&ada, &format!("{versions}1.1")), ["1.1.0"]);
    // What cannot be looked for finds nothing, and is no error.
    let long = "x".repeat(5000);
    for query in [
        format!("kind=agent&q={long}"),
        format!("kind=prompt&q=a&registry={}", "r".repeat(500)),
        "kind=version&q=1&registry=acme%2Fnone&prompt=none".into(),
        "kind=prompt&q=a&registry=elsewhere%2Fmain".into(),
        "kind=version&q=1".into(),
    ] {
        assert_eq!(choices(&ada, &query), [""; 0], "{query:.40}");
    }
    assert_eq!(ada.get("/o/acme/choose?kind=secret&q=a").status, 404);
}

#[test]
fn nobody_is_offered_what_they_may_not_see() {
    let server = Running::new();
    server.add("ben", "member");
    let api = server.ada();
    let of = |slug: &str| json!({"slug": slug, "name": "Vault", "access": "restricted"});
    api.post("/registries", of("vault")).ok();
    api.post("/environments", of("vault")).ok();
    let fleet = api.post("/fleets", json!({"name": "Vault", "access": "restricted"})).id();
    let hidden = json!({"stableKey": "vault", "name": "Vault", "fleetId": fleet});
    api.post("/agents", hidden).ok();
    let version = json!({"registryRef": "vault", "artifactType": "prompt", "name": "vault",
        "version": "1.0.0", "source": "Vault"});
    api.post("/registries/artifacts", version).ok();
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    for (kind, value) in [
        ("agent", "vault"),
        ("environment", "vault"),
        ("registry", "acme/vault"),
        ("prompt", "vault"),
    ] {
        for typed in ["vau", "vault", ""] {
            let query = format!("kind={kind}&q={typed}");
            if !(kind == "prompt" && typed.is_empty()) {
                assert_eq!(choices(&ada, &query), [value], "{query}");
            }
            assert_eq!(choices(&ben, &query), [""; 0], "{query}");
        }
    }
    for query in ["kind=prompt&q=&registry=vault", "kind=version&q=&registry=vault&prompt=vault"] {
        assert_eq!(choices(&ada, query).len(), 1, "{query}");
        assert_eq!(choices(&ben, query), [""; 0], "{query}");
    }
    assert_eq!(server.visitor().get("/o/acme/choose?kind=agent&q=").status, 303);
}

#[test]
fn a_deployment_keeps_the_agent_that_it_was_opened_for_among_many() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    for n in 0..105 {
        agent(&server, &format!("bot-{n}"), &format!("Bot {n}"));
    }
    let ada = server.signed_in("ada@acme.test");
    let form = ada.get(&format!("{DEPLOY}?agent=scribe"));
    let ticked = "value=\"scribe\" checked";
    assert!(form.text.contains(ticked), "{}", form.text);
    assert_eq!(form.text.matches(" checked").count(), 1);
    // As a browser sends it: the boxes that are ticked, and no others.
    let mut sent = form.form(DEPLOY);
    sent.fields.retain(|(name, value)| name != "agent" || value == "scribe");
    let fields = [("action", "preview"), ("promptName", "note")];
    let refused = ada.send_form(&sent, &fields);
    assert_eq!(refused.status, 404, "{}", refused.words());
    assert!(refused.text.contains(ticked), "it is ticked still");
    assert!(picks(&refused, DEPLOY, "promptName").contains(&"notes".to_string()));
    let mut sent = refused.form(DEPLOY);
    sent.fields.retain(|(name, value)| name != "agent" || value == "scribe");
    let fields = [("action", "preview"), ("pick.promptName", "notes")];
    let preview = ada.send_form(&sent, &fields);
    assert_eq!(preview.status, 200, "{}", preview.words());
    ada.submit(&preview, DEPLOY, &[("action", "deploy")]).shows("The deployment was created.");
    let jobs = server.ada().get("/agents/deployments").items();
    assert_eq!(jobs.len(), 1);
    eventually("the deployment", || {
        let places = server.ada().get("/agents/scribe/environments").items();
        places.first().is_some_and(|place| place["live"] != Value::Null).then_some(())
    });
}

#[test]
fn a_prompt_that_is_not_there_is_refused_where_it_is_entered() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "release-notes", "1.0.0", "Text.");
    agent(&server, "scribe", "Scribe");
    let ada = server.signed_in("ada@acme.test");
    let stored = || server.ada().get("/agents/scribe").ok()["draft"].clone();
    let wrong = [("draft.registryRef", "acme/main"), ("draft.promptName", "release")];
    let refused = ada.send(&ada.get(EDIT), EDIT, &wrong);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("draft.promptName"), "{}", refused.words());
    refused.shows("Prompt must be a prompt of this registry");
    assert_eq!(refused.field(EDIT, "draft.promptName"), "release", "kept");
    assert_eq!(stored()["promptName"], Value::Null);
    assert_eq!(picks(&refused, EDIT, "draft.promptName"), ["", "release-notes"]);
    let unknown = [("draft.registryRef", "acme/mian"), ("draft.promptName", "release-notes")];
    let elsewhere = ada.send(&ada.get(EDIT), EDIT, &unknown);
    assert_eq!(elsewhere.status, 400);
    assert!(elsewhere.has_problem("draft.registryRef"), "{}", elsewhere.words());
    assert!(picks(&elsewhere, EDIT, "draft.registryRef").contains(&"acme/main".to_string()));
    let picked = [("pick.draft.promptName", "release-notes"), ("draft.model", "small")];
    ada.submit(&refused, EDIT, &picked).shows("The draft was saved.");
    assert_eq!(
        (&stored()["promptName"], &stored()["model"]),
        (&json!("release-notes"), &json!("small"))
    );
    // One that has gone since does not keep the rest from being changed.
    let gone = json!({"draft": {"promptName": "gone"}});
    server.ada().patch("/agents/scribe", gone).ok();
    ada.submit(&ada.get(EDIT), EDIT, &[("draft.model", "large")]).shows("The draft was saved.");
    assert_eq!(stored()["model"], "large");
}

#[test]
fn an_agent_of_a_team_is_found_by_typing_and_sending() {
    let server = Running::new();
    server.team("crew", "scribe");
    agent(&server, "night-herald", "The herald");
    let ada = server.signed_in("ada@acme.test");
    let refused = ada.send(&ada.get(ADD), ADD, &[("stableKey", "herald"), ("skills", "news")]);
    assert_eq!(refused.status, 404);
    assert_eq!(picks(&refused, ADD, "stableKey"), ["", "night-herald"]);
    let picked = [("pick.stableKey", "night-herald")];
    ada.submit(&refused, ADD, &picked).shows("in the team now").shows("news");
}

#[test]
fn each_kind_has_a_page_of_what_was_found_and_the_whole_name_comes_first() {
    let server = Running::new();
    for n in 0..45 {
        agent(&server, &format!("bot-{n}"), &format!("Bot {n}"));
    }
    let ada = server.signed_in("ada@acme.test");
    let found = ada.get("/o/acme/search?q=bot-1");
    found.shows("Agents Bot 1 bot-1");
    let all = ada.get("/o/acme/search?q=bot");
    all.shows("More agents");
    let mut next = all.links().into_iter().find(|link| link.contains("kind=agent")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let page = ada.get(&next);
        page.shows("Only Agents.");
        seen.extend(page.links().into_iter().filter(|link| link.contains("/agents/bot-")));
        let Some(more) = page.links().into_iter().find(|link| link.contains("offset=")) else {
            break;
        };
        next = more;
    }
    assert_eq!(seen.len(), 45);
    let list = ada.get("/o/acme/agents?q=bot-7");
    list.shows("Bot 7").hides("Bot 8");
}

#[test]
fn lists_are_filtered_by_words() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "release-notes", "1.0.0", "About the keel.");
    server.publish("promptlet", "release-tone", "1.0.0", "Calm.");
    server.ada().post("/registries", json!({"slug": "other", "name": "Other"})).ok();
    let body = json!({"registryRef": "other", "artifactType": "prompt", "name": "release-other",
        "version": "1.0.0", "source": "Text."});
    server.ada().post("/registries/artifacts", body).ok();
    let (team, _) = server.team("crew", "scribe");
    for title in ["Mend the mast", "Paint the keel"] {
        server.ada().post(&format!("/teams/{team}/tasks"), json!({"title": title})).ok();
    }
    let ada = server.signed_in("ada@acme.test");
    let main = "/o/acme/prompts/main";
    let page = ada.get(&format!("{main}?q=release"));
    page.shows("release-notes").shows("release-tone").hides("release-other");
    ada.get(&format!("{main}?q=release&type=promptlet")).hides("release-notes");
    ada.get(&format!("{main}?q=keel")).shows("release-notes").shows("1.0.0");
    ada.get(&format!("{main}?q=none")).shows("Nothing of these has such a name");
    let long = "x".repeat(300);
    assert_eq!(ada.get(&format!("{main}?q={long}")).status, 200);
    let tasks = ada.get("/o/acme/teams/crew/tasks?q=mast");
    tasks.shows("Mend the mast").hides("Paint the keel");
}

#[test]
fn what_can_be_done_is_found_by_those_who_may_and_leads_there() {
    let server = Running::new();
    server.add("vera", "viewer");
    server.add("ben", "member");
    server.registry();
    server.publish("prompt", "release-notes", "1.0.0", "Text.");
    server.ada().post("/teams", json!({"slug": "ship", "name": "Shipping"})).ok();
    let ada = server.signed_in("ada@acme.test");
    for (words, shown, path) in [
        ("new+task+in+Shipping", "New task in Shipping", "/o/acme/teams/ship/tasks/new"),
        ("new+task+ship", "New task in Shipping", "/o/acme/teams/ship/tasks/new"),
        ("promote+release", "Promote release-notes", "/o/acme/prompts/main/release-notes/labels"),
        ("new+prompt+in+Main", "New prompt in Main", "/o/acme/registries/main/new"),
        ("new+reg", "New registry", "/o/acme/registries/new"),
        ("promo", "Promote … (choose a prompt)", "/o/acme/prompts"),
        ("", "New agent", "/o/acme/new/agent"),
    ] {
        let page = ada.get(&format!("/o/acme/search?q={words}"));
        page.shows(shown);
        assert!(page.links().contains(&path.to_string()), "{words}: {:?}", page.links());
        assert_eq!(ada.open(path).status, 200, "{path}");
    }
    let all = ada.get("/o/acme/search");
    for words in [
        "New agent",
        "New team",
        "New environment",
        "New registry",
        "New tool",
        "New fleet",
        "New policy",
        "New API key",
        "New knowledge base",
        "New notification channel",
        "Invite a member",
    ] {
        all.shows(words);
    }
    // Its words are those of a section, too.
    assert!(all.links().contains(&DEPLOY.to_string()), "{:?}", all.links());
    for link in all.links() {
        assert_eq!(ada.open(&link).status, 200, "{link}");
    }
    let ben = server.signed_in("ben@acme.test");
    ben.get("/o/acme/search?q=new").shows("New agent").hides("New registry");
    let vera = server.signed_in("vera@acme.test");
    vera.get("/o/acme/search?q=new").hides("New agent").shows("New API key");
    vera.get("/o/acme/search?q=promote+release").hides("Promote release-notes");
}

#[test]
fn a_deployment_keeps_the_registry_that_it_was_opened_for_wherever_it_is() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    let ada = server.signed_in("ada@acme.test");
    let form = ada.get(&format!("{DEPLOY}?agent=scribe&registry=globex%2Fopen&prompt=zz-first"));
    assert_eq!(form.field(DEPLOY, "registryRef"), "globex/open");
    let refused = ada.send(&form, DEPLOY, &[("action", "preview"), ("version", "9.9.9")]);
    assert_eq!(refused.field(DEPLOY, "registryRef"), "globex/open", "{}", refused.words());
}

#[test]
fn a_tool_that_is_not_among_the_newest_can_be_removed_from_a_draft() {
    let server = Running::new();
    let api = server.ada();
    let tool = |name: &str| api.post("/tools", json!({"name": name, "type": "http"})).id();
    let oldest = tool("Oldest");
    for n in 0..101 {
        tool(&format!("Tool {n}"));
    }
    let draft = json!({"toolRefs": [{"toolId": oldest}]});
    let body = json!({"stableKey": "scribe", "name": "Scribe", "draft": draft});
    api.post("/agents", body).ok();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(EDIT);
    assert!(page.text.contains(&format!("value=\"{oldest}\" checked")), "{}", page.words());
    page.shows("Oldest").shows("Other tools");
    // As a browser sends it: without the boxes, of which none is ticked.
    let mut sent = page.form(EDIT);
    sent.fields.retain(|(name, _)| name != "tool");
    let saved = ada.send_form(&sent, &[]);
    assert_eq!(saved.status, 303, "{}", saved.words());
    assert_eq!(api.get("/agents/scribe").ok()["draft"]["toolRefs"], json!([]));
}

#[test]
fn what_was_picked_is_kept_through_a_sign_in() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "release-notes", "1.0.0", "Text.");
    server.ada().post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    let ada = server.signed_in("ada@acme.test");
    let wrong = [("draft.registryRef", "acme/main"), ("draft.promptName", "release")];
    let refused = ada.send(&ada.get(EDIT), EDIT, &wrong);
    assert_eq!(refused.status, 400, "{}", refused.words());
    server.api("ada@acme.test").delete("/auth/sessions").ok();
    let over = ada.send(&refused, EDIT, &[("pick.draft.promptName", "release-notes")]);
    assert_eq!(over.status, 401, "{}", over.words());
    let signed = [("email", "ada@acme.test"), ("password", PASSWORD)];
    let shown = ada.send(&over, "/sign-in", &signed);
    assert_eq!(shown.status, 200, "{}", shown.words());
    assert_eq!(shown.field(EDIT, "draft.promptName"), "release-notes");
}

#[test]
fn a_field_is_a_combobox_that_keys_walk_through() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.team("crew", "scribe");
    for key in ["herald-one", "herald-two"] {
        agent(&server, key, key);
    }
    let browser = driver.browser(1280, 800, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}{ADD}", server.address));
    let field = "#f-stableKey";
    let of = |name: &str| {
        let script = format!("return document.querySelector('{field}').getAttribute('{name}')");
        browser.run(&script)
    };
    assert_eq!((of("role"), of("aria-expanded")), (json!("combobox"), json!("false")));
    browser.press(field, "her");
    eventually("the choices", || (of("aria-expanded") == "true").then_some(()));
    let options = "return document.querySelectorAll('.choose [role=option]').length";
    assert_eq!(browser.run(options), 2);
    let told = "return document.querySelector('.choose [role=status]').textContent";
    assert_eq!(browser.run(told), "2 choices");
    // Escape closes the list, and leaves what was typed.
    browser.press(field, "\u{E00C}");
    assert_eq!((of("aria-expanded"), browser.value(field)), (json!("false"), "her".into()));
    browser.press(field, "a");
    eventually("the choices", || (of("aria-expanded") == "true").then_some(()));
    browser.press(field, "\u{E015}");
    assert!(of("aria-activedescendant").is_string());
    // What was marked is not what Enter takes once something else is typed.
    let each = "document.querySelectorAll('.choose [role=option]')";
    browser.run(&format!("{each}.forEach((one) => one.dataset.old = '')"));
    browser.press(field, "l");
    assert_eq!(of("aria-activedescendant"), Value::Null);
    let new = format!("return [...{each}].filter((one) => !('old' in one.dataset)).length");
    eventually("the answer", || (browser.run(&new) == 2).then_some(()));
    browser.press(field, "\u{E015}");
    let active = "return document.getElementById(document.activeElement\
                  .getAttribute('aria-activedescendant')).dataset.value";
    let first = browser.run(active);
    browser.press(field, "\u{E007}");
    assert_eq!(json!(browser.value(field)), first, "Enter takes it, and sends nothing");
    browser.click("main form button.primary");
    browser.shows("in the team now");
    let team = server.ada().get("/teams?slug=crew").items()[0]["id"].clone();
    let agents = server.ada().get(&format!("/teams/{}/agents", team.as_str().unwrap())).items();
    assert!(agents.iter().any(|agent| agent["stableKey"] == first), "{agents:?}");
}

#[test]
fn ctrl_k_finds_and_does() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.ada().post("/teams", json!({"slug": "ship", "name": "Shipping"})).ok();
    let browser = driver.browser(1280, 800, true);
    sign_in(&browser, &server, "ada@acme.test");
    let home = format!("http://{}/o/acme", server.address);
    browser.open(&home);
    browser.press(".side [data-find]", "\u{E009}k");
    browser.press(".palette input", "new task in ship");
    let first = "return document.querySelector('.palette [aria-selected=true]')?.textContent ?? ''";
    let is_first = |text: &str| browser.run(first).as_str().unwrap_or_default().contains(text);
    eventually("the action", || is_first("New task in Shipping").then_some(()));
    browser.press(".palette input", "\u{E007}");
    let target = format!("{home}/teams/ship/tasks/new");
    eventually("its page", || (browser.url() == target).then_some(()));
    // Enter that is pressed before the answer goes where that leads, not where an earlier one does.
    browser.open(&home);
    browser.press(".side [data-find]", "\u{E009}k");
    browser.press(".palette input", "new task in ship\u{E007}");
    eventually("its page", || (browser.url() == target).then_some(()));
    // Escape leaves the page as it was.
    browser.press(".side [data-find]", "\u{E009}k");
    browser.press(".palette input", "\u{E00C}");
    let is_open = "return document.querySelector('dialog') !== null";
    eventually("the end of it", || (browser.run(is_open) == false).then_some(()));
    assert_eq!(browser.url(), target);
    // With the keys switched off it does not open.
    browser.open(&target);
    browser.keys("?");
    browser.click("dialog button:last-child");
    let listen = "window.taken = []; addEventListener('keydown', (event) => {
        if (event.key === 'k') window.taken.push(event.defaultPrevented); });";
    browser.run(listen);
    browser.press(".side [data-find]", "\u{E009}k");
    assert_eq!(browser.run("return window.taken"), json!([false]), "the page takes no key");
}
