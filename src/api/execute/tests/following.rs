//! Lists that are followed: pages, waiting for them to grow, and streams.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::api::{FollowFrom, FollowPoint, Followed};
use crate::store::Key as _;

/// The text of notes that nobody asks for.
const LEFT_OUT: &str = "left out";

/// Reads notes in the order of their ids, none that is not settled. Looks through as many as a page has.
pub(super) fn read(view: &View, req: &Req, point: &FollowPoint) -> Result<Followed<Note>> {
    let before_settled = || Id::new(Uuid::from_u128(point.settled.uuid().as_u128() - 1));
    let after: Id<Note> = match point.from {
        FollowFrom::Position(position) => Id::read(&mut position.as_slice()).unwrap(),
        FollowFrom::Event(id) => Id::parse(id),
        FollowFrom::Request if point.is_stream => before_settled(),
        FollowFrom::Request => Id::NIL,
    };
    let all: Vec<Note> = view.all(ListSource::TABLE, &())?;
    let (settled, rest): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(|note| note.id > after)
        .partition(|note| note.id.uuid() < point.settled.uuid());
    let looked_at: Vec<_> = settled.into_iter().take(req.page.limit).collect();
    let end = looked_at.last().map_or(after, |note| note.id);
    Ok(Followed {
        next: (looked_at.len() == req.page.limit).then(|| end.to_bytes()),
        items: looked_at.into_iter().filter(|note| note.text != LEFT_OUT).collect(),
        end: Some(end.to_bytes()),
        begin: Some(after.to_string()),
        topic: TOPIC,
        again_at: (!rest.is_empty()).then(|| view.now().plus_millis(5)),
    })
}

fn streamed(request: &mut Request) {
    request.is_stream = true;
}

async fn next(items: &mut ItemStream) -> Vec<Value> {
    let soon = Instant::now() + Duration::from_secs(60);
    let found = items.next(soon).await.unwrap().unwrap();
    assert!(found.iter().all(|item| item.id == item.json["id"]));
    found.into_iter().map(|item| item.json).collect()
}

async fn stream(fixture: &Fixture, adapt: impl FnOnce(&mut Request)) -> ItemStream {
    let response = fixture.call("note.follow", &[], json!({}), adapt).await.unwrap();
    let Body::Items("note", items) = response.body else { panic!("no stream") };
    *items
}

#[tokio::test]
async fn a_request_waits_until_the_list_grows() {
    let fixture = Arc::new(Fixture::new().await);
    let nothing = fixture.call("note.follow", &[], json!({}), |_| ()).await;
    assert_eq!(json_of(nothing.unwrap()), json!({"items": [], "nextCursor": null}));
    let waiting = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.call("note.follow", &[], json!({"wait": 60}), |_| ()).await }
    });
    let note = fixture.create("a").await;
    assert_eq!(json_of(waiting.await.unwrap().unwrap())["items"], json!([note]));
    assert_eq!(fixture.notes(), 1);
}

#[tokio::test]
async fn a_request_that_waits_goes_on_behind_what_it_leaves_out() {
    let fixture = Fixture::new().await;
    for _ in 0..3 {
        fixture.create(LEFT_OUT).await;
    }
    let note = fixture.create("a").await;
    let at_once = fixture.call("note.follow", &[], json!({"limit": 1}), |_| ()).await;
    let at_once = json_of(at_once.unwrap());
    assert!(at_once["items"] == json!([]) && at_once["nextCursor"].is_string(), "{at_once}");
    let waiting = json!({"limit": 1, "wait": 60});
    let found = fixture.call("note.follow", &[], waiting, |_| ()).await;
    assert_eq!(json_of(found.unwrap())["items"], json!([note]));
}

#[tokio::test]
async fn who_connects_again_before_an_event_came_misses_none() {
    let fixture = Fixture::new().await;
    fixture.create("old").await;
    let items = stream(&fixture, streamed).await;
    let begin = items.begin().unwrap().to_string();
    drop(items);
    let note = fixture.create("meanwhile").await;
    let again = |request: &mut Request| {
        request.is_stream = true;
        request.last_event_id = Some(begin);
    };
    let mut again = stream(&fixture, again).await;
    assert_eq!(next(&mut again).await, [note]);
}

#[tokio::test]
async fn a_stream_begins_now_or_after_the_last_event_and_goes_on() {
    let fixture = Fixture::new().await;
    let old = fixture.create("old").await;
    let mut items = stream(&fixture, streamed).await;
    assert!(items.next(Instant::now()).await.unwrap().unwrap().is_empty());
    let first = fixture.create("first").await;
    assert_eq!(next(&mut items).await, std::slice::from_ref(&first));
    let second = fixture.create("second").await;
    assert_eq!(next(&mut items).await, std::slice::from_ref(&second));
    let last = old["id"].as_str().unwrap().to_string();
    let again = |request: &mut Request| {
        request.is_stream = true;
        request.last_event_id = Some(last.clone());
    };
    let mut again = stream(&fixture, again).await;
    assert_eq!(next(&mut again).await, [first, second]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_has_a_larger_id_is_given_after_what_is_committed_later() {
    let fixture = Fixture::new().await;
    let mut items = stream(&fixture, streamed).await;
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (release, is_released) = std::sync::mpsc::channel::<()>();
    let (store, org) = (fixture.executor.store.clone(), fixture.org);
    let slow = tokio::spawn(async move {
        let mut is_first = true;
        let write = store.write(org, move |tx| {
            let note = Note { id: tx.new_id(), text: "slow".into() };
            if std::mem::take(&mut is_first) {
                begun.send(note.id).unwrap();
                let _ = is_released.recv();
            }
            tx.insert(&note)
        });
        write.await
    });
    let held = tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    let quick = fixture.create("quick").await;
    assert!(quick["id"].as_str().unwrap() > held.to_string().as_str());
    assert!(items.next(Instant::now()).await.unwrap().unwrap().is_empty());
    release.send(()).unwrap();
    slow.await.unwrap().unwrap();
    let mut both = next(&mut items).await;
    if both.len() == 1 {
        both.extend(next(&mut items).await); // What the store runs twice has a new id.
    }
    let texts: BTreeSet<_> = both.iter().map(|note| note["text"].as_str()).collect();
    assert_eq!(texts.len(), 2, "{both:?}");
}

/// The reads of the test below.
static READS: AtomicUsize = AtomicUsize::new(0);

fn counted(view: &View, req: &Req, point: &FollowPoint) -> Result<Followed<Note>> {
    READS.fetch_add(1, Ordering::Relaxed);
    read(view, req, point)
}

fn look_counted(view: &View, req: &Req) -> Result<Readiness> {
    READS.fetch_add(1, Ordering::Relaxed);
    look(view, req)
}

#[tokio::test]
async fn a_stream_reads_once_for_each_heartbeat_and_misses_nothing_between_them() {
    let mut fixture = Fixture::new().await;
    let operations = [op::take("note", look_counted, take), op::follow("note", counted)];
    for operation in operations {
        fixture.routes.insert(0, Arc::new(Route::get("/counted", MEMBER, "counted", operation)));
        let response = fixture.call("counted", &[], json!({}), streamed).await.unwrap();
        let Body::Items("note", mut items) = response.body else { panic!("no stream") };
        let mut reads = Vec::new();
        for _ in 0..3 {
            let before = READS.load(Ordering::Relaxed);
            let heartbeat = Instant::now() + Duration::from_millis(20);
            assert!(items.next(heartbeat).await.unwrap().unwrap().is_empty());
            reads.push(READS.load(Ordering::Relaxed) - before);
        }
        assert_eq!(reads[1..], [1, 1]);
        let note = fixture.create("between two of them").await;
        assert_eq!(next(&mut items).await, [note]);
    }
}
