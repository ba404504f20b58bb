//! Acting on many: tasks that are moved, documents that are deleted, deliveries that are made again; what is
//! refused, sent twice, or sent without anything.

use serde_json::{Value, json};

use crate::server::Running;

const NOBODY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[test]
fn many_tasks_are_moved_and_what_is_refused_says_why() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    server.add("vera", "viewer");
    let api = server.ada();
    let tasks = format!("/teams/{team}/tasks");
    let made = ["One", "Two", "Three"].map(|title| api.post(&tasks, json!({"title": title})).id());
    let ada = server.signed_in("ada@acme.test");
    let list = ada.get("/o/acme/teams/crew/tasks");
    list.shows("Move the ticked ones");
    let many = "/o/acme/teams/crew/tasks/many";
    let [one, two, three] = &made;
    let page = ada.get(&format!("{many}?each={one}&each={two}&each={one}"));
    page.shows("One").shows("Two").hides("Three");
    let moved = ada.submit(&page, many, &[("status", "done")]);
    moved.shows("The tasks were moved.");
    let status = |id: &str| api.get(&format!("{tasks}/{id}")).ok()["status"].clone();
    assert_eq!([status(one), status(two), status(three)], ["done", "done", "open"]);
    // One that is gone meanwhile stays with its reason; the other is moved.
    let page = ada.get(&format!("{many}?each={three}&each=01890a5d-ac96-774b-bcce-b302099a8057"));
    let refused = ada.send(&page, many, &[("status", "blocked")]);
    assert_eq!(refused.status, 404);
    refused.shows("These were refused; the others are done.").hides("Three");
    assert_eq!(status(three), "blocked");
    ada.get(many).shows("Nothing is ticked.");
    let vera = server.signed_in("vera@acme.test");
    vera.get("/o/acme/teams/crew/tasks").hides("Move the ticked ones");
    assert_eq!(vera.get(&format!("{many}?each={one}")).status, 403);
}

#[test]
fn many_documents_are_deleted() {
    let server = Running::new();
    let api = server.ada();
    let base = api.post("/knowledge-bases", json!({"name": "Rules"})).id();
    let documents = format!("/knowledge-bases/{base}/documents");
    let document = |name: &str| api.post(&documents, json!({"name": name, "content": "T"})).id();
    let ids = ["first", "second", "third"].map(document);
    let ada = server.signed_in("ada@acme.test");
    let list = format!("/o/acme/knowledge/{base}");
    ada.get(&list).shows("Delete the ticked ones");
    let many = format!("{list}/documents/many");
    let page = ada.get(&format!("{many}?each={}&each={}", ids[0], ids[1]));
    page.shows("first").shows("second").hides("third");
    ada.submit(&page, &many, &[]).shows("The documents were deleted.").shows("third");
    assert_eq!(api.get(&documents).items().len(), 1);
}

#[test]
fn deliveries_are_named_and_delivered_again() {
    let server = Running::new();
    server.registry();
    for name in ["one", "two", "three"] {
        server.publish("prompt", name, "1.0.0", "Text.");
    }
    let api = server.ada();
    let logs = || -> Vec<(Value, Value)> {
        let items = api.get("/notifications/logs").items().into_iter();
        items.map(|one| (one["id"].clone(), one["attempts"].clone())).collect()
    };
    let before = logs();
    let ids: Vec<_> = before.iter().take(2).map(|(id, _)| id.as_str().unwrap()).collect();
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme/operations/log").shows("Deliver the ticked ones again");
    let many = "/o/acme/operations/log/many";
    let page = ada.get(&format!("{many}?each={}&each={}", ids[0], ids[1]));
    page.shows("registry.artifact_published").hides(ids[0]);
    ada.submit(&page, many, &[]).shows("delivered again");
    for (id, attempts) in logs() {
        let was = &before.iter().find(|(known, _)| *known == id).unwrap().1;
        assert_eq!(
            attempts != *was,
            ids.contains(&id.as_str().unwrap()),
            "{id}: {was}, {attempts}"
        );
    }
}

#[test]
fn documents_that_are_deleted_twice_are_deleted() {
    let server = Running::new();
    let api = server.ada();
    let base = api.post("/knowledge-bases", json!({"name": "Rules"})).id();
    let documents = format!("/knowledge-bases/{base}/documents");
    let id = api.post(&documents, json!({"name": "first", "content": "T"})).id();
    let ada = server.signed_in("ada@acme.test");
    let many = format!("/o/acme/knowledge/{base}/documents/many");
    let page = ada.get(&format!("{many}?each={id}"));
    for time in ["once", "twice"] {
        let sent = ada.send(&page, &many, &[]);
        assert_eq!(sent.status, 303, "{time}: {}", sent.words());
    }
    assert!(api.get(&documents).items().is_empty());
}

#[test]
fn where_nothing_was_done_nothing_is_said_to_be() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let api = server.ada();
    let tasks = format!("/teams/{team}/tasks");
    let one = api.post(&tasks, json!({"title": "One"})).id();
    let ada = server.signed_in("ada@acme.test");
    let many = "/o/acme/teams/crew/tasks/many";
    let page = ada.get(&format!("{many}?each={NOBODY}"));
    let refused = ada.send(&page, many, &[("status", "done")]);
    assert_eq!(refused.status, 404);
    refused.shows("All were refused; nothing was done.").hides("the others are done");
    let mut none = ada.get(&format!("{many}?each={one}")).form(many);
    none.fields.retain(|(name, _)| name != "each");
    let sent = ada.send_form(&none, &[("status", "done")]);
    assert_eq!(sent.status, 200, "{}", sent.words());
    sent.shows("Nothing is ticked.").hides("The tasks were moved.");
    assert_eq!(api.get(&format!("{tasks}/{one}")).ok()["status"], "open");
}
