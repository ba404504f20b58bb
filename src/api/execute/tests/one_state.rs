//! Over a store that is elsewhere a read runs in the state that identified its caller.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::base::Keys;
use crate::store::Signals;
use crate::store::engine::{
    Attempt, Budget, Engine, GroupCommit, Memory, ObservedReader, Reader, StoreMeters, Terms,
};

/// The states that were taken, those that are held, and the most that were held by a read that ran.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// An engine that is elsewhere, as far as others know.
struct Elsewhere(GroupCommit);

impl Engine for Elsewhere {
    fn snapshot(&self) -> Arc<dyn Reader> {
        let held = HeldState::new();
        let seen = move |_: &'static str, _: usize| {
            std::hint::black_box(&held);
        };
        Arc::new(ObservedReader::new(self.0.snapshot(), seen))
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        self.0.submit(attempt, terms)
    }
    fn close(&self) {
        self.0.close();
    }
    fn meters(&self) -> Arc<StoreMeters> {
        self.0.meters()
    }
}

struct HeldState;

impl HeldState {
    fn new() -> Self {
        TAKEN.fetch_add(1, Ordering::SeqCst);
        HELD.fetch_add(1, Ordering::SeqCst);
        HeldState
    }
}

impl Drop for HeldState {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::SeqCst);
    }
}

fn noted(view: &View, req: &Req) -> Result<Page<Note>> {
    MOST.fetch_max(HELD.load(Ordering::SeqCst), Ordering::SeqCst);
    list(view, req)
}

fn kept(tx: &mut Tx, req: &Req<(), NewNote>) -> Result<Note> {
    MOST.fetch_max(HELD.load(Ordering::SeqCst), Ordering::SeqCst);
    create(tx, req)
}

fn costly(view: &View, req: &Req) -> Result<Page<Note>> {
    let page = noted(view, req)?;
    (0..=Budget::LIGHT.reads).try_for_each(|_| view.get::<Note>(&Id::NIL).map(drop))?;
    Ok(page)
}

#[tokio::test]
async fn a_read_takes_one_state_and_holds_none_while_it_waits_for_something() {
    let signals = Arc::<Signals>::default();
    let engine = GroupCommit::start(Memory::default(), signals.clone()).unwrap();
    let (engine, keys) = (Arc::new(Elsewhere(engine)), Keys::new([7; 32]));
    let store = Store::start_over(engine, signals, Clock::system(), keys, &[]).unwrap();
    let mut fixture = Fixture::over(store).await;
    let routes = [
        Route::get("/notes", MEMBER, "note.list", op::list(noted)),
        Route::get("/notes/costly", MEMBER, "note.list_costly", op::list(costly)),
        Route::post("/notes/kept", MEMBER, "note.create_kept", op::write(kept)),
        Route::get("/notes/logged", MEMBER, "note.list_logged", op::list(noted)).reads_audit_log(),
    ];
    fixture.routes.extend(routes.into_iter().map(Arc::new));
    let note = fixture.create("a").await;
    let at = fixture.executor.store.read_point().await.unwrap();
    let newest = |_: &mut Request| ();
    let at_point = |request: &mut Request| request.at = Some(at.clone());
    // A state is held by the test itself.
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Request), usize, usize);
    let cases: [Case; 4] = [
        ("note.list", &newest, 1, 2),
        // Another one in its turn.
        ("note.list_costly", &newest, 2, 2),
        // The entries that were written before it are in it.
        ("note.list_logged", &newest, 2, 2),
        // The caller is identified in the newest one.
        ("note.list", &at_point, 1, 1),
    ];
    for (name, with, states, most) in cases {
        let before = TAKEN.load(Ordering::SeqCst);
        let read = fixture.call(name, &[], json!({}), with).await;
        assert_eq!(json_of(read.unwrap())["items"], json!([note]), "{name}");
        assert_eq!(TAKEN.load(Ordering::SeqCst) - before, states, "{name}");
        assert_eq!(HELD.load(Ordering::SeqCst), 1, "{name}");
        assert_eq!(MOST.swap(0, Ordering::SeqCst), most, "{name}");
    }
    // Nor once its arguments are refused, and no write takes it along.
    fixture.call("note.list", &[], json!({"limit": "none"}), |_| ()).await.err().unwrap();
    assert_eq!(HELD.load(Ordering::SeqCst), 1);
    fixture.call("note.create_kept", &[], json!({"text": "b"}), |_| ()).await.unwrap();
    assert_eq!(MOST.load(Ordering::SeqCst), 1);
}
