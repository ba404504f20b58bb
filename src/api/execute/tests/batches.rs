//! Many things that are asked about beside each other, each of which is passed on when it is done.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::api::{Batch, BatchEnd, Calls, PreparedBatch, Principal};
use crate::outside::{BodyLimit, Call, Limits, Method as CallMethod};
use crate::store::Lane;

/// Three things, of which nobody is asked.
struct Three {
    begun: AtomicUsize,
    how: String,
    until: Instant,
    was_busy: AtomicBool,
}

/// A call that fails.
fn to_nobody() -> Call {
    let limits =
        Limits { total: Duration::from_secs(1), answer: BodyLimit::UpTo(1), https_only: false };
    let url = "http://127.0.0.1:1/".into();
    Call { method: CallMethod::GET, url, headers: vec![], body: vec![], limits }
}

impl Three {
    /// Fails as it was told.
    fn fail(&self, item: usize) -> Result<()> {
        assert!(self.how != "panic", "as a fault would");
        match (self.how.as_str(), item) {
            ("one is refused", 1)
            | ("all are refused", _)
            | ("one is paid and the others are refused", 1..) => {
                Err(Error::busy("overloaded", "too much", 1))
            }
            ("one may not", 1) => Err(Error::new(Kind::Forbidden, "forbidden", "no more")),
            _ => Ok(()),
        }
    }
}

impl Batch for Three {
    type Item = Note;
    type Answer = Note;
    fn next(&self) -> Option<usize> {
        let next = self.begun.fetch_add(1, Ordering::Relaxed);
        (next < 3).then_some(next)
    }
    fn run(&self, _: &View, _: &Principal, item: usize, calls: &mut Calls) -> Result<Option<Note>> {
        self.fail(item)?;
        if self.how == "one is busy once it has called" && item == 1 {
            if calls.send(to_nobody()).is_none() {
                return Ok(None);
            }
            if !self.was_busy.swap(true, Ordering::Relaxed) {
                return Err(Error::busy("overloaded", "too much", 1));
            }
        }
        if self.how == "one is paid and the others are refused" {
            return match calls.send(to_nobody()) {
                None => Ok(None),
                Some(_) => Err(Error::busy("overloaded", "too much", 1)),
            };
        }
        while self.how == "slow" && item == 2 && Instant::now() < self.until {
            std::thread::yield_now();
        }
        Ok(Some(Note { id: Id::NIL, text: item.to_string() }))
    }
    fn conclude(&self, end: BatchEnd) -> Result<Note> {
        Ok(Note { id: Id::NIL, text: format!("{end:?}") })
    }
    fn audited(&self) -> ResourceRef {
        let begun = self.begun.load(Ordering::Relaxed);
        ResourceRef::id(format!("{begun} begun")).unwrap()
    }
}

fn prepare(_: &View, req: &Req<(), NewNote>) -> Result<PreparedBatch<Three>> {
    let how = req.input.text.clone();
    let time = match how.as_str() {
        "no time" => Duration::ZERO,
        "slow" => Duration::from_millis(200),
        "one is paid and the others are refused" => Duration::from_secs(2),
        _ => Duration::from_secs(60),
    };
    // Later than the time is up.
    let until = Instant::now() + Duration::from_millis(400);
    let was_busy = AtomicBool::default();
    let batch = Three { begun: AtomicUsize::new(0), how, until, was_busy };
    Ok(PreparedBatch { batch, server: Lane::default(), time })
}

async fn fixture() -> Fixture {
    let mut fixture = Fixture::new().await;
    let route = Route::post("/three", MEMBER, "note.three", op::batch("note", prepare));
    fixture.routes.push(Arc::new(route));
    fixture
}

/// What is passed on of three things, in order, and the answer or the code of the error.
async fn passed_on(fixture: &Fixture, how: &str) -> (Vec<String>, String) {
    let stream = |request: &mut Request| request.is_stream = true;
    let response = match fixture.call("note.three", &[], json!({"text": how}), stream).await {
        Ok(response) => response,
        Err(error) => return (vec![], error.code().to_string()),
    };
    let Body::TextStream(mut stream) = response.body else { panic!("no stream") };
    let text = |json: &[u8]| {
        let json: Value = serde_json::from_slice(json).unwrap();
        json["text"].as_str().unwrap().to_string()
    };
    let mut things = Vec::new();
    let end = loop {
        match stream.next().await {
            Some(StreamEvent::Item("note", thing)) => things.push(text(&thing)),
            Some(StreamEvent::Done(answer)) => break text(&answer),
            Some(StreamEvent::Failed(error)) => break error.code().to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(stream.next().await.is_none());
    things.sort();
    (things, end)
}

fn ended(things: &[&str], end: &str) -> (Vec<String>, String) {
    (things.iter().map(|thing| thing.to_string()).collect(), end.to_string())
}

#[tokio::test]
async fn each_thing_is_passed_on_and_then_the_answer() {
    let fixture = fixture().await;
    assert_eq!(passed_on(&fixture, "three").await, ended(&["0", "1", "2"], "Whole"));
    // To a client that asks for no stream, the answer alone.
    let whole = fixture.call("note.three", &[], json!({"text": "three"}), |_| ()).await.unwrap();
    assert_eq!(json_of(whole)["text"], "Whole");
}

#[tokio::test]
async fn what_was_answered_is_kept_if_the_server_has_too_much_to_do_for_one() {
    let fixture = fixture().await;
    assert_eq!(passed_on(&fixture, "one is refused").await, ended(&["0", "2"], "Refused"));
    let all = fixture.call("note.three", &[], json!({"text": "all are refused"}), |_| ()).await;
    assert_eq!(refusal(all), (Kind::Busy, "overloaded"), "there is nothing to keep");
}

#[tokio::test]
async fn what_was_called_for_is_kept_once_the_server_has_less_to_do() {
    let fixture = fixture().await;
    let ended_so = passed_on(&fixture, "one is busy once it has called").await;
    assert_eq!(ended_so, ended(&["0", "1", "2"], "Whole"));
}

#[tokio::test]
async fn what_was_paid_is_concluded_though_nothing_of_it_could_be_kept() {
    let fixture = fixture().await;
    let ended_so = passed_on(&fixture, "one is paid and the others are refused").await;
    assert_eq!(ended_so, ended(&[], "Refused"));
}

#[tokio::test]
async fn who_may_not_go_on_is_answered_with_the_error() {
    let fixture = fixture().await;
    assert_eq!(passed_on(&fixture, "one may not").await.1, "forbidden");
}

#[tokio::test]
async fn the_end_is_late_only_if_something_was_left() {
    let fixture = fixture().await;
    assert_eq!(passed_on(&fixture, "no time").await, ended(&[], "Late"));
    assert_eq!(passed_on(&fixture, "slow").await, ended(&["0", "1", "2"], "Whole"));
}

#[tokio::test]
async fn a_fault_in_one_thing_ends_all_and_is_said() {
    let fixture = fixture().await;
    let failed = fixture.call("note.three", &[], json!({"text": "panic"}), |_| ()).await;
    assert_eq!(failed.err().unwrap().kind(), Kind::Internal);
    assert_eq!(fixture.executor.long_call_slots.figures().admitted, 0, "its slots are free");
}
