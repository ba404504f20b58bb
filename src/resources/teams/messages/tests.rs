//! Messages: who gets them, who is woken, and who may read them away.

use serde_json::{Value, json};

use super::*;
use crate::resources::teams::testing::{
    add_agent, add_scrum_master, code, events, message, published, take, task, team,
};
use crate::resources::teams::wakes::WakeReason;
use crate::resources::testing::Fixture;

fn try_send(fixture: &Fixture, team: Id<Team>, body: Value) -> Result<Message> {
    fixture.write(send, team, Fixture::input(body)?)
}

fn write_to_humans(fixture: &Fixture, team: Id<Team>, body: Value) -> Result<Message> {
    fixture.write(send_to_humans, team, Fixture::input(body)?)
}

fn consume_as(fixture: &Fixture, message: &Message, agent: Id<Member>) -> Result<Message> {
    let body = Fixture::input(json!({"agentId": agent})).unwrap();
    fixture.write(consume, (message.team_id, message.id), body)
}

/// The bodies of the messages that a query gives, in its order.
fn bodies(fixture: &Fixture, team: Id<Team>, query: Value) -> Vec<String> {
    let page = fixture.read(list, team, Fixture::input(query).unwrap()).unwrap();
    page.items.iter().map(|message| message.body.to_string()).collect()
}

/// Who is woken, by what: agents' wakes as reason and message.
fn woken(fixture: &Fixture, team: Id<Team>, agent: Id<Member>) -> Vec<(WakeReason, Id<Message>)> {
    let wakes = take(fixture, team, agent);
    wakes.iter().map(|wake| (wake.reason, wake.message_id.unwrap())).collect()
}

#[test]
fn direct_mail_has_every_field_and_wakes_its_recipient_alone() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let bobs = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": bob}));
    take(&fixture, crew, bob);
    let body = json!({"body": "hello", "toAgentId": ann, "taskId": bobs.id, "subject": "s"});
    let mail = message(&fixture, crew, body);
    let from = mail.from.id;
    let expected = json!({
        "id": mail.id, "teamId": crew, "from": {"type": "user", "id": from, "name": "ben"},
        "toAgentId": ann, "toPeerId": null, "taskId": bobs.id, "subject": "s", "body": "hello",
        "audience": "agent", "readAt": null, "createdAt": "2026-01-15T12:00:00.000Z",
    });
    assert_eq!(serde_json::to_value(&mail).unwrap(), expected);
    let wake = &take(&fixture, crew, ann)[0];
    assert_eq!((wake.reason, wake.message_id), (WakeReason::DirectMessage, Some(mail.id)));
    assert_eq!(wake.task_id, Some(bobs.id));
    assert!(woken(&fixture, crew, bob).is_empty());
    assert_eq!(published(&fixture).len(), 2, "nothing but that two were hired");
    fixture.assert_sound();
}

#[test]
fn a_note_wakes_the_assignee_or_the_scrum_master() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let free = task(&fixture, crew, json!({"title": "free"}));
    message(&fixture, crew, json!({"body": "nobody hears", "taskId": free.id}));
    let sam = add_scrum_master(&fixture, crew, "sam");
    let anns = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    take(&fixture, crew, ann);

    let to_ann = message(&fixture, crew, json!({"body": "a", "taskId": anns.id}));
    let to_sam = message(&fixture, crew, json!({"body": "b", "taskId": free.id}));
    assert_eq!(woken(&fixture, crew, ann), [(WakeReason::TaskNote, to_ann.id)]);
    assert_eq!(woken(&fixture, crew, sam), [(WakeReason::TaskNote, to_sam.id)]);
}

#[test]
fn an_agents_own_message_never_wakes_it() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let sam = add_scrum_master(&fixture, crew, "sam");
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    let free = task(&fixture, crew, json!({"title": "free"}));
    let note = json!({"body": "done", "taskId": anns.id, "fromAgentId": ann});
    let sent = message(&fixture, crew, note);
    assert_eq!(sent.from, Sender { kind: SenderType::Agent, id: ann.cast(), name: "ann".into() });
    message(&fixture, crew, json!({"body": "to me", "toAgentId": ann, "fromAgentId": ann}));
    message(&fixture, crew, json!({"body": "x", "taskId": free.id, "fromAgentId": sam}));
    assert!(take(&fixture, crew, ann).is_empty());
    assert!(take(&fixture, crew, sam).is_empty());

    message(&fixture, crew, json!({"body": "x", "taskId": free.id, "fromAgentId": ann}));
    assert_eq!(take(&fixture, crew, sam).len(), 1);
}

#[test]
fn a_message_needs_a_recipient_or_a_task() {
    let error = Fixture::input::<NewMessage>(json!({"body": "x", "subject": "s"})).err().unwrap();
    assert_eq!(error.issues()[0].path, "taskId");
    assert!(Fixture::input::<NewMessage>(json!({"body": "", "taskId": "x"})).is_err());
}

#[test]
fn a_message_refers_to_its_own_team_only() {
    let fixture = Fixture::new();
    let (crew, other) = (team(&fixture, "crew", None), team(&fixture, "other", None));
    let (ann, eve) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, other, "eve"));
    let foreign = task(&fixture, other, json!({"title": "x"}));
    for body in [
        json!({"body": "x", "toAgentId": eve}),
        json!({"body": "x", "toAgentId": ann, "taskId": foreign.id}),
        json!({"body": "x", "taskId": foreign.id}),
        json!({"body": "x", "taskId": "no id"}),
        json!({"body": "x", "toAgentId": ann, "fromAgentId": eve}),
    ] {
        assert_eq!(code(try_send(&fixture, crew, body)), "not_found");
    }
    for body in [
        json!({"body": "x", "fromAgentId": eve}),
        json!({"body": "x", "fromAgentId": ann, "taskId": foreign.id}),
    ] {
        assert_eq!(code(write_to_humans(&fixture, crew, body)), "not_found");
    }
    assert!(bodies(&fixture, crew, json!({})).is_empty());
    assert_eq!(code(fixture.read(list, Id::NIL, Fixture::input(json!({})).unwrap())), "not_found");
}

#[test]
fn mail_to_the_humans_is_an_event_and_wakes_no_agent() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let bobs =
        task(&fixture, crew, json!({"title": "x", "assigneeAgentId": bob, "fromAgentId": bob}));
    let body = json!({"body": "help", "fromAgentId": ann, "taskId": bobs.id, "subject": "s"});
    let mail = write_to_humans(&fixture, crew, body).unwrap();
    assert_eq!(mail.audience, Audience::Human);
    assert_eq!(mail.to_agent_id, None);
    assert_eq!(published(&fixture).last(), Some(&EventType::TeamMessageReceived));
    assert_eq!(events(&fixture).last().unwrap().payload.0["messageId"], json!(mail.id));
    assert!(take(&fixture, crew, bob).is_empty());
}

#[test]
fn a_human_reads_human_mail_once_and_agents_mail_stays_as_it_is() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let to_humans = write_to_humans(&fixture, crew, json!({"body": "x", "fromAgentId": ann}));
    let to_humans = to_humans.unwrap();
    let to_ann = message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));

    fixture.pass_secs(1);
    let read = fixture.write(open, (crew, to_humans.id), ()).unwrap();
    assert_eq!(read.read_at, Some(to_humans.created_at.plus_secs(1)));
    fixture.pass_secs(1);
    assert_eq!(fixture.write(open, (crew, to_humans.id), ()).unwrap(), read);
    assert_eq!(fixture.write(open, (crew, to_ann.id), ()).unwrap(), to_ann);
    assert_eq!(fixture.read(get, (crew, to_ann.id), ()).unwrap(), to_ann);
    assert_eq!(code(consume_as(&fixture, &to_humans, ann)), "not_found");
    assert_eq!(code(fixture.write(open, (crew, Id::NIL), ())), "not_found");
    fixture.assert_sound();
}

#[test]
fn an_agent_consumes_only_its_own_mail_once() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let anns = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    // What is to bob is bob's, though it be about ann's task.
    let mail = json!({"body": "x", "toAgentId": bob, "taskId": anns.id});
    let mail = message(&fixture, crew, mail);
    assert_eq!(code(consume_as(&fixture, &mail, ann)), "not_found");
    assert_eq!(code(consume_as(&fixture, &mail, Id::NIL)), "not_found");
    fixture.pass_secs(1);
    let read = consume_as(&fixture, &mail, bob).unwrap();
    assert_eq!(read.read_at, Some(mail.created_at.plus_secs(1)));
    fixture.pass_secs(1);
    assert_eq!(consume_as(&fixture, &mail, bob).unwrap(), read);
}

#[test]
fn notes_are_consumed_by_whose_business_their_task_is() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let sam = add_scrum_master(&fixture, crew, "sam");
    let anns = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    let free = task(&fixture, crew, json!({"title": "free"}));
    let on_anns = message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    let on_free = message(&fixture, crew, json!({"body": "x", "taskId": free.id}));
    for (note, reader) in [(&on_anns, ann), (&on_free, sam)] {
        for other in [ann, bob, sam].into_iter().filter(|other| *other != reader) {
            assert_eq!(code(consume_as(&fixture, note, other)), "not_found");
        }
        assert!(consume_as(&fixture, note, reader).unwrap().read_at.is_some());
    }
}

#[test]
fn every_filter_gives_the_messages_it_names_newest_first() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let (ann, bob) = (add_agent(&fixture, crew, "ann"), add_agent(&fixture, crew, "bob"));
    let one = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    let mut all = Vec::new();
    for n in 0..12 {
        let body = format!("{n}");
        let sent = match n % 4 {
            0 => message(&fixture, crew, json!({"body": body, "toAgentId": ann})),
            1 => message(&fixture, crew, json!({"body": body, "toAgentId": bob, "taskId": one.id})),
            2 => message(&fixture, crew, json!({"body": body, "taskId": one.id})),
            _ => {
                write_to_humans(&fixture, crew, json!({"body": body, "fromAgentId": ann})).unwrap()
            }
        };
        let read = n < 6;
        all.push(match (read, n % 4) {
            (false, _) => sent,
            (true, 3) => fixture.write(open, (crew, sent.id), ()).unwrap(),
            (true, 1) => consume_as(&fixture, &sent, bob).unwrap(),
            (true, _) => consume_as(&fixture, &sent, ann).unwrap(),
        });
    }
    let audiences = [None, Some(Audience::Agent), Some(Audience::Human)];
    let agents = [None, Some(ann), Some(bob), Some(Id::NIL)];
    let tasks = [None, Some(one.id), Some(Id::NIL)];
    let mut found = 0;
    for audience in audiences {
        for agent in agents {
            for task in tasks {
                for unread in [None, Some(true), Some(false)] {
                    let query = json!({
                        "audience": audience, "agentId": agent, "taskId": task, "unread": unread,
                    });
                    let named = |message: &&Message| {
                        audience.is_none_or(|audience| message.audience == audience)
                            && (agent.is_none() || message.to_agent_id == agent)
                            && (task.is_none() || message.task_id == task)
                            && unread.is_none_or(|unread| message.read_at.is_none() == unread)
                    };
                    let expected: Vec<String> =
                        all.iter().rev().filter(named).map(|m| m.body.to_string()).collect();
                    found += expected.len();
                    assert_eq!(bodies(&fixture, crew, query.clone()), expected, "{query}");
                }
            }
        }
    }
    assert!(found > 100, "the filters found something");
    fixture.assert_sound();
}

#[test]
fn unread_mail_is_found_among_any_number_of_read_messages_without_reading_them() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    for _ in 0..20 {
        let mail = message(&fixture, crew, json!({"body": "old", "toAgentId": ann}));
        consume_as(&fixture, &mail, ann).unwrap();
    }
    message(&fixture, crew, json!({"body": "new", "toAgentId": ann}));
    let unread = |view: &View| view.count(&BY_INBOX, &((Some(ann), false), crew), 100);
    assert_eq!(fixture.store.read_now(fixture.org, unread).unwrap(), 1);
    assert_eq!(bodies(&fixture, crew, json!({"agentId": ann, "unread": true})), ["new"]);
}

#[test]
fn messages_are_found_by_their_words_in_any_form() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, crew, "ann");
    let body = "Cafe\u{301} ΟΔΥΣΣΕΥΣ: depart\u{ad}ment is on\n call";
    message(&fixture, crew, json!({"toAgentId": ann, "subject": "Die Größe", "body": body}));
    message(&fixture, crew, json!({"toAgentId": ann, "body": "another"}));
    for (q, found) in [
        ("caf\u{e9} grösse", 1),
        ("CAFE GROSSE ＤＩＥ", 1),
        ("cäfe", 0),
        ("οδυσσευς department", 1),
        ("\"on call\"", 1),
        ("\"call on\"", 0),
        ("\"größe\" \"on call\"", 1),
        ("\"größe café\"", 0),
        ("another café", 0),
        ("e", 2),
        ("", 2),
    ] {
        for query in [json!({"q": q}), json!({"q": q, "agentId": ann})] {
            assert_eq!(bodies(&fixture, crew, query.clone()).len(), found, "{query}");
        }
    }
    let many: String = (0..33).map(|n| format!("w{n} ")).collect();
    let refused = Fixture::input::<MessageFilter>(json!({"q": many})).err().unwrap();
    assert_eq!(refused.issues()[0].path, "q");
}
