//! Operations that are too large for one transaction.

use super::*;
use crate::api::{Calls, Outcome, Position};

/// Writes a note a part: first nothing, then one for each character of the text; an `!` fails.
fn spell(tx: &mut Tx, req: &Req<(), NewNote>, calls: &mut Calls) -> Result<Outcome<Note>> {
    let Some(done) = calls.position() else {
        return Ok(Outcome::Partial(Position { next: "0".into(), resource: None }));
    };
    let done: usize = done.parse().expect("its own position");
    let text = req.input.text.chars().nth(done).expect("there is one more").to_string();
    if text == "!" {
        return Err(Error::conflict("unspeakable", "it cannot be written"));
    }
    let note = Note { id: tx.new_id(), text };
    tx.insert(&note)?;
    if done + 1 == req.input.text.len() {
        return Ok(Outcome::Done(note));
    }
    let resource = ResourceRef::id(note.id);
    Ok(Outcome::Partial(Position { next: (done + 1).to_string(), resource }))
}

async fn fixture() -> Fixture {
    let mut fixture = Fixture::new().await;
    let route = Route::post("/spell", MEMBER, "note.spell", op::write(op::calling(1, spell)));
    fixture.routes.push(Arc::new(route));
    fixture
}

#[tokio::test]
async fn an_operation_in_parts_is_audited_and_answered_once() {
    let fixture = fixture().await;
    let keyed = |request: &mut Request| request.idempotency_key = Some(b"once".to_vec());
    let spell = || fixture.call("note.spell", &[], json!({"text": "abc"}), keyed);
    let first = json_of(spell().await.unwrap());
    assert_eq!((first["text"].as_str(), fixture.notes()), (Some("c"), 3));
    let again = spell().await.unwrap();
    assert!(again.is_replayed);
    assert_eq!((json_of(again), fixture.notes()), (first, 3));
    let audited = fixture.audited();
    assert_eq!(audited.len(), 1);
    assert_eq!((&*audited[0].0, audited[0].2), ("note.spell", AuditOutcome::Success));
}

#[tokio::test]
async fn what_was_done_before_a_part_that_fails_stays_and_is_audited() {
    let fixture = fixture().await;
    let failed = fixture.call("note.spell", &[], json!({"text": "ab!"}), |_| ()).await;
    assert_eq!(refusal(failed), (Kind::Conflict, "unspeakable"));
    assert_eq!((fixture.notes(), fixture.audited().len()), (2, 1));
    let failed = fixture.call("note.spell", &[], json!({"text": "!"}), |_| ()).await;
    assert_eq!(refusal(failed), (Kind::Conflict, "unspeakable"));
    assert_eq!((fixture.notes(), fixture.audited().len()), (2, 1));
}
