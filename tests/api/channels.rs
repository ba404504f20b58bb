//! Channels: what subscribed events become outside and inside (reference: notifications).

use std::io::Read as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{eventually, pick};
use crate::receiver::Receiver;
use crate::teams::Crew;

/// A delivery takes a few milliseconds; a test on a busy machine must not fail for its sake.
const SOON: Duration = Duration::from_secs(8);

/// Creates a channel that is subscribed to milestones.
fn channel(crew: &Crew, workflow: &str, config: Value) -> Value {
    let body = json!({"name": format!("By {workflow}"), "workflow": workflow, "config": config});
    let made = crew.acme.owner.post("/notifications/channels", body).ok();
    subscribe(crew, &made["id"], "team.timeline_milestone");
    made
}

fn hook(crew: &Crew, url: &str) -> Value {
    channel(crew, "webhook", json!({"url": url}))
}

fn subscribe(crew: &Crew, channel: &Value, event_type: &str) {
    let body = json!({"channelId": channel, "eventType": event_type});
    crew.acme.owner.post("/notifications/subscriptions", body).ok();
}

/// Publishes an event.
fn milestone(crew: &Crew, title: &str) {
    crew.post("/timeline", json!({"kind": "milestone", "title": title})).ok();
}

/// The entries of a channel, newest first.
fn entries(crew: &Crew, channel: &Value) -> Vec<Value> {
    let id = channel["id"].as_str().unwrap();
    crew.acme.owner.get(&format!("/notifications/logs?channelId={id}")).items()
}

/// Waits until the only entry of a channel is as expected.
fn entry_with(crew: &Crew, channel: &Value, status: &str, attempts: u64) -> Value {
    eventually("its delivery", || {
        let entry = entries(crew, channel).pop()?;
        (entry["status"] == status && entry["attempts"] == attempts).then_some(entry)
    })
}

fn path(channel: &Value, below: &str) -> String {
    format!("/notifications/channels/{}{below}", channel["id"].as_str().unwrap())
}

#[test]
fn a_webhook_gets_signed_events_that_it_is_subscribed_to() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[204]);
    let made = hook(&crew, &receiver.url);
    let secret = made["secret"].as_str().unwrap();
    crew.post("/timeline", json!({"kind": "summary", "title": "not this"})).ok();
    milestone(&crew, "Shipped");
    let sent = receiver.next();
    assert!(sent.is_signed_with(secret), "{}", sent.head);
    let message = sent.json();
    assert_eq!(message["type"], "team.timeline_milestone");
    assert_eq!(message["data"]["title"], "Shipped");
    let entry = entry_with(&crew, &made, "sent", 1);
    assert_eq!(entry["id"], sent.field("webhook-id"));
    assert_eq!((&entry["payload"], &entry["createdAt"]), (&message["data"], &message["timestamp"]));
    assert!(receiver.is_idle());
    // No answer shows the secret again.
    let shown = crew.acme.member.get(&path(&made, "")).ok();
    assert_eq!(shown["config"], json!({"url": receiver.url}));
    assert!(!shown.to_string().contains(secret) && shown.get("secret").is_none());
}

#[test]
fn a_rotated_secret_signs_beside_the_old_one() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[204]);
    let made = hook(&crew, &receiver.url);
    let rotated = crew.acme.admin.post(&path(&made, "/rotate-secret"), json!({})).ok();
    let [old, new] = [&made["secret"], &rotated["secret"]].map(|one| one.as_str().unwrap());
    assert_ne!(old, new);
    milestone(&crew, "Shipped");
    let sent = receiver.next();
    assert!(sent.is_signed_with(old) && sent.is_signed_with(new), "{}", sent.head);
}

#[test]
fn a_receiver_that_fails_gets_the_same_message_again() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[500, 200]);
    let made = hook(&crew, &receiver.url);
    milestone(&crew, "Shipped");
    let first = receiver.next();
    let failed = entry_with(&crew, &made, "failed", 1);
    assert_eq!(failed["error"], "the channel's address answered with status 500");
    assert!(failed["nextAttemptAt"].is_string() && failed["sentAt"].is_null());
    let second = receiver.next();
    assert_eq!(first.field("webhook-id"), second.field("webhook-id"));
    assert_eq!(first.body, second.body);
    entry_with(&crew, &made, "sent", 2);
}

#[test]
fn the_trace_of_a_request_goes_on_with_the_events_that_it_causes() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let crew = Crew::new();
    let receiver = Receiver::answering(&[500, 200]);
    let made = hook(&crew, &receiver.url);
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let path = crew.path("/timeline");
    let body = json!({"kind": "milestone", "title": "Shipped"});
    let asked =
        crew.acme.owner.ask("POST", &path).with("traceparent", &parent).org_json(body.clone());
    asked.send().ok();
    let sent = [receiver.next(), receiver.next()];
    let [first, second] = sent.each_ref().map(|sent| sent.field("traceparent"));
    for header in [first, second] {
        assert!(header.starts_with(&format!("00-{TRACE}-")) && header.ends_with("-01"), "{header}");
        assert_ne!(header, parent);
    }
    assert_ne!(first, second, "each attempt is a part of its own");
    assert_eq!(entry_with(&crew, &made, "sent", 2)["traceId"], TRACE);

    // One that says nothing valid has none.
    let asked = crew.acme.owner.ask("POST", &path).with("traceparent", &parent[1..]).org_json(body);
    asked.send().ok();
    assert!(!receiver.next().head.contains("traceparent"));
    assert!(entries(&crew, &made)[0]["traceId"].is_null());
}

#[test]
fn a_receiver_that_is_gone_disables_its_channel_until_it_is_enabled() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[410, 200]);
    let made = hook(&crew, &receiver.url);
    milestone(&crew, "First");
    let entry = entry_with(&crew, &made, "dead", 1);
    assert_eq!(crew.acme.member.get(&path(&made, "")).ok()["enabled"], false);
    milestone(&crew, "Second");
    let waiting = eventually("the second entry", || {
        entries(&crew, &made).into_iter().next().filter(|newest| newest["id"] != entry["id"])
    });
    assert_eq!(pick(&waiting, "status attempts"), json!(["failed", 0]));
    receiver.next();
    crew.acme.owner.patch(&path(&made, ""), json!({"enabled": true})).ok();
    assert_eq!(receiver.next().json()["data"]["title"], "Second");
    // The dead one stays so until somebody asks for it.
    let again = format!("/notifications/logs/{}/redeliver", entry["id"].as_str().unwrap());
    crew.acme.member.post(&again, json!({})).refused(403, "admin_required");
    crew.acme.admin.post(&again, json!({})).ok();
    assert_eq!(receiver.next().json()["data"]["title"], "First");
}

#[test]
fn channels_that_hang_delay_no_other() {
    let crew = Crew::new();
    // They accept connections and never answer.
    let silent: Vec<_> = (0..20).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    for listener in &silent {
        hook(&crew, &format!("http://{}/", listener.local_addr().unwrap()));
    }
    for n in 0..3 {
        milestone(&crew, &format!("Before {n}"));
    }
    let receiver = Receiver::answering(&[204]);
    hook(&crew, &receiver.url);
    for n in 0..3 {
        let started = Instant::now();
        milestone(&crew, &format!("After {n}"));
        receiver.next();
        assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    }
    // They were tried, so that this proves something.
    let mut stream = silent[0].accept().unwrap().0;
    assert_eq!(stream.read(&mut [0; 4]).unwrap(), 4);
}

#[test]
fn a_range_of_entries_is_delivered_again() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[200]);
    let made = hook(&crew, &receiver.url);
    for n in 0..4 {
        milestone(&crew, &format!("{n}"));
    }
    let mut ids: Vec<_> = (0..4).map(|_| receiver.next().field("webhook-id").to_string()).collect();
    let all = eventually("all are sent", || {
        let all = entries(&crew, &made);
        (all.len() == 4 && all.iter().all(|entry| entry["status"] == "sent")).then_some(all)
    });
    let again = path(&made, "/redeliver");
    // By default those that were not delivered.
    let start = &all[3]["createdAt"];
    crew.acme.member.post(&again, json!({"from": start})).refused(403, "admin_required");
    crew.acme.owner.post(&again, json!({"from": start})).ok();
    let end = &all[0]["createdAt"];
    let range = json!({"from": start, "to": end, "status": "sent"});
    eventually("the one before is done", || {
        (crew.acme.owner.post(&again, range.clone()).status == 200).then_some(())
    });
    let first_of_last = all.iter().filter(|entry| entry["createdAt"] == *end).count();
    let mut seen: Vec<_> =
        (0..4 - first_of_last).map(|_| receiver.next().field("webhook-id").to_string()).collect();
    ids.retain(|id| all.iter().any(|entry| entry["id"] == **id && entry["createdAt"] != *end));
    ids.sort();
    seen.sort();
    assert_eq!(seen, ids, "the end is exclusive");
    eventually("the attempts are counted", || {
        let twice = entries(&crew, &made).iter().filter(|entry| entry["attempts"] == 2).count();
        (twice == 4 - first_of_last).then_some(())
    });
    assert!(receiver.is_idle());
}

#[test]
fn slack_gets_a_text() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[200]);
    let made = channel(&crew, "slack", json!({"url": receiver.url}));
    let host = receiver.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    assert_eq!((&made["config"], &made["secret"]), (&json!({"url": host}), &Value::Null));
    milestone(&crew, "Ship <it> & rest\u{e0069}");
    let text = receiver.next().json()["text"].as_str().unwrap().to_string();
    let title = "*A milestone was reached: Ship &lt;it&gt; &amp; rest⟨U+E0069⟩*\n";
    assert!(text.starts_with(title), "{text}");
    entry_with(&crew, &made, "sent", 1);
}

#[test]
fn an_event_becomes_a_task_and_wakes_its_agent() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let made = channel(&crew, "team_task", json!({"teamId": crew.team, "assigneeAgentId": ann}));
    milestone(&crew, "Shipped");
    entry_with(&crew, &made, "sent", 1);
    let task = crew.get("/tasks").items().remove(0);
    assert_eq!(
        pick(&task, "title assigneeAgentId createdBy"),
        json!(["A milestone was reached: Shipped", ann, null])
    );
    assert!(task["description"].as_str().unwrap().contains("\nTitle: Shipped\n"), "{task}");
    let wakes = crew.get(&format!("/agents/{ann}/wakes?peek=true")).items();
    assert_eq!(pick(&wakes[0], "reason taskId"), json!(["task_assigned", task["id"]]));
    // It becomes one of the whole team once the agent has left.
    crew.delete(&format!("/agents/{ann}")).ok();
    milestone(&crew, "Again");
    let free = eventually("the next task", || {
        crew.get("/tasks")
            .items()
            .into_iter()
            .find(|task| task["title"] == "A milestone was reached: Again")
    });
    assert_eq!(free["assigneeAgentId"], Value::Null);
}

#[test]
fn an_event_wakes_an_agent_with_its_log_entry() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let made = channel(&crew, "agent_wake", json!({"teamId": crew.team, "agentId": ann}));
    milestone(&crew, "Shipped");
    let entry = entry_with(&crew, &made, "sent", 1);
    let wakes = crew.get(&format!("/agents/{ann}/wakes")).items();
    assert_eq!(pick(&wakes[0], "reason logId"), json!(["notification", entry["id"]]));
    // Nobody is there any more: the channel is disabled, as one that answers 410.
    crew.delete(&format!("/agents/{ann}")).ok();
    milestone(&crew, "Again");
    eventually("the end of the channel", || {
        (crew.acme.owner.get(&path(&made, "")).ok()["enabled"] == false).then_some(())
    });
    let dead = entries(&crew, &made).remove(0);
    assert_eq!(dead["status"], "dead");
    assert!(dead["error"].as_str().unwrap().contains("no such agent"), "{dead}");
}

#[test]
fn a_task_about_a_restricted_resource_does_not_say_which() {
    let crew = Crew::new();
    let owner = &crew.acme.owner;
    let body = json!({"name": "Tasks", "workflow": "team_task", "config": {"teamId": crew.team}});
    let made = owner.post("/notifications/channels", body).ok();
    subscribe(&crew, &made["id"], "registry.artifact_published");
    for (slug, access) in [("open", "organization"), ("shut", "restricted")] {
        owner.post("/registries", json!({"slug": slug, "name": slug, "access": access})).ok();
        let version = json!({"registryRef": slug, "artifactType": "prompt", "name": format!("of-{slug}"),
            "version": "1.0.0", "source": "s"});
        let version = version.as_object().unwrap().clone();
        crew.acme.key.post("/registries/artifacts", Value::Object(version)).ok();
    }
    let tasks = eventually("both tasks", || {
        let tasks = crew.acme.member.get(&crew.path("/tasks")).items();
        (tasks.len() == 2).then_some(tasks)
    });
    let titles: Vec<_> = tasks.iter().map(|task| task["title"].as_str().unwrap()).collect();
    assert!(titles.contains(&"A version was published: of-open"), "{titles:?}");
    assert!(titles.contains(&"A version was published"), "{titles:?}");
    let text = json!(tasks).to_string();
    assert!(!text.contains("shut") && text.contains("Log id: "), "{text}");
}

#[test]
fn a_test_says_what_the_receiver_answered_and_leaves_nothing_in_the_log() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[204, 500]);
    let made = hook(&crew, &receiver.url);
    let test = || crew.acme.admin.post(&path(&made, "/test"), json!({})).ok();
    assert_eq!(test(), json!({"ok": true, "message": "the test was delivered"}));
    let sent = receiver.next();
    assert!(sent.is_signed_with(made["secret"].as_str().unwrap()));
    assert_eq!(pick(&sent.json(), "type"), json!(["channel.test"]));
    let failed = test();
    assert_eq!(failed["ok"], false);
    assert!(failed["message"].as_str().unwrap().contains("status 500"), "{failed}");
    receiver.next();
    assert!(receiver.is_idle(), "one test is one message");
    assert_eq!(entries(&crew, &made), Vec::<Value>::new());

    let members = crew.acme.owner.get("/organizations/members").items();
    let owner = members.iter().find(|one| one["role"] == "owner").unwrap()["email"].clone();
    let mail = channel(&crew, "email", json!({"to": [owner]}));
    let failed = crew.acme.admin.post(&path(&mail, "/test"), json!({})).ok();
    assert!(failed["message"].as_str().unwrap().contains("--smtp-url"), "{failed}");
    let mail = channel(&crew, "email", json!({"to": ["stranger@else.test"]}));
    assert_eq!(mail["unconfirmed"], json!(["stranger@else.test"]));
    let failed = crew.acme.admin.post(&path(&mail, "/test"), json!({})).ok();
    assert!(failed["message"].as_str().unwrap().contains("has confirmed"), "{failed}");
    let ann = crew.hire("ann");
    let wake = channel(&crew, "agent_wake", json!({"teamId": crew.team, "agentId": ann}));
    assert_eq!(crew.acme.admin.post(&path(&wake, "/test"), json!({})).ok()["ok"], true);
    assert_eq!(crew.get(&format!("/agents/{ann}/wakes?peek=true")).items().len(), 1);
    crew.delete(&format!("/agents/{ann}")).ok();
    assert_eq!(crew.acme.admin.post(&path(&wake, "/test"), json!({})).ok()["ok"], false);
}

#[test]
fn configurations_are_refused_with_the_path_of_each_problem() {
    let crew = Crew::new();
    let post = |body: Value| crew.acme.owner.post("/notifications/channels", body);
    let body = |workflow: &str, config: Value| json!({"name": "c", "workflow": workflow, "config": config});
    post(body("pigeon", json!({}))).invalid(&["workflow"]);
    post(body("webhook", json!({"url": "x", "secret": "y"})))
        .invalid(&["config.url", "config.secret"]);
    post(body("webhook", json!({"url": "http://a.test", "secert": "y"})))
        .invalid(&["config.secert"]);
    post(body("email", json!({"to": ["ada"]}))).invalid(&["config.to[0]"]);
    post(json!({"name": "c", "workflow": "slack"})).invalid(&["config.url"]);
    let unknown = crate::fixture::unknown_id();
    let missing = post(body("team_task", json!({"teamId": unknown})));
    assert_eq!((missing.status, missing.json()["path"].as_str()), (404, Some("config.teamId")));
    let mail = post(body("email", json!({"to": ["Ada@Acme.test"]}))).ok();
    assert_eq!(mail["config"], json!({"to": ["ada@acme.test"]}));
    let patched = crew.acme.owner.patch(&path(&mail, ""), json!({"config": {"to": []}}));
    patched.invalid(&["config.to"]);
}
