//! Light and heavy attempts: their order, and that they never share a commit.

use super::super::super::optimistic::ReadSet;
use super::*;

/// Writes more than a light attempt may.
const HEAVY: (&str, Run) = ("heavy", |_| {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let key = format!("heavy {}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut writes = WriteBatch::default();
    writes.add("u", key.into(), WriteOp::Put(vec![0; Budget::LIGHT.written_bytes]));
    Ok(writes)
});

#[test]
fn light_attempts_are_committed_before_heavy_ones_and_apart() {
    let (group, log) = scripted(&[], &[]);
    let (heavy, light) = ((HEAVY.0, HEAVY.1, FULL), ("light", WRITE_A.1, LIGHT));
    let ends = submitted(&group, &log, &[heavy, heavy, light, light]);
    assert!(ends.iter().all(|end| matches!(end, AttemptOutcome::Completed(Ok(())))));
    let expected = ["commit of 1", "light answered", "light answered"];
    assert_eq!(log.lines_without_holds()[..3], expected);
    let expected = ["commit of 2", "heavy answered", "heavy answered"];
    assert_eq!(log.lines_without_holds()[3..], expected);
}

#[test]
fn attempts_that_may_write_much_and_do_not_are_committed_with_the_light_ones() {
    let (group, log) = scripted(&[], &[]);
    let runs = [("a", WRITE_A.1, FULL), (HEAVY.0, HEAVY.1, FULL), ("b", WRITE_B.1, LIGHT)];
    submitted(&group, &log, &runs);
    let expected = ["commit of 2", "a answered", "b answered", "commit of 1", "heavy answered"];
    assert_eq!(log.lines_without_holds(), expected);
}

#[test]
fn groups_of_light_and_of_heavy_attempts_alternate_while_both_wait() {
    let queue = Queue::new(Arc::default());
    let (answer, _answers) = channel();
    let prepared = |name, run: Run, terms: Terms| {
        let (log, answer) = (Log::default(), answer.clone());
        let attempt = Box::new(Try { number: 0, name, run, lane: Lane::default(), log, answer });
        let writes = run(&*Memory::default().snapshot().unwrap()).unwrap();
        let ran = Ran { writes, reads: ReadSet::default(), read_at: 0 };
        Prepared::new(attempt, Some(ran), terms, None)
    };
    let light = || queue.push(prepared("light", WRITE_A.1, LIGHT)).unwrap();
    let heavy = || queue.push(prepared("heavy", HEAVY.1, FULL)).unwrap();
    // How many light and heavy attempts the next group has.
    let group = || {
        let Next::Prepared(first) = queue.wait(Duration::ZERO) else { panic!("none waits") };
        let all: Vec<_> =
            std::iter::once(*first).chain(std::iter::from_fn(|| queue.pop())).collect();
        queue.end_group();
        let bytes = |prepared: &&Prepared| prepared.bytes > Budget::LIGHT.written_bytes;
        let heavy = all.iter().filter(bytes).count();
        (all.len() - heavy, heavy)
    };
    heavy();
    light();
    light();
    assert_eq!(group(), (2, 0));
    light();
    heavy();
    assert_eq!(group(), (0, 2), "it waited for a light group");
    heavy();
    assert_eq!(group(), (1, 0));
    assert_eq!(group(), (0, 1));
    light();
    assert_eq!(group(), (1, 0));
    assert!(matches!(queue.wait(Duration::ZERO), Next::TimedOut));
}
