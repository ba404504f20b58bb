//! Many things that are asked about beside each other, each of which is passed on when it is done.

use super::*;
use crate::api::{Batch, Calls, PreparedBatch};
use crate::store::Lane;

/// Three things, of which nobody is asked.
struct Three {
    begun: usize,
    panics: bool,
}

impl Batch for Three {
    type Item = Note;
    type Answer = Note;
    fn next(&mut self) -> Option<usize> {
        self.begun += 1;
        (self.begun <= 3).then(|| self.begun - 1)
    }
    fn run(&mut self, _: &View, item: usize, _: &mut Calls) -> Result<Option<Note>> {
        assert!(!self.panics, "as a fault would");
        Ok(Some(Note { id: Id::NIL, text: item.to_string() }))
    }
    fn conclude(&self, is_late: bool) -> Result<Note> {
        Ok(Note { id: Id::NIL, text: format!("all, late: {is_late}") })
    }
    fn audited(&self) -> ResourceRef {
        ResourceRef::id(format!("{} begun", self.begun)).unwrap()
    }
}

fn prepare(_: &View, req: &Req<(), NewNote>) -> Result<PreparedBatch<Three>> {
    let batch = Three { begun: 0, panics: req.input.text == "panic" };
    Ok(PreparedBatch { batch, server: Lane::default(), time: Duration::from_secs(60) })
}

async fn fixture() -> Fixture {
    let mut fixture = Fixture::new().await;
    let route = Route::post("/three", MEMBER, "note.three", op::batch("note", prepare));
    fixture.routes.push(Arc::new(route));
    fixture
}

#[tokio::test]
async fn each_thing_is_passed_on_and_then_the_answer() {
    let fixture = fixture().await;
    let stream = |request: &mut Request| request.is_stream = true;
    let response = fixture.call("note.three", &[], json!({"text": "three"}), stream).await.unwrap();
    let Body::TextStream(mut stream) = response.body else { panic!("no stream") };
    let text = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap()["text"].clone();
    let mut things = Vec::new();
    let end = loop {
        match stream.next().await {
            Some(StreamEvent::Item("note", thing)) => things.push(text(&thing)),
            Some(StreamEvent::Done(answer)) => break text(&answer),
            other => panic!("{other:?}"),
        }
    };
    things.sort_by_key(Value::to_string);
    assert_eq!(
        (things, end),
        (vec![json!("0"), json!("1"), json!("2")], json!("all, late: false"))
    );
    assert!(stream.next().await.is_none());
    // To a client that asks for no stream, the answer alone.
    let whole = fixture.call("note.three", &[], json!({"text": "three"}), |_| ()).await.unwrap();
    assert_eq!(json_of(whole)["text"], "all, late: false");
}

#[tokio::test]
async fn a_fault_in_one_thing_ends_all_and_is_said() {
    let fixture = fixture().await;
    let failed = fixture.call("note.three", &[], json!({"text": "panic"}), |_| ()).await;
    assert_eq!(failed.err().unwrap().kind(), Kind::Internal);
    assert_eq!(fixture.executor.long_call_slots.figures().admitted, 0, "its slots are free");
}
