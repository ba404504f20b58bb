//! Teams: their tasks, mail, approvals, timeline, agents and peers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Caller, eventually, pick, within};
use crate::outside;
use crate::server::Running;
use crate::visitor::{Visitor, press};

const BOARD: &str = "/o/acme/teams/crew/board";
const TASK: &str = "/o/acme/teams/crew/tasks/1";

#[test]
fn a_team_is_made_and_gets_an_agent_and_tasks_that_move() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    server.ada().post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    ada.get("/o/acme/teams").shows("There are no teams yet.").shows("Create a team");
    let new = "/o/acme/new/team";
    let wrong = [("name", "Crew"), ("slug", "No slug"), ("monthlyUsd", "much")];
    let refused = ada.send(&ada.get(new), new, &wrong);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("monthlyUsd") && refused.has_problem("slug"));
    let right = [("name", "Crew"), ("slug", "crew"), ("monthlyUsd", "50")];
    let page = ada.submit(&refused, new, &right);
    page.shows("The team was created.").shows("$0.00 of $50.00").shows("No agent is in this team");
    let add = "/o/acme/teams/crew/agents/add";
    let refused = ada.send(&ada.get(add), add, &[("stableKey", "nobody")]);
    assert_eq!(refused.status, 404);
    let fields = [("stableKey", "scribe"), ("role", "member"), ("skills", "writing, reading,")];
    ada.submit(&refused, add, &fields).shows("in the team now").shows("writing, reading");

    ada.get(BOARD).shows("There are no tasks yet.");
    let new = "/o/acme/teams/crew/tasks/new";
    let form = ada.get(new);
    let scribe = server.ada().get("/teams?slug=crew").items()[0]["id"].clone();
    let scribe = server.ada().get(&format!("/teams/{}/agents", scribe.as_str().unwrap())).items();
    let scribe = scribe[0]["id"].as_str().unwrap().to_string();
    let fields = [("title", "Write the notes"), ("assigneeAgentId", &scribe), ("priority", "1")];
    ada.submit(&form, new, &fields).shows("The task was created.").shows("Write the notes");
    ada.get("/o/acme/teams/crew/activity").shows("created the task").shows("#1 Write the notes");
    let board = ada.get(BOARD);
    board.shows("Write the notes").shows("Scribe");
    let moved = press(&ada, &board, ("task", "1"), &[("to-1", "blocked")]);
    moved.shows("The task is blocked.");
    ada.get(TASK).shows("moved from Open to Blocked");
    assert_eq!(ada.get(BOARD).field(BOARD, "to-1"), "blocked");
    let refused = press(&ada, &moved, ("task", "1"), &[("to-1", "nowhere")]);
    assert_eq!(refused.status, 400);
    refused.shows("Check what you entered");
    ada.get("/o/acme/teams/crew/tasks?only=blocked").shows("Write the notes");
    ada.get("/o/acme/teams/crew/tasks?only=free").hides("Write the notes");
}

#[test]
fn a_task_is_changed_assigned_and_annotated() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    api.post(&format!("/teams/{team}/tasks"), json!({"title": "one", "description": "x"})).ok();
    let ada = server.signed_in("ada@acme.test");
    let task = || api.get(&format!("/teams/{team}/tasks?number=1")).items().remove(0);
    let page = ada.get(TASK);
    let more = [("status", "in_progress"), ("assigneeAgentId", &*agent), ("priority", "0")];
    let page = press(&ada, &page, ("action", "save"), &more);
    page.shows("The task was saved.").shows("In progress");
    let (status, assignee) = (task()["status"].clone(), task()["assigneeAgentId"].clone());
    assert_eq!((status, assignee), (json!("in_progress"), json!(agent)));
    let claim = json!({"agentId": agent, "worker": "host-1:42", "leaseSecs": 600});
    let id = task()["id"].as_str().unwrap().to_string();
    api.post(&format!("/teams/{team}/tasks/{id}/claim"), claim).ok();
    ada.get(TASK).shows("host-1:42").shows("without a sign of life");
    let part = json!({"title": "part", "parentTaskId": id, "dependsOn": [id], "labels": ["red"],
        "dueAt": "2020-01-01T00:00:00Z"});
    let part = api.post(&format!("/teams/{team}/tasks"), part).id();
    ada.get(TASK).shows("0 of 1 done").shows("part");
    for path in ["/o/acme/teams/crew/board", "/o/acme/teams/crew/tasks"] {
        ada.get(path).shows("0 of 1 parts").shows("red");
    }
    ada.get("/o/acme/teams/crew/tasks/2").shows("Depends on").shows("one");
    eventually("it is overdue", || {
        let overdue = !api.get("/teams/overdue").items().is_empty();
        overdue.then_some(())
    });
    ada.get("/o/acme").shows("Tasks that are overdue").shows("part");
    ada.get("/o/acme/waiting/overdue").shows("part");
    let done = json!({"status": "done", "dependsOn": [], "parentTaskId": null});
    api.patch(&format!("/teams/{team}/tasks/{part}"), done).ok();
    let refused = press(&ada, &page, ("action", "edit"), &[("title", ""), ("description", "kept")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("title"));
    let page = press(&ada, &refused, ("action", "edit"), &[("title", "two")]);
    page.shows("two #1").shows("kept");
    press(&ada, &page, ("action", "edit"), &[("description", "")]);
    assert_eq!(task()["description"], Value::Null);
    press(&ada, &page, ("action", "note"), &[("body", "Look here.")]).shows("Look here.");
    let wakes = api.get(&format!("/teams/{team}/agents/{agent}/wakes?peek=true")).items();
    let reasons: Vec<_> = wakes.iter().map(|wake| wake["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["task_assigned", "task_note"]);
    failed_wakes(&ada, &api, &format!("/teams/{team}/agents/{agent}"));
    assert_eq!(ada.get("/o/acme/teams/crew/tasks/9").status, 404);
    assert_eq!(ada.get("/o/acme/teams/crew/tasks/x").status, 404);
    assert_eq!(ada.get("/o/acme/teams/none/board").status, 404);
}

#[test]
fn the_plan_of_a_task_is_changed_by_the_numbers_of_others() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let api = server.ada();
    let tasks = format!("/teams/{team}/tasks");
    let ids: Vec<_> =
        (0..3).map(|n| api.post(&tasks, json!({"title": format!("t{n}")})).id()).collect();
    let third = || api.get(&format!("{tasks}/{}", ids[2])).ok();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get("/o/acme/teams/crew/tasks/3");
    let plan = [
        ("dependsOn", "1, 2"),
        ("parentTaskId", "2"),
        ("dueAt", "2031-01-01T09:30"),
        ("labels", "red, big"),
    ];
    let page = press(&ada, &page, ("action", "plan"), &plan);
    page.shows("t0 #1").shows("Blocked").shows("Part of");
    let now = third();
    assert_eq!(now["dueAt"], "2031-01-01T09:30:00.000Z");
    assert_eq!(
        (&now["dependsOn"], &now["labels"]),
        (&json!([ids[0], ids[1]]), &json!(["red", "big"]))
    );
    assert_eq!((&now["parentTaskId"], &now["status"]), (&json!(ids[1]), &json!("blocked")));
    // Saved as it is it stays so, and an unknown number is a problem of its field.
    let page = press(&ada, &page, ("action", "plan"), &[]);
    assert_eq!(third(), now);
    let refused = press(&ada, &page, ("action", "plan"), &[("dependsOn", "1, 77")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("dependsOn"));
    let many = (1000..3000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(press(&ada, &page, ("action", "plan"), &[("dependsOn", &many)]).status, 400);
    // Somebody else has changed it meanwhile.
    api.patch(&format!("{tasks}/{}", ids[2]), json!({"labels": ["blue"]})).ok();
    let conflict = press(&ada, &page, ("action", "plan"), &[("dependsOn", "1")]);
    assert_eq!(conflict.status, 412);
    let none = [("dependsOn", ""), ("parentTaskId", ""), ("dueAt", ""), ("labels", "")];
    press(&ada, &ada.get("/o/acme/teams/crew/tasks/3"), ("action", "plan"), &none);
    let now = third();
    assert_eq!((&now["dependsOn"], &now["labels"]), (&json!([]), &json!([])));
    assert_eq!((&now["parentTaskId"], &now["dueAt"]), (&Value::Null, &Value::Null));
    assert_eq!(now["status"], "open");
}

#[test]
fn mail_to_the_people_is_read_and_answered() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    for subject in ["Which tone?", "Done"] {
        let mail = json!({"fromAgentId": agent, "subject": subject, "body": "Say <b>."});
        api.post(&format!("/teams/{team}/inbox"), mail).ok();
    }
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme").shows("Unread mail").shows("Which tone?").shows("scribe in crew");
    let inbox = ada.get("/o/acme/teams/crew/inbox");
    inbox.shows("Inbox 2 waiting").shows("Done");
    let links = inbox.links();
    let mut mails = links.iter().filter(|link| link.starts_with("/o/acme/teams/crew/inbox/"));
    let pages: Vec<_> = mails.by_ref().map(|link| ada.get(link)).collect();
    let question = pages.iter().find(|page| page.words().contains("Which tone?")).unwrap();
    let other = pages.iter().find(|page| page.words().contains("Done")).unwrap();
    ada.get("/o/acme/teams/crew/inbox").shows("Inbox 2 waiting");
    let refused = press(&ada, question, ("action", "answer"), &[("body", "")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("body"));
    let sent = press(&ada, &refused, ("action", "answer"), &[("body", "A calm one.")]);
    sent.shows("Your answer was sent.").hides("Which tone?").shows("Inbox 1 waiting");
    let got = api.get(&format!("/teams/{team}/messages?agentId={agent}")).items().remove(0);
    assert_eq!((&got["subject"], &got["body"]), (&json!("Re: Which tone?"), &json!("A calm one.")));
    let read = press(&ada, other, ("action", "read"), &[]);
    read.shows("You have read everything.");
    ada.get("/o/acme/teams/crew/inbox?show=all").shows("Which tone?").shows("Done");
    ada.get("/o/acme").hides("Unread mail");
}

#[test]
fn questions_are_decided_entries_are_added_and_memories_forgotten() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let post = |path: &str, body| api.post(&format!("/teams/{team}{path}"), body).ok();
    post("/approvals", json!({"agentId": agent, "title": "Publish?", "body": "They are ready."}));
    post(&format!("/agents/{agent}/memories"), json!({"content": "Ada likes tea."}));
    post(&format!("/agents/{agent}/runs"), json!({"status": "succeeded", "costUsd": 0.5}));
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme").shows("Agents ask for a decision").shows("Publish?");
    let page = ada.get("/o/acme/teams/crew/approvals");
    page.shows("Publish?").shows("They are ready.");
    let decided = press(&ada, &page, ("decision", "approved"), &[("comment", "Well done.")]);
    decided.shows("You approved.").shows("No decision waits");
    let stored = |path: &str| api.get(&format!("/teams/{team}{path}")).items();
    let approval = || stored("/approvals").remove(0);
    let decision = |approval: &Value| (approval["decision"].clone(), approval["comment"].clone());
    assert_eq!(decision(&approval()), (json!("approved"), json!("Well done.")));
    let again = press(&ada, &page, ("decision", "denied"), &[]);
    assert_eq!(again.status, 409);
    assert_eq!(decision(&approval()).0, "approved");
    ada.get("/o/acme/teams/crew/approvals?show=all").shows("Well done.").shows("Approved");

    let timeline = "/o/acme/teams/crew/timeline";
    let refused = ada.send(&ada.get(timeline), timeline, &[]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("title"));
    let fields = [("kind", "milestone"), ("title", "Notes are out")];
    ada.submit(&refused, timeline, &fields).shows("Notes are out").shows("Milestone");
    assert_eq!(stored("/timeline")[0]["title"], "Notes are out");
    ada.get(&format!("{timeline}?only=summary")).hides("Notes are out");
    let happened = ada.get("/o/acme/teams/crew/activity");
    happened.shows("joined the team").shows("added to the timeline").shows("Notes are out");
    happened.shows("decided: approved").shows("reported a run: succeeded").hides("likes tea");
    let filtered = ada.get("/o/acme/teams/crew/activity?kind=run_reported");
    filtered.shows("reported a run: succeeded").hides("joined the team").shows("Show all");
    assert_eq!(filtered.field("/o/acme/teams/crew/activity", "kind"), "run_reported");
    let of_agent = ada.get(&format!("/o/acme/teams/crew/activity?kind=&agentId={agent}"));
    of_agent.shows("joined the team").hides("Notes are out");
    let none = ada.get(&format!("/o/acme/teams/crew/activity?kind=agent_left&agentId={agent}"));
    none.shows("There are no entries of these.");
    // What the form does not offer leaves everything there.
    ada.get("/o/acme/teams/crew/activity?kind=no&agentId=no").shows("Notes are out");
    api.post(&format!("/teams/{team}/pause"), json!({"reason": "Audit"})).ok();
    api.post(&format!("/teams/{team}/agents/{agent}/pause"), json!({})).ok();
    api.patch(&format!("/teams/{team}"), json!({"budget": {"monthlyUsd": 5}})).ok();
    let happened = ada.get("/o/acme/teams/crew/activity");
    happened.shows("paused the team").shows("Audit").shows("paused scribe");
    happened.shows("changed the budget of the team").shows("5 USD a month");
    for place in [String::new(), format!("/agents/{agent}")] {
        api.post(&format!("/teams/{team}{place}/resume"), json!({})).ok();
    }

    let own = format!("/o/acme/teams/crew/agents/{agent}");
    let page = ada.get(&own);
    page.shows("Ada likes tea.").shows("$0.50").shows("Succeeded");
    ada.get(&format!("{own}?q=coffee")).hides("Ada likes tea.");
    press(&ada, &page, ("action", "forget"), &[]).shows("forgotten").hides("Ada likes tea.");
    let saved = press(&ada, &page, ("action", "save"), &[("role", "member"), ("skills", "tea")]);
    saved.shows("Role and skills were saved.").shows("tea");
    assert!(stored(&format!("/agents/{agent}/memories")).is_empty());
    let member = stored("/agents").remove(0);
    assert_eq!((&member["role"], &member["skills"]), (&json!("member"), &json!(["tea"])));
    let remove = format!("{own}/remove");
    let gone = ada.submit(&ada.get(&remove), &remove, &[]);
    gone.shows("The agent has left the team.");
    assert!(stored("/agents").is_empty());
}

#[test]
fn a_peer_is_refused_with_a_reason_alone_and_another_accepted() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let (first, _) = outside::ask(&server, "crew", "May I?");
    let (second, _) = outside::ask(&server, "crew", "And I?");
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme").shows("Outside agents ask to write").shows(&first);
    let list = ada.get("/o/acme/teams/crew/peers");
    list.shows(&first).shows(&second).shows("Peers 2 waiting");
    let page_of = |handle: &str| {
        let links = list.links().into_iter();
        let mut pages = links.filter(|link| link.contains("/peers/")).map(|link| ada.get(&link));
        pages.find(|page| page.words().contains(handle)).unwrap()
    };
    let page = page_of(&first);
    page.shows("May I?");
    for empty in ["", "  "] {
        let refused = press(&ada, &page, ("action", "refuse"), &[("reason", empty)]);
        assert_eq!(refused.status, 400);
        assert!(refused.has_problem("reason"), "at its field");
    }
    let refused = press(&ada, &page, ("action", "refuse"), &[("reason", "No surveys.")]);
    refused.shows("The outside agent was refused").shows("No surveys.").shows("Refused");
    let accepted = press(&ada, &page_of(&second), ("action", "accept"), &[]);
    accepted.shows("may write to the team now");
    let stored = |handle: &str| {
        let peers = server.ada().get(&format!("/teams/{team}/exchange/peers")).items();
        peers.into_iter().find(|peer| peer["handle"] == handle)
    };
    let state = |handle: &str| stored(handle).unwrap()["state"].clone();
    assert_eq!((state(&first), state(&second)), (json!("refused"), json!("accepted")));
    press(&ada, &accepted, ("action", "write"), &[("body", "Welcome.")]).shows("Your message");
    ada.get("/o/acme/teams/crew/peers?only=accepted").shows(&second).hides(&first);
    let blocked = press(&ada, &refused, ("action", "block"), &[]);
    blocked.shows("Blocked");
    assert_eq!(state(&first), "blocked");
    press(&ada, &blocked, ("action", "forget"), &[]).shows("is forgotten").hides(&first);
    assert_eq!(stored(&first), None);
}

#[test]
fn a_team_is_renamed_and_deleted_by_an_admin_alone() {
    let server = Running::new();
    server.add("ben", "member");
    server.team("crew", "scribe");
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    let settings = "/o/acme/teams/crew/settings";
    let page = ben.get(settings);
    page.hides("Delete");
    let fields = [("name", "The crew"), ("monthlyUsd", "0.5"), ("description", "Sails.")];
    ben.submit(&page, settings, &fields).shows("The team was saved.").shows("The crew");
    let stored = || server.ada().get("/teams").items();
    let team = stored().remove(0);
    assert_eq!((&team["name"], &team["description"]), (&json!("The crew"), &json!("Sails.")));
    assert_eq!(team["budget"]["monthlyUsd"].as_f64(), Some(0.5));
    assert_eq!(ben.get("/o/acme/teams/crew/delete").status, 403);
    let delete = "/o/acme/teams/crew/delete";
    assert_eq!(stored().len(), 1);
    ada.submit(&ada.get(delete), delete, &[]).shows("The team was deleted.");
    assert_eq!((ada.get(BOARD).status, stored().len()), (404, 0));
}

#[test]
fn what_a_wake_of_a_schedule_tells_and_whom_is_changed() {
    let server = Running::new();
    let (team, scribe) = server.team("crew", "scribe");
    let (api, ada) = (server.ada(), server.signed_in("ada@acme.test"));
    api.post("/agents", json!({"stableKey": "pilot", "name": "Pilot"})).ok();
    let hired = json!({"stableKey": "pilot", "role": "member"});
    let pilot = api.post(&format!("/teams/{team}/agents"), hired).id();
    let schedules = format!("/teams/{team}/schedules");
    let wake = json!({"agentId": scribe, "text": "Look at the queue."});
    let body = json!({"name": "Look", "everySecs": 600, "wake": wake});
    let schedule = api.post(&schedules, body).id();
    let at = format!("/o/acme/teams/crew/schedules/{schedule}");
    let edited = [("text", "Look at the mail."), ("agentId", &*pilot)];
    let page = press(&ada, &ada.get(&at), ("action", "save"), &edited);
    page.shows("Wakes an agent: Look at the mail.").shows("Pilot");
    // An agent that has left stays what is chosen, and other things can be saved.
    api.delete(&format!("/teams/{team}/agents/{pilot}")).ok();
    let page = press(&ada, &ada.get(&at), ("action", "save"), &[("name", "Look again")]);
    page.shows("The schedule was saved.").shows("Look again");
    let stored = api.get(&format!("{schedules}/{schedule}")).ok();
    assert_eq!(stored["wake"], json!({"agentId": pilot, "text": "Look at the mail."}));
}

#[test]
fn a_text_of_a_schedule_that_is_saved_again_stays_as_it_was_sent() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let (api, ada) = (server.ada(), server.signed_in("ada@acme.test"));
    let task = json!({"title": "Count", "description": "  - one\n  - two\n"});
    let body = json!({"name": "Count", "everySecs": 600, "task": task});
    let made = api.post(&format!("/teams/{team}/schedules"), body).id();
    let (path, at) =
        (format!("/teams/{team}/schedules/{made}"), format!("/o/acme/teams/crew/schedules/{made}"));
    let before = api.get(&path).ok();
    let page = press(&ada, &ada.get(&at), ("action", "save"), &[]);
    page.shows("The schedule was saved.");
    assert_eq!(api.get(&path).ok(), before);
    press(&ada, &page, ("action", "save"), &[("description", " \n ")]);
    assert_eq!(api.get(&path).ok()["task"]["description"], json!(null));
}

#[test]
fn a_team_and_a_member_that_are_deleted_twice_are_gone_once() {
    let server = Running::new();
    server.add("ben", "member");
    server.team("crew", "scribe");
    let ada = server.signed_in("ada@acme.test");
    let people = server.ada().get("/organizations/members").items();
    let ben = people.iter().find(|one| one["email"] == "ben@acme.test").unwrap();
    let ben = format!("/o/acme/settings/members/{}/delete", ben["userId"].as_str().unwrap());
    let account = json!({"name": "Robot", "role": "member"});
    let robot = server.ada().post("/organizations/service-accounts", account).id();
    let robot = format!("/o/acme/settings/members/{robot}/delete");
    for (path, to) in [
        ("/o/acme/teams/crew/delete", "/o/acme/teams"),
        (&*ben, "/o/acme/settings/members"),
        (&*robot, "/o/acme/settings/members"),
    ] {
        let page = ada.get(path);
        for _ in 0..2 {
            let reply = ada.send(&page, path, &[]);
            assert_eq!(reply.status, 303, "{path}: {}", reply.words());
            assert_eq!(reply.location(), to);
        }
        assert_eq!(ada.get(path).status, 404);
    }
}

#[test]
fn a_full_board_is_small() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    for number in 0..100 {
        let title = format!("Write the notes of release {number} for all who read them");
        let task = json!({"title": title, "assigneeAgentId": agent});
        let id = api.post(&format!("/teams/{team}/tasks"), task).id();
        let status = ["open", "in_progress", "blocked", "done", "cancelled"][number % 5];
        api.patch(&format!("/teams/{team}/tasks/{id}"), json!({"status": status})).ok();
    }
    let board = server.signed_in("ada@acme.test").get(BOARD);
    assert!(board.text.len() < 60_000, "{} bytes", board.text.len());
    board.shows("All of these");
}

#[test]
fn the_entry_of_a_restricted_agent_is_shown_without_what_is_its_own() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let memory = json!({"content": "It begins on Monday."});
    api.post(&format!("/teams/{team}/agents/{agent}/memories"), memory).ok();
    let fleet = api.post("/fleets", json!({"name": "F", "access": "restricted"})).id();
    api.patch("/agents/scribe", json!({"fleetId": fleet})).ok();
    server.add("ben", "member");
    let path = format!("/o/acme/teams/crew/agents/{agent}");
    let page = server.signed_in("ada@acme.test").get(&path);
    page.shows("It begins on Monday.").shows("Remove from the team");
    let page = server.signed_in("ben@acme.test").get(&path);
    assert_eq!(page.status, 200);
    page.shows("scribe").shows("restricted fleet");
    page.hides("It begins on Monday.").hides("Remove from the team").hides("Change role");
}

#[test]
fn agents_teams_and_all_of_them_are_paused_and_resumed_with_one_click() {
    let server = Running::new();
    let (_, agent) = server.team("crew", "scribe");
    let ada = server.signed_in("ada@acme.test");
    let of_agent = format!("/o/acme/teams/crew/agents/{agent}");
    let places = ["/o/acme/teams", "/o/acme/teams/crew/agents", "/o/acme/agents/scribe", &of_agent];
    for place in places {
        let page = press(&ada, &ada.get(place), ("action", "pause"), &[("reason", "It loops")]);
        page.shows("It is paused.").shows("It loops").shows("by Ada");
        ada.get(&of_agent).shows("paused");
        let page = press(&ada, &page, ("action", "resume"), &[]);
        page.shows("It goes on").hides("It loops");
    }
    server.add("bob", "member");
    let offered = server.signed_in("bob@acme.test").get("/o/acme/teams").text;
    assert!(!offered.contains("value=\"pause\""), "all are paused by admins");
}

#[test]
fn a_schedule_is_made_changed_paused_and_deleted() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let ada = server.signed_in("ada@acme.test");
    let stored = || server.ada().get(&format!("/teams/{team}/schedules")).items();
    let all = "/o/acme/teams/crew/schedules";
    ada.get(all).shows("There are no schedules yet.");
    let new = "/o/acme/teams/crew/schedules/new";
    let wrong = [("name", "Report"), ("cron", "0 0 30 2 *"), ("text", "Write it")];
    let refused = ada.send(&ada.get(new), new, &wrong);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("cron"));
    let right = [("cron", "0 9 * * mon"), ("timeZone", "Europe/Berlin")];
    let page = ada.submit(&refused, new, &right);
    page.shows("The schedule was created.").shows("0 9 * * mon (Europe/Berlin)");
    page.shows("Its first time has not come yet.");
    let page = press(&ada, &page, ("action", "save"), &[("cron", ""), ("everySecs", "600")]);
    page.shows("The schedule was saved.").shows("every 10 min");
    let refused = press(&ada, &page, ("action", "save"), &[("everySecs", "")]);
    assert_eq!(refused.status, 400, "it is due at some time");
    assert!(refused.has_problem("cron"));
    // What it creates.
    let work = [("title", "Write it all"), ("description", "With figures."), ("priority", "4")];
    let page = press(&ada, &page, ("action", "save"), &work);
    page.shows("Creates a task: Write it all").shows("With figures.");
    let refused = press(&ada, &page, ("action", "save"), &[("priority", "9")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("priority"));
    assert_eq!(press(&ada, &page, ("action", "save"), &[("title", "")]).status, 400);
    let page = press(&ada, &page, ("action", "save"), &[("priority", "3")]);
    let page = press(&ada, &page, ("action", "pause"), &[]);
    page.shows("The schedule is paused");
    let paused = &stored()[0];
    assert_eq!(pick(paused, "name cron everySecs"), json!(["Report", null, 600]));
    assert_eq!(pick(&paused["task"], "title priority"), json!(["Write it all", 3]));
    assert_eq!(paused["paused"]["scope"], "schedule");
    ada.get(all).shows("Paused").shows("Report");
    let page = press(&ada, &page, ("action", "resume"), &[]);
    page.hides("The schedule is paused");
    assert_eq!(stored()[0]["paused"], Value::Null);
    let delete = format!("{}/delete", page.path);
    ada.submit(&ada.get(&delete), &delete, &[]).shows("There are no schedules yet.");
    assert!(stored().is_empty());
}

/// Wakes of an agent that it never acknowledges are shown to people, who hand them out again or drop them.
fn failed_wakes(ada: &Visitor, api: &Caller, agent: &str) {
    api.patch(agent, json!({"maxAttempts": 1})).ok();
    let wakes = format!("{agent}/wakes");
    let failed = || api.get(&format!("{wakes}/failed")).items().len();
    let pending = || api.get(&format!("{wakes}?peek=true")).items().len();
    assert_eq!(api.get(&wakes).items().len(), 2);
    within(Duration::from_secs(90), "they fail", || (failed() == 2).then_some(()));
    ada.get("/o/acme").shows("Wakes that nobody acknowledged").shows("A note on a task");
    ada.get("/o/acme/waiting/failed-wakes").shows("A task that it got");
    ada.get("/o/acme/teams/crew/agents").shows("2 wakes failed");
    let path = format!("/o/acme/teams/crew/agents/{}", agent.rsplit('/').next().unwrap());
    let page = ada.get(&path);
    page.shows("What it never acknowledged");
    press(ada, &page, ("action", "retry"), &[]).shows("It is woken once more.");
    assert_eq!((failed(), pending()), (0, 2));
    press(ada, &page, ("action", "drop"), &[]).shows("The wakes were dropped.");
    assert_eq!((failed(), pending()), (0, 0));
}
