//! Requests whose calls are made one after another.

use std::sync::Mutex;

use super::*;
use crate::api::{Calls, Outcome};
use crate::base::Keys;
use crate::outside::{BodyLimit, Call, Limits, Method};
use crate::store::Signals;
use crate::store::engine::{
    Attempt, Engine, GivenBack, GroupCommit, Memory, Reader, StoreMeters, Terms, WriteBatch,
};

/// What was committed and is not reported, and up to how many that goes on; none are held for 0.
#[derive(Default)]
struct Held {
    wanted: usize,
    attempts: Vec<Box<dyn Attempt>>,
}

/// An engine that reports what it has committed only once as many are committed as are wanted.
struct Holding {
    engine: GroupCommit,
    held: Arc<Mutex<Held>>,
}

impl Engine for Holding {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.engine.snapshot()
    }
    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        let held = self.held.clone();
        self.engine.submit(Box::new(HeldAttempt { attempt, held }), terms)
    }
    fn close(&self) {
        self.engine.close();
    }
    fn meters(&self) -> Arc<StoreMeters> {
        self.engine.meters()
    }
}

struct HeldAttempt {
    attempt: Box<dyn Attempt>,
    held: Arc<Mutex<Held>>,
}

impl Attempt for HeldAttempt {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        self.attempt.run(reader)
    }
    fn complete(self: Box<Self>, end: Result<()>) {
        let HeldAttempt { attempt, held } = *self;
        let mut held = held.lock().unwrap();
        if end.is_err() || held.wanted == 0 {
            return attempt.complete(end);
        }
        held.attempts.push(attempt);
        if held.attempts.len() == held.wanted {
            held.attempts.drain(..).for_each(|attempt| attempt.complete(Ok(())));
        }
    }
    fn give_back(self: Box<Self>, why: GivenBack) {
        self.attempt.give_back(why);
    }
}

/// Makes a note once a call was made in its turn, whatever came of it.
fn fetch_in_turn(tx: &mut Tx, req: &Req<(), NewNote>, calls: &mut Calls) -> Result<Outcome<Note>> {
    let limits =
        Limits { total: Duration::from_secs(1), answer: BodyLimit::UpTo(1024), https_only: false };
    let url = "http://127.0.0.1:9/".into();
    let call = Call { method: Method::GET, url, headers: vec![], body: vec![], limits };
    if calls.heard(&call).is_none() {
        calls.take_turn([7; 16]);
        calls.send(call);
    }
    let note = Note { id: tx.new_id(), text: req.input.text.clone() };
    tx.insert(&note)?;
    Ok(Outcome::Done(note))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_has_its_turn_before_what_the_one_before_wrote_is_durable() {
    let (signals, held) = (Arc::<Signals>::default(), Arc::<Mutex<Held>>::default());
    let engine = GroupCommit::start(Memory::default(), signals.clone()).unwrap();
    let engine = Arc::new(Holding { engine, held: held.clone() });
    let keys = Keys::new([7; 32]);
    let store = Store::start_over(engine, signals, Clock::system(), keys, &[]).unwrap();
    let mut fixture = Fixture::over(store).await;
    let operation = op::write(op::calling(30, fetch_in_turn));
    let route = Route::post("/fetch-in-turn", MEMBER, "note.fetch_in_turn", operation);
    fixture.routes.push(Arc::new(route));
    held.lock().unwrap().wanted = 2;
    let fetch = |text: &str| fixture.call("note.fetch_in_turn", &[], json!({"text": text}), |_| ());
    let both = async { tokio::join!(fetch("a"), fetch("b")) };
    let (a, b) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(fixture.notes(), 2);
}
