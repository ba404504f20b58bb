//! What wakes do between their cause and their acknowledgement.

use serde_json::{Value, json};

use super::fetching::{acknowledge, look};
use super::*;
use crate::api::{Readiness, Req};
use crate::base::{Body, Handle, Id, PublicKey};
use crate::outbox::LogEntry;
use crate::resources::teams::member::Member;
use crate::resources::teams::message::Message;
use crate::resources::teams::peer::Peer;
use crate::resources::teams::peer::PeerState;
use crate::resources::teams::task::Task;
use crate::resources::teams::team::Team;
use crate::resources::teams::testing::{
    add_agent, add_scrum_master, code, message, repeat, take, task, team,
};
use crate::resources::teams::{claims, member, members, messages, tasks};
use crate::resources::testing::{Fixture, NOON, args};
use crate::store::{ListSource, PageRequest, Tx};

/// A team with ann in it.
fn crew(fixture: &Fixture) -> (Id<Team>, Id<Member>) {
    let crew = team(fixture, "crew", None);
    (crew, add_agent(fixture, crew, "ann"))
}

fn peek(fixture: &Fixture, (team, agent): (Id<Team>, Id<Member>)) -> Vec<Wake> {
    let peek = Fixture::input(json!({"peek": true})).unwrap();
    fixture.write(fetching::take, (team, agent), peek).unwrap().items
}

fn looks(fixture: &Fixture, at: (Id<Team>, Id<Member>)) -> Readiness {
    fixture.read(look, at, Fixture::input(json!({})).unwrap()).unwrap()
}

fn ack(fixture: &Fixture, at: (Id<Team>, Id<Member>), ids: &[Id<Wake>]) -> Value {
    let body = Fixture::input(json!({"wakeIds": ids})).unwrap();
    serde_json::to_value(fixture.write(acknowledge, at, body).unwrap()).unwrap()
}

fn patch(fixture: &Fixture, task: &Task, body: Value) {
    let body = Fixture::input(body).unwrap();
    fixture.write(tasks::update, (task.team_id, task.id), body).unwrap();
}

fn note(fixture: &Fixture, task: &Task) -> Message {
    message(fixture, task.team_id, json!({"body": "note", "taskId": task.id}))
}

fn consume(fixture: &Fixture, message: &Message, agent: Id<Member>) {
    let body = Fixture::input(json!({"agentId": agent})).unwrap();
    fixture.write(messages::consume, (message.team_id, message.id), body).unwrap();
}

fn dropped(fixture: &Fixture) -> u64 {
    fixture.store.read_now(fixture.org, dropped_wakes).unwrap()
}

fn ids(wakes: &[Wake]) -> Vec<Id<Wake>> {
    wakes.iter().map(|wake| wake.id).collect()
}

#[test]
fn a_wake_has_exactly_the_documented_fields() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let anns = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    let wake = &take(&fixture, crew, ann)[0];
    let expected = json!({
        "id": wake.id, "reason": "task_assigned", "taskId": anns.id, "messageId": null,
        "peerId": null, "logId": null, "createdAt": "2026-01-15T12:00:00.000Z", "attempts": 1,
        "scheduleId": null, "text": null, "nextAttemptAt": null, "failedAgentId": null,
    });
    assert_eq!(serde_json::to_value(wake).unwrap(), expected);
}

#[test]
fn wakes_are_delivered_oldest_first_and_leased_for_a_minute() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let sent: Vec<_> = (0..3)
        .map(|_| message(&fixture, crew, json!({"body": "x", "toAgentId": ann})).id)
        .collect();
    let first = take(&fixture, crew, ann);
    let about: Vec<_> = first.iter().map(|wake| wake.message_id.unwrap()).collect();
    assert_eq!(about, sent);
    fixture.pass_secs(59);
    assert!(take(&fixture, crew, ann).is_empty());
    fixture.pass_secs(1);
    let second = take(&fixture, crew, ann);
    assert_eq!(ids(&second), ids(&first));
    assert!(second.iter().all(|wake| wake.attempts == 2 && wake.created_at == NOON));
    fixture.assert_sound();
}

#[test]
fn a_lease_that_was_given_while_the_clock_was_ahead_is_over_once_it_is_right() {
    const MONTH_SECS: i64 = 30 * 24 * 3600;
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    fixture.pass_secs(MONTH_SECS);
    let first = take(&fixture, crew, ann);
    // Servers that share a store may differ by a minute.
    fixture.pass_secs(-60);
    assert!(take(&fixture, crew, ann).is_empty());
    fixture.pass_secs(60 - MONTH_SECS);
    assert!(looks(&fixture, (crew, ann)).ready);
    assert_eq!(ids(&take(&fixture, crew, ann)), ids(&first));
    assert!(take(&fixture, crew, ann).is_empty());
    fixture.pass_secs(60);
    assert_eq!(take(&fixture, crew, ann)[0].attempts, 3);
}

#[test]
fn peeking_shows_without_leasing() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    for _ in 0..2 {
        assert_eq!(peek(&fixture, (crew, ann))[0].attempts, 0);
    }
    assert_eq!(take(&fixture, crew, ann)[0].attempts, 1);
    assert!(peek(&fixture, (crew, ann)).is_empty());
}

#[test]
fn an_acknowledged_wake_does_not_come_back_and_unknown_ids_are_ignored() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let bob = add_agent(&fixture, crew, "bob");
    for to in [ann, ann, bob] {
        message(&fixture, crew, json!({"body": "x", "toAgentId": to}));
    }
    let wakes = ids(&take(&fixture, crew, ann));
    let bobs = peek(&fixture, (crew, bob))[0].id;
    let some = [wakes[0], wakes[0], Id::NIL, bobs];
    assert_eq!(ack(&fixture, (crew, ann), &some), json!({"acknowledged": 1}));
    assert_eq!(ack(&fixture, (crew, ann), &[]), json!({"acknowledged": 0}));
    fixture.pass_secs(60);
    assert_eq!(ids(&take(&fixture, crew, ann)), [wakes[1]]);
    assert_eq!(ids(&peek(&fixture, (crew, bob))), [bobs]);
}

#[test]
fn polling_returns_whether_there_is_a_wake_or_when_a_lease_ends() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let nothing = looks(&fixture, (crew, ann));
    assert_eq!((nothing.topic, nothing.ready, nothing.again_at), (ann.uuid(), false, None));
    message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    assert!(looks(&fixture, (crew, ann)).ready);
    take(&fixture, crew, ann);
    fixture.pass_secs(10);
    message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    assert!(looks(&fixture, (crew, ann)).ready);
    take(&fixture, crew, ann);
    let leased = looks(&fixture, (crew, ann));
    assert_eq!((leased.ready, leased.again_at), (false, Some(NOON.plus_secs(60))));
    fixture.pass_secs(50);
    assert!(looks(&fixture, (crew, ann)).ready);
}

#[test]
fn a_commit_that_wakes_an_agent_signals_it_also_if_the_cause_joins_a_wake() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for _ in 0..2 {
        let mut listener = fixture.store.signals().subscribe(ann.uuid());
        note(&fixture, &anns);
        let heard = async {
            tokio::time::timeout(std::time::Duration::from_secs(10), listener.notified()).await
        };
        assert!(runtime.block_on(heard).is_ok());
    }
    assert_eq!(peek(&fixture, (crew, ann)).len(), 1);
}

#[test]
fn wakes_of_what_is_not_in_the_team_are_not_found() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let other = team(&fixture, "other", None);
    for at in [(other, ann), (crew, Id::NIL), (Id::NIL, ann)] {
        let filter = || Fixture::input(json!({})).unwrap();
        assert_eq!(code(fixture.write(fetching::take, at, filter())), "not_found");
        assert_eq!(fixture.read(look, at, filter()).err().unwrap().code(), "not_found");
        let body = Fixture::input(json!({"wakeIds": []})).unwrap();
        assert_eq!(code(fixture.write(acknowledge, at, body)), "not_found");
    }
}

#[test]
fn wakes_are_paginated_like_a_list() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let sent: Vec<_> =
        (0..5).map(|_| message(&fixture, crew, json!({"body": "x", "toAgentId": ann}))).collect();
    let wakes = ids(&peek(&fixture, (crew, ann)));
    let part = |peek: bool, limit: usize, after: Option<Vec<u8>>| {
        let mut parts = args((crew, ann), Fixture::input(json!({"peek": peek})).unwrap());
        parts.page = PageRequest { limit, after };
        let who = fixture.member.clone();
        let take = move |tx: &mut Tx| fetching::take(tx, &Req::new(&parts, &who));
        fixture.store.write_blocking(fixture.org, take).unwrap()
    };
    let first = part(true, 2, None);
    let second = part(true, 3, first.next.clone());
    assert_eq!((ids(&first.items), ids(&second.items)), (wakes[..2].into(), wakes[2..].into()));
    assert!(first.next.is_some() && second.next.is_none());

    // What is dropped does not follow.
    consume(&fixture, &sent[4], ann);
    let handed = part(false, 2, None);
    assert_eq!((ids(&handed.items), handed.items[0].attempts), (wakes[..2].into(), 1));
    assert!(handed.next.is_some());
    let last = part(false, 2, handed.next);
    assert_eq!((ids(&last.items), last.next), (wakes[2..4].into(), None));
    fixture.assert_sound();
}

#[test]
fn many_wakes_are_delivered_in_pages() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    repeat(&fixture, messages::send, crew, json!({"body": "x", "toAgentId": ann}), 120);
    let mut seen: Vec<_> = (0..4).flat_map(|_| ids(&take(&fixture, crew, ann))).collect();
    assert_eq!(seen.len(), 120);
    seen.dedup();
    assert_eq!(seen.len(), 120);
    assert!(seen.is_sorted());
}

// ── Merging ──────────────────────────────────────────────────────────────────

#[test]
fn causes_with_one_reason_and_subject_merge_and_others_do_not() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let one = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    let two = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    note(&fixture, &one);
    let newest = note(&fixture, &one);
    note(&fixture, &two);
    fixture.pass_secs(5);
    patch(&fixture, &one, json!({"assigneeAgentId": null}));
    patch(&fixture, &one, json!({"assigneeAgentId": ann}));

    let wakes = take(&fixture, crew, ann);
    let about: Vec<_> = wakes.iter().map(|wake| (wake.reason, wake.task_id.unwrap())).collect();
    use WakeReason::{TaskAssigned, TaskNote};
    let expected =
        [(TaskAssigned, one.id), (TaskAssigned, two.id), (TaskNote, one.id), (TaskNote, two.id)];
    assert_eq!(about, expected);
    assert_eq!(wakes[2].message_id, Some(newest.id));
    assert!(wakes.iter().all(|wake| wake.attempts == 1 && wake.created_at == NOON));
    fixture.assert_sound();
}

#[test]
fn a_cause_while_its_wake_is_leased_makes_a_new_one_and_both_merge_when_the_lease_ends() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    note(&fixture, &anns);
    let first = take(&fixture, crew, ann);
    fixture.pass_secs(10);
    note(&fixture, &anns);
    let newest = note(&fixture, &anns);
    let pending = peek(&fixture, (crew, ann));
    assert_eq!((pending.len(), pending[0].message_id), (1, Some(newest.id)));
    assert_ne!(pending[0].id, first[0].id);

    fixture.pass_secs(50);
    let peeked = peek(&fixture, (crew, ann));
    assert_eq!(ids(&peeked), ids(&pending));
    let merged = take(&fixture, crew, ann);
    for (merged, attempts) in [(&peeked, 1), (&merged, 2)] {
        assert_eq!((merged.len(), merged[0].message_id), (1, Some(newest.id)));
        assert_eq!((merged[0].created_at, merged[0].attempts), (NOON, attempts));
    }
    fixture.pass_secs(60);
    assert_eq!(ids(&take(&fixture, crew, ann)), ids(&merged), "the older one was merged");
    fixture.assert_sound();
}

#[test]
fn a_late_acknowledgement_takes_away_nothing_that_was_merged_after_the_delivery() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    note(&fixture, &anns);
    take(&fixture, crew, ann);
    note(&fixture, &anns);
    let second = take(&fixture, crew, ann);
    fixture.pass_secs(60);
    let merged = take(&fixture, crew, ann);
    assert_eq!((merged.len(), merged[0].attempts), (1, 2));
    assert_eq!(ack(&fixture, (crew, ann), &ids(&second)), json!({"acknowledged": 0}));
    fixture.pass_secs(60);
    assert_eq!(ids(&take(&fixture, crew, ann)), ids(&merged));
    fixture.assert_sound();
}

#[test]
fn one_that_was_taken_while_the_other_was_leased_is_a_wake_of_its_own() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    note(&fixture, &anns);
    let first = take(&fixture, crew, ann);
    note(&fixture, &anns);
    let second = take(&fixture, crew, ann);
    assert_eq!((second.len(), second[0].attempts), (1, 1));
    assert_ne!(ids(&second), ids(&first));
    assert_eq!(ack(&fixture, (crew, ann), &ids(&first)), json!({"acknowledged": 1}));
    fixture.pass_secs(60);
    assert_eq!(ids(&take(&fixture, crew, ann)), ids(&second));
}

#[test]
fn a_late_acknowledgement_takes_away_nothing_that_came_after_the_delivery() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    note(&fixture, &anns);
    let first = take(&fixture, crew, ann);
    fixture.pass_secs(100);
    let newer = note(&fixture, &anns);
    fixture.pass_secs(10);
    assert_eq!(ack(&fixture, (crew, ann), &ids(&first)), json!({"acknowledged": 1}));
    let wakes = take(&fixture, crew, ann);
    assert_eq!((wakes.len(), wakes[0].message_id), (1, Some(newer.id)));
}

#[test]
fn a_late_acknowledgement_takes_no_cause_that_joined_in_a_later_delivery() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    note(&fixture, &anns);
    let first = take(&fixture, crew, ann);
    let newer = note(&fixture, &anns);
    fixture.pass_secs(60);
    let second = take(&fixture, crew, ann);
    assert_eq!((second.len(), second[0].message_id), (1, Some(newer.id)));
    assert_eq!(ack(&fixture, (crew, ann), &ids(&first)), json!({"acknowledged": 0}));
    fixture.pass_secs(60);
    let third = take(&fixture, crew, ann);
    assert_eq!((ids(&third), third[0].attempts), (ids(&second), 3));
    // One that was delivered again unchanged is what its first holder saw.
    assert_eq!(ack(&fixture, (crew, ann), &ids(&second)), json!({"acknowledged": 1}));
    fixture.pass_secs(60);
    assert!(take(&fixture, crew, ann).is_empty());
    fixture.assert_sound();
}

/// Inserts an accepted peer with this id.
fn insert_accepted(tx: &mut Tx, team: Id<Team>, id: Id<Peer>) -> Result<()> {
    let now = tx.now();
    tx.insert(&Peer {
        id,
        team,
        pubkey: PublicKey::from_trusted(id.to_string()), // Only compared here.
        handle: Handle::parse("a@a.test").unwrap(),
        state: PeerState::Accepted,
        first_message: Body::parse("x").unwrap(),
        reply_url: None,
        reason: None,
        decided_by: None,
        decided_at: Some(now),
        created_at: now,
    })
}

#[test]
fn an_acknowledgement_after_a_peek_takes_no_cause_that_joined_since() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    note(&fixture, &anns);
    message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    let seen = peek(&fixture, (crew, ann));
    fixture.pass_secs(10);
    let newer = note(&fixture, &anns);
    let joined = peek(&fixture, (crew, ann));
    assert_ne!(joined[0].id, seen[0].id);
    assert_eq!((joined[0].message_id, joined[0].created_at), (Some(newer.id), NOON));
    assert_eq!(ids(&joined[1..]), ids(&seen[1..]), "it keeps its position");
    assert_eq!(ack(&fixture, (crew, ann), &ids(&seen[..1])), json!({"acknowledged": 0}));
    let taken = take(&fixture, crew, ann);
    assert_eq!(ids(&taken), ids(&joined));
    assert_eq!(ack(&fixture, (crew, ann), &ids(&taken)), json!({"acknowledged": 2}));
    fixture.assert_sound();
}

#[test]
fn an_outside_request_merges_by_its_peer_and_notifications_never_merge() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let (peer, other, entry): (Id<Peer>, Id<Peer>, Id<LogEntry>) = {
        let id = || fixture.store.clock().new_id();
        (Id::new(id()), Id::new(id()), Id::new(id()))
    };
    let woken = fixture.store.write_blocking(fixture.org, move |tx| {
        let agent = member::fetch_member(&tx.view(), crew, ann)?;
        [peer, other].into_iter().try_for_each(|id| insert_accepted(tx, crew, id))?;
        for peer in [peer, other, peer] {
            wake(tx, &agent, &WakeCause::ExternalRequest(peer))?;
        }
        wake(tx, &agent, &WakeCause::Notification(entry))?;
        wake(tx, &agent, &WakeCause::Notification(entry))
    });
    woken.unwrap();
    let wakes = take(&fixture, crew, ann);
    let about: Vec<_> = wakes.iter().map(|wake| (wake.peer_id, wake.log_id)).collect();
    let expected =
        [(Some(peer), None), (Some(other), None), (None, Some(entry)), (None, Some(entry))];
    assert_eq!(about, expected);
    fixture.assert_sound();
}

// ── Dropping ─────────────────────────────────────────────────────────────────

#[test]
fn consumed_mail_wakes_no_agent() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let read = message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    let unread = message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    consume(&fixture, &read, ann);
    assert_eq!(dropped(&fixture), 0);
    let wakes = take(&fixture, crew, ann);
    assert_eq!((wakes.len(), wakes[0].message_id), (1, Some(unread.id)));
    assert_eq!(dropped(&fixture), 1);
    // In its hands it is to be acknowledged.
    consume(&fixture, &unread, ann);
    assert_eq!(ack(&fixture, (crew, ann), &ids(&wakes)), json!({"acknowledged": 1}));
    assert_eq!(dropped(&fixture), 1);
}

#[test]
fn a_wake_whose_mail_was_consumed_does_not_come_back_after_its_lease() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let mail = message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    take(&fixture, crew, ann);
    consume(&fixture, &mail, ann);
    fixture.pass_secs(60);
    assert!(peek(&fixture, (crew, ann)).is_empty());
    assert_eq!(dropped(&fixture), 1);
}

#[test]
fn a_task_that_was_closed_or_given_to_another_does_not_wake_its_first_assignee() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let bob = add_agent(&fixture, crew, "bob");
    let changes = [
        json!({"status": "done"}),
        json!({"status": "cancelled"}),
        json!({"assigneeAgentId": bob}),
        json!({"assigneeAgentId": null}),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let anns = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
        note(&fixture, &anns);
        patch(&fixture, &anns, change);
        assert!(take(&fixture, crew, ann).is_empty());
        assert_eq!(dropped(&fixture), 2 * (n as u64 + 1));
    }
    assert_eq!(take(&fixture, crew, bob).len(), 1, "it was given to bob");
    fixture.assert_sound();
}

#[test]
fn a_note_on_a_closed_task_wakes() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    note(&fixture, &anns);
    patch(&fixture, &anns, json!({"status": "done"}));
    let newest = note(&fixture, &anns);
    let wakes = take(&fixture, crew, ann);
    assert_eq!((wakes.len(), wakes[0].message_id), (1, Some(newest.id)));
    assert_eq!(dropped(&fixture), 0);
}

#[test]
fn a_task_that_came_back_wakes_again() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let bob = add_agent(&fixture, crew, "bob");
    let one = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    patch(&fixture, &one, json!({"assigneeAgentId": bob}));
    patch(&fixture, &one, json!({"assigneeAgentId": ann}));
    assert_eq!(take(&fixture, crew, ann).len(), 1);
    assert!(take(&fixture, crew, bob).is_empty());
}

#[test]
fn notes_wake_until_the_last_of_them_is_consumed() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    let (older, newer) = (note(&fixture, &anns), note(&fixture, &anns));
    // What is hers, or somebody's mail about the task, is no note that she has to read.
    let hers = json!({"body": "x", "taskId": anns.id, "fromAgentId": ann});
    message(&fixture, crew, hers);
    let bob = add_agent(&fixture, crew, "bob");
    message(&fixture, crew, json!({"body": "x", "taskId": anns.id, "toAgentId": bob}));
    consume(&fixture, &newer, ann);
    assert_eq!(peek(&fixture, (crew, ann)).len(), 1);
    consume(&fixture, &older, ann);
    assert!(peek(&fixture, (crew, ann)).is_empty());
    assert_eq!(dropped(&fixture), 1);
}

#[test]
fn notes_on_a_claimed_task_do_not_wake_the_scrum_master() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let sam = add_scrum_master(&fixture, crew, "sam");
    let free = task(&fixture, crew, json!({"title": "x"}));
    note(&fixture, &free);
    assert_eq!(peek(&fixture, (crew, sam)).len(), 1);
    let claim = Fixture::input(json!({"agentId": ann})).unwrap();
    fixture.write(claims::claim, (crew, free.id), claim).unwrap();
    assert!(take(&fixture, crew, sam).is_empty());
    assert_eq!(dropped(&fixture), 1);
}

#[test]
fn deleting_an_agent_deletes_its_wakes() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
    message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    let mut listener = fixture.store.signals().subscribe(ann.uuid());
    fixture.write(members::delete, (crew, ann), ()).unwrap();
    let left =
        fixture.store.read_now(fixture.org, |view| view.count(ListSource::<Wake>::TABLE, &(), 10));
    assert_eq!(left.unwrap(), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let heard = async {
        tokio::time::timeout(std::time::Duration::from_secs(10), listener.notified()).await
    };
    assert!(runtime.block_on(heard).is_ok(), "long polls for its wakes are notified");
    fixture.assert_sound();
}

#[test]
fn a_wake_behind_more_dropped_ones_than_one_scan_reads_is_delivered() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let mail = message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    take(&fixture, crew, ann);
    let woken = fixture.store.write_blocking(fixture.org, move |tx| {
        let agent = member::fetch_member(&tx.view(), crew, ann)?;
        for _ in 0..fetching::MAX_SCANNED + 10 {
            // Nobody has to read what is not there.
            let missing = Message { id: tx.new_id(), ..mail.clone() };
            wake(tx, &agent, &WakeCause::DirectMessage(&missing))?;
        }
        Ok(())
    });
    woken.unwrap();
    let mail = message(&fixture, crew, json!({"body": "x", "toAgentId": ann}));
    let mut listener = fixture.store.signals().subscribe(ann.uuid());
    assert!(take(&fixture, crew, ann).is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let heard = async {
        tokio::time::timeout(std::time::Duration::from_secs(10), listener.notified()).await
    };
    assert!(runtime.block_on(heard).is_ok(), "long polls check again");
    assert_eq!(take(&fixture, crew, ann)[0].message_id, Some(mail.id));
    assert_eq!(dropped(&fixture), fetching::MAX_SCANNED as u64 + 10);
}
